"""What stands between a handler and the page: errors in one sentence, never a traceback."""

import csv
import functools
import html
import inspect
import io
import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast, get_type_hints

import gradio as gr
from gradio.components import Component
from markupsafe import Markup
from pydantic import ConfigDict, TypeAdapter, ValidationError

from heads import plugins
from heads.caching import refusal
from heads.data.table import written_cell
from heads.errors import DataError, HeadsError
from heads.events import Progress
from heads.interfaces.views.html import failure
from heads.interfaces.web.slots import QUIET, pool
from heads.interruption import Interrupted
from heads.settings import current_limits

Result = TypeVar("Result")
Handler = TypeVar("Handler", bound=Callable[..., Any])
Asks = TypeVar("Asks", bound=Component)
BEAT = 0.25  # seconds between two pictures of progress
SHOWN = 40  # signs of a text that came in the place of something else
LONGEST = 600  # characters of a sentence
log = logging.getLogger("heads")


class Notice(gr.Error):
    """A sentence for a user that is ours, or was made safe to show; Gradio prints it nowhere."""

    def __init__(self, says: str, *, visible: bool = True) -> None:
        super().__init__(says, duration=8, visible=visible, print_exception=False)


# What JSON has and a signature asks for, to the letter: no number is made of a text.
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
KINDS: dict[Any, str] = {
    str: "a text", str | None: "a text", list[str]: "a list of texts",
    float: "a number", bool: "true or false",
}  # fmt: skip


CHECKS = {kind: TypeAdapter(kind, config=STRICT) for kind in KINDS}


def typed(endpoint: Handler) -> Handler:
    """Let an endpoint raise DataError for an argument that is not what its signature says."""
    signature, hints = inspect.signature(endpoint), get_type_hints(endpoint)
    kinds = {name: hints[name] for name in signature.parameters if hints[name] in KINDS}

    @functools.wraps(endpoint)
    def call(*inputs: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*inputs, **named)
        except TypeError:
            what = f"The arguments are {', '.join(kinds) or 'none'}, in this order."
            raise DataError(what, "Leave out only the last ones.") from None
        for name in filter(kinds.__contains__, given.arguments):
            given.arguments[name] = _check(name, given.arguments[name], kinds[name])
        return endpoint(*given.args, **given.kwargs)

    @functools.wraps(endpoint)
    def stream(*inputs: Any, **named: Any) -> Any:
        yield from call(*inputs, **named)

    return cast("Handler", stream if inspect.isgeneratorfunction(endpoint) else call)


def _check(name: str, value: Any, kind: Any) -> Any:
    """Return an argument if it is of its kind; raise DataError otherwise."""
    value = _recipes(value, kind) if name == "recipes" else value
    try:
        CHECKS[kind].validate_python(value)
    except ValidationError as error:
        raise _misfit(name, KINDS[kind], error) from None
    return value


def _recipes(value: Any, kind: Any) -> Any:
    """Recipes as a list or as one text, separated by spaces: every endpoint takes both.

    >>> _recipes("mean+linear, cls+linear", list[str]), _recipes(["mean+linear"], str)
    (['mean+linear', 'cls+linear'], 'mean+linear')
    """
    if kind is str and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    if kind == list[str] and isinstance(value, str):
        return [one.rstrip(",") for one in value.split()]
    return value


def _misfit(name: str, kind: str, error: ValidationError) -> DataError:
    """What to say of an argument that is of another kind."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f" (entry {one + 1})" for one in first["loc"] if isinstance(one, int))
    must = kind.replace("a list of texts", "a list of texts alone") if place else kind
    return DataError(f"{name} must be {must}, not {_kind(first['input'])}{place}.", "Change it.")


def _kind(value: Any) -> str:
    """What came in the place of something else, as JSON calls it.

    >>> _kind(None), _kind(float("nan")), _kind(["x"]), _kind("x" * 100)
    ('null', 'NaN', 'a list', "the text 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'")
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value if len(value) <= SHOWN else value[: SHOWN - 1] + '…'!r}"
    if isinstance(value, float):
        return f"the number {value}" if math.isfinite(value) else json.dumps(value)
    if isinstance(value, int):
        return f"the number {value}" if abs(value) < 10**SHOWN else "a number that long"
    return "a list" if isinstance(value, list | tuple) else "an object"


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
    extra = plugins.find_faulty_extra(error)
    fault = f"a fault of the extra '{extra}'" if extra else "our fault"
    return f"Something went wrong (code {code}). It is {fault}, not yours; please try again."


def failed(error: Exception) -> Markup:
    """The sentence of an error, in the place of what it was asked for."""
    return failure(sentence(error))


def clicked(event: gr.EventData) -> dict[str, str]:
    """Return the `data-` attributes or form fields of a click, which page.js sends as `fields`."""
    try:
        fields = dict(event.fields)
    except (AttributeError, TypeError, ValueError):  # of a program, which may send anything
        return {}
    return {str(name): str(value) for name, value in fields.items()}


def notice(error: Exception) -> Notice:
    """What a caller reads of any error."""
    if isinstance(error, Notice):
        return error
    if isinstance(error, gr.Error):  # Gradio's own, which may hold what somebody has sent
        return Notice(as_text(error.message))
    return Notice(plain(sentence(error)), visible=not isinstance(error, Interrupted))


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
    """Hands on whatever is typed or sent, so that the handler can say what is wrong.

    Gradio would answer a number out of range with the word "Error", and make a text of a list. Not
    for a component that is an output too: Gradio makes those anew.
    """
    component.preprocess = as_it_came
    return component


def as_it_came(payload: Any) -> Any:
    """What stands in the place of Gradio's own reading of an unchecked component."""
    return payload


def plain(text: str) -> str:
    """A text that a notice shows to the letter; notices would draw HTML, links and images.

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
    """A table as CSV; in public mode, where strangers wrote its texts, safe for a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    excel_safe = current_limits().public
    for row in (headers, *rows):
        writer.writerow([written_cell(cell, excel_safe=excel_safe) for cell in row])
    return "\ufeff" + file.getvalue()
