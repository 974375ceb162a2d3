"""What was learned of a base model goes along: in every form, for a process that knows no Heads."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from quick_heads import TUNED, classifiers
from safetensors import safe_open

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters.adapter import has_adapter
from heads.exporters.export import export
from heads.exporters.model_card import model_card
from heads.interfaces.web import downloads

TEXTS = ["the cat sat on a mat", "a dog ran home", "it was late and the flight was cancelled twice"]
READ = """
import json, runpy, sys
import torch
from pathlib import Path

texts, forms, base = json.loads(sys.argv[1])
found = {}
for name, form in forms.items():
    if form in ("native", "code"):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        trust = {"trust_remote_code": form == "code"}
        model = AutoModelForSequenceClassification.from_pretrained(name, **trust).eval()
        tokens = AutoTokenizer.from_pretrained(name, **trust)
        tokens = tokens(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            found[name] = model(**tokens).logits.tolist()
    if form == "adapter":
        from peft import PeftModel
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
        model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
        model = PeftModel.from_pretrained(model, name).eval()
        tokens = AutoTokenizer.from_pretrained(name)(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            found[name] = model(**tokens).logits.tolist()
        page = Path(name, "README.md").read_text().partition("```python")[2].partition("```")[0]
        own = {}
        exec(page.replace("print(", "("), own)
        with torch.no_grad():
            found[name + " by its card"] = own["model"](**tokens).logits.tolist()
    if form == "onnx":
        import onnxruntime
        from transformers import AutoTokenizer
        session = onnxruntime.InferenceSession(name)
        tokens = AutoTokenizer.from_pretrained(base)(texts, padding=True, return_tensors="np")
        given = {one.name: tokens[one.name] for one in session.get_inputs()}
        found[name] = session.run(["logits"], given)[0].tolist()
assert "heads" not in sys.modules
print(json.dumps(found))
"""


def trained(recipe: str, backbone: Backbone, corpus: Corpus) -> Classifier:
    """A tuned head, whose answers on the frozen base model would be others."""
    (found,) = classifiers([recipe], corpus, backbone, TUNED)
    ours = found.logits(TEXTS)
    frozen = HeadInputs(backbone, TEXTS).logits(replace(found.head, base=None))
    assert float((frozen - ours).abs().max() / ours.abs().max()) > 1e-3
    return found


@pytest.fixture(scope="module")
def full(small: Backbone, rows: Corpus) -> Classifier:
    return trained("cls+bert?tune=full", small, rows)


@pytest.fixture(scope="module")
def lora(small: Backbone, rows: Corpus) -> Classifier:
    return trained("cls+bert?tune=lora", small, rows)


@pytest.mark.slow
def test_exports_answer_the_same_in_a_process_of_their_own(
    full: Classifier, lora: Classifier, small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")
    mean, last = (
        trained(one, small, rows) for one in ("mean+linear?tune=lora", "mean+mlp?tune=last1")
    )
    wanted = {
        "full": (full, "native"),
        "lora": (lora, "native"),
        "adapter": (lora, "adapter"),
        "mean": (mean, "code"),
        "last": (last, "code"),
        "full.onnx": (full, "onnx"),
        "mean.onnx": (mean, "onnx"),
    }
    for name, (one, form) in wanted.items():
        if form == "onnx":
            heads.export_onnx(one, tmp_path / name)
        else:
            heads.export(one, tmp_path / name, adapter=form == "adapter")
    assert small.folder is not None
    base = Path(small.id).name  # as the card has it
    (tmp_path / base).symlink_to(small.folder)
    forms = {name: form for name, (_, form) in wanted.items()}
    found = subprocess.run(
        [sys.executable, "-I", "-c", READ, json.dumps([TEXTS, forms, base])],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_MODULES_CACHE": str(tmp_path / "modules"),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert found.returncode == 0, found.stderr
    theirs = json.loads(found.stdout.splitlines()[-1])
    assert theirs.keys() == {*wanted, "adapter by its card"}
    for name, logits in theirs.items():
        ours = wanted[name.partition(" ")[0]][0].logits(TEXTS)
        torch.testing.assert_close(torch.tensor(logits), ours, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("which", ["full", "lora"])
def test_a_native_folder_has_the_learned_weights(
    which: str, request: pytest.FixtureRequest, small: Backbone, tmp_path: Path
) -> None:
    classifier: Classifier = request.getfixturevalue(which)
    found = export(classifier, tmp_path / "mine")
    assert found.native
    name = "bert.encoder.layer.1.output.dense.weight"
    with safe_open(tmp_path / "mine" / "model.safetensors", framework="pt") as file:
        own = file.get_tensor(name)
        assert not any("lora" in key for key in file.keys())  # noqa: SIM118
    kept = small.model.get_parameter(name.removeprefix("bert."))
    assert not torch.equal(own, kept)
    again = heads.load(tmp_path / "mine")
    torch.testing.assert_close(again.logits(TEXTS), classifier.logits(TEXTS))


def test_a_folder_with_its_own_class_has_the_learned_weights(
    small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    classifier = trained("mean+linear?tune=last1", small, rows)
    assert not export(classifier, tmp_path / "mine").native
    again = heads.load(tmp_path / "mine")
    assert again.head.base is None  # it lies in the base model of the folder
    assert again.recipe == classifier.recipe
    torch.testing.assert_close(again.logits(TEXTS), classifier.logits(TEXTS))
    told = f"{classifier.head.base_parameters:,} of its"
    assert told in (tmp_path / "mine" / "README.md").read_text("utf-8")
    heads.export(again, tmp_path / "twice")
    twice = heads.load(tmp_path / "twice")
    torch.testing.assert_close(twice.logits(TEXTS), classifier.logits(TEXTS))


@pytest.mark.parametrize(
    ("recipe", "native"), [("cls+bert?tune=setfit", True), ("mean+ridge?tune=setfit", False)]
)
def test_what_was_learned_on_pairs_goes_along(
    recipe: str, native: bool, small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    pytest.importorskip("setfit", reason="setfit is not installed (pip install -e .[setfit])")
    classifier = trained(recipe, small, rows)
    found = export(classifier, tmp_path / "mine")
    assert found.native is native
    assert found.difference < 1e-5
    again = heads.load(tmp_path / "mine")
    torch.testing.assert_close(again.logits(TEXTS), classifier.logits(TEXTS))
    says = " ".join((tmp_path / "mine" / "README.md").read_text("utf-8").split())
    assert "on pairs of texts, before the head" in says
    assert "`tune=setfit`, base_epochs=1, base_rate=0.02)" in says  # and none of the head's


def test_a_calibrated_head_keeps_its_base_model(lora: Classifier, tmp_path: Path) -> None:
    sure = replace(lora, head=replace(lora.head, temperature=2.0))
    divided = heads.calibrated(sure)
    torch.testing.assert_close(divided.logits(TEXTS), lora.logits(TEXTS) / 2)
    for adapter in (False, True):
        found = export(divided, tmp_path / f"mine-{adapter}", adapter=adapter)
        assert found.difference < 1e-5


# --- The card.


@pytest.mark.parametrize(("which", "merged"), [("full", False), ("lora", True)])
def test_the_card_says_what_was_learned(
    which: str, merged: bool, request: pytest.FixtureRequest
) -> None:
    classifier: Classifier = request.getfixturevalue(which)
    says = model_card(classifier, "", [])
    assert f"{classifier.head.base_parameters:,}" in says
    assert f"`tune={which}`, epochs=1, learning_rate=0.02, head_rate=0.001" in says
    assert ("merged into its weights" in says) is merged
    assert ("rank 8" in says) is merged
    assert "frozen" not in says
    assert "merged" not in model_card(classifier, "", [], is_adapter=True)


def test_the_card_of_a_frozen_base_model_says_so(small: Backbone, rows: Corpus) -> None:
    (one,) = classifiers(["mean+linear"], rows, small)
    assert "The base model was not changed (frozen)" in model_card(one, "", [])


# --- An adapter.

ADAPTERS = (
    ("bert", "cls+bert?tune=lora", {"classifier", "bert.pooler.dense"}),
    ("bert", "pooler+linear?tune=lora4", {"classifier", "bert.pooler.dense"}),
    ("roberta", "cls+roberta?tune=lora", {"classifier"}),
    ("distilbert", "cls+distilbert?tune=lora", {"classifier", "pre_classifier"}),
    ("gpt2", "last+gpt2?tune=lora", {"score"}),
    ("bart", "eos@decoder+roberta?tune=lora", {"classification_head"}),
    ("electra", "cls+electra?tune=lora", {"classifier"}),
    ("modernbert", "cls+modernbert?tune=lora", {"classifier", "head"}),
    ("xlnet", "last+xlnet?tune=lora", {"logits_proj", "sequence_summary"}),
)


@pytest.mark.parametrize(
    ("family", "recipe", "modules"), slow.but(ADAPTERS, ADAPTERS[1], ADAPTERS[4])
)
def test_an_adapter_answers_as_the_head_does(
    family: str,
    recipe: str,
    modules: set[str],
    tiny: Callable[..., Path],
    rows: Corpus,
    tmp_path: Path,
) -> None:
    backbone = load(str(tiny(family)))
    before = {name: own.clone() for name, own in backbone.model.state_dict().items()}
    classifier = trained(recipe, backbone, rows)
    found = export(classifier, tmp_path / "mine", adapter=True)
    modes = {path.stat().st_mode for path in found.folder.iterdir()}
    assert len(modes) == 1  # whoever may read the card may read the weights
    assert found.native
    assert found.called.startswith("an adapter of PEFT for ")
    assert found.difference <= 1e-5
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md", "config.json"} <= {
        *found.files
    }
    facts: dict[str, Any] = json.loads((tmp_path / "mine" / "adapter_config.json").read_text())
    assert facts["task_type"] == "SEQ_CLS"
    assert facts["peft_type"] == "LORA"
    assert set(facts["modules_to_save"]) == modules
    assert facts["base_model_name_or_path"] == tiny(family).name  # no folder of this machine
    page = (tmp_path / "mine" / "README.md").read_text("utf-8")
    assert str(tiny(family).parent) not in page
    assert re.search(r"library_name: peft\b", page)
    size = (tmp_path / "mine" / "adapter_model.safetensors").stat().st_size
    assert size < sum(own.nbytes for own in before.values())
    own = backbone.model.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in before.items())


def test_an_adapter_goes_onto_a_checkpoint_that_has_a_head_of_its_own(
    tiny: Callable[..., Path], rows: Corpus, tmp_path: Path
) -> None:
    backbone = load(str(tiny("bert", "ForSequenceClassification")))
    classifier = trained("cls+bert?tune=lora", backbone, rows)
    assert export(classifier, tmp_path / "mine", adapter=True).difference <= 1e-5
    assert "ignore_mismatched_sizes=True" in (tmp_path / "mine" / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("recipe", "says", "kind"),
    [
        ("mean+linear", "mean+linear has learned no adapter of its base model.", RecipeError),
        ("cls+bert?tune=last1", "has learned no adapter of its base model.", RecipeError),
        ("mean+linear?tune=lora", "no class of Transformers computes", RecipeError),
    ],
)
def test_what_has_no_adapter_is_refused_in_a_sentence(
    recipe: str, says: str, kind: type[HeadsError], small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    (one,) = classifiers([recipe], rows, small, TUNED)
    with pytest.raises(kind, match=re.escape(says)):
        export(one, tmp_path / "mine", adapter=True)
    assert not (tmp_path / "mine").exists()


def test_the_page_offers_an_adapter_where_there_is_one(
    lora: Classifier, small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    assert has_adapter(lora)
    for recipe in ("cls+bert", "cls+bert?tune=last1", "mean+linear?tune=lora"):
        assert not has_adapter(classifiers([recipe], rows, small, TUNED)[0])
    assert downloads.ADAPTER in downloads.forms_of(lora)
    file, says, code = downloads.written(lora, downloads.ADAPTER, tmp_path)
    assert "peft" in code
    with zipfile.ZipFile(file) as archive:
        names = {Path(name).name for name in archive.namelist()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    assert "an adapter of PEFT for BertForSequenceClassification" in says[0]


def test_an_adapter_that_is_merged_is_not_there_to_export(
    small: Backbone, rows: Corpus, tmp_path: Path
) -> None:
    export(trained("mean+linear?tune=lora", small, rows), tmp_path / "mine")
    again = heads.load(tmp_path / "mine")
    with pytest.raises(CheckpointError, match="is merged into its base model"):
        export(again, tmp_path / "other", adapter=True)


def test_an_adapter_that_answers_otherwise_is_not_kept(
    lora: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base: Any = lora.head.base
    last = [name for name in base.tensors if "lora_B" in name][-1]
    own = base.tensors[last]
    monkeypatch.setitem(base.tensors, last, own + 5 * torch.eye(*own.shape))
    with pytest.raises(CheckpointError, match="differ by"):
        export(lora, tmp_path / "mine", adapter=True)
    assert not list(tmp_path.iterdir())
