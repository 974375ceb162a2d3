"""The head that a base model's own family has: its tensors, and what a checkpoint holds of them.

What is pretrained and what is new is read from Transformers' own loading report; from which
tensor of the file a pretrained one comes, by comparing numbers.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.config_check import shown
from heads.backbone.exported import (
    CLASSIFIER,
    map_stored_names,
    read_classifier_tensors,
    read_config,
)
from heads.catalog.families import FAMILIES
from heads.catalog.forms import Form
from heads.classifier.config_extras import ConfigExtras, extras_of
from heads.classifier.sentence_head import SentenceHead, arrays_stamp, sentence_head
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import (
    INCLUDE_PREFIX,
    LATE,
    LONG,
    LOSS,
    NORMALISE,
    PAIR,
    PREFIX,
    STRIDE,
    TUNE,
    WINDOWS,
    WITHOUT,
    ResolvedRecipe,
)
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, SINGLE_OUTPUT, ProblemType
from heads.recipe import Recipe, as_value
from heads.rng import IsolatedRng

ARCHITECTURE = "HeadForSequenceClassification"
CHOOSE = "Choose another model, or train a head of your own on it."


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeHead:
    """The head of a checkpoint's own class, as Transformers loads it.

    Attributes:
        called: The class, such as BertForSequenceClassification.
        recipe: The recipe that equals it.
        tensors: Its tensors, under our names.
        names: Our name of each tensor, and its name in the family's checkpoint.
        marks: What its config says besides, if it was written here.
        new: Our names of those that the checkpoint lacks or has in another shape: random.
        mismatched: Those of them that it has in another shape.
        sources: Our names of the others, and the tensor of the file that each comes from.
        reader_tensors: The tensors of a pooling or a choice of layers that learns.
    """

    called: str
    recipe: ResolvedRecipe
    classes: tuple[str, ...]
    problem: ProblemType
    marks: ConfigExtras
    tensors: Mapping[str, Tensor]
    names: Mapping[str, str]
    new: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    sources: Mapping[str, str]
    reader_tensors: Mapping[str, Tensor] = field(default_factory=dict)


MOST_LETTERS = 10_000  # of a label
MOST_KEPT = 8  # heads are small; the base models that they came with are let go
_found: dict[tuple[object, ...], NativeHead] = {}
_finding = threading.Lock()


def native_head(backbone: Backbone) -> NativeHead:
    """Return the head that a base model's checkpoint has of its own; what it lacks is random.

    Raises:
        RecipeError: No recipe expresses its family's head.
        CheckpointError: Its tensors are not those of its family's head.
    """
    key = (backbone.id, backbone.revision, arrays_stamp(backbone.folder))
    head = _found.get(key)
    if head is None:
        # What the checkpoint lacks is random, but the same at every start. The dice come first:
        # who asks within a roll of its own has them already, and two locks need one order.
        with IsolatedRng().rolling(), _finding:
            # A failure is not cached: the user may mend its cause while this process runs.
            head = _found[key] = _found.get(key) or _loaded(backbone)
            while len(_found) > MOST_KEPT:
                _found.pop(next(iter(_found)))
    return head


def _loaded(backbone: Backbone) -> NativeHead:
    from transformers import AutoModelForSequenceClassification

    if config := read_config(backbone.folder):
        return _exported_head(config, backbone)
    if sentences := sentence_head(backbone):
        return _of_sentences(sentences, backbone)
    form = _form(backbone)
    recipe = form.recipe_for(backbone.model.config)
    if backbone.folder is None:
        raise CheckpointError(f"{backbone.id} is no checkpoint on disk.", CHOOSE)
    try:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            backbone.folder,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            attn_implementation="eager",  # never the config's own choice; nothing is run here
        )
    except (RuntimeError, ValueError, TypeError, LookupError, ImportError, OSError) as error:
        what = f"{backbone.id} does not load as a classifier ({type(error).__name__})."
        raise CheckpointError(what, CHOOSE) from error
    chain = recipe.sketch(Featurizer(recipe, backbone).width, model.config.num_labels)
    named = names_of(form, recipe, chain, model)
    theirs = model.state_dict()
    tensors = {ours: theirs[name].clone() for ours, name in named.items()}
    odd = {name for name, *_ in report["mismatched_keys"]}
    lacking = {*report["missing_keys"], *odd}
    there = {ours: name for ours, name in named.items() if name not in lacking}
    _check_finite(backbone.id, {named[ours]: tensors[ours] for ours in there})
    found = dict(sources(backbone.folder, {name: tensors[ours] for ours, name in there.items()}))
    return NativeHead(
        called=type(model).__name__,
        recipe=recipe,
        classes=_classes(model.config),
        problem=_problem_of(model.config, _activation(backbone)),
        marks=_marks(backbone, model.config),
        tensors=tensors,
        names=named,
        new=tuple(ours for ours in named if ours not in there),
        mismatched=tuple(ours for ours, name in named.items() if name in odd),
        sources={ours: found.get(name, name) for ours, name in there.items()},
    )


def _form(backbone: Backbone) -> Form:
    """Return the form of the family's own class, or raise HeadsError for none or half of it."""
    form = FAMILIES.get(backbone.model_type)
    if form is None:
        what = f"Transformers has no classifier for the family '{backbone.model_type}'."
        raise RecipeError(what, "Take 'own' away, or choose another base model.")
    if not backbone.decoder_width and any("@decoder" in text for text in form.texts):
        what = f"{backbone.id} holds an encoder without its decoder, so it is no classifier."
        raise CheckpointError(what, "Train a head on it, for example mean+linear.")
    return form


