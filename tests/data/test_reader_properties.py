"""What holds for every table: it comes back as it was written, or with a sentence that says why."""

import csv
import io
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heads.data.corpus import check_text
from heads.data.dataset import Data, data_of, read
from heads.data.files import open_table
from heads.data.table import Columns, guard_cell, unguard_cell
from heads.errors import HeadsError

QUICK = settings(max_examples=150)
# All letters but those that no file can hold, and zero, which is counted as a control character.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PLAIN = st.text("ab ,;|\t\"'\n\r\\éß€#=", max_size=12)
ROWS = st.lists(st.tuples(TEXT | PLAIN, TEXT | PLAIN), min_size=1, max_size=12)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"]
QUOTINGS = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def is_utf8(raw: bytes) -> bool:
    return raw.decode("utf-8", "ignore").encode() == raw


def reading(path: Path) -> tuple[Data | None, str]:
    """What a file is read as, or the sentence that refuses it."""
    try:
        return read(path), ""
    except HeadsError as error:
        return None, str(error)


def written(rows: list[tuple[str, str]], delimiter: str, quoting: int, encoding: str) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting)  # pyright: ignore[reportArgumentType]
    writer.writerows([("text", "label"), *rows])
    return file.getvalue().encode(encoding, "replace" if encoding == "cp1252" else "strict")


@QUICK
@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from(QUOTINGS),
    encoding=st.sampled_from(ENCODINGS),
)
@example(rows=[("a", "b\nc\td")], delimiter="\t", quoting=csv.QUOTE_MINIMAL, encoding="utf-8")
@example(rows=[('\\"', "x"), ("a", 'b\\",')], delimiter=",", quoting=0, encoding="utf-8")
def test_a_written_table_comes_back(folder, rows, delimiter, quoting, encoding) -> None:
    path = folder / "table.csv"
    path.write_bytes(written(rows, delimiter, quoting, encoding))
    if encoding == "cp1252":
        # Some such bytes are good UTF-8 too, and then they are read as that.
        codec = "utf-8" if is_utf8(path.read_bytes()) else encoding
        rows = [tuple(c.encode(encoding, "replace").decode(codec) for c in row) for row in rows]
    try:
        table = open_table(path)
    except HeadsError as error:
        said = str(error)
        # Only bytes that may be anything, or hardly any letters, are refused.
        assert "not UTF-8" in said or "damaged letters" in said or "not a text table" in said
        return
    assert table.columns == ("text", "label")
    if any(finding.kind == "quotes" for finding in table.findings):
        return  # said aloud: quotes were taken as they stand
    assert [tuple(row) for row in table.rows] == [row for row in rows if row != table.columns]


@QUICK
@given(rows=ROWS)
def test_every_row_is_used_or_dropped_for_a_reason(folder, rows) -> None:
    path = folder / "account.csv"
    path.write_bytes(written([("one", "x"), *rows, ("two", "y")], ",", 0, "utf-8"))
    data, said = reading(path)
    if data is None:
        assert "not a text table" in said or "longer than 100" in said
        return
    dropped = [line for lines in data.dropped.values() for line in lines]
    assert data.rows_in == len(rows) + 2 == len(data.corpus) + len(dropped)
    assert not set(dropped) & set(data.corpus.lines)
    assert sum(data.classes.values()) == sum(map(len, data.corpus.targets))
    assert all(text == check_text(text) for text in data.corpus.texts)
    json.dumps(data.as_json())


@QUICK
@given(
    head=st.sampled_from(
        [b"", b"text,label\n", b"PAR1", b"\xff\xfe", b"\xef\xbb\xbf", b"[{", b'"']
    ),
    body=st.binary(max_size=200),
    name=st.sampled_from(["x.csv", "x.jsonl", "x.parquet", "x.json", "x.tsv"]),
)
def test_no_bytes_raise_anything_but_a_sentence(folder, head, body, name) -> None:
    path = folder / name
    path.write_bytes(head + body)
    data, said = reading(path)
    assert said.isprintable()
    assert len(data.corpus) > 1 if data else said.endswith((".", "?", "pull"))


@QUICK
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_a_damaged_file_is_read_or_refused(folder, place, byte, cut) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    good = folder / "good.parquet"
    if not good.exists():
        columns = {"text": [f"text {row}" for row in range(30)], "label": ["a", "b", "c"] * 10}
        parquet.write_table(pyarrow.table(columns), good)
    for raw in (good.read_bytes(), b"text,label\n" + b'"a, \xc3\xa9",x\nb,y\n' * 20):
        hurt = bytearray(raw)
        hurt[place % len(raw)] = byte
        path = folder / "hurt.csv"
        path.write_bytes(bytes(hurt)[: len(hurt) - cut % len(raw) if cut % 2 else None])
        assert reading(path)[1].isprintable()


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT


@QUICK
@given(rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=10), whole=st.booleans())
def test_json_comes_back_as_it_is_written(folder, rows, whole) -> None:
    path = folder / "rows.jsonl"
    objects = [{"text": text, "label": label} for text, label in rows]
    lines = [json.dumps(each) for each in objects]
    path.write_text(json.dumps(objects, indent=1) if whole else "\n".join(lines), "utf-8")
    table = open_table(path)

    def cell(value) -> str:
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)

    assert [tuple(row) for row in table.rows] == [tuple(map(cell, row)) for row in rows]
    assert list(table.lines) == [at * 4 + 2 if whole else at + 1 for at in range(len(rows))]


@given(cell=st.text("'=+-@\t\r\n＝＋－＠a", max_size=6) | st.text())
def test_a_guarded_cell_comes_back(cell: str) -> None:
    guarded = guard_cell(cell)
    assert unguard_cell(guarded) == cell
    if re.fullmatch(r"[-+][0-9.]+(?:[eE][-+]?[0-9]+)?", cell) is None:  # a number runs nothing
        assert not guarded.startswith(tuple("=+-@\t\r\n＝＋－＠"))


@QUICK
@given(rows=st.lists(st.text("'=+-@＝a b", min_size=1, max_size=6), min_size=2, max_size=8))
def test_texts_that_were_exported_come_back(folder, rows) -> None:
    path = folder / "export.csv"
    marked = [
        (guard_cell(text), guard_cell("=x" if at % 2 else "-y")) for at, text in enumerate(rows)
    ]
    path.write_bytes(written(marked, ",", 0, "utf-8"))
    table = open_table(path)
    kept = [text for text in rows if text.strip()]
    if len(kept) == len(rows):
        data = data_of(table, Columns(text="text", label="label"))
        assert list(data.corpus.texts) == rows
        assert data.corpus.classes == ("-y", "=x")
