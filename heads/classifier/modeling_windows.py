"""Long texts in overlapping windows, within a model: `heads.backbone.windows` on tensors.

An exported model has the source of these functions where its recipe reads windows.
Legend: n texts, t tokens, m windows of all texts, d width of a hidden state.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def split_windows(
    inputs: dict[str, Tensor], mask: Tensor, is_special: Tensor, config: Any
) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor]:
    """Return inputs and mask of all windows (m, t), which tokens count, and whose they are.

    Args:
        inputs: (n, t) each, padded on the right.
        mask: (n, t), 1 on real tokens.
        is_special: (n, t), true on tokens that stand around texts.
        config: It has `most_tokens`, `most_windows`, `stride` and `prefix_tokens`.

    Returns:
        Inputs and mask; (m, t) 1 on tokens that count, for those that two windows share count in
        one of them; (m,) the number of the text of each window.
    """
    positions, counts, owners = [], [], []
    for number, length in enumerate(mask.sum(dim=1).tolist()):
        for window, counted in iter_windows(is_special[number, :length].tolist(), config):
            positions.append(torch.tensor(window))
            counts.append(torch.tensor(counted))
            owners.append(number)
    owner = torch.tensor(owners, device=mask.device)
    index = pad_sequence(positions, batch_first=True).to(mask.device)
    counted = pad_sequence(counts, batch_first=True).to(mask.device)
    windows = {name: values[owner].gather(1, index) for name, values in inputs.items()}
    ones = pad_sequence([torch.ones_like(window) for window in positions], batch_first=True)
    return windows, ones.to(mask.device, mask.dtype), counted, owner


def iter_windows(is_special: list[bool], config: Any) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the positions of each window's tokens in a text, and 1 for each that counts there."""
    length = len(is_special)
    if length <= config.most_tokens:
        yield [*range(length)], [1] * length
        return
    words = [index for index, special in enumerate(is_special) if not special] or [0, length - 1]
    # No builtin is used that a part may be called like, such as the pooling max.
    start = words[0] if words[0] > config.prefix_tokens else config.prefix_tokens
    end = words[-1] + 1
    room = config.most_tokens - start - (length - end)  # for tokens of the text, in each window
    shared = min(config.stride, room // 2)
    begins = range(start, end - shared, room - shared)[: config.most_windows]
    for number, begin in enumerate(begins):
        until = min(begin + room, end)
        # Of an odd number of shared tokens the one in the middle counts in the earlier window.
        before = (shared + 1) // 2 if number else 0
        behind = shared // 2 if number + 1 < len(begins) else 0
        middle = [0] * before + [1] * (until - begin - before - behind) + [0] * behind
        window = [*range(start), *range(begin, until), *range(end, length)]
        yield window, [1] * start + middle + [1] * (length - end)


def join_windows(values: Tensor, counted: Tensor, owner: Tensor) -> Tensor:
    """Return the tokens that count of each text, (n, T, …), given those of windows (m, t, …).

    Rows of texts that are shorter than the longest are filled with zeros.
    """
    flat = counted.flatten().nonzero()[:, 0]
    sizes = owner.repeat_interleave(counted.shape[1])[flat].bincount().tolist()
    index = pad_sequence(list(flat.split(sizes)), batch_first=True, padding_value=-1)  # (n, T)
    joined = values.flatten(0, 1)[index.clamp_min(0)]
    return joined * (index >= 0).view(*index.shape, *[1] * (values.dim() - 2)).to(values.dtype)


def average_windows(vectors: Tensor, counted: Tensor, owner: Tensor) -> Tensor:
    """Return the average vector of each text (n, w), weighted by the tokens that count."""
    weights = counted.sum(dim=1).float()
    total = torch.zeros_like(weights[: int(owner.amax()) + 1]).index_add(0, owner, weights)
    shares = (weights / total[owner])[:, None].to(vectors.dtype)
    empty = torch.zeros(len(total), vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    return empty.index_add(0, owner, shares * vectors)
