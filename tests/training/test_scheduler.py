"""Units on several threads: told in order, ended at once, and nothing is swallowed."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from small_training_data import blobs, cells, training_data_of

from heads.backbone.backbone import Backbone
from heads.errors import RecipeError
from heads.settings import ExperimentConfig
from heads.training.events import CurvePointTried, SearchFinished, TrialFailed, TrialResult
from heads.training.fitters.base import SearchResult, TriedSettings
from heads.training.scheduler import Job, TrainingData, run_trials
from heads.training.search import fit_job, search_job, seeds_of, trial_job
from heads.training.task import TrainingTask

RECIPES = ("mean+linear", "mean+roberta", "mean+ridge", "cls+linear", "cls+knn", "max+centroid")


@pytest.fixture(scope="module")
def training_data() -> TrainingData:
    vectors, targets = blobs(120)
    return training_data_of(vectors, targets, readings=("mean", "cls", "max"))


EARLIER: list[threading.Thread] = []


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    """No thread of the grid outlives its test, and torch has as many threads as before."""
    for one in threading.enumerate():
        if one.name == "opening":  # a page that is open in this process trains its example heads
            one.join()
    EARLIER[:] = threading.enumerate()
    threads = torch.get_num_threads()
    yield
    assert working() == []
    assert torch.get_num_threads() == threads


def working() -> list[str]:
    """The threads of the grid that this test has begun, and what each is doing."""
    frames = sys._current_frames()
    return [
        f"{one.name}: {''.join(traceback.format_stack(frames[one.ident])) if one.ident else ''}"
        for one in threading.enumerate()
        if one.name.startswith("grid") and one.ident in frames and one not in EARLIER
    ]


def waiting(task: TrainingTask, tell: Callable[[object], None]) -> object:
    """Work that ends only when it is asked to."""
    tell("begun")
    while True:
        task.check()
        time.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_cell_is_told_of_once_after_its_curve(
    small: Backbone, training_data: TrainingData, workers: int
) -> None:
    found = cells(RECIPES, small, training_data)
    curves: dict[str, list[object]] = {trial.name: [] for trial in found}
    ended = []
    for event in run_trials(
        [trial_job(trial, training_data) for trial in found], training_data, workers
    ):
        if isinstance(event, CurvePointTried):
            assert event.name not in ended
            curves[event.name].append(event.point)
        else:
            assert isinstance(event, TrialResult)
            assert list(event.tried) == curves[event.trial.name]
            assert len(event.learned) == len(event.chosen) == len(seeds_of(training_data)) == 2
            assert event.outcome.repetition == (0, 0)
            ended.append(event.trial.name)
    assert sorted(ended) == sorted(RECIPES)


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_ends_all_threads_within_a_second(
    training_data: TrainingData, workers: int
) -> None:
    jobs = [Job(name="a cell", reading="mean", work=waiting) for _ in range(8)]
    events = run_trials(jobs, training_data, workers)
    assert isinstance(events, Generator)
    assert next(events) == "begun"
    assert working()
    begun = time.perf_counter()
    events.close()
    assert time.perf_counter() - begun < 1
    assert working() == []


@pytest.mark.parametrize("recipe", ["mean+roberta", "mean+linear", "mean+knn", "mean+ridge"])
def test_real_work_on_many_rows_ends_within_a_second(small: Backbone, recipe: str) -> None:
    vectors, targets = blobs(8_000, 5, apart=0.5)
    training_data = training_data_of(vectors, targets, ExperimentConfig(folds=3))
    jobs = [trial_job(trial, training_data) for trial in cells([recipe], small, training_data)]
    for moment in (0.0, 0.2):
        events = run_trials(jobs, training_data, 1)
        assert isinstance(events, Generator)
        next(events)
        time.sleep(moment)
        begun = time.perf_counter()
        events.close()
        assert time.perf_counter() - begun < 1
        assert working() == []


def works(task: TrainingTask, tell: Callable[[object], None]) -> object:
    return "done"


def test_what_goes_wrong_in_a_job_is_told_and_the_others_go_on(
    training_data: TrainingData, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(task: TrainingTask, tell: Callable[[object], None]) -> object:
        raise ZeroDivisionError("in a job")

    def refuses(task: TrainingTask, tell: Callable[[object], None]) -> object:
        raise RecipeError("It does not fit.", "Leave it out.")

    jobs = [Job(name="a cell", reading="mean", work=work) for work in (breaks, refuses, works)]
    jobs += [Job(name="another", reading="weighted", work=works)]  # a reading that is not there
    *failed, missing = [event for event in run_trials(jobs, training_data, 1) if event != "done"]
    assert [event.says for event in failed if isinstance(event, TrialFailed)] == [
        "a cell could not be trained (ZeroDivisionError: in a job).",
        "a cell could not be trained: It does not fit. Leave it out.",
    ]
    assert isinstance(missing, TrialFailed)
    assert (missing.name, "KeyError" in missing.says) == ("another", True)
    assert "in a job" in caplog.text  # with all that is needed to find the fault
    assert "It does not fit" not in caplog.text


def test_what_ends_the_program_reaches_the_caller(training_data: TrainingData) -> None:
    def leaves(task: TrainingTask, tell: Callable[[object], None]) -> object:
        raise SystemExit(3)

    found = []
    jobs = [Job(name="a cell", reading="mean", work=work) for work in (works, works, leaves)]
    with pytest.raises(SystemExit):
        found.extend(run_trials([*jobs, *jobs], training_data, 1))
    assert found == ["done"] * 2


def test_a_task_is_loaded_once_for_all_its_cells(
    small: Backbone, training_data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    task_of = TrainingData.training_task
    monkeypatch.setattr(
        TrainingData,
        "training_task",
        lambda self, *given: loaded.append(given[0]) or task_of(self, *given),
    )
    alike = ("mean+roberta", "mean+bert", "cls+roberta", "cls+bert", "max+roberta")  # in cost
    found = list(
        run_trials(
            [trial_job(trial, training_data) for trial in cells(alike, small, training_data)],
            training_data,
            2,
        )
    )
    assert sum(isinstance(event, TrialResult) for event in found) == len(alike)
    assert sorted(loaded) == ["cls", "max", "mean"]


def test_the_longest_begin_first_and_equals_in_their_order(training_data: TrainingData) -> None:
    def named(name: str) -> Callable[..., object]:
        return lambda task, tell: name

    costs = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 3.0, "e": 1.0}
    jobs = [Job(name=n, reading="mean", work=named(n), cost=cost) for n, cost in costs.items()]
    assert list(run_trials(jobs, training_data, 1)) == ["b", "d", "c", "a", "e"]


def test_numbers_do_not_depend_on_the_order(small: Backbone, training_data: TrainingData) -> None:
    found = []
    for sign in (1, -1):
        jobs = [trial_job(trial, training_data) for trial in cells(RECIPES, small, training_data)]
        jobs = [replace(job, cost=sign * job.cost) for job in jobs]
        ended = [
            event for event in run_trials(jobs, training_data, 2) if isinstance(event, TrialResult)
        ]
        found.append({one.trial.name: one for one in ended})
    assert set(found[0]) == set(found[1]) == set(RECIPES)
    for name, one in found[0].items():
        other = found[1][name]
        assert one.chosen == other.chosen
        for mine, theirs in zip(one.learned, other.learned, strict=True):
            assert torch.equal(mine.logits, theirs.logits)


def test_a_search_and_then_learning_are_the_whole_work(
    small: Backbone, training_data: TrainingData
) -> None:
    found = cells(RECIPES, small, training_data)
    whole = {
        e.trial.name: e
        for e in run_trials([trial_job(u, training_data) for u in found], training_data, 1)
        if isinstance(e, TrialResult)
    }
    searched = {
        e.name: e
        for e in run_trials([search_job(u, training_data) for u in found], training_data, 1)
        if isinstance(e, SearchFinished)
    }
    for name, one in searched.items():
        assert one.parts.shape == (sum(map(len, training_data.splits.development)),)
        scores = [each.point.score for each in one.found]
        assert float(one.parts.mean()) == pytest.approx(fmean(scores))
        assert whole[name].development_score == pytest.approx(fmean(scores))
        assert all(point.parts is None for point in one.tried)
        assert {point.seed for point in one.tried} == {0, 1}
        assert tuple(each.chosen for each in one.found) == whole[name].chosen
        assert one.tried == whole[name].tried
    jobs = [fit_job(trial, training_data, searched[trial.name]) for trial in found]
    for one in run_trials(jobs, training_data, 1):
        assert isinstance(one, TrialResult)
        logits = [learned.logits for learned in whole[one.trial.name].learned]
        assert all(torch.equal(a.logits, b) for a, b in zip(one.learned, logits, strict=True))


def test_every_seed_counts_alike_in_the_parts_of_a_search_however_many_rows_it_has() -> None:
    def found(*parts: float) -> SearchResult:
        own = torch.tensor(parts)
        point = TriedSettings(settings={}, step=0, score=float(own.mean()), loss=0.0, parts=own)
        return SearchResult(chosen={}, point=point)

    one = SearchFinished(
        name="a", found=(found(1.0, 0.0, 0.0, 1.0, 0.0), found(1.0, 1.0)), tried=(), seconds=0.0
    )
    assert one.parts.shape == (7,)
    assert float(one.parts.mean()) == pytest.approx((0.4 + 1.0) / 2)
