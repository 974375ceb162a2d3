"""Results in a terminal: sentences, tables of any width, and one that fills while heads train."""

import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, Group
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from heads.classifier.classifier import Classifier
from heads.display import Code, Description, Displayed, Table
from heads.errors import printable
from heads.evaluation.metrics import SCORES
from heads.events import Progress
from heads.inference.predict import FileAnswers
from heads.interfaces.views import descriptions
from heads.interfaces.views.sections import (
    ResultSection,
    SectionAnswer,
    find_sections,
    find_subject,
    result_sections,
)
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.folder import RunFolder, all_runs
from heads.runs.leaderboard import Leaderboard
from heads.runs.runner import CellDone, Event
from heads.runs.spec import RunSpec
from heads.training.search import CurvePointTried, SeedFitting

UNBOUND = 10_000  # characters of a line in which nothing is folded
GAP = 3  # characters between two columns
WIDE = 110  # columns of a terminal that hold every measure
A_SECOND = 4  # times that the live table is drawn anew
_capture: ContextVar[Console | None] = ContextVar("capture", default=None)


def _console() -> Console:
    return _capture.get() or Terminal()


def text(result: Any) -> str:
    """Return a result as the shell prints it; a classifier in one line."""
    if isinstance(result, Classifier):
        return repr(result)
    output = io.StringIO()
    token = _capture.set(Terminal(file=output))
    try:
        leaderboard(result) if isinstance(result, Leaderboard) else show(result)
    finally:
        _capture.reset(token)
    return output.getvalue().rstrip()


