"""Heads from sums over shards: those that rows in memory give."""

from dataclasses import replace

import pytest
import torch
from shard_files import objective, shards_of, vectors_file, whole

from heads.backbone import loading
from heads.errors import RecipeError
from heads.extras.scale.shards import ShardSample
from heads.extras.scale.streaming import (
    StepwiseSearch,
    check_streams,
    solve_closed_form,
    solve_linear,
    task_of_rows,
)
from heads.extras.scale.sums import Moments, compute_moments
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.training.trial import trials

ALL = ShardSample(test=0.0, development=0.0)


def trial_of(recipe, width=12, classes=3):
    backbone = loading.load(f"vectors:{width}")
    (found,) = trials([resolve(recipe)], backbone, classes, SINGLE_LABEL)
    return found


@pytest.fixture
def shards(tmp_path):
    return shards_of(vectors_file(tmp_path / "v.parquet", 2_500, group=300), sample=ALL)


@pytest.fixture
def found(shards):
    return compute_moments(shards, 3)


def test_moments_are_those_of_the_rows(shards, found):
    vectors, targets, _ = whole(shards)
    vectors = vectors.double()
    assert found.rows == 2_500
    assert found.counts.tolist() == torch.bincount(targets).tolist()
    assert torch.allclose(found.mean, vectors.mean(dim=0))
    assert torch.allclose(found.covariance, vectors.T.cov(correction=0), rtol=1e-9, atol=1e-12)
    for number in range(3):
        assert torch.allclose(found.means[number], vectors[targets == number].mean(dim=0))
    assert found.furthest == vectors.square().sum(dim=1).max()
    path = shards.pieces[0].file
    for group in (2_500, 77):  # wherever the rows are cut
        other = compute_moments(shards_of(vectors_file(path, 2_500, group=group), sample=ALL), 3)
        assert torch.allclose(other.covariance, found.covariance, rtol=1e-10, atol=1e-12)
        assert torch.equal(other.counts, found.counts)


def test_a_mean_far_from_zero_loses_no_digits(shards, found):
    vectors, *_ = whole(shards)
    far = replace(found, mean=found.mean)  # the same file, moved by a thousand spreads
    moved = vectors.double() + 1_000 * found.spread
    origin = moved[:10].mean(dim=0)
    own = moved - origin
    sums = {
        "counts": found.counts,
        "sums": own.sum(dim=0)[None].expand(3, -1) / 3,
        "products": own.T @ own,
        "directions": torch.zeros(3, 12).double(),
        "greatest": moved.square().sum(dim=1).max(),
    }
    assert torch.allclose(Moments.of_sums(sums, origin).covariance, far.covariance, rtol=1e-6)


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize(
    ("head", "classes"), [("linear", 2), ("linear", 3), ("linear?loss=ovr", 3), ("gpt2", 3)]
)
def test_linear_layers_are_those_that_rows_in_memory_give(tmp_path, head, classes, standardise):
    path = vectors_file(tmp_path / "v.parquet", 2_000, classes=classes, group=300)
    shards = shards_of(path, classes, ALL)
    trial = trial_of(f"vectors+{head}", classes=classes)
    loss = objective(classes, loss=trial.resolved.loss)
    vectors, targets, _ = whole(shards)
    task = task_of_rows(vectors, targets, loss)
    chosen = {"standardise": standardise, "C": 0.1}
    rows, none = torch.arange(len(targets)), torch.zeros(1, len(targets)).bool()
    (theirs,) = trial.fitter._solved(task, [chosen], rows, none, 1e-7, None)
    moments = compute_moments(shards, classes)
    (ours,) = solve_linear(shards, moments, loss, [chosen], trial.fitter)
    for name, own in theirs.items():
        assert torch.allclose(ours[name], own, rtol=1e-3, atol=1e-3 * float(own.abs().max())), name


def test_a_start_near_the_end_takes_fewer_passes(shards, found, monkeypatch):
    fitter, passes, total = trial_of("vectors+linear").fitter, [0, 0], shards.sum
    chosen = [{"standardise": True, "C": 0.1}]

    def count(statistic):
        passes[-1] += 1
        return total(statistic)

    monkeypatch.setattr(shards, "sum", count)
    (state,) = solve_linear(shards, found, objective(), chosen, fitter)
    passes.append(0)
    again = solve_linear(shards, found, objective(), chosen, fitter, state)[0]
    assert passes[2] < passes[1] / 2
    assert all(torch.allclose(again[name], own, atol=1e-4) for name, own in state.items())


@pytest.mark.parametrize(
    ("recipe", "chosen"),
    [
        ("vectors+ridge", {"alpha": 3.0}),
        ("vectors+lda", {"shrinkage": 0.2}),
        ("vectors+lda", {"shrinkage": 0.0}),  # that of Ledoit and Wolf
        ("vectors+centroid", {}),
        ("vectors+cosine", {}),
    ],
)
def test_heads_in_closed_form_are_those_that_rows_in_memory_give(shards, found, recipe, chosen):
    fitter = trial_of(recipe).fitter
    vectors, targets, _ = whole(shards)
    task = task_of_rows(vectors, targets, objective())
    theirs = fitter._solved(task, chosen, torch.arange(len(targets)), torch.arange(50))
    chain = fitter.chain(3, chosen)
    chain.load_state_dict(solve_closed_form(shards, found, fitter, chosen))
    with torch.no_grad():
        assert torch.allclose(chain(vectors[:50]), theirs.logits, rtol=1e-4, atol=1e-4)


def test_a_class_that_no_row_has_is_answered_by_none(tmp_path):
    shards = shards_of(vectors_file(tmp_path / "v.parquet", 900), 4, ALL)  # of three classes
    found = compute_moments(shards, 4)
    vectors, targets, _ = whole(shards)
    settings = {"centroid": {}, "lda": {"shrinkage": 0.2}, "ridge": {"alpha": 1.0}}
    for recipe, chosen in settings.items():
        fitter = trial_of(f"vectors+{recipe}", classes=4).fitter
        chain = fitter.chain(4, chosen)
        chain.load_state_dict(solve_closed_form(shards, found, fitter, chosen))
        with torch.no_grad():
            answers = chain(vectors).argmax(dim=1)
        assert (answers == targets).float().mean() > 0.8
        assert not (answers == 3).any()


def test_heads_of_layers_learn_from_shard_after_shard(shards, found):
    fitter = trial_of("vectors+roberta").fitter
    development = next(shards.rows()).select(slice(None, None, 5))
    search = StepwiseSearch(
        shards=shards, moments=found, fitter=fitter, objective=objective(), settings=[],
        development=development, seed=0,
    )  # fmt: skip
    trained = search()
    assert (trained.held.argmax(dim=1) == development.targets).float().mean() > 0.9
    again = replace(search, settings=[trained.chosen], start=trained.state)()
    assert again.point.score > 0.9


def test_what_needs_all_rows_is_refused():
    with pytest.raises(RecipeError):
        check_streams(trial_of("vectors+knn").fitter, "vectors+knn")
    for recipe in ("linear", "ridge", "lda", "centroid", "cosine", "mlp", "roberta", "gpt2"):
        check_streams(trial_of(f"vectors+{recipe}").fitter, recipe)
