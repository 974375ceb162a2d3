"""P4: no text of a user or a model runs or styles the page, in whatever widget it stands.

Every payload is put by turns wherever foreign text is shown: into links, the sentences, the line of
recipes, edits, and a file (its name, columns, texts and classes) whose heads are trained and looked
at. After each the page may hold no element that the payload made, have run none of its scripts, and
have asked nobody else for anything; nor may the policy of the page have been needed for that.
"""

import contextlib
import csv
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from heads.data.samples import SAMPLES
from studies.promises.browser import EVIL, Watch, chromium, opened
from studies.promises.promise import Row
from studies.promises.server import Server, served
from studies.promises.watching import row

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = "window.__xss=1"
PAYLOADS: Sequence[str] = (
    f'<img src="http://{EVIL}/x.png" onerror="{SCRIPT}">',
    f"<script>{SCRIPT}</script>",
    f'<svg onload="{SCRIPT}"><a xlink:href="javascript:{SCRIPT}">a</a></svg>',
    f'<a href="javascript:{SCRIPT}">a</a> <a href="http://{EVIL}/">b</a>',
    f"[a](javascript:{SCRIPT}) [b](http://{EVIL}/) ![c](http://{EVIL}/c.png)",
    f'<form action="http://{EVIL}/"><input name="q"><button>go</button></form>',
    '<div style="position:fixed;inset:0;background:red;z-index:98765">over all</div>',
    f'<iframe src="http://{EVIL}/" srcdoc="<script>parent.__xss=1</script>"></iframe>',
    f"<style>body {{ background: url(http://{EVIL}/a.png) }}</style>",
    rf"$\href{{javascript:{SCRIPT}}}{{x}}$ $$\url{{http://{EVIL}/}}$$",
    f'<a href="http://{EVIL}/">link</a> <b>5</b><br>6 <sub>7</sub> %{{y}} %{{customdata[0]}}',
    f"</textarea></script></style><img src=http://{EVIL}/y.png onerror={SCRIPT}>",
    f'" onmouseover="{SCRIPT}" autofocus onfocus="{SCRIPT}" x="',
    f"' onmouseover='{SCRIPT}' x='",
    "\u202egnp.exe\u202c \u2066x\u2069 \x07 \x1b[31m red \x9b31m",
    f'=HYPERLINK("http://{EVIL}","x")',
    f"<math><mtext><table><mglyph><style><img src=http://{EVIL}/z.png onerror={SCRIPT}>",
    f"<link rel=stylesheet href=http://{EVIL}/a.css><base href=http://{EVIL}/>",
    f"<meta http-equiv=refresh content=0;url=http://{EVIL}/><object data=http://{EVIL}/></object>",
    f"&lt;img src=http://{EVIL}/x.png onerror={SCRIPT}&gt;",
    "{{ 7*7 }} {% raw %} ${7*7} #{7*7}",
    f"<details open ontoggle={SCRIPT}><video><source onerror={SCRIPT} src=http://{EVIL}/v>",
)
EACH = 22  # of the payloads, one of so many in the short form
FORMULA = ("=", "+", "-", "@", "\t", "\r")
LINKS: Mapping[str, Sequence[str]] = {
    "sentence": ("text",),
    "both sentences": ("text", "pair"),
    "recipes": ("recipes",),
    "base model": ("model",),
    "run": ("run",),
    "result and head": ("result", "head"),
    "place, section, lane, sample, pairs": ("place", "show", "lane", "sample", "pairs"),
}
SETTLES = 1_500  # milliseconds for an answer that has no mark of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A payload in a widget, and what it did there."""

    widget: str
    payload: str
    found: Sequence[str]


def measure(short: bool) -> Iterator[Row]:
    """Every payload in every widget."""
    payloads = PAYLOADS[::EACH] if short else PAYLOADS
    with served(public=False) as server, chromium() as browser:
        shown = [one for payload in payloads for one in _everywhere(server, browser, payload)]
    by_widget: dict[str, list[Shown]] = {}
    for one in shown:
        by_widget.setdefault(one.widget, []).append(one)
    for widget, some in by_widget.items():
        yield _row(widget, some)


