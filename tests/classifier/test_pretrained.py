"""Any fine-tuned XForSequenceClassification comes in with its own head, or a sentence says why not.

Every checkpoint here is written to disk by Transformers' own save_pretrained, with a tokenizer.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from quick_heads import trained
from safetensors.torch import load_file, save_file
from tiny_models import (
    FORMS,
    OTHERS,
    TINY_VOCABULARY,
    rewrite,
    save_tiny,
    small_tokenizer,
    write_classifier,
)
from torch import Tensor

import heads
from heads.api import load
from heads.backbone.loading import load as load_backbone
from heads.catalog.families import FAMILIES, family
from heads.catalog.tiny_models import quiet, tiny_model
from heads.classifier.module import RecipeModule
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, HeadsError, ModelError, RecipeError
from heads.explain.explanation import Explanation, TensorFact
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, SINGLE_OUTPUT
from heads.settings import ExperimentConfig

Tensors = dict[str, Tensor]
Change = Callable[[Tensors], Any]
Folders = Callable[..., Path]

CLASSIFIERS = {**FORMS, **OTHERS}
OFTEN = ("gpt2", "roberta", "bart", "modernbert", "xlnet")
# None of four tokens: Funnel's class fails where it shortens one to a single state.
TEXTS = (
    "the cat sat on a mat.",
    "a dog ran",
    "late flight cancelled twice and it was late",
    "home [SEP] x",
)
PAIRS = ("it was late", "the cat", "the dog ran home", "a mat on a mat")
ROUNDING = 1e-6  # of the largest logit


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders of tiny classifiers, each written once; never to be changed."""
    made: dict[str, Path] = {}

    def folder(model_type: str = "bert", **settings: Any) -> Path:
        key = f"{model_type} {settings}"
        if key not in made:
            made[key] = write_classifier(
                tmp_path_factory.mktemp("imported") / model_type, model_type, **settings
            )
        return made[key]

    return folder


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
    return heads.explain("own", model=str(folder))


def tensors_of(found: Explanation) -> dict[str, TensorFact]:
    return {fact.name: fact for step in found.steps for fact in step.tensors}


def origins(found: Explanation) -> dict[str, str]:
    return {name: fact.origin for name, fact in tensors_of(found).items()}


def refused(folder: Path, kind: type[HeadsError]) -> str:
    with pytest.raises(kind) as error:
        load(str(folder))
    assert type(error.value) is kind
    said = str(error.value)
    assert "\n" not in said
    assert error.value.what.endswith((".", "?"))
    return said.replace(str(folder), "M")


# The same logits


@pytest.mark.parametrize("model_type", FORMS)
def test_there_is_one_of_each_form_that_a_recipe_expresses(model_type: str) -> None:
    alike = [name for name in FORMS if family(name).name == family(model_type).name]
    assert alike == [model_type]
    assert {family(name).name for name in FORMS} == {
        form.name for form in FAMILIES.values() if not form.reason
    }


@pytest.mark.parametrize("model_type", slow.but(CLASSIFIERS, *OFTEN))
def test_a_classifier_comes_in_with_its_logits(written: Folders, model_type: str) -> None:
    folder = written(model_type)
    found = load(str(folder))
    assert str(found.recipe) == CLASSIFIERS[model_type][1]
    assert found.head.new == ()
    true = theirs(folder, TEXTS)
    assert true.std(dim=0).max() > 0.001  # it reads what it is given
    assert_same(found.logits(list(TEXTS)), true)
    assert_same(found.logits(TEXTS[:1]), true[:1])
    assert_same(found.probabilities(TEXTS), true.softmax(dim=1))


@pytest.mark.parametrize(
    "model_type", slow.but([name for name in FORMS if name != "gpt2"], *OFTEN[1:])
)
def test_two_texts_come_in_as_the_class_reads_them(written: Folders, model_type: str) -> None:
    found = load(str(written(model_type)))
    true = theirs(written(model_type), TEXTS, PAIRS)
    assert not torch.allclose(true, theirs(written(model_type), TEXTS), atol=1e-3)
    assert_same(found.logits(TEXTS, PAIRS), true)


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
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_config_chooses_what_comes_in(
    written: Folders, model_type: str, settings: dict[str, Any], recipe: str | None
) -> None:
    folder = written(model_type, **settings)
    found = load(str(folder))
    assert recipe in (None, str(found.recipe))
    assert_same(found.logits(TEXTS), theirs(folder, TEXTS))


