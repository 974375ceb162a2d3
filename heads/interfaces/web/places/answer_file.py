"""A file answered by the head of a result: a fold below it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.errors import HeadsError
from heads.interfaces.views.html import busy, render
from heads.interfaces.web import run_access, uploads
from heads.interfaces.web.endpoints import answered_ending
from heads.interfaces.web.guards import failed, show_progress
from heads.interfaces.web.location import Location
from heads.interfaces.web.places.try_it import QUIET
from heads.interfaces.web.slots import pool
from heads.interfaces.web.temporary_files import exporting
from heads.settings import limits

if TYPE_CHECKING:
    from heads.analysis.answering import ChosenHead
    from heads.analysis.scoring import FileScores, Scoring
    from heads.data.formats.table_stream import TableStream
    from heads.data.table import Columns

ASKS = "Answer a file"
BRIEF = "every row of it, and its score if it has labels"


def build(query: gr.Textbox) -> gr.Accordion:
    """Draws the fold."""
    with gr.Accordion(ASKS, open=False, visible=False, elem_classes="fold") as area:
        gr.HTML(render("answer_file.html", limits=limits()))
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
    """Takes a file over at once, answers it, and hands it back."""
    hidden = gr.update(visible=False)
    try:
        with uploads.lent(path) as (name,):
            yield [None, busy("Looking through the file"), hidden]
            for told, ready in _answered(name, Location.of(query)):
                yield [gr.skip(), told, ready]
    except Exception as error:
        yield [None, failed(error), hidden]


def _answered(name: str, location: Location) -> Iterator[tuple[Any, Any]]:
    from heads.analysis.answering import predicting
    from heads.data.formats.writers import ENDINGS
    from heads.interfaces.views.sections import find_subject
    from heads.interfaces.views.whole_files import answered as shown
    from heads.runs.leaderboard import leaderboard

    scoring = _ScoredBeside()
    file, board = uploads.path_of(name), leaderboard(run_access.opened(location.result))
    with exporting(keeps=ENDINGS) as folder:
        target = folder / f"{file.stem}-answers{answered_ending(file)}"
        head = find_subject(board, location.head).head
        events = predicting(file, to=target, run=board.run, recipe=head, watch=scoring.watch)
        report = yield from show_progress(
            events, lambda event: (busy(event.says, event.share), gr.skip())
        )
        scores, why_not = scoring.scores(report)
        yield shown(report, scores, why_not), gr.update(visible=True, value=str(target))


class _ScoredBeside:
    """Scores a file while it is answered, where it has labels of the head."""

    def __init__(self) -> None:
        self._scoring: Scoring | None = None

    def watch(
        self, stream: "TableStream", head: "ChosenHead", texts: "Columns"
    ) -> "Scoring | None":
        """Who is told of all logits; nobody, where no column holds such labels."""
        from heads.analysis.scoring import Scoring
        from heads.errors import DataError

        try:
            self._scoring = Scoring.of(stream, head, texts, limits())
        except DataError:
            self._scoring = None
        return self._scoring

    def scores(self, found: Any) -> "tuple[FileScores | None, str]":
        """The scores, or why there are none though there are labels."""
        if self._scoring is None:
            return None, ""
        try:
            notes = list(found.notes)
            return self._scoring.scores(found.unanswered, notes, found.seconds), ""
        except HeadsError as error:
            return None, str(error)
