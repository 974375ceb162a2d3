"""A head in a file of its own: what fits is read, whatever else gets one sentence."""

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import slow
import torch
from expected_errors import refusing
from quick_heads import trained
from safetensors.torch import save_file
from tiny_models import rewrite
from torch import Tensor

import heads
from heads.backbone.loading import load as load_backbone
from heads.errors import CheckpointError, RecipeError
from heads.settings import PUBLIC, Limits, use_limits

LABELS = {"labels": json.dumps(["neg", "pos"])}
# What the error of each of the hostile files names, as its list of expectations says.
EXPECTED = {
    **dict.fromkeys(("h01", "h02", "h03", "h04", "h05"), "safetensors"),
    **dict.fromkeys(("h07", "h08"), "labels"),
    "h09": "unexpected tensors",
    "h10": "twice",
    **dict.fromkeys(("h11", "h12"), "NaN or Inf"),
    "h13": "768; the chosen model has 384",
    "h14": "3 rows, and the file names 2 labels",
    "h15": "classifier.bias",
    "h16": "labels",
    "h18": "'../../etc/passwd'",
    "h19": "JSON list",
    "h20": "'evil-org/evil-model'",
    "h21": "encoder.layer.0.weight",
    "h22": "labels",
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


def test_a_head_is_put_onto_the_base_model(tmp_path):
    path = saved(tmp_path / "head.safetensors", linear())
    found = heads.load(path)
    named = saved(tmp_path / "named.safetensors", linear(), base_model="all-MiniLM-L6-v2")
    assert heads.load(named).classes == found.classes
    assert (str(found.recipe), found.classes) == ("mean+linear", ("neg", "pos"))
    assert repr(found) == "<Classifier mean+linear on all-MiniLM-L6-v2: 2 outputs>"
    states = found.backbone.states(found.backbone.encode(["Not bad."]))
    pooled = states.hidden[-1].mean(dim=1)  # one text: no padding
    wanted = torch.nn.functional.linear(pooled, *linear().values())
    torch.testing.assert_close(found.logits(["Not bad."]), wanted)


def test_names_of_a_transformers_checkpoint_are_understood(tmp_path):
    trained = heads.train("cls+roberta", "sentiment").head.module.head.state_dict()
    tensors = {f"classifier.{name}": tensor for name, tensor in trained.items()}
    path = tmp_path / "head.safetensors"
    save_file(tensors, path, metadata={"labels": json.dumps(["a", "b", "c"])})
    found = heads.load(path, recipe="cls+roberta")
    assert all(torch.equal(t, trained[n]) for n, t in found.head.module.head.state_dict().items())
    with refusing(CheckpointError, "classifier.weight"):
        heads.load(path)


@pytest.mark.parametrize(
    ("change", "metadata", "names"),
    [
        (lambda t: t | {"more": torch.ones(1)}, {}, ["more"]),
        (lambda t: {n: v for n, v in t.items() if "bias" not in n}, {}, ["classifier.bias"]),
        (lambda t: {n: v.half() for n, v in t.items()}, {}, ["float32"]),
        (lambda t: linear(3), {}, ["3 rows", "2 labels"]),
        (lambda t: linear(width=768), {}, ["768", "384"]),
        (lambda t: {n: v / 0 for n, v in t.items()}, {}, ["NaN or Inf"]),
        *((dict, {"labels": labels}, ["JSON list"]) for labels in ("{{{", '"pos"', "[1, 2]")),
        (dict, {"labels": '["a"]'}, ["two labels"]),
        (dict, {"base_model": "some/one"}, ["'some/one'", "all-MiniLM-L6-v2"]),
    ],
)
def test_tensors_labels_and_base_models_that_do_not_fit_are_refused(
    tmp_path, change, metadata, names
):
    path = saved(tmp_path / "head.safetensors", change(linear()), **metadata)
    with refusing(CheckpointError, *names) as refused:
        heads.load(path)
    assert str(tmp_path) not in str(refused.value)


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
def test_a_portable_folder_whose_facts_are_no_facts_is_refused(tmp_path, change):
    """Such folders are no longer written; those that were are still read."""
    kept = Path(__file__).parents[1] / "kept_heads" / "export-1"
    folder = Path(shutil.copytree(kept, tmp_path / "out"))
    classes = json.loads((folder / "head.json").read_text("utf-8"))["classes"]
    thresholds = [0.5, 0.0, -1.5][: len(classes)]
    rewrite(folder / "head.json", thresholds=thresholds, temperature=2)
    found = heads.load(folder).head
    assert (found.thresholds, found.temperature) == (tuple(thresholds), 2.0)
    rewrite(folder / "head.json", **change)
    with refusing(CheckpointError, "out"):
        heads.load(folder)


@pytest.mark.parametrize("recipe", ["mean+logistic", "mean+logistic?long=windows&stride=4"])
def test_an_export_reads_as_much_of_a_text_as_when_it_was_written(tmp_path, tiny, rows, recipe):
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


def test_what_is_not_there_or_not_allowed_or_no_file_says_so(tmp_path):
    path = tmp_path / "head.safetensors"
    for content in (struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 5) + b"[1,2]"):
        path.write_bytes(content)
        with refusing(CheckpointError, "safetensors"):
            heads.load(path)
    with refusing(CheckpointError, longest=600) as missing:
        heads.load(tmp_path / "none.safetensors")
    saved(path, linear())
    with use_limits(PUBLIC), refusing(CheckpointError, longest=600) as public:
        heads.load(path)
    sentences = [str(one.value).partition(str(tmp_path))[0] for one in (missing, public)]
    assert sentences[0] == sentences[1]  # in public nobody learns what lies here
    with refusing(RecipeError, "'linear'"):
        heads.load(path, recipe="mean+linaer")


def test_every_hostile_head_gets_its_sentence(shared):
    files = sorted((shared / "hostile").glob("h*.safetensors"))
    assert [path.name[:3] for path in files] == list(EXPECTED)
    for path in files:
        with refusing(CheckpointError, EXPECTED[path.name[:3]]):
            heads.load(path)
