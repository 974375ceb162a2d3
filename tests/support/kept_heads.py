"""Keeps heads as each format wrote them: `python tests/support/kept_heads.py` adds new ones.

Whoever has saved a head must be able to load it for ever. What stands in the folder kept_heads is
never rewritten: a format that changes gets a folder of its own beside it.
"""

import csv
import json
import shutil
import subprocess
import sys
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
EXPECTED = "expected.json"  # the logits of each text, beside the head or in its folder
TEXTS = ("a fine day", "The train leaves at noon, and I hate it.", "b", "x " * 200)
ROWS, RECIPE = 60, "attention+mlp"
CONFIG = heads.ExperimentConfig(seeds=1, folds=2)
# Runs `load.py` of a folder, where this package cannot be imported.
ALONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["heads"] = None
from load import load
print(json.dumps(load().logits(json.loads(sys.argv[2])).tolist()))
"""


def names() -> list[str]:
    """What is kept."""
    return sorted(folder.name for folder in KEPT.iterdir())


def difference(name: str) -> float:
    """The largest difference between the logits of a kept head now and when it was written."""
    folder = KEPT / name
    expected = torch.tensor(json.loads((folder / EXPECTED).read_text("utf-8")))
    return max(float((logits - expected).abs().max()) for logits in answers(folder))


def answers(folder: Path) -> list[torch.Tensor]:
    """The logits of a kept head on `TEXTS`, (4, c), each way in which somebody may load it."""
    if (folder / "run.json").exists():
        return [_of_run(folder)]
    if (folder / "load.py").exists():
        return [_logits(heads.load(folder)), _without_us(folder)]
    if (folder / "head.safetensors").exists():
        return [_logits(heads.load(folder / "head.safetensors", recipe=RECIPE))]
    return [_logits(heads.load(folder))]


def _logits(classifier: heads.Classifier) -> torch.Tensor:
    return classifier.logits(TEXTS)


def _of_run(folder: Path) -> torch.Tensor:
    with tempfile.TemporaryDirectory() as place:  # reading a run leaves a lock in it
        copy = Path(shutil.copytree(folder, Path(place, "run")))
        return _logits(leaderboard(find(str(copy))).classifier(RECIPE))


def _without_us(folder: Path) -> torch.Tensor:
    command = [sys.executable, "-B", "-c", ALONE, str(folder), json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return torch.tensor(json.loads(done.stdout))


# --- What writes them, each into a folder that is not there yet.


def _export(folder: Path) -> None:
    heads.export(_trained(RECIPE), folder, refit=False)


def _checkpoint(folder: Path) -> None:
    heads.export(_trained("cls+bert"), folder, refit=False)


def _run(folder: Path) -> None:
    heads.train_grid(_rows(), recipes=[RECIPE, "mean+centroid"], config=CONFIG, out=folder)
    (folder / "lock").unlink(missing_ok=True)


def _head_alone(folder: Path) -> None:
    head = heads.train(RECIPE, _rows(), config=CONFIG).head
    folder.mkdir()
    tensors = {name: value.contiguous() for name, value in head.module.head.state_dict().items()}
    labels = {"labels": json.dumps(head.classes)}
    save_file(tensors, folder / "head.safetensors", metadata=labels)


def _trained(recipe: str) -> heads.Classifier:
    """A head on a tiny base model: it lies in the folder with it."""
    with tempfile.TemporaryDirectory() as place:
        base = write_classifier(Path(place, "base"), "bert")
        return heads.train(recipe, _rows(), model=str(base), config=CONFIG)


def _rows() -> Path:
    place = Path(tempfile.mkdtemp(), "kept.csv")
    with SAMPLES["sentiment"].path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[: ROWS + 1]
    with place.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return place


# The folder "export-1-first" was written by the first version that wrote any.
WRITE: dict[str, Callable[[Path], None]] = {
    "export-1": _export,
    "checkpoint": _checkpoint,
    "head": _head_alone,
    "run-3": _run,
}


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    for name, write in WRITE.items():
        if not (KEPT / name).exists():
            write(KEPT / name)
    for name in names():
        if not (expected := KEPT / name / EXPECTED).exists():
            logits = answers(KEPT / name)[-1]
            expected.write_text(json.dumps(logits.tolist(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
