"""A base model that has learned something with a head: what it learned, and itself with that."""

import copy
import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.errors import CheckpointError
from heads.rng import IsolatedRng

SAMPLES = ("one two three", "one two three four five six seven eight")
# Base models with what they have learned stay in memory: so many, while they hold no more bytes of
# their own than that; the one asked for last in any case.
KEPT, KEPT_BYTES = 8, 1_500_000_000


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: its digest is remembered
class TunedBase:
    """What a base model has learned: some of its tensors, or an adapter.

    Attributes:
        tune: In what way, as the recipe names it: "full", "last2", "lora".
        tensors: The tensors that are other ones now, by their names in the base model; those of an
            adapter by their names in a file of PEFT.
        adapter: The configuration of PEFT that they belong to; empty where there is no adapter.
    """

    tune: str
    tensors: Mapping[str, Tensor]
    adapter: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """12 hexadecimal digits that are those of these tensors alone."""
        found = hashlib.sha256(repr((self.tune, sorted(self.tensors))).encode())
        for _, tensor in sorted(self.tensors.items()):
            found.update(tensor.detach().contiguous().numpy().tobytes())
        return found.hexdigest()[:12]

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    def changes(self, name: str) -> bool:
        """Whether a tensor of the base model is another one with it."""
        if not self.adapter:
            return name in self.tensors
        # PEFT goes by the ends of names.
        places = tuple(f".{place}.weight" for place in self.adapter["target_modules"])
        return f".{name}".endswith(places)

    def onto(self, backbone: Backbone) -> Backbone:
        """A copy of the base model with what was learned; its revision is a name of its own.

        Tensors that were not learned are those of the base model itself, not copies.

        Args:
            backbone: The base model; with what it has learned with another head it is that before.

        Raises:
            CheckpointError: The tensors are not of this base model.
        """
        writes, backbone = backbone, backbone.untuned
        key = (backbone.id, backbone.revision, backbone.tokens, id(backbone.model), self.digest)
        with _lock:
            if key in _kept:
                _kept.move_to_end(key)
                return _kept[key].written_as(writes)
        found = _put(self, replace(backbone, prompt=(), prefix="", stride=None))
        with _lock:
            found = _kept.setdefault(key, found)  # another thread may have been faster
            _kept.move_to_end(key)
            while len(_kept) > KEPT or (
                len(_kept) > 1 and sum(map(own_bytes, _kept.values())) > KEPT_BYTES
            ):
                _kept.popitem(last=False)
        return found.written_as(writes)

    def adapted(self, model: Any) -> Any:
        """Put PEFT's adapter with what was learned on a copy of the base model; return it."""
        from peft import set_peft_model_state_dict

        with IsolatedRng().rolling():  # PEFT draws weights, which are then those of here
            found = with_adapter(model, self.adapter)
        set_peft_model_state_dict(found, dict(self.tensors))
        return found


def with_adapter(model: Any, facts: Mapping[str, Any]) -> Any:
    """A model under a new adapter of PEFT, of that configuration."""
    from peft import LoraConfig, get_peft_model

    # PEFT 0.21 asks models for a property by a name that Transformers 5.23 gives another.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
    return get_peft_model(model, LoraConfig(**facts))


_kept: OrderedDict[tuple[object, ...], Backbone] = OrderedDict()
_lock = threading.Lock()


def own_bytes(backbone: Backbone) -> int:
    """How many bytes a base model holds that the one before it does not."""
    shared = {id(own) for own in backbone.untuned.model.parameters()}
    parts = [own for own in backbone.model.parameters() if id(own) not in shared]
    return sum(own.nbytes for own in parts)


def _put(tuned: TunedBase, backbone: Backbone) -> Backbone:
    # A copy of the model with the very tensors of that one, but for those that will change.
    every = list(backbone.model.named_parameters(remove_duplicate=False))
    changed = {id(tensor) for name, tensor in every if tuned.changes(name)}  # tied: several names
    shared = {id(tensor): tensor for _, tensor in every if id(tensor) not in changed}
    model = copy.deepcopy(backbone.model, shared)
    try:
        if tuned.adapter:
            model = tuned.adapted(model).merge_and_unload()
        else:
            own = model.state_dict()
            with torch.no_grad():
                for name, tensor in tuned.tensors.items():
                    own[name].copy_(tensor)
    except (KeyError, RuntimeError, ValueError) as error:
        what = f"What was learned of the base model does not fit {backbone.id}."
        raise CheckpointError(what, "Train again.") from error
    revision = f"{backbone.revision}+{tuned.digest}"
    model.eval().requires_grad_(False)
    return replace(backbone, model=model, revision=revision, before=backbone)
