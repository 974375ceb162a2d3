"""The endpoints of the page, for programs and as MCP tools: what the page can do, by name.

Those that take a file share the gates and the limits of the page: an upload is moved out of
Gradio's open folder at once, training runs in a process of its own, one for a visitor, and ends
with the call.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr

from heads import api
from heads.backbone.models import BUNDLED
from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.samples import RECIPES, TEXT
from heads.data.sources import read_named
from heads.data.table import ColumnHints, Table, listed, short
from heads.errors import DataError, LimitError
from heads.events import Progress
from heads.hub import PREFIX
from heads.interfaces.docstrings import described
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import throttled, typed, unchecked
from heads.interfaces.web.slots import pool
from heads.interfaces.web.temporary_files import exporting
from heads.interfaces.web.training_process import (
    TrainingPlace,
    TrainingSlots,
    waiting,
    worked,
)
from heads.interfaces.web.visitors import address_of
from heads.parts.resolved_recipe import FROZEN, JOINT, SOFTMAX
from heads.runs.folder import RunFolder
from heads.settings import ExperimentConfig, limits

if TYPE_CHECKING:
    from heads.runs.spec import RunRequest

# Of the columns: text, label, pair and split by name; then what the labels are.
NAMES = ("text", "label", "pair", "split")
LABELS = ("labels_are", "label_columns", "order")
PUBLIC_REPETITIONS = 10
Found = TypeVar("Found")
Names = Sequence[Any]  # all of them, and last the column of groups


def build(places: TrainingSlots) -> None:
    """Adds the endpoints `read` and `train_grid` to the page; nothing of them is to be seen."""
    with gr.Column(visible=False):
        file, test = gr.File(label="file"), gr.File(label="test")
        names = [gr.Textbox("", label=name) for name in NAMES]
        labels = [gr.Textbox("", label=name) for name in LABELS]
        recipes, grid = gr.Textbox("", label="recipes"), gr.Textbox("small", label="grid")
        model = gr.Textbox(BUNDLED, label="model")
        seeds, per_class = gr.Number(0, label="seeds"), gr.Number(0, label="per_class")
        pairs, losses = gr.Textbox(JOINT, label="pairs"), gr.Textbox(SOFTMAX, label="losses")
        how = [gr.Checkbox(False, label="race"), gr.Textbox("auto", label="precision")]
        how += [gr.Textbox("auto", label="metric")]
        group, unseen = gr.Textbox("", label="group"), gr.Textbox("aside", label="unseen")
        parted = [gr.Number(5, label="folds"), gr.Number(1, label="repetitions")]
        tune = gr.Textbox(FROZEN, label="tune")
        tuned = [gr.Number(0, label=name) for name in ("epochs", "trials", "tuning_rate")]
        dataset = gr.Textbox("", label="dataset")
        for one in (*names, *labels, recipes, grid, model, seeds, per_class, pairs, losses):
            unchecked(one)
        for one in (*how, group, unseen, *parted, tune, *tuned, dataset):
            unchecked(one)
        answer = gr.JSON(label="answer")
        asks, trains = gr.Button(), gr.Button()
        _build_files(file)

    inputs = [file, test, *names, recipes, grid, model, seeds, per_class, *labels, pairs, losses]
    inputs += [*how, group, unseen, *parted, tune, *tuned, dataset]
    asks.click(
        read, [file, *names, *labels, group, dataset], answer, api_name="read", **pool("reads")
    )
    trains.click(typed(_trainer(places)), inputs, answer, api_name="train_grid", **pool("training"))


def _build_files(file: gr.File) -> None:
    """Adds `predict` and `evaluate`: what one head says of a file, and how well it does."""
    names = [gr.Textbox("", label=name) for name in ("run", "recipe")]
    names += [gr.Textbox(BUNDLED, label="model"), gr.Textbox("", label="sample")]
    names += [gr.Textbox("", label=name) for name in ("text", "pair")]
    switches = [gr.Checkbox(False, label=name) for name in ("logits", "probabilities")]
    least, form = gr.Number(0, label="abstain_below"), gr.Textbox("", label="to")
    said = [gr.Textbox("", label=name) for name in ("label", "label_columns", "separator")]
    said += [gr.Textbox("", label="group"), gr.Textbox("auto", label="metric")]
    safe = gr.Checkbox(False, label="excel_safe")
    for one in (*names, *switches, least, form, safe, *said):
        unchecked(one)
    account, rows, scores = gr.JSON(label="account"), gr.File(label="rows"), gr.JSON(label="scores")
    answers, scored = gr.Button(), gr.Button()
    inputs = [file, *names, *switches, least, form, safe]
    slots = pool("files")
    answers.click(predict, inputs, [account, rows], api_name="predict", **slots)
    scored.click(evaluate, [file, *names, *said], scores, api_name="evaluate", **slots)


@typed
@described(api.predict)
def predict(
    file: str | None,
    run: str = "",
    recipe: str = "",
    model: str = BUNDLED,
    sample: str = "",
    text: str = "",
    pair: str = "",
    logits: bool = False,
    probabilities: bool = False,
    abstain_below: float = 0.0,
    to: str = "",
    excel_safe: bool = False,
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Answers every row of a file with one head; as many rows come back, in the same order.

    Args:
        file: A table with texts: a CSV, TSV, JSON, JSONL, Parquet or Excel file.
        to: The format that comes back: csv, tsv, json, jsonl, parquet or xlsx; that of the file, if
            not given.

    Returns:
        Progress as it goes; then an account of the rows, and the file with the answers.
    """
    from heads.analysis.answering import predicting
    from heads.data.formats.writers import ENDINGS

    with uploads.lent(file) as (name,), exporting(keeps=ENDINGS) as place:
        path = _sent(name)
        asked: dict[str, Any] = {"run": run, "recipe": recipe, "model": _at_hand(model, run)}
        asked |= {"sample": sample, "text": text, "pair": pair, "logits": logits}
        asked |= {"probabilities": probabilities, "abstain_below": abstain_below}
        asked["excel_safe"] = excel_safe
        target = place / f"{path.stem}-answers{answered_ending(path, to)}"
        found = yield from _streamed(predicting(path, to=target, **asked), None)
        yield found.as_json() | {"to": target.name}, str(target)


