"""A trained head on its base model as the folder of a model of Transformers, and its proof.

Where a class of Transformers computes the same, the folder is that class's own; else it is one of
`HeadForSequenceClassification`, with its code.
"""

import contextlib
import copy
import importlib.util
import json
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.tokenizing import isolate_alike
from heads.catalog.forms import Side
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import ConfigExtras, write_extras
from heads.classifier.modeling_source import TEMPLATE
from heads.classifier.module import TrainedHead
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.matching import Equivalent
from heads.exporters.model_card import Publication, model_card
from heads.exporters.tokenizer import build_recipe_tokenizer, save_tokenizer, tokenizer_of
from heads.exporters.verification import first_line, verify_logits
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, SINGLE_OUTPUT
from heads.rng import IsolatedRng

ROUNDING = 1e-5  # of logits, in proportion to them where they are above 1
SEVERAL = MULTI_LABEL.name
NATIVE_USE = """\
from transformers import pipeline

classify = pipeline("text-classification", {folder}, top_k=None)
print(classify({text}, truncation=True))"""
HEAD_USE = """\
from transformers import pipeline

classify = pipeline("text-classification", {folder}, top_k=None, trust_remote_code=True)
print(classify({text}, truncation=True))

# Where Head to Head is installed, no code of the folder is run:
# import heads; classify = pipeline("text-classification", {folder}, top_k=None)"""
ONE_OR_TWO = (
    '"Not bad at all."',
    '{"text": "The bridge is closed.", "text_pair": "The bridge is shut."}',
)


class Written(NamedTuple):
    """The class that was written, the largest difference of logits, notes, and how to use it."""

    called: str
    difference: float
    notes: tuple[str, ...]
    usage: str


def write_native(
    classifier: Classifier,
    native: Equivalent,
    path: Path,
    name: str,
    published: Publication | None = None,
) -> Written:
    """Fill a folder with config, weights, tokenizer and card, and load it as anybody would.

    Args:
        path: An empty folder.
        name: What it will be called.
        published: What is said of it on the Hub.

    Raises:
        CheckpointError: It does not load whole, or answers otherwise.
    """
    tokenizer = tokenizer_of(classifier)
    config = config_of(classifier, native.config, tokenizer)
    model = filled_with(classifier.backbone, native, config)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    notes = notes_of(classifier, native)
    text = ONE_OR_TWO[classifier.head.paired]
    use = NATIVE_USE.format(folder=json.dumps(name), text=text)
    card = model_card(classifier, use, notes, published=published)
    (path / "README.md").write_text(card, "utf-8")
    difference = compared(classifier, _loaded(classifier, path), path, native.side)
    return Written(type(model).__name__, difference, tuple(notes), use)


def write_head_model(
    classifier: Classifier, why: str, path: Path, name: str, published: Publication | None = None
) -> Written:
    """Fill a folder with a `HeadForSequenceClassification`, its code and its card, and load it.

    Args:
        why: Why it is no class of Transformers, in one sentence.
        path: An empty folder.
        name: What it will be called.
        published: What is said of it on the Hub.

    Raises:
        RecipeError: No model of Transformers computes the recipe, or a part cannot go along.
        CheckpointError: It does not load whole, or answers otherwise.
    """
    from heads.classifier.head_model import build_config, build_model

    head, backbone = classifier.head, classifier.backbone
    resolved = head.module.reader.resolved
    config = build_config(head.module, backbone, len(classifier.classes))
    if head.paired and backbone.prefix and not resolved.pair:
        what = f"{resolved.recipe} writes a prefix before the first of two texts only."
        raise RecipeError(what, "Train it without a prefix, or with pair=.")
    tokenizer = build_recipe_tokenizer(classifier)
    model = build_model(head.module, backbone, config_of(classifier, config, tokenizer))
    model.save_pretrained(path)
    save_tokenizer(tokenizer, path)
    code = f"Its code is {TEMPLATE.name} in this folder; it needs torch and transformers only."
    notes = [why, code, *_notes(classifier)]
    text = ONE_OR_TWO[head.needs_pairs]
    use = HEAD_USE.format(folder=json.dumps(name), text=text)
    card = model_card(classifier, use, notes, has_code=True, published=published)
    (path / "README.md").write_text(card, "utf-8")
    with _class_in(path) as kind:
        difference = compared(classifier, _loaded(classifier, path, kind), path)
    return Written(type(model).__name__, difference, tuple(notes), use)


