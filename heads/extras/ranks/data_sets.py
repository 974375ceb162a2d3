"""Runs of the same recipes on several data sets, as one table of scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heads.errors import DataError
from heads.evaluation.metrics import SCORES
from heads.extras.ranks.critical_differences import CriticalDifferences, Groups
from heads.extras.ranks.critical_differences import critical_differences as rank_scores
from heads.runs.leaderboard import Leaderboard

MOST_NAMED = 5


def rank_runs(
    boards: Sequence[Leaderboard], groups: Groups = "wilcoxon", *, baselines: bool = False
) -> CriticalDifferences:
    """Rank the recipes of runs; those on the same rows are one data set, with mean scores."""
    by_rows: dict[Any, list[Leaderboard]] = {}
    for board in boards:
        facts = board.folder.read("run.json") or {}
        rows = facts.get("fingerprint") or (board.data, board.rows, board.classes)
        by_rows.setdefault(rows, []).append(board)
    if len(by_rows) < 2 <= len(boards):
        what = f"These {len(boards)} runs are all of the same rows, {boards[0].data}."
        hint = "Ranks need runs on different data; side by side: heads runs A B."
        raise DataError(what, hint)
    scores: dict[str, Mapping[str, float]] = {}
    for number, same in enumerate(by_rows.values(), start=1):
        name = same[0].data
        scores[name if name not in scores else f"{name} ({number})"] = _average(same, baselines)
    has_units = any(SCORES[board.metric].scale == "error" for board in boards)
    notes = _notes(boards, by_rows.values())
    return rank_scores(scores, groups=groups, has_units=has_units, notes=notes)


def rank_table(table: Any, groups: Groups = "wilcoxon") -> CriticalDifferences:
    """Rank the recipes of a table of scores: a row a data set, a column a recipe."""
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
    return rank_scores(scores, groups=groups)


def _average(boards: Sequence[Leaderboard], baselines: bool) -> dict[str, float]:
    """Return the mean score of each recipe that all of these runs have."""
    scores = [
        {
            cell.name: cell.measures.score
            for cell in board.cells
            if baselines or not cell.is_baseline
        }
        for board in boards
    ]
    common = [name for name in scores[0] if all(name in own for own in scores)]
    return {name: sum(own[name] for own in scores) / len(scores) for name in common}


def _notes(boards: Sequence[Leaderboard], by_rows: Iterable[Sequence[Leaderboard]]) -> list[str]:
    notes = [
        f"{len(same)} runs are of the same rows, {same[0].data}: they count as one data set, "
        "by their mean scores."
        for same in by_rows
        if len(same) > 1
    ]
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
