"""Where many texts are read: on a GPU where torch finds one, else on the processor.

A base model itself stays on the processor, where single texts are read, explained and exported;
what reads many texts gets a copy on the GPU. An empty CUDA_VISIBLE_DEVICES hides the GPU.
"""

import copy
from typing import Any

import torch
from torch import nn

HERE = torch.device("cpu")


def fastest() -> torch.device:
    """The device on which many texts are read."""
    return torch.device("cuda") if torch.cuda.is_available() else HERE


def called(device: torch.device) -> str:
    """A device as its maker calls it."""
    if device == HERE:
        return "the processor"
    try:
        return torch.get_device_module(device).get_device_name(device)
    except (RuntimeError, AssertionError):  # it is there and does not answer
        return device.type


def copied(part: Any, device: torch.device) -> Any:
    """A module on a device; itself where it lies there, and what is no module as it is."""
    if device == HERE or not isinstance(part, nn.Module):
        return part
    return copy.deepcopy(part).to(device)
