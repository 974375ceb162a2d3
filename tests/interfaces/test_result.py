"""What a notebook shows: foreign text stays text, nothing comes from elsewhere, all small."""

import inspect
import re
import subprocess
import sys
from dataclasses import replace

import pandas
import pytest
from boards import CLOSE, FAR, board_of
from shown_results import HOSTILE, check_shown

import heads
from heads.exporters.export import Exported
from heads.exporters.onnx import OnnxReport
from heads.interfaces.result import draw
from heads.interfaces.views.descriptions import describe
from heads.recipe import Recipe

NUMBERS = "mean+ridge?pair=uv_prod"


def read(tmp_path):
    place = tmp_path / "hostile.csv"
    rows = [f'"{HOSTILE} {n}","{HOSTILE if n % 2 else "b"}"' for n in range(20)]
    place.write_text("\n".join([f'"{HOSTILE}",label', *rows]), "utf-8")
    return heads.read(place)


def read_as_frame():
    return pandas.DataFrame({"text": [f"{HOSTILE} {n}" for n in range(3)]})


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny):
    """One result of every kind that a public function gives, foreign text in most of them."""
    place, model = tmp_path_factory.mktemp("results"), str(tiny())
    found = heads.compare("x", recipes=["mean+linear"], model=model)
    named = replace(found.predictions[0], classes=(HOSTILE, "b", "c"), answer=(HOSTILE,))
    numbers = heads.compare("a", HOSTILE, recipes=[NUMBERS], sample="similarity", model=model)
    board = board_of(stopped=["max+linear"], **CLOSE, **FAR)
    trained = heads.train("mean+linear", "sentiment", model=model)
    inside = heads.Inspector(recipes=[trained])
    written = {"notes": (HOSTILE,), "difference": 1e-6}
    return {
        "comparison": replace(found, text=HOSTILE, predictions=(named,), notes=(HOSTILE,)),
        "comparison of numbers": numbers,
        "leaderboard": replace(board, data=HOSTILE, notes=(HOSTILE,)),
        "empty leaderboard": replace(board, cells=(), best=""),
        "explanation": replace(heads.explain("cls+roberta", model=model), notes=(HOSTILE,)),
        "data": read(place),
        "padding": replace(heads.examine(model), notes=(HOSTILE,)),
        "catalogue": heads.catalogue(),
        "entry": heads.catalogue()[0],
        "classifier": trained,
        "exported": Exported(
            folder=place / HOSTILE,
            native=True,
            called=HOSTILE,
            recipe=Recipe.parse("cls+bert"),
            files=(HOSTILE,),
            usage=HOSTILE,
            **written,
        ),
        "onnx": OnnxReport(
            path=place / "a.onnx", size_bytes=9, inputs=(), texts=3, usage=HOSTILE, **written
        ),
        "answers": heads.predict(read_as_frame(), recipe=trained),
        "scores": heads.evaluate("sentiment", recipe=trained),
        "attribution": inside.attribute(HOSTILE)[0],
        "flips": inside.flips("Good.", [HOSTILE]),
        "ablation": heads.Inspector(recipes=["cls+modernbert"], model=model).ablate(
            HOSTILE, retrain=False
        )[0],
        "nearest": inside.nearest(HOSTILE)[0],
        "reading": inside.readings(HOSTILE)[0],
    }


def test_every_result_that_can_be_shown_is_tried_here(results):
    drawn = {type(one) for one in results.values()}
    assert drawn >= {*draw.registry, *describe.registry} - {object}


def test_whatever_a_public_function_gives_shows_itself():
    drawn = {kind.__name__ for kind in describe.registry}
    for name in heads.api.__all__:
        given = inspect.signature(getattr(heads.api, name)).return_annotation
        if isinstance(given, str) and given.isidentifier() and given != "str":
            assert given in drawn, name


FOREIGN = ("comparison", "leaderboard", "explanation", "data", "padding", "exported", "onnx",
           "flips", "answers")  # fmt: skip


