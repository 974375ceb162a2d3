"""The core's result sections: the answers, as data, and the charts of each question.

The registry, `sections`, names these functions. Answers and charts take a `SectionSubject`; what
says whether a section applies takes a `Leaderboard`.
"""

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from heads.backbone.given import is_given
from heads.display import Table
from heads.errors import HeadsError
from heads.evaluation.details import LabelDetails
from heads.evaluation.metrics import SCORES
from heads.evaluation.transferability import MEASURES
from heads.interfaces.views import answers, charts, head_details, ways_of_learning
from heads.interfaces.views.figures import Chart
from heads.interfaces.views.format import (
    TIME,
    between,
    count,
    figures,
    headers,
    offered,
    percent,
    ranked,
    titled,
)
from heads.interfaces.views.sections import SectionAnswer, SectionSubject
from heads.problem import REGRESSION, ProblemType
from heads.runs.cells import Cell
from heads.runs.drill_down import Disagreement, disagreements, layered, mix_of, predicted_points
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard, facts_of

SHOWN = 10  # texts on which heads disagree
DRAWN = 2  # recipes that were learned in several ways
NAMED = 3  # heads that are named for one answer
GROUPS = 6  # answers that are listed for one text
AGAINST = "Against the recommended"
STAR = "* significantly different from the recommended head, over all comparisons (95 %)."
NOT_ALIKE = "These runs were not scored alike, so their numbers do not compare directly."


# --- Is fine-tuning worth it?


def has_tunings(board: Leaderboard) -> bool:
    """Return whether a recipe was trained in several ways of tuning the base model."""
    return bool(board.ways_of_learning)


def compare_tunings(subject: SectionSubject) -> SectionAnswer:
    """Compare the ways of tuning the base model under the same recipe."""
    board = subject.board
    ways = board.ways_of_learning
    return SectionAnswer(
        phrase=ways_of_learning.worth_learning(ways),
        sentences=(ways_of_learning.notes(board),),
        tables=tuple(ways_of_learning.tabulate_ways(way, board.metric) for way in ways),
    )


def draw_tunings(subject: SectionSubject) -> list[Chart]:
    """Draw the ways of tuning of the first recipes."""
    return [charts.ways(way) for way in subject.board.ways_of_learning[:DRAWN]]


# --- Would more rows help?


def judge_learning_curve(subject: SectionSubject) -> SectionAnswer:
    """Say what the last doubling of the rows gave."""
    board = subject.board
    sentence = board.curve_says or (
        "The heads of this run were not also trained on fewer rows: it ended early, has fewer "
        "than 200 rows to learn from, or its learning curve was turned off."
    )
    return SectionAnswer(phrase=answers.more_rows(board), sentences=(sentence.replace("`", ""),))


def draw_learning_curve(subject: SectionSubject) -> list[Chart]:
    """Draw the learning curve, if there is one."""
    return list(filter(None, [charts.growth(subject.board)]))


# --- Can I trust its confidence?


def has_classes(board: Leaderboard) -> bool:
    """Return whether labels are classes, and not numbers."""
    return board.problem.has_classes


def judge_confidence(subject: SectionSubject) -> SectionAnswer:
    """Say how far confidence is from accuracy, and what a temperature changes."""
    measures = subject.board.cell(subject.head).measures
    if measures.calibration is None:
        sentences = ("Without development rows it has no temperature and no abstention curve.",)
    else:
        sentences = (
            head_details.scaled_says(measures.calibration),
            head_details.abstained_says(measures.calibration.coverage, subject.board.problem),
        )
    return SectionAnswer(phrase=answers.trust(measures), sentences=sentences)


def draw_confidence(subject: SectionSubject) -> list[Chart]:
    """Draw confidence against accuracy, and accuracy against the fraction of rows answered."""
    measures = subject.board.cell(subject.head).measures
    drawn = [charts.reliability(measures)]
    if measures.calibration is not None:
        drawn.append(charts.coverage(measures.calibration.coverage, subject.board.problem))
    return drawn


# --- What does it get wrong?


def find_mistakes(subject: SectionSubject) -> SectionAnswer:
    """Name the classes that are confused most, or list every label or measure."""
    board = subject.board
    cell, tables = board.cell(subject.head), list[Table]()
    if not board.problem.has_classes:
        tables = [_measure_table(cell)]
    elif cell.measures.labels:
        tables = [_label_table(cell.measures.labels)]
    phrase = answers.confused(cell.measures, board.classes)
    return SectionAnswer(phrase=phrase, tables=tuple(tables))


