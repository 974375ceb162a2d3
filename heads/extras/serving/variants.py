"""What a checkpoint would answer if it were served otherwise: each way with its logits.

A way is made of three choices: what is given to the base model, how its states are pooled, and
which layers of the head are run. Each choice but the checkpoint's own is a deviation.
Legend: n texts, w width of what the head gets, c classes.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from unicodedata import normalize

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.classifier.module import RecipeModule
from heads.errors import HeadsError, ModelError
from heads.features.featurizer import Featurizer
from heads.parts.modules import (
    acts_in_training_only,
    is_idle,
    last_linear,
    leaves,
    words,
)
from heads.parts.registry import pooling
from heads.parts.resolved_recipe import PROMPT

OWN = ""  # the checkpoint's own choice
MOST_DEVIATIONS = 3
SCALED = " at length 1"  # behind the name of a pooling
ACTIVATIONS: Mapping[str, type[nn.Module]] = {"tanh": nn.Tanh, "GELU": nn.GELU, "ReLU": nn.ReLU}
_composed = partial(normalize, "NFC")
SQUASHING = ("torch.nn.modules.activation", "transformers.activations")

# A text as it is read; of a siamese pair each text by itself.
Inputs = tuple[Encoded, ...]
Read = tuple[States, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Something that is done otherwise than the checkpoint's class does it.

    Attributes:
        kind: What it is about: input, pooling, head, output or labels.
        says: What it is, in a sentence.
        hint: What to do.
    """

    kind: str
    says: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to serve a checkpoint.

    Attributes:
        reading: The name of the pooling.
        layers: What is done to the head's layers.
        deviations: What of it is not the checkpoint's own.
    """

    reading: str = OWN
    layers: str = OWN
    deviations: tuple[Deviation, ...] = ()


class Variants:
    """The ways to serve one checkpoint.

    Args:
        backbone: The base model, as its classifier reads with it.
        module: The checkpoint's own pooling and head.
    """

    def __init__(self, backbone: Backbone, module: RecipeModule) -> None:
        self.backbone = backbone
        self.module = module
        self._readers: dict[str, Featurizer] = {}
        self._heads: dict[str, tuple[nn.Module, ...]] = {OWN: tuple(module.head)}
        self.readings: dict[str, tuple[Deviation, ...]] = {OWN: ()} | dict(self._poolings())
        self.heads: dict[str, tuple[Deviation, ...]] = {OWN: ()}
        self.heads |= {name: (one,) for name, one in (*self._shorter(), *self._activated())}

    def _poolings(self) -> Iterator[tuple[str, tuple[Deviation, ...]]]:
        """Other poolings of the same width, without and with the vector scaled to length 1."""
        resolved = self.module.reader.resolved
        own = resolved.pooling
        scaled = Deviation(
            kind="pooling",
            says="The pooled vector is scaled to length 1, and the checkpoint's is not.",
            hint="Turn the server's normalisation off.",
        )
        if not resolved.normalise:
            yield SCALED, (scaled,)
        for name, other in pooling.items():
            is_fixed = not (other.learned or other.is_trained or other.is_given)
            if not is_fixed or name == own.name or PROMPT in other.options:
                continue
            if other.is_pooler and self.backbone.pooler != "pretrained":
                continue
            options = dict(other.options)
            try:
                asked = replace(resolved, pooling=other, pooling_options=options)
                reader = Featurizer(asked, self.backbone)
            except HeadsError:
                continue  # it asks for what this base model has not
            if reader.width != self.module.reader.width:
                continue
            self._readers[name] = reader
            found = Deviation(
                kind="pooling",
                says=f"The pooling is another: {other.title.lower()} ({name}), and the "
                f"checkpoint's is {own.title.lower()} ({own.name}).",
                hint="Let the server load the class that the config names, or set its pooling.",
            )
            yield name, (found,)
            if not resolved.normalise:
                yield f"{name}{SCALED}", (found, scaled)

    def _acting(self) -> tuple[list[tuple[str, nn.Module]], int]:
        """The layers of the head that do something in use, and the place of its last linear one."""
        chain = self.module.head
        kept = [one for one in leaves(chain) if not _rests(one[1])]
        names, last = [name for name, _ in kept], last_linear(chain)
        return kept, names.index(last) if last in names else 0

    def _shorter(self) -> Iterator[tuple[str, Deviation]]:
        """The head less any run of layers before its last linear one."""
        layers, last = self._acting()
        for start in range(last):
            for end in range(start + 1, last + 1):
                left = layers[start:end]
                rest = (*layers[:start], *layers[end:])
                told = ", ".join(words(layer, is_last=False) for _, layer in left)
                pooler = all(name.startswith("pooler") for name, _ in left)
                whole = pooler and not any(name.startswith("pooler") for name, _ in rest)
                says = f"The pooler is dropped ({told}): the last layer reads what it was to read."
                if not whole:
                    where = self.module.reader.resolved.head.prefix + left[0][0]
                    says = f"Layers of the head are dropped: {told} (from {where} on)."
                name = f"less {start} to {end}"
                self._heads[name] = tuple(layer for _, layer in rest)
                hint = "Let the server load the class that the config names, with its whole head."
                yield name, Deviation(kind="head", says=says, hint=hint)

    def _activated(self) -> Iterator[tuple[str, Deviation]]:
        """The head with another activation between its layers."""
        layers, last = self._acting()
        for place, (_, layer) in enumerate(layers[:last]):
            if type(layer).__module__ not in SQUASHING:
                continue
            was = words(layer, is_last=False)
            for called, kind in ACTIVATIONS.items():
                if type(layer) is kind:
                    continue
                changed = [kind() if n == place else own for n, (_, own) in enumerate(layers)]
                name = f"{called} at {place}"
                self._heads[name] = tuple(changed)
                says = f"The head applies {called} between its layers, and the checkpoint's {was}."
                hint = "Look at the activation that the served config.json names."
                yield name, Deviation(kind="head", says=says, hint=hint)

    @torch.no_grad()
    def read(self, texts: Sequence[Inputs]) -> list[Read]:
        """What the base model makes of texts, each by itself, so that no padding is in it."""
        return [tuple(self.backbone.states([side]) for side in text) for text in texts]

    @torch.no_grad()
    def logits(self, variant: Variant, read: Sequence[Read]) -> Tensor | None:
        """The logits (n, c) of one way to serve it; None where its shapes do not allow it."""
        if variant.reading == OWN and variant.layers == OWN:
            return torch.cat([self.module(*states).float() for states in read])
        vectors = torch.cat([self._vectors(variant.reading, states) for states in read])
        return self._headed(variant.layers, vectors)

    def tried(self, variant: Variant, texts: Sequence[Inputs]) -> Tensor | None:
        """The logits (n, c) of one way to read texts; None where it cannot."""
        try:
            return self.logits(variant, self.read(texts))
        except (ModelError, RuntimeError):  # no places for so many tokens, or not in this precision
            return None

    @torch.no_grad()
    def candidates(
        self, read: Sequence[Read], before: tuple[Deviation, ...] = ()
    ) -> Iterator[tuple[Variant, Tensor]]:
        """Every way to go on from the states of texts, with its logits (n, c).

        Args:
            before: What is done otherwise before them.
        """
        seen: list[Tensor] = []
        for reading, how in self.readings.items():
            vectors = torch.cat([self._vectors(reading, states) for states in read])
            if any(torch.allclose(vectors, other, rtol=1e-5, atol=1e-6) for other in seen):
                continue  # on these texts it is the same as one before, such as the last token
            seen.append(vectors)
            for layers, done in self.heads.items():
                deviations = (*before, *how, *done)
                variant = Variant(reading=reading, layers=layers, deviations=deviations)
                if len(deviations) > MOST_DEVIATIONS:
                    continue
                is_own = reading == OWN and layers == OWN
                found = self.logits(variant, read) if is_own else self._headed(layers, vectors)
                if found is not None and found.isfinite().all():
                    yield variant, found

    def _vectors(self, reading: str, states: Read) -> Tensor:
        """What the head gets of one text, (1, w)."""
        name, resolved = reading.removesuffix(SCALED), self.module.reader.resolved
        reader = self._readers.get(name, self.module.reader)
        # Some poolings answer in float32, whatever the states are in.
        sides = [reader(side).vectors.to(side.hidden[-1].dtype) for side in states]
        if reading.endswith(SCALED):
            sides = [nn.functional.normalize(side, dim=-1) for side in sides]
        return resolved.joined(*sides) if resolved.pair else sides[0]

    def _headed(self, layers: str, vectors: Tensor) -> Tensor | None:
        """The logits (n, c) that layers of the head give."""
        try:
            for layer in self._heads[layers]:
                vectors = layer(vectors)
        except RuntimeError:  # a layer before one of another size was left out
            return None
        return vectors.float()

    @cached_property
    def halved(self) -> "Variants | None":
        """The same computed in bfloat16; None where the base model cannot be."""
        try:
            model = copy.deepcopy(self.backbone.model).to(torch.bfloat16)
            module = copy.deepcopy(self.module).to(torch.bfloat16)
            return Variants(replace(self.backbone, model=model, block=None), module)
        except (RuntimeError, TypeError, HeadsError):
            return None


def _rests(layer: nn.Module) -> bool:
    """Whether a layer does nothing in use."""
    return is_idle(layer) or acts_in_training_only(layer)


# --- What is given to the base model.


def encoded(
    backbone: Backbone, texts: Sequence[str], pairs: Sequence[str], *, siamese: bool
) -> list[Inputs]:
    """Texts as the checkpoint's own tokenizer gives them, pairs as one sequence or apart."""
    if siamese:
        return list(zip(backbone.encode(texts), backbone.encode(pairs), strict=True))
    if pairs and not backbone.separates:
        # What Transformers' tokenizers do where no token parts two texts.
        both = zip(backbone.encode(texts), backbone.encode(pairs), strict=True)
        return [(_joined(one, other),) for one, other in both]
    return [(one,) for one in backbone.encode(texts, pairs)]


