"""The first sheet of a workbook is read as it is shown, or one sentence says why not."""

import contextlib
import datetime as dt
import hashlib
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from read_tables import says

from heads.data.dataset import read
from heads.data.files import open_stream, open_table
from heads.data.formats import excel_files
from heads.data.table import Columns
from heads.errors import DataError, HeadsError, LimitError
from heads.interruption import Interrupted, interruptible
from heads.settings import PUBLIC, use_limits

ROWS = [[f"some words {row} of many", "xy"[row % 2]] for row in range(8)]
NAMED = [["text", "label"], *ROWS]
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    return partial(workbook, tmp_path / "t.xlsx")


def workbook(path: Path, rows: Sequence[Sequence[Any]], more: Callable = lambda _: None) -> Path:
    """Saves rows as the first sheet of a workbook, to which more may be done."""
    book = Workbook()
    sheet: Any = book.active
    for row in rows:
        sheet.append(row)
    more(book)
    book.save(path)
    return path


def with_part(path: Path, **parts: str) -> Path:
    """A workbook with a part in the place of one of its own, such as sheet1 or styles."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, old in found.items():
            archive.writestr(name, parts.get(Path(name).stem, old))
    return path


def written_bytes(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def sheet_of(rows: str) -> str:
    return f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>"


def test_a_sheet_is_read_with_its_row_numbers(save: Callable[..., Path]) -> None:
    data = read(save(NAMED))
    assert data.columns == Columns(text="text", label="label")
    assert data.corpus.texts == tuple(text for text, _ in ROWS)
    assert (data.corpus.lines, data.unit) == (tuple(range(2, 10)), "row")
    assert data.notes == ("Read the sheet 'Sheet' of the Excel workbook.",)
    path = save(NAMED)
    path = path.rename(path.with_suffix(".csv"))  # it is known by its content
    assert (open_table(path).rows, open_table(path).findings) == (ROWS, ())


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r_").filter(
        lambda letter: not ILLEGAL_CHARACTERS_RE.match(letter) and letter not in "\ufffe\uffff"
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=10))
def test_a_table_of_texts_comes_back(folder: Path, rows: list[tuple[str, str]]) -> None:
    book = Workbook()
    sheet: Any = book.active
    for at, row in enumerate([("text", "label"), *rows], start=1):
        for column, value in enumerate(row, start=1):
            sheet.cell(at, column).value = value
            sheet.cell(at, column).data_type = "s"  # a text that begins with = is no formula
    book.save(folder / "t.xlsx")
    filled = {at: row for at, row in enumerate(rows, start=2) if any(map(str.strip, row))}
    kept = {at: row for at, row in filled.items() if row != ("text", "label")}
    if not kept:
        with pytest.raises(DataError):
            open_table(folder / "t.xlsx", header=True)
        return
    table = open_table(folder / "t.xlsx", header=True)
    assert table.columns == ("text", "label")
    assert [tuple(row) for row in table.rows] == list(kept.values())
    assert table.lines == list(kept)


def test_values_are_read_as_they_are_shown(save: Callable[..., Path]) -> None:
    rows = [
        ["text", "label", "more"],
        ["a", 1.0, dt.datetime(2024, 1, 2)],
        ["b", True, dt.datetime(2024, 1, 2, 3, 4)],
        ["c", 1.5, dt.time(1, 2)],
        ["007", 10**12, dt.date(2024, 1, 5)],
        ["d_x000D_\ne", "NA", 0.1],
    ]
    assert open_table(save(rows)).rows == [
        ["a", "1", "2024-01-02"], ["b", "true", "2024-01-02 03:04:00"], ["c", "1.5", "01:02:00"],
        ["007", "1000000000000", "2024-01-05"], ["d\r\ne", "NA", "0.1"],
    ]  # fmt: skip


def test_errors_and_formulas_without_results_are_told(save: Callable[..., Path]) -> None:
    data = read(save([*NAMED, ["#N/A", "x"], ["some words", "=1+1"]]))
    assert data.dropped == {"no text": (10,), "no label": (11,)}
    assert says(data, "errors").startswith(
        "1 row with an error such as #N/A, read as empty: row 10"
    )
    assert "results were not saved, read as empty: row 11." in says(data, "formulas")
    with pytest.raises(DataError):
        read(save([["=A1"], ["=A2"]]))


def test_the_result_of_a_formula_is_read(save: Callable[..., Path]) -> None:
    cell = '<c r="{}{}" t="str"><f>CONCAT(1)</f><v>{}</v></c>'
    rows = "".join(
        f"<row r='{at}'>{cell.format('A', at, text)}{cell.format('B', at, label)}</row>"
        for at, (text, label) in enumerate(NAMED, start=1)
    )
    table = open_table(with_part(save([]), sheet1=sheet_of(rows)))
    assert (table.rows, table.findings) == (ROWS, ())


def test_a_table_may_stand_anywhere_below_a_title(save: Callable[..., Path]) -> None:
    rows = [[], ["Reviews"], [None, None, "of 2024"], [], *([None, *row] for row in NAMED)]
    path = save(rows)
    stream = open_stream(path)
    assert (stream.columns, stream.rows) == (("column 1", "text", "label"), 8)
    data = read(path)
    assert data.names == ("text", "label")
    assert data.corpus.lines == tuple(range(6, 14))
    assert says(data, "title").startswith("Took 'Reviews of 2024' above the names")


def test_names_of_columns_may_lack_and_merged_cells_hold_their_value_once(save: Callable) -> None:
    data = read(save(ROWS))
    assert (len(data.corpus), data.has_header) == (8, False)
    assert says(data, "header").startswith("The first row looks like data")
    data = read(save(NAMED, lambda book: book.worksheets[0].merge_cells("B2:B4")))
    assert data.dropped == {"no label": (3, 4)}


def test_which_sheet_is_read_is_noted(save: Callable[..., Path]) -> None:
    def two_more(book: Workbook) -> None:
        for _ in range(2):
            book.create_sheet().append(["nothing"])

    def hidden(book: Workbook) -> None:
        book.worksheets[0].sheet_state = "hidden"
        sheet = book.create_sheet("Two")
        for row in NAMED:
            sheet.append(row)

    assert read(save(NAMED, two_more)).notes == (
        "Read the sheet 'Sheet' of the Excel workbook, the first; 2 other sheets were left out.",
    )
    assert read(save([["nothing"]], hidden)).notes == (
        "Read the sheet 'Two' of the Excel workbook, the first that is not hidden; "
        "1 other sheet was left out.",
    )


def archive(path: Path, **parts: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml"), text)
    return path


def locked(path: Path) -> Path:
    """Says of its parts that they need a password."""
    raw = bytearray(workbook(path, NAMED).read_bytes())
    at = raw.find(b"PK\x01\x02")
    raw[at + 8] |= 1
    path.write_bytes(raw)
    return path


def liar(path: Path) -> Path:
    """Says of a large part that it is small."""
    with_part(workbook(path, NAMED), sheet1=sheet_of(" " * 3_000_000))
    raw = path.read_bytes()
    path.write_bytes(
        raw.replace(len(sheet_of(" " * 3_000_000)).to_bytes(4, "little"), b"\x63\0\0\0")
    )
    return path


ENTITIES = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaa'>]>" + sheet_of(
    "<row r='1'><c t='inlineStr'><is><t>&a;&a;&a;</t></is></c></row>"
)
REFUSED: dict[str, Callable[[Path], Path]] = {
    "zip": lambda path: archive(path, a="b"),
    "document": lambda path: archive(path, word__document_xml="", **{"[Content_Types].xml": ""}),
    "open document": lambda path: archive(path, mimetype="x"),
    "binary": lambda path: archive(path, **{"xl/workbook.bin": ""}),
    "password": locked,
    "hollow": lambda path: archive(path, xl__workbook_xml="<"),
    "liar": liar,
    "entities": lambda path: with_part(workbook(path, NAMED), sheet1=ENTITIES),
    "empty": lambda path: workbook(path, []),
    "far": lambda path: workbook(path, NAMED, lambda book: book.active.cell(9, 16_384, "x")),
    "bomb": lambda path: with_part(workbook(path, NAMED), sheet1=" " * 60_000_000),
    "styles": lambda path: with_part(workbook(path, NAMED), styles=" " * 3_000_000),
    "no rows": lambda path: with_part(workbook(path, NAMED), sheet1=sheet_of(
        "<row r='999999999999'><c><v>1</v></c></row>")),
    "old": lambda path: written_bytes(path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
}  # fmt: skip
LIMITED = {"far", "bomb", "styles"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_workbook_to_read_gets_one_sentence(tmp_path: Path, name: str) -> None:
    path = REFUSED[name](tmp_path / "t.xlsx")
    for read_file in (read, open_stream):
        kind = LimitError if name in LIMITED else DataError
        with use_limits(PUBLIC), pytest.raises(kind) as refused:
            read_file(path)
        assert str(refused.value).isprintable()
        assert refused.value.hint


def test_macros_are_not_run_and_do_not_matter(tmp_path: Path) -> None:
    path = workbook(tmp_path / "t.xlsm", NAMED)
    with zipfile.ZipFile(path) as file:
        types = file.read("[Content_Types].xml").decode()
    kind = "application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    plain = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    with_part(path, **{"[Content_Types]": types.replace(plain, kind)})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("xl/vbaProject.bin", b"macros")
    assert len(read(path).corpus) == 8


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_a_damaged_workbook_is_read_or_refused(folder: Path, place: int, byte: int, cut: int):
    good = folder / "good.xlsx"
    if not good.exists():
        workbook(good, NAMED)
    raw = bytearray(good.read_bytes())
    raw[place % len(raw)] = byte
    path = folder / "hurt.xlsx"
    path.write_bytes(raw[: len(raw) - cut % len(raw) if cut % 3 == 0 else None])
    with contextlib.suppress(HeadsError):
        read(path)


def test_a_damaged_sheet_that_is_not_shown_does_not_matter(tmp_path: Path) -> None:
    def add(book: Workbook) -> None:
        sheet = book.create_sheet("Other")
        for number in range(5_000):
            sheet.append([hashlib.sha256(bytes(number)).hexdigest()])

    rows = [("text", "label"), *[(f"text {number}", "yn"[number % 2]) for number in range(9)]]
    path = workbook(tmp_path / "two.xlsx", rows, add)
    content = bytearray(path.read_bytes())
    end = content.index(b"PK\3\4", content.index(b"xl/worksheets/sheet2.xml"))  # the next part
    content[end - 500 : end - 400] = bytes(100)
    path.write_bytes(content)
    assert len(open_table(path).rows) == len(rows) - 1


# --- Workbooks over which a parser takes minutes, in public mode.


ATTRIBUTES = [f'a{number}="1"' for number in range(400_000)]


@pytest.mark.parametrize(
    "rows",
    [
        f'<row r="1"><c r="A1" {" ".join(ATTRIBUTES)}/></row>',
        "".join(f'<row r="{n}">{"<c/>" * 2_000}</row>' for n in range(1, 1_501)),
        f'<row r="1">{"<c/>" * 3_000_000}</row>',
    ],
    ids=["attributes", "empty cells", "a wide row"],
)
def test_a_workbook_of_millions_of_cells_is_refused_at_once(
    rows: str, save: Callable[..., Path], seconds: Callable[[], float]
) -> None:
    path = with_part(save(NAMED), sheet1=sheet_of(rows))
    start = seconds()
    with use_limits(PUBLIC), pytest.raises(LimitError):
        open_table(path)
    assert seconds() - start < 3


def test_reading_a_workbook_ends_with_its_seconds_and_when_nobody_waits(
    save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f'<row r="{n}">{"<c/>" * 40}</row>' for n in range(1, 10_001))
    path = with_part(save(NAMED), sheet1=sheet_of(rows))
    clock = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(excel_files, "thread_time", lambda: next(clock))
        with use_limits(PUBLIC), pytest.raises(LimitError):
            open_table(path)

    def stop() -> None:
        raise Interrupted

    with interruptible(stop), pytest.raises(Interrupted):
        open_table(path)


@pytest.mark.slow
def test_the_largest_usual_sheet_of_a_public_place_is_read(save: Callable[..., Path]) -> None:
    rows = [["text", "label"], *([f"text {n}", "xy"[n % 2]] for n in range(PUBLIC.rows))]
    with use_limits(PUBLIC):
        assert len(open_table(save(rows)).rows) == PUBLIC.rows
