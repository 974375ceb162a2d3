"""Pictures as figures of Plotly's: the page's own, with their words, and a sentence where not."""

from dataclasses import replace

import plotly.graph_objects as go
import pytest
from boards import CLOSE, FAR, WAYS, board_of, in_ways, measures_of, stages

import heads
from heads.interfaces.result import PICTURES, build_plotly_figure
from heads.interfaces.views import charts


@pytest.fixture(scope="module")
def board():
    """A run of which there is something to draw for every picture but the layers."""
    plain = board_of(**CLOSE, **FAR)
    first, *others = plain.cells
    first = replace(first, measures=replace(first.measures, bins=measures_of().bins))
    curve = stages(**{"mean+linear": (0.7, 0.8), "cls+linear": (0.6, 0.7)})
    ways = in_ways(board_of(**WAYS))
    told = "No head is told apart."
    return replace(
        plain, cells=(first, *others), curve=curve, curve_says=told, ways_of_learning=ways
    )


@pytest.mark.parametrize("kind", ["forest", "heat_map", "sizes", "growth", "ways", "reliability",
                                  "confusion", "f1"])  # fmt: skip
def test_a_run_draws_the_figures_of_the_page(board, kind):
    figure = board.plot(kind)
    assert isinstance(figure, go.Figure)
    assert figure.data
    assert figure.layout.title.text
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_a_picture_says_what_the_page_says(board):
    told = charts.forest(board)
    text = board.plot().layout.title.text.replace("<br>", " ")
    assert text == f"{told.says} {told.key}"
    assert board.plot().layout.height > told.figure["layout"]["height"]
    below = board.plot("heat_map").layout.title
    assert (below.y, below.yanchor) == (0, "bottom")  # where names stand above it


def test_what_a_run_does_not_have_is_said_in_a_sentence(board):
    with pytest.raises(heads.HeadsError, match=r"no picture 'heatmap'. Did you mean 'heat_map'"):
        board.plot("heatmap")
    with pytest.raises(
        heads.HeadsError, match=r"no head 'mean\+linea'. Did you mean 'mean\+linear'"
    ):
        board.plot("confusion", recipe="mean+linea")
    with pytest.raises(heads.HeadsError, match="no measure 'f1'"):
        board.plot("heat_map", measure="f1")
    bare = board_of(**CLOSE, **FAR)
    for kind in ("growth", "layers", "ways", "coverage"):
        with pytest.raises(heads.HeadsError, match=f"nothing that a picture '{kind}' would show"):
            bare.plot(kind)
    with pytest.raises(heads.HeadsError, match=r"No head is done yet\."):
        replace(bare, cells=(), best="", recommendation=type(bare.recommendation)()).plot("f1")


def test_every_picture_is_named_in_the_docstring():
    for name in PICTURES:
        assert name in heads.Leaderboard.plot.__doc__


def test_a_comparison_draws_each_class_under_each_head(tiny):
    found = heads.compare("x", recipes=["mean+linear", "cls+linear"], model=str(tiny()))
    figure = found.plot()
    assert [trace.name for trace in figure.data] == ["mean+linear", "cls+linear"]
    for trace, one in zip(figure.data, found.predictions, strict=True):
        assert list(trace.x) == pytest.approx([100 * share for share in one.probabilities])
    assert figure.layout.title.text == found.verdict
    assert list(figure.layout.yaxis.ticktext) == list(found.classes)


def test_of_many_classes_the_likeliest_are_drawn_and_numbers_without_a_scale_of_shares(tiny):
    found = heads.compare("x", recipes=["mean+linear"], model=str(tiny()))
    one = found.predictions[0]
    names = tuple(f"class {n}" for n in range(30))
    shares = (*(0.01,) * 29, 0.71)
    many = replace(one, classes=names, probabilities=shares, logits=shares, answer=names[-1:])
    chart = charts.comparison(replace(found, predictions=(many,)))
    assert len(chart.rows) == 20
    assert chart.rows[0] == ("class 29", "71 %")
    assert chart.note == "The 20 likeliest of 30 classes."
    assert build_plotly_figure(chart).layout.title.text.endswith(chart.note)
    asked = {"recipes": ["mean+ridge?pair=uv_prod"], "sample": "similarity", "model": str(tiny())}
    numbers = heads.compare("a", "b", **asked)
    figure = numbers.plot()
    assert list(figure.data[0].x) == pytest.approx(numbers.predictions[0].logits)
    assert figure.layout.xaxis.range is None
