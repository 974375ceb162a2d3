"""P13: whatever comes from outside gets a result or one sentence, in bounded time.

Random input by hypothesis for whatever reads something foreign: the reader of tables, the loader
of heads, the gate of base models, names of runs and links, arguments of endpoints. Each takes its
share of an hour, one after the other, as ``python -m studies.promises.properties --minutes 60``
does too. A finding is counted once, by the place where it was raised, with its shortest example.
"""

import argparse
import contextlib
import itertools
import json
import re
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from heads.errors import HeadsError, LimitError
from heads.interruption import interruptible
from heads.settings import PUBLIC, use_limits
from studies.promises import odd_values
from studies.promises.promise import Row, corpus, from_tests

MINUTES, SHORT_MINUTES = 60.0, 0.15
BATCH = 200  # examples, before hypothesis begins with another seed
MOST_SHOWN = 300
DEADLINE = 5.0  # seconds after which a call is asked to end
PATIENCE = 6  # times as long by the clock on the wall
QUOTED = re.compile(r"'.*'", re.DOTALL)


class TooSlow(BaseException):
    """An example that takes longer than it may."""


class Unclear(Exception):
    """A refusal that is no sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """What must hold of any value.

    Attributes:
        name: What reads it.
        values: Where values come from.
        ask: Reads one: with a result, or a `HeadsError`.
        most: How many seconds one may compute.
    """

    name: str
    values: st.SearchStrategy[Any]
    ask: Callable[[Any], object]
    most: float = 10.0


@dataclass(slots=True, kw_only=True)
class Hammered:
    """What came of a property.

    Attributes:
        examples: How many values were tried.
        refused: How many got a sentence.
        slowest: Seconds that the slowest computed.
        findings: Where something else was raised, and the shortest value that did it.
    """

    examples: int = 0
    refused: int = 0
    slowest: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)


def hammered(one: Property, seconds: float) -> Hammered:
    """Asks a property for so long, and goes on after a finding."""
    found, end = Hammered(), time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() >= end:
            return found

        @hypothesis.seed(time.time_ns() if number else 0)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.filter_too_much,
                HealthCheck.large_base_example,
            ],
        )
        @given(one.values)
        def tried(value: Any) -> None:
            if time.monotonic() < end:
                _try(one, value, found)

        tried()
    raise AssertionError("it ends when the time is over")


def _try(one: Property, value: Any, found: Hammered) -> None:
    """Asks about one value, and takes note of whatever is neither a result nor a sentence."""
    begun = time.process_time()
    found.examples += 1
    try:
        with at_most(one.most), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.ask(value)
    except HeadsError as error:
        found.refused += 1
        if why := unclear(str(error)):
            _note(found, f"{why}: {re.sub(QUOTED, '…', str(error)):.60}", value)
    except (Exception, TooSlow) as error:
        _note(found, _place(error), value)
    found.slowest = max(found.slowest, time.process_time() - begun)


def unclear(said: str) -> str:
    """Why a refusal is no clear sentence; empty where it is."""
    if not said.strip() or said.startswith("Something went wrong"):
        return "no sentence"
    if not said.isprintable():
        return "signs that cannot be printed"
    return "a long sentence" if len(said) > 1_000 else ""


def _note(found: Hammered, where: str, value: Any) -> None:
    shown = ascii(value)[:MOST_SHOWN]
    if where not in found.findings:
        print(f"  found: {where!a} by {shown}", flush=True)
    if len(shown) < len(found.findings.get(where, shown + " ")):
        found.findings[where] = shown


def _place(error: BaseException) -> str:
    """What was raised, and by which line of ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/heads/" in f.filename]
    where = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    kind = "too slow" if isinstance(error, TooSlow) else type(error).__name__
    return f"{kind} in {where.filename.rpartition('/heads/')[2]}:{where.lineno} ({error!s:.80})"


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Breaks off work that computes for longer, or lasts far longer, whatever it catches.

    Raises:
        TooSlow: It does.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    # What else the machine does makes it last, not compute; the bells go on ringing, since an
    # exception may be swallowed.
    bells = (
        (signal.SIGPROF, signal.ITIMER_PROF, 1),
        (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE),
    )
    before = {number: signal.signal(number, ring) for number, _, _ in bells}
    for _, clock, times in bells:
        signal.setitimer(clock, seconds * times, 1.0)
    try:
        yield
    finally:
        for number, clock, _ in bells:
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