@typed
@described(api.evaluate, api.predict)
def evaluate(
    file: str | None,
    run: str = "",
    recipe: str = "",
    model: str = BUNDLED,
    sample: str = "",
    text: str = "",
    pair: str = "",
    label: str = "",
    label_columns: str = "",
    separator: str = "",
    group: str = "",
    metric: str = "auto",
) -> Iterator[dict[str, Any]]:
    """Scores one head on a file with labels, with the intervals of a leaderboard.

    Args:
        file: Texts and labels: a CSV, TSV, JSON, JSONL, Parquet or Excel file.
        label_columns: Columns of 0 and 1, one for each label, separated by commas.

    Returns:
        Progress as it goes; then the score, every measure and every class.
    """
    from heads.analysis.scoring import LabelHints, evaluating

    columns = listed(label_columns)
    said = LabelHints(label=label, labels=columns, separator=separator or None, group=group)
    with uploads.lent(file) as (name,):
        asked: dict[str, Any] = {"run": run, "recipe": recipe, "model": _at_hand(model, run)}
        asked |= {"sample": sample, "text": text, "pair": pair, "labels": said}
        events = evaluating(_sent(name), metric=metric or "auto", **asked)
        found = yield from _streamed(events)
        yield found.as_json()


def _sent(kept: str) -> Path:
    """Return where an upload lies, or raise DataError if there is none."""
    if not kept:
        raise DataError("There is no file.", "Send a file of texts.")
    return uploads.path_of(kept)


def _at_hand(model: str, run: str) -> str:
    """A base model that is on this machine: in public mode it is fetched apart, within limits."""
    from heads.backbone.safety import admit

    if not run and limits().public:
        admit(model or BUNDLED, limits())
    return model or BUNDLED


def answered_ending(path: Path, asked: str = "") -> str:
    """The ending of the file that comes back: the one asked for, or that of the file.

    Raises:
        DataError: That format is not written here.
    """
    from heads.data.formats.writers import ENDINGS

    ending = f".{asked.strip().lower().removeprefix('.')}" if asked.strip() else path.suffix.lower()
    if ending in ENDINGS:
        return ending
    if asked.strip():
        known = ", ".join(one[1:] for one in ENDINGS)
        raise DataError(
            f"The format '{short(asked)}' is not written here.", f"Take one of {known}."
        )
    return ".csv"


