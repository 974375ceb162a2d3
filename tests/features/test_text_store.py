"""Features text by text: each text read once, whatever is asked for and whatever stands beside."""

import copy
import random
import runpy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from filelock import FileLock
from full_disk import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import WORDS
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine
from heads.errors import RecipeError
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


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own for every test, on disk and in memory."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    another_process(monkeypatch)
    return tmp_path / "cache" / "features"


def another_process(patch: pytest.MonkeyPatch) -> None:
    """Forgets what this one has in memory."""
    patch.setattr(text_store, "_store", TextStore())


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, ...]]:
    """How often each text goes through the base model, by its tokens."""
    found, original = Counter[tuple[int, ...]](), InferenceEngine.passes

    def counted(self: InferenceEngine, texts: Sequence, layers: object) -> Iterator:
        found.update(tuple(text.inputs["input_ids"]) for text in texts)
        return original(self, texts, layers)

    monkeypatch.setattr(InferenceEngine, "passes", counted)
    return found


def recipe(reading: str) -> str:
    name, mark, options = reading.partition("?")
    return f"{name}+linear{mark}{options}"


def last(events: Iterator[Progress | FeatureMatrices]) -> FeatureMatrices:
    *_, found = events
    assert isinstance(found, FeatureMatrices)
    return found


def read(
    reading: str,
    texts: Sequence[str],
    backbone: Backbone,
    pairs: Sequence[str] = (),
    on_disk: bool = True,
) -> Tensor:
    asked = resolve(recipe(reading))
    found = last(extract_by_text([asked], texts, pairs, backbone, on_disk=on_disk))
    return found.matrix(asked.reading)[found.index]


def in_chunks(
    reading: str, texts: Sequence[str], backbone: Backbone, pairs: Sequence[str] = ()
) -> Tensor:
    """The features as a run reads them, in a cache of its own."""
    asked = resolve(recipe(reading))
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as place:
        patch.setenv("HEADS_CACHE", place)
        found = last(extract([asked], texts, pairs, backbone))
        return found.matrix(asked.reading)[found.index]


def files(home: Path) -> list[Path]:
    return sorted(home.glob("texts-*/*.safetensors"))


# Once