def _joined(one: Encoded, other: Encoded) -> Encoded:
    inputs = {name: [*row, *other.inputs[name]] for name, row in one.inputs.items()}
    return Encoded(
        inputs=inputs,
        special=[*one.special, *other.special],
        whole_length=one.whole_length + other.whole_length,
    )


def other_inputs(
    backbone: Backbone, texts: Sequence[str], pairs: Sequence[str], *, siamese: bool
) -> Iterator[tuple[Deviation, list[Inputs]]]:
    """Texts given to the base model otherwise than the checkpoint's tokenizer gives them."""
    own = encoded(backbone, texts, pairs, siamese=siamese)
    for says, hint, inputs in _others(backbone, texts, pairs, own, siamese):
        if _numbers(inputs) != _numbers(own):
            yield Deviation(kind="input", says=says, hint=hint), inputs


def _others(
    backbone: Backbone,
    texts: Sequence[str],
    pairs: Sequence[str],
    own: Sequence[Inputs],
    siamese: bool,
) -> Iterator[tuple[str, str, list[Inputs]]]:
    if not backbone.written:
        bare = [tuple(map(_without_special, text)) for text in own]
        yield (
            "Texts are read without the special tokens that the checkpoint's tokenizer adds.",
            "Let the server's tokenizer add special tokens.",
            bare,
        )
    if backbone.prefix:
        yield (
            f"The prefix '{backbone.prefix:.40}' is not written before texts.",
            "Write it before every text that is sent, or let the server do so.",
            encoded(replace(backbone, prefix=""), texts, pairs, siamese=siamese),
        )
    lower = [[text.lower() for text in side] for side in (texts, pairs)]
    yield (
        "Texts are lower-cased, and the checkpoint tells upper from lower case.",
        "Serve the tokenizer's own files (look at do_lower_case).",
        encoded(backbone, *lower, siamese=siamese),
    )
    for how, change in (("without spaces around", str.strip), ("in Unicode's form NFC", _composed)):
        changed = [[change(text) for text in side] for side in (texts, pairs)]
        yield (
            f"Texts are read {how}, and the checkpoint's tokenizer tells the difference.",
            "Let the server give texts to the tokenizer as they come.",
            encoded(backbone, *changed, siamese=siamese),
        )
    if not pairs:
        return
    yield (
        "The two texts of a pair are read the other way round.",
        "Send them in the order in which the head learned them.",
        encoded(backbone, pairs, texts, siamese=siamese),
    )
    if siamese:
        return
    yield (
        "The second text of a pair is not read.",
        "Send pairs as this server takes them.",
        encoded(backbone, texts, (), siamese=False),
    )
    yield (
        "Both texts of a pair bear the token type 0.",
        "Let the server give the model the token_type_ids of the tokenizer.",
        [tuple(map(_of_one_type, text)) for text in own],
    )


