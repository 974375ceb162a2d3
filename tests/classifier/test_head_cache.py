"""A trained head is kept and found again bit by bit; a file that is not one does no harm."""

import json
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from expected_errors import refusing
from full_disk import full_disk
from quick_heads import QUICK
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from heads import caching
from heads.backbone.backbone import Backbone
from heads.classifier import head_cache
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.data.corpus import Corpus, build
from heads.errors import CheckpointError
from heads.parts.resolve import head as heads_shelf
from heads.parts.resolve import layers as layers_shelf
from heads.parts.resolve import pooling as poolings_shelf
from heads.parts.resolve import resolve
from heads.problem import MULTI_LABEL, REGRESSION
from heads.settings import ExperimentConfig, Limits, use_limits

EVERY_HEAD = [f"mean+{name}" for name in heads_shelf]
EVERY_POOLING = [f"{name}+linear" for name in poolings_shelf]
EVERY_LAYERS = [f"mean@{name}+linear" for name in (*layers_shelf, "0", "1") if name != "decoder"]
WITH_OPTIONS = [
    "attention+mlp?activation=tanh&dropout=0.2&hidden=7&queries=3",
    "mean@mix+bert",
    "cls_mean@cat4+multi_sample_dropout?samples=2",
    "flatten+knn?k=3&length=4",
    "mean+cosine?scale=7.5",
    "mean+linear?loss=ovr",
    "mean+logistic?loss=ovr",
    "mean+linear?pair=uv_diff",
    "cls+mlp?loss=ovr&pair=diff_prod",
]
RECIPES = list(dict.fromkeys((*EVERY_HEAD, *EVERY_POOLING, *EVERY_LAYERS, *WITH_OPTIONS)))
TEXTS = ("the cat sat", "it was late and the flight was cancelled twice")


@pytest.fixture
def heads(trained: Callable[..., Classifier]) -> Callable[[str], TrainedHead]:
    def head(name: str) -> TrainedHead:
        linear, numbers = trained("mean+linear", "ordered").head, (0.5, -1.0, 0.0)
        if name == "tuned":
            return replace(linear, problem=MULTI_LABEL, temperature=1.7, thresholds=numbers)
        if name == "numbers":
            return replace(linear, problem=REGRESSION)
        if name == "several labels":
            return trained("mean+centroid", "labels").head
        return trained(name, "pairs" if "pair=" in name else "ordered").head

    return head


@pytest.fixture
def logits(small: Backbone) -> Callable[[TrainedHead], Tensor]:
    first, second = (small.states(small.encode(texts)) for texts in (TEXTS, TEXTS[::-1]))

    def answer(head: TrainedHead) -> Tensor:
        with torch.no_grad():
            return head.module(first, second) if head.module.is_siamese else head.module(first)

    return answer


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, on disk and in memory."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(head_cache, "_recent", OrderedDict())
    return tmp_path / "cache"


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(head_cache, "_recent", OrderedDict())


# Round trips


@pytest.mark.parametrize(
    "recipe", [*slow.but_each(3, RECIPES), "several labels", "tuned", "numbers"]
)
def test_a_head_comes_back_bit_by_bit(heads, small, tmp_path, logits, recipe):
    head, path = heads(recipe), tmp_path / "head.safetensors"
    head_cache.save(head, path)
    again = head_cache.load(path, small)
    assert torch.equal(logits(head), logits(again))
    names = "recipe model classes problem trained_on rows scores training temperature thresholds"
    for name in names.split():
        assert getattr(again, name) == getattr(head, name), name
    assert again.module.width == head.module.width
    assert again.parameters == head.parameters
    assert not again.module.training
    assert not any(weight.requires_grad for weight in again.module.parameters())


@pytest.mark.parametrize("tune", ["full", "last1", "lora"])
def test_what_was_learned_of_the_base_model_comes_back(small, trained, tmp_path, tune):
    head = trained(f"mean+linear?tune={tune}").head
    head_cache.save(head, tmp_path / "head.safetensors")
    again = head_cache.load(tmp_path / "head.safetensors", small)
    assert head.base is not None
    assert again.base is not None
    assert (again.base.tune, again.base.digest) == (tune, head.base.digest)
    assert again.base.adapter == head.base.adapter
    assert again.base_parameters == head.base_parameters > 0
    assert again.facts == head.facts
    ours, theirs = (Classifier(backbone=small, head=one) for one in (head, again))
    assert torch.equal(ours.logits(TEXTS), theirs.logits(TEXTS))


