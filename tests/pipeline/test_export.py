"""What is exported is a checkpoint like any other: Transformers loads it whole, with our logits."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import FORMS, LIMITS, OTHERS, write_classifier

import heads
from heads.errors import CheckpointError, RecipeError
from heads.parts.menu import resolve
from heads.pipeline.backbone import Backbone
from heads.pipeline.classifier import Classifier
from heads.pipeline.corpus import Corpus, build
from heads.pipeline.equivalent import equivalent
from heads.pipeline.export import export
from heads.pipeline.loading import load
from heads.pipeline.tiny import quiet
from heads.pipeline.training import Trained, train
from heads.settings import Training

TEXTS = (
    "the cat sat on a mat",
    "a dog ran home",
    "late flight cancelled twice",
    "it was late and late",
)
BUNDLED_NATIVE = {
    "cls+bert": "",
    "cls+roberta": "cls+roberta is the same function as cls+bert",
    "cls+xlnet": "cls+xlnet is the same function as cls+bert",
    "pooler+linear": "pooler+linear is the same function as cls+bert",
    "pooler+logistic": "pooler+logistic is the same function as cls+bert",
}


@pytest.fixture(scope="module")
def toy() -> Corpus:
    labels = ("animal", "animal", "travel", "travel")
    return build("toy", TEXTS * 4, labels * 4)


def trained(recipe: str, backbone: Backbone, corpus: Corpus) -> Classifier:
    settings = Training(epochs=3)
    events = train([recipe], corpus, backbone, training=settings, limits=LIMITS)
    head = next(event.head for event in events if isinstance(event, Trained))
    return Classifier(backbone=backbone, head=head)


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    with quiet():
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True
        )


def theirs(folder: Path) -> torch.Tensor:
    """The logits of each text alone by Transformers' own class and tokenizer."""
    model, report = loaded(folder)
    assert not any(report.values())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        return torch.cat([model(**tokenizer(t, return_tensors="pt")).logits for t in TEXTS])


def alone(classifier: Classifier) -> torch.Tensor:
    return torch.cat([classifier.logits([text]) for text in TEXTS])


@pytest.mark.parametrize("family", [*FORMS, *OTHERS])
def test_every_form_goes_out_and_comes_back(tmp_path: Path, toy: Corpus, family: str) -> None:
    backbone = load(str(write_classifier(tmp_path / "base", family)), limits=LIMITS)
    ours = trained({**FORMS, **OTHERS}[family][1], backbone, toy)
    found = export(ours, tmp_path / "out")
    called, _ = loaded(tmp_path / "out")
    assert (found.native, found.called) == (True, type(called).__name__)
    assert called.config.id2label == {0: "animal", 1: "travel"}
    assert called.config.problem_type == "single_label_classification"
    true = theirs(tmp_path / "out")
    assert (alone(ours) - true).abs().max() <= 1e-6
    assert found.difference <= 1e-6
    back = heads.load(tmp_path / "out", limits=LIMITS)
    assert back.recipe == found.recipe
    assert back.classes == ("animal", "travel")
    assert (alone(back) - true).abs().max() <= 1e-6


@pytest.mark.parametrize(("recipe", "note"), BUNDLED_NATIVE.items())
def test_the_same_function_under_another_name_is_the_class(
    tmp_path: Path, backbone: Backbone, toy: Corpus, recipe: str, note: str
) -> None:
    found = export(trained(recipe, backbone, toy), tmp_path / "out")
    assert (found.called, str(found.recipe)) == ("BertForSequenceClassification", "cls+bert")
    assert any(note in line for line in found.notes) or not note
    assert found.difference < 1e-5


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("mean+linear", "bert reads cls, and this head another pooling"),
        ("cls+electra", "bert has other layers than electra"),
        ("cls+linear", "bert has other layers than linear"),
        ("cls@cat4+bert", "another pooling"),
        ("mean+linear?late=true", "another pooling"),
        ("cls+knn", "other layers"),
    ],
)
def test_what_no_class_computes_says_why_and_what_is_nearest(
    backbone: Backbone, toy: Corpus, recipe: str, why: str
) -> None:
    module = trained(recipe, backbone, toy).head.module
    with pytest.raises(RecipeError, match=why) as refused:
        equivalent(module, backbone, 2)
    assert refused.value.hint == "The nearest that is one: cls+bert."


