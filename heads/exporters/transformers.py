"""Write a trained head with its base model as the folder of a model of Transformers.

Where a class of Transformers computes the same, the folder is that class's own; else it is a
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
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import ConfigExtras, write_extras
from heads.classifier.modeling_source import TEMPLATE
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.matching import Equivalent, equivalent
from heads.exporters.tokenizer import build_recipe_tokenizer, save_tokenizer
from heads.exporters.verification import first_line, verify_logits
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, SINGLE_OUTPUT
from heads.recipe import Recipe
from heads.rng import IsolatedRng

ROUNDING = 1e-5  # of logits, in proportion to them where they are above 1
USAGE = """\
from transformers import pipeline

classify = pipeline("text-classification", {folder}, top_k=None{options})
print(classify({text}, truncation=True))"""
INSTALLED_USAGE = """

# Where Head to Head is installed, no code of the folder is run:
# import heads; classify = pipeline("text-classification", {folder}, top_k=None)"""
EXAMPLE = '"Not bad at all."'
PAIR_EXAMPLE = '{"text": "The bridge is closed.", "text_pair": "The bridge is shut."}'


class Written(NamedTuple):
    """A folder that was written.

    Attributes:
        called: The class that loads it.
        difference: The largest difference of a logit from ours.
        notes: What one should know, one sentence each.
        usage: Python that loads it and answers.
        native: The recipe of the class of Transformers that computes the same, if there is one.
    """

    called: str
    difference: float
    notes: tuple[str, ...]
    usage: str
    native: Recipe | None = None


def write_model(classifier: Classifier, path: Path, name: str) -> Written:
    """Fill an empty folder with config, weights and tokenizer, and load it as anybody would.

    Raises:
        RecipeError: No model of Transformers computes the recipe, or a part cannot go along.
        CheckpointError: The folder does not load whole, or answers otherwise.
    """
    head, native = classifier.head, None
    try:
        native = equivalent(head.module, classifier.backbone, len(classifier.classes))
    except RecipeError as error:
        code = f"Its code is {TEMPLATE.name} in this folder; it needs torch and transformers only."
        notes = [str(error), code, *iter_notes(classifier)]
        usage, options = USAGE + INSTALLED_USAGE, ", trust_remote_code=True"
    else:
        notes, usage, options = [*iter_notes(classifier, native)], USAGE, ""
    tokenizer = build_recipe_tokenizer(classifier)
    if native:
        config = complete_config(classifier, native.config, tokenizer)
        model = build_native_model(classifier.backbone, native, config)
    else:
        model = _build_head_model(classifier, tokenizer)
    model.save_pretrained(path)
    save_tokenizer(tokenizer, path)
    text = PAIR_EXAMPLE if head.needs_pairs else EXAMPLE
    usage = usage.format(folder=json.dumps(name), text=text, options=options)
    with contextlib.nullcontext() if native else _load_class(path) as kind:
        difference = compare_logits(classifier, _load(classifier, path, kind), path, native)
    recipe = native.recipe.recipe if native else None
    return Written(type(model).__name__, difference, tuple(notes), usage, recipe)


def _build_head_model(classifier: Classifier, tokenizer: Any) -> Any:
    from heads.classifier.head_model import build_config, build_model

    head, backbone = classifier.head, classifier.backbone
    resolved = head.module.reader.resolved
    if head.paired and backbone.prefix and not resolved.pair:
        what = f"{resolved.recipe} writes a prefix before the first of two texts only."
        raise RecipeError(what, "Train it without a prefix, or with pair=.")
    config = build_config(head.module, backbone, len(classifier.classes))
    return build_model(head.module, backbone, complete_config(classifier, config, tokenizer))


def complete_config(classifier: Classifier, config: Any, tokenizer: Any) -> Any:
    """Return a copy of a config that names the classes and says how logits become answers."""
    config, head = copy.deepcopy(config), classifier.head
    config.id2label = dict(enumerate(classifier.classes))
    config.label2id = {name: number for number, name in enumerate(classifier.classes)}
    votes = head.problem is ONE_VERSUS_REST
    if head.problem is not SINGLE_OUTPUT:  # which has no such name
        config.problem_type = MULTI_LABEL.name if votes else head.problem.name
    extras = ConfigExtras(
        votes=votes,
        temperature=head.temperature,
        thresholds=head.thresholds,
        paired=head.paired,
    )
    write_extras(config, classifier.classes, extras)
    for part in (config, config.get_text_config()):
        part.pad_token_id = tokenizer.pad_token_id  # by it the class finds a text's last token
    return config


