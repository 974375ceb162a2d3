"""The commands about data and runs: read, train, runs, labels, reproduce, work."""

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any, Literal

import typer

from heads import api, plugins
from heads.backbone.models import BUNDLED
from heads.data.table import ColumnHints
from heads.errors import DataError
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command
from heads.options import TrainOptions
from heads.settings import ExperimentConfig

Header = Literal["guess", "yes", "no"]
log = logging.getLogger("heads")
HEADERS = {"yes": True, "no": False, "guess": None}


@command(api.compare, api.read)
def read(
    data: str,
    *,
    columns: ColumnHints,
    labels_file: str = "",
    header: Header = "guess",
    model: str = BUNDLED,
) -> Answers:
    """Shows how a file of texts and labels is read.

    Args:
        data: A sample (sentiment, intents, pairs, aspects or similarity), or a CSV, TSV, JSON,
            JSONL, Parquet or Excel file, or a folder that `datasets` saved; or a name that an
            extra fetches, such as hub:owner/name; or vectors, as .npy, .npz or a column of lists
            of floats.
        labels_file: The labels of vectors that have none beside them, one a row in the same order:
            a CSV, JSONL or .npy file.
    """
    found = _read(data, columns, header, model, labels_file)
    yield found.as_json(), lambda: cli.tables.show(found)


def _read(name: str, columns: ColumnHints, header: Header, model: str, labels: str) -> Any:
    """Return the rows of a sample or a file, its columns as the user named them."""
    hints = columns if columns.separator != "none" else replace(columns, separator="")
    rows = api.open_data(name, hints, header=HEADERS[header], labels=labels)
    return api.warn_of_cuts(rows, model)


def _tell(data: Any, name: str) -> list[str]:
    """Says how a file was read, and warns of what it holds."""
    told = [*data.notes, *(finding.says for finding in data.findings)]
    for line in told:
        print(f"heads: {name}: {line}", file=sys.stderr)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """Arguments of `heads train` besides the data and the options of `heads.train_grid`.

    Attributes:
        test: Rows that are scored; without them some of the data are held out, several times.
        labels_file: The labels of vectors that have none beside them, one a row in the same order:
            a CSV, JSONL or .npy file.
        test_labels_file: The same of the test.
        header: Whether the first line names the columns; found out, if not given.
        out: A new folder for the run; without it the run is kept where runs are kept.
        resume: Go on with a run that was stopped.
        on: Where heads are trained: here, or a run backend of an extra (docs/extras.md).
    """

    test: str = ""
    labels_file: str = ""
    test_labels_file: str = ""
    header: Header = "guess"
    out: Path | None = None
    resume: str = ""
    on: str = api.HERE


@command(read)
def train(
    data: str = "",
    *,
    options: TrainOptions | None = None,
    arguments: RunArguments,
    columns: ColumnHints,
    config: ExperimentConfig | None = None,
) -> Answers:
    """Compares a grid of heads on your own data."""
    from heads.runs.folder import find
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import working
    from heads.runs.spec import load

    notes: list[str] = []
    scheduler = api.scheduler(arguments.on)  # before files are read: the place may not be there
    if arguments.resume:
        if data or arguments.test or arguments.out or options or config:
            what = "A run that goes on keeps its data, its recipes and its settings."
            raise DataError(what, "Write heads train --resume RUN alone, or begin a new run.")
        run = find(arguments.resume)
    elif not data:
        raise DataError("No data are given.", "Write heads train data.csv, or --resume RUN.")
    else:
        request, notes = _request_run(
            data, options or TrainOptions(), arguments, columns, config or ExperimentConfig()
        )
        run = _begin(request, arguments.out)
    if warning := load(run).account.get("warning"):
        print(f"heads: warning: {warning}", file=sys.stderr)
    events = working(run, scheduler)
    try:
        board = _follow_events(run, events, live=sys.stderr.isatty())
    except KeyboardInterrupt:
        events.close()  # the run ends first, wherever the interruption came
        yield _answer_run(leaderboard(run), run, notes)
        says = f"heads: stopped; go on with heads train --resume {arguments.out or run.id}"
        print(says, file=sys.stderr)
        raise
    yield _answer_run(board, run, notes)


def _request_run(
    data: str,
    options: TrainOptions,
    arguments: RunArguments,
    columns: ColumnHints,
    config: ExperimentConfig,
) -> tuple[Any, list[str]]:
    """Read the files of a run; return its request, and notes on how they were read."""
    from heads.runs.grids import named_recipes
    from heads.runs.spec import RunRequest

    named_recipes(options.recipes)  # before files are read, which may take long
    rows = _read(data, columns, arguments.header, options.model, arguments.labels_file)
    header, test_labels = HEADERS[arguments.header], arguments.test_labels_file
    test = api.open_test(arguments.test or None, rows, header, test_labels)
    notes = _tell(rows, data)
    notes += [f"In the test file: {note}" for note in _tell(test, arguments.test)] if test else []
    return RunRequest.of(rows, test, options, config), notes


def _begin(request: Any, out: Path | None) -> Any:
    """Begin a run, and print how long it will take."""
    from heads.runs.runner import begin, foreseen
    from heads.runs.spec import load

    run = begin(request, out=out)
    if any(recipe.is_tuned for recipe in load(run).resolved):
        print("heads: timing some steps of what learns the base model", file=sys.stderr)
    print(f"heads: {foreseen(run).says}", file=sys.stderr)
    return run


