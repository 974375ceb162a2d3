"""Every pooling and every choice of layers on the shelves is under these contracts by being there.

One test compares with the answers kept in golden.json; a part that is not yet in it is skipped by
that test alone. `python tests/support/golden.py` adds the missing ones and rewrites none.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from golden import FILE, add_missing, answer_of_layers, answer_of_pooling, filled, kept
from torch import Tensor, nn
from torch.testing import assert_close

from heads.backbone.backbone import Backbone, States
from heads.errors import RecipeError
from heads.features.featurizer import Featurizer
from heads.parts.pooled import Pooled, pooled
from heads.parts.registry import Pooling, Registry
from heads.parts.resolve import layers, pooling, resolve

PARTS = [*pooling.values(), *layers.values()]
READINGS = [*pooling, *(f"{reader}@{name}" for name in layers for reader in ("mean", "max"))]
OF_AN_ENCODER = [reading for reading in READINGS if not reading.endswith("@decoder")]
LENGTHS = (5, 1, 3, 2)
LONG = (40, 33, 7)
TEXTS = ("the old dog barks at the cat", "a dog", "", "it runs and runs")
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


def real(reads: Tensor, states: States) -> list[list[float]]:
    return [row[mask == 1].tolist() for row, mask in zip(reads, states.mask, strict=True)]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_says_one_sentence_and_its_source(part: Pooling) -> None:
    assert re.fullmatch(r"[A-Z].{8,}\.", part.says)
    assert not re.search(r"[.!?] [A-Z]", part.says)
    assert part.source


@pytest.mark.parametrize("filler", [1e4, -1e4, 1e15, -1e15])
@pytest.mark.parametrize("reading", READINGS)
def test_never_reads_padding(read: Read, reading: str, filler: float) -> None:
    reader = read(reading)
    clean, littered = states_of(room=2), states_of(room=2, filler=filler)
    assert torch.equal(reader(littered).vectors, reader(clean).vectors)
    assert torch.equal(reader(littered).reads, reader(clean).reads)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("reading", READINGS)
def test_reads_are_shares_of_real_tokens(read: Read, reading: str, side: str) -> None:
    states = states_of(side=side, room=2)
    reads = read(reading)(states).reads
    assert reads.shape == states.mask.shape
    assert reads.isfinite().all()
    assert (reads >= 0).all()
    assert (reads.sum(dim=1) > 0).all()
    assert (reads[states.mask == 0] == 0).all()


@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("lengths", [LENGTHS, LONG])
@pytest.mark.parametrize("reading", READINGS)
def test_answers_the_same_on_either_side_of_padding(
    read: Read, reading: str, lengths: tuple[int, ...], room: int
) -> None:
    reader = read(reading)
    right, left = (states_of(lengths, side=side, room=room) for side in ("right", "left"))
    assert_close(reader(left).vectors, reader(right).vectors, **CLOSE)
    for one, other in zip(
        real(reader(left).reads, left), real(reader(right).reads, right), strict=True
    ):
        assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("lengths", [LENGTHS, LONG])
@pytest.mark.parametrize("reading", READINGS)
def test_answers_the_same_alone_and_in_a_batch(
    read: Read, reading: str, lengths: tuple[int, ...]
) -> None:
    reader = read(reading)
    together = states_of(lengths)
    answer = reader(together)
    for row, length in enumerate(lengths):
        alone = reader(states_of((length,)))
        assert_close(alone.vectors[0], answer.vectors[row], **CLOSE)
        assert_close(alone.reads[0], answer.reads[row, :length], **CLOSE)


@pytest.mark.parametrize("reading", READINGS)
def test_answers_in_the_order_of_the_texts(read: Read, reading: str) -> None:
    reader = read(reading)
    there, back = reader(states_of(LENGTHS)), reader(states_of(LENGTHS[::-1]))
    assert_close(back.vectors.flip(0), there.vectors, **CLOSE)
    assert_close(back.reads.flip(0), there.reads, **CLOSE)


@pytest.mark.parametrize("lengths", [LENGTHS, (1,), (1, 1)])
@pytest.mark.parametrize("reading", READINGS)
def test_gradients_are_finite_and_none_falls_on_padding(
    read: Read, reading: str, lengths: tuple[int, ...]
) -> None:
    reader = read(reading)
    states = states_of(lengths, room=2)
    given = [tensor.requires_grad_() for tensor in (*states.hidden, states.pooler, states.decoder)]
    vectors = reader(states).vectors
    slope = torch.linspace(-1, 2, vectors.numel()).reshape(vectors.shape)
    wanted = [*given, *reader.parameters()]
    gradients = torch.autograd.grad((vectors * slope).sum(), wanted, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    assert reached
    assert all(gradient.isfinite().all() for gradient in reached)
    assert any(gradient.any() for gradient in reached)
    for gradient in gradients[: len(states.hidden)]:
        assert gradient is None or not gradient[states.mask == 0].any()


@pytest.mark.parametrize("lengths", [(1,), (2, 3), LONG])
@pytest.mark.parametrize("reading", READINGS)
def test_is_as_wide_as_declared_whatever_the_length(
    read: Read, reading: str, lengths: tuple[int, ...]
) -> None:
    reader = read(reading)
    assert reader(states_of(lengths)).vectors.shape == (len(lengths), reader.width)


@pytest.mark.parametrize("kind", [torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("reading", READINGS)
def test_takes_masks_of_any_kind(read: Read, reading: str, kind: torch.dtype) -> None:
    reader, states = read(reading), states_of(room=2)
    other = replace(states, mask=states.mask.to(kind), content=states.content.to(kind))
    assert_close(reader(other).vectors, reader(states).vectors, **CLOSE)
    assert_close(reader(other).reads.float(), reader(states).reads, **CLOSE)


@pytest.mark.parametrize("reading", READINGS)
def test_leaves_its_inputs_as_they_were(read: Read, reading: str) -> None:
    states, untouched = states_of(room=2), states_of(room=2)
    read(reading)(states)
    assert torch.equal(states.mask, untouched.mask)
    assert torch.equal(states.content, untouched.content)
    assert torch.equal(torch.stack(states.hidden), torch.stack(untouched.hidden))
    assert torch.equal(states.pooler, untouched.pooler)


@pytest.mark.parametrize("reading", READINGS)
def test_has_weights_if_and_only_if_it_is_learned(read: Read, reading: str) -> None:
    reader = read(reading)
    assert bool(list(reader.parameters())) == reader.resolved.learns_to_read


@pytest.mark.parametrize(
    "reading", [name for name in READINGS if resolve(f"{name}+linear").learns_to_read]
)
def test_all_weights_of_a_learned_reading_are_trained(read: Read, reading: str) -> None:
    reader = read(reading)
    vectors = reader(states_of()).vectors
    (vectors * torch.arange(float(vectors.shape[-1]))).square().sum().backward()
    gradients = [weight.grad for weight in reader.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)


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
def test_is_what_its_formula_says(read: Read, name: str, lengths: tuple[int, ...]) -> None:
    states = states_of(lengths, side="left")
    vectors = read(name)(states).vectors
    for row, mask in enumerate(states.mask == 1):
        words = states.content[row, mask] == 1
        naive = NAIVE[name](states.hidden[-1][row, mask], words)
        assert_close(vectors[row], naive, rtol=1e-5, atol=2e-6)


def test_pooler_is_handed_on_unchanged(read: Read) -> None:
    states = states_of()
    assert torch.equal(read("pooler")(states).vectors, states.pooler)


def test_max_reads_each_token_by_the_dimensions_it_wins() -> None:
    states = torch.tensor([[[3.0, 0, 5, 5], [1, 2, 0, 0], [9, 9, 9, 9]]])
    answer = pooling["max"](torch.tensor([[1.0, 1, 0]]), states)
    assert answer.reads.tolist() == [[0.75, 0.25, 0]]


def test_attention_starts_nearly_even_and_can_look_at_one_token() -> None:
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


def test_gem_lies_between_the_average_and_the_farthest_values() -> None:
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
def test_multi_query_reads_a_part_of_the_values_for_each_query(
    backbone: Backbone, queries: int
) -> None:
    reader = Featurizer(resolve(f"multi_query+linear?queries={queries}"), backbone)
    filled(reader)
    states = states_of((5, 3))
    part = reader.pooling
    assert reader.width == queries * -(-8 // queries)
    found = reader(states).vectors[1].view(queries, -1)
    for number in range(queries):
        tokens = states.hidden[-1][1, :3]
        shares = (tokens @ part.query[number] / 8**0.5).softmax(dim=0)
        values = tokens @ part.value[number].T
        assert_close(found[number], shares @ values)


def test_more_queries_are_as_many_times_wider(backbone: Backbone) -> None:
    assert Featurizer(resolve("attention+linear?queries=4"), backbone).width == 4 * 8


@pytest.mark.parametrize(("length", "tokens"), [(2, 5), (5, 5), (9, 5), (1, 1)])
def test_flatten_cuts_and_pads_to_its_length(backbone: Backbone, length: int, tokens: int) -> None:
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
def test_layers_answer_each_token_from_its_own_states(read: Read, name: str) -> None:
    reader, states = read(f"mean@{name}"), states_of()
    answer = reader.chosen(states)
    assert answer.shape == (*states.mask.shape, reader.state_width)
    flipped = {"hidden": tuple(layer.flip(1) for layer in states.hidden)}
    turned = reader.chosen(replace(states, **flipped, decoder=states.decoder.flip(1)))
    assert torch.equal(turned.flip(1), answer)


@pytest.mark.parametrize("name", layers)
def test_layers_leave_padding_at_zero(read: Read, name: str) -> None:
    states = states_of(room=2)
    assert not read(f"mean@{name}").chosen(states)[states.mask == 0].any()


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
def test_layers_are_what_their_formula_says(
    backbone: Backbone, name: str, naive: Callable[[tuple[Tensor, ...]], Tensor]
) -> None:
    hidden = states_of().hidden
    untrained = Featurizer(resolve(f"mean@{name}+linear"), backbone)
    assert_close(untrained.layers(hidden), naive(hidden), **CLOSE)


@pytest.mark.parametrize("number", range(6))
def test_a_number_reads_that_layer_alone(read: Read, number: int) -> None:
    states = states_of()
    assert torch.equal(read(f"cls@{number}")(states).vectors, states.hidden[number][:, 0])


def test_a_layer_that_is_not_there_is_refused(read: Read) -> None:
    with pytest.raises(RecipeError, match="no layer 6: this base model has 0 to 5"):
        read("cls@6")


@pytest.mark.parametrize("reading", OF_AN_ENCODER)
def test_reads_real_states_the_same_alone_and_in_a_batch(
    backbone: Backbone, read: Read, reading: str
) -> None:
    reader, encoded = read(reading), backbone.encode(TEXTS)
    together = reader(backbone.states(encoded))
    for row, text in enumerate(encoded):
        alone = reader(backbone.states([text]))
        assert_close(alone.vectors[0], together.vectors[row], rtol=1e-4, atol=1e-5)
        assert_close(alone.reads[0], together.reads[row, : len(text)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("litter", [float("nan"), float("inf"), -float("inf")], ids=str)
@pytest.mark.parametrize("reading", OF_AN_ENCODER)
def test_what_a_base_model_writes_on_padding_never_arrives(
    backbone: Backbone, read: Read, reading: str, litter: float
) -> None:
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


def test_the_base_model_answers_zero_on_padding(backbone: Backbone) -> None:
    states = backbone.states(backbone.encode(TEXTS))
    assert (states.mask == 0).any()
    assert states.content.sum(dim=1).tolist() == [7, 2, 0, 4]
    for layer in states.hidden:
        assert not layer[states.mask == 0].any()
        assert layer[states.mask == 1].any(dim=-1).all()


def own(maker: Callable[..., object], backbone: Backbone) -> Featurizer:
    """Reads with a pooling of one's own, which is on no shelf of the product."""
    shelf = Registry("pooling", Pooling)
    shelf(maker)
    return Featurizer(replace(resolve("mean+linear"), pooling=shelf[maker.__name__]), backbone)


