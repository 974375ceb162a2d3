"""The head that a checkpoint came with, beside heads trained here: who votes, and what is said."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from tiny_models import (
    BERT_LIKE,
    TINY_LAYERS,
    TINY_VOCABULARY,
    rewrite,
    save_tiny,
    small_tokenizer,
)

from heads.api import compare, load
from heads.backbone.models import BUNDLED
from heads.classifier.prediction import Prediction
from heads.errors import CheckpointError, HeadsError, LimitError, RecipeError
from heads.evaluation.statistics import Scores
from heads.events import Progress
from heads.explain.comparison import (
    Compared,
    Comparison,
    comparing,
    is_unanimous,
    verdict,
)
from heads.problem import MULTI_LABEL, SINGLE_LABEL, SINGLE_OUTPUT
from heads.recipe import Recipe
from heads.settings import Limits, use_limits

SENTENCE = "The flight was cancelled twice."
SENTIMENT = ("negative", "neutral", "positive")
DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"

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
    events = list(comparing(SENTENCE, recipes=recipes, model=str(folder)))
    assert isinstance(events[-1], Compared)
    return [event.says for event in events if isinstance(event, Progress)]


# Alone


@pytest.fixture(autouse=True)
def _decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny random models are never sure of anything."""
    monkeypatch.setattr(Prediction, "is_undecided", False)


def test_alone_it_speaks_of_its_own_classes(labelled: Folders) -> None:
    folder = labelled("bad", "so-so", "good")
    found = asked(folder, "own")
    assert (found.classes, found.problem, found.sample) == (
        ("bad", "so-so", "good"),
        SINGLE_LABEL,
        "",
    )
    (only,) = found.predictions
    assert (only.name, str(only.recipe)) == ("own (cls+bert)", "cls+bert")
    assert (only.trained_on, only.rows, only.scores, only.new) == (str(folder), 0, None, ())
    truth = load(str(folder))
    assert only.logits == tuple(truth.logits([SENTENCE])[0].tolist())
    assert found.verdict == f"own (cls+bert) says {only.answer[0]}."
    assert only.answer == (truth.predict([SENTENCE])[0],)
    assert only.parameters == 32 * 32 + 32 + 32 * 3 + 3
    assert all("[UNK]" in note for note in found.notes)


def test_alone_nothing_is_trained(labelled: Folders) -> None:
    folder = labelled("a", "b")
    assert progress(folder, "own") == [f"Loading {folder}"]


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
    assert [p.name for p in found.predictions] == [
        "own (cls+bert)",
        "mean+centroid",
        "cls+centroid",
    ]
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


@pytest.mark.parametrize("spelled", slow.but_each(3, [str.upper, str.title, str.lower]))
def test_labels_in_other_letters_vote_together(
    labelled: Folders, spelled: Callable[[str], str]
) -> None:
    """The own head's answer is called what the trained one answers, and the other way round."""
    first = asked(labelled(*SENTIMENT), "own", "mean+centroid")
    own, trained = first.predictions
    (says,), (wanted,) = own.answer, trained.answer
    others = iter(name for name in SENTIMENT if name != wanted)
    agreeing = [spelled(wanted if name == says else next(others)) for name in SENTIMENT]
    same = asked(labelled(*agreeing, family="bert"), "own", "mean+centroid")
    assert [p.answer for p in same.predictions] == [(spelled(wanted),), (wanted,)]
    assert same.verdict == f"Both heads agree: {spelled(wanted)}."
    assert same.is_unanimous
    turned = [*agreeing[1:], agreeing[0]]
    other = asked(labelled(*turned), "own", "mean+centroid")
    (says,) = other.predictions[0].answer
    assert says.casefold() != wanted
    assert other.verdict == (
        f"The two heads disagree: own (cls+bert) says {says}; mean+centroid says {wanted}."
    )
    assert not other.is_unanimous


def test_other_labels_are_told_apart(labelled: Folders) -> None:
    found = asked(labelled("toxic", "fine"), "mean+centroid", "own")
    trained, own = found.predictions
    assert found.verdict == (
        f"mean+centroid says {trained.answer[0]}. "
        f"Of its own classes, own (cls+bert) says {own.answer[0]}."
    )
    order = asked(labelled("toxic", "fine", family="roberta"), "own", "mean+centroid")
    assert order.verdict.startswith("mean+centroid says ")
    assert "Of its own classes, own (cls+roberta) says " in order.verdict


def test_it_counts_as_one_of_the_heads_that_fit(labelled: Folders) -> None:
    folder = labelled("a", "b")
    with (
        use_limits(Limits(recipes=2)),
        pytest.raises(LimitError, match="3 recipes are chosen; at most 2 fit"),
    ):
        asked(folder, "own", "mean+centroid", "cls+centroid")


# The verdict over several


def predicted(
    name: str, answer: str, classes: str = "a b", *, new: bool = False, own: bool = False
) -> Prediction:
    scores = Scores(rows=1, accuracy=1.0, low=0.2, high=1.0, majority=0.5)
    return Prediction(
        recipe=Recipe.parse("mean+linear"),
        name=name,
        classes=tuple(classes.split()),
        problem=SINGLE_LABEL,
        new=("classifier.weight",) if new else (),
        logits=(0.0, 0.0),
        probabilities=(0.9, 0.1),
        answer=(answer,),
        margin=0.8,
        parameters=1,
        trained_on="made up",
        rows=0 if own else 1,
        scores=None if own else scores,
    )


