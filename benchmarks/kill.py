"""Kills a run at random moments and resumes it; ``python -m benchmarks.kill``.

Each round begins a run on a sample, with a head of every way of learning and in caches of its
own, and kills the process that works on it (`heads work RUN`, SIGKILL) at moments drawn evenly
over half of its time, until it gets to its end. Counted is what a kill lost of what was done
before it, and whether any number of the final leaderboard differs from that of a run that
nobody disturbed. Workers are forked from a process that has the libraries and the base model
in memory, so that moments fall into the work and not into imports.
"""

import argparse
import json
import os
import random
import selectors
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heads.backbone.loading import load
from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.interfaces.cli.app import main as heads
from heads.runs.runner import begin
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, limits

RECIPES = (
    "mean+linear", "cls+logistic", "mean+roberta", "max+modernbert", "mean+ridge", "mean+knn",
    "attention+linear",
)  # fmt: skip
CLOCKS = {
    "seconds", "forward_seconds", "train_seconds", "latency_ms", "run", "folder", "created",
    "crc32",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What one worker process came to.

    Attributes:
        ended: Whether it got to the end of the run.
        stage: What it said last.
        seconds: How long it lived after it had begun to work.
    """

    ended: bool
    stage: str
    seconds: float


def begun(folder: Path, sample: str, seeds: int) -> Path:
    """A new run with a cache of its own."""
    data, out = read(SAMPLES[sample].path, limits()), folder / "run"
    question = RunRequest(data=data, recipes=RECIPES, config=ExperimentConfig(seeds=seeds))
    begin(question, limits=limits(), out=out)
    return out


def worked(run: Path, *, kill_after: float | None, from_start: bool) -> Worked:
    """Lets a process work on a run, and kills it after so many seconds.

    Args:
        kill_after: None lets it live.
        from_start: Whether they count from the start of the process, not from its first word.
    """
    end, mouth = os.pipe()
    process = os.fork()
    if process == 0:
        _child(run, mouth)
    os.close(mouth)
    begun_at = time.perf_counter() if from_start else None
    said, told = b"", selectors.DefaultSelector()
    told.register(end, selectors.EVENT_READ)
    while True:
        left = None
        if kill_after is not None and begun_at is not None:
            left = max(0.0, begun_at + kill_after - time.perf_counter())
        if not told.select(left):
            os.kill(process, signal.SIGKILL)  # it can clean up nothing
            break
        part = os.read(end, 65_536)
        if not part:
            break
        said += part
        begun_at = begun_at or time.perf_counter()
    _, status = os.waitpid(process, 0)
    while part := os.read(end, 65_536):
        said += part
    os.close(end)
    lines = said.split(b"\n")[:-1]  # the last may be torn
    last = json.loads(lines[-1]) if lines else {"event": "start"}
    if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
        raise SystemExit(f"a worker failed ({status}): {last}")
    seconds = time.perf_counter() - begun_at if begun_at else 0.0
    return Worked(ended=last["event"] == "end", stage=_stage(last), seconds=seconds)


def _child(run: Path, told: int) -> None:
    """Becomes `heads work RUN`, with caches beside the run; never returns."""
    os.dup2(told, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["HEADS_CACHE"] = str(run.parent / "cache")
    sys.stdout = os.fdopen(1, "w")
    torch.set_num_threads(os.cpu_count() or 1)
    os._exit(heads(["work", str(run)]))


def _stage(event: Mapping[str, Any]) -> str:
    if event["event"] == "progress":
        return "progress: " + " ".join(event["says"].split()[:2]).rstrip(":")
    kind = str(event["event"])
    return {"start": "before the first word", "trying": "searching settings"}.get(kind, kind)


def done(run: Path) -> dict[str, bytes]:
    """Every file of every cell that is done, to the byte."""
    numbers = [path.stem for path in run.glob("cells/*.json")]
    places = [f"{kind}/{number}" for number in numbers for kind in ("cells", "heads")]
    found = [path for place in places for path in sorted(run.glob(f"{place}.*")) if path.is_file()]
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


def bare(values: Any) -> Any:
    """A leaderboard without what depends on the clock or on where it lies."""
    if isinstance(values, dict):
        return {name: bare(value) for name, value in values.items() if name not in CLOCKS}
    return [bare(value) for value in values] if isinstance(values, list) else values


def numbers_of(run: Path) -> Any:
    """The numbers of a finished run."""
    return bare(json.loads((run / "leaderboard.json").read_text("utf-8")))


def main() -> None:
    """Runs it all and prints what was lost and what differed: both must be nothing."""
    parser = argparse.ArgumentParser(description="Kills a run at random moments, resumes it.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sample", default="sentiment")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # OpenMP's threads do not outlive a fork, and whoever waits hangs
    load(limits=limits())
    rng, stages = random.Random(asked.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "unbroken"
        folder.mkdir()
        unbroken = begun(folder, asked.sample, asked.seeds)
        whole = worked(unbroken, kill_after=None, from_start=False)
        wanted = numbers_of(unbroken)
        cells = len(wanted["cells"])
        print(f"unbroken: {cells} cells in {whole.seconds:.1f} s", flush=True)
        kills = lost = differing = rounds = 0
        while kills < asked.kills:
            rounds += 1
            folder = Path(place) / f"round-{rounds}"
            folder.mkdir()
            run = begun(folder, asked.sample, asked.seeds)
            before: dict[str, bytes] = {}
            while True:
                early = rng.random() < 0.1  # some before it has said a word
                moment = rng.uniform(0, 0.2 if early else whole.seconds / 2)
                more = moment if kills < asked.kills else None
                found = worked(run, kill_after=more, from_start=early)
                after = done(run)
                lost += sum(after.get(name) != content for name, content in before.items())
                before = after
                if found.ended:
                    break
                kills += 1
                stages[found.stage] += 1
                print(f"kill {kills} after {found.seconds:.1f} s: {found.stage}", flush=True)
            same = numbers_of(run) == wanted
            differing += not same
            says = "the same numbers" if same else "OTHER NUMBERS"
            print(f"round {rounds}: {kills} kills so far, {says}", flush=True)
    print(f"{kills} kills in {rounds} runs of {cells} cells:")
    for stage, count in stages.most_common():
        print(f"  {count:3} while it said last: {stage}")
    print(f"files of finished cells lost or changed: {lost}; runs with other numbers: {differing}")
    if lost or differing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