def test_options_of_a_head_go_into_the_config(tmp_path: Path, toy: Corpus) -> None:
    backbone = load(str(write_classifier(tmp_path / "base", "modernbert")), limits=LIMITS)
    recipe = "mean+modernbert?activation=relu&bias=true&dropout=0.3"
    found = export(trained(recipe, backbone, toy), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    kept = {"classifier_pooling": "mean", "classifier_activation": "relu"}
    assert kept.items() <= config.items()
    assert (config["classifier_bias"], config["classifier_dropout"]) == (True, 0.3)
    assert str(found.recipe) == recipe
    # What the base model reads as well stays as it is, so this is no class of Transformers:
    other = trained("cls+modernbert?norm_bias=true", backbone, toy)
    with pytest.raises(RecipeError, match="other layers than modernbert"):
        equivalent(other.head.module, backbone, 2)


def test_several_labels_a_text_stay_several(tmp_path: Path, backbone: Backbone) -> None:
    many = build("many", TEXTS * 4, ("a|b", "a", "", "b") * 4)
    ours = trained("cls+bert", backbone, many)
    export(ours, tmp_path / "out")
    model, _ = loaded(tmp_path / "out")
    assert model.config.problem_type == "multi_label_classification"
    back = heads.load(tmp_path / "out", limits=LIMITS)
    assert back.head.many
    assert torch.equal(back.probabilities(TEXTS), ours.probabilities(TEXTS))


def test_a_fresh_process_without_us_answers_the_same(
    tmp_path: Path, backbone: Backbone, toy: Corpus
) -> None:
    ours = trained("cls+bert", backbone, toy)
    export(ours, tmp_path / "out")
    code = (
        "import sys, json; sys.modules['heads'] = None\n"
        "from transformers import pipeline\n"
        "classify = pipeline('text-classification', sys.argv[1], top_k=None)\n"
        "print(json.dumps(classify(sys.argv[2:], truncation=True)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out"), *TEXTS]
    said = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    shares = ours.probabilities(TEXTS)
    for row, answers in zip(shares, json.loads(said), strict=True):
        told = {answer["label"]: answer["score"] for answer in answers}
        assert told == pytest.approx(dict(zip(ours.classes, row.tolist(), strict=True)), abs=1e-5)


def test_a_long_text_is_cut_where_we_cut_it(
    tmp_path: Path, backbone: Backbone, toy: Corpus
) -> None:
    ours = trained("cls+bert", backbone, toy)
    export(ours, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    cut = tokenizer("late " * 2000, truncation=True)["input_ids"]
    assert cut == ours.backbone.encode(["late " * 2000])[0].inputs["input_ids"]


def test_no_template_of_a_foreign_tokenizer_goes_along(tmp_path: Path, toy: Corpus) -> None:
    folder = write_classifier(tmp_path / "base", "gpt2")
    (folder / "chat_template.jinja").write_text("{{ 'anything' }}", "utf-8")
    backbone = load(str(folder), limits=LIMITS)
    found = export(trained("last+gpt2", backbone, toy), tmp_path / "out")
    assert not [name for name in found.files if "template" in name]
    assert "anything" not in (tmp_path / "out" / "tokenizer_config.json").read_text("utf-8")
    assert any("padding token" in note for note in found.notes)
    assert loaded(tmp_path / "out")[0].config.pad_token_id is not None


@pytest.mark.parametrize("occupied", ["file", "folder"])
def test_what_is_there_is_never_overwritten(
    tmp_path: Path, backbone: Backbone, toy: Corpus, occupied: str
) -> None:
    place = tmp_path / "out"
    if occupied == "folder":
        place.mkdir()
        (place / "thesis.txt").write_text("years of work", "utf-8")
    else:
        place.write_text("years of work", "utf-8")
    for recipe in ("cls+bert", "mean+linear"):
        with pytest.raises(heads.HeadsError, match=r"There is something in|holds|is no folder"):
            export(trained(recipe, backbone, toy), place)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_answers_otherwise_is_not_kept(
    tmp_path: Path, backbone: Backbone, toy: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heads.pipeline import native_folder as module

    ours = trained("cls+bert", backbone, toy)
    whole: Callable[..., Any] = module._state

    def spoilt(*given: Any) -> Any:
        return {n: t + 0.1 * n.startswith("classifier") for n, t in whole(*given).items()}

    monkeypatch.setattr(module, "_state", spoilt)
    with pytest.raises(CheckpointError, match="gives logits that differ"):
        export(ours, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "recipe",
    ["mean+linear", "attention+roberta", "mean+knn", "mean+linear?late=true", "mean@mix+mlp"],
)
def test_a_folder_with_a_loader_comes_back_as_well(
    tmp_path: Path, backbone: Backbone, toy: Corpus, recipe: str
) -> None:
    ours = trained(recipe, backbone, toy)
    found = export(ours, tmp_path / "out")
    assert (found.native, str(found.recipe)) == (False, recipe)
    assert "load.py" in found.files
    back = heads.load(tmp_path / "out", limits=LIMITS)
    assert (back.recipe, back.classes) == (ours.recipe, ours.classes)
    assert back.head.scores == ours.head.scores
    assert torch.equal(back.logits(TEXTS), ours.logits(TEXTS))
    (tmp_path / "out" / "head.json").write_text("{}", "utf-8")
    with pytest.raises(CheckpointError, match="out is not an export that can be read"):
        heads.load(tmp_path / "out", limits=LIMITS)


def test_a_random_head_is_not_exported(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "base", "bert")
    model = transformers.AutoModel.from_pretrained(folder)
    model.save_pretrained(folder)
    backbone = load(str(folder), limits=LIMITS)
    from heads.pipeline.imported import own_head

    with pytest.raises(CheckpointError, match="is random"):
        export(Classifier(backbone=backbone, head=own_head(backbone)), tmp_path / "out")


def test_the_decoder_that_is_missing_is_missed(tmp_path: Path, toy: Corpus) -> None:
    folder = write_classifier(tmp_path / "base", "t5")
    encoder = transformers.T5EncoderModel.from_pretrained(folder)
    encoder.save_pretrained(folder)
    backbone = load(str(folder), limits=LIMITS)
    assert resolve("mean@decoder+linear")
    with pytest.raises(RecipeError, match="has no decoder"):
        trained("eos@decoder+roberta", backbone, toy)
    module = trained("mean+linear", backbone, toy).head.module
    with pytest.raises(RecipeError, match="needs the decoder"):
        equivalent(module, backbone, 2)
