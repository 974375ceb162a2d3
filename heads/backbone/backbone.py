"""The base model: from texts to the states of their tokens.

Legend: n texts, t tokens, d width, l layers.
"""

import inspect
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.device import HERE, tokens_at_once
from heads.backbone.states import Encoded, States, filled_up, layers_of, like_length
from heads.backbone.trained_reading import SentenceConfig, TrainedReading
from heads.backbone.windows import whole_text, windows_of, with_whole_texts
from heads.catalog.base_models import base_of
from heads.catalog.forms import Side
from heads.data.text import CONTROLS
from heads.errors import DataError, ModelError, RecipeError
from heads.parts.resolved_recipe import PREFIX, STRIDE, USUAL_STRIDE, ResolvedRecipe
from heads.rng import IsolatedRng

TOKENS_A_BATCH = 2048
A_NAME = re.compile(r"[\w-]+( [\w-]+)*")  # what may be the name of a prompt, and is no prompt
# `untrained`: its tensors stand in the checkpoint, but nothing has ever been learned into them.
Pooler = Literal["pretrained", "untrained", "new", "none"]
# A fast tokenizer must not change its truncation under another call.
_locks = WeakKeyDictionary[Any, threading.Lock]()


@contextmanager
def panics_refused(name: str) -> Iterator[None]:
    """Turn a panic of the tokenizer of `name`, which no `except` catches, into ModelError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        what = f"The tokenizer of {name} fails on this text."
        raise ModelError(what, "Choose another base model.") from None


class NoModel:
    """Stands where a model would, if vectors come from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backbone:
    """A base model, ready to read.

    Attributes:
        folder: Where its checkpoint lies; None if it was never on disk.
        model_type: Its family in Transformers.
        width: d, the size of a token's state.
        layers: l, the number of layers; 0 where it gives the states of the last one only.
        decoder_width: Size of a state of the decoder that stands on the encoder; 0 without one.
        shifted: Whether that decoder is read one place further than the text.
        pooler: Whether its own pooler is pretrained, untrained, new (random), or missing.
        pooler_weights: The tensors of the checkpoint's pooler, named as in the head `bert`.
        tokens: How many tokens of a text are read.
        stubborn: Special tokens that this tokenizer finds in a user's text as well.
        separates: Whether the tokenizer puts a token of its own between two texts.
        pad: The number of the token that fills a batch up.
        ends: The numbers of the tokens that end a text.
        skipped: The token that the family's class takes for padding wherever it ends a text,
            so that its last token is another one; in a GPT-2 with pad = eos, the end token.
        reads_padding: Whether a text's states depend on the padding beside it (FNet's do).
        prompt: The tokens that are written behind every text, [MASK] among them.
        prefix: The text that is written before every text, such as "query: ".
        reads_prefix: Whether poolings read the tokens of the prefix with those of the text; if not,
            neither those nor the special tokens before them.
        stride: How many tokens a window shares with the one before, where texts that are longer
            than `tokens` are read in windows; None where they are cut.
        windows: How many windows of a text are read at most; what stands behind them is cut.
        trained: What its sentence-transformers modules make of a text; None where it has none.
        sentences: What its sentence-transformers configuration says of prompts and lengths.
        before: The same base model before it learned with a head; None where it never did.
    """

    id: str
    revision: str
    folder: Path | None = None
    model_type: str
    width: int = 0
    layers: int = 0
    decoder_width: int = 0
    shifted: bool = False
    parameters: int = 0
    pooler: Pooler = "none"
    pooler_weights: dict[str, Tensor] = field(default_factory=dict)
    tokens: int = 0
    stubborn: frozenset[int] = frozenset()
    separates: bool = False
    pad: int = 0
    ends: frozenset[int] = frozenset()
    skipped: int | None = None
    reads_padding: bool = False
    model: Any
    tokenizer: Any = None
    prompt: tuple[int, ...] = ()
    prefix: str = ""
    reads_prefix: bool = True
    stride: int | None = None
    windows: int = 64
    trained: TrainedReading | None = None
    sentences: SentenceConfig = field(default_factory=SentenceConfig)
    before: "Backbone | None" = None

    @property
    def untuned(self) -> "Backbone":
        """The base model that the process shares: what it learned with a head is not in it."""
        return self.before or self

    @property
    def is_given(self) -> bool:
        """Whether it only stands where a base model would: vectors come from elsewhere."""
        return isinstance(self.model, NoModel)

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return next(self.model.parameters()).device

    @property
    def written(self) -> tuple[object, ...]:
        """What is written around every text; nothing where nothing is: states are alike by it."""
        before = (self.prefix, self.reads_prefix) if self.prefix else ()
        return (*before, *self.prompt)

    @property
    def way(self) -> tuple[object, ...]:
        """How texts are read: what is written around them, and whether long ones are cut."""
        return (*self.written, self.stride)

    def covers(self, other: "Backbone") -> bool:
        """Whether its pass over texts gives what another's does: texts as they are cut as well."""
        return self.written == other.written and other.stride in (None, self.stride)

    @property
    def reach(self) -> int:
        """How many tokens of a text are read at most, those that stand around it among them."""
        if self.stride is None:
            return self.tokens
        with self._tokenizing():
            around = len(self.tokenizer(self.prefix)["input_ids"]) + len(self.prompt)
        room = max(1, self.tokens - around)
        return self.tokens + (self.windows - 1) * (room - min(self.stride, room // 2))

    def written_as(self, other: "Backbone") -> "Backbone":
        """The same base model, which reads texts as another does: prompts, and windows."""
        if self.way == other.way:
            return self
        own = ("prompt", "prefix", "reads_prefix", "stride")
        return replace(self, **{name: getattr(other, name) for name in own})

    def for_recipe(self, resolved: ResolvedRecipe) -> "Backbone":
        """Return the base model that writes around texts, and cuts them, as a recipe does.

        Raises:
            RecipeError: It has no prompt of that name, its tokenizer no mask token, or its windows
                are too short to share so many tokens.
        """
        prefix, reads_prefix = resolved.prefix, resolved.reads_prefix
        if resolved.pooling.is_trained:
            prefix = prefix or self.sentences.default_prompt
            reads_prefix &= self.trained is None or self.trained.reads_prompt
        prefix, found = self._prefix(prefix), self.prompted(resolved.prompt)
        found = found._windowed(resolved.stride)
        if prefix == found.prefix and (not prefix or reads_prefix == found.reads_prefix):
            return found  # the same one, by which heads that read alike are known
        return replace(found, prefix=prefix, reads_prefix=reads_prefix)

    def _windowed(self, stride: int | None) -> "Backbone":
        """The same base model, whose windows share so many tokens; None where texts are cut."""
        if stride == self.stride:
            return self
        most = self.tokens // 2
        if stride is not None and stride > most and stride != USUAL_STRIDE:
            what = f"{self.id} reads {self.tokens} tokens at once, of which two windows can share "
            raise RecipeError(f"{what}{most}, not {stride}.", f"Write {STRIDE}={most} or less.")
        return replace(self, stride=stride)

    def _prefix(self, asked: str) -> str:
        """What is written before a text: the prompt of that name, or the text itself."""
        named = {name.replace("_", " "): text for name, text in self.sentences.prompts.items()}
        if asked in named or not A_NAME.fullmatch(asked):
            return named.get(asked, asked)
        # E5's is "query: ", and "query" alone, which no space parts from the text, would be a slip.
        known = ", ".join(self.sentences.prompts) or "none"
        what = f"{self.id} has no prompt called '{asked[:80]}' (it has: {known})."
        raise RecipeError(what, f"Write the text itself, for example {PREFIX}=query:_.")

    def prompted(self, prompt: str) -> "Backbone":
        """Return it with a prompt (_ for a space) and [MASK] behind texts, or raise RecipeError."""
        if not prompt:
            return replace(self, prompt=()) if self.prompt else self
        token = self.tokenizer.mask_token_id
        if token is None or token >= vocabulary_of(self.model) > 0:
            what = f"{self.id} has no mask token, so it cannot be asked to fill one in."
            raise RecipeError(what, "Take another pooling, for example mean or last.")
        with self._tokenizing():
            before, after = (
                self.tokenizer(words, add_special_tokens=False)["input_ids"]
                for words in (f" {prompt.replace('_', ' ').strip()}", ".")
            )
        return replace(self, prompt=(*before, token, *after))

    def _with_prompt(self, text: Encoded) -> Encoded:
        """Return a text, and its windows, with the prompt behind its last word.

        Of the prompt only [MASK] counts as content.
        """
        words = [place for place, special in enumerate(text.special) if not special]
        end, size = max(words, default=0) + 1, len(self.prompt)
        added = {name: row[end - 1 : end] * size for name, row in text.inputs.items()}
        added["input_ids"] = [*self.prompt]
        marks = [int(number != self.tokenizer.mask_token_id) for number in self.prompt]
        return Encoded(
            inputs={n: [*row[:end], *added[n], *row[end:]] for n, row in text.inputs.items()},
            special=[*text.special[:end], *marks, *text.special[end:]],
            whole_length=text.whole_length + size,
            windows=tuple(map(self._with_prompt, text.windows)),
            counted=(*text.counted[:end], *[1] * size, *text.counted[end:]) if text.counted else (),
        )

    def check_reads(self) -> None:
        """Raise DataError for texts where vectors come from a model that is not known here."""
        if self.is_given:
            what = f"The heads learned from vectors of {self.width:,} numbers, and which model "
            hint = "Give vectors of that model: heads predict new.parquet --run RUN."
            raise DataError(f"{what}made these is not known here, so it reads no text.", hint)

    def encode(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[Encoded]:
        """Cut texts, as they stand, into tokens; raise DataError if vectors come from elsewhere."""
        self.check_reads()
        texts = [f"{self.prefix}{text}" for text in texts] if self.prefix else texts
        if pairs and not self.separates:
            texts, pairs = [f"{a}\n{b}" for a, b in zip(texts, pairs, strict=True)], ()
        given = [list(side) for side in (texts, pairs) if side]
        settings = {"return_special_tokens_mask": True, "padding": False, "verbose": False}
        with self._tokenizing():
            whole = cut = self.tokenizer(*given, **settings)
            most = self.tokens - len(self.prompt)
            if max(map(len, whole["input_ids"])) > most:
                cut = self.tokenizer(*given, **settings, truncation=True, max_length=most)
        taken = _arguments(type(self.model))
        names = [name for name in ("input_ids", "token_type_ids") if name in cut and name in taken]
        columns = [cut[name] for name in names]  # looking one up for every text takes its time
        rows = zip(*columns, strict=True)
        encoded = [
            Encoded(
                inputs=dict(zip(names, row, strict=True)), special=special, whole_length=len(every)
            )
            for row, special, every in zip(
                rows, cut["special_tokens_mask"], whole["input_ids"], strict=True
            )
        ]
        known = vocabulary_of(self.model)
        for row, text in enumerate(encoded):
            self._check(text, cut.sequence_ids(row) if self.stubborn else [], known)
        size = self.prefix_tokens
        if self.stride is not None and not pairs:
            for row, text in enumerate(encoded):
                if text.whole_length > most:
                    every = self._whole(whole, row, names)
                    windows = windows_of(
                        every, most, stride=self.stride, prefix=size, limit=self.windows
                    )
                    encoded[row] = replace(text, windows=windows)
        if self.prefix:
            encoded = [self._with_prefix(text, size) for text in encoded]
        return [self._with_prompt(text) for text in encoded] if self.prompt else encoded

    @contextmanager
    def _tokenizing(self) -> Iterator[None]:
        """Let one call at a time use the tokenizer."""
        with _locks.setdefault(self.tokenizer, threading.Lock()), panics_refused(self.id):
            yield

    def _whole(self, whole: Any, row: int, names: Sequence[str]) -> Encoded:
        """A text without a limit, as the tokenizer gave it."""
        text = Encoded(
            inputs={name: list(whole[name][row]) for name in names},
            special=list(whole["special_tokens_mask"][row]),
            whole_length=len(whole["input_ids"][row]),
        )
        sides = whole.sequence_ids(row) if self.stubborn else []
        self._check(text, sides, vocabulary_of(self.model))
        return text

    @property
    def prefix_tokens(self) -> int:
        """How many tokens the prefix puts before a text, counted as sentence-transformers does."""
        if not self.prefix:
            return 0
        with self._tokenizing():
            alone = self.tokenizer(self.prefix, return_special_tokens_mask=True)
        return len(alone["input_ids"]) - alone["special_tokens_mask"][-1]

    def _with_prefix(self, text: Encoded, size: int) -> Encoded:
        """A text whose prefix counts as no content, and where it is not read, not at all."""
        size = min(size, len(text) - 1)
        return replace(
            text,
            special=[1] * size + text.special[size:],
            unread=0 if self.reads_prefix else size,
            windows=tuple(self._with_prefix(window, size) for window in text.windows),
        )

    def _check(self, text: Encoded, sides: Sequence[int | None], most: int) -> None:
        """Makes special tokens that stand in a user's text unknown ones; refuses foreign ones."""
        numbers = text.inputs["input_ids"]
        for place, side in enumerate(sides):
            if side is not None and numbers[place] in self.stubborn:
                numbers[place], text.special[place] = self.tokenizer.unk_token_id or 0, 0
        if max(numbers, default=0) >= most > 0:
            what = f"The tokenizer of {self.id} knows more tokens than the model has ({most:,})."
            raise ModelError(what, "Choose another base model.")

    def words(self, encoded: Encoded) -> list[str]:
        """Return the tokens of a text as they can be shown, one for each state."""
        numbers = encoded.inputs["input_ids"]
        with self._tokenizing():
            words = [self.tokenizer.decode([number]) for number in numbers]
        return [CONTROLS.sub("\ufffd", word.strip()) or "␣" for word in words]

    @torch.no_grad()
    def states(self, batch: Sequence[Encoded], side: Side = "right") -> States:
        """Encode texts in one forward pass, padded on one side to the longest of them."""
        interruption.check()
        return self.forward(batch, side)

    def forward(self, batch: Sequence[Encoded], side: Side = "right") -> States:
        """Encode texts as `states` does, with gradients where the model's parameters need them."""
        inputs = self.filled(batch, side)
        numbers, mask = inputs["input_ids"], inputs["attention_mask"]
        special = filled_up([text.special for text in batch], 1, side).to(mask.device).bool()
        read = self._read_mask(batch, mask, side)
        return self.build_states(self.answer(inputs), numbers, mask, special, read)

    def build_states(
        self,
        output: Any,
        numbers: Tensor,
        mask: Tensor,
        special: Tensor,
        read: Tensor | None = None,
    ) -> States:
        """Return the states of texts from the model's answer.

        Args:
            numbers: (n, t), the tokens.
            mask: (n, t), 1 on real ones.
            special: (n, t), true on those that are no content.
            read: (n, t), the mask less what no pooling reads. Default: the mask.
        """
        read = mask if read is None else read
        ends = torch.tensor(sorted(self.ends) or [-1], device=mask.device)
        return States(
            mask=read.float(),
            unpadded=self._unpadded(numbers, read).float(),
            content=(read * ~special).float(),
            hidden=layers_of(output, mask),
            pooler=getattr(output, "pooler_output", None),
            eos=(numbers[..., None] == ends).any(dim=-1).float(),  # isin has no ONNX
            **(self._decoded(output, mask) if self.decoder_width else {}),
        )

    def _read_mask(self, batch: Sequence[Encoded], mask: Tensor, side: Side) -> Tensor:
        """The mask (n, t) less the tokens before a text that are not read."""
        if not any(text.unread for text in batch):
            return mask
        rows = [[0] * text.unread + [1] * (len(text) - text.unread) for text in batch]
        return filled_up(rows, 0, side).to(mask.device)

    def _unpadded(self, numbers: Tensor, mask: Tensor) -> Tensor:
        """The mask (n, t) less the tokens at a text's end that its class takes for padding."""
        if self.skipped is None:
            return mask
        wanted = mask * (numbers != self.skipped)
        behind = wanted.flip(1).cumsum(dim=1).flip(1)  # how many wanted ones are still to come
        return torch.where(wanted.any(dim=1, keepdim=True), mask * (behind > 0), mask)

    def _decoded(self, output: Any, mask: Tensor) -> dict[str, Tensor]:
        """The decoder's states, 0 where they are not read, and where they are."""
        read = mask
        if self.shifted:  # it stands one place further on as well
            further = torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1)
            read = torch.maximum(mask, further)
        states = output.last_hidden_state.masked_fill((read == 0)[..., None], 0.0)
        return {"decoder": states, "decoder_mask": read.float()}

    def filled(self, batch: Sequence[Encoded], side: Side = "right") -> dict[str, Tensor]:
        """What the model takes, (n, t) each: token numbers, mask and the like, filled up."""
        rows = {name: [text.inputs[name] for text in batch] for name in batch[0].inputs}
        filled = {
            name: filled_up(row, self.pad if name == "input_ids" else 0, side)
            for name, row in rows.items()
        }
        filled["attention_mask"] = filled_up([[1] * len(text) for text in batch], 0, side)
        return {name: numbers.to(self.device) for name, numbers in filled.items()}

    def answer(self, inputs: dict[str, Tensor]) -> Any:
        """Return the model's answer, or raise ModelError for texts that it cannot read."""
        try:
            return self.run(inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            first, numbers = str(error).strip().split("\n", 1)[0][:120], inputs["input_ids"]
            what = f"{self.id} cannot read a text of {numbers.shape[1]} tokens ({first})."
            do = "Try another text, or another base model."
            if numbers.device != HERE:
                do = "Hide the GPU with an empty CUDA_VISIBLE_DEVICES, or take another base model."
            raise ModelError(what, do) from error

    def run(self, inputs: dict[str, Tensor]) -> Any:
        """The model's own answer, given what its family's classifier gives it besides."""
        given: dict[str, Any] = dict(inputs)
        if "use_cache" in _arguments(type(self.model)):
            given["use_cache"] = False  # nothing is generated here
        if base_of(self.model_type).marks_first:
            first = torch.zeros_like(inputs["input_ids"])
            first[:, 0] = 1
            given["global_attention_mask"] = first
        shift = getattr(self.model, "_shift_right", None) or getattr(
            self.model, "prepare_decoder_input_ids_from_labels", None
        )
        if self.decoder_width and shift is not None:  # BART and its kin do so for themselves
            given["decoder_input_ids"] = shift(inputs["input_ids"])
        if not base_of(self.model_type).settings:
            return self.model(**given, output_hidden_states=True)
        with IsolatedRng().rolling():  # Reformer seeds torch itself
            return self.model(**given, output_hidden_states=True)

    def passes(
        self,
        texts: Sequence[Encoded],
        most: int = TOKENS_A_BATCH,
        layers: Collection[int] | None = None,
    ) -> Iterator[tuple[list[int], States]]:
        """Reads any number of texts, the longest first, in batches of like length.

        Args:
            most: The most texts in a batch.
            layers: The numbers of those that are kept of texts with several windows; None for all.

        Yields:
            The row numbers of a batch and its states. A text that is read in windows comes a second
            time by itself: at first it is cut, and then its rows are its windows.
        """
        kept = range(self.layers + 1) if layers is None else layers
        return with_whole_texts(partial(self._batches, most=most), texts, kept)

    def whole_text(
        self, text: Encoded, cut: States, layers: Collection[int] | None = None
    ) -> States:
        """Return the states of all windows of a text, given those (1, t) of the cut text."""
        kept = range(self.layers + 1) if layers is None else layers
        return whole_text(text, cut, partial(self._batches, most=TOKENS_A_BATCH), kept)

    def _batches(self, texts: Sequence[Encoded], most: int) -> Iterator[tuple[list[int], States]]:
        lengths, tokens = list(map(len, texts)), tokens_at_once(self.device)
        for rows in like_length(lengths, most, tokens, self.reads_padding):
            yield rows, self.states([texts[row] for row in rows])


@cache
def _arguments(kind: Any) -> frozenset[str]:
    """What the forward of a class of models takes."""
    return frozenset(inspect.signature(kind.forward).parameters)


def vocabulary_of(model: Any) -> int:
    """How many tokens a model knows; 0 where it has no such table, as CANINE."""
    try:
        return model.get_input_embeddings().num_embeddings
    except (NotImplementedError, AttributeError):
        return 0
