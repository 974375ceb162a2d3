"""Every kind of table in memory goes through every verb, and gives what its CSV file gives."""

import io
import json

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from datasets import Dataset

import heads
from heads.interfaces.cli.app import main
from heads.settings import ExperimentConfig

ONCE = ExperimentConfig(folds=2, curve=False)


def as_polars(frame):
    """Labels as a Categorical, whose words Polars hands out as views of strings."""
    return pl.DataFrame(frame).with_columns(pl.col("label").cast(pl.Categorical))


def as_duckdb(frame):
    return duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))


FRAMES = {
    "pandas": lambda frame: frame,
    "polars": as_polars,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "datasets": lambda frame: Dataset.from_pandas(frame, preserve_index=False),
    "duckdb": as_duckdb,
}
VERBS = {
    "read": lambda data, trained, model: heads.read(data).corpus.texts,
    "train": lambda data, trained, model: (
        heads.train("mean+ridge", data, model=model, config=ONCE).logits(["A text."]).tolist()
    ),
    "train_grid": lambda data, trained, model: [
        cell.measures.score
        for cell in heads.train_grid(data, recipes=["mean+ridge"], model=model, config=ONCE).cells
    ],
    "predict": lambda data, trained, model: [
        row["answer"] for row in heads.predict(data, recipe=trained).answers
    ],
    "evaluate": lambda data, trained, model: heads.evaluate(data, recipe=trained).measures.score,
}


@pytest.fixture(scope="module")
def frame():
    words = {"good": ["fine", "great", "lovely"], "bad": ["awful", "poor", "dull"]}
    rows = [
        {"text": f"A {word} thing, number {n}.", "label": label}
        for label, several in words.items()
        for word in several
        for n in range(8)
    ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def from_file(frame, tiny, tmp_path_factory):
    """What each verb gives for the CSV file, the model and a trained classifier."""
    path = tmp_path_factory.mktemp("frames") / "frame.csv"
    frame.to_csv(path, index=False)
    model = str(tiny())
    trained = heads.train("mean+ridge", path, model=model, config=ONCE)
    return {name: verb(path, trained, model) for name, verb in VERBS.items()}, trained, model


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_goes_through_every_verb(kind, verb, frame, from_file):
    expected, trained, model = from_file
    assert VERBS[verb](FRAMES[kind](frame), trained, model) == expected[verb]


@pytest.mark.parametrize("backend", ["numpy", "numpy_nullable", "pyarrow"])
@pytest.mark.parametrize("number", ["0.5", "3.0", "1e20"])
def test_a_column_of_numbers_with_a_gap_is_read(frame, backend, number):
    file = io.StringIO(frame.assign(score=["", *[number] * (len(frame) - 1)]).to_csv(index=False))
    given = {} if backend == "numpy" else {"dtype_backend": backend}
    found = heads.read(pd.read_csv(file, **given)).corpus
    assert list(found.texts) == list(frame["text"])


def test_half_an_emoji_in_json_is_left_out(tmp_path, tiny, capfd):
    path, words = tmp_path / "rows.jsonl", ("dogs", "cats")
    lines = [
        {"text": f"{words[n % 2]} {n} 😀\ud83d", "label": "ab"[n % 2] + "\ud83d",
         "extra\ud83d": n, "tags\uDE00": ["x\ud83d", 1.50]} for n in range(20)
    ]  # fmt: skip
    path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    assert main(["read", str(path), "--json"]) == 0
    report = capfd.readouterr().out
    assert all(f'"{name}"' in report for name in ("text", "label", "extra", "tags"))
    assert json.loads(report)
    options = {"recipes": ["mean+ridge"], "model": str(tiny())}
    board = heads.train_grid(path, **options, config=ONCE)
    assert heads.predict(path, run=board.run, to=tmp_path / "answers.csv").rows == 20
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert answers["text"][1] == "cats 1 😀"
    assert set(answers["label"]) == {"a", "b"}
    assert answers["tags"][0] == '["x", 1.5]'


def test_views_of_strings_are_read_at_any_depth():
    texts = [f"text {n}" for n in range(20)]
    tags = pa.array([["a", "b"], ["a"], [], ["b"]] * 5, pa.list_(pa.string_view()))
    table = pa.table({"text": pa.array(texts, pa.string_view()), "tags": tags})
    assert heads.read(table).corpus.classes == ("a", "b")