def _measure_table(cell: Cell) -> Table:
    rows = [
        (measure.label, measure.shown(value))
        for measure in ranked(REGRESSION, cell.measures.metric)
        if (value := measure.of(cell)) is not None
    ]
    rows.insert(1, ("its 95 % interval", between(cell.measures, "to")))
    return Table(headers=("Measure", "Value"), rows=tuple(rows))


def _label_table(labels: Sequence[LabelDetails]) -> Table:
    """Return a row a label, the lowest F1 first."""
    labels = answers.worst_first(labels)
    table = head_details.tabulate_labels(labels)
    rows = zip(table.rows, labels, strict=True)
    return Table(
        headers=(*table.headers, "Threshold"),
        rows=tuple((*row, percent(label.threshold)) for row, label in rows),
        note="Rows: test rows that have the label. Threshold: the probability from which it is "
        "given, chosen on development rows.",
    )


def draw_mistakes(subject: SectionSubject) -> list[Chart]:
    """Draw predicted against true numbers, or the confusion matrix and F1 by class."""
    board = subject.board
    measures = board.cell(subject.head).measures
    if not board.problem.has_classes:
        return [charts.scatter(predicted_points(board, subject.head), measures)]
    if measures.labels:
        return []
    drawn = [charts.f1(measures.f1, board.classes)]
    if measures.confusion is not None:
        drawn.insert(0, charts.confusion(measures.confusion, board.classes))
    return drawn


# --- Where do heads disagree?


def has_several_heads(board: Leaderboard) -> bool:
    """Return whether two heads or more are done."""
    return sum(not cell.is_baseline for cell in board.cells) > 1


def find_disagreements(subject: SectionSubject) -> SectionAnswer:
    """List the texts on which heads disagree most, with the answers of each."""
    board = subject.board
    found = disagreements(board.folder, most=sys.maxsize)
    rows = [
        (
            " ↔ ".join(shorten(text) for text in (item.text, item.pair) if text),
            item.label,
            _group_answers(item, board.problem),
        )
        for item in found[:SHOWN]
    ]
    rows_tested = board.cell(subject.head).measures.rows
    return SectionAnswer(
        phrase=answers.disagree(found, rows_tested, board.problem),
        tables=(Table(headers=("Text", "Label", "Answers"), rows=tuple(rows)),) if rows else (),
    )


