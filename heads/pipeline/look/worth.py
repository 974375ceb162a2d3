"""What a layer is worth: a head beside the one that was trained without it, on the same rows."""

from dataclasses import dataclass

import torch

from heads.evaluation.metrics import METRICS, SCORES, Metric
from heads.evaluation.predictions import Answers, Outcome, Task, parts
from heads.evaluation.significance import compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """How a head does beside the same recipe trained without a layer, on the same tested rows.

    Attributes:
        metric: What is scored.
        rows: How many different rows were tested.
        seeds: How often each was trained.
        whole: The score of the head with the layer.
        without: That of the head trained without it.
        difference: The one less the other: what the layer is worth.
        low: The lower end of its 95 % interval; of one seed that of these two heads alone.
        high: Its upper end.
    """

    metric: Metric
    rows: int
    seeds: int
    whole: float
    without: float
    difference: float
    low: float
    high: float

    def told(self, layer: str) -> str:
        """How the head without the layer does, and the one with it, to follow "it"."""
        name = SCORES[self.metric]
        ends = f"{name.signed(self.low)} to {name.signed(self.high)}"
        points = " points" if name.is_share else ""
        luck = f"over {self.seeds} seeds"
        if self.seeds == 1:
            luck = "each trained once, so luck in training is not in it"
        return (
            f"{name.reached(self.without)}; with {layer} it {name.reached(self.whole)}. The "
            f"difference that {layer} makes is {name.signed(self.difference)}{points} on "
            f"{self.rows:,} tested rows (95 %: {ends}; {luck})."
        )


def worth_of(whole: Outcome | Answers, bare: Outcome | Answers, task: Task) -> Worth:
    """Compares what a head answered with what the one without a layer did, row by row."""
    found = compare([bare, whole], task, reference=bare.name).to_reference[0]
    scores = [
        sum(float(seed.mean()) for seed in each) / len(each)
        for each in (parts(one, task) for one in (whole, bare))
    ]
    return Worth(
        metric=METRICS[task.kind],
        rows=len(torch.cat(whole.rows).unique()),
        seeds=len(whole.rows),
        whole=scores[0],
        without=scores[1],
        difference=found.difference,
        low=found.low,
        high=found.high,
    )
