"""Check whether a served classifier, or an adapter of PEFT, is what its checkpoint says."""

from heads.plugins import Extra

EXTRA = Extra(
    name="serving",
    summary="Check whether a server or an adapter of PEFT is what its checkpoint says.",
    verbs={
        "check_adapter": "heads.extras.serving.api:check_adapter",
        "check_endpoint": "heads.extras.serving.api:check_endpoint",
    },
    commands="heads.extras.serving.commands",
)
