"""Whatever a user gives as data, a sample, a file, a table in memory or the Hub's, to a `Table`."""

from pathlib import Path
from typing import Any

from heads.data.arrays import beside, is_array, table_of_labels, table_of_vectors
from heads.data.dataset import name_of
from heads.data.files import open_table, place_of
from heads.data.frames import called, is_frame, read_frame
from heads.data.hub_datasets import PREFIX, read_hub
from heads.data.table import VECTOR_COLUMN, Table
from heads.errors import DataError
from heads.settings import Limits

_KNOWN = "Give a sample, a file, a folder, a DataFrame or a Dataset."


def open_source(
    data: Any, limits: Limits, header: bool | None = None, labels: Any = None
) -> tuple[Table, str]:
    """The cells of what a user gives, and what it is called.

    Args:
        data: A sample by name, the path of a file or folder, a table in memory, an array of
            vectors, or the name of a data set of the Hub, such as hub:owner/name.
        header: Whether the first line of a file names the columns; None finds out.
        labels: What stands beside vectors that have no labels: a file, or labels in memory.

    Raises:
        DataError: There is no such thing, or it cannot be read.
        LimitError: It holds more than this place allows.
    """
    table, name = _opened(data, limits, header)
    if labels is None or (isinstance(labels, str) and not labels):
        return table, name
    if not table.vectors:
        what = f"Labels of their own belong beside vectors, and {table.name} has none."
        raise DataError(what, "Put texts and labels into one file.")
    return beside(table, _labels(labels, limits, header)), name


def _labels(labels: Any, limits: Limits, header: bool | None) -> Table:
    if not isinstance(labels, str | Path):
        return table_of_labels(labels)
    return open_table(place_of(labels), limits, header, of_labels=True)


def _opened(data: Any, limits: Limits, header: bool | None) -> tuple[Table, str]:
    if isinstance(data, str) and data.startswith(PREFIX):
        table = read_hub(data, limits)
        return table, table.name
    if isinstance(data, str | Path):
        path = place_of(data)
        return open_table(path, limits, header), name_of(path)
    if is_frame(data):
        return read_frame(data, limits), called(data)
    if is_array(data):
        return table_of_vectors(data, limits), VECTOR_COLUMN
    raise DataError(f"No data can be read from this {type(data).__name__}.", _hint(data))


def _hint(data: object) -> str:
    """What to do with something that is no table yet."""
    if isinstance(data, list | tuple | dict):
        return "Make a table of it: pandas.DataFrame({'text': texts, 'label': labels})."
    return _KNOWN
