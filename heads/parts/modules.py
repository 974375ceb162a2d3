"""The layers that heads need and torch does not have, and how a chain is put together.

Legend: n texts, w width of the pooled vector, c classes.
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "none": nn.Identity,
}
LEAD = 1e-3  # of a vote, by which a tie is broken
M = TypeVar("M", bound=nn.Module)
INITIAL_STD = 0.02  # `initializer_range` of nearly every family whose head stands here


def chain(*named: tuple[str, nn.Module]) -> nn.Sequential:
    """Strings named layers together; a dot in a name makes an inner chain, as in a checkpoint.

    New linear layers start as most heads of Transformers start: N(0, 0.02²), bias 0.

    Raises:
        ValueError: A name is given twice, or the layers of an inner chain are torn apart.

    >>> list(chain(("pooler.dense", nn.Linear(4, 4)), ("classifier", nn.Linear(4, 2))).state_dict())
    ['pooler.dense.weight', 'pooler.dense.bias', 'classifier.weight', 'classifier.bias']
    """
    tree: OrderedDict[str, Any] = OrderedDict()
    for name, layer in named:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=INITIAL_STD)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        outer, _, inner = name.partition(".")
        if outer in tree and not (inner and next(reversed(tree)) == outer):
            raise ValueError(f"The layer '{name}' stands apart from others under its name.")
        if inner:
            tree.setdefault(outer, OrderedDict())[inner] = layer
        else:
            tree[outer] = layer
    return nn.Sequential(
        OrderedDict(
            (name, nn.Sequential(item) if isinstance(item, OrderedDict) else item)
            for name, item in tree.items()
        )
    )


def left_out(whole: nn.Sequential, layer: str, width: int) -> nn.Sequential:
    """A new chain less one of its layers, to be trained without it.

    Layers behind it that get another number of inputs than before are made anew in that size.

    Args:
        width: w, of what enters the chain.

    >>> left_out(chain(("dense", nn.Linear(4, 3)), ("out", nn.Linear(3, 2))), "dense", 4)
    Sequential(
      (out): Linear(in_features=4, out_features=2, bias=True)
    )
    """
    kept: list[tuple[str, nn.Module]] = []
    for name, part in leaves(whole):
        if name == layer:
            continue
        if is_plain(part, nn.Linear):
            if part.in_features != width:
                part = nn.Linear(width, part.out_features, bias=part.bias is not None)
            width = part.out_features
        elif is_plain(part, nn.LayerNorm) and part.normalized_shape != (width,):
            part = nn.LayerNorm(width, eps=part.eps, bias=part.bias is not None)
        kept.append((name, part))
    return chain(*kept)


def activated(name: str) -> nn.Module:
    """Return an activation of `ACTIVATIONS` or Transformers by its name, or raise ValueError."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]()
    from transformers.activations import ACT2FN

    if name not in ACT2FN:
        raise ValueError(f"There is no activation called '{name}'.")
    return ACT2FN[name]


class Repeat(nn.Module):
    """While training, the same vector several times, so that each copy is dropped out anew.

    (n, w) to (samples, n, w) while training; in use nothing happens.
    """

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors.expand(self.samples, *vectors.shape) if self.training else vectors

    def extra_repr(self) -> str:
        return f"samples={self.samples}"


class Normalise(nn.Module):
    """Scales each vector to length 1: (n, w) to (n, w)."""

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


class Scale(nn.Module):
    """Multiplies by a fixed number: (n, c) to (n, c)."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        return values * self.factor

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}"


class Directions(nn.Module):
    """A linear layer without a bias whose weights are scaled to length 1: (n, w) to (n, c)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.width, self.classes = width, classes
        self.weight = nn.Parameter(torch.randn(classes, width) * INITIAL_STD)

    def forward(self, values: Tensor) -> Tensor:
        return values @ nn.functional.normalize(self.weight, dim=-1).mT

    def extra_repr(self) -> str:
        return f"width={self.width}, classes={self.classes}"