# --- What is asked


def properties(place: Path) -> list[Property]:
    """All of them.

    Args:
        place: A folder of their own.
    """
    return [
        _reader(place),
        _heads(place),
        _gate(),
        _folders(place),
        _runs(),
        *_endpoints(),
    ]


def _reader(place: Path) -> Property:
    from heads.data.columns import guess
    from heads.data.dataset import data_of
    from heads.data.files import open_table
    from heads.interfaces.views.dataset import build_hints

    def ask(value: tuple[tuple[bytes, str], Mapping[str, Any], bool | None]) -> object:
        (content, ending), hints, header = value
        path = place / f"table{ending}"
        path.write_bytes(content)
        with use_limits(PUBLIC):
            table = open_table(path, header)
        given = (tuple(hints[name]) for name in ("labels", "order"))
        asked = build_hints(hints["names"], hints["form"], *given)
        with use_limits(PUBLIC):
            return json.dumps(
                data_of(table, guess(table, asked) if asked else None, name=path.stem).as_json()
            )

    usual = st.just({"names": [""] * 5, "form": "", "labels": [], "order": []})
    header = st.none() | st.booleans()
    values = st.tuples(odd_values.tables(_tables()), usual | odd_values.HINTS, header)
    return Property(name="reader of tables", values=values, ask=ask)


def _tables() -> list[bytes]:
    """Sound tables of every format, and the corpus of hostile ones where it is."""
    import io

    import openpyxl
    import pyarrow
    import pyarrow.parquet

    rows = [(f"text {row}, é", "abc"[row % 3]) for row in range(12)]
    plain = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    objects = "\n".join(json.dumps({"text": text, "label": label}) for text, label in rows)
    parquet, excel, book = io.BytesIO(), io.BytesIO(), openpyxl.Workbook()
    columns = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
    pyarrow.parquet.write_table(pyarrow.table(columns), parquet)
    assert book.active is not None
    for row in (("text", "label"), *rows):
        book.active.append(row)  # pyright: ignore[reportAttributeAccessIssue]
    book.save(excel)
    made = [plain.encode(), plain.encode("utf-16"), objects.encode()]
    with contextlib.suppress(Exception):
        made += [path.read_bytes() for path in corpus().glob("[cltf]*") if _is_small(path)]
    return [*made, parquet.getvalue(), excel.getvalue()]


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size < 20_000


def _heads(place: Path) -> Property:
    import torch
    from safetensors.torch import save_file

    import heads

    path = place / "head.safetensors"
    tensors = {"classifier.weight": torch.ones(2, 384), "classifier.bias": torch.zeros(2)}
    save_file(tensors, path, metadata={"labels": '["a", "b"]'})
    good = path.read_bytes()

    def ask(content: bytes) -> object:
        path.write_bytes(content)
        return heads.load(path)

    return Property(name="loader of heads", values=odd_values.head_files(good), ask=ask)


TYPES = ["bert", "roberta", "distilbert", "gpt2", "t5", "modernbert", "vit", "llama", "x", ""]


def _gate() -> Property:
    from heads.backbone.config_check import check_config

    good = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2}
    values = odd_values.configs(good, TYPES) | st.dictionaries(odd_values.WORDS, odd_values.JSON)

    def ask(value: Any) -> None:
        with use_limits(PUBLIC):
            check_config(value)

    return Property(name="gate of configs", values=values, ask=ask)


def _folders(place: Path) -> Property:
    """Whole folders: what the gate lets through, Transformers must be able to build, or refuse."""
    from heads.backbone import loading

    tiny = from_tests("tiny_models")
    folder = place / "model"
    tiny.save_tiny(folder, "bert")
    good = json.loads((folder / "config.json").read_text("utf-8"))
    index = folder / "model.safetensors.index.json"
    sound = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    names = st.sampled_from([None, *sorted(sound)])

    def ask(value: tuple[dict[str, Any], str | None, bytes, Any]) -> object:
        config, spoiled, content, weights = value
        shutil.rmtree(folder)
        folder.mkdir()
        for name, known in sound.items():
            (folder / name).write_bytes(content if name == spoiled else known)
        if spoiled != "config.json":
            (folder / "config.json").write_text(json.dumps(config, default=str), "utf-8")
        if weights is not None:
            index.write_text(json.dumps({"weight_map": weights}, default=str), "utf-8")
        found = loading.load(str(folder))
        return found.states(found.encode(["a cat sat", "the"]))

    values = st.tuples(
        odd_values.configs(good, TYPES),
        names,
        st.binary(max_size=64) | odd_values.changed(sound["tokenizer.json"]),
        st.none() | st.dictionaries(odd_values.WORDS, odd_values.WORDS, max_size=2),
    )
    return Property(name="folders of base models", values=values, ask=ask)


