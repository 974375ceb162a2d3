"""Where many texts are read and in how many bits: on a GPU where torch finds one, else the CPU.

A base model itself stays on the processor, where single texts are read, explained and exported;
what reads many texts gets a copy on the GPU. An empty CUDA_VISIBLE_DEVICES hides the GPU.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn

HERE = torch.device("cpu")


@cache
def fastest() -> torch.device:
    """The device on which many texts are read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that is too old is no GPU
        return torch.device("cuda") if torch.cuda.is_available() else HERE


@cache
def for_training() -> torch.device:
    """The device on which base models are tuned: also an Apple GPU, which reads no faster."""
    if fastest() == HERE and torch.backends.mps.is_available():
        return torch.device("mps")
    return fastest()


def called(device: torch.device) -> str:
    """A device as its maker calls it."""
    if device == HERE:
        return "the processor"
    try:
        return torch.get_device_module(device).get_device_name(device)
    except (RuntimeError, AssertionError, AttributeError, torch.cuda.DeferredCudaCallError):
        return device.type


def tokens_at_once(device: torch.device) -> int:
    """Return the tokens of a batch: few stay in a processor's cache, many keep a GPU busy."""
    return 2048 if device == HERE else 16_384


def lying_on(device: torch.device, part: Any) -> Any:
    """Return a module on a device, anything else as it is; never twice on the processor."""
    if device == HERE or not isinstance(part, nn.Module):
        return part
    there: dict[int, Any] = {
        id(own): nn.Parameter(own.detach().to(device), requires_grad=False)
        for own in part.parameters()
    }
    there |= {id(own): own.to(device) for own in part.buffers()}
    return copy.deepcopy(part, there).to(device)


@contextmanager
def exact_on(device: torch.device) -> Iterator[None]:
    """Within it, a GPU computes 32 bits as 32 bits, not as TensorFloat-32."""
    if device == HERE:
        yield
        return
    backends: Any = torch.backends
    if hasattr(backends.cuda.matmul, "fp32_precision"):
        kinds, name, exact = (backends.cuda.matmul, backends.cudnn.conv), "fp32_precision", "ieee"
    else:  # torch before 2.9
        kinds, name, exact = (backends.cuda.matmul, backends.cudnn), "allow_tf32", False
    before = [getattr(kind, name) for kind in kinds]
    for kind in kinds:
        setattr(kind, name, exact)
    try:
        yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            setattr(kind, name, precision)


def let_go(device: torch.device) -> None:
    """Gives the memory back that nothing on a device uses any more."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


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
