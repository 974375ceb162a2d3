"""From a name to a base model in memory.

Legend: t tokens, d width.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from heads import interruption
from heads.backbone.backbone import Backbone, panics_refused
from heads.backbone.downloads import fetching
from heads.backbone.exported import is_exported, read_sentence_vector
from heads.backbone.given import given, is_given
from heads.backbone.models import BUNDLED, CHOOSE_ANOTHER
from heads.backbone.safety import Checkpoint, absent, admit
from heads.backbone.states import Encoded
from heads.backbone.tokenizing import load_tokenizer
from heads.backbone.trained_reading import sentence_config, sentence_modules
from heads.backbone.weights import (
    has_both,
    has_separator,
    model_of,
    pooler_of,
    pooler_weights,
    room_for,
    stubborn_tokens,
)
from heads.catalog.families import FAMILIES
from heads.catalog.forms import setting
from heads.errors import HeadsError, ModelError, RecipeError
from heads.events import Progress
from heads.interruption import Interrupted
from heads.settings import Limits, current_limits

MODELS_IN_MEMORY = 2
POLL = 0.1  # seconds between two looks at whether one that is waited for is still wanted
Key = tuple[str, str, Limits]  # id, revision and what is allowed

_loaded: OrderedDict[Key, Backbone] = OrderedDict()
_names: set[str] = set()  # of all that were ever loaded
_looking = threading.Lock()  # held for a moment
_building = threading.Lock()  # held for seconds: one at a time


def load(model: str = BUNDLED, *, download: bool = True) -> Backbone:
    """Return a base model, from memory or built; raise ModelError if it must not be loaded."""
    if is_given(model):
        return given(model)
    checkpoint = admit(model, download)
    key = checkpoint.id, checkpoint.revision, current_limits()
    if found := _in_memory(key):
        return found  # whoever asks for it waits for no other
    with _turn_to_build():
        found = _in_memory(key) or _build(checkpoint)
        _keep(key, found)
    return found


def _in_memory(key: Key) -> Backbone | None:
    with _looking:
        if key in _loaded:
            _loaded.move_to_end(key)
        return _loaded.get(key)


@contextmanager
def _turn_to_build() -> Iterator[None]:
    """Within it nothing else is built."""
    is_held = False
    try:
        with interruption.outside():
            while not (is_held := _building.acquire(timeout=POLL)):
                interruption.check()
        yield
    finally:
        if is_held:
            _building.release()


def _keep(key: Key, backbone: Backbone) -> None:
    """Keep a model in memory, and drop those used longest ago; the bundled one does not count."""
    with _looking:
        _loaded[key] = backbone
        _names.add(backbone.id)
        bundled = BUNDLED, key[2]
        others = [one for one in _loaded if one != key and (one[0], one[2]) != bundled]
        most = MODELS_IN_MEMORY - (key[0] != BUNDLED)
        for one in others[: max(0, len(others) - most)]:
            del _loaded[one]


def loading(model: str) -> Generator[Progress, None, Backbone]:
    """The same, with how far it is: a model of the Hub may have to be fetched."""
    yield Progress(says=f"Loading {model}", share=0.0)
    if name := absent(model):
        yield from fetching(name)
    return load(model)


def is_loaded(model: str) -> bool:
    """Whether a base model of that name has been in memory since the start."""
    return model.strip() in _names


def _build(checkpoint: Checkpoint) -> Backbone:
    """Builds an admitted checkpoint; whatever that raises is the checkpoint's fault."""
    from transformers.utils import logging

    # The reports of Transformers go to stderr; what matters of them is said by the page.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with panics_refused(checkpoint.id):
            backbone = _assembled(checkpoint)
            texts = ["one two three", "one two three four five six seven eight"]
            short, long = backbone.encode(texts)
            backbone = measured(backbone, short, long)
            with contextlib.suppress(RecipeError):  # whoever asks for that reading is told why
                if is_exported(checkpoint.config):
                    reading = read_sentence_vector(checkpoint.config, checkpoint.folder)
                else:
                    reading = sentence_modules(checkpoint.folder, backbone.width).reading
                backbone = replace(backbone, trained=reading)
            return backbone
    except (HeadsError, Interrupted):
        raise
    except Exception as error:
        first = str(error).strip().split("\n", 1)[0].replace(str(checkpoint.folder), "its folder")
        what = f"{checkpoint.id} cannot be loaded ({type(error).__name__}: {first[:160]})."
        raise ModelError(what, CHOOSE_ANOTHER) from error


