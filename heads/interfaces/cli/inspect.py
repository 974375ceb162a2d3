"""The commands that look inside trained heads: inspect, edit, ablate, readings."""

from collections.abc import Sequence
from typing import Literal

from heads import api
from heads.errors import DataError
from heads.interfaces import cli
from heads.interfaces.cli.commands import compare
from heads.interfaces.cli.shell import Answers, command, sentence


@command(compare, api.Inspector.attribute)
def inspect(
    text: str,
    *,
    heads: api.Inspector,
    pair: str = "",
    label: str = "",
    against: Literal["others", "runner-up"] = "others",
    nearest: int = 3,
) -> Answers:
    """Shows which tokens move a head's answer.

    Args:
        heads: The heads that are asked.
        nearest: How many training examples of each head; 0: none.
    """
    from heads.interfaces.views.descriptions import tabulate_tokens
    from heads.interpret.neighbors import MOST

    if not 0 <= nearest <= MOST:
        what = f"--nearest takes 1 to {MOST} examples, or 0 for none; not {nearest}."
        raise DataError(what, "Change it.")
    text = _asked(text, heads)
    found = heads.attribute(text, pair, label=label, against=against)
    near = heads.nearest(text, pair, most=nearest) if nearest else ()
    values = {
        "attributions": [one.as_json() for one in found],
        "nearest": [one.as_json() for one in near],
    }
    says = [attribution.says for attribution in found]
    yield values, lambda: cli.tables.show(*tabulate_tokens(found), *says, *near)


@command(inspect)
def edit(text: str, edited: Sequence[str], *, heads: api.Inspector, pair: str = "") -> Answers:
    """Shows which heads flip if a word changes.

    Args:
        edited: The sentence with something changed.
    """
    found = heads.flips(_asked(text, heads), edited, pair)
    yield found.as_json(), lambda: cli.tables.show(found)


@command(inspect, api.Inspector.ablate)
def ablate(
    text: str, *, heads: api.Inspector, pair: str = "", without: str = "", retrain: bool = True
) -> Answers:
    """Shows heads with a layer taken out."""
    found = heads.ablate(_asked(text, heads), pair, without=without, retrain=retrain)
    nothing = "" if found else "These heads have one layer that does anything: it gives the logits."
    yield [one.as_json() for one in found], lambda: cli.tables.show(nothing, *found)


@command(inspect, api.Inspector.readings)
def readings(
    text: str, *, heads: api.Inspector, pair: str = "", temperature: float = 2.0
) -> Answers:
    """Shows the same logits as softmax, as sigmoid, and tempered."""
    from heads.interfaces.views.descriptions import list_readings

    found = heads.readings(_asked(text, heads), pair, temperature=temperature)
    yield [one.as_json() for one in found], lambda: cli.tables.show(*list_readings(found))


def _asked(text: str, heads: api.Inspector) -> str:
    if heads.run and heads.sample:
        raise DataError("A run has its own data.", "Leave out --sample, or --run.")
    return sentence(text)