class Residual(nn.Module):
    """What enters it, and two layers of it added: x + W₂ relu(W₁ x + b₁) + b₂, (n, w) to (n, w).

    Attributes:
        hidden: How many numbers lie between the two layers.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.width, self.hidden = width, hidden
        self.weight_in = nn.Parameter(torch.randn(hidden, width) * INITIAL_STD)
        self.bias_in = nn.Parameter(torch.zeros(hidden))
        self.weight_out = nn.Parameter(torch.randn(width, hidden) * INITIAL_STD)
        self.bias_out = nn.Parameter(torch.zeros(width))

    def forward(self, values: Tensor) -> Tensor:
        inner = (values @ self.weight_in.mT + self.bias_in).relu()
        return values + inner @ self.weight_out.mT + self.bias_out

    def extra_repr(self) -> str:
        return f"width={self.width}, hidden={self.hidden}"


class Cuts(nn.Module):
    """One number cut into ordered classes: (n, 1) to the logarithms of (n, c) probabilities.

    P(class ≤ k) = sigmoid(θₖ − f), θ₁ < θ₂ < … What is learned is θ₁ and, of every further one,
    the logarithm of its distance from the one before: so they keep their order.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        steps = torch.zeros(classes - 1)
        steps[:1] = 1 - classes / 2  # one apart, with 0 in their middle
        self.steps = nn.Parameter(steps)

    def forward(self, values: Tensor) -> Tensor:
        if values.shape[-1] != 1:
            raise RuntimeError(f"{values.shape[-1]} numbers cannot be cut into ordered classes.")
        if len(self.steps) == 0:  # of one class there is no doubt
            return torch.zeros_like(values)
        gaps = self.steps[1:].clamp(-10, 10).exp()
        cuts = torch.cat([self.steps[:1], gaps]).cumsum(dim=0)
        below = nn.functional.logsigmoid(cuts - values)  # ln P(class ≤ k)
        above = nn.functional.logsigmoid(values - cuts)  # ln P(class > k)
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − exp(b − a)), of which no part vanishes.
        between = below[..., 1:] + above[..., :-1] + (1 - (-gaps).exp()).log()
        return torch.cat([below[..., :1], between, above[..., -1:]], dim=-1)

    def extra_repr(self) -> str:
        return f"classes={self.classes}"


