"""A recipe on a copy of its base model, as one module that learns.

Legend: n texts, c classes.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, tokens_at_once
from heads.backbone.states import Encoded, States
from heads.backbone.tuned import TunedBase, with_adapter
from heads.classifier.module import RecipeModule
from heads.features.token_states import TokenStates, different
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.training.finetuning.plan import FromCut, TuningPlan, cut_into
from heads.training.task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of all rows as the base model takes them, and what is kept of their states.

    Attributes:
        first: (u,), the texts, or pairs as one sequence, each different one once.
        second: (u,), of siamese pairs the second texts; else none.
        index: (n,), the number of each row's text.
        kept: The states at the cut and below, where there is one.
    """

    first: Sequence[Encoded]
    second: Sequence[Encoded]
    index: Tensor
    kept: TokenStates | None = None

    @classmethod
    def of(cls, task: TrainingTask, resolved: ResolvedRecipe, backbone: Backbone) -> "Texts":
        """The texts of a task, cut into tokens."""
        texts, pairs, index = different(task.texts, task.pairs)
        own = backbone.for_recipe(resolved)
        apart = bool(resolved.pair)
        return cls(
            first=own.encode(texts, () if apart else pairs),
            second=own.encode(pairs) if apart else (),
            index=index,
            kept=task.cut_states,
        )

    def lengths(self, rows: Tensor) -> Tensor:
        """(n,), how many tokens some rows have."""
        sides = [self.first, self.second] if self.second else [self.first]
        return torch.tensor([sum(len(s[n]) for s in sides) for n in self.index[rows].tolist()])


class TunedRecipe(nn.Module):
    """Texts to logits (n, c): a copy of the base model with a new recipe on it.

    The base model that the process shares is never touched.

    Attributes:
        base: The copy; under PEFT's adapter, where one is learned.
        recomputes: Whether the backward pass computes layers again instead of keeping their states.
    """

    def __init__(
        self,
        resolved: ResolvedRecipe,
        backbone: Backbone,
        classes: int,
        plan: TuningPlan,
        *,
        device: torch.device = HERE,
        spares_memory: bool = False,
        begins_at_cut: bool = False,
    ) -> None:
        super().__init__()
        self.recipe, self._classes = RecipeModule(resolved, backbone, classes), classes
        self.base = copy.deepcopy(backbone.model).requires_grad_(False)
        self._plan, self._adapter = plan, None
        if resolved.tuning.adapter:
            self._adapter = _add_adapter(resolved, self.base, plan)
        else:
            for name in plan.depths:
                self.base.get_parameter(name).requires_grad_(True)
        # On an Apple GPU torch 2.13 does not draw the same dropout when it computes again.
        can = device.type != "mps" and self.base.supports_gradient_checkpointing
        self.recomputes = spares_memory and can
        if self.recomputes:
            # Transformers 5.23 calls it activation checkpointing, and warns of the older name.
            new, old = "activation_checkpointing_enable", "gradient_checkpointing_enable"
            getattr(self.base, new if hasattr(self.base, new) else old)({"use_reentrant": False})
        self.to(device)
        self._backbone = replace(backbone.for_recipe(resolved), model=self.base)
        self._cut: FromCut | None = None
        if begins_at_cut and plan.cut is not None:
            self._cut = cut_into(self._backbone, plan.stack, plan.cut)

    @property
    def reads_padding(self) -> bool:
        """Whether padding changes what the base model gives: only texts of one length go along."""
        return self._backbone.reads_padding

    def train(self, mode: bool = True) -> "TunedRecipe":
        """Dropout is on in whatever learns; what lies below the last layers answers as it is."""
        super().train(mode)
        if mode and self.recipe.reader.resolved.tuning.above:
            self.base.eval()
            for module in _learning(self.base):
                module.train()
        return self

    def forward(self, texts: Texts, rows: Tensor) -> Tensor:
        return self.recipe(*self._read(texts, rows))

    def vectors(self, texts: Texts, rows: Tensor) -> Tensor:
        """What the head gets of some rows, (n, w)."""
        return self.recipe.vectors(*self._read(texts, rows))

    def _read(self, texts: Texts, rows: Tensor) -> tuple[States, ...]:
        """The states of the texts of some rows, and of siamese pairs those of the second texts."""
        numbers = texts.index[rows]
        first = self._states([texts.first[n] for n in numbers.tolist()], texts, numbers)
        if not texts.second:
            return (first,)
        return first, self._backbone.forward([texts.second[n] for n in numbers.tolist()])

    def _states(self, batch: Sequence[Encoded], texts: Texts, numbers: Tensor) -> States:
        if self._cut is None:
            return self._backbone.forward(batch)
        assert texts.kept is not None
        kept = texts.kept.states(numbers)
        return self._cut.states(self._backbone, batch, kept.to(self._backbone.device))

    def answers(
        self, texts: Texts, rows: Tensor, check: Callable[[], None] | None = None
    ) -> Tensor:
        """The logits of some rows in 32 bits, (n, c), on the processor; there may be no rows.

        Args:
            check: Is called before every batch, and may end it all.
        """
        if not len(rows):
            return torch.empty(0, self._classes)
        return self._in_batches(self, texts, rows, check)

    def features(
        self, texts: Texts, rows: Tensor, check: Callable[[], None] | None = None
    ) -> Tensor:
        """The vectors of some rows in 32 bits, (n, w), likewise."""
        return self._in_batches(self.vectors, texts, rows, check)

    @torch.no_grad()
    def _in_batches(
        self,
        compute: Callable[[Texts, Tensor], Tensor],
        texts: Texts,
        rows: Tensor,
        check: Callable[[], None] | None,
    ) -> Tensor:
        """What is computed of some rows, texts of like length together."""
        self.eval()
        lengths, tokens = texts.lengths(rows), tokens_at_once(self._backbone.device)
        order, found = lengths.argsort(stable=True), list[Tensor]()
        for places in together(lengths[order], tokens, self._backbone.reads_padding):
            if check:
                check()
            found.append(compute(texts, rows[order[places]]).float().to(HERE))
        return torch.cat(found)[order.argsort()]

    def groups(self) -> Iterator[tuple[int, str, nn.Parameter]]:
        """What is learned: the layer it belongs to (the head's lies above all), name, parameter."""
        top = max(self._plan.depths.values()) + 1
        for name, own in self.base.named_parameters():
            if own.requires_grad:
                # An adapter's belongs to the layer of the weight that it is added to.
                place = f"{name.partition('.lora_')[0]}.weight" if self._adapter else name
                yield self._plan.depths[place], f"base.{name}", own
        for name, own in self.recipe.named_parameters():
            yield top, f"recipe.{name}", own

    def learned(self) -> dict[str, Tensor]:
        """All tensors that are learned, by the names of `groups`; those of here, not copies."""
        return {name: own.data for _, name, own in self.groups()}

    def tuned_base(self) -> TunedBase:
        """What the base model has learned, copied to the processor."""
        resolved = self.recipe.reader.resolved
        if self._adapter is not None:
            from peft import get_peft_model_state_dict

            model, facts = self._adapter
            found = get_peft_model_state_dict(model)  # by their names in a file of PEFT
            tensors = {name: _copied(own) for name, own in found.items()}
            return TunedBase(tune=resolved.tune, tensors=tensors, adapter=facts)
        tensors = {name: _copied(self.base.get_parameter(name)) for name in self._plan.depths}
        return TunedBase(tune=resolved.tune, tensors=tensors)

    def state_of_recipe(self) -> dict[str, Tensor]:
        """The tensors of the recipe, copied to the processor."""
        return {name: _copied(own) for name, own in self.recipe.state_dict().items()}


