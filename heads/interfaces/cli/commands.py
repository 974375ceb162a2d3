"""The commands about heads, families and models, and the page."""

import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from heads import api, plugins
from heads.backbone.models import BUNDLED
from heads.data.samples import TEXT
from heads.errors import DataError, LimitError, RecipeError
from heads.interfaces import cli
from heads.interfaces.cli.shell import LOCAL, Answers, command, last_of, sentence
from heads.options import CompareOptions, ExportOptions
from heads.settings import current_limits

MOST_PORT = 65_535
LOCAL_MODE = "Local mode: for this machine alone (--public is for strangers)."
SAMPLED = "It was trained on the sample sentiment: --run RUN or --data FILE takes your own data."


@command(api.compare)
def compare(text: str, *, pair: str = "", options: CompareOptions) -> Answers:
    """Compares a text under several recipes.

    Args:
        text: The sentence, or - to read it from standard input.
    """
    comparison = run_comparison(text, pair, options)
    yield comparison.as_json(), lambda: cli.tables.show(comparison)


def run_comparison(text: str, pair: str, options: CompareOptions) -> Any:
    """Return the comparison that a command asks for; its progress is shown."""
    from heads.interpret.comparison import iter_comparison

    return last_of(iter_comparison(sentence(text), pair, options)).comparison


@command(api.explain)
def explain(
    recipe: Sequence[str],
    *,
    text: str = TEXT,
    pair: str = "",
    model: str = BUNDLED,
    sample: str = "",
) -> Answers:
    """Shows a recipe from tokens to logits.

    Args:
        recipe: Such as cls+roberta; two show what differs.
    """
    from heads.interpret.explanation import iter_explanation

    if len(recipe) > 2:
        raise LimitError("At most two recipes can be explained at once.", "Leave some out.")
    found = [
        last_of(iter_explanation(one, text, pair, model=model, sample=sample)) for one in recipe
    ]
    differs = api.difference(*recipe, model=model) if len(found) == 2 else ""
    told = [one.as_json() for one in found]
    values = {"recipes": told, "difference": differs} if differs else told[0]
    yield values, lambda: cli.tables.show(*found, differs)


@command(api.difference)
def diff(one: str, other: str, *, model: str = BUNDLED) -> Answers:
    """Says in plain words what sets two heads apart."""
    says = api.difference(one, other, model=model)
    yield {"one": one, "other": other, "difference": says}, lambda: cli.tables.show(says)


@command()
def parts() -> Answers:
    """Lists all poolings, layers and heads."""
    from heads.interfaces.views.descriptions import tabulate_parts
    from heads.parts import resolve

    yield resolve.parts(), lambda: cli.tables.show(*tabulate_parts(resolve.parts()))


@command()
def families(family: Sequence[str] = (), *, check: bool = False) -> Answers:
    """Lists every classifier of Transformers.

    Args:
        family: Such as bert; all, if none is given.
        check: Build each small and compare logits.
    """
    from heads.catalog.catalog import catalogue, entry
    from heads.interfaces.views.descriptions import describe_families

    entries = [entry(name) for name in family] or list(catalogue())
    found = _check_families([one.model_type for one in entries]) if check else {}
    values = [one.as_json() | found.get(one.model_type, {}) for one in entries]
    yield values, lambda: cli.tables.show(describe_families(entries, found))
    if wrong := [name for name, facts in found.items() if facts["equal"] is False]:
        what = f"{', '.join(wrong)}: the recipe is not what the class computes."
        raise DataError(what, "Tell us which version of Transformers this is.")


