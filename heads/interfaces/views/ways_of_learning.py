"""One recipe in several ways of learning the base model: a table, and the answer in a phrase."""

from collections.abc import Sequence

from heads.display import Table
from heads.evaluation.metrics import SCORES, MetricName
from heads.interfaces.views.format import apart, between, count, of_metric
from heads.interfaces.views.leaderboard import duration
from heads.parts.resolved_recipe import FROZEN
from heads.runs.leaderboard import Leaderboard
from heads.runs.ways_of_learning import WayOfLearning, WaysOfLearning, gained, nearest_of, times

NONE = "–"
STAR = "* significantly different, over all ways of this recipe (95 %). "
FAMILY = (
    "These intervals take the ways of one recipe together, those of the leaderboard all heads, so "
    "the two differ. "
)


def worth_learning(found: Sequence[WaysOfLearning]) -> str:
    """Is fine-tuning worth it? For the recipe that scores highest, and for how many others."""
    first, others = found[0], found[1:]
    told = "yes" if first.best else "not shown"
    if not others:
        return f"{told}: {_phrase(first)}"
    gains = sum(one.best is not None for one in others)
    rest = f"yes for {gains} of {len(others)} other recipes"
    if not others[1:]:
        rest = f"{'yes' if gains else 'not shown'} for {others[0].recipe}"
    return f"{told} for {first.recipe}: {_phrase(first)}; {rest}"


def _phrase(found: WaysOfLearning) -> str:
    """What the best way gains, or the one that comes nearest, and how much longer it takes."""
    one = found.best or nearest_of(found.ways)
    return f"{one.doing} {gained(one)} and trains {times(one, found.ways[0])}"


def tabulate_ways(ways: WaysOfLearning, metric: MetricName) -> Table:
    """Return a row a way of learning the base model, the frozen one first."""
    first = ways.ways[0].resolved
    against = "frozen" if first.tune == FROZEN else first.tune
    headers = (
        "What is learned", of_metric(metric).heading, "95 %", f"Against {against}", "Time",
        "Memory", "Base model", "Head", "Settings", "Diverged",
    )  # fmt: skip
    rows = tuple(map(_row, ways.ways))
    return Table(headers=headers, rows=rows, title=f"{ways.recipe}: {ways.says}")


def _row(one: WayOfLearning) -> tuple[str, ...]:
    cell, tuned = one.cell, one.cell.tuning
    own, to_first = cell.measures, one.to_first
    against = apart(to_first, SCORES[own.metric]) + "*" * to_first.differs if to_first else ""
    return (
        f"{one.resolved.tuned_title} ({one.resolved.tune})",
        of_metric(own.metric).shown(own.score),
        between(own).replace(" ", ""),
        against,
        duration(cell.seconds) if cell.seconds >= 0.05 else "< 0.1 s",
        f"{tuned.peak_bytes / 1e6:,.0f} MB" if tuned and tuned.peak_bytes else NONE,
        count(tuned.parameters) if tuned else NONE,
        count(cell.parameters),
        str(cell.trials) if cell.trials else NONE,
        str(tuned.diverged) if tuned else NONE,
    )


def notes(board: Leaderboard) -> str:
    """What the columns mean, and what the star does, in a few words each."""
    reading = ""
    if board.forward_seconds:
        reading = (
            f"; a frozen base model has read all texts before, {duration(board.forward_seconds)}"
        )
    ways = [way for one in board.ways_of_learning for way in one.ways]
    star = STAR * any(way.to_first is not None and way.to_first.differs for way in ways)
    return (
        f"{star}{FAMILY}Time: search and training, all seeds{reading}. Memory: what one training "
        "held at most (weights, gradients, moments, activations). Base model and head: how many "
        "numbers were learned of each. Settings: tried by each seed. Diverged: trainings that were "
        "thrown away and begun anew."
    )
