"""What tuning takes, before it begins: a few steps on some of the rows, and what they come to."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch

from heads.backbone.device import EXACT, for_training
from heads.errors import LimitError
from heads.events import result
from heads.features.token_states import different, keep_states
from heads.rng import IsolatedRng
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.checkpoints import named
from heads.training.finetuning.learning import BATCH, TuningRun
from heads.training.finetuning.memory import KEPT
from heads.training.finetuning.module import Texts
from heads.training.task import TrainingTask

SAMPLE = 2 * BATCH  # rows of every length, on which steps are timed
TIMES = 2  # that each step is timed, the faster counts; if that is quick:
ENOUGH = 3.0  # seconds, after which none is timed again
NUMBER = 4  # bytes of a number in 32 bits
SPARE = 0.9  # of the memory that is free


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPace:
    """How fast a base model is tuned here.

    Attributes:
        step: Seconds that a text takes in a step.
        answer: Seconds that it takes to be answered.
        peak_bytes: The most memory that these steps held, as `TrainingMemory` counts it.
    """

    step: float
    answer: float
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuningCost:
    """How long all trainings of a cell take, if none is ended early.

    Attributes:
        development: The share of the rows to learn from on which a seed chooses its settings.
        scored: How many rows each seed answers in the end.
    """

    fitter: TuningFitter
    task: TrainingTask
    pace: TuningPace
    seeds: int
    development: float
    scored: int

    def seconds(self, rows: int) -> float:
        """With so many rows to learn from, development rows included."""
        held, step = round(self.development * rows), self.pace.step * self.fitter.texts_a_row
        tried = self.fitter.table(self.task, rows - held)
        one = step * (rows - held) + self.pace.answer * held
        search = sum(settings.epochs * one for settings in tried)
        fit = tried[0].epochs * step * rows + self.pace.answer * self.scored
        return self.seeds * (search + fit)


MOST_KEPT = 64  # paces that are remembered
_paces: OrderedDict[str, TuningPace] = OrderedDict()
_timing = threading.Lock()  # steps that are timed at once slow each other down


def pace_of(fitter: TuningFitter, task: TrainingTask) -> TuningPace:
    """How fast a few steps on rows of every length are, timed once in a process.

    Fitters that learn the same of a base model share a pace, whatever their heads.

    Args:
        task: The rows; `vectors` and `index` are not looked at.
    """
    resolved = fitter.resolved
    written = fitter.backbone.for_recipe(resolved).written
    way = (resolved.tune, resolved.pair, written, fitter.backbone.revision)
    how = (task.config.gradient_checkpointing, task.products, torch.get_num_threads())
    key = named(*way, *how, task.texts, task.pairs)
    with _timing:
        if key not in _paces:
            _paces[key] = _timed_pace(fitter, task)
        _paces.move_to_end(key)
        while len(_paces) > MOST_KEPT:
            _paces.popitem(last=False)
        return _paces[key]


def _timed_pace(fitter: TuningFitter, task: TrainingTask) -> TuningPace:
    texts = Texts.of(task, fitter.resolved, fitter.backbone)
    lengths = texts.lengths(torch.arange(len(task.targets)))
    order = lengths.argsort()
    rows = order[torch.linspace(0, len(order) - 1, min(SAMPLE, len(order))).long()]
    own = _only(task, rows.tolist(), fitter)
    texts = Texts.of(own, fitter.resolved, fitter.backbone)
    device, rng = for_training(), IsolatedRng(0, for_training())
    module = fitter.new(own, texts, rng)
    settings = replace(fitter.table(own, len(rows))[0], epochs=1)
    run = TuningRun(module, texts, own, torch.arange(len(rows)), settings, rng, 0)
    # As in training, rows of like length together: that is how little padding there is.
    parts = torch.arange(len(rows)).split(BATCH)
    times = list[list[float]]()
    while len(times) < TIMES and sum(map(sum, times)) < ENOUGH:
        times.append([_timed(run.step, part, device) for part in parts])
    step = sum(map(min, zip(*times, strict=True))) / len(rows)
    answer = _timed(module.answers, texts, torch.arange(len(rows))) / len(rows)
    return TuningPace(step=step, answer=answer, peak_bytes=run.memory.peak)


def _only(task: TrainingTask, rows: Sequence[int], fitter: TuningFitter) -> TrainingTask:
    """Some rows by themselves, with what is kept of their states, where there is a cut."""
    texts = [task.texts[row] for row in rows]
    pairs = [task.pairs[row] for row in rows] if task.pairs else []
    kept = None
    if fitter.plan.reads:
        first, second, _ = different(texts, pairs)
        every = range(len(first))
        base, layers = fitter.backbone, fitter.plan.reads
        kept = result(keep_states([fitter.resolved], first, second, base, EXACT, every, layers))
    some = torch.tensor(rows)
    chosen = {name: getattr(task, name)[some] for name in ("targets", "weights", "counts")}
    return replace(task, texts=texts, pairs=pairs, cut_states=kept, workspace=None, **chosen)


def _timed(work: Callable[..., object], *given: Any) -> float:
    begun = time.perf_counter()
    work(*given)
    return time.perf_counter() - begun


def check_memory(fitter: TuningFitter) -> None:
    """Raise LimitError if the numbers of a base model alone, tuned so, do not fit into memory."""
    whole = sum(own.numel() for own in fitter.backbone.model.parameters())
    needed = NUMBER * (whole + KEPT * fitter.plan.parameters)
    free = _free(for_training())
    if needed <= SPARE * free:
        return
    less = "tune=last1 or tune=lora" if needed > 2 * NUMBER * whole else "a smaller base model"
    what = f"{fitter.resolved.recipe} needs {needed / 1e9:.1f} GB for {fitter.backbone.id} alone, "
    raise LimitError(what + f"and {free / 1e9:.1f} GB are free here.", f"Take {less}.")


def _free(device: torch.device) -> int:
    """Bytes of memory that are free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    here = psutil.virtual_memory().available
    return min(here, torch.mps.recommended_max_memory()) if device.type == "mps" else here


def fewer_rows(seconds: Callable[[int], float], rows: int, allowed: float) -> int:
    """The most rows, of some round numbers below these, that take no longer; 0 if none do.

    >>> fewer_rows(lambda rows: rows / 10, 900, 30)
    300
    """
    steps = (5_000, 2_000, 1_000, 500, 300, 200, 100, 50)
    return next((n for n in steps if n < rows and seconds(n) <= allowed), 0)
