"""Base models that learn with a head: Trainer's losses, a cut that changes none, a base apart."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from torch import Tensor
from torch.utils.data import DataLoader
from tuning_tasks import CLASSES, ROWS, task_of

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.errors import RecipeError
from heads.events import result
from heads.features.token_states import different, keep_states
from heads.parts.resolve import resolve
from heads.rng import IsolatedRng
from heads.training.finetuning.learning import TuningRun, TuningSettings, batches
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.finetuning.plan import plan_of
from heads.training.task import TrainingTask

SETTINGS = TuningSettings(learning_rate=1e-3, epochs=3, batch=8)


def begun(
    recipe: str,
    backbone: Backbone,
    task: TrainingTask,
    settings: TuningSettings = SETTINGS,
    seed: int = 0,
    **more: Any,
) -> tuple[TuningRun, Texts]:
    resolved, rng = resolve(recipe), IsolatedRng(seed)
    texts = Texts.of(task, resolved, backbone)
    with rng.rolling():
        plan = plan_of(resolved, backbone)
        module = TunedRecipe(resolved, backbone, CLASSES, plan, **more)
    rows = torch.arange(len(task.targets))
    return TuningRun(module, texts, task, rows, settings, rng, seed), texts


@pytest.fixture
def loaded(tiny: Callable[..., Path]) -> Callable[..., Backbone]:
    def load(family: str = "bert", kind: str = "Model") -> Backbone:
        return loading.load(str(tiny(family, kind)))

    return load


# --- What is learned, told from the graph.


@pytest.mark.parametrize(
    ("recipe", "depths", "cut"),
    [
        ("cls+linear?tune=full", {0, 1, 2}, None),
        ("cls+linear?tune=last1", {2}, 1),
        ("cls+linear?tune=last2", {1, 2}, None),  # the embeddings alone are not worth keeping
        ("cls@1+linear?tune=full", {0, 1}, None),
        ("pooler+linear?tune=last1", {2}, 1),
        ("cls+linear?tune=lora", {1, 2}, None),
    ],
)
def test_a_plan_names_what_the_reading_depends_on(
    recipe: str, depths: set[int], cut: int | None, loaded: Callable[..., Backbone]
) -> None:
    plan = plan_of(resolve(recipe), loaded())
    assert {*plan.depths.values()} == depths
    assert plan.cut == cut
    assert any("pooler" in name for name in plan.depths) == recipe.startswith("pooler")


@pytest.mark.parametrize("recipe", ["cls+linear?tune=last3", "cls@1+linear?tune=last1"])
def test_what_there_is_not_to_learn_is_refused(
    recipe: str, loaded: Callable[..., Backbone]
) -> None:
    with pytest.raises(RecipeError):
        plan_of(resolve(recipe), loaded())


def test_layers_that_share_their_weights_have_no_last_ones(
    tiny: Callable[..., Path], loaded: Callable[..., Backbone]
) -> None:
    """Of T5's layers the first holds the positions of all; it stays, and the last is learned."""
    plan = plan_of(resolve("mean+linear?tune=last1"), loaded("t5"))
    assert not any("relative_attention_bias" in name for name in plan.depths)
    assert plan.depths


# --- The field's own training, step by step.


class Plain(transformers.Trainer):
    """Transformers' Trainer, given its batches; it notes the loss of every step."""

    def __init__(self, given: list[dict[str, Tensor]], **settings: Any) -> None:
        super().__init__(train_dataset=given, **settings)
        self.given, self.noted = given, list[float]()

    def get_train_dataloader(self) -> Any:
        return DataLoader(self.given, batch_size=None)

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        loss = super().compute_loss(*given, **named)
        self.noted.append(float(loss.detach()))
        return loss