def _assembled(checkpoint: Checkpoint) -> Backbone:
    model, missing = model_of(checkpoint)
    tokenizer = load_tokenizer(checkpoint, split_special_tokens=True)
    lacking = any(name.startswith("decoder.") for name in missing)
    if has_both(model) and (lacking or model.config.model_type not in FAMILIES):
        model = model.get_encoder()  # how the decoder is fed is known of classifiers only
    written = checkpoint.config.get("most_windows") if is_exported(checkpoint.config) else None
    windows = current_limits().windows
    if type(written) is int and written > 0:
        windows = min(written, windows)  # an exported head was written for no more
    backbone = around(model, id=checkpoint.id, revision=checkpoint.revision, missing=missing)
    sentences = sentence_config(checkpoint.folder)
    pad = tokenizer.pad_token_id
    return replace(
        backbone,
        folder=checkpoint.folder,
        tokens=room_for(model, tokenizer, sentences.tokens),
        windows=windows,
        sentences=sentences,
        stubborn=stubborn_tokens(tokenizer),
        separates=has_separator(tokenizer),
        pad=backbone.pad if pad is None else pad,
        ends=backbone.ends or frozenset({tokenizer.eos_token_id} - {None}),
        tokenizer=tokenizer,
    )


def around(model: Any, *, id: str, revision: str, missing: list[str]) -> Backbone:
    """Return a backbone around a model without tokenizer, given the tensors its files lack."""
    config = model.config
    pooler = pooler_of(model, missing)
    in_file = pooler in ("pretrained", "untrained")
    ends, pad = setting(config, "eos_token_id"), setting(config, "pad_token_id")
    form = FAMILIES.get(config.model_type)
    # Such a class takes for its last token the last one that is not padding.
    picks_by_number = form is not None and form.late and form.recipe.startswith("last")
    return Backbone(
        id=id,
        revision=revision,
        model_type=config.model_type,
        decoder_width=int(has_both(model)),
        shifted=form is not None and form.shifted,
        parameters=sum(tensor.numel() for tensor in model.parameters()),
        pooler=pooler,
        pooler_weights=pooler_weights(model) if in_file else {},
        pad=pad or 0,
        ends=frozenset(ends if isinstance(ends, list) else [ends]) - {None},
        skipped=pad if picks_by_number else None,
        model=model.eval().requires_grad_(False),
    )


def measured(backbone: Backbone, short: Encoded, long: Encoded) -> Backbone:
    """Reads a text alone and beside a longer one, and takes from that what sizes it has."""
    alone, beside = backbone.states([short]), backbone.states([short, long])
    last = alone.hidden[-1]
    if last.shape[:2] != (1, len(short)):
        raise ModelError(f"{backbone.id} does not give one state for every token.", CHOOSE_ANOTHER)
    if not last.isfinite().all():
        raise ModelError(f"{backbone.id} answers with no numbers (NaN).", CHOOSE_ANOTHER)
    difference = (last - beside.hidden[-1][:1, : len(short)]).abs().max()
    return replace(
        backbone,
        width=last.shape[-1],
        layers=len(alone.hidden) - 1,
        decoder_width=0 if alone.decoder is None else alone.decoder.shape[-1],
        reads_padding=backbone.shifted or bool(difference > 1e-3 * last.abs().max()),
    )
