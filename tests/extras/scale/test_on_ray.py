"""Two nodes of one processor each, on this machine: the same results, and what is lost is redone.

Each test begins its own cluster, for it may kill a part of it.
"""

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import pandas
import psutil
import pytest
from shard_files import read_parts, texts_file, vectors_file

import heads
from heads.errors import DataError, HeadsError
from heads.events import result
from heads.extras.scale import pool as pools
from heads.extras.scale.options import ExtractOptions
from heads.extras.scale.pool import work_through
from heads.extras.scale.run_scheduler import schedule_on_ray
from heads.extras.scale.verbs import iter_extract
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
def cluster(monkeypatch):
    from ray.cluster_utils import Cluster

    pools.import_ray()
    support = str(Path(__file__).parents[2] / "support")
    root = str(Path(heads.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (support, root, known))))
    own = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    own.second = own.add_node(num_cpus=1)
    ray.init(address=own.address, log_to_driver=False, logging_level="ERROR")
    yield own
    ray.shutdown()
    own.shutdown()


def pids():
    def work(task):
        time.sleep(0.2)
        return task, os.getpid()

    return work


def test_all_tasks_are_done_once_whoever_is_killed(cluster):
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


def test_a_node_that_comes_is_used(cluster):
    cluster.remove_node(cluster.second)
    workers = set[int]()
    end = time.monotonic() + 120  # a worker takes seconds to begin, on a busy machine many
    tasks = itertools.takewhile(lambda _: len(workers) < 2 and time.monotonic() < end, range(9_999))
    for number, (_, (_, pid)) in enumerate(work_through(pids, tasks, "ray")):
        workers.add(pid)
        if number == 3:
            cluster.add_node(num_cpus=1)
    assert len(workers) == 2


def deadly():
    def work(task):
        if task == 3:
            os._exit(1)
        return task

    return work


def broken():
    raise RuntimeError("this node lacks a library")


def refusing():
    def work(task):
        raise DataError(f"Row {task} is no text.", "Give one.")

    return work


@pytest.mark.parametrize(
    ("make", "kind"), [(deadly, HeadsError), (broken, HeadsError), (refusing, DataError)]
)
def test_what_fails_each_time_is_given_up(cluster, make, kind):
    with pytest.raises(kind):
        list(work_through(make, range(6), "ray"))


def stuck():
    def work(mark):
        if mark.name == "2" and not mark.exists():
            mark.touch()
            time.sleep(600)
        return mark.name

    return work


def test_a_worker_that_stands_still_is_replaced(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "STALLED_SECONDS", 3.0)
    monkeypatch.setattr(pools, "STALLED", 1)
    tasks = [tmp_path / str(number) for number in range(5)]
    assert sorted(name for _, name in work_through(stuck, tasks, "ray")) == list("01234")
    assert (tmp_path / "2").exists()


# --- Extraction.


@pytest.mark.parametrize("killed", ["actor", "node"])
def test_features_are_those_of_one_machine_whoever_is_killed(cluster, tiny, tmp_path, killed):
    path = texts_file(tmp_path / "a.parquet", 400)
    asked = {"model": str(tiny()), "rows_each": 10, "readings": ("mean", "cls")}
    plain = heads.extract(path, tmp_path / "plain", **asked)
    work = iter_extract(path, tmp_path / "ray", ExtractOptions(on="ray", **asked))
    while len(list((tmp_path / "ray" / "parts").glob("*"))) <= 5:
        next(work)
    kill(cluster, killed)
    found = result(work)
    assert found.fresh == 400
    assert read_parts(tmp_path / "ray").column("source_row").to_pylist() == list(range(400))
    names = [[Path(file).name for file in one.source.files] for one in (plain, found)]
    assert names[0] == names[1]  # fingerprints
    assert read_parts(tmp_path / "plain").equals(read_parts(tmp_path / "ray"))


def kill(cluster, what):
    if what == "node":
        cluster.remove_node(cluster.second)
        return
    commands = {p: " ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])}
    next(p for p, command in commands.items() if command.startswith("ray::Worker")).kill()


# --- The grid.

RECIPES = (
    "mean+linear", "mean+ridge", "mean+roberta", "cls+linear", "cls+roberta", "cls+mlp",
    "attention+linear",
)  # fmt: skip


def run_of(frame, out):
    config = ExperimentConfig(folds=2, repetitions=2, steps=120)
    request = RunRequest(data=heads.read(frame), recipes=RECIPES, config=config)
    return begin(request, out=out)


@pytest.mark.parametrize("killed", ["actor", "node"])
def test_a_run_is_that_of_one_machine_whoever_is_killed(cluster, tmp_path, killed):
    texts = [f"{'A fine day' if n % 2 else 'What a mess'} {n % 37} of {n}" for n in range(240)]
    frame = pandas.DataFrame({"text": texts, "label": ["yn"[n % 2] for n in range(240)]})
    *_, plain = working(run_of(frame, tmp_path / "plain"))
    done, board = [], None
    for board in working(run_of(frame, tmp_path / "ray"), schedule_on_ray()):
        if isinstance(board, CellDone):
            done.append(board.cell.name)
            if len(done) == 3:
                threading.Thread(target=kill, args=(cluster, killed)).start()
    assert sorted(done) == sorted(cell.name for cell in plain.cells)  # each once
    for one in plain.cells:
        other = board.cell(one.name)
        assert other.measures.scores == one.measures.scores, one.name
        assert other.chosen_by_seed == one.chosen_by_seed
        assert other.tried == one.tried
    assert board.best == plain.best


# --- Heads from shards.


def test_heads_from_shards_are_those_of_one_machine(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("heads.extras.scale.fitting.IN_MEMORY", 1_000)
    path = vectors_file(tmp_path / "v.parquet", 4_000, group=250)
    recipes = ("vectors+linear", "vectors+lda", "vectors+roberta")
    asked = {"recipes": recipes, "rungs": (600,), "keep": 3}
    here = heads.fit_shards(path, **asked)
    there = heads.fit_shards(path, on="ray", **asked)
    facts = [
        {cell.name: (cell.measures.score, cell.chosen) for cell in found.cells}
        for found in (here, there)
    ]
    assert facts[0] == facts[1]
