"""Rows as points under several readings: the points, what is lost, and the file that is written."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from shown_results import check_shown

import heads
from heads.data.vectors import Vectors
from heads.errors import DataError, LimitError, RecipeError
from heads.extras.maps import chart
from heads.extras.maps import row_map as maps
from heads.features.extraction import extract
from heads.parts.resolve import resolve

READINGS = ("mean", "cls@1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sixty texts of three labels, two of them alike, one hostile."""
    place = tmp_path_factory.mktemp("map") / "rows.csv"
    words = ["good", "bad", "the", "cat", "sat", "on", "mat", "dog", "ran", "home"]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, size=rng.integers(2, 9))) for _ in range(60)]
    texts[7], texts[9] = texts[8], "<b>%{x} $y$</b>"
    rows = [f'"{text}",{"xyz"[at % 3]}' for at, text in enumerate(texts)]
    place.write_text("\n".join(["text,label", *rows]), "utf-8")
    return heads.read(place)


@pytest.fixture(scope="module")
def found(data, tiny):
    return heads.row_map(data, READINGS, model=str(tiny()))


def vectors_of(data, small, reading):
    recipes = [resolve(f"{reading}+linear")]
    *_, given = extract(recipes, data.corpus.texts, (), small)
    return given.matrix(reading)[given.index].double().numpy()


def test_the_points_are_the_plane_of_most_variance_and_losses_are_counted(data, found, small):
    assert [one.reading for one in found.readings] == list(READINGS)
    for one in found.readings:
        vectors = vectors_of(data, small, one.reading)
        centred = vectors - vectors.mean(axis=0)
        _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
        drawn = np.abs(centred @ axes[:2].T)
        assert np.abs(np.array([one.x, one.y]).T) == pytest.approx(drawn, abs=1e-4)
        kept = (sizes[:2] ** 2).sum() / (sizes**2).sum()
        assert one.trust.kept == pytest.approx(kept, abs=1e-6)
        assert one.width == vectors.shape[1]
        near = []
        for space in (vectors, np.array([one.x, one.y]).T):
            apart = np.linalg.norm(space[:, None] - space, axis=2)
            np.fill_diagonal(apart, np.inf)
            near.append(apart.argsort(axis=1, kind="stable")[:, :10])
        common = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])
        # Rows that are alike are near in any order.
        assert one.trust.agreement == pytest.approx(common, abs=0.02)
        assert one.trust.by_chance == 10 / 59
        labels = np.array(found.labels)
        same = np.mean(labels[near[0]] == labels[:, None])
        assert one.trust.same_label == pytest.approx(same, abs=0.02)


def test_a_flat_cloud_is_drawn_without_loss_and_noise_with_much():
    rng = np.random.default_rng(0)
    flat = np.zeros((200, 8), dtype="float32")
    flat[:, :2] = rng.normal(size=(200, 2))
    one = maps._map_reading("flat", flat, ["x"] * 200, "pca")
    assert one.trust.kept == pytest.approx(1)
    assert one.trust.agreement > 0.99
    assert (one.trust.same_label, one.trust.same_label_drawn) == (1, 1)
    noise = maps._map_reading("noise", rng.normal(size=(200, 100)), [], "pca")
    assert noise.trust.kept < 0.1
    assert noise.trust.agreement < 0.25
    assert noise.trust.same_label is None
    alike = maps._map_reading("alike", np.ones((20, 5)), [], "pca")
    assert alike.trust.kept == 1


def test_tsne_keeps_neighbours_and_is_the_same_every_time(data, tiny):
    asked = {"method": "tsne", "model": str(tiny())}
    first, again = (heads.row_map(data, ["mean"], **asked).readings[0] for _ in range(2))
    assert (first.x, first.y) == (again.x, again.y)
    assert first.trust.kept is None
    flat = heads.row_map(data, ["mean"], model=str(tiny())).readings[0]
    assert first.trust.agreement > flat.trust.agreement


def test_the_file_has_texts_labels_and_coordinates(found, tmp_path):
    place = found.save(tmp_path / "map.parquet")
    table = pd.read_parquet(place)
    assert list(table.columns) == [
        "row", "line", "text", "label", "x_mean", "y_mean", "x_cls_1", "y_cls_1",
    ]  # fmt: skip
    assert table["text"].tolist() == list(found.texts)
    assert table["line"].tolist() == list(range(2, 62))
    assert table["x_cls_1"].tolist() == list(found.readings[1].x)
    pd.testing.assert_frame_equal(table, found.to_pandas(), check_dtype=False)
    with pytest.raises(heads.HeadsError):
        found.save(tmp_path / "map.csv")


