"""Our pooling and our chain give the very logits of the Transformers class they are named after.

Each class is built small, with random weights everywhere; its head's tensors are copied into our
chain by their names in the checkpoint; our parts then read the states of its own base model.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.testing import assert_close

from heads.parts.menu import Order, resolve
from heads.pipeline.features import pooled

Inputs = dict[str, Tensor]
Record = Callable[[str, object], None]

CLASSES, VOCABULARY, PAD = 3, 60, 1
LENGTHS = (9, 4, 6, 1)
ROUNDING = 1e-6
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "num_labels": CLASSES,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "mask_token_id": 3,
}
POSITIONS = {"max_position_embeddings": 40}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}
SPECIAL = {"cls_token_id": 0, "sep_token_id": 2}
SUMMARY = {"classifier": "sequence_summary.summary"}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A class of Transformers and the recipe that says it.

    Attributes:
        called: The class is `called`ForSequenceClassification.
        exact: Whether its operations come in our order, so that not one bit may differ.
        sides: The sides of padding on which the class itself is defined.
        settings: What its configuration has besides.
        renamed: Our layer's name to that in the checkpoint, where the two are not the same.
    """

    recipe: str
    called: str
    exact: bool = True
    sides: tuple[str, ...] = ("right",)
    settings: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.recipe}-{self.called}"


# Not to the last bit: GPT-2's class scores every token and then picks one; the means are summed
# and then divided. XLNet's class reads the last position whatever stands there, so that a batch
# padded on the right has no meaning for it; it is padded on the left, as by its own tokenizer.
FAMILIES = [
    Family(recipe="cls+roberta", called="Roberta", settings=POSITIONS),
    Family(recipe="cls+bert", called="Bert", settings=POSITIONS),
    Family(recipe="cls+distilbert", called="DistilBert", settings=POSITIONS | {"hidden_dim": 48}),
    Family(
        recipe="last+gpt2",
        called="GPT2",
        exact=False,
        sides=("right", "left"),
        settings=POSITIONS,
    ),
    Family(
        recipe="last+xlnet", called="XLNet", sides=("left",), settings={"d_inner": 48, "d_head": 8}
    ),
    Family(recipe="cls+deberta", called="Deberta", settings=POSITIONS | RELATIVE),
    Family(recipe="cls+deberta", called="DebertaV2", settings=POSITIONS | RELATIVE),
    Family(recipe="cls+electra", called="Electra", settings=POSITIONS | {"embedding_size": 16}),
    Family(recipe="cls+modernbert", called="ModernBert", settings=POSITIONS | SPECIAL),
    Family(
        recipe="mean+modernbert",
        called="ModernBert",
        exact=False,
        sides=("right", "left"),
        settings=POSITIONS | SPECIAL | {"classifier_pooling": "mean"},
    ),
    Family(
        recipe="cls+eurobert",
        called="EuroBert",
        settings=POSITIONS | {"classifier_pooling": "bos"},
    ),
    Family(
        recipe="mean+eurobert",
        called="EuroBert",
        exact=False,
        sides=("right", "left"),
        settings=POSITIONS | {"classifier_pooling": "mean"},
    ),
    Family(recipe="cls+linear", called="XLM", settings=POSITIONS, renamed=SUMMARY),
    Family(recipe="cls+linear", called="Flaubert", settings=POSITIONS, renamed=SUMMARY),
]


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """As pytest's record_property, which warns under the JUnit format that is its own default."""
    return lambda name, value: request.node.user_properties.append((name, value))


@dataclass(frozen=True, kw_only=True)
class Twin:
    """A true class, our chain with its weights, and the names of the tensors copied."""

    family: Family
    order: Order
    model: Any
    chain: nn.Sequential
    copied: tuple[str, ...]

    @torch.no_grad()
    def theirs(self, inputs: Inputs) -> Tensor:
        return self.model(**inputs).logits

    @torch.no_grad()
    def ours(self, inputs: Inputs) -> Tensor:
        states = self.model.base_model(**inputs, output_hidden_states=True).hidden_states[-1]
        given = {"mask": inputs["attention_mask"].float(), "states": states}
        answer = self.order.pooling.make(*(given[name] for name in self.order.pooling.asks))
        return self.chain(pooled(answer, states).vectors)

    def batch(self, lengths: tuple[int, ...] = LENGTHS, side: str = "right") -> Inputs:
        """Texts of these lengths; the same text has the same tokens on either side."""
        longest = max(lengths)
        ids = torch.full((len(lengths), longest), PAD)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(lengths):
            start = 0 if side == "right" else longest - length
            places = torch.arange(length)
            ids[row, start : start + length] = 4 + (places * places * 13 + length * 7) % 56
            mask[row, start : start + length] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.family.called == "GPT2" and side == "left":  # it counts padding otherwise
            inputs["position_ids"] = (mask.cumsum(dim=1) - 1).clamp_min(0)
        return inputs


