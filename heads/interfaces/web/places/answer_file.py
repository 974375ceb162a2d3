"""A file answered by the head of a result: a fold below it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import gradio as gr

from heads.errors import DataError, HeadsError
from heads.interfaces.views.html import busy, render
from heads.interfaces.web import run_access, uploads
from heads.interfaces.web.endpoints import answered_ending
from heads.interfaces.web.guards import failed, show_progress
from heads.interfaces.web.location import Location
from heads.interfaces.web.places.try_it import QUIET
from heads.interfaces.web.slots import pool
from heads.interfaces.web.temporary_files import exporting
from heads.options import PredictOptions
from heads.settings import current_limits

ASKS = "Answer a file"
BRIEF = "every row of it, and its score if it has labels"


def build(query: gr.Textbox) -> gr.Accordion:
    """Draw the fold."""
    with gr.Accordion(ASKS, open=False, visible=False, elem_classes="fold") as area:
        gr.HTML(render("answer_file.html", limits=current_limits()))
        file = gr.File(label="A file to answer", height=112, elem_id="to-answer")
        told = gr.HTML("", elem_id="answered")
        take = gr.DownloadButton(
            "Download the answers", visible=False, variant="primary", size="sm", elem_id="take-rows"
        )
    file.upload(answered, [file, query], [file, told, take], **pool("files"), **QUIET)
    return area


def label(whose: str) -> Any:
    """Fold the fold of a result, and name the head if it is not the recommended one."""
    return gr.update(label=f"{ASKS}: {BRIEF}{whose}", visible=True, open=False)


def answered(path: str | None, query: str) -> Iterator[list[Any]]:
    """Take a file over at once, answer it, and hand it back."""
    hidden = gr.update(visible=False)
    try:
        with uploads.lent(path) as (name,):
            yield [None, busy("Looking through the file"), hidden]
            for told, ready in _answered(name, Location.of(query)):
                yield [gr.skip(), told, ready]
    except Exception as error:
        yield [None, failed(error), hidden]


def _answered(name: str, location: Location) -> Iterator[tuple[Any, Any]]:
    from heads.data.formats.writers import ENDINGS
    from heads.inference.evaluate import Scoring
    from heads.inference.predict import iter_prediction
    from heads.interfaces.views.sections import find_subject
    from heads.interfaces.views.whole_files import answered as shown

    scorings = list[Scoring]()

    def watch(stream: Any, head: Any, texts: Any) -> Scoring | None:
        """Score a file while it is answered, if it has labels of the head."""
        with contextlib.suppress(DataError):
            scorings.append(Scoring.of(stream, head, texts))
        return scorings[0] if scorings else None

    file, board = uploads.path_of(name), run_access.board_of(location.result)
    with exporting(keeps=ENDINGS) as folder:
        target = folder / f"{file.stem}-answers{answered_ending(file)}"
        head = find_subject(board, location.head).head
        options = PredictOptions(run=board.run, recipe=head)
        events = iter_prediction(file, options, to=target, watch=watch)
        report = yield from show_progress(
            events, lambda event: (busy(event.says, event.share), gr.skip())
        )
        scores, why_not = None, ""
        try:
            for scoring in scorings:
                notes = list(report.notes)
                scores = scoring.scores(report.unanswered, notes, report.seconds)
        except HeadsError as error:
            why_not = str(error)
        yield shown(report, scores, why_not), gr.update(visible=True, value=str(target))
