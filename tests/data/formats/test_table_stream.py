"""What holds for every file that is streamed: all its rows come, and are written as they stood."""

import csv
import io
import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook
from openpyxl.utils.escape import unescape
from pyarrow import parquet
from read_tables import encoded

from heads.data.files import open_stream, open_table
from heads.data.formats.table_stream import NAMES_AGAIN, WRONG_COUNT, Sampler
from heads.data.formats.writers import Added, check_rows, written
from heads.data.sources import open_source
from heads.data.table import CELL, guard_cell, unguard_cell
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import Limits, use_limits

QUICK = settings(max_examples=60)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PLAIN = st.text("ab ,;|\t\"'\n\r\\éß€#=", max_size=12)
CELLS = st.tuples(TEXT | PLAIN, TEXT | PLAIN)
# It says surely which sign parts cells; what sniffing makes of others is tested elsewhere.
SURE = ("a text of several words", "label")
OURS = (Added(name="answer"), Added(name="sure", kind="number"))


def rows_of(stream, most=7):
    return [row for block in stream.blocks(most) for row in block.rows]


def answered(path, to, header=None, excel_safe=False, **asked):
    """A file written anew, with an answer that tells the number of its row; and its stream."""
    stream = open_stream(path, header, **asked)
    number = 0
    to.unlink(missing_ok=True)  # of the example before
    with written(to, stream, OURS, excel_safe=excel_safe) as writer:
        for block in stream.blocks(7):
            values = [(f"row {number + at}", (number + at) / 4) for at in range(len(block))]
            writer.write(block, values)
            number += len(block)
    assert number == stream.rows
    return stream


def parted(path, delimiter=","):
    text = path.read_bytes().decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


def ours(count):
    return [[f"row {at}", f"{at / 4:.9g}"] for at in range(count)]


@QUICK
@given(
    rows=st.lists(CELLS, min_size=1, max_size=12),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"]),
    end=st.sampled_from(["\r\n", "\n"]),
)
@example(rows=[("two\nlines", 'a "quote"')], delimiter=";", quoting=0, encoding="cp1252", end="\n")
@example(rows=[("a", "b\nc\td")], delimiter="\t", quoting=0, encoding="utf-8", end="\r\n")
@example(
    rows=[('\\"', "x"), ("a", 'b\\",')], delimiter=",", quoting=0, encoding="utf-8", end="\r\n"
)
@example(rows=[("a\rb", "\r\n")], delimiter=",", quoting=1, encoding="utf-8-sig", end="\n")
@example(rows=[("", ""), ("text", "label")], delimiter=",", quoting=1, encoding="utf-8", end="\n")
def test_rows_come_back_as_table_and_as_stream(folder, rows, delimiter, quoting, encoding, end):
    """Whatever stands in the cells, and also in rows that nothing would be learned from."""
    path, to = folder / "in.csv", folder / "out.txt"
    if end == "\n":  # which Python's writer quotes only where a cell holds it
        quoting = csv.QUOTE_ALL
    given_rows = [("text", "label"), SURE, *rows]
    style = {"delimiter": delimiter, "quoting": quoting, "encoding": encoding, "end": end}
    path.write_bytes(encoded(given_rows, **style))
    try:
        stream = answered(path, to)
    except HeadsError as error:  # bytes that may be anything, or hardly any letters
        said = str(error)
        assert "not UTF-8" in said or "damaged letters" in said or "not a text table" in said
        with pytest.raises(type(error)):
            open_table(path)
        return
    if encoding == "cp1252":
        raw = path.read_bytes()
        codec = "utf-8" if raw.decode("utf-8", "ignore").encode() == raw else encoding
        rows = [tuple(c.encode(encoding, "replace").decode(codec) for c in row) for row in rows]
    if any(one.kind == "quotes" for one in stream.sample.findings):
        return  # said aloud: quotes were taken as they stand
    table = open_table(path)
    assert table.columns == ("text", "label")
    wanted = [row for row in (SURE, *rows) if row != table.columns]  # names again are left out
    assert [tuple(row) for row in table.rows] == wanted
    names, *found = parted(to, stream.facts.delimiter)
    assert names == ["text", "label", "answer", "sure"]
    assert [row[:2] for row in found] == [list(row) for row in (SURE, *rows)]
    assert [row[2:] for row in found] == ours(len(rows) + 1)


