"""What `heads read`, `train`, `runs`, `work` and `reproduce` do."""

import argparse
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from heads.errors import DataError
from heads.interfaces.cli.commands import config_of, last_of, print_json
from heads.settings import ExperimentConfig, limits

# --- Files that commands are given: read as the flags say, and shown by `heads read`.

HEADERS = {"yes": True, "no": False, "guess": None}


def look(asked: argparse.Namespace) -> None:
    """Shows how a file is read: columns, rows used and left out, classes, warnings."""
    found = read(asked, asked.data)
    if asked.json:
        print_json(found.as_json())
    else:
        from heads.interfaces.cli import tables

        tables.data(found)


def read(asked: argparse.Namespace, name: str) -> Any:
    """A sample or a file, its columns as the user named them."""
    from heads.backbone.loading import load
    from heads.data.columns import guess
    from heads.data.dataset import data_of, name_of
    from heads.data.files import open_table, place_of
    from heads.features.truncation import with_token_findings

    path = place_of(name)
    table = open_table(path, limits(), HEADERS[asked.header])
    said = _said(asked)
    columns = guess(table, said) if said else None
    found = data_of(table, limits(), columns, name=name_of(path))
    return with_token_findings(found, load(asked.model, limits=limits()))


def read_test(asked: argparse.Namespace, data: Any) -> Any:
    """The rows that are scored; their columns are those of the data, where they are called so."""
    from heads.data.columns import fitting
    from heads.data.dataset import data_of, name_of
    from heads.data.files import open_table, place_of

    path = place_of(asked.test)
    table = open_table(path, limits(), HEADERS[asked.header])
    return data_of(table, limits(), fitting(data.columns, table), name=name_of(path))


def _said(asked: argparse.Namespace) -> Any:
    """What the flags say of the columns."""
    from heads.data.table import ColumnHints, listed

    return ColumnHints(
        text=asked.text,
        label=asked.label,
        pair=asked.pair,
        split=asked.split,
        separator={"": None, "none": ""}.get(asked.separator, asked.separator),
        labels=listed(asked.labels),
        number=asked.number,
        order=listed(asked.order),
        group=asked.group,
    )


def train(asked: argparse.Namespace) -> None:
    """Trains a grid of heads on a file and prints the leaderboard; Ctrl+C keeps what is done."""
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import working

    run, told = (_resumed(asked), []) if asked.resume else _begun(asked)
    events = working(run, limits())
    try:
        found = _followed(run, events, live=sys.stderr.isatty() and not asked.json)
    except KeyboardInterrupt:
        events.close()  # the run ends first, wherever the interruption came
        _print(leaderboard(run), run, asked, told)
        print(
            f"heads: stopped; go on with heads train --resume {asked.out or run.id}",
            file=sys.stderr,
        )
        raise
    _print(found, run, asked, told)


def _print(found: Any, run: Any, asked: argparse.Namespace, told: Sequence[str]) -> None:
    """Prints the leaderboard, without the notes that were told before."""
    if asked.json:
        print_json(found.as_json() | {"folder": str(run.path)})
        return
    from heads.interfaces.cli import tables

    tables.leaderboard(found, told)
    tables.where(run)


def _metric(run: Any) -> Any:
    """What the scores of a run are."""
    from heads.runs.spec import load

    return load(run).metric


def _followed(run: Any, events: Iterator[Any], *, live: bool) -> Any:
    """The leaderboard at the end; a live table, or where nobody watches a line for every cell."""
    from heads.interfaces.cli.tables import called, followed, scored
    from heads.runs.runner import CellDone
    from heads.runs.spec import load

    if live:
        return followed(events, load(run))
    event = None
    for event in events:
        if isinstance(event, CellDone):
            says = f"{event.done}/{event.planned} {called(event.cell)}: {scored(event.cell)}"
            print(f"heads: {says}", file=sys.stderr, flush=True)
    return event


def _resumed(asked: argparse.Namespace) -> Any:
    """The run that is to go on; it keeps what it was asked."""
    from heads.runs.folder import find

    settings = any(getattr(asked, one.name) is not None for one in fields(ExperimentConfig))
    given = (asked.data, asked.test, asked.recipe, asked.grid, asked.out, asked.pairs, asked.loss)
    if any(given) or settings:
        what = "A run that goes on keeps its data, its recipes and its settings."
        raise DataError(what, "Write heads train --resume RUN alone, or begin a new run.")
    return find(asked.resume)


