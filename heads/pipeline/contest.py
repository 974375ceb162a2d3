"""A grid of heads on one's own data, from the outside: in one call."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from heads.backbone.loading import load
from heads.backbone.models import BUNDLED
from heads.data import columns as guess
from heads.data.dataset import Data, data_of, name_of
from heads.data.dataset import read as read_file
from heads.data.files import open_table, place_of
from heads.data.table import ColumnHints, Columns, Table
from heads.errors import DataError
from heads.features.truncation import with_token_findings
from heads.parts.resolved import JOINT, SOFTMAX
from heads.runs.folder import find
from heads.runs.leaderboard import Leaderboard
from heads.runs.runner import Event, begin, working
from heads.runs.spec import Question
from heads.settings import Contest, Limits
from heads.settings import limits as limits_here


def read(
    data: str | Path,
    columns: Columns | None = None,
    *,
    header: bool | None = None,
    group: str = "",
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Data:
    """Reads a file of texts and labels, with an account of every row and warnings.

    Args:
        data: A sample, or a CSV, TSV, JSONL, JSON or Parquet file, or a `datasets` folder.
        columns: Which column is what; guessed, if not given.
        header: Whether the first line names the columns; found out, if not given.
        group: The column that says which rows belong together, such as their author: no split
            parts them. The other columns are still guessed, if not given.
        model: The base model whose tokenizer says which texts are cut.

    Raises:
        DataError: It cannot be used; one sentence with the line where it is known.
        LimitError: It holds more than this place allows.
    """
    path = place_of(data)
    limits = limits or limits_here()
    if group:
        table = open_table(path, limits, header)
        columns = replace(columns or guess(table, ColumnHints(group=group)), group=group)
        found = data_of(table, limits, columns, name=name_of(path))
    else:
        found = read_file(path, limits, columns, header)
    return with_token_findings(found, load(model, limits=limits))


def train_grid(
    data: str | Path | Data,
    *,
    recipes: Sequence[str] = (),
    grid: str = "small",
    test: str | Path | Data | None = None,
    group: str = "",
    pairs: Sequence[str] = (JOINT,),
    losses: Sequence[str] = (SOFTMAX,),
    model: str = BUNDLED,
    contest: Contest | None = None,
    out: str | Path | None = None,
) -> Leaderboard:
    """Trains every recipe of a grid on the same rows and compares them.

    Args:
        data: A file, a sample, or what `heads.read` gave.
        recipes: The heads, for example ``["mean+linear", "cls+roberta"]``.
        grid: Where no recipes are given: "small" or "full"; "layers" ("layers:cls"), every layer;
            "heads" ("heads:cls"), every head on one reading; "poolings" ("poolings:mlp"), every
            pooling that is not learned under one head.
        group: The column of what belongs together, see `heads.read`.
        pairs: How two texts enter: "joint", "siamese", "features" (all seven), or by name.
        losses: Where a row has one class: "softmax", "ovr" (one versus the rest), "ordinal".
        test: Rows that are scored; without them some of the data are held out, several times.
        model: The bundled base model, a Hub id, or a folder.
        contest: Seeds, splits and the like; see `heads.Contest`.
        out: A new folder for the run; without it the run is kept where runs are kept.

    Returns:
        The leaderboard: `.verdict`, `.cells`, `.best`, `.classifier(name)`.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    limits = limits_here()
    if isinstance(data, Data) and group and group != data.columns.group:
        what = "The rows are read already, without a column of groups."
        raise DataError(what, f"Write heads.read(…, group={group!r}).")
    rows = data if isinstance(data, Data) else read(data, group=group, model=model)
    question = Question(
        data=rows,
        test=_scored(test, rows, limits),
        recipes=recipes,
        grid=grid,
        pairs=pairs,
        losses=losses,
        model=model,
        contest=contest or Contest(),
    )
    return _leaderboard(
        working(begin(question, limits=limits, out=Path(out) if out else None), limits)
    )


def _scored(test: str | Path | Data | None, data: Data, limits: Limits) -> Data | None:
    """The rows to be scored, read as the data were."""
    if isinstance(test, Data) or test is None:
        return test
    path = place_of(test)
    table = open_table(path, limits)
    return data_of(table, limits, fitting(data.columns, table), name=name_of(path))


def fitting(columns: Columns, table: Table) -> Columns | None:
    """The columns of the data for a file that is to be its test; None where they are not there.

    Its classes need no order of their own, and it need not say what is a test or a group.
    """
    columns = replace(
        columns,
        split=columns.split if columns.split in table.columns else "",
        group=columns.group if columns.group in table.columns else "",
    )
    if all(name in table.columns for name in columns.used):
        return replace(columns, order=())
    return None


def resume(run: str) -> Leaderboard:
    """Goes on with a run that was stopped; what is done is not done again.

    Raises:
        DataError: There is no such run, or another process works on it.
    """
    return _leaderboard(working(find(run), limits_here()))


def _leaderboard(events: Iterator[Event]) -> Leaderboard:
    for event in events:
        if isinstance(event, Leaderboard):
            return event
    raise DataError("The run ended without a leaderboard.", "Resume it.")
