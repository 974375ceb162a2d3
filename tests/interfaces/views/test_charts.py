"""Charts: figures that Plotly draws in light and dark, which say the same in words."""

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
import torch
from boards import CLOSE, FAR, NUMBERS, POINTS, SCALED, board_of, measures_of, stages
from hypothesis import example, given
from hypothesis import strategies as st

from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import BASELINES
from heads.interfaces.views import charts
from heads.interfaces.views.charts import Chart, Tile
from heads.interfaces.views.figures import score_axis
from heads.interfaces.views.format import IN_WORDS, MEASURES, shares
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL

HOSTILE = "<img src=x onerror='x'> %{x} $y$"
COLOUR = re.compile(r"#[0-9a-f]{6}|rgba\([\d.,]+\)")
MARKUP = re.compile(r"<(?!/?b>|br>)")
OWN = re.compile(r'<span style="(letter-spacing:0px|opacity:\.75)">|</span>')  # see `forest`
ACCURACY, LOG_LOSS = MEASURES[SINGLE_LABEL][0], MEASURES[SINGLE_LABEL][2]
ERROR = MEASURES[REGRESSION][3]


RECIPES = ["mean+linear", "cls+linear", "mean+mlp"]
TILES = {
    "mean+linear": Tile(value=0.9, shown="90 %", below="80 to 95"),
    "cls+linear": Tile(value=0.8, shown="80 %"),
}


def heat(tiles=TILES, measure=ACCURACY, recipes=RECIPES, **more) -> Any:
    return charts._heat(list(map(resolve, recipes)), tiles, measure, **more)


def every_chart() -> dict[str, Chart | None]:
    board = board_of(stopped=["max+linear"], **CLOSE, **FAR)
    curve = stages(**{"mean+linear": (0.7, 0.8), HOSTILE: (0.6, 0.7)})
    grown = replace(board, curve=curve, curve_says="No head is told apart.")
    table = torch.diag(torch.full((30,), 9)).index_put(
        (torch.tensor(7), torch.tensor(28)), torch.tensor(5)
    )
    names = [HOSTILE, *(f"class {n}" for n in range(29))]
    return {
        "forest": charts.forest(board, chosen="cls+linear"),
        "heat_map": charts.heat_map(board),
        "heat_map of another": charts.heat_map(board, "log_loss"),
        "live_heat": charts.live_heat(list(map(resolve, RECIPES)), TILES, ACCURACY),
        "sizes": charts.sizes(board),
        "growth": charts.growth(grown),
        "reliability": charts.reliability(measures_of(calibration=SCALED)),
        "coverage": charts.coverage(POINTS, SINGLE_LABEL),
        "confusion": charts.confusion(table, names),
        "f1": charts.f1([0.5, None, *([0.7] * 28)], names),
        "mix": charts.mix([0.2, 0.5, 0.3]),
        "scatter": charts.scatter([(0.0, 0.1), (1.0, 0.8), (2.0, 2.5)], NUMBERS),
        "class_counts": charts.class_counts({HOSTILE: 3, "b": 9}),
        "number_counts": charts.number_counts([0.1, 0.2, 5.0]),
    }


CHARTS = every_chart()


def strings(value: Any, key: str = "") -> list[tuple[str, str]]:
    """All texts of a figure, each with what it is; a recipe to be clicked is not drawn."""
    if isinstance(value, dict):
        return [
            one for name, own in value.items() for one in strings(own, name) if name != "customdata"
        ]
    if isinstance(value, list | tuple):
        return [one for own in value for one in strings(own, key)]
    return [(key, value)] if isinstance(value, str) else []


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_one_that_plotly_draws_in_light_and_dark(name):
    chart = CHARTS[name]
    assert chart is not None
    figure = chart.figure
    drawn = json.loads(go.Figure({part: figure[part] for part in ("data", "layout")}).to_json())
    assert len(drawn["data"]) == len(figure["data"]) > 0
    json.dumps(figure, allow_nan=False)
    layout = figure["layout"]
    assert "template" not in layout
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert layout["height"] > 0
    assert all(layout[axis]["fixedrange"] for axis in ("xaxis", "yaxis"))
    assert chart.says.endswith(".")
    assert len({len(row) for row in (chart.headers, *chart.rows)}) == 1
    for key, text in strings(figure):
        if key.endswith("color") or key == "colorscale":
            assert COLOUR.fullmatch(text), (key, text)


@pytest.mark.parametrize("name", CHARTS)
def test_a_foreign_text_is_drawn_to_the_letter(name):
    assert CHARTS[name] is not None
    for _, text in strings(CHARTS[name].figure):
        assert not MARKUP.search(OWN.sub("", text)), text
        assert text == "%{text}" or "%{" not in text
        assert "$" not in text
    if name in ("growth", "confusion", "f1", "class_counts"):
        assert "&lt;img" in json.dumps(CHARTS[name].figure)


