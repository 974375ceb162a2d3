"""What is exported is a checkpoint like any other: Transformers loads it whole, with our logits."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from quick_heads import classifiers
from tiny_models import FORMS, OTHERS, save_tiny, write_classifier

import heads
import heads.classifier.native_head
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.catalog.tiny_models import quiet
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build, numbered
from heads.errors import CheckpointError, DataError, RecipeError
from heads.exporters.export import export
from heads.exporters.matching import equivalent
from heads.exporters.verification import long_text, verify_logits
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION
from heads.settings import Limits, use_limits

TEXTS = (
    "the cat sat on a mat",
    "a dog ran home",
    "late flight cancelled twice",
    "it was late and late",
)
MANY = [f"{text} {more}".strip() for more in ("", "cat", "mat", "ran home") for text in TEXTS]
BUNDLED_NATIVE = {
    "cls+bert": "",
    "cls+roberta": "cls+roberta is the same function as cls+bert",
    "cls+xlnet": "cls+xlnet is the same function as cls+bert",
    "pooler+linear": "pooler+linear is the same function as cls+bert",
    "pooler+logistic": " is the same function as cls+bert",
}


@pytest.fixture(scope="module")
def toy() -> Corpus:
    labels = ("animal", "animal", "travel", "travel")
    return build("toy", MANY, labels * 4)


def trained(recipe: str, backbone: Backbone, corpus: Corpus) -> Classifier:
    return classifiers([recipe], corpus, backbone)[0]


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


@pytest.mark.parametrize(
    "family", slow.but([*FORMS, *OTHERS], "gpt2", "roberta", "bart", "modernbert", "reformer")
)
def test_every_form_goes_out_and_comes_back(tmp_path: Path, toy: Corpus, family: str) -> None:
    backbone = load(str(write_classifier(tmp_path / "base", family)))
    ours = trained({**FORMS, **OTHERS}[family][1], backbone, toy)
    found = export(ours, tmp_path / "out")
    called, _ = loaded(tmp_path / "out")
    assert (found.native, found.called) == (True, type(called).__name__)
    assert called.config.id2label == {0: "animal", 1: "travel"}
    assert called.config.problem_type == "single_label_classification"
    true = theirs(tmp_path / "out")
    assert (alone(ours) - true).abs().max() <= 1e-5
    assert found.difference <= 1e-5
    back = heads.load(tmp_path / "out")
    assert back.recipe == found.recipe
    assert back.classes == ("animal", "travel")
    assert (alone(back) - true).abs().max() <= 1e-5


@pytest.mark.parametrize(("recipe", "note"), slow.but_each(5, BUNDLED_NATIVE.items()))
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
    assert refused.value.hint == "The nearest recipe that has one: cls+bert."


def test_a_norm_of_another_epsilon_is_another_function(tmp_path: Path, toy: Corpus) -> None:
    backbone = load(str(write_classifier(tmp_path / "base", "modernbert")))
    module = trained("cls+modernbert?eps=0.1", backbone, toy).head.module
    with pytest.raises(RecipeError, match="other layers"):
        equivalent(module, backbone, 2)


def test_options_of_a_head_go_into_the_config(tmp_path: Path, toy: Corpus) -> None:
    backbone = load(str(write_classifier(tmp_path / "base", "modernbert")))
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
    many = build("many", MANY, ("a|b", "a", "", "b") * 4)
    ours = trained("cls+bert", backbone, many)
    export(ours, tmp_path / "out")
    model, _ = loaded(tmp_path / "out")
    assert model.config.problem_type == "multi_label_classification"
    back = heads.load(tmp_path / "out")
    assert back.head.problem is MULTI_LABEL
    assert torch.equal(back.probabilities(TEXTS), ours.probabilities(TEXTS))


def piped(folder: Path, texts: tuple[str, ...] = TEXTS) -> torch.Tensor:
    """What Transformers' own pipeline says of each class, in the order of its config."""
    with quiet():
        classify = transformers.pipeline("text-classification", str(folder), top_k=None)
        told = [{one["label"]: one["score"] for one in answer} for answer in classify(list(texts))]
    names = classify.model.config.id2label
    return torch.tensor([[row[names[number]] for number in sorted(names)] for row in told])


def test_one_versus_rest_goes_out_as_questions_and_comes_back_as_a_vote(
    tmp_path: Path, small: Backbone, rows: Corpus
) -> None:
    ours = trained("cls+bert?loss=ovr", small, rows)
    found = export(ours, tmp_path / "out")
    assert (found.called, str(found.recipe)) == (
        "BertForSequenceClassification",
        "cls+bert?loss=ovr",
    )
    assert any("the answer is the largest" in note for note in found.notes)
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert config["problem_type"] == "multi_label_classification"
    logits = ours.logits(TEXTS)
    assert piped(tmp_path / "out").sub(logits.sigmoid()).abs().max() < 1e-6
    votes = logits.sigmoid() / logits.sigmoid().sum(dim=1, keepdim=True)
    back = heads.load(tmp_path / "out")
    assert back.recipe == found.recipe
    assert torch.allclose(back.probabilities(TEXTS), votes, atol=1e-6)
    assert back.predict(TEXTS) == ours.predict(TEXTS)
    assert set(back.predict(TEXTS)) <= set(back.classes)
    del config["head_to_head"]  # as if others had written it
    (tmp_path / "out" / "config.json").write_text(json.dumps(config), "utf-8")
    heads.classifier.native_head._found.clear()
    assert heads.load(tmp_path / "out").head.problem is MULTI_LABEL