@QUICK
@given(texts=st.lists(TEXT | PLAIN, min_size=1, max_size=12), is_named=st.booleans())
@example(texts=["Well, yes", "no"], is_named=False)
@example(texts=["", "  "], is_named=True)
@example(texts=["one, two"] * 6, is_named=False)
def test_one_column_needs_no_sign_and_loses_no_text(folder, texts, is_named):
    path, to = folder / "one.csv", folder / "one-out.csv"
    texts = ["a text of several words", *texts]
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["text"]] * is_named + [[t] for t in texts])
    path.write_bytes(file.getvalue().encode())
    try:
        stream = answered(path, to)
    except HeadsError as error:
        assume(is_named)
        said = str(error)
        assert "not a text table" in said
        return
    # Without a name, five texts with as many commas each are a table, like any other.
    assume(is_named or len(stream.columns) == 1)
    assert stream.columns == ("text",)
    assert [row[:1] for row in parted(to)[1:]] == [[text] for text in texts]


def test_lines_are_texts_where_no_sign_parts_them_evenly(tmp_path):
    lines = ["Well, yes", "one, two, three", '"Great" she said', "", "no"]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(lines), "utf-8")
    assert [row.cells for row in rows_of(open_stream(path))] == [[line] for line in lines]
    table = tmp_path / "table.txt"
    table.write_text("text;label\n" + "fine;a\n" * 9, "utf-8")
    assert open_stream(table).columns == ("text", "label")
    found = open_stream(table, of_lines=True)
    assert (found.rows, found.columns) == (10, ("text",))


def test_rows_that_training_leaves_out_come_too(tmp_path):
    path, to = tmp_path / "odd.csv", tmp_path / "odd-out.csv"
    rows = [["1", f"text {at}", "a"] for at in range(40)]
    rows[3:3] = [["id", "text", "label"], ["2", "half", "of", "it"], ["3", "short"], ["", "", ""]]
    path.write_text("\n".join(",".join(row) for row in [["id", "text", "label"], *rows]), "utf-8")
    assert len(open_table(path).rows) == 41  # of those four the empty one alone
    stream = answered(path, to)
    found = rows_of(stream)
    odd = {at: row.odd for at, row in enumerate(found) if row.odd}
    assert odd == {3: NAMES_AGAIN, 4: WRONG_COUNT}
    assert found[5].line == 7
    (few,) = (one for one in stream.sample.findings if one.kind == "few_cells")
    assert few.lines == (7,)
    names, *out = parted(to)
    assert names == ["id", "text", "label", "", "answer", "sure"]
    assert [row[:4] for row in out] == [[*row, "", ""][:4] for row in rows]
    assert [row[4:] for row in out] == ours(len(rows))


