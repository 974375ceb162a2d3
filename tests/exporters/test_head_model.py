"""Every trained head is a model of Transformers, also where this package is not installed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
import transformers
from quick_heads import classifiers
from tiny_models import WORDS, save_tiny

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.classifier.head_model import render_source
from heads.data.corpus import Corpus, build, in_order
from heads.errors import CheckpointError, ModelError, RecipeError
from heads.exporters.export import export
from heads.exporters.verification import rounding_gain
from heads.parts.resolve import head, layers, pairing, pooling, resolve

TEXTS = [" ".join(WORDS[start : start + length]) for start in range(3) for length in (1, 3, 8)]
TEXTS += [" ".join(WORDS * 5), "the [SEP] cat"]
SECOND = TEXTS[4:] + TEXTS[:4]
CODE = "modeling_head_to_head.py"
# Loads folders in a process that cannot import this package: logits with padding on either side.
ALONE = """
import json, sys
sys.modules["heads"] = None
import torch
from transformers import logging, pipeline
logging.set_verbosity_error()
logging.disable_progress_bar()
for line in sys.stdin:
    folder, texts, pairs = json.loads(line)
    pipe = pipeline("text-classification", folder, trust_remote_code=True)
    given = [texts, pairs] if pairs else [texts]
    logits = []
    for side in ("right", "left"):
        tokens = pipe.tokenizer(*given, padding=True, padding_side=side, truncation=True,
                                return_tensors="pt")
        with torch.no_grad():
            logits.append(pipe.model(**tokens).logits.tolist())
    rows = [dict(zip(("text", "text_pair"), row)) for row in zip(*given)]
    answers = [answer["label"] for answer in pipe(rows, truncation=True, batch_size=4)]
    print(json.dumps([logits, answers]))
