"""Labels of a run that may be wrong, by heads that have not learned from them."""

from heads.plugins import Extra

EXTRA = Extra(
    name="labels",
    summary="Find labels that may be wrong.",
    verbs={"doubtful_labels": "heads.extras.labels.verbs:doubtful_labels"},
    commands="heads.extras.labels.commands",
    result_sections="heads.extras.labels.sections:SECTIONS",
    endpoints="heads.extras.labels.endpoints:ENDPOINTS",
)
