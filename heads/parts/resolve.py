"""Recipes by name: what their parts are, and every recipe that one can order."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import nn

from heads.errors import RecipeError, did_you_mean
from heads.parts import heads as _heads  # noqa: F401  fills the registry
from heads.parts import layers as _layers  # noqa: F401  fills the registry
from heads.parts import losses as _losses  # noqa: F401  fills the registry
from heads.parts import pairings as _pairings  # noqa: F401  fills the registry
from heads.parts import poolings as _poolings  # noqa: F401  fills the registry
from heads.parts import tunings as _tunings  # noqa: F401  fills the registry
from heads.parts.modules import ACTIVATIONS, Repeat, is_plain, leaves, left_out
from heads.parts.poolings import GIVEN
from heads.parts.registry import (
    Head,
    Part,
    Pooling,
    Registry,
    head,
    layers,
    loss,
    pairing,
    pooling,
    tuning,
)
from heads.parts.resolved_recipe import (
    ADAMW,
    AUTO,
    CUT,
    FIT,
    HINGE,
    INCLUDE_PREFIX,
    JOINT,
    LATE,
    LONG,
    LOSS,
    NORMALISE,
    OF_THE_READING,
    OF_THE_RECIPE,
    PAIR,
    PREFIX,
    PROMPT,
    RANGES,
    STANDARDISE,
    STRIDE,
    TUNE,
    USUAL_STRIDE,
    WINDOWS,
    WITHOUT,
    ResolvedRecipe,
)
from heads.recipe import Recipe, Value, as_text, as_value

# --- What goes together in a recipe and what does not.


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A recipe whose parts are found, before it is known whether they go together.

    Attributes:
        given: Its options, each in the type of its default.
        step_by_step: Whether what is read is learned together with the head.
    """

    recipe: Recipe
    given: Mapping[str, Value]
    pooling: Pooling
    head: Head
    step_by_step: bool

    def option(self, name: str) -> Value:
        """Return the value of an option of the recipe, or its default."""
        return self.given.get(name, OF_THE_RECIPE[name])

    def has(self, name: str) -> bool:
        """Return True if an option of the recipe is not at its default."""
        return self.option(name) != OF_THE_RECIPE[name]

    @property
    def is_paired(self) -> bool:
        """Whether the base model learns from pairs of rows."""
        return tuning[str(self.option(TUNE)).rstrip("0123456789")].paired

    def fill(self, message: str) -> str:
        """Return a message of a rule with the names of this recipe."""
        layers = f"@{self.recipe.layers}" if self.recipe.layers else ""
        of_a_base = [name for name in OF_A_BASE if self.has(name)]
        return message.format(
            recipe=self.recipe,
            reading=f"{self.recipe.pooling}{layers}",
            pooling=self.recipe.pooling,
            head=self.head.name,
            late=" late" if self.given.get(LATE) else "",
            of_a_base=of_a_base[0] if of_a_base else "",
            standardise=str(self.option(STANDARDISE)).lower(),
            long=str(self.option(LONG))[:40],
            **{name: self.option(name) for name in (LOSS, PAIR, TUNE)},
        )


class Rule(NamedTuple):
    """What cannot stand in a recipe: when it is broken, why, and what to write instead."""

    is_broken: Callable[[Draft], object]
    what: str
    hint: str


def _has_linear_start(draft: Draft) -> bool:
    """Return True if a head begins with a linear layer that can take standardising up."""
    options = {name: draft.given[name] for name in draft.head.options if name in draft.given}
    made = _sketched(draft.head, options)
    name, first = next(leaf for leaf in leaves(made) if not is_plain(leaf[1], nn.Dropout, Repeat))
    return bool(name) and is_plain(first, nn.Linear) and first.bias is not None


