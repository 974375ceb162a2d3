"""What the commands of `heads` do, and what all of them share: flags, errors, interrupts."""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from heads import api
from heads.errors import DataError, LimitError
from heads.interfaces.docstrings import flag
from heads.settings import ExperimentConfig, limits


def compare(asked: argparse.Namespace) -> None:
    """Compares heads on one or two sentences."""
    from heads.analysis.comparison import comparing
    from heads.data.samples import RECIPES

    text = sys.stdin.read() if asked.text == "-" else asked.text
    events = comparing(
        text,
        asked.pair,
        recipes=asked.recipe or RECIPES,
        model=asked.model,
        sample=asked.sample,
        pairs=asked.pairs,
    )
    found = last_of(events).comparison
    if asked.json:
        print_json(found.as_json())
    else:
        from heads.interfaces.cli import tables

        tables.comparison(found)


def explain(asked: argparse.Namespace) -> None:
    """Takes one or two recipes apart."""
    from heads.analysis.explanation import explaining
    from heads.data.samples import TEXT

    if len(asked.recipe) > 2:
        raise LimitError("At most two recipes can be explained at once.", "Leave some out.")
    text = asked.text or TEXT
    settings = {"model": asked.model, "sample": asked.sample}
    found = [last_of(explaining(recipe, text, asked.pair, **settings)) for recipe in asked.recipe]
    differs = api.difference(*asked.recipe, model=asked.model) if len(found) == 2 else ""
    if asked.json and differs:
        print_json({"recipes": [item.as_json() for item in found], "difference": differs})
    elif asked.json:
        print_json(found[0].as_json())
    else:
        from heads.interfaces.cli import tables

        tables.explanations(found, differs)


def parts(asked: argparse.Namespace) -> None:
    """Lists poolings, choices of layers and heads."""
    from heads.parts import resolve

    if asked.json:
        print_json(resolve.parts())
    else:
        from heads.interfaces.cli import tables

        tables.parts(resolve.parts())


def fetch(asked: argparse.Namespace) -> None:
    """Downloads a base model."""
    from heads.backbone.hub import fetch
    from heads.backbone.loading import load

    folder = fetch(asked.model, limits(), say=lambda line: print(line, file=sys.stderr))
    backbone = load(asked.model, limits=limits(), download=False)
    if asked.json:
        print_json({"model": backbone.id, "revision": backbone.revision, "folder": str(folder)})
    else:
        print(f"{backbone.id} ({backbone.parameters:,} parameters) is on this machine and loads.")


def app(asked: argparse.Namespace) -> None:
    """Serves the page until it is stopped."""
    print("Starting. At the very first start the example heads are trained, behind the page.")
    from heads.interfaces.web.app import LAUNCH, build

    page = build()
    settings = {"server_name": asked.host, "server_port": asked.port, "quiet": True}
    try:
        _, url, _ = page.launch(prevent_thread_lock=True, **settings, **LAUNCH)
    except (OSError, OverflowError):
        place = f"port {asked.port} of {asked.host}" if asked.port else f"any port of {asked.host}"
        what = f"The page cannot be served on {place}: it is taken, or not to be had."
        raise DataError(what, "Choose another with --port.") from None
    print(f"Head to Head is at {url} (Ctrl+C stops it).", flush=True)
    page.block_thread()


def last_of(events: Iterable[Any]) -> Any:
    """The last of a stream of events; on a terminal, the progress before it is shown."""
    from rich.console import Console

    from heads.events import Progress

    event = None
    with Console(stderr=True).status("Starting") as status:
        for event in events:
            if isinstance(event, Progress):
                status.update(f"{event.says} ({event.share:.0%})")
    return event


def print_json(values: object) -> None:
    """Prints plain values as JSON."""
    print(json.dumps(values, ensure_ascii=False, indent=2))


def families(asked: argparse.Namespace) -> None:
    """Lists the catalogue; with --check, also holds each row to the class itself."""
    from heads.catalog.catalog import catalogue, entry

    entries = [entry(name) for name in asked.family] or list(catalogue())
    found = _walked([item.model_type for item in entries]) if asked.check else {}
    if asked.json:
        print_json([item.as_json() | found.get(item.model_type, {}) for item in entries])
    else:
        from heads.interfaces.cli import tables

        tables.families(entries, found)
    if wrong := [name for name, facts in found.items() if facts["equal"] is False]:
        what = f"{', '.join(wrong)}: the recipe is not what the class computes."
        raise DataError(what, "Tell us which version of Transformers this is.")


def _walked(model_types: list[str]) -> dict[str, dict[str, Any]]:
    from heads.analysis.catalog_check import compare_family
    from heads.events import Progress

    found: dict[str, dict[str, Any]] = {}

    def steps() -> Iterable[Progress]:
        for number, model_type in enumerate(model_types):
            yield Progress(says=f"Building {model_type}", share=number / len(model_types))
            step = compare_family(model_type)
            found[model_type] = {"equal": step.equal, "max_difference": step.max_difference}

    last_of(steps())
    return found


