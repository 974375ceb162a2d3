"""Every file that was made to break a reader gets what it must: texts, a warning or a sentence."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heads.data.corpus import groups_of
from heads.data.dataset import Data, read
from heads.data.files import open_table
from heads.data.table import Columns
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
# Files that must be refused: what the sentence says, and the line that it knows.
REFUSED: dict[str, tuple[str, int | None]] = {
    "c01_empty.csv": ("The file is empty.", None),
    "c02_header_only.csv": ("no data rows", None),
    "c04_one_column.csv": ("only the column 'text'", 1),
    "c05_whitespace_only.csv": ("The file is empty.", None),
    "c06_bom_only.csv": ("The file is empty.", None),
    "c07_one_class.csv": ("needs at least 2 classes; found only 'pos'", None),
    "c09_one_row.csv": ("needs at least 2 classes; found only 'pos'", None),
    "c10_3000_classes.csv": ("has 3,000 classes", None),
    "c16_invalid_utf8.csv": ("not UTF-8 (line 3)", 3),
    "c17_shiftjis.csv": ("Save it as UTF-8", 2),
    "c21_mixed_delimiters.csv": ("Line 7 of c21_mixed_delimiters.csv has 1 cell where", 7),
    "c22_ragged_rows.csv": ("Line 3 of c22_ragged_rows.csv has 4 cells where", 3),
    "c23_unclosed_quote.csv": ("quote opened on line 2 of c23_unclosed_quote.csv is never", 2),
    "c28_duplicate_columns.csv": ("two columns named 'label'", 1),
    "t07_all_empty_text.csv": ("None of the rows of t07_all_empty_text.csv can be used", None),
    "f01_zip_renamed.csv": ("zip archive", None),
    "f02_bomb_20MB.csv.gz": ("gzip archive", None),
    "f03_png_renamed.csv": ("a picture, not a text table", None),
    "f06_html_renamed.csv": ("web page", 1),
    "f09_pickle_renamed.csv": ("pickle", None),
    "f10_deep_json.jsonl": ("Line 1 of f10_deep_json.jsonl", 1),
    "f11_jsonl_bad_line.jsonl": ("Line 2 of f11_jsonl_bad_line.jsonl", 2),
    "f13_xlsx_renamed.csv": ("Excel", None),
}
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
    says, line = REFUSED[name]
    with pytest.raises(HeadsError) as refused:
        hostile(name)
    assert says in str(refused.value)
    assert str(refused.value).isprintable()
    assert refused.value.hint
    assert getattr(refused.value, "line", None) == line


@pytest.mark.parametrize("raw", [Path(sys.executable).resolve(), b"MZ\x90\x00" + bytes(range(256))])
def test_a_program_is_said_to_be_no_table(raw: Path | bytes, tmp_path: Path) -> None:
    path = tmp_path / "prog.csv"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.read_bytes()[:200_000])
    with pytest.raises(DataError, match=r"^prog\.csv is not a text table"):
        open_table(path)


@pytest.mark.parametrize("name", ["c10_3000_classes.csv", "c32_200_columns.csv"])
def test_the_public_place_allows_less(hostile: Callable[..., Data], name: str) -> None:
    with use_limits(PUBLIC), pytest.raises(LimitError, match=r"200 columns|3,000 classes"):
        hostile(name)


def test_more_classes_are_allowed_by_limit(hostile: Callable[..., Data]) -> None:
    with use_limits(Limits(classes=3000)):
        assert len(hostile("c10").corpus.classes) == 3000


# What must be in them


def test_encodings_keep_their_letters(hostile: Callable[..., Data]) -> None:
    assert hostile("c12").corpus.texts[:2] == ("café très bon", "déçu")
    assert hostile("c13").corpus.texts == hostile("c15").corpus.texts
    assert hostile("c14").corpus.texts == hostile("c15").corpus.texts
    assert hostile("c15").columns == Columns(text="text", label="label")
    assert "Windows-1252" in hostile("c12").findings[0].says


def test_cells_of_every_kind_come_out_right(hostile: Callable[..., Data]) -> None:
    assert hostile("c11").corpus.texts[0] == "the bat\0tery lasts all day"
    assert hostile("c24").corpus.texts[0] == "the battery lasts all day\nsecond line\r\nthird"
    assert hostile("c24").corpus.lines[:3] == (2, 5, 8)
    assert hostile("c27").corpus.texts[0] == 'he said "hi", ok'
    assert hostile("c03").corpus.texts[0] == "the battery lasts all day"
    assert hostile("t18").corpus.texts == tuple("0123456789")
    assert len(hostile("t17").corpus.texts[0]) == 20_000
    assert hostile("t12").corpus.texts[:6] == (
        "=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(1+1)", "\t=1+1",
        '=HYPERLINK("http://evil.example","x")',
    )  # fmt: skip
    assert hostile("t21").corpus.texts[0] == "ok\n2026-01-01 INFO admin logged in"


def test_delimiters_are_named(hostile: Callable[..., Data]) -> None:
    assert hostile("c19").notes == ("Separator: semicolons.",)
    assert hostile("c20").notes == ("Separator: tabs.",)


def test_columns_are_found_by_name(hostile: Callable[..., Data]) -> None:
    assert hostile("c30").columns == Columns(text="Review Body", label="Sentiment")
    assert hostile("c33").columns == Columns(text="text", label="label")
    assert hostile("c29").names == ("column 1", "text", "label")
    assert hostile("c32").columns == Columns(text="text", label="label")


def test_labels_stay_what_they_are(hostile: Callable[..., Data]) -> None:
    assert hostile("l02").corpus.classes == ("NA", "NaN", "None", "null")
    assert hostile("l03").corpus.classes == ("True", "false")
    assert hostile("l05").corpus.classes == ("007", "7", "08")  # by their values
    assert hostile("l06").corpus.classes == ("POS", "Pos", "neg", "pos")
    assert hostile("l14").corpus.classes == (".", "../../etc/passwd", "C:\\x", "CON", "a/b")
    assert "1e999" in hostile("l08").corpus.classes
    assert hostile("l13").corpus.classes == ("L" * 100, "short")
    assert "\\u202egnp.exe" in next(
        finding.says for finding in hostile("l17").findings if finding.kind == "invisible"
    )


def test_dropped_rows_are_named(hostile: Callable[..., Data]) -> None:
    assert hostile("l01").dropped == {"no label": (2, 5, 8, 11)}
    assert hostile("t06").dropped == {"no text": (2, 5, 8, 11)}
    assert hostile("l01").corpus.lines == (3, 4, 6, 7, 9, 10)


def test_shares_and_counts_are_said(hostile: Callable[..., Data]) -> None:
    says = {finding.kind: finding.says for finding in hostile("l16").findings}
    assert "99.6 % of the rows (500 of 502)" in says["imbalance"]
    assert hostile("l16").classes == {"a": 500, "b": 2}
    says = {finding.kind: finding.says for finding in hostile("t01").findings}
    assert "in 100 % of the rows" in says["label_is_text"]


def test_duplicates_stay_on_one_side(hostile: Callable[..., Data]) -> None:
    corpus = hostile("t03").corpus
    first = groups_of(corpus).numbers
    for seed in range(5):
        rows, held = first_split(corpus, ExperimentConfig(seed=seed))
        assert held
        assert not {first[row] for row in rows} & {first[row] for row in held}


# Big files


def table(path: Path, rows: int, columns: int = 2) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", *(f"c{at}" for at in range(columns - 2))])
        writer.writerows(
            [f"text {row}", "ab"[row % 2]] + ["0"] * (columns - 2) for row in range(rows)
        )
    return path


def test_limits_hold_while_reading(tmp_path: Path, seconds: Callable[[], float]) -> None:
    few = Limits(rows=100, columns=10, upload_bytes=3_000_000)
    for path, says in [
        (table(tmp_path / "rows.csv", 150_000), "more than 100 rows"),
        (table(tmp_path / "columns.csv", 3, columns=20_000), "20,000 columns"),
        (table(tmp_path / "bytes.csv", 300_000), "larger than the 3 MB"),
    ]:
        with use_limits(few), pytest.raises(LimitError, match=says):
            open_table(path)
    with use_limits(few):
        assert len(open_table(table(tmp_path / "fits.csv", 100, columns=10)).rows) == 100
    assert seconds() < 10


@pytest.mark.slow
def test_an_endless_text_is_cut_and_an_endless_quote_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text('text,label\n"' + "word " * 2_000_000 + '",pos\nb,neg\n')
    data = read(path)
    assert len(data.corpus.texts[0]) <= 20_000
    assert next(finding for finding in data.findings if finding.kind == "cut").lines == (2,)
    path.write_text('text,label\n"' + "abc,pos\n" * 2_500_000)
    with pytest.raises(DataError, match="begins on line 2 of") as refused:
        read(path)
    assert refused.value.line == 2