LARGEST_COUNT = 4096
LARGEST_NUMBER = 1e6
OF_A_BASE = (LATE, PAIR, PREFIX, INCLUDE_PREFIX, LONG, STRIDE, TUNE)  # options
PROBE = 8, 3  # width and classes of a head that is made to see whether it can be
RULES = (  # the first that is broken is the one that a user reads
    Rule(
        lambda draft: draft.step_by_step and draft.head.is_solved,
        "{reading}{late} is learned step by step, and {head} is solved at once: "
        "the two cannot be trained together.",
        "Write {reading}+linear, or another pooling before {head}.",
    ),
    Rule(
        lambda draft: draft.has(PAIR) and draft.step_by_step,
        "{pooling}{late} is learned from the states of all tokens, which a siamese "
        "pair does not have in one sequence.",
        "Write mean+{recipe.head}?pair={pair}, or take pair={pair} away.",
    ),
    Rule(
        lambda draft: draft.has(LOSS) and draft.head.ordered,
        "{head} gives probabilities of its own, so it has no loss to choose.",
        "Take loss={loss} away, or write linear.",
    ),
    Rule(
        lambda draft: draft.has(LOSS) and draft.head.margined,
        "{head} has its margin in the softmax, so it has no loss to choose.",
        "Take loss={loss} away, or write linear.",
    ),
    Rule(
        lambda draft: draft.option(LOSS) == HINGE and draft.head.convex,
        "{head} has a loss of its own.",
        "Write linear?loss=hinge.",
    ),
    Rule(
        lambda draft: draft.has(LOSS) and draft.head.solve,
        "{head} is solved at once, so it has no loss to choose.",
        "Take loss={loss} away, or write linear or logistic.",
    ),
    Rule(
        lambda draft: draft.given.get(NORMALISE) and draft.given.get(LATE),
        "{recipe}: with late=true the head reads every token, and no vector is normalised.",
        "Take one of the two away.",
    ),
    Rule(
        lambda draft: draft.has(STANDARDISE) and draft.head.is_solved,
        "{head} is solved at once, and knows its own scale.",
        "Take standardise={standardise} away.",
    ),
    Rule(
        lambda draft: draft.has(STANDARDISE) and draft.step_by_step,
        "{recipe} learns what it reads, so there are no vectors to standardise before.",
        "Take standardise={standardise} away.",
    ),
    Rule(
        lambda draft: draft.has(STANDARDISE) and not _has_linear_start(draft),
        "{head} does not begin with a linear layer with a bias that could take it up.",
        "Take standardise={standardise} away, or write linear.",
    ),
    Rule(
        lambda draft: draft.has(TUNE) and not draft.is_paired and draft.head.is_solved,
        "{head} is solved at once, so no gradient of it reaches the base model.",
        "Write {pooling}+linear?tune={tune}, or leave it frozen.",
    ),
    Rule(
        lambda draft: draft.has(TUNE) and not draft.is_paired and draft.has(STANDARDISE),
        "{recipe}: what the head reads changes while the base model learns, so nothing "
        "standardises it.",
        "Take standardise= or tune= away.",
    ),
    Rule(
        lambda draft: draft.is_paired and draft.has(PAIR),
        "{recipe}: tune={tune} compares rows by one vector each, and this reads two vectors a row.",
        "Take pair= away, or tune=full.",
    ),
    Rule(
        lambda draft: draft.is_paired and draft.step_by_step,
        "{recipe}: tune={tune} compares rows by one vector each, and this reads the states of "
        "all tokens.",
        "Write mean+linear, without late=true or @mix, or tune=full.",
    ),
    Rule(
        lambda draft: PROMPT in draft.pooling.options and (draft.has(PAIR) or draft.step_by_step),
        "{recipe}: {pooling} reads one vector a text, of texts with a prompt behind.",
        "Leave out pair=, late=true and layers that are learned.",
    ),
    Rule(
        lambda draft: draft.given.get(PREFIX) and draft.step_by_step,
        "{recipe} is learned from the states of all tokens, of texts without a prefix.",
        "Take prefix= away, or write mean+{recipe.head}.",
    ),
    Rule(
        lambda draft: (
            draft.given.get(INCLUDE_PREFIX) is False
            and not (draft.given.get(PREFIX) or draft.pooling.is_trained)
        ),
        "{recipe} has no prefix that could be left unread.",
        "Take include_prefix= away, or add prefix=query:_.",
    ),
    Rule(
        lambda draft: draft.pooling.is_given and any(map(draft.has, OF_A_BASE)),
        "{pooling}+{recipe.head}: {of_a_base}= is of a base model, and vectors are "
        "learned from as they are.",
        "Take {of_a_base}= away.",
    ),
    Rule(
        lambda draft: draft.option(LONG) not in (CUT, WINDOWS),
        "long={long}: a long text is cut, or read in windows.",
        "Write long=windows, or take it away.",
    ),
    Rule(
        lambda draft: draft.option(LONG) == CUT and draft.has(STRIDE),
        "{recipe} reads no windows that could share tokens.",
        "Take stride= away, or add long=windows.",
    ),
    Rule(
        lambda draft: draft.option(LONG) == WINDOWS and draft.step_by_step,
        "{recipe} is learned from the states of all tokens, of texts that are cut.",
        "Take long=windows away, or write mean+{recipe.head}.",
    ),
    Rule(
        lambda draft: draft.option(LONG) == WINDOWS and draft.has(TUNE),
        "{recipe}: a base model that learns with its head reads texts that are cut.",
        "Take long=windows away, or write mean+{recipe.head}.",
    ),
)