def built(family: Family) -> Any:
    """The true class, small and without a weight that is 0 or 1, in evaluation mode."""
    config = getattr(transformers, f"{family.called}Config")(**TINY | family.settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{family.called}ForSequenceClassification")(config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                centre = float(weight.dim() == 1 and name.endswith("weight"))  # a layer norm's
                weight.normal_(centre, 0.15)
    return model.eval()


def checkpoint_name(family: Family, order: Order, model: Any, ours: str) -> str:
    for own, true in family.renamed.items():
        ours = ours.replace(own, true)
    if order.head.from_base and ours.startswith(f"{order.head.from_base}."):
        return f"{model.base_model_prefix}.{ours}"
    return f"{order.head.prefix}{ours}"


@pytest.fixture(scope="module", params=FAMILIES, ids=str)
def twin(request: pytest.FixtureRequest) -> Twin:
    family: Family = request.param
    order, model = resolve(family.recipe), built(family)
    chain = order.head.make(model.config.hidden_size, CLASSES, **order.head_options).eval()
    tensors = model.state_dict()
    names = {ours: checkpoint_name(family, order, model, ours) for ours in chain.state_dict()}
    chain.load_state_dict({ours: tensors[name] for ours, name in names.items()}, strict=True)
    return Twin(family=family, order=order, model=model, chain=chain, copied=tuple(names.values()))


def agree(twin: Twin, inputs: Inputs, record: Record) -> None:
    ours, theirs = twin.ours(inputs), twin.theirs(inputs)
    difference = (ours - theirs).abs().max().item()
    record("max_difference", difference)
    assert ours.shape == theirs.shape == (len(inputs["input_ids"]), CLASSES)
    assert theirs.std() > 0.05
    if twin.family.exact:
        assert torch.equal(ours, theirs), f"max difference {difference}"
    assert difference <= ROUNDING


@pytest.mark.parametrize("length", [1, 2, 9, 30])
def test_a_single_text_has_the_logits_of_the_true_class(
    twin: Twin, length: int, record: Record
) -> None:
    agree(twin, twin.batch((length,)), record)


@pytest.mark.parametrize(
    ("twin", "side"),
    [(family, side) for family in FAMILIES for side in family.sides],
    indirect=["twin"],
    ids=str,
)
def test_a_padded_batch_has_the_logits_of_the_true_class(
    twin: Twin, side: str, record: Record
) -> None:
    agree(twin, twin.batch(side=side), record)


def test_a_text_in_a_batch_padded_on_the_right_has_the_logits_it_has_alone(
    twin: Twin, record: Record
) -> None:
    alone = torch.cat([twin.theirs(twin.batch((length,))) for length in LENGTHS])
    together = twin.ours(twin.batch())
    record("max_difference", (together - alone).abs().max().item())
    assert_close(together, alone, rtol=0, atol=1e-5)


def test_every_tensor_of_the_true_head_is_covered(twin: Twin) -> None:
    inner = f"{twin.model.base_model_prefix}."
    theirs = {
        name
        for name in twin.model.state_dict()
        if not name.startswith(inner) or name.startswith(f"{inner}pooler.")
    }
    assert len(set(twin.copied)) == len(twin.copied)
    assert set(twin.copied) == theirs


def test_the_last_of_the_hidden_states_is_what_the_class_reads(twin: Twin) -> None:
    output = twin.model.base_model(**twin.batch(), output_hidden_states=True)
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)


def test_dropout_is_the_default_of_the_source(twin: Twin) -> None:
    inner = f"{twin.model.base_model_prefix}."
    theirs = {
        layer.p
        for name, layer in twin.model.named_modules()
        if isinstance(layer, nn.Dropout) and not name.startswith(inner)
    }
    assert {layer.p for layer in twin.chain.modules() if isinstance(layer, nn.Dropout)} == theirs


def test_the_weights_make_the_logits(twin: Twin) -> None:
    """So that equal logits mean something: no tensor of the head can change unnoticed."""
    inputs = twin.batch((9,))
    before, tensors = twin.ours(inputs), twin.chain.state_dict()
    for tensor in tensors.values():
        kept = tensor.clone()
        tensor.add_(torch.linspace(-0.1, 0.1, tensor.numel()).reshape(tensor.shape))
        assert (twin.ours(inputs) - before).abs().max() > 100 * ROUNDING
        tensor.copy_(kept)
    assert torch.equal(twin.ours(inputs), before)


def test_eurobert_reads_otherwise_by_default() -> None:
    settings = {**POSITIONS, "classifier_pooling": "mean"}
    mean = built(Family(recipe="mean+eurobert", called="EuroBert", settings=settings))
    late = built(Family(recipe="mean+eurobert", called="EuroBert", settings=POSITIONS))
    late.load_state_dict(mean.state_dict())
    assert transformers.EuroBertConfig().classifier_pooling == "late"
    ids = torch.arange(4, 13)[None]
    assert (mean(ids).logits - late(ids).logits).abs().max() > 0.01