def test_a_pooling_of_ones_own_is_handed_what_it_asks_for(backbone: Backbone) -> None:
    def words(states: Tensor, content: Tensor, mask: Tensor, pooler: Tensor) -> Pooled:
        """Everything at once."""
        return Pooled(torch.cat([pooler, (content[:, None] @ states)[:, 0]], dim=-1), mask)

    states = states_of()
    answer = own(words, backbone)(states)
    assert torch.equal(answer.vectors[:, :8], states.pooler)
    assert torch.equal(answer.reads, states.mask)


def test_a_learned_pooling_of_ones_own_is_built_with_its_width(backbone: Backbone) -> None:
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


def test_a_pooling_that_asks_for_the_unknown_is_refused(backbone: Backbone) -> None:
    def wishful(mask: Tensor, logits: Tensor) -> Tensor:
        """Weights from what does not exist yet."""
        return mask * logits

    with pytest.raises(RecipeError, match=r"asks for 'logits'.*mask, content, states, pooler"):
        own(wishful, backbone)


@pytest.mark.parametrize("name", [*pooling])
def test_vectors_are_those_that_a_head_gets(read: Read, name: str) -> None:
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


def test_vectors_take_options_and_ask_for_what_is_missing() -> None:
    states = states_of()
    given = (states.mask, states.layer(-1))
    assert not torch.equal(
        pooling["gem"].vectors(*given, power=9.0), pooling["gem"].vectors(*given)
    )
    assert pooling["attention"].vectors(*given, queries=2).shape == (len(LENGTHS), 16)
    with pytest.raises(RecipeError, match="content"):
        pooling["mean_content"].vectors(*given)