# The forest plot


def points(chart: Chart) -> dict[str, tuple[float, float, float]]:
    """Each head's score and the ends of its interval."""
    found = {}
    for trace in chart.figure["data"]:
        if trace["type"] == "scatter":
            ends = trace["error_x"]
            rows = zip(
                trace["customdata"], trace["x"], ends["arrayminus"], ends["array"], strict=True
            )
            found |= {name: (x, x - low, x + high) for name, x, low, high in rows}
    return found


def bands(chart: Chart) -> set[int]:
    fills = [one for one in chart.figure["layout"]["shapes"] if one["type"] == "rect"]
    return {int(one["y0"] + 0.5) for one in fills if one["fillcolor"] == charts.BAND}


def test_a_forest_has_a_row_a_head_the_best_first_and_a_band_behind_its_equals():
    board = board_of(**CLOSE, **FAR)
    chart = charts.forest(board)
    heads = [cell for cell in board.cells if not cell.is_baseline]
    names = [cell.name for cell in heads]
    assert board.recommendation.name == "mean+linear"
    assert names == ["mean+mlp", "mean+linear", "cls+linear"]
    rows = chart.figure["data"][0]
    assert rows["customdata"] == names
    assert all(name in told for name, told in zip(names, rows["hovertext"], strict=True))
    for cell in heads:
        own = cell.measures
        wanted = [100 * one for one in (own.score, own.low, own.high)]
        assert points(chart)[cell.name] == pytest.approx(wanted)
    assert board.recommendation.alike == ("mean+mlp",)
    assert bands(chart) == {0, 1}
    texts = [one["text"] for one in chart.figure["layout"]["annotations"]]
    assert [text for text in texts if "★" in text] == ["<b>85 %</b> ★"]
    colours = {t["marker"]["color"]: t["customdata"] for t in chart.figure["data"][1:]}
    assert colours[charts.COLOURS[0]] == ["mean+linear"]
    names = chart.figure["layout"]["yaxis"]["ticktext"]
    assert [OWN.sub("", name) for name in names] == [
        "Average → Two layers  mean+mlp",
        "<b>Average → One layer  </b><b>mean+linear</b>",
        "First token → One layer  cls+linear",
    ]
    assert chart.says == (
        "mean+linear is recommended with 85.0 %; mean+mlp scores highest, 85.2 %; "
        "1 other head is not significantly different from it."
    )


def test_baselines_are_lines_and_those_far_away_are_named_at_the_edge():
    chart = charts.forest(board_of(**CLOSE, majority=(0, 650), tfidf=(0, 1900)))
    layout = chart.figure["layout"]
    (line,) = [one for one in layout["shapes"] if one["type"] == "line"]
    assert line["x0"] == line["x1"] == pytest.approx(67.5)
    texts = {one["text"] for one in layout["annotations"]}
    assert any("majority class 68 %" in text and "◂" not in text for text in texts)
    assert "◂ bag of words 5 %" in texts
    assert layout["xaxis"]["range"][0] > 60
    assert list(IN_WORDS) == list(BASELINES)


@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=9),
    metric=st.sampled_from(sorted(SCORES)),
)
@example([0.0], "neg_mean_squared_error")
@example([1.0, 1.0], "accuracy")
@example([1e-12, 2e-12], "neg_mean_absolute_error")
def test_an_axis_of_scores_holds_them_and_no_more_than_there_can_be(values, metric):
    name = SCORES[metric]
    values = [
        abs(one) * (-1 if name.scale == "error" else 1) if name.scale != "correlation" else one
        for one in values
    ]
    factor = 100 if name.is_share else 1
    low, high = (end / factor for end in score_axis(values, name)["range"])
    assert low < high
    assert low <= min(values) + 1e-9
    assert max(values) <= high + 1e-9
    assert low >= name.low
    assert high <= name.high


def test_of_many_heads_thirty_are_drawn_and_those_that_matter():
    poolings = ("mean", "cls", "max", "last", "mean@1", "mean@2", "mean@3", "mean@4")
    heads = ("linear", "mlp", "roberta", "distilbert")
    names = [f"{one}+{two}" for one, two in itertools.product(poolings, heads)]
    board = board_of(
        **{name: (0, 100 + 9 * at) for at, name in enumerate(names)}, majority=(0, 1900)
    )
    chart = charts.forest(board, chosen=names[-1])
    drawn = chart.figure["data"][0]["customdata"]
    assert drawn == [*names[:30], names[-1]]
    assert "And 1 head below these." in chart.key
    assert chart.figure["layout"]["height"] < 31 * 25 + 100


