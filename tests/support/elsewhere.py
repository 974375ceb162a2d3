"""A second device without a second machine: real numbers, in memory of the processor's own.

Its tensors compute what tensors on the processor do, and refuse to meet them, as those of a GPU
would. So what runs here puts every tensor where it belongs; how fast a GPU is, it cannot tell.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class _Maker:
    """What torch asks of the maker of a device."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        pass

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]

    @staticmethod
    def get_device_name(_: object = None) -> str:
        return "Elsewhere 3000"


_setup_privateuseone_for_python_backend(NAME, _Maker)
DEVICE = torch.device(NAME, 0)


class Far(Tensor):
    """A tensor on the other device, around one on the processor."""

    near: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: Tensor) -> "Far":
        made = Tensor._make_wrapper_subclass(
            cls, near.shape, strides=near.stride(), dtype=near.dtype, device=DEVICE
        )
        made.near = near
        return made

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.near.untyped_storage()

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"Far({self.near!r})"

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


class _Elsewhere(TorchDispatchMode):
    """Within it, what is made on the other device is made."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Computes on the processor, and puts the result where it belongs."""
    given = [one for one in tree_iter((args, kwargs)) if isinstance(one, Tensor)]
    far = [one for one in given if isinstance(one, Far)]
    if far and func not in COPIES:  # a single number may come from anywhere
        strangers = [one for one in given if not isinstance(one, Far) and one.dim()]
        assert not strangers, f"{func} was given tensors of two devices"
    asked = [one for one in tree_iter((args, kwargs)) if isinstance(one, torch.device)]
    is_far = asked[0].type == NAME if asked else bool(far)
    near = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
    own_args, own_kwargs = tree_map_only(Far, lambda one: one.near, near)
    with torch.inference_mode(False), torch.no_grad():
        result = func(*own_args, **own_kwargs)
        if func._schema.name.endswith("_") and isinstance(args[0], Tensor):  # in place
            return args[0]
        return tree_map_only(Tensor, Far, result) if is_far else result


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Within it there is a second device."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # what is made of lists is made here, then moved
    try:
        with _Elsewhere():
            yield DEVICE
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