def test_weights_without_states_are_refused(backbone: Backbone) -> None:
    def blind(mask: Tensor) -> Tensor:
        """Even weights over nothing."""
        return mask

    with pytest.raises(RecipeError, match="must ask for the states"):
        own(blind, backbone)


def test_a_base_model_without_a_pooler_is_told_so(backbone: Backbone) -> None:
    with pytest.raises(RecipeError, match="has no pooler of its own"):
        Featurizer(resolve("pooler+linear"), replace(backbone, pooler="none"))


def test_weights_of_several_vectors_stand_side_by_side_and_are_read_on_average() -> None:
    states = torch.arange(12.0).reshape(1, 3, 4)
    weights = torch.tensor([[[1.0, 0, 0], [0, 0.5, 0.5]]])
    answer = pooled(weights, states)
    assert answer.vectors.tolist() == [[0, 1, 2, 3, 6, 7, 8, 9]]
    assert answer.reads.tolist() == [[0.5, 0.25, 0.25]]


@pytest.mark.parametrize(
    ("kind", "part"),
    [("pooling", part) for part in pooling.values()] + [("layers", p) for p in layers.values()],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_name_keeps_its_meaning(kind: str, part: Pooling) -> None:
    known = kept(f"{kind} {part.name}")
    answer = (answer_of_pooling if kind == "pooling" else answer_of_layers)(part)
    assert answer.keys() == known.keys()
    for name, values in known.items():
        assert_close(torch.tensor(answer[name]), torch.tensor(values), rtol=1e-6, atol=1e-6)


def test_golden_answers_are_added_and_never_rewritten(tmp_path) -> None:
    file = tmp_path / "golden.json"
    kept = json.loads(FILE.read_text()) | {"pooling mean": "as it was", "pooling gone": 1}
    del kept["head roberta"]
    file.write_text(json.dumps(kept))
    assert "head roberta" in add_missing(file)
    after = json.loads(file.read_text())
    again = torch.tensor(after.pop("head roberta")["logits"])
    known = torch.tensor(json.loads(FILE.read_text())["head roberta"]["logits"])
    assert torch.allclose(again, known, atol=1e-6)  # processors differ in the last digit
    assert kept.items() <= after.items()
    before = file.read_text()
    assert add_missing(file) == []
    assert file.read_text() == before
