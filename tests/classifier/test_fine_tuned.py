"""A checkpoint that was fine-tuned as a classifier is known by its tensors, wherever it is used."""

import json
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from safetensors.torch import load_file, save_file
from tiny_models import FORMS, save_tiny, write_classifier

import heads
from heads.api import train_grid
from heads.backbone.loading import load
from heads.classifier.pretrained import is_fine_tuned
from heads.data.corpus import Corpus
from heads.interfaces.cli.app import main
from heads.interfaces.result import html
from heads.interfaces.views.report import report
from heads.settings import ExperimentConfig

QUICK = ExperimentConfig(folds=2, learning_rate=0.02, steps=6, standardise="no", curve=False)


def known(folder: Path) -> bool:
    return is_fine_tuned(load(str(folder)))


@pytest.mark.parametrize("model_type", slow.but([*FORMS], "bert", "gpt2", "bart", "xlnet"))
def test_every_family_is_known_by_the_last_layer_of_its_classifier(tmp_path, model_type):
    assert known(write_classifier(tmp_path / "ft", model_type))


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("bert", "Model"),
        ("bert", "ForPreTraining"),
        ("bert", "ForTokenClassification"),
        ("roberta", "ForMaskedLM"),
        ("modernbert", "ForMaskedLM"),
        ("gpt2", "LMHeadModel"),
    ],
)
def test_a_pooler_and_other_heads_are_no_trained_classifier(tmp_path, family, kind):
    assert not known(_random(save_tiny(tmp_path / "base", family, kind)))


def _random(folder: Path) -> Path:
    """Makes every tensor of a checkpoint random, biases as well: as if it had been trained."""
    tensors = load_file(folder / "model.safetensors")
    torch.manual_seed(0)
    learned = {name: torch.randn_like(tensor) * 0.1 for name, tensor in tensors.items()}
    save_file(learned, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_classifier_that_was_never_trained_is_none(tmp_path):
    folder = write_classifier(tmp_path / "new", "bert")
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"].zero_()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert not known(folder)


def test_the_bundled_model_is_none(backbone):
    assert not is_fine_tuned(backbone)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    return write_classifier(tmp_path / "ft", "bert")


@pytest.fixture
def file(tmp_path: Path, rows: Corpus) -> Path:
    lines = [
        f"{text},{rows.classes[row[0]]}" for text, row in zip(rows.texts, rows.targets, strict=True)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["text,label", *lines]), "utf-8")
    return path


def test_every_view_of_a_run_warns_before_its_numbers(tuned, file, tmp_path):
    board = train_grid(str(file), recipes=["mean+linear"], model=str(tuned), config=QUICK)
    assert board.warning
    assert board.as_json()["warning"] == board.warning
    for view in (html(board), report(board)):
        assert 0 < view.index(board.warning) < view.index("mean+linear")
    heads.export(board.classifier(), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    scores = card.index("## How well it does")
    assert scores < card.index(board.warning) < card.index("95 % interval", scores)
    assert board.warning in html(board.classifier())
    compared = heads.compare("the cat", recipes=["mean+linear"], run=board.run, model=str(tuned))
    assert board.warning in compared.notes


def test_the_shell_warns_before_anything_is_trained(tuned, file, capfd):
    wanted = ("train", str(file), "-r", "mean+linear", "--folds", "2", "--no-curve")
    assert main([*wanted, "--model", str(tuned)]) == 0
    out, err = capfd.readouterr()
    warned = [number for number, line in enumerate(err.splitlines()) if "warning" in line]
    trained = [number for number, line in enumerate(err.splitlines()) if "mean+linear" in line]
    assert warned[0] < trained[0]
    assert out.lstrip().startswith("Warning")


def test_a_model_that_was_not_fine_tuned_has_no_warning(tiny, file):
    board = train_grid(str(file), recipes=["mean+linear"], model=str(tiny()), config=QUICK)
    assert not board.warning
    assert "Warning" not in html(board)


def test_a_given_test_set_is_named_by_the_warning(tuned, file):
    given: dict[str, Any] = {"recipes": ["mean+linear"], "model": str(tuned), "config": QUICK}
    board = train_grid(str(file), test=str(file), **given)
    assert board.warning
    assert board.warning != train_grid(str(file), **given).warning
    assert json.loads((board.folder.path / "leaderboard.json").read_text())["warning"]
