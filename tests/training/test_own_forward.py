"""Whatever a head is made of, what is trained is what its own forward computes."""

from collections import OrderedDict
from collections.abc import Iterator

import pytest
import torch
from odd_heads import ODD, registered
from quick_heads import classifiers
from small_training_data import WIDTH, accuracy, blobs, cells, lesson_of, result, training_data_of
from torch import nn
from torch.nn.functional import cross_entropy

from heads.backbone.backbone import Backbone
from heads.classifier.calibration import divides
from heads.classifier.module import RecipeModule
from heads.data.corpus import Corpus
from heads.errors import RecipeError
from heads.parts.modules import leaves
from heads.parts.registry import head
from heads.parts.resolve import resolve
from heads.problem import REGRESSION
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig
from heads.training.fitters import adamw, successive_halving
from heads.training.fitters.adamw import AdamWCopies, CopyData
from heads.training.fitters.batched import BatchedHeads, CopySettings
from heads.training.fitters.logistic import LinearFitter

CLASSES = 3
LEARNED = [name for name, part in head.items() if not part.is_solved]


@pytest.fixture(autouse=True)
def _odd() -> Iterator[None]:
    with registered():
        yield


def made(name: str, seed: int) -> nn.Module:
    """A head whose every learned number is drawn."""
    with IsolatedRng(seed).rolling(), torch.no_grad():
        found = head[name].make(WIDTH, CLASSES)
        for tensor in found.parameters():
            tensor.add_(torch.randn_like(tensor) * 0.1)
    return found


@pytest.mark.parametrize("name", [*LEARNED, *ODD])
def test_what_the_trainer_computes_is_the_head(name: str) -> None:
    chains = [made(name, seed) for seed in range(3)]
    stack = BatchedHeads(chains, [0, 1, 2])
    values = torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(1))
    for number, chain in enumerate(chains):
        state = stack.state(number)
        assert list(state) == list(chain.state_dict())
        for key, tensor in chain.state_dict().items():
            assert torch.equal(state[key], tensor)
            state[key].zero_()  # what comes out is no view of what is learned
    found = stack.logits(values, training=False)
    for number, chain in enumerate(chains):
        wanted = chain.eval()(values[number])
        assert torch.allclose(found[number], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ODD)
def test_gradients_are_those_of_its_forward(name: str) -> None:
    chains = [made(name, seed) for seed in range(2)]
    stack = BatchedHeads(chains, [0, 1])
    values = torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(9) % CLASSES
    found = stack.logits(values, training=True).requires_grad_()
    loss = torch.stack([cross_entropy(one, targets) for one in found]).sum()
    stack.learn(torch.autograd.grad(loss, found)[0])
    for number, chain in enumerate(chains):
        cross_entropy(chain.train()(values[number]), targets).backward()
        learned = [one for one in chain.parameters() if one.requires_grad]
        for own, alone in zip(stack.copies[number], learned, strict=True):
            assert own.grad is not None
            assert alone.grad is not None
            assert torch.allclose(own.grad, alone.grad, atol=1e-6)


@pytest.mark.parametrize("name", ODD)
def test_copies_that_go_on_alone_are_the_heads_that_they_say_they_are(name: str) -> None:
    vectors, targets = blobs(90, CLASSES, seed=3)
    rows, task = torch.arange(90), lesson_of(vectors, targets, CLASSES)
    chains = [made(name, seed) for seed in range(3)]
    before = [{key: one.clone() for key, one in chain.state_dict().items()} for chain in chains]
    choice = CopySettings(learning_rate=1e-2, weight_decay=1.0)
    data = [CopyData(rows=rows, vectors=vectors)] * 3
    copies = AdamWCopies(
        BatchedHeads(chains, [0, 1, 2]), task, data, [choice] * 3, [0, 1, 2], 32, parts=1
    )
    copies.learn(5)
    copies.keep([2, 0])
    copies.learn(9)
    for place, number in enumerate((2, 0)):
        state = copies.stack.state(place)
        alone = made(name, number)
        alone.load_state_dict(state)
        wanted = alone.eval()(vectors.clone())
        own = copies.stack.logits(vectors.expand(2, -1, -1), training=False)[place]
        assert torch.allclose(own, wanted, rtol=1e-4, atol=1e-4)
        fixed = {key for key, one in alone.named_parameters() if not one.requires_grad}
        fixed |= {key for key, _ in alone.named_buffers() if not key.startswith("norm.")}
        for key, tensor in before[number].items():
            assert torch.equal(state[key], tensor) == (key in fixed), key