"""


def trained(recipe: str, corpus: Corpus, backbone: Backbone) -> Classifier:
    if resolve(recipe).head.ordered:
        corpus = in_order(corpus, corpus.classes)
    if resolve(recipe).pair:
        texts = list(corpus.texts)
        labels = ["same" if number % 2 else "other" for number in range(len(texts))]
        corpus = build("pairs", texts, labels, texts[1:] + texts[:1])
    return classifiers([recipe], corpus, backbone)[0]


def answers_alone(folders: dict[Path, Classifier], tmp_path: Path) -> None:
    """Compare folders in a process without this package with the classifiers they come from."""
    pairs = {folder: SECOND if c.head.needs_pairs else [] for folder, c in folders.items()}
    lines = [json.dumps([str(folder), TEXTS, pairs[folder]]) for folder in folders]
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    for (folder, classifier), line in zip(folders.items(), done.stdout.splitlines(), strict=True):
        ours = classifier.logits(TEXTS, pairs[folder])
        assert float(ours.std(dim=0).max()) > 1e-6, "every text got the same logits"
        both_sides, answers = json.loads(line)
        gain = rounding_gain(classifier)  # large weights multiply rounding
        for logits in both_sides:
            close = {"atol": 1e-6 if gain == 1 else 5e-6 * gain, "rtol": 1e-6}
            torch.testing.assert_close(torch.tensor(logits), ours, **close)
        assert answers == classifier.predict(TEXTS, pairs[folder])


RECIPES = [
    *(f"{name}+linear" for name in pooling if name != "cls"),
    *(f"mean+{name}" for name in head),
    *(f"mean@{name}+linear" for name in layers if name != "decoder"),
    *(f"mean+linear?pair={name}" for name in pairing),
    *("mean@0+linear", "attention@mix+linear?queries=3", "cls@mean4+bert", "trained+roberta"),
    *("mean+eurobert?late=true", "attention+mlp?late=true", "flatten+linear?length=3"),
    *("mean+linear?normalise=true", "mean+mlp?without=hidden", "mean+linear?loss=ovr"),
    *("mean+linear?prefix=query:_", "mean_content+linear?prefix=query:_&include_prefix=false"),
    *("mean+linear?long=windows&stride=4", "cls+linear?long=windows&stride=4"),
    *("trained+linear?long=windows", "max@cat4+ridge?long=windows&normalise=true"),
]


@pytest.mark.parametrize("part", slow.but(range(4), 0))
def test_every_recipe_answers_the_same_without_this_package(part, rows, small, tmp_path):
    folders = {}
    for number, recipe in enumerate(RECIPES[part::4]):
        classifier = trained(recipe, rows, small)
        written = export(classifier, tmp_path / str(number))
        if written.native:
            continue
        assert written.called == "HeadForSequenceClassification"
        assert set(written.files) == {
            *("README.md", "config.json", "model.safetensors", CODE),
            *("tokenizer.json", "tokenizer_config.json"),
        }
        folders[tmp_path / str(number)] = classifier
    answers_alone(folders, tmp_path)


FAMILIES = {
    "roberta": ("mean+roberta", "mean_content@mix+linear", "mean+linear?pair=uv_diff"),
    "gpt2": ("mean+mlp", "weighted+linear?pair=diff", "last+linear?long=windows&stride=4"),
    "modernbert": ("mean+linear", "mean+linear?prefix=query:_"),
    "t5": ("mean@mix+linear", "mean@decoder+linear"),
    "bart": ("mean+linear", "mean@decoder+linear"),
    "xlnet": ("mean+linear", "max+mlp"),
    "deberta-v2": ("mean+linear", "mask_token+linear"),
}


@pytest.mark.parametrize("family", slow.but(FAMILIES, "gpt2", "t5"))
def test_families_are_read_as_we_read_them(family, rows, tiny, tmp_path):
    backbone = load(str(tiny(family)))
    folders = {}
    for number, recipe in enumerate(FAMILIES[family]):
        classifier = trained(recipe, rows, backbone)
        folders[tmp_path / str(number)] = classifier
        assert not export(classifier, tmp_path / str(number)).native
    answers_alone(folders, tmp_path)


def test_the_file_needs_torch_and_transformers_only(rows, small, tmp_path):
    config = _config(trained("attention@mix+mlp", rows, small), tmp_path)
    source = render_source(config)
    assert "from heads" not in source
    assert "def mlp(" in source
    assert "class attention(" in source
    assert "def roberta(" not in source  # what its recipe does not name stays away
    roots = {line.split()[1].partition(".")[0] for line in source.splitlines() if _imports(line)}
    assert roots <= {*sys.stdlib_module_names, "torch", "transformers"}


def _imports(line: str) -> bool:
    return line.startswith(("import ", "from "))


def _config(classifier: Classifier, tmp_path: Path) -> Any:
    export(classifier, tmp_path / "out")
    return transformers.AutoConfig.from_pretrained(tmp_path / "out")


@pytest.mark.parametrize("recipe", ["mean+linear", "attention@mix+mlp", "mean+knn"])
def test_the_installed_class_is_used_where_it_is_installed(recipe, rows, small, tmp_path):
    classifier = trained(recipe, rows, small)
    export(classifier, tmp_path / "out")
    (tmp_path / "out" / CODE).write_text("raise RuntimeError('run')", "utf-8")  # never run by us
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(model) is heads.HeadForSequenceClassification
    again = heads.load(tmp_path / "out")
    assert torch.equal(again.logits(TEXTS), classifier.logits(TEXTS))
    assert again.recipe == classifier.recipe
    model.save_pretrained(tmp_path / "again")  # with its code, which is ours again
    assert "RuntimeError" not in (tmp_path / "again" / CODE).read_text("utf-8")


def test_what_takes_a_model_takes_such_a_folder(rows, small, tmp_path):
    classifier = trained("mean+roberta", rows, small)
    folder = str(export(classifier, tmp_path / "out").folder)
    comparison = heads.compare(TEXTS[1], recipes=["own", "mean+linear"], model=folder)
    own = comparison.predictions[0]
    torch.testing.assert_close(
        torch.tensor(own.logits), classifier.logits(TEXTS[1:2])[0], atol=1e-6, rtol=1e-6
    )
    assert "mean+roberta" in str(heads.explain("own", model=folder).recipe)
    difference = heads.difference(str(folder), "mean+linear")
    assert "is mean+roberta" in difference
    assert "leaves out" in difference


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"head": "no_such_head"}, CheckpointError),
        ({"pooling": "no_such_pooling"}, CheckpointError),
        ({"head_options": {"hidden": 10**9}}, CheckpointError),
        ({"id2label": {"0": "a", "5": "b", "6": "c"}}, CheckpointError),
        ({"backbone_config": {"model_type": "bert", "num_hidden_layers": 10**6}}, ModelError),
        ({"backbone_config": {"model_type": "no_such_model"}}, ModelError),
        ({"layers": "cat4"}, CheckpointError),
    ],
    ids=str,
)
def test_a_config_that_somebody_has_changed_is_refused(change, error, rows, small, tmp_path):
    export(trained("mean+mlp", rows, small), tmp_path / "out")
    path = tmp_path / "out" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(error):
        heads.load(tmp_path / "out")


OWN = '''
"""Parts of somebody's own."""
import math
from functools import partial

