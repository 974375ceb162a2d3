"""Endpoints that take a file: what reading it finds, and a whole grid trained on it.

They share the gates and the limits of the page: an upload is moved out of Gradio's open folder
at once, training runs in a process of its own, one for a visitor, and ends with the call.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data import columns as guess
from heads.data.dataset import Data, data_of
from heads.data.table import listed
from heads.errors import DataError
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import guarded
from heads.interfaces.web.worker import Places, waiting, worked
from heads.parts.resolved import JOINT, SOFTMAX
from heads.settings import Contest, limits

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
        from heads.interfaces.accounts import said

        asked = said([*columns, group], form, listed(labels), () if is_test else listed(order))
        table = uploads.opened(kept, limits())
        found = data_of(table, limits(), guess(table, asked) if asked else None, name=path.stem)
        return with_token_findings(found, load(model, limits=limits()))
    finally:
        shutil.rmtree(uploads.folder() / kept, ignore_errors=True)


def _trained(places: Places, visitor: str, *given: Any) -> Iterator[dict[str, Any]]:
    from heads.runs.leaderboard import leaderboard
    from heads.runs.runner import begin
    from heads.runs.spec import Question

    file, test, text, label, pair, split, recipes, grid, model, *rest = given
    *rest, race, precision, metric, group, unseen, folds, repetitions = rest
    seeds, per_class, *labels, pairs, losses = rest
    names = (text, label, pair, split, *labels, group)
    public = limits().public
    contest = Contest(
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
        question = Question(
            data=_read(file, names, model or BUNDLED),
            test=_read(test, names, model or BUNDLED, is_test=True) if test else None,
            recipes=[one.rstrip(",") for one in (recipes or "").split()],
            grid=grid or "small",
            pairs=listed(pairs or JOINT),
            losses=listed(losses or SOFTMAX),
            model=model or BUNDLED,
            contest=contest,
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