def test_a_file_names_its_tensors_as_the_head_does(heads, tmp_path):
    head_cache.save(heads("mean@mix+bert"), tmp_path / "head.safetensors")
    assert set(load_file(tmp_path / "head.safetensors")) == {
        "reader.layers.scores",
        "reader.layers.scale",
        "head.pooler.dense.weight",
        "head.pooler.dense.bias",
        "head.classifier.weight",
        "head.classifier.bias",
    }


# Files that are none


def facts_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as opened:
        return json.loads((opened.metadata() or {})[head_cache.KEY])


def rewrite(path: Path, **values: Any) -> None:
    facts = facts_of(path) | values
    save_file(load_file(path), path, metadata={head_cache.KEY: json.dumps(facts)})


def change_tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        facts, tensors = facts_of(path), load_file(path)
        change(tensors)
        save_file(tensors, path, metadata={head_cache.KEY: json.dumps(facts)})

    return spoil


def put_facts(text: str) -> Callable[[Path], None]:
    return lambda path: save_file(load_file(path), path, metadata={head_cache.KEY: text})


SCORES = ("rows", "accuracy", "low", "high", "majority")
FACTS: list[dict[str, Any]] = [
    *({"version": value} for value in (2, 99, None)),
    {"model": "another/model"},
    *({"recipe": value} for value in ("cls+bert", "mean+nothing", "mean+linear?queries=1", 5)),
    {"recipe": "mean@9+linear"},
    {"recipe": "mean+knn", "problem_type": "multi_label_classification"},
    {"recipe": "flatten+roberta?length=4096"},
    *({"classes": value} for value in (5, [], ["x"], ["x", "y"], [*"xyzw"], [1, 2, 3])),
    *({"scores": value} for value in ([], {"rows": 1}, dict.fromkeys(SCORES, "x"))),
    {"scores": dict.fromkeys((*SCORES, "metric"), 1)},
    {"training": {"seed": [1]}},
    *({"temperature": value} for value in ("x", 0.0)),
    *({"thresholds": value} for value in (3, [0.5], ["x", "y", "z"])),
]
SPOIL: dict[str, Callable[[Path], object]] = {
    **{
        f"bytes {content[:4]!r}": lambda path, content=content: path.write_bytes(content)
        for content in (b"", b"\x00" * 100, b"text,label\n", b"\x80\x04N.", b"\xff" * 200)
    },
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    **{f"{values}"[:60]: lambda path, own=values: rewrite(path, **own) for values in FACTS},
    **{f"facts {t[:6]}": put_facts(t) for t in ("", "[]", "5", "null", "[" * 100_000, "{}")},
    "lacks a tensor": change_tensors(lambda tensors: tensors.pop("head.classifier.bias")),
    "one tensor more": change_tensors(lambda t: t.update({"head.evil": torch.zeros(3)})),
    "shape": change_tensors(lambda t: t.update({"head.classifier.bias": torch.zeros(4)})),
    **{
        f"{number}": change_tensors(lambda t, n=number: [own.fill_(n) for own in t.values()])
        for number in (math.nan, math.inf)
    },
}


@pytest.mark.parametrize("spoil", SPOIL)
def test_a_file_that_is_no_head_is_refused_and_counts_as_none(
    heads, small, own_cache, restart, spoil
):
    key = "b" * 40
    head_cache.keep(key, heads("mean+linear"))
    path = own_cache / "heads" / f"{key}.safetensors"
    SPOIL[spoil](path)
    restart()
    with refusing(CheckpointError) as refused:
        head_cache.load(path, small)
    assert refused.value.hint
    assert str(path.parent) not in str(refused.value)
    assert head_cache.recall(key, small) is None
    if not path.is_dir():
        head_cache.keep(key, heads("mean+linear"))
        restart()
        assert head_cache.recall(key, small) is not None


# Kept and found again


def test_what_is_kept_is_found_in_memory_and_after_a_restart(
    heads, small, own_cache, restart, logits
):
    head = heads("attention+linear")
    assert head_cache.recall("a" * 40, small) is None
    head_cache.keep("a" * 40, head)
    assert head_cache.recall("a" * 40, small) is head
    restart()
    again = head_cache.recall("a" * 40, small)
    assert again is not None
    assert again is not head
    assert torch.equal(logits(again), logits(head))
    assert [path.name for path in (own_cache / "heads").iterdir()] == [f"{'a' * 40}.safetensors"]


