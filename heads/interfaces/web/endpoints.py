"""The endpoints of the page, for programs and as MCP tools: what the page can do, by name.

Those that take a file share the gates and the limits of the page: an upload is moved out of
Gradio's open folder at once, training runs in a process of its own, one for a visitor, and ends
with the call.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.samples import RECIPES, TEXT
from heads.data.table import listed
from heads.errors import DataError
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import guarded
from heads.interfaces.web.training_process import Places, waiting, worked
from heads.parts.resolved_recipe import JOINT, SOFTMAX
from heads.settings import ExperimentConfig, limits

if TYPE_CHECKING:
    from heads.api import Inspector

# Of the columns: text, label, pair and split by name; then what the labels are.
NAMES = ("text", "label", "pair", "split")
LABELS = ("labels_are", "label_columns", "order")
Names = Sequence[Any]  # all of them, and last the column of groups


def build(places: Places) -> None:
    """Adds the endpoints `read` and `train_grid` to the page; nothing of them is to be seen."""
    with gr.Column(visible=False):
        file, test = gr.File(label="file"), gr.File(label="test")
        names = [gr.Textbox("", label=name) for name in NAMES]
        labels = [gr.Textbox("", label=name) for name in LABELS]
        recipes, grid = gr.Textbox("", label="recipes"), gr.Textbox("small", label="grid")
        model = gr.Textbox(BUNDLED, label="model")
        seeds, per_class = gr.Number(3, label="seeds"), gr.Number(0, label="per_class")
        pairs, losses = gr.Textbox(JOINT, label="pairs"), gr.Textbox(SOFTMAX, label="losses")
        how = [gr.Checkbox(False, label="race"), gr.Textbox("auto", label="precision")]
        how += [gr.Textbox("auto", label="metric")]
        group, unseen = gr.Textbox("", label="group"), gr.Textbox("aside", label="unseen")
        parted = [gr.Number(5, label="folds"), gr.Number(1, label="repetitions")]
        answer = gr.JSON(label="answer")
        asks, trains = gr.Button(), gr.Button()

    inputs = [file, test, *names, recipes, grid, model, seeds, per_class, *labels, pairs, losses]
    inputs += [*how, group, unseen, *parted]
    limit: dict[str, Any] = {"concurrency_id": "train", "concurrency_limit": 16}
    asks.click(read, [file, *names, *labels, group], answer, api_name="read", **limit)
    trains.click(guarded(_trainer(places)), inputs, answer, api_name="train_grid", **limit)


def _trainer(places: Places) -> Callable[..., Iterator[dict[str, Any]]]:
    """The endpoint `train_grid`."""

    # Gradio tells callers these names and defaults, in the order of `inputs`.
    def train_grid(
        request: gr.Request,
        file: str | None,
        test: str | None = None,
        text: str = "",
        label: str = "",
        pair: str = "",
        split: str = "",
        recipes: str = "",
        grid: str = "small",
        model: str = BUNDLED,
        seeds: float = 3,
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
    ) -> Iterator[dict[str, Any]]:
        """Train every recipe of a grid on a file and compare them, with intervals.

        Takes a file of texts and labels, perhaps a second one to be scored, names of columns
        (empty: guessed), recipes separated by spaces (empty: those of the grid, small or
        full), a base model, seeds, rows a class (0: all), what the labels are, as `read`
        does, how two texts enter (joint, siamese, …) and losses (softmax, ovr, ordinal, hinge),
        each parted by commas; whether to stop recipes that cannot win any more, and the
        precision (auto, exact, fast); the metric that ranks (auto: that of the kind of labels); the
        column of groups, each on one side of every split, and what becomes of rows to be scored of
        a class never met (aside, wrong); and, where there is no test set and seeds mean nothing,
        folds and repetitions of them. Streams progress, then the verdict and every cell.
        """
        given = (file, test, text, label, pair, split, recipes, grid, model, seeds, per_class)
        more = (labels_are, label_columns, order, pairs, losses, race, precision, metric)
        last = (group, unseen, folds, repetitions)
        yield from _trained(places, request.session_hash or "", *given, *more, *last)

    return train_grid


@guarded
def read(
    file: str | None,
    text: str,
    label: str,
    pair: str,
    split: str,
    labels_are: str,
    label_columns: str,
    order: str,
    group: str = "",
) -> dict[str, Any]:
    """Read a file of texts and labels: columns, rows used and dropped, classes, warnings.

    Takes a CSV, TSV, JSONL, JSON or Parquet file and names of columns (empty: guessed); then
    what the labels are (one, number, columns, or the sign between several; empty: guessed), the
    0/1 columns, and the order of the classes from low to high, both parted by commas; and the
    column that says which rows belong together.
    """
    names = (text, label, pair, split, labels_are, label_columns, order, group)
    return _read(file, names).as_json()


def _read(file: str | None, names: Names, model: str = BUNDLED, *, is_test: bool = False) -> Data:
    """Reads an upload and deletes it; the classes of a test are ordered by the other data."""
    from heads.backbone.loading import load
    from heads.features.truncation import with_token_findings

    if not file:
        raise DataError("There is no file.", "Send a file of texts and labels.")
    kept = uploads.keep(file, limits())
    try:
        path = uploads.path_of(kept)
        *columns, form, labels, order, group = (str(name or "") for name in names)
        from heads.interfaces.views.dataset import said

        asked = said([*columns, group], form, listed(labels), () if is_test else listed(order))
        table = uploads.opened(kept, limits())
        found = data_of(table, limits(), guess(table, asked) if asked else None, name=path.stem)
        return with_token_findings(found, load(model, limits=limits()))
    finally:
        shutil.rmtree(uploads.folder() / kept, ignore_errors=True)


def _trained(places: Places, visitor: str, *given: Any) -> Iterator[dict[str, Any]]:
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import begin
    from heads.runs.spec import RunRequest

    file, test, text, label, pair, split, recipes, grid, model, *rest = given
    *rest, race, precision, metric, group, unseen, folds, repetitions = rest
    seeds, per_class, *labels, pairs, losses = rest
    names = (text, label, pair, split, *labels, group)
    public = limits().public
    config = ExperimentConfig(
        seeds=_whole("seeds", seeds, 1, 10 if public else 50),
        folds=_whole("folds", folds, 2, 10 if public else 20),
        repetitions=_whole("repetitions", repetitions, 1, 10 if public else 20),
        per_class=_whole("per_class", per_class, 0, 100_000),
        race=race is True,
        precision=precision or "auto",
        metric=metric or "auto",
        unseen=unseen or "aside",
    )
    with places.taken(visitor) as stop:
        yield from waiting(places, visitor, stop)
        question = RunRequest(
            data=_read(file, names, model or BUNDLED),
            test=_read(test, names, model or BUNDLED, is_test=True) if test else None,
            recipes=[one.rstrip(",") for one in (recipes or "").split()],
            grid=grid or "small",
            pairs=listed(pairs or JOINT),
            losses=listed(losses or SOFTMAX),
            model=model or BUNDLED,
            config=config,
        )
        run = begin(question, limits=limits())
        for events in worked(run, stop, limits().run_seconds):
            cells = [event for event in events if event["event"] == "cell"]
            yield from cells or events[-1:]
        yield leaderboard(run).as_json()
        if public:  # nobody else can name it, so nobody will ask for it
            with contextlib.suppress(DataError):
                run.delete()


def _whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within its range: Gradio checks neither, and lets NaN through."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not (fits and value == value and low <= value <= high and value == int(value)):
        raise DataError(f"{name} must be a whole number from {low} to {high:,}.", "Mend it.")
    return int(value)


# --- Typed endpoints: what the page can do, for programs. Also the MCP tools, where asked for.

COMMON: list[str] = list(RECIPES)  # shown as the default


@guarded
def compare(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    model: str = BUNDLED,
    sample: str = "",
    pairs: str = "joint",
) -> dict[str, Any]:
    """Compare classification heads on one or two sentences: every logit and probability.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads, such as mean+linear or cls+roberta.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        pairs: How two sentences enter: joint, siamese, or a pairing such as uv_diff.

    Returns:
        The classes, and for each recipe its logits, probabilities and held-out accuracy.
    """
    from heads import api

    asked = {"recipes": recipes, "model": model, "sample": sample, "pairs": pairs}
    return api.compare(text, pair, **asked).as_json()


@guarded
def explain(
    recipe: str,
    text: str = TEXT,
    pair: str = "",
    model: str = BUNDLED,
    sample: str = "",
) -> dict[str, Any]:
    """Explain one pooling and head: layers, shapes, counts, formula, origin, tokens read.

    Args:
        recipe: Such as cls+roberta.
        text: The sentence on which the reading is shown.
        pair: A second sentence, or nothing.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: The data of its classes: sentiment, intents, pairs, aspects or similarity.

    Returns:
        The steps from tokens to logits with their tensors, and each token's share.
    """
    from heads import api

    return api.explain(recipe, text, pair, model=model, sample=sample).as_json()


@guarded
def families() -> list[dict[str, Any]]:
    """List every XForSequenceClassification of Transformers with the recipe that equals it.

    Returns:
        The family, its class, its form, its recipe, and the reason where there is none.
    """
    from heads import api

    return [entry.as_json() for entry in api.catalogue()]


@guarded
def difference(one: str, other: str, model: str = BUNDLED) -> dict[str, str]:
    """Say in plain words what sets two classification heads apart.

    Args:
        one: A recipe such as cls+bert, a family such as roberta, or a model.
        other: The same.
        model: The base model under two recipes.

    Returns:
        The two names and the difference, a few sentences.
    """
    from heads import api

    return {"one": one, "other": other, "difference": api.difference(one, other, model=model)}


@guarded
def doctor(model: str) -> dict[str, Any]:
    """Find which changes of padding and truncation change a classifier's logits, and why.

    Args:
        model: A family such as gpt2, the bundled model, or a Hub id.

    Returns:
        Each change with the largest difference of two logits, the reason and what to do.
    """
    from heads import api

    return api.examine(model).as_json()


@guarded
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
    """Show which tokens move each head's answer, and its nearest training examples.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads, such as mean+linear or cls+roberta.
        model: The base model: all-MiniLM-L6-v2 or a Hub id.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.
        label: The class that is asked about; of each head its answer, if empty.
        against: What its logit is held against: others (their mean) or runner-up (the largest).

    Returns:
        For each head every token's score, which add up, with the error; and similar examples.
    """
    inside = _inside(recipes, sample, run, model)
    attributed = inside.attribute(text, pair, label=label, against=against)
    return {
        "attributions": [one.as_json() for one in attributed],
        "nearest": [one.as_json() for one in inside.nearest(text, pair)],
    }


@guarded
def edit(
    text: str,
    edits: list[str],
    pair: str = "",
    recipes: list[str] = COMMON,
    sample: str = "",
    run: str = "",
) -> dict[str, Any]:
    """Ask heads about edits of a sentence: which head flips on what.

    Args:
        text: The sentence.
        edits: The edited sentences.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.

    Returns:
        What each head says of each sentence, and a summary in a sentence.
    """
    return _inside(recipes, sample, run).flips(text, edits, pair).as_json()


@guarded
def ablate(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    without: str = "",
    sample: str = "",
    run: str = "",
    retrain: bool = True,
) -> list[dict[str, Any]]:
    """Take a layer out of trained heads, and train them anew without it: what each says.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        without: A layer's name, or dense, activation, norm or scale; each in turn if empty.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.
        retrain: Whether to train anew as well: seconds on a sample, longer on a run.

    Returns:
        For each head and layer the logits and answers before and after, those of the head that was
        trained without the layer, and its score beside that of the whole one.
    """
    found = _inside(recipes, sample, run).ablate(text, pair, without=without, retrain=retrain)
    return [one.as_json() for one in found]


@guarded
def readings(
    text: str,
    pair: str = "",
    recipes: list[str] = COMMON,
    temperature: float = 1.0,
    sample: str = "",
    run: str = "",
) -> list[dict[str, Any]]:
    """Read the same logits as softmax, as sigmoid, and at a temperature.

    Args:
        text: The sentence.
        pair: A second sentence, or nothing.
        recipes: At most four poolings and heads.
        temperature: What the logits are divided by, from 0.1 to 10.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity.
        run: The id of a run whose heads are asked instead, or nothing.

    Returns:
        For each head its logits and the probabilities of each reading.
    """
    found = _inside(recipes, sample, run).readings(text, pair, temperature=temperature)
    return [one.as_json() for one in found]


def _inside(recipes: Sequence[str], sample: str, run: str, model: str = BUNDLED) -> "Inspector":
    """Which heads are asked; of a run its first ones, where the recipes are not of its own."""
    from heads.api import Inspector

    if run and list(recipes) == COMMON:
        recipes = ()
    return Inspector(recipes=recipes, model=model, sample=sample, run=run)


@guarded
def parts() -> dict[str, Any]:
    """List every pooling, choice of layers and head, with a sentence and the source of each.

    Returns:
        The parts by registry: poolings, layers, heads.
    """
    from heads.parts import resolve

    return resolve.parts()
