"""Tables in memory are read as the same table in a file is."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hypothesis import given, settings
from hypothesis import strategies as st

import heads
from heads.data.columns import guess
from heads.data.dataset import data_of
from heads.data.samples import SAMPLES
from heads.data.sources import open_source
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import PUBLIC, use_limits

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
    ("data", "says"),
    [
        ([("a", "b")], r"No data can be read from this list\. Make a table of it: pandas"),
        ({"text": ["a"]}, "from this dict. Make a table of it"),
        (3, r"from this int\. Give a sample, a file, a folder, a DataFrame or a Dataset\."),
        (pd.DataFrame({"text": [], "label": []}), "DataFrame has no data rows."),
        (pd.Series(["a", "b"], name="text"), "Series cannot be read as a table."),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "two columns named 'text'"),
        (DatasetDict(other=rows("a")), r"None of the parts of DatasetDict \(other\) is called"),
        (rows("a").to_iterable_dataset(), "Load it without streaming=True."),
        (DatasetDict(train=rows("a").add_column("split", ["x"] * 20)), "column called split"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(data, says):
    with pytest.raises(DataError, match=says) as refused:
        open_source(data)
    assert "\n" not in str(refused.value)


def test_limits_hold_for_tables_in_memory():
    with use_limits(PUBLIC), pytest.raises(LimitError, match="more than 20,000 rows"):
        open_source(pd.DataFrame({"text": ["a"] * 20_001, "label": ["b"] * 20_001}))
    with use_limits(PUBLIC), pytest.raises(LimitError, match="51 columns"):
        open_source(pd.DataFrame({f"c{n}": ["a"] for n in range(51)}))


def test_a_head_is_trained_on_a_frame_and_scored_on_another(tiny):
    frame = pd.read_csv(SENTIMENT)
    learned, scored = frame.iloc[::7], Dataset.from_pandas(frame.iloc[1::14])
    config = heads.ExperimentConfig(seeds=1, curve=False)
    asked = {"test": scored, "model": str(tiny()), "config": config}
    mine = heads.train("mean+linear", learned, **asked)
    assert mine.head.scores is not None
    assert (mine.head.rows, mine.head.scores.rows) == (len(learned), len(scored))
    assert mine.predict(["Not bad at all."])


def test_nobody_imports_a_library_for_what_it_has_not_made():
    code = "import sys; from heads.data.sources import open_source"
    code += "; open_source('sentiment'); print({'pandas', 'datasets'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_the_guess_is_that_of_a_file():
    frame = pd.read_csv(SAMPLES["pairs"].path)
    table, name = open_source(frame)
    assert name == "DataFrame"
    assert guess(table) == opened("pairs").columns
