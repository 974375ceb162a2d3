"""Where each tensor of a recipe comes from: the checkpoint, and which tensor of it, or nowhere.

Read from Transformers' own loading report, never from a table of models.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.catalog.families import FAMILIES
from heads.classifier.module import TrainedHead, begun_with, is_familys, native_of
from heads.classifier.native_head import NativeHead, native_head, sources, stored_shapes
from heads.parts.modules import Neighbours
from heads.parts.resolved import Order

Origin = Literal["pretrained", "untrained", "random", "new", "mismatched", "stored"]
ORIGINS: dict[Origin, str] = {
    "pretrained": "pretrained, from the checkpoint",
    "untrained": "in the base model's checkpoint, but never trained",
    "random": "random: the base model's checkpoint lacks it",
    "new": "new, learned from the data",
    "mismatched": "new, since the checkpoint's has another shape",
    "stored": "the training texts themselves",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFact:
    """One tensor.

    Attributes:
        name: Its name in the Transformers checkpoint.
        shape: Its lengths; `rows` where they depend on the data.
        origin: Where its numbers come from, a key of `ORIGINS`.
        source: The tensor of the checkpoint's files that it comes from, if it does.
    """

    name: str
    shape: tuple[str | int, ...]
    origin: Origin
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is known of the tensors of a recipe on a base model.

    Attributes:
        begun: The tensors of the head that training starts from, as the base model has them.
        native: The head of the checkpoint's own class, where this is it.
        stored: The shapes that the checkpoint has of this head's tensors, under our names.
        is_own: Whether the head is the checkpoint's own one, not one trained here.
    """

    order: Order
    backbone: Backbone
    begun: dict[str, Tensor]
    native: NativeHead | None
    stored: Mapping[str, tuple[int, ...]]
    is_own: bool

    def of_layer(self, name: str, layer: nn.Module) -> Iterator[TensorFact]:
        """The facts of one layer of the head."""
        for key, tensor in layer.state_dict().items():
            ours = f"{name}.{key}"
            origin, source = self._origin(ours, tensor, layer)
            shape = tuple(tensor.shape)
            yield TensorFact(
                name=self._called(ours),
                shape=("rows", *shape[1:]) if isinstance(layer, Neighbours) else shape,
                origin=origin,
                source=source,
            )

    def of_pooler(self) -> Iterator[TensorFact]:
        """The base model's own pooler: frozen like the rest, and random where it came without."""
        own = {n: t for n, t in self.backbone.model.named_parameters() if n.startswith("pooler.")}
        new = self.backbone.pooler == "new"
        found = {} if new else _sources(self.backbone, own)
        for name, tensor in own.items():
            origin: Origin = "random" if new else self._in_checkpoint()
            source = found.get(name, "")
            yield TensorFact(name=name, shape=tuple(tensor.shape), origin=origin, source=source)

    def _origin(self, ours: str, tensor: Tensor, layer: nn.Module) -> tuple[Origin, str]:
        if isinstance(layer, Neighbours):
            return "stored", ""
        source = self.native.sources.get(ours, "") if self.native else ""
        from_base = bool(self.order.head.from_base) and ours.startswith(self.order.head.from_base)
        kept: Origin = self._in_checkpoint() if from_base else "pretrained"
        if self.is_own and self.native and ours in self.native.new:
            return ("mismatched" if ours in self.native.mismatched else "random"), ""
        if self.is_own:
            return kept, source
        if ours in self.begun:
            return kept, source or _sources(self.backbone, self.begun).get(ours, "")
        there = self.stored.get(ours, tuple(tensor.shape))
        return ("new" if there == tuple(tensor.shape) else "mismatched"), ""

    def _called(self, ours: str) -> str:
        if self.is_own and self.native:
            return self.native.names[ours]
        return f"{self.order.head.prefix}{ours}"

    def _in_checkpoint(self) -> Origin:
        return "pretrained" if self.backbone.pooler == "pretrained" else "untrained"


def provenance(
    order: Order, backbone: Backbone, chain: nn.Sequential, head: TrainedHead | None
) -> Provenance:
    """What is known of a recipe's tensors; see `Provenance`.

    Args:
        chain: The head, on whatever device.
        head: The trained head, if there is one; it may be the checkpoint's own.
    """
    is_own = head is not None and head.is_own
    return Provenance(
        order=order,
        backbone=backbone,
        begun=begun_with(order, backbone, chain),
        native=native_head(backbone) if is_own else native_of(order, backbone),
        stored=_stored(order, backbone, chain) if not is_own else {},
        is_own=is_own,
    )


def _sources(backbone: Backbone, tensors: dict[str, Tensor]) -> dict[str, str]:
    return dict(sources(backbone.folder, tensors)) if backbone.folder else {}


def _stored(
    order: Order, backbone: Backbone, chain: nn.Sequential
) -> Mapping[str, tuple[int, ...]]:
    """What the checkpoint's files hold of the head of its own class, if this is that one."""
    if backbone.folder is None or not is_familys(order, backbone):
        return {}
    form, base = FAMILIES[backbone.model_type], backbone.model.base_model_prefix
    named = {ours: form.name_of(ours, order.head.prefix, base) for ours in chain.state_dict()}
    shapes = stored_shapes(backbone.folder)
    return {ours: shapes[name] for ours, name in named.items() if name in shapes}
