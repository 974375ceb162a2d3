"""A head in a file of its own: what fits is read, whatever else gets one sentence."""

import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from quick_heads import trained
from safetensors.torch import save_file
from tiny_models import rewrite
from torch import Tensor

import heads
from heads.backbone.loading import load as load_backbone
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, RecipeError
from heads.settings import PUBLIC, Limits, use_limits

LABELS = {"labels": json.dumps(["neg", "pos"])}
# What each of the hostile files must get, as its list of expectations says.
EXPECTED = {
    "h01": "is not a safetensors file",
    "h02": "is not a safetensors file",
    "h03": "is not a safetensors file",
    "h04": "is not a safetensors file",
    "h05": "is not a safetensors file",
    "h07": "does not name its labels",
    "h08": "does not name its labels",
    "h09": "unexpected tensors",
    "h10": "twice",
    "h11": "hold NaN or Inf",
    "h12": "hold NaN or Inf",
    "h13": "needs hidden size 768; the chosen model has 384",
    "h14": "has 3 rows, and the file names 2 labels",
    "h15": "lacks the tensor classifier.bias",
    "h16": "does not name its labels",
    "h18": "was made for '../../etc/passwd'",
    "h19": "no JSON list",
    "h20": "was made for 'evil-org/evil-model'",
    "h21": "unexpected tensors, encoder.layer.0.weight",
    "h22": "does not name its labels",
}


def linear(classes: int = 2, width: int = 384) -> dict[str, Tensor]:
    places = torch.arange(classes * width).reshape(classes, width)
    return {
        "classifier.weight": (places % 7 - 3) / 50,
        "classifier.bias": torch.tensor([0.1, -0.2, 0.3][:classes]),
    }


def saved(path: Path, tensors: dict[str, Tensor], **metadata: str) -> Path:
    save_file(tensors, path, metadata=LABELS | metadata)
    return path


def test_a_head_is_put_onto_the_base_model(tmp_path: Path) -> None:
    path = saved(tmp_path / "head.safetensors", linear())
    found = heads.load(path)
    assert (str(found.recipe), found.classes) == ("mean+linear", ("neg", "pos"))
    assert repr(found) == "<Classifier mean+linear on all-MiniLM-L6-v2: 2 outputs>"
    states = found.backbone.states(found.backbone.encode(["Not bad."]))
    pooled = states.hidden[-1].mean(dim=1)  # one text: no padding
    wanted = torch.nn.functional.linear(pooled, *linear().values())
    torch.testing.assert_close(found.logits(["Not bad."]), wanted)


def test_names_of_a_transformers_checkpoint_are_understood(tmp_path: Path) -> None:
    trained = heads.train("cls+roberta", "sentiment").head.module.head.state_dict()
    tensors = {f"classifier.{name}": tensor for name, tensor in trained.items()}
    path = tmp_path / "head.safetensors"
    save_file(tensors, path, metadata={"labels": json.dumps(["a", "b", "c"])})
    found = heads.load(path, recipe="cls+roberta")
    assert all(torch.equal(t, trained[n]) for n, t in found.head.module.head.state_dict().items())
    with pytest.raises(CheckpointError, match=r"lacks the tensor classifier\.weight"):
        heads.load(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t | {"more": torch.ones(1)}, "unexpected tensors, more"),
        (lambda t: {n: v for n, v in t.items() if "bias" not in n}, r"lacks .*classifier\.bias"),
        (lambda t: {n: v.half() for n, v in t.items()}, "not in float32"),
        (lambda t: linear(3), "has 3 rows, and the file names 2 labels"),
        (lambda t: linear(width=768), "needs hidden size 768; the chosen model has 384"),
        (lambda t: {n: v / 0 for n, v in t.items()}, "NaN or Inf"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], sentence: str
) -> None:
    path = saved(tmp_path / "head.safetensors", change(linear()))
    with pytest.raises(CheckpointError, match=sentence) as refused:
        heads.load(path)
    assert "\n" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("{{{", "no JSON list"),
        ('"pos"', "no JSON list"),
        ("[1, 2]", "no JSON list"),
        ('["a"]', "fewer"),
    ],
)
def test_labels_that_are_none_are_refused(tmp_path: Path, labels: str, sentence: str) -> None:
    path = saved(tmp_path / "head.safetensors", linear(), labels=labels)
    with pytest.raises(CheckpointError, match=sentence):
        heads.load(path)