def check_fit(resolved: ResolvedRecipe) -> None:
    """Refuse fit=adamw for a head that no solver of linear heads would fit without it."""
    if resolved.fit == AUTO:
        return
    hint = f"Take {FIT}={resolved.fit[:40]} away."
    if resolved.fit != ADAMW:
        raise RecipeError(f"{FIT}= can only be {ADAMW}.", hint)
    if resolved.head.is_solved:
        what = f"{resolved.head.name} is what its solver computes, so AdamW cannot train it."
        raise RecipeError(what, f"Write {resolved.recipe.pooling}+linear?{FIT}={ADAMW}.")
    if not replace(resolved, fit=AUTO).is_convex:
        raise RecipeError(f"{resolved.recipe}: AdamW trains this head in any case.", hint)


def resolve(recipe: Recipe | str) -> ResolvedRecipe:
    """Finds the parts of a recipe and checks its options.

    >>> str(resolve("mean+linear?dropout=0.1").recipe)
    'mean+linear'
    >>> resolve("mean@cat4+linear").layers.name
    'cat4'

    Raises:
        RecipeError: A part or an option does not exist or does not fit.
    """
    if not isinstance(recipe, Recipe):
        recipe = Recipe.parse(recipe)
    reader, top = reader_of(recipe.pooling), head[recipe.head]
    part, _ = _layers_of(recipe, reader)
    # The text tells 1 from true, which are the same to a dictionary; the makers, a part that was
    # defined anew from the one before.
    return _resolved(recipe, repr(recipe), reader.make, top.make, part and part.make)


def reader_of(name: str) -> Pooling:
    """Return the pooling of a name, also that of given vectors, or raise RecipeError."""
    return GIVEN if name == GIVEN.name else pooling[name]


def with_options(recipe: Recipe | ResolvedRecipe, options: Mapping[str, Value]) -> ResolvedRecipe:
    """A recipe with some of its options changed.

    >>> str(with_options(resolve("mean+mlp?hidden=8"), {"loss": "ovr"}))
    'mean+mlp?hidden=8&loss=ovr'

    Raises:
        RecipeError: An option does not exist or does not fit.
    """
    known = recipe.recipe if isinstance(recipe, ResolvedRecipe) else recipe
    whole = tuple(sorted((dict(known.options) | dict(options)).items()))
    return resolve(replace(known, options=whole))


def other_heads(recipe: ResolvedRecipe) -> Iterator[ResolvedRecipe]:
    """Every other head behind the same reading, with the options that belong to no head."""
    kept = {*recipe.pooling_options, *OF_THE_READING, LOSS, STANDARDISE, TUNE}
    options = tuple(one for one in recipe.recipe.options if one[0] in kept)
    for name in head:
        if name == recipe.head.name:
            continue
        try:
            yield resolve(replace(recipe.recipe, head=name, options=options))
        except RecipeError:
            continue  # a head that is solved at once has no loss to choose


