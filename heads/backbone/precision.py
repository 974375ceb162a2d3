"""In how many bits products are computed: 16 only where a probe finds that faster here.

With AMX 16 bits are several times as fast as 32, with AVX512_BF16 twice, on many processors they
are slower. So it is measured, once for a machine and a version of torch, and the answer is kept;
for a GPU likewise.
"""

import contextlib
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from heads.backbone.device import HERE, called, exact_on, tokens_at_once
from heads.backbone.unpadded.linear import LinearKernel, fused_rows, product
from heads.checked_files import read_json, write_json
from heads.settings import kept_folder

ROWS, WIDTH, WIDE = 256, 384, 1536  # the widest product of a small base model
ROUNDS = 9
MUCH, AT_ALL = 1.5, 1.1  # how many times as fast 16 bits must be for auto, and for fast
POSSIBLE = 0.001  # where a run that began with them goes on
EXACT = "exact"


def products(asked: str, device: torch.device = HERE) -> torch.dtype:
    """The precision of products: float32 or bfloat16.

    Args:
        asked: auto, exact or fast, as the setting has it; or what was used before, by name.
        device: Where they are computed.
    """
    if asked in (EXACT, "float32"):
        return torch.float32
    least = {"auto": MUCH, "fast": AT_ALL}.get(asked, POSSIBLE)
    return torch.bfloat16 if gain(device) >= least else torch.float32


@cache
def gain(device: torch.device = HERE) -> float:
    """How many times as fast as 32 bits 16 are on a device, 0 where there are none.

    It is measured once, and kept on disk.
    """
    facts = (torch.cpu.get_capabilities(), torch.__version__)  # what the answer depends on
    facts = facts if device == HERE else (called(device), torch.__version__)
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    place = kept_folder() / "probe" / f"{name}.json"
    try:
        return float(read_json(place)["gain"])
    except (OSError, ValueError, KeyError, TypeError):
        found = measured_gain(device)
    if not found and device != HERE:  # it may be busy
        return found
    with contextlib.suppress(OSError):  # it is measured again by the next process
        write_json(place, {"gain": found})
    return found


def measured_gain(device: torch.device = HERE) -> float:
    """The same, measured now; on one core by its own time: what else runs does not count."""
    threads = torch.get_num_threads()
    try:
        if device != HERE:
            with exact_on(device):
                return _ratio(device)
        if torch.backends.mkldnn.is_available() and not fused_rows(torch.bfloat16):
            return 0.0
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as thread:
            return thread.submit(_ratio, device).result()
    except RuntimeError:  # there are no such kernels
        return 0.0
    finally:
        torch.set_num_threads(threads)  # for threads that begin later


@torch.no_grad()
def _ratio(device: torch.device) -> float:
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(WIDE, WIDTH, generator=rng)
    rows = ROWS if device == HERE else tokens_at_once(device)
    values = torch.randn(rows, WIDTH, generator=rng)
    both = []
    for dtype in (torch.float32, torch.bfloat16):
        layer = product(weight, None, dtype, prepacked=True, device=device)
        both.append((layer, values.to(device, dtype)))
    rounds = [[_seconds(*one) for one in both] for _ in range(ROUNDS)]
    exact, fast = (min(times) for times in zip(*rounds, strict=True))
    return exact / max(fast, 1e-9)


def _seconds(layer: LinearKernel, values: torch.Tensor) -> float:
    if values.device == HERE:
        begun = time.thread_time()
        layer(values)
        return time.thread_time() - begun
    begun = time.perf_counter()
    layer(values)[0, 0].item()  # which waits for it
    return time.perf_counter() - begun
