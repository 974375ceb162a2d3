"""The bundled model under other families' classes: as exact as it is said, written once, whole."""

import json
import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import slow
import torch
from shell_runs import run
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from heads.backbone.hub import bundled_folder
from heads.errors import ModelError
from heads.extras.conversions import conversion as twins
from heads.extras.conversions.rules import SOURCE, TWINS, converted_id

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
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache for the twins that no test harms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_CACHE", str(tmp_path_factory.mktemp("twins")))
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for a test that does harm, and files small enough to be written often."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    small = {name: f"{name} ".encode() * 100 for name in twins.FILES}
    monkeypatch.setattr(twins, "_make_files", lambda twin: dict(small))
    return tmp_path / "cache"


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    model, report = AutoModel.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    return model.eval(), {name: set(rows) for name, rows in report.items() if rows}


def tokenizer_of(folder: Path) -> Any:
    """A tokenizer as the app loads it: what looks like a special token in a text stays text."""
    return AutoTokenizer.from_pretrained(folder, split_special_tokens=True)


@torch.no_grad()
def states(model: Any, given: Any, attention: str = "eager") -> torch.Tensor:
    """The states of the last layer, 0 where there is padding."""
    model.set_attn_implementation(attention)
    return model(**given).last_hidden_state * given["attention_mask"][..., None]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_of(bundled_folder())


@pytest.fixture(scope="module")
def bundled() -> Any:
    return loaded(bundled_folder())[0]


@pytest.mark.parametrize("family", slow.but(TWINS, "roberta", "electra"))
def test_a_twin_has_the_states_of_the_bundled_model(
    family: str, bundled: Any, tokenizer: Any
) -> None:
    twin = TWINS[family]
    folder = twins.converted_folder(family)
    own = tokenizer_of(folder)
    model, report = loaded(folder)
    assert report == ({"missing_keys": POOLER} if family in WITHOUT_POOLER else {})
    for given in [(TEXTS[0],), (list(TEXTS),)] + ([PAIR] if twin.segments else []):
        ours, theirs = (one(*given, padding=True, return_tensors="pt") for one in (tokenizer, own))
        for attention in ("eager",) if twin.difference else ("eager", "sdpa"):
            expected, found = states(bundled, ours, attention), states(model, theirs, attention)
            assert expected.abs().max() > 1
            if twin.difference:
                assert (found - expected).abs().max() <= twin.difference
            else:
                assert torch.equal(found, expected)


@pytest.mark.parametrize("family", slow.but(TWINS, "roberta", "electra"))
def test_a_twin_s_tokenizer_gives_the_same_numbers(family: str, tokenizer: Any) -> None:
    own = tokenizer_of(twins.converted_folder(family))
    for given in ((TEXTS[0],), (TEXTS[1],), ("",), ("two\u200b\n\nlines " * 300,), PAIR):
        assert own(*given)["input_ids"] == tokenizer(*given)["input_ids"]
    names = {"input_ids", "attention_mask"} | (
        {"token_type_ids"} if TWINS[family].segments else set()
    )
    assert set(own("a")) == names
    assert (own.pad_token_id, own.model_max_length) == (0, 512)
    config = json.loads((twins.converted_folder(family) / "config.json").read_text("utf-8"))
    assert (config["model_type"], config["pad_token_id"]) == (family, 0)
    assert config.get("bos_token_id") in (None, own.cls_token_id)
    assert config.get("eos_token_id") in (None, own.sep_token_id)


@pytest.mark.parametrize(
    "family", slow.but(["roberta", "mpnet"], "roberta")
)  # their positions begin later
def test_a_twin_reads_as_many_tokens_as_the_bundled_model(
    family: str, bundled: Any, tokenizer: Any
) -> None:
    own = tokenizer_of(twins.converted_folder(family))
    given = own("word " * 600, truncation=True, return_tensors="pt")
    assert given["input_ids"].shape == (1, 512)
    found = states(loaded(twins.converted_folder(family))[0], given)
    expected = states(bundled, given)
    assert (found - expected).abs().max() <= TWINS[family].difference


@pytest.mark.parametrize(("family", "layers"), NATIVE_HEADS.items())
def test_the_native_classifier_finds_all_but_its_head(family: str, layers: str) -> None:
    model, report = AutoModelForSequenceClassification.from_pretrained(
        twins.converted_folder(family), num_labels=3, output_loading_info=True
    )
    assert model.config.model_type == family
    head = {f"{layer}.{name}" for layer in layers.split() for name in ("weight", "bias")}
    assert {name: set(rows) for name, rows in report.items() if rows} == {"missing_keys": head}


