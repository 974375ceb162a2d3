"""Adapters as PEFT writes them: sound ones pass, and what is wrong with others is named."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from shown_results import HOSTILE, check_shown
from tiny_models import rewrite

import heads
from heads.errors import CheckpointError, ModelError
from heads.extras.serving.adapter import WEIGHTS, check_folder
from heads.interfaces.cli.app import main
from heads.settings import PUBLIC, use_limits


@pytest.fixture
def write(tiny, tmp_path):
    """Writes an adapter by PEFT, its matrices filled as if it had learned."""
    import peft
    from transformers import AutoModelForSequenceClassification

    def of(family="bert", base=None, labels=3, config="LoraConfig", **facts):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(
            base or tiny(family), num_labels=labels
        )
        usual = {"task_type": "SEQ_CLS"}
        if config == "LoraConfig":
            usual |= {"r": 4, "target_modules": "all-linear"}
        found = peft.get_peft_model(model, getattr(peft, config)(**usual | facts))
        for name, own in found.named_parameters():
            if "lora_B" in name or "lora_E" in name:
                torch.nn.init.normal_(own)
        found.save_pretrained(str(tmp_path / "adapter"), save_embedding_layers=False)
        return tmp_path / "adapter"

    return of


def look(folder, base=""):
    return check_folder(str(folder), base)


def kinds(report, *weights):
    return [one.kind for one in report.findings if one.weight in (weights or ("fault", "note"))]


SOUND = {
    "roberta": {"family": "roberta"},
    "distilbert, modules named": {
        "family": "distilbert",
        "task_type": None,
        "modules_to_save": ["classifier", "pre_classifier"],
        "target_modules": ["q_lin", "v_lin"],
    },
    "gpt2": {"family": "gpt2", "fan_in_fan_out": True},
    "bert, dora": {"use_dora": True, "target_modules": ["query", "value"]},
    "bert, biases": {"bias": "all", "target_modules": ["query"]},
    "bert, one rank apart": {"target_modules": ["query", "key"], "rank_pattern": {"key": 8}},
    "bert, tokens besides": {"target_modules": ["query"], "trainable_token_indices": [5, 6]},
    "bert, adalora": {
        "config": "AdaLoraConfig", "target_modules": ["query", "value"], "init_r": 6,
        "target_r": 2, "total_step": 10,
    },
}  # fmt: skip
IN_PART = {
    "IA3": {
        "config": "IA3Config",
        "target_modules": ["key", "output.dense"],
        "feedforward_modules": ["output.dense"],
    },
    "LOHA": {"config": "LoHaConfig", "r": 4, "target_modules": ["query"]},
    "VERA": {"config": "VeraConfig", "r": 4, "target_modules": ["query"]},
    "OFT": {"config": "OFTConfig", "r": 0, "oft_block_size": 8, "target_modules": ["query"]},
    "PROMPT_TUNING": {"config": "PromptTuningConfig", "num_virtual_tokens": 4},
    "PREFIX_TUNING": {"config": "PrefixTuningConfig", "num_virtual_tokens": 4},
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_adapter_is_not_blamed(write, name):
    found = look(write(**SOUND[name]))
    assert found.is_whole, found.findings
    assert (found.head, found.outputs) == ("whole", 3)
    assert kinds(found) == ["labels"]  # their names are not in the folder


@pytest.mark.parametrize("kind", IN_PART)
def test_of_other_kinds_head_and_labels_are_judged_and_no_more(write, kind):
    folder = write(**IN_PART[kind])
    found = look(folder)
    assert found.is_whole, found.findings
    assert (found.kind, found.head, found.outputs, found.learned) == (kind, "whole", 3, ())
    assert kinds(found) == ["weights", "labels"]
    name_labels(folder, "a", "b")
    assert kinds(look(folder), "fault") == ["labels"]
    drop(folder, "classifier")
    assert look(folder).head == "missing"


def test_labels_beside_it_are_read(write):
    folder = write()
    name_labels(folder, "no", "maybe", "yes")
    found = look(folder)
    assert (found.labels, found.findings) == (("no", "maybe", "yes"), ())


def test_an_adapter_of_a_trained_classifier_need_not_bring_its_head(write, tiny):
    base = tiny("bert", "ForSequenceClassification")
    found = look(write(base=base, labels=2, task_type=None, target_modules=["query"]))
    assert found.is_whole, found.findings
    assert (found.head, found.outputs) == ("whole", 0)


def drop(folder, part):
    tensors = load_file(folder / WEIGHTS)
    save_file({n: own for n, own in tensors.items() if part not in n}, folder / WEIGHTS)


def configure(folder, **values):
    rewrite(folder / "adapter_config.json", **values)


def name_labels(folder, *labels):
    names = {str(number): label for number, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": names}), "utf-8")


def change(folder, part, to):
    tensors = load_file(folder / WEIGHTS)
    changed = {n: to(own).contiguous() if part in n else own for n, own in tensors.items()}
    save_file(changed, folder / WEIGHTS)


def test_an_adapter_of_another_base_model_is_told(write, tiny):
    folder = write()
    assert "base" in kinds(look(folder, str(tiny("roberta"))), "fault")
    change(folder, "lora_A", lambda own: torch.cat([own, own], dim=1))
    assert kinds(look(folder), "fault") == ["base"]


UNSAVED = {"task_type": None, "target_modules": ["query"]}
# How a folder is broken, the state of its head, the kind of the fault, and what it names.
FAULTS = {
    "nothing learned": (
        {}, lambda f: change(f, "lora_B", torch.zeros_like), "whole", "weights", "lora_B",
    ),
    "adalora has not learned": (
        SOUND["bert, adalora"], lambda f: change(f, "lora_E", torch.zeros_like), "whole",
        "weights", "lora_E",
    ),
    "nan": (
        {}, lambda f: change(f, "lora_A", lambda own: own * torch.nan), "whole", "weights", "NaN",
    ),
    "rank": ({}, lambda f: configure(f, r=16), "whole", "weights", "r=16"),
    "no base": (
        {}, lambda f: configure(f, base_model_name_or_path=None), "unknown", "base", "",
    ),
    "a folder elsewhere": (
        {}, lambda f: configure(f, base_model_name_or_path="/content/base"), "unknown", "base",
        "/content/base",
    ),
    "a head that nobody asked for": (
        UNSAVED, lambda f: None, "missing", "head", "modules_to_save=['classifier']",
    ),
    "a module of another family": (
        UNSAVED, lambda f: configure(f, modules_to_save=["score"]), "missing", "head", "score",
    ),
    "a head that was lost in saving": (
        {}, lambda f: drop(f, "classifier"), "missing", "head", "save_pretrained",
    ),
    "half a head": (
        SOUND["distilbert, modules named"], lambda f: drop(f, "pre_classifier"), "partly", "head",
        "pre_classifier",
    ),
    "other labels": (
        {}, lambda f: name_labels(f, "a", "b"), "whole", "labels", "2 labels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_named(write, fault):
    facts, breaks, head, kind, named = FAULTS[fault]
    folder = write(**facts)
    breaks(folder)
    report = look(folder)
    [found] = report.faults
    assert (found.kind, report.head) == (kind, head)
    assert named in f"{found.says} {found.hint}"


def test_a_base_model_that_is_not_here_is_said_and_no_fault(write):
    folder = write()
    configure(folder, base_model_name_or_path="nobody/here")
    found = look(folder)
    assert (found.is_whole, found.head, found.outputs) == (True, "unknown", 3)
    assert "nobody/here" in found.findings[0].says


def test_what_is_no_adapter_is_refused(write, tiny):
    with pytest.raises(CheckpointError):
        look(tiny())
    folder = write()
    with pytest.raises(ModelError):
        look(folder, "nobody/here")
    with use_limits(PUBLIC), pytest.raises(CheckpointError):
        check_folder(str(folder), "")
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(CheckpointError):
        look(folder)
    (folder / WEIGHTS).write_bytes(b"no tensors")
    with pytest.raises(CheckpointError):
        look(folder)


def test_shell_and_python_say_the_same(write, capsys):
    folder = write(task_type=None, target_modules=["query"])
    assert main(["adapter", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["head"] == heads.check_adapter(folder).head
    assert main(["adapter", str(folder)]) == 0
    assert "modules_to_save=['classifier']" in capsys.readouterr().out


def test_a_report_is_shown_by_notebook_and_shell(write):
    folder = write()
    configure(folder, base_model_name_or_path=HOSTILE)
    check_shown(look(folder))
