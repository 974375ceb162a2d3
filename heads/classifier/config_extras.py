"""What a checkpoint's config says of a head and Transformers does not know: it keeps it, unread.

::

    "thresholds": {"joy": 0.31, …}                     the probability from which a label is given
    "head_to_head": {"loss": "ovr", "temperature": 1.3, "texts": 2}
                            how its logits are to be taken, and that it needs two texts

Configs are foreign: what is not plainly one of these is passed over.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import LOSS, ResolvedRecipe

THRESHOLDS, OWN = "thresholds", "head_to_head"
OVR, TEMPERATURE, TEXTS = "ovr", "temperature", "texts"
SURE = math.nextafter(1.0, 0.0)  # the last number before certainty, which has no logit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigExtras:
    """What is written into a config beside what Transformers reads.

    Attributes:
        votes: Whether its yes-or-no questions are put to a vote: one-versus-rest.
        temperature: What its logits are to be divided by so that it is as sure as it is right.
        thresholds: For each class the logit from which it is answered; empty if there are none.
        paired: Whether it learned from two texts a row.
    """

    votes: bool = False
    temperature: float = 1.0
    thresholds: tuple[float, ...] = ()
    paired: bool = False


def write_extras(config: Any, classes: Sequence[str], marks: ConfigExtras) -> None:
    """Writes marks into a config, in the place of older ones."""
    for name in (THRESHOLDS, OWN):
        config.__dict__.pop(name, None)
    own: dict[str, Any] = {LOSS: OVR} if marks.votes else {}
    own |= {TEMPERATURE: marks.temperature} if marks.temperature != 1 else {}
    own |= {TEXTS: 2} if marks.paired else {}
    if own:
        setattr(config, OWN, own)
    if marks.thresholds:
        setattr(config, THRESHOLDS, shares(classes, marks.thresholds))


def extras_of(config: Any) -> ConfigExtras:
    """The marks that a config with labels numbered from 0 holds."""
    given = getattr(config, OWN, None)
    given = given if isinstance(given, Mapping) else {}
    temperature = given.get(TEMPERATURE, 1.0)
    return ConfigExtras(
        votes=given.get(LOSS) == OVR,
        temperature=temperature if _is_number(temperature) and temperature > 0 else 1.0,
        thresholds=_logits(getattr(config, THRESHOLDS, None), config.id2label),
        paired=given.get(TEXTS) == 2,
    )


def shares(classes: Sequence[str], thresholds: Sequence[float]) -> dict[str, float]:
    """For each class the probability from which it is answered.

    >>> shares(["joy", "anger"], [0.0, -1.0])
    {'joy': 0.5, 'anger': 0.2689414213699951}
    """
    found = torch.tensor(thresholds, dtype=torch.double).sigmoid().clamp(sys.float_info.min, SURE)
    return dict(zip(classes, found.tolist(), strict=True))


def voting(recipe: ResolvedRecipe) -> ResolvedRecipe:
    """The same recipe as one-versus-rest."""
    return with_options(recipe, {LOSS: OVR})


def _logits(given: Any, labels: Mapping[int, str]) -> tuple[float, ...]:
    """Probabilities by label as logits; nothing where they are not of these labels."""
    names = [labels[number] for number in sorted(labels)]
    if not isinstance(given, Mapping) or set(given) != set(names):
        return ()
    found = [given[name] for name in names]
    if not all(_is_number(share) and 0 < share < 1 for share in found):
        return ()
    return tuple(math.log(share / (1 - share)) for share in found)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
