"""One question is bounded: what is too much is told before work begins, and work can be ended."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
import torch
from quick_heads import QUICK, classifiers

import heads
from heads import interruption
from heads.backbone.backbone import _locks
from heads.errors import DataError, LimitError
from heads.events import result
from heads.inference.selection import SelectedHeads
from heads.interpret import ablation, neighbors, outputs
from heads.interpret.attribution import attributions
from heads.interpret.counterfactuals import COMPARED, compare_edits, pieces, suggest_edits
from heads.interpret.padding import report
from heads.runs.trainer import first_split
from heads.settings import PUBLIC, Limits, set_limits, use_limits

RECIPES = ("mean+linear", "cls+bert", "max+mlp", "cls+roberta")
LONG = "the film was not bad at all and my friends liked its slow ending a lot " * 30
MB = 1_000_000


@pytest.fixture(scope="module")
def asked(backbone, rows) -> SelectedHeads:
    found = tuple(classifiers(RECIPES, rows, backbone))
    return SelectedHeads(
        classifiers=found, corpus=rows, split_rows=lambda: first_split(rows, QUICK)
    )


def allowed(**values: int) -> None:
    set_limits(replace(PUBLIC, **values))


# --- Budgets.


def test_in_public_a_long_text_is_taken_apart_in_fewer_steps_and_that_is_told(asked):
    allowed(products=PUBLIC.products // 8)
    found = attributions(asked.classifiers, LONG[:100])
    assert all(8 <= one.steps < 32 for one in found)
    worst = max(found, key=lambda one: one.completeness_error)
    assert not worst.is_complete
    assert "not closely" in worst.says


def test_what_takes_too_long_in_however_few_steps_is_refused_before_it_begins(asked):
    allowed(products=40_000_000_000)
    begun = time.perf_counter()
    with pytest.raises(LimitError):
        attributions(asked.classifiers, LONG)
    assert time.perf_counter() - begun < 0.5
    assert attributions(asked.classifiers[:1], "Not bad at all.")[0].steps >= 32


def test_edits_are_counted_and_their_tokens_as_well(asked):
    allowed()
    edits = [f"{LONG} {number}" for number in range(PUBLIC.edits + 1)]
    with pytest.raises(LimitError):
        compare_edits(asked.classifiers, LONG, edits)
    with pytest.raises(LimitError):
        compare_edits(asked.classifiers, LONG, edits[1:])
    assert len(compare_edits(asked.classifiers, "Not bad.", ["Bad.", "Good."]).edits) == 2


def test_a_place_trains_only_so_many_heads_without_a_layer(asked):
    wanted = [(0, "dense"), (1, "dense"), (3, "dense")]
    rows = len(asked.learned)
    allowed(retrained_rows=rows)
    found = result(ablation.train_without(asked, wanted))
    assert [one.classifier is not None for one in found] == [False, True, False]
    assert found[2].why_not.startswith(f"This place trains one head on {rows:,} rows")
    allowed(retrained_rows=rows - 1)
    found = result(ablation.train_without(asked, wanted[1:2]))
    assert "do it on your own machine" in found[0].why_not


def test_the_doctor_examines_only_what_it_can_in_time():
    begun = time.perf_counter()
    with use_limits(replace(PUBLIC, products=1_000_000_000)), pytest.raises(LimitError):
        report.examine("all-MiniLM-L6-v2")
    assert time.perf_counter() - begun < 3


@pytest.mark.parametrize("most", [0, 51, None, 2.5, True])
def test_neighbours_are_a_whole_number_of_at_most_fifty(asked, most):
    with pytest.raises(DataError):
        result(neighbors.find_neighbours(asked, "Not bad.", most=most))


@pytest.mark.parametrize("edit", [None, 3, ("one", "two", "three")])
def test_an_edit_is_a_sentence_or_two(edit, asked):
    with pytest.raises(DataError):
        compare_edits(asked.classifiers, "Not bad.", [edit])


# --- Words compared.


def told(found: tuple[tuple[str, str], ...], without: str) -> list[str]:
    return " ".join(words for kind, words in found if kind != without).split()


def test_long_texts_are_compared_in_no_time():
    few, many = ["a", "b", "c", "d", "e"], [f"word{number}" for number in range(900)]
    generator = torch.Generator().manual_seed(0)

    def drawn(words: list[str], count: int) -> list[str]:
        return [words[n] for n in torch.randint(len(words), (count,), generator=generator)]

    def marked() -> list[str]:
        return [f"u{n}" if n % COMPARED == 0 else w for n, w in enumerate(drawn(few, 9_000))]

    for one, two in (
        (drawn(few, 10_000), drawn(few, 10_000)),
        (drawn(many, 2_500), drawn(many, 2_500)),
        (marked(), marked()),
        (many, many[::-1]),
    ):
        begun = time.perf_counter()
        found = pieces(" ".join(one), " ".join(two))
        assert time.perf_counter() - begun < 2
        assert (told(found, "added"), told(found, "removed")) == (one, two)


def test_small_changes_of_a_long_text_are_found_one_by_one():
    words = [f"word{number}" for number in range(10 * COMPARED)]
    edited = [*words[:50], "new", *words[50:500], *words[501:900], "other", *words[901:]]
    changes = [one for one in pieces(" ".join(words), " ".join(edited)) if one[0] != "same"]
    assert changes == [
        ("added", "new"), ("removed", "word500"), ("removed", "word900"), ("added", "other"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a " * 10_000, "not bad " * 2_500, "x" * 20_000])
def test_pairs_for_a_long_text_are_suggested_in_no_time(text):
    begun = time.perf_counter()
    assert suggest_edits(text) is not None
    assert time.perf_counter() - begun < 0.5


# --- Interruption.

AFTER = 0.3


class Enough(interruption.Interrupted):
    """The time is up."""


def seconds_until_ended(work: Callable[[], object]) -> float:
    """How long work goes on that is to end a moment after it has begun."""
    begun = time.perf_counter()

    def check() -> None:
        if time.perf_counter() - begun > AFTER:
            raise Enough

    with interruption.interruptible(check), pytest.raises(Enough):
        work()
    return time.perf_counter() - begun


def over_and_over(work: Callable[[], object]) -> Callable[[], object]:
    """The same without an end, where once is over too soon to be ended."""

    def endless() -> None:
        while True:
            work()

    return endless


WORK: dict[str, Callable[[SelectedHeads], object]] = {
    "attribute": lambda asked: attributions(asked.classifiers, LONG),
    "flips": lambda asked: compare_edits(
        asked.classifiers, LONG, [f"{n} {LONG}" for n in range(90)]
    ),
    "nearest": lambda asked: result(neighbors.find_neighbours(asked, LONG)),
    "ablate": lambda asked: result(ablation.ablate_layers(asked, LONG)),
    "readings": lambda asked: outputs.head_outputs(asked.classifiers, LONG),
    "explain": lambda asked: heads.explain("mean+linear", LONG),
    "compare": lambda asked: heads.compare(LONG, recipes=["own"]),
    "doctor": lambda asked: report.examine("bert"),
}


@pytest.mark.parametrize("name", WORK)
def test_a_question_ends_soon_after_it_is_told_to(name, asked):
    took = seconds_until_ended(over_and_over(lambda: WORK[name](asked)))
    assert took < AFTER + 2.5  # a batch takes so long on a busy machine
    assert not any(lock.locked() for lock in _locks.values())
    assert not ablation._lock.locked()
    assert not asked.classifiers[0].backbone.model.get_input_embeddings()._forward_hooks
    answer = outputs.head_outputs(asked.classifiers[:1], "Not bad.")  # and it answers as before
    assert answer == outputs.head_outputs(asked.classifiers[:1], "Not bad.")


# --- Texts that nobody types.


def hostile() -> Iterator[tuple[str, str]]:
    yield "letters", "a" * MB
    yield "words", "a b " * (10 * MB // 4)
    yield "null", "\0" * MB
    yield "surrogates", "\ud800" * MB
    yield "marks", "e\u0301\u0316" * (MB // 3)
    yield "digits", "last" + "9" * MB
    yield "options", "mean+linear?" + "a=1&" * (MB // 4)
    yield "path", "../" * (MB // 3)


TEXT = "Not bad at all."
NAMES: dict[str, Callable[[str], object]] = {
    "compare recipes": lambda text: heads.compare(TEXT, recipes=[text]),
    "compare model": lambda text: heads.compare(TEXT, recipes=["own"], model=text),
    "compare sample": lambda text: heads.compare(TEXT, sample=text),
    "compare run": lambda text: heads.compare(TEXT, run=text),
    "compare pairs": lambda text: heads.compare(TEXT, TEXT, pairs=text),
    "explain": lambda text: heads.explain(text),
    "explain sample": lambda text: heads.explain("mean+linear", sample=text),
    "difference": lambda text: heads.difference("bert", text),
    "examine": lambda text: heads.examine(text),
    "load": lambda text: heads.load(text),
    "resume": lambda text: heads.resume(text),
    "grid": lambda text: heads.train_grid("sentiment", grid=text),
    "losses": lambda text: heads.train_grid("sentiment", losses=[text]),
    "tune": lambda text: heads.train_grid("sentiment", tune=[text]),
    "inspector": lambda text: heads.Inspector(recipes=[text]).attribute(TEXT),
    "inspector model": lambda text: heads.Inspector(recipes=["own"], model=text).readings(TEXT),
}


CHOICES: dict[str, Callable[[SelectedHeads, str], object]] = {
    "label": lambda asked, text: attributions(asked.classifiers[:1], TEXT, label=text),
    "against": lambda asked, text: attributions(asked.classifiers[:1], TEXT, against=text),
    "without": lambda asked, text: result(ablation.ablate_layers(asked, TEXT, without=text)),
}


@pytest.fixture(scope="module")
def warm(asked) -> None:
    """What is read or imported once is read."""
    for call in NAMES.values():
        with pytest.raises(heads.HeadsError):
            call("zzz")


@pytest.mark.parametrize("name", [*NAMES, *CHOICES])
def test_a_name_of_megabytes_is_refused_at_once_in_a_short_sentence(name, warm, asked):
    call = NAMES.get(name) or partial(CHOICES[name], asked)
    for kind, text in hostile():
        begun = time.process_time()
        with pytest.raises(heads.HeadsError) as refused:
            call(text)
        assert len(str(refused.value)) <= 320, kind
        assert time.process_time() - begun < 0.6, kind  # 0.2 alone on a machine


def test_a_text_of_megabytes_is_cut_at_once(asked):
    for kind, text in hostile():
        begun = time.process_time()
        with suppress(DataError):  # nothing is left of some
            cut = outputs.check_texts(text, text)
            assert max(map(len, cut)) <= Limits().text_characters
        assert time.process_time() - begun < 0.3, kind


def test_lists_of_thousands_are_refused_at_once(asked, warm):
    many = [f"mean+linear?dropout=0.{number:05d}" for number in range(10_000)]
    for call in (
        lambda: heads.compare(TEXT, recipes=many),
        lambda: heads.Inspector(recipes=many).attribute(TEXT),
        lambda: heads.train_grid("sentiment", recipes=many),
        lambda: compare_edits(asked.classifiers, TEXT, many),
    ):
        begun = time.process_time()
        with pytest.raises(LimitError):
            call()
        assert time.process_time() - begun < 0.6