import heads
import torch
from heads import Pooled, chain
from heads.parts.poolings import mean as average
from torch import nn

HALF = 0.5


def _scale(values, by=HALF):
    return values * by


@heads.pooling(title="Early tokens")
def early(mask, states, *, power: float = 2.0):
    """The tokens of a text's beginning."""
    places = mask.cumsum(dim=1)
    vectors = (average(_scale(mask) / places**power, states)[:, None] @ states).squeeze(1)
    return heads.Pooled(vectors * math.pi, mask)


class Careful(nn.Module):
    """A layer of one's own."""

    def forward(self, values):
        return torch.tanh(values)


@heads.head
def careful(width: int, classes: int, *, hidden: int = 8) -> nn.Sequential:
    """A dense layer, one's own activation, a linear layer."""
    out = nn.Linear(hidden, classes)
    return chain(("dense", nn.Linear(width, hidden)), ("act", Careful()), ("out", out))
'''


@pytest.fixture
def own_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that defines parts of one's own from the text of a file."""
    for registry in (pooling, head):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))

    def define(text: str, name: str = "own_parts") -> None:
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop(name, None)
        __import__(name)

    return define


def test_parts_of_ones_own_go_along(own_parts: Callable[..., None], rows, small, tmp_path):
    own_parts(OWN)
    classifier = trained("early+careful", rows, small)
    export(classifier, tmp_path / "out")
    answers_alone({tmp_path / "out": classifier}, tmp_path / "out")


def test_a_part_that_needs_what_is_not_there_is_refused(own_parts, rows, small, tmp_path):
    (tmp_path / "beside_own_parts.py").write_text("pi = 3.0", "utf-8")
    own_parts("import beside_own_parts\n" + OWN.replace("math.pi", "beside_own_parts.pi"))
    with pytest.raises(RecipeError, match="imports beside_own_parts, which does not go along"):
        export(trained("early+careful", rows, small), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_part_within_a_function_is_refused(rows, small, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(pooling, "_parts", dict(pooling._parts))

    @heads.pooling
    def inner(mask, states):
        """The tokens."""
        return mask

    with pytest.raises(RecipeError, match="within a function"):
        export(trained("inner+linear", rows, small), tmp_path / "out")
    with pytest.raises(RecipeError, match="within a function"):  # before it is trained
        heads.for_transformers("inner+linear", str(tiny()))


# --- For Transformers: a new head that Trainer and PEFT train.


@pytest.mark.parametrize("recipe", ["mean+roberta", "attention@mix+linear", "mean@cat4+mlp"])
def test_trainer_tunes_a_new_head_and_we_load_what_it_saved(recipe, tiny, tmp_path):
    base = tiny()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    model = heads.for_transformers(recipe, str(base), labels=("no", "yes"))
    rows = [{**tokenizer(text), "labels": number % 2} for number, text in enumerate(TEXTS[:9] * 2)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "run"), max_steps=3, report_to=[], use_cpu=True, save_strategy="no",
        disable_tqdm=True, per_device_train_batch_size=4,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "tuned"))
    assert (tmp_path / "tuned" / CODE).is_file()
    tokens = tokenizer(TEXTS[:9], padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = model.eval()(**tokens).logits
    ours = heads.load(tmp_path / "tuned")
    assert ours.classes == ("no", "yes")
    torch.testing.assert_close(ours.logits(TEXTS[:9]), theirs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("recipe", ["mean+linear", "attention@mix+gpt2"])
def test_a_lora_of_peft_keeps_the_head(recipe, tiny, tmp_path):
    import peft

    tokens = transformers.AutoTokenizer.from_pretrained(tiny())(
        TEXTS[:3], padding=True, return_tensors="pt"
    )

    def new() -> Any:
        return heads.for_transformers(recipe, str(tiny()), num_labels=2)

    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules="all-linear", r=2)
    model = peft.get_peft_model(new(), config)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
    model(**tokens, labels=torch.tensor([0, 1, 0])).loss.backward()
    optimiser.step()
    model.eval().save_pretrained(str(tmp_path / "adapter"))
    again = peft.PeftModel.from_pretrained(new(), str(tmp_path / "adapter")).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**tokens).logits, model(**tokens).logits)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("mean+ridge", "solved at once"),
        ("mean+linear?pair=uv", "writes more around texts"),
        ("mean+linear?prefix=query:_", "writes more around texts"),
        ("mean@decoder+linear", "no decoder"),
    ],
)
def test_what_trainer_cannot_train_is_refused(recipe, message, tiny):
    with pytest.raises(RecipeError, match=message):
        heads.for_transformers(recipe, str(tiny()))


@pytest.mark.parametrize(
    ("labels", "problem_type"),
    [
        (torch.tensor([0, 1, 2]), None),
        (torch.tensor([[0.0, 1, 0], [1, 1, 0], [0, 0, 0]]), None),
        (torch.tensor([[0.5, 1, 0], [1, 1, 0], [0, 0, 2]]), "regression"),
    ],
)
@pytest.mark.parametrize("recipe", ["mean+multi_sample_dropout", "mean+linear?loss=ovr"])
def test_the_loss_follows_the_labels(labels, problem_type, recipe, tiny):
    model = heads.for_transformers(recipe, str(tiny()), num_labels=3, problem_type=problem_type)
    tokens = transformers.AutoTokenizer.from_pretrained(tiny())(
        TEXTS[:3], padding=True, return_tensors="pt"
    )
    output = model.train()(**tokens, labels=labels)
    output.loss.backward()
    assert output.logits.shape == (3, 3)
    assert output.loss.isfinite()
    assert all(p.grad is not None for p in model.classifier.parameters())


def test_it_does_what_models_of_transformers_do(tiny, tmp_path):
    model = heads.for_transformers("mean+roberta", str(tiny()), num_labels=2)
    tokens = transformers.AutoTokenizer.from_pretrained(tiny())(
        TEXTS[:3], padding=True, return_tensors="pt"
    )
    model.eval()
    with torch.no_grad():
        output = model(**tokens, output_hidden_states=True)
        assert len(output.hidden_states) == 3
        assert isinstance(model(**tokens, return_dict=False), tuple)
    model.resize_token_embeddings(130)
    assert model.config.get_text_config().vocab_size == 130
    model.activation_checkpointing_enable()  # gradient checkpointing
    model.train()(**tokens, labels=torch.tensor([0, 1, 0])).loss.backward()
    model.eval().save_pretrained(tmp_path / "out", max_shard_size="20KB")
    kind = heads.HeadForSequenceClassification
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
    again = kind.from_pretrained(tmp_path / "out", dtype=torch.bfloat16)
    assert again.dtype == torch.bfloat16
    assert again(**tokens).logits.isfinite().all()
    wider = kind.from_pretrained(tmp_path / "out", num_labels=5, ignore_mismatched_sizes=True)
    assert wider(**tokens).logits.shape == (3, 5)


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification"])
def test_it_starts_from_a_base_model_alone(kind, tmp_path):
    base = save_tiny(tmp_path / "base", "bert", kind)
    model = heads.HeadForSequenceClassification.from_pretrained(
        base, pooling="attention", head="mlp", num_labels=4
    )
    bert = transformers.AutoModel.from_pretrained(base)
    ours = model.backbone.get_parameter("encoder.layer.0.output.dense.weight")
    assert torch.equal(ours, bert.get_parameter("encoder.layer.0.output.dense.weight"))
    assert model(input_ids=torch.tensor([[2, 7, 3]])).logits.shape == (1, 4)


def test_labels_without_a_class_and_labels_that_do_not_fit(tiny):
    model = heads.for_transformers("mean+linear", str(tiny()), num_labels=3).eval()
    ids = torch.tensor([[2, 7, 3], [2, 8, 3]])
    whole = model(input_ids=ids[:1], labels=torch.tensor([1])).loss
    part = model(input_ids=ids, labels=torch.tensor([1, -100])).loss
    torch.testing.assert_close(whole, part)
    with pytest.raises(ValueError, match="whole numbers"):
        model(input_ids=ids, labels=torch.tensor([0.5, 1.7]))
    assert not model.accepts_loss_kwargs  # so Trainer divides the loss of accumulated batches


def test_one_versus_rest_is_answered_as_it_is_trained(tiny, tmp_path):
    model = heads.for_transformers("mean+linear?loss=ovr", str(tiny()), num_labels=3)
    model.save_pretrained(tmp_path / "out")
    transformers.AutoTokenizer.from_pretrained(tiny()).save_pretrained(tmp_path / "out")
    classifier = heads.load(tmp_path / "out")
    assert classifier.head.problem.output_activation == "normalised_sigmoid"


def test_what_has_a_value_for_each_token_moves_with_the_padding(tiny):
    model = heads.for_transformers("mean+linear", str(tiny()), num_labels=3).eval()
    left = {
        "input_ids": torch.tensor([[0, 0, 2, 7, 3]]),
        "attention_mask": torch.tensor([[0, 0, 1, 1, 1]]),
        "position_ids": torch.tensor([[0, 0, 0, 1, 2]]),
    }
    with torch.no_grad():
        alone = model(input_ids=torch.tensor([[2, 7, 3]])).logits
        torch.testing.assert_close(model(**left).logits, alone)


def test_a_tokenizer_that_grows_without_end_is_refused(rows, small, tmp_path):
    export(trained("mean+linear?prefix=query:_", rows, small), tmp_path / "out")
    path = tmp_path / "out" / "tokenizer_config.json"
    values = json.loads(path.read_text("utf-8"))
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    values["head_to_head"]["normalizer"] = {"type": "Sequence", "normalizers": [grow] * 7}
    path.write_text(json.dumps(values), "utf-8")
    with pytest.raises(ModelError, match="more of a text"):
        heads.load(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 2.2])
def test_it_is_registered_while_another_thread_imports_transformers(seconds):
    code = f"""
import threading, time
def load():
    from transformers import AutoModelForSequenceClassification
thread = threading.Thread(target=load)
thread.start()
time.sleep({seconds})
import heads
thread.join()
from transformers import AutoModelForSequenceClassification as auto
assert any("HeadConfig" in str(kind) for kind in auto._model_mapping._extra_content)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
