"""How close numbers are that are the same by mathematics, but not by the processor.

A matrix product may sum in another order where its batch, the number of threads or the kernel is
another one. Then the last bits differ, and training lets them grow.
"""

from typing import Any

import torch

FORWARD = {"atol": 1e-5, "rtol": 1e-5}  # of one forward pass
TRAINED = {"atol": 1e-3, "rtol": 1e-3}  # of heads that were trained in other batches of copies


def assert_same_forward(one: Any, other: Any) -> None:
    """Assert that results of two forward passes are the same up to rounding."""
    torch.testing.assert_close(one, other, **FORWARD)


def assert_same_training(one: Any, other: Any) -> None:
    """Assert that tensors of two trainings, or dicts of them, are the same up to rounding."""
    torch.testing.assert_close(one, other, **TRAINED)
