"""Two nodes of one processor each, on this machine: the same results, and what is lost is redone.

Each test begins its own cluster, for it may kill a part of it.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from shard_files import texts_file, vectors_file

import heads
from heads.errors import DataError, HeadsError
from heads.extras.scale import pool as pools
from heads.extras.scale.grid import schedule_on_ray
from heads.extras.scale.pool import work_through
from heads.extras.scale.verbs import iter_extract
from heads.runs.folder import RunFolder
from heads.runs.runner import CellDone, begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    # What Ray leaves to the collector: sockets, and files of its processes' logs.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    pools.import_ray()
    support = str(Path(__file__).parents[2] / "support")
    root = str(Path(heads.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (support, root, known))))
    own = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    own.second = own.add_node(num_cpus=1)  # type: ignore[attr-defined]
    ray.init(address=own.address, log_to_driver=False, logging_level="ERROR")
    yield own
    ray.shutdown()
    own.shutdown()


def pids() -> Callable[[int], tuple[int, int]]:
    def work(task: int) -> tuple[int, int]:
        time.sleep(0.2)
        return task, os.getpid()

    return work


def test_all_tasks_are_done_once_whoever_is_killed(cluster: Any) -> None:
    found, workers = [], set[int]()
    for task, (same, pid) in work_through(pids, range(24), "ray"):
        assert task == same
        found.append(task)
        workers.add(pid)
        if len(found) == 6:
            os.kill(pid, signal.SIGKILL)
        if len(found) == 12:
            cluster.remove_node(cluster.second)
    assert sorted(found) == list(range(24))
    assert len(workers) >= 2  # the one that was killed, and who came after it


def test_a_node_that_comes_is_used(cluster: Any) -> None:
    cluster.remove_node(cluster.second)
    workers = set[int]()
    end = time.monotonic() + 120  # a worker takes seconds to begin, on a busy machine many
    tasks = itertools.takewhile(lambda _: len(workers) < 2 and time.monotonic() < end, range(9_999))
    for number, (_, (_, pid)) in enumerate(work_through(pids, tasks, "ray")):
        workers.add(pid)
        if number == 3:
            cluster.add_node(num_cpus=1)
    assert len(workers) == 2


def deadly() -> Callable[[int], int]:
    def work(task: int) -> int:
        if task == 3:
            os._exit(1)
        return task

    return work


def test_a_task_that_kills_every_worker_is_given_up(cluster: Any) -> None:
    with pytest.raises(HeadsError, match=r"3 was begun 4 times, and each time its worker was lost"):
        list(work_through(deadly, range(6), "ray"))


def stuck() -> Callable[[Path], str]:
    def work(mark: Path) -> str:
        if mark.name == "2" and not mark.exists():
            mark.touch()
            time.sleep(600)
        return mark.name

    return work


def test_a_worker_that_stands_still_is_replaced(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "STALLED_SECONDS", 3.0)
    monkeypatch.setattr(pools, "STALLED", 1)
    tasks = [tmp_path / str(number) for number in range(5)]
    assert sorted(name for _, name in work_through(stuck, tasks, "ray")) == list("01234")
    assert (tmp_path / "2").exists()


def broken() -> Callable[[int], int]:
    raise RuntimeError("this node lacks a library")


def test_workers_that_cannot_be_begun_are_told_of(cluster: Any) -> None:
    with pytest.raises(
        HeadsError, match=r"Workers cannot be begun \(.*lacks a library.*\)\. Is he"
    ):
        list(work_through(broken, range(3), "ray"))


def refusing() -> Callable[[int], int]:
    def work(task: int) -> int:
        raise DataError(f"Row {task} is no text.", "Give one.")

    return work


def test_what_a_user_can_mend_comes_back_as_a_sentence(cluster: Any) -> None:
    with pytest.raises(DataError, match=r"Row \d is no text\. Give one"):
        list(work_through(refusing, range(3), "ray"))


# --- Extraction.


def rows_of(found: Any) -> pa.Table:
    return pa.concat_tables([parquet.read_table(file) for file in found.source.files])


@pytest.mark.parametrize("killed", ["actor", "node"])
def test_features_are_those_of_one_machine_whoever_is_killed(
    cluster: Any, tiny: Callable[..., Path], tmp_path: Path, killed: str
) -> None:
    path = texts_file(tmp_path / "a.parquet", 400)
    asked = {"model": str(tiny()), "rows_each": 10, "readings": ("mean", "cls")}
    plain = heads.extract(path, tmp_path / "plain", **asked)  # type: ignore[arg-type]
    work = iter_extract(path, tmp_path / "ray", on="ray", **asked)  # type: ignore[arg-type]
    parts = tmp_path / "ray" / "parts"
    done = False
    while True:
        try:
            next(work)
        except StopIteration as end:
            found = end.value
            break
        if not done and parts.is_dir() and len(list(parts.iterdir())) > 5:
            done = True
            kill(cluster, killed)
    assert done
    one, other = rows_of(plain), rows_of(found)
    assert other.column("source_row").to_pylist() == list(range(400))
    assert found.fresh == 400
    names = [Path(file).name for file in plain.source.files]
    assert [Path(file).name for file in found.source.files] == names  # fingerprints
    assert one.equals(other)


def kill(cluster: Any, what: str) -> None:
    if what == "node":
        cluster.remove_node(cluster.second)
    if what == "actor":
        import psutil

        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if line.startswith("ray::Worker"):
                process.kill()
                return
        raise AssertionError("there is no actor")


# --- The grid.

RECIPES = (
    "mean+linear", "mean+ridge", "mean+roberta", "cls+linear", "cls+roberta", "cls+mlp",
    "attention+linear",
)  # fmt: skip


def run_of(frame: pandas.DataFrame, out: Path) -> RunFolder:
    config = ExperimentConfig(folds=2, repetitions=2, steps=120)
    request = RunRequest(data=heads.read(frame), recipes=RECIPES, config=config)
    return begin(request, out=out)


@pytest.mark.parametrize("killed", ["actor", "node"])
def test_a_run_is_that_of_one_machine_whoever_is_killed(
    cluster: Any, tmp_path: Path, killed: str
) -> None:
    texts = [f"{'A fine day' if n % 2 else 'What a mess'} {n % 37} of {n}" for n in range(240)]
    frame = pandas.DataFrame({"text": texts, "label": ["yn"[n % 2] for n in range(240)]})
    *_, plain = working(run_of(frame, tmp_path / "plain"))
    done = list[str]()
    board = None
    for event in working(run_of(frame, tmp_path / "ray"), schedule_on_ray()):
        if isinstance(event, CellDone):
            done.append(event.cell.name)
            if len(done) == 3:
                threading.Thread(target=kill, args=(cluster, killed)).start()
        board = event
    names = [cell.name for cell in plain.cells]  # type: ignore[union-attr]
    assert sorted(done) == sorted(names)  # each once
    for one in plain.cells:  # type: ignore[union-attr]
        other = next(cell for cell in board.cells if cell.name == one.name)  # type: ignore[union-attr]
        assert other.measures.scores == one.measures.scores, one.name
        assert other.chosen_by_seed == one.chosen_by_seed
        assert other.tried == one.tried
    assert board.best == plain.best  # type: ignore[union-attr]


# --- Heads from shards.


def test_heads_from_shards_are_those_of_one_machine(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heads.extras.scale.fitting.IN_MEMORY", 1_000)
    path = vectors_file(tmp_path / "v.parquet", 4_000, group=250)
    recipes = ("vectors+linear", "vectors+lda", "vectors+roberta")
    asked = {"recipes": recipes, "rungs": (600,), "keep": 3}
    here = heads.fit_shards(path, **asked)  # type: ignore[arg-type]
    there = heads.fit_shards(path, on="ray", **asked)  # type: ignore[arg-type]
    for one in here.cells:
        other = next(cell for cell in there.cells if cell.name == one.name)
        assert other.measures.score == one.measures.score
        assert other.chosen == one.chosen
