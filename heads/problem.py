"""The problem types, named as Transformers names them in ``config.problem_type``.

What a row is labelled with decides everything that follows: what the targets are, how logits
become probabilities and answers, which rows are alike, what is measured. Each type is one class
that says all of it; a further one would be one class more, and a metric that is for it.

```
ProblemType
├── SingleLabel                   one class of several: softmax
│   └── OneVersusRest             the same, learned as a yes-or-no question a class
├── MultiLabel                    any number of labels: a sigmoid each
│   └── SingleOutput              one number under a sigmoid, as of a reward model
└── Regression                    a number
```

Legend: n rows, c classes or labels. Targets are (n,) numbers of classes, (n, c) 1 at the labels
of a row, or (n,) values; logits are (n, c), of a regression (n, 1).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:  # the page names problem types before torch is imported
    from torch import Tensor

OutputActivation = Literal["softmax", "normalised_sigmoid", "sigmoid", "none"]
Labels = Sequence[Sequence[int]]  # of each row the numbers of its classes
BANDS = 10  # of values, in each of which the same share of rows is held out


class ProblemType(ABC):
    """What rows are labelled with, and all that follows from it.

    There is one object of each type; they compare by identity, also after pickling.

    Attributes:
        name: As in ``config.problem_type`` of Transformers.
        labels: What the labels are, in words.
        metric: The name of the metric by which heads are ranked unless another is asked for.
        output_activation: What makes probabilities of the logits.
        has_classes: Whether labels are names; else they are values.
        is_exclusive: Whether a row has one of the classes and no other.
        has_label_sets: Whether a row may have any number of labels, each decided by itself.
        gives_number: Whether a logit is itself what is asked for.
        decided: What is decided with a probability, in words.
        group: Of what there are so many, in words.
        usual_answer: What the majority baseline always answers, in words.
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    metric: ClassVar[str]
    output_activation: ClassVar[OutputActivation]
    has_classes: ClassVar[bool] = True
    is_exclusive: ClassVar[bool] = False
    has_label_sets: ClassVar[bool] = False
    gives_number: ClassVar[bool] = False
    decided: ClassVar[str] = "yes-or-no questions"
    group: ClassVar[str] = "label"
    usual_answer: ClassVar[str] = "majority class"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return next(name for name, value in globals().items() if value is self)

    def outputs(self, classes: int) -> int:
        """Return how many logits a head has for so many classes."""
        return classes

    def learned_by(self, loss: str) -> "ProblemType":
        """Return the type of a head that learned by a loss: one-versus-rest has its own."""
        return self

    @abstractmethod
    def targets(self, labels: Labels, values: Sequence[float], classes: int) -> "Tensor":
        """Return the targets of rows, from the numbers of their classes or from their values."""

    @abstractmethod
    def target_matrix(self, targets: "Tensor", outputs: int) -> "Tensor":
        """(…, c): 1 at the classes of a row and 0 elsewhere; (…, 1) values as they are."""

    @abstractmethod
    def answers(self, logits: "Tensor", thresholds: "Tensor | None" = None) -> "Tensor":
        """Return answers in the form of targets: the largest logit, or all above a threshold."""

    def chosen(self, logits: "Tensor", thresholds: Sequence[float] = ()) -> "Tensor":
        """(n, c), true at the classes that are answered.

        Args:
            thresholds: For each label a logit; 0, which is one half, without them.
        """
        from torch.nn.functional import one_hot

        return one_hot(logits.argmax(dim=1), logits.shape[1]).bool()

    def probabilities(self, logits: "Tensor", temperature: float = 1.0) -> "Tensor":
        """(n, c): the probabilities of the classes; (n, 1) values as they are."""
        return (self.competing(logits) / temperature).softmax(dim=1)

    def competing(self, logits: "Tensor") -> "Tensor":
        """Logits whose softmax are the probabilities of classes one of which applies, (n, c)."""
        return logits

    @abstractmethod
    def confidence(self, logits: "Tensor", answers: "Tensor") -> "Tensor":
        """Return the probability of every answer: (n,), or (n, c) if each label is a question."""

    @abstractmethod
    def log_likelihood(self, logits: "Tensor", targets: "Tensor") -> "Tensor":
        """Ln of the probability of the truth, of every row (n, 1) or of every label (n, c)."""

    @abstractmethod
    def strata(self, targets: "Tensor") -> "Tensor":
        """(n,), rows with the same number are alike: a split gives each part its share of them."""


class SingleLabel(ProblemType):
    """One class of several."""

    name = "single_label_classification"
    labels = "one class a row"
    metric = "accuracy"
    output_activation = "softmax"
    is_exclusive = True
    decided = "texts"
    group = "class"

    def learned_by(self, loss: str) -> ProblemType:
        return ONE_VERSUS_REST if loss == "ovr" else self

    def targets(self, labels: Labels, values: Sequence[float], classes: int) -> "Tensor":
        import torch

        return torch.tensor([label for (label,) in labels], dtype=torch.long)

    def target_matrix(self, targets: "Tensor", outputs: int) -> "Tensor":
        from torch.nn.functional import one_hot

        return one_hot(targets, outputs).float()

    def answers(self, logits: "Tensor", thresholds: "Tensor | None" = None) -> "Tensor":
        return logits.argmax(dim=1)

    def confidence(self, logits: "Tensor", answers: "Tensor") -> "Tensor":
        return self.competing(logits).log_softmax(dim=1).amax(dim=1).exp()

    def log_likelihood(self, logits: "Tensor", targets: "Tensor") -> "Tensor":
        return self.competing(logits).log_softmax(dim=1).gather(1, targets[:, None])

    def strata(self, targets: "Tensor") -> "Tensor":
        return targets


