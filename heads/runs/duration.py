"""How long a run will take, before it begins: from a few texts read and one product timed."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT, products
from heads.backbone.engine import InferenceEngine, relied_on
from heads.data.splits import Splits
from heads.errors import LimitError
from heads.features.extraction import Group, engine_of, grouped, unread
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.features import scored_rows
from heads.runs.spec import RunSpec
from heads.settings import current_limits
from heads.training.finetuning.base import TuningFitter
from heads.training.finetuning.cost import TuningCost, TuningPace, check_memory, fewer_rows, pace_of
from heads.training.fitters import adamw
from heads.training.fitters.batched import NEW_HEADS
from heads.training.fitters.logistic import NEIGHBOURS, STRENGTHS, LinearFitter
from heads.training.fitters.successive_halving import DECIDED
from heads.training.objective import Objective
from heads.training.task import TrainingTask
from heads.training.trial import Trial

ROUNDS = 100  # products that are timed
TEXTS = 128  # that are read to measure the pace
TIMES = 3  # that they are read, if that is quick:
ENOUGH = 1.0  # seconds, after which they are not read again
EFFICIENCY = 0.55  # of the pace of one large product, that training reaches
STEP = 3e-4  # seconds of a step of one copy, whatever the head
USUAL_STEPS, USUAL_EPOCHS = 1_000, 25  # after which most heads have converged
SEARCH_STEPS, FINAL_STEPS = 25, 30  # that a solver needs for a setting tried, and a final head
NARROW = 24  # outputs of a linear head: fewer take as long
BESIDES = 3.0, 1e-3  # seconds for baselines, curve and intervals: at least, and a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Seconds, roughly: within a factor of two on an idle machine.

    Attributes:
        reading: For the base model to read every different text that it has not read before.
        training: For all heads on all cores, and what is computed besides.
        has_race: Whether a race may save some of that; how much is not known before it.
        tuning: For all cells that learn the base model, if no training ends early.
        tuning_bytes: The most memory that one of their trainings takes, beside the base model that
            all share.
        heads: Of all this, the seconds of each head.
    """

    reading: float
    training: float
    has_race: bool = False
    tuning: float = 0.0
    tuning_bytes: int = 0
    heads: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.reading + self.training + self.tuning

    @property
    def says(self) -> str:
        """The same as a sentence."""
        less = ", less what the race saves" * self.has_race
        told = "nothing has to be read, and heads are trained at once"
        if self.reading:
            told = f"{_spoken(self.reading)} to read all texts once, then training"
        if self.tuning:
            room = f" and {memory(self.tuning_bytes)} of memory" * bool(self.tuning_bytes)
            less = f", {_spoken(self.tuning)} of it{room} for tuned base models at most{less}"
        return f"About {_spoken(self.seconds)}: {told}{less}."


def expected(
    asked: RunSpec,
    cells: Sequence[Trial],
    backbone: Backbone,
    stop: threading.Event | None = None,
) -> Expected:
    """Estimate a run on this machine; what is kept from before makes it shorter.

    Args:
        stop: Ends the timing of steps, once it is set.
    """
    corpus, config, splits = asked.corpus, asked.config, asked.splits
    threads = max(1, torch.get_num_threads())
    pace = _pace(backbone.width) * EFFICIENCY
    frozen = dict[str, float]()
    for cell in cells:
        if not cell.is_tuned:
            steps = 0.0 if isinstance(cell.fitter, LinearFitter) else _steps(splits)
            on_one_core = _work(cell, splits, len(corpus.classes)) / pace + STEP * steps
            frozen[cell.name] = on_one_core / threads
    least, each = BESIDES
    besides = least + each * len(corpus)
    costs = tuning_costs(asked, cells, stop=stop)
    names = [cell.name for cell in cells if isinstance(cell.fitter, TuningFitter)]
    rows = len(splits.train[0])
    tuned = {name: cost.seconds(rows) for name, cost in zip(names, costs, strict=True)}
    return Expected(
        reading=_reading(asked, cells, backbone),
        training=sum(frozen.values()) + besides,
        has_race=config.race,
        tuning=sum(tuned.values()),
        tuning_bytes=max((cost.pace.peak_bytes for cost in costs), default=0),
        heads=frozen | tuned,
    )


