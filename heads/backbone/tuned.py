"""A base model that has learned something with a head: what it learned, and itself with that."""

import copy
import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import with_block
from heads.errors import CheckpointError

SAMPLES = ("one two three", "one two three four five six seven eight")
KEPT = 4  # base models with what they have learned that stay in memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunedBase:
    """What a base model has learned: some of its tensors, or an adapter.

    Attributes:
        tune: In what way, as the recipe names it: "full", "last2", "lora".
        tensors: The tensors that are other ones now, by their names in the base model; those of an
            adapter by their names in a file of PEFT.
        adapter: The configuration of PEFT that they belong to; empty where there is no adapter.
        digest: 12 hexadecimal digits that name these tensors.
    """

    tune: str
    tensors: Mapping[str, Tensor]
    adapter: Mapping[str, Any] = field(default_factory=dict)

    @property
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

    def onto(self, backbone: Backbone) -> Backbone:
        """A copy of the base model with what was learned; its revision is a name of its own.

        Raises:
            CheckpointError: The tensors are not of this base model.
        """
        return _put(self, backbone)

    def adapted(self, model: Any) -> Any:
        """The base model under PEFT's adapter, which it then holds beside its own weights.

        Args:
            model: A copy of the base model, which is changed.
        """
        from peft import set_peft_model_state_dict

        found = with_adapter(model, self.adapter)
        set_peft_model_state_dict(found, dict(self.tensors))
        return found


def with_adapter(model: Any, facts: Mapping[str, Any]) -> Any:
    """A model under a new adapter of PEFT, of that configuration."""
    from peft import LoraConfig, get_peft_model

    # PEFT 0.21 asks models for a property by a name that Transformers 5.23 gives another.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
    return get_peft_model(model, LoraConfig(**facts))


@lru_cache(maxsize=KEPT)
def _put(tuned: TunedBase, backbone: Backbone) -> Backbone:
    model = copy.deepcopy(backbone.model)
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
    # Weights that were packed for a pass without padding are those of before: they are packed anew.
    own = replace(
        backbone, model=model.eval().requires_grad_(False), revision=revision, block=None, prompt=()
    )
    return replace(with_block(own, own.encode(SAMPLES)), prompt=backbone.prompt)
