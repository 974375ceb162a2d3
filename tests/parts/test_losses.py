"""Every loss on the shelf is under these contracts by being there."""

import pytest
import torch
from expected_errors import refusing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot
from torch.testing import assert_close

from heads.errors import RecipeError
from heads.parts.losses import hinge_gradient, near, squared
from heads.parts.registry import Part
from heads.parts.resolve import loss, resolve

CLASSES = 4
LOSSES = list(loss.values())
every_loss = pytest.mark.parametrize("part", LOSSES, ids=lambda part: part.name)
EXTREME = (0.0, 1e-30, 40.0, 1e3, 1e4, 1e30)

unhurried = settings(deadline=None)
logits_of = st.lists(
    st.lists(st.floats(-30, 30, width=32), min_size=CLASSES, max_size=CLASSES),
    min_size=1,
    max_size=6,
)


def goals_of(part: Part, targets: Tensor) -> Tensor:
    """What a loss is given for classes (n,): as `Objective` and `Order` give it."""
    return near(targets, CLASSES) if part.name == "ordinal" else one_hot(targets, CLASSES).float()


def some(rows: int = 6) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(rows)
    return 3 * torch.randn(rows, CLASSES, generator=rng), torch.arange(rows) % CLASSES


@every_loss
@pytest.mark.parametrize("ahead", [(), (3,), (2, 3)])
def test_is_a_number_a_row_whatever_stands_ahead(part, ahead):
    logits, targets = some()
    goals = goals_of(part, targets)
    for focal in (0.0, 2.0):
        alone = part(logits, goals, focal=focal)
        found = part(logits.expand(*ahead, *logits.shape), goals, focal=focal)
        assert found.shape == (*ahead, len(logits))
        assert_close(found, alone.expand(found.shape))
        each = [part(logits[row], goals[row], focal=focal) for row in range(len(logits))]
        assert_close(torch.stack(each), alone)


@unhurried
@given(logits_of, st.data())
def test_without_options_they_are_what_torch_has(rows, data):
    logits = torch.tensor(rows)
    targets = torch.tensor(
        data.draw(st.lists(st.integers(0, CLASSES - 1), min_size=len(rows), max_size=len(rows)))
    )
    goals = one_hot(targets, CLASSES).float()
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert_close(
        loss["softmax"](logits, goals), cross_entropy(logits, targets, reduction="none"), **close
    )
    wanted = binary_cross_entropy_with_logits(logits, goals, reduction="none").sum(dim=1)
    assert_close(loss["ovr"](logits, goals), wanted, **close)
    soft = near(targets, CLASSES)
    assert_close(
        loss["ordinal"](logits, soft), cross_entropy(logits, soft, reduction="none"), **close
    )


@every_loss
def test_gamma_of_0_is_none(part):
    logits, targets = some()
    goals = goals_of(part, targets)
    assert torch.equal(part(logits, goals, focal=0.0), part(logits, goals))
    assert_close(part(logits, goals, focal=1e-6), part(logits, goals), rtol=1e-4, atol=1e-5)


@unhurried
@given(logits_of, st.floats(0.1, 5), st.floats(0.1, 5))
def test_a_larger_gamma_never_counts_a_row_more(rows, one, other):
    logits = torch.tensor(rows)
    targets = torch.arange(len(rows)) % CLASSES
    low, high = sorted((one, other))
    for part in LOSSES:
        goals = goals_of(part, targets)
        plain, less, least = (part(logits, goals, focal=focal) for focal in (0.0, low, high))
        assert (less <= plain + 1e-5).all()
        assert (least <= less + 1e-5).all()


@pytest.mark.parametrize("name", ["softmax", "ovr"])
def test_a_row_that_is_right_already_counts_much_less_and_one_that_is_wrong_hardly(name):
    goals = one_hot(torch.tensor([0, 0]), CLASSES).float()
    logits = torch.tensor([[6.0, -6.0, -6.0, -6.0], [-6.0, 6.0, -6.0, -6.0]])
    plain, focal = loss[name](logits, goals), loss[name](logits, goals, focal=2.0)
    assert focal[0] < 1e-3 * plain[0]
    assert focal[1] > 0.98 * plain[1]


@pytest.mark.parametrize("name", ["softmax", "ovr"])
def test_the_focal_loss_is_the_papers(name):
    """Equation 4 of Lin et al. 2017, said once more in double precision."""
    logits, targets = some()
    goals, gamma = one_hot(targets, CLASSES).double(), 1.5
    found = loss[name](logits, goals.float(), focal=gamma)
    wide = logits.double()
    chance = wide.softmax(dim=1) if name == "softmax" else wide.sigmoid()
    terms = goals * (1 - chance) ** gamma * chance.log()
    if name == "ovr":
        terms = terms + (1 - goals) * chance**gamma * (1 - chance).log()
    assert_close(found.double(), -terms.sum(dim=1), rtol=1e-4, atol=1e-5)


