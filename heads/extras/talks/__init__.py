"""Heads on a stage: a tour of five questions, stories without a server, a vote, a check."""

from heads.plugins import Extra

HERE = "heads.extras.talks"
EXTRA = Extra(
    name="talks",
    summary="Show heads on a stage.",
    verbs={"tour": f"{HERE}.verbs:tour", "save_story": f"{HERE}.verbs:save_story"},
    commands=f"{HERE}.commands",
    page_sections=f"{HERE}.page:SECTIONS",
)
