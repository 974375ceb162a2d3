"""Where heads disagree, as HTML: the text, and what each of them says of it. No Gradio."""

from collections.abc import Sequence

from markupsafe import Markup

from heads.interfaces.views.format import percent
from heads.interfaces.views.html import render
from heads.problem import SINGLE_LABEL, ProblemType
from heads.runs.drill_down import Disagreement

NAMED = 3  # heads that are named for one answer
GROUPS = 6  # answers that are listed for one text


def disagreements(found: Sequence[Disagreement], problem: ProblemType = SINGLE_LABEL) -> Markup:
    """Show the texts on which the heads disagree most, with what each of them says."""
    items = []
    for item in found:
        text = " ↔ ".join(short(text) for text in (item.text, item.pair) if text)
        items.append((text, item.label, *_groups(item, problem)))
    return render("disagreements.html", items=items)


def _groups(item: Disagreement, problem: ProblemType) -> tuple[list[tuple[str, str, bool]], int]:
    """Group heads by answer, the commonest first (of numbers both ends), and count the rest."""
    groups: dict[str, list[tuple[float | None, str]]] = {}
    for name, said, sure in item.answers:
        groups.setdefault(said, []).append((sure, name))
    ranked = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    left = max(0, len(ranked) - GROUPS)
    if not problem.has_classes:
        ranked.sort(key=lambda pair: float(pair[0]))
        ranked = [*ranked[: GROUPS // 2], *ranked[GROUPS // 2 :][-GROUPS // 2 :]]
    shown = [
        (
            said if problem.has_classes else said.replace("-", "−"),
            _sayers(names),
            said == item.label,
        )
        for said, names in ranked[:GROUPS]
    ]
    return shown, left


def _sayers(names: Sequence[tuple[float | None, str]]) -> str:
    """Who says so, the surest first, where that is known; of many, a few."""
    ranked = sorted(names, key=lambda one: (-(one[0] or 0.0), one[1]))
    shown = ", ".join(
        name if sure is None else f"{name} ({percent(sure, 0)})" for sure, name in ranked[:NAMED]
    )
    more = len(names) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def short(text: str, most: int = 300) -> str:
    """A text that does not fill the page."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"
