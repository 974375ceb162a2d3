"""What labels are is told from their cells: one a row, several, a 0/1 column each, or numbers."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from read_tables import encoded, kinds, labelled

from heads.data.columns import guess
from heads.data.dataset import Data, data_of, read
from heads.data.files import open_table
from heads.data.labels import find_separator
from heads.data.table import ColumnHints, Columns
from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL

QUICK = settings(max_examples=60)
NAMES = ("angry", "calm", "glad", "sad", "tired")


def saved(folder: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    path = folder / "table.csv"
    path.write_bytes(encoded([header, *rows]))
    return path


def sets(data: Data) -> list[set[str]]:
    corpus = data.corpus
    return [{corpus.classes[number] for number in target} for target in corpus.targets]


# Several labels in a cell

SETS = st.lists(st.frozensets(st.sampled_from(NAMES), max_size=4), min_size=30, max_size=80)


def test_one_word_that_moves_makes_no_separator_of_a_comma() -> None:
    names = ["wool, red", "wool, blue", "silk, red", "silk, blue", "linen, red", "linen, blue"]
    assert find_separator([*names, "red, blue"]) == ""
    assert find_separator([*names, "red, blue", "blue, wool"]) == ","


@QUICK
@given(given_sets=SETS, sign=st.sampled_from("|;,"), space=st.sampled_from(["", " "]))
def test_labels_joined_by_a_sign_come_back(folder, given_sets, sign, space) -> None:
    cells = [f"{sign}{space}".join(sorted(labels)) for labels in given_sets]
    joined = {cell for cell in cells if sign in cell}
    assume(len(joined) >= 8)  # then few labels make many cells
    data = read(labelled(folder, cells))
    assert (data.columns.separator, data.corpus.problem) == (sign, MULTI_LABEL)
    assert sets(data) == list(map(set, given_sets))
    assert data.dropped == {}
    assert "separator" in kinds(data)
    told = read(labelled(folder, cells), data.columns)
    assert told.corpus == data.corpus
    assert "separator" not in kinds(told)


@pytest.mark.parametrize(
    "cells",
    [
        ["card payment, fee", "card payment, lost", "transfer, fee", "top up"],
        ["Toys & Games, new", "Toys & Games, used", "Books, new", "Books, used", "Tools, new"],
        [f"{thing}, {state}" for thing in "abcdef" for state in ("new", "used", "broken")],
        [f"{thing}|{state}" for thing in "abcdef" for state in ("new", "used", "broken")],
        [f"May {day}, {year}" for day in range(1, 28) for year in (2020, 2021, 2022)],
        ["3,5", "2,5", "3,0", "2,0", "5,3", "0,2", "3"],
        ["1,000", "2,000", "1,500", "2,500", "1,000,000", "2,000,500", "500"],
        ["sports", "sports|tennis", "sports|football", "news", "news|local", "news|world"],
        ["Yes, it works", "No, it does not", "Yes, mostly", "No, never", "Yes", "No", "Maybe"],
        ["Smith, John", "Smith, Anna", "Doe, John", "Doe, Anna", "Roe, John", "Roe, Anna"],
        ["pos|extra", "neg|extra"],
        ["a, b", "a", "b", "c", "d"],
        ["[27]", "[2, 17]", "[2, 27]", "[17, 27]", "[2]", "[17]", "[2, 17, 27]"],
        ["well, it came late; I sent it back", "it came; fine", "no, thanks", "a | b"],
        ["sci/tech", "2021/05/03", "a/b", "b/a", "a", "b"],
        [],
    ],
)
def test_no_sign_is_found_where_labels_hold_one(cells: list[str]) -> None:
    assert find_separator(cells) == ""


@pytest.mark.parametrize(
    ("cells", "sign"),
    [
        (["billing", "refund", "login", "billing|urgent", "refund|urgent", "login|urgent"], "|"),
        (["2,17", "27", "2", "2,17,27", "17,27", "17", "2,27"], ","),
        (["a; b", "b; c", "a; c", "a", "b", "c"], ";"),
    ],
)
def test_a_sign_is_found_between_few_labels(cells: list[str], sign: str) -> None:
    assert find_separator(cells) == sign


def test_a_sentence_as_label_is_one_label(folder) -> None:
    cells = ["a, b", *["spam", "ham", "eggs"] * 5]
    data = read(labelled(folder, cells))
    assert data.columns.separator == ""
    assert "a, b" in data.corpus.classes


def test_a_sign_that_no_cell_holds_leaves_one_label_a_row(folder) -> None:
    columns = Columns(text="text", label="label", separator=";")
    data = read(labelled(folder, ["x", "y"] * 6), columns)
    assert data.corpus.problem is SINGLE_LABEL
    assert "No cell holds ';'" in next(one.says for one in data.findings)


def test_warnings_are_of_each_label_where_there_are_several(folder) -> None:
    pool = ["Joy|calm", "joy|calm", "calm|sad", "joy|sad|calm", "joy", "sad", "calm", "Joy"]
    cells = pool * 6 + ["calm|rare", "calm|seld\u043em", "calm|seldom"]
    data = read(labelled(folder, cells))
    assert data.columns.separator == "|"
    assert {"case", "lookalike", "tiny"} <= kinds(data)
    assert "several" not in kinds(data)
    tiny = next(one for one in data.findings if one.kind == "tiny")
    assert tiny.says.startswith("3 labels have fewer than 5 rows")
    cut = labelled(folder, ["x" * 150 + "|y", "y|z", "z|" + "x" * 150, "x" * 150, "y", "z"] * 5)
    data = read(cut)
    assert data.corpus.classes == ("x" * 100, "y", "z")
    assert "long_labels" in kinds(data)


def test_labels_that_all_stand_in_the_text_are_a_leak(folder) -> None:
    rows = [
        (f"tags: {' and '.join(labels)} {row}", "|".join(labels))
        for row, labels in enumerate([("red",), ("blue", "red"), ("blue", "green"), ("green",)] * 6)
    ]
    columns = Columns(text="text", label="label", separator="|")
    data = read(saved(folder, ("text", "label"), rows), columns)
    assert "label_in_text" in kinds(data)


# A 0/1 column each


@QUICK
@given(
    given_sets=SETS,
    signs=st.sampled_from([("0", "1"), ("0.0", "1.0"), ("False", "True"), ("no", "Yes")]),
)
def test_columns_of_flags_say_what_joined_labels_say(folder, given_sets, signs) -> None:
    said = set().union(*given_sets)
    spared = [name for name in NAMES if any(name not in labels for labels in given_sets)]
    mixed = [name for name in spared if name in said]
    assume(len(mixed) > 2)
    given_sets = [labels & set(spared) for labels in given_sets]
    rows = [
        (f"this is the {row}th of some texts", *(signs[name in labels] for name in spared))
        for row, labels in enumerate(given_sets)
    ]
    wide = read(saved(folder, ("text", *spared), rows))
    assert wide.columns == Columns(text="text", label="", labels=tuple(spared))
    assert sets(wide) == list(map(set, given_sets))
    assert "columns" in kinds(wide)
    never = set(spared) - said
    assert ("never" in kinds(wide)) == bool(never)
    cells = ["|".join(sorted(labels)) for labels in given_sets]
    if any("|" in cell for cell in cells):
        joined = Columns(text="text", label="label", separator="|")
        same = read(labelled(folder, cells), joined)
        assert same.corpus == wide.corpus


def table_of(header: str, *columns: Callable[[int], object], rows: int = 40) -> str:
    lines = [
        ",".join([f"some words {row} of a text", *(str(column(row)) for column in columns)])
        for row in range(rows)
    ]
    return "\n".join([f"text,{header}", *lines])


def bit(every: int) -> Callable[[int], object]:
    return lambda row: int(row % every == 0)


def word(row: int) -> object:
    return ("good", "bad")[row % 2]


@pytest.mark.parametrize(
    ("header", "columns", "label", "labels"),
    [
        ("toxic,threat", (bit(2), bit(3)), "", ("toxic", "threat")),
        ("price,quality,service", (bit(2), bit(3), bit(5)), "", ("price", "quality", "service")),
        ("label_toxic,label_threat", (bit(2), bit(3)), "", ("label_toxic", "label_threat")),
        ("id,unclear,a,b,c", (int, lambda row: bool(row % 4), bit(2), bit(3), bit(5)), "",
         ("a", "b", "c")),
        ("app,a,b,c,d", (word, bit(2), bit(3), bit(5), bit(7)), "", ("a", "b", "c", "d")),
        ("label,is_reply", (bit(2), bit(3)), "label", ()),
        ("is_reply,has_link,sentiment", (bit(2), bit(3), word), "sentiment", ()),
        ("is_reply,has_link,mood", (bit(2), bit(3), word), "mood", ()),
        ("a,b,c,mood,d,e,f", (bit(2), bit(3), bit(5), word, int, int, int), "mood", ()),
        ("spam", (bit(2),), "spam", ()),
        ("spam,weight", (bit(2), lambda _: 1), "spam", ()),
    ],
)  # fmt: skip
def test_flags_are_labels_unless_a_column_is_called_so(
    write, header: str, columns: tuple, label: str, labels: tuple[str, ...]
) -> None:
    found = guess(open_table(write(table_of(header, *columns))))
    assert (found.text, found.label, found.labels) == ("text", label, labels)


@pytest.mark.parametrize("columns", [None, Columns(text="text", label="", labels=("a", "b"))])
@pytest.mark.parametrize("cell", ["2", "", "x"])
def test_a_slip_in_a_column_of_flags_is_named_and_hides_no_column(write, cell, columns) -> None:
    content = table_of("a,b,c", bit(2), lambda row: cell if row == 40 else row % 2, bit(3), rows=60)
    with pytest.raises(DataError) as refused:
        read(write(content), columns)
    assert (refused.value.line, refused.value.column) == (42, "b")


@pytest.mark.parametrize(
    "columns",
    [
        Columns(text="text", label=""),
        Columns(text="", label="a"),
        Columns(text="text", label="a", labels=("b", "c")),
        Columns(text="text", label="", labels=("a", "a")),
        Columns(text="text", label="", labels=("",)),
        Columns(text="text", label="", labels=("a", "gone")),
        Columns(text="text", label="a", separator="|", number=True),
        Columns(text="text", label="", labels=("a",)),
        Columns(text="text", label="", labels=("a", "b"), order=("a", "b")),
    ],
)
def test_columns_that_do_not_fit_are_a_sentence(write, columns: Columns) -> None:
    with pytest.raises(DataError) as refused:
        read(write(table_of("a,b,c", bit(2), bit(3), bit(5))), columns)
    assert refused.value.hint


# Numbers


@QUICK
@given(
    numbers=st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=30,
                     max_size=60, unique=True),
)  # fmt: skip
def test_numbers_come_back(folder, numbers) -> None:
    assume(any(value != int(value) for value in numbers))
    data = read(labelled(folder, numbers))
    assert data.columns.number
    assert data.corpus.numbers == tuple(numbers)
    assert (data.corpus.problem, data.corpus.classes) == (REGRESSION, ("label",))
    assert data.spread[::4] == (min(numbers), max(numbers))
    assert data.spread == tuple(sorted(data.spread))
    assert "every row has its own number" in next(
        one.says for one in data.findings if one.kind == "numbers"
    )


def test_rows_without_a_number_are_dropped_and_counted(folder) -> None:
    cells = [f"{row / 7:.3f}" for row in range(100)]
    cells[3], cells[40], cells[41], cells[60] = "", "n/a", "1e999", "nan"
    data = read(labelled(folder, cells))
    assert data.columns.number
    assert data.dropped == {"no number": (5, 42, 43, 62)}
    assert "Dropped 4 rows with no number: lines 5, 42, 43 and 62." in [
        one.says for one in data.findings
    ]
    assert len(data.corpus.numbers) == 96
    assert all(map(math.isfinite, data.corpus.numbers))


def test_numbers_that_teach_nothing_are_refused(folder) -> None:
    columns = Columns(text="text", label="label", number=True)
    for cells in (["2.5"] * 20, ["1", "2.5"] * 4):
        with pytest.raises(DataError):
            read(labelled(folder, cells), columns)


def test_stars_are_classes_in_order_or_numbers_as_asked(folder) -> None:
    path = labelled(folder, [row % 5 + 1 for row in range(50)])
    data = read(path)
    assert (data.corpus.classes, data.corpus.ordered) == (("1", "2", "3", "4", "5"), True)
    assert data.says == "5 classes, in order"
    table = open_table(path)
    data = data_of(table, guess(table, ColumnHints(number=True)))
    assert data.corpus.numbers[:5] == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert data.says == "numbers from 1 to 5"
    assert data.classes == {}


# What a user says


def test_what_is_said_is_taken_and_the_rest_is_guessed(folder) -> None:
    cells = ["a|b", "b|c", "a|c", "a", "b", "c", "a|b|c", ""] * 4
    table = open_table(labelled(folder, cells))
    assert guess(table) == Columns(text="text", label="label", separator="|")
    assert guess(table, ColumnHints(separator="")).separator == ""
    assert guess(table, ColumnHints(text="text")).separator == "|"
    assert guess(table, ColumnHints(order=("a", "b"))).separator == ""
    table = open_table(
        saved(folder, ("text", "a", "b"), [("some text", 0, 1), ("other text", 1, 0)])
    )
    assert guess(table).labels == ("a", "b")
    assert guess(table, ColumnHints(label="b")) == Columns(text="text", label="b")
    assert guess(table, ColumnHints(separator="")).labels == ()
    assert not ColumnHints()
    assert ColumnHints(number=False)


def test_an_order_is_kept_in_the_data(folder) -> None:
    path = labelled(folder, ["low", "high", "middle"] * 5)
    columns = Columns(text="text", label="label", order=("low", "middle", "high"))
    data = read(path, columns)
    assert (data.corpus.classes, data.corpus.ordered) == (columns.order, True)
    assert list(data.classes) == list(columns.order)
    told = data.as_json()
    assert (told["problem_type"], told["ordered"], told["columns"]["order"]) == (
        "single_label_classification", True, ["low", "middle", "high"],
    )  # fmt: skip
