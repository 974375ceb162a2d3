"""The endpoints of the page, for programs and as MCP tools: what the page can do, by name.

Those that take a file share the gates and the limits of the page: an upload is moved out of
Gradio's open folder at once, training runs in a process of its own, one for a visitor, and ends
with the call.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import gradio as gr

from heads import api, plugins
from heads.backbone.models import BUNDLED
from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.samples import RECIPES, TEXT
from heads.data.sources import read_named
from heads.data.table import ColumnHints, Table, short
from heads.errors import DataError, LimitError
from heads.events import Progress
from heads.interfaces.views.dataset import build_hints
from heads.interfaces.web import uploads
from heads.interfaces.web.arguments import Texts, endpoint
from heads.interfaces.web.guards import show_progress, unchecked
from heads.interfaces.web.slots import pool, pools
from heads.interfaces.web.temporary_files import exporting
from heads.interfaces.web.training_process import TrainingPlace, TrainingSlots, waiting, worked
from heads.interfaces.web.visitors import address_of
from heads.options import CompareOptions, EvaluateOptions, FileOptions, PredictOptions, TrainOptions
from heads.settings import ExperimentConfig, current_limits

PUBLIC_REPETITIONS = 10
INPUTS: dict[Any, Any] = {str: gr.Textbox, Texts: gr.Textbox, float: gr.Number, bool: gr.Checkbox}


def build(slots: TrainingSlots) -> None:
    """Add all endpoints to the page; nothing of them is to be seen."""
    quick = (compare, explain, difference, families, parts, readings)
    slow = (padding, inspect, edit, ablate)
    core = dict.fromkeys(quick, "infer") | dict.fromkeys(slow, "inspect")
    for function, slots_name in core.items():
        _add_endpoint(function, slots_name)
    names = {function.__name__ for function in (*core, predict, evaluate, read)}
    _add_endpoints_of_extras({*names, "train_grid"})
    with gr.Column(visible=False):
        answers = gr.JSON(label="account"), gr.File(label="rows")
        _add_file_endpoint(predict, "files", *answers)
        _add_file_endpoint(evaluate, "files", gr.JSON(label="scores"))
        _add_file_endpoint(read, "reads", gr.JSON(label="answer"))
        _add_file_endpoint(train_grid_on(slots), "training", gr.JSON(label="answer"))


def _add_endpoint(function: Callable[..., Any], slots_name: str) -> None:
    # Documented as `gr.api`, and missing in what Gradio exports by its types.
    gr.api(function, api_name=function.__name__, **pool(slots_name))  # pyright: ignore[reportPrivateImportUsage]


def _add_endpoints_of_extras(names: set[str]) -> None:
    """Add the endpoints of extras but for those whose name is taken or that Gradio refuses."""
    for function, slots_name in plugins.load_sections("endpoints"):
        name, problem = function.__name__, ""
        if name in names:
            problem = "there is one of that name"
        elif slots_name not in pools():
            problem = f"there are no slots called '{slots_name}'"
        else:
            try:
                _add_endpoint(function, slots_name)
            except Exception as error:  # of annotations that are missing, for example
                problem = plugins.describe_error(error)
        names.add(name)
        if problem:
            plugins.log_once(f"The endpoint '{name}' of an extra is left out: {problem}.")


def _add_file_endpoint(function: Callable[..., Any], slots_name: str, *outputs: Any) -> None:
    """Add an endpoint that takes a file, which `gr.api` cannot, with a component per argument."""
    inputs = []
    for name, parameter in signature(function).parameters.items():
        if component := INPUTS.get(parameter.annotation):
            inputs.append(unchecked(component(parameter.default, label=name)))
        elif parameter.annotation is not gr.Request:
            inputs.append(gr.File(label=name))
    event = {"api_name": function.__name__, **pool(slots_name)}
    gr.Button().click(function, inputs, [*outputs], **event)


@endpoint(api.predict)
def predict(
    file: str | None, *, options: PredictOptions, to: str = ""
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Answers every row of a file with one head; as many rows come back, in the same order.

    Args:
        file: A table with texts: a CSV, TSV, JSON, JSONL, Parquet or Excel file.
        to: The format that comes back: csv, tsv, json, jsonl, parquet or xlsx; that of the file, if
            not given.

    Returns:
        Progress as it goes; then an account of the rows, and the file with the answers.
    """
    from heads.data.formats.writers import ENDINGS
    from heads.inference.predict import iter_prediction

    with _lent_table(file) as path, exporting(keeps=ENDINGS) as folder:
        _admit(options)
        target = folder / f"{path.stem}-answers{answered_ending(path, to)}"
        events = iter_prediction(path, options, to=target)
        report = yield from show_progress(events, lambda event: (_as_json(event), None))
        yield report.as_json() | {"to": target.name}, str(target)


