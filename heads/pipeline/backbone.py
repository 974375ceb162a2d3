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
from torch import Tensor, nn

from heads.errors import ModelError, RecipeError
from heads.parts.models import BUNDLED
from heads.pipeline.gate import Checkpoint, admit
from heads.pipeline.hub import CHOOSE_ANOTHER
from heads.pipeline.weights import Pooler, model_of, pooler_of, room_for, stubborn_tokens
from heads.settings import Limits

TOKENS_A_BATCH = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """What the base model makes of a batch of texts; padding stands on the right.

    Attributes:
        mask: (n, t), 1 on real tokens, 0 on padding.
        content: (n, t), 1 on real tokens that are not special.
        hidden: l + 1 tensors (n, t, d), embeddings first, 0 on padding.
        pooler: (n, d) or None, the base model's own pooler output.
    """

    mask: Tensor
    content: Tensor
    hidden: tuple[Tensor, ...]
    pooler: Tensor | None

    def layer(self, number: int) -> Tensor:
        """The states of one layer: 0 the embeddings, -1 the last, (n, t, d).

        Raises:
            RecipeError: The model has no such layer.
        """
        if number >= len(self.hidden):
            what = f"There is no layer {number}: this base model has 0 to {len(self.hidden) - 1}."
            raise RecipeError(what, "0 is the embeddings.")
        return self.hidden[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One text as the base model takes it: its token numbers and what goes with them."""

    inputs: dict[str, list[int]]
    special: list[int]
    whole_length: int

    def __len__(self) -> int:
        return len(self.special)


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
        pooler: Whether its own pooler is pretrained, new (random), or there is none.
        pooler_weights: The tensors of a pretrained pooler, named as in the head `bert`.
        tokens: How many tokens of a text are read.
        stubborn: Special tokens that this tokenizer would find in a user's text as well.
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
    stubborn: tuple[str, ...]
    model: nn.Module
    tokenizer: Any

    def encode(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[Encoded]:
        """Cuts gated texts into tokens; what looks like a special token stays text."""
        given = [[self._plain(text) for text in side] for side in (texts, pairs) if side]
        settings = {"return_special_tokens_mask": True, "padding": False, "verbose": False}
        with _encoding:
            whole = cut = self.tokenizer(*given, **settings)
            if max(map(len, whole["input_ids"])) > self.tokens:
                cut = self.tokenizer(*given, **settings, truncation=True, max_length=self.tokens)
        taken = inspect.signature(self.model.forward).parameters
        names = [name for name in ("input_ids", "token_type_ids") if name in cut and name in taken]
        return [
            Encoded(
                inputs={name: cut[name][row] for name in names},
                special=cut["special_tokens_mask"][row],
                whole_length=len(whole["input_ids"][row]),
            )
            for row in range(len(whole["input_ids"]))
        ]

    def _plain(self, text: str) -> str:
        for token in self.stubborn:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

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
            count = max(1, min(most, TOKENS_A_BATCH // len(texts[order[0]])))
            rows, order = order[:count], order[count:]
            yield rows, self.states([texts[row] for row in rows])


_encoding = threading.Lock()  # a fast tokenizer must not change its truncation under another call
_loaded: OrderedDict[tuple[str, str], Backbone] = OrderedDict()
_loading = threading.Lock()


def load(model: str = BUNDLED, *, limits: Limits, download: bool = True) -> Backbone:
    """Brings a base model into memory, or finds it there.

    Raises:
        ModelError: It cannot be reached, or must not be loaded.
    """
    with _loading:
        checkpoint = admit(model, limits, download)
        key = (checkpoint.id, str(checkpoint.folder))
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
    weights = encoder.pooler.state_dict() if pooler == "pretrained" else {}
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
        pooler_weights={f"pooler.{name}": tensor for name, tensor in weights.items()},
        tokens=room_for(encoder, tokenizer, limits),
        stubborn=stubborn_tokens(tokenizer),
        model=encoder.eval().requires_grad_(False),
        tokenizer=tokenizer,
    )


def _measured(backbone: Backbone) -> Backbone:
    """Reads one word, and takes width and depth from what comes out."""
    hidden = backbone.states(backbone.encode(["a"])).hidden
    return replace(backbone, width=hidden[-1].shape[-1], layers=len(hidden) - 1)
