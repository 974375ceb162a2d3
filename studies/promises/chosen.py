"""P6 in the browser: hostile files are chosen on the page, and each ends in words."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heads.data.dataset import read
from heads.errors import HeadsError
from heads.settings import PUBLIC, use_limits
from studies.promises.browser import Watch, chromium, opened
from studies.promises.promise import Row, Unmeasured, is_within
from studies.promises.server import served
from studies.promises.watching import row

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "hostile"
SAMPLE = (
    "c01_empty.csv", "c03_no_header.csv", "c12_latin1.csv", "c16_invalid_utf8.csv",
    "c22_ragged_rows.csv", "c23_unclosed_quote.csv", "c28_duplicate_columns.csv",
    "f02_bomb_20MB.csv.gz", "f03_png_renamed.csv", "f09_pickle_renamed.csv", "l02_nan_strings.csv",
    "l11_html_labels.csv", "l17_rtl_override_label.csv", "t07_all_empty_text.csv",
    "t14_markdown_text.csv",
)  # fmt: skip
SHORT = 5  # of the sample, one of so many
MOST_SECONDS = 10.0
BUSY = "progress, .busy, .progress-text"
INSIDE = re.compile(r"Traceback|\w+Error\b|/tmp/|site-packages|Something went wrong|\A\s*null\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the page said of a file.

    Attributes:
        expected: What Python says of it: an error, or nothing where it is read.
        said: What stands in the place of its card.
        wrong: Why that is not right; empty where it is.
    """

    name: str
    expected: str
    said: str
    wrong: str
    seconds: float


def measure(short: bool) -> Iterator[Row]:
    """The sample in public mode, each file on a page of its own."""
    if not CORPUS.is_dir():
        raise Unmeasured("The hostile files are not beside the repository.")
    names = SAMPLE[::SHORT] if short else SAMPLE
    with served(public=True) as server, chromium() as browser:
        watch = Watch(server.url)
        outcomes = [_chosen(browser, watch, CORPUS / name) for name in names]
    yield _row(outcomes)


def _row(outcomes: Sequence[Outcome]) -> Row:
    wrong = [one for one in outcomes if one.wrong]
    for one in wrong:
        print(f"   {one.name}: {one.wrong}: {one.said[:200]}")
    slowest = max(one.seconds for one in outcomes)
    return row(
        "P6",
        f"{len(outcomes)} hostile files chosen in Chromium",
        f"{len(outcomes) - len(wrong)} end as in Python, in a sentence or a card "
        f"(slowest {slowest:.1f} s)",
        f"all, within {MOST_SECONDS:g} s",
        holds=not wrong,
        note=f"{wrong[0].name}: {wrong[0].wrong}" if wrong else "",
    )


def _chosen(browser: "Browser", watch: Watch, path: Path) -> Outcome:
    try:
        with use_limits(PUBLIC):
            read(path)
        expected = ""
    except HeadsError as error:
        expected = str(error)
    page = opened(browser, watch.url, "?place=data", watch)
    begun = time.monotonic()
    page.locator("#file input[type=file]").set_input_files(path)
    said, is_error = _settled(page)
    seconds = time.monotonic() - begun
    wrong = _wrong(said, expected, is_error, seconds) or "; ".join(watch.found(page))
    page.context.close()
    return Outcome(name=path.name, expected=expected, said=said, wrong=wrong, seconds=seconds)


def _settled(page: "Page") -> tuple[str, bool]:
    """What stands there once nothing is under way any more; whether it is an error."""
    end = time.monotonic() + 3 * MOST_SECONDS
    while time.monotonic() < end:
        page.wait_for_timeout(100)
        account = page.locator("#account")
        said = account.inner_text() if account.count() else ""
        toast = page.locator(".toast-body, [data-testid=toast-body]")
        if toast.count():
            told = toast.first.inner_text()
            page.locator(".toast-close").first.click()
            return told, True
        # Not what Gradio writes over it meanwhile, such as "queue: 1/1".
        if (
            account.locator(".card-read, [role=alert]").count()
            and not account.locator(BUSY).count()
        ):
            return said, account.locator("[role=alert]").count() > 0
    return "", False


def _wrong(said: str, expected: str, is_error: bool, seconds: float) -> str:
    """Why an outcome is not right; empty where it is."""
    if not said:
        return "nothing was said"
    if INSIDE.search(said):
        return "it tells of the inside"
    if is_error != bool(expected):
        return f"Python says: {expected[:120] or 'it can be read'}"
    return "" if is_within(seconds, MOST_SECONDS) else f"after {seconds:.0f} s"