def tuning_costs(
    asked: RunSpec, cells: Sequence[Trial], seeds: int = 0, stop: threading.Event | None = None
) -> list[TuningCost]:
    """Return how long each cell takes that tunes the base model, for so many seeds (0: all).

    Cells that learn the same of it take about as long, whatever their heads: one of them is timed.
    """
    splits, corpus, found = asked.splits, asked.corpus, list[TuningCost]()
    task = TrainingTask(
        vectors=torch.empty(0, 0),
        index=torch.empty(0),
        targets=asked.task.targets,
        objective=Objective(problem=asked.task.problem, outputs=len(corpus.classes)),
        weights=torch.ones(len(corpus)),
        counts=torch.ones(len(corpus)),
        stop=stop or threading.Event(),
        products=products(asked.config.precision),
        config=asked.config,
        texts=corpus.texts,
        pairs=corpus.pairs,
    )
    paces: dict[tuple[str, ...], TuningPace] = {}
    for cell in cells:
        fitter, own = cell.fitter, cell.resolved
        if not isinstance(fitter, TuningFitter):
            continue
        # `pace_of` remembers by a key that holds all texts, so it is asked once for each way.
        if (way := (own.tune, own.pair, own.prompt, own.prefix)) not in paces:
            paces[way] = pace_of(fitter, task)
        found.append(
            TuningCost(
                fitter=fitter,
                task=task,
                pace=paces[way],
                seeds=seeds or len(splits),
                development=len(splits.development[0]) / len(splits.train[0]),
                scored=len(splits.test[0]),
            )
        )
    return found


def check_tuning(asked: RunSpec, cells: Sequence[Trial], seeds: int = 0) -> None:
    """Raise LimitError for tuning of so many seeds (0: all) that exceeds memory or time."""
    limits = current_limits()
    fitters = [cell.fitter for cell in cells if isinstance(cell.fitter, TuningFitter)]
    for fitter in fitters:
        check_memory(fitter)
    if not (fitters and limits.run_seconds):
        return
    costs, rows = tuning_costs(asked, cells, seeds), len(asked.splits.train[0])
    seconds, allowed = sum(cost.seconds(rows) for cost in costs), limits.run_seconds
    if seconds <= allowed:
        return
    names = "Tuning the base model" if len(costs) > 1 else f"Tuning for {fitters[0].resolved}"
    what = f"{names} would take about {_spoken(seconds)}, and this place allows {allowed} s."
    fewer = fewer_rows(lambda n: sum(cost.seconds(n) for cost in costs), rows, allowed)
    quickest = min(costs, key=lambda cost: cost.seconds(rows))
    if fewer:
        raise LimitError(what, f"With {fewer:,} rows to learn from it would fit.")
    if quickest.seconds(rows) <= allowed:
        raise LimitError(what, f"{quickest.fitter.resolved} by itself would fit.")
    raise LimitError(what, "Leave it frozen here, or run this app on your own machine.")


def _reading(asked: RunSpec, cells: Sequence[Trial], backbone: Backbone) -> float:
    """Seconds to read what is not kept from before, in each precision."""
    corpus, scored = asked.corpus, scored_rows(asked)
    if corpus.vectors is not None:
        return 0.0
    joint = list(zip(corpus.texts, corpus.pairs or [""] * len(corpus), strict=True))
    alone = [(text, "") for text in (*corpus.texts, *corpus.pairs)]
    fixed = [cell.resolved for cell in cells if cell.reading and not cell.resolved.pair]
    sides = [cell.resolved.side for cell in cells if cell.resolved.pair]
    states = [cell.resolved for cell in cells if cell.needs_states]
    above = [cell.resolved for cell in cells if cell.cut_layers]
    seconds, both = 0.0, [*scored, *(row + len(corpus) for row in scored)]
    for recipes, rows, exact in (
        (fixed, joint, scored),
        (sides, alone, both),
        (states, joint, scored),
    ):
        strides = [one.stride for one in recipes if one.stride is not None]
        own = replace(backbone, stride=max(strides)) if strides else backbone
        for group in grouped(rows, asked.config.precision, exact, own) if recipes else ():
            seconds += _seconds_of(group, recipes, own, is_kept=recipes is not states)
    for group in grouped(joint, EXACT, scored, backbone) if above else ():
        seconds += _seconds_of(group, above, backbone, is_kept=False)
    return seconds


