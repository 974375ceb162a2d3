"""A map of the rows of a file: points that lie near each other where vectors do."""

from heads.plugins import Extra

HERE = "heads.extras.maps"
EXTRA = Extra(
    name="maps",
    summary="Draw the rows of a file as points.",
    verbs={"row_map": f"{HERE}.verbs:row_map"},
    commands=f"{HERE}.commands",
    result_sections=f"{HERE}.sections:SECTIONS",
)
