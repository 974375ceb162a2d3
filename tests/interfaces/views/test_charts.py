"""Charts as HTML: what stands where, every number printed, nothing foreign as markup."""

import itertools
import re
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from heads.data.table import Columns
from heads.evaluation.details import LabelDetails
from heads.interfaces.views import charts, dataset, head_details, predictions
from heads.interfaces.views.plain_charts import Axis, Line
from heads.interfaces.views.format import MEASURES, ends, headers
from heads.interfaces.views.leaderboard import Tile, broken, coded, heat, in_order
from heads.interfaces.views.predictions import Reply
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, REGRESSION, SINGLE_LABEL
from heads.runs.drill_down import Disagreement

ACCURACY, LOG_LOSS = MEASURES[SINGLE_LABEL][0], MEASURES[SINGLE_LABEL][2]
ERROR = MEASURES[REGRESSION][3]
HOSTILE = '<img src=x onerror="x">" style="x'


class Tags(HTMLParser):
    """Collects tags, attributes and balance."""

    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("polyline", "br", "wbr"):
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
def test_an_axis_of_scores_holds_all_of_them(values):
    axis = charts.scores(values, "micro_f1")
    assert axis.low - 0.021 <= min(values)
    assert max(values) <= axis.high + 0.021
    assert len(axis.ticks) <= 7
    assert all(says.endswith(" %") for _, says in axis.ticks)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_an_axis_of_correlations_goes_below_zero(values):
    axis = charts.scores(values, "spearman")
    assert axis.low - 0.021 <= min(values)
    assert max(values) <= axis.high + 0.021
    assert len(axis.ticks) <= 7
    assert not any("%" in says or "-" in says for _, says in axis.ticks)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
@example([5e-324])
@example([0.0, 5e-324])
@example([1e6, 1e6 - 1e-10])
def test_an_axis_of_any_numbers_holds_them_on_few_round_ticks(values):
    axis = charts.even(values, "")
    room = 1e-5 * (axis.high - axis.low)
    assert axis.low - room <= min(values)
    assert max(values) <= axis.high + room
    assert 2 <= len(axis.ticks) <= 7


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


def test_the_live_chart_moves_its_frame_seldom_while_steps_are_taken():
    frames = [
        re.findall("tick.*?</b>", charts.live({"mean+mlp": {8: 0.5, last: 0.6}}, last))
        for last in range(33, 4097)
    ]
    assert sum(one != other for one, other in itertools.pairwise(frames)) == 6


@given(st.integers(1, 10**6))
def test_an_axis_of_steps_holds_them_and_has_few_ticks(last):
    axis = charts.steps(last, "Steps")
    assert axis.low <= 8
    assert last <= axis.high < max(64, 2 * last)
    assert len(axis.ticks) <= 6


def test_only_the_twenty_first_bars_are_drawn_and_the_rest_is_counted():
    drawn = charts.bars([(f"class {n}", 0.5) for n in range(33)])
    assert drawn.count("<li") == 20
    assert "and 13 more" in drawn


RECIPES = ["mean+linear", "cls+linear", "mean+mlp"]
RESOLVED = list(map(resolve, RECIPES))


def test_the_heat_map_gives_the_best_a_star_and_waits_for_the_rest():
    tiles = {
        "mean+linear": Tile(value=0.9, shown="90 %"),
        "cls+linear": Tile(value=0.8, shown="80 %"),
    }
    drawn = heat(RESOLVED, tiles, ACCURACY)
    assert drawn.count("★") == 1
    assert '--depth:1.000"><b>90 % ' in drawn
    assert '--depth:0.000"><b>80 %' in drawn
    assert drawn.count('class="waits"') == 1
    assert drawn.count('class="none"') == 1
    assert "★" not in heat(RESOLVED, tiles, ACCURACY, is_live=True)
    waiting = [name for name in RECIPES if name not in tiles]
    assert "stopped" not in drawn
    assert heat(RESOLVED, tiles, ACCURACY, out=waiting).count(">stopped<") == len(waiting) > 0


