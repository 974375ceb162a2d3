"""The sections below a result, folded; each is computed when it is opened."""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.components.plot import PlotData

from heads import plugins
from heads.errors import LimitError
from heads.interfaces.views.html import render
from heads.interfaces.views.sections import (
    MOST_CHARTS,
    ResultSection,
    SectionFile,
    SectionSubject,
    find_subject,
    result_sections,
)
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import Values, as_csv, failed, saves
from heads.interfaces.web.location import Location
from heads.interfaces.web.places import answer_file
from heads.interfaces.web.places.try_it import CLICKS, QUIET
from heads.interfaces.web.slots import pool

if TYPE_CHECKING:
    from heads.interfaces.views.charts import Chart

BOARDS = pool("boards")
NUMBERS = "numbers"  # the section whose table opens heads, and which stays open when one is
MAX_CELLS = 2_000_000  # of a file that the browser writes


def plotted(chart: "Chart") -> PlotData:
    """Return a chart as Gradio takes one, with its configuration."""
    return PlotData(type="plotly", plot=json.dumps(chart.figure))


def names() -> list[str]:
    """List the names of all folds: of the sections, and of the one in which a file is answered."""
    return [*(f"fold-{section.name}" for section in result_sections()), "answer-file"]


def hide_all() -> Values:
    """Hide all folds: there is no result."""
    return {name: gr.update(visible=False, open=False) for name in names()}


def label_all(board: Any, head: str = "", mine: Any = None, *, closes: bool = True) -> Values:
    """Write the short answers about a head on the folds and close them.

    Args:
        head: The head that is open; the recommended one, if none is.
        closes: Whether the table of all numbers is closed too.
    """
    subject = find_subject(board, head, run_access.visible(mine))
    suffix = "" if subject.head == find_subject(board).head else f" ({subject.head})"
    updates = {"answer-file": answer_file.label(suffix)}
    for section in result_sections():
        applies = section.has_answer(board)
        phrase = section.find_answer(subject).phrase if applies else ""
        label = f"{section.question}  {phrase}{suffix}" if phrase else section.question
        closed: dict[str, Any] = {"open": False} if closes or section.name != NUMBERS else {}
        updates[f"fold-{section.name}"] = gr.update(label=label, visible=applies, **closed)
    return updates


def build(query: gr.Textbox, mine: gr.BrowserState) -> tuple[dict[str, gr.Accordion], gr.HTML]:
    """Draw the folds; return them by name, and the table whose names open heads."""
    folds, answers = {}, {}
    for section in result_sections():
        name = section.name
        with gr.Accordion("", open=False, visible=False, elem_classes="fold") as fold:
            with gr.Row():
                plots = [
                    gr.Plot(show_label=False, container=False, visible=False, min_width=320)
                    for _ in range(MOST_CHARTS * bool(section.charts))
                ]
            answers[name] = gr.HTML("", elem_id=f"answer-{name}", js_on_load=CLICKS)
            with gr.Row(elem_classes="saves"):
                for download in section.downloads:
                    save = gr.Button(download.label, size="sm")
                    saves(save, partial(_write_csv, download), [query], download.filename)
        outputs = [*plots, answers[name]]
        fold.expand(_open_section(section), [query, mine], outputs, **BOARDS, **QUIET)
        folds[f"fold-{name}"] = fold
    folds["answer-file"] = answer_file.build(query)
    return folds, answers[NUMBERS]


def _find_subject(query: str, mine: Any = None) -> SectionSubject:
    location = Location.of(query)
    board = run_access.board_of(location.result)
    return find_subject(board, location.head, run_access.visible(mine))


def _open_section(section: ResultSection) -> Callable[[str, Any], list[Any]]:
    def open_section(query: str, mine: Any) -> list[Any]:
        count = MOST_CHARTS * bool(section.charts)
        try:
            subject = _find_subject(query, mine)
            answer, charts = section.find_answer(subject), section.draw_charts(subject)
        except Exception as error:
            return [gr.update(visible=False)] * count + [failed(error)]
        plots = [gr.update(value=plotted(chart), visible=True) for chart in charts]
        plots += [gr.update(value=None, visible=False)] * (count - len(plots))
        says = [" ".join(filter(None, (chart.says, chart.note, chart.key))) for chart in charts]
        return [*plots, render("answer.html", says=says, answer=answer, opens=True)]

    return open_section


def _write_csv(download: SectionFile, query: str) -> str:
    """Return a file of a section as CSV."""
    columns, rows = plugins.load(download.rows)(_find_subject(query))
    if len(columns) * len(rows) > MAX_CELLS:
        raise LimitError(f"{len(rows):,} rows are more than a browser saves.", "Use the shell.")
    return as_csv(columns, rows)
