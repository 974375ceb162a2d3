"""Texts are read on a second device as on the processor, or on the processor and it is said."""

import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from elsewhere import DEVICE, elsewhere
from tiny_models import LIMITS, write_classifier

from heads.errors import ModelError
from heads.parts.menu import resolve
from heads.parts.registry import pooling
from heads.parts.samples import SAMPLES
from heads.pipeline import engine, precision, reading
from heads.pipeline.backbone import Backbone
from heads.pipeline.device import HERE, called, fastest
from heads.pipeline.extraction import extract
from heads.pipeline.grid import descent
from heads.pipeline.loading import load
from heads.pipeline.packed import block as blocks
from heads.pipeline.packed.products import product
from heads.pipeline.reading import agreement, tried, untried
from heads.pipeline.runs.asked import Question
from heads.pipeline.runs.leaderboard import Leaderboard
from heads.pipeline.runs.running import begin, foreseen, working
from heads.pipeline.table import read
from heads.pipeline.token_states import TokenStates, keep_states
from heads.pipeline.vectors import Features
from heads.settings import Contest

TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")
READINGS = (
    "mean", "cls", "last", "eos", "max", "weighted", "mean_content", "cls_mean", "mean_max", "std",
    "sqrt_mean", "pooler", "mean@1", "cls@cat4", "mean@mean4", "max@max4", "mean@0",
)  # fmt: skip
ROUNDING = 5e-6


