"""The head that a checkpoint came with, beside heads trained here: who votes, and what is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import BERT_LIKE, TINY_LAYERS, TINY_VOCABULARY, rewrite, save_tiny, small_tokenizer

from heads.api import compare, load
from heads.classifier.prediction import Prediction
from heads.errors import CheckpointError, LimitError, RecipeError
from heads.events import Progress
from heads.interpret.comparison import Compared, Comparison, iter_comparison
from heads.options import CompareOptions
from heads.problem import MULTI_LABEL, SINGLE_LABEL, SINGLE_OUTPUT
from heads.settings import Limits, use_limits

SENTENCE = "The flight was cancelled twice."
SENTIMENT = ("negative", "neutral", "positive")

Folders = Callable[..., Path]


@pytest.fixture
def labelled(tmp_path: Path) -> Folders:
    """A tiny classifier whose classes bear these names."""

    def folder(*labels: str, family: str = "bert", **config: Any) -> Path:
        place = tmp_path / f"{family}-{'-'.join(labels)}"
        save_tiny(place, family, "ForSequenceClassification", num_labels=len(labels))
        rewrite(place / "config.json", id2label=dict(enumerate(labels)), **config)
        return place

    return folder


def asked(folder: Path | str, *recipes: str, **more: Any) -> Comparison:
    settings: dict[str, Any] = {**more}
    return compare(SENTENCE, recipes=recipes, model=str(folder), **settings)


def progress(folder: Path, *recipes: str) -> list[str]:
    events = [*iter_comparison(SENTENCE, "", CompareOptions(recipes=recipes, model=str(folder)))]
    assert isinstance(events[-1], Compared)
    return [event.says for event in events if isinstance(event, Progress)]


# Alone


@pytest.fixture(autouse=True)
def _decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny random models are never sure of anything."""
    monkeypatch.setattr(Prediction, "is_undecided", False)


def test_alone_it_speaks_of_its_own_classes(labelled: Folders) -> None:
    folder = labelled("bad", "so-so", "good")
    assert progress(folder, "own") == [f"Loading {folder}"]  # nothing is trained
    found = asked(folder, "own")
    assert found.classes == ("bad", "so-so", "good")
    assert (found.problem, found.sample) == (SINGLE_LABEL, "")
    (only,) = found.predictions
    assert (only.name, str(only.recipe)) == ("own (cls+bert)", "cls+bert")
    assert (only.trained_on, only.rows, only.scores, only.new) == (str(folder), 0, None, ())
    truth = load(str(folder))
    assert only.logits == tuple(truth.logits([SENTENCE])[0].tolist())
    assert found.verdict == f"own (cls+bert) says {only.answer[0]}."
    assert only.answer == (truth.predict([SENTENCE])[0],)
    assert only.parameters == 32 * 32 + 32 + 32 * 3 + 3
    assert all("[UNK]" in note for note in found.notes)


@pytest.mark.parametrize("written", [["own"], "own", [" OWN "], ["Own", "own", "OWN"]])
def test_it_is_asked_for_in_one_word(labelled: Folders, written: Any) -> None:
    found = compare(SENTENCE, recipes=written, model=str(labelled("a", "b")))
    assert [prediction.name for prediction in found.predictions] == ["own (cls+bert)"]


def test_two_sentences_are_read_together(labelled: Folders) -> None:
    folder = labelled("a", "b")
    one = asked(folder, "own")
    two = asked(folder, "own", pair="the cat sat on a mat")
    assert (two.sample, two.pair) == ("", "the cat sat on a mat")
    assert two.predictions[0].logits != one.predictions[0].logits
    truth = load(str(folder)).logits([SENTENCE], ["the cat sat on a mat"])
    assert two.predictions[0].logits == tuple(truth[0].tolist())


def test_several_labels_and_single_numbers_are_sigmoids(labelled: Folders) -> None:
    many = asked(labelled("a", "b", "c", problem_type="multi_label_classification"), "own")
    assert many.problem is MULTI_LABEL
    (only,) = many.predictions
    expected = torch.tensor(only.logits).sigmoid().tolist()
    assert list(only.probabilities) == pytest.approx(expected, abs=1e-6)
    said = zip(many.classes, only.logits, strict=True)
    assert list(only.answer) == [name for name, logit in said if logit > 0]
    assert asked(labelled("score"), "own").predictions[0].problem is SINGLE_OUTPUT


# Beside heads trained here


def test_beside_others_the_classes_are_those_of_the_data(labelled: Folders) -> None:
    folder = labelled("a", "b")
    found = asked(folder, "own", "mean+centroid", "cls+centroid")
    names = ["own (cls+bert)", "mean+centroid", "cls+centroid"]
    assert [p.name for p in found.predictions] == names
    assert [p.classes for p in found.predictions] == [("a", "b"), SENTIMENT, SENTIMENT]
    assert (found.classes, found.sample) == (SENTIMENT, "sentiment")
    alone = asked(folder, "own")
    assert found.predictions[0].logits == alone.predictions[0].logits
    assert not [event for event in progress(folder, "cls+centroid", "own") if "Training" in event]


