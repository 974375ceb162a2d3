"""Which parameters of a base model a recipe learns, told from the graph of one forward pass.

No family has to be known for that: a parameter is learned if the pooled vector depends on it and
the recipe's way of learning asks for it; it belongs to the first layer whose states depend on it.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.backbone.tuned import SAMPLES
from heads.errors import HeadsError, RecipeError
from heads.features.featurizer import Featurizer
from heads.parts.resolved_recipe import TUNE, ResolvedRecipe

CLOSE = 1e-5  # of the largest number: what rounding in another order may change in 32 bits
FAULTS = (HeadsError, AttributeError, RuntimeError, IndexError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """What of a base model is learned.

    Attributes:
        depths: For each parameter that is learned, by its name, the first layer whose states depend
            on it: 0 for embeddings. Of an adapter those that it is added to.
        parameters: How many numbers are learned of the base model.
        cut: The layer whose states are kept while the layers above it are learned; None where
            everything is computed in every step.
        stack: The name of the base model's list of layers, where there is a cut.
        reads: The layers below the cut that the recipe reads as well, and the cut.
    """

    depths: Mapping[str, int]
    parameters: int
    cut: int | None = None
    stack: str = ""
    reads: tuple[int, ...] = ()


def plan_of(
    resolved: ResolvedRecipe, backbone: Backbone, reader: Featurizer | None = None
) -> TuningPlan:
    """Find what a recipe learns of a base model; raise RecipeError if that is nothing.

    Args:
        reader: Its pooling on that base model, if that is built already.
    """
    top, options = resolved.tuning, resolved.tuning_options
    count = options.get("layers", 0)
    if top.above and count > backbone.layers:
        layers = f"{backbone.layers} layers" if backbone.layers else "no layers that can be told"
        what = f"{backbone.id} has {layers}, so {TUNE}={resolved.tune} has no meaning."
        raise RecipeError(what, f"Write {TUNE}=full.")
    if top.above and resolved.layers is not None and "decoder" in resolved.layers.asks:
        what = f"{resolved.recipe}: which layers are the last is told of an encoder only."
        raise RecipeError(what, f"Write {TUNE}=full or {TUNE}=lora.")
    model = copy.deepcopy(backbone.model).eval().requires_grad_(True)
    reader = reader or Featurizer(resolved, backbone)
    own = replace(backbone.for_recipe(resolved), model=model)
    with torch.enable_grad():
        states = own.forward(own.encode(SAMPLES[:1]))
        vectors = reader(states).vectors
        reached, depths = _leaves(vectors), dict[int, int]()
        for layer, hidden in enumerate(states.hidden):
            depths |= {one: layer for one in _leaves(hidden) if one not in depths}
    below = backbone.layers - count if top.above else -1
    fixed = {one for one, depth in depths.items() if depth <= below}
    names = {name for name, _ in model.named_parameters()}  # of tied parameters the first
    found = {
        name: depths.get(id(own), backbone.layers)
        for place, module in model.named_modules()
        for leaf, own in module.named_parameters(recurse=False)
        if id(own) in reached - fixed
        and (name := f"{place}.{leaf}".lstrip(".")) in names
        and top.make(name, module, **options)
    }
    if not found:
        what = f"{resolved.recipe}: what it reads of {backbone.id} depends on nothing that "
        what += f"{TUNE}={resolved.tune} learns."
        raise RecipeError(what, f"Read the last layer, or write {TUNE}=full.")
    shapes = [model.get_parameter(name).shape for name in found]
    plan = TuningPlan(
        depths=found,
        parameters=sum(
            options["rank"] * sum(shape) if top.adapter else shape.numel() for shape in shapes
        ),
    )
    if 1 <= below < backbone.layers and not (resolved.pair or own.written):
        return _with_cut(plan, reader, backbone, below)
    return plan


def _leaves(tensor: Tensor) -> set[int]:
    """The parameters that a tensor depends on, by their identity; nothing is computed for that."""
    seen, found, stack = set[Any](), set[int](), [tensor.grad_fn]
    while stack:
        node: Any = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        stack += [before for before, _ in node.next_functions]
    return found


# --- The cut: layers below are left out where the states that they give are kept.


class FromCut:
    """A base model that begins at a layer: those below answer with states that are given.

    Everything else (masks, positions, what stands above the layers) is the model's own forward.
    """

    def __init__(self, layers: Sequence[nn.Module], cut: int, *, in_tuples: bool) -> None:
        self._cut, self._in_tuples, self._kept = cut, in_tuples, torch.empty(0)
        for layer in layers[:cut]:
            layer.forward = self._answer

    def _answer(self, *_: Any, **__: Any) -> Any:
        return (self._kept,) if self._in_tuples else self._kept

    def states(self, backbone: Backbone, texts: Sequence[Encoded], kept: States) -> States:
        """The states of some texts, those up to the cut as given."""
        self._kept = kept.layer(self._cut)
        found = backbone.forward(texts)
        hidden = (*kept.hidden[: self._cut + 1], *found.hidden[self._cut + 1 :])
        return replace(found, hidden=hidden)


def cut_into(backbone: Backbone, stack: str, cut: int) -> FromCut:
    """Lets a model begin at a cut; one look tells whether its layers answer in tuples.

    Args:
        backbone: A copy of a base model, whose layers are changed.
    """
    layers: Any = backbone.model.get_submodule(stack)
    answers = list[bool]()
    hook = layers[cut - 1].register_forward_hook(
        lambda _module, _inputs, output: answers.append(isinstance(output, tuple))
    )
    backbone.states(backbone.encode(SAMPLES[:1]))
    hook.remove()
    return FromCut(layers, cut, in_tuples=answers[0])


def _with_cut(plan: TuningPlan, reader: Featurizer, backbone: Backbone, cut: int) -> TuningPlan:
    """The plan with the cut, where a pass that begins there gives what the whole one gives."""
    stacks = [
        name
        for name, module in backbone.model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == backbone.layers > 0
    ]
    if len(stacks) != 1 or backbone.decoder_width:
        return plan
    model = copy.deepcopy(backbone.model)
    own = replace(backbone, model=model)
    texts = own.encode(SAMPLES)
    try:
        with torch.no_grad():
            whole = own.states(texts)
            found = cut_into(own, stacks[0], cut).states(own, texts, whole)
            largest = [one.abs().max().clamp_min(1) for one in whole.hidden]
            gaps = [
                float((one - other).abs().max() / most)
                for one, other, most in zip(found.hidden, whole.hidden, largest, strict=True)
            ]
    except FAULTS:
        return plan
    if not max(gaps) <= CLOSE:  # a family whose layers hand on more than their states
        return plan
    below = {layer for layer in reader.depths if layer < cut}
    return replace(plan, cut=cut, stack=stacks[0], reads=tuple(sorted(below | {cut})))
