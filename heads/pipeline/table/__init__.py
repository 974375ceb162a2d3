"""Files of texts and labels: read whole, never guessed in silence, every row accounted for."""

from heads.pipeline.table.cells import LISTS, guard_cell, listed, unguard_cell
from heads.pipeline.table.data import Data, data_of, name_of, read
from heads.pipeline.table.guess import guess
from heads.pipeline.table.kinds import flag_columns
from heads.pipeline.table.opening import open_table, place_of
from heads.pipeline.table.sheet import ColumnHints, Columns, Finding, Table

__all__ = [
    "LISTS", "ColumnHints", "Columns", "Data", "Finding", "Table", "data_of", "flag_columns", "guard_cell",
    "guess", "listed", "name_of", "open_table", "place_of", "read", "unguard_cell",
]  # fmt: skip
