"""A grid of heads on one's own data, from the outside: in one call."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from heads.errors import DataError
from heads.parts.models import BUNDLED
from heads.pipeline.loading import load
from heads.pipeline.runs.asked import Question
from heads.pipeline.runs.folder import find
from heads.pipeline.runs.leaderboard import Leaderboard
from heads.pipeline.runs.running import Event, begin, working
from heads.pipeline.table import Columns, Data, place_of
from heads.pipeline.table import read as read_file
from heads.pipeline.tokens import with_token_findings
from heads.settings import Contest, Limits
from heads.settings import limits as limits_here


def read(
    data: str | Path,
    columns: Columns | None = None,
    *,
    header: bool | None = None,
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Data:
    """Reads a file of texts and labels, with an account of every row and warnings.

    Args:
        data: A sample, or a CSV, TSV, JSONL, JSON or Parquet file, or a `datasets` folder.
        columns: Which column is what; guessed, if not given.
        header: Whether the first line names the columns; found out, if not given.
        model: The base model whose tokenizer says which texts are cut.

    Raises:
        DataError: It cannot be used; one sentence with the line where it is known.
        LimitError: It holds more than this place allows.
    """
    path = place_of(data)
    limits = limits or limits_here()
    found = read_file(path, limits, columns, header)
    return with_token_findings(found, load(model, limits=limits))


def train_grid(
    data: str | Path | Data,
    *,
    recipes: Sequence[str] = (),
    grid: str = "small",
    test: str | Path | Data | None = None,
    model: str = BUNDLED,
    contest: Contest | None = None,
    out: str | Path | None = None,
) -> Leaderboard:
    """Trains every recipe of a grid on the same rows and compares them.

    Args:
        data: A file, a sample, or what `heads.read` gave.
        recipes: The heads, for example ``["mean+linear", "cls+roberta"]``.
        grid: "small" or "full", where no recipes are given.
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
    question = Question(
        data=data if isinstance(data, Data) else read(data, model=model),
        test=test if isinstance(test, Data) or test is None else read(test, model=model),
        recipes=recipes,
        grid=grid,
        model=model,
        contest=contest or Contest(),
    )
    run = begin(question, limits=limits, out=Path(out) if out else None)
    return _last(working(run, limits))


def resume(run: str) -> Leaderboard:
    """Goes on with a run that was stopped; what is done is not done again.

    Raises:
        DataError: There is no such run, or another process works on it.
    """
    return _last(working(find(run), limits_here()))


def _last(events: Iterator[Event]) -> Leaderboard:
    for event in events:
        if isinstance(event, Leaderboard):
            return event
    raise DataError("The run ended without a leaderboard.", "Resume it.")
