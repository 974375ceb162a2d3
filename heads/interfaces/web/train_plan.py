"""What step 2 of the tab Train says: which heads, in which ways, compared how."""

import contextlib
import math
from dataclasses import dataclass, fields
from typing import Any

from heads.backbone.models import BUNDLED
from heads.errors import DataError, HeadsError, RecipeError
from heads.parts.resolved import FEATURES
from heads.runs.folder import all_runs
from heads.settings import Contest, Limits, limits

OWN = "own"
PUBLIC_SECONDS = 120
FORM = tuple(field for field in fields(Contest) if field.name != "seeds")
TITLES = {
    "seeds": "Seeds, with a test set",
    "metric": "Ranked by",
    "folds": "Folds, without a test set",
    "repetitions": "Repetitions of the folds",
    "held_out": "Rows that are scored, with few rows a class",
    "development": "Rows that settings are chosen on",
    "learning_rate": "Learning rate",
    "steps": "Steps",
    "standardise": "Standardise",
    "per_class": "Few rows a class",
    "class_weights": "Weigh classes alike",
    "focal": "Focal loss",
    "smoothing": "Label smoothing",
    "curve": "Learning curve",
    "race": "Race",
    "precision": "Precision",
    "unseen": "Classes never met",
    "budget_seconds": "Time allowed, in seconds",
    "seed": "Seed",
}
LAYERS_USUAL = 7  # of small base models, embeddings included


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the inputs of step 2 say.

    Attributes:
        model: The id of the base model.
        grid: small or full, where no recipes are named.
        recipes: The recipes of the user's own choice.
        pairs: How two texts enter.
        losses: What one class a row is learned by.
        contest: How they are compared.
    """

    model: str
    grid: str
    recipes: tuple[str, ...]
    pairs: tuple[str, ...]
    losses: tuple[str, ...]
    contest: Contest

    @classmethod
    def of(cls, model: Any, grid: Any, own: Any, seeds: Any, *rest: Any) -> "Plan":
        """Reads and checks the values of the inputs.

        Raises:
            RecipeError: No head is chosen, or nothing is ticked.
            DataError: A setting is not within its range.
        """
        recipes = tuple(own or ()) if grid == OWN else ()
        if grid == OWN and not recipes:
            raise RecipeError("No head is chosen.", "Choose at least two to compare.")
        pairs, losses, *form = rest
        if not pairs:
            raise RecipeError("No way in for two texts is ticked.", "Tick at least one way in.")
        if not losses:
            raise RecipeError("No loss is ticked.", "Tick at least one loss.")
        values = {field.name: value for field, value in zip(FORM, form, strict=True)}
        contest = contest_of(values | {"seeds": seeds}, limits())
        name = "small" if grid == OWN else str(grid)
        return cls(
            model=str(model or BUNDLED),
            grid=name,
            recipes=recipes,
            pairs=tuple(pairs),
            losses=tuple(losses),
            contest=contest,
        )

    @property
    def heads(self) -> int:
        """How many heads that are, or about how many: of layers, as many as usual models have."""
        from heads.parts.resolve import head, pairing, pooling
        from heads.training.trial import GRIDS, HEADS, LAYERS, POOLINGS

        about = {name: len(poolings) * len(tops) for name, (poolings, tops) in GRIDS.items()}
        about |= {LAYERS: LAYERS_USUAL, HEADS: len(head), POOLINGS: len(pooling)}
        each = len(set(self.recipes)) or about[self.grid.partition(":")[0]]
        ways = sum(len(pairing) if way == FEATURES else 1 for way in self.pairs)
        return each * ways * len(self.losses)


def contest_of(values: dict[str, Any], here: Limits) -> Contest:
    """The settings of a contest, each within the range that it states.

    Raises:
        DataError: One is not.
        LimitError: One is none of its choices.
    """
    checked: dict[str, Any] = {}
    for field in fields(Contest):
        value, kind = values[field.name], type(field.default)
        low, high = field.metadata.get("low", 0), field.metadata.get("high", 2**31)
        title = TITLES.get(field.name, field.name)
        if kind in (bool, str):  # of texts, the contest itself knows which there are
            checked[field.name] = value is True if kind is bool else value
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not low <= value <= high:
            raise DataError(f"'{title}' must be between {low} and {high:,}.", "Change it.")
        checked[field.name] = kind(value)
    if here.public:
        asked = checked["budget_seconds"] or PUBLIC_SECONDS
        checked["budget_seconds"] = min(asked, PUBLIC_SECONDS)
    return Contest(**checked)


def times_of(contest: Contest, *, has_test: bool) -> int:
    """How many times each head is trained: once a seed, or once a fold of every repetition."""
    is_seeded = has_test or contest.per_class > 0
    return contest.seeds if is_seeded else contest.folds * contest.repetitions


def times_say(contest: Contest) -> str:
    """The same in words, for data with a test set and without."""
    seeds, folds = (times_of(contest, has_test=has_test) for has_test in (True, False))
    if seeds == folds:
        return _times(seeds)
    return f"{_times(seeds)} with a test set, {_times(folds)} without one"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _trained(facts: dict[str, Any]) -> int:
    """How many times each head of a run was trained."""
    return times_of(Contest(**facts["contest"]), has_test=_has_test(facts))


def _has_test(facts: dict[str, Any]) -> bool:
    """Whether the data of a run had a test set."""
    account = facts["account"]
    return "test" in account or bool(account.get("columns", {}).get("split"))


def expected_seconds(plan: Plan, rows: int) -> float:
    """How long it may take, going by runs on the same base model here; 0 if there are none.

    Reading grows with the rows, and so does training, with the number of heads besides. A run with
    a race tells nothing of one without. Whether there will be a test set is taken from that run.
    """
    for run in all_runs()[:20]:
        with contextlib.suppress(HeadsError, KeyError, TypeError):  # a broken run tells nothing
            facts, end = run.read("run.json"), run.read("end.json") or {}
            read = (run.read("facts.json") or {}).get("forward_seconds")
            if facts["model"] != plan.model or end.get("state") != "finished" or not read:
                continue
            if facts["contest"].get("race", False) != plan.contest.race:
                continue
            before = max(facts["account"]["rows"], 1)
            heads = len(facts["recipes"]) * _trained(facts)
            times = times_of(plan.contest, has_test=_has_test(facts))
            learning = max(0.0, end["seconds"] - read) / heads * plan.heads * times
            return (read + learning) * rows / before
    return 0.0
