"""A trained head with one of its layers taken out, as it is: how much the others lean on it.

That is not what the layer is worth, since the others have learned to stand on it: for that, a head
trained without it stands beside (`retraining`).

Legend: n rows, c classes.
"""

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heads.classifier.classifier import Classifier
from heads.errors import RecipeError, did_you_mean
from heads.evaluation.statistics import answers
from heads.parts.modules import (
    Cuts,
    Neighbours,
    Normalise,
    Residual,
    Scale,
    acts_in_training_only,
    is_idle,
    last_linear,
    leaves,
    words,
)
from heads.pipeline.look.retraining import Retrained
from heads.pipeline.look.saying import Said, said
from heads.pipeline.look.worth import Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What taking a layer out changes on rows that the head has not learned from.

    Attributes:
        rows: How many rows.
        changed: How many answers are others.
        before: The share that the whole head answers right.
        after: The share that it answers right without the layer.
    """

    rows: int
    changed: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """What a head says with and without one of its layers.

    Attributes:
        name: The head.
        layer: The layer's name.
        does: The layer in a few words.
        before: What the whole head says.
        after: What it says without the layer; None where it cannot be taken out.
        effect: What changes on other rows; None where it was not measured.
        why_not: Why it cannot be taken out, in a sentence.
        retrained: What a head says that was trained without the layer; None where there is none.
        worth: How that head does beside the whole one.
        why_not_retrained: Why there is no such head, in a sentence; nothing where none was asked
            for.
    """

    name: str
    layer: str
    does: str
    before: Said
    after: Said | None
    effect: Effect | None = None
    why_not: str = ""
    retrained: Said | None = None
    worth: Worth | None = None
    why_not_retrained: str = ""

    @property
    def says(self) -> str:
        """What happens, in a few sentences: of the head as it is, then of one trained without."""
        return " ".join(filter(None, (self._says_as_it_is, self._says_retrained)))

    @property
    def _says_as_it_is(self) -> str:
        if self.after is None:
            return self.why_not
        was, now = self.before.spoken, self.after.spoken
        says = f"still says {now}" if was == now else f"says {now} instead of {was}"
        told = f"Without {self.layer}, {self.name} as it is, not trained anew, {says}."
        if self.effect is None:
            return told
        right = f"from {self.effect.before * 100:.1f} to {self.effect.after * 100:.1f} % right"
        return (
            f"{told} Of {self.effect.rows} rows that it has not learned from, "
            f"{self.effect.changed} get another answer ({right}). That shows how much its other "
            f"layers lean on {self.layer}, not what {self.layer} is worth."
        )

    @property
    def _says_retrained(self) -> str:
        if self.retrained is None or self.worth is None:
            why = self.why_not_retrained
            return f"It was not trained anew without it: {why[:1].lower() + why[1:]}" if why else ""
        return (
            f"Trained anew without {self.layer} on the same rows, it says "
            f"{self.retrained.spoken} and {self.worth.told(self.layer)}"
        )

    def with_effect(self, effect: Effect) -> "Ablation":
        """The same with what changes on other rows."""
        return replace(self, effect=effect)

    def beside(self, found: Retrained, says: Said | None) -> "Ablation":
        """The same with a head that was trained without the layer.

        Args:
            says: What that head says of the text.
        """
        return replace(self, retrained=says, worth=found.worth, why_not_retrained=found.why_not)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self) | {"says": self.says}


def kind_of(layer: nn.Module) -> str:
    """What sort of layer it is: dense, activation, norm, dropout, scale, or votes."""
    kinds: dict[str, tuple[type[nn.Module], ...]] = {
        "dense": (nn.Linear,),
        "residual": (Residual,),
        "thresholds": (Cuts,),
        "norm": (nn.LayerNorm, Normalise),
        "scale": (Scale,),
        "votes": (Neighbours,),
    }
    if acts_in_training_only(layer):
        return "dropout"
    return next((name for name, types in kinds.items() if isinstance(layer, types)), "activation")


def layers_named(classifier: Classifier, without: str = "") -> tuple[str, ...]:
    """The layers of a head of that name or kind; without one, all that do something in use.

    Raises:
        RecipeError: It has no such layer.
    """
    chain = classifier.head.module.head
    known, last = dict(leaves(chain)), last_linear(chain)
    acting = {
        name: layer
        for name, layer in known.items()
        if not acts_in_training_only(layer) and not is_idle(layer) and name != last
    }
    if not without:
        return tuple(acting)
    if without in known:
        return (without,)
    before = {name: layer for name, layer in known.items() if name != last}
    found = [
        name
        for name, layer in before.items()
        if without in (name.rpartition(".")[2], kind_of(layer))
    ]
    if not found:
        what = f"{classifier.recipe} has no layer '{without[:60]}' before its last one."
        if not acting:
            raise RecipeError(what, "It has only the one that gives the logits.")
        names = dict.fromkeys([*acting, *map(kind_of, acting.values())])
        raise RecipeError(what, did_you_mean(without, names))
    return tuple(found)


def ablated(classifier: Classifier, layer: str) -> Classifier:
    """The same trained head with one layer replaced by nothing: what enters it leaves it.

    Args:
        layer: The layer's name, as its tensors have it, for example ``"dense"``.

    Raises:
        RecipeError: There is no such layer, or the sizes beside it do not fit without it.
    """
    module = classifier.head.module
    known = dict(leaves(module.head))
    if layer not in known:
        what = f"{classifier.recipe} has no layer '{layer[:60]}'."
        raise RecipeError(what, did_you_mean(layer, dict.fromkeys(known)))
    chain = _without(module.head, layer)
    width, classes = module.width, len(classifier.classes)
    try:
        fits = chain(torch.zeros(1, width)).shape[-1] == classes
    except RuntimeError:
        fits = False
    if not fits:
        raise RecipeError(_misfit(classifier, layer, known[layer]), "Take another layer out.")
    bare = copy.copy(module)
    bare._modules = {**module._modules, "head": chain}
    return replace(classifier, head=replace(classifier.head, module=bare))


def _without(chain: nn.Module, layer: str) -> nn.Sequential:
    """A chain of the same layers, one of them replaced by the identity."""
    outer, _, inner = layer.partition(".")
    return nn.Sequential(
        OrderedDict(
            (name, (_without(child, inner) if inner else nn.Identity()) if name == outer else child)
            for name, child in chain.named_children()
        )
    ).eval()


def _misfit(classifier: Classifier, layer: str, taken: nn.Module) -> str:
    name = f"{layer} of {classifier.recipe}"
    if layer == last_linear(classifier.head.module.head):
        return f"{name} gives the logits: without it there is no answer."
    if isinstance(taken, nn.Linear):
        sizes = f"{taken.in_features:,} numbers to {taken.out_features:,}"
        return f"{name} maps {sizes}, and what comes after it needs {taken.out_features:,}."
    return f"{name} changes the size of what passes through it, and what comes after needs that."


@torch.no_grad()
def compared(classifier: Classifier, layer: str, logits: Tensor, own: Any) -> Ablation:
    """What a head says of one text with and without a layer.

    Args:
        logits: What the whole head says, (1, c).
        own: The states of the text, as the head reads them.
    """
    before = said(classifier.head, logits[0])
    taken = dict(leaves(classifier.head.module.head)).get(layer)
    last = layer == last_linear(classifier.head.module.head)
    does = words(taken, is_last=last) if taken is not None else ""
    try:
        without = ablated(classifier, layer)
    except RecipeError as error:
        return Ablation(
            name=before.name, layer=layer, does=does, before=before, after=None, why_not=error.what
        )
    after = said(classifier.head, without.head.module(*own)[0])
    return Ablation(name=before.name, layer=layer, does=does, before=before, after=after)


@torch.no_grad()
def effect(
    classifier: Classifier, layer: str, vectors: Tensor, targets: Sequence[Sequence[int]]
) -> Effect:
    """What taking a layer out changes on other rows.

    Args:
        vectors: What the head gets of them, (n, w).
        targets: For each row the numbers of its classes.
    """
    head = classifier.head
    goals = torch.zeros(len(vectors), len(classifier.classes), dtype=torch.bool)
    for row, numbers in enumerate(targets):
        goals[row, list(numbers)] = True
    chains = (head.module.head, ablated(classifier, layer).head.module.head)
    found = [answers(chain(vectors), head.squash, head.thresholds) for chain in chains]
    right = [(each == goals).all(dim=1).float().mean().item() for each in found]
    return Effect(
        rows=len(vectors),
        changed=int((found[0] != found[1]).any(dim=1).sum()),
        before=right[0],
        after=right[1],
    )
