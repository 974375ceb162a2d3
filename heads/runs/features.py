"""What a run needs before its heads are trained: features and instant estimates."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT, products
from heads.evaluation.transferability import estimate
from heads.events import Progress
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices, FeatureStore, given_features
from heads.features.token_states import TokenStates, check_states, different, keep_states
from heads.features.truncation import longer, token_findings
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.training.fitters.vector_heads import AdamWFitter
from heads.training.scheduler import TrainingData
from heads.training.trial import Trial
from heads.training.whitening import WIDEST

# How texts are read for some readings: the recipes, the texts, their second texts, the base model.
Extract = Callable[
    [Sequence[ResolvedRecipe], Sequence[str], Sequence[str], Backbone],
    Iterator[Progress | FeatureMatrices],
]
WORKSPACE = "unfinished"  # a folder of a run: trainings of tuned cells that are not done


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellDone:
    """A cell is trained and saved: `done` of `planned` heads are, or were eliminated in a race."""

    cell: Cell
    done: int
    planned: int


def scored_rows(asked: RunSpec) -> list[int]:
    """Return the rows that heads are scored on, encoded in 32 bits: the test set, all, or none."""
    if not asked.is_scored:
        return []
    given = [row for row, part in enumerate(asked.corpus.parts) if part == "test"]
    return given or list(range(len(asked.corpus)))


def run_features(
    run: RunFolder, asked: RunSpec, cells: Sequence[Trial], backbone: Backbone
) -> Generator[Progress, None, FeatureStore]:
    """The base model's features for all cells, and what reading the texts let one know.

    Pairs are read as one sequence, or each text by itself, or both, as the cells ask. What is
    scored is read in 32 bits, so that a head's score is that of the head as it is exported.
    """
    known = (run.read("facts.json") or {}).get("reading", {})  # a resumed run reads as it did
    precisions = [known.get(way, asked.config.precision) for way in ("joint", "alone")]
    read = yield from features(asked, cells, backbone, *in_chunks(asked, *precisions))
    facts = run.read("facts.json")
    if facts is None:  # a resumed run finds the texts read already
        run.write("facts.json", _facts(asked, read, cells, backbone))
    elif read.seconds and facts.get("reading", {}).get("engine") != read.way["engine"]:
        told = f"{facts['reading'].get('says', '')} After a break: {read.way['says']}"  # elsewhere
        own = {"engine": read.way["engine"], "says": told.strip()}
        run.write("facts.json", facts | {"reading": facts["reading"] | own})
    return read


def in_chunks(asked: RunSpec, joined: str, apart: str) -> tuple[Extract, Extract]:
    """Return how a run encodes single texts and pairs, and each text of a pair by itself.

    Args:
        joined: The precision of the former.
        apart: That of the latter.
    """
    scored = scored_rows(asked)
    both = [*scored, *(row + len(asked.corpus) for row in scored)]
    return (
        partial(extract, precision=joined, scored=scored),
        partial(extract, precision=apart, scored=both),
    )


def features(
    asked: RunSpec, cells: Sequence[Trial], backbone: Backbone, joined: Extract, apart: Extract
) -> Generator[Progress, None, FeatureStore]:
    """Encode all that cells need outside a run, by what `in_chunks` returns."""
    corpus = asked.corpus
    if corpus.vectors is not None:
        found = given_features([cell.resolved for cell in cells], corpus.vectors)
        return FeatureStore(joint=found, alone=None, siamese={})
    backbone.check_reads()
    own = [cell for cell in cells if cell.reading]
    siamese = {cell.reading: cell.resolved for cell in own if cell.resolved.pair}
    fixed = {cell.reading: cell.resolved for cell in own if not cell.resolved.pair}
    sides = {resolved.side.reading: resolved.side for resolved in siamese.values()}
    ways = bool(siamese) + any(cell.reading not in siamese for cell in cells)
    joint = alone = None
    if ways > bool(siamese):
        reading = joined(list(fixed.values()), corpus.texts, corpus.pairs, backbone)
        joint = yield from _read(reading, 0.0, 1 / ways)
    if siamese:
        reading = apart(list(sides.values()), (*corpus.texts, *corpus.pairs), (), backbone)
        alone = yield from _read(reading, 1 - 1 / ways, 1 / ways)
    return FeatureStore(joint=joint, alone=alone, siamese=siamese)


def _facts(
    asked: RunSpec, read: FeatureStore, cells: Sequence[Trial], backbone: Backbone
) -> dict[str, Any]:
    """What reading let one know, and in what heads are going to learn, as plain values."""
    counts = read.counts()
    findings = token_findings(*counts, asked.corpus, backbone, asked.resolved)
    both = {one.reads_windows for one in asked.resolved} == {True, False}
    return {
        "forward_seconds": read.seconds,
        "notes": [*(one.says for one in findings), *_too_wide(read, cells)],
        **({"longer": longer(*counts[:2]).tolist(), "tokens": backbone.tokens} if both else {}),
        "reading": read.way,
        "training": str(products(asked.config.precision)).removeprefix("torch."),
    }


def _too_wide(read: FeatureStore, cells: Sequence[Trial]) -> list[str]:
    """Says which readings are too wide for one of the settings that other heads are tried with."""
    stacked = [cell.reading for cell in cells if isinstance(cell.fitter, AdamWFitter)]
    wide = [one for one in dict.fromkeys(stacked) if read.vectors(one)[0].shape[1] > WIDEST]
    if not wide:
        return []
    told = f"{', '.join(wide)} {'is' if len(wide) == 1 else 'are'} wider than {WIDEST:,} numbers"
    return [f"{told}: dense layers on it were not tried along its principal axes, as others were."]


def _read(
    events: Iterator[Progress | FeatureMatrices], start: float, share: float
) -> Generator[Progress, None, FeatureMatrices]:
    """Passes the progress of a reading on; its features."""
    for event in events:
        if isinstance(event, FeatureMatrices):
            return event
        yield Progress(says=event.says, share=start + event.share * share)
    raise AssertionError("reading ends in features")


def run_token_states(
    run: RunFolder,
    asked: RunSpec,
    cells: Sequence[Trial],
    read: FeatureStore,
    backbone: Backbone,
) -> Generator[Progress, None, TokenStates | None]:
    """The states of all tokens of the different texts, where a cell is learned from them."""
    facts = run.read("facts.json")
    told = facts["reading"] = facts.get("reading", {})
    precision = told.get("states", asked.config.precision)
    states = yield from token_states(asked, cells, read, backbone, precision)
    if states and "states" not in told:
        own = {"engine": states.engine, "precision": states.precision, "says": states.says}
        for name, says in own.items():
            before = told.get(name, "")
            told[name] = before if says in before else f"{before} {says}".strip()
        told["states"] = states.precision
        run.write("facts.json", facts)
    return states


def token_states(
    asked: RunSpec,
    cells: Sequence[Trial],
    read: FeatureStore,
    backbone: Backbone,
    precision: str,
) -> Generator[Progress, None, TokenStates | None]:
    """The same outside a run, read in that precision."""
    recipes = [cell.resolved for cell in cells if cell.needs_states]
    if not recipes:
        return None
    first: dict[int, int] = {}
    for row, text in enumerate(read.vectors("")[1].tolist()):
        first.setdefault(text, row)
    rows = [first[text] for text in range(len(first))]
    texts = [asked.corpus.texts[row] for row in rows]
    pairs = [asked.corpus.pairs[row] for row in rows] if asked.corpus.pairs else []
    scored = read.vectors("")[1][scored_rows(asked)].unique().tolist()
    return (yield from keep_states(recipes, texts, pairs, backbone, precision, scored))


def cut_states(
    asked: RunSpec, cells: Sequence[Trial], backbone: Backbone
) -> Generator[Progress, None, TokenStates | None]:
    """The states from which the last layers are learned: of all texts, once, in 32 bits."""
    layers = tuple(sorted({layer for cell in cells for layer in cell.cut_layers}))
    if not layers:
        return None
    recipes = [cell.resolved for cell in cells if cell.cut_layers]
    texts, pairs, _ = different(asked.corpus.texts, asked.corpus.pairs)
    every = range(len(texts))
    return (yield from keep_states(recipes, texts, pairs, backbone, EXACT, every, layers))


def check_room(asked: RunSpec, cells: Sequence[Trial], backbone: Backbone) -> None:
    """Raise LimitError if token states would not fit, before anything is read."""
    learned = [cell.resolved for cell in cells if cell.needs_states]
    check_states(learned, asked.corpus, backbone, scored_rows(asked))
    layers = tuple(sorted({layer for cell in cells for layer in cell.cut_layers}))
    above = [cell.resolved for cell in cells if cell.cut_layers]
    check_states(above, asked.corpus, backbone, range(len(asked.corpus)), layers)


def training_data_of(
    run: RunFolder,
    asked: RunSpec,
    read: FeatureStore,
    states: TokenStates | None,
    cut: TokenStates | None = None,
) -> TrainingData:
    """What the heads of a run are learned on, in the precision that was noted when it was read."""
    return TrainingData(
        read=read,
        task=asked.task,
        splits=asked.splits,
        config=asked.config,
        states=states,
        products=products((run.read("facts.json") or {}).get("training", "float32")),
        texts=asked.corpus.texts,
        pairs=asked.corpus.pairs,
        cut_states=cut,
        workspace=run.path / WORKSPACE,
    )


def estimated(
    run: RunFolder, asked: RunSpec, cells: Sequence[Trial], training_data: TrainingData
) -> Iterator[Progress]:
    """The instant estimates of every reading, on rows that are learned from."""
    facts = run.read("facts.json")
    if "estimates" in facts:
        return
    rows, found = training_data.splits.train[0], []
    for reading in dict.fromkeys(cell.reading for cell in cells if cell.reading):
        yield Progress(says=f"Scoring {reading} without training (LogME, H-score)", share=0.41)
        matrix, index = training_data.read.vectors(reading)
        vectors = matrix[index[rows]]
        targets, problem = training_data.task.targets[rows], training_data.task.problem
        groups, seed = training_data.task.groups[rows], asked.config.seed
        one = estimate(reading, vectors, targets, problem=problem, seed=seed, groups=groups)
        found.append(asdict(one))
    run.write("facts.json", facts | {"estimates": found})