def test_a_pass_for_one_recipe_serves_all_of_the_menu(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
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


def test_what_a_run_has_read_is_found_text_by_text(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    recipes = [resolve(recipe(reading)) for reading in ("mean", "cls@cat4")]
    run = last(extract(recipes, TEXTS[:20], [], small))
    passes.clear()
    for one in recipes:
        found = read(one.reading, TEXTS[19:9:-1], small)
        assert torch.equal(found, run.matrix(one.reading)[run.index][10:].flip(0))
    assert passes.total() == 0


def test_the_numbers_of_a_run_do_not_depend_on_what_was_read_before(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    wanted = in_chunks("mean", TEXTS, small)
    for some in (TEXTS, TEXTS[:7]):
        read("mean", some, small)
    run = last(extract([resolve("mean+linear")], TEXTS, [], small))
    assert torch.equal(run.matrix("mean")[run.index], wanted)


def test_the_menu_is_every_builtin_pooling_that_is_fixed_and_has_no_option(small: Backbone) -> None:
    assert tuple(text_store._menu(small)) == MENU
    assert {name for name, part in pooling.items() if not part.learned} == {
        *MENU, "gem", "flatten", "mask_token"
    }  # fmt: skip


def test_each_text_is_read_once_however_often_it_is_asked_for(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    for some in (TEXTS[:20], TEXTS[10:], [*TEXTS, *TEXTS[::-1]], TEXTS[5:6]):
        read("mean", some, small)
    assert set(passes.values()) == {1}
    assert passes.total() == len(TEXTS)


@pytest.mark.parametrize("reading", OTHERS)
def test_what_is_on_no_menu_is_read_once_where_it_is_asked_for(
    small: Backbone, passes: Counter[tuple[int, ...]], reading: str
) -> None:
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


def test_second_texts_are_read_beside_the_first_and_kept_apart(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    pairs = TEXTS[::-1]
    one = read("mean", TEXTS, small, pairs)
    torch.testing.assert_close(one, in_chunks("mean", TEXTS, small, pairs), atol=1e-5, rtol=1e-4)
    passes.clear()
    read("cls", TEXTS[:7], small, pairs[:7])
    assert passes.total() == 0
    assert not torch.allclose(read("mean", TEXTS, small), one)
    assert passes.total() == len(TEXTS)


def test_tokens_are_counted_as_chunks_count_them(small: Backbone) -> None:
    texts = ["the cat", "cat " * 100, "ж cat", "the cat"]
    asked = [resolve("mean+linear")]
    for recipes in (asked, []):  # without a reading nothing is read, and tokens are still counted
        found = last(extract_by_text(recipes, texts, [], small))
        wanted = last(extract(recipes, texts, [], small))
        for name in ("index", "tokens", "whole", "unknown"):
            assert torch.equal(getattr(found, name), getattr(wanted, name))
        assert found.fresh == (3 if recipes else 0)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8),
            st.sampled_from(("mean", "max", "mean@1")),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=15)
def test_whatever_was_asked_before_a_text_has_its_own_vector(small: Backbone, asked: list) -> None:
    with pytest.MonkeyPatch.context() as patch:
        another_process(patch)
        for texts, reading, on_disk in asked:
            found = read(reading, texts, small, on_disk=on_disk)
            wanted = in_chunks(reading, TEXTS, small)
            for row, text in enumerate(texts):
                theirs = wanted[TEXTS.index(text)]
                torch.testing.assert_close(found[row], theirs, atol=1e-5, rtol=1e-4)


def test_a_reading_that_does_not_fit_is_refused_before_any_work(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    with pytest.raises(RecipeError, match="There is no layer 9"):
        read("mean@9", TEXTS, small)
    assert passes.total() == 0


# On disk


def test_another_process_finds_what_was_read_here(
    small: Backbone, passes: Counter[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = read("mean", TEXTS, small)
    another_process(monkeypatch)
    passes.clear()
    assert torch.equal(read("mean", TEXTS, small), once)
    read("std", TEXTS[4:], small)
    assert passes.total() == 0


def test_what_is_read_for_an_answer_alone_leaves_no_file(
    small: Backbone, home: Path, passes: Counter[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read("mean", TEXTS, small, on_disk=False)
    read("cls", TEXTS, small)
    assert (files(home), passes.total()) == ([], len(TEXTS))
    another_process(monkeypatch)
    read("cls", TEXTS, small)
    assert (len(files(home)), passes.total()) == (1, 2 * len(TEXTS))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(b"no features at all"),
        lambda path: path.unlink(),
    ],
    ids=["cut", "foreign", "gone"],
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_a_broken_file_is_read_anew(
    small: Backbone, home: Path, spoil: object, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = read("mean", TEXTS, small)
    read("mean", ["another one"], small)
    broken = max(files(home), key=lambda path: path.stat().st_size)
    spoil(broken)  # type: ignore[operator]
    if not known:
        another_process(monkeypatch)
    found = last(extract_by_text([resolve("mean+linear")], [*TEXTS, "another one"], [], small))
    assert found.fresh == len(TEXTS)
    torch.testing.assert_close(found.matrix("mean")[:-1], once, atol=1e-6, rtol=1e-5)
    another_process(monkeypatch)
    assert last(extract_by_text([resolve("cls+linear")], TEXTS, [], small)).fresh == 0


@pytest.mark.parametrize("where", ["full", "a file"])
def test_a_disk_that_takes_nothing_still_gives_features_and_they_are_kept(
    small: Backbone, home: Path, where: str, passes: Counter[tuple[int, ...]]
) -> None:
    wanted = in_chunks("mean", TEXTS, small)
    passes.clear()
    if where == "full":
        with full_disk(64):
            found = [read(reading, TEXTS, small) for reading in ("mean", "cls")]
    else:
        elsewhere = home.parent.parent / "a file"
        elsewhere.write_text("where a folder should be")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HEADS_CACHE", str(elsewhere))
            found = [read(reading, TEXTS, small) for reading in ("mean", "cls")]
    torch.testing.assert_close(found[0], wanted, atol=1e-6, rtol=1e-5)
    assert passes.total() == len(TEXTS)


def test_threads_that_ask_for_the_same_read_it_once(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda reading: read(reading, TEXTS, small), ("mean", "cls") * 4))
    assert all(torch.equal(one, found[number % 2]) for number, one in enumerate(found))
    assert passes.total() == len(TEXTS)


def test_many_texts_are_read_in_several_goes_of_which_each_is_kept(
    small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "CHUNK", 5)
    events = extract_by_text([resolve("mean+linear")], TEXTS, [], small)
    shares = []
    for event in events:
        assert isinstance(event, Progress)
        shares.append(event.share)
        if event.share > 0.5:
            break
    events.close()  # type: ignore[attr-defined]
    assert shares == sorted(shares)
    kept = len(files(home))
    assert kept > 0
    another_process(monkeypatch)
    found = last(extract_by_text([resolve("mean+linear")], TEXTS, [], small))
    assert found.fresh == len(TEXTS) - 5 * kept
    wanted = in_chunks("mean", TEXTS, small)
    torch.testing.assert_close(found.matrix("mean"), wanted, atol=1e-5, rtol=1e-4)


# Beside others


@pytest.fixture
def taken(small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another process reads by this base model, and does not end; some texts were read before."""
    read("mean", TEXTS[:3], small)
    another_process(monkeypatch)
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
def test_an_answer_waits_for_nobody(small: Backbone) -> None:
    found = at_once(lambda: read("mean", TEXTS[:6], small, on_disk=False))
    torch.testing.assert_close(found, in_chunks("mean", TEXTS[:6], small), atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("taken")
def test_what_is_kept_is_found_while_others_read(
    small: Backbone, passes: Counter[tuple[int, ...]]
) -> None:
    at_once(lambda: read("cls", TEXTS[:3], small))
    assert passes.total() == 0


@pytest.mark.usefixtures("taken")
def test_who_waits_says_so_and_can_be_stopped(small: Backbone) -> None:
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


def test_those_who_read_for_the_disk_take_turns_and_read_each_text_once(
    small: Backbone, passes: Counter[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_memory_is_bounded_and_what_was_used_last_stays(
    small: Backbone, passes: Counter[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_of_more_texts_than_fit_only_what_is_asked_for_is_kept(
    small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(Limits(kept_features_bytes=5_000))
    found = read("mean", TEXTS, small)
    torch.testing.assert_close(found, in_chunks("mean", TEXTS, small), atol=1e-5, rtol=1e-4)
    (path,) = files(home)
    assert text_store._opened(path).names == {"mean", *COUNTS}


def test_the_store_on_disk_keeps_the_bound_of_all_features(
    small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_store, "ON_DISK_BYTES", 10_000)
    monkeypatch.setattr(text_store, "IN_USE_SECONDS", 0)
    for text in TEXTS[:9]:
        assert read("mean", [text], small).shape == (1, small.width)
    assert sum(path.stat().st_size for path in files(home)) <= 10_000


def test_a_batch_that_is_let_go_is_found_no_more() -> None:
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


# What numbers depend on


def test_other_weights_and_other_code_are_read_anew(
    small: Backbone, passes: Counter[tuple[int, ...]], tmp_path: Path
) -> None:
    read("mean", TEXTS, small)
    read("mean", TEXTS, replace(small, revision="another"))
    read("mean", TEXTS, replace(small, tokens=5))
    assert passes.total() == 3 * len(TEXTS)
    file = tmp_path / "mine.py"
    try:
        for expression in ("mask / mask.sum(dim=1, keepdim=True)", "mask * (mask.cumsum(1) == 1)"):
            pooling._parts.pop("mine", None)
            file.write_text(
                "import heads\n\n@heads.pooling\ndef mine(mask, states):\n"
                '    """A pooling of a test.\n\n    Source: a test.\n    """\n'
                f"    return {expression}\n"
            )
            runpy.run_path(str(file))
            passes.clear()
            found = read("mine", TEXTS, small)
            assert passes.total() == len(TEXTS)
        torch.testing.assert_close(found, read("cls", TEXTS, small))
        assert passes.total() == len(TEXTS)
    finally:
        pooling._parts.pop("mine", None)


def test_a_base_model_without_a_mask_token_says_so(small: Backbone) -> None:
    bare = copy.deepcopy(small.tokenizer)
    bare.mask_token = None
    with pytest.raises(RecipeError, match="has no mask token, so it cannot be asked to fill one"):
        read("mask_token", ["a dog"], replace(small, tokenizer=bare))