def test_full_gives_the_losses_of_the_trainer_on_the_true_class(
    copied: Callable[..., Path], tmp_path: Path
) -> None:
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    folder = copied("roberta", classifier_dropout=0.0, **none)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)
    backbone = loading.load(str(folder))
    task = task_of(160)
    settings = TuningSettings(
        learning_rate=1e-3, head_rate=1e-3, decay=1.0, weight_decay=0.01, epochs=1, batch=8
    )
    run, texts = begun("cls+roberta?dropout=0.0&tune=full", backbone, task, settings)
    own = {f"classifier.{name}": t for name, t in run.module.recipe.head.state_dict().items()}
    named = {name: own[f"classifier.{name.removeprefix('classifier.')}"] for name in own}
    model.load_state_dict({**model.state_dict(), **named})
    order = batches(torch.arange(160), texts, 8, 0, 0)
    given = [
        {**backbone.filled([texts.first[n] for n in rows.tolist()]), "labels": task.targets[rows]}
        for rows in order
    ]
    trainer = Plain(
        given,
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path / "trainer"),
            learning_rate=1e-3,
            weight_decay=0.01,
            warmup_steps=2,
            lr_scheduler_type="linear",
            max_steps=20,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            logging_strategy="no",
        ),
    )
    trainer.train()
    losses = [run.step(rows) for rows in order[:20]]
    assert losses[0] != pytest.approx(losses[-1], abs=1e-2)  # it does learn
    assert losses == pytest.approx(trainer.noted, abs=1e-5)


# --- Memory is counted, so that it does not hang on what the process did before.


def test_memory_is_that_of_weights_gradients_moments_and_activations(
    loaded: Callable[..., Backbone],
) -> None:
    backbone, task, found = loaded("bert"), task_of(), dict[str, int]()
    for way in ("full", "bitfit", "full again"):
        run, texts = begun(f"mean+linear?tune={way.split()[0]}", backbone, task)
        order = texts.lengths(torch.arange(ROWS)).argsort()
        weights = sum(own.nbytes for own in run.module.state_dict().values())
        learned = sum(own.nbytes for own in run.module.learned().values())
        run.step(order[:8])
        short = run.memory.peak
        run.step(order[-8:])
        assert weights + 3 * learned < short < run.memory.peak
        found[way] = run.memory.peak
    assert found["bitfit"] < found["full"] == found["full again"]


def test_a_training_that_is_over_holds_no_memory(loaded: Callable[..., Backbone]) -> None:
    run, _ = begun("mean+linear?tune=full", loaded("bert"), task_of())
    run.step(torch.arange(8))
    kept = [weakref.ref(own) for own in run.module.parameters()]
    del run
    gc.collect()
    assert not any(own() is not None for own in kept)


# --- The cut: the same losses from states that are kept.


FAMILIES = ("bert", "roberta", "distilbert", "electra", "mpnet", "modernbert", "gpt2", "llama")


