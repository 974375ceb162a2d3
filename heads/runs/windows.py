"""Cut or read in windows? Recipes that a run has both ways, compared on the same rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heads.evaluation.predictions import Answers, EvaluationTask, repetitions
from heads.evaluation.significance import Comparisons, compare
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import CUT, LONG, STRIDE, USUAL_STRIDE, ResolvedRecipe


def both_ways(recipes: Mapping[str, ResolvedRecipe]) -> Iterator[tuple[str, str]]:
    """The names of recipes that read long texts in windows, each with that of the one that cuts."""
    for name, resolved in recipes.items():
        if resolved.reads_windows:
            cut = str(with_options(resolved, {LONG: CUT, STRIDE: USUAL_STRIDE}))
            if cut in recipes:
                yield name, cut


def windows_notes(
    recipes: Mapping[str, ResolvedRecipe],
    answers: Mapping[str, Answers],
    task: EvaluationTask,
    facts: Mapping[str, Any],
    *,
    seed: int = 0,
    compare: Callable[..., Comparisons] = compare,
) -> list[str]:
    """Say what reading whole texts gains, a sentence a recipe: on all rows and on longer ones.

    Each pair is a comparison of its own, with its own interval of 95 %.

    Args:
        facts: What reading gave: which rows are `longer`, than how many `tokens`.
    """
    told, longer = list[str](), torch.tensor(facts.get("longer", []), dtype=torch.long)

    def difference(both: Sequence[Answers]) -> str:
        """Return how much better the second one scores than the first, with its interval."""
        (found,) = compare(both, task, reference=both[0].name, seed=seed).to_reference
        metric, points = task.score, " points" * task.score.is_share
        ends = f"[{metric.signed(found.low)}, {metric.signed(found.high)}]"
        return f"{metric.signed(found.difference)}{points} {ends}"

    for windows, cut in both_ways(recipes):
        both = [answers[cut], answers[windows]]
        parts = [f"{difference(both)} on all {_count(both[0].rows):,} rows"]
        if of_long := [_only(one, longer) for one in both if _has(one, longer)]:
            rows = _count(of_long[0].rows)
            parts.append(
                f"{difference(of_long)} on the {rows:,} that are longer than "
                f"{facts['tokens']} tokens"
            )
        told.append(f"{cut}, windows - cut: {'; '.join(parts)}.")
    return told


def _count(rows: Sequence[Tensor]) -> int:
    """How many different rows were tested."""
    return len(torch.cat(list(rows)).unique())


def _has(one: Answers, rows: Tensor) -> bool:
    """Return True if every repetition tested some of those rows, and others besides."""
    tested = [torch.cat([one.rows[seed] for seed in own]) for own in repetitions(one)]
    found = [torch.isin(own, rows) for own in tested]
    return all(own.any() for own in found) and not all(own.all() for own in found)


def _only(one: Answers, rows: Tensor) -> Answers:
    """What was answered to some rows."""
    kept = [torch.isin(own, rows) for own in one.rows]
    return replace(
        one,
        rows=tuple(own[is_kept] for own, is_kept in zip(one.rows, kept, strict=True)),
        given=tuple(own[is_kept] for own, is_kept in zip(one.given, kept, strict=True)),
    )
