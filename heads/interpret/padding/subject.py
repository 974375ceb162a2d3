"""A classifier of Transformers as it is, to be asked about one text in many ways.

Legend: n texts, t places of a batch, c classes.
"""

import difflib
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.backbone import panics_refused
from heads.backbone.hub import cached_folder, full_id
from heads.backbone.models import CHOOSE_ANOTHER
from heads.backbone.safety import Checkpoint, admit, check_name
from heads.backbone.tokenizing import load_tokenizer
from heads.backbone.weights import check_size, check_whole, load_weights, room_for
from heads.catalog.base_models import base_of
from heads.catalog.families import FAMILIES
from heads.catalog.forms import Form, setting
from heads.catalog.tiny_models import quiet, tiny_model
from heads.errors import ModelError
from heads.hub import HUB_ID
from heads.interpret.catalog_check import texts
from heads.rng import IsolatedRng
from heads.settings import current_limits

Row = tuple[int, ...]
Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedInput:
    """One way to put a text, alone or with others, before a classifier.

    Attributes:
        rows: Token numbers; what is asked about is the first row.
        side: Where a row that is not the longest is filled up.
        padding: How many places more than the longest row has.
        counted: Whether position numbers are given that begin where the text does.
        pad: The token that the config shall name as padding, and with which rows are filled up;
            "own" is the one that it came with.
    """

    rows: tuple[Row, ...]
    side: Side = "right"
    padding: int = 0
    masked: bool = True
    counted: bool = False
    pad: int | Literal["own"] | None = "own"
    seed: int = 0

    @property
    def tokens(self) -> int:
        """How many a model reads of it, padding included."""
        return len(self.rows) * (max(map(len, self.rows)) + self.padding)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """A classifier with two texts that it can read.

    Attributes:
        form: What the catalogue says of its family, or None.
        texts: Token numbers of a short text and of a longer one.
        ends: Whether a text ends in a token that its tokenizer puts there.
        filler: The number of the token that fills a batch up.
        side: Where its tokenizer, or else its class, has a batch filled up.
        room: How many places it has.
        tiny: Whether it is a small random model of a family.
        new: Tensors of its head that the checkpoint lacks.
    """

    name: str
    model: Any
    form: Form | None
    texts: tuple[Row, ...]
    ends: bool
    eos: int | None
    filler: int
    side: Side
    room: int
    tiny: bool
    new: tuple[str, ...]

    @property
    def pad(self) -> int | None:
        """The token that its config names as padding."""
        return setting(self.model.config, "pad_token_id")

    def takes(self, argument: str) -> bool:
        """Whether its class takes this argument."""
        return argument in inspect.signature(self.model.forward).parameters

    @torch.no_grad()
    def logits(self, question: PaddedInput) -> Tensor:
        """Its answer to the first text, (c,).

        Raises:
            ModelError: It does not take such a question; says in one sentence why.
        """
        logits = self._answer(question)[0]
        if not logits.isfinite().all():
            raise ModelError("It answers with no numbers (NaN).")
        return logits

    def places(self, question: PaddedInput) -> tuple[int, ...]:
        """Which tokens of the first text the head reads, counted from the text's first.

        They are those on whose last states the logits depend. Numbers below 0 and from the
        text's length on are padding. Nothing where it has no state for every token.
        """
        caught: list[Tensor] = []
        hook = self.model.base_model.register_forward_hook(
            lambda _, given, answer: caught.append(answer[0])
        )
        try:
            with torch.enable_grad():
                logits = self._answer(question)[0]
            (gradient,) = torch.autograd.grad(logits.sum(), caught[-1:], allow_unused=True)
        except (ModelError, RuntimeError, ValueError, IndexError):
            return ()  # it reads something else than one tensor of states
        finally:
            hook.remove()
        longest = max(map(len, question.rows)) + question.padding
        if gradient is None or not self.form or self.form.reason:
            return ()
        first = longest - len(question.rows[0]) if question.side == "left" else 0
        read = [place for place, row in enumerate(gradient[0]) if row.any()]
        # A sequence that the model has shortened begins with the same place and no other.
        known = read if gradient.shape[1] == longest else [place for place in read if place == 0]
        return tuple(place - first for place in known)

    def _answer(self, question: PaddedInput) -> Tensor:
        interruption.check()
        inputs = _filled(question, question.pad if isinstance(question.pad, int) else self.filler)
        own = question.pad == "own"
        naming = nullcontext() if own else _naming(self.model.config, question.pad)
        try:
            with quiet(), warnings.catch_warnings(), naming, IsolatedRng(question.seed).rolling():
                warnings.simplefilter("ignore")
                return self.model(**inputs).logits
        except Exception as error:
            raise ModelError(said(error)) from error


def _filled(question: PaddedInput, pad: int) -> dict[str, Tensor]:
    """Token numbers, and mask and positions where they are asked for, (n, t) each."""
    longest = max(map(len, question.rows)) + question.padding
    numbers = torch.full((len(question.rows), longest), pad)
    mask = torch.zeros_like(numbers)
    for place, row in enumerate(question.rows):
        text = slice(0, len(row)) if question.side == "right" else slice(longest - len(row), None)
        numbers[place, text] = torch.tensor(row)
        mask[place, text] = 1
    inputs = {"input_ids": numbers}
    if question.masked:
        inputs["attention_mask"] = mask
    if question.counted:
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    return inputs


@contextmanager
def _naming(config: Any, pad: int | str | None) -> Iterator[None]:
    """Within it, a config and those inside it name this pad token."""
    named = [each for each in _within(config) if "pad_token_id" in vars(each)]
    before = [(each, each.pad_token_id) for each in named]
    try:
        for each in named:
            each.pad_token_id = pad
        yield
    finally:
        for each, own in before:
            each.pad_token_id = own


