"""What is written is read again, cell for cell, and by a spreadsheet never run."""

import csv
import os

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heads.data.files import open_table
from heads.data.formats.saving import KINDS, check_new, save
from heads.data.table import guard_cell, unguard_cell
from heads.errors import DataError
from heads.interfaces.web.guards import as_csv

# No control characters, which a spreadsheet does not keep, and no spaces at the ends.
TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co"), include_characters="\n"), min_size=1
).filter(lambda text: text.strip() == text and text)


@given(
    rows=st.lists(
        st.tuples(TEXTS, st.sampled_from(["good", "=1+1", "'=x", "-1", "'-1", "a,b"])), min_size=1
    )
)
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("kind", KINDS)
def test_cells_come_back(tmp_path_factory, kind, rows):
    path = tmp_path_factory.mktemp("saved") / f"rows{kind}"
    lines = [[*row, n] for n, row in enumerate(rows)]
    save(path, ["text", "label", "line"], lines, excel_safe=True)
    table = open_table(path, True)
    read = [[unguard_cell(cell) if table.spelled else cell for cell in row] for row in table.rows]
    assert table.columns == ("text", "label", "line")
    assert [(row[0], row[1]) for row in read] == [tuple(row) for row in rows]


@pytest.mark.parametrize("excel_safe", [False, True])
@pytest.mark.parametrize("kind", [".csv", ".tsv"])
def test_no_cell_of_a_spreadsheet_is_a_formula_where_that_is_asked_for(tmp_path, kind, excel_safe):
    cells = ["=1+1", "'=x", "+1+1x", "-1", "@cmd", "plain"]
    save(tmp_path / f"x{kind}", ["=name"], [[cell] for cell in cells], excel_safe=excel_safe)
    with (tmp_path / f"x{kind}").open(encoding="utf-8-sig", newline="") as file:
        written = [cell for (cell,) in csv.reader(file)]
    assert written == [guard_cell(c) if excel_safe else c for c in ("=name", *cells)]


def test_a_label_that_is_a_number_is_the_same_for_everybody(tmp_path):
    rows = [["a", "-1"], ["b", "+1.5e3"], ["c", "-1+1"]]
    save(tmp_path / "x.csv", ["text", "label"], rows, excel_safe=True)
    assert pd.read_csv(tmp_path / "x.csv", dtype=str)["label"].tolist() == ["-1", "+1.5e3", "'-1+1"]
    assert as_csv(["label"], [["-1"], ["-x"]]) == '\ufeff"label"\r\n"-1"\r\n"-x"\r\n'


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no such modes")
@pytest.mark.parametrize("kind", KINDS)
def test_others_may_read_what_was_saved(tmp_path, kind):
    before = os.umask(0o022)
    try:
        save(tmp_path / "new" / f"x{kind}", ["text"], [["a"]])
    finally:
        os.umask(before)
    assert (tmp_path / "new" / f"x{kind}").stat().st_mode & 0o777 == 0o644


def test_a_name_says_what_is_written(tmp_path):
    check_new(tmp_path / "X.CSV")
    with pytest.raises(DataError):
        check_new(tmp_path / "x")
    (tmp_path / "x.csv").touch()
    with pytest.raises(DataError):
        check_new(tmp_path / "x.csv")
