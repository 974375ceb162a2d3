"""The states of all tokens on disk are those of the base model, and are found again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import LIMITS

from heads.errors import LimitError
from heads.parts.menu import resolve
from heads.pipeline.backbone import Backbone
from heads.pipeline.loading import load
from heads.pipeline.token_states import BLOCK, TokenStates, keep_states
from heads.pipeline.training import Progress

TEXTS = tuple(
    "the cat sat on a mat and a dog ran home"[: 1 + number % 37] + f" {number}"
    for number in range(BLOCK * 2 + 5)
)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own for every test."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "states"


def kept(backbone: Backbone, *recipes: str) -> tuple[TokenStates, int]:
    """The states, and how often it was said that they are being read."""
    said, events = 0, keep_states([resolve(r) for r in recipes], TEXTS, (), backbone, LIMITS)
    while True:
        try:
            assert isinstance(next(events), Progress)
            said += 1
        except StopIteration as end:
            return end.value, said


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_every_block_holds_what_the_base_model_says(family: str, tiny: Callable[..., Path]) -> None:
    backbone = load(str(tiny(family)), limits=LIMITS)
    found, _ = kept(backbone, "attention+linear")
    assert sorted(text for block in found.blocks for text in block.texts) == list(range(len(TEXTS)))
    for block in found.blocks:
        states = found.states(block)
        assert list(block.lengths) == sorted(block.lengths, reverse=True)
        for row, text in enumerate(block.texts):
            alone = replace(backbone, block=None).states(backbone.encode([TEXTS[text]]))
            length = block.lengths[row]
            for name in ("mask", "unpadded", "content", "eos"):
                own = getattr(states, name)[row]
                assert torch.equal(own[:length], getattr(alone, name)[0])
                assert not own[length:].any()
            last = states.hidden[-1][row]
            assert torch.allclose(last[:length], alone.hidden[-1][0], atol=5e-3)
            assert not last[length:].any()
            assert states.hidden[0].numel() == 0


def test_no_padding_is_written(backbone: Backbone, home: Path) -> None:
    found, _ = kept(backbone, "attention+linear")
    tokens = sum(map(len, backbone.encode(TEXTS)))
    assert found.path.stat().st_size == tokens * backbone.width * 2


def test_all_layers_are_kept_where_all_are_read(backbone: Backbone) -> None:
    found, _ = kept(backbone, "mean@mix+linear")
    assert found.layers == (0, 1, 2, 3, 4, 5, 6)
    states = found.states(found.blocks[0])
    text = found.blocks[0].texts[0]
    alone = backbone.states(backbone.encode([TEXTS[text]]))
    for ours, theirs in zip(states.hidden, alone.hidden, strict=True):
        assert torch.allclose(ours[0, : theirs.shape[1]], theirs[0], atol=5e-3)


def test_another_run_finds_them(backbone: Backbone) -> None:
    first, said = kept(backbone, "attention+linear")
    again, silent = kept(backbone, "attention+linear")
    assert said > 0
    assert silent == 0
    assert first.blocks == again.blocks
    first.path.write_bytes(first.path.read_bytes()[:-2])  # not whole any more
    _, said = kept(backbone, "attention+linear")
    assert said > 0


def test_what_would_take_too_much_room_is_refused(backbone: Backbone) -> None:
    limits = replace(LIMITS, states_bytes=1000)
    with pytest.raises(LimitError, match="states of all tokens"):
        next(keep_states([resolve("attention+linear")], TEXTS, (), backbone, limits))
