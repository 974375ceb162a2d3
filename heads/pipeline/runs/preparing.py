"""What a run needs before its heads are trained: features, instant estimates, baselines."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass

from heads.pipeline.backbone import Backbone
from heads.pipeline.extraction import Features, extract
from heads.pipeline.grid.play import Board
from heads.pipeline.grid.units import Unit
from heads.pipeline.measure.baselines import majority, tfidf, tfidf_strength
from heads.pipeline.measure.estimates import estimate
from heads.pipeline.measure.measures import measure
from heads.pipeline.measure.outcomes import BASELINES, MAJORITY, Outcome
from heads.pipeline.runs.asked import Asked
from heads.pipeline.runs.cell import Cell, keep, kept
from heads.pipeline.runs.folder import RunFolder
from heads.pipeline.token_states import TokenStates, keep_states
from heads.pipeline.tokens import token_findings
from heads.pipeline.training import Progress
from heads.settings import Limits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Done:
    """A cell is done and kept."""

    cell: Cell
    done: int
    planned: int


def featured(
    run: RunFolder, asked: Asked, cells: Sequence[Unit], backbone: Backbone
) -> Generator[Progress, None, Features]:
    """The base model's features for all cells, and what reading the texts let one know."""
    readings = {cell.reading: cell.order for cell in cells if cell.reading}
    corpus = asked.corpus
    for event in extract(list(readings.values()), corpus.texts, corpus.pairs, backbone):
        if isinstance(event, Features):
            if run.read("facts.json") is None:  # a resumed run finds the texts read already
                facts = {
                    "forward_seconds": event.seconds,
                    "notes": _token_notes(event, asked, backbone),
                }
                run.write("facts.json", facts)
            return event
        yield Progress(says=event.says, share=event.share * 0.4)
    raise AssertionError("reading ends in features")


def _token_notes(features: Features, asked: Asked, backbone: Backbone) -> list[str]:
    tokens, whole, unknown = (
        counts[features.index] for counts in (features.tokens, features.whole, features.unknown)
    )
    found = token_findings(tokens, whole, unknown, asked.corpus, backbone)
    return [one.says for one in found]


def stated(
    asked: Asked, cells: Sequence[Unit], features: Features, backbone: Backbone, limits: Limits
) -> Generator[Progress, None, TokenStates | None]:
    """The states of all tokens of the different texts, where a cell is learned from them."""
    orders = [cell.order for cell in cells if not cell.reading]
    if not orders:
        return None
    first: dict[int, int] = {}
    for row, text in enumerate(features.index.tolist()):
        first.setdefault(text, row)
    rows = [first[text] for text in range(len(first))]
    texts = [asked.corpus.texts[row] for row in rows]
    pairs = [asked.corpus.pairs[row] for row in rows] if asked.corpus.pairs else []
    return (yield from keep_states(orders, texts, pairs, backbone, limits))


def estimated(
    run: RunFolder, asked: Asked, cells: Sequence[Unit], board: Board
) -> Iterator[Progress]:
    """The instant estimates of every reading, on rows that are learned from."""
    facts = run.read("facts.json")
    if "estimates" in facts:
        return
    rows, found = board.splits.train[0], []
    for reading in dict.fromkeys(cell.reading for cell in cells if cell.reading):
        yield Progress(says=f"Estimating {reading} before any training", share=0.41)
        vectors = board.features.matrix(reading)[board.features.index[rows]]
        found.append(
            asdict(estimate(reading, vectors, board.task.targets[rows], seed=asked.contest.seed))
        )
    run.write("facts.json", facts | {"estimates": found})


def baselines(run: RunFolder, asked: Asked, board: Board) -> Iterator[Progress | Done]:
    """The majority class, and TF-IDF with logistic regression, on the same rows."""
    splits, planned = board.splits, len(asked.recipes) + len(BASELINES)
    balanced = asked.contest.class_weights
    for place, name in enumerate(BASELINES):
        number = len(asked.recipes) + place
        if kept(run, number):
            continue
        begun, strength, logits = time.perf_counter(), 0.0, []
        if name != MAJORITY:
            yield Progress(says="Training TF-IDF + logistic regression", share=0.42)
            search, development = splits.search.tolist(), splits.development.tolist()
            strength = tfidf_strength(asked.corpus, search, development, balanced=balanced)
        for train, test in zip(splits.train, splits.test, strict=True):
            if logits and splits.is_fixed:  # nothing is drawn at random
                logits.append(logits[0])
            elif name == MAJORITY:
                logits.append(majority(asked.corpus, train.tolist(), test.tolist()))
            else:
                rows = train.tolist(), test.tolist()
                logits.append(tfidf(asked.corpus, *rows, C=strength, balanced=balanced))
                yield Progress(says="Training TF-IDF + logistic regression", share=0.43)
        outcome = Outcome(name=name, rows=splits.test, logits=tuple(logits))
        cell = Cell(
            name=name,
            measures=measure(outcome, board.task),
            parameters=0,
            seconds=time.perf_counter() - begun,
            chosen={"C": strength} if strength else {},
        )
        keep(run, number, cell, outcome)
        yield Done(cell=cell, done=counted(run, asked), planned=planned)


def counted(run: RunFolder, asked: Asked) -> int:
    """How many cells are done."""
    numbers = range(len(asked.recipes) + len(BASELINES))
    return sum((run.path / f"cells/{number:03}.json").is_file() for number in numbers)
