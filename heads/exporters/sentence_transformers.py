"""Write a trained head with its base model as a folder that sentence-transformers loads.

A head on single texts becomes the modules of a SentenceTransformer: the model, its pooling, and the
head's layers as Dense modules behind it. They leave the sentence's vector where it was and write
the logits under another name, which Dense can do since 5.4. A head on pairs becomes a CrossEncoder:
a model of Transformers, with code of its own where no class of Transformers computes the recipe.
Legend: n texts, c classes, w width of the pooled vector.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.backbone.trained_reading import (
    ACTIVATIONS,
    LENGTH,
    LOGITS,
    MODULES,
    PROMPTS,
    VECTOR,
    Dense,
    UnitLength,
)
from heads.backbone.weights import pooler_weights
from heads.caching import save_tensors
from heads.catalog.base_models import base_of
from heads.classifier.classifier import Classifier
from heads.classifier.module import RecipeModule
from heads.classifier.pretrained import own_head
from heads.classifier.sentence_head import POOLINGS
from heads.errors import CheckpointError, RecipeError
from heads.exporters.model_card import base_name
from heads.exporters.tokenizer import tokenizer_of
from heads.exporters.transformers import Written, complete_config, write_model
from heads.exporters.verification import MOST_DIFFERENCE, Reads, verify_logits
from heads.parts.modules import Directions, Normalise, Scale, acting_layers, is_plain, words
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import SINGLE_OUTPUT
from heads.rng import IsolatedRng
from heads.settings import current_limits, use_limits

LIBRARY = "sentence-transformers"
MIN_VERSION = "5.4.0"  # the first whose Dense can write under another name than it reads
HINT = "Export it without --as."
ONNX_HINT = "Export it without --as, or as an ONNX file."
MODES = {pooling: modes for modes, pooling in POOLINGS.items()}
LIBRARY_EPS = nn.LayerNorm(1).eps  # of the library's LayerNorm, which takes no other
ASIDE = "pooled"  # the vector's name while a LayerNorm or Normalize works on the one they know
PROMPT = "classification"
N_CLASSES = 2  # for a check before training: the modules are the same for any number
VECTOR_USAGE = """\
from sentence_transformers import SentenceTransformer  # {version} or newer

model = SentenceTransformer({folder})
answer = model.encode(["Not bad at all."], output_value=None)[0]
print(answer["logits"], answer["sentence_embedding"].shape)"""
PAIR_USAGE = """\
from sentence_transformers import CrossEncoder

model = CrossEncoder({arguments})
print(model.predict([("The bridge is closed.", "The bridge is shut.")]))  # {answer}"""


