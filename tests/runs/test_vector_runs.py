"""Runs on vectors: the cells of the same run on texts, and what every door says of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from sklearn.model_selection import GridSearchCV, cross_val_score

import heads
from heads.backbone.loading import load
from heads.errors import CheckpointError, DataError, HeadsError, RecipeError
from heads.events import result
from heads.features.extraction import extract
from heads.interfaces.cli.app import main
from heads.interfaces.views.dataset import card
from heads.interfaces.views.report import report
from heads.parts.resolve import resolve
from heads.runs import spec
from heads.runs.cells import answers_of_cell
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import facts_of, leaderboard
from heads.settings import ExperimentConfig

HEADS = ("linear", "logistic", "knn", "mlp?hidden=8")
PLAIN = ExperimentConfig(curve=False, steps=30, trials=2, folds=3, precision="exact")
CONFIG = ExperimentConfig(curve=True, steps=30, trials=2, folds=3, precision="exact")
ROWS, WIDTH = 360, 6


def some(rows: int = ROWS) -> tuple[np.ndarray, list[str]]:
    """Vectors of three classes, and these."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=rows)
    X = rng.standard_normal((rows, WIDTH)).astype(np.float32)
    X[np.arange(rows), classes] += 1.5
    return X, [f"class {one}" for one in classes]


def as_file(path: Path, X: np.ndarray, labels: list[str], **more: Any) -> Path:
    vectors = pa.array([row.tolist() for row in X], pa.list_(pa.float32()))
    parquet.write_table(
        pa.table({"id": range(len(X)), "embedding": vectors, "label": labels, **more}), path
    )
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def file(place: Path) -> Path:
    return as_file(place / "rows.parquet", *some())


@pytest.fixture(scope="module")
def run(place: Path, file: Path) -> Path:
    """A run on vectors, without texts."""
    recipes = [f"vectors+{one}" for one in HEADS]
    heads.train_grid(file, recipes=recipes, config=CONFIG, out=place / "run")
    return place / "run"


def cells_of(run: Path) -> dict[str, tuple[float, np.ndarray, float]]:
    """Score, answers and log loss of every head of a run, by its name behind the reading."""
    folder = RunFolder(path=run)
    asked, found = spec.load(folder), {}
    for cell in leaderboard(folder).cells:
        if not cell.is_baseline:
            told = answers_of_cell(folder, asked.names.index(cell.name), cell.name).answers
            values = torch.cat([given.double() for given in told.given]).numpy()
            found[cell.name.partition("+")[2]] = cell.measures.score, values, cell.measures.values
    return found


FEW = ("linear", "knn")


@pytest.mark.parametrize(
    ("form", "tops"),
    [
        ("parquet", FEW),
        pytest.param("parquet", HEADS, marks=pytest.mark.slow),
        pytest.param("npy", HEADS, marks=pytest.mark.slow),
    ],
)
def test_the_same_vectors_give_the_same_cells(
    form: str, tops: tuple[str, ...], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    model, rows = str(tiny()), heads.read("sentiment", model=str(tiny()))
    corpus = rows.corpus
    for event in extract([resolve("mean+linear")], corpus.texts, (), load(model)):
        features: Any = event
    X = features.matrix("mean")[features.index].numpy()
    labels = list(map(str, corpus.labels))
    if form == "npy":
        np.save(tmp_path / "X.npy", X)
        data: Any = heads.read(tmp_path / "X.npy", labels=labels)
    else:
        data = as_file(tmp_path / "X.parquet", X, labels)
    for name, own, reading, more in (
        ("texts", rows, "mean", {"model": model}),
        ("vectors", data, "vectors", {}),
    ):
        recipes = [f"{reading}+{one}" for one in tops]
        heads.train_grid(own, recipes=recipes, config=PLAIN, out=tmp_path / name, **more)
    expected, found = cells_of(tmp_path / "texts"), cells_of(tmp_path / "vectors")
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name][0] == pytest.approx(expected[name][0], abs=1e-6), name
        assert np.allclose(found[name][1], expected[name][1], atol=1e-6), name
        assert found[name][2] == pytest.approx(expected[name][2], abs=1e-6), name


def test_a_run_has_all_that_a_run_has(run: Path) -> None:
    found = leaderboard(RunFolder(path=run))
    assert found.verdict
    # No words are counted where there are no texts.
    assert {cell.name for cell in found.cells if cell.is_baseline} == {"majority"}
    assert found.model == f"vectors:{WIDTH}"
    facts = RunFolder(path=run).read("facts.json")
    assert "no base model has read" in facts["reading"]["says"]
    assert [one["name"] for one in facts["estimates"]] == ["vectors"]
    assert (run / "curve.json").is_file()
    listed = facts_of(RunFolder(path=run))
    assert listed["cells"] == listed["planned"] == len(HEADS)
    assert "vectors+linear" in report(found)


