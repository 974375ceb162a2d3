"""What stands between a handler and the page: errors in one sentence, never a traceback."""

import csv
import functools
import inspect
import io
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NoReturn, TypeVar, cast

import gradio as gr
from markupsafe import Markup

from heads.caching import refusal
from heads.data.table import guard_cell
from heads.errors import DataError, HeadsError
from heads.interfaces.views.html import failure
from heads.interruption import Interrupted

Event = TypeVar("Event")
Handler = TypeVar("Handler", bound=Callable[..., Any])
log = logging.getLogger("heads")


class Notice(gr.Error):
    """A sentence for a user that is ours, or was made safe to show; Gradio prints it nowhere."""

    def __init__(self, says: str, *, visible: bool = True) -> None:
        super().__init__(says, duration=8, visible=visible, print_exception=False)


def guarded(handler: Handler) -> Handler:
    """Shows a `HeadsError` as a notice, and anything else as a bug with a short code."""
    if inspect.isgeneratorfunction(handler):

        @functools.wraps(handler)
        def stream(*inputs: Any, **named: Any) -> Any:
            try:
                yield from handler(*inputs, **named)
            except Exception as error:
                _show(error)

        return cast("Handler", stream)

    @functools.wraps(handler)
    def call(*inputs: Any, **named: Any) -> Any:
        try:
            return handler(*inputs, **named)
        except Exception as error:
            _show(error)

    return cast("Handler", call)


KINDS: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    float: (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "a number",
    ),
    list[str]: (
        lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
        "a list of texts",
    ),
}


def typed(handler: Handler) -> Handler:
    """The same as `guarded`, for what programs call: Gradio hands on values of any kind."""
    taken = inspect.signature(handler)

    @functools.wraps(handler)
    def call(*inputs: Any, **named: Any) -> Any:
        for name, value in taken.bind(*inputs, **named).arguments.items():
            fits, kind = KINDS[taken.parameters[name].annotation]
            if not fits(value):
                raise DataError(f"{name} must be {kind}.", "Mend it.")
        return handler(*inputs, **named)

    return guarded(cast("Handler", call))


def sentence(error: Exception) -> str:
    """What a user reads of an error; a bug is logged whole and shown as a code."""
    if isinstance(error, HeadsError):
        return str(error)
    if isinstance(error, Interrupted):
        return "Nobody waited for this any more."
    if told := refusal(error):
        return str(told)
    code = secrets.token_hex(2).upper()
    log.error("bug %s", code, exc_info=error, extra={"code": code})
    return f"Something went wrong (code {code}). It is our fault, not yours; please try again."


def failed(error: Exception) -> Markup:
    """The sentence of an error, in the place of what it was asked for."""
    return failure(sentence(error))


def clicked(event: gr.EventData) -> dict[str, str]:
    """What `data-` attributes, or the fields of a form, say of a click within HTML.

    Gradio documents them as attributes of the event; a form has any number of them, so the
    dictionary behind those is read, here alone.
    """
    given = event._data
    return {str(name): str(value) for name, value in given.items()} if given else {}


def _show(error: Exception) -> NoReturn:
    if isinstance(error, gr.Error):
        raise error
    raise Notice(plain(sentence(error))) from None


def throttled(events: Iterable[Event], seconds: float = 0.25) -> Generator[Event, None, Any]:
    """Passes on progress at most every so often, and every other event; ends in what they do."""
    from heads.events import Progress

    last, events = -seconds, iter(events)
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return end.value
        now = time.monotonic()
        if not isinstance(event, Progress) or now - last >= seconds:
            last = now
            yield event


def unchecked(slider: gr.Slider) -> gr.Slider:
    """Hands on whatever is typed beside a slider, so that the handler can say what is wrong.

    Gradio would answer a number out of range with the word "Error" and a traceback in the log. Not
    for a slider that is an output too: Gradio makes those anew.
    """
    slider.preprocess = lambda payload: payload
    return slider


def plain(text: str) -> str:
    """A text that a notice shows to the letter; notices would draw HTML, links and images.

    >>> plain("<img src=x> and [a](b)")
    '&#60;img src=x&#62; and &#91;a&#93;(b)'
    """
    return text.translate({ord(sign): f"&#{ord(sign)};" for sign in "&<>[]"})


# --- Files that the browser makes: what stands in them is never written on the server.

SAVE = "(text, name) => heads.save(text, name)"


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
