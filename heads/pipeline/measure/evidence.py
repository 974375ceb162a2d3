"""Parts of class-wise scores from which variances are made: of small classes as well as of large.

The rows of a class scatter too little about its recall, or its F1, which is their own: of m pieces
of evidence the squares come to (m − 1) / m of what they should. So they count √(m / (m − 1)) times.
Of one piece nothing is known of what it scatters by: it is taken about the mean of the classes that
have more, which it is no part of, or of all where none has. (Parts whose mean is the score, as of
`influence`, cannot have this: what one more such row does to the score is another thing than how
unsure the score is.)

Legend: n rows, c classes or labels; `groups` (n,), equal numbers for rows of one piece of evidence.

Source: the unbiased variance in every stratum (Cochran 1977, section 5.2), of one piece centred at
the mean of all strata, as in `svydesign(lonely.psu="adjust")` (Lumley 2010, section 2.2).
"""

import torch
from torch import Tensor


def of_recalls(given: Tensor, truth: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(n,), each row's part of the mean recall over the classes that are tested.

    Args:
        given: (n,), the class answered.
        truth: (n,), the class of the row.
        classes: c.
        groups: As in the legend.
    """
    right = (given == truth).double()
    sizes = torch.bincount(truth, minlength=classes)
    recalls = torch.bincount(truth, right, minlength=classes) / sizes
    known = sizes > 0
    about, factors = _corrected(recalls, known, _pieces(truth, classes, groups))
    scale = factors * len(truth) / (sizes * known.sum())
    return recalls[known].mean() + (right - about[truth]) * scale[truth]


def of_f1s(given: Tensor, truth: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(n,), each row's part of the mean F1 over the classes that are true or given somewhere.

    Args:
        given: (n,), the class answered; or (n, c), true at the labels answered.
        truth: (n,), the class of the row; or (n, c), 1 at its labels.
        classes: c.
        groups: As in the legend.
    """
    rows = torch.arange(len(truth))
    if truth.dim() == 1:  # without a table of (n, c): of many rows and classes it is large
        has, answered = (rows, truth), (rows, given)
        right = given == truth
    else:
        has, answered = truth.bool().nonzero(as_tuple=True), given.bool().nonzero(as_tuple=True)
        right = given[has].bool()
    labels = torch.cat([has[1], answered[1]])
    sizes = torch.bincount(labels, minlength=classes)
    known = sizes > 0
    if not bool(known.any()):
        return torch.zeros(len(truth), dtype=torch.double)
    scores = 2 * torch.bincount(has[1][right], minlength=classes).double() / sizes
    about, factors = _corrected(scores, known, _pieces(has[1], classes, groups[has[0]]))
    scale = factors * len(truth) / (sizes * known.sum())
    # A label that is true, and one that is given, each count -F; both at once 2 more.
    own = torch.zeros(len(truth)).double()
    own.index_add_(0, torch.cat([has[0], answered[0]]), -(about * scale)[labels])
    own.index_add_(0, has[0][right], 2 * scale[has[1][right]])
    return scores[known].mean() + own


def _pieces(labels: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(c,), of how many groups the rows of each class are."""
    different = torch.stack([groups, labels]).unique(dim=1)
    return torch.bincount(different[1], minlength=classes).double()


def _corrected(scores: Tensor, known: Tensor, pieces: Tensor) -> tuple[Tensor, Tensor]:
    """For each class what its rows scatter about, and the factor for that being their own mean."""
    lonely = pieces <= 1
    others = known & ~lonely
    about = torch.where(lonely, scores[others if bool(others.any()) else known].mean(), scores)
    return about, torch.where(lonely, 1.0, pieces / (pieces - 1)).sqrt()
