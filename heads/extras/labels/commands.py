"""The command `heads labels`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from heads.errors import DataError
from heads.extras.labels.verbs import doubtful_labels
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(doubtful_labels)
def labels(
    run: str,
    *,
    recipes: Sequence[str] = (),
    most: int = 20,
    to: Path | None = None,
    all: bool = False,
    excel_safe: bool = False,
) -> Answers:
    """Lists the labels of a run that may be wrong.

    Args:
        run: Its id, or its folder.
        most: How many are printed, the most doubtful first; 0: all of them.
        to: Write them into a new CSV, TSV, JSONL or Parquet file as well.
        all: Write all rows into it, in the order of the file: mend it and train again.
        excel_safe: In CSV and TSV, put ' before cells that a spreadsheet would run as a formula.
    """
    from heads.extras.labels.doubtful_labels import check_new

    if to:
        check_new(to)
    elif all:
        raise DataError("All rows are written into a file, and none is named.", "Add --to FILE.")
    doubtful = doubtful_labels(run, recipes=recipes)
    if to:
        doubtful.save(to, whole=all, excel_safe=excel_safe)
        rows = len(doubtful.spec.corpus) if all else len(doubtful.rows)
        print(f"heads: wrote {rows:,} rows to {to}", file=sys.stderr)
    yield doubtful.as_json(), lambda: cli.tables.show(doubtful.describe(most))
