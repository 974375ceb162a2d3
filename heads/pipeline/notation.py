"""A head's layers in words and as a line of mathematics, read off the chain itself."""

from collections.abc import Sequence

from torch import nn

from heads.parts.blocks import Cuts, Directions, Neighbours, Normalise, Repeat, Residual, Scale

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
    Directions: ("linear layer of weights of length 1", "cos"),
    Residual: ("network beside the vector, added to it", "residual"),
    Cuts: ("ordered thresholds", "log shares between thresholds"),
}
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# The number that tells one such layer from another.
DETAIL = {nn.Dropout: "p", Repeat: "samples", Scale: "factor", Neighbours: "k", Residual: "hidden"}

CLASSES = (nn.Linear, Neighbours, Directions, Cuts)  # what classes can come from


def leaves(chain: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers of a chain in order, with their full names."""
    return [(n, layer) for n, layer in chain.named_modules() if not any(layer.children())]


def last_linear(chain: nn.Module) -> str:
    """The name of the layer from which the classes come."""
    named = [n for n, layer in leaves(chain) if isinstance(layer, CLASSES)]
    return named[-1] if named else ""


def is_idle(layer: nn.Module) -> bool:
    """Whether a layer never does anything: a dropout of 0, or no activation."""
    return isinstance(layer, nn.Identity) or (isinstance(layer, nn.Dropout) and layer.p == 0)


def acts_in_training_only(layer: nn.Module) -> bool:
    """Whether a layer does nothing once trained."""
    return isinstance(layer, nn.Dropout | Repeat)


def size_after(layer: nn.Module, before: int) -> int:
    """How many numbers leave a layer that `before` numbers enter."""
    if isinstance(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, Directions | Cuts):
        return layer.classes
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
    counts = [_matrices(layer) for layer in layers]
    line, number = "h", 0
    for layer, count in zip(layers, counts, strict=True):
        indices = [str(number + one).translate(SUBSCRIPTS) for one in range(1, count + 1)]
        line = _around(line, layer, indices if sum(counts) > 1 else [""] * count)
        number += count
    return line


def _matrices(layer: nn.Module) -> int:
    """How many matrices of weights a layer multiplies by."""
    return {nn.Linear: 1, Directions: 1, Residual: 2}.get(type(layer), 0)


def _around(line: str, layer: nn.Module, indices: Sequence[str]) -> str:
    """A line of mathematics with one more layer around it, its weights numbered so."""
    inner = f"({line})" if _is_sum(line) else line
    if isinstance(layer, nn.Linear):
        return f"W{indices[0]} {inner}" + (f" + b{indices[0]}" if layer.bias is not None else "")
    if isinstance(layer, Residual):
        one, two = indices
        return f"{line} + W{two} relu(W{one} {inner} + b{one}) + b{two}"
    if isinstance(layer, Directions):
        return f"(W{indices[0]}/‖W{indices[0]}‖) {inner}"
    given = {
        Scale: f"{getattr(layer, 'factor', 1):g} · {inner}",
        Normalise: f"{inner}/‖{line}‖",
        Cuts: f"ln(σ(θₖ − f) − σ(θₖ₋₁ − f)), f = {line}",
        Repeat: line,
    }
    return given.get(
        type(layer), f"{WORDS.get(type(layer), ('', type(layer).__name__))[1]}({line})"
    )


def _is_sum(line: str) -> bool:
    """Whether a line of mathematics is a sum outside all brackets.

    >>> _is_sum("W h + b"), _is_sum("tanh(W h + b)")
    (True, False)
    """
    outside = [line[:place].count("(") == line[:place].count(")") for place in range(len(line))]
    return any(is_out and line[place : place + 3] == " + " for place, is_out in enumerate(outside))
