"""P1: a kill, whenever it comes, and a full disk lose nothing that was finished.

Runs are short, of a tiny base model and frozen as well as tuned heads, so that many kills fall
into one of them. A third of the kills come at moments drawn evenly over the time of a run, a third
right after a file has appeared, a third while one is being written (its unfinished part is there).
After each, every file under a final name must be whole and what was finished before unchanged; the
run goes on then, and its numbers must be those of a run that nobody disturbed, to the bit. Workers
are forked from a process with torch in memory, so that moments fall into the work.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.promises.promise import Row, from_tests, rng
from studies.promises.server import ROOT, environment

KILLS, SHORT_KILLS = 200, 6
RECIPES = (
    "mean+linear",
    "cls+roberta",
    "mean+ridge",
    "attention+linear",
    "mean+linear?tune=full",
)
SIZES = (2_000, 12_000, 40_000, 150_000)  # bytes that a file may have on a full disk
LOOKS = 0.0005  # seconds between two looks at the folder
ORPHANS = (".unfinished", ".tmp")
KILLED = "No finished or checkpointed work is lost by kill -9."
FULL = "A full disk loses nothing, and is said in a sentence."


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was counted.

    Attributes:
        kills: How many there were.
        at_files: How many of them came at the moment of a write.
        runs: How many runs they fell into.
        half: Files under a final name that were not whole.
        lost: Finished files that were gone or changed.
        orphans: Unfinished files that lay there when a run had ended.
        other: Runs whose numbers differ.
        sentences: How many runs on a full disk ended with a sentence.
        full: How many runs met a full disk.
    """

    kills: int = 0
    at_files: int = 0
    runs: int = 0
    half: int = 0
    lost: int = 0
    orphans: int = 0
    other: int = 0
    sentences: int = 0
    full: int = 0


