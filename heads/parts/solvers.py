"""How a head without gradient descent finds its tensors: at once, at their optimum.

Legend: n rows, w width, c classes; `vectors` (n, w); `targets` (n, c), 1 where the row has the
class, else 0. A solver sets the tensors of a chain in place. For several labels a row
(`many`), every class is a problem of its own: with the label against without it.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from heads.parts.modules import Neighbours

LEAST_DEVIATION = 1e-3  # of the mean


def last_linear(layers: nn.Sequential) -> nn.Linear:
    """Return the last linear layer of a chain."""
    return [module for module in layers.modules() if isinstance(module, nn.Linear)][-1]


def set_layer(linear: nn.Linear, weight: Tensor, bias: Tensor | None = None) -> None:
    """Copy a weight (c, w) and a bias (c,) into a layer."""
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)


def standardised(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return standardised vectors in double precision, with their mean and divisor (w,)."""
    vectors = vectors.double()
    centre = vectors.mean(dim=0)
    spread = divisor(centre, vectors.std(dim=0, correction=0))
    return (vectors - centre) / spread, centre, spread


def divisor(mean: Tensor, deviation: Tensor) -> Tensor:
    """Return what standardisation divides each dimension by, (w,), given its mean and deviation.

    That is its deviation, but at least 0.1 % of its mean: what varies less than that is mostly
    rounding, which would otherwise be multiplied into the logits. Constants are divided by 1.
    """
    least = LEAST_DEVIATION * mean.abs()
    return torch.where(deviation > 1e-9, torch.maximum(deviation, least), 1.0)


def set_raw_layer(
    linear: nn.Linear, weight: Tensor, bias: Tensor, centre: Tensor, spread: Tensor
) -> None:
    """Copy a weight and a bias of standardised vectors into a layer that reads raw ones."""
    raw = weight / spread
    set_layer(linear, raw, bias - raw @ centre)


def ridge(
    chain: nn.Sequential, vectors: Tensor, targets: Tensor, *, many: bool = False, alpha: float
) -> None:
    """Least squares to +1 and −1 with an L2 penalty over standardised vectors, in closed form."""
    rows, centre, spread = standardised(vectors)
    signs = targets.double() * 2 - 1
    bias = signs.mean(dim=0)
    # Rows are centred, so bias and weights separate; solve in the smaller of the two spaces.
    if rows.shape[1] <= len(rows):
        weight = ridge_weights(rows.T @ rows, rows.T @ (signs - bias), alpha)
    else:
        gram = _ridged(rows @ rows.T, alpha)
        weight = (rows.T @ torch.linalg.solve(gram, signs - bias)).T
    set_raw_layer(last_linear(chain), weight, bias, centre, spread)


def _ridged(gram: Tensor, alpha: float) -> Tensor:
    """Add alpha to the diagonal of a Gram matrix."""
    return gram + alpha * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)


def ridge_weights(gram: Tensor, products: Tensor, alpha: float) -> Tensor:
    """Weights (c, w) of least squares with an L2 penalty, from what adds up over rows.

    Args:
        gram: XᵀX (w, w) of centred rows.
        products: XᵀY (w, c) of them and of centred targets.
    """
    return torch.linalg.solve(_ridged(gram, alpha), products).T


def lda(
    chain: nn.Sequential,
    vectors: Tensor,
    targets: Tensor,
    *,
    many: bool = False,
    shrinkage: float,
) -> None:
    """Sets each class to its log density under a Gaussian, less what is the same for all classes.

    The Gaussians have the classes' means and one covariance, that within classes of standardised
    vectors, drawn towards a multiple of the identity of the same trace. For `many` there are two
    of them for every class, with the label and without it.

    Args:
        shrinkage: The share of the identity; 0 is Ledoit and Wolf's.
    """
    rows, centre, spread = standardised(vectors)
    found = [_discriminants(rows, own, shrinkage) for own in one_class(targets, many=many)]
    weight = torch.cat([one[1:] - one[:1] for one, _ in found]) if many else found[0][0]
    bias = torch.cat([one[1:] - one[:1] for _, one in found]) if many else found[0][1]
    set_raw_layer(last_linear(chain), weight, bias, centre, spread)


def one_class(targets: Tensor, *, many: bool) -> list[Tensor]:
    """Return the problems of one class a row, (n, c) each: for several labels one a label."""
    target_matrix = targets.double()
    if not many:
        return [target_matrix]
    return [torch.stack([1 - label, label], dim=1) for label in target_matrix.T]


def _discriminants(rows: Tensor, target_matrix: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Weights (c, w) and biases (c,) of one row's class, given by goals (n, c)."""
    means, counts = class_means(rows, target_matrix), target_matrix.sum(dim=0)
    within = rows - target_matrix @ means
    covariance = within.T @ within / len(within)
    return discriminants(means, covariance, counts, shrinkage or ledoit_wolf(within))


def ledoit_wolf(within: Tensor) -> float:
    """Return Ledoit and Wolf's shrinkage of the covariance of centred rows (n, w)."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    return float(ledoit_wolf_shrinkage(within.cpu().numpy(), assume_centered=True))


def discriminants(
    means: Tensor, covariance: Tensor, counts: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """Weights (c, w) and biases (c,) of Gaussians, from what adds up over rows.

    Args:
        means: (c, w), of the classes.
        covariance: (w, w), within classes.
        counts: (c,), how many rows each class has.
        share: Of the identity in the covariance, of the same trace.
    """
    size = covariance.diagonal().mean()
    # Of rows that are all their class's mean nothing is left to divide by.
    size = size if size > 1e-12 else torch.ones_like(size)
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    shrunk = (1 - share) * covariance + max(share, 1e-6) * size * identity
    weight = torch.linalg.solve(shrunk, means.T).T
    # A class without a row is taken for half a row, which leaves its logarithm finite.
    prior = (counts.clamp_min(0.5) / counts.sum()).log()
    return weight, prior - (weight * means).sum(dim=1) / 2


def class_means(vectors: Tensor, targets: Tensor) -> Tensor:
    """Return the mean (c, w) of each class's vectors; 0 for a class without any."""
    return targets.T @ vectors / targets.sum(dim=0).clamp_min(1)[:, None]  # (c, w)


def centroid(chain: nn.Sequential, vectors: Tensor, targets: Tensor, *, many: bool = False) -> None:
    """Sets each class to the mean of its rows; the linear layer then ranks by distance.

    A class without a row has no mean, and is the nearest to nothing.
    """
    vectors, targets = vectors.double(), targets.double()
    means = class_means(vectors, targets)
    bias = -means.square().sum(dim=1) / 2
    furthest = vectors.square().sum(dim=1).max() if len(vectors) else vectors.new_zeros(())
    bias = torch.where(targets.sum(dim=0) > 0, bias, -2 * furthest)
    if many:
        others = class_means(vectors, 1 - targets)
        means, bias = means - others, bias + others.square().sum(dim=1) / 2
    set_layer(last_linear(chain), means, bias)


def cosine(chain: nn.Sequential, vectors: Tensor, targets: Tensor, *, many: bool = False) -> None:
    """Sets each class to the direction of the mean of its normalised rows."""
    directions = normalize(class_means(normalize(vectors, dim=-1), targets.to(vectors)), dim=-1)
    set_layer(last_linear(chain), directions)


def neighbours(
    chain: nn.Sequential, vectors: Tensor, targets: Tensor, *, many: bool = False, k: int
) -> None:
    """Stores the rows."""
    block = next(module for module in chain.modules() if isinstance(module, Neighbours))
    block.points = normalize(vectors, dim=-1)
    block.votes = targets.to(vectors)