class Module(NamedTuple):
    """A module of the library: its class, its config.json and its model.safetensors."""

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def check_recipe(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Raise RecipeError for a recipe that no SentenceTransformer computes, before it is trained.

    On pairs of texts nearly every recipe can be a CrossEncoder.
    """
    with IsolatedRng().rolling():  # its random weights are not used
        module = RecipeModule(resolved, backbone, N_CLASSES)
    _build_modules(module, backbone.for_recipe(resolved))


def write_sentence_transformers(classifier: Classifier, path: Path, name: str) -> Written:
    """Fill a folder for SentenceTransformer or CrossEncoder, and load it; see `write_model`."""
    write = _write_cross_encoder if classifier.head.needs_pairs else _write_sentence_transformer
    written, reads_padding = write(classifier, path, name), classifier.backbone.reads_padding
    notes = [*written.notes]
    notes.append("The classes, in the order of the logits, are `id2label` in `config.json`.")
    if reads_padding:
        notes.append("This base model reads padding: the other texts of a batch change its logits.")
    if find_spec("sentence_transformers") is None:
        notes.append(f"{LIBRARY} is not installed here: Head to Head has read the folder anew.")
    difference = written.difference
    try:
        if read := _load(classifier, path):
            options = {"most": MOST_DIFFERENCE, "padded": not reads_padding}
            _, difference = verify_logits(classifier, read, **options)
    except CheckpointError as error:
        what = f"{LIBRARY} does not read {base_name(classifier.backbone)} as we do: {error.what}"
        raise CheckpointError(what, ONNX_HINT) from error
    return written._replace(difference=difference, notes=tuple(notes))


def _write_cross_encoder(classifier: Classifier, path: Path, name: str) -> Written:
    """Write a model of Transformers, and in its config what a CrossEncoder applies to logits."""
    problem, written = classifier.head.problem, write_model(classifier, path, name)
    arguments, answer = json.dumps(name), "one number a pair"
    if not written.native:
        arguments += ", trust_remote_code=True"
    config = json.loads((path / "config.json").read_text("utf-8"))
    activation = nn.Sigmoid if problem is SINGLE_OUTPUT else nn.Identity
    config["sentence_transformers"] = {"activation_fn": _full_name(activation)}
    config["sbert_ce_default_activation_function"] = _full_name(activation)  # before version 4
    _write_json(path / "config.json", config)
    if len(classifier.classes) > 1:
        ways = {
            "softmax": "apply_softmax=True gives probabilities",
            "sigmoid": "activation_fn=torch.nn.Sigmoid() gives probabilities",
            "normalised_sigmoid": "probabilities are their sigmoids divided by their sum",
        }
        answer = f"logits, (n, c); {ways[problem.output_activation]}"
    return written._replace(
        called=f"a folder of {LIBRARY} for CrossEncoder and {written.called}",
        usage=PAIR_USAGE.format(arguments=arguments, answer=answer),
        native=None,
    )


def _write_sentence_transformer(classifier: Classifier, path: Path, name: str) -> Written:
    """Write the base model, its tokenizer and the modules behind it."""
    backbone = classifier.backbone
    modules = _build_modules(classifier.head.module, backbone)
    tokenizer = tokenizer_of(classifier)
    tokenizer.padding_side = "right"  # where the poolings expect it
    config = complete_config(classifier, backbone.model.config, tokenizer)
    config.architectures = [type(backbone.model).__name__]
    config.__dict__.pop("auto_map", None)  # names code of the base model's own
    backbone.model.save_pretrained(path)
    config.save_pretrained(path)
    tokenizer.save_pretrained(path)
    listed = []
    for number, module in enumerate(modules):
        folder = f"{number}_{module.name}" if number else ""
        kind = f"sentence_transformers.models.{module.name}"  # where every version finds it
        listed.append({"idx": number, "name": str(number), "path": folder, "type": kind})
        (path / folder).mkdir(exist_ok=True)
        if module.config:
            _write_json(path / folder / "config.json", module.config)
        if module.tensors:
            tensors = {name: tensor.detach().cpu() for name, tensor in module.tensors.items()}
            save_tensors(path / folder / "model.safetensors", tensors)
    _write_json(path / MODULES, listed)
    _write_json(path / LENGTH, {"max_seq_length": backbone.tokens, "do_lower_case": False})
    prompt = {PROMPT: backbone.prefix} if backbone.prefix else {}
    settings = {
        "__version__": {"sentence_transformers": MIN_VERSION},
        "model_type": "SentenceTransformer",
        "similarity_fn_name": "cosine",
        "prompts": {**backbone.sentences.prompts, **prompt},
        "default_prompt_name": PROMPT if prompt else None,
    }
    _write_json(path / PROMPTS, settings)
    return Written(
        called=f"a folder of {LIBRARY} for SentenceTransformer",
        difference=0.0,
        notes=(
            f"It gives the pooled vector as `{VECTOR}` and the logits as `{LOGITS}`.",
            f"It needs {LIBRARY} {MIN_VERSION} or newer.",
        ),
        usage=VECTOR_USAGE.format(folder=json.dumps(name), version=MIN_VERSION),
    )


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", "utf-8")


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


# --- A recipe as modules.


def _build_modules(module: RecipeModule, backbone: Backbone) -> list[Module]:
    """Return the model and the modules behind it that compute what a recipe does on it."""
    _check_reading(module.reader.resolved, backbone)
    modes, steps = _build_reading(module.reader.resolved, backbone)
    pooling = {
        "embedding_dimension": backbone.width,
        "pooling_mode": modes[0] if len(modes) == 1 else list(modes),
        "include_prompt": backbone.reads_prefix or not backbone.prefix,
    }
    head = _build_head(module)
    if all(isinstance(step, Dense) for step in head):
        named = [(step, LOGITS, LOGITS) for step in head]
        named[0] = (head[0], VECTOR, LOGITS)
    else:  # a LayerNorm or a Normalize can only work on the vector: put that aside, then back
        copy = _build_dense(torch.eye(module.reader.width))
        named = [(step, VECTOR, VECTOR) for step in head[:-1]]
        named = [(copy, VECTOR, ASIDE), *named, (head[-1], VECTOR, LOGITS), (copy, ASIDE, VECTOR)]
    named = [*((step, VECTOR, VECTOR) for step in steps), *named]
    model, pooled = Module("Transformer", {}, {}), Module("Pooling", pooling, {})
    return [model, pooled, *(_describe_step(*step) for step in named)]


def _check_reading(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Raise RecipeError for what no pooling of the library can read."""
    last = resolved.layers is None and resolved.layer % (backbone.layers + 1) == backbone.layers
    reasons = {
        "reads other layers than the last one": not last,
        "writes a prompt behind every text": backbone.prompt,
        "reads a long text in windows": resolved.reads_windows,
        "applies its head to every token": resolved.late and not resolved.pooling.token,
        "reads the encoder, and the library the decoder behind it": backbone.decoder_width,
        "gives the first token global attention": base_of(backbone.model_type).marks_first,
    }
    hint = HINT if backbone.prompt or resolved.reads_windows else ONNX_HINT
    for reason, holds in reasons.items():
        if holds:
            what = f"No modules of {LIBRARY} compute {resolved.recipe}: it {reason}."
            raise RecipeError(what, hint)


def _build_reading(
    resolved: ResolvedRecipe, backbone: Backbone
) -> tuple[tuple[str, ...], list[nn.Module]]:
    """Return the modes of the pooling, and the steps from there to the vector of the head."""
    steps: list[nn.Module] = [UnitLength()] if resolved.normalise else []
    if resolved.pooling.is_trained and backbone.trained is not None:
        return backbone.trained.modes, [*backbone.trained.steps, *steps]
    if resolved.pooling.is_pooler:
        weights = pooler_weights(backbone.model)
        if "pooler.dense.weight" in weights:  # a dense layer and a tanh on the first token
            weight, bias = weights["pooler.dense.weight"], weights.get("pooler.dense.bias")
            return ("cls",), [_build_dense(weight, bias, nn.Tanh()), *steps]
    if resolved.pooling.name not in MODES:
        what = f"{LIBRARY} has no pooling that reads as {resolved.pooling.name} does."
        raise RecipeError(what, f"{ONNX_HINT} Those that it has are {', '.join(MODES)}.")
    return MODES[resolved.pooling.name], steps


def _build_head(module: RecipeModule) -> list[nn.Module]:
    """Return the layers of a head that act in use, as `Dense`, `nn.LayerNorm` and `UnitLength`."""
    steps: list[nn.Module] = []
    for _, layer in acting_layers(module.head):
        if not _add_layer(steps, layer):
            what = f"No module of {LIBRARY} computes a {words(layer, is_last=False)}"
            name = module.reader.resolved.head.name
            raise RecipeError(f"{what}, as {name} does.", ONNX_HINT)
    return steps


def _add_layer(steps: list[nn.Module], layer: nn.Module) -> bool:
    """Add a layer to the steps, as a new one or into the last one; return False if it cannot be."""
    last = steps[-1] if steps else None
    linear = last.linear if isinstance(last, Dense) and last.is_linear else None
    if is_plain(layer, nn.Linear):
        steps.append(Dense(layer, nn.Identity()))
    elif isinstance(layer, Directions):
        steps.append(_build_dense(nn.functional.normalize(layer.weight, dim=-1)))
    elif isinstance(layer, Normalise):
        steps.append(UnitLength())
    elif is_plain(layer, nn.LayerNorm) and layer.eps == LIBRARY_EPS:
        steps.append(layer)
    elif linear is not None and isinstance(layer, Scale):
        bias = None if linear.bias is None else linear.bias * layer.factor
        steps[-1] = _build_dense(linear.weight * layer.factor, bias)
    elif linear is not None and _is_known_activation(layer):
        steps[-1] = Dense(linear, layer)
    else:
        return False
    return True


def _is_known_activation(layer: nn.Module) -> bool:
    """Return True for an activation of torch without arguments, for only its name is written."""
    kind = type(layer)
    is_torch = kind.__module__.startswith("torch.nn.") and kind.__name__ in ACTIVATIONS
    return is_torch and repr(layer) == repr(kind())


def _build_dense(
    weight: Tensor, bias: Tensor | None = None, activation: nn.Module | None = None
) -> Dense:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.weight.data = weight.detach()
    if bias is not None:
        linear.bias.data = bias.detach()
    return Dense(linear, activation or nn.Identity())


def _describe_step(step: nn.Module, source: str, target: str) -> Module:
    """Return a step as a module that reads one name and writes another."""
    if isinstance(step, UnitLength):
        return Module("Normalize", {}, {})
    if isinstance(step, nn.LayerNorm):
        bias = torch.zeros_like(step.weight) if step.bias is None else step.bias
        tensors = {"norm.weight": step.weight, "norm.bias": bias}
        return Module("LayerNorm", {"dimension": step.normalized_shape[0]}, tensors)
    assert isinstance(step, Dense)
    config = {
        "in_features": step.linear.in_features,
        "out_features": step.linear.out_features,
        "bias": step.linear.bias is not None,
        "activation_function": _full_name(type(step.activation)),  # without a name it is a tanh
    }
    if (source, target) != (VECTOR, VECTOR):
        config |= {"module_input_name": source, "module_output_name": target}
    if step.residual is not None:
        config["use_residual"] = True
    # `Dense` names its parts as the library does; an activation has no tensors.
    return Module("Dense", config, step.state_dict())


def _load(classifier: Classifier, path: Path) -> Reads | None:
    """Return what gives a folder's logits: the library, or our own reader where it is missing.

    None if the library cuts such pairs otherwise: the class was compared when it was written.
    """
    if find_spec("sentence_transformers") is None:
        with use_limits(replace(current_limits(), public=False)):
            backbone = load(str(path))
        return Classifier(backbone=backbone, head=own_head(backbone)).logits
    from sentence_transformers import CrossEncoder, SentenceTransformer

    backbone, is_paired = classifier.backbone, classifier.head.needs_pairs
    kind: Any = CrossEncoder if is_paired else SentenceTransformer
    try:
        model = kind(str(path), device="cpu", local_files_only=True)
    except Exception as error:
        what = f"it does not load ({type(error).__name__})."
        raise CheckpointError(what, ONNX_HINT) from error
    separates = backbone.separates or classifier.head.module.is_siamese
    if is_paired and (backbone.stubborn or not separates):
        return None

    @torch.inference_mode()
    @IsolatedRng().rolling()
    def read(texts: Sequence[str], seconds: Sequence[str]) -> Tensor:
        inputs = list(zip(texts, seconds, strict=True)) if seconds else list(texts)
        if is_paired:
            options = {"activation_fn": nn.Identity(), "convert_to_tensor": True}
            logits = model.predict(inputs, show_progress_bar=False, **options)
            return logits.reshape(len(inputs), -1)
        if backbone.stubborn or (seconds and not backbone.separates):  # it cuts them otherwise
            tokens = backbone.filled(backbone.encode(texts, seconds))
            return model({name: tensor.cpu() for name, tensor in tokens.items()})[LOGITS]
        answers = model.encode(inputs, output_value=None, show_progress_bar=False)
        return torch.stack([answer[LOGITS] for answer in answers])

    return read
