import json
import math
import re
import string
from itertools import product

import pytest
import torch
from expected_errors import refusing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heads.errors import RecipeError
from heads.parts.modules import leaves
from heads.parts.resolve import head, layers, menu, parts, pooling, resolve
from heads.recipe import Recipe

unhurried = settings(max_examples=80)

WORD = string.ascii_letters + string.digits + "_"
LEARNED_LAYERS = [name for name in layers if layers[name].learned]
LEARNED_POOLINGS = [name for name in pooling if pooling[name].learned]
SOLVED = [name for name in head if head[name].is_solved]

names = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
choices = st.just("") | st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
words = st.text(WORD + ".+-", min_size=1, max_size=8).filter(
    lambda word: isinstance(Recipe.parse(f"a+b?c={word}").options[0][1], str)
)
values = (
    st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
option_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
recipes = st.builds(
    lambda pooling, layers, head, options: Recipe(
        pooling=pooling, layers=layers, head=head, options=tuple(sorted(options.items()))
    ),
    names,
    choices,
    names,
    st.dictionaries(option_names, values, max_size=4),
)

near_recipes = st.lists(
    st.sampled_from(
        [*pooling, *layers, *head, *"@+?&=. -_09İKſ\n\t\x00", "dropout", "true", "1e9"]
    ),
    max_size=12,
).map("".join)


def kinds(recipe: Recipe) -> list[type]:
    return [type(value) for _, value in recipe.options]


@unhurried
@given(recipes)
def test_a_recipe_reads_back_from_its_text(recipe):
    again = Recipe.parse(str(recipe))
    assert again == recipe
    assert kinds(again) == kinds(recipe)
    assert str(again) == str(recipe)


@unhurried
@given(st.text() | near_recipes)
@example("")
@example("+")
@example("mean+linear?")
@example("mean+linear?dropout=" + "9" * 300)
@example("mean+linear?dropout=" + "9" * 5000)
@example("mean+linear?dropout=1e999&x=nan&y=inf")
@example("\ud800+linear")
@example("MEAN@CAT4+LINEAR?C=1_0")
@example("x" * 100_000)
def test_any_text_is_a_recipe_or_a_recipe_error(text):
    try:
        recipe = Recipe.parse(text)
    except RecipeError:
        return
    assert Recipe.parse(str(recipe)) == recipe


# What does not fit, and what its error names: the nearest name, all names, the option or its range.
REFUSED: list[tuple[str, str]] = [
    ("mean+linear?dropout=" + "9" * 400, "dropout"),
    ("meen+linear", "'mean'"),
    ("mean+robert", "'roberta'"),
    ("mean@cat5+linear", "'cat4'"),
    ("mean+linear?droput=0.1", "'dropout'"),
    ("attention+mlp?query=2", "'queries'"),
    ("mean+mlp?hiden=3", "'hidden'"),
    ("mean+mlp?activation=gelo", "'gelu'"),
    ("zzzzz+linear", ", ".join(pooling)),
    ("mean+zzzzz", ", ".join(head)),
    ("mean@zzzzz+linear", ", ".join(layers)),
    ("mean+gpt2?dropout=0.1", "late"),
    # Scaling that makes no sense
    ("mean+ridge?standardise=true", "ridge"),
    ("attention+linear?standardise=true", "attention"),
    ("mean+gpt2?standardise=true", "gpt2"),
    ("mean+residual?standardise=false", "residual"),
    ("mean+linear?late=true&normalise=true", "late"),
    ("mean+linear?standardise=1", "true or false"),
    ("mean+linear?normalise=yes", "true or false"),
    ("mean+lda?shrinkage=1.1", "0 to 1"),
    ("gem+linear?power=0.5", "1 to 100"),
    ("mean+cosine_margin?margin=2", "0 to 1"),
    # A prompt stands behind whole texts only.
    *((f"mask_token{rest}", "prompt") for rest in ("+linear?late=true", "@mix+linear")),
    ("mask_token+linear?pair=uv", "prompt"),
    # A pooling that reads no states takes no layers.
    *((f"pooler@{choice}+bert", "pooler+bert") for choice in ("3", *layers)),
    # A layer that cannot be left out
    ("cls+roberta?without=dens", "'dense'"),
    ("cls+roberta?without=out_proj", "out_proj"),
    ("mean+linear?without=classifier", "classifier"),
    ("mean+knn?without=neighbours", "knn"),
    ("mean+linear?without=1", "without=1"),
    ("mean+cosine_margin?without=directions", "directions"),
    ("mean+proportional_odds?without=projection", "projection"),
    # Options out of their range
    *(
        (f"mean+{option}", option.partition("?")[2].partition("=")[0])
        for option in (
            *("linear?dropout=-0.1", "linear?dropout=1", "linear?dropout=1.0"),
            *("linear?dropout=nan", "linear?dropout=true", "linear?dropout=half"),
            *("deberta?pooler_dropout=1", "knn?k=0", "knn?k=-1", "knn?k=1.5", "knn?k=4097"),
            *("knn?k=1e300", "knn?k=true", "knn?k=x", "logistic?C=0", "logistic?C=-1"),
            *("logistic?C=1000001", "logistic?C=inf", "ridge?alpha=0.0", "cosine?scale=false"),
            *("mlp?hidden=0", "mlp?hidden=99999", "mlp?activation=3", "mlp?activation=true"),
            "multi_sample_dropout?samples=0",
        )
    ),
]


@pytest.mark.parametrize(("text", "names"), REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(text, names):
    with refusing(RecipeError, names, longest=1000):
        resolve(text)


@pytest.mark.parametrize("thing", [None, 3, b"mean+linear", ["mean+linear"]])
def test_what_is_no_text_is_no_recipe(thing):
    with refusing(RecipeError):
        Recipe.parse(thing)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" Mean + Linear ", "mean+linear"),
        ("cls@CAT4+mlp?hidden=64&activation=gelu", "cls@cat4+mlp?activation=gelu&hidden=64"),
        ("mean+linear?&dropout=.5&", "mean+linear?dropout=0.5"),
        ("mean@006+linear", "mean@6+linear"),
        ("mean+mlp?hidden=8&dropout=0.5", "mean+mlp?dropout=0.5&hidden=8"),
        ("mean@0+linear", "mean@0+linear"),
        ("mean+logistic?C=2", "mean+logistic?C=2.0"),
        ("mean+knn?k=5.0", "mean+knn?k=5"),
        ("mean+linear?dropout=0", "mean+linear?dropout=0.0"),
    ],
)
def test_many_ways_of_writing_are_one_recipe(text, canonical):
    recipe = resolve(text).recipe
    assert str(recipe) == canonical
    assert resolve(canonical).recipe == recipe == Recipe.parse(canonical)


