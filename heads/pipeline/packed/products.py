"""Linear layers in one precision: nearly all the arithmetic of a pass.

On a CPU with oneDNN the weights lie as its kernels want them, and an activation is applied before
a result leaves the cache. Elsewhere it is torch's own linear layer.
Legend: n rows, i and o the sizes of a layer.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, relu

from heads.pipeline.device import HERE

PREPACKED = 100_000_000  # parameters; of a larger model not all weights are held twice
ROWS = 512  # for which the weights are laid out

# What a layer may end in, as oneDNN calls it: name and algorithm.
NOTHING, GELU, GELU_TANH, RELU = ("none", ""), ("gelu", "none"), ("gelu", "tanh"), ("relu", "")
Ending = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """x ↦ ending(x Wᵀ + b), (n, i) to (n, o).

    Attributes:
        weight: (o, i), or what oneDNN made of it.
        bias: (o,) or None.
        fused: Whether oneDNN computes it.
        ending: The activation behind it.
    """

    weight: Tensor
    bias: Tensor | None
    fused: bool
    ending: Ending

    def __call__(self, values: Tensor) -> Tensor:
        name, algorithm = self.ending
        if self.fused:
            kernel = torch.ops.mkldnn._linear_pointwise
            return kernel(values, self.weight, self.bias, name, [], algorithm)
        result = linear(values, self.weight, self.bias)
        if name == "gelu":
            return gelu(result, approximate=algorithm)
        return relu(result) if name == "relu" else result


def product(
    weight: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    *,
    prepacked: bool,
    ending: Ending = NOTHING,
    device: torch.device = HERE,
) -> Product:
    """A linear layer that computes in a precision.

    Args:
        weight: (o, i) in 32 bits.
        bias: (o,) or None.
        prepacked: Whether a copy of the weights may be laid out for the kernels.
        device: Where it computes.
    """
    weight = weight.detach().to(device, dtype)
    bias = None if bias is None else bias.detach().to(device, dtype)
    fused = device == HERE and has_kernels(dtype)
    if fused and prepacked:
        weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
    return Product(weight=weight, bias=bias, fused=fused, ending=ending)


def has_kernels(dtype: torch.dtype) -> bool:
    """Whether torch was built with oneDNN's fused layers, and they run in a precision here."""
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    if not all(hasattr(torch.ops.mkldnn, name) for name in names):
        return False
    exact = torch.backends.mkldnn.is_available()
    return exact and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
