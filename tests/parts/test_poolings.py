"""Every pooling and every choice of layers on the shelves is under these contracts."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from expected_errors import refusing
from golden import filled
from torch import Tensor, nn
from torch.testing import assert_close

from heads.backbone.backbone import Backbone, States
from heads.errors import RecipeError
from heads.features.featurizer import Featurizer
from heads.parts.pooled import Pooled, pooled
from heads.parts.registry import Pooling, Registry
from heads.parts.resolve import layers, pooling, resolve

READINGS = [*pooling, *(f"{reader}@{name}" for name in layers for reader in ("mean", "max"))]
OF_AN_ENCODER = [reading for reading in READINGS if not reading.endswith("@decoder")]
LENGTHS = (5, 1, 3, 2)
LONG = (40, 33, 7)
TEXTS = ("the cat sat on a mat twice", "a dog", "", "it was late and")
CLOSE = {"rtol": 1e-5, "atol": 1e-6}

Read = Callable[[str], Featurizer]


@pytest.fixture
def read(backbone: Backbone) -> Read:
    """Builds the reading half of a recipe, with weights that are not all alike."""

    def build(reading: str) -> Featurizer:
        also = replace(backbone, decoder_width=backbone.width)  # as if it had one
        reader = Featurizer(resolve(f"{reading}+linear"), also)
        filled(reader)
        return reader

    return build


def states_of(
    lengths: tuple[int, ...] = LENGTHS, *, side: str = "right", room: int = 0, filler: float = 0.0
) -> States:
    """Texts of these lengths, each with its own tokens, first and last special, wherever it lies.

    Args:
        room: How many positions of padding even the longest text has.
        filler: What stands on padding.
    """
    texts, total = len(lengths), max(lengths) + room
    mask, content, eos = (torch.zeros(texts, total) for _ in range(3))
    hidden, pooler = torch.full((6, texts, total, 8), filler), torch.zeros(texts, 8)
    for row, length in enumerate(lengths):
        rng = torch.Generator().manual_seed(1000 + length)
        start = 0 if side == "right" else total - length
        mask[row, start : start + length] = 1
        content[row, start + 1 : start + length - 1] = 1
        eos[row, start + length // 2] = eos[row, start + length // 4] = 1
        hidden[:, row, start : start + length] = torch.randn(6, length, 8, generator=rng)
        pooler[row] = torch.randn(8, generator=rng)
    return States(
        mask=mask,
        unpadded=mask,
        content=content,
        hidden=tuple(hidden),
        pooler=pooler,
        eos=eos,
        decoder=hidden[-1].flip(-1),
        decoder_mask=mask,
    )


@pytest.mark.parametrize("filler", [1e15, -1e15])
@pytest.mark.parametrize("reading", READINGS)
def test_never_reads_padding(read, reading, filler):
    reader = read(reading)
    clean, littered = reader(states_of(room=2)), reader(states_of(room=2, filler=filler))
    assert torch.equal(littered.vectors, clean.vectors)
    assert torch.equal(littered.reads, clean.reads)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("reading", READINGS)
def test_reads_are_shares_of_real_tokens_and_inputs_stay(read, reading, side):
    reader, states = read(reading), states_of(side=side, room=2)
    reads, untouched = reader(states).reads, states_of(side=side, room=2)
    assert reads.shape == states.mask.shape
    assert reads.isfinite().all()
    assert (reads >= 0).all()
    assert (reads.sum(dim=1) > 0).all()
    assert (reads[states.mask == 0] == 0).all()
    for name in ("mask", "content", "pooler"):
        assert torch.equal(getattr(states, name), getattr(untouched, name))
    assert torch.equal(torch.stack(states.hidden), torch.stack(untouched.hidden))
    for kind in (torch.int64, torch.bool):  # masks of any kind
        other = replace(states, mask=states.mask.to(kind), content=states.content.to(kind))
        assert_close(reader(other).vectors, reader(states).vectors, **CLOSE)
        assert_close(reader(other).reads.float(), reads, **CLOSE)


@pytest.mark.parametrize(("lengths", "room"), [(LENGTHS, 3), (LONG, 0), ((1,), 3)])
@pytest.mark.parametrize("reading", READINGS)
def test_answers_a_text_the_same_wherever_it_stands(read, reading, lengths, room):
    """On either side of padding, alone, and among others in any order."""
    reader = read(reading)
    right, left = (states_of(lengths, side=side, room=room) for side in ("right", "left"))
    answer, other = reader(right), reader(left)
    assert answer.vectors.shape == (len(lengths), reader.width)
    assert_close(other.vectors, answer.vectors, **CLOSE)
    there = reader(states_of(lengths[::-1], room=room))
    assert_close(there.vectors.flip(0), answer.vectors, **CLOSE)
    for row, length in enumerate(lengths):
        alone = reader(states_of((length,)))
        assert_close(alone.vectors[0], answer.vectors[row], **CLOSE)
        assert_close(alone.reads[0], answer.reads[row, :length], **CLOSE)
        assert_close(alone.reads[0], other.reads[row, other.reads.shape[1] - length :], **CLOSE)


@pytest.mark.parametrize("lengths", [LENGTHS, (1,)])
@pytest.mark.parametrize("reading", READINGS)
def test_gradients_are_finite_reach_all_weights_and_never_padding(read, reading, lengths):
    reader, states = read(reading), states_of(lengths, room=2)
    given = [tensor.requires_grad_() for tensor in (*states.hidden, states.pooler, states.decoder)]
    vectors, weights = reader(states).vectors, list(reader.parameters())
    assert bool(weights) == reader.resolved.learns_to_read
    slope = torch.linspace(-1, 2, vectors.numel()).reshape(vectors.shape)
    found = torch.autograd.grad((vectors * slope).sum(), [*given, *weights], allow_unused=True)
    reached = [gradient for gradient in found if gradient is not None]
    assert all(gradient.isfinite().all() for gradient in reached)
    assert any(gradient.any() for gradient in reached)
    for gradient in found[: len(states.hidden)]:
        assert gradient is None or not gradient[states.mask == 0].any()
    of_weights = found[len(given) :]
    assert None not in of_weights
    assert not weights or lengths != LENGTHS or any(gradient.any() for gradient in of_weights)


# What each pooling is, said a second time: on the states (t, d) of one text without padding.
NAIVE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": lambda states, _: states[0],
    "last": lambda states, _: states[-1],
    "mask_token": lambda states, words: states[words if words.any() else ~words][-1],
    "mean": lambda states, _: states.mean(dim=0),
    "mean_content": lambda states, words: states[words if words.any() else ~words].mean(dim=0),
    "max": lambda states, _: states.amax(dim=0),
    "cls_mean": lambda states, _: torch.cat([states[0], states.mean(dim=0)]),
    "mean_max": lambda states, _: torch.cat([states.mean(dim=0), states.amax(dim=0)]),
    "sqrt_mean": lambda states, _: states.sum(dim=0) / len(states) ** 0.5,
    "gem": lambda states, _: (
        (states.clamp_min(0) ** 3).mean(dim=0) ** (1 / 3)
        - ((-states).clamp_min(0) ** 3).mean(dim=0) ** (1 / 3)
    ),
    "weighted": lambda states, _: (
        sum((i + 1) * state for i, state in enumerate(states)) / sum(range(len(states) + 1))
    ),
    "trained": lambda states, _: nn.functional.normalize(states.mean(dim=0), dim=0),
    "std": lambda states, _: torch.cat([states.mean(dim=0), states.std(dim=0, correction=0)]),
    "flatten": lambda states, _: torch.cat([states[:32], torch.zeros(32, 8)])[:32].flatten(),
}


@pytest.mark.parametrize("lengths", [LENGTHS, LONG])
@pytest.mark.parametrize("name", NAIVE)
def test_is_what_its_formula_says(read, name, lengths):
    states = states_of(lengths, side="left")
    vectors = read(name)(states).vectors
    for row, mask in enumerate(states.mask == 1):
        words = states.content[row, mask] == 1
        naive = NAIVE[name](states.hidden[-1][row, mask], words)
        assert_close(vectors[row], naive, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("number", range(6))
def test_a_number_reads_that_layer_alone_and_the_pooler_is_handed_on(read, number):
    states = states_of()
    assert torch.equal(read(f"cls@{number}")(states).vectors, states.hidden[number][:, 0])
    assert torch.equal(read("pooler")(states).vectors, states.pooler)


def test_max_reads_each_token_by_the_dimensions_it_wins():
    states = torch.tensor([[[3.0, 0, 5, 5], [1, 2, 0, 0], [9, 9, 9, 9]]])
    answer = pooling["max"](torch.tensor([[1.0, 1, 0]]), states)
    assert answer.reads.tolist() == [[0.75, 0.25, 0]]


def test_attention_starts_nearly_even_and_can_look_at_one_token():
    states = states_of((5,))
    part = pooling["attention"].make(8, queries=3)
    weights = part(states.mask, states.hidden[-1])
    assert weights.shape == (1, 3, 5)
    assert_close(weights, torch.full((1, 3, 5), 0.2), rtol=0, atol=0.05)
    with torch.no_grad():
        part.query.copy_(states.hidden[-1][0, :3] * 1e3)
    chosen = part(states.mask, states.hidden[-1]).argmax(dim=-1)
    assert (
        chosen.tolist()
        == (states.hidden[-1][0, :3] @ states.hidden[-1][0].T).argmax(1)[None].tolist()
    )


def test_gem_lies_between_the_average_and_the_farthest_values():
    states = states_of(LENGTHS)
    real = states.hidden[-1]
    given = states.mask, real
    average = pooling["gem"].make(*given, power=1.0).vectors
    assert_close(average, pooling["mean"](*given)[:, None].matmul(real)[:, 0], **CLOSE)
    far = pooling["gem"].make(*given, power=100.0)
    farthest = real.amax(dim=1).clamp_min(0) + real.amin(dim=1).clamp_max(0)
    assert_close(far.vectors, farthest, rtol=0.02, atol=0.1)
    assert far.reads.isfinite().all()
    for size in (1e-20, 1e20):
        scaled = pooling["gem"].make(states.mask, real * size)
        assert_close(scaled.vectors / size, pooling["gem"].make(*given).vectors, **CLOSE)


@pytest.mark.parametrize("queries", [1, 2, 3, 32])
def test_multi_query_reads_a_part_of_the_values_for_each_query(backbone, queries):
    reader = Featurizer(resolve(f"multi_query+linear?queries={queries}"), backbone)
    filled(reader)
    states = states_of((5, 3))
    part = reader.pooling
    assert reader.width == queries * -(-8 // queries)
    assert Featurizer(resolve(f"attention+linear?queries={queries}"), backbone).width == 8 * queries
    found = reader(states).vectors[1].view(queries, -1)
    for number in range(queries):
        tokens = states.hidden[-1][1, :3]
        shares = (tokens @ part.query[number] / 8**0.5).softmax(dim=0)
        values = tokens @ part.value[number].T
        assert_close(found[number], shares @ values)


@pytest.mark.parametrize(("length", "tokens"), [(2, 5), (5, 5), (9, 5), (1, 1)])
def test_flatten_cuts_and_pads_to_its_length(backbone, length, tokens):
    reader = Featurizer(resolve(f"flatten+linear?length={length}"), backbone)
    states = states_of((tokens,), side="left", room=3)
    answer = reader(states)
    laid = answer.vectors.reshape(length, 8)
    kept = min(length, tokens)
    assert reader.width == length * 8
    assert torch.equal(laid[:kept], states.hidden[-1][0, 3 : 3 + kept])
    assert not laid[kept:].any()
    assert answer.reads[0].tolist() == pytest.approx(
        [0] * 3 + [1 / kept] * kept + [0] * (tokens - kept)
    )


@pytest.mark.parametrize("name", layers)
def test_layers_answer_each_token_from_its_own_states_and_padding_with_zero(read, name):
    reader, states = read(f"mean@{name}"), states_of(room=2)
    answer = reader.chosen(states)
    assert answer.shape == (*states.mask.shape, reader.state_width)
    flipped = {"hidden": tuple(layer.flip(1) for layer in states.hidden)}
    turned = reader.chosen(replace(states, **flipped, decoder=states.decoder.flip(1)))
    assert torch.equal(turned.flip(1), answer)
    assert not answer[states.mask == 0].any()


@pytest.mark.parametrize(
    ("name", "naive"),
    [
        ("cat4", lambda hidden: torch.cat([hidden[2], hidden[3], hidden[4], hidden[5]], dim=-1)),
        ("mean4", lambda hidden: (hidden[2] + hidden[3] + hidden[4] + hidden[5]) / 4),
        ("first_last", lambda hidden: (hidden[1] + hidden[5]) / 2),
        ("max4", lambda hidden: hidden[2].maximum(hidden[3]).maximum(hidden[4].maximum(hidden[5]))),
        ("mix", lambda hidden: torch.stack(hidden).mean(dim=0)),
    ],
)
def test_layers_are_what_their_formula_says(backbone, name, naive):
    hidden = states_of().hidden
    untrained = Featurizer(resolve(f"mean@{name}+linear"), backbone)
    assert_close(untrained.layers(hidden), naive(hidden), **CLOSE)


@pytest.mark.parametrize("litter", [float("nan"), -float("inf")], ids=str)
@pytest.mark.parametrize("reading", OF_AN_ENCODER)
def test_what_a_base_model_writes_on_padding_never_arrives(backbone, read, reading, litter):
    def spoil(_model: nn.Module, _args: tuple, given: dict, output: dict) -> dict:
        padding = given["attention_mask"][..., None] == 0
        output["hidden_states"] = tuple(
            states.masked_fill(padding, litter) for states in output["hidden_states"]
        )
        output["last_hidden_state"] = output["hidden_states"][-1]
        return output

    reader, encoded = read(reading), backbone.encode(TEXTS)
    clean = reader(backbone.states(encoded))
    hook = backbone.model.register_forward_hook(spoil, with_kwargs=True)
    try:
        spoilt = reader(backbone.states(encoded))
    finally:
        hook.remove()
    assert torch.equal(spoilt.vectors, clean.vectors)
    assert torch.equal(spoilt.reads, clean.reads)


def own(maker: Callable[..., object], backbone: Backbone) -> Featurizer:
    """Reads with a pooling of one's own, which is on no shelf of the product."""
    shelf = Registry("pooling", Pooling)
    shelf(maker)
    return Featurizer(replace(resolve("mean+linear"), pooling=shelf[maker.__name__]), backbone)


