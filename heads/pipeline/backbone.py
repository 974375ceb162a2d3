"""The base model: from gated texts to the states of their tokens.

Legend: n texts, t tokens, d width, l layers.
"""

import inspect
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from heads.errors import ModelError
from heads.parts.models import BUNDLED
from heads.pipeline.gate import Checkpoint, admit
from heads.pipeline.hub import CHOOSE_ANOTHER
from heads.pipeline.states import Encoded, States
from heads.pipeline.weights import (
    Pooler,
    has_separator,
    model_of,
    pooler_of,
    pooler_weights,
    room_for,
    stubborn_tokens,
)
from heads.settings import Limits

TOKENS_A_BATCH = 2048


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backbone:
    """A base model, ready to read.

    Attributes:
        id: The id that the user knows it by.
        revision: Which version of it this is.
        model_type: Its family in Transformers.
        width: d, the size of a token's state.
        layers: l, the number of layers.
        parameters: Their number.
        pooler: Whether its own pooler is pretrained, untrained, new (random), or missing.
        pooler_weights: The tensors of the checkpoint's pooler, named as in the head `bert`.
        tokens: How many tokens of a text are read.
        stubborn: Special tokens that this tokenizer finds in a user's text as well.
        separates: Whether the tokenizer puts a token of its own between two texts.
        reads_padding: Whether a text's states depend on the padding beside it (FNet's do).
    """

    id: str
    revision: str
    model_type: str
    width: int
    layers: int
    parameters: int
    pooler: Pooler
    pooler_weights: dict[str, Tensor]
    tokens: int
    stubborn: frozenset[int]
    separates: bool
    reads_padding: bool
    model: Any
    tokenizer: Any

    def encode(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[Encoded]:
        """Cuts gated texts into tokens; what looks like a special token stays text."""
        if pairs and not self.separates:
            texts, pairs = [f"{a}\n{b}" for a, b in zip(texts, pairs, strict=True)], ()
        given = [list(side) for side in (texts, pairs) if side]
        settings = {"return_special_tokens_mask": True, "padding": False, "verbose": False}
        with _encoding:
            whole = cut = self.tokenizer(*given, **settings)
            if max(map(len, whole["input_ids"])) > self.tokens:
                cut = self.tokenizer(*given, **settings, truncation=True, max_length=self.tokens)
        taken = inspect.signature(self.model.forward).parameters
        names = [name for name in ("input_ids", "token_type_ids") if name in cut and name in taken]
        encoded = [
            Encoded(
                inputs={name: cut[name][row] for name in names},
                special=cut["special_tokens_mask"][row],
                whole_length=len(whole["input_ids"][row]),
            )
            for row in range(len(whole["input_ids"]))
        ]
        for row, text in enumerate(encoded):
            self._check(text, cut.sequence_ids(row) if self.stubborn else [])
        return encoded

    def _check(self, text: Encoded, sides: Sequence[int | None]) -> None:
        """Makes special tokens that stand in a user's text unknown ones; refuses foreign ones."""
        numbers = text.inputs["input_ids"]
        for place, side in enumerate(sides):
            if side is not None and numbers[place] in self.stubborn:
                numbers[place], text.special[place] = self.tokenizer.unk_token_id or 0, 0
        most = self.model.get_input_embeddings().num_embeddings
        if max(numbers, default=0) >= most:
            what = f"The tokenizer of {self.id} knows more tokens than the model has ({most:,})."
            raise ModelError(what, CHOOSE_ANOTHER)

    def words(self, encoded: Encoded) -> list[str]:
        """The tokens of a text as a reader would write them, one for each state."""
        return [
            self.tokenizer.decode([number]).strip() or "␣" for number in encoded.inputs["input_ids"]
        ]

    @torch.no_grad()
    def states(self, batch: Sequence[Encoded]) -> States:
        """One forward pass over texts, padded on the right to the longest of them."""
        longest = max(map(len, batch))
        pad = self.tokenizer.pad_token_id or 0
        filled = {
            name: torch.tensor(
                [
                    text.inputs[name] + [pad if name == "input_ids" else 0] * (longest - len(text))
                    for text in batch
                ]
            )
            for name in batch[0].inputs
        }
        mask = torch.tensor([[1.0] * len(text) + [0.0] * (longest - len(text)) for text in batch])
        special = torch.tensor([text.special + [1] * (longest - len(text)) for text in batch])
        filled["attention_mask"] = mask.long()
        output = self.model(**filled, output_hidden_states=True)
        hidden = output.hidden_states
        padding = (mask == 0)[..., None]
        return States(
            mask=mask,
            content=mask * (special == 0),
            hidden=tuple(states.masked_fill(padding, 0.0) for states in hidden),
            pooler=getattr(output, "pooler_output", None),
        )

    def passes(
        self, texts: Sequence[Encoded], most: int = TOKENS_A_BATCH
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first, in batches of like length.

        Args:
            most: The most texts in a batch.

        Yields:
            The row numbers of a batch and its states.
        """
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        while order:
            longest = len(texts[order[0]])
            count = max(1, min(most, TOKENS_A_BATCH // longest))
            if self.reads_padding:
                count = min(count, sum(len(texts[row]) == longest for row in order))
            rows, order = order[:count], order[count:]
            yield rows, self.states([texts[row] for row in rows])


_encoding = threading.Lock()  # a fast tokenizer must not change its truncation under another call
_loaded: OrderedDict[tuple[str, str, Limits], Backbone] = OrderedDict()
_loading = threading.Lock()


def load(model: str = BUNDLED, *, limits: Limits, download: bool = True) -> Backbone:
    """Brings a base model into memory, or finds it there.

    Raises:
        ModelError: It cannot be reached, or must not be loaded.
    """
    checkpoint = admit(model, limits, download)  # not under the lock: it may download
    with _loading:
        key = (checkpoint.id, checkpoint.revision, limits)
        if key not in _loaded:
            _loaded[key] = _build(checkpoint, limits)
        _loaded.move_to_end(key)
        while len(_loaded) > limits.models_in_memory:
            _loaded.popitem(last=False)
        return _loaded[key]


def _build(checkpoint: Checkpoint, limits: Limits) -> Backbone:
    """Builds an admitted checkpoint; whatever that raises is the checkpoint's fault."""
    from transformers.utils import logging

    # The reports of Transformers go to stderr; what matters of them is said by the page.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return _measured(_assembled(checkpoint, limits))
    except ModelError:
        raise
    except Exception as error:
        first = str(error).strip().split("\n", 1)[0].replace(str(checkpoint.folder), "its folder")
        what = f"{checkpoint.id} cannot be loaded ({type(error).__name__}: {first[:160]})."
        raise ModelError(what, CHOOSE_ANOTHER) from error


def _assembled(checkpoint: Checkpoint, limits: Limits) -> Backbone:
    from transformers import AutoTokenizer

    model, missing = model_of(checkpoint, limits)
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    pooler = pooler_of(encoder, missing)
    in_file = pooler in ("pretrained", "untrained")
    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint.folder, trust_remote_code=False, split_special_tokens=True
    )
    return Backbone(
        id=checkpoint.id,
        revision=checkpoint.revision,
        model_type=model.config.model_type,
        width=0,
        layers=0,
        parameters=sum(tensor.numel() for tensor in encoder.parameters()),
        pooler=pooler,
        pooler_weights=pooler_weights(encoder) if in_file else {},
        tokens=room_for(encoder, tokenizer, limits),
        stubborn=stubborn_tokens(tokenizer),
        separates=has_separator(tokenizer),
        reads_padding=False,
        model=encoder.eval().requires_grad_(False),
        tokenizer=tokenizer,
    )


def _measured(backbone: Backbone) -> Backbone:
    """Reads a text alone and beside a longer one, and takes from that what sizes it has."""
    short, long = backbone.encode(["one two", "one two three four five six seven"])
    alone, beside = backbone.states([short]), backbone.states([short, long])
    width = alone.hidden[-1].shape[-1]
    if any(states.shape != (1, len(short), width) for states in alone.hidden):
        what = f"{backbone.id} does not give one state of one width for every token and layer."
        raise ModelError(what, CHOOSE_ANOTHER)
    last = alone.hidden[-1]
    if not last.isfinite().all():
        raise ModelError(f"{backbone.id} answers with no numbers (NaN).", CHOOSE_ANOTHER)
    difference = (last - beside.hidden[-1][:1, : len(short)]).abs().max()
    return replace(
        backbone,
        width=width,
        layers=len(alone.hidden) - 1,
        reads_padding=bool(difference > 1e-3 * last.abs().max()),
    )
