"""How a base model was trained to be read: held against the library that wrote its folder."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
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
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    def write(mode: object = "mean", steps: Sequence[nn.Module] = (), **facts: object) -> Path:
        base = Transformer(str(tiny()))
        pooling = Pooling(base.get_embedding_dimension(), mode, facts.pop("counts", True))  # type: ignore[arg-type]
        torch.manual_seed(0)
        model = SentenceTransformer(modules=[base, pooling, *steps], device="cpu", **facts)  # type: ignore[arg-type]
        model.save(str(tmp_path / "sentences"), create_model_card=False)
        return tmp_path / "sentences"

    return write


def encoded(folder: Path, texts: Sequence[str] = TEXTS, **asked: str) -> Tensor:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False, **asked)


def read(
    backbone: Backbone, recipe: str = "trained+linear", texts: Sequence[str] = TEXTS
) -> Tensor:
    resolved = resolve(recipe)
    reader, own = Featurizer(resolved, backbone), backbone.for_recipe(resolved)
    vectors = torch.zeros(len(texts), reader.width)
    for rows, states in own.passes(own.encode(list(texts))):
        vectors[rows] = reader(states).vectors
    return vectors


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_bundled_model_was_trained_with_the_average_at_length_1(backbone: Backbone) -> None:
    assert backbone.trained is not None
    assert (backbone.trained.plain, backbone.trained.says) == ("mean", "mean, length 1")
    found = read(backbone)
    close(found, encoded(Path(str(backbone.folder))))
    close(found, read(backbone, "mean+linear?normalise=true"))


@pytest.mark.parametrize(
    "mode",
    [
        *("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
        ["mean", "max", "cls"],
    ],
    ids=str,
)
def test_every_pooling_gives_what_the_library_gives(
    sentences: Callable[..., Path], mode: object
) -> None:
    folder = sentences(mode)
    close(read(loading.load(str(folder))), encoded(folder))


def dense(taken: int, given: int, activation: nn.Module, **facts: bool) -> nn.Module:
    from sentence_transformers.models import Dense

    return Dense(taken, given, activation_function=activation, **facts)


def test_every_module_gives_what_the_library_gives(
    sentences: Callable[..., Path], small: Backbone
) -> None:
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
    close(read(backbone), encoded(folder))
    assert backbone.trained is not None
    assert backbone.trained.plain == ""
    told = f"mean, Dense {width} → 24, Dense 24 → 24 (tanh), Dense 24 → 12 (gelu), LayerNorm"
    assert backbone.trained.says == f"{told}, length 1"


def test_a_dense_layer_without_an_activation_is_a_tanh_as_in_the_library(
    sentences: Callable[..., Path], small: Backbone
) -> None:
    folder = sentences("mean", [dense(small.width, 8, nn.ReLU())])
    changed(folder / "2_Dense/config.json", lambda told: told.pop("activation_function"))
    close(read(loading.load(str(folder))), encoded(folder))


def changed(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    values = json.loads(path.read_text("utf-8"))
    change(values)
    path.write_text(json.dumps(values), "utf-8")


def test_flags_of_older_versions_and_names_of_all_are_understood(
    sentences: Callable[..., Path], small: Backbone
) -> None:
    folder = sentences(["cls", "mean"])
    width = small.width
    old = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    old |= {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": False}
    for home in ("models", "sentence_transformer.modules.pooling"):
        (folder / "1_Pooling/config.json").write_text(json.dumps(old), "utf-8")
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        modules[1]["type"] = f"sentence_transformers.{home}.Pooling"
        (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
        assert sentence_modules(folder, width).modes == ("cls", "mean")


def test_lower_case_is_the_tokenizers_own_or_there_is_no_such_reading(
    sentences: Callable[..., Path],
) -> None:
    folder = sentences()
    changed(folder / "sentence_bert_config.json", lambda told: told.update(do_lower_case=True))
    with pytest.raises(RecipeError, match="asks for lower case, and its tokenizer keeps capitals"):
        read(loading.load(str(folder)))
    lower = {"type": "Lowercase"}
    changed(folder / "tokenizer.json", lambda told: told.update(normalizer=lower))
    texts = [text.upper() for text in TEXTS]
    found = read(loading.load(str(folder)), texts=texts)
    close(found, encoded(folder, texts))
    close(found, encoded(folder))


# --- Prompts: before the text, read with it or not, by name or as they stand.

PROMPTS = {"query": "the cat : ", "document": "it runs : "}


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        *[(mode, True) for mode in ("mean", "cls", "weightedmean", "lasttoken")],
        *[(mode, False) for mode in ("mean", "cls", "max", "lasttoken")],
    ],
)
def test_prompts_give_what_the_library_gives(
    sentences: Callable[..., Path], mode: str, counts: bool
) -> None:
    folder = sentences(mode, prompts=PROMPTS, default_prompt_name="document", counts=counts)
    backbone = loading.load(str(folder))
    close(read(backbone), encoded(folder))
    close(read(backbone, "trained+linear?prefix=query"), encoded(folder, prompt_name="query"))
    literal = "trained+linear?prefix=the_dog_:_"
    close(read(backbone, literal), encoded(folder, prompt="the dog : "))
    bare = replaced_prompts(folder)
    close(read(loading.load(str(bare))), encoded(bare))
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


def test_a_prompt_changes_what_is_read_and_only_where_it_is_asked_for(backbone: Backbone) -> None:
    bare, asked = read(backbone, "mean+linear"), read(backbone, "mean+linear?prefix=query:_")
    assert (bare - asked).abs().amax(dim=1).min() > 1e-3
    close(asked, read(backbone, "mean+linear", [f"query: {text}" for text in TEXTS]))
    words = read(backbone, "mean_content+linear?prefix=query:_")
    assert (words - read(backbone, "mean_content+linear")).abs().max() > 1e-3


def test_heads_that_read_bare_texts_share_one_base_model(backbone: Backbone) -> None:
    recipes = [resolve("mean+linear"), resolve("cls+roberta"), resolve("trained+linear")]
    assert all(backbone.for_recipe(recipe) is backbone for recipe in recipes)
    asked = backbone.for_recipe(resolve("mean+linear?prefix=query:_"))
    assert asked.for_recipe(recipes[0]).written == ()


def test_a_prompt_that_is_no_name_of_this_base_model_is_told(backbone: Backbone) -> None:
    with pytest.raises(RecipeError, match=r"has no prompt called 'query' .* prefix=query:_"):
        read(backbone, "mean+linear?prefix=query")


@pytest.mark.parametrize("text", ["query: ", "Is_it_so? ", "Instruct: a & b = 100 %\nQuery:", "é+"])
def test_any_prompt_can_stand_in_a_recipe(text: str) -> None:
    from heads.recipe import as_value

    resolved = resolve(f"mean+linear?prefix={as_value(text)}")
    assert resolved.prefix == text
    assert Recipe.parse(str(resolved)) == resolved.recipe


@pytest.mark.parametrize(
    "recipe", ["attention+linear?prefix=query:_", "mean+linear?include_prefix=false"]
)
def test_a_prefix_that_cannot_be_is_refused(recipe: str) -> None:
    with pytest.raises(RecipeError, match="prefix"):
        resolve(recipe)


# --- Folders that are broken, foreign or hostile: one sentence, and other readings go on.


def no_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()


def of_its_own(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[1]["type"] = "custom_st.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


def elsewhere(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[2]["path"] = "../2_Dense"
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


def foreign(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[2]["type"] = "sentence_transformers.models.LSTM"
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


def pickled(folder: Path) -> None:
    (folder / "2_Dense/model.safetensors").rename(folder / "2_Dense/pytorch_model.bin")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (no_modules, "has no modules.json"),
    "own code": (of_its_own, "custom_st.Pooling is code of its own, which is never run"),
    "outside": (elsewhere, "lies in no folder such as 1_Pooling"),
    "foreign": (foreign, "its module LSTM is not known here"),
    "pickled": (pickled, "are pickled, and pickles are never opened"),
    "no pooling": (lambda f: (f / "1_Pooling/config.json").unlink(), "fetch it again"),
    "no JSON": (lambda f: (f / "modules.json").write_text("[" * 9999), "cannot be read as JSON"),
    "no list": (lambda f: (f / "modules.json").write_text("{}"), "lists no modules"),
    "sizes": (
        lambda f: changed(f / "2_Dense/config.json", lambda told: told.update(in_features=7)),
        "takes 7 numbers and gives 8, of ",
    ),
    "shapes": (
        lambda f: changed(f / "2_Dense/config.json", lambda told: told.update(out_features=9)),
        "linear.weight of its 2_Dense has another shape",
    ),
    "activation": (
        lambda f: changed(
            f / "2_Dense/config.json", lambda told: told.update(activation_function="os.system")
        ),
        "the activation 'os.system' of its 2_Dense is not known here",
    ),
    "mode": (
        lambda f: changed(f / "1_Pooling/config.json", lambda t: t.update(pooling_mode="sum")),
        "its pooling 'sum' is none of cls, max, mean",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_as_trained_is_told_in_a_sentence(
    sentences: Callable[..., Path], small: Backbone, fault: str
) -> None:
    folder = sentences("mean", [dense(small.width, 8, nn.Tanh())])
    breaks, says = FAULTS[fault]
    breaks(folder)
    backbone = loading.load(str(folder))
    assert backbone.trained is None
    assert read(backbone, "mean+linear").shape == (3, small.width)
    with pytest.raises(RecipeError, match="Take another pooling") as told:
        read(backbone)
    assert says in str(told.value)
    assert str(folder.parent) not in str(told.value).replace(backbone.id, "")


def test_it_is_no_part_of_the_head(sentences: Callable[..., Path], small: Backbone) -> None:
    backbone = loading.load(str(sentences("mean")))
    reader = Featurizer(resolve("trained+linear"), backbone)
    assert isinstance(backbone.trained, TrainedReading)
    assert not list(reader.parameters())
    assert not reader.state_dict()


def test_a_changed_module_is_another_revision(
    sentences: Callable[..., Path], small: Backbone
) -> None:
    folder = sentences("mean", [dense(small.width, 8, nn.Tanh())])
    before = loading.load(str(folder)).revision
    changed(folder / "2_Dense/config.json", lambda told: told.pop("activation_function"))
    assert loading.load(str(folder)).revision != before
