"""What follows from a problem type, on few rows, against plain formulas."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heads.problem import (
    MULTI_LABEL,
    ONE_VERSUS_REST,
    PROBLEM_TYPES,
    REGRESSION,
    SINGLE_LABEL,
    SINGLE_OUTPUT,
    ProblemType,
    problem_of,
)

ALL = (SINGLE_LABEL, ONE_VERSUS_REST, MULTI_LABEL, SINGLE_OUTPUT, REGRESSION)
EXCLUSIVE = pytest.mark.parametrize(
    "problem", [SINGLE_LABEL, ONE_VERSUS_REST], ids=["softmax", "ovr"]
)
LABELS = pytest.mark.parametrize("problem", [MULTI_LABEL, SINGLE_OUTPUT], ids=repr)
LOGITS = torch.tensor([[2.0, -1.0, 0.5], [-3.0, -0.5, -2.0], [0.1, 0.0, 4.0]])


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


def by_formula(problem: ProblemType, logits: Tensor) -> list[list[float]]:
    """The probabilities of every row, one number after the other."""
    found = []
    for row in logits.tolist():
        if problem.output_activation == "softmax":
            parts = [math.exp(number) for number in row]
        else:
            parts = [sigmoid(number) for number in row]
        whole = sum(parts) if problem.is_exclusive else 1.0
        found.append([part / whole for part in parts])
    return found


# The objects


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: type(problem).__name__)
def test_there_is_one_object_of_each_type(problem):
    assert pickle.loads(pickle.dumps(problem)) is problem
    assert copy.copy(problem) is problem
    assert copy.deepcopy({"a": [problem]})["a"][0] is problem
    assert repr(problem) == problem.name


def test_data_are_labelled_in_the_three_ways_of_transformers():
    assert dict(PROBLEM_TYPES) == {
        "single_label_classification": SINGLE_LABEL,
        "multi_label_classification": MULTI_LABEL,
        "regression": REGRESSION,
    }


def test_each_type_has_its_activation_and_its_outputs():
    assert [one.output_activation for one in ALL] == [
        "softmax", "normalised_sigmoid", "sigmoid", "sigmoid", "none",
    ]  # fmt: skip
    assert [one.outputs(3) for one in ALL] == [3, 3, 3, 3, 1]
    assert [one.gives_number for one in ALL] == [False, False, False, True, True]
    assert [one.has_classes for one in ALL] == [True, True, True, True, False]
    assert [one.is_exclusive for one in ALL] == [True, True, False, False, False]


def test_one_versus_rest_is_how_a_single_label_is_learned_and_nothing_else():
    assert SINGLE_LABEL.learned_by("ovr") is ONE_VERSUS_REST
    assert SINGLE_LABEL.learned_by("softmax") is SINGLE_LABEL
    for problem in (MULTI_LABEL, SINGLE_OUTPUT, REGRESSION):
        assert problem.learned_by("ovr") is problem


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"problem_type": "single_label_classification"}, SINGLE_LABEL),
        ({"problem_type": "multi_label_classification"}, MULTI_LABEL),
        ({"problem_type": "regression"}, REGRESSION),
        ({"problem_type": "single_output"}, SINGLE_OUTPUT),
        ({"many": False}, SINGLE_LABEL),
        ({"many": True}, MULTI_LABEL),
        ({"many": False, "numbers": False}, SINGLE_LABEL),
        ({"many": True, "numbers": False}, MULTI_LABEL),
        ({"many": True, "numbers": True}, SINGLE_OUTPUT),
        ({"many": False, "numbers": True}, REGRESSION),
    ],
    ids=str,
)
def test_facts_of_this_version_and_of_earlier_ones_are_read(facts, problem):
    assert problem_of(facts) is problem


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: type(problem).__name__)
def test_what_is_written_is_read_again(problem):
    again = problem_of({"problem_type": problem.name})
    assert again.learned_by("ovr" if problem is ONE_VERSUS_REST else "softmax") is problem


@pytest.mark.parametrize("facts", [{}, {"problem_type": "many"}, {"numbers": True}], ids=str)
def test_facts_that_tell_of_no_type_are_refused(facts):
    with pytest.raises(KeyError):
        problem_of(facts)


# Targets


@EXCLUSIVE
def test_targets_of_one_class_a_row_are_its_number(problem):
    targets = problem.targets([(2,), (0,)], [], 3)
    assert (targets.dtype, targets.tolist()) == (torch.long, [2, 0])
    assert problem.target_matrix(targets, 3).tolist() == [[0, 0, 1], [1, 0, 0]]


@LABELS
def test_targets_of_several_labels_are_1_at_each_of_them(problem):
    targets = problem.targets([(0, 2), (), (1,)], [], 3)
    assert targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert torch.equal(problem.target_matrix(targets, 3), targets)
    assert problem.targets([(), ()], [], 3).tolist() == [[0, 0, 0]] * 2


def test_targets_of_numbers_are_their_values():
    targets = REGRESSION.targets([], [0.5, -2.0], 1)
    assert targets.tolist() == [0.5, -2.0]
    assert REGRESSION.target_matrix(targets, 1).tolist() == [[0.5], [-2.0]]


# Answers and probabilities


@pytest.mark.parametrize("problem", ALL[:4], ids=lambda problem: type(problem).__name__)
def test_probabilities_are_those_of_the_formula(problem):
    assert_close(problem.probabilities(LOGITS), torch.tensor(by_formula(problem, LOGITS)))


@EXCLUSIVE
def test_probabilities_of_classes_sum_to_1_and_are_the_softmax_of_what_competes(problem):
    for temperature in (0.3, 1.0, 7.0):
        found = problem.probabilities(LOGITS, temperature)
        assert_close(found.sum(dim=1), torch.ones(3))
        assert_close(found, (problem.competing(LOGITS) / temperature).softmax(dim=1))


def test_a_temperature_divides_logits():
    for problem in (SINGLE_LABEL, MULTI_LABEL, SINGLE_OUTPUT):
        wanted = torch.tensor(by_formula(problem, LOGITS / 2.5))
        assert_close(problem.probabilities(LOGITS, 2.5), wanted)
    assert torch.equal(REGRESSION.probabilities(LOGITS[:, :1], 2.5), LOGITS[:, :1])


@EXCLUSIVE
def test_the_largest_logit_is_answered(problem):
    assert problem.answers(LOGITS).tolist() == [0, 1, 2]
    assert torch.equal(problem.chosen(LOGITS), torch.eye(3).bool())


@LABELS
def test_all_above_their_thresholds_are_answered(problem):
    by_half = [[True, False, True], [False, False, False], [True, False, True]]
    assert problem.answers(LOGITS).tolist() == problem.chosen(LOGITS).tolist() == by_half
    cuts = (1.0, -0.75, 4.0)
    own = [[True, False, False], [False, True, False], [False, True, False]]
    assert problem.answers(LOGITS, torch.tensor(cuts)).tolist() == own
    assert problem.chosen(LOGITS, cuts).tolist() == own


def test_a_number_is_answered_as_it_is():
    assert torch.equal(REGRESSION.answers(LOGITS[:, :1]), LOGITS[:, 0])


def test_a_class_is_as_sure_and_as_likely_as_its_probability():
    shares, truth = torch.tensor(by_formula(SINGLE_LABEL, LOGITS)), torch.tensor([1, 1, 0])
    found = SINGLE_LABEL.confidence(LOGITS, SINGLE_LABEL.answers(LOGITS))
    assert_close(found, shares.max(dim=1).values)
    wanted = shares.gather(1, truth[:, None]).log()
    assert_close(SINGLE_LABEL.log_likelihood(LOGITS, truth), wanted)


@LABELS
def test_each_label_is_as_sure_and_as_likely_as_its_yes_or_its_no(problem):
    shares, answers = torch.tensor(by_formula(problem, LOGITS)), problem.answers(LOGITS)
    assert_close(
        problem.confidence(LOGITS, answers), torch.where(answers.bool(), shares, 1 - shares)
    )
    truth = torch.tensor([[1, 0, 0], [0, 0, 1], [1, 1, 1]])
    wanted = torch.where(truth.bool(), shares, 1 - shares).log()
    assert_close(problem.log_likelihood(LOGITS, truth.float()), wanted)


def test_a_number_has_no_probability():
    given = LOGITS[:, :1]
    with pytest.raises(ValueError, match="without a probability"):
        REGRESSION.confidence(given, given[:, 0])
    with pytest.raises(ValueError, match="without a probability"):
        REGRESSION.log_likelihood(given, given[:, 0])


# Rows that are alike


@EXCLUSIVE
def test_rows_of_a_class_are_alike(problem):
    assert problem.strata(torch.tensor([2, 0, 2, 1])).tolist() == [2, 0, 2, 1]


@LABELS
def test_rows_with_the_same_rarest_label_are_alike(problem):
    targets = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [1, 1, 0]]).float()
    assert problem.strata(targets).tolist() == [1, 0, 3, 2, 1]


def test_tenths_of_numbers_are_alike_and_equal_values_stay_together():
    values = torch.arange(40.0)
    assert REGRESSION.strata(values).tolist() == [row // 4 for row in range(40)]
    assert REGRESSION.strata(values.flip(0)).tolist() == [row // 4 for row in range(40)][::-1]
    same = REGRESSION.strata(torch.tensor([5.0] * 30 + [7.0] * 10))
    assert same.tolist() == [3] * 30 + [8] * 10
