"""What stands between a handler and the page: errors in one sentence, never a traceback."""

import contextlib
import csv
import functools
import html
import inspect
import io
import logging
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import gradio as gr
from gradio.components import Component
from markupsafe import Markup

from heads import plugins
from heads.caching import refusal
from heads.data.table import written_cell
from heads.errors import HeadsError
from heads.events import Progress
from heads.interfaces.views.html import failure
from heads.interfaces.web.slots import QUIET, pool
from heads.interruption import Interrupted
from heads.settings import current_limits

Result = TypeVar("Result")
Asks = TypeVar("Asks", bound=Component)
Values = dict[str, Any]  # of components, by names that a place of the page gives them
BEAT = 0.25  # seconds between two pictures of progress
LONGEST = 600  # characters of a sentence
log = logging.getLogger("heads")


class Notice(gr.Error):
    """A sentence for a user that is ours, or was made safe to show; Gradio prints it nowhere."""

    def __init__(self, says: str, *, visible: bool = True) -> None:
        super().__init__(says, duration=8, visible=visible, print_exception=False)


def sentence(error: Exception) -> str:
    """Return what a user reads of an error; a bug is logged whole and shown as a code."""
    if isinstance(error, HeadsError):
        return str(error)
    if isinstance(error, Interrupted):
        return "Nobody waited for this any more."
    if told := refusal(error):
        return str(told)
    code = secrets.token_hex(2).upper()
    log.error("bug %s", code, exc_info=error, extra={"code": code})
    extra = plugins.find_faulty_extra(error)
    fault = f"a fault of the extra '{extra}'" if extra else "our fault"
    return f"Something went wrong (code {code}). It is {fault}, not yours; please try again."


def failed(error: Exception) -> Markup:
    """Draw the sentence of an error, in the place of what was asked for."""
    return failure(sentence(error))


def clicked(event: gr.EventData) -> dict[str, str]:
    """Return the `data-` attributes or form fields of a click, which page.js sends as `fields`."""
    try:
        fields = dict(event.fields)
    except (AttributeError, TypeError, ValueError):  # of a program, which may send anything
        return {}
    return {str(name): str(value) for name, value in fields.items()}


def notice(error: Exception) -> Notice:
    """Return what a caller reads of any error."""
    if isinstance(error, Notice):
        return error
    if isinstance(error, gr.Error):  # Gradio's own, which may hold what somebody has sent
        return Notice(as_text(error.message))
    return Notice(plain(sentence(error)), visible=not isinstance(error, Interrupted))


def by_name(handler: Callable[..., Any], inputs: Any, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an event whose handler returns, or yields, `Values` of its outputs.

    Outputs that are not among the values stay as they are.
    """

    def by_component(values: Values) -> Any:
        return {outputs[name]: value for name, value in values.items()} or gr.skip()

    @functools.wraps(handler)
    def answer(*arguments: Any) -> Any:
        return by_component(handler(*arguments))

    @functools.wraps(handler)
    def stream(*arguments: Any) -> Any:
        with contextlib.closing(handler(*arguments)) as steps:
            yield from map(by_component, steps)

    call = stream if inspect.isgeneratorfunction(handler) else answer
    return {"fn": call, "inputs": inputs, "outputs": [*outputs.values()]}


def show_progress(
    events: Generator[Progress, None, Result], show: Callable[[Progress], Any]
) -> Generator[Any, None, Result]:
    """Yield what `show` makes of progress, at most every `BEAT` seconds; return the result."""
    last = -BEAT
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return end.value
        if time.monotonic() - last >= BEAT:
            last = time.monotonic()
            yield show(event)


def unchecked(component: Asks) -> Asks:
    """Hand on whatever is typed or sent, so that the handler can say what is wrong.

    Gradio would answer a number out of range with the word "Error", and make a text of a list. Not
    for a component that is an output too: Gradio makes those anew.
    """
    component.preprocess = as_it_came
    return component


def as_it_came(payload: Any) -> Any:
    """What stands in the place of Gradio's own reading of an unchecked component."""
    return payload


def plain(text: str) -> str:
    """Return a text that a notice shows to the letter; notices would draw HTML, links and images.

    >>> plain("<img src=x> and [a](b)")
    '&#60;img src=x&#62; and &#91;a&#93;(b)'
    """
    return text.translate({ord(sign): f"&#{ord(sign)};" for sign in "&<>[]"})


def as_text(text: Any) -> str:
    """Return a sentence of Gradio's, or one that `plain` has made, in which nothing is markup.

    >>> as_text("Value: <b> is not in the list"), as_text(plain("a & <b>"))
    ('Value: &#60;b&#62; is not in the list', 'a &#38; &#60;b&#62;')
    """
    text = html.unescape(str(text))  # so that no entity is cut in two
    if len(text) > LONGEST:  # its end says what to do
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    return plain(text)


# --- Files that the browser makes: what stands in them is never written on the server.

SAVE = "(text, name) => heads.save(text, name)"


def saves(
    button: gr.Button, make: Callable[..., str], inputs: list[Any], name: str, slots: str = "boards"
) -> None:
    """Let a button save the text that `make` returns, under that name."""
    text, called = gr.Textbox(visible=False), gr.Textbox(name, visible=False)
    made = button.click(make, inputs, text, **QUIET, **pool(slots))
    made.success(None, [text, called], None, js=SAVE, api_visibility="private")


def as_csv(headers: list[str], rows: list[list[Any]]) -> str:
    """Return a table as CSV; where strangers wrote its texts, safe for a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    excel_safe = current_limits().public
    for row in (headers, *rows):
        writer.writerow([written_cell(cell, excel_safe=excel_safe) for cell in row])
    return "\ufeff" + file.getvalue()
