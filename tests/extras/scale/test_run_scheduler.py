"""The cells of a run done elsewhere: numbered, told of once, and taken away when they are done."""

import pickle
from dataclasses import replace

import pytest
from small_training_data import blobs, training_data_of

from heads.errors import RecipeError
from heads.extras.scale.run_scheduler import (
    CellsTask,
    JobDone,
    group_jobs,
    iter_new,
    run_numbered,
    select_reading,
)
from heads.parts.resolve import resolve
from heads.settings import ExperimentConfig
from heads.training.events import CurvePointTried, TrialFailed, TrialResult
from heads.training.scheduler import Job, run_trials
from heads.training.search import trial_job
from heads.training.trial import trials

RECIPES = ("mean+linear", "mean+ridge", "cls+roberta", "mean+mlp", "cls+linear")


def cells(small):
    return trials([resolve(one) for one in RECIPES], small, 3)


@pytest.fixture
def training_data():
    vectors, targets = blobs(150)
    config = ExperimentConfig(folds=2, repetitions=1, steps=40)
    return training_data_of(vectors, targets, config, readings=("mean", "cls"))


def test_a_job_can_be_sent_and_comes_to_the_same(small, training_data):
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    jobs = [trial_job(one, training_data) for one in cells(small)]
    own = [one for one in run_trials(jobs, training_data, 1) if isinstance(one, TrialResult)]
    theirs = {}
    for task in group_jobs(jobs, training_data, 1):
        sent = cloudpickle.loads(cloudpickle.dumps(task))
        assert len(cloudpickle.dumps(task.jobs)) < 2_000_000  # no base model goes along
        for event in run_numbered(sent.jobs, sent.data):
            if isinstance(event, JobDone):
                assert isinstance(event.result, TrialResult)
                theirs[event.result.trial.name] = pickle.loads(cloudpickle.dumps(event)).result
    assert set(theirs) == set(RECIPES)
    for one in own:
        other = theirs[one.trial.name]
        assert other.chosen == one.chosen
        for ours, sent in zip(one.learned, other.learned, strict=True):
            assert ours.logits.equal(sent.logits)


def test_jobs_go_by_reading_and_kind_of_head(small, training_data):
    jobs = [trial_job(one, training_data) for one in cells(small)]
    found = group_jobs(jobs, training_data, 1)
    named = sorted(sorted(job.name for job in task.jobs.values()) for task in found)
    assert named == [["cls+linear"], ["cls+roberta"], ["mean+linear"], ["mean+mlp"], ["mean+ridge"]]
    many = [replace(job, name=f"{job.name} {n}") for n in range(3) for job in jobs]
    assert len(group_jobs(many, training_data, 1)) == 5  # all of one reading and kind together
    assert len(group_jobs(many, training_data, 8)) == len(many)  # so that all workers have some
    assert all(
        set(task.data.read.joint.parts) == {next(iter(task.jobs.values())).reading}
        for task in found
    )


def test_only_what_needs_vectors_alone_is_sent(small, training_data):
    (learned,) = trials([resolve("attention+linear")], small, 3)
    assert not trial_job(learned, training_data).is_apart
    assert all(trial_job(one, training_data).is_apart for one in cells(small))


def job(name, work=lambda task, tell: "done"):
    return Job(name=name, reading="mean", work=work, is_apart=True)


def test_what_fails_is_told_by_number_and_the_others_go_on(training_data):
    def refuses(task, tell):
        raise RecipeError("It does not fit.", "Leave it out.")

    jobs = {4: job("a"), 7: job("b", refuses), 9: job("b")}
    found = list(run_numbered(jobs, select_reading(training_data, "mean")))
    assert all(isinstance(one, JobDone) for one in found)
    by_number = {one.number: one.result for one in found if isinstance(one, JobDone)}
    assert set(by_number) == {4, 7, 9}
    failed = [one for one in by_number.values() if isinstance(one, TrialFailed)]
    assert [one.says for one in failed] == [
        "b could not be trained: It does not fit. Leave it out."
    ]
    assert pickle.loads(pickle.dumps(failed[0])).says == failed[0].says


def test_what_was_done_twice_is_told_of_once():
    task, done = CellsTask(jobs={1: job("a"), 2: job("b")}, data=None), set[int]()
    point = CurvePointTried(name="a", point=None)
    one, two = JobDone(number=1, result="one"), JobDone(number=2, result="two")
    assert list(iter_new([point, one], [task], done)) == [point, "one"]
    assert list(task.jobs) == [2]
    assert list(iter_new([one, two], [task], done)) == ["two"]
    assert str(CellsTask(jobs={2: job("b")}, data=None)) == "The cell b"
