"""How a base model was trained to be read: held against the library that wrote its folder."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from expected_errors import refusing
from sentence_folders import close, dense, encoded, write_sentences
from torch import Tensor, nn

from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.backbone.trained_reading import TrainedReading, sentence_modules
from heads.errors import RecipeError
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve
from heads.recipe import Recipe

library = pytest.importorskip("sentence_transformers", reason="the library is not installed")

# Where modules are imported from has moved; the old place is the one that all versions have.
pytestmark = pytest.mark.filterwarnings("ignore:Importing from:DeprecationWarning")
TEXTS = ["the old dog barks at the cat", "a dog", "it runs and runs and runs"]


@pytest.fixture
def sentences(tiny: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Writes a folder of the library: the tiny BERT, a pooling and what else is asked for."""
    return lambda *args, **facts: write_sentences(tmp_path / "sentences", tiny(), *args, **facts)


def read(
    backbone: Backbone, recipe: str = "trained+linear", texts: Sequence[str] = TEXTS
) -> Tensor:
    resolved = resolve(recipe)
    reader, own = Featurizer(resolved, backbone), backbone.for_recipe(resolved)
    vectors = torch.zeros(len(texts), reader.width)
    for rows, states in own.passes(own.encode(list(texts))):
        vectors[rows] = reader(states).vectors
    return vectors


def test_the_bundled_model_was_trained_with_the_average_at_length_1(backbone):
    assert backbone.trained is not None
    assert (backbone.trained.plain, backbone.trained.says) == ("mean", "mean, length 1")
    found = read(backbone)
    close(found, encoded(Path(str(backbone.folder)), TEXTS))
    close(found, read(backbone, "mean+linear?normalise=true"))


@pytest.mark.parametrize(
    "mode",
    [
        *("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
        ["mean", "max", "cls"],
    ],
    ids=str,
)
def test_every_pooling_gives_what_the_library_gives(sentences, mode):
    folder = sentences(mode)
    close(read(loading.load(str(folder))), encoded(folder, TEXTS))


def test_every_module_gives_what_the_library_gives(sentences, small):
    from sentence_transformers.models import Dropout, LayerNorm, Normalize

    width = small.width
    steps = [
        dense(width, 24, nn.Identity(), bias=False),
        Dropout(0.3),
        dense(24, 24, nn.Tanh(), use_residual=True),
        dense(24, 12, nn.GELU(), use_residual=True),
        LayerNorm(12),
        Normalize(),
    ]
    nn.init.normal_(steps[4].norm.weight)
    folder = sentences("mean", steps)
    backbone = loading.load(str(folder))
    close(read(backbone), encoded(folder, TEXTS))
    assert backbone.trained is not None
    assert backbone.trained.plain == ""
    told = f"mean, Dense {width} → 24, Dense 24 → 24 (tanh), Dense 24 → 12 (gelu), LayerNorm"
    assert backbone.trained.says == f"{told}, length 1"


def test_a_dense_layer_without_an_activation_is_a_tanh_as_in_the_library(sentences, small):
    folder = sentences("mean", [dense(small.width, 8, nn.ReLU())])
    changed(folder / "2_Dense/config.json", lambda told: told.pop("activation_function"))
    close(read(loading.load(str(folder))), encoded(folder, TEXTS))


def changed(path: Path, change: Callable[[Any], object]) -> None:
    values = json.loads(path.read_text("utf-8"))
    change(values)
    path.write_text(json.dumps(values), "utf-8")


def test_flags_of_older_versions_and_names_of_all_are_understood(sentences, small):
    folder = sentences(["cls", "mean"])
    width = small.width
    old = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    old |= {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": False}
    for home in ("models", "sentence_transformer.modules.pooling"):
        (folder / "1_Pooling/config.json").write_text(json.dumps(old), "utf-8")
        listed(1, type=f"sentence_transformers.{home}.Pooling")(folder)
        assert sentence_modules(folder, width).modes == ("cls", "mean")


def test_lower_case_is_the_tokenizers_own_or_there_is_no_such_reading(sentences):
    folder = sentences()
    changed(folder / "sentence_bert_config.json", lambda told: told.update(do_lower_case=True))
    with refusing(RecipeError, "lower case", longest=600):
        read(loading.load(str(folder)))
    lower = {"type": "Lowercase"}
    changed(folder / "tokenizer.json", lambda told: told.update(normalizer=lower))
    texts = [text.upper() for text in TEXTS]
    found = read(loading.load(str(folder)), texts=texts)
    close(found, encoded(folder, texts))
    close(found, encoded(folder, TEXTS))


# --- Prompts: before the text, read with it or not, by name or as they stand.

PROMPTS = {"query": "the cat : ", "document": "it runs : "}


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        *[(mode, True) for mode in ("mean", "cls", "weightedmean", "lasttoken")],
        *[(mode, False) for mode in ("mean", "cls", "max", "lasttoken")],
    ],
)
def test_prompts_give_what_the_library_gives(sentences, mode, counts):
    folder = sentences(mode, prompts=PROMPTS, default_prompt_name="document", counts=counts)
    backbone = loading.load(str(folder))
    close(read(backbone), encoded(folder, TEXTS))
    close(
        read(backbone, "trained+linear?prefix=query"), encoded(folder, TEXTS, prompt_name="query")
    )
    literal = "trained+linear?prefix=the_dog_:_"
    close(read(backbone, literal), encoded(folder, TEXTS, prompt="the dog : "))
    bare = replaced_prompts(folder)
    close(read(loading.load(str(bare))), encoded(bare, TEXTS))
    plain = {"weightedmean": "weighted", "lasttoken": "last"}.get(mode, mode)
    own = f"{plain}+linear?prefix=query" + "&include_prefix=false" * (not counts)
    close(read(backbone, own), read(backbone, "trained+linear?prefix=query"))