def _row(widget: str, shown: Sequence[Shown]) -> Row:
    bad = [one for one in shown if one.found]
    return row(
        "P4",
        f"{len(shown)} payloads: {widget}",
        f"{len(bad)} became more than text",
        "0",
        holds=not bad,
        note=f"{bad[0].payload[:50]!r}: {bad[0].found[0][:120]}" if bad else "",
    )


def _everywhere(server: Server, browser: "Browser", payload: str) -> Iterator[Shown]:
    watch = Watch(server.url)
    walks: Sequence[Callable[[], Iterator[tuple[str, Page]]]] = (
        lambda: in_links(browser, server, watch, payload),
        lambda: in_try(browser, server, watch, payload),
        lambda: in_file(browser, server, watch, payload),
    )
    for walk in walks:
        page = None
        try:
            for widget, page in walk():
                shown = Shown(widget=widget, payload=payload, found=watch.found(page))
                if shown.found:
                    print(f"   {widget}: {payload[:60]!r}: {'; '.join(shown.found)[:300]}")
                yield shown
        except Exception as error:  # one walk that ends early leaves the others
            says = f"the walk ended early: {str(error).splitlines()[0][:200]}"
            print(f"   {payload[:60]!r}: {says}")
            yield Shown(widget="walks to their end", payload=payload, found=[says])
        else:
            yield Shown(widget="walks to their end", payload=payload, found=[])
        if page:
            page.context.close()


# --- Walks: each yields a widget and the page, once the payload stands there.


def in_links(
    browser: "Browser", server: Server, watch: Watch, payload: str
) -> "Iterator[tuple[str, Page]]":
    """Whatever a link may carry."""
    page = opened(browser, server.url, watch=watch)
    for name, fields in LINKS.items():
        given = dict.fromkeys(fields, payload)
        if "result" in fields:
            given["place"] = "data"
        page.goto(f"{server.url.rstrip('/')}/?{urlencode(given)}")
        page.locator("#runs .rail").wait_for(state="attached")
        page.wait_for_timeout(SETTLES)
        yield f"link: {name}", page
    options = f"mean+mlp?hidden={payload},mean+linear?{payload}=1"
    page.goto(f"{server.url.rstrip('/')}/?{urlencode({'recipes': options})}")
    page.wait_for_timeout(SETTLES)
    yield "link: options of a recipe", page
    page.context.close()


def in_try(
    browser: "Browser", server: Server, watch: Watch, payload: str
) -> "Iterator[tuple[str, Page]]":
    """What is typed under Try."""
    page = opened(browser, server.url, watch=watch)
    page.locator("#verdict strong").wait_for()
    _write(page, "#sentence", f"kettle {payload}")
    page.locator(".lane .tokens i", has_text="kettle").first.wait_for()
    yield "sentence, typed", page
    page.locator(".lane[data-lane='1'] [data-show=why]").click()
    page.locator("#tokens .read").first.wait_for()
    _write(page, "#edits", payload)
    page.locator("#ask-edits").click()
    page.locator("#flips td, #flips [role=alert]").first.wait_for()
    yield "tokens of Why, and edits", page
    for section, what in (("How", "#chain .chain li"), ("Numbers", "#numbers td")):
        page.get_by_role("tab", name=section).click()
        page.locator(what).first.wait_for()
        yield f"section {section}", page
    page.locator("#parts [data-do=build]").first.click()
    line = page.locator("#recipe-line")
    line.wait_for()
    line.fill(payload)
    line.press("Tab")
    page.locator("#builder [role=alert]").first.wait_for()
    yield "line of a recipe", page
    box = page.get_by_role("combobox", name="Base model").first
    box.fill(payload)
    box.press("Enter")
    page.locator("#question-error [role=alert]").first.wait_for()
    yield "base model, typed", page
    page.get_by_role("button", name="+ second sentence").click()
    _write(page, "#second-sentence", f"kettle {payload}")
    page.wait_for_timeout(SETTLES)
    yield "second sentence, typed", page


