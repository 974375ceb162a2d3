"""Where in the base model a task lives: one pooling and head at several layers of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heads.evaluation.metrics import SCORES
from heads.evaluation.significance import Difference, compare
from heads.evaluation.transferability import MEASURES, Estimate
from heads.parts.resolve import resolve
from heads.pipeline.runs import asked as question
from heads.pipeline.runs.cell import Cell, said
from heads.pipeline.runs.leaderboard import Leaderboard

LAST = "last"
FEWEST = 3  # layers that make a course
TOP = 10_000  # the last layer's number is the base model's to know; it stands behind all others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layered:
    """The same pooling and head at several layers of the base model.

    Attributes:
        recipe: What they share; by itself it reads the last layer.
        layers: Which ones, from the embeddings ("0") up; "last" stands for the last.
        cells: The cell of each.
        estimates: What could be told of each before training; None where nothing was.
        says: Where the best layer is and whether it is told apart from the last, in sentences.
    """

    recipe: str
    layers: tuple[str, ...]
    cells: tuple[Cell, ...]
    estimates: tuple[Estimate | None, ...]
    says: str


def layered(board: Leaderboard) -> tuple[Layered, ...]:
    """Every pooling and head that a run has at three layers or more.

    Raises:
        DataError: The run is broken.
    """
    groups: dict[str, dict[int, Cell]] = {}
    for cell in board.cells:
        if cell.is_baseline or (order := resolve(cell.name)).layers:
            continue
        shared = str(replace(order.recipe, layers=""))
        groups.setdefault(shared, {})[order.layer if order.layer >= 0 else TOP] = cell
    return tuple(
        _course(board, name, dict(sorted(found.items())))
        for name, found in groups.items()
        if len(found) >= FEWEST
    )


def _course(board: Leaderboard, recipe: str, found: dict[int, Cell]) -> Layered:
    told, cells = {one.name: one for one in board.estimates}, tuple(found.values())
    layers = tuple(LAST if number == TOP else str(number) for number in found)
    estimates = tuple(told.get(resolve(cell.name).reading) for cell in cells)
    best = max(range(len(cells)), key=lambda place: cells[place].measures.score)
    sentences = [_best(board, layers, cells, best), _foretold(layers, estimates)]
    return Layered(
        recipe=recipe,
        layers=layers,
        cells=cells,
        estimates=estimates,
        says=" ".join(filter(None, sentences)),
    )


def _name(layer: str) -> str:
    if layer == LAST:
        return "the last layer"
    return f"layer {layer}" if int(layer) else "the embeddings"


def _best(board: Leaderboard, layers: Sequence[str], cells: Sequence[Cell], best: int) -> str:
    score = SCORES[board.metric].told(cells[best].measures.score)
    first = f"The best score, {score}, is that of {_name(layers[best])}."
    if layers[-1] != LAST or best == len(layers) - 1:
        return first
    found = _difference(board, cells, best)
    surely = "which is more than chance" if found.differs else "which may be chance"
    by = SCORES[board.metric].gap(abs(found.difference))
    return f"{first} The last layer is {by} below it, {surely}."


def _difference(board: Leaderboard, cells: Sequence[Cell], best: int) -> Difference:
    """The best layer against the last, as the leaderboard has it, or else among these layers."""
    first, last = cells[best], cells[-1]
    if last.name == board.reference and first.to_reference:
        return first.to_reference
    if first.name == board.best and last.to_best:
        return last.to_best
    asked = question.load(board.folder)
    answers = [
        said(board.folder, asked.names.index(cell.name), cell.name).answers for cell in cells
    ]
    found = compare(answers, asked.task, reference=last.name, seed=asked.contest.seed)
    return next(one for one in found.to_reference if one.name == first.name)


def _foretold(layers: Sequence[str], estimates: Sequence[Estimate | None]) -> str:
    """Which layer each instant estimate put first."""
    if any(one is None for one in estimates):
        return ""
    by: dict[str, list[str]] = {}
    for measure, title in MEASURES.items():
        place = max(range(len(layers)), key=lambda at: getattr(estimates[at], measure))
        by.setdefault(_name(layers[place]), []).append(title)
    told = "; ".join(f"{' and '.join(names)} put {layer} first" for layer, names in by.items())
    return f"Before any training, {told}."
