"""Several heads on one sentence, a lane each: what it reads, its layers, its numbers, its answer.

Fragments of HTML; no Gradio.
"""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from heads.data.samples import RECIPES, SAMPLES
from heads.errors import HeadsError
from heads.evaluation.metrics import score_called
from heads.interfaces.views.format import COLOURS, signed
from heads.interfaces.views.html import render
from heads.problem import ONE_VERSUS_REST

if TYPE_CHECKING:
    from heads.classifier.prediction import Prediction
    from heads.evaluation.statistics import Scores
    from heads.interpret.comparison import Comparison

MOST_CLASSES = 5  # rows of a lane
MOST_TOKENS = 26
NUMBERS = ("No", "One", "Two", "Three", "Four")


def chance(share: float) -> str:
    """A probability for the eye: never all or nothing where it is neither.

    >>> chance(0.416), chance(0.004), chance(0.99961), chance(0.999999), chance(1), chance(0)
    ('42 %', '0.4 %', '99.96 %', '> 99.99 %', '100 %', '0 %')
    """
    far = min(share, 1 - share)
    if share in (0, 1) or far >= 0.015:
        return f"{100 * share:.0f} %"
    if far < 0.0001:
        return "> 99.99 %" if share > 0.5 else "< 0.01 %"
    return f"{100 * share:.{1 if far >= 0.001 else 2}f} %"


def logits_shown(values: Sequence[float]) -> list[str]:
    """Logits with their signs, and as many digits as tell them apart; three at most.

    >>> logits_shown([0.51, -1.04]), logits_shown([0.031, 0.024])
    (['+0.5', '−1.0'], ['+0.031', '+0.024'])
    """
    digits = 1
    span = max(values) - min(values) if len(values) > 1 else abs(values[0])
    if 0 < span < 0.2:
        digits = min(3, math.ceil(-math.log10(span)) + 1)
    return [signed(value, digits) for value in values]


def score_says(scores: "Scores") -> str:
    """Return the score of a head on held-out rows, with its 95 % interval.

    >>> from heads.evaluation.statistics import Scores
    >>> score_says(Scores(rows=84, accuracy=0.631, low=0.524, high=0.726, majority=0.33))
    '63 % of 84 held-out texts (52–73)'
    """
    low, high = sorted((scores.low, scores.high))
    if scores.metric == "accuracy":
        between = f"{100 * low:.0f}–{100 * high:.0f}"
        return f"{100 * scores.accuracy:.0f} % of {scores.rows:,} held-out texts ({between})"
    metric = score_called(scores.metric)
    if metric is None:
        return f"score {scores.accuracy:.3g}"
    between = metric.between(low, high, "–")
    told = f"{metric.title} {metric.told(scores.accuracy)} ({between})"
    return f"{told} on {scores.rows:,} held-out texts"


def baseline_says(scores: "Scores", usual_answer: str) -> str:
    """Return what always giving the usual answer scores on the same rows."""
    metric = score_called(scores.metric)
    if metric is None:
        return ""
    return f"95 % interval in brackets; {usual_answer} {metric.told(scores.majority)}"


