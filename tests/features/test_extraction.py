"""Features: the numbers of one text at a time, each read once, kept on disk if that is possible."""

import copy
import multiprocessing
import runpy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from encoded_texts import forget_memory, recipe_of
from expected_errors import refusing
from full_disk import full_disk
from tiny_models import TINY_POSITIONS
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine, backends
from heads.backbone.loading import load
from heads.caching import make_room
from heads.checked_files import read_tensors
from heads.errors import RecipeError
from heads.events import Progress
from heads.features import extraction, text_store
from heads.features.extraction import FeatureMatrices, extract
from heads.features.featurizer import Featurizer
from heads.features.text_store import extract_by_text
from heads.parts.registry import pooling
from heads.parts.resolve import resolve

READINGS = (
    "mean", "cls", "last", "max", "weighted", "mean_content", "cls_mean", "pooler", "mean@1",
    "cls@cat4", "mean@0", "flatten?length=4",
)  # fmt: skip
TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")


WAYS = {"chunks": extract, "texts": extract_by_text}  # several texts a file, and text by text


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[..., Iterator[Progress | FeatureMatrices]]:
    return WAYS[request.param]


def read(
    readings: Sequence[str], texts: Sequence[str], backbone: Backbone, pairs: Sequence[str] = (),
    way: Callable[..., Iterator[Progress | FeatureMatrices]] = extract,
) -> tuple[FeatureMatrices, list[Progress]]:  # fmt: skip
    recipes = [resolve(recipe_of(one)) for one in readings]
    *progress, features = way(recipes, texts, pairs, backbone)
    assert isinstance(features, FeatureMatrices)
    return features, [step for step in progress if isinstance(step, Progress)]


def rows_of(features: FeatureMatrices, reading: str) -> Tensor:
    return features.matrix(reading)[features.index]


def alone(reading: str, backbone: Backbone, text: str, pair: str = "") -> Tensor:
    """The vector of a text that is read by itself."""
    reader = Featurizer(resolve(recipe_of(reading)), backbone)
    with torch.inference_mode():
        states = backbone.states(backbone.encode([text], [pair] if pair else []))
        return reader(states).vectors[0]


# The numbers


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*.safetensors"))


def assert_alone(features, readings, texts, backbone, pairs=()):
    """Every reading gives what a text gives that is read by itself."""
    for reading in readings:
        found = rows_of(features, reading)
        for row, text in enumerate(texts):
            wanted = alone(reading, backbone, text, *pairs[row : row + 1])
            torch.testing.assert_close(found[row], wanted, atol=1e-5, rtol=1e-4)


def test_every_text_is_read_once_and_has_the_numbers_that_it_has_alone(way, small):
    texts = [*TEXTS, TEXTS[2], TEXTS[0]]
    for reading in READINGS:
        features, _ = read([reading], texts, small, way=way)
        assert features.index.tolist() == [0, 1, 2, 3, 2, 0]
        assert features.matrix(reading_of(reading)).shape[0] == 4
        assert_alone(features, [reading], texts, small)
    assert read([READINGS[0]], texts, small, way=way)[0].fresh == 0


def reading_of(reading: str) -> str:
    return resolve(recipe_of(reading)).reading


def test_second_texts_are_read_beside_the_first_and_kept_apart(way, small):
    texts, pairs = [*TEXTS, TEXTS[0]], ["a mat", "home", "it was late", "the dog", "a cat"]
    features, _ = read(["mean"], texts, small, pairs, way)
    assert (features.fresh, features.index.tolist()) == (5, [0, 1, 2, 3, 4])
    assert_alone(features, ["mean"], texts, small, pairs)
    without, _ = read(["mean"], TEXTS, small, way=way)
    assert without.fresh == len(TEXTS)
    assert not torch.allclose(rows_of(without, "mean")[0], rows_of(features, "mean")[0])


def test_tokens_are_counted_and_cuts_are_known(way, small):
    texts = ["the cat", "cat " * 100, "ж cat"]
    for readings in (["mean"], []):  # without a reading nothing is read
        features, _ = read(readings, texts, small, way=way)
        assert features.whole.tolist() == [4, 102, 4]
        assert features.tokens.tolist() == [4, TINY_POSITIONS, 4]
        assert features.unknown.tolist() == [0, 0, 1]
        if readings:
            whole = alone("mean", small, "cat " * 38)
            assert torch.allclose(rows_of(features, "mean")[1], whole, atol=1e-5)
    restart_free, steps = read([], [f"{text} it" for text in texts], small, way=way)
    assert (restart_free.fresh, dict(restart_free.parts), steps) == (0, {}, [])


def test_what_does_not_fit_is_refused_before_any_work(way, small, monkeypatch):
    bare = copy.deepcopy(small.tokenizer)
    bare.mask_token = None
    monkeypatch.setattr(InferenceEngine, "passes", lambda *_: pytest.fail("nothing is to be read"))
    with refusing(RecipeError, "layer 9"):
        read(["mean@9"], TEXTS, small, way=way)
    with refusing(RecipeError, "mask token"):
        read(["mask_token"], ["a dog"], replace(small, tokenizer=bare), way=way)


