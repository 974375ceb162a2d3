"""What heads say of a text: of a sentence that a user asks, and where they disagree. No Gradio."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heads.classifier.classifier import Classifier
from heads.interfaces.views.plain_charts import bars, percent
from heads.interfaces.views.comparison import COLOURS, joined
from heads.problem import SINGLE_LABEL, ProblemType
from heads.runs.drill_down import Disagreement

NAMED = 3  # heads that are named for one answer
GROUPS = 6  # answers that are listed for one text
SHOWN = 6  # classes that are listed for one head


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a head says of a text.

    Attributes:
        problem: How its logits become probabilities and answers.
        classes: Their names.
        given: The classes that it answers with.
        chances: The probability of each class, or the number predicted.
        sigmoids: The sigmoid of each logit, by itself.
        bars: The probability from which each class is given, where several may be.
    """

    problem: ProblemType
    classes: tuple[str, ...]
    given: tuple[str, ...]
    chances: tuple[float, ...]
    sigmoids: tuple[float, ...] = ()
    bars: tuple[float, ...] = ()


def reply(classifier: Classifier, text: str, pair: str | None = None) -> Reply:
    """Asks a head.

    Args:
        pair: The second text, where the head has learned from two.

    Raises:
        DataError: A text is empty.
    """
    head, logits = classifier.head, classifier.logits([text], [] if pair is None else [pair])
    chosen = head.problem.chosen(logits, head.thresholds)[0].tolist()
    cuts = logits.new_tensor(head.thresholds or [0.0] * len(head.classes))
    return Reply(
        problem=head.problem,
        classes=head.classes,
        given=tuple(name for name, yes in zip(head.classes, chosen, strict=True) if yes),
        chances=tuple(head.problem.probabilities(logits)[0].tolist()),
        sigmoids=tuple(logits[0].sigmoid().tolist()),
        bars=tuple(cuts.sigmoid().tolist()),
    )


def tried(replies: Mapping[str, Reply], span: tuple[float, float] = (0.0, 0.0)) -> Markup:
    """What up to four heads say of a sentence: a card a head, the likeliest classes first.

    Args:
        span: Of the numbers in the data, where numbers are predicted.
    """
    draw = {"softmax": _likeliest, "sigmoid": _labels, "normalised_sigmoid": _votes}
    cards = []
    for (name, one), colour in zip(replies.items(), COLOURS, strict=False):
        way = one.problem.output_activation
        said = _number(one, span) if way == "none" else draw[way](one, colour)
        card = Markup('<article class="card" style="--mark:{}"><h4>{}</h4>{}</article>')
        cards.append(card.format(colour, name, said))
    return Markup('<div class="cards">{}</div>').format(joined(cards))


def _headed(answer: str, beside: str, *rest: Markup) -> Markup:
    head = Markup('<p class="answer"><strong>{}</strong> {}</p>').format(answer, beside)
    return joined([head, *rest])


def _said(says: str) -> Markup:
    return Markup('<p class="quiet">{}</p>').format(says)


def _left(classes: int, shown: int, says: str) -> Markup:
    return _said(f"and {classes - shown} {says}") if classes > shown else Markup("")


def _ranked(values: Sequence[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda at: -values[at])


def _likeliest(one: Reply, colour: str) -> Markup:
    order = _ranked(one.chances)
    rows = [(one.classes[at], one.chances[at]) for at in order[:SHOWN]]
    drawn = bars(rows, colour=colour, best=True)
    sure = percent(rows[0][1], 0)
    return _headed(rows[0][0], sure, drawn, _left(len(order), len(rows), "less likely"))


def _labels(one: Reply, colour: str) -> Markup:
    """All labels above their thresholds, then the next ones."""
    order = sorted(
        range(len(one.classes)),
        key=lambda at: (one.classes[at] not in one.given, -one.chances[at]),
    )[: max(SHOWN, len(one.given))]
    drawn = bars(
        [(one.classes[at], one.chances[at]) for at in order],
        colour=colour,
        shown=[_against(one, at) for at in order],
        marks=[one.bars[at] for at in order],
    )
    told = "The line is what a label needs to be given; each has its own."
    left = _left(len(one.classes), len(order), "below theirs")
    return _headed(", ".join(one.given) or "no label", "", drawn, left, _said(told))


def _against(one: Reply, at: int) -> str:
    """A chance beside what the label needs."""
    sign = "≥" if one.classes[at] in one.given else "<"
    return f"{percent(one.chances[at], 0)} {sign} {percent(one.bars[at], 0)}"


def _votes(one: Reply, colour: str) -> Markup:
    """The yes or no of every class by itself, and how many say yes."""
    order = _ranked(one.sigmoids)
    yes = sum(share > 0.5 for share in one.sigmoids)
    drawn = bars(
        [(f"{one.classes[at]}?", one.sigmoids[at]) for at in order[:SHOWN]],
        colour=colour,
        shown=[
            f"{'yes' if one.sigmoids[at] > 0.5 else 'no'} {percent(one.sigmoids[at], 0)}"
            for at in order[:SHOWN]
        ],
        marks=[0.5] * len(order),
    )
    say = "says" if yes == 1 else "say"
    told = f"{yes} of {len(order)} questions {say} yes; the surest is the answer."
    more = "Its probability is its share of all these together."
    left = _left(len(order), SHOWN, "less sure")
    sure = percent(one.chances[order[0]], 0)
    return _headed(one.classes[order[0]], sure, drawn, left, _said(f"{told} {more}"))


def _number(one: Reply, span: tuple[float, float]) -> Markup:
    """The number, with two digits more than the data's range has."""
    low, high = span
    if high <= low:
        return _headed(f"{one.chances[0]:.4g}".replace("-", "−"), "")
    digits = max(0, 2 - math.floor(math.log10(high - low)))
    said = f"{one.chances[0]:,.{digits}f}".replace("-", "−")
    return _headed(said, "", _said(f"The data go from {low:.4g} to {high:.4g}."))


def disagreements(found: Sequence[Disagreement], problem: ProblemType = SINGLE_LABEL) -> Markup:
    """The texts on which the heads disagree most, with what each of them says.

    Args:
        problem: Of the data; numbers stand in their order.
    """
    if not found:
        return Markup('<p class="quiet">The heads agree on every text.</p>')
    items = []
    for item in found:
        text = " ↔ ".join(short(text) for text in (item.text, item.pair) if text)
        entry = Markup("<li><p>“{}” <span class='quiet'>is {}</span></p><dl>{}</dl>{}</li>")
        items.append(entry.format(text, item.label, *_groups(item, problem)))
    return Markup('<ol class="disagree">{}</ol>').format(joined(items))


def _groups(item: Disagreement, problem: ProblemType) -> tuple[Markup, Markup]:
    """Each answer with those who give it, the commonest first, and how many are left out.

    Of numbers the lowest and the highest stay.
    """
    groups: dict[str, list[tuple[float | None, str]]] = {}
    for name, said, sure in item.answers:
        groups.setdefault(said, []).append((sure, name))
    ranked = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    left = _left(len(ranked), GROUPS, "other answers")
    if not problem.has_classes:
        ranked.sort(key=lambda pair: float(pair[0]))
        ranked = [*ranked[: GROUPS // 2], *ranked[GROUPS // 2 :][-GROUPS // 2 :]]
    drawn = joined(
        Markup('<dt class="{}">{}</dt><dd>{}</dd>').format(
            "right" if said == item.label else "",
            said if problem.has_classes else said.replace("-", "−"),
            _sayers(names),
        )
        for said, names in ranked[:GROUPS]
    )
    return drawn, left


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
