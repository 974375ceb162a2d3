"""One ONNX file gives our logits, runs without this package, and is right or not there at all."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from quick_heads import classifiers
from tiny_models import WORDS

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build
from heads.data.dataset import corpus_of
from heads.data.samples import sample
from heads.errors import CheckpointError, DataError, HeadsError, LimitError, ModelError
from heads.exporters import onnx, verification
from heads.exporters.onnx import OnnxReport, inputs, write_onnx

TEXTS = [" ".join(WORDS[start : start + length]) for start in range(3) for length in (1, 4, 9)]
SECOND = TEXTS[4:] + TEXTS[:4]


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    for name in onnx.PACKAGES:
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")


def trained(recipe: str, corpus: Corpus, backbone: Backbone) -> Classifier:
    return classifiers([recipe], corpus, backbone)[0]


def check(classifier: Classifier, path: Path) -> OnnxReport:
    """Writes it and compares its logits with ours, on texts that it was not checked on."""
    import onnxruntime

    report = write_onnx(classifier, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert report.inputs == tuple(one.name for one in session.get_inputs())
    assert report.difference <= 1e-5
    assert report.texts > 20
    batches = [([text], ()) for text in TEXTS] + [([text], [text]) for text in TEXTS]
    if classifier.head.module.is_siamese:
        batches = [([text], [SECOND[0]]) for text in TEXTS] + [(TEXTS * 3, SECOND * 3)]
    elif not classifier.backbone.reads_padding:
        batches += [(TEXTS, ()), (TEXTS[:2], SECOND[:2]), (TEXTS * 3, SECOND * 3)]
    for texts, pairs in batches:
        given = {n: one.numpy() for n, one in inputs(classifier, texts, pairs).items()}
        [logits] = session.run(["logits"], given)
        ours = classifier.logits(texts, pairs)
        assert (torch.from_numpy(logits) - ours).abs().max() <= 1e-5
    assert float(ours.std(dim=0).max()) > 1e-6
    return report


CASES = {
    ("bert", "flatten+knn?k=3"): ["input_ids", "token_type_ids", "attention_mask"],
    ("bert", "mean_content@mix+eurobert?late=true"): [
        *("input_ids", "token_type_ids", "attention_mask")
    ],
    ("gpt2", "last+bert"): ["input_ids", "attention_mask"],
    ("bart", "eos@decoder+roberta"): ["input_ids", "attention_mask"],
}


@pytest.mark.parametrize(("family", "recipe"), slow.but(CASES, ("bert", "flatten+knn?k=3")))
def test_a_file_gives_our_logits_at_any_size(family, recipe, rows, tiny, tmp_path):
    backbone = load(str(tiny(family)))
    if family == "gpt2":  # and a word that its class would take for padding
        home = backbone.tokenizer.convert_tokens_to_ids("home")
        backbone = replace(backbone, skipped=home)
    classifier = trained(recipe, rows, backbone)
    report = check(classifier, tmp_path / "mine.onnx")
    assert sorted(report.inputs) == sorted(CASES[family, recipe])
    assert ("one text at a time" in report.usage) == (family == "gpt2")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.onnx"]


@pytest.mark.parametrize("recipe", ["mean_content+mlp?pair=prod", "mean+linear?pair=uv_diff"])
@pytest.mark.slow
def test_a_file_of_pairs_takes_both_texts(recipe, small, tmp_path, monkeypatch):
    longer = [("x", "y")[len(a) > len(b)] for a, b in zip(TEXTS, SECOND, strict=True)]
    pairs = build("pairs", TEXTS * 4, longer * 4, SECOND * 4)
    classifier = trained(recipe, pairs, small)
    report = check(classifier, tmp_path / "mine.onnx")
    names = {"input_ids", "attention_mask", "token_type_ids"}
    assert set(report.inputs) == names | {f"{name}_pair" for name in names}
    assert "_pair" in report.notes[0]
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(report.usage, made)
    ours = classifier.logits(["a text", "another, longer text"], ["a second text", "one more"])
    assert (torch.from_numpy(made["logits"]) - ours).abs().max() <= 1e-5


@pytest.mark.slow
def test_the_usage_of_a_joint_head_gives_two_texts_and_names_classes(
    small, tmp_path, monkeypatch, capsys
):
    labels = [("x", "y")[row % 2] for row in range(36)]
    classifier = trained("mean+linear", build("pairs", TEXTS * 4, labels, SECOND * 4), small)
    report = write_onnx(classifier, tmp_path / "mine.onnx")
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(report.usage, made)
    both = ["a text", "another, longer text"], ["a second text", "one more"]
    assert (torch.from_numpy(made["logits"]) - classifier.logits(*both)).abs().max() <= 1e-5
    named = list(classifier.predict(*both))
    assert capsys.readouterr().out.splitlines()[-1] == str(named)


@pytest.mark.slow
def test_the_usage_of_several_labels_gives_each_above_its_own_threshold(
    small, tmp_path, monkeypatch, capsys
):
    labels = [("", "a", "b", "a|b")[row % 4] for row in range(36)]
    own = trained("mean+linear", build("many", TEXTS * 4, labels), small).head
    asked = ["a text", "another, longer text"]
    bars = Classifier(backbone=small, head=own).logits(asked)[0] - 0.01
    tuned = Classifier(backbone=small, head=replace(own, thresholds=tuple(bars.tolist())))
    report = write_onnx(tuned, tmp_path / "mine.onnx")
    monkeypatch.chdir(tmp_path)
    exec(report.usage, {})
    told = capsys.readouterr().out.splitlines()[-1]
    assert told == str([list(names) for names in tuned.predict(asked)])
    assert told.startswith("[['a', 'b'], ")


def test_the_metadata_say_how_logits_are_taken(small, tmp_path):
    import onnxruntime

    labels = [("", "a", "b", "a|b")[row % 4] for row in range(36)]
    own = trained("mean+linear", build("many", TEXTS * 4, labels), small).head
    tuned = replace(own, thresholds=(-1.5, 0.25), temperature=2.0)
    report = write_onnx(Classifier(backbone=small, head=tuned), tmp_path / "mine.onnx")
    assert any("metadata 'thresholds'" in note for note in report.notes)
    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["output_activation"], json.loads(facts["temperature"])) == ("sigmoid", 2.0)
    assert json.loads(facts["thresholds"]) == [-1.5, 0.25]


ALONE = """
import json, sys

