"""Why a head says what it says, and what if: fragments of HTML. No Gradio."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from heads.classifier.classifier import Classifier
from heads.classifier.prediction import UNDECIDED, is_close
from heads.interfaces.views.descriptions import describe
from heads.interfaces.views.format import COLOURS, signed
from heads.interfaces.views.html import render
from heads.interfaces.views.lanes import chance, score_says, title_of
from heads.interpret.ablation import Ablation
from heads.interpret.attribution_result import Attribution, Token
from heads.interpret.counterfactuals import Counterfactual, Counterfactuals
from heads.interpret.neighbors import Neighbourhood
from heads.interpret.outputs import SIGMOID, SOFTMAX, TEMPERATURE, HeadOutput, Reading

MOST_BARS = 12  # classes at a temperature


def attribution(one: Attribution, *, is_number: bool = False, notes: Iterable[str] = ()) -> Markup:
    """Show the text, every token in the colour and with the number of its score."""
    says, to = one.says, f"to {one.quantity}"
    if is_number:
        to = "to the number"
        says = says.replace(f"the logit of {one.label}", "the number")
        says = says.replace("the logits' span", "the number")
    is_other = bool(one.answer) and one.answer != (one.label,)
    return render(
        "why.html",
        one=one,
        is_number=is_number,
        other=", ".join(one.answer) if is_other else "",
        says=says,
        notes=list(notes),
        tokens=list(_tokens(one.tokens, to)),
    )


def _tokens(tokens: Sequence[Token], to: str) -> Iterator[dict[str, Any]]:
    most = max((abs(token.score) for token in tokens), default=0.0) or 1.0
    was_pair = False
    for token in tokens:
        is_pair = token.side == "pair"
        yield {
            "text": token.text,
            "side": token.side,
            "towards": "for" if token.score > 0 else "against" if token.score < 0 else "neither",
            "share": f"{abs(token.score) / most:.3f}",
            "shown": signed(token.score) if token.side else "–",
            "title": f"{token.text}: {signed(token.score, 4)} {to}",
            "exact": signed(token.score, 4),
            "gradient": signed(token.gradient_times_input, 4),
            "read": chance(token.read),
            "begins_pair": is_pair and not was_pair,
        }
        was_pair = was_pair or is_pair


def neighbours(found: Sequence[Neighbourhood]) -> Markup:
    """The training examples that a head sees as most similar."""
    return render("neighbours.html", found=found)


def ablations(found: Sequence[Ablation]) -> Markup:
    """What a head says without each of its layers."""
    return render("ablations.html", found=[(one, describe(one).blocks) for one in found])


def edits(found: Counterfactuals) -> Markup:
    """The edits, a row each, with what every head says; a flip is written out."""
    rows = [(edit, list(_cells(edit))) for edit in (found.original, *found.edits)]
    return render("edits.html", found=found, rows=rows)


def _cells(edit: Counterfactual) -> Iterator[tuple[str, bool]]:
    for said, flips in zip(edit.said, edit.flips, strict=True):
        sure = said.chance
        yield (said.spoken if sure is None else f"{said.spoken} {chance(sure)}"), flips


def side_by_side(
    classifiers: Sequence[Classifier],
    outputs: Sequence[HeadOutput],
    attributions: Sequence[Attribution],
    counterfactuals: Counterfactuals | None,
    lanes: Sequence[int],
    difference: str,
) -> Markup:
    """Draw two heads beside each other: answer, margin, evidence, and words that turn the answer.

    Args:
        outputs: The answers of the two to the text.
        attributions: Of the same difference of logits in both heads, where they share classes.
        counterfactuals: The answers to the text without each of its words.
        lanes: The numbers of their lanes, which give their colours.
    """
    columns, no_flips = list[dict[str, Any]](), ""
    if counterfactuals and counterfactuals.edits:
        words, tried = len(counterfactuals.original.text.split()), len(counterfactuals.edits)
        which = "No single word" if words == tried else f"None of the first {tried} words"
        of_pair = " of the first text" * bool(counterfactuals.original.pair)
        no_flips = f"{which}{of_pair} turns its answer when it is removed."
    parts = zip(classifiers, outputs, attributions, lanes, strict=True)
    for number, (classifier, output, attribution, lane) in enumerate(parts):
        edits = counterfactuals.edits if counterfactuals else ()
        head, ranked = classifier.head, sorted(output.probabilities, reverse=True)
        is_undecided = is_close(output.probabilities, head)
        label = attribution.label
        margin, rival = "", f" rather than {attribution.rival}" if attribution.rival else ""
        if output.chance is not None and len(ranked) > 1:
            points = f"{100 * (ranked[0] - ranked[1]):.0f}"
            margin = f"{chance(ranked[0])}, {points} point{'s' * (points != '1')} ahead"
        columns.append(
            {
                "mark": COLOURS[lane - 1],
                "title": title_of(head.name),
                "recipe": head.name,
                "answer": f"{UNDECIDED} ({output.spoken})" if is_undecided else output.spoken,
                "margin": margin,
                "score": score_says(head.scores) if head.scores else "",
                "reads": head.says[0],
                "tokens": list(_tokens(attribution.tokens, f"to {attribution.quantity}")),
                "why_not": attribution.why_not,
                "contrast": f"for {label}{rival}" if label else "",
                "says": f"{signed(attribution.value_on_blanks)} with {attribution.blank} for every "
                f"word, plus the scores: {signed(attribution.value)}.",
                "flips": [
                    (edit.change, edit.said[number].spoken) for edit in edits if edit.flips[number]
                ],
            }
        )
    return render(
        "side_by_side.html",
        columns=columns,
        no_flips=no_flips if outputs[0].problem.has_classes else "",
        difference=difference,
    )


# --- A head's numbers.


def numbers(read: Reading, thresholds: Sequence[float] = ()) -> Markup:
    """Every class: logit, probability, and the same logits read in two ways."""
    said = read.said
    is_number = not said.problem.has_classes
    logits = [signed(value, 3) for value in said.logits]
    is_softmax = said.problem.output_activation == "softmax"
    rows = []
    for at, name in enumerate(said.classes):
        row = {"name": name, "logit": logits[at], "is_answer": name in said.answer}
        if not is_number:
            row |= {
                "chance": chance(said.probabilities[at]),
                # The head's own activation is its probability.
                "other": chance((read.sigmoid if is_softmax else read.softmax)[at]),
                "cut": chance(thresholds[at]) if thresholds else "",
            }
        rows.append(row)
    return render(
        "numbers.html", said=said, rows=rows, is_number=is_number, cuts=bool(thresholds),
        other="as sigmoid" if is_softmax else "as softmax", softmax=SOFTMAX, sigmoid=SIGMOID,
    )  # fmt: skip


def number_rows(said: HeadOutput) -> tuple[list[str], list[list[Any]]]:
    """The same for a spreadsheet: headers and rows."""
    has_chance = said.problem.has_classes
    headers = ["recipe", "class", "logit", *(["probability"] if has_chance else [])]
    rows = [
        [said.name, name, round(logit, 6), *([round(share, 6)] if has_chance else [])]
        for name, logit, share in zip(said.classes, said.logits, said.probabilities, strict=True)
    ]
    return headers, rows


def tempered(read: Reading, colour: str) -> Markup:
    """The probabilities of a head at a temperature."""
    said = read.said
    order = sorted(range(len(said.classes)), key=lambda at: -read.tempered[at])[:MOST_BARS]
    if len(said.classes) <= MOST_BARS:
        order = list(range(len(said.classes)))
    rows = [
        (
            said.classes[at],
            f"{100 * read.tempered[at]:.2f}",
            chance(read.tempered[at]),
            said.classes[at] in said.answer,
        )
        for at in order
    ]
    says = f"At temperature {read.temperature:.2g}: {said.spoken}."
    if said.temperature != 1:
        says += f" Best calibrated on development rows at temperature {said.temperature:.2g}."
    return render("tempered.html", says=says, rows=rows, mark=colour, explained=TEMPERATURE)