class Neighbours(nn.Module):
    """Votes of the k most similar training vectors, as log shares: (n, w) to (n, c).

    Each class gets one vote beforehand spread over all classes, so that no share is 0. Of several
    classes with the most votes, that of the nearest vector leads by a thousandth of a vote.

    Attributes:
        points: (rows, w), the training vectors scaled to length 1.
        votes: (rows, c), 1 where the row has the class.
    """

    points: Tensor
    votes: Tensor

    def __init__(self, width: int, classes: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("points", torch.zeros(0, width))
        self.register_buffer("votes", torch.zeros(0, classes))
        self.register_load_state_dict_pre_hook(self._take_rows)

    def forward(self, vectors: Tensor) -> Tensor:
        similarity = nn.functional.normalize(vectors, dim=-1) @ self.points.T  # (n, rows)
        nearest = similarity.topk(min(self.k, len(self.points)), dim=-1).indices  # (n, k)
        votes = self.votes[nearest]  # (n, k, c)
        counts = votes.sum(dim=1)  # (n, c)
        shares = (counts + 1 / counts.shape[-1]) / (nearest.shape[-1] + 1)
        if nearest.shape[-1] > 1:  # one alone cannot be tied
            shares = shares + self._lead(votes, counts) * (LEAD / (nearest.shape[-1] + 1))
        return shares.log()

    @staticmethod
    def _lead(votes: Tensor, counts: Tensor) -> Tensor:
        """(n, c), 1 at the class of the nearest vector among several with the most votes."""
        most = counts == counts.amax(dim=-1, keepdim=True)
        places = torch.arange(votes.shape[1], 0, -1).to(votes)  # the nearest has the largest
        first = (votes * places[:, None]).amax(dim=1) * most
        is_tied = most.sum(dim=-1, keepdim=True) > 1
        return ((first == first.amax(dim=-1, keepdim=True)) & is_tied).to(votes)

    def extra_repr(self) -> str:
        return f"k={self.k}, width={self.points.shape[1]}, classes={self.votes.shape[1]}"

    @staticmethod
    def _take_rows(module: nn.Module, state: Any, prefix: str, *_: Any) -> None:
        """Before loading: the number of rows is known only to the file."""
        for name in ("points", "votes"):
            tensor = state.get(prefix + name)
            if tensor is not None and tensor.shape[1:] == getattr(module, name).shape[1:]:
                setattr(module, name, torch.zeros_like(tensor))


# --- A head's layers in words and as a line of mathematics, read off the chain itself.

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
MATRICES = {nn.Linear: 1, Directions: 1, Residual: 2}  # of weights, that a layer multiplies by


def leaves(head: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the layers that a head applies one after another, with their full names.

    A module with a forward of its own is one layer, whatever is in it. A head is a single layer
    without a name if it is such a module, or if two of its layers share a tensor.

    >>> [name for name, _ in leaves(chain(("pooler.dense", nn.Linear(2, 2))))]
    ['pooler.dense']
    """
    layers = list(_iter_layers(head, ""))
    tensors = [id(t) for _, one in layers for t in (*one.parameters(), *one.buffers())]
    return layers if len(tensors) == len({*tensors}) else [("", head)]


def _iter_layers(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    if not is_plain(module, nn.Sequential):
        yield name, module
        return
    for key, layer in module._modules.items():  # named_children() names a layer used twice once
        if layer is not None:
            yield from _iter_layers(layer, f"{name}.{key}".strip("."))


def is_plain(module: nn.Module, *kinds: type[M]) -> TypeGuard[M]:
    """Return True if a module computes exactly what one of these classes computes.

    A subclass may not, nor a module with hooks or a forward set on the instance.
    """
    hooks = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return type(module) in kinds and not hooks


def is_learned(layer: nn.Module) -> bool:
    """Return True if no tensor of a layer is held fixed."""
    return all(tensor.requires_grad for tensor in layer.parameters())


def last_linear(head: nn.Module | Sequence[tuple[str, nn.Module]]) -> str:
    """The name of the layer from which the classes come, of a head or of its layers."""
    layers = leaves(head) if isinstance(head, nn.Module) else head
    named = [name for name, layer in layers if is_plain(layer, *CLASSES)]
    return named[-1] if named else ""


def ends_linear(head: nn.Module) -> bool:
    """Return True if the logits are the numbers of a linear layer, as they leave it."""
    used = acting_layers(head)
    return bool(used) and bool(used[-1][0]) and is_plain(used[-1][1], nn.Linear)


def acting_layers(head: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the layers of a head that act in use, with their full names."""
    return [
        (name, layer)
        for name, layer in leaves(head)
        if not (is_idle(layer) or acts_in_training_only(layer))
    ]


def is_idle(layer: nn.Module) -> bool:
    """Whether a layer never does anything: a dropout of 0, or no activation."""
    return is_plain(layer, nn.Identity) or (is_plain(layer, nn.Dropout) and layer.p == 0)


def acts_in_training_only(layer: nn.Module) -> bool:
    """Whether a layer does nothing once trained."""
    return is_plain(layer, nn.Dropout, Repeat)


def size_after(layer: nn.Module, before: int) -> int:
    """Return how many numbers leave a layer that `before` numbers enter."""
    if is_plain(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, Directions | Cuts):
        return layer.classes
    if isinstance(layer, Neighbours):
        return layer.votes.shape[1]
    if type(layer) in WORDS:
        return before
    real = copy.deepcopy(layer).to_empty(device="cpu").eval()  # it may lie on the meta device
    with torch.no_grad():
        for tensor in [*real.parameters(), *real.buffers()]:
            tensor.zero_()  # a forward may use what lies there as an index
        return real(torch.zeros(1, before)).shape[-1]


def words(layer: nn.Module, *, is_last: bool) -> str:
    """A layer in a few words.

    >>> words(nn.Linear(8, 4, bias=False), is_last=False), words(nn.Dropout(0.1), is_last=False)
    ('dense layer to 4 without a bias', 'dropout (0.1)')
    """
    if is_plain(layer, nn.Linear):
        bias = "" if layer.bias is not None else " without a bias"
        narrow = "" if layer.in_features == layer.out_features else f" to {layer.out_features}"
        return ("linear layer" if is_last else f"dense layer{narrow}") + bias
    name = WORDS.get(type(layer), (type(layer).__name__, ""))[0]
    value = getattr(layer, DETAIL.get(type(layer), ""), None)
    return f"{name} ({value:g})" if value is not None else name


def acting(chain: nn.Module) -> list[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """The layers that act in use: what each does, with its shapes; and its tensors by name.

    Two chains of which that is the same are the same function, whatever their layers are called.
    """
    last = last_linear(chain)
    return [
        (
            (words(layer, is_last=name == last), *sizes(layer)),
            {f"{name}.{key}".strip("."): t for key, t in layer.state_dict().items()},
        )
        for name, layer in acting_layers(chain)
    ]


def sizes(layer: nn.Module) -> tuple[str, ...]:
    """What a layer's tensors are called, with their shapes; and the least deviation of a norm."""
    shapes = [f"{key} {tuple(t.shape)}" for key, t in layer.state_dict().items()]
    return (*shapes, f"eps {layer.eps}") if isinstance(layer, nn.LayerNorm) else tuple(shapes)


def formula(layers: Iterable[nn.Module]) -> str:
    """Return what layers compute one after another as one line of mathematics, from h outwards.

    >>> formula([nn.Dropout(0.1), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)])
    'W₂ tanh(W₁ drop(h) + b₁) + b₂'
    """
    layers = [layer for layer in layers if not is_idle(layer)]
    counts = [MATRICES.get(type(layer), 0) for layer in layers]
    line, number = "h", 0
    for layer, count in zip(layers, counts, strict=True):
        indices = [str(number + one).translate(SUBSCRIPTS) for one in range(1, count + 1)]
        line = _around(line, layer, indices if sum(counts) > 1 else [""] * count)
        number += count
    return line


def _around(line: str, layer: nn.Module, indices: Sequence[str]) -> str:
    """A line of mathematics with one more layer around it, its weights numbered so."""
    inner = f"({line})" if _is_sum(line) else line
    if is_plain(layer, nn.Linear):
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
