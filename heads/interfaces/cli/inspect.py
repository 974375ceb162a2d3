"""The commands that look inside trained heads: inspect, edit, ablate, readings."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from heads import api
from heads.errors import DataError
from heads.interfaces.cli.commands import compare
from heads.interfaces.cli.shell import command, print_json, sentence


@command(compare, api.Inspector.attribute, formerly="look")
def inspect(
    text: str,
    *,
    heads: api.Inspector,
    pair: str = "",
    label: str = "",
    against: Literal["others", "runner-up"] = "others",
    nearest: int = 3,
    json: bool = False,
) -> None:
    """Shows which tokens move a head's answer.

    Args:
        heads: The heads that are asked.
        nearest: How many training examples of each head; 0: none.
    """
    from heads.analysis.neighbors import MOST

    if not 0 <= nearest <= MOST:
        what = f"--nearest takes 1 to {MOST} examples, or 0 for none; not {nearest}."
        raise DataError(what, "Change it.")
    text = _asked(text, heads)
    found = heads.attribute(text, pair, label=label, against=against)
    near = heads.nearest(text, pair, most=nearest) if nearest else ()
    if json:
        return print_json(
            {
                "attributions": [one.as_json() for one in found],
                "nearest": [one.as_json() for one in near],
            }
        )
    _show_scores(found)
    _show_neighbours(near)


@command(inspect)
def edit(
    text: str,
    edited: Sequence[str],
    *,
    heads: api.Inspector,
    pair: str = "",
    json: bool = False,
) -> None:
    """Shows which heads flip if a word changes.

    Args:
        edited: The sentence with something changed.
    """
    found = heads.flips(_asked(text, heads), edited, pair)
    if json:
        return print_json(found.as_json())
    from heads.interfaces.cli import tables

    rows = [(found.original.text, found.original), *((one.change, one) for one in found.edits)]
    tables.show(found.summary)
    tables.listing(
        ("", *(one.name for one in found.original.said)),
        [
            (
                change,
                *(
                    f"{_sure(said)}{' (flips)' if turned else ''}"
                    for said, turned in zip(one.said, one.flips, strict=True)
                ),
            )
            for change, one in rows
        ],
    )


@command(inspect, api.Inspector.ablate)
def ablate(
    text: str,
    *,
    heads: api.Inspector,
    pair: str = "",
    without: str = "",
    retrain: bool = True,
    json: bool = False,
) -> None:
    """Shows heads with a layer taken out."""
    found = heads.ablate(_asked(text, heads), pair, without=without, retrain=retrain)
    if json:
        return print_json([one.as_json() for one in found])
    from heads.interfaces.cli import tables
    from heads.interfaces.views.comparison import signed

    if not found:
        tables.show("These heads have one layer that does anything, and it gives the logits.")
    for one in found:
        tables.show(one.says)
        taken, anew = f"{one.layer} ({one.does}) taken out", f"trained without {one.layer}"
        columns = {"whole": one.before, taken: one.after, anew: one.retrained}
        shown = {title: said.logits for title, said in columns.items() if said is not None}
        if len(shown) == 1:
            continue
        tables.listing(
            ("logit of", *shown),
            [
                (name, *(signed(value, 3) for value in values))
                for name, *values in zip(one.before.classes, *shown.values(), strict=True)
            ],
        )


@command(inspect, api.Inspector.readings)
def readings(
    text: str,
    *,
    heads: api.Inspector,
    pair: str = "",
    temperature: float = 2.0,
    json: bool = False,
) -> None:
    """Shows the same logits as softmax, as sigmoid, and tempered."""
    found = heads.readings(_asked(text, heads), pair, temperature=temperature)
    if json:
        return print_json([one.as_json() for one in found])
    from heads.analysis.selection import SIGMOID, SOFTMAX, TEMPERATURE
    from heads.interfaces.cli import tables
    from heads.interfaces.views.charts import percent
    from heads.interfaces.views.comparison import signed

    for one in found:
        if not one.said.problem.has_classes:
            tables.show(f"{one.said.name} says {one.said.spoken}: a number, no probability.")
            continue
        tables.show(f"{one.said.name} says {one.said.spoken}.")
        columns = (one.said.classes, one.said.logits, one.softmax, one.sigmoid, one.tempered)
        tables.listing(
            ("class", "logit", "softmax", "sigmoid", f"at temperature {one.temperature:g}"),
            [
                (name, signed(logit, 3), *map(percent, shares))
                for name, logit, *shares in zip(*columns, strict=True)
            ],
        )
    if any(one.softmax for one in found):
        tables.show(SOFTMAX, SIGMOID, TEMPERATURE)


def _asked(text: str, heads: api.Inspector) -> str:
    """The sentence that heads are asked about."""
    if heads.run and heads.sample:
        raise DataError("A run has its own data.", "Leave out --sample, or --run.")
    return sentence(text)


def _sure(said: Any) -> str:
    from heads.interfaces.views.charts import percent

    return said.spoken if said.chance is None else f"{said.spoken} {percent(said.chance, 0)}"


def _show_scores(found: Sequence[Any]) -> None:
    """A token a row, a head a column; heads that read other tokens have a table of their own."""
    from rich.text import Text

    from heads.interfaces.cli import tables

    groups: dict[Sequence[str], list[Any]] = {}
    for one in found:
        groups.setdefault(tuple(token.text for token in one.tokens), []).append(one)
    for words, heads in groups.items():
        table = tables.table_of("token", *(f"{one.name}: {one.label}" for one in heads))
        for place, word in enumerate(words):
            scores = (_score(one, one.tokens[place].score) for one in heads)
            table.add_row(Text(word), *(Text(told, style=style) for told, style in scores))
        tables.show(table)
    for one in found:
        tables.show(one.says)


def _score(one: Any, score: float) -> tuple[str, str]:
    from heads.interfaces.views.comparison import signed

    if one.why_not:
        return "", ""
    return signed(score, 3), "green" if score > 0 else "red" if score < 0 else "dim"


def _show_neighbours(found: Iterable[Any]) -> None:
    from heads.interfaces.cli import tables

    for one in found:
        tables.show(one.says)
        tables.listing(
            ("how near", "label", "training example"),
            [
                (
                    near.told,
                    ", ".join(near.labels) or "none",
                    " ↔ ".join(filter(None, (near.text, near.pair))),
                )
                for near in one.neighbours
            ],
        )
