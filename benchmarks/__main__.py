"""Everything measured against floors and peers in one run; ``make bench``.

``python -m benchmarks [--data DIR] [--quick] [--only part,part]``. Prints rows as they come,
keeps them as JSON, and with ``--write`` writes the table and the figure of docs/PERFORMANCE.md
anew. Machines are noisy: what is compared runs in turn, and ratios are medians over rounds.
"""

import argparse
import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import machine, reports, stored
from benchmarks.figure import DARK, LIGHT, drawn
from benchmarks.reports import PAGE, Report, Row, markdown, opened, replace_region
from benchmarks.timing import fresh_cache
from benchmarks.venvs import HOME

KEPT = HOME.parent / "benchmarks"
FIGURES = {"performance-light.svg": LIGHT, "performance-dark.svg": DARK}
FIGURE = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="performance-dark.svg">
  <img alt="How many times as fast as floors and peers" src="performance-light.svg">
</picture>"""
ROUNDS = 3
PARTS: Mapping[str, str] = {  # in the order in which they run, and the modules that measure them
    "machine": "benchmarks.machine",
    "extraction": "benchmarks.encoding",
    "peers": "benchmarks.peers",
    "stacks": "benchmarks.stacks",
    "grid": "benchmarks.training",
    "growth": "benchmarks.growth",
    "tuning": "benchmarks.tuning",
    "page": "benchmarks.page",
}
WITHOUT_DATA = ("machine", "stacks", "page")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts that are asked for; 1 where one of them failed."""
    asked = _parser().parse_args(arguments)
    if asked.render:
        publish(opened(asked.render))
        return 0
    rounds = 1 if asked.quick else asked.rounds
    names = [name.strip() for name in asked.only.split(",")] if asked.only else list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        print(f"There is no part called {unknown[0]}; there are {', '.join(PARTS)}.")
        return 2
    facts = machine.facts()
    out = asked.out or KEPT / f"{facts['date'][:16].replace(' ', '-').replace(':', '')}.json"
    report = Report(machine=facts, parts={}, missing={})
    for name in filter(names.__contains__, PARTS):
        report = measured(report, name, asked.data, rounds)
        report.save(out)
    print(f"\n{markdown(report)}\nKept in {out}")
    if asked.write:
        publish(report)
    return int(any("failed" in why for why in report.missing.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--data", type=Path, default=stored.DATA, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="one round, on few rows")
    parser.add_argument("--only", default="", help=f"parts, of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds ({ROUNDS})")
    parser.add_argument("--out", type=Path, help="the JSON file of the results")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} anew")
    parser.add_argument("--render", type=Path, metavar="JSON", help="write it from results kept")
    return parser


def measured(report: Report, name: str, data: Path, rounds: int) -> Report:
    """The report with one more part; one that fails does not stop the others."""
    parts, missing = dict(report.parts), dict(report.missing)
    facts, begun = report.machine, time.perf_counter()
    print(f"\n== {name}", flush=True)
    if why := absent(name, data):
        missing[name] = why
        print(why)
        return Report(machine=facts, parts=parts, missing=missing)
    try:
        with fresh_cache(HF_HUB_OFFLINE="1"):  # and no network for models
            parts[name] = measure(name, data, rounds)
    except Exception as error:
        traceback.print_exc()
        missing[name] = f"it failed ({type(error).__name__}: {str(error)[:200]})."
    for row in parts.get(name, ()):
        print(reports.line(row))
    print(f"({name} took {time.perf_counter() - begun:.0f} s)", flush=True)
    return Report(machine=facts, parts=parts, missing=missing)


def measure(name: str, data: Path, rounds: int) -> list[Row]:
    """The rows of a part."""
    module = importlib.import_module(PARTS[name])
    return module.main() if name == "page" else module.main(data, rounds)


def absent(name: str, data: Path) -> str:
    """Why a part cannot be measured here; empty where it can."""
    if name not in WITHOUT_DATA and not data.is_dir():
        return f"there are no data in {data}; name their folder with --data."
    if importlib.util.find_spec(PARTS[name]) is None:
        return f"{PARTS[name]} is not there."
    return ""


def publish(report: Report) -> None:
    """Writes the figures, and the table between the markers of docs/PERFORMANCE.md."""
    figures = {name: drawn(report, ink) for name, ink in FIGURES.items()}
    for name, picture in figures.items():
        if picture:
            PAGE.with_name(name).write_text(picture, "utf-8")
    inner = markdown(report, FIGURE if all(figures.values()) else "")
    page = replace_region(PAGE.read_text("utf-8"), inner) if PAGE.is_file() else None
    if page is None:
        print(f"{PAGE} has no place for the table (<!-- measured --> … <!-- /measured -->).")
        return
    PAGE.write_text(page, "utf-8")
    print(f"{PAGE} is written anew.")


if __name__ == "__main__":
    sys.exit(main())
