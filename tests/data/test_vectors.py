"""Vectors in the place of texts: what is read of files and arrays, and what is refused."""

import contextlib
import io
import json
import pickle
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.formats import vector_reading
from heads.data.sources import open_source
from heads.data.table import ColumnHints
from heads.data.vectors import Vectors
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import PUBLIC, Limits, set_limits, use_limits

ROWS, WIDTH = 24, 5


def some(rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)


LABELS = ["yes", "no", "perhaps"] * (ROWS // 3)


def read(data: Any, said: ColumnHints | None = None, labels: Any = None) -> Data:
    table, name = open_source(str(data) if isinstance(data, Path) else data, labels=labels)
    return data_of(table, guess(table, said) if said else None, name=name)


def held(data: Data) -> np.ndarray:
    assert data.corpus.vectors is not None
    return np.concatenate(list(data.corpus.vectors.blocks()))


def as_list(X: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.array([row.tolist() for row in X], kind)


# --- Every way in gives the same vectors.


def written(folder: Path, **columns: Any) -> Path:
    path = folder / "rows.parquet"
    columns = {"label": LABELS} | columns
    parquet.write_table(pa.table(columns), path, row_group_size=7)
    return path


def npz(X: np.ndarray, folder: Path) -> Any:
    np.savez_compressed(folder / "rows.npz", X=X, y=np.array(LABELS))
    return folder / "rows.npz"


def jsonl(X: np.ndarray, folder: Path) -> Any:
    path, rows = folder / "rows.jsonl", zip(X.tolist(), LABELS, strict=True)
    path.write_text("\n".join(json.dumps({"embedding": x, "label": y}) for x, y in rows))
    return path


def csv(X: np.ndarray, folder: Path) -> Any:
    frame = pd.DataFrame({"embedding": [str(row) for row in X.tolist()], "label": LABELS})
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


WAYS = {
    str(kind): lambda X, folder, kind=kind: written(folder, embedding=as_list(X, kind))
    for kind in (pa.list_(pa.float64()), pa.list_(pa.float32(), WIDTH), pa.large_list(pa.float32()))
} | {
    "npz": npz,
    "npz by columns": lambda X, folder: npz(np.asfortranarray(X), folder),
    "jsonl": jsonl,
    "csv": csv,
    "frame": lambda X, folder: pd.DataFrame({"embedding": list(X), "label": LABELS}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_vectors(way: str, tmp_path: Path) -> None:
    X = some()
    found = read(WAYS[way](X, tmp_path))
    assert np.array_equal(held(found), X)
    assert found.corpus.labels == tuple(LABELS)
    assert found.columns.label in ("label", "y")
    assert found.corpus.are_named
    assert f"vectors of {WIDTH} numbers" in found.findings[-1].says


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", ">f4"])
def test_an_array_beside_labels(kind: str, tmp_path: Path) -> None:
    X = (some() * 20).astype(kind)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.array(LABELS))
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(LABELS))
    expected = X.astype(np.float32)
    for labels in (str(tmp_path / "y.npy"), tmp_path / "y.csv", LABELS, pd.Series(LABELS)):
        assert np.array_equal(held(read(tmp_path / "X.npy", labels=labels)), expected)
    assert np.array_equal(held(read(X, labels=LABELS)), expected)


def test_tensors_are_arrays_as_well() -> None:
    X = torch.from_numpy(some())
    assert np.array_equal(held(read(X, labels=LABELS)), X.numpy())
    half = read(X.to(torch.bfloat16), labels=torch.arange(ROWS) % 3)
    assert np.array_equal(held(half), X.to(torch.bfloat16).float().numpy())
    assert half.corpus.classes == ("0", "1", "2")


def test_what_is_large_lies_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_reading, "IN_MEMORY", 10)
    found = read(written(tmp_path, embedding=as_list(some(), pa.list_(pa.float32()))))
    assert isinstance(found.corpus.vectors.pieces[0][0], np.memmap)
    assert np.array_equal(held(found), some())


def test_a_float32_array_is_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", some())
    found = read(tmp_path / "X.npy", labels=LABELS).corpus.vectors
    assert found is not None
    assert isinstance(found.pieces[0][0], np.memmap)
    assert found.tensor().data_ptr() == found.pieces[0][0].ctypes.data


# --- Which columns.


def test_texts_are_taken_before_vectors_unless_these_are_named(tmp_path: Path) -> None:
    texts = [f"this is the text of row {row}" for row in range(ROWS)]
    path = written(tmp_path, text=texts, embedding=as_list(some(), pa.list_(pa.float32())))
    by_text = read(path)
    assert by_text.corpus.vectors is None
    assert by_text.columns.text == "text"
    assert any("--vectors embedding" in one.says for one in by_text.findings)
    for said in (ColumnHints(vectors="embedding"), ColumnHints(text="embedding")):
        found = read(path, said)
        assert np.array_equal(held(found), some())
        # The texts still say what a row is called, and words can be counted in them.
        assert found.corpus.texts == tuple(texts)
        assert not found.corpus.are_named


def test_one_of_several_columns_must_be_named(tmp_path: Path) -> None:
    two = {"a": as_list(some(), pa.list_(pa.float32()))} | {
        "b": as_list(-some(), pa.list_(pa.float32()))
    }
    path = written(tmp_path, **two)
    with pytest.raises(DataError):
        read(path)
    assert np.array_equal(held(read(path, ColumnHints(vectors="b"))), -some())


def test_lists_of_whole_numbers_are_no_vectors(tmp_path: Path) -> None:
    texts = [f"this is the text of row {row}" for row in range(ROWS)]
    path = written(tmp_path, text=texts, ids=[[1, 2]] * ROWS)
    assert not open_source(str(path))[0].vectors


def test_rows_without_a_vector_or_a_label_are_left_out(tmp_path: Path) -> None:
    rows = [None, *some().tolist()[1:]]
    labels = [*LABELS[:-1], None]
    path = written(tmp_path, embedding=pa.array(rows, pa.list_(pa.float32(), WIDTH)), label=labels)
    found = read(path)
    assert found.dropped == {"no vector": (1,), "no label": (ROWS,)}
    assert np.array_equal(held(found), some()[1:-1])
    assert found.corpus.lines == tuple(range(2, ROWS))


def test_equal_vectors_are_repeats_and_leaks(tmp_path: Path) -> None:
    X, split = some(), ["train"] * 16 + ["test"] * 8
    X[20], X[3] = X[2], X[2]
    path = written(tmp_path, embedding=as_list(X, pa.list_(pa.float32())), split=split)
    told = {one.kind: one.says for one in read(path).findings}
    assert "2 rows repeat the vector of an earlier row" in told["duplicates"]
    assert (
        "1 vector for validation or testing also among the training rows" in told["split_overlap"]
    )
    assert "near_duplicates" not in told
    assert "vector has different labels" in told["conflict"]


# --- What is refused, each in one sentence.


def changed(row: int, place: int, value: float | None) -> list[list[float | None]]:
    rows: list[list[float | None]] = some().tolist()
    rows[row][place] = value
    return rows


RAGGED = [row[: 3 if number == 9 else WIDTH] for number, row in enumerate(some().tolist())]
REFUSED = {
    "ragged on row 10": RAGGED,
    "nan on row 10": changed(9, 2, np.nan),
    "infinite on row 10": changed(9, 2, np.inf),
    "too large on row 10": changed(9, 2, 1e300),
    "a null on row 10": changed(9, 1, None),
    "the same": [[1.0] * WIDTH] * ROWS,
    "empty": [[]] * ROWS,
}


@pytest.mark.parametrize("name", REFUSED)
def test_columns_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        read(written(tmp_path, embedding=pa.array(REFUSED[name], pa.list_(pa.float64()))))
    assert ("on row 10 of" in refused.value.what) == name.endswith("10")


def test_cells_of_unlike_length_and_vectors_without_labels_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        read(jsonl(np.array(RAGGED, object), tmp_path))
    assert "on row 10 of" in refused.value.what
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"embedding": as_list(some(), pa.list_(pa.float32()))}), path)
    with pytest.raises(DataError):
        read(path)


