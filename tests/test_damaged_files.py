"""A flipped bit or digit in anything that is stored: the same numbers, or a clear word."""

import copy
import csv
import hashlib
import json
import random
import re
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import slow
import torch
from quick_heads import trained
from safetensors.torch import save_file

import heads
from heads.backbone.loading import load
from heads.checked_files import read_tensors
from heads.classifier import head_cache
from heads.data.dataset import data_of, read
from heads.data.samples import SAMPLES
from heads.data.sources import open_source
from heads.errors import DataError, HeadsError
from heads.features import text_store
from heads.features.extraction import extract
from heads.features.text_store import TextStore, extract_by_text
from heads.features.token_states import keep_states
from heads.parts.poolings import GIVEN
from heads.parts.resolve import resolve
from heads.runs import baseline_cells, learning_curve, racing, spec
from heads.runs.cells import answers_of_cell, kept, probabilities_of_cell
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import facts_of, leaderboard
from heads.runs.refit import run_classifier as classifier
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig
from heads.training.finetuning.checkpoints import FINISHED, Checkpoints
from heads.training.fitters import successive_halving

TEXTS = ("the cat sat", "a dog ran home", "it was late")
RECIPES = ("mean+linear", "cls+ridge", "attention+linear")
CONFIG = ExperimentConfig(folds=2, race=True, precision="exact")
BITS, DIGITS = 2, 1  # damages of each kind that a file gets


@dataclass(frozen=True)
class Stored:
    """A folder with a file of every kind, and the ways in which they are read again."""

    place: Path
    ways: dict[str, Callable[[], Any]]

    def files(self) -> Iterator[tuple[Path, Callable[[], Any]]]:
        """Every file, and what reads it."""
        for path in sorted(path for path in self.place.rglob("*") if path.is_file()):
            name = path.relative_to(self.place).as_posix()
            way = next((way for start, way in self.ways.items() if name.startswith(start)), None)
            if path.stat().st_size and way:
                yield path, way


def last(events: Any) -> Any:
    """What some work ends in: its last event, or what it returns."""
    event = None
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return event if end.value is None else end.value


def digest(value: Any) -> str:
    """A digest of tensors and plain values, however they are nested."""
    if isinstance(value, torch.Tensor):
        value = (str(value.dtype), tuple(value.shape), value.numpy().tobytes())
    if isinstance(value, dict):
        value = [(name, digest(own)) for name, own in sorted(value.items())]
    if isinstance(value, list | tuple):
        value = [digest(own) for own in value]
    return hashlib.sha256(repr(value).encode()).hexdigest()


def read_run(run: RunFolder) -> str:
    """Everything that a run tells, by the functions that tell it."""
    asked, told = spec.load(run), list[Any]()
    told += [asked.corpus.texts, asked.corpus.targets, asked.config, asked.recipes]
    if asked.corpus.vectors is not None:
        told.append(asked.corpus.vectors.tensor())
    for number, name in enumerate(asked.names):
        if cell := kept(run, number):
            answers = answers_of_cell(run, number, name)
            told += [cell.as_json(), answers.answers.rows, answers.answers.given]
            told += [answers.confidence, probabilities_of_cell(run, number)]
        if name in asked.recipes and cell:
            head = classifier(run, name).head
            told += [dict(head.module.state_dict()), head.facts]
        if asked.config.race and (searched := racing._kept(run, number)):
            told += [[(one.held, one.state, one.chosen) for one in searched.found], searched.tried]
    for name in ("run", "facts", "curve", "latency", "clock", "end", "leaderboard", "race"):
        values = run.read(f"{name}.json") or {}
        # Where the name of the checksum is damaged, the checksum is one value more, and all others
        # are as they were.
        own = values if isinstance(values, list) else list(values.values())
        told.append([one for one in own if not re.fullmatch("[0-9a-f]{8}", str(one))])
    return digest(told)


