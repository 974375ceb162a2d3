"""What a folder tells of itself: its card, its config, the usage of a file, its metadata."""

import json
import re
import zipfile
from dataclasses import replace
from itertools import compress
from pathlib import Path

import pytest
import slow
import torch
import transformers
from quick_heads import TUNED, classifiers
from tiny_models import write_classifier

import heads
from heads.backbone import trained_reading
from heads.backbone.loading import load
from heads.catalog.tiny_models import quiet
from heads.classifier import native_head
from heads.classifier.classifier import Classifier
from heads.exporters import sentence_transformers
from heads.exporters.adapter import has_adapter
from heads.exporters.export import export
from heads.exporters.model_card import model_card
from heads.exporters.onnx import PACKAGES, write_onnx
from heads.interfaces.web import downloads
from heads.problem import MULTI_LABEL

pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
TEXTS = ["the cat sat on a mat", "a dog ran home", "it was late and late"]
TUNED_SETTINGS = "epochs=1, learning_rate=0.02, head_rate=0.001"

# By recipe and labels: what the card tells, and what it must not.
CARDS = {
    ("mean+linear", "classes"): (("frozen",), ("`tune=", "two texts")),
    ("mean+mlp?hidden=8&without=hidden", "classes"): (("hidden is left out",), ()),
    ("cls+bert", "pairs"): (("It needs two texts",), ()),
    ("mean+linear", "pairs"): (("It needs two texts",), ()),
    ("cls+bert?pair=uv_diff", "pairs"): (("[u; v; |u − v|]", "separately"), ()),
    ("cls+bert", "numbers"): (
        ("predicts numbers: number.", "Spearman", "trained once"),
        ("Accuracy", "heads were scored on these rows"),
    ),
    ("cls+bert?tune=full", "classes"): ((f"`tune=full`, {TUNED_SETTINGS}",), ("merged", "frozen")),
    ("cls+bert?tune=lora", "classes"): (
        (f"`tune=lora`, {TUNED_SETTINGS}", "merged into its weights", "rank 8"),
        ("frozen",),
    ),
    ("mean+ridge?tune=setfit", "classes"): (
        ("on pairs of texts, before the head", "`tune=setfit`, base_epochs=1, base_rate=0.02)"),
        (),
    ),
}


@pytest.mark.parametrize(("recipe", "data"), CARDS)
def test_a_card_tells_what_was_learned_and_of_what(recipe, data, trained):
    if "setfit" in recipe:
        pytest.importorskip("setfit", reason="setfit is not installed (pip install -e .[setfit])")
    ours = trained(recipe, data)
    card = " ".join(model_card(ours, "", []).split())
    facts, strange = CARDS[recipe, data]
    assert [fact for fact in facts if fact not in card] == []
    assert [fact for fact in strange if fact in card] == []
    if "tune=" in recipe:
        assert f"{ours.head.base_parameters:,}" in card
        assert "merged" not in model_card(ours, "", [], is_adapter=True)


def with_thresholds(ours: Classifier) -> Classifier:
    """The head with a threshold between the logits of two texts, and a temperature."""
    middle = ours.logits(TEXTS).topk(2, dim=0).values.mean(dim=0).tolist()
    return replace(ours, head=replace(ours.head, thresholds=tuple(middle), temperature=1.75))


@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear"])
def test_thresholds_and_temperature_stand_in_card_and_config(recipe, trained, tmp_path):
    ours = with_thresholds(trained(recipe, "labels"))
    found = export(ours, tmp_path / "out")
    shares = torch.tensor(ours.head.thresholds).sigmoid().tolist()
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert f"| a | {shares[0]:.3f} |" in card
    assert "divided by 1.75" in card
    back = heads.load(tmp_path / "out")
    assert back.head.thresholds == pytest.approx(ours.head.thresholds, abs=1e-9)
    assert back.head.temperature == 1.75
    if found.native:
        config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
        assert config.thresholds == pytest.approx(dict(zip("ab", shares, strict=True)))
        assert any("config.thresholds" in note for note in found.notes)
        taken = ask_pipeline(tmp_path / "out") > torch.tensor([*config.thresholds.values()])
        assert [tuple(compress("ab", row)) for row in taken.tolist()] == ours.predict(TEXTS)


def ask_pipeline(folder) -> torch.Tensor:
    """What Transformers' own pipeline says of each class, in the order of its config."""
    with quiet():
        classify = transformers.pipeline("text-classification", str(folder), top_k=None)
        told = [{one["label"]: one["score"] for one in answer} for answer in classify(TEXTS)]
    names = classify.model.config.id2label
    return torch.tensor([[row[names[number]] for number in sorted(names)] for row in told])


