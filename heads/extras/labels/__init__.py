"""Labels of a run that may be wrong, by heads that have not learned from them."""

from heads.plugins import Extra

HERE = "heads.extras.labels"
EXTRA = Extra(
    name="labels",
    summary="Find labels that may be wrong.",
    verbs={"doubtful_labels": f"{HERE}.verbs:doubtful_labels"},
    commands=f"{HERE}.commands",
    result_sections=f"{HERE}.sections:SECTIONS",
    endpoints=f"{HERE}.endpoints:ENDPOINTS",
)