def _runs() -> Property:
    from heads.interfaces.web import run_access, uploads
    from heads.interfaces.web.location import Location
    from heads.runs.folder import find

    def ask(value: tuple[Any, Any, str]) -> None:
        link, mine, name = value
        at = Location.of(link)
        again = Location.of(at.query)  # half a letter does not come back, but then nothing is lost
        if not Location.of(again.query).asks_the_same(again):
            raise Unclear("a link does not come back")
        run_access.visible(mine)
        run_access.choices(mine)
        for asked in (run_access.opened, uploads.path_of, lambda one: find(one, is_public=True)):
            with contextlib.suppress(HeadsError):
                asked(name)
        run_access.opened(mine)

    values = st.tuples(odd_values.LINKS, odd_values.ODD, odd_values.IDS)
    return Property(name="names of runs and links", values=values, ask=ask)


def _endpoints() -> list[Property]:
    """Every endpoint that takes no file, as a call reaches it: with defaults for what is left."""
    import inspect

    import gradio as gr

    from heads.interfaces.web import endpoints

    def of(name: str) -> Property:
        handler = getattr(endpoints, name)
        taken = list(inspect.signature(handler).parameters)

        def ask(given: dict[str, Any]) -> object:
            end = time.monotonic() + DEADLINE

            def check() -> None:
                if time.monotonic() > end:
                    raise LimitError("This takes longer than one call may compute.", "")

            try:
                with interruptible(check):  # as the server does, with less time
                    return json.dumps(handler(**given))
            except gr.Error as error:
                raise HeadsError(str(error.message)) from None

        return Property(name=f"/{name}", values=odd_values.arguments(taken), ask=ask)

    names = ("compare", "explain", "difference", "padding", "inspect", "edit", "ablate", "readings")
    return [of(name) for name in names]


# --- All of it


@contextlib.contextmanager
def apart() -> Iterator[Path]:
    """A folder and caches of one's own, in public mode, and without a network."""
    import os

    with tempfile.TemporaryDirectory(prefix="promises-") as name:
        own = {
            "HEADS_CACHE": f"{name}/cache",
            "HEADS_RUNS": f"{name}/runs",
            "HF_HUB_OFFLINE": "1",
            "HEADS_PUBLIC": "1",
        }
        before = {one: os.environ.get(one) for one in own}
        os.environ.update(own)
        try:
            yield Path(name)
        finally:
            for one, value in before.items():
                os.environ.pop(one, None)
                if value is not None:
                    os.environ[one] = value


def measure(short: bool) -> Iterator[Row]:
    """Hammers all of them, each for its share of the time."""
    yield from hammering(SHORT_MINUTES if short else MINUTES)


def hammering(minutes: float, only: str = "") -> Iterator[Row]:
    """A row for each property.

    Args:
        only: A part of the names of those that are asked.
    """
    with apart() as place:
        asked = [one for one in properties(place) if only in one.name]
        for one in asked:
            found = hammered(one, minutes * 60 / len(asked))
            told = "; ".join(f"{where!a} by `{value}`" for where, value in found.findings.items())
            yield Row(
                promise="P13",
                says=f"Whatever is fed to the {one.name} gets a result or one sentence, soon.",
                measured=f"{found.examples:,} examples, {found.refused:,} of them refused in a "
                f"sentence, the slowest {found.slowest:.1f} s of computing; "
                f"{told or 'nothing else'}",
                target=f"nothing else, {one.most:.0f} s at most",
                holds=not found.findings,
            )


def main() -> None:
    """Hammers from the shell."""
    parser = argparse.ArgumentParser(prog="python -m studies.promises.properties")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="in all")
    parser.add_argument("--only", default="", help="a part of a property's name")
    asked = parser.parse_args()
    for row in hammering(asked.minutes, asked.only):
        print(f"{'holds' if row.holds else 'DOES NOT HOLD'}: {row.says} {row.measured}", flush=True)


if __name__ == "__main__":
    main()