def _streamed(
    events: "Generator[Progress, None, Found]", *more: Any
) -> "Generator[Any, None, Found]":
    """Progress as an endpoint tells it; what the work ends in."""
    told = throttled(events)
    while True:
        try:
            event = next(told)
        except StopIteration as end:
            return end.value
        step = {"event": "progress", "says": event.says, "share": event.share}
        yield (step, *more) if more else step


def _trainer(places: TrainingSlots) -> Callable[..., Iterator[dict[str, Any]]]:
    """The endpoint `train_grid`."""

    # Gradio tells callers these names and defaults, in the order of `inputs`.
    @described(api.train_grid, ExperimentConfig, ColumnHints)
    def train_grid(
        request: gr.Request,
        file: str | None = None,
        test: str | None = None,
        text: str = "",
        label: str = "",
        pair: str = "",
        split: str = "",
        recipes: str = "",
        grid: str = "small",
        model: str = BUNDLED,
        seeds: float = 0,
        per_class: float = 0,
        labels_are: str = "",
        label_columns: str = "",
        order: str = "",
        pairs: str = JOINT,
        losses: str = SOFTMAX,
        race: bool = False,
        precision: str = "auto",
        metric: str = "auto",
        group: str = "",
        unseen: str = "aside",
        folds: float = 5,
        repetitions: float = 1,
        tune: str = FROZEN,
        epochs: float = 0,
        trials: float = 0,
        tuning_rate: float = 0,
        dataset: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Trains every recipe of a grid on a file and compares them, with intervals.

        Args:
            file: The texts and labels; a CSV, TSV, JSON, JSONL, Parquet, Excel or .npz file.
                Vectors may stand in the place of texts: their column is the text then.
            recipes: The heads, such as mean+linear or cls+roberta, separated by spaces.
            pairs: How two texts enter: joint, siamese, features or a pairing by name, by commas.
            losses: What one class a row is learned by: softmax, ovr, ordinal, hinge, by commas.
            tune: What is learned of the base model: frozen, last2, lora, full, lpft, bitfit,
                layernorm, setfit, by commas; each gives cells of its own.
            labels_are: What the labels are: one, number, columns, or the sign between several.
            label_columns: Columns of 0 and 1, one for each label, separated by commas.
            order: The classes from low to high, separated by commas.
            dataset: In the place of a file a data set of the Hub, such as hub:owner/name; locally.

        Returns:
            Progress as it goes; then the verdict and every cell.
        """
        names = (text, label, pair, split, labels_are, label_columns, order, group)
        settings: dict[str, Any] = {  # Gradio's numbers are floats; the config checks them
            "seeds": seeds,
            "folds": folds,
            "repetitions": repetitions,
            "per_class": per_class,
            "race": race,
            "precision": precision or "auto",
            "metric": metric or "auto",
            "unseen": unseen or "aside",
            "epochs": epochs,
            "trials": trials,
            "tuning_rate": tuning_rate,
        }
        yield from _trained(
            places,
            address_of(request.client),
            file,
            test,
            names,
            dataset or "",
            recipes=[one.rstrip(",") for one in (recipes or "").split()],
            grid=grid or "small",
            pairs=listed(pairs or JOINT),
            losses=listed(losses or SOFTMAX),
            tunes=listed(tune or FROZEN),
            model=model or BUNDLED,
            config=ExperimentConfig(**settings),
        )

    return train_grid


@typed
@described(api.read, ColumnHints)
def read(
    file: str | None = None,
    text: str = "",
    label: str = "",
    pair: str = "",
    split: str = "",
    labels_are: str = "",
    label_columns: str = "",
    order: str = "",
    group: str = "",
    dataset: str = "",
) -> dict[str, Any]:
    """Reads a file of texts and labels: columns, rows used and dropped, classes, warnings.

    Args:
        file: The texts and labels; a CSV, TSV, JSON, JSONL, Parquet, Excel or .npz file.
            Vectors may stand in the place of texts: their column is the text then.
        labels_are: What the labels are: one, number, columns, or the sign between several.
        label_columns: Columns of 0 and 1, one for each label, separated by commas.
        order: The classes from low to high, separated by commas.
        dataset: In the place of a file a data set of the Hub, such as hub:owner/name; locally.
    """
    names = (text, label, pair, split, labels_are, label_columns, order, group)
    with uploads.lent(file) as (name,):
        return _read(name, names, dataset=dataset).as_json()


def _read(
    kept: str, names: Names, model: str = BUNDLED, *, is_test: bool = False, dataset: str = ""
) -> Data:
    """Reads an upload that is kept; the classes of a test are ordered by the other data."""
    from heads.backbone.loading import load
    from heads.features.truncation import with_token_findings
    from heads.interfaces.views.dataset import said

    *columns, form, labels, order, group = (str(name or "") for name in names)
    asked = said([*columns, group], form, listed(labels), () if is_test else listed(order))
    table, name = _opened(kept, dataset)
    found = data_of(table, limits(), guess(table, asked) if asked else None, name=name)
    return with_token_findings(found, load(model, limits=limits()))


def _opened(kept: str, dataset: str) -> tuple[Table, str]:
    """Open an upload or a data set of the Hub, exactly one of the two, and return its name too."""
    if kept and dataset:
        raise DataError("There is a file, and a data set as well.", "Send one of them.")
    if dataset:
        name = dataset if ":" in dataset else f"{PREFIX}{dataset}"
        if not (table := read_named(name, limits())):  # never a path of this machine
            raise DataError(f"'{dataset[:80]}' names no data set.", "Send a file.")
        return table, table.name
    if not kept:
        raise DataError("There is no file.", "Send a file of texts and labels.")
    return uploads.opened(kept, limits()), uploads.path_of(kept).stem


def _trained(
    places: TrainingSlots,
    address: str,
    file: Any,
    test: Any,
    names: Names,
    dataset: str,
    **asked: Any,
) -> Iterator[dict[str, Any]]:
    """Train on a file as soon as a slot is free, by the fields of `RunRequest`."""
    from heads.backbone.safety import admit
    from heads.runs.spec import RunRequest

    model = asked["model"]
    if limits().public:
        for name in ("seeds", "folds", "repetitions"):
            if (value := getattr(asked["config"], name)) > PUBLIC_REPETITIONS:
                what = f"{name} must be at most {PUBLIC_REPETITIONS} in public, not {value}."
                raise LimitError(what, "Ask for fewer, or use the app on your own machine.")
    # The files at once: where Gradio put them nothing stays for long, and others may train first.
    with uploads.lent(file, test) as (kept, kept_test):
        admit(model, limits())  # fetched before its turn: others train meanwhile

        def request() -> RunRequest:
            data = _read(kept, names, model, dataset=dataset)
            tested = _read(kept_test, names, model, is_test=True) if test else None
            return RunRequest(data=data, test=tested, **asked)

        with places.taken(address) as place:
            yield from waiting(places, place)
            yield from _run(request, place)


def _run(request: "Callable[[], RunRequest]", place: TrainingPlace) -> Iterator[dict[str, Any]]:
    """A run from its first look at the data to its leaderboard."""
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import begin

    run = begin(request(), limits=limits())
    try:
        yield from _told(run, place)
        yield leaderboard(run).as_json()
    finally:
        if limits().public:  # nobody else can name it, so nobody will ask for it
            with contextlib.suppress(DataError):
                run.delete()


def _told(run: RunFolder, place: TrainingPlace) -> Iterator[dict[str, Any]]:
    """What the worker of a run tells, at every beat: in between Gradio notices a cancelled call."""
    told: dict[str, Any] = {"event": "progress", "says": "Starting", "share": 0.0}
    with contextlib.closing(worked(run, place.stop, limits().run_seconds)) as beats:
        for events in beats:
            cells = [event for event in events if event["event"] == "cell"]
            told = next(reversed(events), told)
            yield from cells or [told]


# --- Typed endpoints: what the page can do, for programs. Also the MCP tools, where asked for.

COMMON: list[str] = list(RECIPES)  # shown as the default
NO_RECIPES: list[str] = []


@typed
@described(
    api.compare,
    returns="The classes, and for each recipe its logits, probabilities and held-out accuracy.",
)
def compare(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    model: str = BUNDLED,
    sample: str = "",
    pairs: str = "joint",
    raw: bool = False,
) -> dict[str, Any]:
    asked = {"recipes": recipes, "model": model, "sample": sample, "pairs": pairs, "raw": raw}
    return api.compare(text, pair, **asked).as_json()


@typed
@described(
    api.explain,
    returns="The steps from tokens to logits with their tensors, and each token's share.",
)
def explain(
    recipe: str,
    text: str = TEXT,
    pair: str = "",
    model: str = BUNDLED,
    sample: str = "",
) -> dict[str, Any]:
    return api.explain(recipe, text, pair, model=model, sample=sample).as_json()


@typed
@described(
    api.catalogue,
    returns="The family, its class, its form, its recipe, and the reason where there is none.",
)
def families() -> list[dict[str, Any]]:
    return [entry.as_json() for entry in api.catalogue()]


@typed
@described(
    api.difference,
    returns="The two names and the difference, a few sentences.",
)
def difference(one: str, other: str, model: str = BUNDLED) -> dict[str, str]:
    return {"one": one, "other": other, "difference": api.difference(one, other, model=model)}


@typed
@described(
    api.examine,
    returns="Each change with the largest difference of two logits, the reason and what to do.",
)
def doctor(model: str) -> dict[str, Any]:
    return api.examine(model).as_json()


@typed
@described(api.Inspector.attribute, api.compare, api.Inspector)
def look(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    model: str = BUNDLED,
    sample: str = "",
    run: str = "",
    label: str = "",
    against: str = "others",
) -> dict[str, Any]:
    """Shows which tokens move each head's answer, and its nearest training examples.

    Returns:
        For each head every token's score, which add up, with the error; and similar examples.
    """
    inside = _inside(recipes, sample, run, model)
    attributed = inside.attribute(text, pair, label=label, against=against)
    return {
        "attributions": [one.as_json() for one in attributed],
        "nearest": [one.as_json() for one in inside.nearest(text, pair)],
    }


@typed
@described(
    api.Inspector.flips,
    api.compare,
    api.Inspector,
    returns="What each head says of each sentence, and a summary in a sentence.",
)
def edit(
    text: str,
    edits: list[str],
    pair: str = "",
    recipes: list[str] = COMMON,
    sample: str = "",
    run: str = "",
) -> dict[str, Any]:
    return _inside(recipes, sample, run).flips(text, edits, pair).as_json()


@typed
@described(
    api.Inspector.ablate,
    api.compare,
    api.Inspector,
    returns="For each head and layer the logits and answers before and after, those of the head "
    "that was trained without the layer, and its score beside that of the whole one.",
)
def ablate(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    without: str = "",
    sample: str = "",
    run: str = "",
    retrain: bool = True,
) -> list[dict[str, Any]]:
    found = _inside(recipes, sample, run).ablate(text, pair, without=without, retrain=retrain)
    return [one.as_json() for one in found]


@typed
@described(
    api.Inspector.readings,
    api.compare,
    api.Inspector,
    returns="For each head its logits and the probabilities of each reading.",
)
def readings(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    temperature: float = 1.0,
    sample: str = "",
    run: str = "",
) -> list[dict[str, Any]]:
    found = _inside(recipes, sample, run).readings(text, pair, temperature=temperature)
    return [one.as_json() for one in found]


def _inside(recipes: Sequence[str], sample: str, run: str, model: str = BUNDLED) -> api.Inspector:
    """Which heads are asked; of a run its first ones, where the recipes are not of its own."""
    if run and list(recipes) == COMMON:
        recipes = ()
    return api.Inspector(recipes=recipes, model=model, sample=sample, run=run)


@typed
def parts() -> dict[str, Any]:
    """Lists every pooling, choice of layers and head, with a sentence and the source of each.

    Returns:
        The parts by registry: poolings, layers, heads.
    """
    from heads.parts import resolve

    return resolve.parts()