def test_what_cannot_be_read_is_refused(backbone, read):
    def wishful(mask: Tensor, logits: Tensor) -> Tensor:
        """Weights from what does not exist yet."""
        return mask * logits

    def blind(mask: Tensor) -> Tensor:
        """Even weights over nothing."""
        return mask

    for maker, names in ((wishful, ("'logits'", "mask, content, states, pooler")), (blind, ())):
        with refusing(RecipeError, *names):
            own(maker, backbone)
    with refusing(RecipeError, "layer 6", "0 to 5"):
        read("cls@6")
    with refusing(RecipeError, "pooler"):
        Featurizer(resolve("pooler+linear"), replace(backbone, pooler="none"))
    with refusing(RecipeError, "content"):
        pooling["mean_content"].vectors(states_of().mask, states_of().layer(-1))


def test_a_pooling_of_ones_own_is_handed_what_it_asks_for(backbone):
    def words(states: Tensor, content: Tensor, mask: Tensor, pooler: Tensor) -> Pooled:
        """Everything at once."""
        return Pooled(torch.cat([pooler, (content[:, None] @ states)[:, 0]], dim=-1), mask)

    states = states_of()
    answer = own(words, backbone)(states)
    assert torch.equal(answer.vectors[:, :8], states.pooler)
    assert torch.equal(answer.reads, states.mask)


