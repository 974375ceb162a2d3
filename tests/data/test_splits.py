"""Who learns from what: no text on two sides, no development row ever scored, no class left out."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from heads.data.splits import (
    ALL,
    FOLDS,
    MOST_DEVELOPMENT,
    MOST_SEARCH,
    PER_CLASS,
    TEST_SET,
    Splits,
    every_row,
    on_fewer_rows,
    split,
    without,
)
from heads.errors import DataError
from heads.settings import ExperimentConfig

PLAIN = ExperimentConfig()


@st.composite
def corpora(draw, most_classes: int = 4) -> tuple[Tensor, Tensor]:
    """Classes and text numbers of 40 to 150 rows, some texts repeated and some labelled twice."""
    texts = draw(st.integers(40, 100))
    classes = draw(st.integers(2, most_classes))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    of_text = torch.randint(classes, (texts,), generator=rng)
    of_text[: 4 * classes] = torch.arange(classes).repeat(4)  # a few of each at least
    again = torch.randint(texts, (draw(st.integers(0, 50)),), generator=rng)
    large = torch.full((draw(st.sampled_from((0, 0, 9))),), texts - 1)
    groups = torch.cat([torch.arange(texts), again, large])
    groups = groups[torch.randperm(len(groups), generator=rng)]
    targets = of_text[groups]
    if draw(st.booleans()):
        targets[draw(st.integers(0, len(targets) - 1))] = draw(st.integers(0, classes - 1))
    return targets, groups


contests = st.builds(
    ExperimentConfig,
    folds=st.integers(2, 6),
    repetitions=st.integers(1, 3),
    development=st.sampled_from((0.15, 0.25, 0.4)),
    seed=st.integers(0, 50),
)


def of(rows: Tensor, groups: Tensor) -> set[int]:
    return set(groups[rows].tolist())


def plain(found: Splits) -> list[list[int]]:
    each = (found.search, found.development, found.train, found.test)
    return [rows.tolist() for parts in each for rows in parts]


def by_repetition(found: Splits) -> list[list[Tensor]]:
    """The tested rows of every fold, repetition by repetition."""
    tests: dict[int, list[Tensor]] = defaultdict(list)
    for number, test in zip(found.repetition, found.test, strict=True):
        tests[number].append(test)
    return list(tests.values())


# Folds


@given(corpora(), contests)
@settings(max_examples=60)
def test_every_row_is_scored_once_a_repetition_and_no_text_is_on_two_sides(corpus, config):
    targets, groups = corpus
    found = split(targets, groups, (), config)
    assert found.kind == FOLDS
    assert not found.is_fixed
    assert len(found) == config.folds * config.repetitions
    for tests in by_repetition(found):
        assert len(tests) == config.folds
        assert sorted(torch.cat(tests).tolist()) == list(range(len(targets)))
    assert len(by_repetition(found)) == config.repetitions
    parts = zip(found.search, found.development, found.train, found.test, strict=True)
    for number, (search, development, train, test) in enumerate(parts):
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(targets)))
        assert not of(train, groups) & of(test, groups)
        assert set(development.tolist()) <= set(train.tolist())
        fitted = found.fitted(number)
        assert sorted([*fitted.tolist(), *development.tolist()]) == train.tolist()
        assert not of(fitted, groups) & of(development, groups)
        assert search.tolist() == fitted.tolist()  # of few rows all are searched on
        for rows in (search, development, train, test):
            assert rows.tolist() == sorted(set(rows.tolist()))


@given(corpora(), contests)
@settings(max_examples=60)
def test_folds_and_development_rows_have_their_share_of_every_class(corpus, config):
    targets, groups = corpus
    assume(not _labelled_twice(targets, groups))  # such a text may count for either class
    largest = {
        int(target): max(Counter(groups[targets == target].tolist()).values())
        for target in targets.unique()
    }
    most = max(largest.values())
    found = split(targets, groups, (), config)
    for tests in by_repetition(found):
        for target, of_class in largest.items():
            counts = [int((targets[test] == target).sum()) for test in tests]
            assert max(counts) - min(counts) <= of_class
        sizes = [len(test) for test in tests]
        assert max(sizes) - min(sizes) <= len(targets) / config.folds + most
    for train, search, development in zip(
        found.train, found.search, found.development, strict=True
    ):
        assert set(targets[train].tolist()) == set(targets.tolist())
        texts = Counter(dict(torch.stack([groups[train], targets[train]], dim=1).tolist()).values())
        # Nor do development rows take the last text of a class.
        assert {one for one, held in texts.items() if held >= 2} <= set(targets[search].tolist())
        sizes, drawn = (Counter(targets[rows].tolist()) for rows in (train, development))
        for target, size in sizes.items():
            assert abs(drawn[target] - config.development * size) <= most + 1


def test_of_single_rows_every_fold_has_its_share_to_the_row():
    targets, groups = torch.arange(103) % 3, torch.arange(103)
    tests = split(targets, groups, (), PLAIN).test
    assert sorted(map(len, tests)) == [20, 20, 21, 21, 21]
    for target in range(3):
        counts = [int((targets[test] == target).sum()) for test in tests]
        assert max(counts) - min(counts) <= 1


def test_large_groups_go_whole_and_small_ones_fill_up_beside_them():
    """As many rows a fold, where some documents are half a fold and others a row."""
    sizes = [18, 15, 12, 9, 6, *[1] * 60]
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    targets = groups % 2
    for seed in range(4):
        found = split(targets, groups, (), replace(PLAIN, seed=seed))
        for target in range(2):
            counts = [int((targets[test] == target).sum()) for test in found.test]
            share = int((targets == target).sum()) / PLAIN.folds
            of_class = [size for number, size in enumerate(sizes) if number % 2 == target]
            assert max(counts) <= max(share + 1, max(of_class))
        for train, test in zip(found.train, found.test, strict=True):
            assert not of(train, groups) & of(test, groups)


def _labelled_twice(targets: Tensor, groups: Tensor) -> bool:
    seen: dict[int, set[int]] = defaultdict(set)
    for text, target in zip(groups.tolist(), targets.tolist(), strict=True):
        seen[text].add(target)
    return any(len(found) > 1 for found in seen.values())


def test_the_same_seed_draws_the_same_and_another_draws_others():
    targets, groups = torch.arange(120) % 3, torch.arange(120)
    once, again = (split(targets, groups, (), PLAIN) for _ in range(2))
    assert plain(once) == plain(again)
    other = split(targets, groups, (), replace(PLAIN, seed=7))
    assert all(a.tolist() != b.tolist() for a, b in zip(once.test, other.test, strict=True))
    more = split(targets, groups, (), replace(PLAIN, repetitions=2))
    first = (rows[:5] for rows in (more.search, more.development, more.train, more.test))
    assert [own.tolist() for rows in first for own in rows] == plain(once)
    assert not {tuple(t.tolist()) for t in more.test[:5]} & {
        tuple(t.tolist()) for t in more.test[5:]
    }
    drawn = {tuple(rows.tolist()) for rows in more.development}
    assert len(drawn) == len(more) == 10


@pytest.mark.slow
def test_the_rows_searched_on_are_bounded_whatever_there_is():
    rows = 5 * MOST_SEARCH
    targets, groups = torch.arange(rows) % 2, torch.arange(rows)
    found = split(targets, groups, (), PLAIN)
    for search, development, train in zip(
        found.search, found.development, found.train, strict=True
    ):
        assert len(train) == 4 * MOST_SEARCH
        assert len(search) == MOST_SEARCH
        assert len(development) == round(PLAIN.development * 4 * MOST_SEARCH)
    huge = split(torch.arange(4 * rows) % 2, torch.arange(4 * rows), (), PLAIN)
    assert all(abs(len(search) - MOST_SEARCH) <= 4 for search in huge.search)
    assert all(abs(len(rows) - MOST_DEVELOPMENT) <= 4 for rows in huge.development)


def test_fewer_groups_than_folds_are_a_fold_each():
    targets, groups = torch.arange(60) % 2, torch.arange(60) // 20
    found = split(targets, groups, (), PLAIN)
    assert sorted(test.tolist() for test in found.test) == [
        list(range(start, start + 20)) for start in (0, 20, 40)
    ]


# Given splits


def test_a_given_test_set_is_scored_and_nothing_else():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    found = split(targets, groups, ["train"] * 80 + ["test"] * 20, ExperimentConfig(seeds=4))
    assert (found.kind, found.is_fixed, len(found), found.repetition) == (TEST_SET, True, 4, ())
    for number, (train, test) in enumerate(zip(found.train, found.test, strict=True)):
        assert test.tolist() == list(range(80, 100))
        assert train.tolist() == list(range(80))
        assert train is found.train[0]  # what is made of it is made once
        assert len(found.development[number]) == 12
        both = [*found.development[number].tolist(), *found.fitted(number).tolist()]
        assert sorted(both) == list(range(80))
    assert len({tuple(rows.tolist()) for rows in found.development}) == 4
    few = split(targets, groups, ["train"] * 80 + ["test"] * 20, ExperimentConfig(seeds=2))
    assert all(map(torch.equal, few.development, found.development[:2]))


@given(corpora(), contests, st.integers(1, 40))
@settings(max_examples=40)
def test_every_row_is_learned_from_as_beside_a_test_set(corpus, config, others):
    targets, groups = corpus
    found = every_row(targets, groups, config)
    assert (found.kind, len(found), found.repetition, found.are_given) == (ALL, 1, (), False)
    assert found.train[0].tolist() == list(range(len(targets)))
    assert found.learned.tolist() == list(range(len(targets)))
    assert found.test[0].tolist() == []
    # The numbers of the groups of other rows, and their classes, change nothing.
    both = torch.cat([targets, targets[:others]]), torch.cat([groups + 7, 1_000 + groups[:others]])
    parts = ["train"] * len(targets) + ["test"] * (len(both[0]) - len(targets))
    beside = split(*both, parts, config)
    for name in ("search", "development", "train"):
        assert getattr(found, name)[0].tolist() == getattr(beside, name)[0].tolist()


def test_given_validation_rows_and_their_texts_are_never_scored_without_a_test_set():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    groups[:10] = groups[70:80]  # ten rows repeat texts of the validation rows
    parts = ["train"] * 70 + ["validation"] * 30
    found = split(targets, groups, parts, replace(PLAIN, repetitions=2))
    assert found.kind == FOLDS
    for tests in by_repetition(found):
        assert sorted(torch.cat(tests).tolist()) == list(range(10, 70))
    for train, test, development in zip(found.train, found.test, found.development, strict=True):
        assert not of(train, groups) & of(test, groups)
        assert development.tolist() == list(range(70, 100))
        assert set(range(70, 100)) <= set(train.tolist())


def test_given_validation_rows_choose_the_settings_which_are_not_tried_on_their_texts():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    groups[:10] = groups[60:70]  # ten rows repeat texts of the validation rows
    parts = ["train"] * 60 + ["validation"] * 20 + ["test"] * 20
    found = split(targets, groups, parts, PLAIN)
    for number in range(3):
        assert found.development[number].tolist() == list(range(60, 80))
        assert found.search[number].tolist() == list(range(10, 60))
        assert found.fitted(number).tolist() == list(range(10, 60))
        assert found.train[number].tolist() == list(range(80))


def test_rows_less_others_are_all_where_nothing_is_left():
    rows = torch.tensor([5, 1, 3])
    assert without(rows, torch.tensor([3, 9])).tolist() == [5, 1]
    assert without(rows, torch.tensor([], dtype=torch.long)).tolist() == [5, 1, 3]
    assert without(rows, rows).tolist() == [5, 1, 3]


# Fewer rows


@given(corpora(), contests, st.booleans())
@settings(max_examples=30)
def test_on_fewer_rows_the_tests_stay_and_development_rows_are_drawn_anew(corpus, config, fixed):
    targets, groups = corpus
    parts = ["test" if group % 4 == 0 else "train" for group in groups.tolist()] if fixed else ()
    whole = split(targets, groups, parts, config)
    rows = [own[::2] for own in whole.train]
    found = on_fewer_rows(whole, rows, targets, groups, config)
    assert (found.kind, found.repetition) == (whole.kind, whole.repetition)
    assert all(map(torch.equal, found.train, rows))
    assert all(map(torch.equal, found.test, whole.test))
    for number, own in enumerate(rows):
        development = set(found.development[number].tolist())
        assert development
        assert development <= set(own.tolist())
        fitted = set(found.fitted(number).tolist())
        assert fitted | development == set(own.tolist())
        assert not of(found.fitted(number), groups) & of(found.development[number], groups)
        assert set(found.search[number].tolist()) <= fitted
    again = on_fewer_rows(whole, rows, targets, groups, config)
    assert plain(again) == plain(found)


@pytest.mark.parametrize("tested", [True, False], ids=["test set", "folds"])
def test_on_fewer_rows_the_development_rows_of_the_data_stay_the_development_rows(tested):
    targets, groups = torch.arange(120) % 3, torch.arange(120)
    parts = ["train"] * 60 + ["validation"] * 30 + (["test"] if tested else ["train"]) * 30
    whole = split(targets, groups, parts, PLAIN)
    rows = [own[::2] for own in whole.train]
    found = on_fewer_rows(whole, rows, targets, groups, PLAIN)
    for number in range(len(found)):
        wanted = set(rows[number].tolist()) & set(range(60, 90))
        assert found.development[number].tolist() == sorted(wanted)
        assert not set(found.search[number].tolist()) & set(range(60, 90))
    # Where fewer are left than settings can be chosen on, they are drawn.
    few = [without(own, torch.arange(61, 90)) for own in whole.train]
    found = on_fewer_rows(whole, few, targets, groups, PLAIN)
    assert min(map(len, found.development)) > 2


# A few rows of every class


@given(corpora(), st.integers(2, 30), st.integers(1, 4), st.integers(0, 20))
@settings(max_examples=60)
def test_so_many_different_texts_of_every_class_are_drawn(corpus, count, seeds, seed):
    targets, groups = corpus
    assume(not _labelled_twice(targets, groups))
    config = ExperimentConfig(per_class=count, seeds=seeds, seed=seed)
    found = split(targets, groups, (), config)
    assert (found.kind, found.is_fixed, found.repetition) == (PER_CLASS, False, ())
    assert len(found) == seeds
    test = found.test[0]
    assert all(torch.equal(other, test) for other in found.test)
    rest = [row for row in range(len(targets)) if row not in set(test.tolist())]
    there = {
        target: len(of(_of_class(rest, targets, target), groups)) for target in targets.tolist()
    }
    for number, train in enumerate(found.train):
        assert not of(train, groups) & of(test, groups)
        drawn = Counter(targets[train].tolist())
        assert drawn == {target: min(count, texts) for target, texts in there.items()}
        assert len(of(train, groups)) == len(train)
        both = [*found.search[number].tolist(), *found.development[number].tolist()]
        assert sorted(both) == train.tolist()


def _of_class(rows: Sequence[int], targets: Tensor, target: int) -> Tensor:
    return torch.tensor([row for row in rows if targets[row] == target], dtype=torch.long)


def test_draws_differ_from_seed_to_seed_and_a_given_test_set_stays():
    targets, groups = torch.arange(300) % 3, torch.arange(300)
    parts = ["train"] * 240 + ["test"] * 60
    found = split(targets, groups, parts, ExperimentConfig(per_class=8, seeds=4))
    assert len({tuple(train.tolist()) for train in found.train}) == 4
    assert all(test.tolist() == list(range(240, 300)) for test in found.test)
    assert all(max(train.tolist()) < 240 for train in found.train)


# What cannot be split


@pytest.mark.parametrize(
    ("targets", "groups", "parts", "config"),
    [
        ([0, 1], [0, 1], (), PLAIN),
        ([0, 1, 0, 1], [0, 0, 0, 0], (), PLAIN),
        ([0] * 20, range(20), (), PLAIN),
        ([0, 1] * 10, range(20), ["train"] * 19 + ["validation"], PLAIN),
        ([0] * 10 + [1] * 10, range(20), ["train"] * 10 + ["test"] * 10, PLAIN),
        ([0, 1] * 10, range(20), (), ExperimentConfig(per_class=1)),
        ([0, 1] * 10, range(20), ["test"] * 20, PLAIN),
    ],
    ids=["two rows", "one text", "one class", "one row to choose on", "one class learned",
         "one a class", "only a test set"],
)  # fmt: skip
def test_too_few_rows_are_a_sentence(targets, groups, parts, config):
    rows = torch.tensor(targets), torch.tensor(list(groups))
    with pytest.raises(DataError) as caught:
        split(*rows, parts, config)
    assert caught.value.what.endswith(".")
    assert caught.value.hint
    if len(rows[0]) < 5 or len(set(targets)) < 2:  # nor can a head learn from all of them
        with pytest.raises(DataError):
            every_row(*rows, PLAIN)


def test_a_class_of_a_single_text_is_scored_once_by_a_head_that_has_not_seen_it():
    targets = torch.cat([torch.arange(60) % 2, torch.tensor([2])])
    found = split(targets, torch.arange(61), (), PLAIN)
    assert sum(60 in test.tolist() for test in found.test) == 1
    for train, test in zip(found.train, found.test, strict=True):
        assert (60 in train.tolist()) != (60 in test.tolist())
    for share in (0.1, 0.5, 0.9):  # where few are drawn, it is among those to learn from
        few = split(targets, torch.arange(61), (), ExperimentConfig(held_out=share, per_class=2))
        assert all(60 in train.tolist() for train in few.train)


def _authors(seed: int) -> tuple[Tensor, Tensor]:
    """25 authors of 10 to 60 rows, who write of two classes in shares of their own."""
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randint(10, 60, (25,), generator=rng)
    groups = torch.arange(25).repeat_interleave(sizes)
    shares = (torch.rand(25, generator=rng) * 0.5)[groups]
    return (torch.rand(len(groups), generator=rng) < shares).long(), groups


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_several_classes_are_dealt_out_by_all_of_them(seed):
    targets, groups = _authors(seed)
    found = split(targets, groups, [], ExperimentConfig(seed=seed))
    whole = float(targets.double().mean())
    assert all(abs(float(targets[test].double().mean()) - whole) < 0.1 for test in found.test)
    assert max(map(len, found.test)) < 1.6 * min(map(len, found.test))
    assert all(
        not of(test, groups) & of(train, groups)
        for train, test in zip(found.train, found.test, strict=True)
    )


def test_a_group_that_has_most_of_a_class_does_not_choose_its_settings():
    targets = torch.arange(3).repeat_interleave(350)
    groups = torch.cat(
        [
            torch.tensor([0] * 300 + [n for n in range(1, 6) for _ in range(10)]) + 10 * c
            for c in range(3)
        ]
    )
    for seed in range(6):
        found = split(targets, groups, [], ExperimentConfig(folds=2, seed=seed))
        for train, development in zip(found.train, found.development, strict=True):
            assert len(development) < 0.25 * len(train)