def test_without_a_recommendation_no_head_is_marked():
    chart = charts.forest(board_of(40, **{"mean+linear": (0, 3)}, majority=(0, 30)))
    assert "★" not in json.dumps(chart.figure, ensure_ascii=False)
    assert bands(chart) == set()
    assert chart.says.endswith("none is recommended.")


# Shares


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.01, 1))
def test_shares_are_never_wholly_right_or_wrong_by_rounding(values, span):
    for told, value in zip(shares(values, span), values, strict=True):
        number = float(told.removesuffix(" %"))
        assert number == pytest.approx(100 * value, abs=0.5001)
        assert number not in (0, 100) or value in (0, 1) or min(value, 1 - value) < 1e-6


# The heat map


def cell_of(figure: Any, recipe: str, what: str) -> Any:
    faint, done = figure["data"]
    for row, names in enumerate(done["customdata"]):
        if recipe in names:
            return (faint if what == "faint" else done)["z" if what in ("faint", "z") else what][
                row
            ][names.index(recipe)]
    raise KeyError(recipe)


def test_the_heat_map_marks_the_recommended_and_waits_for_the_rest():
    drawn = heat(star="mean+linear")
    assert cell_of(drawn, "mean+linear", "text") == "<b>90 % ★</b>"
    assert cell_of(drawn, "mean+linear", "z") == 1
    assert cell_of(drawn, "cls+linear", "text") == "80 %"
    assert cell_of(drawn, "cls+linear", "z") == pytest.approx(0)
    assert (cell_of(drawn, "mean+mlp", "z"), cell_of(drawn, "mean+mlp", "faint")) == (None, 0)
    assert cell_of(drawn, "mean+mlp", "text") == ""
    assert "80 to 95" in cell_of(drawn, "mean+linear", "hovertext")
    assert cell_of(heat(out=["mean+mlp"]), "mean+mlp", "text") == "stopped"
    (empty,) = [
        (r, c)
        for r, row in enumerate(drawn["data"][0]["customdata"])
        for c, name in enumerate(row)
        if not name
    ]
    assert drawn["data"][0]["z"][empty[0]][empty[1]] is None


def test_less_is_better_where_the_measure_says_so_and_small_differences_stay_pale():
    assert cell_of(heat(measure=LOG_LOSS), "cls+linear", "z") == 1
    near = {"mean+linear": Tile(value=0.9, shown="a"), "cls+linear": Tile(value=0.899, shown="b")}
    assert cell_of(heat(near), "cls+linear", "z") == pytest.approx(0.95)
    small = {
        "mean+linear": Tile(value=0.001, shown="a"),
        "cls+linear": Tile(value=0.002, shown="b"),
    }
    assert cell_of(heat(small, ERROR), "mean+linear", "z") == 1
    assert cell_of(heat(small, ERROR), "cls+linear", "z") == pytest.approx(0)


def test_a_heat_map_of_a_run_names_the_best_and_the_baselines():
    chart = charts.heat_map(board_of(stopped=["max+linear"], **CLOSE, **FAR))
    assert cell_of(chart.figure, "mean+linear", "text").endswith(" ★</b>")
    assert cell_of(chart.figure, "max+linear", "text") == "stopped"
    assert chart.says == "Accuracy by pooling and head: the best is mean+mlp with 85.2 %."
    assert "Majority class: 35.0 %. Bag of words: 50.0 %." in chart.key
    loss = charts.heat_map(board_of(**CLOSE, **FAR), "log_loss")
    assert loss.says.startswith("Log loss (less is better) by pooling and head")
    unknown = charts.heat_map(board_of(**CLOSE, **FAR), "spearman")
    assert unknown.says.startswith("Accuracy by")


def test_a_running_training_has_no_star_and_a_frame_that_keeps_still():
    resolved = list(map(resolve, RECIPES))
    some = charts.live_heat(resolved, TILES, ACCURACY)
    none = charts.live_heat(resolved, {}, ACCURACY)
    assert some.figure["layout"] == none.figure["layout"]
    assert "★" not in json.dumps(some.figure, ensure_ascii=False)
    assert (some.says, none.says) == (
        "Accuracy: 2 of 3 heads done.",
        "Accuracy: 0 of 3 heads done.",
    )


def test_recipes_stand_in_the_order_of_the_menu():
    names = ["max+mlp", "mean+linear", "cls+mlp", "cls+linear"]
    found = list(map(str, charts.in_order(map(resolve, names))))
    assert found == ["cls+linear", "cls+mlp", "mean+linear", "max+mlp"]
    layers = ["mean@10+linear", "mean@2+linear", "mean+linear?pair=uv_diff", "mean+linear?pair=uv"]
    assert list(map(str, charts.in_order(map(resolve, layers)))) == [
        *layers[:1:-1],
        "mean@2+linear",
        "mean@10+linear",
    ]


