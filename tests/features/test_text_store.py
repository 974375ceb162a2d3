"""Features text by text: each text read once, whatever is asked for and whatever stands beside."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from encoded_texts import forget_memory, last, recipe_of
from filelock import FileLock
from tiny_models import WORDS
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine
from heads.events import Progress
from heads.features import extraction, text_store
from heads.features.extraction import extract
from heads.features.store import COUNTS, DIGEST, FeatureMatrices
from heads.features.text_store import TextBatch, TextStore, extract_by_text
from heads.interruption import Interrupted, interruptible
from heads.parts.registry import pooling
from heads.parts.resolve import resolve
from heads.settings import Limits, set_limits

MENU = (
    "cls", "last", "eos", "mean", "mean_content", "max", "pooler", "trained", "cls_mean",
    "mean_max", "sqrt_mean", "weighted", "std",
)  # fmt: skip
OTHERS = ("mean@1", "cls@cat4", "flatten?length=4", "gem?power=2.0", "mask_token")
WORDY = random.Random(1)
TEXTS = [" ".join(WORDY.choices(WORDS, k=WORDY.randint(1, 9))) + f" {n}" for n in range(24)]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, ...]]:
    """How often each text goes through the base model, by its tokens."""
    found, original = Counter[tuple[int, ...]](), InferenceEngine.passes

    def counted(self: InferenceEngine, texts: Sequence, layers: object) -> Iterator:
        found.update(tuple(text.inputs["input_ids"]) for text in texts)
        return original(self, texts, layers)

    monkeypatch.setattr(InferenceEngine, "passes", counted)
    return found


def read(
    reading: str,
    texts: Sequence[str],
    backbone: Backbone,
    pairs: Sequence[str] = (),
    on_disk: bool = True,
) -> Tensor:
    asked = resolve(recipe_of(reading))
    found = last(extract_by_text([asked], texts, pairs, backbone, on_disk=on_disk))
    return found.matrix(asked.reading)[found.index]


def in_chunks(
    reading: str, texts: Sequence[str], backbone: Backbone, pairs: Sequence[str] = ()
) -> Tensor:
    """The features as a run reads them, in a cache of its own."""
    asked = resolve(recipe_of(reading))
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as place:
        patch.setenv("HEADS_CACHE", place)
        found = last(extract([asked], texts, pairs, backbone))
        return found.matrix(asked.reading)[found.index]


def files(home: Path) -> list[Path]:
    return sorted(home.glob("texts-*/*.safetensors"))


# Once


def test_a_pass_for_one_recipe_serves_all_of_the_menu(small, passes):
    for start, reading in enumerate(MENU):  # another part of the texts each time
        some = TEXTS[start : start + 11]
        found = read(reading, some, small, on_disk=start % 2 == 0)
        torch.testing.assert_close(found, in_chunks(reading, some, small), atol=1e-5, rtol=1e-4)
    passes.clear()
    for reading in MENU:
        read(reading, TEXTS[:23], small)
    assert passes.total() == 0
    read("max", TEXTS, small)
    assert passes.total() == 1  # the last text is new


def test_what_a_run_has_read_is_found_text_by_text(small, passes):
    recipes = [resolve(recipe_of(reading)) for reading in ("mean", "cls@cat4")]
    run = last(extract(recipes, TEXTS[:20], [], small))
    passes.clear()
    for one in recipes:
        found = read(one.reading, TEXTS[19:9:-1], small)
        assert torch.equal(found, run.matrix(one.reading)[run.index][10:].flip(0))
    assert passes.total() == 0


def test_the_numbers_of_a_run_do_not_depend_on_what_was_read_before(small):
    wanted = in_chunks("mean", TEXTS, small)
    for some in (TEXTS, TEXTS[:7]):
        read("mean", some, small)
    run = last(extract([resolve("mean+linear")], TEXTS, [], small))
    assert torch.equal(run.matrix("mean")[run.index], wanted)


def test_the_menu_is_every_builtin_pooling_that_is_fixed_and_has_no_option(small):
    assert tuple(text_store._menu(small)) == MENU
    assert {name for name, part in pooling.items() if not part.learned} == {
        *MENU, "gem", "flatten", "mask_token"
    }  # fmt: skip


def test_each_text_is_read_once_however_often_it_is_asked_for(small, passes):
    for some in (TEXTS[:20], TEXTS[10:], [*TEXTS, *TEXTS[::-1]], TEXTS[5:6]):
        read("mean", some, small)
    assert set(passes.values()) == {1}
    assert passes.total() == len(TEXTS)


@pytest.mark.parametrize("reading", OTHERS)
def test_what_is_on_no_menu_is_read_once_where_it_is_asked_for(small, passes, reading):
    wanted = in_chunks(reading, TEXTS, small)
    read("mean", TEXTS, small)
    passes.clear()
    for rows in (slice(9), slice(None), slice(3, None)):
        found = read(reading, TEXTS[rows], small)
        torch.testing.assert_close(found, wanted[rows], atol=1e-5, rtol=1e-4)
    assert set(passes.values()) == {1}
    assert passes.total() == len(TEXTS)
    read("mean", TEXTS, small)
    assert passes.total() == len(TEXTS)


# On disk


def test_what_is_read_for_an_answer_alone_leaves_no_file(small, home, passes, monkeypatch):
    read("mean", TEXTS, small, on_disk=False)
    read("cls", TEXTS, small)
    assert (files(home), passes.total()) == ([], len(TEXTS))
    forget_memory(monkeypatch)
    read("cls", TEXTS, small)
    assert (len(files(home)), passes.total()) == (1, 2 * len(TEXTS))


# Beside others


@pytest.fixture
def taken(small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another process reads by this base model, and does not end; some texts were read before."""
    read("mean", TEXTS[:3], small)
    forget_memory(monkeypatch)
    (folder,) = {path.parent for path in files(home)}
    with FileLock(folder / ".lock"):
        yield


