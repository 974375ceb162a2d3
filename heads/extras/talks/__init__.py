"""Heads on a stage: a tour of five questions, stories without a server, a vote, a check."""

from heads.plugins import Extra

EXTRA = Extra(
    name="talks",
    summary="Show heads on a stage.",
    verbs={name: f"heads.extras.talks.verbs:{name}" for name in ("tour", "save_story")},
    commands="heads.extras.talks.commands",
    page_sections="heads.extras.talks.page:SECTIONS",
)
