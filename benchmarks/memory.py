"""The most memory that a process has held; and a module of Python run so that it says so.

``python -m benchmarks.memory MODULE …`` runs ``python -m MODULE …`` and ends with a line on
standard error: ``peak_bytes=…``. Asking from outside does not do: what Linux tells of a process
that has ended begins at what the one held that started it.
"""

import re
import resource
import runpy
import sys
from pathlib import Path

SAID = re.compile(r"^peak_bytes=(\d+)$", re.MULTILINE)


def peak_bytes() -> int:
    """The most that this process has held so far."""
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text("ascii", "ignore"), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def said(words: str) -> int:
    r"""What such a process has said on standard error; 0 where it said nothing.

    >>> said("a warning\npeak_bytes=1024\n")
    1024
    """
    found = SAID.search(words)
    return int(found[1]) if found else 0


def unsaid(words: str) -> str:
    """Everything else that it has said."""
    return SAID.sub("", words).rstrip()


def main() -> None:
    """Runs a module as `python -m` would."""
    sys.argv = sys.argv[1:]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        print(f"\npeak_bytes={peak_bytes()}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
