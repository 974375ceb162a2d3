"""Runs and file answers in a terminal; the live table fills while heads train."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from heads.display import Description, Table
from heads.evaluation.metrics import SCORES
from heads.events import Progress
from heads.inference.predict import FileAnswers
from heads.interfaces.result import WIDE, Terminal, fit_table, show
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
from heads.training.events import CurvePointTried, SeedFitting

A_SECOND = 4  # times that the live table is drawn anew


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
        known_notes: Notes that were printed before.
        run: The run; with it the short answers to the questions about it are printed too.
    """
    is_wide = Terminal().width >= WIDE
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
    columns = ("data", "base model", "when") * (Terminal().width >= WIDE)
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
