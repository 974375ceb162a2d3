"""A recipe whose parts have been found: what its names stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from heads.parts.registry import Head, Pooling, Tuning, loss, pairing, tuning
from heads.recipe import Recipe, Value

if TYPE_CHECKING:  # the page is drawn before torch is there
    from torch import Tensor, nn

# Options that belong to the recipe, not to one of its parts.
LATE, PAIR, LOSS, WITHOUT = "late", "pair", "loss", "without"
NORMALISE, STANDARDISE, TUNE = "normalise", "standardise", "tune"
FIT, ADAMW = "fit", "adamw"
PROMPT = "prompt"  # of a pooling
PREFIX, INCLUDE_PREFIX = "prefix", "include_prefix"
LONG, STRIDE = "long", "stride"
CUT, WINDOWS = "cut", "windows"  # of `long`
USUAL_STRIDE = 64  # tokens
JOINT, SOFTMAX, AUTO = "joint", "softmax", "auto"
OVR, ORDINAL, HINGE = "ovr", "ordinal", "hinge"  # losses besides
FROZEN = "frozen"  # of `tune`
# Two ways in besides: the usual pairing, and all of them.
SIAMESE, FEATURES = "siamese", "features"
OF_THE_RECIPE: Mapping[str, Value] = {
    LATE: False,
    PAIR: JOINT,
    LOSS: SOFTMAX,
    WITHOUT: "",
    NORMALISE: False,
    STANDARDISE: AUTO,
    FIT: AUTO,
    TUNE: FROZEN,
    PREFIX: "",
    INCLUDE_PREFIX: True,
    LONG: CUT,
    STRIDE: USUAL_STRIDE,
}
# What a number may be that is given for one of them, where that is not the usual range.
RANGES: Mapping[str, tuple[float, float]] = {STRIDE: (0, 4096)}
# Those of them by which texts are read: with the pooling's, they make the reading.
OF_THE_READING = (PAIR, NORMALISE, PREFIX, INCLUDE_PREFIX, LONG, STRIDE)


@dataclass(frozen=True, kw_only=True)  # without slots, for what is computed once
class ResolvedRecipe:
    """A recipe with its parts found and its options sorted to them.

    Attributes:
        recipe: The recipe in its one canonical form, without options at their default.
        layers: The part after the ``@``, or None for the last layer or a layer by number.
        layer: The number of the one layer that is read; -1 is the last.
        late: Whether the head is applied to every token, and the pooling to their logits.
        pair: How two texts that are read by themselves are put together; "" where they are
            read as one sequence.
        loss: What the head is asked to learn where labels are one class a text: "softmax",
            "ovr", "ordinal" or "hinge".
        without: The layer of the head that is left out, by its full name; "" for none.
        normalise: Whether the pooled vector is scaled to length 1.
        standardise: Whether the head learns from standardised vectors, which its first layer
            takes up afterwards; None where that is left to the one who trains it.
        fit: "adamw" where a head that is otherwise solved to an optimum is trained step by step,
            by AdamW and with its dropout; else "auto".
        tune: What is learned of the base model, such as "last2"; "frozen" for nothing.
        prefix: The name of a prompt of the base model, or the text itself that is written before
            every text; "" for none.
        reads_prefix: Whether its tokens are read with those of the text.
        stride: How many tokens a window shares with the one before, where a text that is longer
            than the base model reads is read in windows; None where it is cut. It is what
            Transformers' tokenizers call stride: an overlap, not a step.
    """

    recipe: Recipe
    pooling: Pooling
    head: Head
    layers: Pooling | None
    layer: int
    late: bool
    pooling_options: Mapping[str, Value]
    head_options: Mapping[str, Value]
    pair: str = ""
    loss: str = SOFTMAX
    without: str = ""
    normalise: bool = False
    standardise: bool | None = None
    fit: str = AUTO
    tune: str = FROZEN
    prefix: str = ""
    reads_prefix: bool = True
    stride: int | None = None

    def __str__(self) -> str:
        return str(self.recipe)

    @property
    def title(self) -> str:
        """Its everyday name, such as "Average → One layer, everything learned".

        Options of its parts are in the recipe itself.
        """
        learned = f", {self.tuned_noun.removeprefix('the ')} learned" * self.is_tuned
        return f"{self.frozen_title}{learned}"

    @property
    def frozen_title(self) -> str:
        """The same without what is learned of the base model."""
        return f"{self.reading_title} → {self.head.title}"

    @property
    def reading_title(self) -> str:
        """The everyday name of what is read, such as "First token, layer 6"."""
        layer = self.layers.title if self.layers else f"layer {self.layer}" * (self.layer >= 0)
        return f"{self.pooling.title}, {layer}" if layer else self.pooling.title

    @property
    def reading(self) -> str:
        """The recipe less its head, such as ``mean@cat4`` or ``flatten?length=16``."""
        own = {*self.pooling.options, *OF_THE_READING}
        kept = [(name, value) for name, value in self.recipe.options if name in own]
        return str(replace(self.recipe, head="", options=tuple(kept))).replace("+", "", 1)

    @property
    def behind(self) -> str:
        """The recipe less its reading, such as ``mlp?hidden=8``: the same head on any reading."""
        read = {*self.pooling.options, *OF_THE_READING} - {NORMALISE}
        own = tuple(option for option in self.recipe.options if option[0] not in read)
        return str(replace(self.recipe, options=own)).partition("+")[2]

    @property
    def side(self) -> "ResolvedRecipe":
        """The same for one text by itself, as a pair's two texts are read."""
        options = tuple((name, value) for name, value in self.recipe.options if name != PAIR)
        return replace(self, recipe=replace(self.recipe, options=options), pair="")

    def joined(self, u: "Tensor", v: "Tensor") -> "Tensor":
        """The pooled vectors of two texts (n, w) as what the head gets of them (n, W)."""
        return pairing[self.pair](u, v)

    @property
    def prompt(self) -> str:
        """What is written behind every text, with _ for a space; "" where nothing is."""
        return str(self.pooling_options.get(PROMPT, ""))

    @property
    def prefix_says(self) -> str:
        """What is written before every text, in a sentence."""
        unread = "" if self.reads_prefix else ", whose tokens are not pooled"
        return f"The prefix '{self.prefix}' is written before every text{unread}."

    @property
    def reads_windows(self) -> bool:
        """Whether it reads all of a text that is longer than the base model reads at once."""
        return self.stride is not None

    @property
    def takes_pairs(self) -> bool:
        """Whether two texts can be read: not in windows of one sequence of both."""
        return bool(self.pair) or not self.reads_windows

    @property
    def windows_says(self) -> str:
        """How a long text is read that is not cut, in a sentence; "" where it is cut."""
        if not self.reads_windows:
            return ""
        told = "A text that is longer than the base model reads is read in windows which share "
        how = "all their tokens are pooled"
        if self.pooling.is_by_window:
            how = "their vectors are averaged"
        return f"{told}{self.stride} tokens, and {how}."

    @property
    def margin(self) -> float:
        """By how much the logit of a text's own class is lowered while the head learns."""
        if not self.head.margined:
            return 0.0
        return float(self.head_options["margin"]) * float(self.head_options["scale"])

    def widened(self, width: int) -> int:
        """How wide the head's input is where a pooled vector has that width."""
        import torch

        side = torch.empty(1, width, device="meta")
        return self.joined(side, side).shape[-1] if self.pair else width

    @property
    def is_tuned(self) -> bool:
        """Whether some of the base model is learned together with the head."""
        return self.tune != FROZEN

    @property
    def tuning(self) -> Tuning:
        """The way in which it is learned."""
        return tuning[self.tune.rstrip("0123456789")]

    @property
    def tuning_options(self) -> dict[str, int]:
        """The one option of that way, such as the 2 of last2, where it has one."""
        number = self.tune[len(self.tuning.name) :]
        return {name: int(number or usual) for name, usual in self.tuning.options.items()}

    @property
    def tuned_title(self) -> str:
        """The everyday name of what is learned, such as "Last 2 layers" or "Head alone"."""
        return self._tuned(self.tuning.title)

    @property
    def tuned_noun(self) -> str:
        """What is learned of the base model within a sentence, such as "the last 2 layers"."""
        return self._tuned(self.tuning.noun)

    @property
    def tuned_says(self) -> str:
        """What is learned of the base model, in a sentence."""
        return self._tuned(self.tuning.first_line)

    def _tuned(self, line: str) -> str:
        """A line of the way of learning, with the number of its name."""
        return self.tuning.told(line, self.tuning_options).replace("ast 1 layers", "ast layer")

    def learned_of_base(self, parameters: int, whole: int) -> str:
        """Say how many numbers of a base model that has `whole` are learned, within a sentence."""
        if not self.tuning.adapter:
            return f"{parameters:,} of its {whole:,} numbers"
        return f"{parameters:,} numbers that are added to its {whole:,} ({self.tuned_title})"

    @property
    def learns_to_read(self) -> bool:
        """Whether the pooling or the choice of layers is learned together with the head."""
        return self.pooling.learned or (self.layers is not None and self.layers.learned)

    def chain(self, width: int, classes: int) -> "nn.Sequential":
        """The head's chain, untrained, less the layer that is left out."""
        from heads.parts.modules import left_out

        whole = self.head.make(width, classes, **self.head_options)
        return left_out(whole, self.without, width) if self.without else whole

    def sketch(self, width: int, classes: int) -> "nn.Sequential":
        """The head's chain on the meta device: shapes and names, without memory."""
        import torch

        with torch.device("meta"):
            return self.chain(width, classes)

    @property
    def is_quick(self) -> bool:
        """Whether a linear or closed-form head is trained on vectors: those are trained first."""
        reads_vectors = not self.is_tuned and not self.needs_states
        return reads_vectors and (self.is_convex or self.head.is_solved)

    @cached_property
    def is_convex(self) -> bool:
        """Whether its head is one linear layer, solved to the one optimum of a penalised loss.

        Dropout at its default then gives way to the penalty, and is never applied. Where a layer
        was left out the head is trained as the whole one was, so that only the layer differs.
        """
        from torch import nn

        from heads.parts.modules import is_plain, leaves

        learns_along = self.needs_states or (self.is_tuned and not self.tuning.paired)
        if learns_along or self.head.solve:
            return False
        *before, top = [layer for _, layer in leaves(self.sketch(8, 2))]
        is_one_layer = is_plain(top, nn.Linear) and all(is_plain(one, nn.Dropout) for one in before)
        as_usual = (
            self.fit == AUTO and not self.without and "dropout" not in dict(self.recipe.options)
        )
        return is_one_layer and as_usual

    def applied_layers(self, chain: "nn.Module") -> "list[tuple[str, nn.Module]]":
        """Return the layers of its head, less a dropout that training never applies."""
        from torch import nn

        from heads.parts.modules import is_plain, leaves

        layers, is_convex = leaves(chain), self.is_convex
        return [one for one in layers if not (is_convex and is_plain(one[1], nn.Dropout))]

    @property
    def fit_says(self) -> str:
        """How a head of one linear layer is fitted, in a sentence; "" for any other head."""
        if self.is_convex and not self.head.convex:
            return "It is solved by L-BFGS under an L2 penalty, without dropout."
        if self.fit == ADAMW:
            return "It is trained step by step by AdamW, with its dropout."
        return ""

    @property
    def needs_states(self) -> bool:
        """Whether training needs the states of every token, not one pooled vector a text."""
        return self.learns_to_read or self.late

    @property
    def says(self) -> tuple[str, ...]:
        """A sentence each for the pooling, the layers and the head, with these options."""
        layers = self.layers.says if self.layers else f"Layer {self.layer}." * (self.layer >= 0)
        told = (
            self.pooling.told(self.pooling.first_line, self.pooling_options),
            layers,
            self.prefix_says * bool(self.prefix),
            self.windows_says,
            "The pooled vector is scaled to length 1." * self.normalise,
            self.pair and pairing[self.pair].says,
            self.head.told(self.head.first_line, self.head_options),
            f"Its layer {self.without} is left out." * bool(self.without),
            self.fit_says,
            "The head is applied to every token, and the logits are pooled." * self.late,
            "It learns from standardised vectors, and its first layer takes that up."
            * bool(self.standardise),
            "It learns from the vectors as they are." * (self.standardise is False),
            loss[self.loss].says * (self.loss != SOFTMAX),
            self.tuned_says * self.is_tuned,
        )
        return tuple(filter(None, told))
