"""What the page shows before anybody asks: examples and menus, made behind the first page.

Importing torch and reading the base model takes longer than one should wait for a page. So the
page is served without them, and a thread loads them right after. Who came before it was done gets
examples and menus by an event; who comes later finds them in the page itself.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from heads import interruption
from heads.interfaces.web.gradio_internals import renew_config, set_initial_value
from heads.interfaces.web.slots import QUIET

PAUSE = 0.3  # seconds that the first page has for itself
BEAT = 0.1  # seconds between two looks at how far it is
SAYS = "The base model is being loaded; in a moment an example stands here"
# Many may wait at once: they only wait.
WAITS: dict[str, Any] = {"concurrency_id": "opening", "concurrency_limit": None}
log = logging.getLogger("heads")


@dataclass(kw_only=True, slots=True)
class Filling:
    """Components, what makes their values, and the values once they are made."""

    outputs: list[Any]
    make: Callable[[], list[Any]]
    is_sent: bool
    values: list[Any] = field(default_factory=list)

    def fill(self) -> None:
        """Make the values and put them into the page that is served from now on."""
        try:
            self.values = self.make()
            for component, value in zip(self.outputs, self.values, strict=True):
                set_initial_value(component, value)
        except Exception as error:  # one tab without its example is no reason for none
            log.error("the page opens without an example", exc_info=error)
            self.values = [gr.skip()] * len(self.outputs)

    def sent(self) -> list[Any]:
        """The values for one visitor: Gradio takes changes apart as it sends them."""
        return [dict(value) if isinstance(value, dict) else value for value in self.values]


class Opening:
    """All that is filled in later."""

    def __init__(self) -> None:
        # Tells in the browser whether the page came with everything in it.
        self.arrived = gr.Textbox("", visible=False)
        self._fillings: list[Filling] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    def fills(
        self, outputs: list[Any], make: Callable[[], list[Any]], *, is_sent: bool = True
    ) -> Filling:
        """Note components to fill once the base model can be asked, and whether to send them."""
        filling = Filling(outputs=outputs, make=make, is_sent=is_sent)
        self._fillings.append(filling)
        return filling

    def begin(self, page: gr.Blocks) -> None:
        """Begin once, as soon as the page is served."""
        with self._lock:
            if self._thread is None:
                # No daemon: one that is ended within torch takes the whole process with it, loudly.
                self._thread = threading.Thread(target=self._work, args=(page,), name="opening")
                self._thread.start()

    def wait(self, page: gr.Blocks) -> None:
        """Wait until everything is made."""
        self.begin(page)
        if not self._done.is_set():
            with interruption.outside():
                while not self._done.wait(BEAT):
                    interruption.check()

    def wire(self, page: gr.Blocks) -> None:
        """Send what was filled in to those who came before it was."""
        sent = [filling for filling in self._fillings if filling.is_sent]
        outputs = [component for filling in sent for component in filling.outputs]

        def send(arrived: str) -> list[Any]:
            if arrived:
                return [gr.skip()] * len(outputs)
            self.wait(page)
            return [value for filling in sent for value in filling.sent()]

        page.load(send, self.arrived, outputs, **QUIET, **WAITS)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody may still look: at its end, the process waits for this to stop."""
        return threading.main_thread().is_alive()

    def _work(self, page: gr.Blocks) -> None:
        try:
            time.sleep(PAUSE)
            for filling in self._fillings:
                if not self.is_wanted:
                    return
                filling.fill()
            set_initial_value(self.arrived, "yes")
            renew_config(page)
        except Exception as error:  # visitors get by an event what the page then lacks
            log.error("the page stays without its examples", exc_info=error)
        finally:
            self._done.set()  # nobody waits for ever
