"""What is asked of logits, for every kind of label: losses, their slopes, and where numbers lie."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot
from torch.testing import assert_close

from heads.errors import LimitError
from heads.parts.losses import near
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.training.objective import Objective, TargetScaler, balance_of

CLASSES = 4
ROWS = 6
KINDS: tuple[tuple[ProblemType, str], ...] = (
    (SINGLE_LABEL, "softmax"), (SINGLE_LABEL, "ovr"), (SINGLE_LABEL, "ordinal"),
    (MULTI_LABEL, "softmax"), (SINGLE_LABEL, "hinge"), (REGRESSION, "softmax"),
)  # fmt: skip
OPTIONS = [
    (problem, loss, focal, smoothing, balanced)
    for (problem, loss), focal, smoothing, balanced in itertools.product(
        KINDS, (0.0, 2.0), (0.0, 0.1), (False, True)
    )
    if not ((problem is REGRESSION or loss == "hinge") and (focal or smoothing or balanced))
    if not (balanced and problem is SINGLE_LABEL and loss != "ovr")
]
every_objective = pytest.mark.parametrize(
    ("problem", "loss", "focal", "smoothing", "balanced"), OPTIONS
)


def made_targets(problem: ProblemType) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    if problem is REGRESSION:
        return torch.randn(ROWS, generator=rng)
    if problem is MULTI_LABEL:
        return (torch.rand(ROWS, CLASSES, generator=rng) < 0.4).float()
    return torch.arange(ROWS) % CLASSES


def objective_of(
    problem: Any, loss: str, focal: float, smoothing: float, balanced: bool
) -> tuple[Objective, Tensor]:
    targets = made_targets(problem)
    return (
        Objective(
            problem=problem,
            outputs=1 if problem is REGRESSION else CLASSES,
            loss=loss,
            focal=focal,
            smoothing=smoothing,
            balance=balance_of(targets, CLASSES) if balanced else None,
        ),
        targets,
    )


def logits_of(objective: Objective, *ahead: int) -> Tensor:
    rng = torch.Generator().manual_seed(2)
    return 2 * torch.randn(*ahead, ROWS, objective.outputs, generator=rng)


@every_objective
@pytest.mark.parametrize("ahead", [(), (3,), (2, 3)])
def test_slopes_are_the_gradient_of_the_rows(
    problem, loss, focal, smoothing, balanced, ahead
) -> None:
    objective, targets = objective_of(problem, loss, focal, smoothing, balanced)
    logits = logits_of(objective, *ahead).requires_grad_()
    rows = objective.rows(logits, targets)
    assert rows.shape == (*ahead, ROWS)
    assert (rows >= 0).all()
    (wanted,) = torch.autograd.grad(rows.sum(), logits)
    with torch.no_grad():
        found, gradients = objective.gradients(logits, targets)
    assert_close(found, rows.detach())
    assert_close(gradients, wanted, rtol=1e-4, atol=1e-5)
    assert not found.requires_grad
    assert not gradients.requires_grad
    assert logits.grad is None


@every_objective
def test_a_row_is_judged_by_itself(problem, loss, focal, smoothing, balanced) -> None:
    objective, targets = objective_of(problem, loss, focal, smoothing, balanced)
    logits = logits_of(objective)
    together = objective.rows(logits, targets)
    for row in range(ROWS):
        alone = objective.rows(logits[row : row + 1], targets[row : row + 1])
        assert_close(alone, together[row : row + 1])


def test_the_plain_ones_are_what_torch_has() -> None:
    logits, one, many = (
        logits_of(objective_of(*OPTIONS[0])[0]),
        made_targets(SINGLE_LABEL),
        made_targets(MULTI_LABEL),
    )
    found = Objective(problem=SINGLE_LABEL, outputs=CLASSES).rows(logits, one)
    assert torch.equal(found, cross_entropy(logits, one, reduction="none"))
    found = Objective(problem=SINGLE_LABEL, outputs=CLASSES, smoothing=0.1).rows(logits, one)
    wanted = cross_entropy(logits, one, reduction="none", label_smoothing=0.1)
    assert_close(found, wanted)
    found = Objective(problem=MULTI_LABEL, outputs=CLASSES).rows(logits, many)
    assert_close(found, binary_cross_entropy_with_logits(logits, many, reduction="none").sum(dim=1))
    hard = one_hot(one, CLASSES).float()
    found = Objective(problem=SINGLE_LABEL, outputs=CLASSES, loss="ovr").rows(logits, one)
    assert_close(found, binary_cross_entropy_with_logits(logits, hard, reduction="none").sum(dim=1))
    found = Objective(problem=SINGLE_LABEL, outputs=CLASSES, loss="ordinal").rows(logits, one)
    assert_close(found, cross_entropy(logits, near(one, CLASSES), reduction="none"))
    numbers, given = made_targets(REGRESSION), logits[:, :1]
    found = Objective(problem=REGRESSION, outputs=1).rows(given, numbers)
    assert_close(found, (given[:, 0] - numbers).square() / 2)


@pytest.mark.parametrize(("problem", "loss"), KINDS[:-2])
def test_goals_lie_between_0_and_1_and_smoothing_draws_them_together(
    problem: Any, loss: str
) -> None:
    targets = made_targets(problem)
    hard, soft = (
        Objective(problem=problem, outputs=CLASSES, loss=loss, smoothing=share).target_matrix(
            targets
        )
        for share in (0.0, 0.2)
    )
    even = 0.5 if problem is MULTI_LABEL or loss == "ovr" else 1 / CLASSES
    assert_close(soft, hard * 0.8 + 0.2 * even)
    assert ((soft > 0) & (soft < 1)).all()
    if even != 0.5:
        assert_close(soft.sum(dim=1), torch.ones(ROWS))


@pytest.mark.parametrize("option", [{"focal": 1.0}, {"smoothing": 0.1}])
def test_numbers_have_no_focal_loss_and_no_smoothing(option: dict[str, float]) -> None:
    with pytest.raises(LimitError):
        Objective(problem=REGRESSION, outputs=1, **option)


# Every question balanced by itself


def test_balance_is_that_of_scikit_learn() -> None:
    targets = made_targets(MULTI_LABEL)
    targets[:, 0] = torch.tensor([1.0, 0, 0, 0, 0, 0])
    for label, (no, yes) in enumerate(balance_of(targets, CLASSES).T.tolist()):
        own = targets[:, label].long().numpy()
        assert (no, yes) == pytest.approx(
            compute_class_weight("balanced", classes=np.array([0, 1]), y=own).tolist()
        )


def test_balance_of_classes_is_that_of_their_questions() -> None:
    classes = torch.tensor([0, 0, 0, 1, 1, 2])
    assert torch.equal(balance_of(classes, 3), balance_of(one_hot(classes, 3).float(), 3))


@pytest.mark.parametrize("problem", [MULTI_LABEL, SINGLE_LABEL])
def test_a_smoothed_question_weighs_by_what_the_row_is_labelled_with(problem: str) -> None:
    objective, targets = objective_of(problem, "ovr", 0.0, 0.2, True)
    logits = logits_of(objective)
    hard = targets if problem is MULTI_LABEL else one_hot(targets, CLASSES).float()
    assert objective.balance is not None
    weights = torch.where(hard == 1, objective.balance[1], objective.balance[0])
    each = binary_cross_entropy_with_logits(logits, hard * 0.8 + 0.1, reduction="none")
    assert_close(objective.rows(logits, targets), (each * weights).sum(dim=1))


def test_yes_and_no_weigh_alike_in_every_question() -> None:
    targets = made_targets(MULTI_LABEL)
    objective, _ = objective_of(MULTI_LABEL, "softmax", 0.0, 0.0, True)
    plain = replace(objective, balance=None)
    logits = torch.zeros(ROWS, CLASSES)
    # Where a head knows nothing, all the weight that one label's rows have is the same.
    assert float(objective.rows(logits, targets).sum()) == pytest.approx(
        float(plain.rows(logits, targets).sum()), rel=1e-5
    )
    _, gradients = objective.gradients(logits, targets)
    assert_close(gradients.sum(dim=0), torch.zeros(CLASSES), rtol=0, atol=1e-5)


# Where numbers lie


finite = st.floats(-1e4, 1e4, width=32)


@given(st.lists(finite, min_size=1, max_size=20), st.booleans())
def test_numbers_come_back_from_their_span(values: list[float], centred: bool) -> None:
    numbers = torch.tensor(values)
    span = TargetScaler.of(numbers, centred=centred)
    assert span.spread > 0
    narrow = span.narrowed(numbers)
    assert narrow.isfinite().all()
    size = max(map(abs, values), default=0.0)
    assert_close(span.widened(narrow), numbers, rtol=1e-4, atol=1e-5 * size + 1e-6)
    if not centred:
        assert span.centre == 0


def test_a_span_brings_numbers_to_mean_0_and_deviation_1() -> None:
    numbers = torch.tensor([100.0, 120.0, 90.0, 110.0])
    narrow = TargetScaler.of(numbers, centred=True).narrowed(numbers)
    assert float(narrow.mean()) == pytest.approx(0, abs=1e-5)
    assert float(narrow.std(correction=0)) == pytest.approx(1, abs=1e-5)
    flat = TargetScaler.of(torch.tensor([3.0, 3.0]), centred=True)
    assert (flat.centre, flat.spread) == (3.0, 1.0)
    # Without a bias nothing could be added again, so numbers are only scaled.
    scaled = TargetScaler.of(numbers, centred=False)
    assert scaled.centre == 0
    assert float(scaled.narrowed(numbers).square().mean()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_put_back_answers_with_the_numbers_themselves(bias: bool) -> None:
    layer = torch.nn.Linear(5, 1, bias=bias)
    span = TargetScaler.of(torch.tensor([10.0, 14.0, 19.0]), centred=bias)
    vectors = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = span.widened(layer(vectors))
        state = {"out." + name: tensor for name, tensor in layer.state_dict().items()}
        state["other.weight"] = torch.ones(2)
        found = span.put_back(state, "out")
        assert torch.equal(found["other.weight"], torch.ones(2))
        assert found.keys() == state.keys()
        layer.load_state_dict({name.removeprefix("out."): t for name, t in found.items()
                               if name.startswith("out.")})  # fmt: skip
        assert_close(layer(vectors), wanted)