def _within(config: Any) -> Iterator[Any]:
    """A config and every config inside it."""
    yield config
    for value in vars(config).values():
        if hasattr(value, "get_text_config"):
            yield from _within(value)


def said(error: Exception, folder: Path | None = None) -> str:
    """What a model raised, in one line."""
    text = str(error).replace(str(folder), "its folder") if folder else str(error)
    first = next(iter(text.strip().splitlines()), "")[:200].rstrip(".")
    return f"{type(error).__name__}: {first}." if first else f"{type(error).__name__}."


# --- The models that are examined: from a name to a classifier in memory, as it is.

SENTENCES = (
    " The flight was cancelled twice, and nobody told us why.\n",
    "We waited for five hours at the cafe\u0301\x07, but a friendly woman found two seats for us "
    "on the last train, and so we were home before midnight after all.",
)
TINY_LENGTHS = (9, 21)
TINY_ROOM = 60  # one family has no more than 64 places, whatever its config says


def subject_of(model: str) -> Subject:
    """Finds a classifier: a model on this machine, else a family of which a small one is made.

    Raises:
        ModelError: There is none, or it must not be loaded.
    """
    from transformers.models.auto import modeling_auto
    from transformers.utils import logging

    check_name(model)
    name = model.strip()
    families = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    if name in families:
        here = not current_limits().public and Path(name).is_dir()
        if not here and not (HUB_ID.fullmatch(name) and cached_folder(full_id(name))):
            return _small(name)
    try:
        checkpoint = admit(name)
    except ModelError as error:
        near = difflib.get_close_matches(name[:60], families, n=1, cutoff=0.8)
        hint = f"{error.hint} Or did you mean the family '{near[0]}'?" if near else error.hint
        raise ModelError(error.what, hint) from error
    logging.disable_progress_bar()
    try:
        with quiet():
            return _loaded(checkpoint)
    except ModelError:
        raise
    except Exception as error:
        what = f"{checkpoint.id} cannot be loaded ({said(error, checkpoint.folder)[:-1]})."
        raise ModelError(what, CHOOSE_ANOTHER) from error


def _small(model_type: str) -> Subject:
    """A small random model of a family, as its class and not as the app would have it."""
    from transformers import CONFIG_MAPPING

    with quiet():
        usual = CONFIG_MAPPING[model_type]()
    settings = {key: getattr(usual, key) for key in base_of(model_type).settings}
    model = tiny_model(model_type, **settings).requires_grad_(True)
    form, eos = FAMILIES.get(model_type), setting(model.config, "eos_token_id")
    return Subject(
        name=model_type,
        model=model,
        form=form,
        texts=tuple(
            tuple(t.inputs["input_ids"]) for t in texts(model.config, TINY_LENGTHS, end_place=-1)
        ),
        ends=isinstance(eos, int),
        eos=eos if isinstance(eos, int) else None,
        filler=setting(model.config, "pad_token_id") or 0,
        side="left" if form and form.sides == ("left",) else "right",
        room=TINY_ROOM,
        tiny=True,
        new=(),
    )


def _loaded(checkpoint: Checkpoint) -> Subject:
    """A checkpoint's own classifier, and a sentence or two as its tokenizer cuts them."""
    with panics_refused(checkpoint.id):
        model, new = _classifier(checkpoint)
        tokenizer = load_tokenizer(checkpoint)
        room = room_for(model.base_model, tokenizer)
        short, long = (
            tokenizer(text, truncation=True, max_length=most, return_special_tokens_mask=True)
            for text, most in zip(SENTENCES, (room // 3, 2 * room // 3), strict=True)
        )
    eos = setting(model.config, "eos_token_id")
    eos = eos[0] if isinstance(eos, list) else eos
    eos = tokenizer.eos_token_id if eos is None else eos
    if eos is not None and eos >= (setting(model.config, "vocab_size") or eos + 1):
        eos = None  # a config made small often keeps the number that its large model had
    pads = (tokenizer.pad_token_id, setting(model.config, "pad_token_id"), eos, 0)
    return Subject(
        name=checkpoint.id,
        model=model.eval(),
        form=FAMILIES.get(model.config.model_type),
        texts=(tuple(short["input_ids"]), tuple(long["input_ids"])),
        ends=bool(short["special_tokens_mask"][-1]),
        eos=eos,
        filler=next(number for number in pads if number is not None),
        side="left" if tokenizer.padding_side == "left" else "right",
        room=room,
        tiny=False,
        new=new,
    )


def _classifier(checkpoint: Checkpoint) -> tuple[Any, tuple[str, ...]]:
    """The checkpoint's model as a classifier, and the tensors of its head that the files lack."""
    from transformers import AutoConfig, AutoModelForSequenceClassification
    from transformers.models.auto import modeling_auto

    config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
    if config.model_type not in modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        what = f"Transformers has no classifier of {checkpoint.id}'s type, {config.model_type}."
        raise ModelError(what, CHOOSE_ANOTHER)
    with torch.device("meta"):
        sketch = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    check_size(checkpoint, sketch, sketch.base_model)
    model, missing = load_weights(AutoModelForSequenceClassification, checkpoint, config, sketch)
    base = f"{model.base_model_prefix}."
    needed = {
        base + name for name, _ in sketch.base_model.named_parameters() if "pooler" not in name
    }
    check_whole(checkpoint, [name for name in missing if name in needed])
    return model, tuple(missing)
