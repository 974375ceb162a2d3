"""What surrounds a handler: a slot in which it computes, an end, and a sentence for its errors.

The middleware makes a `Call` of every request that asks for a handler and puts it into the state of
the request, where Gradio's `gr.Request` shows it. A handler is wrapped in a coroutine, so whoever
waits for a slot takes no thread.
"""

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import gradio as gr
from anyio.to_thread import run_sync

from heads.errors import LimitError
from heads.interfaces.web.guards import Notice, as_it_came, notice, plain
from heads.interfaces.web.slots import Slots
from heads.interfaces.web.visitors import Visitors
from heads.interruption import interruptible
from heads.settings import current_limits

OWN_WORDS = "An argument of this call is of another kind than it takes. In this order: {}."
END = object()
_tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds tasks weakly


@dataclass(kw_only=True, eq=False)
class Call:
    """A call of a handler, from its post to its last step."""

    address: str  # where it came from
    since: float  # when it was posted, by the visitors' clock
    visitors: Visitors  # who read answers
    event: str = ""  # its id in Gradio's queue, once that is known
    session: str = ""  # of its page
    slots: Slots | None = None  # that it computes in; None if it only waits
    _spent: float = 0.0  # seconds in slots
    _entered: float = 0.0  # when it got its slot
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def check(self) -> None:
        """Raise Interrupted if nobody waits for the call, or LimitError if it takes too long."""
        self.visitors.check(self.event, self.session, self.since)
        seconds = current_limits().call_seconds
        spent = self._spent + (time.monotonic() - self._entered if self._entered else 0.0)
        if self.slots and seconds and spent > seconds:
            what = f"This takes longer than the {seconds} seconds that one call may compute."
            raise LimitError(what, "Ask for less at a time, or use the app on your own machine.")

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Give the slot to others while the handler only waits. Called in the handler's thread."""
        self._loop.call_soon_threadsafe(self.leave)
        try:
            yield
        finally:
            if not self._loop.is_closed():  # the server has ended meanwhile
                asyncio.run_coroutine_threadsafe(self.enter(forced=True), self._loop).result()

    async def enter(self, *, forced: bool = False) -> None:
        """Wait for a slot; where it is forced, whether or not anybody waits for the call."""
        if self.slots:
            await self.slots.acquire(self._key, (lambda: None) if forced else self.check)
        self._entered = time.monotonic()

    def leave(self) -> None:
        """Give the slot back, if the call has one."""
        if not self._entered:
            return
        self._spent += time.monotonic() - self._entered
        self._entered = 0.0
        if self.slots:
            self.slots.release(self._key)

    @property
    def _key(self) -> str:
        """Return whose turn it is: an address's, or a page's where the order of calls counts."""
        return self.session if self.slots and self.slots.is_ordered else self.address


def wrap_handler(
    handler: Callable[..., Any], components: list[Any], slots: Slots | None
) -> Callable[..., Any]:
    """Return a coroutine function, or an async generator, that calls a handler in a thread."""

    def prepare(request: gr.Request, given: tuple[Any, ...]) -> tuple[Call | None, list[Any]]:
        call = getattr(request.state, "call", None)  # None for what passes the queue by
        if call:
            call.session, call.slots = request.session_hash or "", slots
        return call, _fit_all(handler, components, given)

    async def answer(caller: gr.Request, /, *given: Any) -> Any:
        with _said():
            call, arguments = prepare(caller, given)
            step = _compute(call, functools.partial(handler, *arguments))
            return await _await_step(asyncio.create_task(step))

    async def stream(caller: gr.Request, /, *given: Any) -> AsyncIterator[Any]:
        with _said():
            call, arguments = prepare(caller, given)
            steps, task = handler(*arguments), None
            try:
                while True:
                    task = asyncio.create_task(_compute(call, functools.partial(next, steps, END)))
                    if (value := await _await_step(task)) is END:
                        return
                    yield value
            finally:
                end = asyncio.create_task(_close(steps, task))
                _tasks.add(end)
                end.add_done_callback(_tasks.discard)

    return _with_request(stream if inspect.isgeneratorfunction(handler) else answer, handler)


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Within it, whatever fails is said in a sentence."""
    try:
        yield
    except Exception as error:
        raise notice(error) from None


def _with_request(wrapper: Any, handler: Callable[..., Any]) -> Callable[..., Any]:
    """Give a wrapper the name and signature of a handler, with a `gr.Request` before it."""
    functools.update_wrapper(wrapper, handler)
    signature = inspect.signature(handler)
    first = inspect.Parameter("caller", inspect.Parameter.POSITIONAL_ONLY, annotation=gr.Request)
    wrapper.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    annotations = getattr(handler, "__annotations__", {})
    wrapper.__annotations__ = {"caller": gr.Request, **annotations}
    return wrapper


async def _compute(call: Call | None, step: Callable[[], Any]) -> Any:
    """Run one step of a call in a thread, once it has a slot."""
    if call is None:
        return await run_sync(step)
    await call.enter()
    try:
        with interruptible(call.check, call.outside, call.address):
            call.check()
            return await run_sync(step)
    finally:
        call.leave()


async def _await_step(task: "asyncio.Task[Any]") -> Any:
    """Wait for a step; if its call is cancelled, let it go on to its end, which comes soon."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise


async def _close(steps: Generator[Any, None, None], task: "asyncio.Task[Any] | None") -> None:
    """Close a generator after its last step; its end may take seconds, so in a thread."""
    if task:
        await asyncio.wait([task])
    with contextlib.suppress(Exception):
        await run_sync(steps.close)


def _fit_all(handler: Callable[..., Any], components: list[Any], given: Any) -> list[Any]:
    """Return the arguments of a handler, or raise Notice if one is of another kind."""
    left = iter(components)
    try:
        return [
            value
            if isinstance(value, gr.Request | gr.EventData)
            else fit(next(left), _whole(value))
            for value in given
        ]
    except TypeError:
        found = inspect.signature(handler).parameters.values()
        names = [one.name for one in found if one.annotation not in (gr.Request, gr.EventData)]
        raise Notice(plain(OWN_WORDS.format(", ".join(names[: len(components)])))) from None


def fit(component: Any, value: Any) -> Any:
    """Return the value of a component; raise TypeError if it is of another kind.

    Gradio checks most values; it lets through what another version of the page has stored in the
    browser, and lists and numbers where a menu takes texts.
    """
    if component.preprocess is as_it_came:
        return value
    if isinstance(component, gr.BrowserState):
        default = component.default_value
        return value if isinstance(value, type(default)) else default
    if isinstance(component, gr.Dropdown) and not component.multiselect:
        is_free = component.allow_custom_value  # then Gradio checks nothing
        if isinstance(value, list | dict) or (is_free and not isinstance(value, str | NoneType)):
            raise TypeError
    if not isinstance(component, gr.Textbox | gr.HTML):
        return value
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value or ""


def _whole(value: Any) -> Any:
    """Return a value without halves of letters (lone surrogates), which no answer can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(one) for name, one in value.items()}
    return value