def test_a_run_goes_on_from_its_own_copy(place: Path, file: Path, tmp_path: Path) -> None:
    from heads.runs.runner import begin, working
    from heads.runs.spec import RunRequest

    copy = tmp_path / "rows.parquet"
    copy.write_bytes(file.read_bytes())
    asked = RunRequest(
        data=heads.read(copy), recipes=["vectors+linear", "vectors+knn"], config=CONFIG
    )
    run = begin(asked, out=tmp_path / "run")
    events = working(run)
    while type(next(events)).__name__ != "CellDone":
        pass
    events.close()
    copy.unlink()
    cells = {cell.name: cell.measures.score for cell in heads.api.resume(str(run.path)).cells}
    whole = {c.name: c.measures.score for c in leaderboard(RunFolder(path=place / "run")).cells}
    assert cells.keys() == {"vectors+linear", "vectors+knn", "majority"}
    assert cells["vectors+knn"] == pytest.approx(whole["vectors+knn"], abs=1e-9)


def test_texts_beside_vectors_are_counted_words(tmp_path: Path) -> None:
    X, labels = some()
    texts = [f"row {row} says {label}" for row, label in enumerate(labels)]
    path = as_file(tmp_path / "rows.parquet", X, labels, text=texts)
    found = heads.train_grid(
        path, vectors="embedding", recipes=["vectors+linear"], config=PLAIN, out=tmp_path / "run"
    )
    assert {cell.name for cell in found.cells} == {"vectors+linear", "majority", "tfidf"}


def test_a_test_file_and_what_it_shares(file: Path, tmp_path: Path) -> None:
    X, labels = some()
    np.savez(tmp_path / "test.npz", X=np.concatenate([X[:2], -X[:30]]), y=labels[:2] + labels[:30])
    found = heads.train_grid(
        file,
        test=tmp_path / "test.npz",
        recipes=["vectors+knn"],
        config=PLAIN,
        out=tmp_path / "run",
    )
    told = spec.load(RunFolder(path=tmp_path / "run")).account["between"]
    assert any("2 of the 32 vectors of the test file stand in rows as well" in one for one in told)
    assert found.cells[0].measures.rows == 32
    wide = heads.read(np.ones((32, 9)) * np.arange(32)[:, None], labels=labels[:32])
    with pytest.raises(DataError, match="numbers and those of"):
        heads.train_grid(file, test=wide)
    texts = heads.read("sentiment")
    with pytest.raises(DataError, match="vectors in one and texts in the other"):
        heads.train_grid(file, test=texts)


def test_rows_are_answered_in_their_order(run: Path, file: Path, tmp_path: Path) -> None:
    X, labels = some()
    head = leaderboard(RunFolder(path=run)).classifier("vectors+linear")
    expected = head.predict(X)
    asked = {"run": str(run), "recipe": "vectors+linear"}
    assert [one["answer"] for one in heads.predict(file, **asked).answers] == expected
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "X.npz", vectors=X, y=labels)
    (tmp_path / "X.jsonl").write_text("\n".join(json.dumps({"e": row.tolist()}) for row in X))
    for name in ("X.npy", "X.npz", "X.jsonl"):
        assert [
            one["answer"] for one in heads.predict(tmp_path / name, **asked).answers
        ] == expected
    assert [one["answer"] for one in heads.predict(X, **asked).answers] == expected
    assert heads.evaluate(X, labels_file=labels, **asked).rows == ROWS
    out = tmp_path / "out.parquet"
    told = heads.predict(file, to=out, **asked)
    table = parquet.read_table(out)
    assert table.column("id").to_pylist() == list(range(ROWS))
    assert table.column("answer").to_pylist() == expected
    assert np.array_equal(np.array(table.column("embedding").to_pylist(), np.float32), X)
    assert told.vectors == "embedding"
    scores = heads.evaluate(file, **asked)
    right = np.mean([one == label for one, label in zip(expected, labels, strict=True)])
    assert scores.score == pytest.approx(right)
    assert scores.repeated
    (tmp_path / "y.csv").write_text("\n".join(["label", *labels]), "utf-8")
    np.save(tmp_path / "y.npy", np.array(labels))
    for beside in ("y.csv", "y.npy"):
        again = heads.evaluate(tmp_path / "X.npy", labels_file=tmp_path / beside, **asked)
        assert (again.score, again.rows) == (scores.score, scores.rows)
        assert f"The labels come from {beside}." in again.notes
    (tmp_path / "few.csv").write_text("\n".join(["label", *labels[1:]]), "utf-8")
    with pytest.raises(DataError, match=rf"X\.npy has {ROWS} rows and few\.csv {ROWS - 1}\."):
        heads.evaluate(tmp_path / "X.npy", labels_file=tmp_path / "few.csv", **asked)
    with pytest.raises(
        DataError, match=r"belong beside \.npy, \.npz and Parquet files, not X\.jsonl"
    ):
        heads.evaluate(tmp_path / "X.jsonl", labels_file=tmp_path / "y.csv", **asked)
    with pytest.raises(DataError, match=r"belong beside vectors, and y\.csv has none"):
        heads.evaluate(tmp_path / "y.csv", labels_file=tmp_path / "y.csv", **asked)


