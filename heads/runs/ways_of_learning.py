"""Frozen or learned? One recipe of a run in several ways of learning the base model, compared.

A way is compared with the frozen base model, which is fixed beforehand, and all ways of a recipe
are one family: what is said of them does not hang on which other recipes a run has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import Comparisons, Difference, compare
from heads.parts.registry import tuning
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import FROZEN, TUNE, ResolvedRecipe
from heads.runs.cells import Cell

AS_LONG = 1.5  # times as long: less is about as long


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WayOfLearning:
    """A recipe with one way of learning the base model, and its difference from the first way."""

    resolved: ResolvedRecipe
    cell: Cell
    to_first: Difference | None = None

    @property
    def doing(self) -> str:
        """What is done, within a sentence."""
        return f"learning {self.resolved.tuned_noun}" if self.resolved.is_tuned else "freezing it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaysOfLearning:
    """One recipe in all the ways of learning the base model that a run has of it.

    Attributes:
        recipe: What they share: the recipe as it is with the base model frozen.
        title: Its everyday name.
        ways: The frozen one first, then in the order of the menu.
        best: The way that is shown to be better than the first, by most; None where none is.
        says: Whether that is worth it, in a sentence.
    """

    recipe: str
    title: str
    ways: tuple[WayOfLearning, ...]
    best: WayOfLearning | None
    says: str

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "recipe": self.recipe,
            "best": self.best.resolved.tune if self.best else "",
            "says": self.says,
            "ways": [
                {
                    "tune": one.resolved.tune,
                    "cell": one.cell.name,
                    "to_first": asdict(one.to_first) if one.to_first else None,
                }
                for one in self.ways
            ],
        }


def grouped(
    cells: Iterable[Cell], recipes: Mapping[str, ResolvedRecipe]
) -> Iterator[tuple[ResolvedRecipe, list[Cell]]]:
    """Every recipe that has been learned in two ways or more, and its cells in their order."""
    known, order = dict[str, list[Cell]](), list(tuning)
    for cell in cells:
        if not cell.is_baseline:
            frozen = with_options(recipes[cell.name], {TUNE: FROZEN})
            known.setdefault(str(frozen), []).append(cell)

    def place(cell: Cell) -> tuple[int, int, str]:
        tune = recipes[cell.name].tune
        return order.index(recipes[cell.name].tuning.name), len(tune), tune

    for found in known.values():
        if len(found) > 1:
            first, *_ = own = sorted(found, key=place)
            yield with_options(recipes[first.name], {TUNE: FROZEN}), own


def ways_of_learning(
    cells: Iterable[Cell],
    recipes: Mapping[str, ResolvedRecipe],
    answers: Mapping[str, Answers],
    task: EvaluationTask,
    *,
    seed: int = 0,
    compare: Callable[..., Comparisons] = compare,
) -> tuple[WaysOfLearning, ...]:
    """Return all recipes learned in two ways or more, the one that scores highest first."""
    found = []
    for shared, own in grouped(cells, recipes):
        given, tuned = [answers[one.name] for one in own], [one.name for one in own if one.tuning]
        compared = compare(given, task, reference=own[0].name, tuned=tuned, seed=seed)
        by = {one.name: one for one in compared.to_reference}
        ways = tuple(
            WayOfLearning(resolved=recipes[cell.name], cell=cell, to_first=by.get(cell.name))
            for cell in own
        )
        best = best_of(ways)
        says = judged(ways, best, compared)
        found.append(
            WaysOfLearning(recipe=str(shared), title=shared.title, ways=ways, best=best, says=says)
        )
    return tuple(sorted(found, key=lambda one: -max(w.cell.measures.score for w in one.ways)))


def best_of(ways: Sequence[WayOfLearning]) -> WayOfLearning | None:
    """The way that is better than the first by most, of those that are shown to be better."""
    better = [(d.difference, at) for at, d in _differences(ways) if d.differs and d.difference > 0]
    return ways[max(better)[1]] if better else None


def nearest_of(ways: Sequence[WayOfLearning]) -> WayOfLearning:
    """Of the ways besides the first the one that scores highest."""
    return ways[max(_differences(ways), key=lambda one: one[1].difference)[0]]


def _differences(ways: Sequence[WayOfLearning]) -> list[tuple[int, Difference]]:
    return [(at, one.to_first) for at, one in enumerate(ways) if one.to_first is not None]


def judged(ways: Sequence[WayOfLearning], best: WayOfLearning | None, compared: Comparisons) -> str:
    """Say whether learning the base model is worth it, in a sentence for somebody in a hurry."""
    rows = ways[0].cell.measures.rows
    told = _better(ways, best, compared) if best else _not_better(ways, compared)
    if cut := [one.doing for one in ways if not one.cell.is_converged]:
        who = f"{cut[0]} was" if len(cut) == 1 else f"{len(cut)} of the {len(ways)} ways were"
        told += f"; {who} still improving at the last pass: more passes would tell"
    return f"On {'this row' if rows == 1 else f'these {rows:,} rows'}, {told}."


def _home(first: WayOfLearning) -> str:
    return first.doing if first.resolved.is_tuned else "the frozen base model"


def _better(ways: Sequence[WayOfLearning], best: WayOfLearning, compared: Comparisons) -> str:
    name, found = SCORES[best.cell.measures.metric], best.to_first
    assert found is not None
    by = f"{name.gap(found.difference)} ({name.between(found.low, found.high)})"
    first = f"{best.doing} beats {_home(ways[0])} by {by} and trains {times(best, ways[0])}"
    if compared.best != best.cell.name:
        highest = next(one for one in ways if one.cell.name == compared.best)
        return f"{first}; {highest.doing} scores highest, but less surely"
    near = {one.name for one in compared.to_best if not one.differs}
    alike = [one for one in ways[1:] if one.cell.name in near]
    if not alike:
        return first
    told = [f"{one.doing} ({times(one, ways[0])})" for one in alike]
    return f"{first}; {_listed(told)} {'are' if told[1:] else 'is'} not significantly different"


def _not_better(ways: Sequence[WayOfLearning], compared: Comparisons) -> str:
    """No way is shown to be better than the first: how near the others come."""
    other, home = nearest_of(ways), _home(ways[0])
    name, found = SCORES[other.cell.measures.metric], other.to_first
    assert found is not None
    worse = [one for one in ways if (own := one.to_first) and own.differs and own.difference < 0]
    if len(worse) == len(ways) - 1:
        by = f"by {name.gap(-found.difference)} ({name.between(-found.high, -found.low)})"
        every = "every other way of learning, the nearest, " * bool(ways[2:])
        return f"{home} beats {every}{other.doing}{',' * bool(ways[2:])} {by}"
    first, who = f"{other.doing} is not shown to beat {home}", "it"
    if ways[2:]:
        first, who = f"no other way of learning is shown to beat {home}", other.doing
    told = f"{first}: {who} {gained(other)} and trains {times(other, ways[0])}"
    if worse:
        told += f"; {_listed([one.doing for one in worse])} {'do' if worse[1:] else 'does'} worse"
    return told + "; each was trained once, which shows nothing of luck" * compared.once


def gained(one: WayOfLearning) -> str:
    """How much more or less a way scores than the first, where that may be chance."""
    name, found = SCORES[one.cell.measures.metric], one.to_first
    assert found is not None
    ends = f"{name.signed(found.low)} to {name.signed(found.high)}"
    words = ("better", "worse") if name.scale == "error" else ("higher", "lower")
    more = words[found.difference < 0]
    by = f"{name.gap(abs(found.difference))} {more}"
    return f"scores {by} ({ends}){', which may be chance,' * (not found.differs)}"


def _listed(names: Sequence[str]) -> str:
    """Several things as one says them."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]


def times(one: WayOfLearning, first: WayOfLearning) -> str:
    """How many times as long the training of one way takes; texts are read once before any."""
    ratio = one.cell.seconds / max(first.cell.seconds, 1e-3)
    if 1 / AS_LONG < ratio < AS_LONG:
        return "about as long"
    return f"{rounded(ratio)} times as long"


def rounded(ratio: float) -> str:
    """A ratio in two figures.

    >>> rounded(581.2), rounded(12345), rounded(3.14), rounded(0.123)
    ('580', '12,000', '3.1', '0.12')
    """
    return f"{float(f'{ratio:.2g}'):,g}" if ratio < 1e5 else f"{float(f'{ratio:.2g}'):,.0f}"