class Terminal(Console):
    """A console on which no text of a user's moves the cursor or turns the way of writing."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                text = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(text, segment.style)


def show(*items: str | Table | Code | Description | Displayed) -> None:
    """Print sentences, tables, code and results; nothing for an empty text."""
    console = _console()
    for block, style in _list_blocks(items):
        if isinstance(block, Table):
            show(block.title)
            console.print(*fit_table(block, console), sep="\n")
            show(block.note)
        elif isinstance(block, Code):
            console.print(Text(block.text), soft_wrap=True)  # to be copied as it is
        elif block:  # a text of a user's is no markup, whatever stands in it
            console.print(Text(block, style=style))


def _list_blocks(
    items: Iterable[str | Table | Code | Description | Displayed],
) -> Iterator[tuple[str | Table | Code, str]]:
    """Yield what is printed, each with its style."""
    for item in items:
        if isinstance(item, Displayed):
            item = descriptions.describe(item)
        if isinstance(item, Description):
            yield item.title, "bold"
            yield from ((block, "") for block in item.blocks)
        else:
            yield item, ""


def fit_table(table: Table, console: Console) -> list[rich_table.Table]:
    """Return a table as wide as a terminal, in which no recipe and no other word is broken.

    Wide columns are folded, the first one last. Columns for which there is still no room go into a
    table of their own, beside the first one again.
    """
    options, end = console.options.update(max_width=UNBOUND), len(table.headers)
    columns = list(zip(table.headers, *table.rows, strict=True))
    spans = [[Measurement.get(console, options, Text(cell)) for cell in own] for own in columns]
    widths = [max(1, *(span.maximum for span in column)) for column in spans]
    least = [max(1, *(span.minimum for span in column)) for column in spans]

    def excess(columns: Sequence[int]) -> int:
        return sum(columns) + GAP * len(columns) - 1 - console.width

    if excess(least) > 0 and end > 2:
        cut = next((n for n in range(end - 1, 2, -1) if excess(least[:n]) <= 0), 2)
        parts = []
        for places in (range(cut), (0, *range(cut, end))):
            headers, *rows = zip(*(columns[place] for place in places), strict=True)
            parts += fit_table(replace(table, headers=headers, rows=tuple(rows)), console)
        return parts
    for _ in range(excess(widths)):
        if folded := [place for place in range(end) if widths[place] > least[place]]:
            widths[max(folded, key=lambda place: (place > 0, widths[place]))] -= 1
    drawn = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header, width in zip(table.headers, widths, strict=True):
        drawn.add_column(Text(header), width=width, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return [drawn]


def report_answers(answers: FileAnswers) -> None:
    """Print what became of the rows of a file on stderr, since answers may be printed."""
    console = Terminal(stderr=True, soft_wrap=True)
    description = descriptions.describe(answers)
    for line in (description.title, *description.blocks):
        console.print(Text(f"heads: {line}"))


# --- Runs, one of them live.


def follow_run(events: Iterator[Event], spec: RunSpec) -> Leaderboard:
    """Show what a run does while it works, and a grid that fills; return its leaderboard."""
    told, recipes = SCORES[spec.metric].told, dict(zip(spec.recipes, spec.resolved, strict=True))
    board: Leaderboard | None = None
    cells: dict[str, Cell] = {}
    says, trying = "Starting", ""
    with Live(console=Terminal(stderr=True), refresh_per_second=A_SECOND, transient=True) as live:
        for event in events:
            if isinstance(event, Progress):
                says, trying = f"{event.says} ({event.share:.0%})", ""
            elif isinstance(event, CurvePointTried):
                trying = f"{event.name}: {told(event.point.score)} on held-out rows"
            elif isinstance(event, SeedFitting):
                trying = f"{event.name}: training {event.seed + 1} of {len(spec.splits)}"
            elif isinstance(event, CellDone):
                cells[event.cell.name] = event.cell
                says = f"{event.done} of {event.planned} heads trained"
            else:
                board = event
            tables = fit_table(_tabulate_grid(cells, recipes), live.console)
            live.update(Group(*tables, Text(says), Text(trying)))
    assert board is not None
    return board


def _tabulate_grid(cells: Mapping[str, Cell], recipes: Mapping[str, ResolvedRecipe]) -> Table:
    """Return readings down, heads across, the score in each cell."""
    scores: dict[str, dict[str, str]] = {}
    for name, cell in cells.items():
        if not cell.is_baseline:
            recipe, own = recipes[name], cell.measures
            told = SCORES[own.metric].told(own.score)
            scores.setdefault(recipe.reading, {})[recipe.behind] = told
    heads = dict.fromkeys(head for row in scores.values() for head in row)
    rows = [(reading, *(row.get(head, "") for head in heads)) for reading, row in scores.items()]
    return Table(headers=("", *heads), rows=tuple(rows))


def leaderboard(
    board: Leaderboard, known_notes: Sequence[str] = (), run: RunFolder | None = None
) -> None:
    """Print the verdict, a cell a row, and the notes that were not told before.

    Args:
        board: The leaderboard.
        known_notes: Notes that were printed before.
        run: The run; with it the short answers to the questions about it are printed too.
    """
    is_wide = _console().width >= WIDE
    description = descriptions.describe_leaderboard(board, is_wide=is_wide, known_notes=known_notes)
    show(description)
    if run:
        answer_questions(board)
        show(f"The run is {run.id}: {run.path}")


def answer_questions(board: Leaderboard, names: Sequence[str] = ()) -> None:
    """Print the short answer to every question about a run; the whole answer to those named."""
    rows, found = [], list(_find_answers(board, names))
    for section, answer in found:
        if names:
            blocks = (answer.phrase, *answer.sentences, *answer.tables)
            show(Description(title=section.question, blocks=blocks))
        elif answer.phrase:
            rows.append((section.name, f"{section.question} {answer.phrase}"))
    answered = {section.name for section, _ in found}
    for section in find_sections(names):
        if section.name not in answered:
            show(Description(title=section.question, blocks=("This run has no answer to that.",)))
    if rows:
        note = f"What an answer rests on: heads runs {board.run} --show NAME"
        show(Table(headers=("--show", "question and answer"), rows=tuple(rows), note=note))


def answers_as_json(board: Leaderboard, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answers to the questions about a run by the names of their sections."""
    return {
        section.name: {"question": section.question}
        | (answer.as_json() if names else {"phrase": answer.phrase})
        for section, answer in _find_answers(board, names)
    }


def _find_answers(
    board: Leaderboard, names: Sequence[str]
) -> Iterator[tuple[ResultSection, SectionAnswer]]:
    """Yield the sections of a run with their answers: short ones of all, whole ones of some."""
    subject = find_subject(board, runs=all_runs())
    for section in find_sections(names) or result_sections():
        if subject.head and section.has_answer(board):
            find = section.open_answer if names else section.find_answer
            yield section, find(subject)


def show_runs(runs: Sequence[Mapping[str, Any]]) -> None:
    """Print a run a row, the newest first."""
    if not runs:
        show("There are no runs yet. Write: heads train data.csv")
        return
    columns = ("data", "base model", "when") * (_console().width >= WIDE)
    rows = []
    for run in runs:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run["created"]))
        row = (run["run"], f"{run['cells']}/{run['planned']}", run["state"], _chosen(run))
        rows.append((*row, *(run["data"], run["model"], when)[: len(columns)]))
    show(Table(headers=("run", "cells", "state", "recommended", *columns), rows=tuple(rows)))


def _chosen(run: Mapping[str, Any]) -> str:
    """Return the recommended head of a listed run with its score, or else the best one."""
    name, score = run["recommended"], run["recommended_score"]
    if not name:
        name, score = run["best"], run["score"]
    told = "" if score is None else f" ({SCORES[run['metric']].told(score)})"
    return f"{name}{told}" if run["recommended"] else f"best: {name}{told}" * bool(name)