def test_less_is_better_where_the_measure_says_so_and_small_differences_stay_pale():
    tiles = {
        "mean+linear": Tile(value=0.2, shown="low"),
        "cls+linear": Tile(value=0.9, shown="high"),
    }
    assert '--depth:1.000"><b>low ' in heat(RESOLVED, tiles, LOG_LOSS)
    near = {"mean+linear": Tile(value=0.9, shown="a"), "cls+linear": Tile(value=0.899, shown="b")}
    assert '--depth:0.950"><b>b' in heat(RESOLVED, near, ACCURACY)


def test_recipes_stand_in_the_order_of_the_menu():
    names = ["max+mlp", "mean+linear", "cls+mlp", "cls+linear"]
    found = list(map(str, in_order(map(resolve, names))))
    assert found == ["cls+linear", "cls+mlp", "mean+linear", "max+mlp"]

    layers = ["mean@10+linear", "mean@2+linear", "mean+linear?pair=uv_diff", "mean+linear?pair=uv"]
    assert list(map(str, in_order(map(resolve, layers)))) == [
        *layers[:1:-1],
        "mean@2+linear",
        "mean@10+linear",
    ]


def test_small_errors_in_the_units_of_the_labels_take_the_whole_scale_of_colours():
    tiles = {
        "mean+linear": Tile(value=0.0010, shown="low"),
        "cls+linear": Tile(value=0.0020, shown="high"),
    }
    drawn = heat(RESOLVED, tiles, ERROR)
    assert '--depth:1.000"><b>low ' in drawn
    assert '--depth:0.000"><b>high' in drawn


def test_how_texts_enter_is_a_row_and_a_loss_is_a_column():
    both = resolve("mean+linear?loss=ovr&pair=uv")
    assert (both.reading, both.behind) == ("mean?pair=uv", "linear?loss=ovr")
    learned = resolve("attention+linear?queries=4")
    assert (learned.reading, learned.behind) == ("attention?queries=4", "linear")
    names = ["mean+linear", "mean+linear?pair=uv", "mean+linear?loss=ovr"]
    drawn = heat(
        list(map(resolve, names)), {name: Tile(value=0.5, shown=name) for name in names}, ACCURACY
    )
    assert drawn.count("<tr>") == 3
    assert 'class="none"' in drawn
    assert broken("mean?pair=uv") in drawn
    assert broken("<b>?") == "&lt;b&gt;?<wbr>"


def test_scores_and_their_columns_are_called_by_the_kind_of_labels():
    assert headers(MEASURES[MULTI_LABEL])[:4] == ["Recipe", "Micro-F1 %", "from %", "to %"]
    assert headers(MEASURES[REGRESSION])[:4] == ["Recipe", "Spearman", "from", "to"]
    assert "mAP %" in headers(MEASURES[MULTI_LABEL])
    assert ends("micro_f1", 0.5, 0.625, "to") == "50.0 to 62.5"
    assert ERROR.shown(123456.7) == "123,457"
    assert (ERROR.plain(123456.7), ACCURACY.plain(0.12345)) == (123500.0, 12.3)


def test_of_many_classes_those_that_are_confused_most_are_drawn():
    table = torch.diag(torch.full((30,), 9))
    table[7, 28] = 5
    drawn = head_details.confusion(table, [f"class {n}" for n in range(30)])
    assert drawn.count("<tr>") == 21
    assert "class 7<" in drawn
    assert "class 28<" in drawn
    assert "20 of 30 classes" in drawn


def test_disagreements_name_a_few_heads_the_surest_first():
    answers = [(f"head{n}", "yes", n / 10) for n in range(5)] + [("other", "no", 0.5)]
    found = Disagreement(line=2, text="t", pair="", label="no", answers=tuple(answers), share=1 / 6)
    drawn = predictions.disagreements([found])
    assert "head4 (40 %), head3 (30 %), head2 (20 %) and 2 more" in drawn
    assert '<dt class="right">no</dt>' in drawn


def test_of_numbers_the_lowest_and_the_highest_are_shown_and_nobody_says_how_sure():
    answers = [(f"head{n}", f"{n - 3}", None) for n in range(9)]
    found = Disagreement(line=2, text="t", pair="", label="5", answers=tuple(answers), share=1.0)
    drawn = predictions.disagreements([found], REGRESSION)
    assert re.findall(r"<dt.*?>(.*?)</dt>", drawn) == ["−3", "−2", "−1", "3", "4", "5"]
    assert "and 3 other answers" in drawn
    assert "%" not in drawn


