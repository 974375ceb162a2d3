"""What trained heads look at, and what-ifs, as fragments of HTML. No Gradio."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from heads.interfaces.charts import bars, percent
from heads.interfaces.drawings import joined
from heads.interfaces.figures import COLOURS
from heads.pipeline.look.ablation import Ablation
from heads.pipeline.look.attribution import Attribution, Token
from heads.pipeline.look.edits import Edit, Flips
from heads.pipeline.look.nearest import Neighbourhood
from heads.pipeline.look.saying import SIGMOID, SOFTMAX, TEMPERATURE, Reading, Said

SHOWN = 6  # classes of a head


def verdict(found: Sequence[Said]) -> Markup:
    """Who answers what, in a sentence."""
    sayers: dict[str, list[str]] = {}
    for one in found:
        sayers.setdefault(one.spoken, []).append(one.name)
    told = "; ".join(
        f"{', '.join(names)} {'says' if len(names) == 1 else 'say'} {answer}"
        for answer, names in sayers.items()
    )
    state = "agree" if len(sayers) == 1 else "differ"
    return Markup('<div class="verdict {}" role="status"><p><strong>{}.</strong></p></div>').format(
        state, told
    )


def attributions(found: Sequence[Attribution]) -> Markup:
    """For each head the text, every token in the colour and with the number of its score."""
    legend = Markup(
        '<ul class="key"><li class="for"><i></i><span>speaks for the class</span></li>'
        '<li class="against"><i></i><span>speaks against it</span></li></ul>'
    )
    cards = joined(
        _attribution(one, colour) for one, colour in zip(found, COLOURS * 4, strict=False)
    )
    return Markup('{}<div class="pair">{}</div>').format(legend, cards)


def _attribution(one: Attribution, colour: str) -> Markup:
    body = ("", "") if one.why_not else (_tokens(one), _numbers(one))
    return Markup(
        '<article class="card look" style="--mark:{}"><h4>{}</h4>'
        '<p class="answer">What speaks for <strong>{}</strong>{}</p>{}<p>{}</p>{}</article>'
    ).format(colour, one.name, one.label, _unlike(one), body[0], one.says, body[1])


def _unlike(one: Attribution) -> str:
    """What the head answers, where that is not the class that is taken apart."""
    if not one.answer or one.answer == (one.label,):
        return ""
    return f" (it answers {', '.join(one.answer)})"


def _tokens(one: Attribution) -> Markup:
    most = max((abs(token.score) for token in one.tokens), default=0.0) or 1.0
    return Markup('<div class="reading">{}</div>').format(
        joined(_token(token, one, most) for token in one.tokens)
    )


def _token(token: Token, one: Attribution, most: float) -> Markup:
    side = {"pair": " second", "": " special"}.get(token.side, "")
    towards = "for" if token.score > 0 else "against" if token.score < 0 else "neither"
    share = abs(token.score) / most
    told = f"{token.text}: {signed(token.score, 4)} to the logit of {one.label}"
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


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-1.25, 1), signed(0.0), signed(-0.0001)
    ('+0.50', '−1.2', '0.00', '0.00')
    """
    told = f"{value:+.{digits}f}"
    return told[1:] if not float(told) else told.replace("-", "−")


def reads(found: Sequence[Attribution]) -> Markup:
    """For each head the share of the pooled vector that every token gives."""
    return Markup('<div class="pair">{}</div>').format(joined(_read(one) for one in found))


def _read(one: Attribution) -> Markup:
    most = max((token.read for token in one.tokens), default=0.0) or 1.0
    tokens = joined(
        Markup('<span class="read" style="--share:{:.3f}"><b>{}</b><i>{}</i></span>').format(
            token.read / most, token.text, percent(token.read, 0) if token.read >= 0.005 else "–"
        )
        for token in one.tokens
    )
    return Markup('<div><h4 class="chart-name">{}</h4><div class="reading">{}</div></div>').format(
        one.name, tokens
    )


