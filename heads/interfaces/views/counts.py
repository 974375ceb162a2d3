"""How many rows have a number of about which size. Pure, without torch."""

import math
from collections.abc import Sequence

BINS = 10  # about as many sizes of numbers


def by_size(numbers: Sequence[float]) -> list[tuple[str, int]]:
    """How many numbers are of about which size, in about ten round steps.

    >>> by_size([0.5, 1, 1, 20])[:2], by_size([3.0, 3.0])
    ([('0 to 2', 3), ('2 to 4', 0)], [('0 to 5', 2)])
    """
    low, high = min(numbers), max(numbers)
    exact = (high - low) / BINS or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= exact * 0.999)
    first = math.floor(low / step)
    last = max(first, math.ceil(high / step) - 1)  # the greatest number belongs to the last bar
    counts = dict.fromkeys(range(first, last + 1), 0)
    for number in numbers:
        counts[min(last, math.floor(number / step))] += 1
    return [(f"{at * step:.4g} to {(at + 1) * step:.4g}", own) for at, own in counts.items()]
