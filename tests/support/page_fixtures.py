import os
import shutil

import pytest
from served import page_here, quick_runs


@pytest.fixture(scope="session")
def page_url():
    """The page for all tests of this folder."""
    with page_here() as page:
        yield page.url


@pytest.fixture(scope="session")
def chrome():
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium on this machine")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


def is_error(message):
    """Whether a console tells of a fault; what a reload cuts off is none, though told."""
    cut_off = ("AbortError", "Connection errored out", "connection errored out")
    return message.type == "error" and not any(one in message.text for one in cut_off)


@pytest.fixture
def tab(chrome, page_url):
    """Opens the page; at the end, nothing may have gone elsewhere and nothing may have failed."""
    opened, strangers, errors = [], [], []

    def watch(request):
        if not request.url.startswith((page_url, "data:", "blob:")):
            strangers.append(request.url)

    def told(page):
        """Keeps what goes wrong, but for what a page says whose calls a reload cuts off.

        Gradio's client then asks anew for a session that has just ended, and complains.
        """
        leaving, reload = [], page.reload
        page.on("framenavigated", lambda _: leaving.clear())
        page.reload = lambda: leaving.append(True) or reload()
        page.on("console", lambda m: errors.append(m.text) if not leaving and is_error(m) else None)
        page.on("pageerror", lambda error: None if leaving else errors.append(str(error)))

    def open_page(query="", width=1280, height=900):
        context = chrome.new_context(viewport={"width": width, "height": height})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(45_000)
        page.on("request", watch)
        told(page)
        page.goto(page_url + query)
        opened.append(context)
        page.locator("#runs .rail").wait_for(state="attached")  # who types earlier is not heard
        if "place=" not in query and "vote" not in query:
            # Of a fresh server its heads are trained first, on cores that other tests use too.
            page.locator("#verdict strong").wait_for(timeout=120_000)
        return page

    yield open_page
    for context in opened:
        for page in context.pages:  # answers that a test still holds back
            page.unroute_all(behavior="ignoreErrors")
        context.close()
    assert strangers == []
    assert errors == []


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs of these tests are their own; little is learned, since none is about quality."""
    with quick_runs(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A file of a hundred rows."""
    from heads.data.samples import SAMPLES

    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()
    path = tmp_path_factory.mktemp("few") / "few.csv"
    path.write_text("\n".join(lines[:101]), "utf-8")
    return path
