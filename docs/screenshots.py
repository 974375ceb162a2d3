"""Takes the pictures of docs/tour.md from the page itself: `make screenshots`, in some minutes.

A server of its own is started with an empty place to keep things in, Chromium walks the tour, and
each stop is written as docs/images/NAME.webp. What the tour says of a picture is to be read again
whenever they are taken anew: a test only holds the page and this list together.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from studies.promises.browser import chromium
from studies.promises.server import served

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SHARPNESS = 1.5  # pixels of a picture for each of the page
QUALITY = 80
MINUTES = 60_000  # milliseconds each


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A picture of the tour.

    Attributes:
        name: Of its file.
        query: The state of the page that it begins from; {run} is the run of the tour.
        walk: What is done there before the picture is taken.
        part: What is kept of the page; all that is seen of it, if not named.
        height: Of the window.
        scheme: light or dark.
    """

    name: str
    query: str = ""
    walk: Callable[[Page], None] = lambda page: None
    part: str = ""
    height: int = 760
    scheme: str = "light"


def _lanes(page: Page) -> None:
    page.locator("#verdict strong").wait_for(timeout=3 * MINUTES)


def _readings(page: Page) -> None:
    """Heads that were never asked before are trained first."""
    for recipe in READINGS:
        lane = page.locator("#lanes .lane").filter(has=page.get_by_text(recipe, exact=True))
        lane.locator(".answer strong").wait_for(timeout=3 * MINUTES)


def _why(page: Page) -> None:
    _lanes(page)
    page.locator("#tokens .read").first.wait_for()
    page.locator("#near li").first.wait_for()


def _compare(page: Page) -> None:
    _lanes(page)
    page.locator("#side-by-side section").nth(1).wait_for()


def _how(page: Page) -> None:
    _lanes(page)
    page.locator("#chain .chain li").first.wait_for()


def _card(page: Page) -> None:
    """Drops a file: the sample of ten intents, as somebody's tickets.csv."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "tickets.csv"
        shutil.copy(ROOT / "assets" / "examples" / "intents.csv", file)
        page.locator("#runs .rail").wait_for(state="attached")
        page.locator("#file input[type=file]").set_input_files(file)
        page.locator("#account .card-read").wait_for()
        page.locator("#start", has_text="about").wait_for(timeout=2 * MINUTES)


def _result(page: Page) -> None:
    page.locator("#sentences dl").wait_for()
    page.locator("#board .point").first.wait_for()


READINGS = ("cls+linear", "mean+linear", "flatten+linear", "mean@cat4+linear")
TOUR = (
    Stop(name="try", walk=_lanes),
    Stop(name="why", query="?lane=2&show=why", walk=_why, part="#panel"),
    Stop(name="compare", query="?lane=1&show=compare", walk=_compare, part="#panel"),
    Stop(name="how", query="?lane=3&show=how", walk=_how, part="#panel"),
    Stop(name="card", query="?place=data", walk=_card, height=340),
    Stop(name="result", query="?place=data&result={run}", walk=_result, height=1000),
    Stop(name="dark", query=f"?recipes={','.join(READINGS)}", walk=_readings, scheme="dark"),
)


def take(browser: Browser, address: str, stop: Stop, run: str) -> Path:
    """Walks to a stop and keeps what is seen there."""
    page = browser.new_context(
        viewport={"width": 1280, "height": stop.height},
        device_scale_factor=SHARPNESS,
        color_scheme="dark" if stop.scheme == "dark" else "light",
    ).new_page()
    page.set_default_timeout(MINUTES)
    mark = "&" if stop.query else "?"
    page.goto(f"{address}{stop.query.format(run=run)}{mark}__theme={stop.scheme}")
    stop.walk(page)
    page.wait_for_timeout(1500)  # charts take a moment to find their width
    seen = Image.open(io.BytesIO((page.locator(stop.part) if stop.part else page).screenshot()))
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{stop.name}.webp"
    seen.convert("RGB").save(path, quality=QUALITY, method=6)
    page.context.close()
    return path


def trained(folder: Path) -> str:
    """Trains the usual grid on the ten intents, as somebody's tickets.csv; its name."""
    file = folder / "tickets.csv"
    shutil.copy(ROOT / "assets" / "examples" / "intents.csv", file)
    command = [sys.executable, "-m", "heads", "train", str(file), "--json"]
    environment = {**os.environ, "HEADS_RUNS": str(folder / "runs")}
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return str(json.loads(done.stdout)["run"])


def main() -> None:
    """Takes all pictures, or those that are named."""
    names = sys.argv[1:] or [stop.name for stop in TOUR]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run = trained(place) if "result" in names else ""
        runs = {"HEADS_RUNS": str(place / "runs")}
        with served(public=False, env=runs) as server, chromium() as browser:
            for stop in TOUR:
                if stop.name in names:
                    path = take(browser, f"{server.url}/", stop, run)
                    size = path.stat().st_size / 1000
                    print(f"{path.relative_to(ROOT)}: {size:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
