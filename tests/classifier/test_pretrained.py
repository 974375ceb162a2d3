"""Any fine-tuned XForSequenceClassification comes in with its own head, or a sentence says why not.

Every checkpoint here is written to disk by Transformers' own save_pretrained, with a tokenizer.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from expected_errors import refusing
from quick_heads import trained
from safetensors.torch import load_file, save_file
from tiny_models import (
    TINY_VOCABULARY,
    rewrite,
    small_tokenizer,
    write_classifier,
)
from torch import Tensor

import heads
from heads.api import explain, load
from heads.backbone.loading import load as load_backbone
from heads.catalog.families import family
from heads.catalog.tiny_models import quiet, tiny_model
from heads.classifier import native_head
from heads.classifier.module import RecipeModule
from heads.errors import CheckpointError, HeadsError, ModelError, RecipeError
from heads.interpret.explanation import Explanation, TensorFact
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, SINGLE_OUTPUT
from heads.settings import ExperimentConfig

Tensors = dict[str, Tensor]
Change = Callable[[Tensors], Any]
Folders = Callable[..., Path]

# None of four tokens: Funnel's class fails where it shortens one to a single state.
TEXTS = (
    "the cat sat on a mat.",
    "a dog ran",
    "late flight cancelled twice and it was late",
    "home [SEP] x",
)
ROUNDING = 1e-6  # of the largest logit


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Folders:
    """Folders of tiny classifiers, each written once; never to be changed."""

    @cache
    def folder(model_type: str, settings: str) -> Path:
        place = tmp_path_factory.mktemp("imported") / model_type
        return write_classifier(place, model_type, **json.loads(settings))

    return lambda model_type="bert", **settings: folder(model_type, json.dumps(settings))


@pytest.fixture
def changed(tmp_path: Path) -> Folders:
    """The folder of a tiny classifier with other tensors and other values in its config."""

    def folder(model_type: str = "bert", change: Change | None = None, /, **config: Any) -> Path:
        place = write_classifier(tmp_path / model_type, model_type)
        if change:
            tensors = load_file(place / "model.safetensors")
            change(tensors)
            save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
        rewrite(place / "config.json", **config)
        return place

    return folder


def theirs(folder: Path, texts: tuple[str, ...], pairs: tuple[str, ...] = ()) -> Tensor:
    """The logits of each text alone by Transformers' own class and tokenizer."""
    with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
        questions = zip(texts, pairs, strict=True) if pairs else ((text,) for text in texts)
        encoded = [tokenizer(*question, return_tensors="pt") for question in questions]
        return torch.cat([model(**one).logits for one in encoded])


def report_of(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Transformers' own class, and its own report of what it found in the checkpoint."""
    with quiet():
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True
        )


def assert_same(ours: Tensor, true: Tensor) -> None:
    assert ours.shape == true.shape
    assert true.isfinite().all()
    assert (ours - true).abs().max() <= ROUNDING * max(1.0, true.abs().max().item())


def own(folder: Path) -> Explanation:
    return explain("own", model=str(folder))


def tensors_of(found: Explanation) -> dict[str, TensorFact]:
    return {fact.name: fact for step in found.steps for fact in step.tensors}


def origins(found: Explanation) -> dict[str, str]:
    return {name: fact.origin for name, fact in tensors_of(found).items()}


# The same logits


def test_weights_in_several_files_come_in(written, tmp_path):
    whole, folder = written("roberta"), tmp_path / "sharded"
    with quiet():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(whole)
        model.save_pretrained(folder, max_shard_size="20KB")
    small_tokenizer("around").save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 3
    found = load(str(folder))
    assert torch.equal(found.logits(TEXTS), load(str(whole)).logits(TEXTS))
    assert tensors_of(own(folder)).keys() == tensors_of(own(whole)).keys()
    assert all(fact.source == name for name, fact in tensors_of(own(folder)).items())