def test_vectors_are_not_printed(run: Path, file: Path, capsys) -> None:
    assert main(["predict", str(file), "--run", str(run)]) == 0
    out, err = capsys.readouterr()
    names, *rows = out.splitlines()
    assert (names, len(rows)) == ("id,label,answer,probability", ROWS)
    assert "The vectors are not printed; --to FILE writes them as well." in err
    assert rows[3].startswith("3,")


@pytest.mark.parametrize(
    ("sign", "title", "mark"), [(";", "v", ""), ("|", " v ", ""), (",", "v", "\ufeff")]
)
def test_vectors_of_delimited_text_are_not_printed(
    sign: str, title: str, mark: str, run: Path, tmp_path: Path, capsysbinary
) -> None:
    X, _ = some(5)
    lines = [f'{at}{sign}"{json.dumps(row.tolist())}"' for at, row in enumerate(X)]
    path = tmp_path / "rows.csv"
    path.write_text(f"{mark}é{sign}{title}\n" + "\n".join(lines) + "\n", "utf-8")
    assert main(["predict", str(path), "--run", str(run), "--recipe", "vectors+linear"]) == 0
    names, *rows = capsysbinary.readouterr().out.decode("utf-8-sig").splitlines()
    assert names == sign.join(["é", "answer", "probability"])
    assert [row.split(sign)[0] for row in rows] == list("01234")
    expected = leaderboard(RunFolder(path=run)).classifier("vectors+linear").predict(X)
    assert [row.split(sign)[1] for row in rows] == expected


def test_labels_in_memory_are_one_a_row(run: Path) -> None:
    X, labels = some(60)
    asked = {"run": str(run), "recipe": "vectors+linear"}
    right = heads.evaluate(X, labels_file=labels, **asked).score
    frame = pandas.DataFrame({"label": labels})
    assert heads.evaluate(X, labels_file=frame, **asked).score == right
    assert heads.evaluate(X, labels_file=frame["label"], **asked).score == right
    with pytest.raises(DataError, match=r"vectors has 60 rows and labels 59\."):
        heads.evaluate(X, labels_file=frame[1:], **asked)
    for odd in ({"class 0": 1, "class 1": 2}, set(labels)):
        with pytest.raises(DataError, match=r"Labels cannot be taken from this (dict|set)"):
            heads.evaluate(X[:2], labels_file=odd, **asked)
    with pytest.raises(DataError, match="No column of vectors holds labels"):
        heads.evaluate(X, labels_file=None, **asked)


def test_names_come_as_one_or_from_a_generator(tmp_path: Path) -> None:
    X, labels = some(60)
    for number, recipes in enumerate(("vectors+knn", (r for r in ["vectors+knn"]))):
        out = tmp_path / str(number)
        found = heads.train_grid(X, labels=labels, recipes=recipes, config=PLAIN, out=out)
        assert [one.name for one in found.cells if not one.is_baseline] == ["vectors+knn"]


def test_rows_without_a_vector_get_no_answer(run: Path, tmp_path: Path) -> None:
    X, labels = some(6)
    X[2, 1] = np.nan
    rows = [None if at == 4 else row.tolist() for at, row in enumerate(X)]
    vectors = pa.array(rows, pa.list_(pa.float32()))
    parquet.write_table(pa.table({"embedding": vectors}), tmp_path / "rows.parquet")
    found = heads.predict(tmp_path / "rows.parquet", run=str(run))
    assert [bool(one["answer"]) for one in found.answers] == [True, True, False, True, False, True]
    assert found.unanswered == {"no vector, or one that holds NaN or infinity": (3, 5)}
    as_file(tmp_path / "wide.parquet", np.ones((3, WIDTH + 1)), labels[:3])
    with pytest.raises(
        DataError, match=r"row 1 of wide\.parquet has 7 numbers, and the head learned"
    ):
        heads.predict(tmp_path / "wide.parquet", run=str(run))
    with pytest.raises(DataError, match=r"no column of sentiment\.csv holds any"):
        heads.predict("sentiment", run=str(run))


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: heads.compare("a text", run=run),
        lambda run: heads.Inspector(recipes=["vectors+linear"], run=run).nearest("a text"),
        lambda run: heads.Inspector(recipes=["vectors+linear"], run=run).flips("a text", ["b"]),
        lambda run: heads.Inspector(recipes=["vectors+linear"], run=run).ablate("a text"),
        lambda run: heads.compare("a text", model=f"vectors:{WIDTH}", recipes=["vectors+linear"]),
    ],
)
def test_what_asks_about_a_text_is_told_why_not(ask: Callable[[str], Any], run: Path) -> None:
    with pytest.raises(DataError, match="so it reads no text"):
        ask(str(run))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"recipes": ["mean+linear"]}, r"Write vectors\+linear"),
        ({"grid": "layers"}, "compares what a base model gives"),
        ({"grid": "tunes"}, "compares what a base model gives"),
        ({"tune": ["lora"]}, "tune= is of a base model"),
        ({"prefixes": ["query: "]}, "prefix= is of a base model"),
        ({"pairs": ["siamese"]}, "one text a row"),
        ({"model": "bert-base-uncased"}, "bert-base-uncased does not read"),
    ],
)
def test_what_only_a_base_model_does(how: dict[str, Any], says: str, file: Path) -> None:
    with pytest.raises(HeadsError, match=says):
        heads.train_grid(file, **how)