@pytest.mark.parametrize("labels", [1, 5])
@pytest.mark.parametrize("model_type", ["bart", "gpt2", "bert", "xlnet"])
def test_any_number_of_classes_comes_in(written: Folders, model_type: str, labels: int) -> None:
    folder = written(model_type, labels=labels)
    found = load(str(folder))
    assert found.classes == tuple(f"LABEL_{number}" for number in range(labels))
    assert_same(found.logits(TEXTS), theirs(folder, TEXTS))


def test_weights_of_half_precision_come_in(written: Folders, tmp_path: Path) -> None:
    model: Any = tiny_model("roberta", vocab_size=TINY_VOCABULARY, pad_token_id=0)
    folder = tmp_path / "half"
    model.to(torch.bfloat16).save_pretrained(folder)
    small_tokenizer("around").save_pretrained(folder)
    assert_same(load(str(folder)).logits(TEXTS), theirs(folder, TEXTS))
    assert {fact.origin for fact in tensors_of(own(folder)).values()} == {"pretrained"}


def test_weights_in_several_files_come_in(written: Folders, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_where_padding_is_the_end_token_the_class_reads_the_token_before(
    written: Folders, model_type: str
) -> None:
    folder = written(model_type, template="after", pad_token_id=3, eos_token_id=3)
    found = load(str(folder))
    assert_same(found.logits(TEXTS[:1]), theirs(folder, TEXTS[:1]))


def test_reformers_own_seed_comes_in(written: Folders) -> None:
    folder = written("reformer", hash_seed=5)
    long = (" ".join(TEXTS[2:3] * 3),)
    assert_same(load(str(folder)).logits(long), theirs(folder, long))


# Labels and kinds of answer


def test_labels_are_those_of_the_config(changed: Folders) -> None:
    folder = changed(id2label={"0": "bad", "1": "so-so", "2": "good"})
    found = load(str(folder))
    assert (found.classes, found.head.problem, found.head.rows) == (
        ("bad", "so-so", "good"),
        SINGLE_LABEL,
        0,
    )
    assert (found.head.scores, found.head.training, found.head.is_own) == (None, None, True)
    best = theirs(folder, TEXTS).argmax(dim=1).tolist()
    assert found.predict(TEXTS) == [found.classes[number] for number in best]


def test_labels_with_html_stay_text(changed: Folders) -> None:
    image = "<img src=x onerror=alert(1)>"
    folder = changed(id2label={"0": image, "1": "b", "2": "c"})
    assert load(str(folder)).classes == (image, "b", "c")


def test_several_labels_are_sigmoids(changed: Folders) -> None:
    folder = changed(problem_type="multi_label_classification")
    found = load(str(folder))
    assert found.head.problem is MULTI_LABEL
    true = theirs(folder, TEXTS)
    assert_same(found.probabilities(TEXTS), true.sigmoid())
    assert found.predict(TEXTS) == [
        tuple(f"LABEL_{number}" for number in range(3) if row[number] > 0) for row in true
    ]


@pytest.mark.parametrize("problem", [None, "regression"])
def test_one_number_is_what_transformers_makes_of_it(
    written: Folders, tmp_path: Path, problem: str | None
) -> None:
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


def test_the_numbers_of_a_regression_are_no_probabilities_of_classes(changed: Folders) -> None:
    folder = changed(problem_type="regression")
    found = load(str(folder))
    assert (found.head.problem, len(found.classes)) == (REGRESSION, 3)
    assert_same(found.probabilities(TEXTS), theirs(folder, TEXTS))


GIVEN = {"LABEL_0": 0.2, "LABEL_1": 0.5, "LABEL_2": 0.9}


def test_thresholds_of_its_config_are_read(changed: Folders) -> None:
    several = "multi_label_classification"
    found = load(str(changed(problem_type=several, thresholds=GIVEN)))
    assert torch.tensor(found.head.thresholds).sigmoid().tolist() == pytest.approx([0.2, 0.5, 0.9])
    shares = found.probabilities(TEXTS)
    assert found.predict(TEXTS) == [
        tuple(name for name, share in zip(GIVEN, row, strict=True) if share > GIVEN[name])
        for row in shares.tolist()
    ]


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
    ],
    ids=str,
)
def test_what_a_foreign_config_calls_alike_is_passed_over(changed: Folders, marks: Any) -> None:
    several = "multi_label_classification"
    found = load(str(changed(problem_type=several, **marks)))
    assert (found.head.problem, found.head.thresholds, found.head.temperature) == (
        MULTI_LABEL,
        (),
        1,
    )


