"""Published figures of MTEB, computed anew."""

from heads.plugins import Extra

EXTRA = Extra(
    name="reproduce",
    summary="Compute published figures anew.",
    commands="heads.extras.reproduce.commands",
)
