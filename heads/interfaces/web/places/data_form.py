"""Which data: a file or a sample, and which of its columns is what."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr

from heads.data.columns import guess
from heads.data.dataset import Data, data_of
from heads.data.labels import flag_columns
from heads.data.table import Columns, Table, listed
from heads.interfaces.views import dataset
from heads.interfaces.web import uploads
from heads.interfaces.web.guards import Values, failed, sentence
from heads.interfaces.web.slots import QUIET

# --- The menus: which column is what, and what the labels are.

FIELDS = 10  # that say which data: see `build`
NONE = ("none", "")


def menus_of(table: Table, columns: Columns, form: str = "") -> Values:
    """Return the menus of a table, set to some columns; those that these do not need are hidden."""
    names = [(name, name) for name in table.columns]
    form = form or dataset.form_of(columns)
    label, labels, order = show_label_menus(form)
    return {
        "text": gr.update(choices=names, value=columns.vectors or columns.text),
        "label": label | gr.update(choices=names, value=columns.label or None),
        "pair": gr.update(choices=[NONE, *names], value=columns.pair),
        "split": gr.update(choices=[NONE, *names], value=columns.split),
        "group": gr.update(choices=[NONE, *names], value=columns.group),
        "form": form,
        "labels": labels | gr.update(choices=names, value=list(columns.labels)),
        "order": order | gr.update(value=", ".join(columns.order)),
    }


def show_label_menus(form: str) -> list[Any]:
    """Return updates that show the menus of labels that apply: column, 0/1 columns, order."""
    shown = (form != "columns", form == "columns", form == "one")
    return [gr.update(visible=is_shown) for is_shown in shown]


def columns_of(table: Table, names: Sequence[str], form: str) -> Columns:
    """Return columns as they were named; those of the labels follow from what the labels are."""
    if form != "columns":
        return guess(table, dataset.build_hints(names, form, (), ()))
    text, _, pair, split, group = names
    others = [name for name in table.columns if name not in (text, pair, split, group)]
    flags = flag_columns(table, others)
    return Columns(text=text, label="", pair=pair, split=split, labels=flags, group=group)


HEADERS = {"auto": None, "names": True, "row": False}
FIRST_LINES = [("find out", "auto"), ("names of columns", "names"), ("a row", "row")]


def build(held: gr.BrowserState) -> dict[str, Any]:
    """Draw the menus of columns, folded.

    Args:
        held: The random id of the file, or the name of a sample; the file itself lies elsewhere.
            A browser remembers it, so a reload finds it again.

    Returns:
        The components that say which data, by name, in the order of what `chosen` takes.
    """
    with gr.Accordion("Columns", open=False, elem_id="columns") as area:
        with gr.Row():
            menus = {"text": "Text", "label": "Label", "pair": "Second text", "split": "Split",
                     "group": "Group"}  # fmt: skip
            columns = {
                name: gr.Dropdown([NONE], value="", label=title, interactive=True, min_width=130)
                for name, title in menus.items()
            }
            first = gr.Dropdown(
                FIRST_LINES, value="auto", label="First line", interactive=True, min_width=130
            )
        with gr.Row():
            forms = [(says, form) for form, says in dataset.FORMS.items()]
            form = gr.Dropdown(
                forms, value="one", label="Labels are", interactive=True, min_width=200
            )
            labels = gr.Dropdown(
                [], value=[], multiselect=True, label="Label columns", visible=False, min_width=280,
                interactive=True,
            )  # fmt: skip
            order = gr.Textbox(
                "", label="Order of the classes", placeholder="if they have one: low, middle, high",
                max_lines=1, min_width=280,
            )  # fmt: skip
    # Gradio before 6.30 loses updates of components in an accordion that was never opened.
    shown = [columns["label"], labels, order]
    area.expand(show_label_menus, form, shown, queue=False, **QUIET)
    return {
        "held": held, "first": first, **columns, "form": form, "labels": labels, "order": order
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file as the page shows it."""

    view: Any  # how it was read, or what is wrong with it
    data: Data | None = None  # None where the rows cannot be used
    menus: Values = field(default_factory=Values)  # of the columns


def guessed(name: str, first: str = "auto") -> Read:
    """Read a file with the columns that are guessed."""
    table = None
    try:
        table = uploads.opened(name, HEADERS.get(first))
        columns = guess(table)
    except Exception as error:
        if table is None or not table.columns:
            return Read(view=failed(error))
        return Read(view=dataset.problem(sentence(error), table, Columns()))
    return _read(name, table, columns, None)


def changed(*asked: Any) -> Read:
    """Read the file once more, under other columns; takes what `chosen` takes."""
    try:
        data = chosen(*asked)
    except Exception as error:
        return Read(view=failed(error))
    return Read(view=dataset.card(data), data=data)


def reformed(is_label: bool, *asked: Any) -> Read:
    """Read a file again where another label column is chosen, or its labels are said to differ."""
    name, first, *names, form, _, _ = asked
    form = "" if is_label else form
    try:
        table = uploads.opened(name, HEADERS.get(first))
        columns = columns_of(table, [name or "" for name in names], form)
    except Exception as error:
        return Read(view=failed(error))
    return _read(name, table, columns, columns, form)


def _read(
    name: str, table: Table, columns: Columns, confirmed: Columns | None, form: str = ""
) -> Read:
    """Read a table under some columns, which are guessed where none are confirmed."""
    menus = menus_of(table, columns, form)
    try:
        data = data_of(table, confirmed, name=uploads.path_of(name).stem)
    except Exception as error:
        return Read(view=dataset.problem(sentence(error), table, columns), menus=menus)
    return Read(view=dataset.card(data), data=data, menus=menus)


def chosen(*asked: Any, most: int = 0) -> Data:
    """Return the data as the user confirmed them, at most so many rows evenly taken (0: all)."""
    name, first, *names, form, labels, order = asked
    table = uploads.opened(name, HEADERS.get(first))
    title = uploads.path_of(name).stem
    if most and len(table.rows) > most:
        rows = [at * len(table.rows) // most for at in range(most)]
        table = replace(
            table,
            rows=[table.rows[at] for at in rows],
            lines=[table.lines[at] for at in rows],
            vectors={
                column: lambda read=read: read().of(rows) for column, read in table.vectors.items()
            },
        )
        title = f"{title}, {most:,} rows"
    now = dataset.build_hints(
        [one or "" for one in names], form or "one", tuple(labels or ()), listed(order or "")
    )
    columns = Columns(
        text=now.text, label=now.label, pair=now.pair, split=now.split, labels=now.labels,
        separator=now.separator or "", number=bool(now.number), order=now.order, group=now.group,
    )  # fmt: skip
    return data_of(table, columns, name=title)