def test_a_softmax_has_no_thresholds_and_no_vote(changed: Folders) -> None:
    marks = {"thresholds": GIVEN, "head_to_head": {"loss": "ovr"}}
    found = load(str(changed(problem_type="single_label_classification", **marks)))
    assert (found.head.problem, found.head.thresholds) == (SINGLE_LABEL, ())


# What is wrong with a checkpoint


def without(*names: str) -> Change:
    return lambda tensors: [tensors.pop(name) for name in names]


def with_(name: str, make: Callable[[Tensor], Tensor]) -> Change:
    return lambda tensors: tensors.update({name: make(tensors[name])})


LACKS = "M has no trained head: it lacks {}. Train one on it, for example with mean+linear."
LAST, DENSE = "classifier.weight", "classifier.dense"
NAN = "The tensor {} of M holds NaN or infinity. Choose another model, or train a head"


@pytest.mark.parametrize(
    ("model_type", "change", "says"),
    [
        ("bert", without("classifier.weight"), LACKS.format("classifier.weight")),
        (
            "bert",
            without("classifier.weight", "classifier.bias"),
            LACKS.format("classifier.weight, classifier.bias"),
        ),
        ("bert", without("bert.pooler.dense.bias"), LACKS.format("bert.pooler.dense.bias")),
        (
            "roberta",
            lambda tensors: [tensors.pop(n) for n in list(tensors) if n.startswith("classifier.")],
            LACKS.format(f"{DENSE}.weight, {DENSE}.bias, classifier.out_proj.weight and 1 more"),
        ),
        ("gpt2", without("score.weight"), LACKS.format("score.weight")),
        (
            "bert",
            with_(LAST, lambda t: t * math.nan),
            NAN.format("classifier.weight"),
        ),
        ("bert", with_("classifier.bias", lambda t: t + math.inf), NAN.format("classifier.bias")),
        (
            "bert",
            with_("bert.pooler.dense.weight", lambda t: t * math.nan),
            NAN.format("bert.pooler.dense.weight"),
        ),
        (
            "roberta",
            with_("classifier.dense.weight", lambda t: t * math.nan),
            NAN.format("classifier.dense.weight"),
        ),
    ],
)
def test_wrong_or_missing_tensors_are_said_in_a_sentence(
    changed: Folders, model_type: str, change: Change, says: str
) -> None:
    assert refused(changed(model_type, change), CheckpointError).startswith(says)


def test_a_last_layer_of_another_size_is_refused_and_not_said_to_be_missing(
    changed: Folders,
) -> None:
    folder = changed("bert", with_("classifier.weight", lambda t: t[:2].clone()))
    said = refused(folder, CheckpointError)
    assert "classifier.weight" in said
    assert "lacks" not in said
    assert origins(own(folder))["classifier.weight"] == "mismatched"
    # Its config names two classes, and its tensors are of three.
    folder = changed("roberta", id2label={"0": "a", "1": "b"})
    assert "classifier.out_proj.weight" in refused(folder, CheckpointError)


def test_more_tensors_than_the_class_has_are_left_as_the_class_leaves_them(
    changed: Folders,
) -> None:
    folder = changed("bert", lambda tensors: tensors.update({"classifier.more": torch.ones(3)}))
    assert_same(load(str(folder)).logits(TEXTS), theirs(folder, TEXTS))


@pytest.mark.parametrize(
    ("family_", "kind", "lacks"),
    [
        ("gpt2", "Model", "score.weight"),
        ("gpt2", "LMHeadModel", "score.weight"),
        ("bert", "Model", "classifier.weight, classifier.bias"),
        ("bert", "ForQuestionAnswering", "bert.pooler.dense.weight, bert.pooler.dense.bias, clas"),
        ("t5", "ForConditionalGeneration", "classification_head.dense.weight, classification_head"),
    ],
)
def test_a_model_that_is_no_classifier_has_no_trained_head(
    tiny: Folders, family_: str, kind: str, lacks: str
) -> None:
    said = refused(tiny(family_, kind), CheckpointError)
    assert said.startswith(f"M has no trained head: it lacks {lacks}")
    assert said.endswith("Train one on it, for example with mean+linear.")


