"""When a text is blank, and when two texts are the same; what a model reads is another matter."""

import re
import unicodedata

# Control characters but for new line and tab; and lone surrogates, which no tokenizer takes.
SURROGATES = re.compile("[\ud800-\udfff]")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

# Soft hyphens, marks and joiners of no width, fillers, blank patterns, variation selectors, tags.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def is_blank(text: str) -> bool:
    r"""Return True if nothing of a text is to be seen.

    >>> is_blank("\u200b \ufeff\x07"), is_blank("\u00ad."), is_blank("")
    (True, False, True)
    """
    text = CONTROLS.sub("", text)
    return not (text if text.isascii() else INVISIBLE.sub("", text)).strip()


def normalize_text(text: str) -> str:
    r"""Return a text in NFC without control characters and outer spaces, to compare it by.

    >>> normalize_text("  cafe\u0301 \x07 \r\n")
    'café'
    """
    return CONTROLS.sub("", unicodedata.normalize("NFC", text)).strip()


def folded(text: str, pair: str = "") -> str:
    r"""Return what two rows share that repeat each other: no case, spaces, signs of no width.

    >>> folded("Not  bad.\n") == folded("not b\u200bad. ")
    True
    """
    return fold(text) + "\n" + fold(pair)


def fold(text: str) -> str:
    """Return the same of one text."""
    text = normalize_text(text)
    if not text.isascii():
        text = INVISIBLE.sub("", text)
    return " ".join(text.casefold().split())
