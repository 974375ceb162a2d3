"""Our recipes give the very logits of every XForSequenceClassification of the installed version.

Each class is built small and at random; its head's tensors are copied into ours by their names
in the checkpoint, its base model's into the one that the app would load.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import slow
import torch
from torch import Tensor, nn
from transformers.models.auto import modeling_auto

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded
from heads.backbone.weights import bare
from heads.catalog import base_models, catalog
from heads.catalog.base_models import base_of
from heads.catalog.families import FAMILIES, FORMS, family
from heads.catalog.forms import Form, Side
from heads.catalog.tiny_models import NOT_BUILT, quiet, tiny_config, tiny_model
from heads.classifier.module import RecipeModule
from heads.classifier.native_head import names_of
from heads.errors import RecipeError
from heads.interpret.catalog_check import CLASSES, ROUNDING, compare_family, rebuilt, texts

LIVE = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
INEXPRESSIBLE = {"perceiver": "attention decoder of 21 tensors", "layoutlmv2": "page image"}
EXPRESSED = [name for name in LIVE if name not in INEXPRESSIBLE]
# EuroBERT's default averages logits: it divides the sum, and we add up what is divided.
AVERAGED = {"eurobert"}
COUNTS = {
    **{"F1": 63, "F2": 16, "F3": 16, "F4": 7, "F5": 8, "F6": 2, "F7": 1, "F8": 1, "F9": 1},
    **{"F10": 2, "F11": 2, "F12": 2, "F13": 1, "F14": 1, "F15": 2, "F16": 1, "F17": 1},
}
SEEN = 10 * ROUNDING  # MobileBERT's states are so large that its tanh is nearly flat
LENGTHS = (11, 5, 8, 7)  # CANINE and Funnel shorten a text, so that one of two tokens is nothing


@pytest.fixture
def fresh() -> Iterator[None]:
    """The catalogue is read anew from the mapping, before the test and after it."""
    for cached in (catalog.classes, catalog.catalogue):
        cached.cache_clear()
    yield
    for cached in (catalog.classes, catalog.catalogue):
        cached.cache_clear()


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A true class, and the base model and head of ours that hold its weights.

    Attributes:
        names: Our names of the head's tensors, and the true ones.
    """

    form: Form
    model: Any
    backbone: Backbone
    module: RecipeModule
    names: Mapping[str, str]

    def theirs(self, lengths: tuple[int, ...], side: Side = "right") -> Tensor:
        with torch.no_grad(), dice_aside():
            return self.model(**batch(texts(self.model.config, lengths), side)).logits

    def ours(self, lengths: tuple[int, ...], side: Side = "right") -> Tensor:
        encoded = texts(self.model.config, lengths)
        with torch.no_grad(), dice_aside():
            return self.module(self.backbone.states(encoded, side))


def batch(encoded: Sequence[Encoded], side: Side) -> dict[str, Tensor]:
    """The texts filled up with the token that `tiny` pads with."""
    width = max(map(len, encoded))
    ids = torch.full((len(encoded), width), 1)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(encoded):
        place = slice(len(text)) if side == "right" else slice(width - len(text), None)
        ids[row, place], mask[row, place] = torch.tensor(text.inputs["input_ids"]), 1
    return {"input_ids": ids, "attention_mask": mask}


@contextmanager
def dice_aside() -> Iterator[None]:
    """Reformer seeds torch for the whole process whenever it runs."""
    with quiet(), torch.random.fork_rng(devices=[]):
        yield


def paired(model_type: str, **settings: Any) -> Pair:
    form, model = family(model_type), tiny_model(model_type, **settings)
    with quiet():
        backbone, module = rebuilt(model, form)
    names = names_of(form, module.reader.resolved, module.head, model)
    return Pair(form=form, model=model, backbone=backbone, module=module, names=names)


def agree(pair: Pair, side: Side, *, exact: bool = True) -> None:
    """A text alone, and a batch of texts filled up on that side."""
    for lengths in (LENGTHS[:1], LENGTHS):
        ours, theirs = pair.ours(lengths, side), pair.theirs(lengths, side)
        difference = (ours - theirs).abs().max().item()
        assert ours.shape == theirs.shape == (len(lengths), CLASSES)
        assert theirs.std() > 0.005
        assert difference <= ROUNDING * max(1.0, theirs.abs().max().item())
        if exact:
            assert torch.equal(ours, theirs), f"max difference {difference}"


