"""Features: the numbers of one text at a time, each read once, kept on disk if that is possible."""

import copy
import csv
import multiprocessing
import runpy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from full_disk import full_disk
from tiny_models import TINY_POSITIONS, TINY_WIDTH
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import backends
from heads.backbone.loading import load
from heads.caching import make_room
from heads.checked_files import read_tensors
from heads.data.samples import SAMPLES
from heads.errors import RecipeError
from heads.events import Progress
from heads.features import extraction
from heads.features.extraction import FeatureMatrices, extract
from heads.features.featurizer import Featurizer
from heads.parts.registry import pooling
from heads.parts.resolve import resolve

READINGS = (
    "mean", "cls", "last", "max", "weighted", "mean_content", "cls_mean", "pooler", "mean@1",
    "cls@cat4", "mean@0", "flatten?length=4",
)  # fmt: skip
TEXTS = ("the cat sat", "a dog ran home twice and was late", "it", "on a mat, and on the cat.")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own for every test."""
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def recipe(reading: str) -> str:
    name, mark, options = reading.partition("?")
    return f"{name}+linear{mark}{options}"


def read(
    readings: Sequence[str], texts: Sequence[str], backbone: Backbone, pairs: Sequence[str] = ()
) -> tuple[FeatureMatrices, list[Progress]]:
    *progress, features = extract(
        [resolve(recipe(one)) for one in readings], texts, pairs, backbone
    )
    assert isinstance(features, FeatureMatrices)
    return features, [step for step in progress if isinstance(step, Progress)]


def rows_of(features: FeatureMatrices, reading: str) -> Tensor:
    return features.matrix(reading)[features.index]


def alone(reading: str, backbone: Backbone, text: str, pair: str = "") -> Tensor:
    """The vector of a text that is read by itself."""
    reader = Featurizer(resolve(recipe(reading)), backbone)
    with torch.inference_mode():
        states = backbone.states(backbone.encode([text], [pair] if pair else []))
        return reader(states).vectors[0]


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*.safetensors"))


# The numbers


def test_every_reading_gives_what_a_text_gives_by_itself(small: Backbone) -> None:
    features, _ = read(READINGS, TEXTS, small)
    assert set(features.parts) == {resolve(recipe(one)).reading for one in READINGS}
    for reading in READINGS:
        found = rows_of(features, reading)
        for row, text in enumerate(TEXTS):
            assert torch.allclose(found[row], alone(reading, small, text), atol=1e-5), reading


def test_readings_with_a_prompt_are_read_with_it_and_others_without(small: Backbone) -> None:
    readings = ["mean", "mask_token", "mask_token?prompt=so", "max"]
    texts = ["a dog", "the old cat runs", "a dog", "and"]
    features, progress = read(readings, texts, small)
    assert [step.share for step in progress] == sorted(step.share for step in progress)
    for reading in readings:
        prompt = resolve(recipe(reading)).prompt
        for row, text in enumerate(texts):
            wanted = alone(reading, small.prompted(prompt), text)
            torch.testing.assert_close(
                rows_of(features, reading)[row], wanted, rtol=1e-4, atol=1e-5
            )
    one, other = (rows_of(features, reading) for reading in readings[1:3])
    assert not torch.allclose(one, other, atol=1e-3)


def test_a_prompt_stands_behind_the_last_word_however_long_the_text_is(small: Backbone) -> None:
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


def test_a_base_model_without_a_mask_token_says_so(small: Backbone) -> None:
    bare = copy.deepcopy(small.tokenizer)
    bare.mask_token = None
    with pytest.raises(RecipeError, match="has no mask token, so it cannot be asked to fill one"):
        read(["mask_token"], ["a dog"], replace(small, tokenizer=bare))


def test_second_texts_are_read_beside_the_first(small: Backbone) -> None:
    pairs = ("a mat", "home", "it was late", "the dog")
    features, _ = read(["mean", "cls"], TEXTS, small, pairs)
    for reading in ("mean", "cls"):
        for row, (text, pair) in enumerate(zip(TEXTS, pairs, strict=True)):
            wanted = alone(reading, small, text, pair)
            assert torch.allclose(rows_of(features, reading)[row], wanted, atol=1e-5)
    without, _ = read(["mean"], TEXTS, small)
    assert not torch.allclose(rows_of(without, "mean"), rows_of(features, "mean"))


def test_the_bundled_model_reads_a_sample_in_its_order(backbone: Backbone) -> None:
    with SAMPLES["sentiment"].path.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)][:24]
    features, _ = read(["mean", "mean@cat4"], texts, backbone)
    for reading in ("mean", "mean@cat4"):
        wanted = torch.stack([alone(reading, backbone, text) for text in texts])
        assert torch.allclose(rows_of(features, reading), wanted, atol=1e-5)


def test_what_occurs_twice_is_read_once(small: Backbone) -> None:
    texts = [TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[2], TEXTS[1], TEXTS[0]]
    features, _ = read(["mean"], texts, small)
    assert features.fresh == 3
    assert features.index.tolist() == [0, 1, 0, 2, 1, 0]
    assert features.matrix("mean").shape == (3, TINY_WIDTH)
    one, other, *_ = rows_of(features, "mean")[2:]
    assert torch.allclose(one, alone("mean", small, TEXTS[0]), atol=1e-5)
    assert torch.allclose(other, alone("mean", small, TEXTS[2]), atol=1e-5)


def test_a_text_with_another_second_text_is_another_row(small: Backbone) -> None:
    features, _ = read(["mean"], ["the cat"] * 3, small, ["a", "the dog", "a"])
    assert features.index.tolist() == [0, 1, 0]
    assert features.fresh == 2


def test_tokens_are_counted_and_cuts_are_known(small: Backbone) -> None:
    texts = ["the cat", "cat " * 100, "ж cat"]
    features, _ = read(["mean"], texts, small)
    assert features.whole.tolist() == [4, 102, 4]
    assert features.tokens.tolist() == [4, TINY_POSITIONS, 4]
    assert features.unknown.tolist() == [0, 0, 1]
    cut, whole = rows_of(features, "mean")[1], alone("mean", small, "cat " * 38)
    assert torch.allclose(cut, whole, atol=1e-5)


def test_a_reading_that_does_not_fit_is_refused_before_any_work(small: Backbone) -> None:
    with pytest.raises(RecipeError, match="There is no layer 9"):
        read(["mean", "mean@9"], TEXTS, small)


def test_tokens_are_counted_where_no_reading_is_fixed(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backbone, "states", lambda *_: pytest.fail("nothing is to be read"))
    features, steps = read([], TEXTS, small)
    assert (features.fresh, features.seconds, dict(features.parts), steps) == (0, 0.0, {}, [])
    assert features.tokens.tolist() == [len(one) for one in small.encode(TEXTS)]
    assert features.index.tolist() == [0, 1, 2, 3]


# What is under way


def test_progress_ascends_to_one_and_tells_rate_and_time(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "CHUNK", 50)
    texts = [f"the cat {number} sat" + " on a mat" * (number % 9) for number in range(120)]
    _, steps = read(["mean"], texts, small)
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1.0
    assert all("a second" in step.says and "s left" in step.says for step in steps)
    assert steps[0].says.startswith("Encoding 120 texts with")


def test_progress_of_a_part_that_is_missing_still_ends_at_one(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "CHUNK", 20)
    texts = [f"cat {number}" for number in range(60)]
    read(["mean"], texts[:40], small)
    features, steps = read(["mean"], texts, small)
    assert features.fresh == 20
    assert steps[-1].share == 1.0
    assert [step.share for step in steps] == sorted(step.share for step in steps)


# What is kept


def test_a_second_run_reads_nothing_and_has_the_same_numbers(small: Backbone) -> None:
    once, _ = read(READINGS, TEXTS, small)
    again, steps = read(READINGS, TEXTS, small)
    assert (again.fresh, again.seconds, steps) == (0, 0.0, [])
    for reading in READINGS:
        assert torch.equal(once.matrix(reading), again.matrix(reading))
    for name in ("index", "tokens", "whole", "unknown"):
        assert torch.equal(getattr(once, name), getattr(again, name))


def test_a_reading_that_is_added_later_is_all_that_is_computed(
    small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    vectors = [path for path in before if "mean" in read_tensors(path)[0]]
    assert vectors
    assert [path.stat().st_ino for path in vectors] == [before[path] for path in vectors]
    assert torch.allclose(rows_of(features, "cls")[0], alone("cls", small, TEXTS[0]), atol=1e-5)


def test_other_texts_other_models_and_pairs_are_kept_apart(
    small: Backbone, tiny: Callable[..., Path]
) -> None:
    other = load(str(tiny("electra")))
    read(["mean"], TEXTS, small)
    assert read(["mean"], TEXTS, other)[0].fresh == len(TEXTS)
    assert read(["mean"], TEXTS[:3], small)[0].fresh == 3
    assert read(["mean"], TEXTS, small, TEXTS)[0].fresh == len(TEXTS)
    assert read(["mean"], TEXTS, small)[0].fresh == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no features at all"),
        lambda path: path.unlink(),
    ],
    ids=["cut", "empty", "foreign", "gone"],
)
def test_a_broken_file_is_read_anew(
    small: Backbone, home: Path, spoil: Callable[[Path], object]
) -> None:
    once, _ = read(["mean", "cls"], TEXTS, small)
    counted = [path for path in files(home) if "tokens" in read_tensors(path)[0]]
    assert len(counted) == 1
    for path in files(home):
        spoil(path)
        again, _ = read(["mean", "cls"], TEXTS, small)
        assert again.fresh == len(TEXTS) * (path not in counted)
        assert torch.equal(again.tokens, once.tokens)
        assert torch.equal(again.matrix("mean"), once.matrix("mean"))
        assert torch.equal(again.matrix("cls"), once.matrix("cls"))
        assert read(["mean", "cls"], TEXTS, small)[0].fresh == 0


def test_a_pass_that_is_given_up_keeps_the_chunks_that_are_done(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "CHUNK", 10)
    texts = [f"cat {number} " + "and a dog " * 3 for number in range(30)]
    events = extract([resolve("mean+linear")], texts, [], small)
    shares = []
    for event in events:
        assert isinstance(event, Progress)
        shares.append(event.share)
        if event.share > 0.5:  # within the second chunk: the first is kept
            break
    events.close()
    features, _ = read(["mean"], texts, small)
    assert features.fresh == 20
    assert torch.allclose(rows_of(features, "mean")[29], alone("mean", small, texts[29]), atol=1e-5)


def test_a_larger_model_loses_less_when_it_is_killed(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("where", ["folder", "cache"])
def test_a_place_that_cannot_be_written_still_gives_features(
    small: Backbone, home: Path, where: str
) -> None:
    wanted, _ = read(["mean"], TEXTS, small)
    matrix = wanted.matrix("mean")
    for path in sorted(home.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    home.rmdir()
    place = home if where == "folder" else home.parent
    if where == "cache":
        place.rmdir()
    place.write_text("a file where a folder should be")
    features, _ = read(["mean"], TEXTS, small)
    assert features.fresh == len(TEXTS)
    assert torch.equal(features.matrix("mean"), matrix)


def test_a_full_disk_still_gives_features(small: Backbone, home: Path) -> None:
    with full_disk(64):
        features, _ = read(["mean", "cls"], TEXTS, small)
    assert torch.allclose(rows_of(features, "mean")[1], alone("mean", small, TEXTS[1]), atol=1e-5)
    assert [path for path in home.rglob("*") if path.is_file()] == []


# Several at once


def test_threads_that_read_the_same_do_not_disturb_each_other(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "CHUNK", 7)
    texts = [f"the dog {number} ran" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read(["mean", "max"], texts, small)[0], range(4)))
    for features in found[1:]:
        assert torch.equal(features.matrix("mean"), found[0].matrix("mean"))
        assert torch.equal(features.matrix("max"), found[0].matrix("max"))
    assert read(["mean", "max"], texts, small)[0].fresh == 0


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


def test_a_process_beside_does_not_disturb_either(
    tiny: Callable[..., Path], home: Path, small: Backbone
) -> None:
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


# Parts of the user's own, and room


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Puts a pooling from a file onto the shelf, in place of the one before it."""
    file = tmp_path / "mine.py"

    def put(expression: str) -> None:
        pooling._parts.pop("mine", None)
        file.write_text(
            "import heads\n\n@heads.pooling\ndef mine(mask, states):\n"
            '    """A pooling of a test.\n\n    Source: a test.\n    """\n'
            f"    return {expression}\n"
        )
        runpy.run_path(str(file))

    yield put
    pooling._parts.pop("mine", None)


