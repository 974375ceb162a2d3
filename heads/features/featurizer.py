"""From token states to one vector a text: the reading half of a recipe.

Legend: n texts, t tokens, d width of a state, w width of the pooled vector.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.states import States
from heads.backbone.trained_reading import TrainedReading, why_untrained
from heads.errors import HeadsError, RecipeError
from heads.parts.pooled import Pooled, pooled
from heads.parts.poolings import GIVEN
from heads.parts.registry import Pooling
from heads.parts.resolved_recipe import ResolvedRecipe


class Featurizer(nn.Module):
    """The layers and the pooling of a recipe on a base model: `States` to `Pooled`.

    Attributes:
        width: w, found by reading two tokens of nothing.
        state_width: Size of a state as the pooling sees it: d, or 4 d under `cat4`.
        weighs: Whether it answers with one weight a token, so that anything can be pooled by it.
        depths: The numbers of the layers that it needs; a pass may leave out the others.
        by_window: Whether, of a long text that is read in windows, the windows' vectors are
            averaged; else all tokens of all windows are pooled as if they were one text.

    Raises:
        RecipeError: The base model has no such layer, no pooler or no decoder.
    """

    def __init__(self, resolved: ResolvedRecipe, backbone: Backbone) -> None:
        super().__init__()
        _check_given(resolved, backbone)
        if resolved.pooling.is_pooler and backbone.pooler == "none":
            what = f"{backbone.id} has no pooler of its own."
            raise RecipeError(what, f"Write cls+{resolved.head.name} instead.")
        if resolved.layers and "decoder" in resolved.layers.asks and not backbone.decoder_width:
            what = f"{backbone.id} has no decoder beside an encoder."
            raise RecipeError(what, f"Write {resolved.pooling.name}+{resolved.head.name} instead.")
        backbone.for_recipe(resolved)  # says so where it has no mask token, or no such prompt
        # In a tuple, for it is the base model's: no layer of this reading, and in no state_dict.
        self._trained: tuple[TrainedReading, ...] = ()
        if resolved.pooling.is_trained:
            if backbone.trained is None:
                raise why_untrained(backbone.folder, backbone.id, backbone.width)
            self._trained = (backbone.trained,)
        self.resolved = resolved
        self.layers = _made(resolved.layers, backbone.layers + 1)
        nothing = _nothing(backbone)
        self.state_width: int = self.chosen(nothing).shape[-1]
        self.depths = self._depths(nothing)
        self.pooling = _made(resolved.pooling, self.state_width, **resolved.pooling_options)
        with torch.no_grad():
            answer, width = self._tried(nothing)
        self.width: int = width
        self.weighs = isinstance(answer, Tensor) and (answer.dim() == 2 or answer.shape[1] == 1)
        self.by_window = resolved.pooling.is_by_window or self._reads_decoder
        self.by_window |= any(reading.is_by_window for reading in self._trained)

    def _depths(self, nothing: States) -> frozenset[int]:
        """The layers that it reads: where one is no number, neither is what it makes of them."""
        last = len(nothing.hidden) - 1  # the model's own pooler reads it
        if self.resolved.layers is None:
            return frozenset({self.resolved.layer % (last + 1), last})
        found = {last}
        for number, states in enumerate(nothing.hidden):
            hidden = list(nothing.hidden)
            hidden[number] = torch.full_like(states, torch.nan)
            with torch.no_grad():
                if self.chosen(replace(nothing, hidden=tuple(hidden))).isnan().any():
                    found.add(number)
        return frozenset(found)

    @property
    def _reads_decoder(self) -> bool:
        return self.resolved.layers is not None and "decoder" in self.resolved.layers.asks

    def forward(self, states: States) -> Pooled:
        """The vectors (n, w) and what they were read of (n, t).

        Of the windows of a long text, in one batch, there is one vector (1, w), read of the T
        tokens that count, (1, T); or, where the recipe cuts long texts, that of the first window.
        """
        if states.counted is None:
            found = pooled(*self._answer(states))
        elif self.resolved.reads_windows:
            found = self._of_windows(states, states.counted)
        else:
            found = pooled(*self._answer(states.row(0)))
        if not self.resolved.normalise:
            return found
        return Pooled(nn.functional.normalize(found.vectors, dim=-1), found.reads)

    def _of_windows(self, states: States, counted: Tensor) -> Pooled:
        """Read a long text, of whose windows (k, t) the tokens that count are marked with 1.

        A mean, a maximum, a spread are of all tokens. Of what is one a window, as its [CLS], the
        average is taken, a window weighted by its tokens that count: so a text that is one token
        too long has nearly the vector of the text that is not.
        """
        if not self.by_window:
            return pooled(*self._answer(states.end_to_end))
        found, share = pooled(*self._answer(states)), counted.sum(dim=1)
        share = (share / share.sum()).to(found.vectors.dtype)
        vectors = share[None] @ found.vectors
        if any(reading.has_unit_length for reading in self._trained):
            vectors = nn.functional.normalize(vectors, dim=-1)
        reads = share[:, None] * found.reads
        return Pooled(vectors, reads[counted.bool()][None])

    def shares(self, states: States) -> Tensor:
        """The share of the pooled vector that each token gives, (n, t); a row sums to 1."""
        reads = self(states).reads
        return reads / reads.sum(dim=-1, keepdim=True).clamp_min(1e-9)

    def _answer(self, states: States) -> tuple[Tensor | Pooled, Tensor | None]:
        """What the pooling says, and the states that it says it of."""
        real = states.unpadded if self.resolved.pooling.token == "last" else states.mask
        inputs = {
            "mask": states.decoder_mask if self._reads_decoder else real,
            "content": states.content,
            "states": self.chosen(states) if "states" in self.resolved.pooling.asks else None,
            "pooler": states.pooler,
            "eos": states.eos,
            "trained": self._trained[0](states.mask, states.layer(-1)) if self._trained else None,
            "vectors": states.vectors,
        }
        asks = self.resolved.pooling.asks
        unknown = [name for name in asks if name not in inputs]
        if unknown:
            what = f"The pooling '{self.resolved.pooling.name}' asks for '{unknown[0]}'."
            raise RecipeError(what, f"A pooling can ask for: {', '.join(inputs)}.")
        pooling = cast("Callable[..., Tensor | Pooled]", self.pooling)
        return pooling(*(inputs[name] for name in asks)), inputs["states"]

    def _tried(self, states: States) -> tuple[Tensor | Pooled, int]:
        """The first reading: what fails here is a fault of the pooling, which may be a user's."""
        try:
            answer, read = self._answer(states)
            return answer, pooled(answer, read).vectors.shape[-1]
        except HeadsError:
            raise
        except Exception as error:
            what = (
                f"The pooling '{self.resolved.pooling.name}' fails: {str(error).splitlines()[0]}."
            )
            raise RecipeError(what, "It must answer with weights (n, t) or (n, k, t).") from error

    def chosen(self, states: States) -> Tensor:
        """The states of the layers that the recipe names, (n, t, d')."""
        if self.resolved.layers is None:
            return states.layer(self.resolved.layer)
        inputs = {"hidden": states.hidden, "decoder": states.decoder}
        choice = cast("Callable[..., Tensor]", self.layers)
        return choice(*(inputs[name] for name in self.resolved.layers.asks))


