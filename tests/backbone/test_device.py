"""Texts are read on a GPU as on the processor, or on the processor and it is said.

Where CUDA_VISIBLE_DEVICES names a GPU it is that; elsewhere a device that stands in for one.
"""

import contextlib
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import slow
import torch
from elsewhere import DEVICE, elsewhere
from few_runs import write_sample
from tiny_models import write_classifier

from heads.backbone import device, engine
from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, called, exact_on, fastest, lying_on
from heads.backbone.engine import InferenceEngine, agreement, tried
from heads.backbone.loading import load
from heads.data.dataset import read
from heads.events import result
from heads.features.extraction import extract
from heads.features.store import FeatureMatrices
from heads.features.token_states import TokenStates, keep_states
from heads.parts.registry import pooling
from heads.parts.resolve import resolve
from heads.runs.features import CellDone
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.runner import begin, foreseen, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig
from heads.training.fitters import successive_halving

CUDA = torch.device("cuda", 0)
TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")
READINGS = (
    "mean", "cls", "last", "eos", "max", "weighted", "mean_content", "cls_mean", "mean_max", "std",
    "sqrt_mean", "pooler", "flatten", "mean@1", "cls@cat4", "mean@mean4", "max@max4", "mean@0",
)  # fmt: skip
ROUNDING = 5e-6