def test_a_pooling_of_ones_own_is_read_anew_when_its_code_changes(
    small: Backbone, own: Callable[[str], None]
) -> None:
    own("mask / mask.sum(dim=1, keepdim=True)")
    first, _ = read(["mine", "mean"], TEXTS, small)
    assert torch.allclose(first.matrix("mine"), first.matrix("mean"), atol=1e-6)
    assert read(["mine"], TEXTS, small)[0].fresh == 0
    own("mask * (mask.cumsum(dim=1) == 1)")
    second, _ = read(["mine", "cls"], TEXTS, small)
    assert second.fresh == len(TEXTS)
    assert torch.equal(second.matrix("mine"), second.matrix("cls"))
    assert not torch.equal(second.matrix("mine"), first.matrix("mine"))


def test_the_store_is_bounded_and_what_is_in_use_stays(small: Backbone, home: Path) -> None:
    for number in range(6):
        read(["mean"], [f"cat {number}"], small)
    everything = files(home)
    assert len(everything) == 12
    make_room(home, 1, spared_seconds=3600)
    assert files(home) == everything
    make_room(home, sum(path.stat().st_size for path in everything) // 2)
    assert 0 < len(files(home)) <= 6
    assert read(["mean"], ["cat 5"], small)[0].fresh == 0  # the one that was used last


def test_extracting_keeps_the_store_within_its_bound(
    small: Backbone, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "ON_DISK_BYTES", 2_000)
    monkeypatch.setattr(extraction, "IN_USE_SECONDS", 0)
    for number in range(12):
        features, _ = read(["mean"], [f"the dog {number}"], small)
        assert features.matrix("mean").shape == (1, TINY_WIDTH)
    assert sum(path.stat().st_size for path in files(home)) <= 2_000
