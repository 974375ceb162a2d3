"""The catalogue of the installed version: what it says is where it says, and true of the class."""

import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import slow
import transformers
from expected_errors import refusing
from tiny_models import rewrite, save_tiny
from transformers.models.auto import modeling_auto
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as LIVE,
)

import heads
from heads.backbone.models import BUNDLED, MODELS
from heads.catalog.catalog import catalogue, classes, entry, equals, link, place
from heads.catalog.families import FAMILIES
from heads.errors import ModelError, RecipeError
from heads.parts.resolve import menu, resolve
from heads.recipe import Recipe

SOURCES = Path(transformers.__file__).parent
INEXPRESSIBLE = {"perceiver", "layoutlmv2"}
BERT = (
    "bert is a BertForSequenceClassification ({}), cls+bert: The base model's pooler (first token, "
    "dense, tanh), then dropout and linear."
)
ROBERTA = (
    "roberta is a RobertaForSequenceClassification ({}), cls+roberta: The first token, then "
    "dropout, dense, tanh, dropout, linear."
)
BERT_ROBERTA = (
    "Against {0}, the head {1} adds a dropout (0.1) before the dense layer and has its dense layer "
    "in the head where that of {0} is in the base model (its pooler). Once trained, both compute "
    "the same function with different weights."
)

Folders = Callable[..., Path]


@pytest.fixture
def fresh() -> Iterator[None]:
    """The catalogue is read anew from the mapping, before the test and after it."""
    for told in (classes, catalogue):
        told.cache_clear()
    yield
    for told in (classes, catalogue):
        told.cache_clear()


def said(one: str | Recipe, other: str | Recipe, **more: Any) -> str:
    settings: dict[str, Any] = {**more}
    found = heads.difference(one, other, **settings)
    assert "\n" not in found
    assert "  " not in found
    assert found.endswith(".")
    return found


# Entries


def test_there_is_an_entry_for_each_class_of_the_installed_version():
    assert [(item.model_type, item.called) for item in catalogue()] == list(LIVE.items())
    for item in catalogue():
        assert item == entry(item.model_type)
        assert item.form == FAMILIES[item.model_type].name
        assert item.says.endswith(".")
        assert (item.recipe is None) == (item.reason is not None)
        assert bool(item.tensors) == bool(item.formula) == (item.recipe is not None)
        assert len(set(item.tensors)) == len(item.tensors)
        assert item.recipe is None or str(resolve(item.recipe).recipe) == item.recipe
    assert {item.model_type for item in catalogue() if item.reason} == INEXPRESSIBLE


@pytest.mark.parametrize(
    ("model_type", "form", "recipe", "tensors", "formula"),
    [
        (
            "bert",
            "F2",
            "cls+bert",
            "bert.pooler.dense.weight bert.pooler.dense.bias classifier.weight classifier.bias",
            "W₂ drop(tanh(W₁ h + b₁)) + b₂",
        ),
        (
            "albert",
            "F2",
            "cls+bert",
            "albert.pooler.weight albert.pooler.bias classifier.weight classifier.bias",
            "W₂ drop(tanh(W₁ h + b₁)) + b₂",
        ),
        ("gpt2", "F1", "last+gpt2", "score.weight", "W h"),
        ("ctrl", "F1", "last+gpt2", "classifier.weight", "W h"),
        ("canine", "F2", "pooler+linear", "classifier.weight classifier.bias", "W drop(h) + b"),
        (
            "eurobert",
            "F14",
            "mean+eurobert?late=true",
            "dense.weight dense.bias classifier.weight classifier.bias",
            "W₂ gelu(W₁ h + b₁) + b₂",
        ),
        (
            "t5gemma",
            "F15",
            "last@decoder+linear?dropout=0.0",
            "score.out_proj.weight score.out_proj.bias",
            "W h + b",
        ),
    ],
)
def test_an_entry_says_what_the_head_is(model_type, form, recipe, tensors, formula):
    item = entry(model_type)
    assert (item.form, item.recipe, item.formula) == (form, recipe, formula)
    assert item.tensors == tuple(tensors.split())


def test_an_entry_as_json_has_its_keys_and_no_others():
    for name, form, recipe in (("roberta", "F3", "cls+roberta"), ("perceiver", "F16", None)):
        item = entry(name)
        wanted = {"model_type": name, "class": LIVE[name], "form": form, "recipe": recipe}
        assert item.as_json() == wanted | {"reason": item.reason}
    json.dumps([item.as_json() for item in catalogue()])


def test_a_family_that_this_version_has_not_is_said_to_be_missing(monkeypatch, fresh):
    """As an older Transformers: the catalogue knows more than is installed."""
    older = {name: called for name, called in LIVE.items() if name != "bert"}
    monkeypatch.setattr(modeling_auto, "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", older)
    assert "bert" not in [item.model_type for item in catalogue()]
    with refusing(RecipeError, "'bert'"):
        entry("bert")
    assert not equals(Recipe.parse("cls+bert"), "bert").startswith("BertFor")
    assert equals(Recipe.parse("cls+bert"), "bert")  # others have the same head


