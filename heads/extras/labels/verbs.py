"""The function of the package that this extra adds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heads.recipe import Recipe
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.extras.labels.doubtful_labels import DoubtfulLabels
    from heads.runs.leaderboard import Leaderboard


def doubtful_labels(
    run: str | Path | Leaderboard,
    *,
    recipes: Sequence[Recipe | str] = (),
) -> DoubtfulLabels:
    """Find the labels of a run that may be wrong.

    Heads that have not learned from the row find another label more probable. With folds all rows
    are checked, with a test set the test rows.

    Args:
        run: The run: its id, its folder, or its leaderboard.
        recipes: The heads to average. Default: all, and with a quarter's weight the bag of words.

    Returns:
        The labels: `.rows` from the most doubtful on, `.conflicts`, `.notes` and `.save(…)`.

    Raises:
        DataError: There is no such run, no head of it is done, or its probabilities are not saved.
    """
    from heads.extras.labels import doubtful_labels as labels
    from heads.runs.folder import find
    from heads.runs.leaderboard import Leaderboard

    public = (current_limits()).public
    folder = run.folder if isinstance(run, Leaderboard) else find(str(run), is_public=public)
    return labels.doubtful_labels(folder, recipes)
