"""Labels that may be wrong: the text, its label, and what heads find more probable. No Gradio."""

from markupsafe import Markup

from heads.interfaces.views.format import shares
from heads.interfaces.views.html import render
from heads.interfaces.views.predictions import short
from heads.runs.doubtful_labels import DoubtfulLabel, DoubtfulLabels

SHOWN = 20  # of the most doubtful ones


def brief(found: DoubtfulLabels) -> str:
    """How many labels to review, in a phrase."""
    tested = len(found.tested)
    return f"{len(found.places):,} of {tested:,} to look at" if found.places else "none stands out"


def doubtful_labels(found: DoubtfulLabels) -> Markup:
    """The most doubtful labels, each with what is suggested and how sure that is."""
    items = [
        {
            "text": " ↔ ".join(short(text) for text in (one.text, one.pair) if text),
            "where": f"{found.unit}\u00a0{one.line}",
            "given": one.label,
            "suggested": one.suggested,
            "sure": sure_of(one),
            "agree": agree_of(one, found),
            "elsewhere": elsewhere(one, found),
        }
        for one in found.rows[:SHOWN]
    ]
    return render(
        "doubtful_labels.html",
        says=found.says,
        notes=found.notes,
        items=items,
        left=len(found.rows) - len(items),
    )


def sure_of(one: DoubtfulLabel) -> tuple[str, str]:
    """How probable the given label is, and the suggested one; nothing of numbers."""
    sure = one.label_probability, one.suggested_probability
    first, second = ("" if share is None else shares([share])[0] for share in sure)
    return first, second


def agree_of(one: DoubtfulLabel, found: DoubtfulLabels) -> str:
    """How many of those that were asked agree."""
    return f"{one.agree} of {len(found.cells)}"


def elsewhere(one: DoubtfulLabel, found: DoubtfulLabels) -> str:
    """Where the same text is labelled otherwise."""
    if not one.conflicts:
        return ""
    lines = ", ".join(map(str, one.conflicts))
    return f"labelled otherwise on {found.unit}{'s' * (len(one.conflicts) > 1)} {lines}"