def test_the_pipeline_asks_each_class_of_a_vote_alone(trained, tmp_path):
    ours = trained("cls+bert?loss=ovr")
    assert export(ours, tmp_path / "out").notes
    logits = ours.logits(TEXTS)
    assert ask_pipeline(tmp_path / "out").sub(logits.sigmoid()).abs().max() < 1e-6
    votes = logits.sigmoid() / logits.sigmoid().sum(dim=1, keepdim=True)
    back = heads.load(tmp_path / "out")
    torch.testing.assert_close(back.probabilities(TEXTS), votes, atol=1e-6, rtol=0)
    path = tmp_path / "out" / "config.json"
    config = json.loads(path.read_text("utf-8"))
    del config["head_to_head"]  # as if others had written it
    path.write_text(json.dumps(config), "utf-8")
    native_head._found.clear()
    assert heads.load(tmp_path / "out").head.problem is MULTI_LABEL


def test_the_pipeline_gives_the_number_itself(trained, tmp_path):
    ours = trained("cls+bert", "numbers")
    export(ours, tmp_path / "out")
    assert ask_pipeline(tmp_path / "out").sub(ours.logits(TEXTS)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("recipe", "data"), [("cls+bert", "numbers"), ("mean+mlp?tune=last1", "classes")]
)
def test_what_came_in_goes_out_the_same(recipe, data, trained, tmp_path):
    ours = trained(recipe, data)
    found = export(ours, tmp_path / "out")
    back = heads.load(tmp_path / "out")
    assert back.head.base is None  # what was learned of it lies in the base model of the folder
    again = export(back, tmp_path / "again")
    assert (again.called, again.recipe) == (found.called, found.recipe)
    logits = heads.load(tmp_path / "again").logits(TEXTS)
    torch.testing.assert_close(logits, ours.logits(TEXTS))


def test_older_marks_of_a_base_model_do_not_go_along(trained, rows, tmp_path):
    tuned = with_thresholds(trained("cls+bert", "labels"))
    export(tuned, tmp_path / "first")
    [plain] = classifiers(["cls+bert"], rows, load(str(tmp_path / "first")))
    export(replace(plain, head=replace(plain.head, temperature=1.0)), tmp_path / "second")
    first, second = (
        set(json.loads((tmp_path / name / "config.json").read_text("utf-8")))
        for name in ("first", "second")
    )
    marks = {"thresholds", "head_to_head"}
    assert (first & marks, second & marks) == (marks, set())


def test_no_template_of_a_foreign_tokenizer_goes_along(rows, tmp_path):
    folder = write_classifier(tmp_path / "base", "gpt2")
    (folder / "chat_template.jinja").write_text("{{ 'anything' }}", "utf-8")
    [ours] = classifiers(["last+gpt2"], rows, load(str(folder)))
    found = export(ours, tmp_path / "out")
    assert not [name for name in found.files if "template" in name]
    assert "anything" not in (tmp_path / "out" / "tokenizer_config.json").read_text("utf-8")
    assert any("padding token" in note for note in found.notes)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "out").pad_token_id is not None


# --- Adapters and modules


def test_an_adapter_names_its_base_model_and_saves_the_head_alone(trained, small, tmp_path):
    found = export(trained("cls+bert?tune=lora"), tmp_path / "mine", adapter=True)
    facts = json.loads((tmp_path / "mine" / "adapter_config.json").read_text("utf-8"))
    assert (facts["task_type"], facts["peft_type"]) == ("SEQ_CLS", "LORA")
    assert set(facts["modules_to_save"]) == {"classifier", "bert.pooler.dense"}
    assert facts["base_model_name_or_path"] == small.folder.name  # no folder of this machine
    assert re.search(r"library_name: peft\b", (found.folder / "README.md").read_text("utf-8"))
    size = (found.folder / "adapter_model.safetensors").stat().st_size
    assert size < sum(tensor.nbytes for tensor in small.model.state_dict().values())


