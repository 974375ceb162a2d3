"""In how many bits matrices are multiplied: 16 where the device has instructions for that."""

from functools import cache

import torch

from heads.backbone.device import HERE

EXACT = "exact"
# Instructions of processors that multiply bfloat16 about twice as fast as float32, or faster.
INSTRUCTIONS = ("amx_bf16", "avx512_bf16", "sve_bf16")


def products(asked: str, device: torch.device = HERE) -> torch.dtype:
    """Return the precision of matrix products: float32 or bfloat16.

    Args:
        asked: The setting: auto, exact or fast; or the name of a precision used before.
    """
    if asked in (EXACT, "float32"):
        return torch.float32
    has_them = has_instructions(device) if asked == "auto" else has_kernels(device)
    return torch.bfloat16 if has_them else torch.float32


@cache
def has_instructions(device: torch.device = HERE) -> bool:
    """Return True if a device multiplies bfloat16 in hardware."""
    if device != HERE:
        is_cuda = device.type == "cuda"
        return is_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return has_kernels() and any(capabilities.get(name) for name in INSTRUCTIONS)


@cache
def has_kernels(device: torch.device = HERE) -> bool:
    """Return True if torch multiplies bfloat16 on a device by kernels of its own."""
    if device != HERE:
        return has_instructions(device)
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return torch.backends.mkldnn.is_available() and bool(is_supported and is_supported())
