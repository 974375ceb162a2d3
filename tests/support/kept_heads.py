"""Heads as each format wrote them: `python tests/support/kept_heads.py` adds those missing.

A saved head must load with every later version. Folders in `tests/kept_heads` are never rewritten:
a format that changes gets a new one. They are data: no code that a format wrote is kept.
"""

import csv
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_models import write_classifier

import heads
from heads.data.samples import SAMPLES
from heads.runs.folder import find
from heads.runs.leaderboard import leaderboard

KEPT = Path(__file__).parents[1] / "kept_heads"
EXPECTED = "expected.json"  # the logits of `TEXTS` when the head was written
TEXTS = ("a fine day", "The train leaves at noon, and I hate it.", "b", "x " * 200)
ROWS, RECIPE = 60, "attention+mlp"
CONFIG = heads.ExperimentConfig(seeds=1, folds=2)


def names() -> list[str]:
    """Return the names of all folders."""
    return sorted(folder.name for folder in KEPT.iterdir())


def difference(name: str) -> float:
    """Return the largest difference between the logits of a head now and when it was written."""
    expected = torch.tensor(json.loads((KEPT / name / EXPECTED).read_text("utf-8")))
    return float((compute_logits(KEPT / name) - expected).abs().max())


def compute_logits(folder: Path) -> torch.Tensor:
    """Return the logits of a head on `TEXTS`, (4, c)."""
    if folder.name == "head":
        # On a pooling without weights: those of a learned one are not in the file.
        return heads.load(folder / "head.safetensors", recipe="mean+mlp").logits(TEXTS)
    if not (folder / "run.json").exists():
        return heads.load(folder).logits(TEXTS)
    with tempfile.TemporaryDirectory() as name:  # reading a run leaves a lock in it
        copy = shutil.copytree(folder, Path(name, "run"))
        return leaderboard(find(str(copy))).classifier(RECIPE).logits(TEXTS)


def write_checkpoint(folder: Path) -> None:
    """Write the head of a Transformers class, on a tiny base model."""
    with tempfile.TemporaryDirectory() as name:
        base = write_classifier(Path(name, "base"), "bert")
        heads.export(heads.train("cls+bert", sample_rows(), model=str(base), config=CONFIG), folder)


def write_run(folder: Path) -> None:
    """Write a run of two recipes."""
    recipes = [RECIPE, "mean+centroid"]
    heads.train_grid(sample_rows(), recipes=recipes, config=CONFIG, out=folder)
    (folder / "lock").unlink(missing_ok=True)


def write_head(folder: Path) -> None:
    """Write the tensors of a head alone."""
    head = heads.train(RECIPE, sample_rows(), config=CONFIG).head
    folder.mkdir()
    tensors = {name: value.contiguous() for name, value in head.module.head.state_dict().items()}
    labels = {"labels": json.dumps(head.classes)}
    save_file(tensors, folder / "head.safetensors", metadata=labels)


def sample_rows() -> Path:
    """Write the first rows of a sample to a file, whose path is returned."""
    path = Path(tempfile.mkdtemp(), "kept.csv")
    with SAMPLES["sentiment"].path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[: ROWS + 1]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


# Nothing writes "export-1" and "export-1-first" any more.
WRITE: dict[str, Callable[[Path], None]] = {
    "checkpoint": write_checkpoint,
    "head": write_head,
    "run-3": write_run,
}


if __name__ == "__main__":
    for name, write in WRITE.items():
        if not (KEPT / name).exists():
            write(KEPT / name)
            logits = compute_logits(KEPT / name).tolist()
            (KEPT / name / EXPECTED).write_text(json.dumps(logits, indent=1) + "\n", "utf-8")