@pytest.fixture(autouse=True)
def _own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A second device, that torch finds, and that has not failed yet."""
    engine._lost.clear()
    with contextlib.nullcontext(CUDA) if torch.cuda.is_available() else elsewhere() as device:
        monkeypatch.setattr(engine, "fastest", lambda: device)
        yield device
    engine._lost.clear()


@pytest.fixture
def on(gpu: torch.device) -> str:
    """Where, as sentences call it."""
    return f"on the GPU ({called(gpu)})"


@contextlib.contextmanager
def on_the_processor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "fastest", lambda: HERE)
        yield


def features(
    backbone: Backbone, *readings: str, texts: Sequence[str] = TEXTS, asked: str = "exact"
) -> FeatureMatrices:
    *_, found = extract([resolve(f"{r}+linear") for r in readings], texts, (), backbone, asked)
    assert isinstance(found, FeatureMatrices)
    return found


def states(backbone: Backbone) -> TokenStates:
    return result(keep_states([resolve("attention+linear")], TEXTS, (), backbone))


def full(*_: object, **__: object) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nMore")


# The device


def test_what_stands_in_for_a_gpu_refuses_to_meet_the_processor():
    here = torch.randn(3, 4)
    with elsewhere() as device:
        there = here.to(device)
        assert there.device == device == DEVICE
        assert torch.equal((there @ there.T).softmax(-1).cpu(), (here @ here.T).softmax(-1))
        with pytest.raises(AssertionError, match="two devices"):
            there @ here.T


def test_without_a_gpu_texts_are_read_on_the_processor():
    assert fastest().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert called(HERE) == "the processor"
    assert called(DEVICE) == "Elsewhere 3000"


def test_a_module_lies_on_a_device_with_all_that_it_shares(gpu):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.ReLU())
    model[1].weight = model[0].weight  # as embeddings are tied
    model.register_buffer("places", torch.arange(4))
    there = lying_on(gpu, model)
    assert {one.device for one in (*there.parameters(), *there.buffers())} == {gpu}
    assert there[0].weight is there[1].weight
    assert {one.device for one in (*model.parameters(), *model.buffers())} == {HERE}
    given = torch.randn(2, 4)
    with torch.no_grad():
        assert torch.allclose(there(given.to(gpu)).to(HERE), model(given), atol=1e-6)
    assert lying_on(HERE, model) is model
    assert lying_on(gpu, torch.relu) is torch.relu


def test_thirty_two_bits_are_thirty_two_bits_on_a_gpu(gpu):
    backends: Any = torch.backends
    kinds = backends.cuda.matmul, backends.cudnn.conv
    before = [kind.fp32_precision for kind in kinds]
    with exact_on(gpu):
        assert [kind.fp32_precision for kind in kinds] == ["ieee", "ieee"]
    assert [kind.fp32_precision for kind in kinds] == before


def test_thirty_two_bits_are_thirty_two_bits_under_an_older_torch(gpu, monkeypatch):
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
        cudnn=SimpleNamespace(allow_tf32=True),
    )
    monkeypatch.setattr(torch, "backends", backends)
    kinds = backends.cuda.matmul, backends.cudnn
    with exact_on(gpu):
        assert [kind.allow_tf32 for kind in kinds] == [False, False]
    assert [kind.allow_tf32 for kind in kinds] == [True, True]


# What is read there


@pytest.mark.parametrize("family", slow.but(["bert", "mpnet", "albert"], "bert"))
def test_states_stay_on_the_device_in_either_precision(family, gpu, on, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "has_kernels", lambda _: True)
    suits = "around" if family == "mpnet" else ""
    backbone = load(str(write_classifier(tmp_path / family, family, suits)))
    for asked, bits in (("exact", "float32"), ("fast", "bfloat16")):
        found = tried(backbone, asked, backbone.encode(TEXTS))
        assert (found.way.name, found.way.precision) == (f"Transformers on {gpu.type}", bits)
        assert on in found.says
        for _, batch in found.passes(backbone.encode(TEXTS), range(9)):
            assert {one.device for one in (*batch.hidden, batch.mask, batch.eos)} == {gpu}
            assert batch.here().hidden[0].device == HERE


@pytest.mark.parametrize(
    "family",
    slow.but(
        ["gpt2", "t5", "bart", "xlnet", "deberta-v2", "modernbert", "fnet", "longformer"],
        "gpt2",
    ),
)
def test_transformers_reads_other_families_on_a_device(family, gpu, on, tmp_path):
    backbone = load(str(write_classifier(tmp_path / family, family)))
    found = tried(backbone, "auto", backbone.encode(TEXTS))
    assert (found.way.name, found.way.precision) == (f"Transformers on {gpu.type}", "float32")
    assert f"encoded by Transformers {on}" in found.says
    assert "on 4 of them" in found.says
    assert backbone.device == HERE  # the model itself stays, for single texts
    assert agreement(found, backbone.encode(TEXTS)).difference < 1e-5


@pytest.mark.slow
def test_every_reading_is_that_of_the_processor(backbone, gpu):
    there = features(backbone, *READINGS)
    with on_the_processor():
        here = features(backbone, *READINGS)
    assert (there.engine, here.engine) == (f"Transformers on {gpu.type}", "Transformers")
    assert there.fresh == here.fresh == len(TEXTS)  # neither takes the other's for its own
    for name in READINGS:
        assert torch.allclose(there.matrix(name), here.matrix(name), atol=ROUNDING), name
    again = features(backbone, *READINGS)
    assert (again.fresh, again.engine, again.says) == (0, there.engine, there.says)


@pytest.mark.slow
def test_a_pooling_of_ones_own_need_not_know_of_a_gpu(backbone, gpu, tmp_path):
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
    assert there.engine == f"Transformers on {gpu.type}"
    alone = backbone.states(backbone.encode(TEXTS[:1])).hidden[-1]
    row = there.matrix("second")[there.index[0]]
    assert torch.allclose(row, alone[0, 1], atol=ROUNDING)


@pytest.mark.slow
def test_states_of_tokens_come_back_from_the_device(backbone, gpu):
    there = states(backbone)
    with on_the_processor():
        here = states(backbone)
    assert (there.engine, here.engine) == (f"Transformers on {gpu.type}", "Transformers")
    assert torch.equal(there.marks, here.marks)
    ours, theirs = (
        torch.from_numpy(there.numbers[0].copy()),
        torch.from_numpy(here.numbers[0].copy()),
    )
    assert torch.allclose(ours.float(), theirs.float(), atol=2e-3)


@pytest.fixture
def run(tmp_path: Path, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that is to be worked, on few rows."""
    monkeypatch.setattr(successive_halving, "CAP", 24)
    asked = RunRequest(
        data=read(write_sample(tmp_path / "few.csv", "sentiment", 80)),
        recipes=("mean+linear", "cls+roberta", "attention+linear"),
        config=ExperimentConfig(seeds=2, folds=2, precision="exact"),
        model=str(tiny()),
    )
    return begin(asked)


