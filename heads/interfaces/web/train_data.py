"""Step 1 of the tab Train: a file or a sample, and which of its columns is what."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from heads.errors import HeadsError
from heads.interfaces import accounts, drawings
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import sentence
from heads.parts.samples import SAMPLES
from heads.pipeline.table import Columns, Data, Table, data_of, guess
from heads.settings import limits

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
READS: dict[str, Any] = {"concurrency_id": "reads", "concurrency_limit": 2}
OFFERED = ("sentiment", "intents", "pairs")  # those with one label a row
NONE = ("none", "")
HEADERS = {"auto": None, "names": True, "row": False}
HINT = (
    "CSV, TSV, JSONL, JSON or Parquet: a row a text, with a column for its label. "
    "Nothing is guessed in silence: you see what was read and can change it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The components that say which data.

    Attributes:
        held: The random id of the file, or the name of a sample; the file itself lies elsewhere.
        rows: How many rows are used.
    """

    held: gr.State
    rows: gr.State
    text: gr.Dropdown
    label: gr.Dropdown
    pair: gr.Dropdown
    split: gr.Dropdown
    first: gr.Dropdown

    def all(self) -> list[Any]:
        """In the order of `chosen`."""
        return [self.held, self.text, self.label, self.pair, self.split, self.first]


def build(page: gr.Blocks) -> Inputs:
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
                    name: gr.Button(SAMPLES[name].title, size="sm", min_width=90)
                    for name in OFFERED
                }
    view = gr.HTML("", elem_id="account", padding=False)
    with gr.Row(visible=False, elem_id="columns") as row:
        menus = [_menu(name) for name in ("Text", "Label", "Second text", "Split")]
        first = gr.Dropdown(
            [("find out", "auto"), ("names of columns", "names"), ("a row", "row")],
            value="auto",
            label="First line",
            interactive=True,
            min_width=130,
        )
    inputs = Inputs(
        held=gr.State(""), rows=gr.State(0), text=menus[0], label=menus[1], pair=menus[2],
        split=menus[3], first=first,
    )  # fmt: skip
    _wire(inputs, file, buttons, view, row)
    return inputs


def _menu(label: str) -> gr.Dropdown:
    return gr.Dropdown([NONE], value="", label=label, interactive=True, min_width=130)


def _wire(
    inputs: Inputs, file: gr.File, buttons: dict[str, gr.Button], view: gr.HTML, row: gr.Row
) -> None:
    menus = [inputs.text, inputs.label, inputs.pair, inputs.split]
    shown = [view, row, inputs.rows, *menus]
    file.upload(
        _uploaded, file, [file, inputs.held, inputs.first, *shown], **QUIET, **READS
    )  # fmt: skip
    for name, button in buttons.items():
        button.click(
            lambda name=name: [f"{uploads.SAMPLE}{name}", "auto", *_guessed(uploads.SAMPLE + name)],
            None, [inputs.held, inputs.first, *shown], **QUIET, **READS,
        )  # fmt: skip
    inputs.first.input(_reread, [inputs.held, inputs.first], shown, **QUIET, **READS)
    for menu in menus:
        menu.input(_changed, inputs.all(), [view, inputs.rows], **QUIET, **READS)


def _uploaded(path: str | None) -> Iterator[list[Any]]:
    """Takes a file over at once: nothing of it stays where Gradio put it."""
    try:
        name = uploads.keep(path or "", limits())
        busy = [drawings.busy("Reading the file"), *[gr.skip()] * 6]
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
        data: Data | None = data_of(table, limits(), columns, name=uploads.path_of(name).stem)
        view = accounts.account(data)
    except Exception as error:
        data, view = None, _told(error, table, columns)
    menus = _menus(table, columns)
    return [view, gr.update(visible=True), len(data.corpus) if data else 0, *menus]


def _told(error: Exception, table: Table, columns: Columns) -> Any:
    """What is wrong, above the rows that it is wrong with."""
    return drawings.failure(sentence(error)) + accounts.preview(
        table.columns, table.rows[:5], columns
    )


def _menus(table: Table, columns: Columns) -> list[Any]:
    names = [(name, name) for name in table.columns]
    return [
        gr.update(choices=names, value=columns.text),
        gr.update(choices=names, value=columns.label),
        gr.update(choices=[NONE, *names], value=columns.pair),
        gr.update(choices=[NONE, *names], value=columns.split),
    ]


def _failed(error: Exception, table: Table | None = None) -> list[Any]:
    view = drawings.failure(sentence(error))
    if table is not None and table.columns:
        empty = Columns(text="", label="")
        view += accounts.preview(table.columns, table.rows[:5], empty)
    return [view, gr.update(visible=False), 0, *[gr.skip()] * 4]


def _changed(
    name: str, text: str, label: str, pair: str, split: str, first: str
) -> tuple[Any, int]:
    """The account once more, under other columns."""
    try:
        found = chosen(name, text, label, pair, split, first)
        return accounts.account(found), len(found.corpus)
    except HeadsError as error:
        return drawings.failure(str(error)), 0
    except Exception as error:
        return drawings.failure(sentence(error)), 0


def chosen(name: str, text: str, label: str, pair: str, split: str, first: str) -> Data:
    """The data as the user confirmed them.

    Raises:
        HeadsError: There are none, or they cannot be used.
    """
    table = uploads.opened(name, limits(), HEADERS.get(first))
    columns = Columns(text=text or "", label=label or "", pair=pair or "", split=split or "")
    return data_of(table, limits(), columns, name=uploads.path_of(name).stem)