def at_once(function: Callable[[], Tensor]) -> Tensor:
    """What a function gives, which must not wait."""
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it waits"
    return found[0]


@pytest.mark.usefixtures("taken")
def test_an_answer_waits_for_nobody(small):
    found = at_once(lambda: read("mean", TEXTS[:6], small, on_disk=False))
    torch.testing.assert_close(found, in_chunks("mean", TEXTS[:6], small), atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("taken")
def test_what_is_kept_is_found_while_others_read(small, passes):
    at_once(lambda: read("cls", TEXTS[:3], small))
    assert passes.total() == 0


@pytest.mark.usefixtures("taken")
def test_who_waits_says_so_and_can_be_stopped(small):
    asked: list[int] = []

    def stop_later() -> None:
        asked.append(1)
        if len(asked) > 4:
            raise Interrupted

    events = extract_by_text([resolve("mean+linear")], TEXTS, [], small)
    with interruptible(stop_later):
        event = next(events)
        assert isinstance(event, Progress)
        assert event.says.endswith("others are reading, it waits")
        with pytest.raises(Interrupted):
            last(events)


def test_those_who_read_for_the_disk_take_turns_and_read_each_text_once(small, passes, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 4)
    asked = [resolve("mean+linear")]
    left = [extract_by_text(asked, some, [], small) for some in (TEXTS, TEXTS[::-1])]
    found = []
    while left:
        for events in list(left):
            if isinstance(event := next(events), FeatureMatrices):
                found.append(event.fresh)
                left.remove(events)
    assert passes.total() == len(TEXTS)
    assert min(found) >= 8  # neither waits for the other's end


# Room


def test_memory_is_bounded_and_what_was_used_last_stays(small, passes, monkeypatch):
    each = 4 * 16 * small.width + 3 * 8  # of a text under all of the menu, with its counts
    most = 5 * each
    set_limits(Limits(kept_features_bytes=most))
    for text in TEXTS[:12]:
        read("mean", [text], small, on_disk=False)
        read("mean", [TEXTS[0]], small, on_disk=False)
        assert text_store._store._held <= most
    assert text_store._store._held == 5 * each
    passes.clear()
    read("cls", [TEXTS[0], *TEXTS[8:12]], small, on_disk=False)
    assert passes.total() == 0
    read("cls", TEXTS[1:8], small, on_disk=False)  # more than fit with the menu
    assert passes.total() == 7
    assert text_store._store._held <= most


def test_of_more_texts_than_fit_only_what_is_asked_for_is_kept(small, home, monkeypatch):
    set_limits(Limits(kept_features_bytes=5_000))
    found = read("mean", TEXTS, small)
    torch.testing.assert_close(found, in_chunks("mean", TEXTS, small), atol=1e-5, rtol=1e-4)
    (path,) = files(home)
    assert text_store._opened(path).names == {"mean", *COUNTS}


def test_a_batch_that_is_let_go_is_found_no_more():
    store, digest = TextStore(), b"0" * DIGEST
    for value in (1.0, 2.0):
        batch = TextBatch(
            names=frozenset({"mean"}),
            digests=(digest,),
            content={"mean": torch.full((1, 4), value)},
        )
        store.add(batch, most=16)
    found = {"mean": torch.zeros(1, 4)}
    assert store.fill(found, [digest], [0]) == []
    assert found["mean"].tolist() == [[2.0] * 4]
    assert store.fill({"cls": torch.zeros(1, 4)}, [digest], [0]) == [0]
    store.add(TextBatch(names=frozenset(), digests=(), content={"x": torch.zeros(5)}), most=0)
    assert store.lacks("mean", digest)