# Where a class stands


@pytest.mark.parametrize("called", sorted(set(LIVE.values())))
def test_a_place_is_the_line_where_the_class_begins(called):
    found = re.fullmatch(r"transformers/(models/[\w/]+\.py):(\d+)", place(called))
    assert found
    if hasattr(transformers, called):  # the file is the one that Python loads
        module = getattr(transformers, called).__module__
        assert f"transformers/{found[1]}" == f"{module.replace('.', '/')}.py"
    lines = (SOURCES / found[1]).read_text("utf-8").splitlines()
    assert re.match(rf"class {called}\b", lines[int(found[2]) - 1])
    assert link(called) == (
        "https://github.com/huggingface/transformers/blob/"
        f"v{version('transformers')}/src/transformers/{found[1]}#L{found[2]}"
    )


# Which class a recipe equals


@pytest.mark.parametrize(
    "model_type",
    slow.but(
        [name for name in LIVE if name not in INEXPRESSIBLE],
        "bert",
        "roberta",
        "gpt2",
        "bart",
        "modernbert",
        "t5",
    ),
)
def test_a_familys_recipe_equals_its_class(model_type):
    recipe = entry(model_type).recipe
    assert recipe is not None
    called = LIVE[model_type]
    assert equals(Recipe.parse(recipe), model_type).startswith(f"{called}, {place(called)}")


@pytest.mark.parametrize(
    ("recipe", "model_type", "says"),
    [
        ("cls+bert", "bert", "BertForSequenceClassification, {}, and "),
        ("cls+bert?dropout=0.3", "gpt2", "BertForSequenceClassification, {}, and "),
        ("cls+roberta", "bert", "RobertaForSequenceClassification, {}, and "),
        ("cls+roberta", "mpnet", "MPNetForSequenceClassification, {}, and "),
        ("last+gpt2", "llama", "LlamaForSequenceClassification, {}, and "),
        ("cls+gpt2", "gpt2", "CohereCompassTextForSequenceClassification, {}"),
        ("pooler+linear", "bert", "CanineForSequenceClassification, {}"),
        ("mean+eurobert?late=true", "bert", "EuroBertForSequenceClassification, {}"),
        ("mean+eurobert", "bert", "EuroBertForSequenceClassification, {}"),
    ],
)
def test_the_class_that_a_recipe_equals_is_named(recipe, model_type, says):
    found = equals(resolve(recipe).recipe, model_type)
    assert re.search(r"\.py:\d+(, and \d+ more families)?$", found)
    assert found.startswith(says.format(place(found.partition(",")[0])))


@pytest.mark.parametrize(
    "recipe",
    [
        *("mean+mlp", "max+linear", "cls@2+bert", "eos+roberta", "mean+bert"),
        *("cls+eurobert?late=true", "cls+roberta?hidden=8"),
        # ModernBERT's own has a bias in its last layer, and its decoder's has none by default.
        *("last+modernbert", "cls+modernbert?out_bias=false"),
    ],
)
def test_a_recipe_that_no_class_has_equals_none(recipe):
    assert equals(resolve(recipe).recipe, "bert") == ""
    assert equals(resolve(recipe).recipe, "modernbert") == ""
    assert "1 more families" not in equals(Recipe.parse("cls+deberta"), "deberta")


@pytest.mark.slow
def test_every_head_of_a_class_is_on_the_menu_of_what_equals_it():
    """The recipes of the menu that equal a class are the ones that the catalogue names."""
    named = {str(resolve(item.recipe).recipe) for item in catalogue() if item.recipe}
    named = {recipe for recipe in named if "out_bias=false" not in recipe}  # no menu has options
    bare = {recipe.partition("?")[0] for recipe in named}
    found = {str(recipe) for recipe in menu() if equals(recipe, "bert")}
    assert bare <= found
    chosen = {text for form in FAMILIES.values() for text in form.recipes.values()}
    assert found - bare <= {text.partition("?")[0] for text in chosen}


# What sets two apart