def test_the_familys_recipe_trained_here_stands_beside_the_own_head(labelled: Folders) -> None:
    """The same layers on the same base model, and yet no chance: one came with the checkpoint."""
    found = asked(labelled(*SENTIMENT), "own", "cls+bert")
    assert [p.name for p in found.predictions] == ["own (cls+bert)", "cls+bert"]
    assert found.predictions[0].logits != found.predictions[1].logits
    assert not [note for note in found.notes if "same layers" in note]


def test_labels_of_other_names_are_its_own_and_in_other_letters_the_same(labelled: Folders) -> None:
    other = asked(labelled("toxic", "fine", family="roberta"), "own", "mean+centroid")
    own, trained = other.predictions
    assert other.verdict == (
        f"mean+centroid says {trained.answer[0]}. "
        f"Of its own classes, own (cls+roberta) says {own.answer[0]}."
    )
    loud = asked(labelled(*map(str.upper, SENTIMENT)), "own", "mean+centroid")
    assert "Of its own classes" not in loud.verdict


def test_it_counts_as_one_of_the_heads_that_fit(labelled: Folders) -> None:
    folder = labelled("a", "b")
    with use_limits(Limits(recipes=2)), pytest.raises(LimitError):
        asked(folder, "own", "mean+centroid", "cls+centroid")


# A random head

LAST = ["classifier.weight", "classifier.bias"]


@pytest.mark.parametrize(
    ("family", "kind", "name", "new"),
    [
        ("bert", "Model", "own (cls+bert)", LAST),
        ("gpt2", "LMHeadModel", "own (last+gpt2)", ["score.weight"]),
    ],
)
def test_a_random_head_is_said_to_be_random(
    tiny: Folders, family: str, kind: str, name: str, new: list[str]
) -> None:
    folder = tiny(family, kind)
    alone = asked(folder, "own")
    note = (
        f"{folder} came without a trained head, so what 'own' shows is random: "
        "its probabilities mean nothing."
    )
    assert alone.notes[-1] == note
    assert alone.verdict == f"{name} is a random head: what it says means nothing."
    assert list(alone.predictions[0].new) == new
    assert alone.as_json()["recipes"][0]["random"] == new
    beside = asked(folder, "own", "mean+centroid")
    assert note in beside.notes
    assert beside.verdict == f"mean+centroid says {beside.predictions[1].answer[0]}."
    assert beside.predictions[0] == alone.predictions[0]


def test_a_head_that_lacks_one_tensor_is_random(labelled: Folders) -> None:
    from safetensors.torch import load_file, save_file

    folder = labelled("a", "b")
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.bias"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    found = asked(folder, "own")
    assert found.predictions[0].new == ("classifier.bias",)
    assert found.verdict.endswith("is a random head: what it says means nothing.")


# JSON


def test_the_json_tells_what_is_its_own(labelled: Folders) -> None:
    folder = labelled("a", "b")
    values = asked(folder, "own", "mean+centroid").as_json()
    own, trained = values["recipes"]
    expected = {
        "recipe": "cls+bert",
        "name": "own (cls+bert)",
        "classes": ["a", "b"],
        "random": [],
        "trained_on": str(folder),
        "rows": 0,
        "held_out": None,
        "parameters": 32 * 32 + 32 + 32 * 2 + 2,
        "base_parameters": 0,
        "output_activation": "softmax",
        "layers": ["dense layer", "tanh", "dropout (0.1)", "linear layer"],
    }
    assert {name: own[name] for name in expected} == expected
    assert (trained["name"], trained["random"]) == ("mean+centroid", [])
    assert trained["classes"] == values["classes"] == list(SENTIMENT)
    alone = asked(folder, "own").as_json()
    assert (alone["sample"], alone["classes"]) == ("", ["a", "b"])
    assert alone["problem_type"] == "single_label_classification"


# Refusals


def test_a_family_without_a_classifier_has_no_own_head(tmp_path: Path) -> None:
    config = transformers.BertGenerationConfig(**BERT_LIKE)
    transformers.BertGenerationEncoder(config).save_pretrained(tmp_path)
    small_tokenizer("around").save_pretrained(tmp_path)
    for recipes in (["own"], ["mean+centroid", "own"]):
        with pytest.raises(RecipeError):
            asked(tmp_path, *recipes)
    assert asked(tmp_path, "mean+centroid").predictions


def test_an_encoder_and_decoder_without_a_classifier_can_be_a_base_model(tmp_path: Path) -> None:
    config = transformers.PegasusConfig(
        vocab_size=TINY_VOCABULARY,
        d_model=32,
        encoder_layers=TINY_LAYERS,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=40,
    )
    transformers.PegasusModel(config).save_pretrained(tmp_path)
    small_tokenizer("after").save_pretrained(tmp_path)
    assert asked(tmp_path, "mean+centroid").predictions


def test_a_head_that_no_recipe_expresses_is_refused_and_others_are_not(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "xlnet", "xlnet", "ForSequenceClassification")
    rewrite(folder / "config.json", summary_type="mean")
    with pytest.raises(RecipeError):
        asked(folder, "mean+centroid", "own")
    assert asked(folder, "mean+centroid").predictions


def test_a_config_without_classes_is_refused(labelled: Folders) -> None:
    folder = labelled("a", "b")
    rewrite(folder / "config.json", id2label={})
    with pytest.warns(UserWarning, match="zero-element"), pytest.raises(CheckpointError):
        asked(folder, "own")