def _of_sentences(found: SentenceHead, backbone: Backbone) -> NativeHead:
    """The classification layers of a folder of sentence-transformers or SetFit."""
    config = backbone.model.config
    known = config.num_labels == found.outputs  # else the config's are of something else
    numbered = tuple(f"LABEL_{number}" for number in range(found.outputs))
    problem = _problem_of(config, _activation(backbone), found.outputs if known else 0)
    tensors = {name: tensor.detach().clone() for name, tensor in found.tensors.items()}
    _check_finite(backbone.id, {found.names[name]: tensor for name, tensor in tensors.items()})
    return NativeHead(
        called=found.called,
        recipe=found.recipe,
        classes=found.labels or (_classes(config) if known else numbered),
        problem=SINGLE_LABEL if found.labels else problem,
        marks=_marks(backbone, config),
        tensors=tensors,
        names=found.names,
        sources=found.names,
    )


def _exported_head(values: Mapping[str, Any], backbone: Backbone) -> NativeHead:
    """Return the head of an exported folder; raise CheckpointError if its tensors do not fit."""
    from heads.classifier.modeling_head_to_head import HeadConfig

    assert backbone.folder is not None
    stored = read_classifier_tensors(backbone.folder)
    try:
        config = HeadConfig(**values)
        recipe = recipe_of(values)
        wide = recipe.widened(Featurizer(recipe, backbone.for_recipe(recipe)).width)
    except HeadsError as error:
        raise CheckpointError(f"{backbone.id}: {error.what}", CHOOSE) from None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        what = f"The config of {backbone.id} describes no head ({type(error).__name__})."
        raise CheckpointError(what, CHOOSE) from None
    _check_finite(backbone.id, stored)
    sketch = recipe.sketch(wide, len(_classes(config)))
    names = map_stored_names(sketch)
    for ours, tensor in sketch.state_dict().items():
        weights = stored.get(names[ours])
        has_rows = 0 in tensor.shape  # it is as long as the head has training rows
        if weights is None or (weights.shape != tensor.shape and not has_rows):
            what = f"{backbone.id} lacks {CLASSIFIER}{names[ours]} in the shape of {recipe}."
            raise CheckpointError(what, CHOOSE)
    reading = {n: t for n, t in stored.items() if n.startswith(("poolings.0.", "layers."))}
    tensors = {ours: stored[name] for ours, name in names.items()}
    names = {ours: f"{CLASSIFIER}{name}" for ours, name in names.items()}
    return NativeHead(
        called=ARCHITECTURE,
        recipe=recipe,
        classes=_classes(config),
        problem=_problem_of(config),
        marks=extras_of(config),
        tensors=tensors,
        names=names,
        sources=names,
        reader_tensors={n.replace("poolings.0.", "pooling."): t for n, t in reading.items()},
    )


def recipe_of(config: Mapping[str, Any]) -> ResolvedRecipe:
    """Return the recipe of an exported configuration; raise RecipeError if a part is unknown."""
    pooling, layers = config.get("pooling", "mean"), config.get("layers", -1)
    has_vector = bool(config.get("projection")) or not isinstance(pooling, str)
    options = dict(config.get("pooling_options") or {}) | dict(config.get("head_options") or {})
    fields = {NORMALISE: "normalize", PAIR: "pair", WITHOUT: "without", LATE: "late", LOSS: "loss"}
    options |= {name: config[key] for name, key in fields.items() if config.get(key)}
    if config.get("prefix"):
        options[PREFIX] = as_value(str(config["prefix"]))
        options[INCLUDE_PREFIX] = bool(config.get("use_prefix", True))
    if config.get("stride") is not None:
        options |= {LONG: WINDOWS, STRIDE: config["stride"]}
    with suppress(RecipeError):  # how the base model was trained, as the exporter wrote it
        written = dict(Recipe.parse(str(config.get("recipe", ""))).options)
        options |= {TUNE: written[TUNE]} if TUNE in written else {}
    recipe = Recipe(
        pooling="trained" if has_vector else pooling,
        head=str(config.get("head", "linear")),
        layers="" if layers == -1 else str(layers),
        options=tuple(sorted(options.items())),
    )
    return resolve(recipe)


