"""The verbs of the extra; nothing here imports torch before one is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heads.events import Progress
from heads.settings import limits as limits_here

if TYPE_CHECKING:
    from heads.extras.tracking.trackers import Tracked
    from heads.runs.leaderboard import Leaderboard

PROJECT = "head-to-head"  # of a tracker, where none is named


def track(run: str | Path | Leaderboard, tracker: str, *, project: str = PROJECT) -> Tracked:
    """Logs a run to a tracker of experiments: one run there for every recipe and baseline.

    Settings are logged as parameters, measures as metrics; no text, no label and no name of a
    class. A run that is under way is logged as far as it is, and brought up to date when it is
    logged again.

    Args:
        run: Its id, its folder, or its leaderboard.
        tracker: trackio, wandb or mlflow, which is installed by itself: `pip install trackio`.
            Where it keeps what it is given is what it is itself told.
        project: The project there; MLflow calls it an experiment.

    Returns:
        What was logged, and where it is: `.place`, and `.see`, the command that shows it.

    Raises:
        DataError: There is no such run, or nothing of it is done.
        HeadsError: The tracker is not installed, or does not take the run.
        LimitError: It is asked for in public mode.
    """
    from heads.extras.tracking.trackers import Tracked

    for event in tracking(run, tracker, project=project):
        if isinstance(event, Tracked):
            return event
    raise AssertionError("logging ends in its result")


def tracking(
    run: str | Path | Leaderboard, tracker: str, *, project: str = PROJECT
) -> Iterator[Progress | Tracked]:
    """The same as `track`, as a stream."""
    from heads.extras.tracking import trackers
    from heads.runs.folder import find
    from heads.runs.leaderboard import leaderboard

    here = limits_here()
    trackers.check_tracker(tracker, project, here)
    board = leaderboard(find(str(run))) if isinstance(run, str | Path) else run
    yield from trackers.tracking(board, tracker, project, here)
