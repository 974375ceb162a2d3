"""The bundled model under other families' classes: as exact as it is said, written once, whole."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
import slow
import torch
from shell_runs import run
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from heads.backbone.hub import bundled_folder
from heads.errors import ModelError
from heads.extras.conversions import conversion
from heads.extras.conversions.rules import CONVERSIONS, SOURCE, converted_id

TEXTS = (
    "a gob of drivel so sickly sweet , even the eager consumers will retch it up",
    "Café naïve 東京, [CLS] is no [PAD] ##ing word.",
    "fine film",
)
PAIR = ("the flight was cancelled twice", "no movement , no yuks")
POOLER = {"pooler.dense.weight", "pooler.dense.bias"}
WITHOUT_POOLER = {"roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet"}
NATIVE_HEADS = {
    "roberta": "classifier.dense classifier.out_proj",
    "distilbert": "pre_classifier classifier",
    "electra": "classifier.dense classifier.out_proj",
    "deberta-v2": "pooler.dense classifier",
    "albert": "classifier",
    "xlm": "sequence_summary.summary",
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """One cache for the conversions that no test harms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_CACHE", str(tmp_path_factory.mktemp("conversions")))
        yield


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache for a test that does harm, and files small enough to be written often."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    small = {name: f"{name} ".encode() * 100 for name in conversion.FILES}
    monkeypatch.setattr(conversion, "_make_files", lambda rules: dict(small))
    return tmp_path / "cache"


def loaded(folder):
    model, report = AutoModel.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    return model.eval(), {name: set(rows) for name, rows in report.items() if rows}


def tokenizer_of(folder):
    """A tokenizer as the app loads it: what looks like a special token in a text stays text."""
    return AutoTokenizer.from_pretrained(folder, split_special_tokens=True)


@torch.no_grad()
def states(model, given, attention="eager"):
    """The states of the last layer, 0 where there is padding."""
    model.set_attn_implementation(attention)
    return model(**given).last_hidden_state * given["attention_mask"][..., None]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(bundled_folder())


@pytest.fixture(scope="module")
def bundled():
    return loaded(bundled_folder())[0]


@pytest.mark.parametrize("family", slow.but(CONVERSIONS, "roberta", "electra"))
def test_a_conversion_computes_what_the_bundled_model_does(family, bundled, tokenizer):
    rules, folder = CONVERSIONS[family], conversion.converted_folder(family)
    own = tokenizer_of(folder)
    model, report = loaded(folder)
    assert report == ({"missing_keys": POOLER} if family in WITHOUT_POOLER else {})
    for given in ((TEXTS[0],), (TEXTS[1],), ("",), ("two\u200b\n\nlines " * 300,), PAIR):
        assert own(*given)["input_ids"] == tokenizer(*given)["input_ids"]
    pairs = [PAIR] if rules.segments else []
    for given in [(TEXTS[0],), (list(TEXTS),), ("word " * 600,), *pairs]:
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        ours, theirs = (encode(*given, **options) for encode in (tokenizer, own))
        for attention in ("eager",) if rules.difference else ("eager", "sdpa"):
            expected, found = states(bundled, ours, attention), states(model, theirs, attention)
            assert expected.abs().max() > 1
            assert (found - expected).abs().max() <= rules.difference


@pytest.mark.parametrize("family", slow.but(CONVERSIONS, "roberta", "electra"))
def test_config_and_head_are_those_of_the_family(family):
    folder = conversion.converted_folder(family)
    own = tokenizer_of(folder)
    segments = ["token_type_ids"] * CONVERSIONS[family].segments
    assert set(own("a")) == {"input_ids", "attention_mask", *segments}
    assert (own.pad_token_id, own.model_max_length) == (0, 512)
    model, report = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=3, output_loading_info=True
    )
    config = model.config
    assert (config.model_type, config.pad_token_id) == (family, 0)
    assert getattr(config, "bos_token_id", None) in (None, own.cls_token_id)
    assert getattr(config, "eos_token_id", None) in (None, own.sep_token_id)
    if family in NATIVE_HEADS:
        layers = NATIVE_HEADS[family].split()
        head = {f"{layer}.{name}" for layer in layers for name in ("weight", "bias")}
        assert {name: set(rows) for name, rows in report.items() if rows} == {"missing_keys": head}


@pytest.mark.usefixtures("own_cache")
def test_a_name_leads_to_its_family_and_a_folder_is_written_once():
    for family in CONVERSIONS:
        name = converted_id(family)
        assert SOURCE.find(f" {name.upper()} ")[0] == SOURCE.find(name)[0] == name
    folder = conversion.converted_folder("roberta")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert conversion.converted_folder(" RoBERTa ") == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_broken_and_unfinished_folders_are_not_handed_out(own_cache, monkeypatch):
    def killed(path, content):
        with path.open("wb") as file:
            file.write(content[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            conversion.converted_folder("electra")
    home = own_cache / "twins"
    assert list(home.iterdir()) == []
    # What a process leaves that could not even tidy up, a week later.
    (home / ".unfinished-x").mkdir()
    os.utime(home / ".unfinished-x", (0, time.time() - 8 * 24 * 3600))
    folder = conversion.converted_folder("electra")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    weights = folder / "model.safetensors"
    with weights.open("r+b") as file:  # as long as before, with other bytes within
        file.seek(len(whole[weights.name]) // 2)
        file.write(b"\0" * 64)
    (folder / "config.json").unlink()
    assert conversion.converted_folder("electra") == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert list(home.iterdir()) == [folder]


def test_two_threads_and_two_processes_at_once(own_cache, monkeypatch):
    start, moved, move = threading.Barrier(2), [], conversion._move

    def together(place, folder):
        start.wait(timeout=60)
        moved.append(place)
        move(place, folder)

    monkeypatch.setattr(conversion, "_move", together)
    monkeypatch.setattr(conversion, "_making", nullcontext())  # two processes share no lock
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(conversion.converted_folder, ["electra"] * 2)
    assert len(set(moved)) == 2
    assert one == other
    assert conversion._is_whole(one)
    assert list((own_cache / "twins").iterdir()) == [one]


def test_a_disk_that_cannot_be_written_to_gets_one_sentence(own_cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError) as refused:
        conversion.converted_folder("electra")
    assert "HEADS_CACHE" in refused.value.hint


def test_other_tensors_in_the_installed_transformers_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path))
    monkeypatch.setattr(conversion, "_rename_tensors", lambda *_: {})
    with pytest.raises(ModelError):
        conversion.converted_folder("roberta")
    assert not list(tmp_path.rglob("*.*"))


def test_a_conversion_is_made_and_used_like_any_base_model(capfd):
    code, out, _ = run(capfd, "convert")
    assert code == 0
    assert "all-MiniLM-L6-v2-as-roberta" in out.replace("\n", "")
    code, out, _ = run(capfd, "convert", "roberta", "--json")
    name = json.loads(out)["model"]
    code, out, _ = run(capfd, "fetch", name)
    assert (code, f"{name} " in out) == (0, True)
    code, out, _ = run(capfd, "explain", "own", "--model", name)
    assert (code, "classifier.out_proj" in out) == (0, True)
    code, _, err = run(capfd, "convert", "robert")
    assert (code, "'roberta'" in err) == (2, True)
