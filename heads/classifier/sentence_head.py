"""The head of a folder of sentence-transformers or of SetFit, as one of ours.

sentence-transformers has its classification layers among the modules behind the pooling: they are
read as data, and are one of our recipes where that has the same layers. SetFit keeps a logistic
regression of scikit-learn as a pickle, which is never opened; its arrays are read where they were
saved beside it.
Legend: w width of the pooled vector, c classes.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.trained_reading import (
    MODULES,
    MOST_BYTES,
    Dense,
    SentenceModules,
    Step,
    UnitLength,
    check_case,
    sentence_modules,
)
from heads.errors import CheckpointError, HeadsError
from heads.features.featurizer import Featurizer
from heads.parts.modules import Normalise, acting
from heads.parts.resolve import resolve, with_options
from heads.parts.resolved_recipe import NORMALISE, ResolvedRecipe
from heads.recipe import Value

SETFIT, SETFIT_PICKLE = "config_setfit.json", "model_head.pkl"
ARRAYS = ("model_head.safetensors", "model_head.npz")
COEF, INTERCEPT, CLASSES = "coef", "intercept", "classes"
MOST_ARRAY_BYTES = 1 << 28
UNREADABLE = (  # what reading a broken file raises, one that was packed among them
    *(OSError, ValueError, KeyError, TypeError, RecursionError, NotImplementedError, EOFError),
    *(SafetensorError, zipfile.BadZipFile, zlib.error),
)
POOLINGS = {  # ours, by the library's modes
    ("cls",): "cls",
    ("max",): "max",
    ("mean",): "mean",
    ("mean_sqrt_len_tokens",): "sqrt_mean",
    ("weightedmean",): "weighted",
    ("lasttoken",): "last",
    ("cls", "mean"): "cls_mean",
    ("mean", "max"): "mean_max",
}
ACTIVATIONS = {  # by the names that heads have as an option
    **{nn.Identity: "none", nn.Tanh: "tanh", nn.ReLU: "relu", nn.GELU: "gelu"},
    **{nn.Sigmoid: "sigmoid", nn.LeakyReLU: "leaky_relu", nn.ReLU6: "relu6"},
}
NAMED = {"tanh": "roberta", "gelu": "electra", "none": "dense_linear"}  # their two layers
INSTEAD = "Train a head of your own on it, for example mean+linear."


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceHead:
    """The classification layers of such a folder.

    Attributes:
        called: What its library calls it.
        tensors: The head's tensors, under our names.
        names: Our name of each tensor, and where it lies in the folder.
        outputs: c.
        labels: The names of the classes; nothing where the model's config has to know them.
    """

    called: str
    recipe: ResolvedRecipe
    tensors: Mapping[str, Tensor]
    names: Mapping[str, str]
    outputs: int
    labels: tuple[str, ...] = ()


def sentence_head(backbone: Backbone) -> SentenceHead | None:
    """Return the head of a folder of sentence-transformers or SetFit, or None if it has none.

    Raises:
        CheckpointError: It has one that is pickled, broken, or of no recipe.
    """
    folder = backbone.folder
    if folder is None or not (folder / MODULES).is_file():
        return None
    is_setfit = (folder / SETFIT).is_file()
    arrays = _arrays(folder, backbone.id) if is_setfit else {}
    try:
        check_case(folder)
        if _alone(folder):
            return None  # a CrossEncoder, whose one module is a class of Transformers
        modules = sentence_modules(folder, backbone.width)
    except HeadsError as error:
        raise CheckpointError(
            error.what.replace("this base model", backbone.id, 1), INSTEAD
        ) from None
    if is_setfit:
        return _of_setfit(arrays, modules, backbone)
    return _of_modules(modules, backbone) if modules.logits else None


def _alone(folder: Path) -> bool:
    """Whether a folder lists the model alone, without modules behind it."""
    try:
        return len(_json(folder / MODULES)) < 2
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def _json(path: Path) -> Any:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError("too large")
    return json.loads(path.read_text("utf-8"))


# --- Classification layers of sentence-transformers.


def _of_modules(modules: SentenceModules, backbone: Backbone) -> SentenceHead:
    both = zip(modules.vector, modules.logits, strict=False)
    shared = [one for one, other in takewhile(lambda pair: pair[0] is pair[1], both)]
    pooling, options, used = _reading(modules, shared, backbone)
    layers = list(_layers(modules.logits[used:], backbone.id))
    chain = nn.Sequential(*(layer for layer, _ in layers))
    own = acting(chain)
    wide, outputs = _ends(chain)
    for head in _candidates(chain):
        try:
            recipe = with_options(resolve(f"{pooling}+{head}"), options)
        except HeadsError:
            continue  # a hidden layer wider than any of ours
        other = acting(recipe.sketch(wide, outputs))
        if [says for says, _ in own] == [says for says, _ in other]:
            break
    else:
        told = ", ".join(" ".join(says[:1]) for says, _ in own)
        raise CheckpointError(
            f"No head has the classification layers of {backbone.id} ({told}).", INSTEAD
        )
    # The layers of our chain are called 0, 1, …: each knows the folder that it came from.
    given = [(name, tensor) for _, tensors in own for name, tensor in tensors.items()]
    names = [name for _, tensors in other for name in tensors]
    places = [f"{layers[int(n.partition('.')[0])][1]}.{n.rpartition('.')[2]}" for n, _ in given]
    return SentenceHead(
        called="CrossEncoder" if backbone.sentences.reads_pairs else "SentenceTransformer",
        recipe=recipe,
        tensors={name: tensor for name, (_, tensor) in zip(names, given, strict=True)},
        names=dict(zip(names, places, strict=True)),
        outputs=outputs,
    )


def _reading(
    modules: SentenceModules, shared: Sequence[Step], backbone: Backbone, length_1: bool = False
) -> tuple[str, dict[str, Value], int]:
    """How the vector is read that the head gets, and how many of the steps to the logits that is.

    Args:
        shared: The steps that lead to the sentence's vector and to the logits alike.
        length_1: Whether the vector is scaled to length 1 besides.

    Returns:
        The pooling, options of the recipe, and the number of steps in them.

    Raises:
        CheckpointError: No recipe reads so.
    """
    used = len(shared)
    scaled = modules.logits[used : used + 1]  # a head on a vector of length 1, as of cosines
    if scaled and isinstance(scaled[0].module, UnitLength):
        used, length_1 = used + 1, True
    pooling = POOLINGS.get(modules.modes, "")
    as_trained = backbone.sentences.default_prompt or not modules.reads_prompt
    if pooling and not as_trained and all(isinstance(one.module, UnitLength) for one in shared):
        length_1 |= bool(shared)
    elif len(shared) == len(modules.vector):
        pooling = "trained"
    else:
        what = f"The classification layers of {backbone.id} read another vector than it gives."
        raise CheckpointError(what, INSTEAD)
    return pooling, {NORMALISE: True} if length_1 else {}, used


def _layers(steps: Sequence[Step], model: str) -> Iterator[tuple[nn.Module, str]]:
    """Return modules as layers, each with the place of its tensors, or raise CheckpointError."""
    for step in steps:
        module = step.module
        if isinstance(module, Dense):
            if module.residual is not None:
                what = f"The {step.place} of {model} adds what it takes, as no head does."
                raise CheckpointError(what, INSTEAD)
            yield module.linear, f"{step.place}/linear"
            yield module.activation, step.place
        else:
            yield (
                Normalise() if isinstance(module, UnitLength) else module,
                f"{step.place}/norm",
            )


def _ends(chain: nn.Sequential) -> tuple[int, int]:
    """How many numbers enter a chain and leave it."""
    linears = [layer for layer in chain if isinstance(layer, nn.Linear)]
    return (linears[0].in_features, linears[-1].out_features) if linears else (1, 1)


def _candidates(chain: nn.Sequential) -> Iterator[str]:
    """Heads that a chain may be, with the options that its sizes ask for."""
    linears = [layer for layer in chain if isinstance(layer, nn.Linear)]
    norm = next((layer for layer in chain if isinstance(layer, nn.LayerNorm)), None)
    yield from ("linear", "gpt2", "norm_linear")
    if len(linears) != 2:
        return
    inner, last = linears
    used = ACTIVATIONS.get(type(list(chain)[1]), "")
    if not used:
        return
    sizes = f"hidden={inner.out_features}&activation={used}"
    if known := NAMED.get(used):  # a family's head before one of ours
        yield from (known, f"{known}?hidden={inner.out_features}")
    yield f"mlp?{sizes}"
    if norm is not None:
        bias, out_bias = (str(one.bias is not None).lower() for one in (inner, last))
        own = f"activation={used}&bias={bias}&norm_bias=true&out_bias={out_bias}"
        yield from (f"modernbert?{own}", f"modernbert?{own}&hidden={inner.out_features}")


# --- SetFit: the arrays of a logistic regression.


def _of_setfit(
    arrays: Mapping[str, Any], modules: SentenceModules, backbone: Backbone
) -> SentenceHead:
    try:
        config = _json(Path(str(backbone.folder)) / SETFIT)
        labels = config.get("labels") if isinstance(config, dict) else None
        length_1 = isinstance(config, dict) and config.get("normalize_embeddings") is True
    except (OSError, ValueError, RecursionError):
        raise _broken(backbone.id, f"its {SETFIT} cannot be read as JSON") from None
    weight, bias = _linear(arrays, backbone.id)
    pooling, options, _ = _reading(modules, modules.vector, backbone, length_1)
    recipe = with_options(resolve(f"{pooling}+linear"), options)
    width = Featurizer(recipe, backbone).width
    if weight.shape[1] != width:
        what = f"{COEF} takes {weight.shape[1]:,} numbers a text, and its body gives {width:,}"
        raise _broken(backbone.id, what)
    names = _names(arrays.get(CLASSES), labels, len(bias))
    if len({*names}) != len(bias):
        raise _broken(backbone.id, f"there are {len(bias)} outputs and {len({*names})} {CLASSES}")
    file = arrays["file"]
    return SentenceHead(
        called="SetFitModel",
        recipe=recipe,
        tensors={"classifier.weight": weight, "classifier.bias": bias},
        names={"classifier.weight": f"{file}: {COEF}", "classifier.bias": f"{file}: {INTERCEPT}"},
        outputs=len(bias),
        labels=names,
    )


def _linear(arrays: Mapping[str, Any], model: str) -> tuple[Tensor, Tensor]:
    """Return coefficients as weights (c, w) and biases (c,) under a softmax.

    Of two classes scikit-learn keeps one row: half of it, and half of it taken off, have the same
    softmax, the logistic function. What is not of a linear model is a CheckpointError.
    """
    weight, bias = arrays[COEF].float(), arrays[INTERCEPT].float().reshape(-1)
    if weight.dim() != 2 or len(weight) != len(bias) or not len(bias):
        shapes = " and ".join(str(tuple(arrays[name].shape)) for name in (COEF, INTERCEPT))
        raise _broken(model, f"{COEF} and {INTERCEPT} have the shapes {shapes}")
    if not (weight.isfinite().all() and bias.isfinite().all()):
        raise _broken(model, "they hold NaN or infinity")
    if len(weight) == 1:
        weight, bias = (torch.cat([-one / 2, one / 2]) for one in (weight, bias))
    return weight, bias


def _names(classes: Sequence[Any] | None, labels: Any, count: int) -> tuple[str, ...]:
    """The names of the classes: those that the head learned, or what its numbers stand for."""
    known = [str(one) for one in labels] if isinstance(labels, list) else []
    given = [str(one) for one in (range(count) if classes is None else classes)]
    numbers = [int(one) if one.isdecimal() else -1 for one in given]
    if known and all(0 <= number < len(known) for number in numbers):
        return tuple(known[number] for number in numbers)
    return tuple(given if classes is not None else (f"LABEL_{number}" for number in given))


def _arrays(folder: Path, model: str) -> dict[str, Any]:
    """Return a head saved as arrays, its file under `file`; raise CheckpointError for a pickle."""
    path = next((folder / name for name in ARRAYS if (folder / name).is_file()), None)
    if path is None:
        is_here = (folder / SETFIT_PICKLE).is_file()
        why = f"a pickle ({SETFIT_PICKLE}), and pickles are never opened" if is_here else "not here"
        raise CheckpointError(
            f"The head of the SetFit model {model} is {why}.",
            f"Save its arrays beside it, if you trust it: numpy.savez('{ARRAYS[1]}', "
            f"{COEF}=head.{COEF}_, {INTERCEPT}=head.{INTERCEPT}_, {CLASSES}=head.{CLASSES}_).",
        )
    try:
        found = (_of_safetensors if path.suffix == ".safetensors" else _of_npz)(path)
    except _UnfitError as error:
        raise _broken(model, f"{path.name} {error}") from None
    except UNREADABLE:
        raise _broken(model, f"{path.name} cannot be read without a pickle") from None
    if lacking := [name for name in (COEF, INTERCEPT) if name not in found]:
        raise _broken(model, f"{path.name} has no array called {lacking[0]}")
    if odd := [name for name in (COEF, INTERCEPT) if found[name].is_complex()]:
        raise _broken(model, f"{odd[0]} holds complex numbers")
    return {**found, "file": path.name}


def arrays_stamp(folder: Path | None) -> tuple[tuple[int, int], ...]:
    """Return sizes and times of a folder's files of arrays, which its revision does not cover."""
    paths = [folder / name for name in ARRAYS] if folder else []
    stats = [path.stat() for path in paths if path.is_file()]
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in stats)


