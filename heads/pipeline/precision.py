"""In how many bits products are computed: 16 only where a probe finds that faster here.

With AMX 16 bits are several times as fast as 32, with AVX512_BF16 twice, on many processors they
are slower. So it is measured, once for a machine and a version of torch, and the answer is kept.
"""

import contextlib
import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from heads.pipeline.disk import write
from heads.pipeline.packed.products import Product, product
from heads.settings import cache_folder

ROWS, WIDTH, WIDE = 256, 384, 1536  # the widest product of a small base model
ROUNDS = 9
MUCH, AT_ALL = 1.5, 1.1  # how many times as fast 16 bits must be for auto, and for fast
POSSIBLE = 0.001  # where a run that began with them goes on
EXACT = "exact"


def products(asked: str) -> torch.dtype:
    """The precision of products: float32 or bfloat16.

    Args:
        asked: auto, exact or fast, as the setting has it; or what was used before, by name.
    """
    if asked in (EXACT, "float32"):
        return torch.float32
    least = {"auto": MUCH, "fast": AT_ALL}.get(asked, POSSIBLE)
    return torch.bfloat16 if gain() >= least else torch.float32


@cache
def gain() -> float:
    """How many times as fast as 32 bits 16 are here, 0 where there are none.

    It is measured once, and kept on disk.
    """
    place = cache_folder() / "probe" / f"{_machine()}.json"
    try:
        return float(json.loads(place.read_text("utf-8"))["gain"])
    except (OSError, ValueError, KeyError, TypeError):
        found = measured_gain()
    with contextlib.suppress(OSError):  # it is measured again by the next process
        write(place, lambda path: path.write_text(json.dumps({"gain": found}), "utf-8"))
    return found


def measured_gain() -> float:
    """The same, measured now on one core, by its own time: what else runs does not count."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_ratio).result()
    except RuntimeError:  # the processor has no such kernels
        return 0.0
    finally:
        torch.set_num_threads(threads)  # for threads that begin later


@torch.no_grad()
def _ratio() -> float:
    torch.set_num_threads(1)
    dice = torch.Generator().manual_seed(0)
    weight = torch.randn(WIDE, WIDTH, generator=dice)
    values = torch.randn(ROWS, WIDTH, generator=dice)
    both = []
    for dtype in (torch.float32, torch.bfloat16):
        layer = product(weight, None, dtype, prepacked=True)
        both.append((layer, values.to(dtype)))
    rounds = [[_seconds(*one) for one in both] for _ in range(ROUNDS)]
    exact, fast = (min(times) for times in zip(*rounds, strict=True))
    return exact / max(fast, 1e-9)


def _seconds(layer: Product, values: torch.Tensor) -> float:
    begun = time.thread_time()
    layer(values)
    return time.thread_time() - begun


def _machine() -> str:
    """What the answer depends on, as a name."""
    facts = (torch.cpu.get_capabilities(), torch.__version__)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