def _begun(asked: argparse.Namespace) -> tuple[Any, list[str]]:
    """A new run, and what was told of its files."""
    from heads.data.table import listed
    from heads.parts.resolved_recipe import JOINT, SOFTMAX
    from heads.runs.runner import begin, foreseen
    from heads.runs.spec import RunRequest

    if not asked.data:
        raise DataError("No data are given.", "Write heads train data.csv, or --resume RUN.")
    if asked.recipe and asked.grid:
        raise DataError("Recipes are chosen, and a grid as well.", "Leave out -r or --grid.")
    config = config_of(asked)  # what is wrong with it is said before anything is read
    data = read(asked, asked.data)
    test = read_test(asked, data) if asked.test else None
    told = _tell(data, asked.data)
    told += [f"In the test file: {says}" for says in _tell(test, asked.test)] if test else []
    request = RunRequest(
        data=data,
        test=test,
        recipes=asked.recipe or (),
        grid=asked.grid or "small",
        pairs=listed(asked.pairs) or (JOINT,),
        losses=listed(asked.loss) or (SOFTMAX,),
        model=asked.model,
        config=config,
    )
    run = begin(request, limits=limits(), out=asked.out)
    print(f"heads: {foreseen(run, limits()).says}", file=sys.stderr)
    return run, told


def _tell(data: Any, name: str) -> list[str]:
    """Says how a file was read, and warns of what it holds."""
    told = [*data.notes, *(finding.says for finding in data.findings)]
    for line in told:
        print(f"heads: {name}: {line}", file=sys.stderr)
    return told


def work(asked: argparse.Namespace) -> None:
    """Works on a run and prints an event a line, as JSON: the page's worker process."""
    from heads.caching import refusal
    from heads.errors import HeadsError
    from heads.runs.folder import RunFolder
    from heads.runs.runner import working

    run = RunFolder(path=asked.folder)
    try:
        metric = _metric(run)
        for event in working(run, limits()):
            print(json.dumps(_line(event, metric), ensure_ascii=False), flush=True)
    except Exception as error:
        told = error if isinstance(error, HeadsError) else refusal(error)
        ours = told is None
        says = f"a bug of ours, {type(error).__name__}" if ours else str(told)
        print(json.dumps({"event": "error", "says": says}), flush=True)
        if ours:
            traceback.print_exc()  # for the log of whoever started this
        raise


def _line(event: Any, metric: str) -> dict[str, Any]:
    from heads.events import Progress
    from heads.runs.runner import CellDone
    from heads.training.search import CurvePointTried

    if isinstance(event, Progress):
        return {"event": "progress", "says": event.says, "share": event.share}
    if isinstance(event, CurvePointTried):
        told = {"event": "trying", "recipe": event.name, "metric": metric, **event.point.as_json()}
        return told | ({metric: event.point.score} if metric == "accuracy" else {})
    if isinstance(event, CellDone):
        own = event.cell.measures
        told = {"event": "cell", "recipe": event.cell.name, "metric": metric, "score": own.score}
        told |= {"low": own.low, "high": own.high, "done": event.done, "planned": event.planned}
        return told | ({metric: own.score} if metric == "accuracy" else {})
    return {"event": "end", "state": event.state, "seconds": event.seconds}


def runs(asked: argparse.Namespace) -> None:
    """Lists runs, shows or compares some, deletes or exports."""
    from heads.interfaces.cli import tables
    from heads.runs.folder import all_runs, find
    from heads.runs.leaderboard import facts_of, leaderboard

    if asked.delete:
        _delete(asked.names)
        return
    chosen = [find(name) for name in asked.names]
    if chosen:
        found = [leaderboard(run) for run in chosen]
        if asked.json:
            values = [one.as_json() for one in found]
            print_json(values[0] if len(values) == 1 else values)
        elif len(found) == 1:
            tables.leaderboard(found[0])
        else:
            tables.side_by_side(found)
        return
    listed = [facts_of(run) for run in all_runs()]
    if asked.json:
        print_json(listed)
    else:
        tables.listed(listed)


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


def reproduce(asked: argparse.Namespace) -> None:
    """Computes a published figure anew."""
    from heads.interfaces.cli import tables
    from heads.study.mteb import reproduce as again

    found = last_of(again(asked.name, asked.data, limits()))
    if asked.json:
        print_json(found.as_json())
    else:
        tables.reproduced(found)
