"""The commands about whole files: predict, evaluate."""

import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from heads import api
from heads.events import Progress
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command
from heads.interfaces.cli.train import HEADERS, Header
from heads.options import EvaluateOptions, PredictOptions

Found = TypeVar("Found")
EVERY = 10.0  # seconds between two lines on how far it is, where nobody watches


@command(api.predict)
def predict(
    file: str, *, to: str = "", options: PredictOptions, header: Header = "guess"
) -> Answers:
    """Answers every row of a file.

    Args:
        file: A table with texts, or - for texts from standard input, one a line.
        to: A new file, where the rows are written in the format of its ending; without it they
            are printed as CSV.
    """
    from heads.inference.predict import iter_prediction

    options = replace(options, header=HEADERS[header], lines=options.lines or file == "-")
    with tempfile.TemporaryDirectory() as folder:
        source: str | Path = file
        if file == "-":
            source = Path(folder) / "standard input"
            with source.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        target = Path(to) if to else Path(folder) / "answers.csv"  # nothing is printed by half
        work = iter_prediction(source, options, to=target, is_printed=not to)
        found = follow_work(work, what=f"{to} was not written" if to else "")
        found = found if to else replace(found, to=None)
        cli.tables.report_answers(found)
        yield found.as_json(), lambda: None if to else _print(target, found.vectors)


def _print(path: Path, vectors: str) -> None:
    """Prints a file of answers, byte for byte; vectors, if there were any, it leaves out."""
    if vectors:
        print("heads: The vectors are not printed; --to FILE writes them as well.", file=sys.stderr)
    with path.open("rb") as file:
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)


@command(api.evaluate)
def evaluate(file: str, *, options: EvaluateOptions, header: Header = "guess") -> Answers:
    """Scores a head on a file with labels."""
    from heads.inference.evaluate import iter_evaluation

    separator = options.separator or None
    options = replace(options, header=HEADERS[header], separator=separator)
    scores = follow_work(iter_evaluation(file, options))
    yield scores.as_json(), lambda: cli.tables.show(scores)


def follow_work(work: Generator[Progress, None, Found], what: str = "") -> Found:
    """Run some work to its end, tell its progress on stderr, and add `what` if it is stopped."""
    from rich.console import Console

    console, event, last = Console(stderr=True), None, time.monotonic()
    try:
        with console.status("Starting") as status:
            while True:
                event = next(work)
                status.update(f"{event.says} ({event.share:.0%})")
                if not console.is_terminal and time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    print(f"heads: {event.says} ({event.share:.0%})", file=sys.stderr, flush=True)
    except StopIteration as end:
        return end.value
    except KeyboardInterrupt:
        work.close()  # nothing stays of what it was writing
        far: Any = f"{event.says.partition(':')[0]}; " if event else ""
        says = "; ".join(filter(None, (f"heads: stopped. {far}".rstrip("; "), what)))
        print(f"{says}.", file=sys.stderr)
        raise