@pytest.mark.parametrize("family", slow.but(FAMILIES, "bert", "modernbert", "gpt2"))
def test_a_kept_cut_gives_the_losses_of_the_whole_pass(
    family: str, loaded: Callable[..., Backbone]
) -> None:
    backbone, task = loaded(family), task_of()
    recipe = "mean+linear?dropout=0.0&tune=last1"
    plan = plan_of(resolve(recipe), backbone)
    assert plan.cut == 1, "this family's layers hand on more than their states"
    whole, texts = begun(recipe, backbone, task)
    kept = replace(task, cut_states=_kept(task, backbone, plan.reads))
    cut, own = begun(recipe, backbone, kept, begins_at_cut=True)
    whole.module.base.eval()  # the tiny models' dropout is drawn in another order
    cut.module.base.eval()
    lower: Any = cut.module.base.get_submodule(plan.stack)[0]
    lower.requires_grad_(False)
    for parameter in lower.parameters():
        parameter.fill_(torch.nan)  # whoever still computes it learns nothing
    for module in (whole.module, cut.module):
        module.train = lambda mode=True, own=module: own  # type: ignore[method-assign]
    order = batches(torch.arange(ROWS), texts, 8, 0, 0)
    losses = [[run.step(rows) for rows in order] for run in (whole, cut)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert torch.allclose(
        whole.module.answers(texts, torch.arange(ROWS)),
        cut.module.answers(own, torch.arange(ROWS)),
        atol=1e-4,
    )


def _kept(task: TrainingTask, backbone: Backbone, layers: tuple[int, ...]) -> Any:
    texts, pairs, _ = different(task.texts, task.pairs)
    every = range(len(texts))
    return result(
        keep_states([resolve("mean+linear")], texts, pairs, backbone, "exact", every, layers)
    )


def test_what_layers_hand_on_besides_is_no_cut(loaded: Callable[..., Backbone]) -> None:
    """T5's first layer hands the positions on to all others: it is computed in every step."""
    assert plan_of(resolve("mean+linear?tune=last1"), loaded("t5")).cut is None


# --- A copy of its own, whose dropout is on where it learns.


@pytest.mark.parametrize(
    "tune", slow.but(["full", "last1", "lora", "bitfit", "layernorm"], "full", "last1", "lora")
)
def test_training_leaves_the_shared_base_as_it_is(
    tune: str, loaded: Callable[..., Backbone]
) -> None:
    backbone, task = loaded(), task_of(24)
    before = {name: t.clone() for name, t in backbone.model.state_dict().items()}
    one, texts = begun(f"mean+linear?tune={tune}", backbone, task)
    other, _ = begun(f"mean+linear?tune={tune}", backbone, task)
    alone, _ = begun(f"mean+linear?tune={tune}", backbone, task)
    order = batches(torch.arange(24), texts, 8, 0, 0)
    told = [(one.step(rows), other.step(rows)) for rows in order]  # by turns
    assert [first for first, _ in told] == [alone.step(rows) for rows in order]
    assert [first for first, _ in told] == [second for _, second in told]
    own = backbone.model.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in before.items())
    assert not any(parameter.requires_grad for parameter in backbone.model.parameters())
    learned = one.module.tuned_base()
    assert learned.tensors
    tuned = learned.onto(backbone)
    assert tuned.revision != backbone.revision
    assert any(not torch.equal(t, own[n]) for n, t in tuned.model.state_dict().items())
    encoded = backbone.encode(["the cat sat on a mat", "dog ran"])
    rows = [torch.allclose(a, b) for a, b in zip(
        tuned.states(encoded).hidden, one.module.eval()._backbone.states(encoded).hidden,
        strict=True,
    )]  # fmt: skip
    assert all(rows)


def test_dropout_is_on_in_what_learns_and_off_below(loaded: Callable[..., Backbone]) -> None:
    def dropping(recipe: str) -> set[str]:
        run, _ = begun(recipe, loaded(), task_of(8))
        named = run.module.train().base.named_modules()
        return {n for n, m in named if isinstance(m, torch.nn.Dropout) and m.training}

    every, above = dropping("cls+linear?tune=full"), dropping("cls+linear?tune=last1")
    assert any(name.startswith("embeddings") for name in every)
    assert above
    assert all(".layer.1." in f".{name}." for name in above)
    assert {name for name in every if ".layer.1." in f".{name}."} == above


# --- Where it goes on.


def test_a_training_goes_on_from_its_checkpoint_to_the_same_numbers(
    loaded: Callable[..., Backbone], tmp_path: Path
) -> None:
    recipe, backbone, task = "mean+roberta?tune=full", loaded(), task_of()
    whole, _ = begun(recipe, backbone, task)
    losses = [loss for _ in range(3) for loss in whole.learn()]
    first, _ = begun(recipe, backbone, task)
    steps = first.learn()
    told = [next(steps) for _ in range(5)]
    path = tmp_path / "kept.pt"
    torch.save(first.checkpoint(), path)
    again, _ = begun(recipe, backbone, task, seed=0)
    again.load_checkpoint(torch.load(path, weights_only=True))
    told += list(again.learn())
    assert len(told) == again.epoch_steps
    told += [loss for _ in range(2) for loss in again.learn()]
    assert told == losses
