"""Programs that are measured: each in a process of its own, asked and answering in JSON."""

import contextlib
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import memory
from benchmarks.venvs import last_error
from heads.backbone.device import fastest, products

ROOT = Path(__file__).parents[1]
OWN = (sys.executable, "-m", "benchmarks.ours")
MOST_SECONDS = 1_800
Answer = dict[str, Any]


class CannotSayError(Exception):
    """A program failed, with the reason in a line."""


def answered(
    command: Sequence[str | Path],
    question: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
) -> Answer:
    """Asks a program and returns what its last line says.

    Args:
        settings: What is added to its environment; no program may use the Hub.

    Raises:
        CannotSayError: It failed, or took too long.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=MOST_SECONDS,
            cwd=ROOT,
            env=os.environ | {"HF_HUB_OFFLINE": "1"} | dict(settings or {}),
        )
    except subprocess.TimeoutExpired:
        raise CannotSayError(f"it took more than {MOST_SECONDS // 60} minutes") from None
    if done.returncode:
        raise CannotSayError(last_error(done.stderr))
    return json.loads(done.stdout.strip().splitlines()[-1])


def precisions() -> tuple[str, ...]:
    """The settings that read differently here: exact, and fast where 16 bits are faster."""
    fast = products("fast", fastest()) != torch.float32
    return ("exact", "fast") if fast else ("exact",)


def in_turn(
    asking: Mapping[str, Callable[[], Answer]], rounds: int
) -> tuple[dict[str, list[Answer]], dict[str, str]]:
    """Asks all in turn, round by round; what each answered, and why some could not.

    Every other round goes backwards, so that none always runs after the same one. One that
    fails is asked no more.
    """
    found: dict[str, list[Answer]] = {name: [] for name in asking}
    failed: dict[str, str] = {}
    for number in range(rounds):
        for name in list(asking)[:: -1 if number % 2 else 1]:
            if name in failed:
                continue
            try:
                found[name].append(asking[name]())
            except CannotSayError as error:
                failed[name] = str(error)
                print(f"  {name}: {error}", flush=True)
            else:
                told = found[name][-1]["seconds"]
                print(f"  round {number + 1}, {name}: {told:.1f} s", flush=True)
    return {name: answers for name, answers in found.items() if name not in failed}, failed


def own(question: Mapping[str, Any], cache: Path | None = None) -> Answer:
    """Asks this project, in a process of its own; nothing is kept from before if no cache is."""
    with contextlib.ExitStack() as stack:
        place = cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return answered(OWN, question, {"HEADS_CACHE": str(place)})


def run_heads(
    arguments: Sequence[str], settings: Mapping[str, str], tree: Path = ROOT
) -> dict[str, Any]:
    """Run a command of `heads` with nothing cached, and return its JSON with `peak_bytes`.

    Args:
        settings: Variables added to its environment, such as another HEADS_CACHE.
        tree: The checkout whose code runs.

    Raises:
        CannotSayError: It failed.
    """
    with tempfile.TemporaryDirectory() as cache:
        own = {"HEADS_CACHE": cache, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(tree.resolve())}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", "heads", *arguments],
            env={**os.environ, **own, **settings},
            cwd=tree,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise CannotSayError(last_error(memory.unsaid(done.stderr)))
    return json.loads(done.stdout) | {"peak_bytes": memory.said(done.stderr)}


@contextlib.contextmanager
def drawn(folder: Path, train: int, test: int) -> Iterator[dict[str, Any]]:
    """A data set with at most so many rows, drawn once: the files, and how many rows they hold."""
    with tempfile.TemporaryDirectory() as place:
        told: dict[str, Any] = {}
        for name, most in (("train", train), ("test", test)):
            rows = read(folder / f"{name}.csv")
            told[f"all_{name}"] = len(rows)
            if len(rows) > most:
                rows = random.Random(0).sample(rows, most)
            told[f"{name}_rows"] = len(rows)
            told[name] = str(write(Path(place) / f"{name}.csv", rows))
        yield told


def read(path: Path) -> list[tuple[str, str]]:
    """Texts and labels."""
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def write(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Texts and labels as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path