@pytest.mark.parametrize(
    ("model_type", "config", "says"),
    [
        ("xlnet", {"summary_type": "mean"}, "With summary_type = mean this head reads what no"),
        ("xlnet", {"summary_use_proj": False}, "With summary_use_proj = False this head has other"),
        ("xlm", {"summary_activation": "tanh"}, "With summary_activation = tanh this head has oth"),
        ("deberta-v2", {"pooler_hidden_act": "no"}, "There is no activation called 'no'."),
    ],
)
def test_a_head_that_no_recipe_expresses_is_refused_with_the_reason(
    changed: Folders, model_type: str, config: dict[str, Any], says: str
) -> None:
    assert refused(changed(model_type, **config), RecipeError).startswith(says)


@pytest.mark.parametrize(
    ("config", "kind", "says"),
    [
        ({"id2label": {}}, CheckpointError, "The config of M names no classes."),
        ({"id2label": {"0": "a", "2": "b", "5": "c"}}, CheckpointError, ""),
        ({"id2label": ["a", "b", "c"]}, ModelError, "M cannot be loaded (AttributeError"),
        ({"id2label": {"zero": "a", "1": "b", "2": "c"}}, ModelError, "M cannot be loaded (Value"),
        ({"num_labels": -3}, ModelError, "M cannot be used: its config.json has num_labels = "),
        ({"model_type": "resnet"}, ModelError, "M cannot be used: 'resnet' is no text encoder"),
        ({"model_type": "gone"}, ModelError, "M cannot be used: 'gone' is no text encoder"),
    ],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning")
def test_a_config_that_makes_no_sense_is_refused(
    changed: Folders, config: dict[str, Any], kind: type[HeadsError], says: str
) -> None:
    assert refused(changed(**config), kind).startswith(says)


@pytest.mark.parametrize("labels", [("a", "a", "b"), ("", " ", "b"), ("a", "\u202eb", "c")])
def test_labels_that_cannot_be_told_apart_or_read_are_refused_or_mended(
    changed: Folders, labels: tuple[str, ...]
) -> None:
    folder = changed(id2label=dict(enumerate(labels)))
    try:
        classes = load(str(folder)).classes
    except HeadsError:
        return
    assert len(set(classes)) == 3
    assert all(name.strip() and name.isprintable() for name in classes)


@pytest.mark.parametrize("model_type", ["perceiver", "layoutlmv2"])
def test_a_family_without_a_recipe_is_refused_with_the_reason(
    changed: Folders, tmp_path: Path, model_type: str
) -> None:
    if model_type == "layoutlmv2":  # which cannot be built here
        folder = changed("bert", model_type=model_type)
    else:
        folder = write_classifier(tmp_path / model_type, model_type, "around")
    with pytest.raises(HeadsError) as error:
        load(str(folder))
    assert family(model_type).reason in str(error.value)


def test_funnel_comes_in_with_a_vocabulary_of_whole_words(written: Folders, tmp_path: Path) -> None:
    """It fails on texts of four tokens, such as "one two" between [CLS] and [SEP]."""
    folder = write_classifier(tmp_path / "funnel", "funnel")
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text("utf-8"))
    for word in ("one", "two"):
        settings["model"]["vocab"][word] = len(settings["model"]["vocab"])
    path.write_text(json.dumps(settings), "utf-8")
    assert_same(load(str(folder)).logits(TEXTS), theirs(folder, TEXTS))


def test_a_text_that_a_family_cannot_read_is_refused_in_a_sentence(written: Folders) -> None:
    with pytest.raises(HeadsError):
        load(str(written("funnel"))).logits(["a dog"])


# Where each tensor comes from


