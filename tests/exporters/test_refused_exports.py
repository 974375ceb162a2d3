"""What cannot be exported is refused in a sentence, and what answers otherwise is not kept."""

import copy
import importlib.util
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from expected_errors import refusing
from quick_heads import classifiers
from tiny_models import write_classifier

import heads
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.classifier.pretrained import own_head
from heads.errors import (
    CheckpointError,
    DataError,
    HeadsError,
    LimitError,
    ModelError,
    RecipeError,
)
from heads.exporters import onnx, sentence_transformers
from heads.exporters import transformers as transformers_folder
from heads.exporters.export import check_library, export
from heads.exporters.matching import equivalent
from heads.exporters.onnx import write_onnx
from heads.exporters.sentence_transformers import LIBRARY, check_recipe
from heads.parts.modules import last_linear
from heads.parts.resolve import pooling, resolve

pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
TEXTS = ("the cat sat on a mat", "a dog ran home", "late flight cancelled twice")


# --- What a target cannot compute.


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("mean+linear", "reads cls"),
        ("cls@cat4+bert", "reads cls"),
        ("mean+linear?late=true", "reads cls"),
        ("cls+electra", "other layers than electra"),
        ("cls+linear", "other layers than linear"),
        ("cls+knn", "other layers"),
    ],
)
def test_what_no_class_computes_names_the_nearest_recipe(recipe, why, trained, small):
    with refusing(RecipeError, why) as refused:
        equivalent(trained(recipe).head.module, small, 3)
    assert "cls+bert" in refused.value.hint


# What the base model reads as well stays as it is, so with another one it is no class at all.
@pytest.mark.parametrize("option", ["eps=0.1", "norm_bias=true"])
def test_a_norm_of_another_option_is_another_function(option, rows, tmp_path):
    backbone = load(str(write_classifier(tmp_path / "base", "modernbert")))
    [ours] = classifiers([f"cls+modernbert?{option}"], rows, backbone)
    with refusing(RecipeError, "other layers than modernbert"):
        equivalent(ours.head.module, backbone, 3)


def test_the_decoder_that_is_missing_is_missed(rows, tmp_path):
    folder = write_classifier(tmp_path / "base", "t5")
    transformers.T5EncoderModel.from_pretrained(folder).save_pretrained(folder)
    backbone = load(str(folder))
    with refusing(RecipeError, "decoder"):
        classifiers(["eos@decoder+roberta"], rows, backbone)
    [ours] = classifiers(["mean+linear"], rows, backbone)
    with refusing(RecipeError, "decoder"):
        equivalent(ours.head.module, backbone, 3)


NO_MODULES = {
    "std+linear": "std",
    "attention+linear": "attention",
    "mean@1+linear": "the last",
    "mean@cat4+linear": "the last",
    "mean+linear?late=true": "every token",
    "mask_token+linear": "prompt",
    "mean+linear?long=windows": "windows",
    "mean+knn": "neighbours",
    "mean+residual": "network",
    "mean+proportional_odds": "thresholds",
    "mean+mlp?activation=gelu_new": "NewGELUActivation",
    "mean+norm_linear?eps=0.001": "layer norm",
}


@pytest.mark.parametrize("recipe", NO_MODULES)
def test_what_sentence_transformers_cannot_compute_is_refused_before_training(recipe, small):
    with refusing(RecipeError, NO_MODULES[recipe], "--as") as caught:
        check_recipe(resolve(recipe), small)
    in_onnx = NO_MODULES[recipe] not in ("prompt", "windows")  # which ONNX does not hold either
    assert ("ONNX" in caught.value.hint) is in_onnx


@pytest.mark.parametrize("name", list(pooling))
def test_every_pooling_is_written_by_sentence_transformers_or_refused(name, small):
    known = {*sentence_transformers.MODES, "trained", "pooler"}
    with nullcontext() if name in known else refusing(RecipeError):
        check_recipe(resolve(f"{name}+linear"), small)


