"""What the benchmarks run on: processor, versions, and the speed of its matrix products.

That speed bounds everything else: tokens times operations over it is the least time a pass can
take. It is the largest that any of the products of a small BERT reaches here, of several kernels.
"""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.reports import Row
from heads.backbone.device import HERE, called, fastest, has_kernels

SHAPES = ((2048, 384, 1536), (2048, 1536, 384), (2048, 384, 1152), (2048, 1024, 1024))
KINDS: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}
VERSIONS = ("torch", "transformers", "tokenizers", "scikit-learn", "gradio")
Found = dict[str, Any]


def facts() -> Found:
    """The processor, its cores, versions and the date."""
    versions = {"Python": platform.python_version(), "head-to-head": _commit()}
    versions |= {name: found for name in VERSIONS if (found := _version(name))}
    gpu = fastest()
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor() if gpu == HERE else f"{_processor()} with {called(gpu)}",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": psutil.virtual_memory().total / 1e9,
        "system": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def main(data: Path, rounds: int) -> list[Row]:
    """The peaks as rows of a report; they need no data."""
    return [
        Row(what=f"largest matrix product, {kind}, {name} thread{'s' * (name == 'all')}",
            ours=speed, unit="GFLOP/s", rounds=rounds)
        for kind, speeds in peaks(rounds).items()
        for name, speed in speeds.items()
    ]  # fmt: skip


def peaks(rounds: int) -> dict[str, dict[str, float]]:
    """GFLOP/s of the fastest matrix product of each kind, on one thread and on all."""
    threads = torch.get_num_threads()
    try:
        return {
            kind: {
                "one": _peak(dtype, 1, rounds),
                "all": _peak(dtype, threads, rounds),
            }
            for kind, dtype in KINDS.items()
        }
    finally:
        torch.set_num_threads(threads)


def _peak(dtype: torch.dtype, threads: int, rounds: int) -> float:
    """The largest of all rounds: what else runs can only make it smaller."""
    torch.set_num_threads(threads)
    with torch.inference_mode():
        works = [(shape, work) for shape in SHAPES for work in _products(shape, dtype)]
        return max(_speed(shape, work) for _ in range(2 * rounds + 1) for shape, work in works)


def _products(shape: tuple[int, int, int], dtype: torch.dtype) -> Iterator[Callable[[], object]]:
    """The same product by the kernels that there are."""
    rows, wide, out = shape
    values, weight = torch.randn(rows, wide, dtype=dtype), torch.randn(out, wide, dtype=dtype)
    yield lambda: torch.nn.functional.linear(values, weight)
    if has_kernels():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
        ask = torch.ops.mkldnn._linear_pointwise
        yield lambda: ask(values, packed, None, "none", [], "")


def _speed(shape: tuple[int, int, int], work: Callable[[], object]) -> float:
    """GFLOP/s of a few of them."""
    begun = time.perf_counter()
    for _ in range(2):
        work()
    seconds = time.perf_counter() - begun
    return 2 * 2 * shape[0] * shape[1] * shape[2] / seconds / 1e9


def _processor() -> str:
    """The processor's name, with family and model where the name alone says little."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    known = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    name = known.get("model name") or platform.machine()
    family = (known.get("cpu family"), known.get("model"))
    extra = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in known.get("flags", "").split()]
    told = [f"family {family[0]} model {family[1]}", *extra] if all(family) else extra
    return f"{name} ({', '.join(told)})" if told else name


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """The project's version and the commit that is checked out."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    except OSError:
        return _version("head-to-head")
    return f"{_version('head-to-head')} {told.stdout.strip()}".strip()