@pytest.mark.parametrize("name", ODD)
def test_what_is_reported_is_what_the_head_answers(
    small: Backbone, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(successive_halving, "CAP", 120)
    vectors, targets = blobs(240, apart=1.5, seed=4)
    training_data = training_data_of(vectors, targets, ExperimentConfig(folds=2, curve=False))
    (one,) = result([f"mean+{name}"], small, training_data).values()
    assert not isinstance(one.trial.fitter, LinearFitter)
    for learned, rows in zip(one.learned, training_data.splits.test, strict=True):
        alone = head[name].make(WIDTH, CLASSES)
        alone.load_state_dict(learned.state)
        with torch.no_grad():
            assert torch.allclose(alone.eval()(vectors[rows]), learned.logits, atol=1e-4)
    assert accuracy(one, training_data) > 0.8


def test_a_solver_of_linear_heads_takes_no_other_head(small: Backbone) -> None:
    """The one optimum of a linear layer is not that of a module that has one."""
    training_data = training_data_of(*blobs(90))
    for name in ("flip", "hooked", "bare"):
        (trial,) = cells([f"mean+{name}"], small, training_data)
        assert not isinstance(trial.fitter, LinearFitter)
        with pytest.raises(RecipeError):
            resolve(f"mean+{name}?standardise=true")


def test_numbers_are_learned_by_heads_that_end_in_a_linear_layer_alone(small: Backbone) -> None:
    vectors, _ = blobs(90)
    numbers = training_data_of(vectors, vectors[:, 0], problem=REGRESSION)
    assert cells(["mean+skip", "mean+held"], small, numbers)
    for name in ("flip", "branches", "twice", "shifted"):
        with pytest.raises(RecipeError):
            cells([f"mean+{name}"], small, numbers)


def test_a_module_with_a_forward_of_its_own_is_one_layer() -> None:
    names = {name: [key for key, _ in leaves(made(name, 0))] for name in ODD}
    whole = {name: [""] for name in ("flip", "branches", "twice", "shifted", "bare", "doubled")}
    assert names == whole | {
        "skip": ["skip", "out"],
        "hooked": ["out"],
        "held": ["dense", "relu", "out"],
        "in_place": ["first", "dense", "relu", "out"],
        "projected": ["projected", "out"],
        "sliced": ["halves", "dense", "tanh", "whole", "out"],
    }


def test_questions_begin_at_their_rates_where_a_linear_layer_gives_the_logits() -> None:
    """Of a module with its own forward nobody knows which of its layers does."""
    vectors, targets = blobs(60)
    task = lesson_of(vectors, targets, CLASSES)
    for name in ("flip", "branches"):
        chain = made(name, 0)
        before = {key: one.clone() for key, one in chain.state_dict().items()}
        adamw.at_base_rates(chain, task, torch.arange(60))
        assert all(torch.equal(one, before[key]) for key, one in chain.state_dict().items())


@pytest.mark.parametrize("name", ODD)
def test_late_it_is_applied_to_each_token_as_to_a_vector(small: Backbone, name: str) -> None:
    with IsolatedRng().rolling():
        module = RecipeModule(resolve(f"mean+{name}?late=true"), small, CLASSES).eval()
    states = small.states(small.encode(["the cat sat on a mat", "a dog"]))
    with torch.no_grad():
        found = module(states)
        for row in range(2):
            tokens = states.layer(-1)[row][states.mask[row] > 0]
            assert torch.allclose(found[row], module.head(tokens.clone()).mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("name", ["doubled", "in_place"])
@pytest.mark.parametrize("late", ["false", "true"])
def test_a_head_that_works_in_place_changes_no_states(
    small: Backbone, name: str, late: str
) -> None:
    module = RecipeModule(resolve(f"cls+{name}?late={late}"), small, CLASSES).eval()
    states = small.states(small.encode(["the cat sat on a mat", "a dog"]))
    with torch.no_grad():
        assert torch.equal(module(states), module(states))


def test_a_forward_without_a_gradient_is_refused(small: Backbone, rows: Corpus) -> None:
    class Detached(nn.Module):
        def __init__(self, width: int, classes: int) -> None:
            super().__init__()
            self.linear = nn.Linear(width, classes)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.linear(values).detach()

    @head
    def detached(width: int, classes: int) -> nn.Module:
        """One linear layer, detached."""
        return Detached(width, classes)

    try:
        with pytest.raises(RecipeError):
            classifiers(["mean+detached"], rows, small)
    finally:
        del head._parts["detached"]


def test_a_head_with_nothing_to_learn_answers_what_its_forward_gives(
    small: Backbone, rows: Corpus
) -> None:
    @head
    def fixed(width: int, classes: int) -> nn.Module:
        """One linear layer that is never changed."""
        return nn.Sequential(OrderedDict(out=nn.Linear(width, classes).requires_grad_(False)))

    try:
        (answering,) = classifiers(["mean+fixed"], rows, small)
        assert answering.logits(rows.texts).isfinite().all()
    finally:
        del head._parts["fixed"]


def test_a_layer_that_nobody_knows_is_neither_left_out_nor_divided() -> None:
    for name in ("flip", "branches", "twice", "shifted"):
        with pytest.raises(RecipeError):
            resolve(f"mean+{name}?without=linear")
        assert not divides(made(name, 0))
    assert [key for key, _ in leaves(resolve("mean+skip?without=skip").chain(8, 3))] == ["out"]
    assert divides(made("skip", 0))
