"""The minimiser: to the optimum where the precision tells it, and to an end where it does not."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heads.training.fitters.lbfgs import Precision, minimise

BENDS = torch.logspace(0, 3, 20).expand(3, -1) * torch.tensor([[1.0], [2.0], [5.0]])
BOTTOMS = torch.arange(60.0).view(3, 20) / 60 + 1


class Bowls:
    """Three quadratic functions, whose values and slopes are rounded where so asked."""

    def __init__(self, rounded: float | None = None) -> None:
        self.rounded, self.asked = rounded, 0

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        self.asked += 1
        apart = points - BOTTOMS
        values, gradients = (BENDS * apart.square()).sum(dim=1) / 2, BENDS * apart
        if self.rounded is None:
            return values, gradients
        share = self.rounded
        return _round(values, share * values.max()), _round(
            gradients, share * gradients.abs().max()
        )


def _round(values: Tensor, trial: Tensor) -> Tensor:
    return (values / trial).round() * trial


def test_every_bottom_is_found():
    found = minimise([Precision(function=Bowls(), near=1e-5)], torch.zeros(3, 20), 300)
    assert_close(found, BOTTOMS, rtol=0, atol=1e-2)


def test_what_is_rough_goes_on_exactly_and_knows_the_curvature():
    rough, after, alone = Bowls(rounded=1e-3), Bowls(), Bowls()
    first, second = Precision(function=rough, near=0.05), Precision(function=after, near=1e-5)
    found = minimise([first, second], torch.zeros(3, 20), 300)
    assert_close(found, BOTTOMS, rtol=0, atol=1e-2)
    here = minimise([first], torch.zeros(3, 20), 300)
    minimise([Precision(function=alone, near=1e-5)], here, 300)
    assert after.asked < alone.asked


@pytest.mark.parametrize("tries", [3, 12])
def test_what_its_precision_cannot_reach_is_left(tries):
    rough = Bowls(rounded=0.05)
    stage = Precision(function=rough, near=1e-6, tries=tries)
    found = minimise([stage], torch.zeros(3, 20), 3_000)
    assert rough.asked < 300
    before, after = Bowls()(torch.zeros(3, 20))[0], Bowls()(found)[0]
    assert (after < 0.3 * before).all()


def test_very_near_the_bottom_it_goes_there():
    start = BOTTOMS + 1e-3
    found = minimise([Precision(function=Bowls(), near=1e-6)], start, 300)
    assert (Bowls()(found)[0] < 1e-3 * Bowls()(start)[0]).all()


def test_a_problem_takes_no_longer_beside_one_that_is_solved_at_once():
    def asked(start: Tensor) -> int:
        bowls = Bowls()
        found = minimise([Precision(function=bowls, near=1e-5)], start, 300)
        assert_close(found, BOTTOMS, rtol=0, atol=1e-2)
        return bowls.asked

    beside = torch.zeros(3, 20)
    beside[1] = BOTTOMS[1]
    assert asked(beside) <= asked(torch.zeros(3, 20)) + 5


def test_one_at_the_end_of_its_precision_keeps_no_other_from_going_on():
    def one_is_rough(points: Tensor) -> tuple[Tensor, Tensor]:
        fine, coarse = Bowls()(points), Bowls(rounded=0.05)(points)
        which = torch.tensor([False, True, False])
        pairs = zip(fine, coarse, strict=True)
        values, gradients = (
            torch.where(which.view(-1, *[1] * (a.dim() - 1)), b, a) for a, b in pairs
        )
        return values, gradients

    found = minimise([Precision(function=one_is_rough, near=1e-5)], torch.zeros(3, 20), 300)
    assert_close(found[[0, 2]], BOTTOMS[[0, 2]], rtol=0, atol=1e-2)


def test_where_it_begins_is_where_it_ends_if_that_is_the_bottom():
    bowls = Bowls()
    assert_close(minimise([Precision(function=bowls, near=1e-5)], BOTTOMS, 300), BOTTOMS)
    assert bowls.asked == 2
