"""The states of every token, kept on disk for readings that are learned.

They lie end to end without padding, texts of like length side by side, in a file that is mapped
into memory: only what is in use need be in it. Texts that are only learned from lie in 16 bits,
those that are scored in 32 in a file of their own, as an exported head reads them. The files are
bounded, and another run with the same texts finds them.
Legend: u different texts, n of them asked for, t tokens, l kept layers, d width.
"""

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heads.backbone.backbone import Backbone
from heads.backbone.precision import EXACT
from heads.backbone.states import States
from heads.data.corpus import Corpus
from heads.errors import LimitError
from heads.events import Progress
from heads.parts.resolved import Order
from heads.pipeline.extraction import APART, CHUNK
from heads.pipeline.token_files import FINE, MARKS, ROUGH, File, Part, file_of, size_of
from heads.settings import Limits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStates:
    """The states of all texts, and where each text's lie.

    Attributes:
        numbers: (tokens, kept layers, d), the files, one after the other, without any padding.
        starts: (u,), how many tokens stand before each text's in the files.
        lengths: (u,), how many tokens each text has.
        marks: (tokens, 3), what each of `MARKS` says of each token.
        layers: The numbers of the layers that are kept.
        depth: How many layers the base model has, embeddings included.
        engine: By what the texts were read: packed, or Transformers.
        precision: In what its products were computed, float32 or bfloat16; but for scored texts.
        says: Why so, in a sentence.
    """

    numbers: tuple[np.ndarray, ...]
    starts: Tensor
    lengths: Tensor
    marks: Tensor
    layers: tuple[int, ...]
    depth: int
    engine: str
    precision: str
    says: str

    def states(self, texts: Tensor) -> States:
        """The states of some texts (n,) in 32 bits; layers that are not kept are empty."""
        lengths = self.lengths[texts]
        ends = (self.starts[texts] + lengths).tolist()
        spans = list(map(slice, self.starts[texts].tolist(), ends))
        kept = [torch.from_numpy(self._of(span)).float() for span in spans]
        filled = pad_sequence(kept, batch_first=True)  # (n, t, l, d)
        hidden = [torch.empty(0)] * self.depth
        for place, layer in enumerate(self.layers):
            hidden[layer] = filled[:, :, place]
        marks = pad_sequence([self.marks[span] for span in spans], batch_first=True).float()
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        said = dict(zip(MARKS, marks.unbind(-1), strict=True))
        return States(mask=mask.float(), hidden=tuple(hidden), pooler=None, **said)

    def _of(self, span: slice) -> np.ndarray:
        """A copy of some tokens' states, which are of one text and so in one file."""
        start, end = span.start, span.stop
        for file in self.numbers:
            if start < len(file):
                return np.array(file[start:end])
            start, end = start - len(file), end - len(file)
        raise AssertionError("a token beyond the last one")


def layers_for(orders: Sequence[Order], backbone: Backbone) -> tuple[int, ...]:
    """The layers that these recipes read."""
    depth = backbone.layers + 1
    if any(order.layers is not None for order in orders):
        return tuple(range(depth))
    return tuple(sorted({order.layer % depth for order in orders}))


def keep_states(
    orders: Sequence[Order],
    texts: Sequence[str],
    pairs: Sequence[str],
    backbone: Backbone,
    limits: Limits,
    precision: str = EXACT,
    scored: Collection[int] = (),
) -> Generator[Progress, None, TokenStates]:
    """Reads all different texts and keeps their states, or finds them kept.

    Args:
        precision: In which products are computed: a setting, or what was used before.
        scored: The numbers of texts that are read and kept in 32 bits whatever the setting.

    Raises:
        LimitError: They would take more room than this place allows.
    """
    layers = layers_for(orders, backbone)
    encoded = backbone.encode(texts, pairs)
    fine = sorted(set(scored))
    rough = sorted(set(range(len(texts))) - set(fine))
    each = len(layers) * backbone.width
    sizes = [
        size_of([encoded[n] for n in part], each, kind)
        for part, kind in ((rough, ROUGH), (fine, FINE))
    ]
    _check_size(sum(sizes), orders[0], limits)
    room, found = max(0, limits.states_bytes - sum(sizes)), list[File]()
    for part, kind, asked in ((rough, ROUGH, precision), (fine, FINE, EXACT)):
        if part:
            one = Part(
                texts=[texts[n] for n in part],
                pairs=[pairs[n] for n in part] if pairs else [],
                encoded=[encoded[n] for n in part],
                kind=kind,
            )
            found.append((yield from file_of(one, layers, backbone, asked, room)))
    return _together(found, [*rough, *fine], layers, backbone)


def _together(
    found: Sequence[File], texts: Sequence[int], layers: tuple[int, ...], backbone: Backbone
) -> TokenStates:
    """The states of all texts, whose numbers are in the order of the files."""
    ends = [0, *(len(file.numbers) for file in found)]
    starts = torch.cat([file.starts + end for file, end in zip(found, ends, strict=False)])
    place = torch.tensor(texts).argsort()
    first, *apart = [file.engine for file in found]
    return TokenStates(
        numbers=tuple(file.numbers for file in found),
        starts=starts[place],
        lengths=torch.cat([file.lengths for file in found])[place],
        marks=torch.cat([file.marks for file in found]),
        layers=layers,
        depth=backbone.layers + 1,
        engine=first.way.name,
        precision=first.way.precision,
        says=f"{first.says} {APART}" if apart and apart[0].way != first.way else first.says,
    )


def check_states(
    orders: Sequence[Order],
    corpus: Corpus,
    backbone: Backbone,
    limits: Limits,
    scored: Collection[int] = (),
) -> None:
    """Refuses what would not fit, before anything is read.

    Raises:
        LimitError: The states of all tokens would take more room than this place allows.
    """
    if orders:
        rows = list(zip(corpus.texts, corpus.pairs or [""] * len(corpus), strict=True))
        fine = {rows[row] for row in scored}
        size, each = 0, len(layers_for(orders, backbone)) * backbone.width
        for part, kind in ((set(rows) - fine, ROUGH), (fine, FINE)):
            texts, pairs = [text for text, _ in part], [pair for _, pair in part if corpus.pairs]
            for start in range(0, len(texts), CHUNK):
                some = slice(start, start + CHUNK)
                size += size_of(backbone.encode(texts[some], pairs[some]), each, kind)
        _check_size(size, orders[0], limits)


def _check_size(size: int, order: Order, limits: Limits) -> None:
    if size > limits.states_bytes:
        raise LimitError(
            f"{order.recipe} is learned from the states of all tokens, which would take "
            f"{size / 1e9:,.1f} GB; this place allows {limits.states_bytes / 1e9:,.1f} GB.",
            "Use fewer rows, or leave such recipes out.",
        )