def _group_answers(item: Disagreement, problem: ProblemType) -> str:
    """Group heads by answer, the commonest first (of numbers both ends)."""
    groups: dict[str, list[tuple[float | None, str]]] = {}
    for name, answer, confidence in item.answers:
        groups.setdefault(answer, []).append((confidence, name))
    listed = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    more = len(listed) - GROUPS
    if not problem.has_classes:
        listed.sort(key=lambda pair: float(pair[0]))
        listed = [*listed[: GROUPS // 2], *listed[GROUPS // 2 :][-GROUPS // 2 :]]
    parts = [
        f"{answer.replace('-', '−') if not problem.has_classes else answer}: {_list_heads(names)}"
        for answer, names in listed[:GROUPS]
    ]
    return "; ".join([*parts, *[f"and {more} other answers"] * (more > 0)])


def _list_heads(names: Sequence[tuple[float | None, str]]) -> str:
    """List heads, the most confident first; of many, a few."""
    listed = sorted(names, key=lambda pair: (-(pair[0] or 0.0), pair[1]))
    shown = ", ".join(
        name if confidence is None else f"{name} ({percent(confidence, 0)})"
        for confidence, name in listed[:NAMED]
    )
    more = len(names) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def shorten(text: str, most: int = 300) -> str:
    """Cut a text that would fill the page."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


# --- Is it worth its size?


def has_sizes(board: Leaderboard) -> bool:
    """Return whether heads learn different numbers of parameters."""
    return charts.sizes(board) is not None


def judge_size(subject: SectionSubject) -> SectionAnswer:
    """Give the number of parameters of the recommended head, and why it was chosen."""
    return SectionAnswer(phrase=answers.worth(subject.board))


def draw_sizes(subject: SectionSubject) -> list[Chart]:
    """Draw scores against numbers of parameters."""
    return list(filter(None, [charts.sizes(subject.board)]))


# --- Which layer?


def has_layers(board: Leaderboard) -> bool:
    """Return whether heads read several layers, or a learned mix of them."""
    mixes = (
        recipe.layers is not None and recipe.layers.learned for recipe in board.recipes.values()
    )
    return any(mixes) or bool(layered(board))


def compare_layers(subject: SectionSubject) -> SectionAnswer:
    """Name the best layer beside the last."""
    return SectionAnswer(phrase=answers.which_layer(subject.board, layered(subject.board)))


def draw_layers(subject: SectionSubject) -> list[Chart]:
    """Draw the score of every layer, and the weights of a learned mix."""
    mix = mix_of(subject.board, subject.head)
    return [*charts.layers(subject.board), *([charts.mix(mix)] if mix else [])][:2]


# --- Could that be told before any training?


def has_estimates(board: Leaderboard) -> bool:
    """Return whether there are estimates of several poolings to choose from."""
    return len(board.estimates) > 1


def judge_estimates(subject: SectionSubject) -> SectionAnswer:
    """Say which estimates before training chose the best pooling."""
    board = subject.board
    neighbours = SCORES[board.metric].told
    rows = tuple(
        (one.name, f"{one.log_me:.3f}", f"{one.h_score:.3f}", neighbours(one.neighbours))
        for one in board.estimates
    )
    table = Table(headers=("Pooling", *MEASURES.values()), rows=rows, note="More is better.")
    return SectionAnswer(
        phrase=answers.foretold(board),
        sentences=tuple(one.says.replace("`", "") for one in board.agreements),
        tables=(table,),
    )


# --- All numbers.


def list_cells(subject: SectionSubject) -> SectionAnswer:
    """Return a row a cell, the best first."""
    board = subject.board
    score, *rest = (measure for measure in offered(board.cells) if measure.name != TIME)
    rows = []
    for cell in board.cells:
        values = [(measure, measure.of(cell)) for measure in rest]
        rows.append(
            (
                f"{titled(cell)}{' ★' * (cell.name == board.recommendation.name)}",
                score.shown(cell.measures.score),
                between(cell.measures, "to"),
                *("" if value is None else measure.shown(value) for measure, value in values),
                count(cell.learned) if cell.learned else "",
                f"{cell.seconds:.1f}",
                head_details.against(board, cell),
            )
        )
    columns = ("Recipe", score.title, "95 % interval", *(measure.title for measure in rest))
    table = Table(
        headers=(*columns, "Parameters", "Seconds", AGAINST),
        rows=tuple(rows),
        note=STAR,
        recipes=tuple("" if cell.is_baseline else cell.name for cell in board.cells),
    )
    return SectionAnswer(tables=(table,))


def export_cells(subject: SectionSubject) -> tuple[list[str], list[list[Any]]]:
    """Return headers and rows of all cells for a spreadsheet."""
    board = subject.board
    measures = offered(board.cells)
    rows = [[*figures(cell, measures), head_details.against(board, cell)] for cell in board.cells]
    return [*headers(measures), AGAINST], rows


# --- What about another base model?


def has_base_model(board: Leaderboard) -> bool:
    """Return whether texts were encoded by a base model, and not given as vectors."""
    return not is_given(board.model)


def compare_models(subject: SectionSubject) -> SectionAnswer:
    """Put the runs on the same rows side by side."""
    board = subject.board
    own = (board.folder.read("run.json") or {}).get("fingerprint")
    rows, protocols = [], set()
    for run in subject.runs:
        with contextlib.suppress(HeadsError):
            if (run.read("run.json") or {}).get("fingerprint") == own:
                facts = run.read("leaderboard.json") or {}
                rows.append(_describe_run(run, facts, is_this=run.id == board.run))
                protocols.add(facts.get("protocol"))
    if len(rows) < 2:
        hint = "There is no other run on the same rows yet: train on another base model to compare."
        return SectionAnswer(sentences=(hint,))
    columns = ("Run", "Base model", "Cells", "Best head", "Its score", "Reference")
    return SectionAnswer(
        phrase=f"{len(rows)} runs on the same rows",
        sentences=(NOT_ALIKE,) if len(protocols - {None}) > 1 else (),
        tables=(Table(headers=columns, rows=tuple(rows)),),
    )


def _describe_run(run: RunFolder, facts: Any, *, is_this: bool) -> tuple[str, ...]:
    own, reference = facts_of(run), facts.get("reference", "")
    score_text = SCORES[own["metric"]].told
    scores = [cell["score"] for cell in facts.get("cells", []) if cell["recipe"] == reference]
    return (
        f"{run.id} (this one)" if is_this else run.id,
        own["model"],
        f"{own['cells']} of {own['planned']}",
        own["best"] or own["state"],
        "" if own["score"] is None else score_text(own["score"]),
        f"{reference} {score_text(scores[0])}" if scores else "",
    )