def test_a_head_kept_in_a_larger_place_counts_as_none_in_a_smaller_one(
    heads, small, own_cache, restart
):
    head_cache.keep("c" * 40, heads("mean+linear"))
    restart()
    with use_limits(Limits(head_parameters=10)):
        assert head_cache.recall("c" * 40, small) is None


@pytest.mark.parametrize("place", ["a file", "under a file", "/proc/none"])
def test_keeping_does_not_fail_where_nothing_can_be_written(
    heads, small, tmp_path, own_cache, restart, monkeypatch, place
):
    (tmp_path / "a file").write_text("")
    folder = {"a file": tmp_path / "a file", "under a file": tmp_path / "a file" / "x"}
    monkeypatch.setenv("HEADS_CACHE", str(folder.get(place, place)))
    head_cache.keep("d" * 40, heads("mean+linear"))
    assert head_cache.recall("d" * 40, small) is heads("mean+linear")
    restart()
    assert head_cache.recall("d" * 40, small) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_keeping_does_not_fail_in_a_folder_of_others_or_on_a_full_disk(heads, own_cache):
    own_cache.mkdir()
    own_cache.chmod(0o500)
    try:
        head_cache.keep("e" * 40, heads("mean+linear"))
        assert os.geteuid() == 0 or not list(own_cache.iterdir())
    finally:
        own_cache.chmod(0o700)
    with full_disk(64):
        head_cache.keep("f" * 40, heads("mean+linear"))
    assert not list((own_cache / "heads").glob("f*"))


def test_only_so_many_heads_stay_in_memory(heads, small, own_cache, monkeypatch):
    monkeypatch.setattr(head_cache, "IN_MEMORY_BYTES", 2 * head_cache._bytes(heads("mean+linear")))
    head = heads("mean+linear")
    for key in ("a", "b", "c"):
        head_cache.keep(key, head)
    assert head_cache.recall("c", small) is head
    again = head_cache.recall("a", small)
    assert again is not None
    assert again is not head


def test_threads_keep_and_recall_at_once(heads, small, own_cache, restart):
    head = heads("mean+linear")

    def work(_: int) -> None:
        for number in range(8):
            head_cache.keep(f"{number % 2}" * 40, head)
            restart()
            assert head_cache.recall(f"{number % 2}" * 40, small) is not None

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert len(list((own_cache / "heads").iterdir())) == 2


# The name of a head


def test_a_fingerprint_changes_with_all_that_a_head_depends_on(small, rows):
    other_rows = build("made up", rows.texts, ["y", "x", "z"] * 20)
    asked: list[tuple[Any, Corpus, Backbone, ExperimentConfig]] = [
        ("mean+linear", rows, small, QUICK),
        ("cls+linear", rows, small, QUICK),
        ("mean+bert", rows, small, QUICK),
        ("mean@1+linear", rows, small, QUICK),
        ("mean@mix+linear", rows, small, QUICK),
        ("mean+linear?dropout=0.2", rows, small, QUICK),
        ("mean+linear?tune=last1", rows, small, QUICK),
        ("mean+linear?tune=full", rows, small, QUICK),
        ("mean+linear?tune=lora", rows, small, QUICK),
        ("mean+linear?tune=lora4", rows, small, QUICK),
        ("mean+linear", other_rows, small, QUICK),
        ("mean+linear", rows, replace(small, revision="another"), QUICK),
        ("mean+linear", rows, replace(small, id="another"), QUICK),
        ("mean+linear", rows, replace(small, tokens=12), QUICK),
        ("mean+linear", rows, small, replace(QUICK, seed=1)),
        ("mean+linear", rows, small, replace(QUICK, folds=4)),
        ("mean+linear", rows, small, replace(QUICK, development=0.3)),
    ]
    found = [head_cache.fingerprint(resolve(recipe), *more) for recipe, *more in asked]
    assert len(set(found)) == len(found)
    assert all(len(name) == 40 and int(name, 16) >= 0 for name in found)
    for same in (" Mean + Linear ", "mean+linear?dropout=0.1"):
        assert head_cache.fingerprint(resolve(same), rows, small, QUICK) == found[0]


# Writing


def test_writing_leaves_no_half_file(tmp_path):
    path = tmp_path / "inner" / "file"

    def spill(place: Path) -> None:
        place.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caching.write(path, spill)
    assert list(path.parent.iterdir()) == []
    caching.write(path, lambda place: place.write_text("whole"))
    with pytest.raises(KeyboardInterrupt):
        caching.write(path, spill)
    assert [found.read_text() for found in path.parent.iterdir()] == ["whole"]