def test_another_process_finds_all_and_what_differs_is_read_anew(way, small, tiny, monkeypatch):
    once, _ = read(["mean", "cls"][: 1 + (way is extract)], TEXTS, small, way=way)
    forget_memory(monkeypatch)
    again, steps = read(["mean"], TEXTS, small, way=way)
    assert (again.fresh, again.seconds, steps) == (0, 0.0, [])
    assert torch.equal(once.matrix("mean"), again.matrix("mean"))
    for name in ("index", "tokens", "whole", "unknown"):
        assert torch.equal(getattr(once, name), getattr(again, name))
    for other in (
        load(str(tiny("electra"))),
        replace(small, revision="another"),
        replace(small, tokens=5),
    ):
        assert read(["mean"], TEXTS, other, way=way)[0].fresh == len(TEXTS)
    assert read(["mean"], TEXTS, small, TEXTS, way)[0].fresh == len(TEXTS)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(b"no features at all"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["cut", "foreign", "empty", "gone"],
)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "new"])
def test_a_broken_file_is_read_anew(way, small, home, spoil, is_known, monkeypatch):
    once, _ = read(["mean"], TEXTS, small, way=way)
    for path in files(home):
        holds_vectors = "mean" in read_tensors(path)[0]
        spoil(path)
        if not is_known:
            forget_memory(monkeypatch)
        again, _ = read(["mean"], TEXTS, small, way=way)
        assert again.fresh == len(TEXTS) * holds_vectors
        assert torch.equal(again.tokens, once.tokens)
        torch.testing.assert_close(again.matrix("mean"), once.matrix("mean"), atol=1e-6, rtol=1e-5)
        forget_memory(monkeypatch)
        assert read(["mean"], TEXTS, small, way=way)[0].fresh == 0


def test_a_pass_that_is_given_up_keeps_the_chunks_that_are_done(way, small, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 10)
    texts = [f"cat {number} " + "and a dog " * 3 for number in range(30)]
    events, fractions = way([resolve("mean+linear")], texts, [], small), []
    for event in events:
        fractions.append(event.share)
        if event.share > 0.5:  # within the second chunk: the first is kept
            break
    events.close()
    assert fractions == sorted(fractions)
    forget_memory(monkeypatch)
    features, steps = read(["mean"], texts, small, way=way)
    assert features.fresh == 20
    assert steps[-1].share == 1.0
    assert_alone(features, ["mean"], texts, small)


@pytest.mark.parametrize("where", ["full", "folder", "cache"])
def test_a_place_that_cannot_be_written_still_gives_features(way, small, home, where):
    if where == "full":
        with full_disk(64):
            features, _ = read(["mean"], TEXTS, small, way=way)
        assert [path for path in home.rglob("*") if path.stat().st_size] == [*home.glob("*")]
    else:
        place = home if where == "folder" else home.parent
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("a file where a folder should be")
        features, _ = read(["mean"], TEXTS, small, way=way)
    assert features.fresh == len(TEXTS)
    assert_alone(features, ["mean"], TEXTS, small)


def test_threads_that_read_the_same_do_not_disturb_each_other(way, small, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 7)
    texts = [f"the dog {number} ran" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read(["mean"], texts, small, way=way)[0], range(4)))
    for features in found[1:]:
        assert torch.equal(features.matrix("mean"), found[0].matrix("mean"))
    assert read(["mean"], texts, small, way=way)[0].fresh == 0


def test_a_pooling_of_ones_own_is_read_anew_when_its_code_changes(way, small, tmp_path):
    file = tmp_path / "mine.py"
    try:
        for expression, like in (
            ("mask / mask.sum(dim=1, keepdim=True)", "mean"),
            ("mask * (mask.cumsum(dim=1) == 1)", "cls"),
        ):
            pooling._parts.pop("mine", None)
            file.write_text(
                "import heads\n\n@heads.pooling\ndef mine(mask, states):\n"
                '    """A pooling of a test.\n\n    Source: a test.\n    """\n'
                f"    return {expression}\n"
            )
            runpy.run_path(str(file))
            found, _ = read(["mine"], TEXTS, small, way=way)
            wanted, _ = read([like], TEXTS, small, way=way)
            assert found.fresh == len(TEXTS)
            torch.testing.assert_close(found.matrix("mine"), wanted.matrix(like))
            assert read(["mine"], TEXTS, small, way=way)[0].fresh == 0
    finally:
        pooling._parts.pop("mine", None)