def neighbours(found: Sequence[Neighbourhood]) -> Markup:
    """For each head the training examples that it sees as most similar."""
    cards = []
    for one, colour in zip(found, COLOURS * 4, strict=False):
        items = joined(
            Markup("<li>“{}” <strong>{}</strong> <span class='quiet'>{}</span></li>").format(
                " ↔ ".join(filter(None, (near.text, near.pair))),
                ", ".join(near.labels) or "no label",
                f"similarity {near.similarity:.2f}",
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


def flips(found: Flips) -> Markup:
    """The edits, a row each, with what every head says; a flip is written out."""
    head = joined(Markup("<th>{}</th>").format(one.name) for one in found.original.said)
    rows = joined(_edit(edit) for edit in (found.original, *found.edits))
    flipped = any(any(edit.flips) for edit in found.edits)
    return Markup(
        '<div class="verdict {}" role="status"><p>{}</p></div><div class="scroll" tabindex="0">'
        '<table class="figures edits"><thead><tr><th>sentence</th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format("differ" if flipped else "agree", found.summary, head, rows)


def _edit(edit: Edit) -> Markup:
    marks = {"same": "{}", "added": "<ins>{}</ins>", "removed": "<del>{}</del>"}
    text = Markup(" ").join(Markup(marks[kind]).format(words) for kind, words in edit.pieces)
    cells = joined(
        Markup("<td>{}{}</td>").format(
            sure(said), Markup(' <span class="role flip">flips</span>') if turned else ""
        )
        for said, turned in zip(edit.said, edit.flips, strict=True)
    )
    return Markup("<tr><th>{}</th>{}</tr>").format(text, cells)


def sure(said: Said) -> str:
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
    table = Markup("")
    if after is not None:
        rows = joined(
            Markup("<tr><th>{}</th><td>{}</td><td>{}</td></tr>").format(
                name, signed(whole), signed(bare)
            )
            for name, whole, bare in zip(
                one.before.classes[:20], one.before.logits, after.logits, strict=False
            )
        )
        table = Markup(
            '<div class="scroll"><table class="figures"><thead><tr><th>logit of</th><th>whole</th>'
            "<th>without</th></tr></thead><tbody>{}</tbody></table></div>"
        ).format(rows)
    turned = after is not None and after.answer != one.before.answer
    return Markup(
        '<article class="card" style="--mark:{}"><h4>{} without {}</h4>'
        '<p class="quiet">{}</p><p>{}</p>{}</article>'
    ).format(COLOURS[1] if turned else COLOURS[0], one.name, one.layer, one.does, one.says, table)


def temperature(found: Sequence[Reading]) -> Markup:
    """The probabilities of each head at a temperature."""
    told = Markup('<p class="quiet">{}</p>').format(TEMPERATURE)
    cards = (
        _chances(one, one.tempered, colour) for one, colour in zip(found, COLOURS * 4, strict=False)
    )
    return Markup('<div class="cards">{}</div>{}').format(joined(cards), told)


def _chances(one: Reading, shares: Sequence[float], colour: str) -> Markup:
    says = f"at temperature {one.temperature:.2g}"
    if one.said.temperature != 1:
        says += f"; it is as sure as it is right at {one.said.temperature:.2g}"
    if one.said.squash == "none":
        drawn = Markup("<p>It answers with a number, which no temperature makes surer.</p>")
    else:
        drawn = bars(_largest(one.said.classes, shares), colour=colour, best=True)
    return Markup(
        '<article class="card" style="--mark:{}"><h4>{}</h4><p class="answer"><strong>{}</strong>'
        " {}</p>{}</article>"
    ).format(colour, one.said.name, one.said.spoken, says, drawn)


def readings(found: Sequence[Reading]) -> Markup:
    """The same logits read by the softmax and by one sigmoid a class, side by side."""
    rows = []
    for one, colour in zip(found, COLOURS * 4, strict=False):
        if one.said.squash == "none":
            continue
        sides = joined(
            Markup("<p>{}</p>{}").format(
                name, bars(_largest(one.said.classes, shares), colour=colour)
            )
            for name, shares in (("softmax", one.softmax), ("sigmoid", one.sigmoid))
        )
        card = '<article class="card" style="--mark:{}"><h4>{}</h4>{}</article>'
        rows.append(Markup(card).format(colour, one.said.name, sides))
    told = joined(Markup("<p>{}</p>").format(says) for says in (SOFTMAX, SIGMOID))
    return Markup('<div class="facts">{}</div><div class="cards">{}</div>').format(
        told, joined(rows)
    )


def _largest(classes: Iterable[str], shares: Sequence[float]) -> list[tuple[str, float]]:
    pairs = list(zip(classes, shares, strict=True))
    return pairs if len(pairs) <= SHOWN else sorted(pairs, key=lambda pair: -pair[1])[:SHOWN]