def test_the_folder_is_read_and_not_written(written: Folders) -> None:
    folder = written("modernbert")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    load(str(folder)).logits(TEXTS)
    own(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


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
def test_every_tensor_is_pretrained_or_random_as_transformers_says(
    tiny: Folders, family_: str, kind: str
) -> None:
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


POOLER = ("pooler.dense.weight", "pooler.dense.bias")
CLASSIFIER = ("classifier.weight", "classifier.bias")


@pytest.mark.parametrize(
    ("kind", "pooler", "classifier"),
    [
        ("ForPreTraining", "pretrained", "random"),
        ("ForNextSentencePrediction", "pretrained", "random"),
        ("ForMaskedLM", "random", "random"),
        ("ForSequenceClassification", "pretrained", "pretrained"),
    ],
)
def test_berts_pooler_is_pretrained_only_if_the_checkpoint_has_it(
    tiny: Folders, kind: str, pooler: str, classifier: str
) -> None:
    folder = tiny("bert", kind)
    assert origins(own(folder)) == {
        **{f"bert.{name}": pooler for name in POOLER},
        **dict.fromkeys(CLASSIFIER, classifier),
    }
    found = heads.explain("cls+bert", model=str(folder))
    begun = "new" if pooler == "random" else pooler
    last = "mismatched" if classifier == "pretrained" else "new"  # of two classes, and now of three
    assert origins(found) == {**dict.fromkeys(POOLER, begun), **dict.fromkeys(CLASSIFIER, last)}


@pytest.mark.parametrize("family_", ["roberta", "gpt2", "bert", "modernbert"])
def test_another_familys_head_is_all_new(tiny: Folders, family_: str) -> None:
    other = "cls+electra" if family_ == "roberta" else "cls+roberta"
    found = heads.explain(other, model=str(tiny(family_)))
    assert set(origins(found).values()) == {"new"}


def test_robertas_head_is_new_unless_it_was_fine_tuned(tiny: Folders) -> None:
    found = heads.explain("cls+roberta", model=str(tiny("roberta", "ForMaskedLM")))
    assert set(origins(found).values()) == {"new"}
    tuned = str(tiny("roberta", "ForSequenceClassification"))
    found = heads.explain("cls+roberta", model=tuned)
    assert list(origins(found).values())[:2] == ["pretrained", "pretrained"]


def test_modernberts_head_is_the_one_of_its_masked_words(tiny: Folders) -> None:
    folder = tiny("modernbert", "ForMaskedLM")
    for recipe in ("own", "cls+modernbert", "mean+modernbert"):
        facts = tensors_of(heads.explain(recipe, model=str(folder)))
        for name in ("head.dense.weight", "head.norm.weight"):
            assert (facts[name].origin, facts[name].source) == ("pretrained", name)
        last = "random" if recipe == "own" else "new"
        assert facts["classifier.weight"].origin == last
        assert facts["classifier.bias"].origin == last


def test_training_begins_with_what_the_checkpoint_has(tiny: Folders, rows: Corpus) -> None:
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


def test_training_leaves_the_checkpoints_own_head_as_it_was(tiny: Folders, rows: Corpus) -> None:
    """The tensors that training begins with are copies."""
    folder = str(tiny("modernbert", "ForSequenceClassification"))
    before = load(folder).logits(TEXTS)
    backbone = load_backbone(folder)
    trained(["cls+modernbert"], rows, backbone)
    assert torch.equal(load(folder).logits(TEXTS), before)


def five(place: Path, family_: str) -> Path:
    return save_tiny(place / family_, family_, "ForSequenceClassification", num_labels=5)


@pytest.mark.parametrize(
    ("family_", "recipe", "last"),
    [
        ("roberta", "cls+roberta", "classifier.out_proj"),
        ("modernbert", "cls+modernbert", "classifier"),
        ("distilbert", "cls+distilbert", "classifier"),
        ("bert", "cls+bert", "classifier"),
        ("gpt2", "last+gpt2", "score"),
    ],
)
def test_a_last_layer_of_other_classes_is_mismatched(
    tmp_path: Path, family_: str, recipe: str, last: str
) -> None:
    folder = five(tmp_path, family_)
    found = heads.explain(recipe, model=str(folder))
    assert found.classes == 3
    facts = tensors_of(found)
    assert (facts[f"{last}.weight"].origin, facts[f"{last}.weight"].shape[0]) == ("mismatched", 3)
    others = [fact for name, fact in facts.items() if not name.startswith(f"{last}.")]
    assert {fact.origin for fact in others} <= {"pretrained"}
    assert own(folder).classes == 5
    assert set(origins(own(folder)).values()) == {"pretrained"}


def test_the_own_head_is_explained_with_its_recipe_and_its_class(tiny: Folders) -> None:
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


def test_a_random_head_is_the_same_at_every_start(tiny: Folders) -> None:
    from heads.classifier import native_head

    folder = str(tiny("bert", "ForMaskedLM"))
    asked: dict[str, Any] = {"recipes": ["own"], "model": folder}
    first = heads.compare("a dog", **asked).predictions[0].logits
    native_head._found.clear()
    assert heads.compare("a dog", **asked).predictions[0].logits == first