NO_RECIPES = """
mean mean+ +linear mean++linear mean+linear+linear mean@+linear mean@-1+linear mean@1.5+linear
4mean+linear mean+linear?dropout mean+linear?dropout= mean+linear?=0.1 mean+linear?dropout=0.1?k=2
mean+linear?dropout=0.1&dropout=0.2 mean+linear?dropout=<b> mean/../linear pooling=mean
"""


@pytest.mark.parametrize("text", NO_RECIPES.split())
def test_what_is_not_in_the_grammar_is_refused_with_a_hint(text):
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(text)
    assert caught.value.hint


TOO_LONG = """
{long} {long}+linear mean+{long} mean@{long}+linear mean+linear?{long} mean+linear?{long}=1
mean+linear?dropout={long}
"""


@pytest.mark.parametrize("text", TOO_LONG.split())
def test_an_error_repeats_no_more_than_80_letters_of_what_was_written(text):
    with pytest.raises(RecipeError) as caught:
        resolve(text.format(long="x" * 9999))
    assert "x" * 81 not in str(caught.value)


@pytest.mark.parametrize("part", [*pooling.values(), *head.values()], ids=lambda part: part.name)
def test_options_at_their_default_are_dropped(part):
    recipe = f"{part.name}+linear" if part.kind == "pooling" else f"mean+{part.name}"
    given = Recipe.parse(recipe)
    given = Recipe(
        pooling=given.pooling, head=given.head, options=tuple(sorted(part.options.items()))
    )
    resolved = resolve(given)
    assert str(resolved.recipe) == recipe
    options = resolved.pooling_options if part.kind == "pooling" else resolved.head_options
    assert options == part.options


def test_options_go_to_the_part_that_has_them():
    resolved = resolve("attention+mlp?queries=4&hidden=8")
    assert resolved.pooling_options == {"queries": 4}
    assert resolved.head_options == {"hidden": 8, "activation": "relu", "dropout": 0.1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mean+linear?normalise=true", "scaled to length 1"),
        ("mean+linear?standardise=true", "learns from standardised vectors"),
        ("mean+roberta?standardise=false", "learns from the vectors as they are"),
    ],
)
def test_scaling_is_an_option_of_the_recipe(text, says):
    resolved = resolve(text)
    assert str(resolved.recipe) == text
    assert says in " ".join(resolved.says)
    # What is scaled to length 1 is read so; what is standardised is learned so.
    assert resolved.reading == ("mean?normalise=true" if resolved.normalise else "mean")
    plain = text.replace("=true", "=auto").replace("normalise=auto", "normalise=false")
    assert "?" not in str(resolve(plain.replace("standardise=false", "standardise=auto")).recipe)


def test_a_prompt_is_a_reading_of_its_own():
    assert resolve("mask_token+linear").prompt == "It_was"
    resolved = resolve("mask_token+linear?prompt=The_topic_is")
    assert (resolved.prompt, resolved.reading) == ("The_topic_is", "mask_token?prompt=The_topic_is")
    assert resolve("mean+linear").prompt == ""