@pytest.mark.parametrize(
    ("model_type", "settings", "recipe"),
    [
        ("modernbert", {"classifier_pooling": "mean"}, "mean+modernbert"),
        ("modernbert", {"classifier_bias": True, "norm_bias": True}, None),
        ("modernbert", {"classifier_activation": "silu"}, "cls+modernbert?activation=silu"),
        ("eurobert", {"classifier_pooling": "bos"}, "cls+eurobert"),
        ("eurobert", {"classifier_pooling": "mean"}, "mean+eurobert"),
        ("xlm", {"summary_type": "last"}, "last+linear"),
        ("xlnet", {"summary_type": "first"}, "cls+xlnet"),
        ("llama", {"pad_token_id": None}, "last+gpt2"),
        ("gpt2", {"pad_token_id": 3, "eos_token_id": 3}, "last+gpt2"),
        ("bart", {"decoder_start_token_id": 5}, None),
        ("reformer", {"hash_seed": 5}, None),
        *(
            (name, {"labels": n}, None)
            for name in ("bart", "gpt2", "bert", "xlnet")
            for n in (1, 5)
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_config_chooses_what_comes_in(written, model_type, settings, recipe):
    folder = written(model_type, **settings)
    found = load(str(folder))
    assert recipe in (None, str(found.recipe))
    assert found.classes == tuple(f"LABEL_{n}" for n in range(settings.get("labels", 3)))
    texts = TEXTS if model_type != "reformer" else (" ".join(TEXTS[2:3] * 3),)
    assert_same(found.logits(texts), theirs(folder, texts))


def test_weights_of_half_precision_come_in(tmp_path):
    folder = tmp_path / "half"
    model: Any = tiny_model("roberta", vocab_size=TINY_VOCABULARY, pad_token_id=0)
    model.to(torch.bfloat16).save_pretrained(folder)
    small_tokenizer("around").save_pretrained(folder)
    assert_same(load(str(folder)).logits(TEXTS), theirs(folder, TEXTS))
    assert {fact.origin for fact in tensors_of(own(folder)).values()} == {"pretrained"}


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_where_padding_is_the_end_token_the_class_reads_the_token_before(written, model_type):
    folder = written(model_type, template="after", pad_token_id=3, eos_token_id=3)
    found = load(str(folder))
    assert_same(found.logits(TEXTS[:1]), theirs(folder, TEXTS[:1]))


# Labels and kinds of answer


IMAGE = "<img src=x onerror=alert(1)>"  # which stays text


def test_labels_are_those_of_the_config(changed):
    folder = changed(id2label={"0": "bad", "1": IMAGE, "2": "good"})
    found = load(str(folder))
    assert (found.classes, found.head.problem) == (("bad", IMAGE, "good"), SINGLE_LABEL)
    assert (found.head.rows, found.head.scores, found.head.training) == (0, None, None)
    assert found.head.is_own
    best = theirs(folder, TEXTS).argmax(dim=1).tolist()
    assert found.predict(TEXTS) == [found.classes[number] for number in best]


GIVEN = {"LABEL_0": 0.2, "LABEL_1": 0.5, "LABEL_2": 0.9}


@pytest.mark.parametrize("marks", [{}, {"thresholds": GIVEN}], ids=["half", "own"])
def test_several_labels_are_sigmoids_above_the_thresholds_of_the_config(changed, marks):
    folder = changed(problem_type="multi_label_classification", **marks)
    found = load(str(folder))
    assert found.head.problem is MULTI_LABEL
    shares = theirs(folder, TEXTS).sigmoid()
    assert_same(found.probabilities(TEXTS), shares)
    found_shares = torch.tensor(found.head.thresholds).sigmoid().tolist()
    assert found_shares == pytest.approx([*GIVEN.values()] if marks else [])
    above = shares > torch.tensor([*GIVEN.values()] if marks else [0.5] * 3)
    assert found.predict(TEXTS) == [tuple(compress(GIVEN, row)) for row in above.tolist()]


@pytest.mark.parametrize(
    "marks",
    [
        {"thresholds": 0.5},
        {"thresholds": [0.5, 0.5, 0.5]},
        {"thresholds": {"LABEL_0": 0.5}},
        {"thresholds": GIVEN | {"LABEL_1": 1.5}},
        {"thresholds": GIVEN | {"LABEL_1": "0.5"}},
        {"thresholds": GIVEN | {"LABEL_1": 0.0}},
        {"head_to_head": "ovr"},
        {"head_to_head": {"loss": ["ovr"], "temperature": -1.0}},
        {"head_to_head": {"temperature": float("nan")}},
        {"head_to_head": {"temperature": "1.5"}},
        # A softmax has no thresholds and no vote.
        {"problem_type": SINGLE_LABEL.name, "thresholds": GIVEN, "head_to_head": {"loss": "ovr"}},
        # The numbers of a regression are no probabilities of classes.
        {"problem_type": REGRESSION.name, "thresholds": GIVEN},
    ],
    ids=str,
)
def test_what_a_foreign_config_calls_alike_is_passed_over(changed, marks):
    marks = {"problem_type": MULTI_LABEL.name} | marks
    folder = changed(**marks)
    found = load(str(folder))
    assert (found.head.problem.name, found.head.thresholds) == (marks["problem_type"], ())
    assert found.head.temperature == 1
    if found.head.problem is REGRESSION:
        assert_same(found.probabilities(TEXTS), theirs(folder, TEXTS))


@pytest.mark.parametrize("problem", [None, "regression"])
def test_one_number_is_what_transformers_makes_of_it(written, tmp_path, problem):
    """Its pipeline puts a sigmoid on one output, and leaves a regression's as it is."""
    from transformers import pipeline

    folder = write_classifier(tmp_path / "reward", "llama", labels=1)
    rewrite(folder / "config.json", problem_type=problem)
    found = load(str(folder))
    many = problem is None
    expected = SINGLE_OUTPUT if many else REGRESSION
    assert (found.classes, found.head.problem) == (("LABEL_0",), expected)
    true = theirs(folder, TEXTS)
    assert_same(found.logits(TEXTS), true)
    with quiet():
        classify = pipeline("text-classification", str(folder))
        said = [classify(text)[0]["score"] for text in TEXTS[:3]]  # without special tokens
    assert_same(found.probabilities(TEXTS[:3])[:, 0], torch.tensor(said))
    if many:
        sure = [value > 0 for value in true[:, 0]]
        assert [bool(answer) for answer in found.predict(TEXTS)] == sure


# What is wrong with a checkpoint


def without(*names: str) -> Change:
    return lambda tensors: [tensors.pop(name) for name in names]


def with_(name: str, make: Callable[[Tensor], Tensor]) -> Change:
    return lambda tensors: tensors.update({name: make(tensors[name])})


DENSE, OUT = "classifier.dense", "classifier.out_proj"
BOTH = ("classifier.weight", "classifier.bias")


@pytest.mark.parametrize(
    ("model_type", "change", "names"),
    [
        *(("bert", without(*names), names) for names in (BOTH[:1], BOTH)),
        ("bert", without("bert.pooler.dense.bias"), ["bert.pooler.dense.bias"]),
        (
            "roberta",
            without(*(f"{one}.{own}" for one in (DENSE, OUT) for own in ("weight", "bias"))),
            [f"{DENSE}.weight", f"{DENSE}.bias", f"{OUT}.weight", "1 more"],
        ),
        ("gpt2", without("score.weight"), ["score.weight"]),
        *(("bert", with_(name, lambda t: t * math.nan), [name]) for name in BOTH),
        ("bert", with_(BOTH[1], lambda t: t + math.inf), BOTH[1:]),
        *(
            (name, with_(tensor, lambda t: t * math.nan), [tensor])
            for name, tensor in (
                ("bert", "bert.pooler.dense.weight"),
                ("roberta", f"{DENSE}.weight"),
            )
        ),
    ],
)
def test_wrong_or_missing_tensors_are_named(changed, model_type, change, names):
    with refusing(CheckpointError, *names):
        load(str(changed(model_type, change)))


def test_a_last_layer_of_another_size_is_refused_and_not_said_to_be_missing(changed):
    folder = changed("bert", with_("classifier.weight", lambda t: t[:2].clone()))
    with refusing(CheckpointError, "classifier.weight") as refused:
        load(str(folder))
    assert "lacks" not in str(refused.value)
    assert origins(own(folder))["classifier.weight"] == "mismatched"
    with refusing(CheckpointError, "classifier.out_proj.weight"):  # two classes, tensors of three
        load(str(changed("roberta", id2label={"0": "a", "1": "b"})))


def test_more_tensors_than_the_class_has_are_left_as_the_class_leaves_them(changed):
    folder = changed("bert", lambda tensors: tensors.update({"classifier.more": torch.ones(3)}))
    assert_same(load(str(folder)).logits(TEXTS), theirs(folder, TEXTS))


@pytest.mark.parametrize(
    ("family_", "kind", "lacks"),
    [
        *(("gpt2", kind, ["score.weight"]) for kind in ("Model", "LMHeadModel")),
        ("bert", "Model", BOTH),
        ("bert", "ForQuestionAnswering", ["bert.pooler.dense.weight", "bert.pooler.dense.bias"]),
        ("t5", "ForConditionalGeneration", ["classification_head.dense.weight"]),
    ],
)
def test_a_model_that_is_no_classifier_has_no_trained_head(tiny, family_, kind, lacks):
    with refusing(CheckpointError, *lacks, "mean+linear"):
        load(str(tiny(family_, kind)))


@pytest.mark.parametrize(
    ("model_type", "config", "kind", "name"),
    [
        ("xlnet", {"summary_type": "mean"}, RecipeError, "summary_type = mean"),
        ("xlnet", {"summary_use_proj": False}, RecipeError, "summary_use_proj = False"),
        ("xlm", {"summary_activation": "tanh"}, RecipeError, "summary_activation = tanh"),
        ("deberta-v2", {"pooler_hidden_act": "no"}, RecipeError, "'no'"),
        ("bert", {"id2label": {}}, CheckpointError, ""),
        ("bert", {"id2label": {"0": "a", "2": "b", "5": "c"}}, CheckpointError, ""),
        ("bert", {"id2label": ["a", "b", "c"]}, ModelError, "AttributeError"),
        ("bert", {"id2label": {"zero": "a", "1": "b", "2": "c"}}, ModelError, "ValueError"),
        ("bert", {"num_labels": -3}, ModelError, "num_labels"),
        ("bert", {"model_type": "resnet"}, ModelError, "'resnet'"),
        ("bert", {"model_type": "gone"}, ModelError, "'gone'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning")
def test_a_config_that_makes_no_sense_or_no_recipe_is_refused(
    changed, model_type, config, kind, name
):
    with refusing(kind, name):
        load(str(changed(model_type, **config)))


@pytest.mark.parametrize("model_type", ["perceiver", "layoutlmv2"])
def test_a_family_without_a_recipe_is_refused_with_the_reason(changed, tmp_path, model_type):
    if model_type == "layoutlmv2":  # which cannot be built here
        folder = changed("bert", model_type=model_type)
    else:
        folder = write_classifier(tmp_path / model_type, model_type, "around")
    with pytest.raises(HeadsError) as error:
        load(str(folder))
    assert family(model_type).reason in str(error.value)


@pytest.mark.parametrize("labels", [("a", "a", "b"), ("", " ", "b"), ("a", "\u202eb", "c")])
def test_labels_that_cannot_be_told_apart_or_read_are_refused_or_mended(changed, labels):
    folder = changed(id2label=dict(enumerate(labels)))
    try:
        classes = load(str(folder)).classes
    except HeadsError:
        return
    assert len(set(classes)) == 3
    assert all(name.strip() and name.isprintable() for name in classes)


def test_funnel_fails_on_texts_of_four_tokens_alone(tmp_path):
    """Such as "one two" between [CLS] and [SEP], which are whole words here."""
    folder = write_classifier(tmp_path / "funnel", "funnel")
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text("utf-8"))
    for word in ("one", "two"):
        settings["model"]["vocab"][word] = len(settings["model"]["vocab"])
    path.write_text(json.dumps(settings), "utf-8")
    found = load(str(folder))
    assert_same(found.logits(TEXTS), theirs(folder, TEXTS))
    with pytest.raises(HeadsError):
        found.logits(["a dog"])


# Where each tensor comes from


CHECKPOINTS = [
    *[("bert", kind) for kind in ("Model", "ForPreTraining", "ForMaskedLM", "LMHeadModel")],
    *[("bert", kind) for kind in ("ForNextSentencePrediction", "ForSequenceClassification")],
    *[("roberta", kind) for kind in ("Model", "ForMaskedLM", "ForSequenceClassification")],
    *[("modernbert", kind) for kind in ("Model", "ForMaskedLM", "ForSequenceClassification")],
    *[("gpt2", kind) for kind in ("Model", "LMHeadModel", "ForSequenceClassification")],
    *[("electra", kind) for kind in ("ForMaskedLM", "ForPreTraining")],
    *[("distilbert", kind) for kind in ("ForMaskedLM", "ForSequenceClassification")],
    *[("bart", "ForConditionalGeneration"), ("t5", "ForConditionalGeneration")],
    *[("deberta-v2", "ForMaskedLM"), ("xlnet", "LMHeadModel"), ("llama", "ForCausalLM")],
    *[("mpnet", "ForMaskedLM")],
]


@pytest.mark.parametrize(("family_", "kind"), slow.but(CHECKPOINTS, *CHECKPOINTS[::4]))
def test_every_tensor_is_pretrained_or_random_as_transformers_says(tiny, family_, kind):
    folder = tiny(family_, kind)
    model, report = report_of(folder)
    lacking = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    found, inner = own(folder), f"{model.base_model_prefix}."
    facts = tensors_of(found)
    outside = {name for name in model.state_dict() if not name.startswith(inner)}
    assert outside <= set(facts) <= set(model.state_dict())
    assert {name for name, fact in facts.items() if fact.origin == "random"} == lacking & set(facts)
    assert {fact.origin for fact in facts.values()} <= {"pretrained", "random"}
    stored = load_file(folder / "model.safetensors")
    for name, fact in facts.items():
        assert fact.shape == tuple(model.state_dict()[name].shape)
        if fact.origin == "pretrained":
            assert torch.equal(stored[fact.source], model.state_dict()[name])
        else:
            assert fact.source == ""
    random = [note for note in found.notes if note.startswith("This head is random")]
    assert bool(random) == bool(lacking & set(facts))


# By the beginning of a tensor's name. Checkpoints have two classes, and recipes here get three.
ORIGINS = [
    *(
        (*("bert", kind, recipe), {"": "new", pooler: "pretrained", "classifier": last})
        for kind in ("ForPreTraining", "ForNextSentencePrediction")
        for recipe, pooler, last in (
            ("own", "bert.pooler", "random"),
            ("cls+bert", "pooler", "new"),
        )
    ),
    ("bert", "ForMaskedLM", "own", {"": "random"}),
    ("bert", "ForMaskedLM", "cls+bert", {"": "new"}),
    *((f, "ForSequenceClassification", "own", {"": "pretrained"}) for f in ("bert", "distilbert")),
    *(
        (*(name, "ForSequenceClassification", recipe), {"": "pretrained", last: "mismatched"})
        for name, recipe, last in (
            ("roberta", "cls+roberta", "classifier.out_proj"),
            ("modernbert", "cls+modernbert", "classifier"),
            ("distilbert", "cls+distilbert", "classifier"),
            ("bert", "cls+bert", "classifier"),
            ("gpt2", "last+gpt2", "score"),
        )
    ),
    *((name, "Model", "cls+roberta", {"": "new"}) for name in ("gpt2", "bert", "modernbert")),
    ("roberta", "Model", "cls+electra", {"": "new"}),
    ("roberta", "ForMaskedLM", "cls+roberta", {"": "new"}),
    # ModernBERT's head is the one of its masked words.
    ("modernbert", "ForMaskedLM", "own", {"head": "pretrained", "classifier": "random"}),
    *(
        ("modernbert", "ForMaskedLM", recipe, {"head": "pretrained", "classifier": "new"})
        for recipe in ("cls+modernbert", "mean+modernbert")
    ),
]


@pytest.mark.parametrize(("family_", "kind", "recipe", "wanted"), ORIGINS)
def test_each_tensor_of_a_head_says_where_it_comes_from(tiny, family_, kind, recipe, wanted):
    found = explain(recipe, model=str(tiny(family_, kind)))
    assert found.classes == (2 if recipe == "own" else 3)
    assert found.steps
    for name, fact in tensors_of(found).items():
        start = max((start for start in wanted if name.startswith(start)), key=len)
        assert fact.origin == wanted[start], name
        assert bool(fact.source) == (fact.origin == "pretrained")


def test_a_random_head_is_the_same_at_every_start(tiny):
    asked: dict[str, Any] = {"recipes": ["own"], "model": str(tiny("bert", "ForMaskedLM"))}
    first = heads.compare("a dog", **asked).predictions[0].logits
    native_head._found.clear()
    assert heads.compare("a dog", **asked).predictions[0].logits == first


def test_training_begins_with_what_the_checkpoint_has(tiny, rows):
    folder = tiny("modernbert", "ForMaskedLM")
    stored = load_file(folder / "model.safetensors")
    backbone = load_backbone(str(folder))
    begun = RecipeModule(resolve("cls+modernbert"), backbone, 3)
    assert set(begun.pretrained) == {"head.dense.weight", "head.norm.weight"}
    still = ExperimentConfig(steps=1, learning_rate=1e-12, standardise="no")
    [head] = trained(["cls+modernbert"], rows, backbone, still)
    learned = head.module.head.state_dict()
    for name in begun.pretrained:
        assert torch.equal(begun.head.state_dict()[name], stored[name])
        torch.testing.assert_close(learned[name], stored[name], rtol=0, atol=1e-6)
    [head] = trained(["cls+modernbert"], rows, backbone)
    moved = head.module.head.state_dict()["head.dense.weight"]
    assert (moved - stored["head.dense.weight"]).abs().max() > 1e-3


def test_training_leaves_the_checkpoints_own_head_as_it_was(tiny, rows):
    """The tensors that training begins with are copies."""
    folder = str(tiny("modernbert", "ForSequenceClassification"))
    before = load(folder).logits(TEXTS)
    backbone = load_backbone(folder)
    trained(["cls+modernbert"], rows, backbone)
    assert torch.equal(load(folder).logits(TEXTS), before)


def test_the_own_head_is_explained_with_its_recipe_and_its_class(tiny):
    found = own(tiny("roberta", "ForSequenceClassification"))
    assert (str(found.recipe), found.classes) == ("cls+roberta", 2)
    assert found.equals.startswith("RobertaForSequenceClassification, transformers/models/roberta/")
    assert [fact.name for fact in tensors_of(found).values()] == [
        "classifier.dense.weight",
        "classifier.dense.bias",
        "classifier.out_proj.weight",
        "classifier.out_proj.bias",
    ]
    assert found.parameters == 32 * 32 + 32 + 32 * 2 + 2