@endpoint(api.evaluate)
def evaluate(file: str | None, *, options: EvaluateOptions) -> Iterator[dict[str, Any]]:
    """Scores one head on a file with labels, with the intervals of a leaderboard.

    Args:
        file: Texts and labels: a CSV, TSV, JSON, JSONL, Parquet or Excel file.

    Returns:
        Progress as it goes; then the score, every measure and every class.
    """
    from heads.inference.evaluate import iter_evaluation

    with _lent_table(file) as path:
        _admit(options)
        scores = yield from show_progress(iter_evaluation(path, options), _as_json)
        yield scores.as_json()


@contextlib.contextmanager
def _lent_table(file: str | None) -> Iterator[Path]:
    """Hold an upload where nobody else finds it; raise DataError if there is none."""
    with uploads.lent(file) as (name,):
        if not name:
            raise DataError("There is no file.", "Send a file of texts.")
        yield uploads.path_of(name)


def _as_json(progress: Progress) -> dict[str, Any]:
    return {"event": "progress", "says": progress.says, "share": progress.share}


def _admit(options: FileOptions) -> None:
    """Fetch the base model of a head in public mode, within limits."""
    from heads.backbone.safety import admit

    if not options.run and current_limits().public:
        admit(options.model)


def answered_ending(path: Path, form: str = "") -> str:
    """Return the ending of the file that comes back, in a given format or that of the file.

    Raises:
        DataError: That format is not written here.
    """
    from heads.data.formats.writers import ENDINGS

    form = form.strip()
    ending = f".{form.lower().removeprefix('.')}" if form else path.suffix.lower()
    if ending in ENDINGS:
        return ending
    if form:
        known = ", ".join(known[1:] for known in ENDINGS)
        raise DataError(f"The format '{short(form)}' is not written here.", f"Take one of {known}.")
    return ".csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnArguments:
    """Name the columns of a file, as a program does.

    Attributes:
        text: The column of the texts, or of the vectors; guessed, if not named.
        label: The column of the labels; guessed, if not named.
        pair: The column of the second texts; guessed, if not named.
        split: The column that says train, validation or test; guessed, if not named.
        group: The column that says which rows belong together, such as their author: no split
            parts them.
        labels_are: What the labels are: one, number, columns, or the sign between several.
        label_columns: Columns of 0 and 1, one for each label, separated by commas.
        order: The classes from low to high, separated by commas.
    """

    text: str = ""
    label: str = ""
    pair: str = ""
    split: str = ""
    group: str = ""
    labels_are: str = ""
    label_columns: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def hints(self) -> ColumnHints:
        """Return what they say of the columns; raise DataError if that does not fit together."""
        columns = (self.text, self.label, self.pair, self.split, self.group)
        return build_hints(columns, self.labels_are, self.label_columns, self.order)


@endpoint(api.read)
def read(file: str | None = None, *, columns: ColumnArguments, dataset: str = "") -> dict[str, Any]:
    """Reads a file of texts and labels: columns, rows used and dropped, classes, warnings.

    Args:
        file: The texts and labels; a CSV, TSV, JSON, JSONL, Parquet, Excel or .npz file.
            Vectors may stand in the place of texts: their column is the text then.
        dataset: The name of a data set to fetch instead of a file, such as hub:owner/name; locally.
    """
    with uploads.lent(file) as (name,):
        return _read(name, columns.hints(), dataset=dataset).as_json()


