"""Recipes ranked over several data sets: average ranks, tests, and critical differences."""

from heads.plugins import Extra

HERE = "heads.extras.ranks"
EXTRA = Extra(
    name="ranks",
    summary="Rank recipes over several data sets.",
    verbs={"critical_differences": f"{HERE}.verbs:critical_differences"},
    commands=f"{HERE}.commands",
)
