"""What a result rests on, folded under questions; each is filled when it is opened."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.interfaces.views.html import render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import as_csv, guarded, saves, sentence
from heads.interfaces.web.location import Location

if TYPE_CHECKING:
    from markupsafe import Markup

    from heads.runs.leaderboard import Leaderboard

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
BOARDS: dict[str, Any] = {"concurrency_id": "boards", "concurrency_limit": 4}
MOST_TEXTS = 10  # on which heads disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """One question.

    Attributes:
        asks: The question.
        brief: The answer in a few words, or nothing.
        draw: The answer; takes the leaderboard, the head that is open, and the visitor's runs.
        applies: Whether the run has an answer.
    """

    asks: str
    draw: "Callable[[Leaderboard, str, Any], Markup]"
    brief: "Callable[[Leaderboard], str]" = lambda board: ""
    applies: "Callable[[Leaderboard], bool]" = lambda board: True


def head_of(board: "Leaderboard", asked: str = "") -> str:
    """The head that the answers are about: the open one, the recommended one, else the best."""
    names = {cell.name for cell in board.cells if not cell.is_baseline}
    return asked if asked in names else board.recommendation.name or board.best


def _growth(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import leaderboard as view

    if len(board.curve) > 1:
        return view.growth(board)
    says = (
        "The heads of this run were not also trained on fewer rows: it ended early, has fewer "
        "than 200 rows to learn from, or “Learning curve” was not ticked under Settings."
    )
    return render("quiet.html", says=says)


def _growth_brief(board: "Leaderboard") -> str:
    from heads.evaluation.metrics import SCORES

    if len(board.curve) < 2:
        return "not tried"
    before, last = board.curve[-2:]
    name = head_of(board)
    if not all(name in stage["scores"] for stage in (before, last)):
        return ""
    gain = last["scores"][name]["score"] - before["scores"][name]["score"]
    by = SCORES[board.metric].signed(gain)
    unit = " points" * SCORES[board.metric].is_share
    return f"{by}{unit} from {before['rows']:,} to {last['rows']:,} rows"


def _confidence(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import head_details

    return head_details.confidence(board, board.cell(head))


def _confidence_brief(board: "Leaderboard") -> str:
    error = board.cell(head_of(board)).measures.values.get("calibration_error")
    return "" if error is None else f"off by {100 * error:.0f} points on average"


def _confused(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import head_details

    return head_details.mistakes(board, head)


def _confused_brief(board: "Leaderboard") -> str:
    table = board.cell(head_of(board)).measures.confusion
    if table is None:
        return ""
    import torch

    wrong = table - torch.diag(table.diagonal())
    both = wrong + wrong.T
    if not both.any():
        return "none"
    at = int(both.triu().argmax())
    one, other = divmod(at, len(board.classes))
    return f"{board.classes[one]} with {board.classes[other]}"


def _apart(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import predictions
    from heads.runs.drill_down import disagreements

    return predictions.disagreements(disagreements(board.folder, most=MOST_TEXTS), board.problem)


def _sizes(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import leaderboard as view

    return view.sizes(board)


def _layers(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import leaderboard as view

    return view.layers(board)


def _has_layers(board: "Leaderboard") -> bool:
    from heads.runs.drill_down import layered

    return bool(layered(board))


def _numbers(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import report

    return report.table(board)


def _estimates(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    from heads.interfaces.views import head_details

    return head_details.estimates(board)


def _others(board: "Leaderboard", head: str, mine: Any) -> "Markup":
    return run_access.same_data(board.folder, mine)


FOLDS = (
    Fold(asks="Would more rows help?", draw=_growth, brief=_growth_brief),
    Fold(
        asks="Can I trust its confidence?",
        draw=_confidence,
        brief=_confidence_brief,
        applies=lambda board: board.problem.has_classes,
    ),
    Fold(asks="What does it get wrong?", draw=_confused, brief=_confused_brief),
    Fold(asks="Where do the heads disagree?", draw=_apart),
    Fold(asks="Is a larger head better?", draw=_sizes),
    Fold(asks="In which layer does the task live?", draw=_layers, applies=_has_layers),
    Fold(asks="Could that be told before any training?", draw=_estimates),
    Fold(asks="What about another base model?", draw=_others),
    Fold(asks="All numbers", draw=_numbers),
)


def labels(board: "Leaderboard") -> list[Any]:
    """The questions with their brief answers, all folded."""
    found = []
    for fold in FOLDS:
        applies = fold.applies(board)
        brief = fold.brief(board) if applies else ""
        label = f"{fold.asks}  {brief}" if brief else fold.asks
        found.append(gr.update(label=label, visible=applies, open=False))
    return found


def build(query: gr.Textbox, mine: gr.BrowserState) -> list[gr.Accordion]:
    """Draws the questions."""
    drawn = []
    for number, fold in enumerate(FOLDS):
        with gr.Accordion(fold.asks, open=False, elem_classes="fold") as area:
            answer = gr.HTML("", elem_id=f"fold-{number}")
            if fold.draw is _numbers:
                save = gr.Button("Save as CSV", size="sm")
                saves(save, _as_csv, [query], "leaderboard.csv")
        area.expand(_answers(fold), [query, mine], answer, **BOARDS, **QUIET)
        drawn.append(area)
    return drawn


def _answers(fold: Fold) -> Callable[[str, Any], Any]:
    def answer(query: str, mine: Any) -> Any:
        from heads.runs.leaderboard import leaderboard

        asked = Location.of(query)
        try:
            board = leaderboard(run_access.opened(asked.result))
            return fold.draw(board, head_of(board, asked.head), mine)
        except Exception as error:
            return render("failure.html", says=sentence(error))

    return answer


@guarded
def _as_csv(query: str) -> str:
    from heads.interfaces.views.format import figures, headers, offered
    from heads.runs.leaderboard import leaderboard

    board = leaderboard(run_access.opened(Location.of(query).result))
    measures = offered(board.cells)
    return as_csv(headers(measures), [figures(cell, measures) for cell in board.cells])
