"""What runs on a GPU against the same on the processor, on a machine without a network.

``benchmarks/gpu.sh [--wheels DIR]``. The parts stand in `benchmarks.gpu_parts` and run in a process
for each device; one that crashes or hangs costs only its own part. All caches lie in a temporary
folder. A difference is the largest between two numbers, over the largest number (1, if smaller).
Both sides compute in 32 bits, TensorFloat-32 off, but for the parts that say "16 bits".
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# What a machine with torch, Transformers, accelerate, sentence-transformers, ONNX Runtime and SciPy
# may lack. The rest of requirements.txt is for files, the page and ONNX, or too large to travel.
PACKED = ("peft", "psutil", "docstring_parser", "filelock", "jinja2", "typer", "rich", "httpx")
PACKED += ("threadpoolctl", "fsspec", "protobuf")
PLATFORMS = [f"--platform=manylinux{age}_x86_64" for age in ("_2_28", "_2_17", "2014")]
MODEL = "model"
LIMIT = 64.0  # MiB that the tree and what is packed may have together
LONGEST = 150  # seconds of one part
TOO_LONG = "It was ended: it took too long."
SPARE = 10.0  # seconds for the table
# The largest difference from the processor that each part may have; None where none is measured.
PARTS: Mapping[str, float | None] = {
    "encode": 1e-5,
    "heads: linear": 0.02,
    "heads: dense": 0.05,
    "tune: last 2 layers": 0.05,
    "tune: LoRA": 0.05,
    "tune: everything": 0.05,
    "tune: everything, 16 bits": None,
    "compare": 0.02,
    "export": 1e-4,
    "page: one request": 0.02,
    "tokens per second, 32 bits": None,
    "tokens per second, 16 bits": None,
}
Found = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Packs, or runs all parts; 1 where one failed or differed, 2 where there is no GPU."""
    options = _parser().parse_args(arguments)
    if options.pack:
        return pack(options.pack)
    end = time.monotonic() + 60 * options.minutes - SPARE
    with tempfile.TemporaryDirectory(prefix="heads-gpu-") as folder:
        work = Path(folder)
        environment = prepare(work / "site", options.wheels)
        probe = [sys.executable, "-c", "import torch; torch.ones(1, device='cuda').item()"]
        if options.device == "cuda" and subprocess.run(probe, env=environment).returncode:
            print("Torch cannot use a GPU here, as said above. Use --device cpu.", file=sys.stderr)
            return 2
        names = [name for name in PARTS if options.only in name]
        source = str((options.wheels / MODEL).resolve()) if options.wheels else ""
        asked = {"quick": options.quick, "model": str(work / MODEL), "source": source}
        # The device comes first: where time runs out, the processor's side is what is missing.
        half = time.monotonic() + (end - time.monotonic()) / 2
        there = {**asked, "device": options.device, "place": str(work / "device")}
        device = run_parts(names, there, environment, half)
        here = {**asked, "device": "cpu", "place": str(work / "processor")}
        processor = run_parts(names, here, environment, end)
    rows = [compared(name, device[name], processor[name]) for name in names]
    facts = next((found["facts"] for found in device.values() if "facts" in found), {})
    report = {"device": options.device, "facts": facts, "parts": rows}
    options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"{table(report)}\nWritten to {options.out}.")
    return int(any(row["result"] in ("failed", "differs") for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--wheels", type=Path, help="the folder that --pack made")
    parser.add_argument("--pack", type=Path, help="make that folder, and do nothing else")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="the table as JSON")
    parser.add_argument("--only", default="", help="parts whose names hold this")
    parser.add_argument("--quick", action="store_true", help="3 layers and few texts, for tests")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which it ends")
    return parser


# --- What travels to a machine without a network.


def pack(folder: Path) -> int:
    """Downloads wheels for Python 3.12 on Linux, and writes the bundled model in 16 bits."""
    from benchmarks.gpu_parts import bundled_folder, write_model

    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "--implementation", "cp", *PLATFORMS]
    command += ["-c", str(ROOT / "requirements.txt"), "-d", str(folder), *PACKED]
    subprocess.run(command, check=True)
    write_model(bundled_folder(), folder / MODEL, "float16")
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, cwd=ROOT, text=True)
    packed = _mebibytes(folder.rglob("*"))
    tree = _mebibytes(ROOT / name for name in listed.stdout.split("\0"))
    print(f"{packed:.1f} MiB packed and {tree:.1f} MiB of tree, of {LIMIT:.0f} MiB")
    return int(packed + tree > LIMIT)


