"""A head is a model of Transformers: what Trainer, PEFT and our own verbs do with it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from expected_errors import refusing
from quick_heads import classifiers
from tiny_models import WORDS, save_tiny

import heads
from heads.api import explain
from heads.classifier.head_model import render_source
from heads.errors import RecipeError
from heads.exporters.export import export
from heads.exporters.transformers import _load_class
from heads.parts.resolve import head, pooling

TEXTS = [" ".join(WORDS[start : start + length]) for start in range(3) for length in (1, 3, 8)]
CODE = "modeling_head_to_head.py"


def test_the_file_needs_torch_and_transformers_only(trained, tmp_path):
    export(trained("attention@mix+mlp"), tmp_path / "out")
    source = render_source(transformers.AutoConfig.from_pretrained(tmp_path / "out"))
    assert "from heads" not in source
    assert "def mlp(" in source
    assert "class attention(" in source
    assert "def roberta(" not in source  # what its recipe does not name stays away
    lines = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    roots = {line.split()[1].partition(".")[0] for line in lines}
    assert roots <= {*sys.stdlib_module_names, "torch", "transformers"}


@pytest.mark.parametrize("recipe", ["attention@mix+mlp", "mean+knn"])
def test_the_installed_class_is_used_where_it_is_installed(recipe, trained, tmp_path):
    ours = trained(recipe)
    export(ours, tmp_path / "out")
    (tmp_path / "out" / CODE).write_text("raise RuntimeError('run')", "utf-8")  # never run by us
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(model) is heads.HeadForSequenceClassification
    assert torch.equal(heads.load(tmp_path / "out").logits(TEXTS), ours.logits(TEXTS))
    model.save_pretrained(tmp_path / "again")  # with its code, which is ours again
    assert "RuntimeError" not in (tmp_path / "again" / CODE).read_text("utf-8")


def test_what_takes_a_model_takes_such_a_folder(trained, tmp_path):
    ours = trained("mean+roberta")
    folder = str(export(ours, tmp_path / "out").folder)
    comparison = heads.compare(TEXTS[1], recipes=["own", "mean+linear"], model=folder)
    logits = torch.tensor(comparison.predictions[0].logits)
    torch.testing.assert_close(logits, ours.logits(TEXTS[1:2])[0], atol=1e-6, rtol=1e-6)
    assert "mean+roberta" in str(explain("own", model=folder).recipe)
    assert "mean+roberta" in heads.difference(folder, "mean+linear")


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


def test_parts_of_ones_own_go_along(own_parts, rows, small, tmp_path, monkeypatch):
    own_parts(OWN)
    [ours] = classifiers(["early+careful"], rows, small)
    export(ours, tmp_path / "out")
    with monkeypatch.context() as patch:
        for name in ("heads", "own_parts"):  # as if neither were there
            patch.setitem(sys.modules, name, None)
        with _load_class(tmp_path / "out") as kind:
            model = kind.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    torch.testing.assert_close(logits, ours.logits(TEXTS), atol=5e-6, rtol=1e-6)


def test_a_part_that_needs_what_is_not_there_is_refused(own_parts, tiny, tmp_path):
    (tmp_path / "beside_own_parts.py").write_text("pi = 3.0", "utf-8")
    own_parts("import beside_own_parts\n" + OWN.replace("math.pi", "beside_own_parts.pi"))
    with refusing(RecipeError, "beside_own_parts"):  # before it is trained
        heads.for_transformers("early+careful", str(tiny()))


def test_a_part_within_a_function_is_refused(rows, small, tmp_path, monkeypatch):
    monkeypatch.setattr(pooling, "_parts", dict(pooling._parts))

    @heads.pooling
    def inner(mask, states):
        """The tokens."""
        return mask

    [ours] = classifiers(["inner+linear"], rows, small)
    with refusing(RecipeError, "inner"):
        export(ours, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
    with pytest.raises(ValueError):  # noqa: PT011 - of torch's own kind
        model(input_ids=ids, labels=torch.tensor([0.5, 1.7]))
    assert not model.accepts_loss_kwargs  # so Trainer divides the loss of accumulated batches


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
