"""Keeps the answers of every part on one input: `python tests/support/golden.py` adds new ones.

Inputs and weights come from whole-number arithmetic, so they are the same on every machine. An
answer that stands in golden.json is never rewritten: a name does not change its meaning, and new
mathematics gets a new name.
"""

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heads.parts.losses import near
from heads.parts.pooled import Pooled, pooled
from heads.parts.registry import Head, Part, Pooling
from heads.parts.resolve import head, layers, loss, pairing, pooling

FILE = Path(__file__).with_name("golden.json")
LENGTHS = (5, 2, 1)
LAYERS, WIDTH, CLASSES = 6, 3, 3
ROWS = 16


def kept(name: str) -> Any:
    """The answer that is kept of a part; its test is left out where a new part has none yet."""
    answers = json.loads(FILE.read_text())
    if name not in answers:
        pytest.skip("not in golden.json: python tests/support/golden.py adds it")
    return answers[name]


def numbers(*shape: int, start: int = 0) -> Tensor:
    """Numbers scattered from -1 to 1, from whole-number arithmetic."""
    places = torch.arange(start, start + torch.Size(shape).numel())
    scattered = (places**3 * 7 + places * 389 + 100) % 1009
    return (scattered / 504 - 1).reshape(shape).float()


def filled(module: nn.Module) -> nn.Module:
    """The module with arithmetic in place of its random weights, ready for use."""
    with torch.no_grad():
        for number, weight in enumerate(module.parameters()):
            size = weight.shape[-1] if weight.dim() > 1 else 1
            weight.copy_(numbers(*weight.shape, start=7 * number + 3) / size**0.5)
    return module.eval()


def inputs() -> dict[str, Any]:
    longest = max(LENGTHS)
    places = torch.arange(longest).expand(len(LENGTHS), -1)
    ends = torch.tensor(LENGTHS)[:, None]
    mask = (places < ends).float()
    hidden = numbers(LAYERS + 1, len(LENGTHS), longest, WIDTH) * mask[..., None]
    return {
        "mask": mask,
        "content": mask * (places > 0) * (places < ends - 1),
        "hidden": tuple(hidden),
        "states": hidden[-1],
        "pooler": numbers(len(LENGTHS), WIDTH, start=500),
        "eos": mask * (places == 1),
        "decoder": hidden[2],
        "trained": Pooled(hidden[-1].sum(dim=1), mask / mask.sum(dim=1, keepdim=True)),
    }


def answer_of_pooling(part: Pooling) -> dict[str, Any]:
    given = inputs()
    made = filled(part.make(WIDTH)) if part.learned else part.make
    answer = pooled(made(*(given[name] for name in part.asks)), given["states"])
    return {"vectors": _plain(answer.vectors), "reads": _plain(answer.reads)}


def answer_of_layers(part: Pooling) -> dict[str, Any]:
    made = filled(part.make(LAYERS + 1)) if part.learned else part.make
    given = inputs()
    return {"states": _plain(made(*(given[name] for name in part.asks))[1, :2])}


def answer_of_head(part: Head) -> dict[str, Any]:
    chain = filled(part.make(WIDTH, CLASSES))
    if any(tensor.numel() == 0 for tensor in chain.state_dict().values()):
        targets = torch.eye(CLASSES)[torch.arange(ROWS) ** 2 % 7 % CLASSES]
        solve(part, chain, numbers(ROWS, WIDTH, start=40), targets)
    return {"logits": _plain(chain(numbers(4, WIDTH, start=900)))}


def answer_of_pairing(part: Part) -> dict[str, Any]:
    return {"vectors": _plain(part(numbers(4, WIDTH), numbers(4, WIDTH, start=700)))}


def answer_of_loss(part: Part) -> dict[str, Any]:
    """The loss of each row, all alike and with γ = 2."""
    logits, targets = 3 * numbers(4, CLASSES, start=200), torch.tensor([0, 2, 1, 2])
    goals = near(targets, CLASSES) if part.name == "ordinal" else torch.eye(CLASSES)[targets]
    return {
        "goals": _plain(goals),
        "losses": [_plain(part(logits, goals, focal=focal)) for focal in (0.0, 2.0)],
    }


def solve(
    part: Head,
    chain: nn.Module,
    vectors: Tensor,
    targets: Tensor,
    *,
    many: bool = False,
    **options: Any,
) -> None:
    """Solves a chain with those of the head's options that its solver knows."""
    assert part.solve is not None
    options = {**part.options, **options}
    known = inspect.signature(part.solve).parameters
    part.solve(chain, vectors, targets, many=many, **{n: options[n] for n in options if n in known})


def answers() -> Iterator[tuple[str, Any]]:
    for part in pooling.values():
        yield f"pooling {part.name}", lambda part=part: answer_of_pooling(part)
    for part in layers.values():
        yield f"layers {part.name}", lambda part=part: answer_of_layers(part)
    for part in head.values():
        yield f"head {part.name}", lambda part=part: answer_of_head(part)
    for part in pairing.values():
        yield f"pairing {part.name}", lambda part=part: answer_of_pairing(part)
    for part in loss.values():
        yield f"loss {part.name}", lambda part=part: answer_of_loss(part)


def add_missing(file: Path = FILE) -> list[str]:
    """Adds what the file lacks and leaves the rest as it stands; answers with the new names."""
    known = json.loads(file.read_text()) if file.exists() else {}
    new = {name: answer() for name, answer in answers() if name not in known}
    if new:
        lines = (f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in (known | new).items())
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return list(new)


def _plain(tensor: Tensor) -> list[Any]:
    return torch.round(tensor.detach().double(), decimals=9).tolist()


if __name__ == "__main__":
    sys.stdout.write("".join(f"added {name}\n" for name in add_missing()) or "nothing to add\n")