@every_loss
@pytest.mark.parametrize("focal", [0.0, 0.5, 1.0, 2.0, 10.0])
def test_gradients_are_finite_however_sure_a_head_is(part, focal):
    signs = torch.tensor([[1.0, -1, -1, -1], [-1, 1, -1, -1], [1, 1, 1, 1], [0, 1, -1, 0.5]])
    for size in EXTREME:
        if part.name == "hinge" and size > 1e15:  # whose square is no number any more
            continue
        logits = (signs * size).requires_grad_()
        found = part(logits, goals_of(part, torch.zeros(4, dtype=torch.long)), focal=focal)
        assert found.isfinite().all(), size
        assert (found >= 0).all(), size
        (gradient,) = torch.autograd.grad(found.sum(), logits)
        assert gradient.isfinite().all(), size


def test_near_is_a_share_of_each_class_that_falls_off_with_distance():
    goals = near(torch.arange(CLASSES), CLASSES)
    assert_close(goals.sum(dim=1), torch.ones(CLASSES))
    assert goals.argmax(dim=1).tolist() == list(range(CLASSES))
    assert_close(goals, goals.flip(0, 1))  # low to high is as high to low
    for row, shares in enumerate(goals.tolist()):
        by_distance = sorted(range(CLASSES), key=lambda place: abs(place - row))
        ranked = [shares[place] for place in by_distance]
        assert ranked == sorted(ranked, reverse=True)
    # Two steps off is e² times less than one step off.
    assert_close(goals[0, 1] / goals[0, 2], torch.tensor(2.0).exp())
    assert near(torch.zeros(2, 3, dtype=torch.long), 5).shape == (2, 3, 5)


@unhurried
@given(st.integers(2, 9), st.data())
def test_the_best_answer_to_an_ordinal_goal_is_the_true_class(classes, data):
    """Gradient descent on the loss itself ends with the shares that were asked for."""
    target = data.draw(st.integers(0, classes - 1))
    goals = near(torch.tensor([target]), classes)
    logits = torch.zeros(1, classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        found = loss["ordinal"](logits, goals).sum()
        found.backward()
        return found

    optimizer.step(closure)
    shares = logits.detach().softmax(dim=1)[0]
    assert int(shares.argmax()) == target
    assert_close(shares, goals[0], rtol=0, atol=0.01)


def test_an_ordinal_loss_forgives_a_near_miss_and_softmax_does_not():
    targets = torch.tensor([0, 0, 0])
    logits = 4 * torch.eye(CLASSES)[[1, 2, 3]]  # one, two and three steps off
    ordinal = loss["ordinal"](logits, near(targets, CLASSES))
    assert ordinal[0] < ordinal[1] < ordinal[2]
    plain = loss["softmax"](logits, one_hot(targets, CLASSES).float())
    assert_close(plain, plain[:1].expand(3))


def test_hinge_is_the_squared_hinge_of_scikit_learn():
    """Its own `squared_hinge_loss` is not public, so the objective of LinearSVC is compared."""
    logits, targets = some()
    goals = one_hot(targets, CLASSES).float()
    found = loss["hinge"](logits, goals)
    for row, target in enumerate(targets.tolist()):
        margins = [logits[row, c] * (1 if c == target else -1) for c in range(CLASSES)]
        wanted = sum(max(0.0, 1 - float(margin)) ** 2 for margin in margins)
        assert float(found[row]) == pytest.approx(wanted, rel=1e-5)
    point = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss["hinge"](point, goals).sum(), point)
    assert_close(hinge_gradient(logits, goals), gradient)


def test_hinge_asks_nothing_of_a_row_that_is_right_by_a_margin():
    goals = torch.tensor([[1.0, 0, 0, 0]])
    assert not loss["hinge"](torch.tensor([[1.0, -1, -1, -1]]), goals).any()
    assert loss["hinge"](torch.tensor([[0.9, -1, -1, -1]]), goals) > 0
    assert loss["hinge"](torch.tensor([[1.0, -1, -1, -0.9]]), goals) > 0


def test_squared_is_half_the_squared_error():
    logits, goals = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    assert squared(logits, goals).tolist() == [2.5, 0.0]


# As an option of a recipe


def test_a_recipe_names_its_loss_and_softmax_is_the_usual_one():
    assert resolve("mean+linear").loss == "softmax"
    assert str(resolve("mean+linear?loss=softmax").recipe) == "mean+linear"
    resolved = resolve("mean+linear?loss=ovr")
    assert (resolved.loss, str(resolved.recipe)) == ("ovr", "mean+linear?loss=ovr")
    assert loss["ovr"].says in resolved.says
    assert resolved.reading == "mean"
    assert resolve("mean+logistic?loss=ovr").loss == "ovr"


@pytest.mark.parametrize(
    ("head", "other", "why"),
    [
        *((name, "ovr", name) for name in ("ridge", "knn", "centroid", "cosine")),
        *((name, own, "") for name, own in (("logistic", "hinge"), ("cosine_margin", "ovr"))),
        ("proportional_odds", "ordinal", ""),
        ("linear", "ordinl", "'ordinal'"),
    ],
)
def test_a_head_with_a_loss_of_its_own_takes_no_other(head, other, why):
    with refusing(RecipeError, why, longest=600):
        resolve(f"mean+{head}?loss={other}")
    assert resolve(f"mean+{head}?loss=softmax").loss == "softmax"