def reading_of(run: RunFolder) -> dict[str, str]:
    """Finish a run and return how it has read."""
    *_, board = working(run)
    assert isinstance(board, Leaderboard)
    assert board.state == "finished"
    return run.read("facts.json")["reading"]


def test_a_whole_run_reads_on_the_device_and_says_so(run, gpu, on):
    assert foreseen(run).reading > 0
    told = reading_of(run)
    assert told["engine"] == f"Transformers on {gpu.type}"
    assert on in told["says"]


@pytest.mark.slow
def test_a_run_that_goes_on_elsewhere_says_so(run, gpu, on, monkeypatch, tmp_path):
    events = working(run)
    for event in events:
        if isinstance(event, CellDone):
            break
    events.close()
    assert on in run.read("facts.json")["reading"]["says"]
    with on_the_processor():
        told = reading_of(run)
    assert told["engine"] == "Transformers"
    assert "After a break: Texts were encoded by Transformers" in told["says"]


# Where it does not hold


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, ImportError])
def test_a_device_that_fails_is_left_for_the_processor(error, backbone, on, monkeypatch):
    def fails(device: torch.device, part: Any) -> Any:
        if device != HERE:
            raise error("CUDA error: it does not.\nMore")
        return part

    monkeypatch.setattr(engine, "lying_on", fails)
    found = tried(backbone, "exact", backbone.encode(TEXTS))
    assert found.way.name == "Transformers"
    assert found.says.count(f"{on} failed (CUDA error: it does not).") == 1
    assert "More" not in found.says
    here = features(backbone, "mean")
    assert here.engine == "Transformers"
    assert here.says.count(on) == 1


def test_a_device_that_is_not_as_exact_is_left_for_the_processor(backbone, gpu, on, monkeypatch):
    def rough(device: torch.device, model: Any) -> Any:
        there = lying_on(device, model)
        if device == gpu:
            there.get_parameter("encoder.layer.0.output.dense.weight").mul_(1.01)
        return there

    monkeypatch.setattr(engine, "lying_on", rough)
    for _ in range(2):  # the second time it is known
        found = tried(backbone, "exact", backbone.encode(TEXTS))
        assert found.way.name == "Transformers"
        assert f"{on} differed by" in found.says
    here = features(backbone, "mean")
    assert (here.engine, here.fresh) == ("Transformers", len(TEXTS))
    assert "differed by" in here.says
    assert features(backbone, "mean").fresh == 0


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with room for the few texts on which it is tried, and no more."""
    passes = InferenceEngine.passes

    def narrowly(self: InferenceEngine, texts: Any, layers: Any) -> Any:
        for batch in passes(self, texts, layers):
            yield batch
            if self.way.device != HERE and len(texts) > len(TEXTS):
                full()

    monkeypatch.setattr(InferenceEngine, "passes", narrowly)


@pytest.mark.slow
def test_what_fails_in_the_midst_is_read_on_the_processor(backbone, narrow, on):
    many = [*TEXTS, *(f"{text} {number}" for text in TEXTS for number in range(9))]
    found = features(backbone, "mean", texts=many)
    assert found.engine == "Transformers"
    assert found.fresh == len(many)
    assert f"{on} failed (CUDA out of memory. Tried to allocate 20.00 MiB)." in found.says
    with on_the_processor():
        wanted = features(backbone, "mean")
    rows = found.matrix("mean")[found.index[: len(TEXTS)]]
    assert torch.allclose(rows, wanted.matrix("mean")[wanted.index], atol=ROUNDING)
    assert features(backbone, "cls").engine == found.engine  # it is not tried again


def test_what_fails_on_the_processor_is_passed_on(backbone, monkeypatch):
    monkeypatch.setattr(InferenceEngine, "passes", full)
    with pytest.raises(torch.OutOfMemoryError):
        features(backbone, "mean")
