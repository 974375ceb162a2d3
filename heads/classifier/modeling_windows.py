"""Long texts in overlapping windows, within a model: `heads.backbone.windows` on tensors.

An exported model has the source of these functions where its recipe reads windows.
Legend: n texts, t tokens, m windows of all texts, d width of a hidden state.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heads.backbone.windows import iter_windows


def split_windows(
    inputs: dict[str, Tensor], mask: Tensor, is_special: Tensor, config: Any
) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor]:
    """Return inputs and mask of all windows (m, t), which tokens count, and whose they are.

    Args:
        inputs: (n, t) each, padded on the right.
        is_special: (n, t), true on tokens that stand around texts.
        config: It has `most_tokens`, `most_windows`, `stride` and `prefix_tokens`.

    Returns:
        Inputs and mask; (m, t) 1 on tokens that count, for those that two windows share count in
        one of them; (m,) the number of the text of each window.
    """
    sizes = config.most_tokens, config.stride, config.prefix_tokens, config.most_windows
    positions, counts, owners = [], [], []
    for number, length in enumerate(mask.sum(dim=1).tolist()):
        for window, counted in iter_windows(is_special[number, :length].tolist(), *sizes):
            positions.append(torch.tensor(window))
            counts.append(torch.tensor(counted))
            owners.append(number)
    owner = torch.tensor(owners, device=mask.device)
    index = pad_sequence(positions, batch_first=True).to(mask.device)
    counted = pad_sequence(counts, batch_first=True).to(mask.device)
    windows = {name: values[owner].gather(1, index) for name, values in inputs.items()}
    ones = pad_sequence([torch.ones_like(window) for window in positions], batch_first=True)
    return windows, ones.to(mask.device, mask.dtype), counted, owner


def join_windows(values: Tensor, counted: Tensor, owner: Tensor) -> Tensor:
    """Return the tokens of each text that count, (n, T, …), given windows (m, t, …); 0 behind."""
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