def _answer_run(board: Any, run: Any, known_notes: Sequence[str]) -> tuple[Any, Any]:
    values = board.as_json() | {"folder": str(run.path)}
    values |= {"answers": cli.tables.answers_as_json(board)}
    return values, lambda: cli.tables.leaderboard(board, known_notes, run)


def _follow_events(run: Any, events: Iterator[Any], *, live: bool) -> Any:
    """Show a live table, or a line a cell where nobody watches; return the leaderboard."""
    from heads.interfaces.cli.tables import follow_run
    from heads.interfaces.views.descriptions import mark_baseline, score_with_interval
    from heads.runs.runner import CellDone
    from heads.runs.spec import load

    if live:
        return follow_run(events, load(run))
    event = None
    for event in events:
        if isinstance(event, CellDone):
            name, score = mark_baseline(event.cell), score_with_interval(event.cell)
            says = f"{event.done}/{event.planned} {name}: {score}"
            print(f"heads: {says}", file=sys.stderr, flush=True)
    return event


@command()
def runs(run: Sequence[str] = (), *, delete: bool = False, show: Sequence[str] = ()) -> Answers:
    """Lists the runs that are kept, shows one, or compares some.

    Args:
        run: Show one, or compare some.
        show: Of one run, print what the answers to these questions rest on, such as layers,rows.
        delete: Delete the runs that are named.
    """
    from heads.interfaces.views.descriptions import tabulate_runs
    from heads.runs.folder import all_runs, find
    from heads.runs.leaderboard import facts_of, leaderboard

    if delete:
        _delete(run)
    elif not run:
        listed = [facts_of(one) for one in all_runs()]
        yield listed, lambda: cli.tables.show_runs(listed)
    elif len(found := [leaderboard(find(name)) for name in run]) == 1:
        board, answers = found[0], cli.tables.answers_as_json(found[0], show)
        values = board.as_json() | {"answers": answers}
        if show:
            yield values, lambda: cli.tables.answer_questions(board, show)
        else:
            yield values, lambda: cli.tables.leaderboard(board, run=board.folder)
    else:
        yield [one.as_json() for one in found], lambda: cli.tables.show(tabulate_runs(found))


def _delete(names: Sequence[str]) -> None:
    """Deletes runs, if all of them are there and named whole."""
    from heads.runs.folder import find

    if not names:
        raise DataError("No run is named.", "Write heads runs NAME --delete.")
    chosen = [find(name) for name in names]
    for name, run in zip(names, chosen, strict=True):
        if run.id != name and not Path(name).is_dir():  # found by how it begins
            raise DataError(f"{name} is not a whole name.", f"Write {run.id} to delete it.")
    for run in chosen:
        run.delete()
        print(f"{run.id} is deleted.")


@command(inherits=True)
def work(folder: Path) -> None:
    """Goes on with a run, as JSON lines.

    Args:
        folder: The folder of the run.
    """
    plugins.enter_server(is_worker=True)
    try:
        _work(folder)
    finally:
        plugins.leave_server()


def _work(folder: Path) -> None:
    import torch

    from heads.caching import refusal
    from heads.errors import HeadsError
    from heads.runs.folder import RunFolder
    from heads.runs.runner import foreseen, working
    from heads.runs.spec import load

    run = RunFolder(path=folder)
    try:
        metric = load(run).metric
        with contextlib.suppress(HeadsError):  # a run that cannot be estimated may be trained
            expected = foreseen(run)
            seconds = {"reading": expected.reading, "seconds": expected.seconds}
            seconds |= {"heads": dict(expected.heads), "threads": torch.get_num_threads()}
            print(dumps({"event": "expected", **seconds}), flush=True)
        for event in working(run):
            print(dumps(_line(event, metric), ensure_ascii=False), flush=True)
    except Exception as error:
        told = error if isinstance(error, HeadsError) else refusal(error)
        if told is None:
            log.error("a bug in a training", exc_info=error)
        extra = plugins.find_faulty_extra(error)
        fault = f"the extra '{extra}' failed" if extra else "a bug of ours"
        says = str(told or f"{fault}, {type(error).__name__}")
        print(dumps({"event": "error", "says": says}), flush=True)
        raise typer.Exit(2 if told else 1) from None


def _line(event: Any, metric: str) -> dict[str, Any]:
    from heads.events import Progress
    from heads.runs.runner import CellDone
    from heads.training.events import CurvePointTried, SeedFitting

    if isinstance(event, Progress):
        return {"event": "progress", "says": event.says, "share": event.share}
    if isinstance(event, CurvePointTried):
        told = {"event": "trying", "recipe": event.name, "metric": metric, **event.point.as_json()}
        return told | ({metric: event.point.score} if metric == "accuracy" else {})
    if isinstance(event, SeedFitting):
        return {"event": "fitting", "recipe": event.name, "metric": metric, "seed": event.seed}
    if isinstance(event, CellDone):
        own = event.cell.measures
        told = {"event": "cell", "recipe": event.cell.name, "metric": metric, "score": own.score}
        told |= {"low": own.low, "high": own.high, "done": event.done, "planned": event.planned}
        told["seconds"] = event.cell.seconds
        return told | ({metric: own.score} if metric == "accuracy" else {})
    return {"event": "end", "state": event.state, "seconds": event.seconds}