def test_a_number_goes_out_as_a_regression(tmp_path: Path, small: Backbone) -> None:
    ours = trained("cls+bert", small, numbered("made up", MANY, [0.5, 4.0, 2.5, 3.0] * 4))
    found = export(ours, tmp_path / "out")
    assert any("applies no function" in note for note in found.notes)
    config = loaded(tmp_path / "out")[0].config
    assert (config.problem_type, config.num_labels) == ("regression", 1)
    assert config.id2label == {0: "number"}
    assert piped(tmp_path / "out").sub(ours.logits(TEXTS)).abs().max() < 1e-6
    back = heads.load(tmp_path / "out")
    assert back.head.problem is REGRESSION
    assert torch.equal(back.probabilities(TEXTS), ours.logits(TEXTS))
    again = export(back, tmp_path / "again")  # and what came in goes out the same
    assert (again.called, again.notes) == (found.called, found.notes)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "It predicts numbers: number." in card
    assert re.search(r"Spearman's correlation \S+ \(95 % interval", card)
    assert "Accuracy" not in card
    assert "the head was trained once" in card
    assert "heads were scored on these rows" not in card


@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear"])
def test_thresholds_go_along(tmp_path: Path, small: Backbone, recipe: str) -> None:
    many = build("many", MANY, ("a|b", "a", "", "b") * 4)
    ours = trained(recipe, small, many)
    middle = ours.logits(TEXTS).topk(2, dim=0).values.mean(dim=0).tolist()  # below one text's
    tuned = replace(ours.head, thresholds=tuple(middle), temperature=1.75)
    ours = Classifier(backbone=small, head=tuned)
    found = export(ours, tmp_path / "out")
    shares = torch.tensor(middle).sigmoid().tolist()
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert f"| a | {shares[0]:.3f} |" in card
    assert "its logits are divided by 1.75" in card
    back = heads.load(tmp_path / "out")
    assert back.head.thresholds == pytest.approx(middle, abs=1e-9)
    assert back.head.temperature == 1.75
    assert back.predict(TEXTS) == ours.predict(TEXTS)
    assert ours.predict(TEXTS) != Classifier(
        backbone=small, head=replace(tuned, thresholds=())
    ).predict(TEXTS)
    if found.native:
        config = loaded(tmp_path / "out")[0].config
        assert config.thresholds == pytest.approx(dict(zip("ab", shares, strict=True)))
        assert any("model.config.thresholds" in note for note in found.notes)
        taken = piped(tmp_path / "out") > torch.tensor([config.thresholds[name] for name in "ab"])
        assert [tuple(compress("ab", row)) for row in taken.tolist()] == ours.predict(TEXTS)


def test_older_marks_of_a_base_model_do_not_go_along(tmp_path: Path, small: Backbone) -> None:
    many = build("many", MANY, ("a|b", "a", "", "b") * 4)
    ours = trained("cls+bert", small, many)
    tuned = replace(ours.head, thresholds=(0.5, -0.5), temperature=1.75)
    export(Classifier(backbone=small, head=tuned), tmp_path / "first")
    base = load(str(tmp_path / "first"))
    plain = replace(trained("cls+bert", base, many).head, thresholds=(), temperature=1.0)
    export(Classifier(backbone=base, head=plain), tmp_path / "second")
    config = json.loads((tmp_path / "second" / "config.json").read_text("utf-8"))
    assert not {"thresholds", "head_to_head"} & set(config)
    first = json.loads((tmp_path / "first" / "config.json").read_text("utf-8"))
    assert {"thresholds", "head_to_head"} <= set(first)


def test_two_texts_read_apart_have_no_class(tmp_path: Path, small: Backbone) -> None:
    labels = ("same", "other") * 8
    pairs = build("pairs", MANY, labels, MANY[1:] + MANY[:1])
    ours = trained("cls+bert?pair=uv_diff", small, pairs)
    found = export(ours, tmp_path / "out")
    assert not found.native
    assert found.notes[0].startswith("No class of Transformers reads two texts each by itself")
    back = heads.load(tmp_path / "out")
    assert back.recipe == ours.recipe
    assert torch.equal(back.logits(TEXTS, TEXTS[::-1]), ours.logits(TEXTS, TEXTS[::-1]))
    with pytest.raises(DataError, match="compares two texts, and there is one"):
        back.logits(TEXTS)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert '"text_pair": "The bridge is shut."' in card
    assert "then h = [u; v; |u − v|]" in card