def test_names_and_signs_of_the_file_stay(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes(b"\xef\xbb\xbf;  Review Body ;Sentiment\r\n0;fine;good\r\n1;bad;poor\r\n")
    answered(path, tmp_path / "out.csv")
    told = (tmp_path / "out.csv").read_bytes()
    assert told.startswith(
        b"\xef\xbb\xbf;  Review Body ;Sentiment;answer;sure\r\n0;fine;good;row 0;0"
    )
    answered(path, tmp_path / "out.tsv")
    assert b"\t  Review Body \tSentiment\t" in (tmp_path / "out.tsv").read_bytes()


def test_a_title_above_the_names_is_no_row_unless_there_are_no_names(tmp_path):
    path = tmp_path / "titled.csv"
    path.write_text("My reviews,,\nid,text,label\n" + "1,fine,a\n2,bad,b\n" * 9, "utf-8")
    assert open_stream(path).rows == 18
    assert open_stream(path, header=False).rows == 20


def test_a_first_row_that_holds_a_known_name_names_the_columns(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("opinione,nota\nbello,5\nbrutto,1\n", "utf-8")
    (tmp_path / "one.csv").write_text("opinione\nbello\nbrutto\n", "utf-8")
    for name, columns in (("known.csv", ("opinione", "nota")), ("one.csv", ("opinione",))):
        stream = open_stream(tmp_path / name, known=("opinione",))
        assert (stream.columns, stream.rows) == (columns, 2)
    assert open_stream(tmp_path / "one.csv").rows == 3  # it may be a text as well


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.lists(st.integers())


@QUICK
@given(rows=st.lists(st.tuples(TEXT, VALUES), min_size=1, max_size=9), whole=st.booleans())
def test_json_objects_stay_to_the_letter(folder, rows, whole):
    objects = [{"text": text, "x": value} for text, value in rows]
    path, to = folder / "in.jsonl", folder / ("out.json" if whole else "out.jsonl")
    lines = [json.dumps(one) for one in objects]
    path.write_text(json.dumps(objects, indent=1) if whole else "\n".join(lines), "utf-8")
    answered(path, to)
    text = to.read_text("utf-8")
    found = json.loads(text) if whole else [json.loads(line) for line in text.splitlines()]
    told = [{**one, "answer": f"row {at}", "sure": at / 4} for at, one in enumerate(objects)]
    assert repr(found) == repr(told)  # NaN is not equal to itself
    table = open_table(path)

    def cell(value) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        return json.dumps(list(map(str, value)) if isinstance(value, list) else value)

    assert [list(map(cell, one.values())) for one in objects] == table.rows
    if all(not isinstance(value, list) for _, value in rows):
        assert table.lines == [at * 4 + 2 if whole else at + 1 for at in range(len(rows))]
    if not whole:
        starts = zip(text.splitlines(), lines, strict=True)
        assert all(line.startswith(own[:-1]) for line, own in starts)


def test_numbers_of_json_are_written_as_they_stand(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "n": 1.50, "big": 12345678901234567890.10}\n{}\n', "utf-8")
    answered(path, tmp_path / "out.jsonl")
    first, second = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert first.startswith('{"text": "a", "n": 1.50, "big": 12345678901234567890.10, "answer"')
    assert second == '{"answer": "row 1", "sure": 0.25}'
    answered(path, tmp_path / "out.csv")
    assert parted(tmp_path / "out.csv")[1][:3] == ["a", "1.50", "12345678901234567890.10"]


def test_parquet_keeps_its_types(tmp_path):
    table = pa.table({
        "text": ["fine", None, "bad"], "n": pa.array([1, None, 3], pa.int16()),
        "when": [date(2020, 1, 2)] * 3,
        "tags": [["a"], [], ["b", "c"]], "at": [datetime(2020, 1, 2, 3, 4)] * 3,
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(), "raw": [b"1", b"2", b"3"],
    })  # fmt: skip
    path, to = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(table, path, row_group_size=2)
    answered(path, to)
    found = parquet.read_table(to)
    assert found.drop_columns(["answer", "sure"]).equals(table)
    assert found.column("answer").to_pylist() == ["row 0", "row 1", "row 2"]
    assert found.schema.field("sure").type == pa.float32()
    answered(path, tmp_path / "out.jsonl")
    first = json.loads((tmp_path / "out.jsonl").read_text("utf-8").splitlines()[0])
    assert (first["n"], first["when"], first["tags"]) == (1, "2020-01-02", ["a"])
    answered(path, tmp_path / "out.csv")
    assert parted(tmp_path / "out.csv")[3][:4] == ["bad", "3", "2020-01-02", '["b", "c"]']
    answered(path, tmp_path / "out.xlsx")
    assert open_table(tmp_path / "out.xlsx").rows[0][:3] == ["fine", "1", "2020-01-02"]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 8)], ids=str)
