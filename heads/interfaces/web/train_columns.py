"""The menus of step 1 of the tab Train: which column is what, and what the labels are."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from heads.data import columns as guess
from heads.data.labels import flag_columns
from heads.data.table import Columns, Table
from heads.interfaces import accounts

ALL = 8  # five columns by name, what the labels are, the 0/1 columns, the order of the classes
NONE = ("none", "")


def column_menu(label: str) -> gr.Dropdown:
    """A menu of columns; a file brings them."""
    return gr.Dropdown([NONE], value="", label=label, interactive=True, min_width=130)


def labels_menus() -> tuple[gr.Dropdown, gr.Dropdown, gr.Textbox]:
    """What the labels are, the 0/1 columns, and the order of the classes."""
    with gr.Row():
        form = gr.Dropdown(
            [(says, form) for form, says in accounts.FORMS.items()],
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
    form = form or accounts.form_of(columns)
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
        return guess(table, accounts.said(names, form, (), ()))
    text, _, pair, split, group = names
    others = [name for name in table.columns if name not in (text, pair, split, group)]
    flags = flag_columns(table, others)
    return Columns(text=text, label="", pair=pair, split=split, labels=flags, group=group)
