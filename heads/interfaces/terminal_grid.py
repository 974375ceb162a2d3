"""Runs and leaderboards as tables in a terminal, one of them live."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from heads.data.dataset import Data
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.transferability import MEASURES as ESTIMATES
from heads.events import Progress
from heads.interfaces.boards import behind, split_name
from heads.interfaces.charts import percent
from heads.interfaces.chosen import chosen_says
from heads.interfaces.drawings import count
from heads.interfaces.measured import BRIEF, MEASURES, between, of_metric, titled
from heads.interfaces.sureness import abstained_says, scaled_says
from heads.interfaces.terminal import show, table_of
from heads.runs.cells import Cell
from heads.runs.drill_down import layer_name, layered, mix_of
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.notes import raced
from heads.runs.runner import Done, Event
from heads.study.mteb import Reproduced
from heads.training.search import Trying

WIDE = 110  # columns of a terminal that hold every measure
SHOWN, CLASSES = 10, 20  # lines and classes that are listed
A_SECOND = 4  # times that the live table is drawn anew


def called(cell: Cell) -> str:
    """A recipe; a baseline in brackets."""
    return f"({titled(cell)})" if cell.is_baseline else cell.name


def scored(cell: Cell) -> str:
    """The score of a cell and its 95 % interval."""
    own = cell.measures
    score = of_metric(own.metric)
    return f"{score.shown(own.score)} ({between(own, 'to')})"


def followed(events: Iterator[Event], metric: Metric = "accuracy") -> Leaderboard:
    """Shows a run while it works: what it does, and a grid that fills; its leaderboard.

    Args:
        metric: What its scores are.
    """
    told = SCORES[metric].told
    found: Leaderboard | None = None
    cells: dict[str, Cell] = {}
    says, trying = "Starting", ""
    with Live(console=Console(stderr=True), refresh_per_second=A_SECOND, transient=True) as live:
        for event in events:
            if isinstance(event, Progress):
                says, trying = f"{event.says} ({event.share:.0%})", ""
            elif isinstance(event, Trying):
                trying = f"{event.name}: {told(event.point.score)} on development rows"
            elif isinstance(event, Done):
                cells[event.cell.name] = event.cell
                says = f"{event.done} of {event.planned} cells are done"
            else:
                found = event
            live.update(Group(_grid(cells), Text(says), Text(trying)))
    assert found is not None
    return found


def _grid(cells: Mapping[str, Cell]) -> Table:
    """Readings down, heads across, the score in each cell."""
    shown: dict[str, dict[str, str]] = {}
    for name, cell in cells.items():
        if not cell.is_baseline:
            reading, head = split_name(name)
            own = cell.measures
            shown.setdefault(reading, {})[head] = SCORES[own.metric].told(own.score)
    heads = list(dict.fromkeys(head for row in shown.values() for head in row))
    table = table_of("", *heads)
    for reading, row in shown.items():
        table.add_row(reading, *(row.get(head, "") for head in heads))
    return table


def leaderboard(found: Leaderboard, told: Sequence[str] = ()) -> None:
    """The verdict, then a cell a row, the best first; then what else there is to know.

    Args:
        told: Notes that were printed before, which are not repeated.
    """
    show(*(Text(line, style="bold" if not n else "") for n, line in enumerate(found.verdict)))
    before = {*told, raced(len(found.stopped))}
    notes = [one for one in found.notes if one not in before and one not in found.reading]
    show(*(f"Note: {one}" for one in notes))
    wide = Console().width >= WIDE
    known = {one.name: one for one in MEASURES[found.kind]}
    more = [known[name] for name in BRIEF[found.kind]] if wide else []
    titles = [*(one.heading for one in more), *(["parameters"] if wide else [])]
    score = of_metric(found.metric)
    table = table_of("", score.heading, "95 %", f"against {found.reference}", *titles)
    for cell in found.cells:
        values = [(one, one.of(cell)) for one in more]
        size = [count(cell.parameters) if cell.parameters else ""] if wide else []
        table.add_row(
            Text(called(cell), style="bold" * (cell.name == found.best)),
            score.shown(cell.measures.score),
            between(cell.measures).replace(" ", ""),
            difference(cell),
            *("" if value is None else one.shown(value) for one, value in values),
            *size,
        )
    show(table)
    if any(cell.to_reference and cell.to_reference.differs for cell in found.cells):
        show("* told apart from it, all comparisons taken together (95 %).")
    _layers(found)
    show(*_remarks(found))


def _remarks(found: Leaderboard) -> list[str]:
    """What stands below the table, a sentence or two each."""
    lines = [found.protocol, *_of_best(found), *_raced(found), found.curve_says]
    lines += [f"Before training: {one.says}" for one in found.agreements]
    lines.append(
        f"{found.seconds:,.0f} s in all, {found.forward_seconds:,.0f} s of them reading with "
        f"{found.model} ({found.precision})."
    )
    lines.append(found.reading)
    if found.state != "finished":
        done = len(found.cells) + len(found.stopped)
        lines.append(f"The run is {found.state}: {done} of {found.planned} cells.")
    return [line for line in lines if line]


def _raced(found: Leaderboard) -> list[str]:
    """Whom a race has stopped, the nearest first."""
    if not found.stopped:
        return [note for note in found.notes if note == raced(0)]
    told = [f"{one.recipe}: {behind(one, found.metric)}." for one in found.stopped[:SHOWN]]
    more = len(found.stopped) - SHOWN
    return [raced(len(found.stopped)), *told, f"And {more} others." if more > 0 else ""]


def _of_best(found: Leaderboard) -> list[str]:
    """How the best head was learned, how sure it is, and which layers learned mixes read."""
    lines = [f"{found.best}: {says}"] if found.best and (says := _learned(found)) else []
    if found.best and (scaled := found.cell(found.best).measures.calibration):
        gained = abstained_says(scaled.coverage, found.kind)
        lines.append(f"How sure {found.best} is: {scaled_says(scaled)} {gained}")
    for cell in found.cells:
        shares = [
            f"{layer_name(layer)} {percent(share, 0)}"
            for layer, share in enumerate(mix_of(found, cell.name))
        ]
        lines += [f"{cell.name} has learned to read {', '.join(shares)}."] if shares else []
    return lines


def _learned(found: Leaderboard) -> str:
    """With what settings the best head was learned, the first letter small."""
    says = chosen_says(found.cell(found.best))
    return says[:1].lower() + says[1:]


def _layers(found: Leaderboard) -> None:
    """One pooling and head at several layers: a layer a row, and where the best one is."""
    for one in layered(found):
        score = of_metric(found.metric)
        table = table_of("layer", score.heading, "95 %", *ESTIMATES.values())
        for layer, cell, told in zip(one.layers, one.cells, one.estimates, strict=True):
            own = cell.measures
            before = [f"{getattr(told, name):.3f}" if told else "" for name in ESTIMATES]
            ends = between(own).replace(" ", "")
            table.add_row(layer, score.shown(own.score), ends, *before)
        show(f"{one.recipe}, layer by layer:", table, one.says)


def difference(cell: Cell) -> str:
    """How far a cell is from the reference, and whether the two are told apart."""
    found, name = cell.to_reference, SCORES[cell.measures.metric]
    if found is None:
        return ""
    ends = f"{name.signed(found.low)} to {name.signed(found.high)}"
    return f"{name.signed(found.difference)} ({ends}){'*' if found.differs else ''}"


def data(found: Data) -> None:
    """How a file was read."""
    corpus, dropped = found.corpus, sum(map(len, found.dropped.values()))
    show(f"{corpus.name}: {found.rows_in:,} rows, {len(corpus):,} used, {dropped:,} left out.")
    for reason, lines in found.dropped.items():
        more = " …" if len(lines) > SHOWN else ""
        show(f"Left out, {reason}: {found.unit} {', '.join(map(str, lines[:SHOWN]))}{more}")
    named = {"text": "text", "pair": "second text", "label": "label", "split": "split"}
    named["group"] = "group"
    used = [(says, getattr(found.columns, name)) for name, says in named.items()]
    used += [("label", name) for name in found.columns.labels]
    how = "guessed" if found.guessed else "as named"
    show(f"Columns ({how}): " + ", ".join(f"{says} '{name}'" for says, name in used if name))
    show(f"Labels ({how}): {found.says}")
    if found.guessed and corpus.kind != "one":
        show("Change it with --label, --separator none, --labels or --no-number.")
    _counted(found)
    show(*found.notes, *(f"Note: {one.says}" for one in found.findings))


def _counted(found: Data) -> None:
    """Rows of each class, or how the numbers spread."""
    if found.spread:
        _, quarter, middle, most, _ = (f"{value:.4g}" for value in found.spread)
        show(f"Half of them lie between {quarter} and {most}, the median is {middle}.")
        return
    many = found.corpus.kind == "many"
    table = table_of("label" if many else "class", "rows")
    for name, number in list(found.classes.items())[:CLASSES]:
        table.add_row(Text(name), f"{number:,}")
    show(table)
    if len(found.classes) > CLASSES:
        things = "labels" if many else "classes"
        show(f"And {len(found.classes) - CLASSES:,} other {things}.")


def where(run: RunFolder) -> None:
    """Where a run lies and what can be done with it."""
    show(f"The run is {run.id}: {run.path}")


def side_by_side(found: Sequence[Leaderboard]) -> None:
    """A recipe a row, a run a column."""
    table = table_of("", *(f"{one.data}\n{one.run[-16:]}" for one in found))
    names = {cell.name: called(cell) for one in found for cell in one.cells}
    for name in names:
        row = []
        for one in found:
            cells = [cell for cell in one.cells if cell.name == name]
            row.append(scored(cells[0]) if cells else "")
        table.add_row(Text(names[name]), *row)
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
        score = one["score"]
        told = "" if score is None else f" ({SCORES[one['metric']].told(score)})"
        best = one["best"] + told
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