def test_one_sentence_says_what_was_done_and_how_exact_it_is() -> None:
    for twin in TWINS.values():
        assert twin.says.endswith(".")
        assert twin.says.count(". ") == 0
        assert ("to the last bit" in twin.says) == (twin.difference == 0)
        assert ("single texts" in twin.says) == (not twin.segments)


@pytest.mark.usefixtures("own_cache")
def test_a_name_leads_to_its_family_and_back() -> None:
    assert converted_id("roberta") == "all-MiniLM-L6-v2-as-roberta"
    for family in TWINS:
        name = converted_id(family)
        assert SOURCE.find(f" {name.upper()} ")[0] == SOURCE.find(name)[0] == name


def test_an_unknown_family_gets_one_sentence() -> None:
    with pytest.raises(ModelError) as caught:
        twins.converted_folder("robert")
    expected = "all-MiniLM-L6-v2 cannot be had as 'robert'. Did you mean 'roberta'?"
    assert str(caught.value) == expected


def test_a_second_call_writes_nothing() -> None:
    folder = twins.converted_folder("roberta")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert twins.converted_folder(" RoBERTa ") == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_what_is_broken_is_not_handed_out(own_cache: Path) -> None:
    folder = twins.converted_folder("electra")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    weights = folder / "model.safetensors"
    with weights.open("r+b") as file:  # as long as before, with other bytes within
        file.seek(len(whole[weights.name]) // 2)
        file.write(b"\0" * 64)
    (folder / "config.json").unlink()
    assert twins.converted_folder("electra") == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    assert list(own_cache.rglob("*unfinished*")) == []


def test_half_a_folder_is_not_handed_out(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            twins.converted_folder("electra")
    assert list((own_cache / "twins").iterdir()) == []
    # What a process leaves that could not even tidy up, a week later.
    leftover = own_cache / "twins" / ".unfinished-x"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    os.utime(leftover, (0, time.time() - 8 * 24 * 3600))
    folder = twins.converted_folder("electra")
    assert list((own_cache / "twins").iterdir()) == [folder]
    assert (folder / "model.safetensors").read_bytes() == b"model.safetensors " * 100


def test_two_threads_and_two_processes_at_once(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Barrier(2)
    moved, found = [], []
    move = twins._move

    def together(place: Path, folder: Path) -> None:
        start.wait(timeout=60)
        moved.append(place)
        move(place, folder)

    def ask() -> None:
        found.append(twins.converted_folder("electra"))

    monkeypatch.setattr(twins, "_move", together)
    monkeypatch.setattr(twins, "_making", nullcontext())  # two processes share no lock
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    monkeypatch.setenv("HEADS_CACHE", str(own_cache))
    assert len(set(moved)) == 2
    assert found[0] == found[1]
    assert twins._is_whole(found[0])
    assert list((own_cache / "twins").iterdir()) == [found[0]]


def test_a_disk_that_cannot_be_written_to_gets_one_sentence(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2-as-electra cannot be written") as caught:
        twins.converted_folder("electra")
    assert "HEADS_CACHE" in caught.value.hint


def test_other_tensors_in_the_installed_transformers_are_noticed() -> None:
    rows = TWINS["roberta"]
    config = twins._config(rows, {"hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9})
    with pytest.raises(ModelError, match=r"has other tensors in roberta: embeddings\."):
        twins._fit(rows, config, {})


def test_a_conversion_is_made_and_used_like_any_base_model(capfd):
    code, out, _ = run(capfd, "convert")
    assert code == 0
    assert "all-MiniLM-L6-v2-as-roberta" in out.replace("\n", "")
    code, out, _ = run(capfd, "convert", "roberta", "--json")
    name = json.loads(out)["model"]
    code, out, _ = run(capfd, "fetch", name)
    assert (code, f"{name} " in out) == (0, True)
    code, out, _ = run(capfd, "explain", "own", "--model", name)
    assert code == 0
    assert "classifier.out_proj" in out
    assert "This head is random" in out.replace("\n", " ")
    code, _, err = run(capfd, "convert", "robert")
    assert (code, "Did you mean 'roberta'?" in err) == (2, True)