def _seconds_of(
    group: Group, recipes: Sequence[ResolvedRecipe], backbone: Backbone, *, is_kept: bool
) -> float:
    """Seconds to read some texts, less those whose features are kept."""
    while True:
        engine = engine_of(group, backbone)
        paired = any(second for _, second in group.rows)
        with relied_on(engine):
            left = group.rows
            if is_kept:
                left = unread(recipes, left, paired, backbone, engine.way)
            return _timed(left, engine) if left else 0.0


def _timed(texts: Sequence[tuple[str, str]], engine: InferenceEngine) -> float:
    """Seconds for all texts, from those of some; the fastest time, as of a product."""
    some, layers = texts[:: max(1, len(texts) // TEXTS)][:TEXTS], (engine.backbone.layers,)
    pairs = [pair for _, pair in some]
    encoded = engine.backbone.encode([text for text, _ in some], pairs if any(pairs) else [])
    times = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        for _, states in engine.passes(encoded, layers):
            states.layer(-1)[0, 0, 0].item()  # a GPU is waited for
        times.append(time.perf_counter() - begun)
        if sum(times) > ENOUGH:
            break
    letters, every = (sum(len(a) + len(b) for a, b in rows) for rows in (some, texts))
    return min(times) * every / max(1, letters)


def _steps(splits: Splits) -> float:
    """How many steps all copies of a head take, as a rule: none can be known beforehand."""
    rows = len(splits.train[0])
    whole = min(USUAL_STEPS, USUAL_EPOCHS * rows / adamw.batch_of(rows))
    tried = len(NEW_HEADS) * min(DECIDED, whole) + max(0.0, 1.5 * whole - DECIDED)
    return len(splits) * (tried + whole)


def _work(cell: Trial, splits: Splits, classes: int) -> float:
    """Multiplications and additions of a cell's search and of all its seeds."""
    rows, seeds = len(splits.train[0]), len(splits)
    if isinstance(cell.fitter, LinearFitter):
        held = splits.selection(0)[1]
        search = len(held) * (int(held.max()) + 1)  # each setting once without each fold
        points = len(STRENGTHS) + len(NEIGHBOURS) + 1  # the last one is the best, not standardised
        # One more head a seed answers held-out rows.
        work = seeds * (points * SEARCH_STEPS * search + 2 * FINAL_STEPS * rows)
        width = cell.parameters / max(1, classes)
        return 4 * width * max(classes, NARROW) * work
    return 6 * cell.parameters * _steps(splits) * adamw.batch_of(rows)


def _pace(width: int) -> float:
    """Multiplications and additions a second, on one core."""
    one, other = torch.ones(256, width), torch.ones(width, width)
    product, times, threads = one @ other, [], torch.get_num_threads()
    torch.set_num_threads(1)  # as heads are learned; and one core is more often free than all
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        torch.mm(one, other, out=product)
        times.append(time.perf_counter() - begun)
    torch.set_num_threads(threads)
    # The best of them: what else runs now will not run all the time.
    return 2 * one.numel() * width / min(times)


def memory(size: int) -> str:
    """Memory as one says it, in two figures.

    >>> memory(478_000_000), memory(2_350_000_000)
    ('480 MB', '2.4 GB')
    """
    if size < 1e9:
        return f"{float(f'{size / 1e6:.2g}'):.0f} MB"
    return f"{size / 1e9:.1f} GB"


def _spoken(seconds: float) -> str:
    """A time as one says it.

    >>> _spoken(8.2), _spoken(80), _spoken(4000)
    ('8 s', '1.3 minutes', '1.1 hours')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
