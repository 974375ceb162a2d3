"""The states of all tokens on disk are those of the base model, and are found again."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
import torch
from expected_errors import refusing

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.errors import LimitError
from heads.events import Progress
from heads.features.token_states import TokenStates, keep_states
from heads.parts.resolve import resolve
from heads.settings import Limits, use_limits

TEXTS = tuple(
    "the cat sat on a mat and a dog ran home"[: 1 + number % 37] + f" {number}"
    for number in range(70)
)


@pytest.fixture
def home(cache_folder: Path) -> Path:
    return cache_folder / "states"


def kept(
    backbone: Backbone, *recipes: str, scored: Collection[int] = ()
) -> tuple[TokenStates, int]:
    """The states, and how often it was said that they are being read."""
    recipes, said = [resolve(recipe) for recipe in recipes], 0
    events = keep_states(recipes, TEXTS, (), backbone, scored=scored)
    while True:
        try:
            assert isinstance(next(events), Progress)
            said += 1
        except StopIteration as end:
            return end.value, said


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_any_texts_are_what_the_base_model_says_of_them(family, tiny):
    backbone = load(str(tiny(family)))
    found, _ = kept(backbone, "attention+linear")
    drawn = torch.randperm(len(TEXTS), generator=torch.Generator().manual_seed(0))
    for texts in (*drawn.split(32), torch.tensor([3, 3, 40])):
        states = found.states(texts)
        assert states.hidden[0].numel() == 0
        for row, text in enumerate(texts.tolist()):
            alone = backbone.states(backbone.encode([TEXTS[text]]))
            length = alone.mask.shape[1]
            for name in ("mask", "unpadded", "content", "eos"):
                own = getattr(states, name)[row]
                assert torch.equal(own[:length], getattr(alone, name)[0])
                assert not own[length:].any()
            last = states.hidden[-1][row]
            assert torch.allclose(last[:length], alone.hidden[-1][0], atol=5e-3)
            assert not last[length:].any()


def test_texts_of_like_length_lie_side_by_side_without_padding(backbone, home):
    found, _ = kept(backbone, "attention+linear")
    lengths = list(map(len, backbone.encode(TEXTS)))
    assert found.lengths.tolist() == lengths
    (file,) = home.glob("*.f16")
    assert file.stat().st_size == sum(lengths) * backbone.width * 2
    written = found.starts.argsort()
    assert found.lengths[written].tolist() == sorted(lengths, reverse=True)


def test_all_layers_are_kept_where_all_are_read(backbone):
    found, _ = kept(backbone, "mean@mix+linear")
    assert found.layers == (0, 1, 2, 3, 4, 5, 6)
    states = found.states(torch.tensor([5, 60]))
    alone = backbone.states(backbone.encode([TEXTS[5]]))
    for ours, theirs in zip(states.hidden, alone.hidden, strict=True):
        assert torch.allclose(ours[0, : theirs.shape[1]], theirs[0], atol=5e-3)


def test_another_run_finds_them(backbone, home):
    first, said = kept(backbone, "attention+linear")
    again, silent = kept(backbone, "attention+linear")
    assert said > 0
    assert silent == 0
    for one, other in zip(first.numbers, again.numbers, strict=True):
        assert (one == other).all()
    for name in ("starts", "lengths", "marks"):
        assert (getattr(first, name) == getattr(again, name)).all()
    (file,) = home.glob("*.f16")
    file.write_bytes(file.read_bytes()[:-2])  # not whole any more
    _, said = kept(backbone, "attention+linear")
    assert said > 0


def test_texts_that_are_scored_are_kept_in_32_bits(backbone, home):
    exact, scored = backbone, [3, 40, 41]
    found, _ = kept(backbone, "attention+linear", scored=scored)
    sizes = {path.suffix: path.stat().st_size for path in home.iterdir()}
    tokens = sum(found.lengths[scored].tolist()) * backbone.width
    assert sizes[".f32"] == 4 * tokens
    assert sizes[".f16"] == 2 * (sum(found.lengths.tolist()) * backbone.width - tokens)
    for text in range(len(TEXTS)):
        (own,) = found.states(torch.tensor([text])).hidden[-1]
        (alone,) = exact.states(exact.encode([TEXTS[text]])).hidden[-1]
        far = float((own - alone).abs().max())
        assert far < 5e-3
        assert (far < 1e-5) == (text in scored)
    everything, _ = kept(backbone, "attention+linear", scored=range(len(TEXTS)))
    assert [one.dtype for one in everything.numbers] == [np.float32]


def test_what_would_take_too_much_room_is_refused(backbone):
    with use_limits(Limits(states_bytes=1000)), refusing(LimitError):
        next(keep_states([resolve("attention+linear")], TEXTS, (), backbone))