def test_a_result_is_whole_small_and_foreign_text_stays_text(results):
    for name, result in results.items():
        if name != "classifier":  # whose repr is one line
            check_shown(result, is_foreign=name in FOREIGN)


def test_its_style_reaches_nothing_else_and_fixes_no_colour_of_text(results):
    (style,) = re.findall("<style>(.*?)</style>", results["entry"]._repr_html_())
    for rule in re.findall(r"([^{}]+)\{([^}]*)\}", style):
        assert all(
            one.strip().startswith(".heads-shown") for one in re.split(r",(?![^(]*\))", rule[0])
        ), rule[0]
        colours = re.findall(r"(?<![-\w])color: ([^;]+);", rule[1])
        assert set(colours) <= {"inherit"}, rule


@pytest.mark.slow
def test_it_is_shown_without_any_call_of_the_users():
    code = "import heads; print('heads-shown' in heads.catalogue()._repr_html_())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True"


# As tables of pandas


def test_a_comparison_is_a_row_a_recipe_and_class(tiny, results):
    found = heads.compare("x", recipes=["mean+linear", "cls+linear"], model=str(tiny()))
    table = found.to_pandas()
    assert list(table.columns) == [
        "recipe", "class", "logit", "probability", "threshold", "is_answer",
    ]  # fmt: skip
    assert len(table) == 6
    assert table.groupby("recipe")["probability"].sum().tolist() == pytest.approx([1, 1])
    assert (
        table[table.is_answer]["class"].tolist()
        == [name for one in sorted(found.predictions, key=lambda p: p.name) for name in one.answer]
        or len(table[table.is_answer]) == 2
    )
    numbers = results["comparison of numbers"]
    assert numbers.to_pandas()["probability"].isna().all()


def test_a_leaderboard_is_a_row_a_cell_and_pivots_into_the_grid():
    board = board_of(**CLOSE, **FAR)
    table = board.to_pandas()
    assert table["recipe"].tolist() == [cell.name for cell in board.cells]
    assert table["is_baseline"].sum() == 2
    own = table.set_index("recipe").loc["cls+linear"]
    cell = board.cell("cls+linear")
    assert own["score"] == cell.measures.score
    assert own["to_recommended"] == cell.to_recommended.difference
    assert bool(own["to_recommended_differs"]) is cell.to_recommended.differs
    grid = table.dropna(subset="reading").pivot(index="reading", columns="head", values="score")
    assert grid.loc["mean", "linear"] == board.cell("mean+linear").measures.score


def test_an_explanation_is_its_layers_or_its_tensors():
    found = heads.explain("cls+roberta")
    assert found.to_pandas()["parameters"].tolist() == [one.parameters for one in found.steps]
    tensors = found.to_pandas("tensors")
    assert tensors["tensor"].tolist() == [
        one.name for step in found.steps for one in step.tensors
    ]  # fmt: skip
    with pytest.raises(heads.HeadsError, match="An explanation has no 'tensor'"):
        found.to_pandas("tensor")


def test_data_are_their_rows_in_every_kind_of_label():
    one = heads.read("sentiment")
    assert one.to_pandas()["label"].value_counts().to_dict() == dict(one.classes)
    assert one.to_pandas().columns.tolist() == ["text", "label", "line"]
    several, numbers = heads.read("aspects").to_pandas(), heads.read("similarity").to_pandas()
    assert all(isinstance(labels, tuple) for labels in several["label"])
    assert numbers.columns.tolist() == ["text", "pair", "label", "line"]
    assert numbers["label"].between(0, 5).all()


def test_the_catalogue_is_still_a_tuple(results):
    found = heads.catalogue()
    assert isinstance(found, tuple)
    table = found.to_pandas().set_index("model_type")
    assert len(table) == len(found)
    assert table.loc["roberta", "recipe"] == "cls+roberta"
    report = results["padding"]
    assert report.to_pandas()["case"].tolist() == [one.case for one in report.findings]
