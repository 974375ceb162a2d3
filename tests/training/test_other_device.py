"""What learns or explains on another device gives the numbers of the processor.

Where CUDA_VISIBLE_DEVICES names a GPU it is that. Elsewhere it is a registered device with real
numbers, whose tensors refuse to meet those of the processor: a tensor left on the wrong device
fails here as it would on a GPU.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from elsewhere import elsewhere
from small_training_data import blobs
from torch import Tensor, nn
from torch.testing import assert_close
from tuning_tasks import CLASSES, EVERY, task_of

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, lying_on
from heads.backbone.states import Encoded, States
from heads.classifier.module import RecipeModule
from heads.events import result
from heads.features.featurizer import Featurizer
from heads.features.token_states import different, keep_states
from heads.interpret import integrated_gradients as gradients
from heads.parts.registry import head, layers, pooling
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.rng import IsolatedRng
from heads.training.finetuning.learning import TuningRun, TuningSettings
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.finetuning.plan import plan_of
from heads.training.fitters.adamw import AdamWCopies, CopyData
from heads.training.fitters.batched import BatchedHeads, CopySettings
from heads.training.fitters.held_out import lda_held_out, ridge_held_out
from heads.training.fitters.logistic import LinearProblems, solve
from heads.training.objective import Objective
from heads.training.whitening import basis

TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")
ROWS, WIDTH, STEPS = 64, 8, 3
VECTORS, TARGETS = blobs(ROWS, CLASSES, apart=0.5, width=WIDTH, seed=2)
# Other poolings read what a tiny BERT does not have: modules, vectors of a file, a prompt.
POOLINGS = [name for name in pooling if name not in ("trained", "vectors", "mask_token")]
READINGS = [*POOLINGS, *(f"mean@{name}" for name in layers if name != "decoder")]
SOLVED = [name for name, part in head.items() if part.solve]
LEARNED = [name for name, part in head.items() if not part.is_solved]


@pytest.fixture
def there() -> Iterator[torch.device]:
    """A second device."""
    cuda = torch.device("cuda", 0)
    with contextlib.nullcontext(cuda) if torch.cuda.is_available() else elsewhere() as device:
        yield device


@pytest.fixture
def still(copied: Callable[..., Path]) -> Backbone:
    """A tiny BERT without dropout, which other devices draw in another way."""
    folder = copied(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return loading.load(str(folder))


def on(device: torch.device, backbone: Backbone) -> Backbone:
    """A base model that computes there, by Transformers."""
    return replace(backbone, model=lying_on(device, backbone.model))


def same(found: Tensor, wanted: Tensor, device: torch.device, near: float = 1e-5) -> None:
    assert found.device.type == device.type
    assert_close(found.detach().to(HERE), wanted.detach(), rtol=1e-4, atol=near)


def goals(rows: int = ROWS) -> Tensor:
    return nn.functional.one_hot(TARGETS[:rows], CLASSES).float()


def whole(backbone: Backbone, text: Encoded) -> States:
    cut = backbone.states([text])
    return backbone.whole_text(text, cut) if text.windows else cut


def check_reading(recipe: str, backbone: Backbone, device: torch.device) -> None:
    resolved = resolve(recipe)
    with IsolatedRng().rolling(), torch.no_grad():
        reader = Featurizer(resolved, backbone)
        both = [on(one, backbone.for_recipe(resolved)) for one in (HERE, device)]
        texts = both[0].encode(TEXTS)
        for read in (lambda one: one.forward(texts), lambda one: whole(one, texts[1])):
            states = map(read, both)
            here, there = (copy.deepcopy(reader).to(s.mask.device)(s).vectors for s in states)
            same(there, here, device)


@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_is_pooled_there(reading: str, still: Backbone, there: torch.device) -> None:
    check_reading(f"{reading}+linear", still, there)


@pytest.mark.parametrize("reading", ["mean", "cls"])
def test_windows_are_pooled_there(reading: str, still: Backbone, there: torch.device) -> None:
    check_reading(f"{reading}+linear?long=windows&stride=1", replace(still, tokens=6), there)


def solved(name: str, device: torch.device, rows: int = ROWS, **options: Any) -> Tensor:
    """What a head answers that was solved there."""
    resolved = resolve(f"mean+{name}")
    chain, solver = resolved.chain(WIDTH, CLASSES).to(device), head[name].solve
    known = {
        n: v for n, v in resolved.head_options.items() if n in ("C", "alpha", "shrinkage", "k")
    }
    assert callable(solver)
    solver(chain, VECTORS[:rows].to(device), goals(rows).to(device), **known, **options)
    return chain.eval()(VECTORS.to(device))


@pytest.mark.parametrize("many", [False, True], ids=["one class", "several"])
@pytest.mark.parametrize("name", SOLVED)
def test_a_solver_solves_there(name: str, many: bool, there: torch.device) -> None:
    for rows in (ROWS, WIDTH - 2):
        same(solved(name, there, rows, many=many), solved(name, HERE, rows, many=many), there)


BALANCED = {"loss": "ovr", "balance": torch.tensor([[1.0] * CLASSES, [2.0] * CLASSES])}
LOSSES = [*({"loss": name} for name in ("softmax", "ovr", "ordinal", "hinge")), BALANCED]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("held_out", [ridge_held_out, lda_held_out])
def test_settings_are_chosen_there(held_out: Any, many: bool, there: torch.device) -> None:
    groups, settings = torch.arange(ROWS) // 2, [0.1, 0.5]  # rows are counted on the processor
    moved = held_out(VECTORS.to(there), goals().to(there), groups, settings, many=many)
    wanted = held_out(VECTORS, goals(), groups, settings, many=many)
    for logits, other in zip(moved, wanted, strict=True):
        same(logits, other, there)


@pytest.mark.parametrize("settings", slow.but_each(2, [*LOSSES, {"focal": 2.0}]))
def test_linear_heads_are_solved_there(settings: dict[str, Any], there: torch.device) -> None:
    found, objective = [], Objective(problem=SINGLE_LABEL, outputs=CLASSES, **settings)
    for device in (HERE, there):
        vectors = VECTORS.to(device)
        axes = basis(vectors, standardise=True, centred=True)
        problems = LinearProblems(
            vectors=axes.seen(vectors, torch.float32),
            targets=TARGETS.to(device),
            objective=objective,
            weights=torch.ones(ROWS, device=device),
            strength=torch.tensor([0.1, 1.0], device=device),
            bias=True,
        )
        weight, bias = solve(problems, iterations=50, check=lambda: None, near=1e-4)
        state = axes.folded({"one.weight": weight[0], "one.bias": bias[0]}, "one")
        found.append((vectors @ state["one.weight"].T + state["one.bias"]).log_softmax(dim=-1))
    same(found[1], found[0], there, near=5e-3)


@pytest.mark.parametrize("name", slow.but(LEARNED, "linear", "roberta"))
def test_copies_of_a_head_learn_there(name: str, there: torch.device) -> None:
    found = []
    for device in (HERE, there):
        with IsolatedRng().rolling():
            chains = [resolve(f"mean+{name}").chain(WIDTH, CLASSES).to(device) for _ in range(2)]
        ones, rows = torch.ones(ROWS, device=device), EVERY[:ROWS].to(device)
        own = {"vectors": VECTORS.to(device), "targets": TARGETS.to(device), "index": rows}
        task = replace(task_of(), weights=ones, counts=ones, texts=(), **own)
        data = [CopyData(rows=rows, vectors=task.vectors)] * 2
        choices, seeds = [CopySettings(learning_rate=1e-2)] * 2, [0, 1]
        learning = AdamWCopies(BatchedHeads(chains, seeds), task, data, choices, seeds, batch=32)
        learning.learn(STEPS)
        learning.keep([1])
        learning.learn(2 * STEPS)
        found.append(learning.state(0))
    for key, wanted in found[0].items():
        same(found[1][key], wanted, there)


def losses(recipe: str, backbone: Backbone, device: torch.device, **more: Any) -> list[float]:
    """Of some steps of a base model that learns with a head there, and its answers after them."""
    resolved, rng, task = resolve(recipe), IsolatedRng(), task_of(32)
    plan = plan_of(resolved, backbone)
    if plan.cut is not None:
        texts, pairs, _ = different(task.texts, task.pairs)
        every, reads = range(len(texts)), plan.reads
        kept = keep_states([resolved], texts, pairs, backbone, "exact", every, reads)
        task = replace(task, cut_states=result(kept))
    more |= {"device": device, "begins_at_cut": plan.cut is not None}
    with rng.rolling():
        module = TunedRecipe(resolved, backbone, CLASSES, plan, **more)
    texts_of = Texts.of(task, resolved, backbone)
    settings = TuningSettings(learning_rate=1e-3, epochs=2)
    run = TuningRun(module, texts_of, task, EVERY[:32], settings, rng, 0)
    found = [run.step(EVERY[:32], device) for _ in range(STEPS)]
    run.load_checkpoint(run.checkpoint())
    assert all(one.device == HERE for one in module.tuned_base().tensors.values())
    return [*found, *module.answers(texts_of, EVERY[:4]).flatten().tolist()]


@pytest.mark.parametrize("tune", ["full", "last1", "lora", "bitfit", "layernorm"])
@pytest.mark.parametrize("spares", slow.but([False, True], False))
@pytest.mark.parametrize("reading", slow.but(["mean+linear", "attention+mlp"], "mean+linear"))
def test_a_base_model_learns_there(
    reading: str, tune: str, spares: bool, still: Backbone, there: torch.device
) -> None:
    recipe = f"{reading}?dropout=0&tune={tune}"
    wanted, found = (losses(recipe, still, one, spares_memory=spares) for one in (HERE, there))
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    assert wanted[STEPS - 1] < wanted[0]


def scores(backbone: Backbone, device: torch.device) -> list[Tensor]:
    """What each token adds to an answer, and the gradient at the text, computed there."""
    with IsolatedRng().rolling():
        module = RecipeModule(resolve("mean+mlp"), backbone, CLASSES).eval().to(device)
    own = on(device, backbone)
    entry = gradients.input_embeddings(own, own.encode(TEXTS[1:2])[0])
    weights = torch.tensor([1.0, -0.5, -0.5], device=device)
    pull = gradients.embedding_gradients(module, weights, [entry])
    assert pull is not None
    aim = gradients.ExplainedLogits(module=module, weights=weights, pull=pull)
    return [gradients.integrated([aim], [entry], 32)[0][0], pull.gradients[0]]


def test_tokens_are_given_their_scores_there(still: Backbone, there: torch.device) -> None:
    for found, wanted in zip(scores(still, there), scores(still, HERE), strict=True):
        same(found, wanted, there)
