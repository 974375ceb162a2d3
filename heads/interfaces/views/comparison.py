"""How values are written for the eye, on the page, in the report and in a terminal. No Gradio."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from heads.analysis.padding.report import PaddingFinding
    from heads.evaluation.statistics import Scores

ZERO = "rgba(128,128,128,.6)"
# One colour a recipe, each at least 3:1 on the light and the dark background.
COLOURS = ("#4f6bed", "#d97706", "#0f9d8a", "#c8478f")


@lru_cache(maxsize=4096)
def escape(text: str) -> str:
    r"""A text as Plotly draws it to the letter: no tags, links, templates or mathematics.

    >>> escape("<b>5</b> %{y} $x$")
    '&lt;b>5&lt;/b> %\u200b{y} ＄x＄'
    """
    text = "".join(letter for letter in text if letter.isprintable())
    text = re.sub("[\\u202a-\\u202e\\u2066-\\u2069]", "", text)
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace("%{", "%\u200b{").replace("$", "＄")
    )


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-1.25, 1), signed(0.0), signed(-0.0001)
    ('+0.50', '−1.2', '0.00', '0.00')
    """
    told = f"{value:+.{digits}f}"
    return told[1:] if not float(told) else told.replace("-", "−")


# How scores are written that are no shares. (What knows all metrics waits for torch.)
PLAIN = {
    **dict.fromkeys(("mcc", "cohen_kappa", "quadratic_kappa", "spearman", "pearson", "r2"), ".2f"),
    **dict.fromkeys(("neg_mean_squared_error", "neg_mean_absolute_error"), ".4g"),
}


def count(number: int) -> str:
    """A number of parameters for the eye.

    >>> count(1155), count(148_995), count(22_713_216), count(3)
    ('1.2k', '149k', '22.7M', '3')
    """
    for size, sign in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            share = number / size
            return f"{share:.0f}{sign}" if share >= 100 else f"{share:.1f}{sign}"
    return str(number)


def counted(number: int, name: str) -> str:
    """A number of things.

    >>> counted(1, "class"), counted(1200, "class"), counted(2, "head")
    ('1 class', '1,200 classes', '2 heads')
    """
    ending = "" if number == 1 else "es" if name.endswith("s") else "s"
    return f"{number:,} {name}{ending}"


def accuracy(scores: "Scores") -> str:
    """An accuracy, or another score, with its interval.

    >>> from heads.evaluation.statistics import Scores
    >>> accuracy(Scores(rows=100, accuracy=0.9, low=0.826, high=0.945, majority=0.5))
    '90.0 % (82.6 to 94.5)'
    """
    if (form := PLAIN.get(scores.metric)) is not None:
        ends = f"{scores.low:{form}} to {scores.high:{form}}"
        return f"{scores.accuracy:{form}} ({ends})".replace("-", "−")
    return f"{scores.accuracy:.1%} ({scores.low * 100:.1f} to {scores.high * 100:.1f})".replace(
        "%", " %"
    )


def effect(finding: "PaddingFinding") -> str:
    """What a change of the input does to the logits, in a word or a number."""
    if finding.changes is None:
        return "not applicable"
    if finding.error:
        return "none: it stops"
    return f"change by {finding.difference:.2g}" if finding.changes else "stay the same"


def joined(parts: Iterable[Markup]) -> Markup:
    """Fragments one after the other."""
    return Markup("").join(parts)