@pytest.mark.parametrize("library", ["setfit", "onnx", "portable", "keras"])
def test_another_library_is_refused_with_those_that_are_known(library):
    with refusing(RecipeError, "transformers, sentence-transformers"):
        check_library(library)


@pytest.mark.parametrize(
    "recipe",
    [
        "mean+ridge",
        "mean+linear?pair=uv",
        "mean+linear?prefix=query:_",
        "mean@decoder+linear",
    ],
)
def test_what_trainer_cannot_train_is_refused(recipe, tiny):
    with refusing(RecipeError):
        heads.for_transformers(recipe, str(tiny()))


@pytest.mark.parametrize(
    ("recipe", "options", "kind"),
    [
        ("mean+logistic?long=windows&stride=4", {"library": LIBRARY}, RecipeError),
        ("cls+bert", {"library": LIBRARY, "adapter": True}, RecipeError),
        ("mean+linear", {"adapter": True}, RecipeError),
        ("cls+bert?tune=last1", {"adapter": True}, RecipeError),
        ("mean+linear?tune=lora", {"adapter": True}, RecipeError),
    ],
)
def test_a_trained_head_that_does_not_fit_leaves_no_folder(
    recipe, options, kind, trained, tmp_path
):
    with refusing(kind):
        export(trained(recipe), tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_an_adapter_that_is_merged_is_not_there_to_export(trained, tmp_path):
    export(trained("mean+linear?tune=lora"), tmp_path / "mine")
    with refusing(CheckpointError):
        export(heads.load(tmp_path / "mine"), tmp_path / "other", adapter=True)


def test_a_random_head_is_not_exported(tmp_path):
    folder = write_classifier(tmp_path / "base", "bert")
    transformers.AutoModel.from_pretrained(folder).save_pretrained(folder)
    backbone = load(str(folder))
    with refusing(CheckpointError):
        export(Classifier(backbone=backbone, head=own_head(backbone)), tmp_path / "out")


# --- Where it cannot be written.


@pytest.mark.parametrize("occupied", ["file", "folder"])
@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear"])
def test_what_is_there_is_never_overwritten(recipe, occupied, trained, tmp_path):
    path = tmp_path / "out"
    if occupied == "folder":
        path.mkdir()
    (path / "thesis.txt" if occupied == "folder" else path).write_text("years of work", "utf-8")
    with refusing(CheckpointError, str(path), longest=600):
        export(trained(recipe), path)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_name_that_is_none_of_an_onnx_file_is_refused(trained, tmp_path, monkeypatch):
    ours = trained("mean+linear")
    for name in ("mine.bin", "mine", "."):
        with refusing(DataError, ".onnx", longest=600):
            write_onnx(ours, tmp_path / name)
    with refusing(DataError, longest=600):
        write_onnx(ours, tmp_path / "nowhere" / "mine.onnx")
    monkeypatch.setattr(onnx, "MOST_BYTES", 1000)
    with refusing(LimitError):
        write_onnx(ours, tmp_path / "mine.onnx")
    assert not any(tmp_path.iterdir())


def test_a_missing_package_is_named_with_what_to_do(trained, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    lacking = lambda name: None if name == "onnxscript" else find(name)  # noqa: E731
    monkeypatch.setattr(onnx.importlib.util, "find_spec", lacking)
    with refusing(HeadsError, "onnxscript", "pip install"):
        write_onnx(trained("mean+linear"), tmp_path / "mine.onnx")


def test_what_the_exporter_of_torch_cannot_do_is_one_sentence(trained, tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise RuntimeError("\x1b[96mno such operator\x1b[0m\nand a page more")

    monkeypatch.setattr(onnx, "export_module", fail)
    with refusing(ModelError, "RuntimeError"):
        write_onnx(trained("mean+linear"), tmp_path / "mine.onnx")
    assert not any(tmp_path.iterdir())


# --- What answers otherwise.


def shift_native(ours, patch):
    name_tensors = transformers_folder.name_head_tensors

    def shift_tensors(*arguments: Any) -> Any:
        tensors = name_tensors(*arguments).items()
        return {name: t + 0.1 * name.startswith("classifier") for name, t in tensors}

    patch.setattr(transformers_folder, "name_head_tensors", shift_tensors)


def read_the_largest(ours, patch):
    patch.setitem(sentence_transformers.MODES, "mean", ("max",))


def turn_the_adapter(ours, patch):
    last = [name for name in ours.head.base.tensors if "lora_B" in name][-1]
    own = ours.head.base.tensors[last]
    patch.setitem(ours.head.base.tensors, last, own + 5 * torch.eye(*own.shape))


@pytest.mark.parametrize(
    ("recipe", "spoil", "options"),
    [
        ("cls+bert", shift_native, {}),
        ("mean+linear", read_the_largest, {"library": LIBRARY}),
        ("cls+bert?tune=lora", turn_the_adapter, {"adapter": True}),
    ],
)
def test_a_folder_that_answers_otherwise_is_not_kept(
    recipe, spoil, options, trained, tmp_path, monkeypatch
):
    ours = trained(recipe)
    spoil(ours, monkeypatch)
    with refusing(CheckpointError, recipe.partition("?")[0]):
        export(ours, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_a_file_that_answers_otherwise_is_not_kept(onnx_file, tmp_path, monkeypatch):
    (ours, report), path = onnx_file, tmp_path / "mine.onnx"
    path.write_bytes(b"older")
    module, chain = copy.copy(ours.head.module), copy.deepcopy(ours.head.module.head)
    with torch.no_grad():
        chain.get_submodule(last_linear(chain)).bias.add_(0.01)
    module._modules = {**module._modules, "head": chain}
    other = replace(ours, head=replace(ours.head, module=module))
    monkeypatch.setattr(onnx, "write_file", lambda _, place: shutil.copy(report.path, place))
    with refusing(CheckpointError, "0.01"):
        write_onnx(other, path)
    assert path.read_bytes() == b"older"
    assert [one.name for one in tmp_path.iterdir()] == ["mine.onnx"]


# --- Folders that somebody has changed.


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"head": "no_such_head"}, CheckpointError),
        ({"pooling": "no_such_pooling"}, CheckpointError),
        ({"head_options": {"hidden": 10**9}}, CheckpointError),
        ({"id2label": {"0": "a", "5": "b", "6": "c"}}, CheckpointError),
        ({"backbone_config": {"model_type": "bert", "num_hidden_layers": 10**6}}, ModelError),
        ({"backbone_config": {"model_type": "no_such_model"}}, ModelError),
        ({"layers": "cat4"}, CheckpointError),
    ],
    ids=str,
)
def test_a_config_that_somebody_has_changed_is_refused(change, kind, trained, tmp_path):
    export(trained("mean+mlp"), tmp_path / "out")
    path = tmp_path / "out" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(kind):
        heads.load(tmp_path / "out")


def test_a_tokenizer_that_grows_without_end_is_refused(trained, tmp_path):
    export(trained("mean+linear?prefix=query:_"), tmp_path / "out")
    path = tmp_path / "out" / "tokenizer_config.json"
    values = json.loads(path.read_text("utf-8"))
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    values["head_to_head"]["normalizer"] = {"type": "Sequence", "normalizers": [grow] * 7}
    path.write_text(json.dumps(values), "utf-8")
    with pytest.raises(ModelError):
        heads.load(tmp_path / "out")


# --- A head on pairs takes no single text.


@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear", "cls+bert?pair=uv_diff"])
def test_a_head_that_learned_from_two_texts_takes_no_single_one(recipe, trained, tmp_path):
    ours = trained(recipe, "pairs")
    export(ours, tmp_path / "out")
    for one in (ours, heads.load(tmp_path / "out")):
        with refusing(DataError, "two texts"):
            one.predict(TEXTS)
        with refusing(DataError, "two texts"):
            heads.Inspector(recipes=[one]).attribute("the cat sat")
    with refusing(DataError, "two texts"):
        heads.compare("the cat sat", recipes=["own"], model=str(tmp_path / "out"))
