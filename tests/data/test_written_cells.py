"""Numbers, lists, titles and quotes as people write them are read for what they are."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from read_tables import encoded, labelled, says

from heads.data.columns import guess, is_code, is_date
from heads.data.dataset import data_of, read
from heads.data.files import open_table
from heads.data.numbers import notation_of, plainest
from heads.data.table import ColumnHints, Columns, members
from heads.data.text import INVISIBLE, fold, folded, is_blank
from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL

QUICK = settings(max_examples=60)
UNSEEN = "\u200b\u200d\u00ad\ufeff\u2060\u200e\u2800\u3164\u180e\ufe0f"


# Numbers


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_decimal_commas_are_numbers(folder: Path, sign: str) -> None:
    cells = [f"{row // 10},{row % 10}" for row in range(60)]
    data = read(labelled(folder, cells, sign))
    assert data.columns.number
    assert data.corpus.numbers == tuple(float(cell.replace(",", ".")) for cell in cells)
    assert data.dropped == {}


def test_a_few_numbers_with_commas_are_classes_in_order(folder: Path) -> None:
    data = read(labelled(folder, ["3,5", "4", "10,0", "0,5"] * 20))
    assert (data.corpus.problem, data.corpus.ordered) == (SINGLE_LABEL, True)
    assert data.corpus.classes == ("0,5", "3,5", "4", "10,0")
    assert not says(data, "several")
    table = open_table(labelled(folder, ["3,5", "4", "10,0", "0,5"] * 20))
    asked = data_of(table, guess(table, ColumnHints(number=True)))
    assert asked.corpus.numbers[:4] == (3.5, 4.0, 10.0, 0.5)


def test_thousands_are_told_from_decimals(folder: Path) -> None:
    columns = Columns(text="text", label="label", number=True)
    data = read(labelled(folder, ["1,000", "12,500", "7", "1,250,000"] * 5), columns)
    assert data.corpus.numbers[:4] == (1000.0, 12500.0, 7.0, 1250000.0)
    data = read(labelled(folder, ["1.000,5", "2,5", "7", "12.345,75"] * 5), columns)
    assert data.corpus.numbers[:4] == (1000.5, 2.5, 7.0, 12345.75)


@QUICK
@given(
    values=st.lists(st.decimals(-9999, 9999, places=2), min_size=1, max_size=20),
    unit=st.sampled_from(["{}", "{} %", "{}%", "${}", "{} €", "EUR {}"]),
    comma=st.booleans(),
)
def test_numbers_come_back_however_they_are_written(values, unit: str, comma: bool) -> None:
    cells = [unit.format(value) for value in values]
    cells = [cell.replace(".", ",") for cell in cells] if comma else cells
    notation = notation_of(cells)
    assert [notation.value(cell) for cell in cells] == [float(value) for value in values]
    assert notation.comma == ("decimal" if comma else "")
    assert bool(notation.unit) == (unit != "{}")


@given(label=st.text("0123456789.,-a", max_size=8))
def test_the_plainest_spelling_is_the_same_number_and_stays(label: str) -> None:
    plain = plainest(label)
    assert plainest(plain) == plain
    value = notation_of([label]).value(label)
    if plain != label and "," not in label:
        assert notation_of([plain]).value(plain) == value
    assert len(plain) <= len(label)


def test_one_and_one_point_nought_are_one_class_and_it_is_said(folder: Path) -> None:
    data = read(labelled(folder, ["1", "0", "1.0", "0.0", "2"] * 10))
    assert (data.corpus.classes, data.corpus.ordered) == (("0", "1", "2"), False)  # codes
    assert says(data, "one_spelling").startswith("'1', '1.0' are one number and were taken for one")
    assert data.classes == {"0": 20, "1": 20, "2": 10}
    alone = read(labelled(folder, ["1.0", "0.0"] * 10))
    assert (alone.corpus.classes, says(alone, "one_spelling")) == (("0.0", "1.0"), "")
    codes = read(labelled(folder, ["007", "7", "1.10", "1.1.0"] * 10))
    assert codes.corpus.classes == ("007", "1.1.0", "1.10", "7")


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        ([f"{row % 40}%" for row in range(120)], "percentages"),
        ([f"${row % 4}.99" for row in range(120)], "prices"),
        ([f"{row % 19 * 5 + 5}" for row in range(120)], "whole numbers from 5 to 95"),
        ([f"{row % 101}" for row in range(303)], "whole numbers from 0 to 100"),
        ([f"{row % 5 + 1}" for row in range(60)], ""),
        ([f"{row % 77}" for row in range(308)], ""),  # the numbers of banking77's classes
        (["spam", "ham"] * 30, ""),
    ],
)
def test_amounts_get_a_hint_that_numbers_can_be_predicted(folder, cells, hint: str) -> None:
    data = read(labelled(folder, cells))
    assert data.corpus.problem is SINGLE_LABEL
    told = says(data, "amounts")
    assert bool(told) == bool(hint)
    if hint:
        assert f"The labels are {hint} (" in told
        assert "--number" in told
        table = open_table(labelled(folder, cells))
        asked = data_of(table, guess(table, ColumnHints(number=True)))
        assert (asked.corpus.problem, asked.dropped) == (REGRESSION, {})


# Lists


NAMES = st.text("abc \"'\\,[]é", min_size=1, max_size=6).filter(lambda name: name.strip() == name)


@QUICK
@given(lists=st.lists(st.lists(NAMES, max_size=4), max_size=6))
def test_the_members_of_a_list_come_back(lists: list[list[str]]) -> None:
    for names in lists:
        assert members(json.dumps(names)) == names
        assert members(json.dumps(names, ensure_ascii=False)) == names
        if not any("\\" in name or "'" in name for name in names):
            assert members(f"[{', '.join(map(repr, names))}]") == names


@pytest.mark.parametrize("spell", [json.dumps, repr, lambda names: " ".join(map(str, [names]))])
def test_lists_in_cells_are_several_labels(folder: Path, spell: Callable) -> None:
    names = [["joy"], ["joy", "love"], [], ["anger", "fear"], ["fear"], ["love"]] * 8
    data = read(labelled(folder, [spell(each) for each in names]))
    assert (data.columns.separator, data.corpus.problem) == ("[]", MULTI_LABEL)
    assert data.corpus.classes == ("anger", "fear", "joy", "love")
    found = [[data.corpus.classes[at] for at in target] for target in data.corpus.targets]
    assert found == [sorted(each) for each in names]
    assert data.says == "4 labels, 1.2 a row, in lists"
    assert "as a list. 8 rows have none" in says(data, "separator")


def test_lists_in_json_are_several_labels_and_no_text(tmp_path: Path) -> None:
    names = [["joy"], ["joy", "love"], [], ["anger"]] * 8
    path = tmp_path / "rows.jsonl"
    rows = [{"text": f"some words {row}", "labels": each} for row, each in enumerate(names)]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    data = read(path)
    assert (data.columns.label, data.columns.separator) == ("labels", "[]")
    assert data.corpus.targets[:4] == ((1,), (1, 2), (), (0,))
    with pytest.raises(DataError):
        read(path, Columns(text="labels", label="text"))
    nested = [{"text": f"some words {row}", "labels": [each]} for row, each in enumerate(names)]
    path.write_text("\n".join(map(json.dumps, nested)), "utf-8")
    with pytest.raises(DataError):
        read(path)


def test_lists_of_classes_in_parquet_are_several_labels(tmp_path: Path) -> None:
    kinds = {"text": Value("string"), "labels": List(ClassLabel(names=["joy", "love", "fear"]))}
    cells = {"text": [f"some {row}" for row in range(12)], "labels": [[0], [0, 2], []] * 4}
    Dataset.from_dict(cells, Features(kinds)).to_parquet(tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet")
    assert data.columns.separator == "[]"
    assert data.corpus.classes == ("fear", "joy")
    assert data.corpus.targets[:3] == ((1,), (0, 1), ())


def test_words_in_brackets_are_classes(folder: Path) -> None:
    data = read(labelled(folder, ["[URGENT]", "[LATER]"] * 10))
    assert data.corpus.classes == ("[LATER]", "[URGENT]")


# Texts of which nothing is to be seen


@given(text=st.text(UNSEEN + " \n\t", max_size=8))
def test_what_is_invisible_is_blank(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(text + "x")
    assert folded(f"a{text}b").replace(" ", "") == "ab\n"


@given(text=st.text(max_size=12))
def test_folding_is_done_once_and_hides_case_and_space(text: str) -> None:
    assert fold(fold(text)) == fold(text) or not fold(text).isascii()
    assert fold(f"  {text}\n") == fold(text)
    assert not INVISIBLE.search(fold(text)) or text.casefold() != text


def test_invisible_texts_and_labels_are_empty_and_counted(tmp_path: Path) -> None:
    lines = [f"words {row},{'xy'[row % 2]}" for row in range(20)]
    lines[3], lines[5], lines[9] = "\u200b\u00ad,x", "\ufeff \u2060,y", "words,\u200b"
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + "\n".join(lines), "utf-8")
    data = read(path)
    assert data.dropped == {"no text": (5, 7), "no label": (11,)}
    assert len(data.corpus) == 17


# A title, and quotes that are single


@pytest.mark.parametrize(
    "title",
    ["Reviews of 2024", "Reviews, 2024 export", '"Export, made today",', "# by a tool\n#\n", "\n"],
)
def test_a_title_above_the_names_is_left_out_and_said(tmp_path: Path, title: str) -> None:
    path = tmp_path / "t.csv"
    rows = [f"some words {row},{'xy'[row % 2]}" for row in range(20)]
    path.write_text(f"{title}\ntext,label\n" + "\n".join(rows), "utf-8")
    data = read(path)
    assert data.names == ("text", "label")
    assert len(data.corpus) == data.rows_in == 20
    before = title.count("\n") + 2
    assert data.corpus.lines == tuple(range(before + 1, before + 21))
    told = says(data, "title")
    assert bool(told) == bool(title.strip())
    if told:
        assert title.split(",")[0].strip('"').split("\n")[0] in told


def test_a_first_row_that_is_no_title_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,\na b c,x\nd e f,y\ng h,x\n", "utf-8")
    with pytest.raises(DataError):
        read(path)
    path.write_text("text,label\na b,x\nc d,\ne f,y\n", "utf-8")
    data = read(path)
    assert (data.dropped, says(data, "title")) == ({"no label": (3,)}, "")


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_single_quotes_are_read(tmp_path: Path, sign: str) -> None:
    texts = ["it''s, fine; really", "don\\'t", 'a "word" here', "plain words"] * 5
    path = tmp_path / "t.csv"
    lines = [f"'{text}'{sign}'{'xy'[row % 2]}'" for row, text in enumerate(texts)]
    path.write_text(f"'text'{sign}'label'\n" + "\n".join(lines), "utf-8")
    data = read(path)
    assert data.names == ("text", "label")
    assert data.corpus.texts[:4] == (
        "it's, fine; really", "don't", 'a "word" here', "plain words",
    )  # fmt: skip
    assert data.corpus.classes == ("x", "y")
    assert "Cells are in single quotes." in data.notes


def test_an_apostrophe_is_no_quote(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"'tis the {row}th of them,{'xy'[row % 2]}" for row in range(20)]
    path.write_text("text,label\n" + "\n".join(rows), "utf-8")
    data = read(path)
    assert data.corpus.texts[0] == "'tis the 0th of them"
    assert "Cells are in single quotes." not in data.notes


@QUICK
@given(
    rows=st.lists(
        st.tuples(st.text("ab ',;\"é", max_size=8), st.sampled_from("xy")), min_size=2, max_size=12
    ),
    sign=st.sampled_from(",;\t|"),
)
def test_what_is_written_in_single_quotes_comes_back(folder: Path, rows, sign: str) -> None:
    path = folder / "single.csv"
    named = [("text", "label"), *rows]
    path.write_bytes(encoded(named, delimiter=sign, quote="'", quoting=csv.QUOTE_ALL))
    assume(len({label for _, label in rows}) > 1)
    table = open_table(path)
    assert table.columns == ("text", "label")
    assert [tuple(row) for row in table.rows] == rows


# Dates and codes


@given(
    day=st.dates(),
    style=st.sampled_from(
        ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%y", "%B %d, %Y", "%d-%b-%y", "%a %b %d %H:%M:%S %Y"]
    ),
)
def test_a_date_is_a_date_in_every_style(day, style: str) -> None:
    assume(day.year > 1000)
    assert is_date(day.strftime(style))


@given(words=st.lists(st.sampled_from(["May", "sun", "12", "of", "kettle", "on"]), min_size=3))
def test_a_sentence_is_neither_a_date_nor_a_code(words: list[str]) -> None:
    text = " ".join([*words, "leaks"])
    assert not is_date(text)
    assert not is_code(text)


# What no one can learn from is said, and no other column is taken instead


@pytest.mark.parametrize(
    "rows",
    [
        ["text,label", "a,x", "b,x"],
        ["label,text", "spam,You have won", "spam,Call now"],
        ["text,label", "1,spam", "0,spam"],
        ["id,text,label,lang", "7,so good,x,en", "8,so bad,x,de", "9,not good,x,en"],
    ],
)
def test_labels_that_are_all_the_same_are_still_the_labels(folder: Path, rows: list[str]) -> None:
    path = folder / "same.csv"
    path.write_text("\n".join(rows), "utf-8")
    with pytest.raises(DataError):
        read(path)


def test_lists_that_name_no_label_are_refused(folder: Path) -> None:
    path = folder / "none.jsonl"
    path.write_text('{"text": "a b", "labels": []}\n{"text": "c d", "labels": []}\n', "utf-8")
    with pytest.raises(DataError):
        read(path)
    for sign in (", ", " "):
        with pytest.raises(DataError):
            read(labelled(folder, [f"[{sign.join(one)}]" for one in ("001", "110", "010")]))


def test_what_often_stands_for_no_label_is_named(folder: Path) -> None:
    cells = ["yes", "no", "-", "yes", "no", "-", "yes"]
    found = read(labelled(folder, cells)).findings
    (told,) = [one.says for one in found if one.kind == "no_label"]
    assert told.startswith("'-' is the label of 2 rows")


def test_a_list_of_texts_is_no_text_where_another_column_is(folder: Path) -> None:
    path = folder / "cuisine.json"
    rows = [
        {
            "cuisine": "greek" if n % 2 else "thai",
            "dish": f"a dish {n} of many",
            "ingredients": ["a long list of things", "salt"],
        }
        for n in range(12)
    ]
    path.write_text(json.dumps(rows), "utf-8")
    assert read(path).columns.text == "dish"