ONE, TWO, THREE = predicted("one", "a"), predicted("two", "a"), predicted("three", "b")
LOUD = predicted("own", "A", "A B", own=True)
ELSE = predicted("own", "x", "x y", own=True)
RANDOM = predicted("own", "b", new=True, own=True)
RANDOM_ELSE = predicted("own", "x", "x y", new=True, own=True)


@pytest.mark.parametrize(
    ("predictions", "says"),
    [
        ([LOUD], "own says A."),
        ([LOUD, ONE], "Both heads agree: A."),
        ([ONE, LOUD], "Both heads agree: a."),
        ([LOUD, ONE, TWO], "All 3 heads agree: A."),
        ([LOUD, ONE, THREE], "2 of 3 heads agree: A. three says b."),
        ([LOUD, THREE], "The two heads disagree: own says A; three says b."),
        ([ELSE], "own says x."),
        ([ELSE, ONE], "one says a. Of its own classes, own says x."),
        ([ONE, ELSE, TWO], "Both heads agree: a. Of its own classes, own says x."),
        (
            [ELSE, ONE, THREE],
            "The two heads disagree: one says a; three says b. Of its own classes, own says x.",
        ),
        ([RANDOM], "own is a random head: what it says means nothing."),
        ([RANDOM, ONE], "one says a."),
        ([RANDOM, ONE, TWO], "Both heads agree: a."),
        ([ONE, RANDOM, THREE], "The two heads disagree: one says a; three says b."),
        ([RANDOM_ELSE, ONE, TWO], "Both heads agree: a."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict_counts_each_head_where_it_belongs(
    predictions: list[Prediction], says: str
) -> None:
    assert verdict(predictions) == says


def test_labels_are_compared_as_unicode_folds_them() -> None:
    street = predicted("own", "STRASSE", "STRASSE WEG", own=True)
    assert verdict([street, predicted("one", "Straße", "Straße Weg")]) == (
        "Both heads agree: STRASSE."
    )


def test_a_random_head_does_not_break_unanimity() -> None:
    assert is_unanimous([ONE, TWO, RANDOM])


# A random head

LAST = ["classifier.weight", "classifier.bias"]


@pytest.mark.parametrize(
    ("family", "kind", "name", "new"),
    slow.but_each(
        2,
        [
            ("bert", "Model", "own (cls+bert)", LAST),
            (
                "bert",
                "ForMaskedLM",
                "own (cls+bert)",
                ["pooler.dense.weight", "pooler.dense.bias", *LAST],
            ),
            ("gpt2", "LMHeadModel", "own (last+gpt2)", ["score.weight"]),
            ("modernbert", "ForMaskedLM", "own (cls+modernbert)", LAST),
        ],
    ),
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


def test_the_bundled_models_own_head_is_random() -> None:
    found = asked(BUNDLED, "own")
    assert found.predictions[0].new == ("classifier.weight", "classifier.bias")
    assert found.classes == ("LABEL_0", "LABEL_1")
    assert found.notes[0].startswith(f"{BUNDLED} came without a trained head, so what")


# JSON


def test_the_json_has_the_documented_keys(labelled: Folders) -> None:
    text = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text.split("compare", 1)[1], re.DOTALL)
    documented = json.loads(blocks[0])
    folder = labelled("a", "b")
    found = asked(folder, "own", "mean+centroid")
    values = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert set(values) == set(documented)
    own, trained = values["recipes"]
    assert set(own) == set(trained) == set(documented["recipes"][0])
    assert own == {
        "recipe": "cls+bert",
        "name": "own (cls+bert)",
        "classes": ["a", "b"],
        "random": [],
        "trained_on": str(folder),
        "rows": 0,
        "held_out": None,
        "parameters": 32 * 32 + 32 + 32 * 2 + 2,
        "base_parameters": 0,
        "answer": list(found.predictions[0].answer),
        "undecided": False,
        "logits": list(found.predictions[0].logits),
        "probabilities": list(found.predictions[0].probabilities),
        "thresholds": [],
        "output_activation": "softmax",
        "reads": [list(one) for one in found.predictions[0].reads],
        "layers": ["dense layer", "tanh", "dropout (0.1)", "linear layer"],
    }
    assert (trained["name"], trained["random"]) == ("mean+centroid", [])
    assert trained["classes"] == values["classes"] == list(SENTIMENT)
    alone = asked(folder, "own").as_json()
    assert (alone["sample"], alone["classes"]) == ("", ["a", "b"])
    assert alone["problem_type"] == "single_label_classification"


# Refusals


def refused(folder: Path, kind: type[HeadsError], *recipes: str) -> str:
    with pytest.raises(kind) as error:
        asked(folder, *recipes)
    assert type(error.value) is kind
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(folder), "M")


def test_a_family_without_a_classifier_has_no_own_head(tmp_path: Path) -> None:
    config = transformers.BertGenerationConfig(**BERT_LIKE)
    transformers.BertGenerationEncoder(config).save_pretrained(tmp_path)
    small_tokenizer("around").save_pretrained(tmp_path)
    says = "Transformers has no classifier for the family 'bert-generation'. Take 'own' away, or "
    assert refused(tmp_path, RecipeError, "own").startswith(says)
    assert refused(tmp_path, RecipeError, "mean+centroid", "own").startswith(says)
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
    says = "With summary_type = mean this head reads what no recipe here reads."
    assert refused(folder, RecipeError, "mean+centroid", "own").startswith(says)
    assert asked(folder, "mean+centroid").predictions


def test_a_config_without_classes_is_refused(labelled: Folders) -> None:
    folder = labelled("a", "b")
    rewrite(folder / "config.json", id2label={})
    with pytest.warns(UserWarning, match="zero-element"):
        assert refused(folder, CheckpointError, "own").startswith(
            "The config of M names no classes."
        )
