"""Stops a run at random moments, as the page and the shell do; ``python -m benchmarks.stop DATA``.

DATA is a CSV file. Half of the stops are the page's button (its worker process and whatever
that started must be gone), half are Ctrl+C on a process of `heads train`. Moments are drawn evenly
over the time of a whole run, so they fall into loading, reading, counting words and training.
Printed are the seconds from the stop to the end; counted are runs that lost a finished cell.
"""

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from heads.data.dataset import Data, read
from heads.interfaces.web import training_process
from heads.runs.runner import begin
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, limits

CONFIG = ExperimentConfig(seeds=3)
CELL = re.compile(r"heads: \d+/\d+ ")  # what is said of a cell that is done


def pressed(data: Data, place: Path, moment: float) -> tuple[float, int, int]:
    """Stops the page's worker; seconds, cells that were heard of, cells that are kept."""
    run = begin(RunRequest(data=data, config=CONFIG), limits=limits(), out=place / "run")
    stop, heard, begun = threading.Event(), 0, time.monotonic()
    pressed_at = 0.0
    for events in training_process.worked(run, stop):
        heard += sum(event["event"] == "cell" for event in events)
        if not pressed_at and time.monotonic() - begun >= moment:
            pressed_at = time.monotonic()
            stop.set()
    return time.monotonic() - pressed_at if pressed_at else 0.0, heard, _kept(run.path)


def interrupted(path: Path, place: Path, moment: float) -> tuple[float, int, int]:
    """Ctrl+C on `heads train`; the same."""
    asked = [sys.executable, "-m", "heads", "train", str(path), "--out", str(place / "run")]
    process = subprocess.Popen(
        asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        process.wait(moment)
        return 0.0, 0, 0
    except subprocess.TimeoutExpired:
        before = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
    told = process.communicate()[1]
    seconds = time.monotonic() - before
    if process.returncode != 130 or "Traceback" in told:
        raise SystemExit(f"exit code {process.returncode}: {told}")
    return (
        seconds,
        sum(bool(CELL.match(line)) for line in told.splitlines()),
        _kept(place / "run"),
    )


def _kept(run: Path) -> int:
    return len(list(run.glob("cells/[0-9][0-9][0-9].json")))


def main() -> None:
    """Runs it all and prints how long stops took."""
    parser = argparse.ArgumentParser(description="Stops a run at random moments.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--stops", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job behind & would ignore it
    rng, data, took, lost = random.Random(asked.seed), read(asked.data, limits()), [], 0
    with tempfile.TemporaryDirectory() as home:
        os.environ["HEADS_CACHE"] = f"{home}/whole"
        whole = begin(RunRequest(data=data, config=CONFIG), limits=limits(), out=Path(home) / "run")
        begun = time.monotonic()
        list(training_process.worked(whole, threading.Event()))
        seconds = time.monotonic() - begun
        print(f"undisturbed: {seconds:.1f} s", flush=True)
        for number in range(asked.stops):
            place = Path(home) / str(number)
            place.mkdir()
            os.environ["HEADS_CACHE"] = str(place / "cache")
            moment, on_page = rng.uniform(0.2, seconds), number % 2 == 0
            one = (
                pressed(data, place, moment) if on_page else interrupted(asked.data, place, moment)
            )
            took.append(one[0])
            lost += one[2] < one[1]
            how = "Stop on the page" if on_page else "Ctrl+C"
            print(f"{how} after {moment:.1f} s: {one[0]:.2f} s, {one[2]} cells kept", flush=True)
    shares = statistics.quantiles(took, n=20)
    print(
        f"{len(took)} stops: median {statistics.median(took):.2f} s, "
        f"95 % within {shares[-1]:.2f} s, longest {max(took):.2f} s; cells lost in {lost} runs"
    )


if __name__ == "__main__":
    main()
