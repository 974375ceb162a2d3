"""Tables in a terminal of any width."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from heads.display import Table
from heads.interfaces import result

RECIPES = ("cls+linear", "mean+linear?pair=uv_diff_prod", "attention+linear", "cls+roberta")
ROWS = [("a class of words", "24.4 % −0.03", "16.5 %", "it is long and is folded", "")]
ROWS += [("answer", "positive", "negative (flips)", "yes", "1.2k")]


def printed(width, titles, rows):
    """The lines that a table takes, and the tables that it became."""
    table = Table(headers=("", *titles), rows=tuple(map(tuple, rows)))
    console = Console(file=io.StringIO(), width=width)
    parts = result.fit_table(table, console)
    console.print(*parts, sep="\n")
    return console.file.getvalue().splitlines(), parts


@pytest.mark.parametrize("width", [45, 60, 80, 100, 140])
def test_no_word_of_a_table_is_broken_and_no_line_is_too_long(width):
    lines, _ = printed(width, RECIPES, ROWS)
    words = " ".join(lines).split()
    assert max(map(len, lines)) <= width
    assert set(RECIPES) <= set(words)
    assert {word for row in ROWS for cell in row for word in cell.split()} <= set(words)


@given(
    st.integers(30, 120),
    st.lists(st.lists(st.text("ab ", max_size=20), min_size=4, max_size=4), min_size=1, max_size=4),
)
def test_every_column_is_shown_once_beside_the_first(width, rows):
    titles = ("one", "two", "three")
    lines, parts = printed(width, titles, rows)
    headers = [[column.header.plain for column in part.columns] for part in parts]
    assert all(header[0] == "" for header in headers)
    assert tuple(title for header in headers for title in header[1:]) == titles
    assert max(map(len, lines)) <= width


def test_a_table_that_fits_is_one():
    assert len(printed(140, RECIPES, ROWS)[1]) == 1
    assert len(printed(60, RECIPES, ROWS)[1]) > 1


def test_no_text_of_a_users_moves_the_cursor_or_turns_the_way_of_writing(capsys):
    rows = (("a", "\u202eevil\u2066 \x1b[31mred\x9b2J\x07"),)
    table = Table(headers=("", "text\u202e"), rows=rows)
    result.show(table, "one\u202e\x1b]0;title\x07\ntwo")
    written = capsys.readouterr().out
    assert all(line.isprintable() for line in written.splitlines())
    assert "evil" in written
    assert written.splitlines()[-1] == "two"
