"""Workers: in this process; and what is said where Ray is not there."""

import sys
from contextlib import nullcontext

import pytest

import heads
from heads.errors import DataError, HeadsError
from heads.extras.scale import pool
from heads.extras.scale.pool import check_place, work_through
from heads.interfaces.cli.app import main


def test_a_worker_is_made_once_and_only_if_there_is_something_to_do():
    made = []

    def make():
        made.append(1)
        return lambda task: task * task

    assert list(work_through(make, [])) == []
    assert not made
    assert list(work_through(make, range(5))) == [(n, n * n) for n in range(5)]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("errors", "raised", "times"),
    [
        ([OSError("the network is gone")] * 2, None, 3),
        ([OSError("the disk is gone")] * 9, OSError, pool.ATTEMPTS),
        ([DataError("No text.", "Give one.")], DataError, 1),  # the user can mend it
    ],
)
def test_only_what_failed_to_read_is_begun_again(monkeypatch, errors, raised, times):
    monkeypatch.setattr(pool, "PAUSE", 0.0)
    left, begun = list(errors), []

    def work(task):
        begun.append(task)
        if left:
            raise left.pop()
        return task

    with pytest.raises(raised) if raised else nullcontext():
        assert list(work_through(lambda: work, [7])) == [(7, 7)]
    assert begun == [7] * times


def test_without_ray_it_is_said_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for call in (
        lambda: heads.extract("sentiment", tmp_path / "to", on="ray"),
        lambda: heads.fit_shards(tmp_path, on="ray"),
        lambda: heads.predict_shards("sentiment", tmp_path / "to", sample="sentiment", on="ray"),
        lambda: heads.train_grid("sentiment", on="ray"),
        lambda: heads.resume("a-run", on="ray"),
    ):
        with pytest.raises(HeadsError) as told:
            call()
        assert told.value.hint == "Run: pip install ray"
    assert main(["train", "sentiment", "--on", "ray"]) == 2
    assert capsys.readouterr().err == f"heads: {told.value}\n"


def test_a_place_that_is_none_is_refused():
    with pytest.raises(HeadsError):
        check_place("mars")
    assert check_place("") == check_place("here") == "here"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (Exception("The current node timed out during startup."), "ray start --head"),
        (ConnectionError("no route"), "ray start --head"),
        (RuntimeError("Authentication failed: no token"), "RAY_AUTH_MODE"),
    ],
)
def test_whatever_ray_raises_at_the_start_is_one_sentence(monkeypatch, error, hint):
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def fail(**options):
        raise error

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(HeadsError) as raised:
        pool.connect("ray")
    assert hint in raised.value.hint