def test_vectors_are_spelled_for_a_file_of_texts_alone(tmp_path, kind):
    vectors = [[(row + at) / 7 for at in range(8)] for row in range(300)]
    vectors[4] = None
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"id": range(300), "x": pa.array(vectors, kind)}), path)
    wanted = parquet.read_table(path).column("x").to_pylist()
    # Their numbers fit, in 32 bits as training reads them; their letters would not.
    fits = Limits(unpacked_bytes=300 * 8 * 4 + 6_000)
    with use_limits(fits):
        cells = [row.cells[1] for row in rows_of(open_stream(path))]
    assert cells == ["" if vector is None else CELL for vector in vectors]
    with (
        use_limits(Limits(unpacked_bytes=300 * 8 * 4 - 100)),
        pytest.raises(LimitError),
    ):
        open_stream(path, None)
    answered(path, tmp_path / "x.csv")
    told = [row[1] for row in parted(tmp_path / "x.csv")[1:]]
    assert [json.loads(one) if one else None for one in told] == wanted
    answered(path, tmp_path / "x.jsonl")
    lines = (tmp_path / "x.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(one)["x"] for one in lines] == wanted


def test_a_sheet_keeps_its_values(tmp_path):
    book = Workbook()
    sheet = book.active
    sheet.append(["id", "text", None, "when", "share"])
    sheet.append([1, "fine", None, datetime(2020, 1, 2), 0.25])
    sheet.append([2.5, None, "x", None, True])
    sheet.append([None] * 5)
    sheet.append(["003", "_x0041_ bad", None, None, "#N/A"])
    sheet["E2"].number_format = "0%"
    path, to = tmp_path / "in.xlsx", tmp_path / "out.xlsx"
    book.save(path)
    answered(path, to)
    out = load_workbook(to).active
    assert [[cell.value for cell in row] for row in out.iter_rows()] == [
        ["id", "text", None, "when", "share", "answer", "sure"],
        [1, "fine", None, datetime(2020, 1, 2), 0.25, "row 0", 0],
        [2.5, None, "x", None, True, "row 1", 0.25],
        ["003", "_x0041_ bad", None, None, "#N/A", "row 2", 0.5],
    ]
    assert (out["E2"].number_format, out["A4"].data_type) == ("0%", "s")
    answered(path, tmp_path / "out.csv")
    assert parted(tmp_path / "out.csv")[1][:5] == ["1", "fine", "", "2020-01-02", "0.25"]


@QUICK
@given(rows=st.lists(CELLS, min_size=1, max_size=6))
@example(rows=[("=1+1", "a\r\nb"), ("_x0041_", "\x07\ufffe"), ("'=2", "#N/A")])
def test_texts_survive_a_sheet(folder, rows):
    """What is written as a text is read as that text, by Excel's own spelling of odd signs."""
    path, to = folder / "texts.jsonl", folder / "texts.xlsx"
    path.write_text(
        "\n".join(json.dumps(dict(zip("ab", row, strict=True))) for row in rows), "utf-8"
    )
    answered(path, to)
    sheet = load_workbook(to).active
    found = [[cell.value for cell in row][:2] for row in sheet.iter_rows(min_row=2)]
    told = [[unescape(cell or "") for cell in row] for row in found]
    assert told == [list(row) for row in rows]
    assert not any(cell.data_type == "f" for row in sheet.iter_rows() for cell in row)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".xlsx"])
@pytest.mark.parametrize("to", [".csv", ".tsv"])
def test_no_text_of_an_object_becomes_a_formula_and_each_comes_back(tmp_path, ending, to):
    texts = ['=HYPERLINK("http://x.y","a")', "'=cell of mine", "@cmd and more", "-3", "plain words"]
    path = tmp_path / f"rows{ending}"
    if ending == ".jsonl":
        lines = [json.dumps({"text": text, "=label": "-a"}) + "\n" for text in texts]
        path.write_text("".join(lines), "utf-8")
    elif ending == ".parquet":
        parquet.write_table(pa.table({"text": texts, "=label": ["-a"] * 5}), path)
    else:
        book = Workbook()
        for row in (("text", "=label"), *((text, "-a") for text in texts)):
            book.active.append(row)
            for cell in book.active[book.active.max_row]:
                cell.data_type = "s"  # a text that begins with = is no formula
        book.save(path)
    answered(path, tmp_path / f"out{to}", excel_safe=True)
    rows = parted(tmp_path / f"out{to}", "\t" if to == ".tsv" else ",")
    started = [cell for row in rows for cell in row if cell[:1] in "=@-+" and cell != "-3"]
    assert not started
    table = open_table(tmp_path / f"out{to}")
    assert [unguard_cell(row[0]) for row in table.rows] == texts
    assert [unguard_cell(row[1]) for row in table.rows] == ["-a"] * 5


@pytest.mark.parametrize("excel_safe", [False, True])
@pytest.mark.parametrize("to", [".csv", ".tsv"])
def test_own_cells_and_answers_are_written_by_one_rule(tmp_path, to, excel_safe):
    cells = ["=1+1", "+1+1x", "'=x", "-x", "@cmd", "-1", "plain"]
    (tmp_path / "rows.csv").write_text("=name\n" + "\n".join(cells) + "\n", "utf-8")
    stream = open_stream(tmp_path / "rows.csv", True)
    with written(
        tmp_path / f"out{to}", stream, [Added(name="=answer")], excel_safe=excel_safe
    ) as writer:
        for block in stream.blocks(7):
            writer.write(block, [(row.cells[0],) for row in block.rows])
    rows = parted(tmp_path / f"out{to}", "\t" if to == ".tsv" else ",")
    signs = ["=name", *cells] if not excel_safe else [guard_cell(c) for c in ("=name", *cells)]
    assert [own for own, _ in rows] == signs
    assert [answer for _, answer in rows[1:]] == signs[1:]