def _activation(backbone: Backbone) -> str:
    """What a CrossEncoder applies to its logits, by its full name; "" where nothing says so."""
    config = backbone.model.config
    told = getattr(config, "sentence_transformers", None)
    own = told.get("activation_fn") if isinstance(told, Mapping) else None
    old = getattr(config, "sbert_ce_default_activation_function", None)
    return str(backbone.sentences.activation or own or old or "")


def _marks(backbone: Backbone, config: Any) -> ConfigExtras:
    """What is known of a head besides; a CrossEncoder needs two texts."""
    marks, sentences = extras_of(config), backbone.sentences
    return replace(marks, paired=True) if sentences.reads_pairs or _activation(backbone) else marks


def names_of(
    form: Form, resolved: ResolvedRecipe, chain: nn.Sequential, model: Any
) -> dict[str, str]:
    """Return the model's names of a head's tensors by ours, or raise CheckpointError."""
    theirs: Mapping[str, Tensor] = model.state_dict()
    base = model.base_model_prefix
    named = {}
    for ours, tensor in chain.state_dict().items():
        name = named[ours] = form.name_of(ours, resolved.head.prefix, base)
        if name not in theirs:
            raise CheckpointError(f"The head lacks its tensor {name}.", CHOOSE)
        if theirs[name].shape != tensor.shape:
            shapes = " not ".join(str(tuple(t.shape)) for t in (theirs[name], tensor))
            raise CheckpointError(f"The tensor {name} has the shape {shapes}.", CHOOSE)
    extra = [n for n in theirs if not n.startswith(f"{base}.") and n not in named.values()]
    if extra:
        raise CheckpointError(f"The head has a tensor {extra[0]} that no recipe knows.", CHOOSE)
    return named


def _classes(config: Any) -> tuple[str, ...]:
    """The names of the classes as a reader can tell them apart."""
    given = config.id2label
    if sorted(given) != list(range(len(given))):
        told = ", ".join(str(number) for number in sorted(given)[:5])
        what = f"Its config numbers its labels {told}, and not from 0 without a gap."
        raise CheckpointError(what, CHOOSE)
    names = [shown(str(given[n]), MOST_LETTERS) or f"LABEL_{n}" for n in sorted(given)]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} ({number})" for number, name in enumerate(names))


def _problem_of(config: Any, activation: str = "", outputs: int | None = None) -> ProblemType:
    """The problem type by which its own library shows a head's logits.

    Transformers' pipeline puts a sigmoid on a single one, as of a reward model; a regression's stay
    as they are, and so does the one number of a CrossEncoder that applies nothing to it.

    Args:
        activation: What a CrossEncoder applies, by its full name, or "".
        outputs: The number of logits, where the config may not know it; 0 where it does not.
    """
    count = config.num_labels if outputs is None else outputs
    if config.problem_type == REGRESSION.name or (count == 1 and activation.endswith(".Identity")):
        return REGRESSION
    if count == 1:
        return SINGLE_OUTPUT
    return MULTI_LABEL if config.problem_type == MULTI_LABEL.name else SINGLE_LABEL


def _check_finite(model: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"The tensor {name} of {model} holds NaN or infinity.", CHOOSE)


def sources(folder: Path, wanted: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """For each tensor by its name: the tensor of a checkpoint's files that has its numbers."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            shapes = _shapes(file)
            for wanted_as, tensor in wanted.items():
                alike = [name for name, shape in shapes.items() if shape == tuple(tensor.shape)]
                # Renamed or not, the end of a name mostly stays: look there first.
                ends = {name: [name[::-1], wanted_as[::-1]] for name in alike}
                alike.sort(key=lambda name: -len(commonprefix(ends[name])))  # noqa: RUF071
                for name in alike:
                    if torch.equal(file.get_tensor(name).to(tensor.dtype), tensor):
                        yield wanted_as, name
                        break


def stored_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The tensors of a checkpoint's files and their shapes, read from the headers alone."""
    shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            shapes |= _shapes(file)
    return shapes


def _shapes(file: Any) -> dict[str, tuple[int, ...]]:
    """The tensors of one open file, which is no mapping though it has keys."""
    return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
