"""Is fine-tuning worth it? A phrase, a chart and a table, the same on the page and in a shell."""

import io
import re
from dataclasses import replace

import pytest
from boards import FAR, WAYS, board_of, in_ways
from rich.console import Console

from heads.interfaces import result
from heads.interfaces.cli import tables
from heads.interfaces.views import charts, ways_of_learning
from heads.interfaces.views.sections import find_sections, find_subject, result_sections
from heads.runs.cells import TuningReport
from heads.runs.grids import USUAL_TUNES
from heads.runs.leaderboard import Leaderboard

OTHER = {"cls+linear": (0, 400), "cls+linear?tune=lora": (0, 150)}
SECONDS = {"": 0.04, "last2": 42.0, "lora": 75.0, "full": 123.4}


def tuned_board(**wrongs: tuple[int, int]) -> Leaderboard:
    """A run whose cells say what it took to learn them."""
    board, cells = board_of(**wrongs, **FAR), []
    for cell in board.cells:
        tune = cell.name.partition("tune=")[2]
        report = TuningReport(parameters=22_565_376, diverged=2, peak_bytes=319_692_800)
        own = replace(cell, tuning=report if tune else None, seconds=SECONDS[tune])
        cells.append(own)
    found = replace(board, cells=tuple(cells))
    return replace(found, ways_of_learning=in_ways(found))


ONE, TWO = tuned_board(**WAYS), tuned_board(**WAYS, **OTHER)


def test_the_question_is_asked_first_where_there_is_an_answer():
    first = result_sections()[0]
    assert first.name == "tuning"
    assert first.has_answer(ONE)
    assert not first.has_answer(board_of(**{"mean+linear": (0, 300)}))
    assert len(first.draw_charts(find_subject(ONE))) == 1
    assert len(first.draw_charts(find_subject(TWO))) == 2


def test_the_answer_is_a_phrase():
    told = ways_of_learning.worth_learning(ONE.ways_of_learning)
    assert re.fullmatch(
        r"yes: learning .* scores 10\.0 points higher \(\+\d.* to \+.*\)"
        r" and trains [\d,.]+ times as long",
        told,
    )
    told = ways_of_learning.worth_learning(TWO.ways_of_learning)
    assert told.startswith("yes for mean+linear: learning ")
    assert told.endswith(" times as long; yes for cls+linear")
    many = TWO.ways_of_learning * 2
    assert ways_of_learning.worth_learning(many).endswith("; yes for 3 of 3 other recipes")
    close = tuned_board(**{"mean+linear": (0, 300), "mean+linear?tune=lora": (0, 299)})
    told = ways_of_learning.worth_learning(close.ways_of_learning)
    assert told.startswith("not shown: learning LoRA of rank 8 scores 0.1 points higher (−")


def test_a_row_says_what_a_way_gives_and_what_it_takes():
    (found,) = ONE.ways_of_learning
    table = ways_of_learning.tabulate_ways(found, "accuracy")
    assert {len(row) for row in table.rows} == {len(table.headers)}
    rows = [row[1:] for row in table.rows]
    score, interval, against, time, memory, base, head, settings, diverged = rows[0]
    assert (score, against, time, memory) == ("85.0 %", "", "< 0.1 s", "–")
    assert (base, head, settings, diverged) == ("–", "11.0k", "–", "–")
    assert re.fullmatch(r"[\d.]+–[\d.]+", interval)
    last = rows[1]
    assert re.fullmatch(r"\+10\.0 \(\+.* to \+.*\)\*", last[2])
    assert last[3:6] == ("42 s", "320 MB", "22.6M")
    assert last[8] == "2"
    assert rows[3][2].startswith("−10.0 (−")


def test_every_recipe_has_a_table_of_its_ways():
    (section,) = find_sections(["tuning"])
    answer = section.find_answer(find_subject(TWO))
    assert [table.title for table in answer.tables] == [
        f"{ways.recipe}: {ways.says}" for ways in TWO.ways_of_learning
    ]
    assert [row[0] for row in answer.tables[0].rows][1] == "Last 2 layers (last2)"


def test_the_chart_marks_the_best_way_and_the_frozen_score():
    (found,) = ONE.ways_of_learning
    chart = charts.ways(found)
    assert chart.says == f"mean+linear: {found.says}"
    layout = chart.figure["layout"]
    names = layout["yaxis"]["ticktext"]
    assert len(names) == len(chart.rows) == 4
    assert all(word in name for word, name in zip(("alone", "2 layers"), names, strict=False))
    (line,) = layout["shapes"]
    assert line["x0"] == line["x1"] == pytest.approx(85)
    (best,) = (trace for trace in chart.figure["data"] if trace["marker"]["color"] != charts.GREY)
    assert best["customdata"] == [found.best.cell.name] if found.best else False
    plain = tuned_board(**{"mean+linear": (0, 300), "mean+linear?tune=lora": (0, 300)})
    traces = charts.ways(plain.ways_of_learning[0]).figure["data"]
    assert [trace["marker"]["color"] for trace in traces] == [charts.GREY]


@pytest.mark.parametrize("width", [50, 80, 140])
def test_a_shell_of_any_width_shows_every_number(width, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(result, "Terminal", lambda: Console(file=out, width=width))
    monkeypatch.setattr(tables, "all_runs", list)
    tables.answer_questions(ONE, ["tuning"])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = set(out.getvalue().split())
    assert {"(frozen)", "(last2)", "(lora)", "(full)", "22.6M", "11.0k", "320"} <= words
    assert " ".join(ONE.ways_of_learning[0].says.split()) in " ".join(out.getvalue().split())


def test_names_of_tuned_heads_leave_room_for_the_chart_and_no_two_cells_are_one_tile():
    names = charts.forest(TWO).figure["layout"]["yaxis"]["ticktext"]
    assert not any("learned" in name for name in names)  # the recipe beside it says it
    assert TWO.recipes["mean+linear?tune=full"].title == "Average → One layer, everything learned"
    figure = charts.heat_map(TWO).figure
    tops = figure["layout"]["xaxis"]["ticktext"]
    assert tops.count("linear") == 1
    assert "linear<br>?tune=last2" in tops
    tiles = [name for row in figure["data"][0]["customdata"] for name in row if name]
    assert len(tiles) == len(set(tiles)) == 6


def test_what_was_learned_is_counted_whole():
    cell = ONE.cell("mean+linear?tune=full")
    assert cell.learned == cell.parameters + 22_565_376
    assert ONE.cell("mean+linear").learned == ONE.cell("mean+linear").parameters


def test_titles_of_the_menu_are_those_of_the_parts():
    from heads.interfaces.web.places.settings_form import LEARNED, _grids

    assert dict(LEARNED)["Last 2 layers"] == "last2"
    assert {*USUAL_TUNES} <= {name for _, name in LEARNED}
    assert ("Frozen or fine-tuned? mean+linear in 5 ways", "tunes") in _grids()
