"""What of Gradio's insides is done otherwise here; imported before it.

**Importing it takes half the time** (seen in 6.31). At every import Gradio parses the source of
each of its components and writes a stub beside it, for editors. Nothing reads those stubs while the
page runs, so here they are left as they are. Nor does Python look for garbage meanwhile: of what an
import makes, nothing is.

**A session takes 14 kB and not 2 MB** (seen in 6.31). For each one Gradio writes down the
configuration of all components, which takes 0.1 s of the server's one loop, so that a deep link can
be made of it. This page has links of its own, and the route of deep links is closed. And of every
component that an event has changed, a session keeps a copy; those that are alike are one here:
who came before the menus were made is sent them, which would be 0.3 MB for each.

**On a Space only the page is served** (seen in 6.31, with the package `spaces`, which a Space's
builder installs). Gradio serves port 7887 there too, over which whoever reaches it can read and
replace this program's code, so that its developers see changes at once.

**What callers make up is not kept for ever** (seen in 6.31). Gradio keeps a note of every session
whose answers nobody reads, and of every upload whose progress nobody asks for, by names that
callers choose. A queue of ours forgets them, and refuses names that are none.

**Two equal files are two** (seen in 6.31). Gradio puts uploads of the same content into the same
place, where the first who reads his moves the other's away.

**MCP tools answer in JSON** (seen in 6.31). Gradio gives an agent the text of a Python object. And
a file that an agent has uploaded comes as its address on this server, which would be fetched: here
it is the file itself, and no other address is asked.

**Errors go to the log, and not to stderr** (seen in 6.31 with Uvicorn 0.54). Gradio prints the
traceback of what it did not foresee, and with it what a visitor has sent; Uvicorn brings a handler
of its own along. Both are logged here like everything else: see `heads.interfaces.logs`.
"""

import gc
import importlib
import json
import logging
import secrets
import sys
import traceback
import weakref
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

log = logging.getLogger("heads")
WRITES, NAME = "gradio.component_meta", "create_or_modify_pyi"
RELOADS = "watchfn_spaces"
MOST_UPLOADS = 1_000  # whose progress is known
# Components of sessions, by their number in the page and what they were made with.
Copies = weakref.WeakValueDictionary[tuple[int, str], Any]


class Finder:
    """Finds the one module that writes stubs, and leaves its writer without work."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as it is, but for that function; of any other nothing is known here."""
        spec = PathFinder.find_spec(name, path, target) if name == WRITES else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def without_stubs(module: ModuleType) -> None:
            run(module)
            if hasattr(module, NAME):
                setattr(module, NAME, lambda *_: None)

        spec.loader.exec_module = without_stubs
        return spec


def settle() -> None:
    """Ends what this module began: from here on there is garbage, but not among the imported."""
    _spare_sessions()
    _forget_names()
    _serve_only_the_page()
    _tell_agents()
    _log_errors()
    gc.freeze()
    gc.enable()


def _serve_only_the_page() -> None:
    """Leaves the thread that would serve another port without work."""
    server = importlib.import_module("gradio.http_server")
    if hasattr(server, RELOADS):
        setattr(server, RELOADS, lambda reloader: None)


def _spare_sessions() -> None:
    """Lets sessions keep no configurations of components."""
    from gradio import route_utils, state_holder
    from gradio.components import Component

    copies: Copies = weakref.WeakValueDictionary()

    class Session(state_holder.SessionState):
        def __init__(self, blocks: Any) -> None:
            # Of these components, none, the configurations are written down.
            none: Any = SimpleNamespace(default_config=blocks.default_config, blocks={})
            super().__init__(none)

        def __setitem__(self, key: int, value: Any) -> None:
            if isinstance(value, Component) and value is not self.blocks_config.blocks.get(key):
                value = copies.setdefault((key, repr(value.constructor_args)), value)
            super().__setitem__(key, value)
            self.config_values.pop(key, None)

        def _update_config(self, key: int) -> None: ...

        def _update_value_in_config(self, key: int, value: Any) -> None: ...

    for module in (state_holder, route_utils):
        setattr(module, "SessionState", Session)  # noqa: B010


def _forget_names() -> None:
    """Lets Gradio's notes of calls and uploads have an end."""
    from gradio import queueing, route_utils, routes

    from heads.interfaces.web.call_queue import CallQueue

    class UploadProgress(route_utils.FileUploadProgress):
        def track(self, upload_id: str) -> None:
            super().track(upload_id)
            while len(self._statuses) > MOST_UPLOADS:
                self.stop_tracking(next(iter(self._statuses)))

        def stop_tracking(self, upload_id: str) -> None:
            super().stop_tracking(upload_id)
            self._signals.pop(upload_id, None)

        async def is_tracked(self, upload_id: str) -> bool:
            try:
                return await super().is_tracked(upload_id)
            finally:
                self._signals.pop(upload_id, None)

    class Upload(route_utils.GradioUploadFile):
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*args, **given)
            self.sha.update(secrets.token_bytes(16))  # of which its folder has the name

    setattr(queueing, "Queue", CallQueue)  # noqa: B010
    setattr(routes, "file_upload_statuses", UploadProgress())  # noqa: B010
    setattr(route_utils, "GradioUploadFile", Upload)  # noqa: B010


def _tell_agents() -> None:
    """Lets MCP tools answer in JSON, and take files that lie here already."""
    from gradio import mcp
    from gradio_client.utils import is_file_obj_with_meta

    from heads.interfaces.web.uploads import file_of

    class Tools(mcp.GradioMCPServer):
        def convert_strings_to_filedata(self, value: Any, filedata_positions: Any) -> Any:
            names = {place[0] for place in filedata_positions if len(place) == 1}
            sent = {
                name: file_of(name, own) if name in names and isinstance(own, str) else own
                for name, own in value.items()
            }
            return super().convert_strings_to_filedata(sent, filedata_positions)

        def postprocess_output_data(self, data: Any, root_url: str) -> Any:
            if len(data) == 1 and isinstance(data[0], tuple):  # several answers come as one
                (data,) = data
            told = [
                json.dumps(one, ensure_ascii=False)
                if isinstance(one, dict | list) and not is_file_obj_with_meta(one)
                else one
                for one in data
            ]
            return super().postprocess_output_data(told, root_url)

    setattr(mcp, "GradioMCPServer", Tools)  # noqa: B010


class Logged(ModuleType):
    """The module `traceback`, which logs what it should print."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *_: Any, **__: Any) -> None:
        """Logs the error that is handled right now."""
        log.error("Gradio did not foresee an error", exc_info=True)


def _log_errors() -> None:
    """Has Gradio and its server log what they would print."""
    from gradio import queueing, route_utils, routes, utils
    from uvicorn.config import LOGGING_CONFIG

    for module in (queueing, route_utils, routes, utils):
        setattr(module, "traceback", Logged("traceback"))  # noqa: B010
    LOGGING_CONFIG |= {"handlers": {}, "loggers": {"uvicorn.access": {"propagate": False}}}


if WRITES not in sys.modules:
    sys.meta_path.insert(0, Finder())
gc.disable()
