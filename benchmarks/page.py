"""What a visitor waits for, each against its floor; ``python -m benchmarks.page``.

The first page against one of Gradio with nothing on it, a comparison of four recipes against the
base model's forward pass alone, and the page in Chromium. Each is measured in turn with its floor.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.reports import Row
from benchmarks.timing import Work, fresh_cache, time_in_turn

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXT = "The new battery lasts two days, and the old one never did."
STARTS, ROUNDS, VISITS = 5, 100, 8
KEYS = [f" {word}" for word in TEXT.split()]
WAIT = 120.0  # seconds for a page
EMPTY = (
    "import gradio as gr\nwith gr.Blocks() as page:\n    gr.Markdown('')\npage.launch(quiet=True)"
)
OURS = "from heads.interfaces.web.app import build\npage = build()\npage.launch()\npage.wait()"
WITH_EXAMPLE = " held-out texts ("  # in the score of a head of the example
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
USABLE = "document.querySelector('#sentence textarea')?.value"
LANES = "document.querySelectorAll('#lanes .answer strong').length >= 4"


def main() -> list[Row]:
    """All of it; a first start trains the heads, which the later ones find."""
    rows = [*shell(), *first_page(), *comparison()]
    with served(OURS) as (url, _):
        reached(url, WITH_EXAMPLE)
        return [*rows, *over_http(url), *in_chromium(url)]


def in_turn(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each work in each round."""
    seconds = time_in_turn(works, rounds)
    return {name: [1000 * one for one in own] for name, own in seconds.items()}


def row(what: str, times: Sequence[float], against: str = "", floor: Sequence[float] = ()) -> Row:
    """What was measured, and how many times as fast it is as its floor in the same rounds."""
    ratios = [other / one for one, other in zip(times, floor, strict=True)] if floor else []
    p95 = statistics.quantiles(times, n=20)[-1]
    return Row(
        what=what,
        ours=statistics.median(times),
        against=against,
        peer=statistics.median(floor) if floor else None,
        ratio=statistics.median(ratios) if ratios else None,
        spread=(min(ratios or times), max(ratios or times)),
        unit="ms",
        rounds=len(times),
        note=f"95 % are below {p95:,.0f} ms." if p95 >= 100 else f"95 % are below {p95:.1f} ms.",
    )


def shell() -> list[Row]:
    """What importing costs, over an interpreter that does nothing."""

    def start(code: str) -> Work:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    found = in_turn({"ours": start("import heads"), "floor": start("pass")}, 15)
    return [row("import heads", found["ours"], "python, doing nothing", found["floor"])]


@contextmanager
def served(code: str) -> Iterator[tuple[str, float]]:
    """A process that serves a page, and when it was begun."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, env={**os.environ, **address}
    )
    try:
        yield f"http://127.0.0.1:{port}/", begun
    finally:
        process.terminate()
        process.wait()


def reached(url: str, text: str = "") -> float:
    """When the page was first there, with a text in it.

    Raises:
        TimeoutError: It did not come.
    """
    end = time.perf_counter() + WAIT
    while time.perf_counter() < end:
        try:
            with urllib.request.urlopen(url, timeout=WAIT) as answer:
                if text in answer.read().decode():
                    return time.perf_counter()
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.3 if text else 0.01)  # a page that is asked for all the time loads nothing
    raise TimeoutError(f"{url} did not come within {WAIT:.0f} seconds")


def first_page() -> list[Row]:
    """From the start of a process to the first page, and to the page with its example."""
    pages: dict[str, list[float]] = {EMPTY: [], OURS: []}
    examples: list[float] = []
    for number in range(STARTS + 1):
        for code in (EMPTY, OURS)[:: -1 if number % 2 else 1]:
            with served(code) as (url, begun):
                pages[code].append((reached(url) - begun) * 1000)
                if code == OURS:
                    examples.append((reached(url, WITH_EXAMPLE) - begun) * 1000)
    very_first = row("the page with its example, heads trained on the way", examples[:1] * 2)
    empty = "an empty page of Gradio"
    return [
        row("first page after start", pages[OURS][1:], empty, pages[EMPTY][1:]),
        row("the page with its example in it", examples[1:], empty, pages[EMPTY][1:]),
        very_first,
    ]


def comparison() -> list[Row]:
    """A warm sentence through four recipes on the server: our function, and the page's handler."""
    from dataclasses import replace

    import heads
    from heads.backbone.loading import load
    from heads.interfaces.web.location import OPENING
    from heads.interfaces.web.places.answers import PendingQuestion, answering

    backbone = load()
    encoded, question = backbone.encode([TEXT]), replace(OPENING, text=TEXT)
    works: dict[str, Work] = {
        "floor": lambda: backbone.states(encoded),
        "compare": lambda: heads.compare(TEXT),
        "handler": lambda: list(answering(PendingQuestion(asked=question))),
    }
    found = in_turn(works, ROUNDS)
    alone = "the base model's forward pass alone"
    return [
        row("heads.compare, four recipes, warm", found["compare"], alone, found["floor"]),
        row("the same for the page, drawn", found["handler"], alone, found["floor"]),
    ]


