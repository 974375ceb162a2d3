"""Tables worked on piece by piece: every row once, whole or not at all, and resumed."""

import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_files import texts_file

from heads.errors import DataError
from heads.events import Progress, result
from heads.extras.scale import pieces
from heads.extras.scale.pieces import PARTS, Outcome, Piece, Source, Work, open_source, process


@dataclass(frozen=True)
class Lengths:
    """Work that needs no base model: how long texts are; it notes what it was given."""

    log: Path
    broken: str = ""

    def __call__(self) -> "Lengths":
        return self

    def measured(self, table: pa.Table, piece: Piece) -> pa.Table:
        if self.broken and self.broken in str(piece):
            raise DataError("It broke.", "Mend it.")
        with self.log.open("a") as file:
            file.write(f"{piece.row}\n")
        lengths = [len(one or "") for one in table.column("text").to_pylist()]
        return table.append_column("length", pa.array(lengths))


def work_on(
    to: Path | str, log: Path, rows_each: int = 7, broken: str = "", **facts: object
) -> Work:
    return Work(
        to=str(to),
        kind="lengths",
        facts=facts,
        make=lambda: Lengths(log=log, broken=broken).measured,
        rows_each=rows_each,
    )


def done(work: Work, source: Source) -> Outcome:
    return result(process(work, source))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def begun(log: Path) -> list[int]:
    """The first rows of the pieces that were worked on since the last look."""
    found = [int(line) for line in log.read_text().split()] if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(found)


def rows_of(outcome: Outcome, to: Path) -> pa.Table:
    return pa.concat_tables([parquet.read_table(to / PARTS / part.name) for part in outcome.parts])


@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    groups=st.integers(1, 20),
    each=st.integers(1, 60),
)
def test_pieces_hold_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], groups: int, each: int
) -> None:
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


def test_what_pieces_came_to_lies_in_order_and_nothing_is_done_twice(
    tmp_path: Path, log: Path
) -> None:
    source = open_source(texts_file(tmp_path / "a.parquet", 30, group=11), str(tmp_path))
    work = work_on(tmp_path / "to", log)
    first = done(work, source)
    table = rows_of(first, tmp_path / "to")
    assert (len(table), first.fresh, begun(log)) == (30, 30, [0, 7, 14, 21, 28])
    assert table.column("id").to_pylist() == list(range(30))
    assert table.column("length").to_pylist()[1] == 0
    manifest = json.loads((tmp_path / "to" / pieces.MANIFEST).read_text())
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"] == 30
    again = done(work, source)
    assert (again.fresh, begun(log)) == (0, [])
    assert rows_of(again, tmp_path / "to").equals(table)


def test_work_that_broke_off_goes_on_where_it_was(tmp_path: Path, log: Path) -> None:
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    with pytest.raises(DataError, match="It broke"):
        done(work_on(tmp_path / "to", log, broken="Rows 15 to"), source)
    assert begun(log) == [0, 7]
    assert not (tmp_path / "to" / pieces.MANIFEST).exists()
    with pytest.raises(DataError, match=r"holds no lengths that are whole yet\. Ask for them"):
        pieces.read_manifest(str(tmp_path / "to"), "lengths")
    found = done(work_on(tmp_path / "to", log), source)
    assert (len(rows_of(found, tmp_path / "to")), found.fresh, begun(log)) == (30, 16, [14, 21, 28])


def test_an_output_whose_worker_is_lost_after_writing_counts_as_new(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_fail(location: str, table: pa.Table, notes: Mapping[str, object]) -> int:
        monkeypatch.undo()
        pieces.write_table(location, table, notes)
        raise OSError("lost")

    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    monkeypatch.setattr(pieces, "write_table", write_and_fail)
    fresh = done(work_on(tmp_path / "to", log), source).fresh
    assert (fresh, begun(log)) == (30, [0, 7, 14, 21, 28])


@pytest.mark.parametrize("is_changed", [False, True])
def test_only_pieces_whose_rows_have_changed_are_worked_on_again(
    tmp_path: Path, log: Path, is_changed: bool
) -> None:
    path, work = tmp_path / "a.parquet", work_on(tmp_path / "to", log)
    done(work, open_source(texts_file(path, 30), str(tmp_path)))
    begun(log)
    texts = (table := parquet.read_table(path)).column("text").to_pylist()
    texts[16] = "another text" if is_changed else texts[16]
    table = table.set_column(1, "text", pa.array(texts))
    parquet.write_table(table, path, row_group_size=5)  # other groups, and another time
    found = done(work, open_source(path, str(tmp_path)))
    assert (found.fresh, begun(log)) == ((7, [14]) if is_changed else (0, []))
    assert rows_of(found, tmp_path / "to").column("length").to_pylist()[16] == len(texts[16])


def test_parts_of_rows_that_are_gone_go(tmp_path: Path, log: Path) -> None:
    path, work = tmp_path / "a.parquet", work_on(tmp_path / "to", log)
    done(work, open_source(texts_file(path, 30), str(tmp_path)))
    found = done(work, open_source(texts_file(path, 12), str(tmp_path)))
    assert sorted(one.name for one in (tmp_path / "to" / PARTS).iterdir()) == sorted(
        part.name for part in found.parts
    )
    assert rows_of(found, tmp_path / "to").num_rows == 12


def test_a_part_that_was_cut_off_is_made_again(tmp_path: Path, log: Path) -> None:
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    work = work_on(tmp_path / "to", log)
    first = done(work, source)
    begun(log)
    place = tmp_path / "to" / PARTS / first.parts[2].name
    place.write_bytes(place.read_bytes()[:100])
    found = done(work, source)
    assert (found.fresh, begun(log)) == (7, [14])
    assert rows_of(found, tmp_path / "to").equals(rows_of(first, tmp_path / "to"))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, log: Path) -> None:
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match=r"other holds something else\. Name a new folder"):
        done(work_on(other, log), source)
    assert [one.name for one in other.iterdir()] == ["mine.txt"]
    done(work_on(tmp_path / "to", log, model="one"), source)
    with pytest.raises(DataError, match=r"to was begun with another model \(one\)\."):
        done(work_on(tmp_path / "to", log, model="two"), source)
    with pytest.raises(DataError, match="another rows each"):
        done(work_on(tmp_path / "to", log, rows_each=8, model="one"), source)


