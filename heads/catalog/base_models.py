"""Families whose classifier runs on another base model than AutoModel gives, and what it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heads.recipe import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModelNeeds:
    """What a family's base model needs to be the one that its classifier runs on.

    Attributes:
        built_as: Its class, where it is not the one that AutoModel gives.
        settings: Config values that it must have, where the config has none.
        arguments: What its class must be told besides.
        marks_first: Whether the first token must be marked for global attention.
    """

    built_as: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    arguments: Mapping[str, Value] = field(default_factory=dict)
    marks_first: bool = False
    why: str = ""


BASES: Mapping[str, BaseModelNeeds] = {
    "longformer": BaseModelNeeds(
        marks_first=True,
        why="Its classifier gives the first token global attention; AutoModel alone does not.",
    ),
    "funnel": BaseModelNeeds(
        built_as="FunnelBaseModel",
        why="Its classifier runs on the shortened sequence of FunnelBaseModel, "
        "where AutoModel gives FunnelModel.",
    ),
    "gte": BaseModelNeeds(
        arguments={"add_pooling_layer": True},
        why="Its classifier has a pooler that AutoModel leaves out.",
    ),
    "nomic_bert": BaseModelNeeds(
        arguments={"add_pooling_layer": True},
        why="Its classifier has a pooler that AutoModel leaves out.",
    ),
    "reformer": BaseModelNeeds(
        settings={"hash_seed": 0},
        why="Its hashing is random at every call unless its seed is set, as it is here.",
    ),
}


def base_of(model_type: str) -> BaseModelNeeds:
    """What a family's base model needs; nothing for most."""
    return BASES.get(model_type, BaseModelNeeds())