def test_a_learned_pooling_of_ones_own_is_built_with_its_width(backbone):
    class gate(nn.Module):
        """A share of each token between 0 and 1."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.dense = nn.Linear(width, 1)

        def forward(self, mask: Tensor, states: Tensor) -> Tensor:
            return mask * self.dense(states).sigmoid()[..., 0]

    reader = own(gate, backbone)
    assert (reader.resolved.learns_to_read, reader.width) == (True, 8)
    assert reader.pooling.dense.in_features == 8


@pytest.mark.parametrize("name", [*pooling])
def test_vectors_are_those_that_a_head_gets(read, name):
    states, part = states_of(), pooling[name]
    shared = Pooled(states.layer(-1)[:, 0], states.mask)
    known = {"content": states.content, "eos": states.eos, "pooler": states.pooler}
    others = {key: one for key, one in {**known, "trained": shared}.items() if key in part.asks}
    found = part.vectors(states.mask, states.layer(-1), **others)
    if part.learned:
        assert found.shape[0] == len(LENGTHS)
        assert found.isfinite().all()
    elif name == "trained":
        assert found is shared.vectors
    else:
        assert_close(found, read(name)(states).vectors, **CLOSE)
    if part.options and name != "mask_token":  # whose option is the prompt
        given = (states.mask, states.layer(-1))
        option, value = {"gem": ("power", 9.0), "flatten": ("length", 2)}.get(name, ("queries", 2))
        other = part.vectors(*given, **others, **{option: value})
        assert other.shape != found.shape or not torch.equal(other, found)


def test_weights_of_several_vectors_stand_side_by_side_and_are_read_on_average():
    states = torch.arange(12.0).reshape(1, 3, 4)
    weights = torch.tensor([[[1.0, 0, 0], [0, 0.5, 0.5]]])
    answer = pooled(weights, states)
    assert answer.vectors.tolist() == [[0, 1, 2, 3, 6, 7, 8, 9]]
    assert answer.reads.tolist() == [[0.5, 0.25, 0.25]]
