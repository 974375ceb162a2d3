"""Adapters as PEFT writes them: sound ones pass, and what is wrong with others is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from shown_results import HOSTILE, check_shown
from tiny_models import rewrite

import heads
from heads.errors import CheckpointError, ModelError
from heads.extras.serving.adapter import WEIGHTS, check_folder
from heads.extras.serving.report import AdapterReport
from heads.interfaces.cli.app import main
from heads.settings import PUBLIC, use_limits

Write = Callable[..., Path]


@pytest.fixture
def write(tiny: Callable[..., Path], tmp_path: Path) -> Write:
    """Writes an adapter by PEFT, its matrices filled as if it had learned."""
    import peft
    from transformers import AutoModelForSequenceClassification

    def of(
        family: str = "bert",
        base: Path | None = None,
        labels: int = 3,
        config: str = "LoraConfig",
        **facts: Any,
    ) -> Path:
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(
            base or tiny(family), num_labels=labels
        )
        usual: dict[str, Any] = {"task_type": "SEQ_CLS"}
        if config == "LoraConfig":
            usual |= {"r": 4, "target_modules": "all-linear"}
        found = peft.get_peft_model(model, getattr(peft, config)(**usual | facts))
        for name, own in found.named_parameters():
            if "lora_B" in name or "lora_E" in name:
                torch.nn.init.normal_(own)
        found.save_pretrained(str(tmp_path / "adapter"), save_embedding_layers=False)
        return tmp_path / "adapter"

    return of


def look(folder: Path, base: str = "") -> AdapterReport:
    return check_folder(str(folder), base)


SOUND: dict[str, dict[str, Any]] = {
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
        "config": "AdaLoraConfig",
        "target_modules": ["query", "value"],
        "init_r": 6,
        "target_r": 2,
        "total_step": 10,
    },
}
IN_PART: dict[str, dict[str, Any]] = {
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
def test_a_sound_adapter_is_not_blamed(write: Write, name: str) -> None:
    found = look(write(**SOUND[name]))
    assert found.is_whole, found.findings
    assert (found.head, found.outputs) == ("whole", 3)
    assert found.verdict == "Adapter and head are both here: a classifier of 3 outputs."
    [note] = found.findings
    assert note.says == "The names of its 3 labels are not in the folder."


@pytest.mark.parametrize("kind", IN_PART)
def test_of_other_kinds_head_and_labels_are_judged_and_no_more(write: Write, kind: str) -> None:
    folder = write(**IN_PART[kind])
    found = look(folder)
    assert found.is_whole, found.findings
    assert (found.kind, found.head, found.outputs, found.learned) == (kind, "whole", 3, ())
    says = [one.says for one in found.findings]
    assert f"an adapter of the kind {kind} are not checked" in says[0]
    name_labels(folder, "a", "b")
    assert "names 2 labels" in look(folder).findings[0].says
    drop(folder, "classifier")
    assert look(folder).head == "missing"


def test_labels_beside_it_are_read(write: Write) -> None:
    folder = write()
    name_labels(folder, "no", "maybe", "yes")
    found = look(folder)
    assert (found.labels, found.findings) == (("no", "maybe", "yes"), ())


def test_an_adapter_of_a_trained_classifier_need_not_bring_its_head(
    write: Write, tiny: Callable[..., Path]
) -> None:
    base = tiny("bert", "ForSequenceClassification")
    found = look(write(base=base, labels=2, task_type=None, target_modules=["query"]))
    assert found.is_whole, found.findings
    assert found.verdict.endswith("whose head is in the base model's own files.")


def drop(folder: Path, part: str) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file({n: own for n, own in tensors.items() if part not in n}, folder / WEIGHTS)


def configure(folder: Path, **values: Any) -> None:
    rewrite(folder / "adapter_config.json", **values)


def name_labels(folder: Path, *labels: str) -> None:
    names = {str(number): label for number, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": names}), "utf-8")


def change(folder: Path, part: str, to: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensors = load_file(folder / WEIGHTS)
    changed = {n: to(own).contiguous() if part in n else own for n, own in tensors.items()}
    save_file(changed, folder / WEIGHTS)


def test_an_adapter_of_another_base_model_is_told(write: Write, tiny: Callable[..., Path]) -> None:
    folder = write()
    told = " ".join(one.says for one in look(folder, str(tiny("roberta"))).findings)
    assert "It is of another base model: in RobertaForSequenceClassification there is no" in told
    change(folder, "lora_A", lambda own: torch.cat([own, own], dim=1))
    told = " ".join(one.says for one in look(folder).findings if one.weight == "fault")
    assert "It is of another base model: in BertForSequenceClassification" in told


UNSAVED = {"task_type": None, "target_modules": ["query"]}
FAULTS: dict[str, tuple[dict[str, Any], Callable[[Path], object], str, str]] = {
    "nothing learned": (
        {}, lambda f: change(f, "lora_B", torch.zeros_like), "whole", "every lora_B is 0",
    ),
    "adalora has not learned": (
        SOUND["bert, adalora"], lambda f: change(f, "lora_E", torch.zeros_like), "whole",
        "every lora_E is 0",
    ),
    "nan": (
        {}, lambda f: change(f, "lora_A", lambda own: own * torch.nan), "whole", "NaN or infinity",
    ),
    "rank": ({}, lambda f: configure(f, r=16), "whole", "rank 4, and its config says r=16"),
    "no base": (
        {}, lambda f: configure(f, base_model_name_or_path=None), "unknown", "names no base model",
    ),
    "a folder elsewhere": (
        {}, lambda f: configure(f, base_model_name_or_path="/content/base"), "unknown",
        "the folder /content/base, which is not on this machine",
    ),
    "a head that nobody asked for": (
        UNSAVED, lambda f: None, "missing",
        "Its config has neither task_type=SEQ_CLS nor modules_to_save: the head was neither "
        "learned nor saved, and is random at every load. Train it with "
        "modules_to_save=['classifier'].",
    ),
    "a module of another family": (
        UNSAVED, lambda f: configure(f, modules_to_save=["score"]), "missing",
        "names score, and the head of BertForSequenceClassification is classifier",
    ),
    "a head that was lost in saving": (
        {}, lambda f: drop(f, "classifier"), "missing",
        "the file has no tensor of it: it was lost",
    ),
    "half a head": (
        SOUND["distilbert, modules named"], lambda f: drop(f, "pre_classifier"), "partly",
        "Part of the head is not in the folder (pre_classifier)",
    ),
    "other labels": (
        {}, lambda f: name_labels(f, "a", "b"), "whole",
        "The head gives 3 logits, and its config.json names 2 labels.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_named(write: Write, fault: str) -> None:
    facts, breaks, head, says = FAULTS[fault]
    folder = write(**facts)
    breaks(folder)
    report = look(folder)
    [found] = [one for one in report.findings if one.weight == "fault"]
    assert says in f"{found.says} {found.hint}"
    assert report.head == head


def test_a_base_model_that_is_not_here_is_said_and_no_fault(write: Write) -> None:
    folder = write()
    configure(folder, base_model_name_or_path="nobody/here")
    found = look(folder)
    assert (found.is_whole, found.head, found.outputs) == (True, "unknown", 3)
    assert "nobody/here is not on this machine" in found.findings[0].says


def test_what_is_no_adapter_is_told(write: Write, tiny: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"no adapter_config\.json"):
        look(tiny())
    folder = write()
    with pytest.raises(ModelError, match="nobody/here is not on this machine"):
        look(folder, "nobody/here")
    with use_limits(PUBLIC), pytest.raises(CheckpointError, match="There is no folder"):
        check_folder(str(folder), "")
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match="only a pickled one, which is never opened"):
        look(folder)
    (folder / WEIGHTS).write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match="cannot be read"):
        look(folder)


def test_shell_and_python_say_the_same(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(task_type=None, target_modules=["query"])
    assert main(["adapter", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["head"] == heads.check_adapter(folder).head
    assert main(["adapter", str(folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("This adapter is no whole classifier: 1 fault.")
    assert "Train it with modules_to_save=['classifier']." in told


def test_a_report_is_shown_by_notebook_and_shell(write: Write) -> None:
    folder = write()
    configure(folder, base_model_name_or_path=HOSTILE)
    check_shown(look(folder))
