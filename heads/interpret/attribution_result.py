"""Which tokens of a text move a head's answer: what is found, as values."""

from dataclasses import asdict, dataclass
from typing import Any

from heads import display

ENOUGH = 0.01  # of what the explained value changes by
OTHERS, RUNNER_UP = "others", "runner-up"  # what a logit may be held against


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token of a text.

    Attributes:
        text: As a reader would write it.
        side: "text" or "pair"; nothing for the special tokens around them.
        score: What it adds to the explained value (integrated gradients).
        gradient_times_input: The same by the gradient at the text alone.
        read: The share of the pooled vector that it gives.
    """

    text: str
    side: str
    score: float
    gradient_times_input: float
    read: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution(display.Displayed):
    """What one head looks at in one text.

    Attributes:
        label: The class that is asked about.
        logit: That class's logit on the text.
        baseline: The same on the text with a blank in the place of every word.
        against: What is explained: "others", the logit less the mean of all others; "runner-up",
            the logit less the largest other one; "" the logit itself.
        rival: The class of that largest other one; nothing where there is none.
        value: What is explained, on the text.
        value_on_blanks: The same on the text of blanks: what the tokens' scores add up to is the
            difference of the two.
        blank: The token that stands for a blank.
        tokens: The tokens with their scores; without scores where there are none.
        completeness_error: How far the sum of the scores misses that difference, as a share of it.
        measured_on: "change"; or "logits", where the difference is so small that the error is
            given as a share of the span instead.
        span: How far the largest logit on the text lies above the smallest.
        seconds: The time that it took; what heads share is divided between them.
        why_not: Why there are no scores, in a sentence; empty where there are.
        unread: How many tokens the base model left out, since it reads no more.
    """

    name: str
    label: str
    answer: tuple[str, ...]
    logit: float
    baseline: float
    span: float
    blank: str
    tokens: tuple[Token, ...]
    against: str = ""
    rival: str = ""
    value: float = 0.0
    value_on_blanks: float = 0.0
    completeness_error: float = 0.0
    measured_on: str = "change"
    steps: int = 0
    seconds: float = 0.0
    why_not: str = ""
    unread: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the scores add up, to one part in a hundred."""
        return not self.why_not and self.completeness_error < ENOUGH

    @property
    def quantity(self) -> str:
        """What is explained, in words."""
        if self.rival:
            return f"the logit of {self.label} less that of {self.rival}"
        others = " less the mean of the others" if self.against == OTHERS else ""
        return f"the logit of {self.label}{others}"

    @property
    def says(self) -> str:
        """What the numbers are, and how well they add up, in a sentence or two."""
        if self.why_not:
            return self.why_not
        values = (self.value, self.value_on_blanks)
        own, blank = (f"{x:+.3f}".replace("-", "−") for x in values)
        told = (
            f"{self.name}: {self.quantity} is {own}, and {blank} with {self.blank} for "
            "every word; the scores add up to the difference"
        )
        error = f"{self.completeness_error * 100:.2f} %"
        of = (
            "of it"
            if self.measured_on == "change"
            else "of the logits' span (the difference itself is small)"
        )
        enough = "" if self.is_complete else ": not closely, so trust no more than their order"
        steps = f"{self.steps} steps, {self.seconds:.2f} s"
        says = f"{told} but for {error} {of}{enough} ({steps})."
        if not self.unread:
            return says
        last = "token was" if self.unread == 1 else f"{self.unread:,} tokens were"
        return f"{says} The last {last} not read: the base model takes no more."

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)