class Trap:
    """What must never be unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("it was unpickled",))


def saved(X: Any, folder: Path) -> Path:
    np.save(folder / "X.npy", X, allow_pickle=True)
    return folder / "X.npy"


def claims(shape: str, kind: str = "<f4") -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"\0" * 64


@pytest.mark.parametrize(
    "X",
    [
        np.array([[Trap()]]), np.zeros((2, 3, 4)), np.zeros(6), np.array(1.0), np.zeros((0, 4)),
        np.zeros((4, 0)), np.zeros((4, 4), complex), np.array([["a", "b"]]), np.zeros((4, 4), bool),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), np.full((ROWS, 3), np.nan),
        some(ROWS - 1), np.ones((ROWS, 3)),
    ],
    ids=lambda X: f"{X.dtype} {X.shape}",
)  # fmt: skip
def test_arrays_that_cannot_be_used(X: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read(saved(X, tmp_path), labels=LABELS)


@pytest.mark.parametrize(
    "shape", ["(1000000000, 384)", "(-1, 4)", "(10, 99999999999999999999999)", "'(1,)'", "()", "(4"]
)
@pytest.mark.parametrize("limits", [Limits(), PUBLIC])
def test_a_header_that_claims_too_much(shape: str, limits: Limits, tmp_path: Path) -> None:
    set_limits(limits)
    path = tmp_path / "X.npy"
    path.write_bytes(claims(shape))
    with pytest.raises(HeadsError):
        read(path, labels=LABELS)
    with zipfile.ZipFile(tmp_path / "X.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("X.npy", claims(shape))
    with pytest.raises(HeadsError):
        read(tmp_path / "X.npz")


def test_what_unpacks_to_too_much(tmp_path: Path) -> None:
    few = Limits(unpacked_bytes=100)
    np.savez_compressed(tmp_path / "X.npz", X=np.zeros((1000, 4), np.float32), y=np.zeros(1000))
    with use_limits(few), pytest.raises(LimitError):
        read(tmp_path / "X.npz")
    np.save(tmp_path / "X.npy", some())
    with use_limits(few), pytest.raises(LimitError):
        read(tmp_path / "X.npy", labels=LABELS)
    with (
        use_limits(Limits(pooled_width=4)),
        pytest.raises(LimitError),
    ):
        read(tmp_path / "X.npy", labels=LABELS)


def test_files_of_arrays_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "X.npz"
    np.savez(path, X=some(), y=np.array(LABELS[1:]))
    with pytest.raises(DataError):
        read(path)
    np.savez(path, y=np.array(LABELS))
    with pytest.raises(DataError):
        read(path)
    np.savez(path, X=some(), y=np.array([Trap()] * ROWS, object), allow_pickle=True)
    with pytest.raises(DataError):
        read(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError):
        read(path)


def letters(code: int, kind: str = "<u4") -> np.ndarray:
    """Labels of one letter each, of any number."""
    return np.array([code, ord("b")] * (ROWS // 2), kind).view(kind.replace("u4", "U1"))


def crafted(values: np.ndarray, kind: str) -> bytes:
    """An array that says of itself that its values are of another kind."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue().replace(values.dtype.str.encode(), kind.encode())


