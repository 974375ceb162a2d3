"""Measures every promise and prints the table; ``make prove``.

``python -m studies.promises [--only P1 P3 …] [--short] [--write]``. With ``--write`` the rows
are kept in docs/promises.json and docs/PROMISES.md is written anew, failing rows
included; what was not measured now stays as it was. The exit code is 1 where a row does not hold.
"""

import argparse
import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from studies.promises import proofs
from studies.promises.promise import Row, Unmeasured

# In the order of the table; P14 is the promise of a workflow, which audits what is pinned.
MODULES: Mapping[str, str] = {
    "kills": "P1",
    "stops": "P2",
    "strangers": "P3",
    "host": "P3",
    "markup": "P4",
    "canaries": "P5",
    "corpus": "P6",
    "chosen": "P6",
    "bad_calls": "P6",
    "memory": "P7",
    "disk": "P8",
    "crowd": "P9",
    "repeats": "P10",
    "hub": "P11",
    "old_heads": "P12",
    "properties": "P13",
}
PACKAGE = "studies.promises"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is asked for; 1 where something does not hold or failed."""
    asked = _parser().parse_args(arguments)
    if unknown := [one for one in asked.only if one not in (*MODULES, *MODULES.values())]:
        known = ", ".join(dict.fromkeys(MODULES.values()))
        print(f"There is no promise called {unknown[0]}; there are {known}.", file=sys.stderr)
        return 2
    is_well = True
    for name, promise in MODULES.items():
        if asked.only and not {name, promise} & set(asked.only):
            continue
        print(f"\n== {promise} {name}", flush=True)
        try:
            rows = list(_printed(measured(name, short=asked.short)))
        except Unmeasured as why:
            print(f"not measured: {why}", flush=True)
            continue
        except Exception:
            traceback.print_exc()
            is_well = False
            continue
        is_well &= all(row.holds for row in rows)
        if asked.write:
            proofs.keep(name, rows, list(MODULES), asked.into)
            if asked.into == proofs.KEPT:
                proofs.write_page()
    return 0 if is_well else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="some promises, such as P1 P3")
    parser.add_argument("--short", action="store_true", help="few of each, as the tests do")
    parser.add_argument("--write", action="store_true", help=f"keep it and write {proofs.PAGE}")
    parser.add_argument("--into", type=Path, default=proofs.KEPT, help="where rows are kept")
    return parser


def measured(name: str, *, short: bool) -> Iterator[Row]:
    """The rows of a module, each with the seconds that it took and its command.

    Raises:
        Unmeasured: What it needs is not here.
    """
    if importlib.util.find_spec(f"{PACKAGE}.{name}") is None:
        raise Unmeasured(f"{PACKAGE}.{name} is not there.")
    module = importlib.import_module(f"{PACKAGE}.{name}")
    command = f"python -m {PACKAGE} --only {MODULES[name]}"
    begun = time.monotonic()
    for row in module.measure(short):
        now = time.monotonic()
        yield replace(row, seconds=now - begun, command=command)
        begun = now


def _printed(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        told = "holds" if row.holds else "DOES NOT HOLD"
        print(f"{told}: {row.says} Measured: {row.measured}; must be: {row.target} "
              f"({row.seconds:.0f} s)", flush=True)  # fmt: skip
        yield row


if __name__ == "__main__":
    sys.exit(main())