def config_of(classifier: Classifier, config: Any, tokenizer: Any) -> Any:
    """A copy of a config, with what is known of the head's classes and answers."""
    config = copy.deepcopy(config)
    config.id2label = dict(enumerate(classifier.classes))
    config.label2id = {name: number for number, name in enumerate(classifier.classes)}
    head = classifier.head
    votes = head.problem is ONE_VERSUS_REST
    if head.problem is not SINGLE_OUTPUT:  # which has no such name
        config.problem_type = SEVERAL if votes else head.problem.name
    marks = ConfigExtras(
        votes=votes,
        temperature=head.temperature,
        thresholds=head.thresholds,
        paired=head.paired,
    )
    write_extras(config, classifier.classes, marks)
    for inner in {id(found): found for found in (config, config.get_text_config())}.values():
        inner.pad_token_id = tokenizer.pad_token_id  # by it the class finds a text's last token
    return config


def filled_with(backbone: Backbone, native: Equivalent, config: Any) -> Any:
    """The model of the class, with the tensors of a base model and those of our head.

    Raises:
        CheckpointError: One of them has no source here.
    """
    from transformers import AutoModelForSequenceClassification

    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config)
    model.load_state_dict(_state(backbone, native, model), strict=False, assign=True)
    return model


def of_head(native: Equivalent, model: Any) -> dict[str, Tensor]:
    """The tensors of our head under their names in the class."""
    prefix, base = native.recipe.head.prefix, model.base_model_prefix
    return {native.form.name_of(n, prefix, base): own for n, own in native.tensors.items()}


def _state(backbone: Backbone, native: Equivalent, model: Any) -> Mapping[str, Tensor]:
    prefix = f"{model.base_model_prefix}."
    state = {prefix + n: t for n, t in backbone.model.state_dict().items()}
    state |= of_head(native, model)
    wanted = model.state_dict()
    lacking = [name for name in wanted if name not in state]
    if lacking:
        what = f"{type(model).__name__} has a tensor {lacking[0]} that nothing here holds."
        raise CheckpointError(what, "Export another recipe.")
    return {name: tensor.contiguous() for name, tensor in state.items() if name in wanted}


def notes_of(classifier: Classifier, native: Equivalent) -> list[str]:
    """What one should know of the class, a sentence each."""
    notes = [native.differs] if native.differs else []
    if native.recipe.head.name != classifier.recipe.head:
        notes.append(f"Once trained, {classifier.recipe} is the same function as {native.recipe}.")
    return [*notes, *_notes(classifier)]


def _notes(classifier: Classifier) -> Iterator[str]:
    """Yield what one should know of answers and tokens, whichever class it is."""
    backbone = classifier.backbone
    yield from _answers(classifier.head)
    if backbone.tokenizer.pad_token is None:
        yield (
            "Its tokenizer had no padding token; it now pads with its end-of-text token, so that "
            "a text which itself ends in that token is read one token earlier."
        )
    if backbone.stubborn:
        yield "Words that look like its special tokens count as such in this class."
    if not backbone.separates and not classifier.head.module.is_siamese:
        yield "A second text comes after the first one and a line break."


