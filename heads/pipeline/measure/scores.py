"""The score by which heads are ranked, for every kind of label, and how it is said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from heads.pipeline.corpus import Kind

Metric = Literal["accuracy", "micro_f1", "spearman"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreName:
    """How a score is named and said.

    Attributes:
        title: As the head of a column.
        noun: Within a sentence.
        sentence: What a head does, with `{}` for the score.
        is_share: Whether it is a share, said in percent; else a number from −1 to 1.
    """

    title: str
    noun: str
    sentence: str
    is_share: bool

    def told(self, score: float) -> str:
        """The score as a reader would say it.

        >>> SCORES["micro_f1"].told(0.61234), SCORES["spearman"].told(0.61234)
        ('61.2 %', '0.612')
        """
        if self.is_share:
            return f"{100 * score:.1f} %"
        told = f"{score:.3f}"
        return "0.000" if told == "-0.000" else told.replace("-", "−")

    def gap(self, difference: float) -> str:
        """A difference of two scores: hundredths where they are shares.

        >>> SCORES["accuracy"].gap(0.0084), SCORES["accuracy"].gap(-0.021)
        ('0.8 points', '-2.1 points')
        >>> SCORES["spearman"].gap(0.357)
        '0.357'
        """
        return f"{100 * difference:.1f} points" if self.is_share else f"{difference:.3f}"

    def signed(self, difference: float) -> str:
        """The same with its sign and without its unit.

        >>> SCORES["micro_f1"].signed(0.021), SCORES["spearman"].signed(-0.357)
        ('+2.1', '−0.357')
        """
        told = f"{100 * difference:+.1f}" if self.is_share else f"{difference:+.3f}"
        return told.replace("-", "−")

    def between(self, low: float, high: float) -> str:
        """The ends of a difference's interval.

        >>> SCORES["accuracy"].between(0.01, 0.02), SCORES["spearman"].between(0.3, 0.41)
        ('1.0 to 2.0', '0.300 to 0.410')
        """
        if self.is_share:
            return f"{100 * low:.1f} to {100 * high:.1f}"
        return f"{low:.3f} to {high:.3f}"

    def reached(self, score: float) -> str:
        """What a head with that score does, to follow its name.

        >>> SCORES["accuracy"].reached(0.931), SCORES["spearman"].reached(0.8124)
        ('answers 93.1 % right', 'reaches a Spearman correlation of 0.812')
        """
        return self.sentence.format(self.told(score))


SCORES: Mapping[Metric, ScoreName] = {
    "accuracy": ScoreName(
        title="Accuracy", noun="accuracy", sentence="answers {} right", is_share=True
    ),
    "micro_f1": ScoreName(
        title="Micro-F1", noun="micro-F1", sentence="reaches a micro-F1 of {}", is_share=True
    ),
    "spearman": ScoreName(
        title="Spearman's correlation",
        noun="Spearman correlation",
        sentence="reaches a Spearman correlation of {}",
        is_share=False,
    ),
}
METRICS: Mapping[Kind, Metric] = {"one": "accuracy", "many": "micro_f1", "number": "spearman"}
