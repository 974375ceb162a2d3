"""A head's layers in words and as a line of mathematics, read off the chain itself."""

from torch import nn

from heads.parts.blocks import Neighbours, Normalise, Repeat, Scale

WORDS: dict[type[nn.Module], tuple[str, str]] = {
    nn.Dropout: ("dropout", "drop"),
    nn.Tanh: ("tanh", "tanh"),
    nn.GELU: ("GELU", "gelu"),
    nn.ReLU: ("ReLU", "relu"),
    nn.LayerNorm: ("layer norm", "norm"),
    Normalise: ("scaling to length 1", "normalise"),
    Scale: ("scaling", "scale"),
    Neighbours: ("vote of neighbours", "log votes of neighbours"),
    Repeat: ("repetition", "repeat"),
}
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# The number that tells one such layer from another.
DETAIL = {nn.Dropout: "p", Repeat: "samples", Scale: "factor", Neighbours: "k"}


def leaves(chain: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers of a chain in order, with their full names."""
    return [(n, layer) for n, layer in chain.named_modules() if not any(layer.children())]


def last_linear(chain: nn.Module) -> str:
    """The name of the layer from which the classes come."""
    named = [n for n, layer in leaves(chain) if isinstance(layer, nn.Linear | Neighbours)]
    return named[-1] if named else ""


def is_idle(layer: nn.Module) -> bool:
    """Whether a layer never does anything: a dropout of 0."""
    return isinstance(layer, nn.Dropout) and layer.p == 0


def acts_in_training_only(layer: nn.Module) -> bool:
    """Whether a layer does nothing once trained."""
    return isinstance(layer, nn.Dropout | Repeat)


def size_after(layer: nn.Module, before: int) -> int:
    """How many numbers leave a layer that `before` numbers enter."""
    if isinstance(layer, nn.Linear):
        return layer.out_features
    return layer.votes.shape[1] if isinstance(layer, Neighbours) else before


def words(layer: nn.Module, *, is_last: bool) -> str:
    """A layer in a few words.

    >>> words(nn.Linear(8, 4, bias=False), is_last=False), words(nn.Dropout(0.1), is_last=False)
    ('dense layer to 4 without a bias', 'dropout (0.1)')
    """
    if isinstance(layer, nn.Linear):
        bias = "" if layer.bias is not None else " without a bias"
        narrow = "" if layer.in_features == layer.out_features else f" to {layer.out_features}"
        return ("linear layer" if is_last else f"dense layer{narrow}") + bias
    name = WORDS.get(type(layer), (type(layer).__name__, ""))[0]
    value = getattr(layer, DETAIL.get(type(layer), ""), None)
    return f"{name} ({value:g})" if value is not None else name


def formula(chain: nn.Sequential) -> str:
    """The chain as one line of mathematics, from h outwards.

    >>> formula(nn.Sequential(nn.Dropout(0.1), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))
    'W₂ tanh(W₁ drop(h) + b₁) + b₂'
    """
    layers = [layer for _, layer in leaves(chain) if not is_idle(layer)]
    several = sum(isinstance(layer, nn.Linear) for layer in layers) > 1
    line, number = "h", 0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            number += 1
            index = str(number).translate(SUBSCRIPTS) if several else ""
            line = f"W{index} {line}" + (f" + b{index}" if layer.bias is not None else "")
        elif isinstance(layer, Scale):
            line = f"{layer.factor:g} · {line}"
        elif isinstance(layer, Normalise):
            line = f"{line}/‖{line}‖"
        elif not isinstance(layer, Repeat):
            name = WORDS.get(type(layer), ("", type(layer).__name__))[1]
            line = f"{name}({line})"
    return line
