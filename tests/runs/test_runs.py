"""A run: whole on disk at every moment, resumed without a difference, and no broken one a crash."""

import contextlib
import csv
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import slow
import torch
from few_runs import finished, training_little, write_sample
from same_runs import bare, tensors
from small_training_data import blobs, training_data_of
from tiny_models import rewrite, save_tiny

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.data.corpus import build
from heads.data.dataset import Data, read
from heads.data.samples import SAMPLES
from heads.data.splits import split
from heads.errors import DataError, HeadsError, RecipeError
from heads.evaluation.intervals import score_intervals
from heads.evaluation.learning_curve import SHARES
from heads.evaluation.predictions import MAJORITY, TFIDF, EvaluationTask
from heads.events import Progress
from heads.interfaces.cli import tables
from heads.interfaces.views import leaderboard as view
from heads.interfaces.views.report import report
from heads.runs import baseline_cells, duration, learning_curve, runner
from heads.runs import spec as question
from heads.runs.cells import answers_of_cell, kept
from heads.runs.drill_down import disagreements
from heads.runs.features import CellDone
from heads.runs.folder import NAME, RunFolder, all_runs, find, named, new_folder
from heads.runs.leaderboard import Leaderboard, facts_of, leaderboard
from heads.runs.refit import run_classifier as classifier
from heads.runs.runner import begin, foreseen, stopped, working
from heads.runs.spec import RunRequest
from heads.settings import PUBLIC, ExperimentConfig, runs_folder, use_limits
from heads.training import racing
from heads.training.events import CurvePointTried
from heads.training.fitters.adamw import batch_of
from heads.training.fitters.closed_form import ClosedFormFitter
from heads.training.scheduler import TrainingData

BASELINES = (MAJORITY, TFIDF)  # of every run on texts
# A head of every way of learning; the last one learns what it reads.
RECIPES = (
    "mean+linear", "cls+logistic", "mean+roberta", "mean+ridge", "mean+knn", "attention+linear",
)  # fmt: skip
FEW = ("mean+linear", "mean+roberta", "cls+ridge")
# A tiny model of random weights gives vectors so alike that 16 bits change answers.
CONFIG = ExperimentConfig(seeds=2, folds=2, precision="exact")
PLAIN = replace(CONFIG, curve=False)


pytestmark = pytest.mark.usefixtures("little")


def order_of(run: RunFolder) -> list[str]:
    """The cells by their numbers: those of one reading stand side by side."""
    return list(question.load(run).recipes)


def rows_of(sample: str, count: int) -> list[dict[str, str]]:
    with SAMPLES[sample].path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))[:count]


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """A hundred rows of a sample."""
    return read(write_sample(tmp_path_factory.mktemp("data") / "mine.csv", "sentiment", 100))


@pytest.fixture
def start(tiny: Callable[..., Path], data: Data) -> Callable[..., RunFolder]:
    """Begins a run on a tiny base model."""

    def begun(recipes: Sequence[str] = FEW, **settings: Any) -> RunFolder:
        given = {"data": data, "config": PLAIN, "model": str(tiny())} | settings
        out = given.pop("out", None)
        return begin(RunRequest(recipes=recipes, **given), out=out)

    return begun


