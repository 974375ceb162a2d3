"""Files that the browser makes: what stands in them is never written on the server."""

import csv
import io
from collections.abc import Callable
from typing import Any

import gradio as gr

from heads.data.table import guard_cell

SAVE = """(text, name) => {
  if (!text) return;
  const link = document.createElement("a");
  const kind = name.endsWith(".csv") ? "text/csv" : "text/html";
  link.href = URL.createObjectURL(new Blob([text], {type: kind + ";charset=utf-8"}));
  link.download = name; link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000); }"""


def saves(button: gr.Button, make: Callable[..., str], inputs: list[Any], name: str) -> None:
    """Lets a button save the text that `make` returns, under that name."""
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    text, called = gr.Textbox(visible=False), gr.Textbox(name, visible=False)
    made = button.click(make, inputs, text, **quiet)
    made.success(None, [text, called], None, js=SAVE, api_visibility="private")


def as_csv(headers: list[str], rows: list[list[Any]]) -> str:
    """A table as CSV, for a spreadsheet: no cell of it is run as a formula."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([guard_cell(name) for name in headers])
    for row in rows:
        writer.writerow([guard_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return "\ufeff" + file.getvalue()