def _check_families(model_types: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return whether the recipe of each family gives the logits of its class."""
    from rich.console import Console

    from heads.interpret.catalog_check import compare_family

    checks: dict[str, dict[str, Any]] = {}
    with Console(stderr=True).status("Starting") as status:
        for number, model_type in enumerate(model_types):
            status.update(f"Building {model_type} ({number / len(model_types):.0%})")
            check = compare_family(model_type)
            checks[model_type] = {"equal": check.equal, "max_difference": check.max_difference}
    return checks


@command(api.examine)
def padding(model: str) -> Answers:
    """Shows what padding does to a classifier's logits, and why."""
    found = api.examine(model)
    yield found.as_json(), lambda: cli.tables.show(found)


@command()
def fetch(model: str) -> Answers:
    """Downloads a base model beforehand.

    Args:
        model: A Hub id, such as google-bert/bert-base-uncased.
    """
    from heads.backbone.downloads import fetch_own
    from heads.backbone.loading import load

    if source := plugins.find_base_models(model):
        _, folder = source.find(model)
    else:
        folder = fetch_own(model, say=lambda line: print(line, file=sys.stderr))
    backbone = load(model, download=False)
    says = f"{backbone.id} ({backbone.parameters:,} parameters) is on this machine and loads."
    values = {"model": backbone.id, "revision": backbone.revision, "folder": str(folder)}
    yield values, lambda: print(says)


@command()
def export(recipe: str, to: Path, *, options: ExportOptions) -> Answers:
    """Writes a head as a Transformers checkpoint.

    Args:
        recipe: Such as cls+bert, or own: the head that a model came with.
        to: A new folder; with --onnx a file.
    """
    from heads.classifier.pretrained import is_own
    from heads.interfaces.cli.files import follow_work
    from heads.interfaces.views.descriptions import summarize_head

    _check_export(recipe, to, options)  # before the work, not after it
    if options.run:
        from heads.runs.folder import find
        from heads.runs.refit import run_classifier

        classifier = run_classifier(find(options.run), recipe)
    else:
        data = options.data or "sentiment"
        classifier = last_of(api.training(recipe, data, model=options.model))
    if options.refit:
        classifier = follow_work(classifier.refitted())
    if options.raw:
        classifier = replace(classifier, head=classifier.head.raw or classifier.head)
    if options.onnx:
        rows = options.data if options.int8 and is_own(recipe) else None
        report = api.export_onnx(classifier, to, refit=False, int8=options.int8, rows=rows)
    else:
        form = {"library": options.library, "adapter": options.adapter}
        report = api.export(classifier, to, refit=False, **form)
    lines = [f"{summarize_head(classifier)}."]
    if not (options.run or options.data or is_own(recipe)):
        lines.append(SAMPLED)
    yield report.as_json(), lambda: cli.tables.show(*lines, report)


def _check_export(recipe: str, to: Path, options: ExportOptions) -> None:
    """Refuse, before any training, what cannot be written or does not fit together."""
    from heads.classifier.pretrained import is_own
    from heads.exporters.export import check_library, check_place

    check_place(to, onnx=options.onnx)
    check_library(options.library, adapter=options.adapter, onnx=options.onnx)
    if options.int8 and not options.onnx:
        raise DataError("8 bits are written as ONNX only.", "Add --onnx, or leave out --int8.")
    if options.int8 and is_own(recipe) and not options.data:
        what = "A head that a model came with does not know the rows of its training."
        raise DataError(what, "Name a file of labelled rows: --data FILE.")
    if options.onnx and options.adapter:
        what = "An adapter is put onto a base model, and an ONNX file has its own in it."
        raise DataError(what, "Leave out --onnx, or --adapter.")
    if (options.adapter or options.library) and not (options.run or is_own(recipe)):
        _check_form(recipe, options)
    if options.run and options.data:
        what = "A run has its own data, and its heads are trained."
        raise DataError(what, "Leave out --data, or --run.")


def _check_form(recipe: str, options: ExportOptions) -> None:
    """Refuse a recipe that the library cannot hold, or that is no adapter."""
    from heads.backbone.loading import load
    from heads.exporters import adapter, sentence_transformers
    from heads.parts.resolve import resolve

    library = options.library
    check = adapter.check_recipe if not library else sentence_transformers.check_recipe
    if library not in ("", sentence_transformers.LIBRARY):
        return
    try:
        check(resolve(recipe), load(options.model))
    except RecipeError:  # of pairs of texts the library holds more: as a CrossEncoder
        if not library or not api.read(options.data or "sentiment").corpus.pairs:
            raise


@command()
def app(*, port: int | None = None, host: str = LOCAL[0], public: bool = False) -> None:
    """Opens the page in a browser.

    Args:
        port: 7860 or the next free one, if not given.
        host: 0.0.0.0 lets other machines in, and is public mode.
        public: For strangers: files up to 10 MB, trainings of 2 minutes, no local folders.
    """
    _check_place(host, port)
    tells = partial(print, file=sys.stdout, flush=True)  # for whoever started it, not for the log
    lines = plugins.enter_server()  # and not left: threads that end after the server may yet write
    try:
        tells("Starting. At the very first start the example heads are trained, behind the page.")
        from heads.interfaces.web.app import build

        page = build()
        url = page.launch(host, port)
        for line in lines if current_limits().public else [LOCAL_MODE, *lines]:
            tells(line)
        tells(f"Head to Head is at {url} (Ctrl+C stops it).")
        page.wait()
    except Exception:
        plugins.leave_server()  # what is wrong is said by the command itself
        raise


def _check_place(host: str, port: int | None) -> None:
    """Refuses an address that this machine cannot have, before anything is loaded for it."""
    if port is not None and not 1 <= port <= MOST_PORT:
        raise DataError(f"A port is a number from 1 to {MOST_PORT}, not {port}.", "Change --port.")
    try:
        socket.getaddrinfo(host, port)
    except (OSError, UnicodeError):
        hint = "Leave --host out, or give 0.0.0.0 to let other machines in."
        raise DataError(f"This machine has no address '{host:.60}'.", hint) from None
