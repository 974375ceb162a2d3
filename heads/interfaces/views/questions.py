"""What one asks of a run once a head is recommended: short answers, and what they rest on.

The page folds them below the result, the report prints them behind its first page.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from heads.interfaces.views import (
    answers,
    charts,
    doubtful_labels,
    head_details,
    predictions,
    ways_of_learning,
)
from heads.interfaces.views.charts import Chart
from heads.interfaces.views.format import TIME, between, count, figures, headers, offered, titled
from heads.interfaces.views.html import render
from heads.runs.doubtful_labels import doubtful_labels as labels_of
from heads.runs.doubtful_labels import has_probabilities
from heads.runs.drill_down import closeup, disagreements, layered
from heads.runs.leaderboard import Leaderboard

SHOWN = 10  # texts on which heads disagree
DRAWN = 2  # recipes that were learned in several ways
AGAINST = "Against the recommended"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What a short answer rests on.

    Attributes:
        charts: At most two, side by side where there is room.
        html: What stands below them.
    """

    charts: Sequence[Chart] = ()
    html: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question; its functions take the leaderboard and the head that is looked at.

    Attributes:
        asks: The question.
        brief: The answer in a phrase, or nothing.
        draw: What that rests on.
        applies: Whether the run has an answer.
        name: What page and report know it by; those of their own need none.
    """

    asks: str
    draw: Callable[[Leaderboard, str], Answer]
    brief: Callable[[Leaderboard, str], str] = lambda board, head: ""
    applies: Callable[[Leaderboard], bool] = lambda board: True
    name: str = ""


def head_of(board: Leaderboard, asked: str = "") -> str:
    """The head that answers are about: the one asked for, the recommended one, else the best."""
    names = {cell.name for cell in board.cells if not cell.is_baseline}
    return asked if asked in names else board.recommendation.name or board.best


def _ways(board: Leaderboard, head: str) -> Answer:
    *others, last = [charts.ways(one) for one in board.ways_of_learning[:DRAWN]]
    drawn = (*(replace(one, key="") for one in others), last)  # what the signs mean is said once
    return Answer(charts=drawn, html=ways_of_learning.tables(board, said=DRAWN))


def _growth(board: Leaderboard, head: str) -> Answer:
    if chart := charts.growth(board):
        return Answer(charts=(chart,))
    says = (
        "The heads of this run were not also trained on fewer rows: it ended early, has fewer "
        "than 200 rows to learn from, or its learning curve was turned off."
    )
    return Answer(html=render("quiet.html", says=says))


def _confidence(board: Leaderboard, head: str) -> Answer:
    measures = board.cell(head).measures
    first, scaled = charts.reliability(measures), measures.calibration
    if scaled is None:
        says = "It has no development rows that it has not learned from, so more cannot be told."
        return Answer(charts=(first,), html=render("quiet.html", says=says))
    says = head_details.scaled_says(scaled)
    second = charts.coverage(scaled.coverage, board.problem)
    return Answer(charts=(first, second), html=render("quiet.html", says=says))


def _mistakes(board: Leaderboard, head: str) -> Answer:
    look = closeup(board, head)
    measures = look.cell.measures
    if not board.problem.has_classes:
        found = (charts.scatter(look),) if look.points else ()
        return Answer(charts=found, html=head_details.numbers(look.cell))
    if measures.labels:
        return Answer(html=head_details.labels(measures.labels))
    found = [charts.f1(measures.f1, look.classes)]
    if measures.confusion is not None:
        found.insert(0, charts.confusion(measures.confusion, look.classes))
    return Answer(charts=found)


def _apart(board: Leaderboard, head: str) -> Answer:
    found = disagreements(board.folder, most=SHOWN)
    return Answer(html=predictions.disagreements(found, board.problem))


def _apart_brief(board: Leaderboard, head: str) -> str:
    found = disagreements(board.folder, most=sys.maxsize)
    return answers.disagree(found, board.cell(head).measures.rows, board.problem)


def _doubtful(board: Leaderboard, head: str) -> Answer:
    return Answer(html=doubtful_labels.doubtful_labels(labels_of(board.folder)))


def _sizes(board: Leaderboard, head: str) -> Answer:
    chart = charts.sizes(board)
    return Answer(charts=(chart,) if chart else ())


def _layers(board: Leaderboard, head: str) -> Answer:
    mix = closeup(board, head).mix
    return Answer(charts=(*charts.layers(board), *((charts.mix(mix),) if mix else ()))[:2])


def _has_layers(board: Leaderboard) -> bool:
    learned = (one.layers is not None and one.layers.learned for one in board.recipes.values())
    return any(learned) or bool(layered(board))


def _numbers(board: Leaderboard, head: str) -> Answer:
    return Answer(html=table(board))


QUESTIONS: Sequence[Question] = (
    Question(
        name="ways",
        asks="Is fine-tuning worth it?",
        draw=_ways,
        brief=lambda board, head: ways_of_learning.worth_learning(board.ways_of_learning),
        applies=lambda board: bool(board.ways_of_learning),
    ),
    Question(
        name="rows",
        asks="Would more rows help?",
        draw=_growth,
        brief=lambda board, head: answers.more_rows(board),
    ),
    Question(
        name="confidence",
        asks="Can I trust its confidence?",
        draw=_confidence,
        brief=lambda board, head: answers.trust(board.cell(head).measures),
        applies=lambda board: board.problem.has_classes,
    ),
    Question(
        name="mistakes",
        asks="What does it get wrong?",
        draw=_mistakes,
        brief=lambda board, head: answers.confused(closeup(board, head)),
    ),
    Question(
        name="labels",
        asks="Which labels may be wrong?",
        draw=_doubtful,
        brief=lambda board, head: doubtful_labels.brief(labels_of(board.folder)),
        applies=lambda board: has_probabilities(board.folder),
    ),
    Question(
        name="disagreements",
        asks="Where do heads disagree?",
        draw=_apart,
        brief=_apart_brief,
        applies=lambda board: sum(not cell.is_baseline for cell in board.cells) > 1,
    ),
    Question(
        name="sizes",
        asks="Is it worth its size?",
        draw=_sizes,
        brief=lambda board, head: answers.worth(board),
        applies=lambda board: charts.sizes(board) is not None,
    ),
    Question(
        name="layers",
        asks="Which layer?",
        draw=_layers,
        brief=lambda board, head: answers.which_layer(board, layered(board)),
        applies=_has_layers,
    ),
    Question(
        name="estimates",
        asks="Could that be told before any training?",
        draw=lambda board, head: Answer(html=head_details.estimates(board)),
        brief=lambda board, head: answers.foretold(board),
        applies=lambda board: len(board.estimates) > 1,  # else there is nothing to choose from
    ),
    Question(name="numbers", asks="All numbers", draw=_numbers),
)


def table(board: Leaderboard, *, opens: bool = False) -> Markup:
    """Show a row a cell, the best first; where `opens`, the name of a head opens it."""
    score, *rest = (one for one in offered(board.cells) if one.name != TIME)
    columns = ["Recipe", score.title, "95 % interval", *(one.title for one in rest)]
    columns += ["Parameters", "Seconds", AGAINST]
    rows = []
    for cell in board.cells:
        values = [(one, one.of(cell)) for one in rest]
        is_used = cell.name == board.recommendation.name
        name = f"{titled(cell)}{' ★' * is_used}"
        if opens and not cell.is_baseline:
            name = render("head_button.html", head=cell.name, shown=name)
        rows.append(
            [
                name,
                score.shown(cell.measures.score),
                between(cell.measures, "to"),
                *("" if value is None else one.shown(value) for one, value in values),
                count(cell.learned),
                f"{cell.seconds:.1f}",
                head_details.against(board, cell),
            ]
        )
    says = "* significantly different from the recommended head, over all comparisons (95 %)."
    return render("table.html", headers=columns, rows=rows, says=says)


def sheet(board: Leaderboard) -> tuple[list[str], list[list[Any]]]:
    """The same for a spreadsheet: headers and rows."""
    measures = offered(board.cells)
    rows = [[*figures(cell, measures), head_details.against(board, cell)] for cell in board.cells]
    return [*headers(measures), AGAINST], rows
