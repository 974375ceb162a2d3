"""SetFit: classes that come nearer to themselves, by the library, with any head on the vectors."""

import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import slow
import torch
from quick_heads import TUNED, classifiers
from torch import Tensor
from torch.nn.functional import normalize
from tuning_tasks import CLASSES, EVERY, ROWS, SPLITS, task_of

from heads.backbone.backbone import Backbone
from heads.data.corpus import Corpus
from heads.errors import RecipeError
from heads.events import result
from heads.interruption import Interrupted
from heads.parts import registry
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig
from heads.training.finetuning.contrastive import ContrastiveFitter
from heads.training.finetuning.cost import pace_of
from heads.training.finetuning.module import Texts
from heads.training.fitters import base
from heads.training.fitters.base import FittedHead
from heads.training.task import TrainingTask
from heads.training.trial import Trial, trials

pytest.importorskip("setfit", reason="setfit is not installed (pip install -e .[setfit])")
from heads.training.finetuning import setfit_trainer

QUICK = ExperimentConfig(learning_rate=1e-3, tuning_rate=1e-3, epochs=1, trials=1, steps=4)


def trial(recipe: str, backbone: Backbone, problem: ProblemType = SINGLE_LABEL) -> Trial:
    (found,) = trials([resolve(recipe)], backbone, CLASSES, problem)
    return found


def fitter(recipe: str, backbone: Backbone) -> ContrastiveFitter:
    found = trial(recipe, backbone).fitter
    assert isinstance(found, ContrastiveFitter)
    return found


def learned(recipe: str, backbone: Backbone, task: TrainingTask, seed: int = 0) -> FittedHead:
    """The head of a whole search and training."""
    own = fitter(recipe, backbone)
    found = result(own.search(task, SPLITS, [seed]))
    (only,) = own.learn(task, found, SPLITS.train, SPLITS.test, [seed])
    return only


def vectors(backbone: Backbone, task: TrainingTask, *, steps: int) -> Tensor:
    """The vectors of all rows, of length 1, after so many steps on them."""
    own, rng = fitter("mean+linear?tune=setfit", backbone), IsolatedRng()
    texts = Texts.of(task, own.resolved, backbone)
    module = own.new(task, texts, rng)
    if steps:
        setfit_trainer.learn_pairs(
            module, texts, task, EVERY, rate=1e-2, steps=steps, seed=0, rng=rng
        )
    return normalize(module.features(texts, EVERY), dim=-1)


def apart(found: Tensor, targets: Tensor) -> float:
    """By how much texts of one class are nearer each other than those of two, by the cosine."""
    cosines, same = found @ found.T, targets[:, None] == targets
    return float(cosines[same & ~torch.eye(len(targets), dtype=torch.bool)].mean()) - float(
        cosines[~same].mean()
    )


# --- The base model learns what belongs together, and nothing else is touched.


def test_texts_of_one_class_come_nearer(small: Backbone) -> None:
    task = task_of()
    assert apart(vectors(small, task, steps=0), task.targets) < 0.1
    assert apart(vectors(small, task, steps=60), task.targets) > 0.4


def test_a_seed_gives_the_same_to_the_bit_and_another_does_not(small: Backbone) -> None:
    task = task_of(config=QUICK)
    one, same, other = (learned("mean+linear?tune=setfit", small, task, seed) for seed in (0, 0, 1))
    assert torch.equal(one.logits, same.logits)
    assert one.base
    assert same.base
    assert one.base.digest == same.base.digest
    assert not torch.equal(one.logits, other.logits)