def test_the_store_is_bounded_and_what_is_in_use_stays(way, small, home, monkeypatch):
    for number in range(6):
        read(["mean"], [f"cat {number}"], small, way=way)
    everything = files(home)
    make_room(home, 1, spared_seconds=3600)
    assert files(home) == everything
    make_room(home, sum(path.stat().st_size for path in everything) // 2)
    assert 0 < len(files(home)) <= len(everything) // 2
    assert read(["mean"], ["cat 5"], small, way=way)[0].fresh == 0  # the one that was used last
    for module in (extraction, text_store):
        monkeypatch.setattr(module, "ON_DISK_BYTES", 10_000)
        monkeypatch.setattr(module, "IN_USE_SECONDS", 0)
    for number in range(24):
        assert read(["mean"], [f"the dog {number}"], small, way=way)[0].matrix("mean").shape[0] == 1
    assert sum(path.stat().st_size for path in files(home)) <= 10_000


def test_readings_with_a_prompt_are_read_with_it_and_others_without(small):
    readings = ["mean", "mask_token", "mask_token?prompt=so", "max"]
    texts = ["a dog", "the old cat runs", "a dog", "and"]
    features, progress = read(readings, texts, small)
    assert [step.share for step in progress] == sorted(step.share for step in progress)
    for reading in readings:
        prompt = resolve(recipe_of(reading)).prompt
        for row, text in enumerate(texts):
            wanted = alone(reading, small.prompted(prompt), text)
            torch.testing.assert_close(
                rows_of(features, reading)[row], wanted, rtol=1e-4, atol=1e-5
            )
    one, other = (rows_of(features, reading) for reading in readings[1:3])
    assert not torch.allclose(one, other, atol=1e-3)


def test_a_prompt_stands_behind_the_last_word_however_long_the_text_is(small):
    asked, token = small.prompted("It_was"), small.tokenizer.mask_token_id
    for texts, pairs in ((["a dog", "", "dog " * 999], []), (["a dog"], ["the cat " * 999])):
        plain, found = small.encode(texts, pairs), asked.encode(texts, pairs)
        for before, text in zip(plain, found, strict=True):
            numbers = text.inputs["input_ids"]
            assert len(numbers) <= small.tokens
            assert {len(row) for row in text.inputs.values()} == {len(text)}
            assert numbers.count(token) == 1
            words = [number for number, one in zip(numbers, text.special, strict=True) if not one]
            assert words[-1] == token
            assert text.whole_length == before.whole_length + len(asked.prompt)
    # What a user writes is never taken for the prompt's own.
    (text,) = asked.encode(["[MASK] is a word"])
    last = len(text) - 1 - text.inputs["input_ids"][::-1].index(token)
    assert [place for place, one in enumerate(text.special) if not one][-1] == last


# What is under way


def test_progress_ascends_to_one_and_tells_rate_and_time(small, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 50)
    texts = [f"the cat {number} sat" + " on a mat" * (number % 9) for number in range(120)]
    _, steps = read(["mean"], texts, small)
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1.0
    assert all("a second" in step.says and "s left" in step.says for step in steps)
    assert steps[0].says.startswith("Encoding 120 texts with")


# What is kept


def test_a_reading_that_is_added_later_is_all_that_is_computed(small, home, monkeypatch):
    read(["mean"], TEXTS, small)
    before = {path: path.stat().st_ino for path in files(home)}
    asked = []
    forward = Featurizer.forward
    monkeypatch.setattr(
        Featurizer,
        "forward",
        lambda self, states: asked.append(self.resolved.reading) or forward(self, states),
    )
    features, _ = read(["mean", "cls"], TEXTS, small)
    assert set(asked) == {"cls"}
    assert features.fresh == len(TEXTS)
    vectors = [path for path in before if "tokens" not in read_tensors(path)[0]]
    assert [path.stat().st_ino for path in vectors] == [before[path] for path in vectors]
    assert torch.allclose(rows_of(features, "cls")[0], alone("cls", small, TEXTS[0]), atol=1e-5)


def test_a_larger_model_loses_less_when_it_is_killed(small, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 40)
    monkeypatch.setattr(extraction, "FEWEST", 5)
    rows = [(f"cat {number}", "") for number in range(100)]
    for parameters, sizes in (
        (10_000_000, [40, 40, 20]),
        (50_000_000, [20] * 5),
        (10**11, [5] * 20),
    ):
        model = replace(small, parameters=parameters)
        chunks = extraction._chunks(rows, False, model, backends(model, "exact")[0])
        assert [len(chunk.rows) for chunk in chunks] == sizes


# Several at once


def _elsewhere(
    model: str, texts: list[str], cache: str, told: "multiprocessing.Queue[int]"
) -> None:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_CACHE", cache)
        backbone = load(model)
        for _ in range(3):
            features, _ = read(["mean"], texts, backbone)
            told.put(int(features.matrix("mean").shape[0]))


def test_a_process_beside_does_not_disturb_either(tiny, home, small):
    texts = [f"the dog {number} ran" for number in range(40)]
    context = multiprocessing.get_context("fork")
    told: multiprocessing.Queue[int] = context.Queue()
    others = [
        context.Process(target=_elsewhere, args=(str(tiny()), texts, str(home.parent), told))
        for _ in range(2)
    ]
    for other in others:
        other.start()
    mine, _ = read(["mean"], texts, small)
    for other in others:
        other.join(30)
    assert [other.exitcode for other in others] == [0, 0]
    assert [told.get(timeout=5) for _ in range(6)] == [40] * 6
    again, _ = read(["mean"], texts, small)
    assert again.fresh == 0
    assert torch.equal(again.matrix("mean"), mine.matrix("mean"))