def _mebibytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files if file.is_file()) / 2**20


def prepare(site: Path, wheels: Path | None) -> dict[str, str]:
    """Installs what is missing into a folder of its own; the environment of the parts."""
    known = {one.name.lower().replace("-", "_") for one in distributions()}
    every = sorted((wheels or site).glob("*.whl"))
    missing = [str(file) for file in every if file.name.split("-")[0].lower() not in known]
    if missing:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*command, "--no-compile", "--target", str(site), *missing], check=True)
    print("Installed for this run:", *([Path(one).name for one in missing] or ["nothing"]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADS_")}
    path = os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", ""), str(site)])
    return {**kept, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}


# --- The parts, in processes of their own.


def run_parts(
    names: Sequence[str], asked: Mapping[str, Any], environment: Mapping[str, str], end: float
) -> dict[str, Found]:
    """Runs parts on one device; a process that ends is followed by another one for the rest."""
    place, found = Path(asked["place"]), dict[str, Found]()
    place.mkdir()
    own = {**environment, "HEADS_CACHE": str(place / "cache")}
    own |= {"CUDA_VISIBLE_DEVICES": ""} if asked["device"] == "cpu" else {}
    while left := [name for name in names if name not in found]:
        told = json.dumps({**asked, "parts": left, "longest": LONGEST})
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu_parts", told]
        given: Found = {"cwd": ROOT, "env": own, "start_new_session": True}
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **given)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started
        code = process.wait()
        files = {name: file_of(place, name) for name in left}
        found |= {n: json.loads(file.read_text()) for n, file in files.items() if file.is_file()}
        if time.monotonic() >= end:
            return {name: {"left": True, "error": "No time was left."} for name in left} | found
        if rest := [name for name in left if name not in found]:
            last = (place / "log").read_text("utf-8", "replace").strip().rpartition("\n")[2]
            why = f"Its process ended with {code}: {last[:200]}"
            found[rest[0]] = {"error": TOO_LONG if code == -signal.SIGALRM else why}
    return found


def file_of(place: Path, name: str) -> Path:
    """Where the result of a part lies."""
    return place / f"{re.sub('[^a-zA-Z0-9]+', '-', name)}.json"


# --- The table.


def compared(name: str, device: Found, processor: Found) -> Found:
    """One row: what a part took on both sides, and how far apart they are."""
    row = {"part": name, "seconds": device.get("seconds"), "cpu_seconds": processor.get("seconds")}
    row |= {"difference": None, "allowed": PARTS[name], "note": device.get("note", "")}
    row |= {"rates": device.get("rates"), "cpu_rates": processor.get("rates")}  # tokens per second
    if errors := [side for side in (device, processor) if "error" in side]:
        is_left_out = all("left" in side for side in errors)
        return row | {"result": "left out" if is_left_out else "failed", "note": errors[0]["error"]}
    if (allowed := PARTS[name]) is None:
        return row | {"result": "ran"}
    row["difference"] = difference(device["numbers"], processor["numbers"])
    return row | {"result": "same" if row["difference"] <= allowed else "differs"}


def difference(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference of two numbers, over the largest number (1, if smaller).

    >>> difference([1.0, 4.0], [1.0, 2.0]), difference([], [1.0]), difference([1.0], [float("nan")])
    (1.0, inf, inf)
    """
    gaps = [abs(one - other) for one, other in zip(ours, theirs, strict=False)]
    if len(ours) != len(theirs) or not all(gap < float("inf") for gap in gaps):
        return float("inf")
    return max(gaps, default=0.0) / max(1.0, *map(abs, theirs))


def table(report: Mapping[str, Any]) -> str:
    """The report as a table of Markdown."""
    told = ", ".join(f"{name} {value}" for name, value in report["facts"].items())
    device = report["device"]
    lines = [told, "", f"| part | {device} s | cpu s | difference | allowed | result | note |"]
    lines.append("|---|--:|--:|--:|--:|---|---|")
    for row in report["parts"]:
        cells = [(row[name], ".2f") for name in ("seconds", "cpu_seconds")]
        cells += [(row[name], ".0e") for name in ("difference", "allowed")]
        numbers = ["–" if value is None else format(value, form) for value, form in cells]
        note = " ".join(row["note"].split()).replace("|", "/")
        lines.append(f"| {' | '.join([row['part'], *numbers, row['result'], note])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
