"""Every file that was made to break a reader gets what it must: texts, a warning or a sentence."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from read_tables import encoded, says

from heads.data.corpus import check_text, groups_of
from heads.data.dataset import Data, read
from heads.data.files import open_stream, open_table
from heads.data.table import Columns, guard_cell, unguard_cell
from heads.errors import DataError, HeadsError, LimitError
from heads.runs.trainer import first_split
from heads.settings import PUBLIC, ExperimentConfig, Limits, use_limits

# Files that must be read: rows used, classes, and the warnings that must be among those given.
READ: dict[str, tuple[int, int, set[str]]] = {
    "c03_no_header.csv": (11, 2, {"header"}),
    "c11_nul_bytes.csv": (10, 2, {"controls"}),
    "c12_latin1.csv": (10, 2, {"encoding"}),
    "c13_utf16_bom.csv": (10, 2, set()),
    "c14_utf16le_nobom.csv": (10, 2, set()),
    "c15_utf8_bom.csv": (10, 2, set()),
    "c19_semicolon.csv": (10, 2, set()),
    "c20_tab.csv": (10, 2, set()),
    "c24_quoted_newlines.csv": (10, 2, set()),
    "c25_cr_only.csv": (10, 2, set()),
    "c27_backslash_escapes.csv": (11, 2, {"backslash"}),
    "c29_unnamed_index.csv": (10, 2, set()),
    "c30_other_names.csv": (10, 2, set()),
    "c32_200_columns.csv": (10, 2, set()),
    "c33_swapped_columns.csv": (10, 2, set()),
    "c34_multilabel.csv": (10, 2, {"several"}),
    "l01_blank_labels.csv": (6, 2, {"no_label"}),
    "l02_nan_strings.csv": (10, 4, set()),
    "l03_bool.csv": (10, 2, set()),
    "l05_leading_zeros.csv": (10, 3, set()),
    "l06_spaces_case.csv": (10, 4, {"case"}),
    "l07_continuous_float.csv": (10, 1, {"numbers"}),
    "l08_numeric_overflow.csv": (10, 4, set()),
    "l09_unicode_confusable.csv": (10, 3, {"lookalike"}),
    "l11_html_labels.csv": (10, 3, set()),
    "l12_plotly_markup.csv": (10, 4, set()),
    "l13_very_long_label.csv": (10, 2, {"long_labels"}),
    "l14_path_labels.csv": (10, 5, set()),
    "l16_imbalanced.csv": (502, 2, {"imbalance", "tiny"}),
    "l17_rtl_override_label.csv": (10, 2, {"invisible"}),
    "t01_label_leak.csv": (10, 2, {"label_is_text"}),
    "t02_label_in_text.csv": (10, 2, {"label_in_text"}),
    "t03_duplicates.csv": (200, 2, {"duplicates"}),
    "t05_over_512_tokens.csv": (10, 2, set()),
    "t06_empty_text.csv": (6, 2, {"no_text"}),
    "t08_emoji_only.csv": (10, 2, set()),
    "t09_rtl.csv": (10, 2, set()),
    "t11_control_chars.csv": (10, 2, {"controls", "constant", "conflict"}),
    "t12_formula_injection.csv": (10, 2, set()),
    "t13_html_text.csv": (10, 2, {"constant"}),
    "t14_markdown_text.csv": (10, 2, {"constant"}),
    "t15_special_tokens.csv": (10, 2, set()),
    "t17_one_long_word.csv": (10, 2, {"constant"}),
    "t18_numbers_only.csv": (10, 2, set()),
    "t19_group_leak.csv": (200, 2, {"near_duplicates"}),
    "t20_all_same_text.csv": (10, 2, {"constant", "conflict"}),
    "t21_ansi_log_forge.csv": (10, 2, {"constant"}),
    "t22_pii_secret.csv": (10, 2, {"constant"}),
    "f04_jsonl.jsonl": (10, 2, set()),
    "f05_json_in_csv.csv": (10, 2, set()),
}
# Files that must be refused, and the line that the error knows.
REFUSED: dict[str, int | None] = {
    "c01_empty.csv": None, "c02_header_only.csv": None, "c04_one_column.csv": 1,
    "c05_whitespace_only.csv": None, "c06_bom_only.csv": None, "c07_one_class.csv": None,
    "c09_one_row.csv": None, "c10_3000_classes.csv": None, "c16_invalid_utf8.csv": 3,
    "c17_shiftjis.csv": 2, "c21_mixed_delimiters.csv": 7, "c22_ragged_rows.csv": 3,
    "c23_unclosed_quote.csv": 2, "c28_duplicate_columns.csv": 1, "t07_all_empty_text.csv": None,
    "f01_zip_renamed.csv": None, "f02_bomb_20MB.csv.gz": None, "f03_png_renamed.csv": None,
    "f06_html_renamed.csv": 1, "f09_pickle_renamed.csv": None, "f10_deep_json.jsonl": 1,
    "f11_jsonl_bad_line.jsonl": 2, "f13_xlsx_renamed.csv": None,
}  # fmt: skip
# What a clean file of ten rows may not be warned of.
QUIET = ("c13", "c14", "c15", "c19", "c20", "c24", "c25", "c29", "c30", "c33", "f04", "f05")


@pytest.fixture
def hostile(shared: Path) -> Callable[..., Data]:
    def read_named(name: str) -> Data:
        (path,) = (shared / "hostile").glob(f"{name}*")
        return read(path)

    return read_named


def test_no_file_is_forgotten(shared: Path) -> None:
    there = {path.name for path in (shared / "hostile").glob("[cltf][0-9]*")}
    assert there - {"f12_ok.parquet"} == set(READ) | set(REFUSED)


@pytest.mark.parametrize("name", READ)
def test_a_file_that_must_be_read_is_read(hostile: Callable[..., Data], name: str) -> None:
    data = hostile(name)
    rows, classes, kinds = READ[name]
    assert (len(data.corpus), len(data.corpus.classes)) == (rows, classes)
    assert kinds <= {finding.kind for finding in data.findings}
    assert data.rows_in == rows + sum(map(len, data.dropped.values()))
    assert len(data.corpus.lines) == rows
    said = [finding.says for finding in data.findings] + list(data.notes)
    assert all(line.endswith(".") and line.isprintable() for line in said)
    if name.startswith(QUIET):
        assert data.findings == ()


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_must_be_refused_gets_one_sentence(
    hostile: Callable[..., Data], name: str
) -> None:
    with pytest.raises(LimitError if name.startswith("c10") else DataError) as refused:
        hostile(name)
    assert str(refused.value).isprintable()
    assert refused.value.hint
    assert getattr(refused.value, "line", None) == REFUSED[name]


def refused(read_file: Callable, *given: object) -> tuple[type, str, int | None] | None:
    """Return the class, the sentence and the line of the error with which a file is refused."""
    try:
        read_file(*given)
    except HeadsError as error:
        return type(error), error.what.split(".")[0], getattr(error, "line", None)
    return None


@pytest.mark.parametrize("header", [None, True, False])
@pytest.mark.parametrize("name", [*READ, *REFUSED])
def test_a_table_is_the_stream_less_the_rows_left_out(
    shared: Path, name: str, header: bool | None
) -> None:
    """What a table refuses a stream refuses in the same words, on the same line."""
    path = shared / "hostile" / name
    if refusal := refused(open_table, path, header):
        assert refused(open_stream, path, header) == refusal
        return
    table = open_table(path, header)
    stream = open_stream(path, header)
    rows = [row for block in stream.blocks(7) for row in block.rows]
    assert len(rows) == stream.rows
    lines = set(table.lines)
    cells = [list(row.cells[: len(table.columns)]) for row in rows if row.line in lines]
    assert cells == list(map(list, table.rows))
    left = sorted(row.line for row in rows if row.line not in lines)
    assert left == sorted(line for lines in table.dropped.values() for line in lines)


@pytest.mark.parametrize("raw", [Path(sys.executable).resolve(), b"MZ\x90\x00" + bytes(range(256))])
def test_a_program_is_said_to_be_no_table(raw: Path | bytes, tmp_path: Path) -> None:
    path = tmp_path / "prog.csv"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.read_bytes()[:200_000])
    with pytest.raises(DataError):
        open_table(path)


def test_classes_and_columns_are_allowed_by_limit(hostile: Callable[..., Data]) -> None:
    for name in ("c10_3000_classes.csv", "c32_200_columns.csv"):
        with use_limits(PUBLIC), pytest.raises(LimitError):
            hostile(name)
    with use_limits(Limits(classes=3000)):
        assert len(hostile("c10").corpus.classes) == 3000


# What must be in them: the beginning of a column of the corpus, or of what was found out.
HOLDS: list[tuple[str, str, tuple]] = [
    ("c03", "texts", ("the battery lasts all day",)),
    ("c11", "texts", ("the bat\0tery lasts all day",)),
    ("c12", "texts", ("café très bon", "déçu")),
    ("c24", "texts", ("the battery lasts all day\nsecond line\r\nthird",)),
    ("c24", "lines", (2, 5, 8)),
    ("c27", "texts", ('he said "hi", ok',)),
    ("t12", "texts", ("=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(1+1)", "\t=1+1",
                      '=HYPERLINK("http://evil.example","x")')),
    ("t18", "texts", tuple("0123456789")),
    ("t21", "texts", ("ok\n2026-01-01 INFO admin logged in",)),
    ("l01", "lines", (3, 4, 6, 7, 9, 10)),
    ("l02", "classes", ("NA", "NaN", "None", "null")),
    ("l03", "classes", ("True", "false")),
    ("l05", "classes", ("007", "7", "08")),  # by their values
    ("l06", "classes", ("POS", "Pos", "neg", "pos")),
    ("l13", "classes", ("L" * 100, "short")),
    ("l14", "classes", (".", "../../etc/passwd", "C:\\x", "CON", "a/b")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "first"), HOLDS)
def test_cells_come_out_right(
    hostile: Callable[..., Data], name: str, column: str, first: tuple
) -> None:
    assert getattr(hostile(name).corpus, column)[: len(first)] == first


def test_encodings_columns_and_signs_are_told(hostile: Callable[..., Data]) -> None:
    for name in ("c13", "c14"):
        assert hostile(name).corpus.texts == hostile("c15").corpus.texts
    for name in ("c15", "c32", "c33"):
        assert hostile(name).columns == Columns(text="text", label="label")
    assert hostile("c30").columns == Columns(text="Review Body", label="Sentiment")
    assert hostile("c29").names == ("column 1", "text", "label")
    assert "Windows-1252" in hostile("c12").findings[0].says
    assert hostile("c19").notes == ("Separator: semicolons.",)
    assert hostile("c20").notes == ("Separator: tabs.",)


def test_odd_texts_and_labels_stay_what_they_are(hostile: Callable[..., Data]) -> None:
    assert len(hostile("t17").corpus.texts[0]) == 20_000
    assert "1e999" in hostile("l08").corpus.classes
    assert "\\u202egnp.exe" in says(hostile("l17"), "invisible")
    assert hostile("l01").dropped == {"no label": (2, 5, 8, 11)}
    assert hostile("t06").dropped == {"no text": (2, 5, 8, 11)}


def test_shares_and_counts_are_said(hostile: Callable[..., Data]) -> None:
    assert "99.6 % of the rows (500 of 502)" in says(hostile("l16"), "imbalance")
    assert hostile("l16").classes == {"a": 500, "b": 2}
    assert "in 100 % of the rows" in says(hostile("t01"), "label_is_text")


def test_duplicates_stay_on_one_side(hostile: Callable[..., Data]) -> None:
    corpus = hostile("t03").corpus
    first = groups_of(corpus).numbers
    for seed in range(5):
        rows, held = first_split(corpus, ExperimentConfig(seed=seed))
        assert held
        assert not {first[row] for row in rows} & {first[row] for row in held}


# Big files


@pytest.mark.slow
def test_an_endless_text_is_cut_and_an_endless_quote_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text('text,label\n"' + "word " * 2_000_000 + '",pos\nb,neg\n')
    data = read(path)
    assert len(data.corpus.texts[0]) <= 20_000
    assert next(finding for finding in data.findings if finding.kind == "cut").lines == (2,)
    path.write_text('text,label\n"' + "abc,pos\n" * 2_500_000)
    with pytest.raises(DataError) as refused:
        read(path)
    assert refused.value.line == 2


# --- What holds for every file, whatever its bytes.

QUICK = settings(max_examples=80)
# All letters but those that no file can hold, and zero, which is counted as a control character.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PLAIN = st.text("ab ,;|\t\"'\n\r\\éß€#=", max_size=12)
ROWS = st.lists(st.tuples(TEXT | PLAIN, TEXT | PLAIN), min_size=1, max_size=12)


def reading(path: Path) -> tuple[Data | None, str]:
    """What a file is read as, or the sentence that refuses it."""
    try:
        return read(path), ""
    except HeadsError as error:
        return None, str(error)


@QUICK
@given(rows=ROWS)
def test_every_row_is_used_or_dropped_for_a_reason(folder, rows) -> None:
    path = folder / "account.csv"
    path.write_bytes(encoded([("text", "label"), ("one", "x"), *rows, ("two", "y")]))
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


@given(cell=st.text("'=+-@\t\r\n＝＋－＠a", max_size=6) | st.text())
def test_a_guarded_cell_comes_back(cell: str) -> None:
    guarded = guard_cell(cell)
    assert unguard_cell(guarded) == cell
    if re.fullmatch(r"[-+][0-9.]+(?:[eE][-+]?[0-9]+)?", cell) is None:  # a number runs nothing
        assert not guarded.startswith(tuple("=+-@\t\r\n＝＋－＠"))