# --- One lane.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One head beside the others, as the page draws it.

    Attributes:
        number: From 1.
        recipe: Its name in links and files.
        title: Its everyday name.
        state: Empty where it has answered; else what is under way, or that it was cancelled.
        share: How far that is, from 0 to 1; below 0 where nobody knows.
        left: About how long it takes yet, in words.
        values: What the template draws of an answer.
    """

    number: int
    recipe: str
    title: str
    state: str = ""
    share: float = -1.0
    left: str = ""
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def colour(self) -> str:
        """Of its border, its tokens and its bars."""
        return COLOURS[(self.number - 1) % len(COLOURS)]


def title_of(recipe: str) -> str:
    """The everyday name of a recipe; "own" is the head that a checkpoint came with."""
    from heads.parts.resolve import resolve  # which imports torch

    try:
        return resolve(recipe).title
    except HeadsError:
        return "The checkpoint's own head" if recipe.startswith("own") else recipe


def lane(prediction: "Prediction", number: int) -> Lane:
    """The lane of a head that has answered."""
    from heads.interpret.comparison import said

    name = prediction.name
    is_own = name.startswith("own (")
    rows = _rows(prediction)
    return Lane(
        number=number,
        recipe="own" if is_own else name,
        title=title_of("own" if is_own else name),
        values={
            "tokens": tokens(prediction.reads),
            "more_tokens": max(0, len(prediction.reads) - MOST_TOKENS),
            "layers": prediction.layers,
            "rows": rows,
            "more": len(prediction.classes) - len(rows),
            "answer": said(prediction),
            "is_number": not prediction.problem.has_classes,
            "score": score_says(prediction.scores) if prediction.scores else "",
            "baseline": baseline_says(prediction.scores, prediction.problem.usual_answer)
            if prediction.scores
            else "",
            "remarks": list(_remarks(prediction)),
        },
    )


def tokens(reads: Sequence[tuple[str, float]]) -> list[tuple[str, int, str]]:
    """Each token with its shade in percent and the share that it gives."""
    most = max((share for _, share in reads), default=0.0) or 1.0
    return [
        (word, round(60 * share / most) if share >= min(0.004, most / 2) else 0, chance(share))
        for word, share in reads[:MOST_TOKENS]
    ]


def _rows(prediction: "Prediction") -> list[dict[str, Any]]:
    """The classes, in their order; of many, the likeliest ones."""
    order = list(range(len(prediction.classes)))
    if len(order) > MOST_CLASSES:
        order = sorted(order, key=lambda at: -prediction.probabilities[at])[: MOST_CLASSES - 1]
    shown = logits_shown(prediction.logits)
    has_chance = prediction.problem.has_classes
    return [
        {
            "name": prediction.classes[at],
            "width": round(100 * prediction.probabilities[at], 1) if has_chance else 0,
            "chance": chance(prediction.probabilities[at]) if has_chance else "",
            "logit": shown[at],
            "is_answer": prediction.classes[at] in prediction.answer
            and not prediction.is_undecided,
            "cut": round(100 * prediction.thresholds[at], 1) if prediction.thresholds else None,
        }
        for at in order
    ]


def _remarks(prediction: "Prediction") -> Iterator[str]:
    """What one must know before believing its numbers."""
    if prediction.is_undecided:
        order = sorted(range(len(prediction.classes)), key=lambda at: -prediction.probabilities[at])
        first, second = (prediction.classes[at] for at in order[:2])
        yield f"{first} or {second}: too close to call."
    if prediction.new:
        yield "This head is random: its numbers mean nothing."
    elif prediction.scores is None:
        yield "Came with the checkpoint; how often it is right is not known here."
    if prediction.thresholds and prediction.scores:
        yield "A label is given from its own threshold, the mark on its bar."
    if prediction.problem is ONE_VERSUS_REST:
        yes = sum(logit > 0 for logit in prediction.logits)
        yield f"{yes} of {len(prediction.classes)} yes-or-no questions say yes."


def waiting(recipes: Sequence[str], state: str = "waiting") -> list[Lane]:
    """Lanes whose heads have not answered yet."""
    return [
        Lane(number=number, recipe=recipe, title=title_of(recipe), state=state)
        for number, recipe in enumerate(recipes, start=1)
    ]


def skeleton(recipes: Sequence[str]) -> Markup:
    """The lanes before anything is known, as high as they will be."""
    titled = [Lane(number=at, recipe=one, title="", state="…") for at, one in enumerate(recipes, 1)]
    return lanes(titled)


def lanes(found: Sequence[Lane], opened: int = 0) -> Markup:
    """Show all lanes one below the other, the one of the number `opened` open."""
    names = [row["name"] for one in found for row in one.values.get("rows", ())]
    # One width of names, so that the bars of all lanes begin at one place.
    return render("lanes.html", lanes=found, opened=opened, width=max(map(len, names), default=8))


# --- Above them.


def lead(comparison: "Comparison") -> str:
    """Say in a sentence which heads answer what."""
    from heads.interpret.comparison import answer_key  # which imports torch

    known = [one for one in comparison.predictions if not one.new]
    if not known:
        return "A random head: what it says means nothing."
    if not all(one.problem.has_classes for one in known):
        return comparison.verdict
    groups: dict[frozenset[str] | None, list[Prediction]] = {}
    for one in known:
        groups.setdefault(answer_key(one), []).append(one)
    ranked = sorted(groups.values(), key=len, reverse=True)
    if len(known) == 1:
        return f"{_says(known)}."
    if len(ranked) == 1:
        who = "Both heads" if len(known) == 2 else f"All {NUMBERS[len(known)].lower()} heads"
        return f"{who} {_answers(known[0], many=True)}."
    first, *rest = (_says(group) for group in ranked)
    told = [first, *(one[0].lower() + one[1:] if one.startswith(NUMBERS) else one for one in rest)]
    return f"{'; '.join(told)}."


def _says(group: "Sequence[Prediction]") -> str:
    if len(group) == 1:
        return f"{title_of(group[0].name)} {_answers(group[0])}"
    return f"{NUMBERS[len(group)]} {_answers(group[0], many=True)}"


def _answers(prediction: "Prediction", *, many: bool = False) -> str:
    from heads.interpret.comparison import said

    verbs = ("are", "say") if many else ("is", "says")
    return f"{verbs[0] if prediction.is_undecided else verbs[1]} {said(prediction)}"


def verdict(comparison: "Comparison", *, can_compare: bool = False) -> Markup:
    """The sentence above the lanes, and what one should know before believing them.

    Args:
        can_compare: Whether to offer a view of two heads that disagree.
    """
    from heads.interpret.comparison import answer_key, rightness  # which imports torch

    exclusive = [p for p in comparison.predictions if p.problem.is_exclusive and not p.new]
    return render(
        "verdict.html",
        first=lead(comparison),
        rest=rightness(comparison.predictions, comparison.expected),
        notes=comparison.notes,
        disagrees=can_compare and len({answer_key(one) for one in exclusive}) > 1,
    )


def trained_on(comparison: "Comparison", title: str = "") -> str:
    """Say on what the heads were trained and tested."""
    one = next((p for p in comparison.predictions if p.scores), None)
    if one is None or one.scores is None:
        return ""
    if title:
        held_out = "each held out from the head that answered it"
        rows = f"Trained on {one.rows:,} rows of {title}; scored on {one.scores.rows:,} rows"
        return f"{rows}, {held_out}."
    name = f"the sample “{SAMPLES[comparison.sample].title}”"
    few = f"tested on only {one.scores.rows:,}: a demonstration, not a benchmark"
    return f"Trained on {one.rows:,} texts of {name}, {few}."


# --- What the same question is in Python, in the shell, and as a link.


def as_python(asked: Mapping[str, Any]) -> str:
    r"""The call that answers the same.

    >>> as_python({"text": "Fine.", "recipes": RECIPES, "sample": "sentiment", "raw": True})
    'import heads\n\nprint(heads.compare("Fine.", sample="sentiment", raw=True))'
    """
    named = {name: value for name, value in asked.items() if name != "text" and value}
    if tuple(named.get("recipes", ())) == RECIPES:
        named.pop("recipes")
    arguments = [json.dumps(asked["text"], ensure_ascii=False)]
    for name, value in named.items():
        told = list(value) if isinstance(value, tuple) else value
        is_flag = isinstance(value, bool)
        arguments.append(f"{name}={value if is_flag else json.dumps(told, ensure_ascii=False)}")
    return f"import heads\n\nprint(heads.compare({', '.join(arguments)}))"


def as_command(asked: Mapping[str, Any]) -> str:
    """The command that answers the same.

    >>> as_command({"text": "Fine.", "recipes": ("mean+linear",), "raw": True})
    'heads compare Fine. --recipe mean+linear --raw'
    """
    parts = ["heads", "compare", asked["text"]]
    for recipe in asked.get("recipes", ()):
        parts += ["--recipe", recipe]
    for name, value in asked.items():
        if name not in ("text", "recipes") and value:
            parts += [f"--{name}"] if value is True else [f"--{name}", value]
    return shlex.join(parts)
