"""Base models that learn: the same after every interruption, told beforehand, and on any device."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import collect
from tuning_tasks import CLASSES, SPLITS, task_of

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.errors import RecipeError
from heads.events import result
from heads.interruption import Interrupted
from heads.parts.resolve import resolve
from heads.settings import ExperimentConfig
from heads.training.finetuning import checkpoints, cost
from heads.training.finetuning.checkpoints import BEGUN, FINISHED, Checkpoints, folder_of, spent
from heads.training.finetuning.cost import pace_of
from heads.training.finetuning.fitter import FineTuningFitter
from heads.training.finetuning.learning import TuningRun
from heads.training.finetuning.plan import plan_of
from heads.training.fitters.base import FittedHead, SearchResult
from heads.training.task import TrainingTask
from heads.training.trial import trials


@pytest.fixture
def loaded(tiny: Callable[..., Path]) -> Callable[..., Backbone]:
    return lambda family: loading.load(str(tiny(family)))


def fitter(recipe: str, backbone: Backbone) -> FineTuningFitter:
    (found,) = trials([resolve(recipe)], backbone, CLASSES)
    assert isinstance(found.fitter, FineTuningFitter)
    return found.fitter


# --- An interruption changes no number, wherever it comes.


def learned(own: FineTuningFitter, task: TrainingTask) -> tuple[SearchResult, FittedHead, Any]:
    """What a search and the training after it come to, with all that was looked at."""
    looks, found = collect(own.search(task, SPLITS, [0]))
    (head,) = own.learn(task, found, SPLITS.train, SPLITS.test, [0])
    return found[0], head, [(look.settings, look.loss) for look in looks]


@pytest.mark.parametrize("epochs", [1, 2])
def test_an_interruption_at_any_step_changes_no_number(
    epochs: int, loaded: Callable[..., Backbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fitter("mean+linear?tune=full", loaded("bert"))
    config = ExperimentConfig(tuning_rate=1e-3, epochs=epochs, trials=1)
    found, head, looks = learned(own, task_of(config=config))
    step, counted = TuningRun.step, list[int]()
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 0)

    def stepped(run: TuningRun, *given: Any) -> float:
        counted.append(0)
        if len(counted) == limit:
            raise Interrupted
        return step(run, *given)

    monkeypatch.setattr(TuningRun, "step", stepped)
    limit = 0
    learned(own, task_of(config=config))
    for limit in range(2, len(counted) + 1):
        task = task_of(config=config, workspace=tmp_path / str(limit))
        counted.clear()
        with pytest.raises(Interrupted):
            learned(own, task)
        again, other, told = learned(own, task)
        assert told == looks, limit
        assert again.chosen == found.chosen
        assert torch.equal(other.logits, head.logits)
        assert other.peak_bytes == head.peak_bytes


def test_what_was_spent_before_a_kill_is_counted(tmp_path: Path) -> None:
    assert spent(folder_of(tmp_path, "cell")) == spent(None) == 0.0
    for _ in range(2):
        kept = Checkpoints(tmp_path, "cell")
        kept._told -= 10.0  # seconds ago
        kept.save(FINISHED, {"done": 1}, "key")
    assert spent(folder_of(tmp_path, "cell")) == pytest.approx(20.0, abs=2.0)


def test_a_checkpoint_that_cannot_be_read_or_written_costs_no_training(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, "cell")
    kept.save(BEGUN, {"steps": 1}, "key")
    (path,) = tmp_path.glob("*/*.begun.pt")
    for content in (b"", b"text\n", b"\0" * 100):
        path.write_bytes(content)
        assert kept.load(BEGUN, "key") is None
    (tmp_path / "file").write_text("no folder")
    Checkpoints(tmp_path / "file", "cell").save(BEGUN, {"steps": 1}, "key")


# --- How long it takes is told of texts of every length.


def test_short_and_long_rows_make_the_pace(
    loaded: Callable[..., Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = iter([0.1, 0.5, 0.2, 0.3, 0.0])  # two parts, twice; and the answers
    monkeypatch.setattr(cost, "_timed", lambda *_: next(timed))
    monkeypatch.setattr(cost, "_paces", OrderedDict())
    own = fitter("mean+linear?tune=full", loaded("bert"))
    pace = pace_of(own, task_of())
    assert pace.step == pytest.approx((0.1 + 0.3) / cost.SAMPLE)
    # Other settings are of the same pace: nothing is timed again.
    assert pace_of(replace(own, classes=5), task_of()) is pace


# --- What is learned.


def test_tied_parameters_count_once(loaded: Callable[..., Backbone]) -> None:
    for family in ("t5", "bart"):
        backbone = loaded(family)
        plan = plan_of(resolve("mean@decoder+linear?tune=full"), backbone)
        own = dict(backbone.model.named_parameters())  # each once
        assert plan.depths.keys() <= own.keys()
        assert plan.parameters == sum(own[name].numel() for name in plan.depths)


def test_the_last_layers_of_a_decoder_beside_an_encoder_are_refused(
    loaded: Callable[..., Backbone],
) -> None:
    with pytest.raises(RecipeError):
        plan_of(resolve("mean@decoder+linear?tune=last1"), loaded("t5"))


def test_putting_an_adapter_on_draws_from_nobody(loaded: Callable[..., Backbone]) -> None:
    own = fitter("mean+linear?tune=lora", loaded("bert"))
    task = task_of(config=ExperimentConfig(epochs=1, trials=1))
    (head,) = own.learn(task, result(own.search(task, SPLITS, [0])), SPLITS.train, SPLITS.test, [0])
    assert head.base
    before = torch.get_rng_state()
    head.base.onto(own.backbone)
    assert torch.equal(torch.get_rng_state(), before)
