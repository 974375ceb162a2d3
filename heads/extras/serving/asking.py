"""What a server is asked about its texts, and in which ways."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heads import interruption
from heads.extras.serving import clients
from heads.extras.serving.fitting import LOGITS
from heads.extras.serving.probes import Probes
from heads.extras.serving.report import EndpointFinding, note

REPEATED = 4  # texts that are asked twice: with dropout on no two answers are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a server said of all probes.

    Attributes:
        usual: Asked as its users do, text by text.
        raw: Asked for logits; nothing where it does not give them.
        batched: Asked as its users do, several texts at once; nothing where it does not take them.
        repeated: The first texts asked a second time, as `usual`.
        notes: What of it could not be asked.
    """

    usual: list[clients.Scores]
    raw: list[clients.Scores]
    batched: list[clients.Scores]
    repeated: list[clients.Scores]
    notes: tuple[EndpointFinding, ...]


def ask(server: clients.Server, probes: Probes, own: str) -> Answers:
    """Asks a server about all probes.

    Args:
        own: What the checkpoint makes of its logits, by name.
    """
    usual = [ask_one(server, probes.row(number)) for number in range(len(probes))]
    repeated = [ask_one(server, probes.row(number)) for number in range(len(probes))[:REPEATED]]
    notes: list[EndpointFinding] = []
    raw, why = _ask_raw(server, probes, usual, own)
    if raw and why:  # the same scores, of which it may have told more
        usual, raw = raw, []
    notes += [note("asking", why)] if why and own != LOGITS else []
    batched: list[clients.Scores] = []
    if server.most > 1 and len(probes) > 1:
        try:
            batched = _ask_batched(server, probes)
        except clients.Refusal as error:
            notes.append(note("asking", f"Several texts at once were refused: {error.what}"))
    return Answers(usual=usual, raw=raw, batched=batched, repeated=repeated, notes=tuple(notes))


def ask_one(
    server: clients.Server, row: tuple[list[str], list[str]], *, raw: bool = False
) -> clients.Scores:
    """What a server says of one text or pair, by itself."""
    interruption.check()
    return server.ask(*row, raw=raw)[0]


def _ask_raw(
    server: clients.Server, probes: Probes, usual: list[clients.Scores], own: str
) -> tuple[list[clients.Scores], str]:
    """The answers to a question for logits, and why they are none, where they are not."""
    if not server.raw_by:
        return [], ""
    rows = [probes.row(number) for number in range(len(probes))]
    try:
        found = [ask_one(server, row, raw=True) for row in rows]
        if isinstance(server, clients.Vllm) and _same(usual, found) and own != LOGITS:
            server.with_older_switch()
            found = [ask_one(server, row, raw=True) for row in rows]
    except clients.Refusal as error:
        return [], f"Asked for logits ({server.raw_by}), it refused: {error.what}"
    if _same(usual, found) and not (server.always_raw and own != LOGITS):
        why = f"Asked for logits ({server.raw_by}), it gives the same scores as without that."
        return found, why
    return found, ""


def _same(some: Sequence[clients.Scores], others: Sequence[clients.Scores]) -> bool:
    """Whether two answers tell of every text the same, as far as the first one tells."""
    for one, other in zip(some, others, strict=True):
        values = dict(zip(_keys(other), other.values, strict=True))
        for key, value in zip(_keys(one), one.values, strict=True):
            if abs(values.get(key, torch.inf) - value) > 1e-6 * max(1.0, abs(value)):
                return False
    return True


def _keys(one: clients.Scores) -> list[object]:
    return list(range(len(one.values))) if "" in one.names else [*one.names]


def _ask_batched(server: clients.Server, probes: Probes) -> list[clients.Scores]:
    """Ask several texts at once in a shuffled order, so that a wrong sorting by length shows."""
    order = sorted(range(len(probes)), key=lambda n: len(probes.texts[n]))
    size = min(server.most, len(order))
    found: dict[int, clients.Scores] = {}
    blocks = -(-len(order) // size)
    for block in range(blocks):
        rows = order[block::blocks]
        random.Random(block).shuffle(rows)
        interruption.check()
        answers = server.ask(*probes.rows(rows))
        found |= dict(zip(rows, answers, strict=True))
    return [found[number] for number in range(len(probes))]
