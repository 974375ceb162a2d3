"""P11: without a network, or with a Hub that refuses, stalls or fails, one sentence says so, soon.

A Hub of our own on the loopback answers as the real one does; each case is a process of its own,
since the Hub's client reads the environment when it is imported.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studies.promises.promise import Row, from_tests, is_within
from studies.promises.server import ROOT, environment

MOST_SECONDS = 15.0
FETCH = """
import json, sys, time
import heads
heads.read("sentiment")  # whoever is first waits for libraries and the base model
begun, said = time.monotonic(), ""
try:
    heads.compare("A fine film.", recipes=["mean+linear"], model=sys.argv[1])
except heads.HeadsError as error:
    said = str(error)
print(json.dumps([said, time.monotonic() - begun]))
"""
NOWHERE = "http://127.0.0.1:9"


def measure(short: bool) -> Iterator[Row]:
    """All cases; short one of each kind."""
    wrong, cases, slowest = list[str](), 0, (0.0, "")
    fake = from_tests("fake_hub")
    with tempfile.TemporaryDirectory(prefix="promises-") as name, fake.serving() as server:
        place = Path(name)
        server.models |= _models(fake, place / "empty")
        asked: list[tuple[str, dict[str, str], str]] = [
            ("a/absent", {"HF_ENDPOINT": server.address}, "The Hub has no public model called"),
            ("a/gated", {"HF_ENDPOINT": server.address}, "is gated"),
            ("a/unauthorised", {"HF_ENDPOINT": server.address}, "The Hub"),
            ("a/busy", {"HF_ENDPOINT": server.address}, "The Hub"),
            ("a/broken", {"HF_ENDPOINT": server.address}, "The Hub"),
            ("a/slow", {"HF_ENDPOINT": server.address}, "The Hub"),
            ("a/b", {"HF_ENDPOINT": NOWHERE}, "The Hub cannot be reached"),
            ("a/b", {"HF_HUB_OFFLINE": "1"}, "is not on this machine"),
            ("all-MiniLM-L6-v2", {"HF_ENDPOINT": NOWHERE}, "^$"),
            ("all-MiniLM-L6-v2", {"HF_HUB_OFFLINE": "1"}, "^$"),
        ]
        for model, own, says in asked[:: 3 if short else 1]:
            said, seconds = _asked(model, own, place)
            cases, slowest = cases + 1, max(slowest, (seconds, model))
            if not re.search(says, said) or not said.isprintable():
                wrong.append(f"{model}: {said[:90] or 'a result'}")
    yield Row(
        promise="P11",
        says="It works offline; a Hub that is away, slow or refuses is said in a sentence.",
        measured=f"{cases - len(wrong)} of {cases} as it must be, the slowest after "
        f"{slowest[0]:.1f} s ({slowest[1]})" + (f": {'; '.join(wrong)}" if wrong else ""),
        target=f"{cases} of {cases}, {MOST_SECONDS:.0f} s at most",
        holds=not wrong and is_within(slowest[0], MOST_SECONDS),
    )


def _models(fake: Any, empty: Path) -> dict[str, Any]:
    """Models that the Hub of ours has, each of which it answers otherwise about."""
    tiny = from_tests("tiny_models")
    folder = tiny.save_tiny(empty, "bert")
    statuses = {"a/unauthorised": 401, "a/busy": 429, "a/broken": 500}
    found = {name: fake.Repository(folder=folder, status=one) for name, one in statuses.items()}
    found["a/gated"] = fake.Repository(folder=folder, gated=True)
    found["a/slow"] = fake.Repository(folder=folder, seconds=120.0)
    return found


def _asked(model: str, own: dict[str, str], place: Path) -> tuple[str, float]:
    """What a user of Python is told about a model, and after how many seconds of asking."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    told = environment(home)
    told["HF_HUB_OFFLINE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", FETCH, model],
        env={**told, "HF_HOME": str(home / "hf"), **own},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr[-200:]}", 0.0
    said, seconds = json.loads(done.stdout.splitlines()[-1])
    return said, seconds
