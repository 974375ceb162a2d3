"""A way into a base model that can be differentiated: embeddings in the place of tokens.

The model is called as always, with token numbers, so that positions, segments, masks and what
a decoder is given are those of the ordinary path; only what it looks up in its table of tokens
is replaced. That also holds where the table is asked twice, by an encoder and a decoder.
Legend: s copies of one text, t tokens, e width of a token's embedding.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States, layers_of
from heads.errors import ModelError

NOT_TO_BE_HAD = "Look at its pooling's weights, or choose another base model."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One text at the door of a base model: what is looked up of it, and of nothing.

    Attributes:
        special: (t,), true on special tokens; they are the same in the baseline.
        embeddings: (1, t, e), what the model looks up of its tokens.
        baseline: (1, t, e), the same with every other token replaced by the blank.
        blank: The token that stands for no word, as a reader would write it.
    """

    backbone: Backbone
    encoded: Encoded
    special: Tensor
    embeddings: Tensor
    baseline: Tensor
    blank: str

    def states(self, embeddings: Tensor) -> States:
        """The states of copies of the text with other embeddings (s, t, e), differentiable.

        Raises:
            ModelError: The base model does not look its tokens up in a table.
        """
        copies = len(embeddings)
        given = {
            name: tensor.expand(copies, -1)
            for name, tensor in self.backbone.filled([self.encoded]).items()
        }
        with _looked_up(self.backbone, given["input_ids"], embeddings) as used:
            output = self.backbone._answered(given)
        if not used:
            raise _refusal(self.backbone)
        return _states(self.backbone, given, self.special, output)


def entry(backbone: Backbone, encoded: Encoded) -> Entry:
    """Finds the embeddings of a text's tokens and those of its baseline.

    The baseline keeps length, positions and special tokens, and has the mask token at every
    other place, where the tokenizer has one: models trained on masked words (BERT, RoBERTa) have
    learned to read it as "some word", while others, such as ELECTRA's discriminator, may never
    have read it. Where there is none, as in most decoders, it is the token that fills a batch up.

    Source: BERT (Devlin et al. 2019), section 3.1, task 1; ELECTRA (Clark et al. 2020), section 1:
    the discriminator reads sampled tokens, not [MASK].

    Raises:
        ModelError: The base model has no table of tokens.
    """
    table = _tables(backbone)[0]
    numbers = torch.tensor([encoded.inputs["input_ids"]])
    special = torch.tensor(encoded.special, dtype=torch.bool)
    mask = backbone.tokenizer.mask_token_id
    blank = backbone.pad if mask is None else mask
    blanked = torch.where(special, numbers, blank)
    with torch.no_grad():
        embeddings, baseline = table(numbers), table(blanked)
    return Entry(
        backbone=backbone,
        encoded=encoded,
        special=special,
        embeddings=embeddings,
        baseline=baseline,
        blank=backbone.tokenizer.decode([blank]).strip() or "the padding token",
    )


def _tables(backbone: Backbone) -> list[nn.Module]:
    """The modules that look tokens up: one, or an encoder's and a decoder's with one table."""
    try:
        weight = backbone.model.get_input_embeddings().weight
    except (NotImplementedError, AttributeError):
        raise _refusal(backbone) from None
    return [
        module
        for module in backbone.model.modules()
        if isinstance(module, nn.Embedding) and module.weight.data_ptr() == weight.data_ptr()
    ]


def _refusal(backbone: Backbone) -> ModelError:
    what = f"Attributions are not to be had for {backbone.id}: it has no table of tokens."
    return ModelError(what, NOT_TO_BE_HAD)


@contextmanager
def _looked_up(backbone: Backbone, numbers: Tensor, embeddings: Tensor) -> Iterator[list[int]]:
    """Within it, and in this thread alone, those tokens have those embeddings.

    Yields:
        One entry for each time that it came to that.
    """
    used: list[int] = []
    mine = threading.get_ident()  # the model is shared: others may read with it now

    def replaced(_: nn.Module, given: Any, found: Tensor) -> Tensor:
        if threading.get_ident() != mine:
            return found
        other = _replaced(given[0], found, numbers, embeddings)
        if other is None:
            return found
        used.append(1)
        return other

    hooks = [table.register_forward_hook(replaced) for table in _tables(backbone)]
    try:
        yield used
    finally:
        for hook in hooks:
            hook.remove()


def _replaced(asked: Tensor, found: Tensor, numbers: Tensor, embeddings: Tensor) -> Tensor | None:
    """The embeddings of tokens that are asked for, if they are those of the text."""
    if torch.equal(asked, numbers):
        return embeddings
    if torch.equal(asked, numbers.T):  # XLNet lays texts out in columns
        return embeddings.transpose(0, 1)
    if asked.shape == numbers.shape and torch.equal(asked[:, 1:], numbers[:, :-1]):
        return torch.cat([found[:, :1], embeddings[:, :-1]], dim=1)  # a decoder, a place later
    return None


def _states(backbone: Backbone, given: dict[str, Tensor], special: Tensor, output: Any) -> States:
    """As `Backbone.states`, for copies of one text."""
    mask = given["attention_mask"]
    ends = torch.tensor(sorted(backbone.ends))
    return States(
        mask=mask.float(),
        unpadded=backbone._unpadded(given["input_ids"], mask).float(),
        content=(mask * ~special).float(),
        hidden=layers_of(output, mask),
        pooler=getattr(output, "pooler_output", None),
        eos=torch.isin(given["input_ids"], ends).float(),
        **(backbone._decoded(output, mask) if backbone.decoder_width else {}),
    )