def measure(short: bool) -> Iterator[Row]:
    """Lets a process of its own do it: what is forked must not have the threads of this one."""
    kills = SHORT_KILLS if short else KILLS
    with tempfile.TemporaryDirectory(prefix="promises-") as place:
        command = [sys.executable, "-m", "studies.promises.kills", "--kills", str(kills)]
        done = subprocess.run(
            command,
            env={**environment(Path(place)), "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found = Tally(**json.loads(done.stdout.splitlines()[-1]))
    bad = found.half + found.lost + found.orphans
    yield Row(
        promise="P1",
        says=KILLED,
        measured=f"{found.kills} kills ({found.at_files} at the moment of a write) in "
        f"{found.runs} runs: {found.half} half files, {found.lost} lost or changed, "
        f"{found.orphans} orphans after the end; {found.other} runs with other numbers",
        target="0 of each; numbers equal to the bit",
        holds=found.kills >= kills and not bad and not found.other,
    )
    yield Row(
        promise="P1",
        says=FULL,
        measured=f"a disk that is full after {', '.join(f'{size:,}' for size in SIZES)} bytes a "
        f"file: {found.sentences} of {found.full} in a sentence, all go on to the same numbers",
        target=f"{len(SIZES)} of {len(SIZES)}",
        holds=found.sentences == found.full == len(SIZES) and not found.other,
    )


# --- In the process that forks


def hammer(kills: int, home: Path) -> Tally:
    """Kills and fills the disk; what was counted."""
    model = from_tests("tiny_models").save_tiny(home / "model", "bert")
    chance, found = rng("P1"), Tally()
    calm = _begun(home / "calm", model)
    begun = time.monotonic()
    _worked(calm, Kill())
    seconds = time.monotonic() - begun
    wanted = _numbers(calm)
    print(f"undisturbed: {seconds:.1f} s, {len(wanted['cells'])} cells", file=sys.stderr)
    while found.kills < kills:
        run = _begun(home / f"run-{found.runs}", model)
        found.runs += 1
        _until_its_end(run, kills, seconds, chance, found)
        found.other += _numbers(run) != wanted
        found.orphans += len(_orphans(run.parent))
        shutil.rmtree(run.parent)
        print(asdict(found), file=sys.stderr, flush=True)
    for size in SIZES:
        run = _begun(home / f"full-{size}", model)
        found.full += 1
        said = _worked(run, Kill(), most=size)
        found.half += len(_half(run.parent))
        found.sentences += _is_sentence(said)
        _worked(run, Kill())
        found.other += _numbers(run) != wanted
        found.orphans += len(_orphans(run.parent))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """When a worker is killed; never, if nothing is said.

    Attributes:
        after: Seconds from its start.
        changes: After so many changes of the names in the folder, unfinished ones too.
    """

    after: float = 0.0
    changes: int = 0


def _until_its_end(
    run: Path, kills: int, seconds: float, chance: random.Random, found: Tally
) -> None:
    """Kills a run again and again, until it gets to its end."""
    before: dict[str, bytes] = {}
    while True:
        kill = Kill()
        if found.kills < kills:
            later = chance.randint(1, 12)
            kill = chance.choice(
                [
                    Kill(after=chance.uniform(0.01, seconds / 2)),
                    Kill(changes=later),
                    Kill(changes=2 * later),
                ]
            )
        said = _worked(run, kill)
        after = _done(run)
        found.lost += sum(after.get(name) != content for name, content in before.items())
        found.half += len(_half(run.parent))
        before = after
        if (run / "leaderboard.json").is_file() and said.get("event") == "end":
            return
        if kill == Kill():
            raise RuntimeError(f"{run} does not come to its end: {said}")
        found.kills += 1
        found.at_files += kill.changes > 0


def _begun(folder: Path, model: Path) -> Path:
    """A new run on a few rows, with a cache of its own."""
    from heads.data.dataset import read
    from heads.data.samples import SAMPLES
    from heads.runs.runner import begin
    from heads.runs.spec import RunRequest
    from heads.settings import ExperimentConfig

    folder.mkdir()
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()
    rows = folder / "rows.csv"
    rows.write_text("\n".join([lines[0], *lines[1::4]]) + "\n", "utf-8")
    config = ExperimentConfig(folds=3, trials=1, epochs=3, curve=True)
    asked = RunRequest(data=read(rows), recipes=RECIPES, model=str(model), config=config)
    begin(asked, out=folder / "run")
    return folder / "run"


def _worked(run: Path, kill: Kill, most: int = 0) -> dict[str, Any]:
    """Lets a process work on a run, perhaps until it is killed; what it said last.

    Args:
        most: Bytes that a file of its may have; 0 for any number.
    """
    end, mouth = os.pipe()  # no file: that could be too large
    begun, process = time.monotonic(), os.fork()
    if process == 0:
        _become_worker(run, mouth, most)
    os.close(mouth)
    os.set_blocking(end, False)
    known, changes, told = _names(run), 0, b""
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        told += _heard(end)
        if kill.changes:
            now = _names(run)
            changes, known = changes + (now != known), now
        is_time = kill.after and time.monotonic() - begun >= kill.after
        if is_time or (kill.changes and changes >= kill.changes):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(LOOKS)
    told += _heard(end)
    os.close(end)
    for line in reversed(told.splitlines()):
        with contextlib.suppress(ValueError):  # the last may be torn
            return json.loads(line)
    return {}


def _heard(end: int) -> bytes:
    """What a worker has said since."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(end, 65_536):
            found += part
    return found


def _become_worker(run: Path, mouth: int, most: int) -> None:
    """Becomes `heads work RUN`, with caches beside the run; never returns."""
    import resource

    from heads.interfaces.cli.app import main as heads

    code = 1
    try:
        os.environ["HEADS_CACHE"] = str(run.parent / "cache")
        os.dup2(mouth, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = os.fdopen(1, "w")
        if most:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        code = heads(["work", str(run)])
        sys.stdout.flush()
    finally:
        os._exit(code)


def _names(run: Path) -> set[str]:
    """The names of all files of a run."""
    found: set[str] = set()
    for folder in ("", "cells", "heads", "unfinished"):
        with contextlib.suppress(OSError), os.scandir(run / folder) as entries:
            found |= {f"{folder}/{entry.name}" for entry in entries}
    return found


def _done(run: Path) -> dict[str, bytes]:
    """Return every file of every finished cell, to the byte."""
    numbers = [path.stem for path in run.glob("cells/*.json")]
    stems = [f"{kind}/{number}" for number in numbers for kind in ("cells", "heads")]
    paths = [path for stem in stems for path in sorted(run.glob(f"{stem}.*")) if path.is_file()]
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def _numbers(run: Path) -> Any:
    """Return the numbers of a finished run without those of the clock, or {} if it has none."""
    path = run / "leaderboard.json"
    if not path.is_file():
        return {}
    values = json.loads(path.read_text("utf-8"))
    del values["crc32"]  # of a text that holds the clock's numbers
    found = from_tests("same_runs").bare(values)
    ratio = r"trains (about|[\d.,]+ times) as long"  # "about" where it is near 1: the clock's, too
    return json.loads(re.sub(ratio, "trains as long", json.dumps(found)))


def _half(folder: Path) -> list[Path]:
    """Files under a final name that cannot be read whole."""
    from safetensors import SafetensorError, safe_open

    found = []
    for path in folder.rglob("*"):
        if path.name.startswith(ORPHANS) or not path.is_file():
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_text("utf-8"))
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="pt") as file:
                    list(file.keys())
        except (OSError, ValueError, SafetensorError):
            found.append(path)
    return found


def _orphans(folder: Path) -> list[Path]:
    """What is left unfinished: in the run at once, in caches when an hour has passed."""
    from heads.caching import make_room

    hours_ago = time.time() - 7200
    for path in (folder / "cache").rglob(".*"):
        os.utime(path, (hours_ago, hours_ago))
    make_room(folder / "cache", 10**12)
    return [path for path in folder.rglob("*") if path.name.startswith(ORPHANS)]


def _is_sentence(said: dict[str, Any]) -> bool:
    """Whether a worker ended with a sentence on its disk; on a disk with room enough it ends."""
    says = str(said.get("says", ""))
    return said.get("event") == "end" or (
        said.get("event") == "error" and "cannot be written" in says and says.isprintable()
    )


def main() -> None:
    """Forks, kills, and prints what was counted."""
    import torch

    parser = argparse.ArgumentParser(prog="python -m studies.promises.kills")
    parser.add_argument("--kills", type=int, default=KILLS)
    asked = parser.parse_args()
    torch.set_num_threads(1)  # OpenMP's threads do not outlive a fork, and whoever waits hangs
    with tempfile.TemporaryDirectory() as home:
        found = hammer(asked.kills, Path(home))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
