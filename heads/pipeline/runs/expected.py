"""How long a run will take, before it begins: from a few texts read and one product timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heads.pipeline.backbone import Backbone
from heads.pipeline.grid import descent
from heads.pipeline.grid.learn_convex import NEIGHBOURS, SEARCH_STEPS, STRENGTHS, Convex
from heads.pipeline.grid.learn_descent import TRIED
from heads.pipeline.grid.splits import Splits
from heads.pipeline.grid.units import Unit
from heads.pipeline.reading import Engine, untried
from heads.pipeline.runs.asked import Asked

ROUNDS = 100  # products that are timed
TEXTS = 128  # that are read to measure the pace
EFFICIENCY = 0.55  # of the pace of one large product, that training reaches
FINAL_STEPS = 30  # that a solver needs for a final head
NARROW = 24  # outputs of a linear head: fewer take as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Seconds, roughly: within a factor of two on an idle machine.

    Attributes:
        reading: For the base model to read every different text once.
        training: For all heads on all cores.
        has_race: Whether a race will save some of that; how much is not known before it.
    """

    reading: float
    training: float
    has_race: bool = False

    @property
    def says(self) -> str:
        """The same as a sentence."""
        total, reading = _spoken(self.reading + self.training), _spoken(self.reading)
        if self.has_race:
            told = f"{reading} to read all texts once, then training, less what the race saves"
            return f"At most about {total}: {told}."
        return f"About {total}: {reading} to read all texts once, then training."


def expected(asked: Asked, cells: Sequence[Unit], backbone: Backbone) -> Expected:
    """Estimates a run on this machine; what is kept from before makes it shorter."""
    corpus, contest, splits = asked.corpus, asked.contest, asked.splits
    work = sum(_work(cell, splits, len(corpus.classes)) for cell in cells)
    pace = _pace(backbone.width) * EFFICIENCY * max(1, torch.get_num_threads())
    siamese = [bool(cell.order.pair) for cell in cells]
    engine = untried(backbone, contest.precision)
    reading = 0.0 if all(siamese) else _reading(corpus.texts, corpus.pairs, engine)
    if any(siamese):
        reading += _reading((*corpus.texts, *corpus.pairs), (), engine)
    return Expected(reading=reading, training=work / pace, has_race=contest.race)


def _reading(texts: Sequence[str], pairs: Sequence[str], engine: Engine) -> float:
    """Seconds for all different texts, from those of some."""
    backbone = engine.backbone
    unique = list(dict.fromkeys(zip(texts, pairs or [""] * len(texts), strict=True)))
    some = unique[:: max(1, len(unique) // TEXTS)][:TEXTS]
    encoded = backbone.encode([a for a, _ in some], [b for _, b in some] if pairs else [])
    layers = (backbone.layers,)
    for _ in engine.passes(encoded[:4], layers):
        pass  # what is slow only once
    begun = time.perf_counter()
    for _ in engine.passes(encoded, layers):
        pass
    letters = sum(len(a) + len(b) for a, b in some)
    every = sum(len(a) + len(b) for a, b in unique)
    return (time.perf_counter() - begun) * every / max(1, letters)


def _work(cell: Unit, splits: Splits, classes: int) -> float:
    """Multiplications and additions of a cell's search and of all its seeds."""
    search, rows, seeds = len(splits.search), len(splits.train[0]), len(splits.train)
    if isinstance(cell.learner, Convex):
        points = len(STRENGTHS) + len(NEIGHBOURS) + 1  # the last one is the best, not standardised
        # Seeds that learn from the same rows are solved once; one more head answers held-out rows.
        final = FINAL_STEPS * (1 + (1 if splits.is_fixed else seeds)) * rows
        width = cell.parameters / max(1, classes)
        return 4 * width * max(classes, NARROW) * (points * SEARCH_STEPS * search + final)
    tried = len(TRIED) * descent.plan(search).epochs * search
    return 6 * cell.parameters * (tried + (seeds + 1) * descent.plan(rows).epochs * rows)


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
