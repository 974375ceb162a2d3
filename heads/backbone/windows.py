"""Texts that are longer than the base model reads, in windows that overlap.

A window is what the base model would be given of a part of the text: the special tokens, and the
prefix where there is one, stand around each. The first window is the text as it is cut.
The tokens that two windows share are read twice, and each counts once: in the window where it
stands further from the edge, so with more of the text on its shorter side.
Source: BERT (Devlin et al. 2019), whose ``run_squad.py`` slides windows over documents and takes
each token where it has its "max context".
Legend: k windows, t tokens of the longest of them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heads.backbone.states import Encoded, States

Read = Callable[[Sequence[Encoded]], Iterator[tuple[list[int], States]]]
NOT_KEPT = torch.empty(0)


def windows_of(
    text: Encoded, most: int, *, stride: int, prefix: int = 0, limit: int
) -> tuple[Encoded, ...]:
    """Return the windows of a text, given all of its tokens; see `iter_windows`.

    Fast tokenizers cut the same windows (``return_overflowing_tokens``); but slow ones do not, and
    none of them repeats a prefix, which belongs before each window.
    """

    def select(row: list[int], positions: list[int]) -> list[int]:
        return [row[position] for position in positions]

    return tuple(
        Encoded(
            inputs={name: select(row, positions) for name, row in text.inputs.items()},
            special=select(text.special, positions),
            whole_length=text.whole_length,
            counted=tuple(counted),
        )
        for positions, counted in iter_windows(text.special, most, stride, prefix, limit)
    )


def iter_windows(
    is_special: Sequence[int], most: int, stride: int, prefix: int, limit: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the positions of each window's tokens in a text, and 1 for each that counts there.

    No window if there is no room for a token of the text. An exported model has this source.

    Args:
        is_special: For each token of the text, whether it is one that stands around texts.
        most: The most tokens of a window.
        stride: How many tokens it shares with the one before: no more than half of those that it
            has of the text.
        prefix: How many tokens stand before the text itself, special ones included.
        limit: The most windows.
    """
    length = len(is_special)
    if length <= most:
        yield [*range(length)], [1] * length
        return
    words = [index for index, special in enumerate(is_special) if not special] or [0, length - 1]
    # No builtin is used that a part may be called like, such as the pooling max.
    start = words[0] if words[0] > prefix else prefix
    end = words[-1] + 1
    room = most - start - (length - end)  # for tokens of the text, in each window
    if room < 1:
        return
    shared = min(stride, room // 2)
    begins = range(start, end - shared, room - shared)[:limit]
    for number, begin in enumerate(begins):
        until = min(begin + room, end)
        # Of an odd number of shared tokens the one in the middle counts in the earlier window.
        before = (shared + 1) // 2 if number else 0
        behind = shared // 2 if number + 1 < len(begins) else 0
        middle = [0] * before + [1] * (until - begin - before - behind) + [0] * behind
        window = [*range(start), *range(begin, until), *range(end, length)]
        yield window, [1] * start + middle + [1] * (length - end)


def with_whole_texts(
    read: Read, texts: Sequence[Encoded], layers: Collection[int]
) -> Iterator[tuple[list[int], States]]:
    """Batches of texts as they are cut; behind each, its texts with several windows, one by one.

    So texts that fit into one window are read as if there were no others, to the last bit; and no
    more windows than those of one text are in memory.

    Args:
        read: Reads texts in batches, padded on the right.
        layers: The numbers of those that are kept of windows.

    Yields:
        The row numbers of texts, and their states; of a text with several windows its one number,
        and as many rows as it has windows, with `States.counted`.
    """
    for rows, states in read(texts):
        yield rows, states
        for place, row in enumerate(rows):
            if texts[row].windows:
                yield [row], whole_text(texts[row], states.row(place), read, layers)


def whole_text(text: Encoded, cut: States, read: Read, layers: Collection[int]) -> States:
    """Return the states (k, t) of all windows of a text, given those of its cut text (1, t)."""
    windows, kept = text.windows, frozenset(number % len(cut.hidden) for number in layers)
    is_read = int(text.inputs == windows[0].inputs)
    found = {0: _only(cut, kept)} if is_read else {}
    for places, states in read(windows[is_read:]):
        for at, place in enumerate(places):
            found[place + is_read] = _only(states.row(at), kept)
    return _stacked([found[number] for number in range(len(windows))], windows)


def _only(states: States, kept: Collection[int]) -> States:
    """The same without layers that nobody asks for."""
    layers = enumerate(states.hidden)
    return replace(states, hidden=tuple(own if n in kept else NOT_KEPT for n, own in layers))


def _stacked(parts: Sequence[States], windows: Sequence[Encoded]) -> States:
    """The states of several windows as those of a batch, 0 on padding."""
    lengths = list(map(len, windows))

    def joined(values: Sequence[Tensor], *, per_token: bool = True) -> Tensor:
        if not len(values[0]):
            return NOT_KEPT
        if not per_token:
            return torch.cat(list(values))
        rows = [own[0, :length] for own, length in zip(values, lengths, strict=True)]
        return pad_sequence(rows, batch_first=True)

    tensors = {
        name: joined([getattr(part, name) for part in parts], per_token=name != "pooler")
        for name in (field.name for field in fields(States))
        if isinstance(getattr(parts[0], name), Tensor)
    }
    hidden = tuple(joined(layer) for layer in zip(*(part.hidden for part in parts), strict=True))
    said = [torch.tensor(window.counted, device=parts[0].mask.device) for window in windows]
    counted = tensors["mask"] * pad_sequence(said, batch_first=True)
    return replace(parts[0], **tensors, hidden=hidden, counted=counted)