def test_urls_that_fsspec_knows_are_read_and_written(tmp_path: Path, log: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    path = texts_file(tmp_path / "a.parquet", 30)
    memory.pipe_file("/in/a.parquet", path.read_bytes())
    source = open_source("memory://in/*.parquet", "memory://to")
    work = work_on("memory://to", log)
    assert done(work, source).fresh == 30
    assert done(work, source).fresh == 0
    told = pieces.read_manifest("memory://to", "lengths")
    assert told["rows"] == sum(part.rows for part in told["parts"]) == 30


def test_a_csv_is_written_as_parquet_once(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text;label\n" + "\n".join(f"text {n};{n % 2}" for n in range(20)))
    work = work_on(tmp_path / "to", log)
    assert done(work, open_source(path, work.to)).fresh == 20
    staged = tmp_path / "to" / pieces.STAGED
    before = staged.stat().st_mtime_ns
    assert done(work, open_source(path, work.to)).fresh == 0
    assert staged.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "none.parquet", "There are no files at"),
        (lambda folder: folder / "*.nothing", "There are no files at"),
        (lambda folder: "nowhere://bucket/a.parquet", "cannot be reached"),
        (lambda folder: [folder / "a.parquet", folder / "b.parquet"], "has other columns than"),
        (lambda folder: folder / "torn.parquet", "cannot be read as Parquet"),
        (lambda folder: folder / "empty.parquet", "empty.parquet has no rows"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    texts_file(tmp_path / "a.parquet", 5)
    parquet.write_table(pa.table({"other": [1, 2]}), tmp_path / "b.parquet")
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "torn.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=says):
        open_source(make(tmp_path), str(tmp_path / "to"))  # type: ignore[arg-type]


def test_progress_rises_to_the_end(tmp_path: Path, log: Path) -> None:
    source = open_source(texts_file(tmp_path / "a.parquet", 30), str(tmp_path))
    events = list(process(work_on(tmp_path / "to", log), source))
    assert all(isinstance(event, Progress) for event in events)
    assert sorted(shares := [event.share for event in events]) == shares
    assert shares[-1] == 1


def test_a_reserved_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"source_row": [1], "text": ["a"]}), path)
    (piece,) = open_source(path, str(tmp_path)).pieces(5)
    with pytest.raises(DataError, match="has a column source_row"):
        pieces.number_rows(piece.read(), piece)


def test_a_folder_is_all_the_parquet_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    names = [tmp_path / "b.parquet", tmp_path / "deep" / "a.parquet"]
    for name in names:
        texts_file(name, 5)
    (tmp_path / "notes.txt").write_text("no rows")
    assert pieces.find_files(tmp_path) == [str(one) for one in names]
    shutil.rmtree(tmp_path / "deep")
    assert pieces.find_files([tmp_path, names[0]]) == [str(names[0])] * 2
    assert pieces.JOB != pieces.MANIFEST


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    path = tmp_path / "features.parquet"
    vectors = pa.array(np.random.default_rng(0).normal(size=600))
    pieces.write_table(
        str(path), pa.table({"mean": pa.FixedSizeListArray.from_arrays(vectors, 6)}), {}
    )
    piece = Piece(file=str(path), start=0, rows=100, row=0, stamp="")
    assert len(piece.read()) == 100
    whole = path.read_bytes()
    for at in random.Random(0).sample(range(200, 4800), 20):  # the vectors' own bytes
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DataError, match=r"features\.parquet"):
            piece.read()