def replaced_prompts(folder: Path) -> Path:
    bare = folder.with_name("bare")
    shutil.copytree(folder, bare)
    changed(
        bare / "config_sentence_transformers.json",
        lambda told: told.update(default_prompt_name=None),
    )
    return bare


def test_a_prompt_changes_what_is_read_and_only_where_it_is_asked_for(backbone):
    bare, asked = read(backbone, "mean+linear"), read(backbone, "mean+linear?prefix=query:_")
    assert (bare - asked).abs().amax(dim=1).min() > 1e-3
    close(asked, read(backbone, "mean+linear", [f"query: {text}" for text in TEXTS]))
    words = read(backbone, "mean_content+linear?prefix=query:_")
    assert (words - read(backbone, "mean_content+linear")).abs().max() > 1e-3


def test_heads_that_read_bare_texts_share_one_base_model(backbone):
    recipes = [resolve("mean+linear"), resolve("cls+roberta"), resolve("trained+linear")]
    assert all(backbone.for_recipe(recipe) is backbone for recipe in recipes)
    asked = backbone.for_recipe(resolve("mean+linear?prefix=query:_"))
    assert asked.for_recipe(recipes[0]).written == ()


def test_a_prompt_that_is_no_name_of_this_base_model_is_told(backbone):
    with refusing(RecipeError, "'query'", "prefix=query:_"):
        read(backbone, "mean+linear?prefix=query")


@pytest.mark.parametrize("text", ["query: ", "Is_it_so? ", "Instruct: a & b = 100 %\nQuery:", "é+"])
def test_any_prompt_can_stand_in_a_recipe(text):
    from heads.recipe import as_value

    resolved = resolve(f"mean+linear?prefix={as_value(text)}")
    assert resolved.prefix == text
    assert Recipe.parse(str(resolved)) == resolved.recipe


@pytest.mark.parametrize(
    "recipe", ["attention+linear?prefix=query:_", "mean+linear?include_prefix=false"]
)
def test_a_prefix_that_cannot_be_is_refused(recipe):
    with refusing(RecipeError, "prefix"):
        resolve(recipe)


# --- Folders that are broken, foreign or hostile: one sentence, and other readings go on.


DENSE, MODULES = "2_Dense/config.json", "modules.json"
PICKLE = "2_Dense/pytorch_model.bin"


def told(path: str, **values: object) -> Callable[[Path], None]:
    return lambda folder: changed(folder / path, lambda own: own.update(values))


def listed(number: int, **values: object) -> Callable[[Path], None]:
    return lambda folder: changed(folder / MODULES, lambda own: own[number].update(values))


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (lambda f: (f / MODULES).unlink(), MODULES),
    "own code": (listed(1, type="custom_st.Pooling"), "custom_st.Pooling"),
    "outside": (listed(2, path="../2_Dense"), "1_Pooling"),
    "foreign": (listed(2, type="sentence_transformers.models.LSTM"), "LSTM"),
    "pickled": (lambda f: (f / "2_Dense/model.safetensors").rename(f / PICKLE), "pickle"),
    "no pooling": (lambda f: (f / "1_Pooling/config.json").unlink(), "fetch it again"),
    "no JSON": (lambda f: (f / MODULES).write_text("[" * 9999), "JSON"),
    "no list": (lambda f: (f / MODULES).write_text("{}"), "lists no modules"),
    "sizes": (told(DENSE, in_features=7), "7 numbers"),
    "shapes": (told(DENSE, out_features=9), "linear.weight"),
    "activation": (told(DENSE, activation_function="os.system"), "'os.system'"),
    "mode": (told("1_Pooling/config.json", pooling_mode="sum"), "cls, max, mean"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_as_trained_is_told_in_a_sentence(sentences, small, fault):
    folder = sentences("mean", [dense(small.width, 8, nn.Tanh())])
    breaks, says = FAULTS[fault]
    breaks(folder)
    backbone = loading.load(str(folder))
    assert backbone.trained is None
    assert read(backbone, "mean+linear").shape == (3, small.width)
    with refusing(RecipeError, says, longest=600) as refused:
        read(backbone)
    assert str(folder.parent) not in str(refused.value).replace(backbone.id, "")


def test_it_is_no_part_of_the_head(sentences, small):
    backbone = loading.load(str(sentences("mean")))
    reader = Featurizer(resolve("trained+linear"), backbone)
    assert isinstance(backbone.trained, TrainedReading)
    assert not list(reader.parameters())
    assert not reader.state_dict()


def test_a_changed_module_is_another_revision(sentences, small):
    folder = sentences("mean", [dense(small.width, 8, nn.Tanh())])
    before = loading.load(str(folder)).revision
    changed(folder / "2_Dense/config.json", lambda told: told.pop("activation_function"))
    assert loading.load(str(folder)).revision != before
