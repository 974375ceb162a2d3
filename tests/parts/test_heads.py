"""Every head on the shelf is under these contracts by being there."""

import inspect
import math
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
import torch
from golden import filled, solve
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from heads.parts import solvers
from heads.parts.modules import chain
from heads.parts.registry import Head
from heads.parts.resolve import head

WIDTH, CLASSES = 12, 3
HEADS = list(head.values())
SOLVED = [part for part in HEADS if part.solve]
LEARNED = [part for part in HEADS if not part.is_solved]

every_head = pytest.mark.parametrize("part", HEADS, ids=lambda part: part.name)
every_solved_head = pytest.mark.parametrize("part", SOLVED, ids=lambda part: part.name)
every_learned_head = pytest.mark.parametrize("part", LEARNED, ids=lambda part: part.name)


def blobs(
    rows: int = 60, width: int = WIDTH, classes: int = CLASSES, *, apart: float = 2.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Points around one centre a class, of unequal spread and scale, and the number of the class.

    The classes are not of one size.
    """
    rng = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=rng) * apart
    labels = torch.arange(rows).remainder(classes + 1).clamp_max(classes - 1)
    scales = torch.linspace(0.3, 3, width)
    points = (centres[labels] + torch.randn(rows, width, generator=rng)) * scales + 1.5
    return points, labels


def one_hot(labels: Tensor, classes: int = CLASSES) -> Tensor:
    return torch.eye(classes)[labels]


def made(part: Head) -> nn.Sequential:
    """The head with weights in it: solved on blobs, or arithmetic where it is learned."""
    layers = filled(part.make(WIDTH, CLASSES))
    if part.solve:
        points, labels = blobs()
        solve(part, layers, points, one_hot(labels))
    return layers


def solved(
    name: str, points: Tensor, targets: Tensor, *, many: bool = False, **options: float
) -> nn.Sequential:
    """A head solved in double precision, so that only the mathematics is compared."""
    layers = head[name].make(points.shape[1], targets.shape[1], **options).double().eval()
    solve(head[name], layers, points.double(), targets.double(), many=many, **options)
    return layers


@every_head
def test_is_a_plain_chain_of_named_layers_that_is_sketched_and_saved(part):
    layers, other = made(part), part.make(WIDTH, CLASSES).eval()
    assert type(layers) is nn.Sequential
    names = [name for full, _ in layers.named_modules() for name in full.split(".") if name]
    assert names
    assert not [name for name in names if name.isdigit()]
    tensors = [*layers.named_parameters(remove_duplicate=False), *layers.named_buffers()]
    assert len({tensor.data_ptr() for _, tensor in tensors}) == len(tensors)
    assert [name for name, _ in tensors] == list(layers.state_dict())
    with torch.device("meta"):
        sketch = part.make(WIDTH, CLASSES).state_dict()
    assert all(tensor.is_meta for tensor in sketch.values())
    assert {n: t.shape for n, t in sketch.items()} == {
        n: t.shape for n, t in part.make(WIDTH, CLASSES).state_dict().items()
    }
    other.load_state_dict(layers.state_dict(), strict=True)
    assert torch.equal(other(blobs(7)[0]), layers(blobs(7)[0]))


@every_head
@pytest.mark.parametrize("rows", [1, 7])
def test_answers_each_row_alone_and_always_the_same(part, rows):
    layers, vectors = made(part), blobs(rows)[0]
    untouched, rng = vectors.clone(), torch.get_rng_state()
    logits = layers(vectors)
    assert (logits.shape, logits.dtype) == ((rows, CLASSES), torch.float32)
    assert logits.isfinite().all()
    for row in range(rows):
        assert_close(layers(vectors[row : row + 1])[0], logits[row], rtol=1e-5, atol=1e-5)
    assert torch.equal(layers(vectors), logits)
    assert torch.equal(vectors, untouched)
    assert torch.equal(torch.get_rng_state(), rng)
    for classes in (1, 2, 9):
        assert part.make(5, classes).eval()(torch.ones(2, 5)).shape == (2, classes)


@every_head
def test_every_option_that_is_a_number_changes_something(part):
    solver = {*inspect.signature(part.solve).parameters} if part.solve else set()
    solver |= {"margin", "C"}  # which the loss and the fitter have
    for name, default in part.options.items():
        if not isinstance(default, str) and name not in solver:
            other = (
                not default
                if isinstance(default, bool)
                else default * 2 or (3 if isinstance(default, int) else 0.5)
            )
            changed = part.make(WIDTH, CLASSES, **{name: other})
            assert repr(changed) != repr(part.make(WIDTH, CLASSES))


@every_learned_head
def test_gradients_reach_every_weight(part):
    vectors, labels = blobs(20)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = filled(part.make(WIDTH, CLASSES)).train()
        logits = layers(vectors)
    goals = labels.expand(logits.shape[:-1]).flatten()
    cross_entropy(logits.flatten(0, -2), goals).backward()
    for weight in layers.parameters():
        assert weight.grad.isfinite().all()
        assert weight.grad.any() or weight.dim() == 1


@every_solved_head
@pytest.mark.parametrize("rows", [4, 60])
def test_is_solved_the_same_every_time_with_fewer_and_more_rows_than_numbers(part, rows):
    points, labels = blobs(rows + 60, apart=3)
    points[:, 3] = 7.0  # a number that is the same in every text says nothing
    one, other = (part.make(WIDTH, CLASSES).eval() for _ in range(2))
    for layers in (one, other):
        solve(part, layers, points[:rows], one_hot(labels[:rows]))
    assert all(tensor.isfinite().all() for tensor in one.state_dict().values())
    assert torch.equal(one(points), other(points))
    assert rows < 60 or (one(points[rows:]).argmax(dim=1) == labels[rows:]).float().mean() > 0.9


@pytest.mark.parametrize(
    "part", [part for part in SOLVED if not part.single_label], ids=lambda part: part.name
)
def test_solves_several_labels_a_text(part):
    points = blobs(80, apart=0)[0]
    targets = (points[:, -3:] > torch.tensor([0.5, 1.5, 3.0])).float()
    layers = part.make(WIDTH, CLASSES).eval()
    solve(part, layers, points, targets, many=True)
    right = (layers(points) > 0) == (targets > 0)
    assert (right.float().mean(dim=0) > 0.7).all()


@pytest.mark.parametrize(("rows", "width"), [(60, 12), (12, 12), (10, 40)])
@pytest.mark.parametrize("alpha", [0.1, 100.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_ridge_is_scikit_learns(rows, width, alpha, classes):
    points, labels = blobs(rows, width, classes, apart=0.5)
    ours = solved("ridge", points, one_hot(labels, classes), alpha=alpha)(points.double())
    standard = StandardScaler().fit_transform(points.double().numpy())
    model = RidgeClassifier(alpha=alpha).fit(standard, labels.numpy())
    theirs = torch.tensor(model.decision_function(standard))
    assert_close(ours.detach() if classes > 2 else ours.detach()[:, 1], theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_centroid_is_scikit_learns(classes):
    points, labels = blobs(90, classes=classes, apart=0.4)
    ours = solved("centroid", points, one_hot(labels, classes))(points.double()).argmax(dim=1)
    model = NearestCentroid().fit(points.double().numpy(), labels.numpy())
    theirs = torch.tensor(model.predict(points.double().numpy()))
    assert torch.equal(ours, theirs)
    assert (ours != labels).any()


def test_centroid_of_several_labels_is_the_nearer_of_with_and_without():
    points = blobs(50, apart=0)[0].double()
    targets = torch.stack([points[:, 0] > 1.5, points[:, 5] > 2], dim=1)
    logits = solved("centroid", points, targets.float(), many=True)(points)
    for number in range(2):
        near, far = (
            (points - points[targets[:, number] == wanted].mean(dim=0)).norm(dim=1)
            for wanted in (True, False)
        )
        assert torch.equal(logits[:, number] > 0, near < far)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_cosine_is_the_angle_to_the_mean_direction(scale):
    texts, numbers = blobs(30, apart=0.5)
    points, labels = texts.double().numpy(), numbers.numpy()
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    means = np.stack([directions[labels == number].mean(axis=0) for number in range(CLASSES)])
    angles = directions @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    ours = solved("cosine", texts, one_hot(numbers), scale=scale)(texts.double())
    assert_close(ours.detach(), torch.tensor(angles * scale))


@pytest.mark.parametrize("k", [1, 5, 10, 30, 99])
def test_knn_is_a_vote_of_the_nearest(k):
    points, labels = blobs(30, apart=0.5)
    texts = blobs(8, apart=0.5, seed=1)[0]
    ours = solved("knn", points, one_hot(labels), k=k)(texts.double())
    for row, text in enumerate(texts.double()):
        angles = [float(text @ p / text.norm() / p.norm()) for p in points.double()]
        nearest = sorted(range(len(points)), key=lambda place: -angles[place])[:k]
        votes = [sum(int(labels[place]) == c for place in nearest) for c in range(CLASSES)]
        wanted = [math.log((v + 1 / CLASSES) / (len(nearest) + 1)) for v in votes]
        first = next(int(labels[place]) for place in nearest if votes[labels[place]] == max(votes))
        assert ours[row].tolist() == pytest.approx(wanted, abs=1e-3 / max(votes))
        if votes.count(max(votes)) == 1:  # nothing is decided beside the votes
            assert ours[row].tolist() == pytest.approx(wanted, abs=1e-9)
            assert float(ours[row].exp().sum()) == pytest.approx(1)
        assert int(ours[row].argmax()) == first


def test_knn_breaks_a_tie_by_the_nearest_and_not_by_the_number_of_the_class():
    angles = torch.tensor([0.30, 0.10, 0.20])  # of three texts of three classes
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    text = torch.tensor([[1.0, 0.0]])
    for shift in range(3):
        labels = (torch.arange(3) + shift) % 3
        logits = solved("knn", points, one_hot(labels), k=3)(text.double())
        assert int(logits.argmax()) == int(labels[1])
    # Two against one is no tie, however near the one is.
    points = torch.cat([points, points[:1] * 1.5])
    logits = solved("knn", points, one_hot(torch.tensor([0, 1, 2, 0])), k=4)(text.double())
    assert int(logits.argmax()) == 0


@pytest.mark.parametrize("shrinkage", [0.01, 0.3, 1.0])
@pytest.mark.parametrize(("rows", "width"), [(90, 12), (30, 40)])
def test_lda_is_scikit_learns_under_one_shrunk_covariance(shrinkage, rows, width):
    """Scikit-learn shrinks the covariance of each class; those of equal size come to the same."""
    rng = torch.Generator().manual_seed(1)
    labels = torch.arange(rows) % CLASSES
    points = torch.randn(rows, width, generator=rng).double()
    points += torch.randn(CLASSES, width, generator=rng).double()[labels]
    points = torch.tensor(StandardScaler().fit_transform(points.numpy()))
    ours = solved("lda", points, one_hot(labels), shrinkage=shrinkage)(points)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    theirs = model.fit(points.numpy(), labels.numpy()).decision_function(points.numpy())
    assert_close(ours.detach(), torch.tensor(theirs), rtol=1e-8, atol=1e-8)


def test_lda_without_a_shrinkage_has_that_of_ledoit_and_wolf():
    points, labels = blobs(60, apart=0.5)
    points = points + 2 * points[:, :1]  # numbers that vary together
    rows = torch.tensor(StandardScaler().fit_transform(points.double().numpy()))
    means = torch.stack([rows[labels == number].mean(dim=0) for number in range(CLASSES)])
    share = ledoit_wolf_shrinkage((rows - means[labels]).numpy(), assume_centered=True)
    assert 0 < share < 1
    found, wanted = (
        solved("lda", points, one_hot(labels), shrinkage=shrinkage)(points.double())
        for shrinkage in (0.0, float(share))
    )
    assert_close(found, wanted)


def test_lda_knows_how_often_a_class_is():
    points, labels = blobs(80, classes=2, apart=0.0)
    logits = solved("lda", points, one_hot(labels, 2), shrinkage=1.0)(points.double())
    assert (logits[:, 1] > logits[:, 0]).double().mean() > 0.6


def test_dense_linear_is_one_linear_map():
    layers = filled(head["dense_linear"].make(WIDTH, CLASSES, hidden=5)).double()
    vectors = blobs(7)[0].double()
    joined = layers.out_proj.weight @ layers.dense.weight
    bias = layers.out_proj.weight @ layers.dense.bias + layers.out_proj.bias
    assert_close(layers(vectors), vectors @ joined.T + bias)
    bare = filled(head["electra"].make(WIDTH, CLASSES, activation="none", hidden=5)).double()
    assert torch.equal(bare(vectors), layers(vectors))


def test_norm_linear_does_not_see_a_vectors_shift_and_scale():
    layers, vectors = filled(head["norm_linear"].make(WIDTH, CLASSES)), blobs(7)[0]
    assert_close(layers(3 * vectors + 5), layers(vectors), rtol=1e-3, atol=1e-4)


def test_residual_is_linear_where_its_network_says_nothing():
    layers, vectors = filled(head["residual"].make(WIDTH, CLASSES, hidden=5)), blobs(7)[0]
    inner = layers.residual
    hidden = (vectors @ inner.weight_in.T + inner.bias_in).relu()
    assert hidden.shape == (7, 5)
    wanted = layers.classifier(vectors + hidden @ inner.weight_out.T + inner.bias_out)
    assert_close(layers(vectors), wanted)
    with torch.no_grad():
        inner.weight_out.zero_()
        inner.bias_out.zero_()
    assert torch.equal(layers(vectors), layers.classifier(vectors))


def test_cosine_margin_knows_only_directions():
    layers, vectors = filled(head["cosine_margin"].make(WIDTH, CLASSES, scale=7.0)), blobs(7)[0]
    logits = layers(vectors)
    assert (logits.abs() <= 7.001).all()
    assert_close(layers(4 * vectors), logits)
    with torch.no_grad():
        layers.directions.weight.mul_(3)
    assert_close(layers(vectors), logits)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_proportional_odds_are_probabilities_that_move_with_one_number(classes):
    layers = head["proportional_odds"].make(1, classes).double().eval()
    with torch.no_grad():
        layers.projection.weight.fill_(1.0)
        layers.thresholds.steps.copy_(torch.linspace(-2, 0.5, classes - 1))
    numbers = torch.linspace(-30, 30, 61).double()[:, None]
    shares = layers(numbers).exp()
    assert_close(shares.sum(dim=1), torch.ones(61).double())
    assert_close(layers(numbers).softmax(dim=1), shares)
    # McCullagh's model: the log-odds of "at most k" fall by one for every step of the number.
    below = shares.cumsum(dim=1)[20:41, :-1]
    odds = (below / (1 - below)).log()
    assert_close(odds[1:] - odds[:-1], -torch.ones_like(odds[1:]), rtol=0, atol=1e-4)
    assert (odds[:, 1:] > odds[:, :-1]).all()
    answers = layers(numbers).argmax(dim=1)
    assert (answers[1:] >= answers[:-1]).all()
    assert {0, classes - 1} <= set(answers.tolist())


def test_multi_sample_dropout_answers_every_sample_while_it_is_trained():
    layers = head["multi_sample_dropout"].make(WIDTH, CLASSES, samples=4)
    vectors = blobs(7)[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        training = layers.train()(vectors)
    assert training.shape == (4, 7, CLASSES)
    assert all(not torch.equal(one, other) for one, other in pairwise(training))
    assert torch.equal(layers.eval()(vectors), layers.classifier(vectors))


@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
def test_mlp_has_the_activation_and_the_width_asked_for(activation):
    layers = head["mlp"].make(WIDTH, CLASSES, hidden=5, activation=activation).eval()
    vectors = blobs(7)[0]
    inner = getattr(torch.nn.functional, activation)(layers.hidden(vectors))
    assert inner.shape == (7, 5)
    assert torch.equal(layers(vectors), layers.output(inner))


def test_new_linear_layers_start_small_and_without_bias():
    layers = chain(("a.x", nn.Linear(400, 50)), ("b", nn.Linear(50, 400, bias=False)))
    for weight in (layers.a.x.weight, layers.b.weight):
        assert weight.detach().std().item() == pytest.approx(0.02, rel=0.05)
        assert weight.detach().mean().item() == pytest.approx(0, abs=0.001)
    assert not layers.a.x.bias.any()


def test_a_dot_in_a_name_makes_an_inner_chain_and_keeps_the_order():
    layers = chain(("a.x", nn.Linear(2, 2)), ("a.y", nn.Tanh()), ("b", nn.Linear(2, 1)))
    assert [name for name, _ in layers.named_children()] == ["a", "b"]
    assert [name for name, _ in layers.a.named_children()] == ["x", "y"]
    split = [("a.x", nn.Linear(2, 2)), ("b", nn.Tanh()), ("a.y", nn.Linear(2, 1))]
    with suppress(ValueError):  # or it is refused
        values = torch.ones(1, 2)
        assert torch.equal(chain(*split)(values), split[2][1](split[1][1](split[0][1](values))))


@pytest.mark.parametrize(
    ("solver", "option"),
    [
        (solvers.ridge, {"alpha": 1.0}),
        (solvers.lda, {"shrinkage": 0.1}),
    ],
)
def test_rounding_of_a_dimension_that_hardly_varies_is_not_multiplied(solver, option):
    """Its deviation is 1e-5 of its mean: a change of that size moves no logit much."""
    vectors = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    vectors[:, 0] = 10 + 1e-4 * vectors[:, 0]
    targets = torch.nn.functional.one_hot((vectors[:, 0] > 10).long(), 2)
    linear = nn.Sequential(nn.Linear(8, 2))
    solver(linear, vectors, targets, **option)
    moved = vectors.clone()
    moved[:, 0] += 1e-4
    assert (linear(moved) - linear(vectors)).abs().max() < 0.1