def test_an_adapter_goes_onto_a_checkpoint_that_has_a_head_of_its_own(tiny, rows, tmp_path):
    backbone = load(str(tiny("bert", "ForSequenceClassification")))
    [ours] = classifiers(["cls+bert?tune=lora"], rows, backbone, TUNED)
    assert export(ours, tmp_path / "mine", adapter=True).difference <= 1e-5
    assert "ignore_mismatched_sizes=True" in (tmp_path / "mine" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("adapter", [False, True])
def test_a_calibrated_head_keeps_its_base_model(adapter, trained, tmp_path):
    ours = trained("cls+bert?tune=lora")
    divided = heads.calibrated(replace(ours, head=replace(ours.head, temperature=2.0)))
    torch.testing.assert_close(divided.logits(TEXTS), ours.logits(TEXTS) / 2)
    assert export(divided, tmp_path / "mine", adapter=adapter).difference < 1e-5


def test_the_page_offers_an_adapter_where_there_is_one(trained, tmp_path):
    for recipe in ("cls+bert", "cls+bert?tune=last1", "mean+linear?tune=lora"):
        assert not has_adapter(trained(recipe))
    ours = trained("cls+bert?tune=lora")
    assert downloads.ADAPTER in downloads.forms_of(ours)
    file, says, code = downloads.written(ours, downloads.ADAPTER, tmp_path)
    with zipfile.ZipFile(file) as archive:
        names = {Path(name).name for name in archive.namelist()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    assert "BertForSequenceClassification" in says[0]
    assert "peft" in code


def test_modules_name_their_activation_and_the_logits_have_a_name_of_their_own(trained, tmp_path):
    found = export(trained("mean+linear"), tmp_path / "out", library="sentence-transformers")
    assert not [name for name in found.files if name.endswith(".py")]
    listed = json.loads((found.folder / "modules.json").read_text("utf-8"))
    assert all(one["type"].startswith("sentence_transformers.models.") for one in listed)
    dense = json.loads((found.folder / listed[-1]["path"] / "config.json").read_text("utf-8"))
    assert dense["activation_function"].endswith(".Identity")  # unsaid, it is a tanh
    assert dense["module_output_name"] == "logits"


@pytest.mark.slow
def test_without_the_library_its_folder_is_read_by_our_own_reader(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_transformers, "find_spec", lambda _: None)
    found = export(trained("mean+linear"), tmp_path / "out", library="sentence-transformers")
    assert found.difference <= 1e-5
    assert found.notes


def test_a_cross_encoder_of_modules_as_older_versions_wrote_it_still_opens(trained, tmp_path):
    ours = trained("mean+linear")
    folder = export(ours, tmp_path / "out", library="sentence-transformers").folder
    for path, key, value in (
        (folder / "2_Dense" / "config.json", "module_output_name", trained_reading.SCORES),
        (folder / trained_reading.PROMPTS, "model_type", trained_reading.CROSS_ENCODER),
    ):
        values = json.loads(path.read_text("utf-8")) | {key: value}
        path.write_text(json.dumps(values), "utf-8")
    back = heads.load(folder)
    assert (str(back.recipe), back.head.needs_pairs) == ("mean+linear", True)
    second = TEXTS[::-1]
    torch.testing.assert_close(
        back.logits(TEXTS, second), ours.logits(TEXTS, second), rtol=1e-5, atol=5e-5
    )


# --- An ONNX file


@pytest.mark.parametrize(
    ("recipe", "data"),
    slow.but(
        [("mean+linear", "pairs"), ("mean+linear", "labels"), ("mean+mlp?pair=prod", "pairs")],
        ("mean+linear", "labels"),
    ),
)
def test_the_usage_of_a_file_runs_and_names_classes(
    recipe, data, trained, tmp_path, monkeypatch, capsys
):
    for name in PACKAGES:
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")
    import onnxruntime

    ours, texts = trained(recipe, data), ["a text", "another, longer text"]
    second = ["a second text", "one more"] if data == "pairs" else []
    if data == "labels":
        bars = ours.logits(texts)[0] - 0.01  # all labels of the first text
        ours = replace(ours, head=replace(ours.head, thresholds=tuple(bars.tolist())))
    report = write_onnx(ours, tmp_path / "mine.onnx")
    assert json.loads(json.dumps(report.as_json()))["path"] == str(report.path)
    assert report.size_bytes == report.path.stat().st_size
    monkeypatch.chdir(tmp_path)
    made = {}
    exec(report.usage, made)
    torch.testing.assert_close(
        torch.from_numpy(made["logits"]), ours.logits(texts, second), atol=1e-5, rtol=0
    )
    answers = ours.predict(texts, second)
    named = [list(names) if data == "labels" else names for names in answers]
    assert capsys.readouterr().out.splitlines()[-1] == str(named)
    session = onnxruntime.InferenceSession(report.path, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["thresholds"]) == list(ours.head.thresholds)
    assert json.loads(facts["temperature"]) == ours.head.temperature
    assert facts["output_activation"] == ours.head.problem.output_activation
    assert facts["base_model"]
