"""BERT's block, described once: what it computes from, and where each family keeps that.

A text's tokens get a vector each, words, positions and sides added up and normalised; then every
layer lets them read one another, and adds, and normalises, and goes wide and back, and adds, and
normalises.
Legend: d width, h attention heads, t tokens of a text.

Source: Vaswani et al. 2017, section 3; Devlin et al. 2019.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heads_69c579c7.backbone.device import HERE, lying_on
from heads_69c579c7.backbone.unpadded.linear import (
    GELU,
    GELU_TANH,
    NOTHING,
    PREPACKED,
    RELU,
    Ending,
    LinearKernel,
    product,
)

# --- Where each family built of BERT's block keeps the parts of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class BertNames:
    """Where a family keeps the parts of the block, as paths of modules; "" where it has none."""

    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    sides: str = "embeddings.token_type_embeddings"
    embedded: str = "embeddings.LayerNorm"
    projected: str = ""
    layers: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    joined: str = "attention.output.dense"
    attended: str = "attention.output.LayerNorm"
    wide: str = "intermediate.dense"
    activation: str = "intermediate.intermediate_act_fn"
    narrow: str = "output.dense"
    done: str = "output.LayerNorm"


BERT = BertNames()
FAMILIES: Mapping[str, BertNames] = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "ernie"), BERT
    ),
    "electra": BertNames(projected="embeddings_project"),
    "mpnet": BertNames(
        sides="",
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        joined="attention.attn.o",
        attended="attention.LayerNorm",
    ),
    "distilbert": BertNames(
        sides="",
        layers="transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        joined="attention.out_lin",
        attended="sa_layer_norm",
        wide="ffn.lin1",
        activation="ffn.activation",
        narrow="ffn.lin2",
        done="output_layer_norm",
    ),
    "albert": BertNames(
        projected="encoder.embedding_hidden_mapping_in",
        layers="encoder.albert_layer_groups",
        query="attention.query",
        key="attention.key",
        value="attention.value",
        joined="attention.dense",
        attended="attention.LayerNorm",
        wide="ffn",
        activation="activation",
        narrow="ffn_output",
        done="full_layer_layer_norm",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BertNorm:
    """Layer normalisation over the last dimension, (…, d)."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, values: Tensor) -> Tensor:
        return nn.functional.layer_norm(values, values.shape[-1:], self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BertEmbedding:
    """From token numbers to the states that the first layer reads.

    Attributes:
        words: (vocabulary, e).
        positions: (places, e).
        before: The number of the position before a text's first; None where numbers of tokens do
            not count. RoBERTa counts from its padding's number, and passes over such tokens.
        sides: (2, e): the first text or the second; None where the family does not tell.
        embedded: The norm behind the sum.
        projected: From e to d; None where they are equal.
    """

    words: Tensor
    positions: Tensor
    before: int | None
    sides: Tensor | None
    embedded: BertNorm
    projected: LinearKernel | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BertLayer:
    """One layer of the block.

    Attributes:
        read: Query, key and value side by side, d to 3 d.
        joined: What the attention heads have read, d to d.
        attended: The norm behind it.
        wide: d to the wide size, its activation applied.
        activation: What comes behind `wide` where no kernel has it; None elsewhere.
        narrow: Back to d.
        done: The norm behind it.
    """

    read: LinearKernel
    joined: LinearKernel
    attended: BertNorm
    wide: LinearKernel
    activation: Callable[[Tensor], Tensor] | None
    narrow: LinearKernel
    done: BertNorm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BertEncoder:
    """All that a pass computes from.

    Attributes:
        embedding: Before the first layer.
        layers: One after the other; ALBERT's are the same ones again and again.
        heads: h.
        bias: What the distance of two tokens adds before the softmax, (1, h, t, t) for t tokens;
            None where the family has no such thing.
        pooler: The model's own, from the last states (n, t, d) to (n, d); None without one.
        dtype: Of products and states.
    """

    embedding: BertEmbedding
    layers: tuple[BertLayer, ...]
    heads: int
    bias: Callable[[int], Tensor] | None
    pooler: Callable[[Tensor], Tensor] | None
    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.embedding.words.device


def block_of(model: Any, dtype: torch.dtype, device: torch.device = HERE) -> BertEncoder | None:
    """The block of a model of Transformers, from its own tensors; None for another family.

    Args:
        dtype: In which products are computed; the model's tensors are in 32 bits.
        device: Where they are computed; the model's tensors lie on the processor.
    """
    names = FAMILIES.get(model.config.model_type)
    # A model that also writes reads only what stands before a token.
    if names is None or getattr(model.config, "is_decoder", False):
        return None
    small = sum(tensor.numel() for tensor in model.parameters()) <= PREPACKED
    make = _Maker(dtype=dtype, device=device, prepacked=small)
    positions = model.get_submodule(names.positions)
    projected = _part(model, names.projected)  # where both sizes are equal there is none
    embedding = BertEmbedding(
        words=make.table(model.get_submodule(names.words)),
        positions=make.table(positions),
        before=positions.padding_idx,
        sides=make.table(model.get_submodule(names.sides)) if names.sides else None,
        embedded=make.norm(model.get_submodule(names.embedded), torch.float32),
        projected=make.product(projected) if projected is not None else None,
    )
    made: dict[int, BertLayer] = {}
    order = list(_layers(model, names))
    for layer in order:
        if id(layer) not in made:
            made[id(layer)] = make.layer(layer, names)
    return BertEncoder(
        embedding=embedding,
        layers=tuple(made[id(layer)] for layer in order),
        heads=model.config.num_attention_heads,
        bias=_distances(model, dtype, device),
        pooler=_pooler(model, device),
        dtype=dtype,
    )


def _layers(model: Any, names: BertNames) -> Iterator[nn.Module]:
    found = model.get_submodule(names.layers)
    if model.config.model_type != "albert":
        yield from found
        return
    for number in range(model.config.num_hidden_layers):
        group = number * model.config.num_hidden_groups // model.config.num_hidden_layers
        yield from found[group].albert_layers


def _distances(
    model: Any, dtype: torch.dtype, device: torch.device
) -> Callable[[int], Tensor] | None:
    """MPNet's bias of attention, which goes by the distance of two tokens."""
    encoder = getattr(model, "encoder", None)
    compute = getattr(encoder, "compute_position_bias", None)
    if compute is None:
        return None
    known = torch.empty(1, 0, 0, 0)  # of the longest text yet; shorter ones have its corner

    def bias(tokens: int) -> Tensor:
        nonlocal known
        found = known
        if found.shape[-1] < tokens:
            found = known = compute(torch.empty(1, tokens, 1)).detach().to(device, dtype)
        return found[:, :, :tokens, :tokens]

    return bias


def _pooler(model: Any, device: torch.device) -> Callable[[Tensor], Tensor] | None:
    """The model's own pooler; ALBERT's is a linear layer and an activation apart."""
    pooler = lying_on(device, getattr(model, "pooler", None))
    if not isinstance(pooler, nn.Linear):
        return pooler
    return lambda states: model.pooler_activation(pooler(states[:, 0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Makes the parts of a block from a model's modules."""

    dtype: torch.dtype
    device: torch.device
    prepacked: bool

    def table(self, module: Any) -> Tensor:
        return module.weight.detach().to(self.device)

    def product(self, linear: Any, ending: Ending = NOTHING) -> LinearKernel:
        return self.joint([linear], ending)

    def joint(self, linears: Sequence[Any], ending: Ending = NOTHING) -> LinearKernel:
        """Linear layers of the same input side by side, as one product."""
        weights, biases = [one.weight for one in linears], [one.bias for one in linears]
        return product(
            torch.cat(weights) if len(weights) > 1 else weights[0],
            torch.cat(biases) if len(biases) > 1 else biases[0],
            self.dtype,
            prepacked=self.prepacked,
            ending=ending,
            device=self.device,
        )

    def norm(self, norm: Any, dtype: torch.dtype) -> BertNorm:
        weight, bias = (one.detach().to(self.device, dtype) for one in (norm.weight, norm.bias))
        return BertNorm(weight=weight, bias=bias, eps=norm.eps)

    def layer(self, layer: nn.Module, names: BertNames) -> BertLayer:
        readers: list[Any] = [
            layer.get_submodule(name) for name in (names.query, names.key, names.value)
        ]
        activation = _part(layer, names.activation)
        ending = _ending(activation)
        return BertLayer(
            read=self.joint(readers),
            joined=self.product(layer.get_submodule(names.joined)),
            attended=self.norm(layer.get_submodule(names.attended), self.dtype),
            wide=self.product(layer.get_submodule(names.wide), ending or NOTHING),
            activation=None if ending else lying_on(self.device, activation),
            narrow=self.product(layer.get_submodule(names.narrow)),
            done=self.norm(layer.get_submodule(names.done), self.dtype),
        )


def _part(module: Any, path: str) -> Any:
    """What stands at a path, a module or a function; None where nothing does."""
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _ending(activation: Any) -> Ending | None:
    """The activation as a kernel knows it; None if none does."""
    from transformers import activations

    if isinstance(activation, nn.ReLU):
        return RELU
    if isinstance(activation, nn.GELU):
        return GELU if activation.approximate == "none" else GELU_TANH
    if isinstance(activation, activations.GELUActivation):
        return GELU
    tanh = (activations.NewGELUActivation, activations.GELUTanh, activations.FastGELUActivation)
    return GELU_TANH if isinstance(activation, tanh) else None
