"""How much the base model may compute for one question: told, and refused, before it begins.

What counts is products of two numbers: about one a weight and token in every pass, forwards or
backwards. A base model of twice the size, a text of twice the length and twice as many heads that
are taken apart each take twice as long.
"""

from typing import Any

from torch import nn

from heads.catalog.forms import setting
from heads.errors import LimitError
from heads.settings import current_limits


def products_of(model: Any) -> int:
    """The products that one token takes in a pass through a model: its tables take none."""
    layers = setting(model.config, "num_hidden_layers") or 0
    width = setting(model.config, "hidden_size") or 0
    tables = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    weights = sum(one.numel() for one in model.parameters() if id(one) not in tables)
    # Where layers share their weights (ALBERT), each is computed all the same.
    return max(weights, 12 * layers * width**2)


def passes_within(products: int) -> int:
    """How many tokens may pass through a base model for one question.

    Args:
        products: Those that one token takes.
    """
    return current_limits().products // max(1, products)


def check_passes(passes: int, products: int, what: str, hint: str) -> None:
    """Raise LimitError if these passes would take longer than this place allows.

    Args:
        passes: How many tokens pass through the model, each counted as often as it does.
        products: Those that one token takes.
        what: What is asked, as the beginning of a sentence.
    """
    most = passes_within(products)
    if passes > most:
        asks = f"{what} would take {passes:,} passes of a token through the model; "
        raise LimitError(f"{asks}at most {most:,} fit here.", hint)
