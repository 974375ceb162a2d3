"""Files of texts and labels: read whole, never guessed in silence, every row accounted for."""

from heads.data.columns import guess
from heads.data.dataset import Data, data_of, name_of, read
from heads.data.files import open_table, place_of
from heads.data.labels import flag_columns
from heads.data.table import (
    LISTS,
    ColumnHints,
    Columns,
    Finding,
    Table,
    guard_cell,
    listed,
    unguard_cell,
)

__all__ = [
    "LISTS", "ColumnHints", "Columns", "Data", "Finding", "Table", "data_of", "flag_columns", "guard_cell",
    "guess", "listed", "name_of", "open_table", "place_of", "read", "unguard_cell",
]  # fmt: skip