@lru_cache(maxsize=2048)
def _resolved(recipe: Recipe, *_known_by: Any) -> ResolvedRecipe:
    reader, top = reader_of(recipe.pooling), head[recipe.head]
    part, number = _layers_of(recipe, reader)
    given = dict(recipe.options)
    known = {**reader.options, **top.options, **OF_THE_RECIPE}
    given = {name: _known(name, value, recipe, known) for name, value in given.items()}
    if PREFIX in given:
        given[PREFIX] = as_value(as_text(str(given[PREFIX])))
    if TUNE in given:
        given[TUNE] = tuned(str(given[TUNE]))
    late, pair = bool(given.get(LATE)), _of_registry(PAIR, given, pairing)
    step_by_step = late or reader.learned or (part is not None and part.learned)
    draft = Draft(recipe=recipe, given=given, pooling=reader, head=top, step_by_step=step_by_step)
    for rule in RULES:
        if rule.is_broken(draft):
            raise RecipeError(draft.fill(rule.what), draft.fill(rule.hint))
    if given:
        whole = _sketched(top, {name: given[name] for name in top.options if name in given})
        if given.get(WITHOUT):
            given[WITHOUT] = _left_out(str(given[WITHOUT]), whole, top)
    kept = tuple(sorted((name, value) for name, value in given.items() if value != known[name]))
    resolved = ResolvedRecipe(
        recipe=Recipe(
            pooling=reader.name,
            head=top.name,
            layers=part.name if part else str(number) if number >= 0 else "",
            options=kept,
        ),
        pooling=reader,
        head=top,
        layers=part,
        layer=number,
        late=late,
        pooling_options={n: given.get(n, default) for n, default in reader.options.items()},
        head_options={n: given.get(n, default) for n, default in top.options.items()},
        pair="" if pair == JOINT else pair,
        loss=_of_registry(LOSS, given, loss),
        without=str(given.get(WITHOUT, "")),
        normalise=bool(given.get(NORMALISE)),
        standardise=None if (own := given.get(STANDARDISE, AUTO)) == AUTO else bool(own),
        fit=str(given.get(FIT, AUTO)),
        tune=str(draft.option(TUNE)),
        prefix=as_text(str(given.get(PREFIX, ""))),
        reads_prefix=bool(given.get(INCLUDE_PREFIX, True)),
        stride=int(given.get(STRIDE, USUAL_STRIDE)) if given.get(LONG) == WINDOWS else None,
    )
    check_fit(resolved)
    return resolved


def _sketched(top: Head, options: Mapping[str, Value]) -> nn.Sequential:
    """Return a head without memory; it may refuse a word, such as an unknown activation."""
    try:
        with torch.device("meta"):
            return top.make(*PROBE, **options)
    except ValueError as error:
        from transformers.activations import ACT2FN

        known = dict.fromkeys([*ACTIVATIONS, *sorted(ACT2FN)])
        hint = did_you_mean(str(options["activation"]), known) if "activation" in options else ""
        raise RecipeError(str(error), hint) from None


def tuned(name: str) -> str:
    """A way of learning by its one name: how many layers are the last is always said.

    >>> tuned("last"), tuned("last04"), tuned("lora8"), tuned("lora16"), tuned("full")
    ('last2', 'last4', 'lora', 'lora16', 'full')

    Raises:
        RecipeError: There is no such way, or none with a number.
    """
    name = name[:40]  # of digits alone no number would be made
    bare = name.rstrip("0123456789")
    number, stem = name[len(bare) :], bare.rstrip("+-_ ")
    if bare not in tuning and stem in tuning:  # last-1, lora_8
        bare, number = stem, "0"
    part = tuning[bare]
    usual = [str(value) for value in part.options.values()]
    if number and (not usual or not 1 <= int(number) <= LARGEST_COUNT):
        what = f"{TUNE}={name[:40]}: {bare} takes {'numbers from 1 on' if usual else 'no number'}."
        raise RecipeError(what, f"Write {TUNE}={bare}{usual[0] if usual else ''}.")
    known = "".join(usual)
    number = str(int(number)) if number else known
    return bare if number == known and not part.above else bare + number


def _of_registry(name: str, given: Mapping[str, Value], registry: Registry[Part]) -> str:
    """The value of an option that names a part, or its default."""
    value = str(given.get(name, OF_THE_RECIPE[name]))
    if value != OF_THE_RECIPE[name]:
        registry[value]  # says what there is, where there is none of that name
    return value


def menu() -> Iterator[Recipe]:
    """Every pooling with every head, and a few choices of layers that people ask for."""
    readings = [Recipe(pooling=reader, head="") for reader in pooling]
    readings += [
        Recipe(pooling=reader, layers=choice, head="")
        for choice in layers
        for reader in (("eos", "last", "mean") if choice == "decoder" else ("cls", "mean"))
    ]
    for reading in readings:
        for top in head:
            recipe = replace(reading, head=top)
            try:
                yield resolve(recipe).recipe
            except RecipeError:
                continue  # what cannot be learned together is not on the menu