sys.modules["heads"] = sys.modules["torch"] = None  # they are not here
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
facts = session.get_modelmeta().custom_metadata_map
usage, folder = sys.argv[2:]
exec(usage.replace("sentence-transformers/all-MiniLM-L6-v2", folder))
print(json.dumps([facts, logits.tolist()]))
"""


@pytest.mark.slow
def test_the_bundled_model_runs_in_a_process_of_its_own(backbone, tmp_path):
    """As its usage says, without us and without torch; on texts of the samples it agrees."""
    import onnxruntime

    corpus = corpus_of(sample("sentiment"))
    classifier = trained("mean+linear", corpus, backbone)
    path = tmp_path / "mine.onnx"
    report = write_onnx(classifier, path)
    assert report.size_bytes == path.stat().st_size > 50_000_000
    told = json.loads(json.dumps(report.as_json()))
    assert (told["path"], told["difference"]) == (str(path), report.difference)
    found = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, path, report.usage, str(backbone.folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert found.returncode == 0, found.stderr
    facts, logits = json.loads(found.stdout.splitlines()[-1])
    ours = classifier.logits(["a text", "another, longer text"])
    assert (torch.tensor(logits) - ours).abs().max() <= 1e-5
    assert (facts["recipe"], facts["problem_type"], facts["tokens"]) == (
        "mean+linear",
        "single_label_classification",
        "256",
    )
    assert json.loads(facts["classes"]) == list(classifier.classes)
    assert facts["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    texts = corpus.texts[:60]
    given = {name: one.numpy() for name, one in inputs(classifier, texts).items()}
    [theirs] = session.run(["logits"], given)
    assert (theirs.argmax(axis=1) == classifier.logits(texts).argmax(dim=1).numpy()).all()


@pytest.fixture(scope="module")
def fine(small: Backbone, rows: Corpus) -> Classifier:
    return trained("mean+linear", rows, small)


def test_a_missing_package_is_said_with_what_to_do(fine, tmp_path, monkeypatch):
    find = onnx.importlib.util.find_spec
    lacking = lambda name: None if name == "onnxscript" else find(name)  # noqa: E731
    monkeypatch.setattr(onnx.importlib.util, "find_spec", lacking)
    with pytest.raises(HeadsError, match=r"needs onnxscript, not installed here\. Run: pip"):
        write_onnx(fine, tmp_path / "mine.onnx")


def test_what_cannot_stand_there_is_said_beforehand(fine, tmp_path, monkeypatch):
    for name in ("mine.bin", "mine", "."):
        with pytest.raises(DataError, match=r"Let it end in \.onnx"):
            write_onnx(fine, tmp_path / name)
    with pytest.raises(DataError, match="cannot be written"):
        write_onnx(fine, tmp_path / "nowhere" / "mine.onnx")
    monkeypatch.setattr(onnx, "MOST_BYTES", 1000)
    with pytest.raises(LimitError, match="one ONNX file holds"):
        write_onnx(fine, tmp_path / "mine.onnx")
    assert not any(tmp_path.iterdir())


def test_what_the_exporter_cannot_do_is_one_sentence(fine, tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise RuntimeError("\x1b[96mno such operator\x1b[0m\nand a page more")

    monkeypatch.setattr(onnx, "export_module", fail)
    with pytest.raises(ModelError, match=r"cannot write as ONNX \(RuntimeError\)") as error:
        write_onnx(fine, tmp_path / "mine.onnx")
    assert "\n" not in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_file_that_answers_otherwise_is_not_kept(fine, tmp_path, monkeypatch):
    path = tmp_path / "mine.onnx"
    path.write_bytes(b"older")
    export_module = onnx.export_module

    class Shifted(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, states: object) -> torch.Tensor:
            return self.inner(states) + 0.01

    def export_shifted(module: torch.nn.Module, *arguments: Any) -> object:
        setattr(module, "head", Shifted(module.get_submodule("head")))  # noqa: B010
        return export_module(module, *arguments)

    monkeypatch.setattr(onnx, "export_module", export_shifted)
    with pytest.raises(CheckpointError, match=r"gives logits that differ by 0\.01 from ours"):
        write_onnx(fine, path)
    assert path.read_bytes() == b"older"
    assert [one.name for one in tmp_path.iterdir()] == ["mine.onnx"]


def test_texts_that_the_base_model_cannot_read_are_no_trial(fine, monkeypatch):
    def reads(texts: object, pairs: object = ()) -> torch.Tensor:
        raise ModelError("too short")

    monkeypatch.setattr(Classifier, "logits", lambda self, texts, pairs=(): reads(texts, pairs))
    with pytest.raises(CheckpointError, match="reads none of the texts"):
        verification.verify_logits(fine, reads, most=1e-5)
