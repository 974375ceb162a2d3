"""Linear layers in one precision: nearly all the arithmetic of a pass.

Where oneDNN's kernels are the fastest, the weights lie as they want them, and an activation is
applied before a result leaves the cache. Elsewhere it is torch's own linear layer.
Legend: n rows, i and o the sizes of a layer.
"""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, relu

from heads_69c579c7.backbone.device import HERE

PREPACKED = 100_000_000  # parameters; of a larger model not all weights are held twice
ROWS = 512  # for which the weights are laid out
FEW = 64  # rows, up to which oneDNN is the fastest everywhere
ALWAYS = sys.maxsize

# What a layer may end in, as oneDNN calls it: name and algorithm.
NOTHING, GELU, GELU_TANH, RELU = ("none", ""), ("gelu", "none"), ("gelu", "tanh"), ("relu", "")
Ending = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearKernel:
    """x ↦ ending(x Wᵀ + b), (n, i) to (n, o).

    Attributes:
        weight: (o, i), what torch computes with.
        laid: The same, what oneDNN computes with; where that never or always does, both are one.
        bias: (o,) or None.
        most: Up to how many rows oneDNN computes it.
        ending: The activation behind it.
    """

    weight: Tensor
    laid: Tensor
    bias: Tensor | None
    most: int
    ending: Ending

    def __call__(self, values: Tensor) -> Tensor:
        name, algorithm = self.ending
        if self.most and values.shape[0] <= self.most:
            kernel = torch.ops.mkldnn._linear_pointwise
            return kernel(values, self.laid, self.bias, name, [], algorithm)
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
) -> LinearKernel:
    """A linear layer that computes in a precision.

    Args:
        weight: (o, i) in 32 bits.
        bias: (o,) or None.
        prepacked: Whether a copy of the weights may be laid out for the kernels.
        device: Where it computes.
    """
    weight = laid = weight.detach().to(device, dtype)
    bias = None if bias is None else bias.detach().to(device, dtype)
    most = fused_rows(dtype) if device == HERE else 0
    if most and prepacked:
        laid = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        weight = laid if most == ALWAYS else weight  # one copy is enough where torch never computes
    return LinearKernel(weight=weight, laid=laid, bias=bias, most=most, ending=ending)


def fused_rows(dtype: torch.dtype) -> int:
    """Up to how many rows oneDNN's fused layers are the fastest on this processor.

    In 32 bits with AVX512 they always are. With AVX2 many rows are faster by torch's own layers,
    which are MKL's: a pass of a small BERT does 136 GFLOP/s with them and 114 with oneDNN's (AMD
    EPYC, Zen 3, 2 cores). In 16 bits there are no others worth having.
    """
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    known = all(hasattr(torch.ops.mkldnn, name) for name in names)
    if not known or not torch.backends.mkldnn.is_available():
        return 0
    if dtype == torch.float32:
        return FEW if torch.backends.cpu.get_cpu_capability() == "AVX2" else ALWAYS
    return ALWAYS if torch.ops.mkldnn._is_mkldnn_bf16_supported() else 0