def train_grid_on(slots: TrainingSlots) -> Callable[..., Iterator[dict[str, Any]]]:
    """Return the endpoint `train_grid`, whose trainings take turns in these slots."""

    @endpoint(api.train_grid, ExperimentConfig, read)
    def train_grid(
        request: gr.Request,
        file: str | None = None,
        test: str | None = None,
        *,
        columns: ColumnArguments,
        options: TrainOptions,
        config: ExperimentConfig,
        dataset: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Trains every recipe of a grid on a file and compares them, with intervals.

        Returns:
            Progress as it goes; then the verdict and every cell.
        """
        from heads.backbone.safety import admit
        from heads.runs.spec import RunRequest

        for name in ("seeds", "folds", "repetitions") if current_limits().public else ():
            if (value := getattr(config, name)) > PUBLIC_REPETITIONS:
                what = f"{name} must be at most {PUBLIC_REPETITIONS} in public, not {value}."
                raise LimitError(what, "Ask for fewer, or use the app on your own machine.")
        # At once: where Gradio put files nothing stays for long, and others may train first.
        with uploads.lent(file, test) as (name, test_name):
            admit(options.model)  # fetched before its turn: others train meanwhile

            def request_run() -> RunRequest:
                hints = columns.hints()
                data = _read(name, hints, options.model, dataset)
                # The classes of a test are ordered by the other data.
                scored = _read(test_name, replace(hints, order=()), options.model) if test else None
                return RunRequest.of(data, scored, options, config)

            with slots.taken(address_of(request.client)) as place:
                yield from waiting(slots, place)
                yield from _run(request_run(), place)

    return train_grid


def _read(kept: str, hints: ColumnHints, model: str = BUNDLED, dataset: str = "") -> Data:
    """Read an upload by its id, or a data set by its name."""
    from heads.backbone.loading import load
    from heads.features.truncation import with_token_findings

    table, name = _open_table(kept, dataset)
    data = data_of(table, guess(table, hints) if hints else None, name=name)
    return with_token_findings(data, load(model))


def _open_table(kept: str, dataset: str) -> tuple[Table, str]:
    """Open an upload or a named data set, exactly one of the two, and return its name too."""
    if kept and dataset:
        raise DataError("There is a file, and a data set as well.", "Send one of them.")
    if dataset:
        if not (table := read_named(dataset)):  # never a path of this machine
            names = " or ".join(f"{scheme}:owner/name" for scheme in plugins.list_data_sources())
            hint = f"Write {names}, or send a file." if names else "Send a file."
            raise DataError(f"'{dataset[:80]}' names no data set.", hint)
        return table, table.name
    if not kept:
        raise DataError("There is no file.", "Send a file of texts and labels.")
    return uploads.opened(kept), uploads.path_of(kept).stem


def _run(request: Any, place: TrainingPlace) -> Iterator[dict[str, Any]]:
    """Train a run from its beginning to its leaderboard."""
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import begin

    run, limits = begin(request), current_limits()
    last: dict[str, Any] = {"event": "progress", "says": "Starting", "share": 0.0}
    try:
        with contextlib.closing(worked(run, place.stop, limits.run_seconds)) as beats:
            for events in beats:  # something is yielded at each: between, Gradio notices a cancel
                cells = [event for event in events if event["event"] == "cell"]
                last = next(reversed(events), last)
                yield from cells or [last]
        yield leaderboard(run).as_json()
    finally:
        if limits.public:  # nobody else can name it, so nobody will ask for it
            with contextlib.suppress(DataError):
                run.delete()


# --- Typed endpoints: what the page can do, for programs. Also the MCP tools, where asked for.

COMMON: list[str] = list(RECIPES)  # shown as the default


@endpoint(
    api.compare,
    returns="The classes, and for each recipe its logits, probabilities and held-out accuracy.",
)
def compare(
    text: str, pair: str = "", recipes: list[str] = COMMON, *, options: CompareOptions
) -> dict[str, Any]:
    return api.compare(text, pair, options=options, recipes=recipes).as_json()


@endpoint(
    api.explain,
    returns="The steps from tokens to logits with their tensors, and each token's share.",
)
def explain(
    recipe: str, text: str = TEXT, pair: str = "", model: str = BUNDLED, sample: str = ""
) -> dict[str, Any]:
    return api.explain(recipe, text, pair, model=model, sample=sample).as_json()


@endpoint(
    api.catalogue,
    returns="The family, its class, its form, its recipe, and the reason where there is none.",
)
def families() -> list[dict[str, Any]]:
    return [entry.as_json() for entry in api.catalogue()]


@endpoint(api.difference, returns="The two names and the difference, a few sentences.")
def difference(one: str, other: str, model: str = BUNDLED) -> dict[str, str]:
    return {"one": one, "other": other, "difference": api.difference(one, other, model=model)}


@endpoint(
    api.examine,
    returns="Each change with the largest difference of two logits, the reason and what to do.",
)
def padding(model: str) -> dict[str, Any]:
    return api.examine(model).as_json()


@endpoint(api.Inspector.attribute, api.compare)
def inspect(
    text: str, pair: str = "", *, heads: api.Inspector, label: str = "", against: str = "others"
) -> dict[str, Any]:
    """Shows which tokens move each head's answer, and its nearest training examples.

    Returns:
        For each head every token's score, which add up, with the error; and similar examples.
    """
    attributions = heads.attribute(text, pair, label=label, against=against)
    return {
        "attributions": [attribution.as_json() for attribution in attributions],
        "nearest": [neighbours.as_json() for neighbours in heads.nearest(text, pair)],
    }


@endpoint(
    api.Inspector.flips,
    api.compare,
    returns="What each head says of each sentence, and a summary in a sentence.",
)
def edit(text: str, edits: list[str], pair: str = "", *, heads: api.Inspector) -> dict[str, Any]:
    return heads.flips(text, edits, pair).as_json()


@endpoint(
    api.Inspector.ablate,
    api.compare,
    returns="For each head and layer the logits and answers before and after, those of the head "
    "that was trained without the layer, and its score beside that of the whole one.",
)
def ablate(
    text: str, pair: str = "", *, heads: api.Inspector, without: str = "", retrain: bool = True
) -> list[dict[str, Any]]:
    ablations = heads.ablate(text, pair, without=without, retrain=retrain)
    return [ablation.as_json() for ablation in ablations]


@endpoint(
    api.Inspector.readings,
    api.compare,
    returns="For each head its logits and the probabilities of each reading.",
)
def readings(
    text: str, pair: str = "", *, heads: api.Inspector, temperature: float = 1.0
) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in heads.readings(text, pair, temperature=temperature)]


@endpoint()
def parts() -> dict[str, Any]:
    """Lists every pooling, choice of layers and head, with a sentence and the source of each.

    Returns:
        The parts by registry: poolings, layers, heads.
    """
    from heads.parts import resolve

    return resolve.parts()