def _numbers(inputs: Sequence[Inputs]) -> list[list[dict[str, list[int]]]]:
    return [[side.inputs for side in text] for text in inputs]


def _without_special(text: Encoded) -> Encoded:
    kept = [place for place, special in enumerate(text.special) if not special]
    return _kept(text, kept) if kept else text


def _of_one_type(text: Encoded) -> Encoded:
    types = {n: [0] * len(row) for n, row in text.inputs.items() if n == "token_type_ids"}
    return replace(text, inputs=text.inputs | types)


def _kept(text: Encoded, places: Sequence[int]) -> Encoded:
    """Some tokens of a text."""
    return Encoded(
        inputs={name: [row[n] for n in places] for name, row in text.inputs.items()},
        special=[text.special[n] for n in places],
        whole_length=text.whole_length,
    )


# --- A text that is cut.


def cuts(
    backbone: Backbone, text: str, pair: str, most: int, *, siamese: bool
) -> Iterator[tuple[str, Inputs]]:
    """A text cut to so many tokens, at either end, with special tokens around it and without.

    Yields:
        Which tokens are left, to follow "reads", and the text.
    """
    texts, pairs = [text], [pair] if pair else []
    own = replace(backbone, tokens=most)
    (first,) = encoded(own, texts, pairs, siamese=siamese)
    yield "the first", first
    whole = replace(backbone, tokens=max(most, 1 << 20))
    (inputs,) = encoded(whole, texts, pairs, siamese=siamese)
    if siamese or len(inputs[0]) <= most:
        return
    every, places = inputs[0], range(len(inputs[0]))
    yield "the first", (_kept(every, places[:most]),)
    yield "the last", (_kept(every, places[-most:]),)
    begin = next((n for n, special in enumerate(every.special) if not special), 0)
    behind = next((n for n, special in enumerate(every.special[::-1]) if not special), 0)
    room = most - begin - behind
    if room > 0 and not pair:
        end = len(every) - behind
        inner = [*places[:begin], *places[end - room : end], *places[end:]]
        yield "the last", (_kept(every, inner),)
