"""How long a run will take, before it begins: from a few texts read and one product timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heads.pipeline.backbone import Backbone
from heads.pipeline.corpus import Corpus
from heads.pipeline.grid import descent
from heads.pipeline.grid.learn_convex import (
    FINAL_STEPS,
    NEIGHBOURS,
    SEARCH_STEPS,
    STRENGTHS,
    Convex,
)
from heads.pipeline.grid.learn_descent import TRIED
from heads.pipeline.grid.splits import MOST_SEARCH
from heads.pipeline.grid.units import Unit
from heads.pipeline.reading import Engine, untried
from heads.settings import Contest

ROUNDS = 30  # products that are timed
TEXTS = 128  # that are read to measure the pace
EFFICIENCY = 0.4  # of the pace of one large product, that training reaches
FINAL_SHARE = 0.3  # of the steps that a solver may take, that it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Seconds, roughly: within a factor of two on an idle machine.

    Attributes:
        reading: For the base model to read every different text once.
        training: For all heads on all cores.
    """

    reading: float
    training: float

    @property
    def says(self) -> str:
        """The same as a sentence."""
        total = _spoken(self.reading + self.training)
        return f"About {total}: {_spoken(self.reading)} to read all texts once, then training."


def expected(
    corpus: Corpus, cells: Sequence[Unit], contest: Contest, backbone: Backbone
) -> Expected:
    """Estimates a run on this machine; what is kept from before makes it shorter."""
    rows = len(corpus)
    if contest.per_class:
        rows = min(rows, contest.per_class * len(corpus.classes))
    work = sum(_work(cell, rows, len(corpus.classes), contest) for cell in cells)
    pace = _pace(backbone.width) * EFFICIENCY * max(1, torch.get_num_threads())
    siamese = [bool(cell.order.pair) for cell in cells]
    engine = untried(backbone, contest.precision)
    reading = 0.0 if all(siamese) else _reading(corpus.texts, corpus.pairs, engine)
    if any(siamese):
        reading += _reading((*corpus.texts, *corpus.pairs), (), engine)
    return Expected(reading=reading, training=work / pace)


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


def _work(cell: Unit, rows: int, classes: int, contest: Contest) -> float:
    """Multiplications and additions of a cell's search and of all its seeds."""
    search = min(rows, MOST_SEARCH)
    if isinstance(cell.learner, Convex):
        tried = (2 * len(STRENGTHS) + len(NEIGHBOURS)) * SEARCH_STEPS * search
        return (
            4 * cell.parameters * (tried + (contest.seeds + 1) * FINAL_STEPS * FINAL_SHARE * rows)
        )
    epochs = descent.plan(rows).epochs
    return 6 * cell.parameters * epochs * (len(TRIED) * search + (contest.seeds + 1) * rows)


def _pace(width: int) -> float:
    """Multiplications and additions a second, on one core."""
    one, other = torch.ones(256, width), torch.ones(width, width)
    product, times = one @ other, []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        torch.mm(one, other, out=product)
        times.append(time.perf_counter() - begun)
    # The best of them: what else runs now will not run all the time.
    return 2 * one.numel() * width / (min(times) * max(1, torch.get_num_threads()))


def _spoken(seconds: float) -> str:
    """A time as one says it.

    >>> _spoken(8.2), _spoken(80), _spoken(4000)
    ('8 s', '1.3 minutes', '1.1 hours')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
