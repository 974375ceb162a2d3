"""Every loss on the shelf is under these contracts by being there."""

import pytest
import torch
from expected_errors import refusing
from torch import Tensor
from torch.nn.functional import one_hot
from torch.testing import assert_close

from heads.errors import RecipeError
from heads.parts.losses import hinge_gradient, near
from heads.parts.registry import Part
from heads.parts.resolve import loss, resolve

CLASSES = 4
LOSSES = list(loss.values())
every_loss = pytest.mark.parametrize("part", LOSSES, ids=lambda part: part.name)
EXTREME = (0.0, 1e-30, 40.0, 1e3, 1e4, 1e30)


def goals_of(part: Part, targets: Tensor) -> Tensor:
    """What a loss is given for classes (n,): as `Objective` and `Order` give it."""
    return near(targets, CLASSES) if part.name == "ordinal" else one_hot(targets, CLASSES).float()


def some(rows: int = 6) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(rows)
    return 3 * torch.randn(rows, CLASSES, generator=rng), torch.arange(rows) % CLASSES


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
