"""A map of the rows of a file: points that lie near each other where vectors do."""

from heads.plugins import Extra

EXTRA = Extra(
    name="maps",
    summary="Draw the rows of a file as points.",
    verbs={"row_map": "heads.extras.maps.verbs:row_map"},
    commands="heads.extras.maps.commands",
    result_sections="heads.extras.maps.sections:SECTIONS",
)