@pytest.fixture(scope="module")
def stored(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    place = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HEADS_CACHE", "HEADS_STORAGE"):
            patch.setenv(name, str(place / "cache"))
        patch.setattr(successive_halving, "CAP", 24)
        patch.setattr(learning_curve, "FEWEST", 10)
        patch.setattr(head_cache, "_recent", OrderedDict())
        run, data = _texts_run(place, str(tiny()))
        ways = {
            "run": lambda: read_run(run),
            "vectors-run": lambda: read_run(_vectors_run(place)),
            **_caches(place, str(tiny()), data, patch),
        }
        _vectors_run(place)
        for way in ways.values():
            way()
        yield Stored(place, ways)


def _texts_run(place: Path, model: str) -> tuple[RunFolder, Any]:
    with SAMPLES["sentiment"].path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[:91]
    with (place.parent / f"{place.name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    data = read(place.parent / f"{place.name}.csv")
    request = RunRequest(data=data, recipes=RECIPES, model=model, config=CONFIG)
    run = begin(request, out=place / "run")
    list(working(run))
    return run, data


def _vectors_run(place: Path) -> RunFolder:
    """A run on vectors, begun and not worked on; the same where it is there already."""
    path = place / "vectors-run"
    if not path.exists():
        rng = np.random.default_rng(0)
        source = place.parent / f"{place.name}.npz"
        np.savez(source, X=rng.standard_normal((60, 6)).astype("float32"), y=np.arange(60) % 3)
        table, name = open_source(str(source))
        data = data_of(table, name=name)
        config = ExperimentConfig(folds=2, precision="exact")
        request = RunRequest(data=data, recipes=(f"{GIVEN.name}+linear",), config=config)
        begin(request, out=path)
    return RunFolder(path=path)


def _caches(
    place: Path, model: str, data: Any, patch: pytest.MonkeyPatch
) -> dict[str, Callable[[], Any]]:
    backbone, recipes = load(model), [resolve("mean+linear"), resolve("cls+linear")]
    (head,) = trained(["mean+linear"], data.corpus, backbone)
    (words,) = (place / "cache" / "words").glob("*.safetensors")
    known = copy.deepcopy(baseline_cells._load_words(words))  # the file itself is written over
    head_cache.keep("0" * 40, head)
    Checkpoints(place / "work", "cell").save(FINISHED, {"weights": torch.arange(999.0)}, "key")

    def features() -> Any:
        found = last(extract(recipes, TEXTS, (), backbone))
        return [found.matrix(one.reading) for one in recipes], found.tokens, found.unknown

    def texts() -> Any:
        patch.setattr(text_store, "_store", TextStore())
        found = last(extract_by_text(recipes, TEXTS, (), backbone))
        return [found.matrix(one.reading) for one in recipes], found.tokens, found.unknown

    def states() -> Any:
        found = last(keep_states([resolve("attention+linear")], TEXTS, (), backbone))
        read = found.states(torch.arange(len(TEXTS)))
        return read.hidden[-1], read.mask, read.content

    def words_again() -> Any:
        found = baseline_cells._load_words(words) or known
        return found.logits, found.thresholds, found.C

    def head_again() -> Any:
        patch.setattr(head_cache, "_recent", OrderedDict())
        found = head_cache.recall("0" * 40, backbone) or head
        return dict(found.module.state_dict()), found.facts

    def checkpoint() -> Any:
        found = Checkpoints(place / "work", "cell").load(FINISHED, "key")
        return found or {"weights": torch.arange(999.0)}

    features(), texts(), states()
    return {
        "cache/features": lambda: digest([features(), texts()]),
        "cache/states": lambda: digest(states()),
        "cache/words": lambda: digest(words_again()),
        "cache/head-to-head/heads": lambda: digest(head_again()),
        "work": lambda: digest(checkpoint()),
    }


def damages(path: Path, rng: random.Random) -> Iterator[bytes]:
    """The bytes of a file with one bit flipped, or with one digit in the place of another."""
    whole = path.read_bytes()
    for _ in range(BITS):
        broken = bytearray(whole)
        broken[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        yield bytes(broken)
    header = 8 + int.from_bytes(whole[:8], "little") if path.suffix == ".safetensors" else None
    places = [match.start() for match in re.finditer(rb"[0-9]", whole[:header])]
    for at in rng.sample(places, min(DIGITS, len(places))) if path.suffix != ".npy" else ():
        broken = bytearray(whole)
        broken[at] = rng.choice([digit for digit in b"0123456789" if digit != whole[at]])
        yield bytes(broken)


def test_damage_gives_the_same_numbers_or_a_clear_word(stored):
    rng, silent, unnamed, count = random.Random(0), list[str](), list[str](), 0
    for path, way in list(stored.files()):
        whole, wanted = path.read_bytes(), way()
        for broken in damages(path, rng):
            path.write_bytes(broken)
            count += 1
            try:
                if way() != wanted:
                    at = [n for n in range(len(whole)) if whole[n] != broken[n]]
                    silent.append(f"{path.relative_to(stored.place).as_posix()} at {at}")
            except HeadsError as error:
                if path.name not in str(error):
                    unnamed.append(f"{path.name}: {error}")
            finally:
                path.write_bytes(whole)
    assert count > 60
    assert (silent, unnamed) == ([], []), f"{len(silent)} of {count} went unnoticed"


# A file that is gone


@pytest.fixture
def run(stored: Stored, tmp_path: Path) -> RunFolder:
    """A copy of a finished run, to be changed."""
    shutil.copytree(stored.place / "run", tmp_path / "run")
    return RunFolder(path=tmp_path / "run")


def recommended(run: RunFolder) -> tuple[str, int]:
    name = facts_of(run)["recommended"] or facts_of(run)["best"]
    return name, spec.load(run).recipes.index(name)


FRAME = pandas.DataFrame({"text": ["good", "bad"], "label": ["positive", "negative"]})
DOORS: dict[str, Callable[[RunFolder], object]] = {
    "predict": lambda run: heads.predict(FRAME, run=str(run.path)),
    "evaluate": lambda run: heads.evaluate(FRAME, run=str(run.path)),
    "compare": lambda run: heads.compare("good", run=str(run.path)),
    "export": lambda run: heads.export(
        leaderboard(run).classifier(recommended(run)[0]), run.path.parent / "out"
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("file", ["heads/{:03}.safetensors", "cells/{:03}.json"])
def test_no_other_head_answers_for_one_that_is_gone(run, door, file):
    name, number = recommended(run)
    gone = file.format(number)
    (run.path / gone).unlink()
    with pytest.raises(DataError) as caught:
        DOORS[door](run)
    assert gone in caught.value.what
    assert name in caught.value.what
    assert "--resume" in caught.value.hint
    assert facts_of(run)["state"] == "broken"


def test_a_leaderboard_notes_a_head_that_is_gone(run):
    gone = f"heads/{recommended(run)[1]:03}.safetensors"
    assert not any(gone in note for note in leaderboard(run).notes)
    (run.path / gone).unlink()
    assert any(gone in note for note in leaderboard(run).notes)


CELL = ("heads/{:03}.safetensors", "cells/{:03}.json", "cells/{:03}.safetensors")
OTHERS = (
    "race/{:03}.safetensors", "race.json", "latency.json", "curve.json", "leaderboard.json",
    "facts.json", "cells/{:03}.probabilities.safetensors",
)  # fmt: skip


@pytest.mark.parametrize(
    ("harm", "file"),
    slow.but_each(
        2, [*(("gone", file) for file in CELL), *(("damaged", file) for file in (*CELL, *OTHERS))]
    ),
)
def test_a_resumed_run_makes_anew_what_is_gone_or_damaged(run, file, harm, monkeypatch):
    monkeypatch.setattr(successive_halving, "CAP", 24)
    monkeypatch.setattr(learning_curve, "FEWEST", 10)
    name, number = recommended(run)
    path = run.path / file.format(number)
    before, score = path.read_bytes(), leaderboard(run).cell(name).measures.score
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    *_, found = working(run)
    assert found.state == "finished"
    assert found.cell(name).measures.score == score
    assert facts_of(run)["state"] == "finished"
    assert read_run(run)  # in which nothing is broken any more
    assert path.is_file() or file.startswith("race/")  # of a cell that is done it is not needed


def test_a_run_of_before_there_were_checksums_is_opened(run):
    wanted = read_run(run)
    for path in run.path.rglob("*.json"):
        path.write_text(json.dumps(run.read(path.relative_to(run.path).as_posix())), "utf-8")
    for path in run.path.rglob("*.safetensors"):
        tensors, facts = read_tensors(path)
        save_file({name: tensor.clone() for name, tensor in tensors.items()}, path, facts)
    assert "crc32" not in (run.path / "run.json").read_text("utf-8")
    head_cache._recent.clear()
    assert read_run(run) == wanted