def test_a_margin_is_measured_in_logits():
    assert resolve("mean+cosine_margin?margin=0.1&scale=30").margin == pytest.approx(3)
    assert resolve("mean+cosine_margin?margin=0").margin == 0
    assert resolve("mean+linear").margin == 0


def test_no_pooling_shares_an_option_with_a_head():
    for reader, top in product(pooling.values(), head.values()):
        assert not reader.options.keys() & top.options.keys()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("linear?dropout=0", 0.0),
        ("linear?dropout=0.999", 0.999),
        ("knn?k=1", 1),
        ("knn?k=4096", 4096),
        ("knn?k=3.0", 3),
        ("logistic?C=1e-9", 1e-9),
        ("logistic?C=1000000", 1e6),
        ("mlp?activation=tanh", "tanh"),
    ],
)
def test_an_option_in_range_is_taken_in_its_own_type(option, value):
    (taken,) = (kept for _, kept in resolve(f"mean+{option}").recipe.options)
    assert (taken, type(taken)) == (value, type(value))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("option", [("linear", "dropout"), ("logistic", "C"), ("knn", "k")])
def test_numbers_that_are_none_are_refused_from_python(option, number):
    recipe = Recipe(pooling="mean", head=option[0], options=((option[1], number),))
    with refusing(RecipeError, option[1]):
        resolve(recipe)


@pytest.mark.parametrize("top", SOLVED)
@pytest.mark.parametrize(
    "reading", [*LEARNED_POOLINGS, *(f"mean@{name}" for name in LEARNED_LAYERS)]
)
def test_what_is_learned_and_what_is_solved_do_not_go_together(reading, top):
    with refusing(RecipeError) as caught:
        resolve(f"{reading}+{top}")
    offered = re.findall(r"[\w@]+\+\w+", caught.value.hint)
    assert offered
    assert all(resolve(recipe) for recipe in offered)


@unhurried
@given(
    st.builds(
        lambda reader, choice, top, options: Recipe(
            pooling=reader, layers=choice, head=top, options=tuple(sorted(options.items()))
        ),
        st.sampled_from(list(pooling)),
        st.sampled_from(["", "0", "12", "99999", *layers]),
        st.sampled_from(list(head)),
        st.dictionaries(
            st.sampled_from(["dropout", "k", "C", "hidden", "queries", "length", "activation"]),
            values,
            max_size=2,
        ),
    )
)
def test_a_resolved_recipe_resolves_to_itself(recipe):
    try:
        resolved = resolve(recipe)
    except RecipeError:
        return
    again = resolve(str(resolved.recipe))
    assert again == resolved
    assert (resolved.pooling.name, resolved.head.name) == (recipe.pooling, recipe.head)


def test_every_recipe_of_the_menu_resolves_to_itself():
    ordered = list(menu())
    assert len(set(map(str, ordered))) == len(ordered)
    for recipe in ordered:
        assert resolve(str(recipe)).recipe == recipe


def test_the_menu_lacks_only_what_cannot_be_learned_together():
    ordered = {(recipe.pooling, recipe.layers, recipe.head) for recipe in menu()}
    for reader, top in product(pooling, head):
        together = not (reader in LEARNED_POOLINGS and top in SOLVED)
        assert ((reader, "", top) in ordered) == together


def test_parts_are_plain_values_in_the_order_of_the_shelves():
    listed = json.loads(json.dumps(parts()))
    assert [part["name"] for part in listed["poolings"]] == list(pooling)
    assert [part["name"] for part in listed["layers"]] == list(layers)
    assert [part["name"] for part in listed["heads"]] == list(head)


@pytest.mark.parametrize(
    ("given", "canonical", "layers"),
    [
        ("cls+roberta?without=dense", "cls+roberta?without=dense",
         ["drop_in", "tanh", "drop_out", "out_proj"]),
        ("cls+bert?without=dense", "cls+bert?without=pooler.dense",
         ["pooler.activation", "dropout", "classifier"]),
        ("mean+modernbert?without=norm", "mean+modernbert?without=head.norm",
         ["head.dense", "head.act", "drop", "classifier"]),
        ("mean+mlp?without=hidden&hidden=16", "mean+mlp?hidden=16&without=hidden",
         ["activation", "dropout", "output"]),
        ("mean+linear?without=dropout", "mean+linear?without=dropout", ["classifier"]),
    ],
)  # fmt: skip
def test_a_layer_is_left_out_of_a_head(given, canonical, layers):
    resolved = resolve(given)
    assert str(resolved.recipe) == canonical
    chain = resolved.chain(8, 3)
    assert [name for name, _ in leaves(chain)] == layers
    assert chain(torch.randn(2, 8)).shape == (2, 3)  # what stands behind it is made to fit
    assert any("is left out" in said for said in resolved.says)
    whole = [name for name, _ in leaves(resolve(given.partition("?")[0]).chain(8, 3))]
    assert len(whole) == len(layers) + 1
