"""How long a run will take, before it begins: from a few texts read and one product timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE
from heads.pipeline.engine import Engine, ways
from heads.pipeline.extraction import unread
from heads.pipeline.grid import descent
from heads.pipeline.grid.learn_convex import NEIGHBOURS, STRENGTHS, Convex
from heads.pipeline.grid.learn_descent import TRIED
from heads.pipeline.grid.search import DECIDED
from heads.pipeline.grid.splits import Splits
from heads.pipeline.grid.units import Unit
from heads.pipeline.reading import relied_on, to_try, tried
from heads.pipeline.runs.asked import Asked

ROUNDS = 100  # products that are timed
TEXTS = 128  # that are read to measure the pace
TIMES = 3  # that they are read
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
    """

    reading: float
    training: float
    has_race: bool = False

    @property
    def says(self) -> str:
        """The same as a sentence."""
        total, less = _spoken(self.reading + self.training), ", less what the race saves"
        told = "an earlier run has read all texts, and heads are trained at once"
        if self.reading:
            told = f"{_spoken(self.reading)} to read all texts once, then training"
        return f"About {total}: {told}{less * self.has_race}."


def expected(asked: Asked, cells: Sequence[Unit], backbone: Backbone) -> Expected:
    """Estimates a run on this machine; what is kept from before makes it shorter."""
    corpus, contest, splits = asked.corpus, asked.contest, asked.splits
    threads = max(1, torch.get_num_threads())
    pace = _pace(backbone.width) * EFFICIENCY
    seconds = sum(_seconds(cell, splits, len(corpus.classes), pace) for cell in cells) / threads
    least, each = BESIDES
    besides = least + each * len(corpus)
    return Expected(
        reading=_reading(asked, cells, backbone),
        training=seconds + besides,
        has_race=contest.race,
    )


def _reading(asked: Asked, cells: Sequence[Unit], backbone: Backbone) -> float:
    """Seconds to read what is not kept from before."""
    while True:
        engine = _engine(asked, backbone)
        with relied_on(engine):
            left = _unread(asked, cells, engine)
            return _timed(left, engine) if left else 0.0


def _engine(asked: Asked, backbone: Backbone) -> Engine:
    """What is going to read; a GPU is tried first, for it may not do."""
    corpus, precision = asked.corpus, asked.contest.precision
    way = ways(backbone, precision)[0]
    if way.device == HERE:
        return Engine(backbone=backbone, way=way)
    rows = to_try(list(map(len, corpus.texts)))
    pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
    return tried(backbone, precision, backbone.encode([corpus.texts[row] for row in rows], pairs))


def _unread(asked: Asked, cells: Sequence[Unit], engine: Engine) -> list[tuple[str, str]]:
    """The texts that are going to be read, each with its second or ""; by each way in."""
    texts, pairs = asked.corpus.texts, asked.corpus.pairs
    fixed = [cell.order for cell in cells if cell.reading and not cell.order.pair]
    sides = [cell.order.side for cell in cells if cell.order.pair]
    left = list[tuple[str, str]]()
    if fixed:
        left += unread(fixed, texts, pairs, engine.backbone, engine.way)
    if sides:
        left += unread(sides, (*texts, *pairs), (), engine.backbone, engine.way)
    if not all(cell.reading for cell in cells):  # the states of their tokens are wanted
        left += dict.fromkeys(zip(texts, pairs or [""] * len(texts), strict=True))
    return left


def _timed(texts: Sequence[tuple[str, str]], engine: Engine) -> float:
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
    letters, every = (sum(len(a) + len(b) for a, b in rows) for rows in (some, texts))
    return min(times) * every / max(1, letters)


def _seconds(cell: Unit, splits: Splits, classes: int, pace: float) -> float:
    """How long one core takes for a cell's search and all its seeds."""
    steps = 0.0 if isinstance(cell.learner, Convex) else _steps(splits)
    return _work(cell, splits, classes) / pace + STEP * steps


def _steps(splits: Splits) -> float:
    """How many steps all copies of a head take, as a rule: none can be known beforehand."""
    rows = len(splits.train[0])
    whole = min(USUAL_STEPS, USUAL_EPOCHS * rows / descent.batch_of(rows))
    tried = len(TRIED) * min(DECIDED, whole) + max(0.0, 1.5 * whole - DECIDED)
    return len(splits) * (tried + whole)


def _work(cell: Unit, splits: Splits, classes: int) -> float:
    """Multiplications and additions of a cell's search and of all its seeds."""
    rows, seeds = len(splits.train[0]), len(splits)
    if isinstance(cell.learner, Convex):
        search = len(splits.search[0])
        points = len(STRENGTHS) + len(NEIGHBOURS) + 1  # the last one is the best, not standardised
        # One more head a seed answers held-out rows.
        work = seeds * (points * SEARCH_STEPS * search + 2 * FINAL_STEPS * rows)
        width = cell.parameters / max(1, classes)
        return 4 * width * max(classes, NARROW) * work
    return 6 * cell.parameters * _steps(splits) * descent.batch_of(rows)


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


def _spoken(seconds: float) -> str:
    """A time as one says it.

    >>> _spoken(8.2), _spoken(80), _spoken(4000)
    ('8 s', '1.3 minutes', '1.1 hours')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