def test_two_families_are_told_apart_in_words():
    bert = BERT.format(place("BertForSequenceClassification"))
    roberta = ROBERTA.format(place("RobertaForSequenceClassification"))
    assert said("bert", "roberta") == f"{bert} {roberta} {BERT_ROBERTA.format('bert', 'roberta')}"
    assert said("electra", "roberta").endswith(
        "Against electra, the head roberta has a tanh in place of a GELU."
    )
    assert said("bert", "funnel").endswith(
        "Against bert, the head funnel has its dense layer in the head where that of bert is in "
        "the base model (its pooler). Once trained, both compute the same function with different "
        "weights."
    )
    assert said("modernbert", "modernbert-decoder").endswith(
        "cls: The first real token, which is [CLS] or <s> in BERT-like models. last: The last real "
        "token: all that a decoder has read. Against modernbert, the head modernbert-decoder has a "
        "linear layer without a bias in place of a linear layer."
    )
    assert "mean+eurobert?late=true applies its head to every token" in said("eurobert", "bert")
    assert "adds a dense layer" not in said("canine", "bert")  # whose pooler has one too
    assert "ernie is an ErnieForSequenceClassification" in said("bert", "ernie")


@pytest.mark.parametrize(
    ("one", "other", "recipe"),
    [
        ("bert", "ernie", "cls+bert"),
        ("bert", "bert", "cls+bert"),
        ("gpt2", "llama", "last+gpt2"),
        ("t5", "bart", "eos@decoder+roberta?dropout=0.0"),
        ("bert", "cls+bert", "cls+bert"),
        ("roberta", "Cls + Roberta", "cls+roberta"),
    ],
)
def test_the_same_head_is_said_to_be_the_same(one, other, recipe):
    for pair in ((one, other), (other, one)):
        assert said(*pair).endswith(f"Both are {recipe}: the same head.")


@pytest.mark.parametrize(
    ("one", "other"), [("bert-base-uncased", "roberta-base"), ("all-MiniLM-L6-v2", "roberta")]
)
def test_models_are_known_by_their_names(one, other):
    found = said(one, other)
    assert found.startswith(f"{one} is a BertForSequenceClassification (transformers/models/bert/")
    assert found.endswith(BERT_ROBERTA.format(one, other))
    assert said(BUNDLED, "bert").endswith("Both are cls+bert: the same head.")


@pytest.mark.slow
def test_every_listed_model_has_a_family_of_the_catalogue():
    for base in MODELS:
        for name in (base.id, base.name, base.id.upper()):
            found = said(name, "bert")
            assert LIVE[base.family] in found


def test_a_folder_is_told_by_its_config(tmp_path):
    folder = save_tiny(tmp_path / "m", "modernbert", "ForSequenceClassification")
    assert "cls+modernbert" in said(str(folder), "bert")
    rewrite(folder / "config.json", classifier_pooling="mean", classifier_bias=True)
    found = said(str(folder), "modernbert")
    assert f"{folder} is a ModernBertForSequenceClassification" in found
    assert "mean+modernbert?bias=true" in found


def test_a_recipe_and_a_family_can_be_compared():
    found = said("bert", "cls+linear")
    assert found.endswith("Against bert, the head cls+linear leaves out a dense layer and a tanh.")
    assert said(Recipe.parse("cls+linear"), "bert").endswith(
        "Against cls+linear, the head bert adds a dense layer and a tanh before the dropout (0.1)."
    )


def test_two_recipes_are_compared_on_the_base_model(tiny):
    pretrained = said("cls+bert", "cls+xlnet", model=str(tiny("bert", "ForPreTraining")))
    assert pretrained.startswith("Against 'bert', the head 'xlnet' has its dense layer new where")
    new = said("cls+bert", "cls+xlnet", model=str(tiny("bert", "ForMaskedLM")))
    assert new.endswith("any difference in their numbers is chance.")
    asked = (Recipe.parse("mean+linear"), "mean+linear?dropout=0.1")
    assert said(*asked, model=str(tiny("bert", "ForMaskedLM"))) == "They are the same recipe."


@pytest.mark.parametrize(
    ("one", "other", "kind", "names"),
    [
        *((*two, ModelError, "'roberta'") for two in (("robert", "bert"), ("bert", "robert"))),
        ("bert", "", ModelError, "''"),
        ("bert", "mean+nothing", RecipeError, "'nothing'"),
        ("mean+linear", "nothing+linear", RecipeError, "'nothing'"),
        ("bert", "bert+", RecipeError, "'bert+'"),
        *(("bert", name, ModelError, FAMILIES[name].reason) for name in sorted(INEXPRESSIBLE)),
        ("perceiver", "bert", ModelError, FAMILIES["perceiver"].reason),
        ("some/where", "bert", ModelError, "some/where"),
    ],
)
def test_what_is_unknown_or_not_expressed_is_refused(one, other, kind, names):
    with refusing(kind, names):
        heads.difference(one, other)


def test_what_no_catalogue_knows_is_refused(copied):
    for name, hint in (("robert", "'roberta'"), ("resnet", "'resnet'"), ("x" * 200, "x" * 60)):
        with refusing(RecipeError, hint):
            entry(name)
    folder = copied(auto_map={"AutoModel": "evil.Model"}, model_type="gone")
    with refusing(ModelError, "custom code"):
        heads.difference(str(folder), "bert")
