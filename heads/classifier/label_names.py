"""Other names for the classes of a checkpoint's head, and the names that its answers suggest.

Legend: n rows, c classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.config_check import shown
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.classifier.pretrained import check_trained, own_head
from heads.data.corpus import Corpus
from heads.errors import CheckpointError
from heads.problem import ONE_VERSUS_REST, SINGLE_LABEL

Names = Sequence[str] | Mapping[str, str]
ROWS = 300  # whose answers suggest names


def rename_classes(head: TrainedHead, names: Names) -> TrainedHead:
    """Return the head with other names for its classes.

    Args:
        names: New names by the present ones, or in the order of the logits (also with commas).

    Raises:
        CheckpointError: There are not as many different names as classes, or one names no class.
    """
    if not names:
        return head
    if isinstance(names, str):  # as in the shell
        names = [name.strip() for name in names.split(",")]
    classes, is_odd = [*names], False
    if isinstance(names, Mapping):
        classes = [names.get(name, name) for name in head.classes]
        is_odd = any(name not in head.classes for name in names)
    if is_odd or len(classes) != len(head.classes) or len({*classes}) < len(classes):
        what = f"The head has {len(head.classes)} classes ({_listed(head.classes)}), and the label "
        hint = "Give a different name for each class, in the order of the logits."
        raise CheckpointError(f"{what}names given are {_listed([*names])}.", hint)
    return replace(head, classes=tuple(map(str, classes)))


def own_on_rows(corpus: Corpus, backbone: Backbone, names: Names = ()) -> TrainedHead:
    """Return the checkpoint's own head, whose classes are those of some rows in any order.

    Raises:
        HeadsError: The checkpoint has no trained head, or its answers are of another kind or have
            other names than the labels; says which names they suggest.
    """
    head = own_head(backbone)
    check_trained(backbone, head)
    head = rename_classes(head, names)
    problem = SINGLE_LABEL if head.problem is ONE_VERSUS_REST else head.problem
    if problem is not corpus.problem or head.needs_pairs > bool(corpus.pairs):
        what = f"The head that {backbone.id} came with answers another question than the labels of "
        raise CheckpointError(f"{what}{corpus.name}.", "Leave 'own' out.")
    if problem.has_classes and {*head.classes} != {*corpus.classes}:
        rows = range(0, len(corpus), max(1, len(corpus) // ROWS))
        pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
        texts = [corpus.texts[row] for row in rows]
        logits = Classifier(backbone=backbone, head=head).logits(texts, pairs)
        labels = [corpus.classes[target] for row in rows for target in corpus.targets[row][:1]]
        raise other_names(head, logits, labels, corpus.classes, corpus.name)
    return head


def other_names(
    head: TrainedHead, logits: Tensor, labels: Sequence[str], known: Sequence[str], data: str
) -> CheckpointError:
    """Return what to say where labels are no classes of a head: the names its answers suggest.

    Args:
        logits: (n, c), of some rows.
        labels: The label of each.
        known: All labels.
    """
    what = f"The head {shown(head.name, 60)} answers {_listed(head.classes)}; the labels of {data} "
    what += f"are {_listed(known)}."
    if len(known) != len(head.classes) or {*labels} != {*known} or len(labels) != len(logits):
        return CheckpointError(what, "Give a head that knows these labels.")
    names, share = suggest_names(logits.argmax(dim=1), labels, known)
    hint = f"On {len(labels):,} rows the names {','.join(names)}, in the order of its logits, make "
    hint += f"{100 * share:.0f} % of the answers right. If they are meant, give them as label names"
    return CheckpointError(what, f"{hint} (--label-names {','.join(names)}).")


def suggest_names(
    answers: Tensor, labels: Sequence[str], known: Sequence[str]
) -> tuple[tuple[str, ...], float]:
    """Return for each class the label it stands for, if as many answers as possible are right.

    Args:
        answers: (n,), the numbers of the classes answered.
        labels: The label of each row, one of c.
        known: All c labels.

    Returns:
        The names, in the order of the classes, and the share of right answers.

    >>> suggest_names(torch.tensor([1, 1, 0, 0]), ["a", "a", "b", "a"], ["a", "b"])
    (('b', 'a'), 0.75)
    """
    from scipy.optimize import linear_sum_assignment

    targets = torch.tensor([known.index(label) for label in labels])
    table = torch.zeros(len(known), len(known))
    table.index_put_((answers, targets), torch.ones(len(targets)), accumulate=True)
    columns = linear_sum_assignment(table.numpy(), maximize=True)[1].tolist()
    right = sum(float(table[at, column]) for at, column in enumerate(columns))
    return tuple(known[int(column)] for column in columns), right / len(labels)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(shown(name, 40) for name in names[:5]) + more
