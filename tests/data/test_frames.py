"""Tables in memory are read as the same table in a file is."""

import io
import json
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hypothesis import given, settings
from hypothesis import strategies as st

import heads
from heads.data.dataset import data_of
from heads.data.samples import SAMPLES
from heads.data.sources import open_source
from heads.errors import DataError, HeadsError
from heads.settings import ExperimentConfig

SENTIMENT = SAMPLES["sentiment"].path
TWO = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})


def opened(data):
    table, name = open_source(data)
    return data_of(table, name=name)


def rows(name, count=20, features=TWO):
    texts = [f"Text number {row} of {name}." for row in range(count)]
    return Dataset.from_dict({"text": texts, "label": [n % 2 for n in range(count)]}, features)


def with_view(frame):
    """Texts as Polars hands them out, in a dictionary too."""
    view = pa.array(frame["label"], pa.string_view())
    words = pa.DictionaryArray.from_arrays(
        pa.array(pd.factorize(frame["label"])[0], pa.uint32()),
        pa.array(pd.factorize(frame["label"])[1], pa.string()).cast(pa.string_view()),
    )
    assert view.type == words.type.value_type
    return pa.table({"text": pa.array(frame["text"], pa.string_view()), "label": words})


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.astype({"label": "category"}),
        lambda frame: frame.astype(object),
        lambda frame: frame.set_index(frame.index + 100),
        pa.table,
        with_view,
        Dataset.from_pandas,
    ],
    ids=["pandas", "category", "object", "index", "arrow", "views", "datasets"],
)
def test_a_table_in_memory_is_read_as_its_file(make):
    found, of_file = opened(make(pd.read_csv(SENTIMENT))), opened("sentiment")
    assert found.corpus.fingerprint == of_file.corpus.fingerprint
    assert found.columns == of_file.columns
    assert (found.rows_in, found.classes) == (of_file.rows_in, of_file.classes)
    assert found.unit == "row"
    assert found.corpus.lines[:2] == (1, 2)


CELLS = st.text(st.characters(codec="utf-8"), max_size=12) | st.none()


@settings(max_examples=30, deadline=None)
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
def test_a_frame_is_read_as_the_parquet_file_of_it(tmp_path_factory, cells):
    frame = pd.DataFrame(cells, columns=["text", "label"])
    path = tmp_path_factory.mktemp("frames") / "DataFrame.parquet"
    frame.to_parquet(path)
    told = []
    for source in (frame, path):
        try:
            found = opened(source)
            told.append((found.corpus.fingerprint, found.dropped, found.findings))
        except HeadsError as error:
            told.append(str(error).replace(path.name, "DataFrame"))
    assert told[0] == told[1]


def test_rows_that_cannot_be_used_are_named_as_rows():
    frame = pd.read_csv(SENTIMENT)
    frame.loc[2, "text"] = None
    frame["label"] = frame["label"].map({"negative": 0, "neutral": 1, "positive": 2})
    frame.loc[4, "label"] = np.nan
    found = opened(frame)
    assert found.corpus.classes == ("0", "1", "2"), "no 0.0: a gap makes pandas write fractions"
    assert dict(found.dropped) == {"no text": (3,), "no label": (5,)}
    assert "Dropped 1 row with no text: row 3." in [one.says for one in found.findings]


def test_cells_of_several_kinds_and_sets_of_labels_are_read():
    tags = [{"b", "a"}, ("a",), [], ["b"]] * 5
    found = opened(pd.DataFrame({"text": [f"text {n}" for n in range(20)], "tags": tags}))
    assert found.corpus.classes == ("a", "b")
    assert found.corpus.targets[:4] == ((0, 1), (0,), (), (1,))
    odd = pd.DataFrame({"text": [f"text {n}" for n in range(20)], "label": [1, "one", True, 2] * 5})
    assert opened(odd).corpus.classes == ("1", "2", "one", "true")


def test_a_data_set_keeps_its_order_its_classes_and_its_name():
    given = rows("a").shuffle(seed=1).select(range(10))
    found = opened(given)
    assert list(found.corpus.texts) == list(given["text"])
    assert found.corpus.classes == ("no", "yes")
    many = Features({"text": Value("string"), "label": List(ClassLabel(names=["x", "y", "z"]))})
    sets = Dataset.from_dict({"text": ["one two", "three"] * 9, "label": [[0, 2], [1]] * 9}, many)
    assert opened(sets).corpus.classes == ("x", "y", "z")


def test_splits_are_used_as_they_are_called():
    given = {"train": rows("a"), "validation": rows("b", 6), "test": rows("c", 8)}
    found = opened(DatasetDict(given | {"unsupervised": rows("d")}))
    parts = found.corpus.parts
    assert [parts.count(name) for name in given] == [20, 6, 8]
    assert found.notes[0].endswith("Left out: unsupervised (20 rows).")


@pytest.mark.parametrize(
    "data",
    [
        [("a", "b")],
        {"text": ["a"]},
        3,
        pd.DataFrame({"text": [], "label": []}),
        pd.Series(["a", "b"], name="text"),
        pd.DataFrame([["a", "b"]], columns=["text", "text"]),
        DatasetDict(other=rows("a")),
        rows("a").to_iterable_dataset(),
        DatasetDict(train=rows("a").add_column("split", ["x"] * 20)),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_cannot_be_read_is_one_sentence(data):
    with pytest.raises(DataError) as refused:
        open_source(data)
    assert "\n" not in str(refused.value)
    assert refused.value.hint


def test_nobody_imports_a_library_for_what_it_has_not_made():
    code = "import sys; from heads.data.sources import open_source"
    code += "; open_source('sentiment'); print({'pandas', 'datasets'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


# --- Every kind of frame goes through every verb, and gives what its CSV file gives.

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
        heads.train("mean+ridge", data, test=data, model=model, config=ONCE)
        .logits(["A text."])
        .tolist()
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


# A table that is read whole goes through one door, one that is answered through another.
@pytest.mark.parametrize(
    ("kind", "verb"),
    [(kind, verb) for kind in FRAMES for verb in ("read", "predict")]
    + [("datasets", "train"), ("polars", "train_grid"), ("duckdb", "evaluate")],
)
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


def test_half_an_emoji_in_json_is_left_out(tmp_path, from_file):
    path, words = tmp_path / "rows.jsonl", ("dogs", "cats")
    lines = [
        {"text": f"{words[n % 2]} {n} 😀\ud83d", "label": "ab"[n % 2] + "\ud83d",
         "extra\ud83d": n, "tags\uDE00": ["x\ud83d", 1.50]} for n in range(20)
    ]  # fmt: skip
    path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    data = heads.read(path)
    assert (data.names, data.corpus.classes) == (("text", "label", "extra", "tags"), ("a", "b"))
    assert json.dumps(data.as_json(), ensure_ascii=False).encode()
    assert heads.predict(path, recipe=from_file[1], to=tmp_path / "answers.csv").rows == 20
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert answers["text"][1] == "cats 1 😀"
    assert set(answers["label"]) == {"a", "b"}
    assert answers["tags"][0] == '["x", 1.5]'


def test_views_of_strings_are_read_at_any_depth():
    texts = [f"text {n}" for n in range(20)]
    tags = pa.array([["a", "b"], ["a"], [], ["b"]] * 5, pa.list_(pa.string_view()))
    table = pa.table({"text": pa.array(texts, pa.string_view()), "tags": tags})
    assert heads.read(table).corpus.classes == ("a", "b")
