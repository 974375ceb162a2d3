"""The function of the package that this extra adds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.errors import DataError

if TYPE_CHECKING:
    from heads.extras.ranks.critical_differences import CriticalDifferences, Groups
    from heads.runs.leaderboard import Leaderboard


def critical_differences(
    runs: Sequence[str | Path | Leaderboard] | Any,
    *,
    groups: Groups = "wilcoxon",
    baselines: bool = False,
) -> CriticalDifferences:
    """Rank recipes over several data sets, and say which of them differ significantly.

    Each data set is one observation. Recipes that some run lacks are left out, and named.

    Args:
        runs: Runs of the same recipes on different data: their ids, folders or leaderboards; or a
            DataFrame of scores, a row a data set and a column a recipe, where more is better.
        groups: The test: wilcoxon, by pairs with Holm's correction; or nemenyi, by average ranks.
        baselines: Whether the bag-of-words and the majority-class baseline are ranked as well.

    Returns:
        Average ranks, tests and groups: `.verdict`, `.ranks`, `.pairs`, `.cliques`,
        `.to_pandas()`, `.plot()`.

    Raises:
        DataError: There are not two data sets and two recipes that all of them have.
    """
    from heads.extras.ranks.data_sets import rank_runs, rank_table
    from heads.runs.folder import find
    from heads.runs.leaderboard import Leaderboard, leaderboard

    if groups not in ("wilcoxon", "nemenyi"):
        raise DataError(f"There is no test '{groups}'.", "There are: wilcoxon, nemenyi.")
    if hasattr(runs, "items"):
        return rank_table(runs, groups)
    if isinstance(runs, str | Path | Leaderboard):
        runs = [runs]
    boards = [run if isinstance(run, Leaderboard) else leaderboard(find(str(run))) for run in runs]
    return rank_runs(boards, groups, baselines=baselines)
