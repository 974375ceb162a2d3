"""Step 1 of the tab Train: a file or a sample, and which of its columns is what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.labels import flag_columns
from heads.data.samples import SAMPLES
from heads.data.table import Columns, Table, listed
from heads.interfaces.views import comparison, dataset
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import sentence
from heads.settings import limits

# --- The menus of step 1 of the tab Train: which column is what, and what the labels are.

ALL = 8  # five columns by name, what the labels are, the 0/1 columns, the order of the classes
NONE = ("none", "")


def column_menu(label: str) -> gr.Dropdown:
    """A menu of columns; a file brings them."""
    return gr.Dropdown([NONE], value="", label=label, interactive=True, min_width=130)


def labels_menus() -> tuple[gr.Dropdown, gr.Dropdown, gr.Textbox]:
    """What the labels are, the 0/1 columns, and the order of the classes."""
    with gr.Row():
        form = gr.Dropdown(
            [(says, form) for form, says in dataset.FORMS.items()],
            value="one",
            label="Labels are",
            interactive=True,
            min_width=200,
        )
        labels = gr.Dropdown(
            [], value=[], multiselect=True, label="Label columns", visible=False, min_width=280,
            interactive=True,
        )  # fmt: skip
        order = gr.Textbox(
            "", label="Order of the classes", placeholder="if they have one: low, middle, high",
            max_lines=1, min_width=280,
        )  # fmt: skip
    return form, labels, order


def menus_of(table: Table, columns: Columns, form: str = "") -> list[Any]:
    """The menus of a table, set to some columns; those that these do not need are hidden."""
    names = [(name, name) for name in table.columns]
    form = form or dataset.form_of(columns)
    many = form == "columns"
    return [
        gr.update(choices=names, value=columns.text),
        gr.update(choices=names, value=columns.label or None, visible=not many),
        gr.update(choices=[NONE, *names], value=columns.pair),
        gr.update(choices=[NONE, *names], value=columns.split),
        gr.update(choices=[NONE, *names], value=columns.group),
        gr.update(value=form),
        gr.update(choices=names, value=list(columns.labels), visible=many),
        gr.update(value=", ".join(columns.order), visible=form == "one"),
    ]


def columns_of(table: Table, names: Sequence[str], form: str) -> Columns:
    """Columns as they were named; those of the labels follow from what the labels are."""
    if form != "columns":
        return guess(table, dataset.said(names, form, (), ()))
    text, _, pair, split, group = names
    others = [name for name in table.columns if name not in (text, pair, split, group)]
    flags = flag_columns(table, others)
    return Columns(text=text, label="", pair=pair, split=split, labels=flags, group=group)


QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
READS: dict[str, Any] = {"concurrency_id": "reads", "concurrency_limit": 2}
FIELDS = 2 + ALL  # that say which data: as many as `chosen` takes
HEADERS = {"auto": None, "names": True, "row": False}
HINT = (
    "CSV, TSV, JSONL, JSON or Parquet: a row a text, with a column for its label. "
    "Nothing is guessed in silence: you see what was read and can change it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataInputs:
    """The components that say which data.

    Attributes:
        held: The random id of the file, or the name of a sample; the file itself lies elsewhere.
        rows: How many rows are used.
        group: The column of what belongs together.
        form: What the labels are.
        labels: The 0/1 columns, where they are that.
        order: The classes from low to high, where a row has one.
    """

    held: gr.State
    rows: gr.State
    text: gr.Dropdown
    label: gr.Dropdown
    pair: gr.Dropdown
    split: gr.Dropdown
    group: gr.Dropdown
    first: gr.Dropdown
    form: gr.Dropdown
    labels: gr.Dropdown
    order: gr.Textbox

    def all(self) -> list[Any]:
        """In the order of `chosen`."""
        return [self.held, self.first, *self.menus()]

    def menus(self) -> list[Any]:
        """What reading a file sets."""
        names = [self.text, self.label, self.pair, self.split, self.group]
        return [*names, self.form, self.labels, self.order]


def build(page: gr.Blocks) -> DataInputs:
    """Draws the step and returns what says which data."""
    gr.Markdown("### 1. Your data")
    with gr.Row():
        with gr.Column(min_width=280):
            file = gr.File(label="Your file", height=130, elem_id="file")
            uploads.protect(page, file)
        with gr.Column(min_width=280):
            gr.Markdown(HINT, elem_classes="quiet")
            gr.Markdown("Or start with a sample:")
            with gr.Row():
                buttons = {
                    name: gr.Button(SAMPLES[name].title, size="sm", min_width=150)
                    for name in SAMPLES
                }
    view = gr.HTML("", elem_id="account", padding=False)
    with gr.Column(visible=False, elem_id="columns") as area:
        with gr.Row():
            menus = ("Text", "Label", "Second text", "Split", "Group")
            text, label, pair, split, group = map(column_menu, menus)
            first = gr.Dropdown(
                [("find out", "auto"), ("names of columns", "names"), ("a row", "row")],
                value="auto",
                label="First line",
                interactive=True,
                min_width=130,
            )
        form, labels, order = labels_menus()
    inputs = DataInputs(
        held=gr.State(""), rows=gr.State(0), text=text, label=label, pair=pair, split=split,
        group=group, first=first, form=form, labels=labels, order=order,
    )  # fmt: skip
    _wire(inputs, file, buttons, view, area)
    return inputs


def _wire(
    inputs: DataInputs, file: gr.File, buttons: dict[str, gr.Button], view: gr.HTML, area: gr.Column
) -> None:
    shown = [view, area, inputs.rows, *inputs.menus()]
    file.upload(
        _uploaded, file, [file, inputs.held, inputs.first, *shown], **QUIET, **READS
    )  # fmt: skip
    for name, button in buttons.items():
        button.click(
            lambda name=name: [f"{uploads.SAMPLE}{name}", "auto", *_guessed(uploads.SAMPLE + name)],
            None, [inputs.held, inputs.first, *shown], **QUIET, **READS,
        )  # fmt: skip
    inputs.first.input(_reread, [inputs.held, inputs.first], shown, **QUIET, **READS)
    account = [view, inputs.rows]
    for menu in (inputs.text, inputs.pair, inputs.split, inputs.group, inputs.labels):
        menu.input(_changed, inputs.all(), account, **QUIET, **READS)
    inputs.order.blur(_changed, inputs.all(), account, **QUIET, **READS)
    inputs.order.submit(_changed, inputs.all(), account, **QUIET, **READS)
    several = [*account, *inputs.menus()]
    inputs.label.input(_relabelled, inputs.all(), several, **QUIET, **READS)
    inputs.form.input(_reformed, inputs.all(), several, **QUIET, **READS)


def _uploaded(path: str | None) -> Iterator[list[Any]]:
    """Takes a file over at once: nothing of it stays where Gradio put it."""
    try:
        name = uploads.keep(path or "", limits())
        busy = [comparison.busy("Reading the file"), *[gr.skip()] * (ALL + 2)]
        yield [None, name, "auto", *busy]
        yield [None, name, "auto", *_guessed(name)]
    except Exception as error:
        yield [None, "", "auto", *_failed(error)]


def _reread(name: str, first: str) -> list[Any]:
    return _guessed(name, HEADERS.get(first))


def _guessed(name: str, header: bool | None = None) -> list[Any]:
    """View, menus with the guessed columns, and the number of rows."""
    table = None
    try:
        table = uploads.opened(name, limits(), header)
        columns = guess(table)
    except Exception as error:
        return _failed(error, table)
    try:
        data: Data | None = data_of(table, limits(), name=uploads.path_of(name).stem)
        view = dataset.account(data)
    except Exception as error:
        data, view = None, _told(error, table, columns)
    menus = menus_of(table, columns)
    return [view, gr.update(visible=True), len(data.corpus) if data else 0, *menus]


def _told(error: Exception, table: Table, columns: Columns) -> Any:
    """What is wrong, above the rows that it is wrong with."""
    return comparison.failure(sentence(error)) + dataset.preview(
        table.columns, table.rows[:5], columns
    )


def _failed(error: Exception, table: Table | None = None) -> list[Any]:
    view = comparison.failure(sentence(error))
    if table is not None and table.columns:
        empty = Columns(text="", label="")
        view += dataset.preview(table.columns, table.rows[:5], empty)
    return [view, gr.update(visible=False), 0, *[gr.skip()] * ALL]


def _changed(*asked: Any) -> list[Any]:
    """The account once more, under other columns."""
    try:
        found = chosen(*asked)
        return [dataset.account(found), len(found.corpus)]
    except Exception as error:
        return [comparison.failure(sentence(error)), 0]


def _relabelled(*asked: Any) -> list[Any]:
    """The same where another label column is chosen: what its labels are is guessed anew."""
    name, first, *names, _, _, _ = asked
    return _anew(name, first, names, "")


def _reformed(*asked: Any) -> list[Any]:
    """The same where the labels are said to be something else, which may need other columns."""
    name, first, *names, form, _, _ = asked
    return _anew(name, first, names, form)


def _anew(name: str, first: str, names: Sequence[str | None], form: str) -> list[Any]:
    """The account, the number of rows, and the menus as a form of labels needs them."""
    try:
        table = uploads.opened(name, limits(), HEADERS.get(first))
        columns = columns_of(table, [one or "" for one in names], form)
    except Exception as error:
        return [comparison.failure(sentence(error)), 0, *[gr.skip()] * ALL]
    menus = menus_of(table, columns, form)
    try:
        data = data_of(table, limits(), columns, name=uploads.path_of(name).stem)
        return [dataset.account(data), len(data.corpus), *menus]
    except Exception as error:
        return [_told(error, table, columns), 0, *menus]


def chosen(*asked: Any) -> Data:
    """The data as the user confirmed them; takes the values of `DataInputs.all`.

    Raises:
        HeadsError: There are none, or they cannot be used.
    """
    name, first, *names, form, labels, order = asked
    table = uploads.opened(name, limits(), HEADERS.get(first))
    now = dataset.said(
        [one or "" for one in names], form or "one", tuple(labels or ()), listed(order or "")
    )
    columns = Columns(
        text=now.text, label=now.label, pair=now.pair, split=now.split, labels=now.labels,
        separator=now.separator or "", number=bool(now.number), order=now.order, group=now.group,
    )  # fmt: skip
    return data_of(table, limits(), columns, name=uploads.path_of(name).stem)
