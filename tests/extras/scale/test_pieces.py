"""Tables worked on piece by piece: every row once, whole or not at all, and resumed."""

import json
import random

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_files import read_parts, texts_file

from heads.errors import DataError
from heads.events import result
from heads.extras.scale import pieces
from heads.extras.scale.pieces import PARTS, Piece, Work, open_source, process


def work_on(to, log, rows_each=7, broken="", **facts):
    """Work that needs no base model: how long texts are; it notes the pieces that it gets."""

    def measure(table, piece):
        if broken and broken in str(piece):
            raise DataError("It broke.", "Mend it.")
        with log.open("a") as file:
            file.write(f"{piece.row}\n")
        lengths = [len(text or "") for text in table.column("text").to_pylist()]
        return table.append_column("length", pa.array(lengths))

    asked = {"kind": "lengths", "facts": facts, "make": lambda: measure}
    return Work(to=str(to), rows_each=rows_each, **asked)


def done(work, source):
    return result(process(work, source))


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def begun(log):
    """The first rows of the pieces that were worked on since the last look."""
    found = [int(line) for line in log.read_text().split()] if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(found)


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    groups=st.integers(1, 20),
    each=st.integers(1, 60),
)
def test_pieces_hold_every_row_once(tmp_path_factory, counts, groups, each):
    folder = tmp_path_factory.mktemp("pieces")
    start = 0
    for number, count in enumerate(counts):
        table = pa.table({"id": pa.array(range(start, start + count))})
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=groups)
        start += count
    source = open_source(folder, str(folder))
    assert source.rows == start
    for found in (source.pieces(each), source.pieces(each, whole_groups=True)):
        ids = [number for one in found for number in one.read().column("id").to_pylist()]
        assert ids == list(range(start))
        assert [one.row for one in found] == [one.read().column("id")[0].as_py() for one in found]
    assert all(one.rows <= each for one in source.pieces(each))


def test_what_pieces_came_to_lies_in_order_and_nothing_is_done_twice(tmp_path, log):
    source = open_source(texts_file(tmp_path / "a.parquet", 30, group=11), str(tmp_path))
    work = work_on(tmp_path / "to", log)
    shares = [progress.share for progress in process(work, source)]
    assert shares == sorted(shares)
    assert (shares[-1], begun(log)) == (1, [0, 7, 14, 21, 28])
    again = done(work, source)
    assert (again.fresh, begun(log)) == (0, [])
    table = read_parts(tmp_path / "to")
    assert table.column("id").to_pylist() == list(range(30))
    assert table.column("length").to_pylist()[1] == 0
    manifest = json.loads((tmp_path / "to" / pieces.MANIFEST).read_text())
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"] == 30


def test_work_that_broke_off_goes_on_where_it_was(tmp_path, log):
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    with pytest.raises(DataError):
        done(work_on(tmp_path / "to", log, broken="Rows 15 to"), source)
    assert begun(log) == [0, 7]
    assert not (tmp_path / "to" / pieces.MANIFEST).exists()
    with pytest.raises(DataError):
        pieces.read_manifest(str(tmp_path / "to"), "lengths")
    found = done(work_on(tmp_path / "to", log), source)
    assert (len(read_parts(tmp_path / "to")), found.fresh, begun(log)) == (30, 16, [14, 21, 28])


def test_an_output_whose_worker_is_lost_after_writing_counts_as_new(tmp_path, log, monkeypatch):
    def write_and_fail(location, table, notes):
        monkeypatch.undo()
        pieces.write_table(location, table, notes)
        raise OSError("lost")

    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    monkeypatch.setattr(pieces, "write_table", write_and_fail)
    fresh = done(work_on(tmp_path / "to", log), source).fresh
    assert (fresh, begun(log)) == (30, [0, 7, 14, 21, 28])