@pytest.fixture(autouse=True)
def _own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Within it there is a second device, and torch finds it."""
    monkeypatch.setattr(engine, "fastest", lambda: DEVICE)
    with elsewhere() as device:
        yield device


@contextmanager
def on_the_processor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "fastest", lambda: HERE)
        yield


def features(backbone: Backbone, *readings: str, asked: str = "exact") -> Features:
    *_, found = extract([resolve(f"{r}+linear") for r in readings], TEXTS, (), backbone, asked)
    assert isinstance(found, Features)
    return found


def test_the_second_device_refuses_to_meet_the_processor(gpu: torch.device) -> None:
    here = torch.randn(3, 4)
    there = here.to(gpu)
    assert there.device == gpu
    assert torch.equal((there @ there.T).softmax(-1).cpu(), (here @ here.T).softmax(-1))
    with pytest.raises(AssertionError, match="two devices"):
        there @ here.T


def test_without_a_gpu_texts_are_read_on_the_processor() -> None:
    assert fastest().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert called(HERE) == "the processor"
    assert called(DEVICE) == "Elsewhere 3000"


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "mpnet", "electra", "albert"])
def test_the_block_computes_on_a_device(
    family: str, gpu: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "gain", lambda _: 2.0)
    monkeypatch.setattr(reading, "gain", lambda _: 2.0)
    suits = "around" if family == "mpnet" else ""
    backbone = load(str(write_classifier(tmp_path / family, family, suits)), limits=LIMITS)
    for asked, bits in (("exact", "float32"), ("fast", "bfloat16")):
        found = tried(backbone, asked, backbone.encode(TEXTS))
        assert (found.name, found.precision) == ("packed on elsewhere", bits)
        assert found.device == gpu
        assert "on the GPU (Elsewhere 3000)" in found.says
        for _, states in found.passes(backbone.encode(TEXTS), range(9)):
            assert {one.device for one in (*states.hidden, states.mask, states.eos)} == {gpu}
            assert states.here().hidden[0].device == HERE


@pytest.mark.parametrize(
    "family",
    ["gpt2", "t5", "bart", "xlnet", "deberta-v2", "modernbert", "fnet", "longformer", "reformer"],
)
def test_transformers_reads_other_families_on_a_device(
    family: str, gpu: torch.device, tmp_path: Path
) -> None:
    backbone = load(str(write_classifier(tmp_path / family, family)), limits=LIMITS)
    found = tried(backbone, "auto", backbone.encode(TEXTS))
    assert (found.name, found.precision) == ("Transformers on elsewhere", "float32")
    assert "was read by Transformers on the GPU (Elsewhere 3000)" in found.says
    assert "On 4 of them within" in found.says
    assert backbone.device == HERE  # the model itself stays, for single texts
    assert agreement(found, backbone.encode(TEXTS)).difference < 1e-5


def test_every_reading_is_that_of_the_processor(backbone: Backbone, gpu: torch.device) -> None:
    there = features(backbone, *READINGS)
    with on_the_processor():
        here = features(backbone, *READINGS)
    assert (there.engine, here.engine) == ("packed on elsewhere", "packed")
    assert there.fresh == here.fresh == len(TEXTS)  # neither takes the other's for its own
    for name in READINGS:
        assert torch.allclose(there.matrix(name), here.matrix(name), atol=ROUNDING), name
    again = features(backbone, *READINGS)
    assert (again.fresh, again.engine) == (0, "packed on elsewhere")


def test_a_pooling_of_ones_own_need_not_know_of_a_gpu(
    backbone: Backbone, gpu: torch.device, tmp_path: Path
) -> None:
    file = tmp_path / "second.py"
    file.write_text(
        "import heads, torch\n\n@heads.pooling\ndef second(mask, states):\n"
        '    """The second token.\n\n    Source: a test.\n    """\n'
        "    return mask * (torch.arange(mask.shape[1]) == 1)\n"
    )
    try:
        runpy.run_path(str(file))
        there = features(backbone, "second", "mean")
    finally:
        pooling._parts.pop("second", None)
    assert there.engine == "packed on elsewhere"
    states = backbone.states(backbone.encode(TEXTS[:1]))
    row = there.matrix("second")[there.index[0]]
    assert torch.allclose(row, states.hidden[-1][0, 1], atol=ROUNDING)


def test_states_of_tokens_come_back_from_the_device(backbone: Backbone, gpu: torch.device) -> None:
    def kept() -> TokenStates:
        events = keep_states([resolve("attention+linear")], TEXTS, (), backbone, LIMITS)
        while True:
            try:
                next(events)
            except StopIteration as end:
                return end.value

    there = kept()
    with on_the_processor():
        here = kept()
    assert (there.engine, here.engine) == ("packed on elsewhere", "packed")
    assert torch.equal(there.marks, here.marks)
    ours, theirs = torch.from_numpy(there.numbers.copy()), torch.from_numpy(here.numbers.copy())
    assert torch.allclose(ours.float(), theirs.float(), atol=2e-3)


def test_a_whole_run_reads_on_the_device_and_says_so(
    gpu: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tiny: Callable[..., Path],
) -> None:
    monkeypatch.setattr(descent, "STEPS", 30)
    monkeypatch.setattr(descent, "EPOCHS", (2, 4))
    file = tmp_path / "few.csv"
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:81]))
    asked = Question(
        data=read(file, LIMITS),
        recipes=("mean+linear", "cls+roberta", "attention+linear"),
        contest=Contest(seeds=2, precision="exact"),
        model=str(tiny()),
    )
    run = begin(asked, limits=LIMITS)
    assert foreseen(run, LIMITS).reading > 0
    *_, board = working(run, LIMITS)
    assert isinstance(board, Leaderboard)
    assert board.state == "finished"
    told = run.read("facts.json")["reading"]
    assert told["engine"] == "packed on elsewhere"
    assert "on the GPU (Elsewhere 3000)" in told["says"]


# Where it does not hold


def test_a_device_that_fails_is_left_for_the_processor(
    backbone: Backbone, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nMore")

    monkeypatch.setattr(engine, "_block", full)
    monkeypatch.setattr(engine, "_copied", full)
    for model in (backbone, replace(backbone, block=None)):
        assert untried(model, "exact").device == HERE
        found = tried(model, "exact", backbone.encode(TEXTS))
        assert found.device == HERE
        assert "on the GPU (Elsewhere 3000) failed (CUDA out of memory. Tried to all" in found.says
        assert "More" not in found.says
    assert features(backbone, "mean").engine == "packed"


def test_a_device_that_is_not_as_exact_is_left_for_the_processor(
    backbone: Backbone, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rough(*given: Any, **settings: Any) -> Any:
        made = product(*given, **settings)
        return replace(made, weight=made.weight * 1.001) if made.weight.device == gpu else made

    monkeypatch.setattr(blocks, "product", rough)
    engine._block.cache_clear()
    found = tried(backbone, "exact", backbone.encode(TEXTS))
    assert found.name == "packed"
    assert "on the GPU (Elsewhere 3000) differed by" in found.says
    here = features(backbone, "mean")
    assert here.engine == "packed"
    assert "differed by" in here.says
    again = features(backbone, "mean")
    assert (again.fresh, again.engine) == (0, "packed")
    engine._block.cache_clear()


def test_sixteen_bits_that_turn_states_too_far_leave_the_device_in_thirty_two(
    backbone: Backbone, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "gain", lambda _: 2.0)
    monkeypatch.setattr(reading, "ALIKE", 1.1)  # nothing is as close as that
    found = tried(backbone, "auto", backbone.encode(TEXTS))
    assert (found.name, found.precision) == ("packed on elsewhere", "float32")
    assert "16 bits on the GPU (Elsewhere 3000) would turn a token's states too far" in found.says


def test_what_fails_on_the_device_in_the_midst_names_the_way_out(
    backbone: Backbone, gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    found = tried(backbone, "exact", backbone.encode(TEXTS))
    monkeypatch.setattr("heads.pipeline.backbone.run", full)
    with pytest.raises(ModelError, match=r"CUDA out of memory.*empty CUDA_VISIBLE_DEVICES"):
        next(found.passes(backbone.encode(TEXTS), [6]))


def test_the_probe_is_made_for_each_device(
    gpu: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "ROWS_ON_A_GPU", 64)
    precision.gain.cache_clear()
    gains = [precision.gain(device) for device in (HERE, gpu)]
    assert all(gain > 0 for gain in gains)
    assert len(list((tmp_path / "cache" / "probe").iterdir())) == 2
    precision.gain.cache_clear()
