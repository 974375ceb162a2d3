"""What two runs of one question have in common, if all is well: everything but the clock."""

from typing import Any

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


def tensors(run: RunFolder) -> dict[str, bytes]:
    """Every answer and every head, to the byte."""
    return {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in sorted(run.path.rglob("*.safetensors"))
    }