@pytest.mark.parametrize("kind", ["<u4", ">u4"])
@pytest.mark.parametrize("code", [0x7FFFFFFF, 0x110000, 0xFFFFFFFF])
def test_labels_of_what_is_no_letter_are_refused(code: int, kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "X.npz", X=some(), y=letters(code, kind))
    np.save(tmp_path / "y.npy", letters(code, kind))
    for data, labels in ((tmp_path / "X.npz", None), (some(), tmp_path / "y.npy")):
        with pytest.raises(DataError):
            read(data, labels=labels)
    fine = read(some(), labels=letters(ord("ж"), kind))
    assert fine.corpus.classes == ("b", "ж")


@pytest.mark.parametrize("kind", ["<U0", "|S0"])
def test_labels_of_no_length_are_refused(kind: str, tmp_path: Path) -> None:
    of = np.array(["a"] * ROWS) if "U" in kind else np.array([b"a"] * ROWS)
    raw = crafted(of, kind)
    (tmp_path / "y.npy").write_bytes(raw)
    with pytest.raises(DataError):
        read(some(), labels=tmp_path / "y.npy")
    np.savez(tmp_path / "X.npz", X=some())
    with zipfile.ZipFile(tmp_path / "X.npz", "a") as file:
        file.writestr("y.npy", raw)
    with pytest.raises(DataError, match=re.escape(f"y of X.npz holds values of the kind {kind}")):
        read(tmp_path / "X.npz")


