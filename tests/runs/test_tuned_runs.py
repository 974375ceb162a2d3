"""Runs some of whose cells tune the base model: fair, announced, and whole after a kill."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from boards import board_of
from few_runs import finished
from same_runs import bare, tensors
from tiny_models import WORDS
from torch.nn.functional import cross_entropy

from heads.backbone import loading
from heads.data.dataset import Data, read
from heads.errors import LimitError
from heads.evaluation.significance import Difference
from heads.evaluation.transferability import Estimate
from heads.events import Progress
from heads.interruption import Interrupted
from heads.parts import registry
from heads.parts.resolve import resolve
from heads.runs import drill_down, duration, learning_curve, notes, spec
from heads.runs import leaderboard as boards_of_runs
from heads.runs.cells import TuningReport, answers_of_cell
from heads.runs.features import WORKSPACE
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard, leaderboard
from heads.runs.refit import run_classifier as classifier
from heads.runs.runner import begin, cells_of, foreseen, working
from heads.runs.spec import RunRequest, fill_counts
from heads.settings import ExperimentConfig, Limits, use_limits
from heads.training.events import CurvePointTried
from heads.training.finetuning import checkpoints, cost, fitter
from heads.training.finetuning.cost import TuningPace
from heads.training.fitters.base import TriedSettings

CONFIG = ExperimentConfig(folds=2, epochs=2, trials=2, curve=False, precision="exact")
TUNED = (
    "mean+linear", "mean+linear?tune=last1", "cls+roberta?tune=full", "mean+linear?tune=lpft",
)  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty texts of two classes, told by their first word."""
    path = tmp_path_factory.mktemp("data") / "mine.csv"
    rows = [f"{WORDS[n % 8]} {WORDS[n % 13]} {WORDS[n % 11]},{n % 2}" for n in range(60)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def data(file: Path) -> Data:
    return read(file)


@pytest.fixture
def start(tiny: Callable[..., Path], data: Data) -> Callable[..., RunFolder]:
    def begun(recipes: Sequence[str] = TUNED, **settings: Any) -> RunFolder:
        given = {"data": data, "config": CONFIG, "model": str(tiny())} | settings
        return begin(RunRequest(recipes=recipes, **given))

    return begun


# --- All ways of learning try as many settings, and there are seeds enough to see their luck.


@pytest.mark.parametrize("seeds", [0, 2, 3, 7])
@pytest.mark.parametrize("trials", [0, 1])
def test_a_chosen_number_of_seeds_and_trials_is_never_changed(seeds: int, trials: int) -> None:
    config = ExperimentConfig(seeds=seeds, trials=trials)
    tuned, frozen = [resolve("mean+linear?tune=full")], [resolve("mean+linear")]
    filled, notes = fill_counts(config, frozen)
    assert (filled.seeds, filled.trials) == (seeds or 3, trials)
    assert not notes
    filled, notes = fill_counts(config, tuned)
    assert (filled.seeds, filled.trials) == (seeds or 5, trials or 3)
    assert str(filled.trials) in notes[0]
    assert ("5 seeds" in notes[0]) == (not seeds)
    assert len(notes) == (2 if 0 < seeds < 5 else 1)  # few seeds: a note on wide intervals
    by_fold, notes = fill_counts(config, tuned, by_seed=False)
    assert (by_fold.seeds, len(notes)) == (seeds, 1)
    assert len(fill_counts(replace(config, folds=2), tuned, by_seed=False)[1]) == 2


def test_grids_are_crossed_with_what_is_learned(start) -> None:
    run = start(["mean+linear", "cls+mlp?tune=lora"], tune=("frozen", "last1"))
    names = json.loads((run.path / "run.json").read_text())["recipes"]
    assert {*names} == {"mean+linear", "mean+linear?tune=last1", "cls+mlp?tune=lora"}


# --- Frozen heads are judged among themselves, and what became of trainings is said.


def test_the_curve_and_the_estimates_are_of_frozen_heads(start, monkeypatch) -> None:
    monkeypatch.setattr(learning_curve, "FEWEST", 5)
    names = ["mean+linear", "cls+linear", "mean+linear?tune=last1", "cls+linear?tune=last1"]
    found = finished(start(names, config=replace(CONFIG, curve=True)))
    assert found.curve
    assert all(set(stage["scores"]) == set(names[:2]) for stage in found.curve)
    assert found.curve_says.startswith("On the frozen base model: ")
    assert found.reference == "mean+linear"
    alone = finished(start(names[:2], config=replace(CONFIG, curve=True, seeds=5)))
    assert [one.says for one in found.agreements] == [one.says for one in alone.agreements]
    of_frozen = {cell.name: cell for cell in found.cells if cell.name not in names[2:]}
    for cell in alone.cells:
        assert of_frozen[cell.name].to_reference == cell.to_reference
    tuned = finished(start(names[2:], config=replace(CONFIG, curve=True)))
    assert (tuned.curve, tuned.curve_says, tuned.agreements) == ((), "", ())


@pytest.mark.parametrize("kind", ["frozen", "last1"])
def test_no_estimate_of_a_layer_is_that_of_a_head_that_learns_it(start, kind: str) -> None:
    names = [f"mean@{layer}+linear?tune={kind}" for layer in (0, 1)]
    if kind != "frozen":  # nothing of the base model is learned below its first layer
        names = [f"mean@{layer}+linear?tune=full" for layer in (1, 2)]
    found = finished(start([*names, *(["mean+linear"] if kind == "frozen" else [])]))
    cells = {cell.name: cell for cell in found.cells}
    course = drill_down._course(found, "x", {n: cells[one] for n, one in enumerate(found.recipes)})
    assert [one is None for one in course.estimates] == [kind != "frozen"] * len(course.layers)


def test_estimates_are_held_to_the_best_frozen_head() -> None:
    """That a tuned head is better than both readings says nothing of the one and the other."""
    wrong = {"mean+linear": (0, 330), "cls+linear": (4, 336), "mean+linear?tune=full": (0, 100)}
    board = board_of(**wrong)
    estimates = [
        Estimate(name=name, log_me=own, h_score=own, neighbours=own)
        for name, own in (("cls", 2.0), ("mean", 1.0))
    ]
    cells = {cell.name: cell for cell in board.cells}
    cells = {
        name: replace(cell, to_best=replace(cell.to_best, differs=True) if cell.to_best else None)
        for name, cell in cells.items()
    }
    near = [Difference(name=name, other="mean+linear", difference=0.0, low=0, high=0, p=1.0,
                       differs=False) for name in ("cls+linear",)]  # fmt: skip
    whole = SimpleNamespace(to_best=(), frozen=SimpleNamespace(to_best=near))
    told = boards_of_runs._agreements(estimates, cells, board.recipes, cast(Any, whole))
    assert "is not distinguishable from the best, `mean`" in told[0].says


def test_diverged_trainings_and_unequal_searches_are_noted() -> None:
    board = board_of(**{"mean+linear": (0, 330), "mean+linear?tune=full": (0, 100)})
    tried = [TriedSettings(settings={"rate": n}, step=0, score=0.5, loss=1.0) for n in range(3)]
    tuning = TuningReport(parameters=9, diverged=0, peak_bytes=0)

    def noted(diverged: int, *trials: int) -> list[str]:
        cells = {cell.name: cell for cell in board.cells}
        names = ("mean+linear", "mean+linear?tune=full")
        reports = (None, replace(tuning, diverged=diverged))
        each = zip(names, trials, reports, strict=True)
        return notes.of_tuned(
            [
                replace(cells[n], tried=tuple(tried[:t]), tuning=own, chosen_by_seed=({},) * 5)
                for n, t, own in each
            ]
        )

    assert noted(0, 3, 3) == []
    (one,) = noted(1, 3, 3)
    assert one.startswith("mean+linear?tune=full: 1 of 6 trainings ended worse than ")
    assert one.endswith("it was thrown away and begun anew with other random numbers.")
    (two,) = noted(2, 3, 3)
    assert "2 of 7 trainings" in two
    assert "they were thrown away" in two
    (unlike,) = noted(0, 1, 3)
    assert "(1 to 3); fewer than others: mean+linear." in unlike


def test_a_tuned_head_that_says_always_the_same_is_noted() -> None:
    board = board_of(**{"mean+linear": (0, 330), "mean+linear?tune=full": (0, 100)})
    tuning = TuningReport(parameters=9, diverged=0, peak_bytes=0)
    tuned = replace(board.cell("mean+linear?tune=full"), tuning=tuning)
    always = torch.tensor([[1000, 0], [1000, 0]])
    stuck = replace(tuned, measures=replace(tuned.measures, confusion=always))
    assert notes.of_tuned([board.cell("mean+linear"), tuned]) == []
    (told,) = notes.of_tuned([board.cell("mean+linear"), stuck])
    assert told.startswith("mean+linear?tune=full gives every text the same class")


# --- A kill, a stop, and the same numbers.


def answers(run: RunFolder) -> dict[str, bytes]:
    return {name: value for name, value in tensors(run).items() if name.startswith("cells/")}


@pytest.mark.slow
def test_a_killed_run_resumes_within_its_cell_to_the_same_numbers(
    start, file: Path, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    whole, killed = start(), tmp_path / "killed"
    expected = finished(whole)
    command = [sys.executable, "-m", "heads", "train", str(file), "--model", str(tiny())]
    command += [part for recipe in TUNED for part in ("-r", recipe)]
    command += ["--folds", "2", "--epochs", "2", "--trials", "2", "--no-curve"]
    command += ["--precision", "exact", "--out", str(killed)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        until = time.monotonic() + 120
        while not list(killed.glob(f"{WORKSPACE}/*/*.finished.pt")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    run = RunFolder(path=killed)
    before = {path: path.stat().st_mtime_ns for path in killed.glob(f"{WORKSPACE}/*/*.pt")}
    assert before
    assert not (killed / "leaderboard.json").exists()
    found = finished(run)
    assert bare(found.as_json()["cells"]) == bare(expected.as_json()["cells"])
    assert answers(run) == answers(whole)
    assert not (killed / WORKSPACE).exists()  # nothing is left of it


def test_a_run_closed_anywhere_goes_on_from_its_checkpoint(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)  # a checkpoint after every step
    recipes = ["mean+linear", "mean+roberta?tune=full"]
    expected, run = finished(start(recipes)), start(recipes)
    for count in itertools.count(2, 3):
        events = working(run)
        last = list(itertools.islice(events, count))[-1]
        began = time.monotonic()
        events.close()
        assert time.monotonic() - began < 1  # whoever stops a run does not wait for it
        if isinstance(last, Leaderboard):
            break
    assert count > 8
    assert bare(leaderboard(run).as_json()["cells"]) == bare(expected.as_json()["cells"])


def test_a_broken_checkpoint_is_trained_again(start) -> None:
    recipes = ["mean+linear?tune=full"]
    expected, run = finished(start(recipes)), start(recipes)
    events = working(run)
    next(event for event in events if isinstance(event, CurvePointTried))
    events.close()
    for path in run.path.glob(f"{WORKSPACE}/*/*.pt"):
        path.write_bytes(path.read_bytes()[:100])
    found = finished(run)
    assert bare(found.as_json()["cells"]) == bare(expected.as_json()["cells"])


# --- Each cell has a base of its own, and its head answers as the run has scored it.


def test_a_tuned_head_answers_as_its_run_says(start, data: Data) -> None:
    run = start([*TUNED, "mean+roberta", "mean+ridge"])
    board, corpus = finished(run), data.corpus
    revisions = set()
    for number, name in enumerate(spec.load(run).recipes):
        asked = classifier(run, name)
        revisions.add(asked.backbone.revision)
        told = answers_of_cell(run, number, name).answers  # of the first fold, whose head is kept
        given = asked.logits([corpus.texts[row] for row in told.rows[0].tolist()]).argmax(dim=1)
        assert torch.equal(given, told.given[0].long())
        assert board.cell(name).trials == 2  # every way of learning tries as many
        assert (board.cell(name).tuning is not None) == ("tune" in name)
    assert len(revisions) == len(TUNED)  # those of the frozen heads are one


@pytest.mark.slow
def test_a_head_after_pairs_is_a_cell_as_others_are(
    start, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("setfit", reason="setfit is not installed (pip install -e .[setfit])")
    recipes = ["mean+linear", "mean+linear?tune=setfit", "mean+ridge?tune=setfit"]
    run = start(recipes)
    assert foreseen(run).tuning > 0
    events = working(run)
    next(e for e in events if isinstance(e, CurvePointTried) and "setfit" in e.name)
    events.close()
    assert list(run.path.glob(f"{WORKSPACE}/*/*.finished.pt"))
    board, corpus = finished(run), data.corpus
    assert {cell.name for cell in board.cells if not cell.is_baseline} == {*recipes}
    assert {board.cell(name).trials for name in recipes} == {2}
    assert not (run.path / WORKSPACE).exists()
    for number, name in enumerate(recipes[1:], start=1):
        tuning = board.cell(name).tuning
        assert tuning
        assert tuning.parameters > 0
        told = answers_of_cell(run, number, name).answers
        rows = told.rows[0].tolist()
        monkeypatch.setattr(registry, "find_spec", lambda _: None)  # only training needs it
        logits = classifier(run, name).logits([corpus.texts[row] for row in rows])
        assert torch.equal(logits.argmax(dim=1), told.given[0].long())


# --- What diverges is thrown away, counted and begun anew.


def test_a_training_that_diverges_is_counted_and_begun_anew(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, seen = fitter._has_diverged, list[bool]()

    def once(*given: Any) -> bool:
        seen.append(judged(*given) or not seen)
        return seen[-1]

    monkeypatch.setattr(fitter, "_has_diverged", once)
    monkeypatch.setattr(fitter, "_rose", lambda *_: True)
    cell = finished(start(["mean+linear?tune=full"])).cell("mean+linear?tune=full")
    assert cell.tuning
    assert cell.tuning.diverged == 1
    assert len(seen) == 3  # two folds, one of them twice
    assert cell.as_json()["tuning"]["diverged"] == 1


def test_a_training_is_judged_by_what_it_comes_to_in_the_end(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, seen = fitter._has_diverged, list[float]()

    def watched(loss: float, *others: Any) -> bool:
        seen.append(loss)
        return judged(loss, *others)

    monkeypatch.setattr(fitter, "_has_diverged", watched)
    run = start(["mean+linear?tune=full"], config=replace(CONFIG, epochs=1))
    head, asked = finished(run).classifier("mean+linear?tune=full"), spec.load(run)
    rows = asked.splits.train[0]
    logits, targets = head.logits([asked.corpus.texts[n] for n in rows]), asked.task.targets[rows]
    factors = torch.logspace(-4, 3, 7001).tolist()
    wanted = min(float(cross_entropy(factor * logits, targets)) for factor in factors)
    assert seen[0] == pytest.approx(wanted, 1e-3)


def test_what_always_diverges_fails_in_a_sentence_and_others_go_on(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitter, "_has_diverged", lambda *_: True)
    monkeypatch.setattr(fitter, "_rose", lambda *_: True)
    found = finished(start(["mean+linear", "mean+linear?tune=full"]))
    assert [cell.name for cell in found.cells if not cell.is_baseline] == ["mean+linear"]
    assert any("diverged" in note for note in found.notes)


@pytest.mark.parametrize(
    ("losses", "rose"),
    [
        ([0.70, 0.69, 0.70, 0.69, 0.69], False),  # it has hardly begun
        ([1.10, 1.02, 0.97, 0.95, 0.94], False),  # nor is it down at the constant answer
        ([0.69, 0.45, 0.30, 0.66, 0.69], True),  # it had learned, and lost it
        ([0.69, 0.75, 0.90, 1.40, 2.00], True),
        ([0.69, float("nan")], True),
        ([0.69], False),
    ],
)
def test_only_a_loss_that_rose_is_called_divergence(losses: list[float], rose: bool) -> None:
    assert fitter._rose(losses, 0.69) == rose


def test_a_training_that_has_hardly_begun_has_not_diverged(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LoRA begins as an addition of 0: a few steps at a low rate move no answer."""
    monkeypatch.setattr(fitter, "_has_diverged", lambda *_: True)
    config = replace(CONFIG, epochs=1, tuning_rate=1e-6)
    found = finished(start(["mean+linear", "mean+linear?tune=lora"], config=config))
    (told,) = [note for note in found.notes if "lora" in note]
    assert "diverged" not in told
    assert "--" not in told
    assert "epochs" in told


def test_a_loss_above_that_of_a_constant_answer_has_diverged() -> None:
    point = TriedSettings(settings={}, step=1, score=0.5, loss=0.2)
    assert fitter._has_diverged(0.9, point, 0.69)
    assert fitter._has_diverged(float("nan"), point, 0.69)
    assert not fitter._has_diverged(0.6, point, 0.69)
    point = replace(point, loss=0.69)  # its search learned nothing either: that is no divergence
    assert not fitter._has_diverged(0.9, point, 0.69)


# --- What was cut off by the number of its passes is said.


def _looks(losses: Sequence[float], planned: int) -> list[TriedSettings]:
    return [
        TriedSettings(settings={"epochs": n, "planned": planned}, step=n, score=0.5, loss=loss)
        for n, loss in enumerate(losses, start=1)
    ]


def test_a_training_whose_loss_falls_to_its_last_pass_has_not_converged() -> None:
    assert fitter.is_falling(_looks([0.7, 0.6, 0.5], 3))
    assert fitter.is_falling(_looks([0.7], 1))  # one pass tells nothing else
    assert not fitter.is_falling(_looks([0.7, 0.5, 0.499], 3))
    assert not fitter.is_falling(_looks([0.7, 0.5, 0.6], 3))
    assert not fitter.is_falling(_looks([0.7, 0.6, 0.5], 10))  # it was ended before


def test_heads_that_were_still_improving_are_counted_by_kind(start) -> None:
    found = finished(start(config=replace(CONFIG, epochs=1)))
    told = [one for one in found.verdict if "the last of the passes" in one]
    assert told == [
        "3 heads were still improving when they reached the last of the passes that tuning was "
        "given: their scores may be low, and more passes would tell."
    ]
    # Nobody is spared that: neither who reads the recommendation, nor who asks whether it is worth.
    assert "3 heads were still improving" in found.recommendation.how_sure
    assert "still improving at the last pass" in found.ways_of_learning[0].says


# --- How long it will take is told before, and what cannot fit is refused.


def test_a_tuned_run_is_announced_with_its_time(start, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, tuned = foreseen(start(["mean+linear"])), foreseen(start())
    assert frozen.tuning == 0
    assert tuned.tuning > 0
    assert re.search(r"of it and \d+ MB of memory for tuned base models", tuned.says)
    monkeypatch.setattr(duration, "pace_of", lambda *_: TuningPace(step=1e-3, answer=0.0))
    once, more = (foreseen(start(config=replace(CONFIG, epochs=epochs))) for epochs in (2, 8))
    assert more.tuning == pytest.approx(4 * once.tuning)


def test_keeping_states_at_a_cut_is_told_as_a_part_of_the_reading(
    start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "empty"))
    events = list(working(start(["mean+linear?tune=last1"])))
    told = [event for event in events if isinstance(event, Progress)]
    shares = [event.share for event in told if "states of" in event.says]
    assert 0.2 <= shares[0] <= shares[-1] <= 0.4  # much is to be done after them


def test_the_timing_of_steps_is_ended(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_paces", OrderedDict())
    asked, stop = spec.load(start()), threading.Event()
    backbone = loading.load(asked.model)
    cells = cells_of(asked, backbone)
    stop.set()
    with pytest.raises(Interrupted):
        duration.expected(asked, cells, backbone, stop)
    assert not cost._paces  # what was not timed to its end is not remembered
    assert duration.expected(asked, cells, backbone).tuning > 0


@pytest.mark.parametrize(
    ("pace", "hint"),
    [(1e-3, "With 50 rows"), (3e-4, "by itself would fit"), (1.0, "on your own machine")],
)
def test_a_place_with_little_time_says_what_would_fit(
    pace: float, hint: str, start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(duration, "pace_of", lambda *_: TuningPace(step=pace, answer=0.0))
    path = tmp_path / "more.csv"
    count = 300 if "rows" in hint else 40
    rows = [f"the cat {WORDS[n % 9]} {n},{n % 2}\n" for n in range(count)]
    path.write_text("text,label\n" + "".join(rows))
    many = read(path)
    limits = Limits(run_seconds=1 if "rows" not in hint else 3)
    recipes = ["mean+linear?tune=full", "cls+linear?tune=full", "cls+mlp?tune=full"]
    given = recipes[:1] if "rows" in hint else recipes
    config = replace(CONFIG, epochs=10 if "rows" in hint else 20)
    says = r"would take about .*, and this place allows"
    with use_limits(limits), pytest.raises(LimitError, match=says) as error:
        start(given, data=many, config=config)
    assert hint in str(error.value)


def test_a_base_model_that_does_not_fit_into_memory_is_refused(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_free", lambda _: 1000)
    with pytest.raises(LimitError, match=r"GB are free here"):
        start(["mean+linear?tune=full"])
