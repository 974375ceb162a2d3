"""The commands that look inside trained heads: look, edit, ablate, readings."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from heads import api
from heads.errors import DataError
from heads.interfaces.cli.commands import Parser, add_recipes, print_json
from heads.interfaces.docstrings import flag


def add(verbs: Any, asking: Parser) -> None:
    """Adds the commands.

    Args:
        asking: The flags of commands that ask about a sentence: pair, model, sample, json.
    """
    common = Parser(add_help=False, parents=[asking])
    common.add_argument("text", help="the sentence, or - to read it from standard input")
    add_recipes(common)
    says = flag(api.Inspector, "run")
    common.add_argument("--run", dest="run_name", default="", metavar="RUN", help=says)
    asked = api.Inspector.attribute
    verb = verbs.add_parser("look", parents=[common], help="which tokens move a head's answer")
    verb.add_argument("--label", default="", metavar="CLASS", help=flag(asked, "label"))
    against = f"{flag(asked, 'against')} (others)"
    verb.add_argument("--against", default="others", choices=("others", "runner-up"), help=against)
    most = f"{flag(api.Inspector.nearest, 'most')}; 0: none (3)"
    verb.add_argument("--nearest", type=int, default=3, metavar="N", help=most)
    verb.set_defaults(run=look)

    verb = verbs.add_parser("edit", parents=[common], help="which heads flip if a word changes")
    verb.add_argument("edited", nargs="+", help="the sentence with something changed")
    verb.set_defaults(run=edit)

    _add_ablate(verbs, common)
    verb = verbs.add_parser(
        "readings", parents=[common], help="the same logits as softmax, as sigmoid, and tempered"
    )
    says = f"{flag(api.Inspector.readings, 'temperature')} (2)"
    verb.add_argument("--temperature", type=float, default=2.0, metavar="T", help=says)
    verb.set_defaults(run=readings)


def _add_ablate(verbs: Any, common: Parser) -> None:
    verb = verbs.add_parser("ablate", parents=[common], help="a head with a layer taken out")
    says = flag(api.Inspector.ablate, "without")
    verb.add_argument("--without", default="", metavar="LAYER", help=says)
    verb.add_argument(
        "--no-retrain",
        action="store_true",
        help="show the head as it is only, not the one that is trained anew without the layer",
    )
    verb.set_defaults(run=ablate)


def look(asked: Namespace) -> None:
    """Shows the tokens' scores under each head, and the nearest training examples."""
    from heads.analysis.neighbors import MOST

    if not 0 <= asked.nearest <= MOST:
        what = f"--nearest takes 1 to {MOST} examples, or 0 for none; not {asked.nearest}."
        raise DataError(what, "Change it.")
    text, inside = _question(asked)
    found = inside.attribute(text, asked.pair, label=asked.label, against=asked.against)
    near = inside.nearest(text, asked.pair, most=asked.nearest) if asked.nearest else ()
    if asked.json:
        print_json(
            {
                "attributions": [one.as_json() for one in found],
                "nearest": [one.as_json() for one in near],
            }
        )
    else:
        _show_scores(found)
        _show_neighbours(near)


def edit(asked: Namespace) -> None:
    """Shows what each head says of a sentence and of its edits."""
    text, inside = _question(asked)
    found = inside.flips(text, asked.edited, asked.pair)
    if asked.json:
        print_json(found.as_json())
        return
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


def ablate(asked: Namespace) -> None:
    """Shows what heads say with a layer, with it taken out, and trained without it."""
    text, inside = _question(asked)
    found = inside.ablate(text, asked.pair, without=asked.without, retrain=not asked.no_retrain)
    if asked.json:
        print_json([one.as_json() for one in found])
        return
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


def readings(asked: Namespace) -> None:
    """Shows logits read as softmax, as sigmoid, and at a temperature."""
    text, inside = _question(asked)
    found = inside.readings(text, asked.pair, temperature=asked.temperature)
    if asked.json:
        print_json([one.as_json() for one in found])
        return
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


def _question(asked: Namespace) -> tuple[str, api.Inspector]:
    """The sentence, and which heads are asked about it."""
    if asked.run_name and asked.sample:
        raise DataError("A run has its own data.", "Leave out --sample, or --run.")
    text = sys.stdin.read() if asked.text == "-" else asked.text
    recipes = asked.recipe or ()
    return text, api.Inspector(
        recipes=recipes, model=asked.model, sample=asked.sample, run=asked.run_name
    )


def _sure(said: Any) -> str:
    from heads.interfaces.views.charts import percent

    return said.spoken if said.chance is None else f"{said.spoken} {percent(said.chance, 0)}"


def _show_scores(found: Sequence[Any]) -> None:
    """A token a row, a head a column; heads that read other tokens have a table of their own."""
    from rich.text import Text

    from heads.interfaces.cli import tables

    groups: dict[tuple[str, ...], list[Any]] = {}
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