def shares_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config that hold a probability of dropout, and their defaults."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value.get("model_type"):
            found = {**shares_of(value), **found}
        elif ("drop" in key or key.endswith("_prob")) and not isinstance(value, bool | str | list):
            found[key] = value
    return {key: value for key, value in found.items() if "att" not in key}


def distinct(model_type: str, *, unset: bool = False) -> dict[str, Any]:
    """Another probability for each of those keys; with `unset`, not for those that are None."""
    keys = shares_of(catalog.default_config(model_type).to_dict())
    chosen = {key: round(0.1 + 0.03 * place, 2) for place, key in enumerate(keys)}
    return {key: share for key, share in chosen.items() if not (unset and keys[key] is None)}


def modules_of(model: Any) -> set[float]:
    """The probabilities of the dropouts of the true class outside its base model."""
    inner = f"{model.base_model_prefix}."
    modules = model.named_modules()
    return {m.p for name, m in modules if isinstance(m, nn.Dropout) and not name.startswith(inner)}


def in_chain(chain: nn.Module) -> set[float]:
    return {layer.p for layer in chain.modules() if isinstance(layer, nn.Dropout)} - {0.0}


# The catalogue


def unknown() -> list[str]:
    return [item.model_type for item in catalog.catalogue() if not item.form]


@pytest.mark.slow
def test_every_family_of_the_installed_version_is_known() -> None:
    assert unknown() == []
    assert [item.model_type for item in catalog.catalogue()] == list(LIVE)


def test_a_family_that_the_catalogue_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setitem(LIVE, "newbert", "NewBertForSequenceClassification")
    assert unknown() == ["newbert"]
    step = compare_family("newbert")
    assert (step.equal, step.max_difference) == (None, None)
    assert step.reason.startswith("The catalogue knows no family 'newbert'.")
    assert catalog.entry("newbert").as_json() == {
        "model_type": "newbert",
        "class": "NewBertForSequenceClassification",
        "form": None,
        "recipe": None,
        "reason": "The catalogue does not know this family yet.",
    }


def test_there_are_seventeen_forms() -> None:
    assert Counter(form.name for form in FAMILIES.values()) == COUNTS
    assert list(dict.fromkeys(form.name for form in FORMS)) == list(COUNTS)
    named = [name for form in FORMS for name in form.families]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(("model_type", "why"), INEXPRESSIBLE.items())
def test_what_no_recipe_expresses_is_named_with_the_reason(model_type: str, why: str) -> None:
    step, item = compare_family(model_type), catalog.entry(model_type)
    assert step.equal is None
    assert why in step.reason
    assert item.recipe is None
    assert item.reason
    assert why in item.reason


# The walk


@pytest.fixture(scope="module", params=slow.but_each(16, EXPRESSED))
def pair(request: pytest.FixtureRequest) -> Pair:
    """A family with another probability at each key of its config that holds one."""
    return paired(request.param, **distinct(request.param))


def test_a_family_has_the_logits_of_its_class(pair: Pair) -> None:
    """On the sides of padding on which the class is defined."""
    assert pair.form.sides
    for side in pair.form.sides:
        agree(pair, side, exact=pair.backbone.model_type not in AVERAGED)