def _answers(head: TrainedHead) -> Iterator[str]:
    """How Transformers takes its logits, where that is not how one would expect."""
    if head.problem is ONE_VERSUS_REST:
        yield (
            f"One class applies, and each is a yes-or-no question: as {SEVERAL}, Transformers' "
            "pipeline gives each class its own probability, and the answer is the largest. "
            "heads.load puts them to the vote again: their shares of the sum."
        )
    if not head.problem.has_classes:
        yield (
            "It gives a number: as a regression, Transformers' pipeline applies no function to it, "
            "and what it calls the score is the number."
        )
    if head.thresholds:
        yield (
            "Transformers' pipeline gives every label's probability and decides nothing: a label "
            "applies above its own one in model.config.thresholds. heads.load reads them."
        )


def _loaded(classifier: Classifier, path: Path, kind: Any = None) -> Any:
    """Return the model of a folder, loaded as anybody would.

    Args:
        kind: Its class; that which Transformers finds for its configuration, if not given.

    Raises:
        CheckpointError: Tensors are missing or left over.
    """
    from transformers import AutoModelForSequenceClassification

    model, report = (kind or AutoModelForSequenceClassification).from_pretrained(
        path,
        output_loading_info=True,
        attn_implementation=classifier.backbone.model.config._attn_implementation,
    )
    odd = [str(key) for keys in report.values() for key in keys]
    if odd:
        what = f"What was written does not load whole: {odd[0]}."
        raise CheckpointError(what, "Export another recipe, and tell us of this one.")
    return model


@contextlib.contextmanager
def _class_in(path: Path) -> Iterator[Any]:
    """Yield the class that a folder's own file defines, as if this package were not there."""
    name = f"exported_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, path / TEMPLATE.name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], before = module, sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
        yield module.HeadForSequenceClassification
    except HeadsError:
        raise
    except Exception as error:
        what = f"What was written does not load ({type(error).__name__}: {first_line(error)})."
        raise CheckpointError(what, "It was not kept.") from error
    finally:
        sys.dont_write_bytecode = before
        del sys.modules[name]


def compared(classifier: Classifier, model: Any, path: Path, side: Side = "right") -> float:
    """Return the largest difference of two logits between a loaded model and us.

    Args:
        path: The folder of the tokenizer.
        side: The side of padding on which the class is defined.

    Raises:
        CheckpointError: They differ.
    """
    from transformers import AutoTokenizer

    backbone = classifier.backbone
    tokenizer = isolate_alike(AutoTokenizer.from_pretrained(path), backbone.tokenizer)
    is_siamese = classifier.head.module.is_siamese
    # The model itself splits two texts, or cuts windows: it needs what the tokenizer gives.
    has_own_way = is_siamese or backbone.stride is not None

    def tokens(texts: Sequence[str], pairs: Sequence[str]) -> Mapping[str, Tensor]:
        if (backbone.stubborn or not backbone.separates) and not has_own_way:
            # Where our own way of cutting differs.
            padding = replace(backbone, pad=tokenizer.pad_token_id)
            return padding.filled(backbone.encode(texts, pairs), side)
        encoded = tokenizer(*[list(part) for part in (texts, pairs) if part], truncation=True)
        for row, numbers in enumerate(encoded["input_ids"] if backbone.stubborn else ()):
            for index, of_text in enumerate(encoded.sequence_ids(row)):
                if of_text is not None and numbers[index] in backbone.stubborn:
                    numbers[index] = tokenizer.unk_token_id or 0  # as we read such words
        # Pad the batch here: an isolated tokenizer gets texts one by one and pads nothing.
        return tokenizer.pad(encoded, padding_side=side, return_tensors="pt")

    def theirs(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        with torch.inference_mode(), IsolatedRng().rolling():  # Reformer seeds torch itself
            return model.eval()(**tokens(texts, pairs)).logits

    # A folder's tokenizer writes a prefix before both texts, which is not how we read a pair.
    options = {
        "padded": not backbone.reads_padding,
        "takes_pairs": is_siamese or not backbone.prefix,
    }
    return verify_logits(classifier, theirs, most=ROUNDING, **options)[1]