class _UnfitError(Exception):
    """What is wrong with a file that can be read."""


def _check_size(size: int) -> None:
    if size > MOST_ARRAY_BYTES:
        raise _UnfitError(f"holds over {MOST_ARRAY_BYTES / 1e6:,.1f} MB")


def _of_safetensors(path: Path) -> dict[str, Any]:
    _check_size(path.stat().st_size)
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        told = (file.metadata() or {}).get(CLASSES)
    classes = None if told is None else json.loads(told)
    if not isinstance(classes, list | None):
        raise _UnfitError(f"has {CLASSES} that are no JSON list")
    return found if classes is None else found | {CLASSES: classes}


def _of_npz(path: Path) -> dict[str, Any]:
    """The arrays of a zip file of numpy's, which may claim to be small and be large."""
    import numpy

    with zipfile.ZipFile(path) as archive:
        _check_size(sum(one.file_size for one in archive.infolist()))
    with numpy.load(path, allow_pickle=False) as file:
        known = [name for name in (COEF, INTERCEPT, CLASSES) if name in file.files]
        found: dict[str, Any] = {name: file[name] for name in known}
    for name in {COEF, INTERCEPT} & found.keys():
        is_real = found[name].dtype.kind in "fiub"  # in any size and order of bytes
        found[name] = torch.from_numpy(found[name].astype("float32") if is_real else found[name])
    return found | ({CLASSES: found[CLASSES].reshape(-1).tolist()} if CLASSES in found else {})


def _broken(model: str, why: str) -> CheckpointError:
    what = f"The arrays of the SetFit model {model} cannot be used: {why}."
    return CheckpointError(what, f"Save {COEF} (c, w), {INTERCEPT} (c,) and {CLASSES} anew.")