def _layers_of(recipe: Recipe, reader: Pooling) -> tuple[Pooling | None, int]:
    name = recipe.layers
    if not name:
        return None, -1
    if "states" not in reader.asks:
        what = f"'{reader.name}' reads no layer of its own choice, so '@{name}' has no meaning."
        raise RecipeError(what, f"Write {reader.name}+{recipe.head}.")
    if name.isdecimal() and len(name) <= 4:
        return None, int(name)
    if name not in layers:
        what = f"There is no choice of layers called '{name[:80]}'."
        hint = did_you_mean(name, layers)
        raise RecipeError(what, f"{hint} Or give a number; 0 is the embeddings.")
    return layers[name], -1


def _left_out(name: str, whole: torch.nn.Sequential, top: Head) -> str:
    """The full name of the layer that a head is to do without: all of it, or its last part."""
    if top.is_solved:
        what = f"{top.name} is solved at once as it is, so no layer of it can be left out."
        raise RecipeError(what, f"Take {WITHOUT}={name} away.")
    *known, last = [each for each, _ in leaves(whole)]
    found = [each for each in known if name in (each, each.rpartition(".")[2])]
    if len(found) == 1 and _answers(whole, found[0]):
        return found[0]
    if len(found) == 1 or name in (last, last.rpartition(".")[2]):
        what = f"{(*found, last)[0]} of {top.name} gives the logits: without it there is no answer."
        raise RecipeError(what, f"Take {WITHOUT}={name} away.")
    what = f"{top.name} has no layer '{name[:60]}' before its last one."
    raise RecipeError(what, did_you_mean(name, dict.fromkeys(known)))


def _answers(whole: torch.nn.Sequential, layer: str) -> bool:
    """Whether a chain without a layer still learns something and makes as many logits."""
    with torch.device("meta"):
        left = left_out(whole, layer, PROBE[0]).eval()
        try:
            logits = left(torch.zeros(1, PROBE[0]))
        except (RuntimeError, ValueError):
            return False
    return logits.shape[-1] == PROBE[1] and any(True for _ in left.parameters())


def _known(name: str, value: Value, recipe: Recipe, known: Mapping[str, Value]) -> Value:
    if name not in known:
        what = f"{recipe.pooling}+{recipe.head} has no option '{name[:40]}'."
        raise RecipeError(what, did_you_mean(name, known))
    own = {**reader_of(recipe.pooling).ranges, **head[recipe.head].ranges, **RANGES}
    return _checked(name, value, known[name], own.get(name))


def _checked(name: str, value: Value, default: Value, between: tuple[float, float] | None) -> Value:
    """The value in the type of the default, if it lies in the range of its kind."""
    if type(value) is type(default) and value == default:
        return value
    fits, wanted = _fits(name, value, default)
    if between and not isinstance(value, bool | str):
        is_whole = not isinstance(default, int) or value == int(value)
        fits = is_whole and between[0] <= value <= between[1]
        wanted = f"from {between[0]:g} to {between[1]:g}"
    if not fits:
        raise RecipeError(
            f"The option {name}={str(value)[:40]} does not fit.", f"It must be {wanted}."
        )
    return value if name == STANDARDISE else type(default)(value)


def _fits(name: str, value: Value, default: Value) -> tuple[bool, str]:
    """Whether a value is one for an option of that default, and what it must be."""
    if isinstance(default, bool) or name == STANDARDISE:
        return isinstance(value, bool), "true or false"
    if isinstance(default, str):
        return isinstance(value, str), "a word"
    if isinstance(value, bool | str) or not math.isfinite(value):
        return False, "a number"
    if isinstance(default, int):
        return value == int(value) and 1 <= value <= LARGEST_COUNT, "from 1 to 4096"
    if name.endswith("dropout"):
        return 0 <= value < 1, "at least 0 and below 1"
    return 0 < value <= LARGEST_NUMBER, "above 0 and at most a million"


def parts() -> dict[str, list[dict[str, object]]]:
    """All parts as plain values, in menu order: the answer of `heads parts --json`."""
    registries: dict[str, Mapping[str, Part]] = {
        "poolings": pooling, "layers": layers, "heads": head, "pairings": pairing, "losses": loss,
        "tunings": tuning,
    }  # fmt: skip
    return {
        title: [
            {
                "name": part.name,
                "says": part.says,
                "source": part.source,
                "formula": part.told(part.formula, part.options),
                "learned": part.learned,
                "options": dict(part.options),
            }
            for part in registry.values()
        ]
        for title, registry in registries.items()
    }
