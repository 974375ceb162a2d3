"""Recipes ranked over several data sets: average ranks, tests, and critical differences."""

from heads.plugins import Extra

EXTRA = Extra(
    name="ranks",
    summary="Rank recipes over several data sets.",
    verbs={"critical_differences": "heads.extras.ranks.verbs:critical_differences"},
    commands="heads.extras.ranks.commands",
)
