"""What two runs of one question have in common, if all is well: everything but the clock."""

from typing import Any

from heads.checked_files import read_tensors
from heads.runs.folder import RunFolder
from heads.runs.notes import NOTHING_READ

TIMES = {
    "seconds",
    "forward_seconds",
    "train_seconds",
    "latency_ms",
    "peak_bytes",
    "run",
    "created",
}


def bare(values: Any) -> Any:
    """Without what depends on the clock, on where it lies, or on which run came first."""
    if isinstance(values, dict):
        return {key: bare(value) for key, value in values.items() if key not in TIMES}
    if isinstance(values, str):
        return values.removeprefix(f"{NOTHING_READ} ")
    return [bare(value) for value in values] if isinstance(values, (list, tuple)) else values


def tensors(run: RunFolder) -> dict[str, object]:
    """Every answer and every head, to the byte; their metadata stand in any order in a file."""
    found = dict[str, object]()
    for path in sorted(run.path.rglob("*.safetensors")):
        own, facts = read_tensors(path)
        parts = {name: tensor.numpy().tobytes() for name, tensor in own.items()}
        found[str(path.relative_to(run.path))] = facts, parts
    return found
