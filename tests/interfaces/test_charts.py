"""Charts as HTML: what stands where, every number printed, nothing foreign as markup."""

import re
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heads.interfaces import accounts, charts, closer
from heads.interfaces.boards import MEASURES, Tile, coded, heat, in_order
from heads.interfaces.charts import Axis, Line
from heads.pipeline.measure.measures import Bin
from heads.pipeline.runs.disagreement import Disagreement
from heads.pipeline.table import Columns

HOSTILE = '<img src=x onerror="x">" style="x'


class Tags(HTMLParser):
    """Collects tags, attributes and balance."""

    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("polyline", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "polyline":
            assert self.open.pop() == tag


def tags(html):
    parser = Tags()
    parser.feed(str(html).replace("/>", ">"))
    assert parser.open == []
    return parser.seen


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9), st.floats(1e-3, 1e9), st.booleans())
def test_a_place_is_always_within_the_frame(low, high, value, is_log):
    axis = Axis(low=min(low, high), high=max(low, high), ticks=(), says="", is_log=is_log)
    assert 0 <= axis.place(value) <= 100


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_an_axis_of_shares_holds_all_of_them(values):
    axis = charts.shares(values, "")
    assert axis.low - 0.021 <= min(values)
    assert max(values) <= axis.high + 0.021
    assert len(axis.ticks) <= 7


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=9))
def test_an_axis_of_powers_holds_all_numbers(values):
    axis = charts.powers(values, "")
    assert axis.low <= min(values) <= max(values) <= axis.high


def test_points_intervals_and_ticks_stand_where_they_belong():
    line = Line(name="one", points=((1, 0.5),), spans=((0.25, 0.75),), says=("half",))
    x = Axis(low=0, high=4, ticks=((0, "0"), (4, "4")), says="rows")
    y = Axis(low=0, high=1, ticks=((0.5, "50 %"),), says="right")
    seen = tags(charts.chart([line], x, y, says="a chart"))
    marks = {found["class"]: found for _, found in seen if "class" in found}
    assert "left:25.0%;bottom:50.0%" in marks["dot"]["style"]
    assert "bottom:25.0%;height:50.0%" in marks["span"]["style"]
    assert marks["plot"]["aria-label"] == "a chart"
    assert marks["dot"]["title"] == "half"


def test_the_live_chart_keeps_its_frame_while_passes_go_by():
    few = charts.live({"mean+mlp": {1: 0.5}}, 40)
    many = charts.live({"mean+mlp": dict.fromkeys(range(1, 41), 0.5)}, 40)
    assert re.findall("tick.*?</b>", few) == re.findall("tick.*?</b>", many)


def test_only_the_twenty_first_bars_are_drawn_and_the_rest_is_counted():
    drawn = charts.bars([(f"class {n}", 0.5) for n in range(33)])
    assert drawn.count("<li") == 20
    assert "and 13 more" in drawn


RECIPES = ["mean+linear", "cls+linear", "mean+mlp"]


def test_the_heat_map_gives_the_best_a_star_and_waits_for_the_rest():
    tiles = {
        "mean+linear": Tile(value=0.9, shown="90 %"),
        "cls+linear": Tile(value=0.8, shown="80 %"),
    }
    drawn = heat(RECIPES, tiles, MEASURES["accuracy"])
    assert drawn.count("★") == 1
    assert '--depth:1.000"><b>90 % ' in drawn
    assert '--depth:0.000"><b>80 %' in drawn
    assert drawn.count('class="waits"') == 1
    assert drawn.count('class="none"') == 1
    assert "★" not in heat(RECIPES, tiles, MEASURES["accuracy"], live=True)


def test_less_is_better_where_the_measure_says_so_and_small_differences_stay_pale():
    tiles = {
        "mean+linear": Tile(value=0.2, shown="low"),
        "cls+linear": Tile(value=0.9, shown="high"),
    }
    assert '--depth:1.000"><b>low ' in heat(RECIPES, tiles, MEASURES["log_loss"])
    near = {"mean+linear": Tile(value=0.9, shown="a"), "cls+linear": Tile(value=0.899, shown="b")}
    assert '--depth:0.950"><b>b' in heat(RECIPES, near, MEASURES["accuracy"])


def test_recipes_stand_in_the_order_of_the_menu():
    names = ["max+mlp", "mean+linear", "cls+mlp", "cls+linear"]
    assert in_order(names) == ["cls+linear", "cls+mlp", "mean+linear", "max+mlp"]


def test_of_many_classes_those_that_are_confused_most_are_drawn():
    table = torch.diag(torch.full((30,), 9))
    table[7, 28] = 5
    drawn = closer.confusion(table, [f"class {n}" for n in range(30)])
    assert drawn.count("<tr>") == 21
    assert "class 7<" in drawn
    assert "class 28<" in drawn
    assert "20 of 30 classes" in drawn


def test_disagreements_name_a_few_heads_the_surest_first():
    answers = [(f"head{n}", "yes", n / 10) for n in range(5)] + [("other", "no", 0.5)]
    found = Disagreement(line=2, text="t", pair="", label="no", answers=tuple(answers), share=1 / 6)
    drawn = closer.disagreements([found])
    assert "head4 (40 %), head3 (30 %), head2 (20 %) and 2 more" in drawn
    assert '<dt class="right">no</dt>' in drawn


@pytest.mark.parametrize(
    "drawn",
    [
        charts.bars([(HOSTILE, 0.5)]),
        charts.legend([("#fff", HOSTILE)]),
        charts.live({HOSTILE: {1: 0.5}}, 4),
        closer.confusion(torch.eye(2).long(), [HOSTILE, "b"]),
        closer.calibration([Bin(rows=1, confidence=0.5, accuracy=1.0)], 0.5),
        closer.f1([0.5, None], [HOSTILE, "b"]),
        closer.tried({HOSTILE: [0.5, 0.5]}, [HOSTILE, "b"]),
        closer.disagreements(
            [
                Disagreement(
                    line=1, text=HOSTILE, pair=HOSTILE, label=HOSTILE, share=0.5,
                    answers=((HOSTILE, HOSTILE, 0.5),),
                )
            ]
        ),
        coded(f"`{HOSTILE}` is {HOSTILE}"),
        accounts.preview([HOSTILE], [[HOSTILE]], Columns(text=HOSTILE, label="")),
    ],
)  # fmt: skip
def test_hostile_names_are_text_everywhere(drawn):
    for tag, attributes in tags(drawn):
        assert tag not in ("img", "script", "a")
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("style") != "x"