def test_a_head_without_one_of_its_layers_goes_along(
    tmp_path: Path, small: Backbone, toy: Corpus
) -> None:
    ours = trained("mean+mlp?hidden=8&without=hidden", small, toy)
    found = export(ours, tmp_path / "out")
    assert not found.native
    back = heads.load(tmp_path / "out")
    assert back.recipe == ours.recipe
    assert torch.equal(back.logits(TEXTS), ours.logits(TEXTS))
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "Its layer hidden is left out." in card


def test_less_its_dropout_it_is_the_same_class(
    tmp_path: Path, small: Backbone, toy: Corpus
) -> None:
    found = export(trained("cls+bert?without=dropout", small, toy), tmp_path / "out")
    assert found.called == "BertForSequenceClassification"


@pytest.mark.parametrize("recipe", ["cls+bert", "mean+linear"])
def test_a_head_that_learned_from_two_texts_says_so_and_takes_no_single_one(
    tmp_path: Path, small: Backbone, recipe: str
) -> None:
    labels = ("same", "other") * 8
    pairs = build("pairs", MANY, labels, MANY[1:] + MANY[:1])
    ours = trained(recipe, small, pairs)
    export(ours, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert '"text_pair": "The bridge is shut."' in card
    assert "It needs two texts" in card
    back = heads.load(tmp_path / "out")
    assert torch.allclose(back.logits(TEXTS, TEXTS[::-1]), ours.logits(TEXTS, TEXTS[::-1]))
    for one in (ours, back):
        with pytest.raises(DataError, match="was trained on two texts, and there is one"):
            one.predict(TEXTS)
        with pytest.raises(DataError, match="was trained on two texts, and there is one"):
            heads.Inspector(recipes=[one]).attribute("the cat sat")
    with pytest.raises(DataError, match="was trained on two texts, and there is one"):
        heads.compare("the cat sat", recipes=["own"], model=str(tmp_path / "out"))


@pytest.mark.slow
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


@pytest.mark.slow
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
    backbone = load(str(folder))
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
    from heads.exporters import transformers as module

    ours = trained("cls+bert", backbone, toy)
    name_tensors: Callable[..., Any] = module.name_head_tensors

    def shift_tensors(*arguments: Any) -> Any:
        tensors = name_tensors(*arguments).items()
        return {name: t + 0.1 * name.startswith("classifier") for name, t in tensors}

    monkeypatch.setattr(module, "name_head_tensors", shift_tensors)
    with pytest.raises(CheckpointError, match="gives logits that differ"):
        export(ours, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "recipe",
    slow.but(
        ["mean+linear", "attention+roberta", "mean+knn", "mean+linear?late=true", "mean@mix+mlp"],
        "attention+roberta",
    ),
)
def test_a_folder_with_its_own_class_comes_back_as_well(
    tmp_path: Path, backbone: Backbone, toy: Corpus, recipe: str
) -> None:
    ours = trained(recipe, backbone, toy)
    found = export(ours, tmp_path / "out")
    assert (found.native, found.recipe) == (False, ours.recipe)
    assert found.called == "HeadForSequenceClassification"
    assert "modeling_head_to_head.py" in found.files
    back = heads.load(tmp_path / "out")
    assert (back.recipe, back.classes) == (ours.recipe, ours.classes)
    assert torch.equal(back.logits(TEXTS), ours.logits(TEXTS))


def test_a_random_head_is_not_exported(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "base", "bert")
    model = transformers.AutoModel.from_pretrained(folder)
    model.save_pretrained(folder)
    backbone = load(str(folder))
    from heads.classifier.pretrained import own_head

    with pytest.raises(CheckpointError, match="is random"):
        export(Classifier(backbone=backbone, head=own_head(backbone)), tmp_path / "out")


def test_the_decoder_that_is_missing_is_missed(tmp_path: Path, toy: Corpus) -> None:
    folder = write_classifier(tmp_path / "base", "t5")
    encoder = transformers.T5EncoderModel.from_pretrained(folder)
    encoder.save_pretrained(folder)
    backbone = load(str(folder))
    assert resolve("mean@decoder+linear")
    with pytest.raises(RecipeError, match="has no decoder"):
        trained("eos@decoder+roberta", backbone, toy)
    module = trained("mean+linear", backbone, toy).head.module
    with pytest.raises(RecipeError, match="needs the decoder"):
        equivalent(module, backbone, 2)


@pytest.mark.parametrize("recipe", ["mean+logistic", "mean+logistic?long=windows"])
def test_an_export_that_cuts_elsewhere_is_told_from_one_that_does_not(
    tmp_path: Path, rows: Corpus, recipe: str
) -> None:
    many = {"max_position_embeddings": 1_300}  # more tokens than the usual texts to try it on have
    folder = str(save_tiny(tmp_path / "base", "bert", **many))
    with use_limits(Limits(tokens=1_200)):
        whole = load(folder)
    assert long_text(whole)
    assert not long_text(replace(whole, tokens=40))
    [ours] = classifiers([recipe], rows, whole)
    cut = replace(ours, backbone=replace(ours.backbone, tokens=1_190))
    assert verify_logits(ours, ours.logits, most=1e-6)[0] > 0
    with pytest.raises(CheckpointError, match="gives logits that differ"):
        verify_logits(ours, cut.logits, most=1e-6)
