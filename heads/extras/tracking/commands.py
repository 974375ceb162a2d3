"""The command of the extra: `heads track`."""

from heads.extras.tracking import api
from heads.interfaces import cli
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command


@command(api.track)
def track(run: str, tracker: str, *, project: str = api.PROJECT) -> Answers:
    """Logs a run to trackio, W&B or MLflow.

    Args:
        run: The id of the run, as `heads runs` lists it, or its folder.
        tracker: trackio, wandb or mlflow.
    """
    from heads.extras.tracking.trackers import iter_tracking

    tracked = follow_work(iter_tracking(run, tracker, project))
    yield tracked.as_json(), lambda: cli.tables.show(tracked)
