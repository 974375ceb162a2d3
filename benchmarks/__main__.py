"""Measures what a visitor waits for, each against its floor; ``make bench``.

Prints medians (p50), 95th percentiles and ratios. Machines are noisy: quote ratios.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROUNDS = 60
TEXT = "The new battery lasts two days, and the old one never did."


def clock(work: Callable[[], object], rounds: int = ROUNDS, warm: int = 5) -> list[float]:
    """Milliseconds of each round, after some that do not count."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return times


def line(name: str, times: list[float], floor: list[float] | None = None) -> None:
    """Prints one row; the ratio is of medians."""
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    ratio = f"{p50 / statistics.median(floor):6.2f} x floor" if floor else " " * 14
    print(f"{name:<52} p50 {p50:8.1f} ms   p95 {p95:8.1f} ms   {ratio}")


def start(code: str) -> Callable[[], object]:
    """A fresh interpreter that runs a line of code."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def shell() -> None:
    """What importing costs, over an interpreter that does nothing."""
    floor = clock(start("pass"), rounds=15, warm=2)
    line("python, doing nothing (floor)", floor)
    line("import heads", clock(start("import heads"), rounds=15, warm=2), floor)


def comparison(url: str) -> None:
    """A warm comparison of four recipes: the model alone, our function, over HTTP."""
    from gradio_client import Client

    import heads
    from heads.pipeline.loading import load
    from heads.settings import limits

    backbone = load(limits=limits())
    client = Client(url, verbose=False)
    encoded = backbone.encode([TEXT])
    floor = clock(lambda: backbone.states(encoded))
    line("one forward pass (floor)", floor)
    line("heads.compare, four recipes", clock(lambda: heads.compare(TEXT)), floor)
    empty = clock(lambda: client.predict(api_name="/parts"))
    line("Python client, an endpoint that computes nothing", empty, floor)
    line(
        "Python client, four recipes",
        clock(lambda: client.predict(TEXT, api_name="/compare")),
        empty,
    )


def page(url: str) -> None:
    """How soon the page can be used in Chromium, with a fresh profile and a warm server."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chrome = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chrome is None:
        print("no Chromium: the page was not measured")
        return
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chrome, args=flags)

        def visit(ready: str) -> None:
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(url, wait_until="commit")
            tab.wait_for_function(ready)
            context.close()

        button = "[...document.querySelectorAll('button')].some(b => b.innerText === 'Compare')"
        charts = "document.querySelectorAll('.js-plotly-plot .bars path').length >= 24"
        line(
            "page usable (button there, verdict read)",
            clock(lambda: visit(button), rounds=8, warm=1),
        )
        line("page with all eight charts", clock(lambda: visit(charts), rounds=8, warm=1))
        browser.close()


def main() -> None:
    """Runs all of it against a server of its own, with heads trained once beforehand."""
    import torch
    import transformers

    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"python {sys.version.split()[0]}, {versions}, {os.cpu_count()} cores")
    shell()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADS_CACHE"] = folder
        code = (
            "from heads.interfaces.web import LAUNCH, build; "
            "page = build().launch(server_name='127.0.0.1', quiet=True, prevent_thread_lock=True,"
            " **LAUNCH); print(page[1], flush=True); import threading; threading.Event().wait()"
        )
        begun = time.perf_counter()
        server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            print(f"first start, heads trained on the way: {time.perf_counter() - begun:.1f} s")
            comparison(url)
            page(url)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
