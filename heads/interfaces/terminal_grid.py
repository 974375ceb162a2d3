"""Runs and leaderboards as tables in a terminal, one of them live."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from heads.interfaces.drawings import count
from heads.interfaces.terminal import show, table_of
from heads.parts.menu import resolve
from heads.pipeline.grid.play import Trying
from heads.pipeline.measure.paired import Difference
from heads.pipeline.reproduce import Reproduced
from heads.pipeline.runs.cell import Cell
from heads.pipeline.runs.folder import RunFolder
from heads.pipeline.runs.leaderboard import Leaderboard
from heads.pipeline.runs.running import Done, Event
from heads.pipeline.table import Data
from heads.pipeline.training import Progress

NAMES = {"majority": "(always the commonest class)", "tfidf": "(TF-IDF + logistic)"}
WIDE = 110  # columns of a terminal that hold every measure
SHOWN, CLASSES = 10, 20  # lines and classes that are listed
A_SECOND = 4  # times that the live table is drawn anew


def followed(events: Iterator[Event]) -> Leaderboard:
    """Shows a run while it works: what it does, and a grid that fills; its leaderboard."""
    found: Leaderboard | None = None
    cells: dict[str, Cell] = {}
    says, trying = "Starting", ""
    with Live(console=Console(stderr=True), refresh_per_second=A_SECOND, transient=True) as live:
        for event in events:
            if isinstance(event, Progress):
                says, trying = f"{event.says} ({event.share:.0%})", ""
            elif isinstance(event, Trying):
                trying = f"{event.name}: {event.point.accuracy:.1%} on development rows"
            elif isinstance(event, Done):
                cells[event.cell.name] = event.cell
                says = f"{event.done} of {event.planned} cells are done"
            else:
                found = event
            live.update(Group(_grid(cells), Text(says), Text(trying)))
    assert found is not None
    return found


def _grid(cells: Mapping[str, Cell]) -> Table:
    """Readings down, heads across, the accuracy in each cell."""
    orders = {name: resolve(name) for name, cell in cells.items() if not cell.is_baseline}
    heads = list(dict.fromkeys(_head(name) for name in orders))
    table = table_of("", *heads)
    for reading in dict.fromkeys(order.reading for order in orders.values()):
        row = {
            _head(name): cells[name].measures
            for name, order in orders.items()
            if order.reading == reading
        }
        table.add_row(reading, *(f"{row[h].accuracy:.1%}" if h in row else "" for h in heads))
    return table


def _head(name: str) -> str:
    return name.partition("+")[2]


def leaderboard(found: Leaderboard) -> None:
    """The verdict, then a cell a row, the best first."""
    show(*(Text(line, style="bold" if not n else "") for n, line in enumerate(found.verdict)))
    wide = Console().width >= WIDE
    more = ("macro-F1", "log loss", "parameters") if wide else ()
    table = table_of("", "accuracy", "95 %", f"against {found.reference}", *more)
    for cell in found.cells:
        own = cell.measures
        size = count(cell.parameters) if cell.parameters else ""
        table.add_row(
            Text(NAMES.get(cell.name, cell.name), style="bold" * (cell.name == found.best)),
            f"{own.accuracy:.1%}",
            f"{100 * own.low:.1f}–{100 * own.high:.1f}",
            difference(cell.to_reference),
            *((f"{own.macro_f1:.3f}", f"{own.log_loss:.3f}", size) if wide else ()),
        )
    show(table)
    if any(cell.to_reference and cell.to_reference.differs for cell in found.cells):
        show("* told apart from it, all comparisons taken together (95 %).")
    lines = [
        found.protocol,
        found.curve_says,
        *(f"Before training: {one.says}" for one in found.agreements),
    ]
    lines.append(
        f"{found.seconds:,.0f} s in all, {found.forward_seconds:,.0f} s of them reading with "
        f"{found.model} ({found.precision})."
    )
    if found.state != "finished":
        lines.append(f"The run is {found.state}: {len(found.cells)} of {found.planned} cells.")
    show(*(line for line in lines if line))


def difference(found: Difference | None) -> str:
    """The points by which a cell differs, and whether the two are told apart."""
    if found is None:
        return ""
    gap = f"{100 * found.difference:+.1f}".replace("-", "−")
    ends = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}".replace("-", "−")
    return f"{gap} ({ends}){'*' if found.differs else ''}"


def data(found: Data) -> None:
    """How a file was read."""
    corpus, dropped = found.corpus, sum(map(len, found.dropped.values()))
    show(f"{corpus.name}: {found.rows_in:,} rows, {len(corpus):,} used, {dropped:,} left out.")
    for reason, lines in found.dropped.items():
        more = " …" if len(lines) > SHOWN else ""
        show(f"Left out, {reason}: {found.unit} {', '.join(map(str, lines[:SHOWN]))}{more}")
    named = {"text": "text", "pair": "second text", "label": "label", "split": "split"}
    used = [(says, getattr(found.columns, name)) for name, says in named.items()]
    how = "guessed" if found.guessed else "as named"
    show(f"Columns ({how}): " + ", ".join(f"{says} '{name}'" for says, name in used if name))
    table = table_of("class", "rows")
    for name, number in list(found.classes.items())[:CLASSES]:
        table.add_row(Text(name), f"{number:,}")
    show(table)
    if len(found.classes) > CLASSES:
        show(f"And {len(found.classes) - CLASSES:,} other classes.")
    show(*found.notes, *(f"Note: {one.says}" for one in found.findings))


def where(run: RunFolder) -> None:
    """Where a run lies and what can be done with it."""
    show(f"The run is {run.id}: {run.path}")


def side_by_side(found: Sequence[Leaderboard]) -> None:
    """A recipe a row, a run a column."""
    table = table_of("", *(f"{one.data}\n{one.run[-16:]}" for one in found))
    names = dict.fromkeys(cell.name for one in found for cell in one.cells)
    for name in names:
        row = []
        for one in found:
            cells = [cell.measures for cell in one.cells if cell.name == name]
            row.append(
                f"{cells[0].accuracy:.1%} ({cells[0].low:.1%} to {cells[0].high:.1%})"
                if cells
                else ""
            )
        table.add_row(Text(NAMES.get(name, name)), *row)
    for title, value in (("data", "data"), ("base model", "model"), ("best", "best")):
        table.add_row(Text(title), *(Text(str(getattr(one, value))) for one in found))
    show(table)
    if len({(one.data, one.protocol) for one in found}) > 1:
        show("These runs were not scored alike, so their numbers do not compare directly:")
        show(*(f"{one.run}: {one.protocol}" for one in found))


def listed(runs: Sequence[Mapping[str, Any]]) -> None:
    """A run a row, the newest first."""
    if not runs:
        show("There are no runs yet. Write: heads train data.csv")
        return
    wide = Console().width >= WIDE
    table = table_of("run", "cells", "state", "best", *(("data", "base model", "when") * wide))
    for one in runs:
        best = f"{one['best']} ({one['accuracy']:.1%})" if one["accuracy"] is not None else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["created"]))
        row = (one["run"], f"{one['cells']}/{one['planned']}", one["state"], best)
        table.add_row(*map(Text, (*row, *((one["data"], one["model"], when) * wide))))
    show(table)


def reproduced(found: Reproduced) -> None:
    """The published figures beside those computed here."""
    table = table_of(found.name, "here", "published")
    table.add_row("accuracy", repr(found.accuracy), repr(found.published.accuracy))
    table.add_row("macro-F1", repr(found.f1), repr(found.published.f1))
    told = "Equal to every digit." if found.equal else "Not equal."
    show(table, f"{told} Published: {found.published.source}.")
