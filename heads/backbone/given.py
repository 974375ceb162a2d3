"""What stands where a base model would, if vectors come from elsewhere.

A vector is the one state of a text of one token, so a recipe on vectors is the module that any
other is, and heads, runs, exports and answers know of no second kind.
"""

import re

from heads.backbone.backbone import Backbone, NoModel
from heads.errors import LimitError
from heads.settings import current_limits

NAME = re.compile(r"vectors:([1-9]\d{0,6})", re.ASCII)


def named(width: int) -> str:
    """The name under which runs and heads know vectors of a width, in place of a base model's.

    >>> named(384), is_given(named(384)), is_given("vectors/384")
    ('vectors:384', True, False)
    """
    return f"vectors:{width}"


def is_given(model: str) -> bool:
    """Whether that is the name of vectors from elsewhere, not of a base model."""
    return NAME.fullmatch(model.strip()) is not None


def given(model: str) -> Backbone:
    """Return what stands for a base model of vectors; raise LimitError if they are too wide."""
    limits = current_limits()
    match = NAME.fullmatch(model.strip())
    assert match is not None
    if (width := int(match[1])) > limits.pooled_width:
        what = f"Vectors of {width:,} numbers are wider than the {limits.pooled_width:,} that this "
        raise LimitError(f"{what}place learns from.", "Make them shorter.")
    return Backbone(
        id=named(width),
        revision=str(width),
        model_type="vectors",
        width=width,
        model=NoModel(),
    )
