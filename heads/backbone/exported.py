"""Folders of `HeadForSequenceClassification`: their base model, as data and without their code."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from heads.backbone.trained_reading import (
    ACTIVATIONS,
    MODES,
    MOST_MODULES,
    Dense,
    TrainedReading,
    UnitLength,
)
from heads.errors import RecipeError

MODEL_TYPE = "head_to_head"
OUTPUTS = {"classifier": "output", "score": "output"}  # as in the class itself
BACKBONE, CLASSIFIER = "backbone.", "classifier."


def is_exported(config: Mapping[str, Any]) -> bool:
    """Return True for the configuration of a `HeadForSequenceClassification`."""
    return config.get("model_type") == MODEL_TYPE and isinstance(
        config.get("backbone_config"), dict
    )


def read_config(folder: Path | None) -> dict[str, Any] | None:
    """Return the configuration of such a folder; None for any other."""
    path = folder / "config.json" if folder else None
    if path is None or not path.is_file():
        return None
    config = json.loads(path.read_text("utf-8"))
    return config if isinstance(config, dict) and is_exported(config) else None


def backbone_config(config: Mapping[str, Any]) -> Any:
    """Return the configuration of the base model, built from values alone."""
    from transformers import AutoConfig

    values = dict(config["backbone_config"])
    return AutoConfig.for_model(values.pop("model_type"), **values)


def build_loading_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the base model is found among the tensors of the folder."""
    part = "encoder." if config.get("encoder_only") else ""
    options: dict[str, Any] = {"key_mapping": {rf"^{BACKBONE}": part}}
    if isinstance(config.get("add_pooling_layer"), bool):
        options["add_pooling_layer"] = config["add_pooling_layer"]
    return options


def read_classifier_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the tensors above the base model, by their names behind `classifier.`."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  it is no mapping
                if name.startswith(CLASSIFIER):
                    tensor = file.get_tensor(name)
                    is_float = tensor.is_floating_point()
                    tensors[name.removeprefix(CLASSIFIER)] = tensor.float() if is_float else tensor
    return tensors


def map_stored_names(head: nn.Module) -> dict[str, str]:
    """Return the names of a head's tensors, and what they are called behind `classifier.`."""
    renamed = OUTPUTS if type(head) is nn.Sequential else {}
    names = {}
    for name in head.state_dict():
        first, dot, rest = name.partition(".")
        names[name] = f"head.{renamed.get(first, first)}{dot}{rest}"
    return names


def read_sentence_vector(config: Mapping[str, Any], folder: Path) -> TrainedReading:
    """Return the base model's own sentence vector; raise RecipeError if the head has another."""
    names, layers = config.get("pooling"), config.get("projection")
    if isinstance(names, str) and not layers:
        raise RecipeError("It has no vector of its own.")
    modes = {pooling.__name__: mode for mode, pooling in MODES.items()}
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or any(name not in modes for name in listed):
        raise RecipeError("Its poolings are not known here.")
    steps = [*_steps(layers or [], read_classifier_tensors(folder))]
    return TrainedReading([modes[name] for name in listed], steps)


def _steps(layers: list[Any], tensors: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """Yield what follows the pooling, given the layers of a configuration and their tensors."""
    waiting: nn.Linear | None = None
    if len(layers) > MOST_MODULES:
        raise RecipeError("It has too many layers behind its pooling.")
    for number, layer in enumerate(layers):
        kind = layer.get("type") if isinstance(layer, dict) else None
        stored = {
            n.rpartition(".")[2]: t
            for n, t in tensors.items()
            if n.startswith(f"projection.{number}.")
        }
        weight = stored.get("weight")
        if kind == "Linear" and weight is not None and waiting is None:
            with torch.device("meta"):
                waiting = nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in stored)
            waiting.load_state_dict(stored, assign=True)
        elif waiting is not None and kind in ACTIVATIONS:
            yield Dense(waiting, getattr(nn, str(kind))())
            waiting = None
        elif kind == "Normalize":
            yield UnitLength()
        elif kind == "LayerNorm" and weight is not None:
            norm = nn.LayerNorm(weight.shape[0], eps=float(layer.get("eps", 1e-5)))
            norm.load_state_dict(stored)
            yield norm
        else:
            raise RecipeError("A layer behind its pooling is not known here.")
