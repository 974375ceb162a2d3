"""Log a run to a tracker of experiments: trackio, W&B or MLflow."""

from heads.plugins import Extra

EXTRA = Extra(
    name="tracking",
    summary="Log a run to trackio, W&B or MLflow.",
    verbs={"track": "heads.extras.tracking.api:track"},
    commands="heads.extras.tracking.commands",
)
