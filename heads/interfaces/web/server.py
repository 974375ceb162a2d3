"""The page as a server: each of its calls has an address, a slot, an end, and a sentence."""

import asyncio
import contextlib
import ctypes
import inspect
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr
from anyio.to_thread import current_default_thread_limiter

from heads.data.table import short
from heads.errors import LimitError
from heads.interfaces.web.call_queue import CallQueue
from heads.interfaces.web.guards import Notice, as_it_came, notice, plain
from heads.interfaces.web.janitor import Room
from heads.interfaces.web.middleware import Gate
from heads.interfaces.web.slots import Slots, pools
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.uploads import check_sent
from heads.interfaces.web.visitors import Visitors, address_of
from heads.interruption import interruptible
from heads.settings import limits, prepare_server

THREADS = 512  # most wait, for a training or a download; more than `Limits.calls_pending`
# What Gradio says of a value that a component does not offer.
NOT_AMONG = re.compile(
    r"Value: (.*?)(?: \(type: [^)]*\))? is not in the list of choices: (.*)", re.DOTALL
)
FORGETS = 10.0  # seconds between two looks at what nobody reads
log = logging.getLogger("heads")


@dataclass(kw_only=True, eq=False)
class Call:
    """A call that came through Gradio's queue, from its first step to its last.

    Attributes:
        address: From where.
        event: Its id.
        session: That of its page.
        since: When it was posted, by the visitors' clock.
        slots: Those that it computes in; none, if it only waits.
        visitors: Who reads answers.
        seconds: How long it may compute; 0 without end.
    """

    address: str
    event: str
    session: str
    since: float
    slots: Slots | None
    visitors: Visitors
    seconds: int
    _spent: float = 0.0
    _entered: float = 0.0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def check(self) -> None:
        """Raise Interrupted if nobody waits for the call, or LimitError if it takes too long."""
        self.visitors.check(self.event, self.session, self.since)
        spent = self._spent + (time.monotonic() - self._entered if self._entered else 0.0)
        if self.slots and self.seconds and spent > self.seconds:
            what = f"This takes longer than the {self.seconds} seconds that one call may compute."
            raise LimitError(what, "Ask for less at a time, or use the app on your own machine.")

    @contextlib.asynccontextmanager
    async def computing(self) -> AsyncIterator[None]:
        """Within it, it holds a slot."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Within it, it only waits: its slot is somebody else's. From another thread."""
        self._loop.call_soon_threadsafe(self._leave)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._enter(forced=True), self._loop).result()

    async def _enter(self, *, forced: bool = False) -> None:
        if self.slots:
            await self.slots.acquire(self._key, (lambda: None) if forced else self.check)
        self._entered = time.monotonic()

    def _leave(self) -> None:
        if not self._entered:
            return
        self._spent += time.monotonic() - self._entered
        self._entered = 0.0
        if self.slots:
            self.slots.release(self._key)

    @property
    def _key(self) -> str:
        """Whose turn it is: an address's, or, where the order of calls counts, a page's."""
        return self.session if self.slots and self.slots.is_ordered else self.address


