"""Runs of the same recipes on several data sets, as one table of scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from heads.errors import DataError
from heads.evaluation.metrics import SCORES, MetricName
from heads.extras.ranks.critical_differences import (
    CriticalDifferences,
    Groups,
    critical_differences,
)
from heads.runs.leaderboard import Leaderboard

MOST_NAMED = 5


def rank_runs(
    boards: Sequence[Leaderboard], groups: Groups = "wilcoxon", *, baselines: bool = False
) -> CriticalDifferences:
    """Rank the recipes of several runs over the data sets that these are of.

    Runs on the very same rows are one data set, in which a recipe has the mean of its scores: they
    are no further evidence.

    Args:
        groups: By which test recipes are told apart.
        baselines: Whether counting words and always the same answer are ranked as well.

    Raises:
        DataError: There are not two data sets and two recipes that all of them have.
        LimitError: There are more recipes than a diagram has room for.
    """
    together: dict[Any, list[Leaderboard]] = {}
    for board in boards:
        together.setdefault(_rows_of(board), []).append(board)
    if len(together) < 2 <= len(boards):
        what = f"These {len(boards)} runs are all of the same rows, {boards[0].data}."
        hint = "Ranks need runs on different data; side by side: heads runs A B."
        raise DataError(what, hint)
    scores: dict[str, Mapping[str, float]] = {}
    for number, own in enumerate(together.values(), start=1):
        name = own[0].data
        scores[name if name not in scores else f"{name} ({number})"] = _means(own, baselines)
    metrics: set[MetricName] = {board.metric for board in boards}
    return critical_differences(
        scores,
        groups=groups,
        has_units=any(SCORES[metric].scale == "error" for metric in metrics),
        notes=_notes(boards, together),
    )


def rank_table(table: Any, groups: Groups = "wilcoxon") -> CriticalDifferences:
    """Rank the recipes of a table of scores: a row a data set, a column a recipe.

    Args:
        table: A DataFrame of pandas, whose index names the data sets; or a mapping, from each data
            set to the scores of its recipes.

    Raises:
        DataError: It is no such table.
        LimitError: There are more recipes than a diagram has room for.
    """
    if hasattr(table, "to_dict"):
        if table.index.has_duplicates or table.columns.has_duplicates:
            raise DataError("A data set or a recipe stands twice in it.", "Name each once.")
        table = {name: row.dropna().to_dict() for name, row in table.iterrows()}
    try:
        scores = {
            str(name): {str(recipe): float(score) for recipe, score in row.items()}
            for name, row in table.items()
        }
    except (AttributeError, TypeError, ValueError):
        what = "This is no table of scores with a row a data set and a column a recipe."
        raise DataError(what, "Give a DataFrame of numbers whose index names data sets.") from None
    return critical_differences(scores, groups=groups)


def _rows_of(board: Leaderboard) -> Any:
    """What tells the rows of a run from those of another."""
    facts = board.folder.read("run.json") or {}
    return facts.get("fingerprint") or (board.data, board.rows, board.classes)


def _means(boards: Sequence[Leaderboard], baselines: bool) -> dict[str, float]:
    """The score of each recipe that all of these runs have, on average."""
    found = [
        {one.name: one.measures.score for one in board.cells if baselines or not one.is_baseline}
        for board in boards
    ]
    common = [name for name in found[0] if all(name in own for own in found)]
    return {name: sum(own[name] for own in found) / len(found) for name in common}


def _notes(
    boards: Sequence[Leaderboard], together: Mapping[Any, Sequence[Leaderboard]]
) -> list[str]:
    notes = []
    for own in together.values():
        if len(own) > 1:
            notes.append(
                f"{len(own)} runs are of the same rows, {own[0].data}: they count as one data set, "
                "by their mean scores."
            )
    metrics = list(dict.fromkeys(SCORES[board.metric].noun for board in boards))
    if len(metrics) > 1:
        notes.append(
            f"Scores are {', '.join(metrics)}. Ranks within a data set do not mind; Wilcoxon's "
            "test weighs differences of one against those of another."
        )
    models = list(dict.fromkeys(board.model for board in boards))
    if len(models) > 1:
        named = ", ".join(models[:MOST_NAMED])
        notes.append(f"The runs have different base models ({named}): ranks are over these too.")
    if stopped := [board.data for board in boards if board.stopped]:
        named = ", ".join(dict.fromkeys(stopped))
        notes.append(f"Recipes that a race has stopped have no score ({named}).")
    if unfinished := [board.data for board in boards if board.state != "finished"]:
        notes.append(f"Not finished: {', '.join(dict.fromkeys(unfinished))}.")
    return notes
