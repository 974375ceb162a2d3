"""What a list of runs says of each: enough to find the one that is meant."""

from typing import Any

from heads.pipeline.measure.outcomes import BASELINES
from heads.pipeline.runs.folder import RunFolder


def facts_of(run: RunFolder) -> dict[str, Any]:
    """A run in a few plain values, read from small files only.

    Raises:
        DataError: The run is broken.
    """
    facts = run.read("run.json") or {}
    found = run.read("leaderboard.json") or {}
    end = run.read("end.json") or {}
    cells = run.path / "cells"
    done = len(list(cells.glob("*.json"))) if cells.is_dir() else 0
    best = next((cell for cell in found.get("cells", []) if cell["recipe"] == found["best"]), {})
    state = end.get("state") or ("running" if run.is_busy else "unfinished")
    return {
        "run": run.id,
        "data": facts.get("data", ""),
        "model": facts.get("model", ""),
        "created": facts.get("created", 0.0),
        "cells": done,
        "planned": len(facts.get("recipes", [])) + len(BASELINES),
        "state": state,
        "best": found.get("best", ""),
        "accuracy": best.get("accuracy"),
        "verdict": found.get("verdict", ""),
    }