def _return_memory() -> None:
    """Return freed memory to the system; glibc keeps what large files and models have taken."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


class Page(gr.Blocks):
    """The page, with all that stands between its handlers and whoever calls them.

    Attributes:
        opening: What it shows before anybody asks; it begins to load when the page is launched.
        visitors: Who reads answers.
        room: The folder of uploads, and who fills it.
    """

    opening: Opening
    room: Room

    def __init__(self, **settings: Any) -> None:
        prepare_server()
        super().__init__(**settings)
        self.visitors, self._pools, self.room = Visitors(), pools(), Room()
        self._calls: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()
        self._steps: dict[asyncio.Task[Any], Call] = {}
        self._has_computed = False  # since memory was returned

    def queue(self, *args: Any, **settings: Any) -> Any:
        """As in Gradio, which calls it at once; a second call would build the server twice."""
        # Not open: what is called past the queue has no slot, no reader and no limits.
        usual: dict[str, Any] = {"default_concurrency_limit": None, "api_open": False}
        return super().queue(*args, **{**usual, **settings})

    def launch(self, *args: Any, **settings: Any) -> Any:
        """As in Gradio, behind the gate; what the page lacks yet is made behind it."""
        self.opening.begin(self)
        for handler in self.fns.values():
            if handler.api_visibility != "public":  # the page calls it by number
                handler.api_name = f"private/{handler._id}"  # no route has such a name
        usual: dict[str, Any] = {
            "app_kwargs": {"lifespan": self._guarded},
            "max_threads": THREADS,
            "state_session_capacity": limits().sessions,
            "max_file_size": limits().upload_bytes,
            "_frontend": False,  # does not ask itself for the page, as if no proxy stood between
        }
        return super().launch(*args, **{**usual, **settings})

    @contextlib.asynccontextmanager
    async def _guarded(self, app: Any) -> AsyncIterator[None]:
        """Puts the gate around the server as it starts: by then Gradio has built all its own."""
        app.middleware_stack = Gate(
            app=app.middleware_stack, visitors=self.visitors, room=self.room,
            under_way=self._under_way,
        )  # fmt: skip
        # What Gradio does in threads beside the handlers must not wait for those that wait.
        current_default_thread_limiter().total_tokens = THREADS
        works = (self.visitors.keep_time(), self._forget())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _forget(self) -> None:
        """Forgets calls that nobody reads, again and again."""
        while True:
            await asyncio.sleep(FORGETS)
            self._call_queue.forget(self.visitors)
            self._call_queue.end_heartbeats(self.visitors)
            if self._has_computed:
                self._has_computed = False
                await asyncio.to_thread(_return_memory)

    def _under_way(self) -> "Counter[str]":
        """How many calls of each address are under way, those too that were cancelled meanwhile."""
        known = self._call_queue.event_ids_to_events
        gone = {
            call.event: call.address for call in self._steps.values() if call.event not in known
        }
        return self._call_queue.under_way() + Counter(gone.values())

    @property
    def _call_queue(self) -> CallQueue:
        queue: Any = self._queue  # see gradio_patches
        return queue

    async def process_api(self, block_fn: Any, inputs: Any, *args: Any, **given: Any) -> Any:
        """One step of a call, as in Gradio: in its slot, and with a sentence for whatever fails."""
        event = self._queue.event_ids_to_events.get(given.get("event_id") or "")
        if not block_fn.fn:
            raise Notice("This is done in the browser: the server has nothing to call.")
        try:
            if event is None:
                return await super().process_api(block_fn, inputs, *args, **given)
            call = self._calls.get(event) or self._new(event)
            step = super().process_api(block_fn, inputs, *args, **given)
            # Gradio cancels the task of a call, and no thread ends by that: the step goes on to
            # its end, which comes soon, and has its slot until then.
            task = asyncio.create_task(_computed(call, step))
            self._steps[task] = call
            task.add_done_callback(self._is_over)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                task.add_done_callback(partial(self._drop, call, given.get("iterator")))
                raise
        except Exception as error:
            raise notice(error) from None

    def _drop(self, call: Call, iterator: Any, step: "asyncio.Task[Any]") -> None:
        """Drops what a step leaves that ended after its call was cancelled: Gradio has by then."""
        if iterator is None and not step.cancelled() and not step.exception():
            iterator = step.result().get("iterator")
        self._drop_run_streams(call.session, iterator)
        if (generator := getattr(iterator, "iterator", None)) is not None:
            # Its end may take seconds: not on the server's loop.
            asyncio.get_running_loop().run_in_executor(None, _close, generator)

    def _is_over(self, step: "asyncio.Task[Any]") -> None:
        self._steps.pop(step, None)
        self._has_computed = True
        if not step.cancelled():
            step.exception()  # looked at, also where nobody waits for it any more

    def _new(self, event: Any) -> Call:
        self._calls[event] = call = Call(
            address=address_of(event.request.client), event=event._id, session=event.session_hash,
            since=self.visitors.now, slots=self._pools.get(event.concurrency_id),
            visitors=self.visitors, seconds=limits().call_seconds,
        )  # fmt: skip
        return call

    async def preprocess_data(
        self, block_fn: Any, inputs: Any, state: Any, explicit_call: bool = False
    ) -> Any:
        """As in Gradio; what does not fit is said in a sentence that names what does."""
        check_sent(inputs)
        try:
            whole = _whole(_with_defaults(block_fn, inputs))
            given = await super().preprocess_data(block_fn, whole, state, explicit_call)
            return [_fitting(one, value) for one, value in zip(block_fn.inputs, given, strict=True)]
        except gr.Error as error:
            if isinstance(said := error.message, str) and (odd := NOT_AMONG.match(said)):
                what = f"{short(odd[1])} is none of the choices, which are {short(odd[2], 200)}."
                raise Notice(plain(what)) from None
            raise
        except Exception as error:  # Gradio's components raise whatever comes of a wrong kind
            log.info("arguments of another kind", exc_info=error)
            raise Notice(plain(_wrong_arguments(block_fn, inputs))) from None


async def _computed(call: Call, step: Coroutine[Any, Any, Any]) -> Any:
    """A step of a call, once it has a slot."""
    with contextlib.closing(step):
        async with call.computing():
            with interruptible(call.check, call.outside, call.address):
                call.check()
                return await step


def _close(generator: Any) -> None:
    with contextlib.suppress(Exception):  # one that is closed already, or what its end raises
        generator.close()


def _whole(value: Any) -> Any:
    """A value without halves of letters, which no answer can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(one) for name, one in value.items()}
    return value