def _check_given(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Refuses to read tokens where vectors are given, and vectors where a base model reads."""
    if resolved.pooling.is_given == backbone.is_given:
        return
    head = resolved.recipe.head
    if backbone.is_given:
        what = f"{resolved.recipe} reads what a base model makes of texts, and vectors are given."
        raise RecipeError(what, f"Write {GIVEN.name}+{head}.")
    what = f"{resolved.recipe} learns from vectors that are given, and {backbone.id} reads texts."
    raise RecipeError(what, f"Write mean+{head}, or name a column of vectors.")


def _made(part: Pooling | None, size: int, **options: Any) -> Any:
    """A learned part is built for its size; any other is the function itself."""
    if part is None:
        return None
    return part.make(size, **options) if part.learned else partial(part.make, **options)


def _nothing(backbone: Backbone) -> States:
    zeros = torch.zeros(1, 2, backbone.width)
    return States(
        mask=torch.ones(1, 2),
        unpadded=torch.ones(1, 2),
        content=torch.ones(1, 2),
        hidden=(zeros,) * (backbone.layers + 1),
        pooler=zeros[:, 0],
        eos=torch.zeros(1, 2),
        decoder=torch.zeros(1, 2, backbone.decoder_width),
        decoder_mask=torch.ones(1, 2),
        vectors=zeros[:, 0] if backbone.is_given else None,
    )