def test_dropout_is_that_of_the_class(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same probabilities, at the same places: with the same masks, the same logits."""
    assert in_chain(pair.module.head) == modules_of(pair.model) - {0.0}
    before = pair.ours(LENGTHS, pair.form.sides[0])
    made: list[float] = []

    def dropped(given: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0:
            return given
        made.append(p)
        rng = torch.Generator().manual_seed(len(made))
        return given * (torch.rand(given.shape, generator=rng) >= p) / (1 - p)

    monkeypatch.setattr(nn.functional, "dropout", dropped)
    pair.model.train().base_model.eval()
    pair.module.head.train()
    try:
        ours, at_ours = pair.ours(LENGTHS, pair.form.sides[0]), made.copy()
        made.clear()
        theirs = pair.theirs(LENGTHS, pair.form.sides[0])
    finally:
        pair.model.eval()
        pair.module.eval()
    assert at_ours == made
    assert (ours - theirs).abs().max() <= ROUNDING * max(1.0, theirs.abs().max().item())
    assert bool(made) != torch.equal(ours, before)


def test_every_tensor_of_the_head_is_ours_and_changes_the_logits(pair: Pair) -> None:
    """So that equal logits mean something: none of them can change unnoticed."""
    theirs, own = pair.model.state_dict(), pair.module.head.state_dict()
    inner = f"{pair.model.base_model_prefix}."
    assert {name for name in theirs if not name.startswith(inner)} <= set(pair.names.values())
    assert len(set(pair.names.values())) == len(pair.names) == len(own)
    told = catalog.entry(pair.backbone.model_type).tensors
    assert sorted(told) == sorted(pair.names.values())
    side = pair.form.sides[0]
    for ours, name in pair.names.items():
        before = pair.ours(LENGTHS[:1], side)
        change = torch.linspace(-0.3, 0.3, own[ours].numel()).reshape(own[ours].shape)
        own[ours].add_(change)
        after = pair.ours(LENGTHS[:1], side)
        assert (after - before).abs().max() > SEEN
        assert (after - pair.theirs(LENGTHS[:1], side)).abs().max() > SEEN
        theirs[name].add_(change)
        assert (after - pair.theirs(LENGTHS[:1], side)).abs().max() <= 2 * ROUNDING


@pytest.mark.slow
def test_the_whole_walk_finds_every_family_equal() -> None:
    """As `heads families --check` does it, in one go."""
    with quiet():
        steps = list(map(compare_family, catalog.classes()))
    assert [step.model_type for step in steps] == list(LIVE)
    assert {step.model_type for step in steps if not step.equal} == set(INEXPRESSIBLE)
    assert {step.model_type for step in steps if step.equal and not step.exact} == AVERAGED
    assert all(step.reason for step in steps if step.equal is None)
    assert not any(step.reason for step in steps if step.equal)


def test_the_walk_finds_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong recipe, and a wrong name of a tensor."""
    monkeypatch.setitem(FAMILIES, "bert", family("distilbert"))
    step = compare_family("bert")
    assert (step.equal, step.exact) == (None, False)
    assert step.reason.startswith("The head lacks its tensor pre_classifier.weight.")
    monkeypatch.setitem(FAMILIES, "roberta", family("electra"))  # the same tensors
    step = compare_family("roberta")
    assert (step.equal, step.exact) == (False, False)
    assert step.max_difference is not None
    assert step.max_difference > 0.001


def test_what_transformers_cannot_build_is_said() -> None:
    assert set(NOT_BUILT) <= set(INEXPRESSIBLE)
    step = compare_family("bert", hidden_size=33)
    assert step.equal is None
    assert step.reason.startswith("'bert' cannot be built small (")


# What a config chooses


def variant(model_type: str, recipe: str, *sides: Side, exact: bool = True, **settings: Any) -> Any:
    """A family under a config that chooses another head, and the recipe of that head."""
    name = "-".join(map(str, (model_type, *settings.values())))
    return pytest.param(model_type, settings, recipe, sides or ("right",), exact, id=name)


BOTH: tuple[Side, ...] = ("right", "left")
LIKE_MODERNBERT = [
    parameter
    for name in ("modernbert", "modernvbert")
    for parameter in (
        variant(name, "cls+modernbert", classifier_pooling="cls"),
        variant(name, "mean+modernbert", *BOTH, exact=False, classifier_pooling="mean"),
        variant(name, "cls+modernbert?bias=true", classifier_bias=True),
        variant(name, "cls+modernbert?norm_bias=true", norm_bias=True),
        variant(name, "cls+modernbert?activation=silu", classifier_activation="silu"),
        variant(name, "cls+modernbert?eps=0.1", norm_eps=0.1),
    )
]
ANOTHER_ACTIVATION = [
    variant(name, f"cls+electra?activation={activation}", hidden_act=activation)
    for name in ("big_bird", "convbert", "mra", "nystromformer", "roformer", "yoso")
    for activation in ("relu", "silu")
]
VARIANTS = [
    *LIKE_MODERNBERT,
    variant("modernbert", "mean+modernbert", classifier_pooling="mean", exact=False),
    variant(
        "modernbert-decoder", "last+modernbert?bias=true", *BOTH, classifier_bias=True
    ),  # which its last layer heeds as well
    variant("modernbert-decoder", "last+modernbert?norm_bias=true&out_bias=false", norm_bias=True),
    variant(
        "modernbert-decoder",
        "last+modernbert?activation=relu&out_bias=false",
        classifier_activation="relu",
    ),
    variant("eurobert", "cls+eurobert", classifier_pooling="bos"),
    variant("eurobert", "mean+eurobert", *BOTH, classifier_pooling="mean", exact=False),
    variant("eurobert", "mean+eurobert?late=true", *BOTH, classifier_pooling="late", exact=False),
    variant("cohere_compass_text", "last+gpt2", *BOTH, pooling="eos"),
    variant("cohere_compass_text", "cls+gpt2", pooling="bos"),
    variant("cohere_compass_text", "mean+gpt2", *BOTH, pooling="mean", exact=False),
    variant("ultrabert", "cls+linear?dropout=0.0", classifier_pooling="cls"),
    variant("ultrabert", "mean+linear?dropout=0.0", *BOTH, classifier_pooling="mean", exact=False),
    variant("ultravbert", "mean+linear?dropout=0.0", classifier_pooling="mean", exact=False),
    variant("mobilebert", "cls+bert?dropout=0.0", classifier_activation=True),
    variant("mobilebert", "cls+linear?dropout=0.0", classifier_activation=False),
    variant("xlnet", "last+xlnet", "left", summary_type="last"),
    variant("xlnet", "cls+xlnet", summary_type="first"),
    variant("xlnet", "last+xlnet?activation=relu", "left", summary_activation="relu"),
    variant("xlnet", "last+xlnet?first_dropout=0.3", "left", summary_first_dropout=0.3),
    variant("xlnet", "last+xlnet?dropout=0.4", "left", summary_last_dropout=0.4),
    variant("xlm", "last+linear", "left", summary_type="last"),
    variant("flaubert", "last+linear", "left", summary_type="last"),
    variant("xlm", "cls+linear?dropout=0.3", summary_first_dropout=0.3),
    *ANOTHER_ACTIVATION,
    variant("electra", "cls+electra", hidden_act="relu"),  # its head does not heed it
    variant("electra", "cls+electra", embedding_size=16),
    variant("deberta", "cls+deberta?pooler_dropout=0.2", pooler_dropout=0.2),
    variant("deberta", "cls+deberta?dropout=0.3", cls_dropout=0.3),
    variant("deberta-v2", "cls+deberta?activation=relu", pooler_hidden_act="relu"),
    variant("albert", "cls+bert?dropout=0.3", classifier_dropout_prob=0.3),
    variant("rembert", "cls+bert?dropout=0.3", classifier_dropout_prob=0.3),
    variant("reformer", "cls+roberta?dropout=0.05&hidden=32", num_buckets=2),
    variant("opt", "last+gpt2", *BOTH, word_embed_proj_dim=16),
    variant("opt", "last+gpt2", *BOTH, word_embed_proj_dim=32),
    variant("funnel", "cls+xlnet", block_sizes=[1, 1]),
    variant("luke", "cls+bert?dropout=0.2", classifier_dropout=0.2),
    variant("bert", "cls+bert", problem_type="multi_label_classification"),
]


@pytest.mark.parametrize(
    ("model_type", "settings", "recipe", "sides", "exact"), slow.but_each(4, VARIANTS)
)
def test_a_config_chooses_the_recipe(
    model_type: str, settings: dict[str, Any], recipe: str, sides: tuple[Side, ...], exact: bool
) -> None:
    pair = paired(model_type, **settings)
    assert str(pair.form.recipe_for(pair.model.config)) == recipe
    assert in_chain(pair.module.head) == modules_of(pair.model) - {0.0}
    for side in sides:
        agree(pair, side, exact=exact)


@pytest.mark.parametrize(
    ("model_type", "setting", "value"),
    [
        ("xlnet", "summary_type", "mean"), ("xlnet", "summary_type", "cls_index"),
        ("xlnet", "summary_use_proj", False), ("xlm", "summary_type", "mean"),
        ("xlm", "summary_activation", "tanh"), ("xlm", "summary_use_proj", False),
        ("flaubert", "summary_proj_to_labels", False), ("t5gemma", "is_encoder_decoder", False),
        ("eurobert", "classifier_pooling", "max"),
    ],
)  # fmt: skip
def test_a_config_that_no_recipe_expresses_is_refused_with_the_reason(
    model_type: str, setting: str, value: Any
) -> None:
    with pytest.raises(RecipeError) as refused:
        family(model_type).recipe_for(tiny_config(model_type, **{setting: value}))
    assert f"{setting} = {value}" in str(refused.value)  # it names what it stumbles over
    assert refused.value.hint.endswith((".", "?"))


@pytest.mark.slow
def test_a_dropout_that_is_not_set_is_the_usual_one() -> None:
    """As where `classifier_dropout` is None, and `hidden_dropout_prob` counts."""
    unset = [name for name in EXPRESSED if distinct(name) != distinct(name, unset=True)]
    assert {"bert", "roberta", "electra", "lilt", "xmod"} <= set(unset)
    for name in unset:
        model = tiny_model(name, **distinct(name, unset=True))
        head = family(name).recipe_for(model.config).sketch(8, 2)
        assert in_chain(head) == modules_of(model) - {0.0}, name


# The base models that are not the ones that AutoModel gives


def test_five_families_run_on_another_base_model() -> None:
    assert set(base_models.BASES) == {"longformer", "funnel", "gte", "nomic_bert", "reformer"}
    assert all(base_of(name).why.endswith(".") for name in base_models.BASES)
    assert base_of("bert") == base_models.BaseModelNeeds()


def test_without_its_global_attention_longformer_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_family("longformer").exact
    monkeypatch.delitem(base_models.BASES, "longformer")
    assert compare_family("longformer").equal is False


def test_without_its_base_model_funnel_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_family("funnel").exact
    monkeypatch.delitem(base_models.BASES, "funnel")
    model = tiny_model("funnel")
    model.config.architectures = [type(model).__name__]  # as its checkpoint says
    assert type(bare(model.config)).__name__ == "FunnelModel"
    with quiet():
        backbone, module = rebuilt(model, family("funnel"))
    ours = Pair(form=family("funnel"), model=model, backbone=backbone, module=module, names={})
    assert (ours.ours(LENGTHS) - ours.theirs(LENGTHS)).abs().max() > 0.001


@pytest.mark.parametrize("model_type", ["gte", "nomic_bert"])
def test_without_its_argument_the_pooler_is_missing(
    model_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(model_type)
    pooler = model.base_model.state_dict()["pooler.dense.weight"]
    backbone, _ = rebuilt(model, family(model_type))
    assert torch.equal(backbone.pooler_weights["pooler.dense.weight"], pooler)
    monkeypatch.delitem(base_models.BASES, model_type)
    without, _ = rebuilt(model, family(model_type))
    assert (without.pooler, without.pooler_weights) == ("none", {})


def test_reformer_answers_the_same_each_time_whatever_was_rolled_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answers() -> list[Tensor]:
        model = tiny_model("reformer", hash_seed=None)
        backbone, _ = rebuilt(model, family("reformer"))
        encoded, found = texts(model.config, (40,)), []
        for seed in range(4):
            with quiet(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                found.append(backbone.states(encoded).hidden[-1])
        return found

    first, *others = answers()
    assert all(torch.equal(first, other) for other in others)
    monkeypatch.delitem(base_models.BASES, "reformer")
    first, *others = answers()
    assert not all(torch.equal(first, other) for other in others)


def test_a_seed_that_reformers_config_has_is_kept() -> None:
    pair = paired("reformer", hash_seed=5)
    assert pair.model.config.hash_seed == 5
    assert (pair.ours((60,)) - pair.theirs((60,))).abs().max() <= ROUNDING
