"""What trained heads look at, and what-ifs, as fragments of HTML. No Gradio."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from heads.analysis.ablation import Ablation
from heads.analysis.attribution_result import Attribution, Token
from heads.analysis.counterfactuals import Counterfactual, Counterfactuals
from heads.analysis.neighbors import Neighbourhood
from heads.analysis.selection import SIGMOID, SOFTMAX, TEMPERATURE, HeadOutput, Reading
from heads.interfaces.views.charts import bars, percent
from heads.interfaces.views.comparison import COLOURS, joined, signed

SHOWN = 6  # classes of a head
CELL, TITLE = Markup("<td>{}</td>").format, Markup("<th>{}</th>").format
SECOND = Markup('<span class="side">second text</span>')


def attributions(found: Sequence[Attribution], *, numbers: bool = False) -> Markup:
    """For each head the text, every token in the colour and with the number of its score.

    Args:
        numbers: Whether the heads give numbers, so that there is no class to speak for.
    """
    told = ("speaks for the class", "speaks against it")
    legend = Markup(
        '<ul class="key"><li class="for"><i></i><span>{}</span></li>'
        '<li class="against"><i></i><span>{}</span></li></ul>'
    ).format(*(("raises the number", "lowers it") if numbers else told))
    cards = joined(
        _attribution(one, colour, numbers) for one, colour in zip(found, COLOURS * 4, strict=False)
    )
    return Markup('{}<div class="pair wide">{}</div>').format(legend, cards)


def _attribution(one: Attribution, colour: str, numbers: bool) -> Markup:
    card = Markup('<article class="card look" style="--mark:{}"><h4>{}</h4>{}</article>')
    if one.why_not:
        return card.format(colour, one.name, Markup("<p>{}</p>").format(one.why_not))
    asked = Markup("What speaks for <strong>{}</strong>{}").format(one.label, _unlike(one))
    says, to = one.says, f"to {one.quantity}"
    if numbers:
        asked, to = Markup("What moves the number"), "to the number"
        says = says.replace(f"the logit of {one.label}", "the number")
        says = says.replace("the logits' span", "the number")
    body = Markup('<p class="answer">{}</p>{}<p>{}</p>{}')
    return card.format(colour, one.name, body.format(asked, _tokens(one, to), says, _numbers(one)))


def _unlike(one: Attribution) -> str:
    """What the head answers, where that is not the class that is taken apart."""
    if not one.answer or one.answer == (one.label,):
        return ""
    return f" (it answers {', '.join(one.answer)})"


def _tokens(one: Attribution, to: str) -> Markup:
    most = max((abs(token.score) for token in one.tokens), default=0.0) or 1.0
    return _texts(one.tokens, lambda token: _token(token, to, most))


def _texts(tokens: Sequence[Token], draw: Callable[[Token], Markup]) -> Markup:
    """Tokens one after the other; it is written where the second text begins."""
    drawn = [draw(token) for token in tokens]
    sides = [token.side for token in tokens]
    if "pair" in sides:
        drawn.insert(sides.index("pair"), SECOND)
    return Markup('<div class="reading">{}</div>').format(joined(drawn))


def _token(token: Token, to: str, most: float) -> Markup:
    side = {"pair": " second", "": " special"}.get(token.side, "")
    towards = "for" if token.score > 0 else "against" if token.score < 0 else "neither"
    share = abs(token.score) / most
    told = f"{token.text}: {signed(token.score, 4)} {to}"
    return Markup(
        '<span class="read {}{}" style="--share:{:.3f}" title="{}"><b>{}</b><i>{}</i></span>'
    ).format(towards, side, share, told, token.text, signed(token.score) if token.side else "–")


def _numbers(one: Attribution) -> Markup:
    rows = joined(
        Markup("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>").format(
            token.text,
            signed(token.score, 4),
            signed(token.gradient_times_input, 4),
            percent(token.read),
        )
        for token in one.tokens
    )
    return Markup(
        '<details class="notes"><summary>All numbers</summary><div class="scroll" tabindex="0">'
        '<table class="figures"><thead><tr><th>token</th><th>integrated gradients</th>'
        "<th>gradient × input</th><th>read by the pooling</th></tr></thead><tbody>{}</tbody>"
        "</table></div></details>"
    ).format(rows)


def reads(found: Sequence[Attribution]) -> Markup:
    """For each head the share of the pooled vector that every token gives."""
    return Markup('<div class="pair wide">{}</div>').format(joined(_read(one) for one in found))


def _read(one: Attribution) -> Markup:
    most = max((token.read for token in one.tokens), default=0.0) or 1.0
    box = Markup('<span class="read" style="--share:{:.3f}"><b>{}</b><i>{}</i></span>')

    def drawn(token: Token) -> Markup:
        share = percent(token.read, 0) if token.read >= 0.005 else "–"
        return box.format(token.read / most, token.text, share)

    return Markup('<div><h4 class="chart-name">{}</h4>{}</div>').format(
        one.name, _texts(one.tokens, drawn)
    )


def neighbours(found: Sequence[Neighbourhood]) -> Markup:
    """For each head the training examples that it sees as most similar."""
    cards = []
    for one, colour in zip(found, COLOURS * 4, strict=False):
        items = joined(
            Markup("<li>“{}” <strong>{}</strong> <span class='quiet'>{}</span></li>").format(
                " ↔ ".join(filter(None, (near.text, near.pair))),
                ", ".join(near.labels) or "no label",
                near.told,
            )
            for near in one.neighbours
        )
        cards.append(
            Markup(
                '<article class="card" style="--mark:{}"><h4>{}</h4><p>{}</p>'
                '<ol class="disagree">{}</ol></article>'
            ).format(colour, one.name, one.says, items)
        )
    if not cards:
        told = "What a head that came with its checkpoint was trained on is not known here."
        return Markup('<p class="quiet">{}</p>').format(told)
    searched = max((one.searched for one in found), default=0)
    note = Markup('<p class="quiet">Among {} texts that the heads have learned from.</p>')
    return Markup('<div class="cards">{}</div>{}').format(
        joined(cards), note.format(f"{searched:,}")
    )


def flips(found: Counterfactuals) -> Markup:
    """The edits, a row each, with what every head says; a flip is written out."""
    head = joined(Markup("<th>{}</th>").format(one.name) for one in found.original.said)
    rows = joined(_edit(edit) for edit in (found.original, *found.edits))
    flipped = any(any(edit.flips) for edit in found.edits)
    return Markup(
        '<div class="verdict {}" role="status"><p>{}</p></div><div class="scroll" tabindex="0">'
        '<table class="figures edits"><thead><tr><th>sentence</th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format("differ" if flipped else "agree", found.summary, head, rows)


def _edit(edit: Counterfactual) -> Markup:
    marks = {"same": "{}", "added": "<ins>{}</ins>", "removed": "<del>{}</del>"}
    text = Markup(" ").join(Markup(marks[kind]).format(words) for kind, words in edit.pieces)
    cells = joined(
        Markup("<td>{}{}</td>").format(
            sure(said), Markup(' <span class="role flip">flips</span>') if turned else ""
        )
        for said, turned in zip(edit.said, edit.flips, strict=True)
    )
    return Markup("<tr><th>{}</th>{}</tr>").format(text, cells)


def sure(said: HeadOutput) -> str:
    """What a head says, and how sure it is."""
    chance = said.chance
    return said.spoken if chance is None else f"{said.spoken} {percent(chance, 0)}"


def ablations(found: Sequence[Ablation]) -> Markup:
    """What each head says without each of its layers."""
    if not found:
        return Markup('<p class="quiet">{}</p>').format(
            "These heads have only the layer that gives the logits: choose cls+roberta, say."
        )
    return Markup('<div class="cards">{}</div>').format(joined(_ablation(one) for one in found))


def _ablation(one: Ablation) -> Markup:
    after = one.after
    has_other = after is not None or one.retrained is not None
    table = _without(one.before, after, one.retrained) if has_other else Markup("")
    turned = after is not None and after.answer != one.before.answer
    return Markup(
        '<article class="card" style="--mark:{}"><h4>{} without {}</h4>'
        '<p class="quiet">{}</p><p>{}</p>{}</article>'
    ).format(COLOURS[1] if turned else COLOURS[0], one.name, one.layer, one.does, one.says, table)


def _without(before: HeadOutput, after: HeadOutput | None, retrained: HeadOutput | None) -> Markup:
    """Every output of the whole head, of it without a layer, and of the one trained without it."""
    is_number = not before.problem.has_classes and len(before.classes) == 1
    names = ["number"] if is_number else before.classes[:20]
    columns = {"whole": before, "taken out": after, "trained without": retrained}
    shown = {title: said.logits for title, said in columns.items() if said is not None}
    rows = joined(
        Markup("<tr><th>{}</th>{}</tr>").format(name, joined(map(CELL, map(signed, values))))
        for name, *values in zip(names, *shown.values(), strict=False)
    )
    return Markup(
        '<div class="scroll"><table class="figures"><thead><tr><th>{}</th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format("" if is_number else "logit of", joined(map(TITLE, shown)), rows)


def temperature(found: Sequence[Reading]) -> Markup:
    """The probabilities of each head at a temperature; a number has none."""
    told = Markup('<p class="quiet">{}</p>').format(TEMPERATURE)
    cards = (
        _chances(one, colour)
        for one, colour in zip(found, COLOURS * 4, strict=False)
        if one.said.problem.has_classes
    )
    return Markup('<div class="cards">{}</div>{}').format(joined(cards), told)


def _chances(one: Reading, colour: str) -> Markup:
    says = f"at temperature {one.temperature:.2g}"
    if one.said.temperature != 1:
        says += f"; it is as sure as it is right at {one.said.temperature:.2g}"
    return Markup(
        '<article class="card" style="--mark:{}"><h4>{}</h4><p class="answer"><strong>{}</strong>'
        " {}</p>{}</article>"
    ).format(
        colour, one.said.name, one.said.spoken, says, _largest(one, one.tempered, colour, best=True)
    )


def readings(found: Sequence[Reading]) -> Markup:
    """The same logits read by the softmax and by one sigmoid a class, side by side."""
    rows = []
    for one, colour in zip(found, COLOURS * 4, strict=False):
        if not one.said.problem.has_classes:
            continue
        sides = joined(
            Markup("<p>{}</p>{}").format(name, _largest(one, shares, colour))
            for name, shares in (("softmax", one.softmax), ("sigmoid", one.sigmoid))
        )
        card = '<article class="card" style="--mark:{}"><h4>{}</h4>{}</article>'
        rows.append(Markup(card).format(colour, one.said.name, sides))
    told = joined(Markup("<p>{}</p>").format(says) for says in (SOFTMAX, SIGMOID))
    return Markup('<div class="facts">{}</div><div class="cards">{}</div>').format(
        told, joined(rows)
    )


def _largest(one: Reading, shares: Sequence[float], colour: str, *, best: bool = False) -> Markup:
    """A bar a class; of many, the largest, and how many more there are."""
    pairs = list(zip(one.said.classes, shares, strict=True))
    if len(pairs) > SHOWN:
        pairs.sort(key=lambda pair: -pair[1])
    return bars(pairs, colour=colour, best=best, most=SHOWN)