def in_file(
    browser: "Browser", server: Server, watch: Watch, payload: str
) -> "Iterator[tuple[str, Page]]":
    """A file with the payload in its name, columns, texts and classes, up to its results."""
    page = opened(browser, server.url, "?place=data", watch)
    with tempfile.TemporaryDirectory() as place:
        page.locator("#file input[type=file]").set_input_files(_written(Path(place), payload))
        page.locator("#account .card-read").wait_for()
        page.locator("#account summary").first.click()
        page.locator("#columns > button").click()
        yield "card of a file: columns, texts, classes", page
    _two_heads(page)
    page.locator("#start", has_text="about").wait_for()
    page.locator("#start").click()
    page.locator("#job p, #sentences dl").first.wait_for()
    yield "title of a run, while it trains", page
    page.locator("#sentences dl").wait_for(timeout=180_000)
    page.locator("#board .point").first.wait_for()
    yield "result and list of runs", page
    page.get_by_label("Heat map").check()
    page.locator("#board .heatmaplayer").first.wait_for()
    page.get_by_label("Forest").or_(page.locator("#kind input").first).first.check()
    page.locator("#board .point").first.wait_for()
    box = page.locator("#board .point").last.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#head-panel h2").wait_for()
    page.wait_for_timeout(SETTLES)
    yield "charts of a head: classes in plots", page
    for title in ("What does it get wrong?", "Where do heads disagree?", "All numbers"):
        fold = page.locator("#result .fold", has_text=title)
        fold.locator("> button").click()
        fold.locator("table, p, .js-plotly-plot").first.wait_for()
        _hover(page)
        yield f"fold “{title}”", page
    yield from _reported(browser, page, watch)
    page.locator("#doors a", has_text="Try it").click()
    page.locator(".lane .answer strong").first.wait_for()
    page.wait_for_timeout(SETTLES)
    yield "lanes of one's own heads", page
    page.locator(".lane[data-lane='1'] [data-show=numbers]").click()
    page.locator("#numbers td").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    if unsafe := [c for line in csv.reader(io.StringIO(text)) for c in line if _is_formula(c)]:
        watch.strangers.append(f"formula in a CSV: {unsafe[0][:60]}")
    yield "CSV that is saved", page


def _reported(browser: "Browser", page: "Page", watch: Watch) -> "Iterator[tuple[str, Page]]":
    """The report, which somebody opens from his disk."""
    with page.expect_download() as download:
        page.locator("#report").click()
    context = browser.new_context()
    report = context.new_page()
    report.add_init_script("window.__blocked = [];")
    own = Watch("file:")
    own.on(report)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "report.html"
        path.write_bytes(Path(download.value.path()).read_bytes())
        report.goto(path.as_uri())
        report.wait_for_timeout(SETTLES)
        watch.strangers += own.found(report)
    context.close()
    yield "report, opened as a file", page


def _written(place: Path, payload: str) -> Path:
    """A file of three classes that are named by the payload."""
    name = "".join("_" if sign in "/\\" or not sign.isprintable() else sign for sign in payload)
    path = place / f"{name[:80]}.csv"
    rows = csv.DictReader(io.StringIO(SAMPLES["sentiment"].path.read_text("utf-8")))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", f"label {payload}"[:90]])
        for at, one in enumerate(rows):
            text = f"{one['text']} {payload}" if at % 3 == 0 else one["text"]
            writer.writerow([text, f"{payload[:80]} {one['label']}"])
            if at == 149:
                break
    return path


def _two_heads(page: "Page") -> None:
    """Two folds of two heads, in the settings of the card."""
    page.locator("#settings > button").click()
    page.get_by_label("My own choice").click()
    box = page.get_by_label("Your own choice")
    for _ in range(8):
        box.press("Backspace")
    for recipe in ("mean+linear", "cls+linear"):
        box.fill(recipe)
        box.press("Enter")
    folds = page.get_by_role("spinbutton", name="number input for Folds, without a test set")
    folds.fill("2")
    folds.press("Enter")


def _write(page: "Page", box: str, text: str) -> None:
    page.locator(f"{box} textarea").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def _hover(page: "Page") -> None:
    """Plotly writes what a point is called only once one points at it."""
    with contextlib.suppress(Exception):  # a fold without a chart
        page.locator("#result .js-plotly-plot .nsewdrag").last.hover(timeout=1_000)


def _is_formula(cell: str) -> bool:
    """Whether a spreadsheet would compute a cell; a number is one's own."""
    try:
        float(cell)
    except ValueError:
        return cell.startswith(FORMULA)
    return False
