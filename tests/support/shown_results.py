"""What holds of every result that a notebook or a shell shows."""

import re
from html.parser import HTMLParser

from heads.display import Displayed

HOSTILE = "<img src=x onerror=alert(1)></style><script>alert(1)</script>&amp;"
MOST_BYTES = 24_000  # of the largest, the catalogue of 127 families


class Tags(HTMLParser):
    """All tags with their attributes, and whether each is closed that needs it."""

    def __init__(self, html):
        super().__init__()
        self.seen, self.open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("br", "wbr", "img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_shown(result, *, is_foreign=True):
    """Check the fragment of a notebook and the text of a shell; `is_foreign`: HOSTILE is in it."""
    assert isinstance(result, Displayed)
    html, text = result._repr_html_(), str(result)
    tags = Tags(html)
    assert tags.open == []
    assert len(html) < MOST_BYTES
    assert {tag for tag, _ in tags.seen}.isdisjoint(
        {"img", "script", "link", "iframe", "object", "button", "input", "form"}
    )
    for _, attributes in tags.seen:
        assert not any(one.startswith("on") or one == "src" for one in attributes)
    (style,) = re.findall("<style>(.*?)</style>", html)
    assert "url(" not in style
    assert "@import" not in style
    assert ("&lt;img" in html) or not is_foreign
    assert not re.search(r"\w+\(\w+=", text.replace(HOSTILE, ""))
    assert text.strip()
    assert len(text) < MOST_BYTES