def _with_defaults(block_fn: Any, inputs: Any) -> Any:
    """Append the defaults of arguments that were left out at the end, as a call by curl may."""
    if not (isinstance(inputs, list) and block_fn.api_visibility == "public"):
        return inputs
    left_out = [getattr(one, "value", None) for one in block_fn.inputs[len(inputs) :]]
    return inputs if None in left_out else [*inputs, *left_out]


def _fitting(component: Any, value: Any) -> Any:
    """Return the value of a component; raise TypeError if it is of another kind."""
    if component.preprocess is as_it_came:
        return value
    if isinstance(component, gr.BrowserState):  # of another version of this page, perhaps
        default = component.default_value
        return value if isinstance(value, type(default)) else default
    if isinstance(component, gr.Dropdown) and not component.multiselect:
        is_free = component.allow_custom_value  # then Gradio looks at nothing
        if isinstance(value, list | dict) or (is_free and not isinstance(value, str | NoneType)):
            raise TypeError
    if not isinstance(component, gr.Textbox | gr.HTML):
        return value
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value or ""


def _wrong_arguments(block_fn: Any, inputs: Any) -> str:
    """What to say of arguments that Gradio does not take."""
    found = inspect.signature(block_fn.fn).parameters.values()
    names = [one.name for one in found if one.annotation not in (gr.Request, gr.EventData)]
    names = names[: len(block_fn.inputs)]
    given = len(inputs) if isinstance(inputs, list) else 0
    files = [isinstance(one, gr.File) for one in block_fn.inputs]
    paths = [name for name, is_file, value in zip(names, files, inputs or (), strict=False)
             if is_file and isinstance(value, str)]  # fmt: skip
    if paths and given == len(block_fn.inputs):
        return (
            f"{paths[0]} must be a file that is sent, not a path. "
            f'In Python: {paths[0]}=gradio_client.handle_file("my.csv").'
        )
    if given != len(block_fn.inputs):
        what = f"This call takes {len(block_fn.inputs)} arguments and got {given}."
    else:
        what = "An argument of this call is of another kind than it takes."
    return f"{what} In this order: {', '.join(names) or 'none'}."