def test_a_training_touches_nothing_else(
    small: Backbone,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {name: own.clone() for name, own in small.model.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]
    learned("mean+linear?tune=setfit", small, task_of(config=QUICK))
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(np.random.get_state()[1], states[2])
    assert all(torch.equal(own, before[name]) for name, own in small.model.state_dict().items())
    assert all(own.grad is None for own in small.model.parameters())


def test_others_draw_random_numbers_while_the_optimizer_steps(small: Backbone) -> None:
    drawn = threading.Event()

    def draw() -> None:
        with IsolatedRng().rolling():
            drawn.set()

    class Asking(setfit_trainer._Turns):
        def on_pre_optimizer_step(self, *given: Any, **named: Any) -> None:
            super().on_pre_optimizer_step(*given, **named)
            threading.Thread(target=draw).start()
            assert drawn.wait(10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setfit_trainer, "_Turns", Asking)
        asked = vectors(small, task_of(), steps=2)
    assert torch.equal(asked, vectors(small, task_of(), steps=2))


def test_pairs_of_many_rows_are_drawn_within_shares(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, pairs = list[int](), setfit_trainer.ContrastiveDataset

    def noted(texts: list[str], labels: list[int], *given: Any, **named: Any) -> Any:
        sizes.append(len(texts))
        assert {*labels} == {*range(CLASSES)}
        return pairs(texts, labels, *given, **named)

    monkeypatch.setattr(setfit_trainer, "AT_ONCE", 40)
    monkeypatch.setattr(setfit_trainer, "ContrastiveDataset", noted)
    vectors(small, task_of(), steps=3)
    assert sizes == [32, 32, 32]


# --- Any head that learns from one vector a text comes after.


@pytest.mark.parametrize("recipe", ["mean+ridge?tune=setfit", "mean+linear?tune=setfit"])
def test_settings_of_a_head_are_chosen_on_rows_that_the_base_model_has_not_learned(
    recipe: str, small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored, judge = list[Tensor](), base.judge_settings

    def noted(*given: Any) -> Any:
        scored.append(given[-1])
        return judge(*given)

    monkeypatch.setattr(base, "judge_settings", noted)
    folds = (torch.arange(len(SPLITS.train[0])) % 5,)
    result(fitter(recipe, small).search(task_of(config=QUICK), replace(SPLITS, folds=folds), [0]))
    assert scored
    assert all(torch.equal(rows, SPLITS.development[0]) for rows in scored)


@pytest.mark.parametrize(
    "recipe",
    slow.but_each(
        3,
        [
            "mean+linear?normalise=true&tune=setfit",
            "cls+bert?tune=setfit",
            "mean+ridge?tune=setfit",
        ],
    ),
)
def test_a_head_answers_from_the_tuned_vectors(recipe: str, small: Backbone, rows: Corpus) -> None:
    (found,) = classifiers([recipe], rows, small, TUNED)
    assert found.head.base
    assert found.head.base.tune == "setfit"
    texts = rows.texts[:5]
    frozen = replace(found, head=replace(found.head, base=None, base_parameters=0))
    assert not torch.allclose(found.logits(texts), frozen.logits(texts), rtol=1e-2)
    assert found.head.chosen["base_rate"] == TUNED.tuning_rate
    assert found.head.chosen["base_epochs"] == 1


@pytest.mark.parametrize("top", ["logistic", "knn"])
def test_the_time_is_told_whatever_the_head(top: str, small: Backbone) -> None:
    own = fitter(f"mean+{top}?tune=setfit", small)
    pace = pace_of(own, task_of())
    assert pace.step > 0
    assert pace.answer > 0
    assert own.texts_a_row > 2  # two of a pair, with more padding than in sorted batches


# --- A stop, a kill, and what cannot be.


def test_a_stop_ends_it_within_a_step(small: Backbone) -> None:
    task = task_of(config=replace(QUICK, epochs=100))
    timer = threading.Timer(0.3, task.stop.set)
    timer.start()
    with pytest.raises(Interrupted):
        learned("mean+linear?tune=setfit", small, task)
    stopped = time.monotonic()
    timer.join()
    assert time.monotonic() - stopped < 1
    with IsolatedRng().rolling():  # the random numbers are free again
        pass


def test_what_is_over_is_not_trained_again(
    small: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, trained = task_of(config=QUICK, workspace=tmp_path), list[int]()
    own = setfit_trainer.learn_pairs

    def counted(*given: Any, **named: Any) -> int:
        trained.append(named["steps"])
        return own(*given, **named)

    monkeypatch.setattr(setfit_trainer, "learn_pairs", counted)
    first = learned("mean+linear?tune=setfit", small, task)
    assert trained == [3, 4]  # of 48 rows, and of 64
    again = learned("mean+linear?tune=setfit", small, task)
    assert len(trained) == 2
    assert torch.equal(first.logits, again.logits)
    learned("mean+linear?tune=setfit", small, replace(task, targets=1 - task.targets.clamp_max(1)))
    assert len(trained) == 4


def test_rows_of_one_class_make_no_pairs(small: Backbone) -> None:
    task = replace(task_of(config=QUICK), targets=torch.zeros(ROWS, dtype=torch.long))
    with pytest.raises(RecipeError):
        learned("mean+linear?tune=setfit", small, task)


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ("mean+linear?tune=setfit", MULTI_LABEL),
        ("mean+linear?tune=setfit", REGRESSION),
        ("mean+linear?pair=uv&tune=setfit", SINGLE_LABEL),
        ("attention+linear?tune=setfit", SINGLE_LABEL),
        ("mean@mix+linear?tune=setfit", SINGLE_LABEL),
        ("mean+linear?late=true&tune=setfit", SINGLE_LABEL),
        ("mean+linear?tune=setfit2", SINGLE_LABEL),
    ],
)
def test_what_has_no_pairs_of_vectors_is_refused(
    recipe: str, problem: ProblemType, small: Backbone
) -> None:
    with pytest.raises(RecipeError):
        trial(recipe, small, problem)


def test_without_the_library_it_is_said_how_to_get_it(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(RecipeError) as error:
        trial("mean+linear?tune=setfit", small)
    assert "pip install setfit" in error.value.hint
    assert trial("mean+linear?tune=full", small)
