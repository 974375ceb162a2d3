"""Chromium on the page, and what it tells of text that became more than text."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from studies.promises.promise import Unmeasured

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
EVIL = "evil.example"  # a name that no machine has
SECONDS = 60.0
# Violations of the policy that the page is served under are noted before anything else runs.
NOTES = """window.__blocked = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__blocked.push(`${event.violatedDirective} ${event.blockedURI}`));"""
# What runs, leads away or styles, and comes from a payload: these name `evil.example` or `__xss`.
FOREIGN = """() => {
  const found = [], leads = ["href", "src", "action", "formaction", "data", "poster", "srcset"];
  for (const one of document.querySelectorAll("*")) {
    if (["SCRIPT", "STYLE"].includes(one.tagName) && one.type !== "application/json"
        && /__xss|evil[.]example/.test(one.textContent)
        && !one.textContent.includes("gradio_config")) found.push(one.outerHTML.slice(0, 120));
    for (const { name, value } of one.attributes) {
      const at = name.replace("xlink:", "");
      const is_script = at.startsWith("on") && value.includes("__xss");
      const is_style = at === "style" && value.includes("98765");
      let is_link = false;
      if (leads.includes(at)) try {
        const url = new URL(value, location.href);
        is_link = url.protocol === "javascript:" || url.host.endsWith("evil.example");
      } catch { }
      if (is_script || is_style || is_link)
        found.push(`<${one.tagName.toLowerCase()} ${name}=${value.slice(0, 80)}>`);
    }
  }
  return found;
}"""


@dataclass(slots=True)
class Watch:
    """What went on in a page that should not.

    Attributes:
        url: Where the page is from.
        strangers: Addresses elsewhere that it asked for.
    """

    url: str
    strangers: list[str] = field(default_factory=list)

    def on(self, page: "Page") -> None:
        """Watches a page."""

        def asked(request: Any) -> None:
            if not request.url.startswith((self.url, "data:", "blob:", "chrome")):
                self.strangers.append(request.url)

        page.on("request", asked)

    def found(self, page: "Page") -> list[str]:
        """All that is wrong on a page now; what was asked for elsewhere is told once."""
        told = [f"asked for {url[:100]}" for url in self.strangers]
        self.strangers.clear()
        told += [f"element {one}" for one in page.evaluate(FOREIGN)]
        if (ran := page.evaluate("window.__xss")) is not None:
            told.append(f"script {ran} ran")
        told += [f"blocked {one}" for one in page.evaluate("window.__blocked.splice(0)")]
        return told


@contextmanager
def chromium(*flags: str) -> Iterator["Browser"]:
    """The Chromium of this machine.

    Raises:
        Unmeasured: There is none.
    """
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise Unmeasured("There is no Chromium on this machine; set CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: "Browser", url: str, query: str = "", watch: Watch | None = None) -> "Page":
    """A page in a profile of its own, once it can be used."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.add_init_script(NOTES)
    if watch:
        watch.on(page)
    page.goto(url + "/" + query)
    page.locator("#runs .rail").wait_for(state="attached")  # who types earlier is not heard
    return page