@pytest.fixture(scope="module")
def whole(
    tiny: Callable[..., Path], data: Data, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, list[runner.Event]]:
    """A run of every kind of head, worked without a break, and its events; never to be changed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with training_little():
        question = RunRequest(data=data, recipes=RECIPES, config=CONFIG, model=str(tiny()))
        run = begin(question, out=out)
        return run, list(working(run))


# A whole run


def test_a_run_tells_what_it_does_and_ends_in_its_leaderboard(whole) -> None:
    run, events = whole
    done = [event for event in events if isinstance(event, CellDone)]
    assert [event.cell.name for event in done[:2]] == list(BASELINES)
    assert sorted(event.cell.name for event in done[2:]) == sorted(RECIPES)
    assert [event.done for event in done] == [0, 0, 1, 2, 3, 4, 5, 6]  # heads
    assert {event.planned for event in done} == {6}
    tried = {event.name for event in events if isinstance(event, CurvePointTried)}
    assert tried == set(RECIPES)
    shares = [event.share for event in events if isinstance(event, Progress)]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    says = [event.says for event in events if isinstance(event, Progress)]
    states = [share for share, told in zip(shares, says, strict=True) if "states of" in told]
    assert 0.2 <= states[0] <= states[-1] <= 0.4  # much is to be done after them
    found = events[-1]
    assert isinstance(found, Leaderboard)
    assert found.state == "finished"
    assert (len(found.cells), found.planned) == (8, 6)
    assert found.reference == "mean+linear"
    assert found.rows == 100
    assert found.verdict[0].endswith(".")
    assert found.seconds > 0
    assert (run.read("end.json")["state"], found.run) == ("finished", run.id)


def test_what_lies_on_disk_is_what_was_told(whole) -> None:
    run, events = whole
    found = events[-1]
    again = leaderboard(run)
    assert again.as_json() == found.as_json()
    kept_values = run.read("leaderboard.json")
    wanted = json.loads(json.dumps(found.as_json()))
    for cell in wanted["cells"]:
        del cell["confusion"]  # it may be large, and lies beside the cell
    assert kept_values == wanted
    for event in events:
        if isinstance(event, CellDone):
            cell = again.cell(event.cell.name)
            assert cell.measures.score == event.cell.measures.score
            assert cell.chosen == dict(event.cell.chosen)
            assert cell.tried == event.cell.tried


def test_intervals_pool_the_seed_variance_of_all_heads(whole) -> None:
    run, _ = whole
    asked, found = question.load(run), leaderboard(run)
    answers = [answers_of_cell(run, asked.names.index(n), n).answers for n in asked.names]
    ends = score_intervals(answers, asked.task)
    assert {c.name: (c.measures.low, c.measures.high) for c in found.cells} == dict(
        zip(asked.names, ends, strict=True)
    )


@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_a_run_that_was_killed_at_its_very_end_gets_its_leaderboard(whole, tmp_path, state) -> None:
    run = RunFolder(path=Path(shutil.copytree(whole[0].path, tmp_path / whole[0].id)))
    before = run.read("leaderboard.json")
    (run.path / "leaderboard.json").unlink()
    run.write("end.json", run.read("end.json") | {"state": state})
    if state == "finished":
        assert [type(event) for event in working(run)] == [Leaderboard]
    else:
        stopped(run)
    assert run.read("leaderboard.json") == before | {"state": state}


def test_how_texts_were_read_is_told_wherever_a_run_is_shown(whole, capsys) -> None:
    found = leaderboard(whole[0])
    facts = whole[0].read("facts.json")["reading"]
    assert found.reading == facts["says"]
    assert found.precision == facts["precision"] == "float32"
    assert found.reading in found.notes
    assert found.as_json()["reading"] == found.reading
    shown = " ".join(str(view.result(found)).split())
    tables.leaderboard(found)
    for text in (shown, report(found), " ".join(capsys.readouterr().out.split())):
        assert found.reading in text


def test_answers_kept_are_those_measured(whole, data: Data) -> None:
    run, _ = whole
    targets = torch.tensor([target for (target,) in data.corpus.targets])
    for number, name in enumerate([*order_of(run), *BASELINES]):
        cell, told = kept(run, number), answers_of_cell(run, number, name)
        assert cell is not None
        rows, given = torch.cat(told.answers.rows), torch.cat(told.answers.given)
        right = float((given == targets[rows]).float().mean())
        assert cell.measures.scores == pytest.approx([right])  # folds of one repetition
        for sure in told.confidence:
            assert ((sure > 0.3) & (sure <= 1)).all()


def test_two_runs_of_one_question_have_the_same_numbers(whole, start) -> None:
    again = start(RECIPES, config=CONFIG)
    assert bare(finished(again).as_json()) == bare(leaderboard(whole[0]).as_json())
    assert tensors(again) == tensors(whole[0])


def test_another_seed_is_another_run(whole, start) -> None:
    found = finished(start(FEW, config=ExperimentConfig(folds=2, seed=9, curve=False)))
    mine, theirs = (one.cell("mean+linear").measures for one in (found, leaderboard(whole[0])))
    assert mine.scores != theirs.scores


# What it will take


def test_what_a_run_will_take_is_announced(
    start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    plain = foreseen(start())
    assert plain.says.startswith("About ")
    assert plain.says.endswith("to read all texts once, then training.")
    raced = foreseen(start(config=replace(CONFIG, race=True)))
    assert raced.says.endswith("then training, less what the race saves.")
    assert min(plain.reading, plain.training, raced.reading, raced.training) > 0
    assert torch.get_num_threads() == threads
    learned = foreseen(start(["attention+linear"]))
    finished(start())
    again = foreseen(start())
    assert again.reading == 0
    assert again.says.endswith("nothing has to be read, and heads are trained at once.")
    assert foreseen(start(["mean@1+linear"])).reading > 0  # another reading
    assert learned.reading > 0


def test_every_seed_or_fold_is_expected_to_search(start, data) -> None:
    def work(run: RunFolder) -> float:
        asked = question.load(run)
        (cell,) = runner.cells_of(asked, load(asked.model))
        return duration._work(cell, asked.splits, 3)

    few, many = replace(CONFIG, seeds=1), replace(CONFIG, seeds=9, folds=9)
    for test in (data, None):
        one, other = (start(["mean+linear"], config=each, test=test) for each in (few, many))
        assert work(one) < work(other)


# Stopped and resumed


def moments(events: Sequence[runner.Event]) -> list[int]:
    """The first and the last of every stretch of alike events."""
    kinds = [getattr(event, "says", type(event).__name__)[:12] for event in events]
    ends = {n for n in range(1, len(kinds)) if kinds[n] != kinds[n - 1]}
    return sorted({1, *ends, *(n + 1 for n in ends), len(kinds) - 1} - {0, len(kinds)})


@pytest.mark.slow
@pytest.mark.parametrize("has_race", [False, True])
def test_a_run_that_is_closed_at_any_event_resumes_to_the_same_numbers(
    start, monkeypatch: pytest.MonkeyPatch, has_race: bool
) -> None:
    recipes = RECIPES if has_race else FEW
    start = partial(start, recipes, config=replace(CONFIG, race=has_race))
    if has_race:  # whoever is behind at all is stopped
        monkeypatch.setattr(racing, "bar", lambda cells: 0.0)
    finished(start())  # reads the texts: the runs below find them read, so their events are alike
    unbroken = start()
    events = list(working(unbroken))
    wanted, places = bare(leaderboard(unbroken).as_json()), moments(events)
    assert len(places) >= 10
    for place in places[:: max(1, len(places) // 6)]:
        run = start()
        stream = working(run)
        assert isinstance(stream, Generator)
        for _ in range(place):
            next(stream)
        begun = time.perf_counter()
        stream.close()
        assert time.perf_counter() - begun < 1
        assert run.read("end.json")["state"] == "stopped"
        assert leaderboard(run).state == "stopped"
        before = {name: (run.path / name).read_bytes() for name in done_of(run)}
        assert bare(finished(run).as_json()) == wanted, place
        assert tensors(run) == tensors(unbroken)
        assert {name: (run.path / name).read_bytes() for name in before} == before


def done_of(run: RunFolder) -> list[str]:
    return [str(path.relative_to(run.path)) for path in sorted(run.path.glob("cells/*.json"))]


def test_a_finished_run_that_is_worked_on_again_stays_what_it_is(start) -> None:
    run = start()
    first, before = finished(run), tensors(run)
    events = list(working(run))
    assert not any(isinstance(event, (CellDone, CurvePointTried)) for event in events)
    assert bare(events[-1].as_json()) == bare(first.as_json())
    assert tensors(run) == before


def test_a_run_that_is_stopped_shows_what_is_done(start) -> None:
    run = start()
    for event in working(run):
        if isinstance(event, CellDone) and event.done == 1:
            break
    found = leaderboard(run)
    assert len(found.cells) == 3
    assert found.planned == 3
    assert len(found.verdict) >= 1
    heads = [cell.name for cell in found.cells if not cell.is_baseline]
    assert found.best == found.reference == heads[0]
    facts = facts_of(run)
    assert (facts["cells"], facts["planned"]) == (1, 3)
    # Nobody has compared it yet, but what it has reached is listed.
    assert (facts["best"], facts["score"]) == (heads[0], found.cells[0].measures.score)


def test_a_run_without_a_cell_has_a_leaderboard_too(start) -> None:
    run = start()
    found = leaderboard(run)
    assert (found.cells, found.best, found.state) == ((), "", "unfinished")
    assert found.verdict == ("No head is done yet.",)
    json.dumps(found.as_json(), allow_nan=False)
    assert disagreements(run) == ()
    stopped(run)
    assert leaderboard(run).state == "stopped"


def test_the_time_allowed_ends_a_run_and_keeps_what_is_done(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, late = start(config=ExperimentConfig(folds=2, budget_seconds=3600)), [0.0]
    clock = SimpleNamespace(
        perf_counter=lambda: time.perf_counter() + late[0], monotonic=time.monotonic
    )
    monkeypatch.setattr("heads.runs.folder.time", clock)
    stream, found = working(run), None
    for found in stream:
        if isinstance(found, CellDone) and found.done == 1:
            late[0] = 3601.0
    assert isinstance(found, Leaderboard)
    assert found.state == "stopped"
    assert found.seconds >= 3600
    assert 3 <= len(found.cells) < found.planned + len(BASELINES)
    assert run.read("leaderboard.json")["state"] == "stopped"


def test_cells_that_cannot_be_learned_do_not_stop_the_others(
    start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    wanted, run = bare(finished(start()).as_json()), start()
    shutil.rmtree(tmp_path / "cache" / "words")
    with monkeypatch.context() as patch:
        patch.setattr(ClosedFormFitter, "learn", lambda *_: 1 / 0)
        patch.setattr(baseline_cells, "tfidf_strength", lambda *_, **__: 1 / 0)
        found = finished(run)
    assert {cell.name for cell in found.cells} == {"mean+linear", "mean+roberta", "majority"}
    assert found.planned == 3
    for name, note in zip(("cls+ridge", "tfidf"), found.notes, strict=False):
        assert note.startswith(f"{name} could not be trained (ZeroDivisionError: ")
    json.dumps(found.as_json(), allow_nan=False)
    assert facts_of(run)["cells"] == 2
    assert "cls+ridge" not in {name for one in disagreements(run) for name, _, _ in one.answers}
    with pytest.raises(DataError, match=r"has no trained head cls\+ridge"):
        classifier(run, "cls+ridge")
    again = finished(run)  # and now it can
    assert not any("could not be trained" in note for note in again.notes)
    assert bare(again.as_json()) == wanted


def test_heads_are_kept_while_words_are_still_counted(
    start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    kept_one, strength, names = threading.Event(), baseline_cells.tfidf_strength, list[str]()

    def slow(*given: Any, **settings: Any) -> float:
        assert kept_one.wait(60), "no head was kept meanwhile"
        return strength(*given, **settings)

    monkeypatch.setattr(baseline_cells, "tfidf_strength", slow)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    run = start()
    for event in working(run):
        if isinstance(event, CellDone):
            names.append(event.cell.name)
            if not event.cell.is_baseline:
                assert kept(run, FEW.index(event.cell.name)) is not None
                kept_one.set()
    assert names[0] == "majority"
    assert names.index("tfidf") > 1
    assert sorted(names) == sorted([*FEW, *BASELINES])


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.slow
def test_words_are_counted_once_for_the_same_rows(
    start, data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_fixed: bool
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    more = {"test": data} if is_fixed else {}
    first = finished(start(["mean+linear"], **more)).cell("tfidf")
    with monkeypatch.context() as patch:
        patch.setattr(baseline_cells, "tfidf", lambda *_, **__: 1 / 0)
        again = finished(start(["cls+linear"], **more)).cell("tfidf")
        assert (again.measures.score, again.chosen, again.seconds) == (
            first.measures.score, first.chosen, first.seconds,
        )  # fmt: skip
        other = finished(start(["mean+linear"], config=replace(CONFIG, seed=1), **more))
        assert "tfidf" not in {cell.name for cell in other.cells}  # other rows, counted anew
    for path in (tmp_path / "cache" / "words").iterdir():
        path.write_bytes(b"broken")
    mended = finished(start(["mean+linear"], **more)).cell("tfidf")
    assert mended.measures.score == first.measures.score


def test_a_kept_head_says_how_long_it_learned(whole) -> None:
    head = classifier(whole[0], "mean+roberta").head
    assert head.training is not None
    assert head.training["batch_size"] == batch_of(head.rows)
    assert head.config == question.load(whole[0]).config


def test_what_a_stop_from_outside_notes(start) -> None:
    run = start(["mean+ridge"])
    stream = working(run)
    next(stream)
    with pytest.raises(DataError, match="is being worked on"):
        stopped(run)
    stream.close()
    (run.path / "end.json").unlink()  # as where the worker was killed
    stopped(run)
    assert run.read("end.json")["state"] == "stopped"
    finished(run)
    stopped(run)
    assert run.read("end.json")["state"] == "finished"


def test_no_thread_of_a_stopped_run_goes_on(start) -> None:
    stream = working(start(RECIPES))
    next(event for event in stream if isinstance(event, CurvePointTried))
    stream.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("grid")]


# One worker at a time


def test_a_second_worker_is_refused_and_a_run_at_work_is_not_deleted(start) -> None:
    run = start()
    stream = working(run)
    next(stream)
    assert run.is_busy
    assert facts_of(run)["state"] == "running"
    with pytest.raises(DataError, match="is being worked on by another process"):
        next(iter(working(run)))
    with pytest.raises(DataError, match="is being worked on"):
        run.delete()
    assert (run.path / "run.json").is_file()
    stream.close()
    assert not run.is_busy
    run.delete()
    assert not run.path.exists()


def test_a_stream_closed_in_another_thread_lets_go_of_its_run(start) -> None:
    run = start()
    stream = working(run)
    next(stream)
    closer = threading.Thread(target=stream.close)
    closer.start()
    closer.join()
    assert not run.is_busy


def _hold(path: Path, told: Any) -> None:
    with RunFolder(path=path).held():
        told.set()
        time.sleep(60)


@pytest.mark.skipif(os.name == "nt", reason="the lock is of Unix")
def test_the_lock_of_a_killed_worker_is_no_obstacle(start) -> None:
    run, context = start(["mean+ridge"]), multiprocessing.get_context("fork")
    told = context.Event()
    other = context.Process(target=_hold, args=(run.path, told))
    other.start()
    assert told.wait(20)
    assert run.is_busy
    assert other.pid
    os.kill(other.pid, signal.SIGKILL)
    other.join(20)
    assert not run.is_busy
    assert finished(run).state == "finished"


def test_looking_whether_a_run_is_busy_never_turns_a_worker_away(start) -> None:
    run, over = start(), threading.Event()

    def look() -> None:
        while not over.is_set():
            _ = run.is_busy

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for one in lookers:
        one.start()
    try:
        for _ in range(50):
            with run.held():
                pass
    finally:
        over.set()
        for one in lookers:
            one.join()


def test_a_run_that_is_gone_is_a_sentence(start) -> None:
    run = start()
    shutil.rmtree(run.path)
    assert not run.is_busy
    for ask in (lambda: next(iter(working(run))), run.delete, lambda: leaderboard(run)):
        with pytest.raises(DataError, match=run.id):
            ask()
    assert not run.path.exists()


# What is asked for


def test_runs_are_found_by_id_by_beginning_and_by_folder(start, tmp_path: Path) -> None:
    one, other = start(), start()
    away = start(out=tmp_path / "elsewhere" / "mine")
    assert {run.id for run in all_runs()} == {one.id, other.id}
    assert find(one.id) == one
    assert find(str(away.path)) == away
    assert re.fullmatch(r"mine-\d{4}-\d{6}-[0-9a-f]{4}", one.id)
    with pytest.raises(DataError, match="2 runs begin with 'mine-'"):
        find("mine-")
    unlike = next(n for n in range(len(one.id)) if one.id[n] != other.id[n]) + 1
    assert find(one.id[:unlike]) == one
    for wrong in ("nothing", "", "..", "../runs", "/", "mine*", one.id + "x"):
        with pytest.raises(DataError, match="There is no run called"):
            find(wrong)
    with pytest.raises(DataError, match="is there already"):
        start(out=away.path)


def test_a_public_run_has_a_name_that_nobody_guesses_and_no_path_opens_one(
    start, tmp_path: Path
) -> None:
    ids = {new_folder("secret", out=None, is_public=True).id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(one) >= 22 and NAME.fullmatch(one) and "secret" not in one for one in ids)
    local, away = start(), start(out=tmp_path / "away")
    run = RunFolder(path=local.path.with_name(f"r{'x' * 22}"))
    shutil.copytree(local.path, run.path)
    assert find(run.id, is_public=True) == run
    assert find(local.id) == named(local.id, is_public=False) == local
    paths = (str(run.path), str(away.path), f"../runs/{run.id}", f"./{run.id}", ".", "..", "")
    wrong = (local.id, run.id[:-1], "mine-", f"{run.id}/", f"{run.id}\n", f"{run.id}\0")
    for name in (*paths, *wrong):
        with pytest.raises(DataError, match="There is no such run"):
            find(name, is_public=True)


def test_names_of_data_make_names_of_folders(tmp_path: Path) -> None:
    for name in ("../../etc/passwd", "ünï cödé", "", "a" * 300, "CON", "x\0y", "-rf"):
        run = new_folder(name, out=None, is_public=False)
        assert run.path.parent == runs_folder()
        assert NAME.fullmatch(run.id)


def with_corpus(data: Data, **changes: Any) -> Data:
    return replace(data, corpus=replace(data.corpus, **changes))


def test_too_few_rows_are_refused(start, data: Data) -> None:
    few = replace(data, corpus=build("few", ["a", "b"], ["x", "y"]))
    with pytest.raises(DataError, match="2 rows are too few"):
        start(data=few)
    many = replace(data, corpus=build("many", ["a", "b"] * 20, ["x|y", "y"] * 20))
    with pytest.raises(DataError, match="40 rows with 2 different texts are too few"):
        start(data=many)
    assert all_runs() == []


# Splits, and what the protocol says of them


def test_rows_without_a_test_set_are_scored_once_each(start) -> None:
    run = start(["mean+ridge"], config=ExperimentConfig(folds=4, curve=False))
    found = finished(run)
    assert (found.curve, found.curve_says, run.read("curve.json")) == ((), "", None)
    assert re.fullmatch(
        r"Split into 4 folds: each of 100 rows was scored once, by heads that learned from about "
        r"7\d rows of the other folds \(settings chosen on 1\d of them, drawn anew each time; "
        r"[^)]* cross-validation\)\.",
        found.protocol,
    )
    scored = torch.cat(answers_of_cell(run, 0, "mean+ridge").answers.rows)
    assert sorted(scored.tolist()) == list(range(100))


@pytest.mark.parametrize(
    ("settings", "has_test", "says"),
    [
        ({"seeds": 4}, False, ["seeds"]),
        ({"folds": 2}, False, []),
        ({"folds": 2, "repetitions": 2}, True, ["folds", "repetitions"]),
        ({"seeds": 1}, True, []),
        ({"per_class": 8, "folds": 2, "held_out": 0.3}, False, ["folds"]),
        ({"per_class": 8, "held_out": 0.3}, True, ["held_out"]),
        ({"folds": 2, "held_out": 0.3}, False, ["held_out"]),
        ({"folds": 2, "epochs": 2, "tuning_rate": 1e-4}, False, ["epochs", "tuning_rate"]),
    ],
)
def test_a_setting_that_means_nothing_for_these_rows_is_said(
    start, data: Data, settings, has_test: bool, says
) -> None:
    config = ExperimentConfig(**({"curve": False} | settings))
    run = start(["mean+ridge"], test=data if has_test else None, config=config)
    told = [note for note in leaderboard(run).notes if "has no effect here" in note]
    assert [note.split()[2] for note in told] == says
    assert all(note.endswith(".") for note in told)


def test_the_verdict_says_how_many_heads_were_cut_off(whole, tmp_path: Path) -> None:
    run = RunFolder(path=Path(shutil.copytree(whole[0].path, tmp_path / "copy")))
    cut = ("mean+roberta", "mean+linear")
    for count in (0, 1, 2):
        for number, name in enumerate(order_of(run)):
            place = run.path / f"cells/{number:03}.json"
            chosen = json.loads(place.read_text("utf-8"))["chosen_by_seed"]
            chosen[-1]["converged"] = name not in cut[:count]  # of the last seed alone
            chosen[0]["converged"] = True
            rewrite(place, chosen_by_seed=chosen)
        told = [one for one in leaderboard(run).verdict if "reached the cap" in one]
        many = "2 heads were still improving when they reached the cap of 4,096 steps or 40 passes"
        assert [one.split(":")[0] for one in told] == [
            [], [many.replace("2 heads were", "1 head was").replace("they", "it")], [many]
        ][count]  # fmt: skip


def test_a_test_file_is_scored_and_never_learned_from(start, data: Data, tmp_path: Path) -> None:
    other = read(write_rows(tmp_path / "test.csv", rows_of("sentiment", 140)[100:]))
    run = start(["mean+ridge"], test=other, config=ExperimentConfig(seeds=2, curve=False))
    found = finished(run)
    assert found.rows == 140
    assert re.fullmatch(
        r"Learned 2 times from 100 rows \(settings chosen on 15 of them, drawn anew each time; "
        r"[^)]* cross-validation\), and scored on the 40 rows of the test set\.",
        found.protocol,
    )
    for rows in answers_of_cell(run, 0, "mean+ridge").answers.rows:
        assert rows.tolist() == list(range(100, 140))
    assert found.cell("mean+ridge").measures.rows == 40
    assert run.read("run.json")["account"]["test"]["rows"] == 40


def test_a_test_file_beside_a_column_of_splits(start, data: Data, tmp_path: Path) -> None:
    parts = ("train",) * 60 + ("validation",) * 20 + ("test",) * 20
    marked = with_corpus(data, parts=parts)
    rows = rows_of("sentiment", 130)
    other = read(write_rows(tmp_path / "test.csv", [*rows[:5], *rows[100:]]))
    run = start(
        ["mean+ridge"], data=marked, test=other, config=ExperimentConfig(seeds=1, curve=False)
    )
    found = finished(run)
    assert "Learned once from 80 rows (settings chosen on 20 of them)" in found.protocol
    assert "scored on the 35 rows of the test set" in found.protocol
    assert "20 rows that mine marks for testing are left out." in found.notes
    assert any(note.startswith("5 of the 35 texts of the test file") for note in found.notes)


def test_what_is_said_of_a_file_names_it(start, data: Data, tmp_path: Path) -> None:
    rows = rows_of("sentiment", 140)
    other = read(write_rows(tmp_path / "test.csv", [*rows[100:], rows[100]]))
    assert other.findings
    run = start(["mean+ridge"], test=other, config=ExperimentConfig(seeds=1, curve=False))
    for note in [*other.notes, *(finding.says for finding in other.findings)]:
        assert f"In the test file: {note}" in finished(run).notes


def test_a_test_file_may_lack_a_class(start, data: Data) -> None:
    corpus = data.corpus
    places = [row for row, (target,) in enumerate(corpus.targets) if target == 2][:20]
    one = with_corpus(
        data,
        texts=tuple(f"{corpus.texts[row]} Indeed." for row in places),
        targets=((0,),) * len(places),
        classes=("positive",),
        lines=tuple(corpus.lines[row] for row in places),
    )
    found = finished(start(["mean+ridge"], test=one, config=ExperimentConfig(seeds=1, curve=False)))
    (cell, *_) = found.cells
    assert cell.measures.confusion[2].sum() == 20
    assert cell.measures.confusion[:2].sum() == 0
    json.dumps(found.as_json(), allow_nan=False)


def test_a_few_rows_of_every_class(start) -> None:
    config = ExperimentConfig(seeds=3, per_class=8, curve=False)
    found = finished(start(["mean+ridge"], config=config))
    assert found.protocol.startswith("Learned from 8 rows of every class, 24 in all, drawn 3 times")
    assert "and scored on" in found.protocol
    assert len(found.cell("mean+ridge").measures.scores) == 3


# The learning curve


@pytest.mark.parametrize("parts", [(), ("train",) * 70 + ("test",) * 30])
def test_the_rows_of_the_curve_lie_within_each_other(
    parts, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = replace(data.corpus, parts=parts)
    targets = torch.tensor([target for (target,) in corpus.targets])
    task = EvaluationTask(targets=targets, classes=corpus.classes, groups=torch.arange(100))
    splits = split(targets, task.groups, parts, CONFIG)
    read: Any = None  # what is not looked at
    training_data = TrainingData(read=read, task=task, splits=splits, config=CONFIG)
    monkeypatch.setattr(learning_curve, "FEWEST", 20)
    assert list(learning_curve._by_share(training_data)) == [0.5, 1.0]  # a quarter is too few
    monkeypatch.setattr(learning_curve, "FEWEST", 10)
    found = learning_curve._by_share(training_data)
    assert list(found) == list(SHARES)
    for seed, train in enumerate(training_data.splits.train):
        of_share = [found[share].splits for share in SHARES]
        quarter, half, all_of_them = (set(one.train[seed].tolist()) for one in of_share)
        assert all(torch.equal(one.test[seed], splits.test[seed]) for one in of_share)
        assert all(
            set(one.development[seed].tolist()) < set(one.train[seed].tolist()) for one in of_share
        )
        assert quarter < half < all_of_them
        assert all_of_them == set(train.tolist())
        assert len(quarter) == pytest.approx(len(train) / 4, abs=3)
        assert set(targets[sorted(quarter)].tolist()) == {0, 1, 2}


def test_a_part_that_leaves_no_rows_to_choose_on_is_left_out_of_the_curve(start, data) -> None:
    texts = [f"{text} {n}" for n, text in enumerate(data.corpus.texts * 2)]
    labels = [f"class {n % 50}" for n in range(200)]  # a quarter has one row of each
    many = replace(data, corpus=build("many classes", texts, labels))
    config = ExperimentConfig(folds=2, precision="exact")
    found = finished(start(["mean+ridge"], data=many, config=config))
    assert [stage["rows"] for stage in found.curve] == []


def test_a_part_whose_rows_to_try_settings_on_are_of_one_class_is_none() -> None:
    """Given development rows stay what they are, and may leave hardly any others of a quarter."""
    vectors, targets = blobs(120, classes=2)
    parts = ["train"] * 40 + ["validation"] * 40 + ["test"] * 40
    board = training_data_of(vectors, targets, ExperimentConfig(seeds=2), parts=parts)
    assert learning_curve._chooses(board)
    same = [rows[targets[rows] == 0] for rows in board.splits.search]
    poor = replace(board, splits=replace(board.splits, search=tuple(same)))
    assert not learning_curve._chooses(poor)


def test_a_head_that_fails_on_fewer_rows_stands_at_no_size(start, monkeypatch, caplog) -> None:
    learned = ClosedFormFitter.learn

    def fails(self, training_task, found, rows, *others):
        if min(map(len, rows)) < 20:
            raise RuntimeError("too few")
        return learned(self, training_task, found, rows, *others)

    monkeypatch.setattr(ClosedFormFitter, "learn", fails)
    found = finished(start(FEW, config=CONFIG))
    assert len(found.cells) == len(FEW) + 2
    assert len(found.curve) == 3
    for stage in found.curve:
        assert set(stage["scores"]) == {"mean+linear", "mean+roberta"}
    alone = finished(start(["cls+ridge"], config=CONFIG))
    assert (alone.state, alone.curve, alone.curve_says) == ("finished", (), "")


# What the numbers mean


@pytest.mark.slow
def test_shuffled_labels_score_at_chance_and_the_verdict_says_it(
    backbone: Backbone, tmp_path: Path
) -> None:
    rows = rows_of("intents", 200)
    labels = [("yes", "no")[n % 2] for n in range(200)]
    random.Random(3).shuffle(labels)
    shuffled = [{"text": row["text"], "label": one} for row, one in zip(rows, labels, strict=True)]
    data = read(write_rows(tmp_path / "shuffled.csv", shuffled))
    recipes = ["mean+linear", "cls+bert", "mean+roberta", "mean+ridge", "mean+knn"]
    config = ExperimentConfig(folds=3, curve=False)
    run = begin(RunRequest(data=data, recipes=recipes, config=config))
    found = finished(run)
    missed = [c.name for c in found.cells if not c.measures.low <= 0.5 <= c.measures.high]
    assert len(missed) <= 1  # an interval of 95 % may miss, one in twenty
    for cell in found.cells:
        # Four standard errors of 91 texts: labels drawn by lot may suit one head by chance.
        assert abs(cell.measures.score - 0.5) < 0.2, cell.name
        for difference in (cell.to_best, cell.to_reference):
            assert difference is None or not difference.differs
    unproven = "No recommendation: no head is significantly better than (always|a bag of words)"
    assert re.match(unproven, found.verdict[0])


@pytest.mark.slow
def test_two_names_of_the_same_layers_are_never_called_different(
    start, tiny: Callable[..., Path]
) -> None:
    run = start(["mean+bert", "mean+xlnet"], model=str(tiny("bert", "ForMaskedLM")), config=CONFIG)
    found = finished(run)
    one, other = (found.cell(name).measures for name in ("mean+bert", "mean+xlnet"))
    assert one.scores == other.scores
    assert one.values["log_loss"] == other.values["log_loss"]
    (cell,) = (c for c in found.cells if not c.is_baseline and c.to_reference is not None)
    assert cell.to_reference.difference == 0
    assert not cell.to_reference.differs


def test_texts_that_are_cut_or_foreign_are_noted(start, tmp_path: Path) -> None:
    rows = [
        {"text": f"{row['text']} " + "cat " * 60 * (n < 7), "label": row["label"]}
        for n, row in enumerate(rows_of("sentiment", 60))
    ]
    rows += [{"text": f"жук {n} жаба", "label": "neutral"} for n in range(4)]
    data = read(write_rows(tmp_path / "long.csv", rows))
    found = finished(
        start(["mean+ridge"], data=data, config=ExperimentConfig(folds=2, curve=False))
    )
    notes = " ".join(found.notes)
    assert re.search(r"\d+ of 64 texts are cut at 40 tokens", notes)
    assert re.search(r"In \d+ of 64 texts more than half of the tokens are unknown", notes)


# Broken ones


BROKEN = ("", "{", "[]", "{}", "null", "3", '"x"')
OF_A_RACE = ('{"stopped": 3}', '{"stopped": [{"a": 1}]}')


@pytest.mark.parametrize("text", slow.but_each(5, BROKEN))
def test_a_broken_file_of_a_run_is_a_sentence(whole, tmp_path: Path, text: str) -> None:
    names = [str(path.relative_to(whole[0].path)) for path in whole[0].path.rglob("*.json")]
    assert len(names) >= 15
    for name in names:
        run = RunFolder(path=tmp_path / "copy")
        shutil.copytree(whole[0].path, run.path)
        (run.path / name).write_text(text)
        for ask in (
            leaderboard,
            disagreements,
            facts_of,
            lambda run: classifier(run, "mean+linear"),
            stopped,
        ):
            with contextlib.suppress(HeadsError):  # one sentence, and nothing else
                ask(run)
        shutil.rmtree(run.path)


@pytest.mark.parametrize("text", slow.but_each(5, (*BROKEN, *OF_A_RACE)))
def test_working_on_a_broken_run_is_a_sentence_or_mends_it(
    start, tmp_path: Path, text: str
) -> None:
    begun = start(["mean+ridge"], config=replace(PLAIN, race=True))
    finished(begun)
    for path in sorted(begun.path.rglob("race.json" if text in OF_A_RACE else "*.json")):
        run = RunFolder(path=tmp_path / "copy")
        shutil.copytree(begun.path, run.path)
        (run.path / path.relative_to(begun.path)).write_text(text)
        with contextlib.suppress(HeadsError):
            assert len(finished(run).cells) == 3
        shutil.rmtree(run.path)


def test_a_run_of_another_version_is_refused(start) -> None:
    run = start()
    rewrite(run.path / "run.json", version=99)
    with pytest.raises(DataError, match=run.id):
        leaderboard(run)


def test_a_run_from_before_one_could_choose_was_exact_and_without_a_race(start) -> None:
    asked = ExperimentConfig(seeds=2, race=True, precision="fast")
    run = start(["mean+ridge"], config=asked)
    assert question.load(run).config == asked
    before = asdict(asked)
    del before["race"], before["precision"]
    rewrite(run.path / "run.json", contest=before)
    assert question.load(run).config == ExperimentConfig(seeds=2, race=False, precision="exact")


def test_a_base_model_that_has_changed_is_refused(start, tmp_path: Path) -> None:
    place = save_tiny(tmp_path / "model", "bert")
    run = start(["mean+ridge"], model=str(place))
    shutil.rmtree(place)
    save_tiny(place, "bert", num_hidden_layers=1)
    with pytest.raises(DataError, match="is not the version that the run"):
        finished(run)
    assert not run.is_busy
    with pytest.raises(DataError, match="is not the version"):
        classifier(run, "mean+ridge")


def test_a_head_that_is_not_there_is_a_sentence(whole) -> None:
    for name, error in (
        ("mean+gpt2", DataError), ("majority", DataError), ("", RecipeError),
        ("../../x", RecipeError),
    ):  # fmt: skip
        with pytest.raises(error):
            classifier(whole[0], name)


def test_a_full_disk_is_a_sentence_and_the_run_can_go_on(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = ["mean+ridge", "cls+ridge"]
    wanted, run = bare(finished(start(recipes)).as_json()), start(recipes)
    put = RunFolder.put

    def full(self: RunFolder, name: str, fill: Any) -> None:
        if name == "cells/001.json":
            fill = _no_space
        put(self, name, fill)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "put", full)
        with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
            finished(run)
    assert not run.is_busy
    assert not list(run.path.rglob(".unfinished*"))
    assert bare(finished(run).as_json()) == wanted


def test_what_a_kill_left_unfinished_goes_when_the_run_goes_on(start) -> None:
    run = start(["mean+ridge"])
    left = [run.path / ".unfinished-x", run.path / "cells" / ".tmpY", run.path / "heads" / ".tmpZ"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    finished(run)
    assert not [path for path in left if path.exists()]


def _no_space(place: Path) -> None:
    place.write_bytes(b"half")
    raise OSError(28, "No space left on device")


def test_a_broken_run_does_not_hide_the_others(start) -> None:
    one, other = start(), start()
    (one.path / "run.json").write_text("{")
    found = {run.id: facts_of(run) for run in all_runs()}
    assert found[one.id]["state"] == "broken"
    assert found[other.id]["state"] == "unfinished"


def test_a_public_place_has_its_own_limits(start) -> None:
    with use_limits(PUBLIC), pytest.raises(HeadsError):
        start()  # the base model is a folder
    with use_limits(PUBLIC):
        assert load().id
