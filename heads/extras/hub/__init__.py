"""The Hugging Face Hub: its data sets as data, and trained heads pushed to it."""

from heads.plugins import Extra

EXTRA = Extra(
    name="hub",
    summary="Read data sets of the Hugging Face Hub, and push heads to it.",
    verbs={"push": "heads.extras.hub.verbs:push"},
    commands="heads.extras.hub.commands",
    data_sources={"hub": "heads.extras.hub.datasets:read_hub"},
)