def _add_adapter(
    resolved: ResolvedRecipe, model: Any, plan: TuningPlan
) -> tuple[Any, Mapping[str, Any]]:
    """Put PEFT's adapter into a base model; return the model with it, and the adapter's config."""
    places = [name.rpartition(".")[0] for name in plan.depths]
    turned = type(model.get_submodule(places[0])).__name__ == "Conv1D"
    rank = resolved.tuning_options["rank"]
    facts = {
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": places,
        "fan_in_fan_out": turned,
    }
    return with_adapter(model, facts), facts


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to(HERE, copy=True)


def _learning(model: nn.Module) -> Iterator[nn.Module]:
    """The largest parts of a model all of whose parameters are learned."""
    own = list(model.parameters())
    if own and all(one.requires_grad for one in own):
        yield model
        return
    for child in model.children():
        yield from _learning(child)


def together(lengths: Tensor, tokens: int, strictly: bool = False) -> Iterator[slice]:
    """Rows side by side that are read together, padding included no more than so many tokens.

    Args:
        lengths: (n,), of their texts, in their order.
        strictly: Whether they must be of one length.

    >>> [(one.start, one.stop) for one in together(torch.tensor([2, 2, 3, 9, 1]), 6)]
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    sizes, start, longest = lengths.tolist(), 0, 0
    for place, size in enumerate(sizes):
        most = max(longest, size)
        is_full = most * (place - start + 1) > tokens or (strictly and size != longest)
        if place > start and is_full:
            yield slice(start, place)
            start, most = place, size
        longest = most
    if sizes:
        yield slice(start, len(sizes))