def test_the_base_model_that_it_names_is_only_compared(tmp_path: Path) -> None:
    path = saved(tmp_path / "head.safetensors", linear(), base_model="all-MiniLM-L6-v2")
    assert heads.load(path).classes == ("neg", "pos")
    path = saved(tmp_path / "other.safetensors", linear(), base_model="some/one")
    with pytest.raises(CheckpointError, match="made for 'some/one', not for all-MiniLM-L6-v2"):
        heads.load(path)


@pytest.mark.parametrize(
    "change",
    slow.but_each(
        3,
        [
            {"temperature": 0.0},
            {"temperature": float("nan")},
            {"temperature": float("inf")},
            {"temperature": "2"},
            {"thresholds": [0.5]},
            {"thresholds": [0.5, 0.5, "x"]},
            {"thresholds": 0.5},
        ],
    ),
    ids=str,
)
def test_a_portable_folder_whose_facts_are_no_facts_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Such folders are no longer written; those that were are still read."""
    kept = Path(__file__).parents[1] / "kept_heads" / "export-1"
    folder = Path(shutil.copytree(kept, tmp_path / "out"))
    classes = json.loads((folder / "head.json").read_text("utf-8"))["classes"]
    thresholds = [0.5, 0.0, -1.5][: len(classes)]
    rewrite(folder / "head.json", thresholds=thresholds, temperature=2)
    found = heads.load(folder).head
    assert (found.thresholds, found.temperature) == (tuple(thresholds), 2.0)
    rewrite(folder / "head.json", **change)
    with pytest.raises(CheckpointError, match="out is not an export that can be read"):
        heads.load(folder)


@pytest.mark.parametrize("recipe", ["mean+logistic", "mean+logistic?long=windows&stride=4"])
def test_an_export_reads_as_much_of_a_text_as_when_it_was_written(
    tmp_path: Path, tiny: Callable[..., Path], rows: Corpus, recipe: str
) -> None:
    narrow = Limits(tokens=12, windows=3)  # of the 40 that the base model could read
    with use_limits(narrow):
        backbone = load_backbone(str(tiny()))
    [head] = trained([recipe], rows, backbone)
    ours = heads.Classifier(backbone=backbone, head=head)
    heads.export(ours, tmp_path / "out")
    theirs = heads.load(tmp_path / "out")
    assert theirs.backbone.tokens == 12
    assert theirs.backbone.windows == (3 if "windows" in recipe else Limits().windows)
    long = ["the cat sat on a mat " * 2 + "the flight was cancelled twice " * 20]
    assert torch.equal(theirs.logits(long), ours.logits(long))
    assert not torch.equal(
        replace(ours, backbone=load_backbone(str(tiny()))).logits(long),
        ours.logits(long),
    )


def test_a_header_that_promises_more_than_there_is_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "head.safetensors"
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        heads.load(path)
    path.write_bytes(struct.pack("<Q", 5) + b"[1,2]")
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        heads.load(path)


def test_what_is_not_there_or_not_allowed_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no file"):
        heads.load(tmp_path / "none.safetensors")
    path = saved(tmp_path / "head.safetensors", linear())
    with use_limits(PUBLIC), pytest.raises(CheckpointError, match="There is no file"):
        heads.load(path)
    with pytest.raises(RecipeError, match="Did you mean"):
        heads.load(path, recipe="mean+linaer")


def test_every_hostile_head_gets_its_sentence(shared: Path) -> None:
    files = sorted((shared / "hostile").glob("h*.safetensors"))
    assert [path.name[:3] for path in files] == list(EXPECTED)
    for path in files:
        with pytest.raises(CheckpointError) as refused:
            heads.load(path)
        assert EXPECTED[path.name[:3]] in str(refused.value)
