"""An 8-bit ONNX file gives the answers of the 32-bit one, or is not written at all."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from expected_errors import refusing
from quick_heads import classifiers
from tiny_models import WORDS

import heads
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, build
from heads.errors import CheckpointError, DataError, RecipeError
from heads.exporters import int8, onnx
from heads.exporters.int8 import write_int8
from heads.problem import REGRESSION

TEXTS = [" ".join(WORDS[start : start + length]) for start in range(6) for length in (1, 4, 9)]


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in onnx.PACKAGES:
        pytest.importorskip(name, reason=f"{name} is not installed (pip install -e .[onnx])")
    monkeypatch.setattr(int8, "LEAST_ROWS", 1)


@pytest.fixture
def fine(onnx_file, monkeypatch) -> Classifier:
    """A head whose 32-bit file is there already."""
    ours, report = onnx_file

    def copy_file(classifier: Classifier, path: Path) -> onnx.OnnxReport:
        shutil.copy(report.path, path)
        return replace(report, path=path)

    monkeypatch.setattr(onnx, "write_onnx", copy_file)
    return ours


@pytest.fixture
def unchanged(onnx_file, monkeypatch):
    """Every file is a copy of one in 32 bits, and is timed once."""
    ready = onnx_file[1].path
    monkeypatch.setattr(onnx, "write_file", lambda _, path, *more: shutil.copy(ready, path))
    monkeypatch.setattr(onnx, "verify_logits", lambda *given, **more: (1, 0.0))
    monkeypatch.setattr(int8, "_quantise", lambda backbone, *more: backbone)
    monkeypatch.setattr(int8, "REPEATS", 1)


def label_with_answers(classifier: Classifier, corpus: Corpus) -> Corpus:
    """Return the rows with the head's own answers as labels, so that its accuracy is 1."""
    logits = classifier.logits(corpus.texts, corpus.pairs)
    chosen = classifier.head.problem.chosen(logits, classifier.head.thresholds)
    targets = [tuple(row.nonzero().flatten().tolist()) for row in chosen]
    return replace(corpus, targets=tuple(targets), classes=classifier.classes)


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that mean nothing have no margins: their answers change with every rounding."""
    monkeypatch.setattr(int8, "LEAST_AGREEMENT", 0.8)


def test_a_file_in_8_bits_answers_as_the_32_bit_one(fine, rows, tmp_path, lenient, monkeypatch):
    import onnx as package
    import onnxruntime

    monkeypatch.setattr(int8, "CALIBRATION_ROWS", 20)
    path, corpus = tmp_path / "mine.onnx", label_with_answers(fine, rows)
    report = write_int8(fine, path, corpus, most_loss=0.2)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.onnx"]
    comparison = report.int8
    assert comparison is not None
    assert comparison.rows == len(corpus) - 20
    assert not comparison.is_training_data  # which the classifier does not know
    assert comparison.size_bytes == path.stat().st_size
    assert comparison.accuracy_float == 1.0
    assert comparison.accuracy == comparison.agreement >= 0.8
    assert 0.0 < comparison.largest_change < 0.2
    assert set(comparison.milliseconds) == set(comparison.milliseconds_float) == {1, 32}
    values = json.loads(json.dumps(report.as_json()))
    assert values["path"] == str(path)
    assert values["int8"]["agreement"] == comparison.agreement
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert report.inputs == tuple(value.name for value in session.get_inputs())
    facts = session.get_modelmeta().custom_metadata_map
    assert (json.loads(facts["classes"]), facts["precision"]) == (["x", "y", "z"], "int8")
    tokens = {name: t.numpy() for name, t in onnx.inputs(fine, corpus.texts).items()}
    [logits] = session.run(["logits"], tokens)
    assert (logits.argmax(axis=1) == [row[0] for row in corpus.targets]).mean() >= 0.8
    graph = package.load(path).graph
    stored = [package.numpy_helper.to_array(tensor) for tensor in graph.initializer]
    assert sum(t.dtype == np.int8 and t.ndim == 2 for t in stored) == 12  # 2 layers of 6
    assert any(t.dtype == np.float16 for t in stored)
    # Queries, keys and values of a layer share the 8 bits of their input.
    assert sum(node.op_type == "QuantizeLinear" for node in graph.node) == 2 * 4


@pytest.mark.parametrize(
    ("family", "recipe"),
    [("gpt2", ""), ("t5", ""), ("deberta-v2", ""), ("bert", "?pair=uv_diff"), ("bert", "labels")],
)
@pytest.mark.slow
def test_other_families_pairs_and_labels_are_quantised_too(
    family, recipe, rows, tiny, tmp_path, lenient
):
    backbone, second = load(str(tiny(family))), TEXTS[4:] + TEXTS[:4]
    if recipe == "labels":
        labels = [("", "a", "b", "a|b")[row % 4] for row in range(len(TEXTS))]
        rows = build("many", TEXTS, labels)
    elif recipe:
        rows = build("pairs", TEXTS, [("x", "y")[row % 2] for row in range(len(TEXTS))], second)
    options = recipe if recipe.startswith("?") else ""
    [ours] = classifiers([f"mean+linear{options}"], rows, backbone)
    corpus = label_with_answers(ours, rows)
    report = write_int8(ours, tmp_path / "mine.onnx", corpus, most_loss=0.2)
    assert report.int8 is not None
    assert (report.int8.rows, report.int8.accuracy_float) == (len(rows), 1.0)
    assert set(report.int8.milliseconds) == ({1} if family == "gpt2" else {1, 32})
    if options:
        with pytest.raises(RecipeError):
            write_int8(ours, tmp_path / "other.onnx", replace(corpus, pairs=()))


def test_the_next_level_is_tried_where_one_fails(fine, rows, tmp_path, unchanged, monkeypatch):
    levels: list[tuple[Any, ...]] = []

    def note(backbone: Backbone, ranges: int8.Ranges, *level: Any) -> Backbone:
        levels.append(level)
        return backbone

    def compare(*arguments: Any) -> dict[str, float]:
        share = 1.0 if len(levels) == 2 else 0.5
        return {"accuracy": share, "accuracy_float": 1.0, "agreement": 1.0, "largest_change": 0.0}

    monkeypatch.setattr(int8, "_quantise", note)
    monkeypatch.setattr(int8, "_compare", compare)
    write_int8(fine, tmp_path / "mine.onnx", rows)
    assert levels == list(int8.LEVELS[:2])


def test_a_file_that_loses_too_much_is_refused_with_figures(
    fine, rows, tmp_path, unchanged, monkeypatch
):
    path = tmp_path / "mine.onnx"
    path.write_bytes(b"older")
    monkeypatch.setattr(int8, "LEVELS", int8.LEVELS[:1])
    monkeypatch.setattr(int8, "LEAST_AGREEMENT", 1.01)
    with refusing(CheckpointError, "100.00% of 60 answers", longest=600):
        write_int8(fine, path, label_with_answers(fine, rows))
    assert path.read_bytes() == b"older"
    assert [file.name for file in tmp_path.iterdir()] == ["mine.onnx"]


@pytest.mark.parametrize("most_loss", [-0.1, 5.0, float("nan")])
def test_a_loss_that_is_no_share_is_refused(fine, rows, tmp_path, most_loss):
    with pytest.raises(RecipeError):
        write_int8(fine, tmp_path / "mine.onnx", rows, most_loss=most_loss)


def test_test_rows_are_compared_and_no_others(fine, rows):
    parts = tuple("test" if row % 3 else "train" for row in range(len(rows)))
    calibration, compared, notes = int8._split_rows(fine, replace(rows, parts=parts))
    test = [text for text, part in zip(rows.texts, parts, strict=True) if part == "test"]
    assert sorted(compared[0]) == sorted(test)
    assert len(calibration[0]) + len(compared[0]) == len(rows)
    assert not notes
    some = replace(rows, classes=("x", "y", "unknown"))
    count = sum(rows.classes[label] != "z" for (label,) in rows.targets)
    assert len(int8._split_rows(fine, some)[1][0]) == count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "LEAST_ROWS", count + 1)
        with pytest.raises(RecipeError):
            int8._split_rows(fine, some)


def test_probabilities_are_those_of_the_temperature_and_nan_is_no_answer(fine, rows):
    rows = [*rows.texts[:2]], [], torch.tensor([0, 1])
    full, other = torch.tensor([[2.0, 0, 0], [0, 2.0, 0]]), torch.tensor([[1.9, 0, 0], [0, 2.1, 0]])
    scaled = replace(fine, head=replace(fine.head, temperature=0.5))
    figures = int8._compare(scaled, other, full, rows)
    change = (other / 0.5).softmax(dim=1) - (full / 0.5).softmax(dim=1)
    assert figures["largest_change"] == pytest.approx(float(change.abs().max()))
    assert (figures["accuracy"], figures["agreement"]) == (1.0, 1.0)
    assert int8._compare(scaled, other * torch.nan, full, rows)["agreement"] == 0.0


def test_numbers_and_foreign_labels_are_refused(fine, rows, tmp_path):
    numbers = Classifier(backbone=fine.backbone, head=replace(fine.head, problem=REGRESSION))
    foreign = replace(rows, classes=tuple(f"not {name}" for name in rows.classes))
    for classifier, corpus in ((fine, foreign), (numbers, rows)):
        with pytest.raises(RecipeError):
            write_int8(classifier, tmp_path / "mine.onnx", corpus)
    assert not any(tmp_path.iterdir())


def test_a_head_knows_its_rows(tiny, tmp_path, unchanged):
    classifier = heads.train("mean+linear", "sentiment", model=str(tiny("bert")))
    path = tmp_path / "mine.onnx"
    report = heads.export_onnx(classifier, path, int8=True, most_loss=1.0)
    assert report.int8 is not None
    assert report.int8.is_training_data


def test_a_loaded_head_is_given_rows(fine, rows, tmp_path, unchanged):
    path: Path = tmp_path / "rows.jsonl"
    values = zip(rows.texts, rows.labels, strict=True)
    path.write_text("\n".join(json.dumps({"text": t, "label": y}) for t, y in values), "utf-8")
    with refusing(DataError, "rows="):
        heads.export_onnx(fine, tmp_path / "mine.onnx", int8=True)
    with refusing(DataError, "int8=True"):
        heads.export_onnx(fine, tmp_path / "mine.onnx", rows=path)
    report = heads.export_onnx(fine, tmp_path / "mine.onnx", int8=True, rows=path, most_loss=1.0)
    assert report.int8 is not None
    assert report.int8.rows == len(rows)
    assert not report.int8.is_training_data