def diff(asked: argparse.Namespace) -> None:
    """Says in plain words what sets two heads apart."""
    says = api.difference(asked.one, asked.other, model=asked.model)
    if asked.json:
        print_json({"one": asked.one, "other": asked.other, "difference": says})
    else:
        from heads.interfaces.cli import tables

        tables.sentences(says)


def doctor(asked: argparse.Namespace) -> None:
    """Tells which changes of the padding change a classifier's logits."""
    found = api.examine(asked.model)
    if asked.json:
        print_json(found.as_json())
    else:
        from heads.interfaces.cli import tables

        tables.diagnosis(found)


def twin(asked: argparse.Namespace) -> None:
    """Makes the bundled model as another family, or lists the families that it can be."""
    from heads.backbone.conversion import TWINS, converted_folder, converted_id

    if not asked.family:
        listed = {converted_id(name): item.says for name, item in TWINS.items()}
        if asked.json:
            print_json([{"model": name, "says": says} for name, says in listed.items()])
        else:
            from heads.interfaces.cli import tables

            tables.listing(("model", "what it is"), list(listed.items()))
        return
    folder = converted_folder(asked.family)
    name = converted_id(asked.family)
    if asked.json:
        print_json({"model": name, "folder": str(folder)})
    else:
        print(f"{name} is ready: {folder}")
        print(f'Use it as any base model: heads compare "Not bad at all." --model {name}')


def export(asked: argparse.Namespace) -> None:
    """Trains a head, or takes a checkpoint's own, and writes it."""
    from heads.exporters.export import check_place

    check_place(asked.to, onnx=asked.onnx)  # before the work, not after it
    if asked.run_name and asked.data:
        what = "A run has its own data, and its heads are trained."
        raise DataError(what, "Leave out --data, or --run.")
    if asked.run_name:
        from heads.runs.folder import find
        from heads.runs.trained_heads import classifier as of_run

        classifier = of_run(find(asked.run_name), asked.recipe, limits())
    else:
        classifier = last_of(
            api.training(asked.recipe, asked.data or "sentiment", model=asked.model)
        )
    if asked.calibrated:
        classifier = api.calibrated(classifier)
    found = (api.export_onnx if asked.onnx else api.export)(classifier, asked.to)
    if asked.json:
        print_json(found.as_json())
    else:
        from heads.interfaces.cli import tables

        tables.exported(found, classifier)


# --- The flags of `heads train` that are made from what settings say of themselves.


def add_recipes(parser: argparse.ArgumentParser) -> None:
    """A flag for the heads."""
    says = f"{flag(api.compare, 'recipes')}; repeatable"
    parser.add_argument("-r", "--recipe", action="append", metavar="RECIPE", help=says)


def add_way(parser: argparse.ArgumentParser) -> None:
    """A flag for the one way in of two sentences."""
    says = f"{flag(api.compare, 'pairs')} (joint)"
    parser.add_argument("--pairs", default="joint", metavar="WAY", help=says)


def add_ways(parser: argparse.ArgumentParser) -> None:
    """Flags for the ways in and the losses, each of which gives cells of its own."""
    for name, dest in (("pairs", "--pairs"), ("losses", "--loss")):
        says = f"{flag(api.train_grid, name)}; several parted by commas"
        metavar = "WAYS" if name == "pairs" else "LOSSES"
        parser.add_argument(dest, default="", metavar=metavar, help=says)


def config_of(asked: argparse.Namespace) -> ExperimentConfig:
    """The settings as flags said them; checked against their ranges."""
    values = {one.name: getattr(asked, one.name) for one in fields(ExperimentConfig)}
    return ExperimentConfig(**{name: value for name, value in values.items() if value is not None})


def add_config(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting of an experiment, with its sentence and its range."""
    for one in fields(ExperimentConfig):
        name, says = f"--{one.name.replace('_', '-')}", flag(ExperimentConfig, one.name)
        if isinstance(one.default, bool):
            how: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
        else:
            says = f"{says} ({one.default})"
            kind = type(one.default)  # the range is checked by the experiment itself
            how = {"type": kind, "metavar": "N" if kind is int else "X"}
            if among := one.metadata.get("among"):
                how = {"choices": among}
        parser.add_argument(name, help=says, **how)


# --- What all commands share: how they say what does not fit, and how they are interrupted.


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in a sentence, without the list of all flags before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"heads: {message}. See: {self.prog} --help\n")


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Within it, every Ctrl+C is noted: a library that catches one makes an error of it."""
    noted: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread().name != "MainThread":
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)


def unforeseen(error: Exception) -> tuple[str, int]:
    """What to say of an error that nobody foresaw, and the exit code; a full disk is no bug."""
    from heads.caching import refusal  # only here: a command begins sooner without it

    if told := refusal(error):
        let_go_of_output()
        return f"heads: {told}", 2
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"heads: a bug of ours, {type(error).__name__} in {where}.", 1


def let_go_of_output() -> None:
    """Leaves nothing for Python to flush where nobody reads, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