def over_http(url: str) -> list[Row]:
    """The same through Gradio's Python client, over an endpoint that computes nothing."""
    from gradio_client import Client

    client = Client(url, verbose=False)
    works: dict[str, Work] = {
        "floor": lambda: client.predict(api_name="/parts"),
        "compare": lambda: client.predict(TEXT, api_name="/compare"),
    }
    found = in_turn(works, 30)
    nothing = "an endpoint that computes nothing"
    return [row("Python client, four recipes", found["compare"], nothing, found["floor"])]


SHIFTS = """new PerformanceObserver((list) => { for (const one of list.getEntries())
  if (!one.hadRecentInput) window.shifted = (window.shifted || 0) + one.value;
}).observe({ type: "layout-shift", buffered: true })"""
# From a keystroke to the moment at which the lanes are drawn anew.
LISTEN = """() => { const lanes = document.querySelector("#lanes");
  window.answered = 0;
  document.querySelector("#sentence textarea").addEventListener(
    "input", () => { window.typed = performance.now(); }, { once: true });
  const seen = new MutationObserver(() => {
    window.answered = performance.now() - window.typed; seen.disconnect(); });
  seen.observe(lanes, { childList: true, subtree: true, characterData: true }); }"""


def in_chromium(url: str) -> list[Row]:
    """How soon the page can be used, with a fresh profile and a warm server."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chrome = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chrome is None:
        print("no Chromium: the page was not measured in a browser")
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chrome, args=FLAGS)

        def visit(ready: str) -> None:
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(url, wait_until="commit")
            tab.wait_for_function(ready)
            context.close()

        works: dict[str, Work] = {
            "the page is usable in Chromium": lambda: visit(USABLE),
            "the page with four answers": lambda: visit(LANES),
        }
        found = in_turn(works, VISITS)
        tab = browser.new_page()
        tab.add_init_script(SHIFTS)
        tab.goto(url)
        tab.wait_for_function(LANES)
        tab.wait_for_timeout(3_000)
        shifted = tab.evaluate("window.shifted || 0")
        found["from a keystroke to its answer"] = [typed(tab, word) for word in KEYS]
        browser.close()
    rows = [row(what, times) for what, times in found.items()]
    return [*rows, Row(what="layout shift of the first page", ours=shifted, unit="")]


def typed(tab: "Page", word: str) -> float:
    """Milliseconds from a keystroke to its answer."""
    tab.locator("#sentence textarea").press("End")
    tab.evaluate(LISTEN)
    tab.keyboard.insert_text(word)
    tab.wait_for_function("window.answered > 0")
    tab.wait_for_timeout(400)
    return tab.evaluate("window.answered")


if __name__ == "__main__":
    from benchmarks.reports import line

    with fresh_cache():
        for each in main():
            print(line(each))