def label(name, f1):
    return LabelDetails(
        name=name, rows=3, precision=None, recall=0.5, f1=f1, average_precision=0.25, threshold=0.4
    )


def test_labels_stand_with_the_worst_first_and_what_nobody_tested_last():
    found = [label("good", 0.9), label("none", None), label("bad", 0.1)]
    names = [one.name for one in head_details.worst_first(found)]
    assert names == ["bad", "good", "none"]
    assert re.findall(r"<tr><th>(\w+)</th><td>", head_details.labels(found)) == names
    header, rows = head_details.label_figures(found)
    assert header[:3] == ["Label", "Rows", "Precision %"]
    assert rows[0] == ["bad", 3, None, 50.0, 10.0, 25.0, 40.0]


def told(problem, **more):
    known = {"classes": ("a", "b", "c"), "given": ("a",), "chances": (0.7, 0.2, 0.1)}
    return Reply(problem=problem, **(known | more))


def test_several_labels_stand_against_their_own_thresholds():
    one = told(MULTI_LABEL, given=("b",), chances=(0.7, 0.2, 0.1), bars=(0.8, 0.1, 0.5))
    drawn = predictions.tried({"mean+linear": one})
    assert "<strong>b</strong>" in drawn
    assert re.findall(r"<b>(.*?)</b>", drawn) == ["20 % ≥ 10 %", "70 % &lt; 80 %", "10 % &lt; 50 %"]
    assert drawn.count('class="off"') == 2
    assert 'style="left:10.00%"' in drawn
    assert "no label" in predictions.tried(
        {"mean+linear": told(MULTI_LABEL, given=(), bars=(1, 1, 1))}
    )


def test_the_votes_of_one_versus_rest_are_counted():
    one = told(ONE_VERSUS_REST, sigmoids=(0.9, 0.6, 0.1))
    drawn = predictions.tried({"mean+linear": one})
    assert "2 of 3 questions say yes" in drawn
    assert re.findall(r"<b>(.*?)</b>", drawn) == ["yes 90 %", "yes 60 %", "no 10 %"]
    assert "<strong>a</strong> 70 %" in drawn


def test_a_number_has_the_digits_that_its_data_call_for():
    one = told(REGRESSION, classes=("n",), given=(), chances=(-2.8,))
    assert "<strong>−2.80</strong>" in predictions.tried({"mean+linear": one}, (0, 5))
    assert "<strong>−3</strong>" in predictions.tried({"mean+linear": one}, (0, 900))
    assert "<strong>−2.8</strong>" in predictions.tried({"mean+linear": one})


@pytest.mark.parametrize(
    "drawn",
    [
        charts.bars([(HOSTILE, 0.5)]),
        charts.legend([("#fff", HOSTILE)]),
        charts.live({HOSTILE: {0: 0.5}}, 4),
        head_details.confusion(torch.eye(2).long(), [HOSTILE, "b"]),
        head_details.labels([label(HOSTILE, 0.5)]),
        head_details.f1([0.5, None], [HOSTILE, "b"]),
        predictions.tried({HOSTILE: told(SINGLE_LABEL, classes=(HOSTILE, "b", "c"))}),
        predictions.tried(
            {HOSTILE: told(MULTI_LABEL, classes=(HOSTILE, "b", "c"), bars=(0, 0, 0))},
        ),
        predictions.tried(
            {HOSTILE: told(ONE_VERSUS_REST, classes=(HOSTILE, "b", "c"), sigmoids=(0.9, 0.1, 0.1))}
        ),
        predictions.disagreements(
            [
                Disagreement(
                    line=1, text=HOSTILE, pair=HOSTILE, label=HOSTILE, share=0.5,
                    answers=((HOSTILE, HOSTILE, 0.5),),
                )
            ]
        ),
        coded(f"`{HOSTILE}` is {HOSTILE}"),
        dataset.preview([HOSTILE], [[HOSTILE]], Columns(text=HOSTILE, label="")),
    ],
)  # fmt: skip
def test_hostile_names_are_text_everywhere(drawn):
    for tag, attributes in tags(drawn):
        assert tag not in ("img", "script", "a")
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("style") != "x"
