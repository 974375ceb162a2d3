"""The extra `scale`: features, heads and predictions for any number of rows, and Ray."""

from heads.plugins import Extra

EXTRA = Extra(
    name="scale",
    summary="Encode, compare and predict any number of rows, here or on a Ray cluster.",
    verbs={
        name: f"heads.extras.scale.verbs:{name}"
        for name in ("extract", "fit_shards", "predict_shards")
    },
    commands="heads.extras.scale.commands",
    run_backends={"ray": "heads.extras.scale.run_scheduler:schedule_on_ray"},
)