@pytest.mark.parametrize("packed", ["ZIP_LZMA", "ZIP_BZIP2", "ZIP_DEFLATED", "ZIP_STORED"])
@pytest.mark.parametrize("spoilt", ["X", "y"])
def test_arrays_that_are_damaged_behind_their_header(
    packed: str, spoilt: str, tmp_path: Path
) -> None:
    path, rows = tmp_path / "X.npz", 20_000
    y = np.random.default_rng(1).integers(0, 3, rows)
    np.savez(tmp_path / "plain.npz", X=some(rows), y=y)
    plain, packing = zipfile.ZipFile(tmp_path / "plain.npz"), getattr(zipfile, packed)
    with plain, zipfile.ZipFile(path, "w", packing) as file:
        for one in plain.infolist():
            file.writestr(one.filename, plain.read(one))
        member = file.getinfo(f"{spoilt}.npy")
    raw = bytearray(path.read_bytes())
    middle = member.header_offset + member.compress_size // 2
    raw[middle : middle + 200] = bytes(200)
    path.write_bytes(raw)
    with pytest.raises(DataError):  # that it is, or that a number came out as none
        held(read(path))


def test_labels_that_are_infinite_are_none() -> None:
    numbers = np.array([1.0, 2.0, 3.0] * (ROWS // 3), np.float32)
    numbers[:3] = [np.nan, np.inf, -np.inf]
    for labels in (numbers, [int(n) if np.isfinite(n) else float(n) for n in numbers]):
        found = read(some(), labels=labels)
        assert (found.corpus.classes, len(found.corpus)) == (("1", "2", "3"), ROWS - 3)


def test_labels_are_of_vectors(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read("sentiment", labels=LABELS)
    with pytest.raises(DataError):
        read(some(), labels=5)
    with pytest.raises(DataError):
        read(some().tolist(), labels=LABELS)
    with pytest.raises(DataError):
        read(some(), ColumnHints(vectors="x"), labels=LABELS)


def test_several_labels_and_numbers() -> None:
    several = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]] * (ROWS // 3))
    assert read(some(), labels=several).corpus.problem.has_label_sets
    lists = [("a", "b"), ("b",), ("a",)] * (ROWS // 3)
    assert read(some(), labels=lists).corpus.problem.has_label_sets
    numbers = np.linspace(0, 1, ROWS)
    assert read(some(), ColumnHints(number=True), labels=numbers).corpus.numbers[-1] == 1.0


# --- Rows of vectors, taken in any order.


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_rows_are_taken_as_from_one_array(data: st.DataObject) -> None:
    first, second = some(7), -some(4)
    both = np.concatenate([first, second])
    vectors = Vectors.whole(first).followed_by(Vectors.whole(second))
    for _ in range(3):
        rows = data.draw(st.lists(st.integers(0, max(0, len(both) - 1)), max_size=12))
        rows = rows if len(both) else []
        vectors, both = vectors.of(rows), both[rows]
        assert len(vectors) == len(both)
        assert np.array_equal(vectors.tensor().numpy(), both)


def test_what_is_saved_is_found_again(tmp_path: Path) -> None:
    Vectors.whole(some()).of([3, 1]).save(tmp_path / "v.npy")
    assert np.array_equal(Vectors.opened(tmp_path / "v.npy").tensor().numpy(), some()[[3, 1]])


# --- The reader of whatever comes.


@given(
    arrays(
        st.sampled_from(["f2", "f4", "f8", "i4", "c8", "U3", "b1", "M8[s]"]),
        st.tuples(st.integers(0, 4), st.integers(0, 3)),
    )
)
@settings(max_examples=50, deadline=None)
def test_an_array_is_read_whole_or_refused(X: np.ndarray) -> None:
    with contextlib.suppress(HeadsError):
        assert np.array_equal(held(read(X, labels=["a", "b"] * 2)), X.astype(np.float32))


@given(st.binary(max_size=200), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_a_damaged_array_is_refused_or_read(tmp_path_factory: Any, noise: bytes, at: int) -> None:
    buffer = io.BytesIO()
    np.save(buffer, some())
    raw = bytearray(buffer.getvalue())
    raw[at : at + len(noise)] = noise
    path = tmp_path_factory.mktemp("damaged") / "X.npy"
    path.write_bytes(bytes(raw))
    with contextlib.suppress(HeadsError):
        assert len(held(read(path, labels=LABELS))) == ROWS


def test_a_pickle_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "X.npy"
    path.write_bytes(pickle.dumps([1.0]))
    with pytest.raises(HeadsError):
        read(path, labels=LABELS)