def build_native_model(backbone: Backbone, native: Equivalent, config: Any) -> Any:
    """Return a Transformers model with our tensors; raise CheckpointError for an unknown one."""
    from transformers import AutoModelForSequenceClassification

    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config)
    prefix, names = f"{model.base_model_prefix}.", model.state_dict().keys()
    state = {prefix + name: tensor for name, tensor in backbone.model.state_dict().items()}
    state |= name_head_tensors(native, model)
    if missing := [name for name in names if name not in state]:
        what = f"{type(model).__name__} has a tensor {missing[0]} that is not known here."
        raise CheckpointError(what, "Export another recipe.")
    state = {name: tensor.contiguous() for name, tensor in state.items() if name in names}
    model.load_state_dict(state, strict=False, assign=True)
    return model


def name_head_tensors(native: Equivalent, model: Any) -> dict[str, Tensor]:
    """Return the tensors of our head by their names in the class."""
    prefix, base = native.recipe.head.prefix, model.base_model_prefix
    tensors = native.tensors.items()
    return {native.form.name_of(name, prefix, base): tensor for name, tensor in tensors}


def iter_notes(classifier: Classifier, native: Equivalent | None = None) -> Iterator[str]:
    """Yield what one should know of the class, its answers and its tokens, one sentence each."""
    backbone, head = classifier.backbone, classifier.head
    if native and native.differs:
        yield native.differs
    if native and native.recipe.head.name != classifier.recipe.head:
        yield f"Once trained, {classifier.recipe} is the same function as {native.recipe}."
    facts = {
        f"Each class is a yes-or-no question: as {MULTI_LABEL.name}, Transformers' pipeline gives "
        "each its own probability, and the answer is the largest. heads.load divides them by "
        "their sum.": head.problem is ONE_VERSUS_REST,
        "It gives a number: as a regression, Transformers' pipeline applies no function to it, and "
        "what it calls the score is the number.": not head.problem.has_classes,
        "Transformers' pipeline gives the probability of every label and decides nothing: a label "
        "applies above its threshold in model.config.thresholds. heads.load reads them.": (
            head.thresholds
        ),
        "Its tokenizer had no padding token; it now pads with its end-of-text token, so a text "
        "that itself ends in that token is read one token earlier.": (
            backbone.tokenizer.pad_token is None
        ),
        "Words that look like its special tokens count as such in this class.": backbone.stubborn,
        "A second text comes after the first one and a line break.": (
            not backbone.separates and not head.module.is_siamese
        ),
    }
    yield from (note for note, applies in facts.items() if applies)


def _load(classifier: Classifier, path: Path, kind: Any = None) -> Any:
    """Return the model of a folder, by this class or by the one that Transformers finds for it."""
    from transformers import AutoModelForSequenceClassification

    model, report = (kind or AutoModelForSequenceClassification).from_pretrained(
        path,
        output_loading_info=True,
        attn_implementation=classifier.backbone.model.config._attn_implementation,
    )
    if strange := [key for keys in report.values() for key in keys]:
        what = f"What was written does not load whole: {strange[0]}."
        raise CheckpointError(what, "Export another recipe, and tell us of this one.")
    return model


@contextlib.contextmanager
def _load_class(path: Path) -> Iterator[Any]:
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


def compare_logits(
    classifier: Classifier, model: Any, path: Path, native: Equivalent | None
) -> float:
    """Return the largest difference of a logit from ours; raise CheckpointError if they differ.

    Args:
        path: The folder of the tokenizer.
        native: Says on which side of padding the class is defined. Default: the right.
    """
    from transformers import AutoTokenizer

    backbone, side = classifier.backbone, native.side if native else "right"
    tokenizer = isolate_alike(AutoTokenizer.from_pretrained(path), backbone.tokenizer)
    is_siamese = classifier.head.module.is_siamese
    # The model itself splits two texts, or cuts windows: it needs what the tokenizer gives.
    has_own_way = is_siamese or backbone.stride is not None

    def encode(texts: Sequence[str], pairs: Sequence[str]) -> Mapping[str, Tensor]:
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

    def read(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        with torch.inference_mode(), IsolatedRng().rolling():  # Reformer seeds torch itself
            return model.eval()(**encode(texts, pairs)).logits

    _, difference = verify_logits(
        classifier,
        read,
        most=ROUNDING,
        padded=not backbone.reads_padding,
        # A folder's tokenizer writes a prefix before both texts, which is not how we read a pair.
        takes_pairs=is_siamese or not backbone.prefix,
    )
    return difference
