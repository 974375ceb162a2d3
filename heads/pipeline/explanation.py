"""What a recipe is made of: its layers, shapes, counts, formula, origin and what it reads.

Nothing is trained for it: a head is sketched on the meta device, without memory.
Legend: t tokens, d width of a state, w width of the pooled vector, c classes.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heads.parts.blocks import Neighbours
from heads.parts.menu import Order, resolve
from heads.pipeline.backbone import Backbone
from heads.pipeline.classifier import Classifier, pretrained_tensors, sketch
from heads.pipeline.dice import Dice
from heads.pipeline.differences import twins
from heads.pipeline.features import Reader
from heads.pipeline.notation import formula, last_linear, leaves, size_after, words
from heads.recipe import Recipe

Origin = Literal["pretrained", "untrained", "random", "new", "stored"]
ORIGINS: dict[Origin, str] = {
    "pretrained": "pretrained, from the base model",
    "untrained": "in the base model's checkpoint, but never trained",
    "random": "random: the base model's checkpoint lacks it",
    "new": "new, learned from the data",
    "stored": "the training texts themselves",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFact:
    """One tensor: its name in the Transformers checkpoint, its shape, where it comes from."""

    name: str
    shape: tuple[str | int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One station on the way from tokens to logits.

    Attributes:
        kind: Which stretch of the way it belongs to.
        name: The layer's name, as in the checkpoint.
        does: What it does, in a few words.
        shape: What leaves it, for one text; t is the number of tokens.
        parameters: How many numbers it holds.
        tensors: Its tensors.
    """

    kind: Literal["text", "base", "reading", "head", "logits"]
    name: str
    does: str
    shape: tuple[str | int, ...]
    parameters: int = 0
    tensors: tuple[TensorFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A recipe on a base model, taken apart.

    Attributes:
        says: One sentence each for the pooling, the layers and the head.
        formula: From states to the pooled vector, and from there to the logits.
        sources: Where each part comes from.
        steps: From tokens to logits.
        parameters: How many numbers are learned, the base model's not among them.
        reads: Each token of the text with the share of the pooled vector that it gave.
        twins: Heads that are the same layers under other names.
        notes: What one should know, a sentence each.
    """

    recipe: Recipe
    model: str
    classes: int
    says: tuple[str, ...]
    formula: tuple[str, ...]
    sources: tuple[str, ...]
    steps: tuple[Step, ...]
    parameters: int
    reads: tuple[tuple[str, float], ...]
    twins: tuple[str, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain values: the answer of `heads explain --json`."""
        return asdict(self) | {"recipe": str(self.recipe)}


def explain(
    recipe: Recipe | str,
    backbone: Backbone,
    *,
    classes: int,
    text: str = "",
    pair: str = "",
    module: Classifier | None = None,
) -> Explanation:
    """Takes a recipe apart on a base model; see `heads.explain`.

    Args:
        classes: How many classes the logits have.
        text: A gated text, to show which tokens are read.
        pair: Its second text.
        module: The trained classifier; a learned pooling reads evenly before it is trained.
    """
    order = resolve(recipe)
    with Dice().rolling():
        reader = module.reader if module else Reader(order, backbone)
    chain = sketch(order, reader.width, classes)
    parts = [part for part in (order.pooling, order.layers, order.head) if part]
    options = {**order.pooling_options, **order.head_options}
    steps = (
        *_reading_steps(order, backbone, reader),
        *_head_steps(order, backbone, chain, reader.width),
    )
    return Explanation(
        recipe=order.recipe,
        model=backbone.id,
        classes=classes,
        says=order.says,
        formula=(
            *(part.told(part.formula, options) for part in reversed(parts[:-1])),
            f"logits = {formula(chain)}",
        ),
        sources=tuple(f"{part.name}: {part.source}" for part in parts),
        steps=steps,
        parameters=sum(step.parameters for step in steps if step.kind != "base"),
        reads=_reads(backbone, reader, text, pair) if text else (),
        twins=tuple(twins(order, backbone)),
        notes=tuple(_notes(order, backbone, chain, module)),
    )


def _reading_steps(order: Order, backbone: Backbone, reader: Reader) -> Iterator[Step]:
    yield Step(kind="text", name="tokens", does="the text in pieces", shape=("t",))
    yield Step(
        kind="base",
        name=backbone.id,
        does=f"{backbone.model_type}, {backbone.layers} layers, frozen",
        shape=("t", backbone.width),
        parameters=backbone.parameters,
    )
    if order.recipe.layers:
        does = order.layers.says if order.layers else f"The states of layer {order.layer}."
        yield _reading_step(
            f"@{order.recipe.layers}", does, ("t", reader.state_width), reader.layers
        )
    does = order.says[0]
    step = _reading_step(order.pooling.name, does, (reader.width,), reader.pooling)
    yield replace(step, tensors=_pooler_facts(backbone)) if "pooler" in order.pooling.asks else step


def _reading_step(name: str, does: str, shape: tuple[str | int, ...], made: object) -> Step:
    tensors: dict[str, Tensor] = made.state_dict() if isinstance(made, nn.Module) else {}
    facts = [TensorFact(name=n, shape=tuple(t.shape), origin="new") for n, t in tensors.items()]
    return Step(
        kind="reading",
        name=name,
        does=does,
        shape=shape,
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        tensors=tuple(facts),
    )


def _pooler_facts(backbone: Backbone) -> tuple[TensorFact, ...]:
    """The base model's own pooler: frozen like the rest of it, and random where it came without."""
    origin: Origin = "random" if backbone.pooler == "new" else _in_checkpoint(backbone)
    own = ((n, t) for n, t in backbone.model.named_parameters() if n.startswith("pooler."))
    return tuple(TensorFact(name=n, shape=tuple(t.shape), origin=origin) for n, t in own)


def _head_steps(
    order: Order, backbone: Backbone, chain: nn.Sequential, size: int
) -> Iterator[Step]:
    pretrained = pretrained_tensors(order, backbone, chain)
    layers = leaves(chain)
    for name, layer in layers:
        size = size_after(layer, size)
        facts = [
            TensorFact(
                name=f"{order.head.prefix}{name}.{key}",
                shape=_shape(layer, tensor),
                origin=_origin(layer, f"{name}.{key}" in pretrained, backbone),
            )
            for key, tensor in layer.state_dict().items()
        ]
        yield Step(
            kind="head",
            name=f"{order.head.prefix}{name}",
            does=words(layer, is_last=name == last_linear(chain)),
            shape=(size,),
            parameters=sum(tensor.numel() for tensor in layer.parameters()),
            tensors=tuple(facts),
        )
    yield Step(kind="logits", name="logits", does="one number a class", shape=(size,))


def _shape(layer: nn.Module, tensor: Tensor) -> tuple[str | int, ...]:
    shape = tuple(tensor.shape)
    return ("rows", *shape[1:]) if isinstance(layer, Neighbours) else shape


def _origin(layer: nn.Module, from_base: bool, backbone: Backbone) -> Origin:
    if isinstance(layer, Neighbours):
        return "stored"
    return _in_checkpoint(backbone) if from_base else "new"


def _in_checkpoint(backbone: Backbone) -> Origin:
    return "pretrained" if backbone.pooler == "pretrained" else "untrained"


@torch.no_grad()
def _reads(
    backbone: Backbone, reader: Reader, text: str, pair: str
) -> tuple[tuple[str, float], ...]:
    encoded = backbone.encode([text], [pair] if pair else [])
    shares = reader(backbone.states(encoded)).reads[0]
    shares = shares / shares.sum().clamp_min(1e-9)
    return tuple(zip(backbone.words(encoded[0]), shares.tolist(), strict=True))


def _notes(
    order: Order, backbone: Backbone, chain: nn.Sequential, module: Classifier | None
) -> Iterator[str]:
    from_base = pretrained_tensors(order, backbone, chain)
    if order.pooling.name == "pooler" or from_base:
        yield {
            "pretrained": f"The pooler's weights come, pretrained, with {backbone.id}.",
            "untrained": f"The pooler's weights lie in the checkpoint of {backbone.id}, "
            "but nothing was ever learned into them: they are random.",
        }.get(backbone.pooler, f"{backbone.id} has no pooler of its own: its weights are random.")
    if from_base and str(order.recipe).partition("+")[0] != "cls":
        yield "A pooler belongs on the last layer's first token; here it reads something else."
    if order.head.from_base and not from_base:
        has = bool(backbone.pooler_weights)
        why = "the pooled vector has another width" if has else "the checkpoint has none"
        yield f"The {order.head.from_base} layer of '{order.head.name}' is new here: {why}."
    if order.learns_to_read and module is None:
        yield "This is the reading before training, when all count nearly the same."