class OneVersusRest(SingleLabel):
    """One class of several, each of them asked for by a yes-or-no question of its own.

    The sigmoids over their sum are the softmax of their logarithms.

    Source: scikit-learn's OneVsRestClassifier.predict_proba.
    """

    output_activation = "normalised_sigmoid"

    def competing(self, logits: "Tensor") -> "Tensor":
        from torch.nn.functional import logsigmoid

        return logsigmoid(logits)


class MultiLabel(ProblemType):
    """Any number of labels."""

    name = "multi_label_classification"
    labels = "several labels a row"
    metric = "micro_f1"
    usual_answer = "most frequent labels"
    output_activation = "sigmoid"
    has_label_sets = True

    def targets(self, labels: Labels, values: Sequence[float], classes: int) -> "Tensor":
        import torch

        found = torch.zeros(len(labels), classes)
        places = [(place, label) for place, row in enumerate(labels) for label in row]
        if places:
            rows, columns = torch.tensor(places).T
            found[rows, columns] = 1.0
        return found

    def target_matrix(self, targets: "Tensor", outputs: int) -> "Tensor":
        return targets

    def answers(self, logits: "Tensor", thresholds: "Tensor | None" = None) -> "Tensor":
        return logits > (0.0 if thresholds is None else thresholds)

    def chosen(self, logits: "Tensor", thresholds: Sequence[float] = ()) -> "Tensor":
        import torch

        return logits > torch.tensor(thresholds or [0.0], dtype=torch.double)

    def probabilities(self, logits: "Tensor", temperature: float = 1.0) -> "Tensor":
        return (logits / temperature).sigmoid()

    def confidence(self, logits: "Tensor", answers: "Tensor") -> "Tensor":
        return logits.where(answers, -logits).sigmoid()

    def log_likelihood(self, logits: "Tensor", targets: "Tensor") -> "Tensor":
        from torch.nn.functional import logsigmoid

        return logsigmoid(logits.where(targets.bool(), -logits))

    def strata(self, targets: "Tensor") -> "Tensor":
        """Return a row's rarest label, or none of them."""
        import torch

        has, sizes = targets.bool(), targets.sum(dim=0)
        rarity = torch.where(has, sizes, torch.inf)
        return torch.where(has.any(dim=1), rarity.argmin(dim=1), targets.shape[1])


class SingleOutput(MultiLabel):
    """One number under a sigmoid, as Transformers' pipeline shows a head with one output.

    ``config.problem_type`` has no name for it.
    """

    name = "single_output"
    labels = "one number, whose sigmoid lies between 0 and 1"
    gives_number = True


class Regression(ProblemType):
    """A number."""

    name = "regression"
    labels = "numbers"
    metric = "spearman"
    usual_answer = "mean of the labels"
    output_activation = "none"
    has_classes = False
    gives_number = True
    decided = "numbers"
    group = "number"

    def outputs(self, classes: int) -> int:
        return 1

    def targets(self, labels: Labels, values: Sequence[float], classes: int) -> "Tensor":
        import torch

        return torch.tensor(values, dtype=torch.double)

    def target_matrix(self, targets: "Tensor", outputs: int) -> "Tensor":
        return targets[..., None]

    def answers(self, logits: "Tensor", thresholds: "Tensor | None" = None) -> "Tensor":
        return logits[:, 0]

    def probabilities(self, logits: "Tensor", temperature: float = 1.0) -> "Tensor":
        return logits

    def confidence(self, logits: "Tensor", answers: "Tensor") -> "Tensor":
        raise ValueError("a number is given without a probability")

    def log_likelihood(self, logits: "Tensor", targets: "Tensor") -> "Tensor":
        raise ValueError("a number is given without a probability")

    def strata(self, targets: "Tensor") -> "Tensor":
        """Tenths of the rows, from low to high; equal values stay together."""
        _, places, counts = targets.unique(return_inverse=True, return_counts=True)
        middles = (counts.cumsum(dim=0) - counts / 2)[places]  # half below the mean rank
        return (middles * BANDS / len(targets)).long()


SINGLE_LABEL, ONE_VERSUS_REST = SingleLabel(), OneVersusRest()
MULTI_LABEL, SINGLE_OUTPUT = MultiLabel(), SingleOutput()
REGRESSION = Regression()
# What data can be labelled with; the others are ways to answer that a head may have.
PROBLEM_TYPES: Mapping[str, ProblemType] = {
    one.name: one for one in (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
}


def problem_of(facts: Mapping[str, Any]) -> ProblemType:
    """Return the problem type that kept facts tell of, those of earlier versions as well.

    >>> problem_of({"problem_type": "regression"}), problem_of({"many": True, "numbers": False})
    (regression, multi_label_classification)

    Raises:
        KeyError: They tell of none that is known here.
    """
    if "problem_type" in facts:
        return {**PROBLEM_TYPES, SINGLE_OUTPUT.name: SINGLE_OUTPUT}[facts["problem_type"]]
    if facts["many"]:
        return SINGLE_OUTPUT if facts.get("numbers") else MULTI_LABEL
    return REGRESSION if facts.get("numbers") else SINGLE_LABEL


def plain(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A ``dict_factory`` of `dataclasses.asdict`: a problem type as two words, all else as it is.

    >>> plain([("problem", MULTI_LABEL), ("rows", 3)])
    {'problem_type': 'multi_label_classification', 'output_activation': 'sigmoid', 'rows': 3}
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if isinstance(value, ProblemType):
            found |= {"problem_type": value.name, "output_activation": value.output_activation}
        else:
            found[name] = value
    return found
