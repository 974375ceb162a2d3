"""A trained head on its base model as the folder of a class of Transformers, and its proof."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.tokenizing import isolate_alike
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import ConfigExtras, write_extras
from heads.classifier.module import TrainedHead
from heads.errors import CheckpointError
from heads.exporters.matching import Equivalent
from heads.exporters.model_card import Publication, base_name, model_card
from heads.exporters.verification import verify_logits
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, SINGLE_OUTPUT
from heads.rng import IsolatedRng

ROUNDING = 1e-5  # of logits, in proportion to them where they are above 1
SEVERAL = MULTI_LABEL.name
NATIVE_USE = """\
from transformers import pipeline

classify = pipeline("text-classification", {folder}, top_k=None)
print(classify({text}, truncation=True))"""
ONE_OR_TWO = (
    '"Not bad at all."',
    '{"text": "The bridge is closed.", "text_pair": "The bridge is shut."}',
)


def write_native(
    classifier: Classifier,
    native: Equivalent,
    path: Path,
    name: str,
    published: Publication | None = None,
) -> tuple[str, float, tuple[str, ...]]:
    """Fills a folder with config, weights, tokenizer and card, and loads it as anybody would.

    Args:
        path: An empty folder.
        name: What it will be called.
        published: What is said of it on the Hub.

    Returns:
        The class, the largest difference of two logits, and what one should know.

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
    return type(model).__name__, _verified(classifier, native, path), tuple(notes)


def tokenizer_of(classifier: Classifier) -> Any:
    """A copy of the tokenizer that cuts as we do, with a padding token, without templates."""
    tokenizer = copy.deepcopy(classifier.backbone.tokenizer)
    tokenizer.model_max_length = classifier.backbone.tokens
    tokenizer.chat_template = None
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            what = f"The tokenizer of {base_name(classifier.backbone)} has no token to pad with."
            raise CheckpointError(what, "Give it one, and save it beside the model.")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


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
    notes += _answers(classifier.head)
    if classifier.backbone.tokenizer.pad_token is None:
        notes.append(
            "Its tokenizer had no padding token; it now pads with its end-of-text token, so that "
            "a text which itself ends in that token is read one token earlier."
        )
    if classifier.backbone.stubborn:
        notes.append("Words that look like its special tokens count as such in this class.")
    if not classifier.backbone.separates:
        notes.append("A second text comes after the first one and a line break.")
    return notes


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


def _verified(classifier: Classifier, native: Equivalent, path: Path) -> float:
    """Loads the folder as anybody would, and compares logits and the loading report.

    Raises:
        CheckpointError: They differ, or tensors are missing or left over.
    """
    from transformers import AutoModelForSequenceClassification

    backbone = classifier.backbone
    model, report = AutoModelForSequenceClassification.from_pretrained(
        path,
        output_loading_info=True,
        attn_implementation=backbone.model.config._attn_implementation,
    )
    odd = [str(key) for keys in report.values() for key in keys]
    if odd:
        what = f"What was written does not load whole: {odd[0]}."
        raise CheckpointError(what, "Export another recipe, and tell us of this one.")
    return compared(classifier, native, model, path)


def compared(classifier: Classifier, native: Equivalent, model: Any, path: Path) -> float:
    """The largest difference of two logits between a loaded model and us.

    Args:
        path: The folder of the tokenizer.

    Raises:
        CheckpointError: They differ.
    """
    from transformers import AutoTokenizer

    backbone = classifier.backbone
    tokenizer = isolate_alike(AutoTokenizer.from_pretrained(path), backbone.tokenizer)
    side = "left" if native.form.sides == ("left",) else "right"

    def tokens(texts: Sequence[str], pairs: Sequence[str]) -> Mapping[str, Tensor]:
        if backbone.stubborn or not backbone.separates:  # where our own way of cutting differs
            padding = replace(backbone, pad=tokenizer.pad_token_id)
            return padding.filled(backbone.encode(texts, pairs), side)
        given = [list(part) for part in (texts, pairs) if part]
        # Pad the batch here: an isolated tokenizer gets texts one by one and pads nothing.
        settings: dict[str, Any] = {"padding_side": side, "return_tensors": "pt"}
        return tokenizer.pad(tokenizer(*given, truncation=True), **settings)

    def theirs(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        with torch.inference_mode(), IsolatedRng().rolling():  # Reformer seeds torch itself
            return model.eval()(**tokens(texts, pairs)).logits

    return verify_logits(classifier, theirs, most=ROUNDING, padded=not backbone.reads_padding)[1]
