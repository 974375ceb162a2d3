"""The verb of the extra; nothing here imports torch before it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from heads.events import result

if TYPE_CHECKING:
    from heads.extras.tracking.trackers import Tracked
    from heads.runs.leaderboard import Leaderboard

PROJECT = "head-to-head"  # where none is named


def track(run: str | Path | Leaderboard, tracker: str, *, project: str = PROJECT) -> Tracked:
    """Log a run to a tracker of experiments: one run there for every recipe and baseline.

    Settings become parameters, measures metrics; no text, label or name of a class is logged. A run
    under way can be logged again later.

    Args:
        run: Its id, its folder, or its leaderboard.
        tracker: trackio, wandb or mlflow, installed by itself and set up by its own settings.
        project: The project there; MLflow calls it an experiment.

    Returns:
        What was logged, and where it is: `.place`, and `.see`, the command that shows it.

    Raises:
        DataError: There is no such run, or nothing of it is done.
        HeadsError: The tracker is not installed, or does not take the run.
        LimitError: It is asked for in public mode.
    """
    from heads.extras.tracking.trackers import iter_tracking

    return result(iter_tracking(run, tracker, project))
