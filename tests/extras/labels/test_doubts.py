"""Confident learning: made by hand, what holds of any probabilities, and cleanlab's own rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from heads.evaluation.predictions import CellPredictions, average_by_row, average_out_of_fold
from heads.extras.labels.doubts import doubts, thresholds
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL


def named(found):
    return found.is_doubtful.nonzero()[:, 0].tolist()


def drawn(rows, classes, seed):
    """Probabilities of a head that is often right, and labels some of which are wrong."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=rng)
    logits = 2 * torch.randn(rows, classes, generator=rng) + 2 * one_hot(labels, classes)
    return logits.double().softmax(dim=1), labels


def test_a_row_that_heads_are_confident_of_as_another_class_is_named():
    told = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9]])
    found = doubts(told.double(), torch.tensor([0, 0, 0, 0, 1, 1]), SINGLE_LABEL)
    assert named(found) == [3]
    assert found.suggested.tolist() == [0, 0, 0, 1, 1, 1]
    assert [float(one[3]) for one in found.sure] == pytest.approx([0.2, 0.8])


def test_right_labels_with_perfect_probabilities_give_none():
    labels = torch.arange(30) % 3
    assert named(doubts(one_hot(labels).double(), labels, SINGLE_LABEL)) == []
    many = one_hot(labels).roll(1, 0) | one_hot(labels)
    assert named(doubts(many.double(), many.float(), MULTI_LABEL)) == []
    assert named(doubts(labels[:, None].double(), labels.double(), REGRESSION)) == []


def test_it_names_the_rows_that_cleanlab_names():
    """By cleanlab 2.9.0, `filter_by="low_self_confidence"`, and its thresholds and ranking."""
    row, column = torch.arange(60)[:, None], torch.arange(4)[None]
    truth = torch.arange(60) % 4
    logits = 2.0 * (column == truth[:, None]) + 1.5 * torch.sin(3.0 * row + 7.0 * column)
    told = logits.double().softmax(dim=1)
    labels = torch.where(torch.arange(60) % 10 == 3, (truth + 1) % 4, truth)
    found = doubts(told, labels, SINGLE_LABEL)
    assert named(found) == [13, 23, 33, 53]
    expected = [0.493837, 0.658766, 0.563245, 0.534863]
    assert thresholds(told, labels).tolist() == pytest.approx(expected, abs=1e-6)
    ranked = found.quality.argsort(stable=True)[:10].tolist()
    assert ranked == [23, 53, 13, 33, 43, 52, 8, 7, 51, 55]


@given(rows=st.integers(0, 40), classes=st.integers(2, 6), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_what_holds_of_any_probabilities(rows, classes, seed):
    told, labels = drawn(rows, classes, seed)
    found = doubts(told, labels, SINGLE_LABEL)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    turned = doubts(told[order], labels[order], SINGLE_LABEL)
    assert found.is_doubtful[order].equal(turned.is_doubtful)
    assert found.suggested[order].equal(turned.suggested)
    for row in named(found):  # relabelled as suggested it is named no more
        mended = labels.clone()
        mended[row] = found.suggested[row]
        assert row not in named(doubts(told, mended, SINGLE_LABEL))
    assert ((found.suggested >= 0) & (found.suggested < classes)).all()
    assert ((found.suggested != labels) == found.is_doubtful).all()
    own, other = (one[found.is_doubtful] for one in found.sure)
    assert (other > own).all()
    assert other.equal(told[found.is_doubtful].amax(dim=1))


@given(rows=st.integers(0, 25), classes=st.integers(1, 5), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_several_labels_are_a_question_each(rows, classes, seed):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.rand(rows, classes, generator=rng) < 0.4
    told = (4 * torch.randn(rows, classes, generator=rng) + 4 * labels - 2).double().sigmoid()
    found = doubts(told, labels.float(), MULTI_LABEL)
    assert found.suggested.shape == labels.shape
    assert (found.suggested != labels).any(dim=1).equal(found.is_doubtful)
    for label in range(classes):
        both = torch.stack([1 - told[:, label], told[:, label]], dim=1)
        alone = doubts(both, labels[:, label].long(), SINGLE_LABEL)
        assert alone.suggested.bool().equal(found.suggested[:, label])
    for row in named(found):
        mended = labels.clone()
        mended[row] = found.suggested[row]
        assert row not in named(doubts(told, mended.float(), MULTI_LABEL))


def test_numbers_far_from_the_prediction_are_named_and_a_shift_of_all_is_none():
    rng = torch.Generator().manual_seed(0)
    said = torch.rand(200, 1, generator=rng).double()
    values = said[:, 0] + 5 + 0.1 * torch.randn(200, generator=rng)
    values[[7, 90]] += torch.tensor([3.0, -2.0])
    found = doubts(said, values, REGRESSION)
    assert {7, 90} <= set(named(found))
    assert len(named(found)) < 8
    assert found.quality.argsort()[:2].tolist() == [7, 90]
    assert found.suggested.equal(said[:, 0])
    assert named(doubts(said, said[:, 0] + 5, REGRESSION)) == []


def test_every_tested_row_stands_once_with_the_mean_of_its_seeds():
    rows, told = average_by_row(
        [torch.tensor([4, 1]), torch.tensor([1, 7])],
        [torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0], [5.0]])],
    )
    assert rows.tolist() == [1, 4, 7]
    assert told[:, 0].tolist() == [3.0, 1.0, 5.0]


def test_probabilities_are_those_of_the_temperature():
    logits = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    outcome = CellPredictions(name="x", rows=(torch.tensor([1, 0]),), logits=(logits,))
    rows, told = average_out_of_fold(outcome, SINGLE_LABEL, 2.0)
    assert rows.tolist() == [0, 1]
    assert told.flip(0) == pytest.approx((logits / 2).softmax(dim=1).numpy())
