"""What ridge and LDA answer rows that they have not learned from, against fitting without them."""

from collections.abc import Callable

import pytest
import torch
from small_training_data import blobs
from torch import Tensor, nn
from torch.testing import assert_close

from heads.data import splits
from heads.data.splits import Splits, split
from heads.parts import solvers
from heads.settings import ExperimentConfig
from heads.training.fitters.held_out import lda_held_out, ridge_held_out

SETTINGS = {ridge_held_out: (0.5, 30.0), lda_held_out: (0.02, 0.3, 1.0)}
SOLVERS: dict[Callable, tuple[Callable, str]] = {
    ridge_held_out: (solvers.ridge, "alpha"),
    lda_held_out: (solvers.lda, "shrinkage"),
}


@pytest.fixture
def centred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are centred and not scaled: then a closed form leaves nothing out."""

    def centre(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        middle = vectors.double().mean(dim=0)
        return vectors.double() - middle, middle, torch.ones_like(middle)

    monkeypatch.setattr(solvers, "standardised", centre)
    monkeypatch.setattr("heads.training.fitters.held_out.standardised", centre)


def rows_of(rows: int, width: int, *, many: bool) -> tuple[Tensor, Tensor]:
    """Vectors far from 0 and targets of four classes, of which one has a single row."""
    rng = torch.Generator().manual_seed(rows)
    vectors = torch.randn(rows, width, generator=rng).double() * torch.logspace(-0.5, 0.5, width)
    targets = torch.nn.functional.one_hot(torch.arange(rows) % 3, 4).double()
    targets[3] = torch.eye(4)[3]
    if many:
        targets = (torch.rand(rows, 4, generator=rng) < 0.3).double()
    return vectors + targets @ torch.randn(4, width, generator=rng).double() + 5, targets


def fitted_without(
    solve: Callable, vectors: Tensor, targets: Tensor, groups: Tensor, **options: float | bool
) -> Tensor:
    """The logits of each row by a head that was fitted to the other groups."""
    logits = torch.empty_like(targets)
    for group in groups.unique():
        own = groups == group
        chain = nn.Sequential(nn.Linear(vectors.shape[1], targets.shape[1], dtype=torch.double))
        solve(chain, vectors[~own], targets[~own], **options)
        with torch.no_grad():
            logits[own] = chain(vectors[own])
    return logits


@pytest.mark.usefixtures("centred")
@pytest.mark.parametrize("held_out", SETTINGS)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(60, 12), (40, 70)])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_closed_form_answers_as_heads_fitted_without_each_group(
    held_out: Callable, many: bool, rows: int, width: int, size: int
) -> None:
    vectors, targets = rows_of(rows, width, many=many)
    groups = torch.arange(rows) // size  # the last group is smaller
    solve, option = SOLVERS[held_out]
    found = [*held_out(vectors, targets, groups, SETTINGS[held_out], many=many)]
    for value, logits in zip(SETTINGS[held_out], found, strict=True):
        wanted = fitted_without(solve, vectors, targets, groups, many=many, **{option: value})
        if held_out is lda_held_out and not many:  # where 0 lies is of no meaning
            # A class of no row is a mean of 0, wherever that is.
            met = torch.tensor([[bool(targets[groups != own, 3].any())] for own in groups])
            logits, wanted = (each - each[:, :1] for each in (logits, wanted))
            logits[:, 3:], wanted[:, 3:] = logits[:, 3:] * met, wanted[:, 3:] * met
        assert_close(logits, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("held_out", SETTINGS)
def test_what_is_taken_from_all_rows_changes_hardly_an_answer(held_out: Callable) -> None:
    """The deviations that vectors are divided by, and Ledoit and Wolf's shrinkage."""
    vectors, classes = blobs(120, 3, apart=0.5)
    targets, groups = torch.eye(3)[classes].double(), torch.arange(120)
    solve, option = SOLVERS[held_out]
    for value in (*SETTINGS[held_out], *(0.0,) * (held_out is lda_held_out)):
        (logits,) = held_out(vectors, targets, groups, [value])
        wanted = fitted_without(solve, vectors.double(), targets, groups, **{option: value})
        assert (logits.argmax(dim=1) == wanted.argmax(dim=1)).float().mean() >= 0.98
        assert_close(logits.softmax(dim=1), wanted.softmax(dim=1), rtol=0, atol=0.05)


# Which rows settings are chosen by


def split_of(rows: int, groups: Tensor | None = None, **options: int) -> Splits:
    groups = torch.arange(rows) if groups is None else groups
    parts = ["train"] * (rows - 20) + ["test"] * 20
    config = ExperimentConfig(**{"seeds": 2, **options})
    return split(torch.arange(rows) % 2, groups, parts, config)


def test_settings_are_chosen_by_all_training_rows_and_a_group_has_one_fold() -> None:
    groups = torch.arange(200) // 4
    found = split_of(200, groups)
    for seed in range(2):
        rows, folds = found.selection(seed)
        assert torch.equal(rows, found.train[seed])
        assert folds.unique().tolist() == list(range(splits.SELECTION_FOLDS))
        for group in groups[rows].unique():
            assert len(folds[groups[rows] == group].unique()) == 1
        assert torch.equal(found.only(seed).selection(0)[1], folds)
    assert not torch.equal(found.selection(0)[1], found.selection(1)[1])


def test_given_or_many_development_rows_choose_settings_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splits, "MOST_SEARCH", 100)
    parts = ["train"] * 60 + ["validation"] * 20 + ["test"] * 20
    every = torch.arange(100)
    given = split(every % 2, every, parts, ExperimentConfig(seeds=1))
    for found in (given, split_of(200)):
        rows, folds = found.selection(0)
        assert torch.equal(rows[folds == 0], found.development[0])
        assert torch.equal(rows[folds == -1], found.search[0])
        assert len(rows) == len(found.search[0]) + len(found.development[0])


def test_few_rows_make_fewer_folds() -> None:
    _, folds = split_of(28, torch.arange(28) // 4).selection(0)
    assert folds.unique().tolist() == [0, 1]
