"""The settings of heads that AdamW learns: what one copy learns with, and the tables of tried ones.

Every head of a table tries the same settings on the same rows.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from heads.settings import ExperimentConfig
from heads.training.fitters.base import Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySettings:
    """The settings of one copy of a head.

    Attributes:
        learning_rate: Of AdamW, the same in all steps but the first few.
        standardise: Whether its input is standardised; folded into the head afterwards.
        principal_axes: Whether it sees its input along its principal axes; folded in likewise.
        epochs: How many passes over its rows it learns; 0 until that is known.
        converged: Whether its development loss had stopped falling by then, or the cap was hit.
    """

    learning_rate: float
    weight_decay: float = 0.01
    standardise: bool = False
    principal_axes: bool = False
    epochs: float = 0.0
    converged: bool = True

    @classmethod
    def from_values(cls, chosen: Chosen) -> "CopySettings":
        """Return the settings from plain values."""
        values: Any = dict(chosen)
        return cls(**values)

    def as_values(self) -> Chosen:
        """Return the settings as plain values."""
        return asdict(self)


# Heads on one vector a text. Along principal axes what varies little is learned as fast as what
# varies much: of trec6's [CLS] that is worth 4 points, of its mean -0.5.
NEW_HEADS = (
    CopySettings(learning_rate=4e-3, weight_decay=0.3, standardise=True),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, standardise=True),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, standardise=True, principal_axes=True),
)
# The same for heads that begin with pretrained weights, which know their input as it is.
PRETRAINED_HEADS = (
    CopySettings(learning_rate=1e-3),
    CopySettings(learning_rate=4e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=1.0, principal_axes=True),
)
# Heads on the states of all tokens, where nothing could undo a change of the input.
TOKEN_HEADS = (
    CopySettings(learning_rate=1e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=0.3),
    CopySettings(learning_rate=4e-3, weight_decay=1.0),
)


def narrow_table(
    table: Sequence[CopySettings], config: ExperimentConfig, standardise: bool | None = None
) -> list[CopySettings]:
    """Return the settings to try that are left where a run fixes some of them."""
    fixed: dict[str, Any] = {"learning_rate": config.learning_rate} if config.learning_rate else {}
    fixed |= {} if standardise is None else {"standardise": standardise}
    return list(dict.fromkeys(replace(one, **fixed) for one in table))[: config.trials or None]
