"""Compute what a checkpoint would answer if served with other inputs, poolings or head layers.

Legend: n texts, w width of what the head gets, c classes.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from heads.backbone.states import States
from heads.classifier.module import RecipeModule
from heads.errors import HeadsError, ModelError
from heads.extras.serving.encoding import Inputs, RowEncoder
from heads.extras.serving.report import CheckFinding, fault
from heads.features.featurizer import Featurizer
from heads.parts.modules import acting_layers, last_linear, words
from heads.parts.registry import pooling
from heads.parts.resolved_recipe import PROMPT

OWN = ""  # the checkpoint's own choice
MOST_FAULTS = 3
SCALED = " at length 1"  # behind the name of a pooling
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "GELU": nn.GELU, "ReLU": nn.ReLU}
ACTIVATION_MODULES = ("torch.nn.modules.activation", "transformers.activations")
WHOLE_HEAD = "Let the server load the class that the config names, with its whole head."

Faults = tuple[CheckFinding, ...]
TextStates = tuple[States, ...]  # of one row; a siamese pair has two


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variant:
    """One way to serve a checkpoint."""

    inputs: Sequence[Inputs]  # what the base model gets
    pooling: str = OWN  # the name of the pooling, or OWN
    layers: str = OWN  # the name of the change to the head's layers, or OWN
    faults: Faults = ()  # where it is not the checkpoint's own way


class Variants:
    """The ways to serve one checkpoint, whose own pooling and head are its `module`."""

    def __init__(self, encoder: RowEncoder, module: RecipeModule) -> None:
        self.encoder = encoder
        self.module = module
        self._readers: dict[str, Featurizer] = {}
        self._layers: dict[str, tuple[nn.Module, ...]] = {OWN: tuple(module.head)}
        self._poolings: dict[str, Faults] = {OWN: ()} | dict(self._iter_poolings())
        self._heads: dict[str, Faults] = {OWN: ()}
        self._heads |= dict((*self._iter_shorter_heads(), *self._iter_activations()))

    def _iter_poolings(self) -> Iterator[tuple[str, Faults]]:
        """Yield other poolings of the same width, without and with vectors scaled to length 1."""
        resolved = self.module.reader.resolved
        says = "The pooled vector is scaled to length 1, and the checkpoint's is not."
        scaled = fault("pooling", says, "Turn the server's normalisation off.")
        if not resolved.normalise:
            yield SCALED, (scaled,)
        own = f"{resolved.pooling.title.lower()} ({resolved.pooling.name})"
        for name, other in pooling.items():
            is_fixed = not (other.learned or other.is_trained or other.is_given)
            if not is_fixed or name == resolved.pooling.name or PROMPT in other.options:
                continue
            if other.is_pooler and self.encoder.backbone.pooler != "pretrained":
                continue
            options = dict(other.options)
            try:
                changed = replace(resolved, pooling=other, pooling_options=options)
                reader = Featurizer(changed, self.encoder.backbone)
            except HeadsError:
                continue  # this base model lacks what the pooling needs
            if reader.width != self.module.reader.width:
                continue
            self._readers[name] = reader
            title = f"{other.title.lower()} ({name})"
            says = f"The pooling is another: {title}, and the checkpoint's is {own}."
            hint = "Let the server load the class that the config names, or set its pooling."
            yield name, (fault("pooling", says, hint),)
            if not resolved.normalise:
                yield f"{name}{SCALED}", (fault("pooling", says, hint), scaled)

    @cached_property
    def _acting(self) -> tuple[list[tuple[str, nn.Module]], int]:
        """The layers of the head that act in use, and the place of its last linear one."""
        layers, last = acting_layers(self.module.head), last_linear(self.module.head)
        names = [name for name, _ in layers]
        return layers, names.index(last) if last in names else 0

    def _iter_shorter_heads(self) -> Iterator[tuple[str, Faults]]:
        """Yield the head without any run of layers before its last linear one."""
        layers, last = self._acting
        for start in range(last):
            for end in range(start + 1, last + 1):
                dropped, rest = layers[start:end], (*layers[:start], *layers[end:])
                titles = ", ".join(words(layer, is_last=False) for _, layer in dropped)
                pooler = [layer for layer in layers if layer[0].startswith("pooler")]
                if dropped == pooler:
                    says = f"The pooler is dropped ({titles}): the last layer gets its input."
                else:
                    place = self.module.reader.resolved.head.prefix + dropped[0][0]
                    says = f"Layers of the head are dropped: {titles} (from {place} on)."
                name = f"without {start} to {end}"
                self._layers[name] = tuple(layer for _, layer in rest)
                yield name, (fault("head", says, WHOLE_HEAD),)

    def _iter_activations(self) -> Iterator[tuple[str, Faults]]:
        layers, last = self._acting
        for place, (_, layer) in enumerate(layers[:last]):
            if type(layer).__module__ not in ACTIVATION_MODULES:
                continue
            own = words(layer, is_last=False)
            for title, kind in ACTIVATIONS.items():
                if type(layer) is kind:
                    continue
                modules = [module for _, module in layers]
                name = f"{title} at {place}"
                self._layers[name] = (*modules[:place], kind(), *modules[place + 1 :])
                says = f"The head applies {title} between its layers, and the checkpoint's {own}."
                hint = "Look at the activation that the served config.json names."
                yield name, (fault("head", says, hint),)

    @torch.no_grad()
    def logits(self, variant: Variant) -> Tensor:
        """Return the logits (n, c) of one way, or raise what `try_logits` catches."""
        states = self._states(variant.inputs)
        return self._logits(variant, states, self._vectors(variant.pooling, states))

    def try_logits(self, variant: Variant) -> Tensor | None:
        """Return the logits (n, c) of one way, or None where they cannot be computed."""
        try:
            return self.logits(variant)
        except (ModelError, RuntimeError):
            return None

    @torch.no_grad()
    def iter_logits(
        self, inputs: Sequence[Inputs], faults: Faults = ()
    ) -> Iterator[tuple[Variant, Tensor]]:
        """Yield every way to serve rows that are encoded so, faults included, with its logits."""
        states, seen = self._states(inputs), list[Tensor]()
        for name, pooling_faults in self._poolings.items():
            vectors = self._vectors(name, states)
            if any(torch.allclose(vectors, other, rtol=1e-5, atol=1e-6) for other in seen):
                continue  # on these rows the same as one before, such as the last token
            seen.append(vectors)
            for layers, head_faults in self._heads.items():
                every = (*faults, *pooling_faults, *head_faults)
                if len(every) > MOST_FAULTS:
                    continue
                variant = Variant(inputs=inputs, pooling=name, layers=layers, faults=every)
                try:
                    logits = self._logits(variant, states, vectors)
                except RuntimeError:  # a layer before one of another size was left out
                    continue
                if logits.isfinite().all():
                    yield variant, logits

    def _states(self, inputs: Sequence[Inputs]) -> list[TextStates]:
        """Return the states of rows, each computed by itself, so that no padding is in it."""
        states = self.encoder.backbone.states
        return [tuple(states([side]) for side in row) for row in inputs]

    def _vectors(self, name: str, states: Sequence[TextStates]) -> Tensor:
        """Return what the head gets, (n, w), by the name of a pooling."""
        resolved = self.module.reader.resolved
        reader = self._readers.get(name.removesuffix(SCALED), self.module.reader)
        rows = []
        for row in states:
            # Some poolings answer in float32, whatever the states are in.
            sides = [reader(side).vectors.to(side.hidden[-1].dtype) for side in row]
            if name.endswith(SCALED):
                sides = [nn.functional.normalize(side, dim=-1) for side in sides]
            rows.append(resolved.joined(*sides) if resolved.pair else sides[0])
        return torch.cat(rows)

    def _logits(self, variant: Variant, states: list[TextStates], vectors: Tensor) -> Tensor:
        if variant.pooling == OWN and variant.layers == OWN:
            return torch.cat([self.module(*sides).float() for sides in states])
        for layer in self._layers[variant.layers]:
            vectors = layer(vectors)
        return vectors.float()

    @cached_property
    def halved(self) -> "Variants | None":
        """The same ways computed in bfloat16; None where the base model cannot be."""
        backbone = self.encoder.backbone
        try:
            model = copy.deepcopy(backbone.model).to(torch.bfloat16)
            module = copy.deepcopy(self.module).to(torch.bfloat16)
            backbone = replace(backbone, model=model)
            return Variants(replace(self.encoder, backbone=backbone), module)
        except (RuntimeError, TypeError, HeadsError):
            return None
