"""The uses of Gradio's internals, all of them; imported before Gradio.

The rest of the package uses what Gradio documents. Each function here says what breaks without it,
and tests/interfaces/web/test_gradio_internals.py fails once one of them is not needed any more. All
are needed with Gradio 6.28 to 6.31.
"""

import gc
import json
import sys
import weakref
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

WRITES, NAME = "gradio.component_meta", "create_or_modify_pyi"
# Components of sessions, by their number in the page and the arguments that made them.
Copies = weakref.WeakValueDictionary[tuple[int, str], Any]


# --- While Gradio is imported.


class StubSkipper:
    """Finds the module that writes stubs, and replaces its writer with nothing.

    At every import Gradio parses the source of each of its components and writes a stub beside it,
    for editors. Without this, importing Gradio takes twice as long.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module that writes stubs, or None for any other module."""
        spec = PathFinder.find_spec(name, path, target) if name == WRITES else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_without_stubs(module: ModuleType) -> None:
            run(module)
            if hasattr(module, NAME):
                setattr(module, NAME, lambda *_: None)

        spec.loader.exec_module = run_without_stubs
        return spec


def patch_gradio() -> None:
    """Apply the patches that must be in place before a page is built."""
    _share_sessions()
    _answer_agents()
    gc.freeze()  # of what an import makes, nothing is garbage
    gc.enable()


def _share_sessions() -> None:
    """Let sessions keep no configurations of components, and share equal components.

    Without this each session takes 2 MB and 0.1 s of the server's event loop: Gradio writes down
    the configuration of all components, for deep links, which this page does not have.
    """
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


def _answer_agents() -> None:
    """Let MCP tools answer in JSON, and take files that were uploaded here.

    Without this an agent gets the text of a Python object, and the server fetches the address that
    an agent gives for a file.
    """
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
            texts = [
                json.dumps(answer, ensure_ascii=False)
                if isinstance(answer, dict | list) and not is_file_obj_with_meta(answer)
                else answer
                for answer in data
            ]
            return super().postprocess_output_data(texts, root_url)

    setattr(mcp, "GradioMCPServer", Tools)  # noqa: B010


# --- A page, between its building and its serving.


def wrap_handlers(page: Any, wrap: Callable[[Callable[..., Any], list[Any], str], Any]) -> None:
    """Replace every handler of a page with what `wrap` makes of it.

    Gradio has no public list of handlers. Without this each of some 90 events would have to name
    the wrapper itself, and one that forgets it would have no slot and no end.

    Args:
        wrap: Takes a handler, the components of its inputs and the name of its slots.
    """
    for event in page.fns.values():
        if event.fn:
            event.fn = wrap(event.fn, event.inputs, event.concurrency_id)


def raise_limits(page: Any, *, threads: int, sessions: int) -> None:
    """Set limits that `launch` takes as arguments and `mount_gradio_app` does not.

    Without this 40 calls run or wait for a slot at once, and all others behind them, whoever asked;
    and 10,000 sessions are remembered.
    """
    page.max_threads = threads  # read by `queue`, which is called after this
    page.state_session_capacity = sessions


def tell_address(page: Any, url: str) -> None:
    """Tell the MCP server its own address, as `launch` does and `mount_gradio_app` does not.

    Without this it calls itself by the Host header of a request, which a caller chooses.
    """
    if (tools := page.mcp_server_obj) is not None:
        tools._local_url = url


class NoNotes(set[str]):
    """A set that stays empty."""

    def add(self, path: str, /) -> None:
        """Add nothing."""

    def update(self, *paths: Any) -> None:
        """Add nothing."""


def keep_no_file_notes(page: Any) -> None:
    """Let nothing of a finished page note the paths of files, which Gradio never forgets."""
    nothing = NoNotes()
    page.upload_file_set, page.temp_file_sets = nothing, [nothing]
    for block in page.blocks.values():
        block.temp_files = nothing


# --- A page that is served.


def set_initial_value(component: Any, value: Any) -> None:
    """Make a value, or a change (`gr.update`), what a component of a served page begins with.

    Without this visitors get the examples, which are computed after the page is served, by one more
    call to the server instead of with the page itself.
    """
    is_change = isinstance(value, dict) and "__type__" in value
    change = {k: v for k, v in value.items() if k != "__type__"} if is_change else {"value": value}
    made = type(component)(**{**component.constructor_args, **change, "render": False})
    for name in change:
        setattr(component, name, getattr(made, name))
    component.constructor_args.update(change)


def renew_config(page: Any) -> None:
    """Write the configuration of a served page again, after `set_initial_value`."""
    page.config = page.get_config_file()


if WRITES not in sys.modules:
    sys.meta_path.insert(0, StubSkipper())
gc.disable()