def test_texts_have_no_vectors(tiny: Callable[..., Path]) -> None:
    with pytest.raises(RecipeError, match="learns from vectors that are given"):
        heads.train_grid("sentiment", recipes=["vectors+linear"], model=str(tiny()))


@pytest.mark.slow
def test_a_whole_grid_has_one_reading(file: Path, tmp_path: Path) -> None:
    found = heads.train_grid(file, grid="heads", config=PLAIN, out=tmp_path / "run")
    names = [cell.name for cell in found.cells if not cell.is_baseline]
    assert len(names) > 8
    assert all(name.startswith("vectors+") for name in names)


def test_a_folder_needs_a_base_model(run: Path, tmp_path: Path) -> None:
    head = leaderboard(RunFolder(path=run)).classifier("vectors+linear")
    for options in ({}, {"adapter": True}, {"library": "sentence-transformers"}):
        with pytest.raises(CheckpointError, match="no base model") as caught:
            heads.export(head, tmp_path / "folder", **options)
        assert "--onnx" in caught.value.hint
    assert not (tmp_path / "folder").exists()


@pytest.mark.slow
def test_the_head_alone_is_one_onnx_file(run: Path, tmp_path: Path) -> None:
    import onnxruntime

    X, _ = some()
    for name in ("linear", "knn", "mlp?hidden=8"):
        head = leaderboard(RunFolder(path=run)).classifier(f"vectors+{name}")
        path = tmp_path / f"{name[:3]}.onnx"
        assert heads.export_onnx(head, path).inputs == ("vectors",)
        [logits] = onnxruntime.InferenceSession(path).run(["logits"], {"vectors": X[:5]})
        assert np.allclose(logits, result(head.refitted()).logits(X[:5]), atol=1e-5)


def test_estimators_take_vectors() -> None:
    X, y = some(60)
    estimator = heads.HeadClassifier("vectors+linear", steps=20, trials=1)
    search = GridSearchCV(
        estimator, {"recipe": ["vectors+linear", "vectors+knn"]}, cv=2, error_score="raise"
    ).fit(X, y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_.n_features_in_ == WIDTH
    assert search.predict_proba(X).shape == (60, 3)
    one = torch.from_numpy(X)
    assert (search.predict(one) == search.predict(X)).all()
    assert (
        cross_val_score(heads.HeadRegressor("vectors+linear"), X, X[:, 0] * 2.0, cv=2).min() > 0.5
    )
    with pytest.raises(ValueError, match=r"write vectors\+linear"):
        heads.HeadClassifier("mean+linear").fit(X, y)
    with pytest.raises(ValueError, match="something else than numbers"):
        heads.HeadClassifier("vectors+linear").fit(["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match="features"):
        search.predict(X[:, :2])


def test_one_head_is_trained_as_well(file: Path) -> None:
    found = heads.train("vectors+linear", file, config=PLAIN)
    X, _ = some()
    assert len(found.predict(X)) == ROWS
    assert found.predict(X[:0]) == []
    for bad, says in ((X[:, :2], f"X is {ROWS} × 2"), (["a"], r"<U1"), (X * np.nan, "Row 0 of X")):
        with pytest.raises(DataError, match=says):
            found.predict(bad)


@pytest.mark.slow
def test_the_lines_of_the_page_on_vectors_run() -> None:
    page = (Path(__file__).parents[2] / "docs/vectors.md").read_text("utf-8")
    (block,) = re.findall(r"^```python no-run\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    X, y = some()
    exec(block, {"X": X, "y": y, "X_new": X[:3]})


def test_the_card_of_the_page_says_what_is_read(file: Path) -> None:
    page = card(heads.read(file))
    assert "vectors of 6 numbers" in page
    assert "embedding" in page