def test_how_texts_enter_is_a_row_and_a_loss_is_a_column():
    names = ["mean+linear", "mean+linear?pair=uv", "mean+linear?loss=ovr"]
    drawn = heat({name: Tile(value=0.5, shown=name) for name in names}, recipes=names)
    assert drawn["layout"]["yaxis"]["ticktext"] == ["mean", "mean?pair=uv"]
    assert drawn["layout"]["xaxis"]["ticktext"] == ["linear", "linear<br>?loss=ovr"]


# The others


def test_size_and_growth_are_drawn_where_there_is_something_to_see():
    board = board_of(**CLOSE, **FAR)
    chart = charts.sizes(board)
    assert chart is not None
    grey, blue = chart.figure["data"]
    assert blue["customdata"] == ["mean+linear"]
    assert sorted(grey["customdata"]) == ["cls+linear", "mean+mlp"]
    assert charts.sizes(board_of(**{"mean+linear": (0, 300), "cls+mlp": (0, 400)})) is not None
    alike = {"max+linear": (0, 300), "cls+linear": (0, 400)}
    assert charts.sizes(board_of(**alike)) is None
    assert charts.growth(board) is None
    grown = replace(board, curve=stages(**{"mean+mlp": (0.6, 0.7), "mean+linear": (0.7, 0.8)}))
    chart = charts.growth(grown)
    assert chart is not None
    first, second = chart.figure["data"]
    assert (first["name"], first["line"]["color"]) == ("mean+linear", charts.COLOURS[0])
    assert (first["x"], first["y"]) == ([500, 1000], [70.0, 80.0])
    assert second["name"] == "mean+mlp"
    assert chart.rows[1] == ("mean+linear", "1,000", "80.0 %", "76.0 to 84.0")


def test_a_temperature_is_drawn_only_where_it_helps():
    both = charts.reliability(measures_of(calibration=SCALED))
    assert [t["name"] for t in both.figure["data"]][1:] == ["as it is", "logits divided by 1.34"]
    harm = replace(SCALED, error_after=0.5)
    assert len(charts.reliability(measures_of(calibration=harm)).figure["data"]) == 2
    alone = charts.reliability(measures_of())
    assert [t["name"] for t in alone.figure["data"]][1:] == ["this head"]
    assert "90 answers, 90.0 % sure, 50.0 % right" in json.dumps(alone.figure)


def test_the_useful_point_of_abstaining_is_marked():
    chart = charts.coverage(POINTS, SINGLE_LABEL)
    assert chart.figure["data"][1]["x"] == [70.0]
    assert "less sure than 80 %" in chart.says
    assert len(charts.coverage(POINTS[:2], MULTI_LABEL).figure["data"]) == 1


def test_of_many_classes_those_that_are_confused_most_are_drawn():
    table = torch.diag(torch.full((30,), 9))
    table[7, 28] = 5
    chart = charts.confusion(table, [f"class {n}" for n in range(30)])
    right, wrong = chart.figure["data"]
    assert len(right["z"]) == len(right["z"][0]) == 20
    assert {"class 7", "class 28"} <= set(chart.headers)
    assert chart.says == "Which classes are confused? class 7 is taken for class 28: 5 of 14."
    assert "20 of 30 classes" in chart.note
    at, to = chart.headers.index("class 7") - 1, chart.headers.index("class 28") - 1
    assert wrong["z"][at][to] == pytest.approx(5 / 14)
    assert right["z"][at][to] is None
    assert right["z"][at][at] == pytest.approx(9 / 14)


def test_bars_stand_with_the_worst_first_and_of_many_the_rest_is_counted():
    chart = charts.f1([0.9, None, 0.1], ["good", "none", "bad"])
    assert chart.figure["layout"]["yaxis"]["ticktext"] == ["bad", "good"]
    assert chart.says == "F1 is lowest for bad: 10 %."
    many = charts.class_counts({f"class {n}": 100 - n for n in range(33)})
    assert len(many.figure["data"][0]["x"]) == 20
    assert many.key == "And 13 more."
    assert charts.class_counts({"a": 3, "b": 3}).says == "Each has 3 rows."


@pytest.mark.parametrize(
    "numbers", [[0.1, 0.2], [-3.5, 1000.0], [1e-9, 2e-9], [-5.0, -4.0, 7.0], [3.0, 3.0], [0.0]]
)
def test_every_number_is_in_one_bar(numbers):
    counts = charts.number_counts(numbers).figure["data"][0]["x"]
    assert sum(counts) == len(numbers)
    assert len(counts) <= 12
