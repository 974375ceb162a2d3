"""One head of a run closely: by layer, its learned mix, and where heads disagree."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heads.classifier.module import RecipeModule
from heads.data.corpus import Corpus
from heads.data.splits import Splits
from heads.errors import HeadsError
from heads.evaluation.metrics import SCORES
from heads.evaluation.significance import Difference
from heads.evaluation.transferability import MEASURES, Estimate
from heads.runs import spec
from heads.runs.cells import Cell, CellAnswers, answers_of_cell, kept
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.saved_comparisons import SavedComparisons

# --- The texts on which the heads of a run disagree most: where a choice between them matters.


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A text and what each head says of it.

    Attributes:
        line: Where it stands in the file; 0 where that is not known.
        pair: The second text, or nothing.
        label: Its class.
        answers: For each head what it answers and how sure it is (0 to 1); of several labels,
            and of numbers, it does not say.
        share: The share of heads that do not give the commonest answer; of numbers, how far
            their answers scatter (standard deviation).
    """

    line: int
    text: str
    pair: str
    label: str
    answers: tuple[tuple[str, str, float | None], ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnsweredOnce:
    """What a head said of rows, each asked once.

    Attributes:
        rows: (n,), their numbers.
        given: (n,) or (n, c), its answers.
        sure: (n,), how sure it was; None where it does not say.
    """

    rows: Tensor
    given: Tensor
    sure: Tensor | None


def once(told: CellAnswers, splits: Splits) -> AnsweredOnce:
    """The answers of the first seed; without a test set, of all folds of the first repetition."""
    repetitions = splits.repetition or tuple(range(len(splits)))
    first = [number for number, one in enumerate(repetitions) if one == 0]
    sure = [told.confidence[number] for number in first] if told.confidence else []
    return AnsweredOnce(
        rows=torch.cat([told.answers.rows[number] for number in first]),
        given=torch.cat([told.answers.given[number] for number in first]),
        sure=torch.cat(sure) if sure else None,
    )


def disagreements(run: RunFolder, most: int = 20) -> tuple[Disagreement, ...]:
    """Return the texts that heads answer most differently (see `once`), the surest heads first."""
    asked = spec.load(run)
    heads = [
        (name, once(answers_of_cell(run, number, name), asked.splits))
        for number, name in enumerate(asked.recipes)
        if kept(run, number)
    ]
    if len(heads) < 2:
        return ()
    rows = heads[0][1].rows.tolist()
    given = [one.given for _, one in heads]
    sure = [None if one.sure is None else one.sure.tolist() for _, one in heads]
    if asked.corpus.problem.has_classes:
        ranked = _parted(given, sure)
    else:
        spread = torch.stack(given).std(dim=0)
        order = spread.argsort(descending=True).tolist()
        ranked = [(float(spread[place]), place) for place in order]
    told = [[spelled(asked.corpus, answer) for answer in own] for own in given]
    return tuple(
        Disagreement(
            line=asked.corpus.lines[rows[place]] if asked.corpus.lines else 0,
            text=asked.corpus.texts[rows[place]],
            pair=asked.corpus.pairs[rows[place]] if asked.corpus.pairs else "",
            label=label_of(asked.corpus, rows[place]),
            answers=tuple(
                (name, own[place], confidence[place] if confidence else None)
                for (name, _), own, confidence in zip(heads, told, sure, strict=True)
            ),
            share=share,
        )
        for share, place in ranked[:most]
    )


def _parted(given: Sequence[Tensor], sure: Sequence[list[float] | None]) -> list[tuple[float, int]]:
    """The share of heads beside the commonest answer, where there are any, the most first."""
    answers = [[tuple(one) if isinstance(one, list) else one for one in g.tolist()] for g in given]
    found = []
    for place in range(len(answers[0])):
        commonest = Counter(each[place] for each in answers).most_common(1)[0][1]
        if commonest < len(answers):
            certainty = sum(each[place] for each in sure if each)
            found.append((commonest / len(answers) - 1, -certainty, place))
    return [(-doubt, place) for doubt, _, place in sorted(found)]


def spelled(corpus: Corpus, answer: Tensor) -> str:
    """An answer as one reads it."""
    if not corpus.problem.has_classes:
        return f"{float(answer):.3g}"
    if corpus.problem.is_exclusive:
        return corpus.classes[int(answer)]
    return _joined(corpus, answer.nonzero().flatten().tolist())


def label_of(corpus: Corpus, row: int) -> str:
    """What a row is labelled with, as one reads it."""
    if not corpus.problem.has_classes:
        return f"{corpus.numbers[row]:.3g}"
    return _joined(corpus, corpus.targets[row])


def _joined(corpus: Corpus, numbers: Sequence[int]) -> str:
    return ", ".join(corpus.classes[number] for number in numbers) or "(none)"


MOST_POINTS = 300


def mix_weights(module: RecipeModule) -> tuple[float, ...]:
    """The shares of the layers in a learned mix, embeddings first; none, if it has no mix."""
    layers = module.reader.resolved.layers
    if layers is None or not layers.learned:
        return ()
    scores = module.reader.layers.get_parameter("scores")
    return tuple(scores.detach().softmax(dim=0).tolist())


def mix_of(board: Leaderboard, name: str) -> tuple[float, ...]:
    """The same of a head of a run; none, where its base model is not there any more."""
    with contextlib.suppress(HeadsError):
        layers = None if board.cell(name).is_baseline else board.recipes[name].layers
        if layers is not None and layers.learned:
            return mix_weights(board.classifier(name).head.module)
    return ()


def layer_name(number: int) -> str:
    """What a layer is called.

    >>> layer_name(0), layer_name(3)
    ('embeddings', 'layer 3')
    """
    return f"layer {number}" if number else "embeddings"


def predicted_points(board: Leaderboard, name: str) -> tuple[tuple[float, float], ...]:
    """Return true and predicted numbers, each row once, of at most 300 rows, evenly taken."""
    asked = spec.load(board.folder)
    number = asked.names.index(name)
    told = once(answers_of_cell(board.folder, number, name), asked.splits)
    true, given = asked.task.targets[told.rows], told.given
    chosen = torch.linspace(0, len(true) - 1, min(len(true), MOST_POINTS)).long()
    return tuple(zip(true[chosen].tolist(), given[chosen].tolist(), strict=True))


# --- Where in the base model a task lives: one pooling and head at several layers of it.

LAST = "last"
FEWEST = 3  # layers that make a course
TOP = 10_000  # the last layer's number is the base model's to know; it stands behind all others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerCurve:
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


def layered(board: Leaderboard) -> tuple[LayerCurve, ...]:
    """Return every pooling and head that a run has at three layers or more."""
    groups: dict[str, dict[int, Cell]] = {}
    for cell in board.cells:
        if cell.is_baseline or (resolved := board.recipes[cell.name]).layers:
            continue
        shared = str(replace(resolved.recipe, layers=""))
        groups.setdefault(shared, {})[resolved.layer if resolved.layer >= 0 else TOP] = cell
    return tuple(
        _course(board, name, dict(sorted(found.items())))
        for name, found in groups.items()
        if len(found) >= FEWEST
    )


def _course(board: Leaderboard, recipe: str, found: dict[int, Cell]) -> LayerCurve:
    told, cells = {one.name: one for one in board.estimates}, tuple(found.values())
    layers = tuple(LAST if number == TOP else str(number) for number in found)
    estimates = tuple(  # which are of the frozen base model
        told.get(board.recipes[cell.name].reading) if cell.tuning is None else None
        for cell in cells
    )
    best = max(range(len(cells)), key=lambda place: cells[place].measures.score)
    sentences = [_best(board, layers, cells, best), _foretold(layers, estimates)]
    return LayerCurve(
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
    asked = spec.load(board.folder)
    answers = [
        answers_of_cell(board.folder, asked.names.index(cell.name), cell.name).answers
        for cell in cells
    ]
    saved = SavedComparisons(board.folder)
    found = saved.compare(answers, asked.task, reference=last.name, seed=asked.config.seed)
    saved.save()
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
