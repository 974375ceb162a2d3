"""Parts of class-wise scores from which variances are made: of small classes as well as of large.

The rows of a class scatter too little about its recall, or its F1, which is their own: of m pieces
of evidence the squares come to (m − 1) / m of what they should. So they count √(m / (m − 1)) times.
Of one piece nothing is known of what it scatters by: it is taken about the mean of all classes,
which is rather too much than too little. (Parts whose mean is the score, as of `influence`, cannot
have this: what one more such row does to the score is another thing than how unsure the score is.)

Legend: n rows, c classes or labels; `groups` (n,), equal numbers for rows of one piece of evidence.

Source: the unbiased variance in every stratum (Cochran 1977, section 5.2), of one piece centred at
the mean of all strata, as in `svydesign(lonely.psu="adjust")` (Lumley 2010, section 2.2).
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def of_recalls(given: Tensor, truth: Tensor, classes: int, groups: Tensor) -> Tensor:
    """(n,), each row's part of the mean recall over the classes that are tested.

    Args:
        given: (n,), the class answered.
        truth: (n,), the class of the row.
        classes: c.
        groups: As in the legend.
    """
    has, right = one_hot(truth, classes).double(), (given == truth).double()
    sizes = has.sum(dim=0)
    recalls = (has * right[:, None]).sum(dim=0) / sizes
    known = sizes > 0
    about, factors = _corrected(recalls, known, has, groups)
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
    if truth.dim() == 1:
        given, truth = one_hot(given, classes), one_hot(truth, classes)
    has, answered = truth.bool().double(), given.bool().double()
    both, either = 2 * has * answered, has + answered
    sizes = either.sum(dim=0)
    known = sizes > 0
    if not bool(known.any()):
        return torch.zeros(len(truth), dtype=torch.double)
    scores = both.sum(dim=0) / sizes
    about, factors = _corrected(scores, known, has, groups)
    scale = factors * len(truth) / (sizes * known.sum())
    own = ((both - about * either) * scale)[:, known].sum(dim=1)
    return scores[known].mean() + own


def _corrected(scores: Tensor, known: Tensor, has: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """For each class what its rows scatter about, and the factor for that being their own mean."""
    _, number = groups.unique(return_inverse=True)
    found = torch.zeros(int(number.max()) + 1, has.shape[1]).double().index_add_(0, number, has)
    pieces = (found > 0).sum(dim=0).double()
    lonely = pieces <= 1
    about = torch.where(lonely, scores[known].mean(), scores)
    return about, torch.where(lonely, 1.0, pieces / (pieces - 1)).sqrt()
