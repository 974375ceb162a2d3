"""What a result rests on, folded under questions; each is filled when it is opened.

The last fold answers a file.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components.plot import PlotData

from heads.errors import LimitError
from heads.interfaces.views.html import render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import as_csv, failed, guarded, saves
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import answer_file
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.slots import pool

if TYPE_CHECKING:
    from heads.interfaces.views.questions import Answer, Question
    from heads.runs.leaderboard import Leaderboard

BOARDS = pool("boards")
CHARTS = 2  # of one answer, at most
# The questions of `views.questions` and two of the page's own; they wait for torch, as what they
# ask hangs on the run: the page is built with as many empty folds.
FOLDS = range(12)
COUNT = len(FOLDS) + 1  # and the one in which a file is answered
NUMBERS = 9  # the place of the one called "numbers": its table can be saved
LABELS = 4  # that of "labels": what is to be looked at can be saved, or all rows with it
MOST_CELLS = 2_000_000  # of a file that the browser makes


def questions(mine: Any = None) -> "list[Question]":
    """All questions, in order; the page's own last."""
    from heads import api
    from heads.analysis.row_map import readings_of
    from heads.backbone.given import is_given
    from heads.interfaces.views import charts
    from heads.interfaces.views.questions import QUESTIONS, Answer, Question, table

    def numbers(board: "Leaderboard", head: str) -> "Answer":
        return Answer(html=table(board, opens=True))

    def near(board: "Leaderboard", head: str) -> "Answer":
        # By principal components: t-SNE keeps more of a row's neighbours, and takes minutes.
        found = api.row_map(board, readings_of(board, head))
        says = f"t-SNE keeps more neighbours: heads map {board.run} --method tsne --to map.html"
        html = render("quiet.html", says=says)
        return Answer(charts=[charts.row_map(found)], html=html)

    def others(board: "Leaderboard", head: str) -> "Answer":
        return Answer(html=run_access.same_data(board.folder, mine))

    found = [
        *QUESTIONS,
        Question(asks="Which rows lie near each other?", draw=near, applies=_is_drawn),
        Question(
            asks="What about another base model?",
            draw=others,
            applies=lambda board: not is_given(board.model),
        ),
    ]
    return [replace(one, draw=numbers) if one.name == "numbers" else one for one in found]


def _is_drawn(board: "Leaderboard") -> bool:
    """Whether a run has vectors to draw, and no more rows than a picture has room for."""
    from heads.analysis.row_map import MOST_ROWS, readings_of
    from heads.interfaces.views.questions import head_of

    return board.rows <= MOST_ROWS["pca"] and bool(readings_of(board, head_of(board)))


def hidden() -> list[Any]:
    """No question: there is no result."""
    return [gr.update(visible=False, open=False)] * COUNT


def labels(board: "Leaderboard", head: str = "", *, closes: bool = True) -> list[Any]:
    """Fold the questions and write their brief answers for a head; `closes` folds the table too."""
    from heads.interfaces.views.questions import head_of

    found, name = [], head_of(board, head)
    whose = "" if name == head_of(board) else f" ({name})"
    for number, one in enumerate(questions()):
        applies = one.applies(board)
        brief = one.brief(board, name) if applies else ""
        label = f"{one.asks}  {brief}{whose}" if brief else one.asks
        update: dict[str, Any] = {"label": label, "visible": applies}
        if closes or number != NUMBERS:
            update["open"] = False
        found.append(gr.update(**update))
    return [*found, answer_file.label(whose)]


def build(query: gr.Textbox, mine: gr.BrowserState) -> tuple[list[gr.Accordion], gr.HTML]:
    """Draws the folds; gives the table of all numbers too, whose names open heads."""
    drawn, answers = [], []
    for number in FOLDS:
        with gr.Accordion("", open=False, visible=False, elem_classes="fold") as area:
            with gr.Row():
                plots = [
                    gr.Plot(show_label=False, container=False, visible=False, min_width=320)
                    for _ in range(CHARTS)
                ]
            answer = gr.HTML("", elem_id=f"fold-{number}", js_on_load=CLICKS)
            if number == NUMBERS:
                save = gr.Button("Save as CSV", size="sm")
                saves(save, _as_csv, [query], "leaderboard.csv")
            if number == LABELS:
                with gr.Row(elem_classes="saves"):
                    save = gr.Button("Save these as CSV", size="sm")
                    sheet = partial(_sheet, whole=False)
                    saves(save, sheet, [query], "labels-to-look-at.csv")
                    save = gr.Button("Save all rows, these marked", size="sm")
                    sheet = partial(_sheet, whole=True)
                    saves(save, sheet, [query], "all-rows.csv")
        area.expand(_answers(number), [query, mine], [*plots, answer], **BOARDS, **QUIET)
        drawn.append(area)
        answers.append(answer)
    drawn.append(answer_file.build(query))
    return drawn, answers[NUMBERS]


def _answers(number: int) -> Callable[[str, Any], list[Any]]:
    def answer(query: str, mine: Any) -> list[Any]:
        from heads.interfaces.views.questions import head_of
        from heads.runs.leaderboard import leaderboard

        asked = Location.of(query)
        try:
            board = leaderboard(run_access.opened(asked.result))
            found = questions(mine)[number].draw(board, head_of(board, asked.head))
        except Exception as error:
            hidden = gr.update(visible=False)
            return [hidden] * CHARTS + [failed(error)]
        plots = [
            gr.update(value=PlotData(type="plotly", plot=json.dumps(chart.figure)), visible=True)
            for chart in found.charts
        ]
        plots += [gr.update(value=None, visible=False)] * (CHARTS - len(plots))
        says = [f"{one.says} {one.key}".strip() for one in found.charts]
        return [*plots, render("answer.html", says=says, html=found.html)]

    return answer


@guarded
def _as_csv(query: str) -> str:
    from heads.interfaces.views.questions import sheet
    from heads.runs.leaderboard import leaderboard

    return as_csv(*sheet(leaderboard(run_access.opened(Location.of(query).result))))


@guarded
def _sheet(query: str, *, whole: bool) -> str:
    """Write the labels that may be wrong, or all rows with them marked, to be mended as a file."""
    from heads.runs.doubtful_labels import doubtful_labels

    columns, rows = doubtful_labels(run_access.opened(Location.of(query).result)).sheet(whole=whole)
    if len(columns) * len(rows) > MOST_CELLS:
        what = f"{len(rows):,} rows are more than a browser saves."
        raise LimitError(what, "Write heads labels RUN --to FILE --all in the shell.")
    return as_csv(columns, rows)
