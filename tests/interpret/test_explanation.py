"""What is said of a recipe is true of the module that is built."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heads import api
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.backbone.weights import pooler_of
from heads.classifier.module import assemble
from heads.errors import HeadsError, RecipeError
from heads.events import Progress
from heads.interpret import differences, explanation
from heads.interpret.explanation import ORIGINS, Explanation, iter_explanation
from heads.parts.resolve import head as heads_shelf
from heads.parts.resolve import menu, resolve
from heads.problem import SINGLE_LABEL
from heads.recipe import Recipe

MENU = [recipe for recipe in menu() if recipe.layers != "decoder"]  # BERT has none
OTHER = [
    resolve(recipe).recipe
    for recipe in (
        "mean+linear?pair=uv_diff", "cls@cat4+mlp?hidden=8&pair=uv_diff_prod", "max+knn?pair=prod",
        "mean+linear?loss=ovr", "cls+bert?loss=ordinal&pair=diff", "attention+linear?loss=ovr",
    )
]  # fmt: skip
Tiny = Callable[..., Path]
TEXT = "the cat sat on a mat."


def explain(recipe: Recipe | str, backbone: Backbone, **more: Any) -> Explanation:
    return explanation.explain(resolve(recipe), backbone, **more)


def difference(one: Recipe | str, other: Recipe | str, backbone: Backbone) -> str:
    return differences.difference(resolve(one), resolve(other), backbone)


FORMULAS = {
    "linear": "W h + b",
    "bert": "W₂ drop(tanh(W₁ h + b₁)) + b₂",
    "roberta": "W₂ drop(tanh(W₁ drop(h) + b₁)) + b₂",
    "distilbert": "W₂ drop(relu(W₁ h + b₁)) + b₂",
    "xlnet": "W₂ drop(tanh(W₁ h + b₁)) + b₂",
    "gpt2": "W h",
    "electra": "W₂ drop(gelu(W₁ drop(h) + b₁)) + b₂",
    "deberta": "W₂ drop(gelu(W₁ h + b₁)) + b₂",
    "modernbert": "W₂ norm(gelu(W₁ h)) + b₂",
    "eurobert": "W₂ gelu(W₁ h + b₁) + b₂",
    "mlp": "W₂ drop(relu(W₁ h + b₁)) + b₂",
    "multi_sample_dropout": "W drop(h) + b",
    "logistic": "W h + b",
    "ridge": "W h + b",
    "centroid": "W h + b",
    "cosine": "20 · W h/‖h‖",
    "knn": "log votes of neighbours(h)",
    "lda": "W h + b",
    "dense_linear": "W₂ drop(W₁ drop(h) + b₁) + b₂",
    "norm_linear": "W norm(h) + b",
    "residual": "W₃ drop(h + W₂ relu(W₁ h + b₁) + b₂) + b₃",
    "cosine_margin": "20 · (W/‖W‖) h/‖h‖",
    "proportional_odds": "ln(σ(θₖ − f) − σ(θₖ₋₁ − f)), f = W drop(h) + b",
}


def origins(found: Explanation) -> dict[str, str]:
    return {tensor.name: tensor.origin for step in found.steps for tensor in step.tensors}


@pytest.fixture(scope="session")
def lacking(tiny: Tiny) -> Backbone:
    """A tiny BERT from a masked-language checkpoint, which has no pooler."""
    return load(str(tiny("bert", "ForMaskedLM")))


# True of what is built


@settings(max_examples=25)
@given(recipe=st.sampled_from(MENU + OTHER), classes=st.integers(min_value=2, max_value=9))
def test_an_explanation_counts_what_is_built(small: Backbone, recipe: Recipe, classes: int) -> None:
    found = explain(recipe, small, classes=classes, text=TEXT)
    built = assemble(resolve(recipe), small, classes, problem=SINGLE_LABEL)
    assert found.parameters == sum(weight.numel() for weight in built.parameters())
    prefix = resolve(recipe).head.prefix
    told = {
        (tensor.name.removeprefix(prefix), tensor.shape)
        for step in found.steps
        if step.kind == "head"
        for tensor in step.tensors
    }
    rows = resolve(recipe).head.name == "knn"  # how many is known only after training
    assert told == {
        (name, ("rows", *weight.shape[1:]) if rows else tuple(weight.shape))
        for name, weight in built.head.state_dict().items()
    }
    assert {step.kind for step in found.steps} == {"text", "base", "reading", "head", "logits"}
    reading = [step for step in found.steps if step.kind == "reading"]
    assert reading[-1].shape == (built.width,)
    assert sum(step.parameters for step in reading) == sum(
        weight.numel() for weight in built.reader.parameters()
    )
    assert found.steps[-1].shape == (classes,)
    pretrained = {
        tensor.name
        for step in found.steps
        for tensor in step.tensors
        if step.kind == "head" and tensor.origin == "pretrained"
    }
    assert pretrained == {prefix + name for name in built.pretrained}
    assert set(origins(found).values()) <= set(ORIGINS)
    values = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert (values["recipe"], values["base_parameters"]) == (str(recipe), 0)
    for line in (*found.says, *found.notes, *found.sources):
        assert line.endswith((".", "?")), line
        assert "  " not in line
    assert all(step.does for step in found.steps)
    assert all(found.formula)


@settings(max_examples=15)
@given(recipe=st.sampled_from(MENU))
def test_what_is_read_sums_to_1_and_names_every_token(small: Backbone, recipe: Recipe) -> None:
    found = explain(recipe, small, classes=3, text=TEXT, pair="a dog")
    prompt = small.prompted(resolve(recipe).prompt).prompt
    tokens = [token for token, _ in found.reads]
    written = [small.tokenizer.decode([number]).strip() or "␣" for number in prompt]
    assert tokens[len(tokens) - 1 - len(prompt) : -1] == written
    assert ("[MASK]" in written) == bool(prompt)
    assert tokens[: len(tokens) - 1 - len(prompt)] == [
        *("[CLS]", "the", "cat", "sat", "on", "a", "mat", ".", "[SEP]", "a", "dog")
    ]
    assert tokens[-1] == "[SEP]"
    assert sum(share for _, share in found.reads) == pytest.approx(1.0, abs=1e-5)
    assert all(share >= 0 for _, share in found.reads)


@settings(max_examples=15)
@given(recipe=st.sampled_from(MENU))
def test_twins_are_the_same_layers_and_nothing_differs(lacking: Backbone, recipe: Recipe) -> None:
    found = explain(recipe, lacking, classes=3)
    for twin in found.twins:
        other = Recipe(pooling=recipe.pooling, layers=recipe.layers, head=twin)
        assert differences.same_in_training(resolve(recipe), resolve(other), lacking)
        assert recipe.head in explain(other, lacking, classes=3).twins
        said = difference(recipe, other, lacking)
        assert said.endswith("any difference in their numbers is chance.")


def test_nothing_is_built_for_an_explanation(backbone: Backbone) -> None:
    huge = explain("flatten+mlp?length=4096&hidden=4096", backbone, classes=3)
    assert huge.parameters == 4096 * 384 * 4096 + 4096 + 4096 * 3 + 3


# Where it comes from


def test_the_bundled_models_pooler_is_said_to_be_untrained(backbone: Backbone) -> None:
    found = explain("cls+bert", backbone, classes=3)
    assert origins(found) == {
        "pooler.dense.weight": "untrained",
        "pooler.dense.bias": "untrained",
        "classifier.weight": "new",
        "classifier.bias": "new",
    }
    told = " ".join((*found.notes, *found.sources))
    assert "never trained" in found.notes[0]
    assert "the pooler was trained" not in told  # of one pooler both would be said
    assert found.twins == ()


def test_a_pooler_whose_weights_decayed_is_untrained_until_its_bias_learns(small: Backbone) -> None:
    model = copy.deepcopy(small.model)
    for parameter in model.parameters():
        parameter.data.uniform_(0.1, 0.2)  # as if all had learned
    assert pooler_of(model, []) == "pretrained"
    model.pooler.dense.bias.data.zero_()
    for scale in (1.0, 0.4):  # by weight decay alone
        model.pooler.dense.weight.data.normal_(0, 0.02 * scale)
        assert pooler_of(model, []) == "untrained"
    assert pooler_of(model, ["pooler.dense.weight"]) == "new"


def test_the_pooler_head_is_new_without_a_pooler_and_on_a_vector_of_another_width(
    backbone: Backbone, lacking: Backbone
) -> None:
    without = explain("cls+bert", lacking, classes=3)
    assert without.notes[0] == "The pooler layer of 'bert' is new here: the checkpoint has none."
    assert without.twins == ("xlnet",)
    found = explain("cls_mean+bert", backbone, classes=3)
    assert {*origins(without).values(), *origins(found).values()} == {"new"}
    assert found.notes == (
        "The pooler layer of 'bert' is new here: the pooled vector has another width.",
        "all-MiniLM-L6-v2 was trained with its own pooling: mean, length 1.",
    )


def test_a_pooler_that_is_read_is_said_to_be_pretrained_or_random(
    backbone: Backbone, small: Backbone, lacking: Backbone
) -> None:
    for base, origin, note in (
        (backbone, "untrained", "never trained"),
        (lacking, "random", "has no pooler"),
    ):
        found = explain("pooler+linear", base, classes=3)
        assert note in found.notes[0]
        assert origins(found) == {
            "pooler.dense.weight": origin,
            "pooler.dense.bias": origin,
            "classifier.weight": "new",
            "classifier.bias": "new",
        }
        assert found.parameters == base.width * 3 + 3


def test_neighbours_are_the_training_texts_themselves(small: Backbone) -> None:
    found = explain("mean+knn", small, classes=3)
    assert set(origins(found).values()) == {"stored"}
    assert found.parameters == 0


def test_tensors_bear_the_names_of_the_checkpoint(small: Backbone) -> None:
    assert list(origins(explain("cls+roberta", small, classes=3))) == [
        "classifier.dense.weight",
        "classifier.dense.bias",
        "classifier.out_proj.weight",
        "classifier.out_proj.bias",
    ]


def test_a_recipe_that_does_not_fit_is_refused(small: Backbone, tiny: Tiny) -> None:
    none = load(str(tiny("distilbert")))
    for recipe, base in (("mean@7+linear", small), ("pooler+linear", none), ("mean+gone", small)):
        with pytest.raises(RecipeError):
            explain(recipe, base, classes=3)


# In mathematics


def test_every_head_has_an_expected_formula() -> None:
    assert set(FORMULAS) == set(heads_shelf)


@pytest.mark.parametrize(("name", "formula"), FORMULAS.items(), ids=list(FORMULAS))
def test_a_head_is_written_as_mathematics(small: Backbone, name: str, formula: str) -> None:
    found = explain(f"mean+{name}", small, classes=3)
    assert found.formula == ("h = Σ hᵢ / t, over the t real tokens", f"logits = {formula}")


@pytest.mark.parametrize(
    ("recipe", "formula"),
    [
        ("mean+linear?dropout=0", "W h + b"),
        ("mean+deberta?pooler_dropout=0.1", "W₂ drop(gelu(W₁ drop(h) + b₁)) + b₂"),
        ("mean+mlp?activation=tanh", "W₂ drop(tanh(W₁ h + b₁)) + b₂"),
        ("mean+cosine?scale=2.5", "2.5 · W h/‖h‖"),
        ("mean+electra?activation=none&dropout=0", "W₂ (W₁ h + b₁) + b₂"),
        ("mean+residual?dropout=0", "W₃ (h + W₂ relu(W₁ h + b₁) + b₂) + b₃"),
    ],
)
def test_options_show_in_the_formula(small: Backbone, recipe: str, formula: str) -> None:
    assert explain(recipe, small, classes=3).formula[-1] == f"logits = {formula}"


def test_options_show_in_the_words(small: Backbone) -> None:
    found = explain("flatten+knn?length=8&k=3", small, classes=3)
    assert found.says == (
        "The first 8 tokens one after the other, padded with zeros and cut to that length.",
        "A vote of the 3 most similar training texts.",
    )
    assert found.formula[0] == "h = [h₁; h₂; …] up to token 8"
    assert "{" not in json.dumps(explain("flatten+cosine", small, classes=3).says)


def test_layers_and_pooling_each_have_their_formula(small: Backbone) -> None:
    found = explain("cls@max4+linear", small, classes=3)
    assert found.formula[0].startswith("hᵢ = max(")
    assert found.formula[1] == "h = h₁"


def test_two_texts_that_are_read_apart_and_a_loss_are_explained(small: Backbone) -> None:
    found = explain(
        "mean@max4+linear?loss=ovr&pair=uv_diff", small, classes=3, text=TEXT, pair="a dog"
    )
    assert [line.partition(" = ")[0] for line in found.formula] == [
        "hᵢ",
        "h",
        "h",
        "logits",
        "loss",
    ]
    assert found.formula[2] == "h = [u; v; |u − v|], where u and v are the h of the two texts"
    assert found.formula[3] == "logits = W h + b"
    assert [source.partition(":")[0] for source in found.sources] == [
        "mean", "max4", "uv_diff", "linear", "ovr",
    ]  # fmt: skip
    tokens = [token for token, _ in found.reads]
    assert tokens == [
        *("[CLS]", "the", "cat", "sat", "on", "a", "mat", ".", "[SEP]"),
        *("[CLS]", "a", "dog", "[SEP]"),
    ]
    assert sum(share for _, share in found.reads[:9]) == pytest.approx(1.0, abs=1e-5)
    assert sum(share for _, share in found.reads[9:]) == pytest.approx(1.0, abs=1e-5)
    assert any("One versus the rest" in line for line in found.says)
    usual = explain("mean@max4+linear", small, classes=3)
    assert len(usual.formula) == 3
    assert not [note for note in usual.notes if "two texts apart" in note]
    assert [note for note in found.notes if "two texts apart" in note]


# Two recipes


BERT_ROBERTA = (
    "Against 'bert', the head 'roberta' adds a dropout (0.1) before the dense layer and has its "
    "dense layer new where that of 'bert' is {}. Once trained, both compute the same function with "
    "different weights."
)
DIFFERENCES = {
    ("cls+bert", "cls+roberta"): BERT_ROBERTA.format(
        "from the checkpoint (still at its initial values)"
    ),
    ("mean+roberta", "mean+electra"): (
        "Against 'roberta', the head 'electra' has a GELU in place of a tanh."
    ),
    ("mean+electra", "mean+roberta"): (
        "Against 'electra', the head 'roberta' has a tanh in place of a GELU."
    ),
    ("cls_mean+bert", "cls_mean+xlnet"): (
        "The heads 'bert' and 'xlnet' are the same layers under other names: any difference in "
        "their numbers is chance."
    ),
    ("mean+linear", "mean+logistic"): (
        "Against 'linear', the head 'logistic' is set at once (logistic, C = 1.0) where 'linear' "
        "is solved by L-BFGS. Once trained, both compute the same function with different weights."
    ),
    ("cls+linear", "mean+linear"): (
        "cls: The first real token, which is [CLS] or <s> in BERT-like models. mean: The average "
        "of all real tokens, special tokens included. Both have the head 'linear'."
    ),
    ("mean+linear", " Mean+linear?dropout=0.1"): "They are the same recipe.",
    ("flatten+linear", "flatten+linear?length=8"): (
        "They read with other options: flatten+linear and flatten+linear?length=8. Both have the "
        "head 'linear'."
    ),
    ("mean+linear", "mean+linear?pair=uv"): (
        "mean+linear?pair=uv reads two texts each by itself and joins them: The two vectors side "
        "by side. Both have the head 'linear'."
    ),
    ("mean+linear?loss=ovr", "mean+linear"): (
        "mean+linear?loss=ovr: One versus the rest: a yes-or-no question for each class, answered "
        "by itself. mean+linear: One class a text: the classes compete, and their probabilities "
        "sum to 1. Both have the head 'linear'."
    ),
    ("mean+linear", "mean+linear?dropout=0.5"): (
        "Against 'linear', the head 'linear?dropout=0.5' adds a dropout (0.5) before the linear "
        "layer and is trained step by step where 'linear' is solved by L-BFGS. Once trained, both "
        "compute the same function with different weights."
    ),
}


@pytest.mark.parametrize(
    ("pair", "said"), DIFFERENCES.items(), ids=[" ".join(pair) for pair in DIFFERENCES]
)
def test_what_sets_two_recipes_apart_is_said(
    backbone: Backbone, pair: tuple[str, str], said: str
) -> None:
    assert difference(*pair, backbone) == said


def test_the_difference_knows_the_base_model(small: Backbone, lacking: Backbone) -> None:
    said = difference("cls+bert", "cls+roberta", small)
    assert said.startswith("Against 'bert', the head 'roberta' adds a dropout (0.1)")
    assert "new where that of 'bert' is pretrained." in said
    assert difference("cls+bert", "cls+roberta", lacking) == (
        "Against 'bert', the head 'roberta' adds a dropout (0.1) before the dense layer. Once "
        "trained, both compute the same function with different weights."
    )
    assert "is chance" in difference("cls+bert", "cls+xlnet", lacking)


def test_another_option_of_a_solver_is_a_difference(small: Backbone) -> None:
    assert difference("mean+ridge", "mean+ridge?alpha=1", small) == (
        "Against 'ridge', the head 'ridge?alpha=1.0' is set at once (ridge, alpha = 1.0) where "
        "'ridge' is set at once (ridge, alpha = 100.0). Once trained, both compute the same "
        "function with different weights."
    )
    assert "is chance" not in difference("cls+logistic", "cls+logistic?C=0.1", small)


@settings(max_examples=25)
@given(one=st.sampled_from(MENU + OTHER), other=st.sampled_from(MENU + OTHER))
def test_a_difference_is_said_in_sentences(small: Backbone, one: Recipe, other: Recipe) -> None:
    said = difference(one, other, small)
    assert said.endswith(".")
    assert "\n" not in said
    assert (said == "They are the same recipe.") == (one == other)


# From the outside


def test_a_learned_pooling_is_explained_as_trained(tiny: Tiny) -> None:
    asked: dict[str, Any] = {"model": str(tiny("bert", "ForPreTraining"))}
    events = list(iter_explanation("attention+linear", TEXT, **asked))
    assert any(isinstance(e, Progress) and e.says == "Trained attention+linear" for e in events)
    found = events[-1]
    assert isinstance(found, Explanation)
    assert not [note for note in found.notes if "before training" in note]
    untrained = explain("attention+linear", load(asked["model"]), classes=3, text=TEXT)
    assert untrained.notes == (
        "This is the reading before training, when all count nearly the same.",
    )
    assert found.reads != untrained.reads


@pytest.mark.parametrize(
    ("sample", "classes"), [("sentiment", 3), ("intents", 10), ("aspects", 6), ("pairs", 2)]
)
def test_the_classes_are_those_of_the_sample(tiny: Tiny, sample: str, classes: int) -> None:
    pair = "a dog" if sample == "pairs" else ""
    found = api.explain("mean+linear", TEXT, pair, model=str(tiny()), sample=sample)
    assert found.classes == classes
    assert found.steps[-1].shape == (classes,)


def test_the_difference_can_be_asked_by_name(tiny: Tiny) -> None:
    said = api.difference("mean+roberta", "mean+electra", model=str(tiny()))
    assert said == DIFFERENCES["mean+roberta", "mean+electra"]
    with pytest.raises(HeadsError):
        api.difference("mean+roberta", "mean+nothing", model=str(tiny()))


@pytest.mark.parametrize("text", ["", " \x00 "])
def test_an_empty_text_is_refused(tiny: Tiny, text: str) -> None:
    with pytest.raises(HeadsError):
        api.explain("mean+linear", text, model=str(tiny()))
