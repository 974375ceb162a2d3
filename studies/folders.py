"""Folders of sentence-transformers, out and in, held against the library in processes of its own.

``python -m studies.folders [--python PYTHON]…`` trains one head a recipe on the bundled model,
exports it, asks every given Python (with any sentence-transformers in it) for its logits, and opens
what that library writes. ``--write`` puts the tables into docs/folders.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import heads
from benchmarks.reports import replace_region
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.exporters.sentence_transformers import LIBRARY

PAGE = Path(__file__).parents[1] / "docs" / "folders.md"
SCRIPT = Path(__file__).parent / "peer_scripts" / "sentence_folders.py"
TEXTS = ("Not bad at all.", "I want my money back.", "no", "Nobody told us why, " * 40)
SECOND = ("It was fine.", "It was cancelled twice.", "yes", "We sat at the gate.")
SINGLE = (
    *("cls+linear", "mean+linear", "max+linear", "sqrt_mean+linear", "weighted+linear"),
    *("last+linear", "cls_mean+linear", "mean_max+linear", "trained+linear", "pooler+linear"),
    *("mean+linear?normalise=true", "mean+linear?prefix=query:_"),
    *("cls+bert", "cls+roberta", "mean+electra", "mean+mlp", "mean+dense_linear"),
    *("mean+norm_linear", "mean+modernbert", "mean+cosine", "mean+cosine_margin", "mean+logistic"),
)
PAIRS = (
    *("cls+bert", "pooler+linear", "mean+linear", "mean+norm_linear", "std+linear"),
    "mean+linear?pair=uv_diff",
)
LABELS = ("bad", "fine", "good")


def main() -> None:
    """Measures and prints; with --write into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="a Python with the library")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tables = measured(Path(place), asked.python or [sys.executable])
    for name, rows in tables.items():
        print("\n".join(rows))
        if asked.write:
            page = replace_region(PAGE.read_text("utf-8"), "\n".join(rows) + "\n", name)
            assert page is not None
            PAGE.write_text(page, "utf-8")


def measured(place: Path, pythons: Sequence[str]) -> dict[str, list[str]]:
    """The rows of both tables."""
    written = [*_exported(place, SINGLE, "sentiment"), *_exported(place, PAIRS, "pairs")]
    model = _with_labels(place / "base", load())
    told = {}
    for number, python in enumerate(pythons):
        others = place / f"others-{number}"
        others.mkdir()
        asked = [{key: one[key] for key in ("path", "texts", "pairs")} for one in written]
        told |= _asked(python, {"folders": asked, "write": str(others), "model": str(model)})
    versions = list(told)
    out = [_row("recipe", "loaded by", *versions), _row(*["---"] * (2 + len(versions)))]
    for at, one in enumerate(written):
        found = [_difference(told[version]["answers"][at], one["logits"]) for version in versions]
        out.append(_row(f"`{one['recipe']}`", one["called"], *found))
    into = [_row("folder", "opens as", *versions), _row(*["---"] * (2 + len(versions)))]
    for rows in zip(*(told[version]["written"] for version in versions), strict=True):
        ours = [heads.load(one["path"]) for one in rows]
        found = [
            _difference(one, classifier.logits(one["texts"], one["pairs"]))
            for one, classifier in zip(rows, ours, strict=True)
        ]
        into.append(_row(Path(rows[0]["path"]).name, f"`{ours[0].recipe}`", *found))
    return {"out": out, "in": into}


def _exported(place: Path, recipes: Sequence[str], data: str) -> Iterator[dict[str, Any]]:
    """Heads as folders, and their logits."""
    for recipe in recipes:
        classifier: Classifier = heads.train(recipe, data)
        pairs = list(SECOND) if classifier.head.needs_pairs else []
        folder = place / f"{data}-{re.sub('[^a-z]', '-', recipe)}"
        found = heads.export(classifier, folder, library=LIBRARY, refit=False)
        yield {
            "recipe": recipe,
            "called": found.called.rpartition(" for ")[2],
            "path": str(folder),
            "texts": list(TEXTS),
            "pairs": pairs,
            "logits": classifier.logits(TEXTS, pairs),
        }


def _with_labels(place: Path, backbone: Backbone) -> Path:
    """A copy of a base model whose config has three labels."""
    shutil.copytree(str(backbone.folder), place, ignore=lambda *_: ["modules.json"])
    config = json.loads((place / "config.json").read_text("utf-8"))
    config["id2label"] = dict(enumerate(LABELS))
    config["label2id"] = {name: number for number, name in enumerate(LABELS)}
    (place / "config.json").write_text(json.dumps(config), "utf-8")
    return place


def _asked(python: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """What a Python's library says, by its version."""
    own = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": "1"}
    own["HF_MODULES_CACHE"] = str(Path(question["write"]) / "modules")
    done = subprocess.run(
        [*python.split(), str(SCRIPT)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **own},
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2_000:])
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return {told["version"]: told}


def _difference(answer: Mapping[str, Any], ours: torch.Tensor) -> str:
    """The largest difference of two logits, or the error."""
    if "error" in answer:
        return f"no ({answer['error'].partition(':')[0]})"
    return f"{float((torch.tensor(answer['logits']) - ours).abs().max()):.0e}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
