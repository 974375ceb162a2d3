"""The Hugging Face Hub: its data sets as data, and trained heads pushed to it."""

from heads.plugins import Extra

HERE = "heads.extras.hub"
EXTRA = Extra(
    name="hub",
    summary="Read data sets of the Hugging Face Hub, and push heads to it.",
    verbs={"push": f"{HERE}.verbs:push"},
    commands=f"{HERE}.commands",
    data_sources={"hub": f"{HERE}.datasets:read_hub"},
)
