"""The Markdown pages of the project, and what can be asked of them."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *ROOT.glob("*.md"),
    ROOT / "studies" / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("extras/*.md")),
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)

sys.path.insert(0, str(DOCS))
try:
    import tables
finally:
    sys.path.pop(0)
anchor = tables.anchor


def blocks(page: Path) -> list[str]:
    """Its blocks of Python that are to be run: all but those headed ``python no-run``."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Where its links lead, less those within code."""
    return LINK.findall(FENCE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """Where a link to one of its headings leads."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)}


def answers() -> dict[str, str]:
    """What the FAQ answers, by the anchor of the question."""
    text = (DOCS / "faq.md").read_text("utf-8")
    parts = re.split(r"^###? (.+)$", text, flags=re.MULTILINE)[1:]
    return {anchor(asked): told for asked, told in zip(parts[::2], parts[1::2], strict=True)}
