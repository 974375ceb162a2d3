"""Recipes over several data sets, in words; the same on a terminal and in a notebook."""

from math import inf

from heads.evaluation.critical_differences import CriticalDifferences

TESTS = {
    "wilcoxon": "Wilcoxon's signed-rank test with Holm's correction",
    "nemenyi": "Nemenyi's test",
}


def key(found: CriticalDifferences) -> str:
    """What groups are told by."""
    return (
        f"Average ranks, 1 is the best. Groups: not told apart by {TESTS[found.groups]} (5 %). "
        f"CD, the critical difference of Nemenyi's test: {found.critical_difference:.2f}."
    )


def notes(found: CriticalDifferences) -> list[str]:
    """What one should know before believing the groups, a sentence each."""
    told = [friedman_says(found)] if found.friedman else []
    if found.left_out:
        told.append(f"Left out, since some data set lacks them: {', '.join(found.left_out)}.")
    return [*told, *found.notes]


def friedman_says(found: CriticalDifferences) -> str:
    """Whether the recipes differ at all, with the numbers."""
    assert found.friedman is not None
    one, k, n = found.friedman, len(found.recipes), len(found.data)
    degrees = f"F({k - 1}, {(k - 1) * (n - 1)})"
    statistic = "all data sets agree" if one.f == inf else f"{degrees} = {one.f:.2f}"
    does = "do" if one.p <= 0.05 else "are not shown to"
    p = "p < 0.0001" if one.p < 1e-4 else f"p = {one.p:.2g}"
    return f"The recipes {does} differ (Friedman, Iman and Davenport: {statistic}, {p})."