def test_only_pieces_that_have_changed_are_worked_on_again(tmp_path, log):
    path, to, work = tmp_path / "a.parquet", tmp_path / "to", work_on(tmp_path / "to", log)
    first = done(work, open_source(texts_file(path, 30), str(tmp_path)))
    begun(log)
    table = parquet.read_table(path)
    parquet.write_table(table, path, row_group_size=5)  # other groups, and another time
    assert done(work, open_source(path, str(tmp_path))).fresh == 0
    texts = table.column("text").to_pylist()
    texts[16] = "another text"
    parquet.write_table(table.set_column(1, "text", pa.array(texts)), path)
    found = done(work, open_source(path, str(tmp_path)))
    assert (found.fresh, begun(log)) == (7, [14])
    lengths = read_parts(to).column("length").to_pylist()
    assert lengths == [len(text or "") for text in texts]
    cut = to / PARTS / first.parts[1].name
    cut.write_bytes(cut.read_bytes()[:100])
    found = done(work, open_source(path, str(tmp_path)))
    assert (found.fresh, begun(log)) == (7, [7])
    assert read_parts(to).column("length").to_pylist() == lengths
    found = done(work, open_source(texts_file(path, 12), str(tmp_path)))
    assert {file.name for file in (to / PARTS).iterdir()} == {part.name for part in found.parts}
    assert read_parts(to).num_rows == 12


def test_a_folder_of_something_else_is_left_alone(tmp_path, log):
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(DataError):
        done(work_on(other, log), source)
    assert [one.name for one in other.iterdir()] == ["mine.txt"]
    done(work_on(tmp_path / "to", log, model="one"), source)
    with pytest.raises(DataError):
        done(work_on(tmp_path / "to", log, model="two"), source)
    with pytest.raises(DataError):
        done(work_on(tmp_path / "to", log, rows_each=8, model="one"), source)


def test_urls_that_fsspec_knows_are_read_and_written(tmp_path, log):
    path = texts_file(tmp_path / "a.parquet", 30)
    fsspec.filesystem("memory").pipe_file("/in/a.parquet", path.read_bytes())
    source = open_source("memory://in/*.parquet", "memory://to")
    work = work_on("memory://to", log)
    assert done(work, source).fresh == 30
    assert done(work, source).fresh == 0
    told = pieces.read_manifest("memory://to", "lengths")
    assert told["rows"] == sum(part.rows for part in told["parts"]) == 30


def test_a_csv_is_written_as_parquet_once(tmp_path, log):
    path = tmp_path / "a.csv"
    path.write_text("text;label\n" + "\n".join(f"text {n};{n % 2}" for n in range(20)))
    work = work_on(tmp_path / "to", log)
    assert done(work, open_source(path, work.to)).fresh == 20
    staged = tmp_path / "to" / pieces.STAGED
    before = staged.stat().st_mtime_ns
    assert done(work, open_source(path, work.to)).fresh == 0
    assert staged.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "names",
    [
        ["none.parquet"],
        ["*.nothing"],
        ["a.parquet", "b.parquet"],  # of other columns
        ["torn.parquet"],
        ["empty.parquet"],
    ],
)
def test_files_that_cannot_be_read_together_are_refused_by_name(tmp_path, names):
    texts_file(tmp_path / "a.parquet", 5)
    parquet.write_table(pa.table({"other": [1, 2]}), tmp_path / "b.parquet")
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "torn.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError) as refused:
        open_source([tmp_path / name for name in names], str(tmp_path / "to"))
    # Of a long path the beginning is named.
    assert names[-1] in refused.value.what or str(tmp_path)[:40] in refused.value.what
    with pytest.raises(DataError):
        open_source("nowhere://bucket/a.parquet", str(tmp_path / "to"))


def test_a_reserved_column_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"source_row": [1], "text": ["a"]}), path)
    (piece,) = open_source(path, str(tmp_path)).pieces(5)
    with pytest.raises(DataError):
        pieces.number_rows(piece.read(), piece)


def test_a_folder_is_all_the_parquet_in_it(tmp_path):
    (tmp_path / "deep").mkdir()
    names = [tmp_path / "b.parquet", tmp_path / "deep" / "a.parquet"]
    for name in (*names, tmp_path / "notes.txt"):
        texts_file(name, 5)
    assert pieces.find_files(tmp_path) == list(map(str, names))
    assert pieces.find_files([tmp_path, names[0]]) == list(map(str, [*names, names[0]]))


def test_a_damaged_shard_is_named(tmp_path):
    path = tmp_path / "features.parquet"
    numbers = pa.array(np.random.default_rng(0).normal(size=600))
    table = pa.table({"mean": pa.FixedSizeListArray.from_arrays(numbers, 6)})
    pieces.write_table(str(path), table, {})
    piece = Piece(file=str(path), start=0, rows=100, row=0, stamp="")
    assert len(piece.read()) == 100
    whole = path.read_bytes()
    for at in random.Random(0).sample(range(200, 4800), 20):  # the vectors' own bytes
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DataError):
            piece.read()