def test_what_cannot_be_written_is_said(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,label\nfine,a\n" + "x" * 40_000 + ",b\n", "utf-8")
    stream = open_stream(path)
    with written(tmp_path / "out.xlsx", stream, ()) as writer:
        for block in stream.blocks(9):
            writer.write(block, [()] * len(block))
    assert writer.cut == 1
    with pytest.raises(DataError):
        check_rows(".xlsx", 2_000_000)

    def broken():
        with written(tmp_path / "broken.csv", stream, ()) as writer:
            writer.write(next(stream.blocks(9)), [(), ()])
            raise DataError("Too few.")

    with pytest.raises(DataError):
        broken()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.csv", "out.xlsx"]


def test_labels_stand_in_a_cell_as_they_are_read():
    parts = Added(name="a", kind="labels", separator="|")
    whole = Added(name="a", kind="labels", separator="[]")
    assert (parts.cell(("x", "y")), parts.cell(()), parts.cell(None)) == ("x|y", "", "")
    assert (whole.cell(("x", "y|z")), whole.value(("x",))) == ('["x", "y|z"]', ["x"])


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".json", ".parquet", ".xlsx", "in memory"])
def test_every_limit_holds_while_a_file_is_read(tmp_path, ending):
    frame = pd.DataFrame({"text": ["fine"] * 30, "label": ["a"] * 30, "more": range(30)})
    path = frame_file(frame, tmp_path / f"in{ending}") if ending != "in memory" else frame
    readers = [lambda: open_source(path)]
    if ending != "in memory":
        readers.append(lambda: rows_of(open_stream(path)))
    for read_rows in readers:
        for limits in (Limits(rows=29), Limits(columns=2)):
            with use_limits(limits), pytest.raises(LimitError):
                read_rows()
        with use_limits(Limits(rows=30, columns=3)):
            read_rows()
    for read_rows in readers if ending in (".csv", ".jsonl", ".json") else []:
        with use_limits(Limits(upload_bytes=0)), pytest.raises(LimitError):
            read_rows()


def frame_file(frame, path):
    """Write a frame into a file of the format that its name ends in."""
    if path.suffix.startswith(".json"):
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        (frame.to_parquet if path.suffix == ".parquet" else frame.to_excel)(path, index=False)
    return path


def test_the_widest_row_of_a_stream_counts(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,label\n" + "fine,a\n" * 30 + "fine" + ",a" * 20 + "\n", "utf-8")
    with use_limits(Limits(columns=10)), pytest.raises(LimitError):
        open_stream(path)


def test_the_sample_is_of_the_whole_file():
    drawn = Sampler(most=50)
    for line in range(10_000):
        drawn.add(line, None)
    lines = [line for line, _ in drawn.drawn()]
    assert len(lines) == 50 == len(set(lines))
    assert sum(line >= 5_000 for line in lines) in range(13, 38)


def test_a_column_without_a_name_is_read(tmp_path):
    path = tmp_path / "index.parquet"
    table = pa.table({"": [0, 1], "text": ["A film.", "A book."], "label": ["x", "y"]})
    parquet.write_table(table, path)
    assert open_table(path).columns == ("", "text", "label")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_vectors_are_read_when_asked_for_and_checked_again(ending, tmp_path):
    path, vectors = tmp_path / f"vectors.{ending}", np.ones((50, 4), "float32")
    save = {"npy": np.save, "npz": lambda to, own: np.savez(to, vectors=own)}[ending]
    save(path, vectors)
    (column,) = (table := open_table(path)).vectors
    assert len(table.vectors[column]().names) == 50
    save(path, vectors[:, 0])
    with pytest.raises(DataError):
        table.vectors[column]()


def test_a_sheet_of_one_cell_is_one_row(tmp_path):
    book = Workbook()
    book.active.append(["text"])
    book.save(path := tmp_path / "one.xlsx")
    assert open_stream(path).rows == 1