def test_many_rows_are_drawn_by_lot_and_said_to_be(data, tiny):
    some = heads.row_map(data, ["mean"], most=20, model=str(tiny()))
    assert len(some.rows) == 20
    assert list(some.rows) == sorted(set(some.rows))
    assert some.texts == tuple(data.corpus.texts[row] for row in some.rows)
    assert "20 of 60 rows" in some.notes[0]


def test_a_run_is_drawn_with_its_answers(tmp_path, tiny, few):
    config = heads.ExperimentConfig(folds=2, curve=False)
    asked = {"recipes": ["mean+ridge", "cls+ridge"], "config": config, "model": str(tiny())}
    board = heads.train_grid(few, **asked, out=tmp_path / "run")
    found = heads.row_map(tmp_path / "run")
    assert found.head == (board.recommendation.name or board.best)
    assert len(found.answers) == 100
    table = found.to_pandas()
    right = (table["answer"] == table["label"]).mean()
    assert right == pytest.approx(board.cell(found.head).measures.score)
    assert heads.row_map(board, ["mean"]).texts == found.texts


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"readings": ["attention"]}, RecipeError),
        ({"readings": ["mean+linear?late=true"]}, RecipeError),
        ({"readings": ["meen"]}, RecipeError),
        ({"readings": []}, RecipeError),
        ({"readings": ["mean", "cls", "max", "last", "mean@1"]}, LimitError),
        ({"method": "umap"}, DataError),
        ({"most": 20_000}, LimitError),
        ({"most": -1}, DataError),
        ({"most": 2}, DataError),
        ({"data": "nothing"}, DataError),
    ],
)
def test_options_that_do_not_fit_are_refused(data, tiny, asked, kind):
    with pytest.raises(kind):
        heads.row_map(**{"data": data, "model": str(tiny())} | asked)


# The picture


def test_the_readings_stand_side_by_side_with_one_legend(found):
    figure = found.plot()
    assert {trace.type for trace in figure.data} == {"scattergl"}
    assert [trace.name for trace in figure.data if trace.showlegend] == ["x", "y", "z"]
    assert sum(len(trace.x) for trace in figure.data) == 2 * 60
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]
    text = figure.layout.title.text.replace("<br>", " ")
    for one in found.readings:
        assert f"{one.reading}: " in text
    hovers = [hover for trace in figure.data for hover in trace.hovertext]
    assert any("&lt;b>" in hover for hover in hovers)
    assert not any("<b>" in hover or "%{" in hover for hover in hovers)


def test_of_many_labels_the_commonest_have_colours_and_numbers_a_scale(found):
    labels = tuple(f"label {at // 3}" if at < 36 else f"rare {at}" for at in range(60))
    figure = chart.draw_map(replace(found, labels=labels)).figure
    named = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert named[0] == chart.OTHER
    assert len(named) == 1 + len(chart.MANY)
    assert len({trace["marker"]["color"] for trace in figure["data"]}) == 1 + len(chart.MANY)
    numbers = chart.draw_map(replace(found, numbers=tuple(map(float, range(60))))).figure
    assert [len(trace["x"]) for trace in numbers["data"]] == [60, 60]
    assert numbers["data"][0]["marker"]["showscale"]


def test_without_a_reading_the_usual_ones_are_drawn(data, tiny):
    found = heads.row_map(data, model=str(tiny()))
    assert [one.reading for one in found.readings] == ["mean", "cls"]
    vectors = np.random.default_rng(0).normal(size=(60, 5))
    given = heads.row_map(heads.read(vectors, labels=list("xyz") * 20))
    assert [one.reading for one in given.readings] == ["vectors"]
    assert chart.draw_map(given).says.startswith("60 rows of vectors")
    one = heads.row_map(data, "mean+mlp", model=str(tiny()))
    assert [mapped.reading for mapped in one.readings] == ["mean"]


def test_of_given_vectors_only_those_that_are_drawn_are_taken_in(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(60, 5)).astype("float32")
    data = heads.read(vectors, labels=list("xyz") * 20)
    taken, whole = [], Vectors.tensor
    monkeypatch.setattr(Vectors, "tensor", lambda own: taken.append(len(own)) or whole(own))
    few = heads.row_map(data, ["vectors", "vectors?normalise=true"], most=20)
    assert taken == [20]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    for one, own in zip(few.readings, (vectors, vectors / lengths), strict=True):
        drawn = own[list(few.rows)] - own[list(few.rows)].mean(axis=0)
        _, _, axes = np.linalg.svd(drawn, full_matrices=False)
        wanted = np.abs(drawn @ axes[:2].T)
        assert np.abs(np.array([one.x, one.y]).T) == pytest.approx(wanted, abs=1e-4)


def test_a_map_is_shown_by_notebook_and_shell(found):
    check_shown(found, is_foreign=False)
