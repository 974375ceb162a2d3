"""What a list of runs says of each: enough to find the one that is meant."""

import contextlib
from collections.abc import Mapping
from typing import Any

from heads.errors import DataError
from heads.evaluation.predictions import BASELINES
from heads.pipeline.runs.folder import RunFolder
from heads.pipeline.runs.heats import stopped_of


def facts_of(run: RunFolder) -> dict[str, Any]:
    """A run in a few plain values, read from small files only; its state may be "broken"."""
    try:
        facts, found, end = (
            run.read(name) or {} for name in ("run.json", "leaderboard.json", "end.json")
        )
        out = len(stopped_of(run))
    except DataError:
        return _told(run, {}, {}, "broken", 0)
    state = end.get("state") or ("running" if run.is_busy else "unfinished")
    return _told(run, facts, found, state, out)


def _highest(run: RunFolder) -> Mapping[str, Any]:
    """The head of highest score among the cells that are done."""
    found = []
    for path in (run.path / "cells").glob("*.json"):
        if path.stem.isdecimal():
            with contextlib.suppress(DataError):
                found.append(run.read(f"cells/{path.name}") or {})
    heads = [cell for cell in found if cell.get("recipe") not in (None, *BASELINES)]
    best = max(heads, key=lambda cell: cell["measures"]["score"], default={})
    return best | {name: best["measures"][name] for name in ("score", "metric") if best}


def _told(
    run: RunFolder, facts: Mapping[str, Any], found: Mapping[str, Any], state: str, stopped: int
) -> dict[str, Any]:
    cells = run.path / "cells"
    done = sum(path.stem.isdecimal() for path in cells.glob("*.json")) if cells.is_dir() else 0
    best = found.get("best", "")
    of_best = next((cell for cell in found.get("cells", []) if cell["recipe"] == best), {})
    if not best:  # a run that was stopped from outside has not been compared yet
        of_best = _highest(run)
        best = of_best.get("recipe", "")
    return {
        "run": run.id,
        "data": facts.get("data", ""),
        "model": facts.get("model", ""),
        "created": facts.get("created", 0.0),
        "cells": done + stopped,  # who is stopped in a race is done with
        "planned": len(facts.get("recipes", [])) + len(BASELINES),
        "state": state,
        "best": best,
        "score": of_best.get("score"),
        "metric": of_best.get("metric", "accuracy"),
        "verdict": found.get("verdict", ""),
    }
