"""Ask a server about the probes, in several ways."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heads import interruption
from heads.extras.serving.encoding import Row
from heads.extras.serving.fitting import LOGITS
from heads.extras.serving.http import RefusedError
from heads.extras.serving.report import Finding, note
from heads.extras.serving.servers import Scores, Server, Vllm

REPEATED = 4  # texts that are sent twice: with dropout on no two answers are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A server's answers to all probes.

    Attributes:
        usual: Asked as users do, row by row.
        raw: Asked for logits; empty where it does not give them.
        batched: Asked as users do, several rows at once; empty where it does not take them.
        repeated: The first rows asked a second time, as `usual`.
        notes: What could not be asked.
    """

    usual: list[Scores]
    raw: list[Scores]
    batched: list[Scores]
    repeated: list[Scores]
    notes: tuple[Finding, ...]


def ask_all(server: Server, rows: Sequence[Row], output: str) -> Answers:
    """Ask a server about all probes.

    Args:
        server: The server.
        rows: The probes.
        output: The name of what the checkpoint makes of its logits.
    """
    usual = [ask_one(server, row) for row in rows]
    repeated = [ask_one(server, row) for row in rows[:REPEATED]]
    notes = []
    raw, why = _ask_raw(server, rows, usual, output)
    if raw and why:  # the same scores, of which it may have given more
        usual, raw = raw, []
    if why and output != LOGITS:
        notes.append(note("asking", why))
    batched: list[Scores] = []
    if server.most > 1 and len(rows) > 1:
        try:
            batched = _ask_batched(server, rows)
        except RefusedError as error:
            notes.append(note("asking", f"Several texts at once were refused: {error.what}"))
    return Answers(usual=usual, raw=raw, batched=batched, repeated=repeated, notes=tuple(notes))


def ask_one(server: Server, row: Row, *, raw: bool = False) -> Scores:
    """Return a server's scores of one row, sent by itself."""
    interruption.check()
    return server.ask([row], raw=raw)[0]


def _ask_raw(
    server: Server, rows: Sequence[Row], usual: Sequence[Scores], output: str
) -> tuple[list[Scores], str]:
    """Return the answers to a request for logits, and why they are none where they are not."""
    if not server.raw_by:
        return [], ""
    try:
        raw = [ask_one(server, row, raw=True) for row in rows]
        if isinstance(server, Vllm) and _are_same(usual, raw) and output != LOGITS:
            server.switch = "activation"
            raw = [ask_one(server, row, raw=True) for row in rows]
    except RefusedError as error:
        return [], f"Asked for logits ({server.raw_by}), it refused: {error.what}"
    if _are_same(usual, raw) and not (server.always_raw and output != LOGITS):
        return raw, f"Asked for logits ({server.raw_by}), it gives the same scores as without that."
    return raw, ""


def _are_same(answers: Sequence[Scores], others: Sequence[Scores]) -> bool:
    """Return True if two lists of answers agree wherever the first one has a score."""
    for answer, other in zip(answers, others, strict=True):
        values = _by_key(other)
        for key, value in _by_key(answer).items():
            if abs(values.get(key, torch.inf) - value) > 1e-6 * max(1.0, abs(value)):
                return False
    return True


def _by_key(scores: Scores) -> dict[object, float]:
    keys = range(len(scores.values)) if "" in scores.names else scores.names
    return dict(zip(keys, scores.values, strict=True))


def _ask_batched(server: Server, rows: Sequence[Row]) -> list[Scores]:
    """Ask about several rows at once, shuffled, so that a wrong sorting by length shows."""
    order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]))
    n_blocks = -(-len(order) // server.most)
    scores: dict[int, Scores] = {}
    for block in range(n_blocks):
        numbers = order[block::n_blocks]  # short ones beside long ones
        random.Random(block).shuffle(numbers)
        interruption.check()
        answers = server.ask([rows[number] for number in numbers])
        scores |= zip(numbers, answers, strict=True)
    return [scores[number] for number in range(len(rows))]
