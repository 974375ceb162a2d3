"""Who learns from what: no text on two sides, no development row ever scored, no class left out."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from heads.errors import DataError
from heads.pipeline.grid.splits import MOST_DEVELOPMENT, MOST_SEARCH, Splits, split
from heads.settings import Contest

PLAIN = Contest()


@st.composite
def corpora(draw, most_classes: int = 4) -> tuple[Tensor, Tensor]:
    """Classes and text numbers of 40 to 150 rows, some texts repeated and some labelled twice."""
    texts = draw(st.integers(40, 100))
    classes = draw(st.integers(2, most_classes))
    dice = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    of_text = torch.randint(classes, (texts,), generator=dice)
    of_text[: 4 * classes] = torch.arange(classes).repeat(4)  # a few of each at least
    again = torch.randint(texts, (draw(st.integers(0, 50)),), generator=dice)
    groups = torch.cat([torch.arange(texts), again])
    groups = groups[torch.randperm(len(groups), generator=dice)]
    targets = of_text[groups]
    if draw(st.booleans()):
        targets[draw(st.integers(0, len(targets) - 1))] = draw(st.integers(0, classes - 1))
    return targets, groups


contests = st.builds(
    Contest,
    seeds=st.integers(1, 4),
    held_out=st.sampled_from((0.1, 0.25, 0.5, 0.8)),
    development=st.sampled_from((0.05, 0.15, 0.4)),
    seed=st.integers(0, 50),
)


def of(rows: Tensor, groups: Tensor) -> set[int]:
    return set(groups[rows].tolist())


def plain(found: Splits) -> list[list[int]]:
    return [each.tolist() for each in (found.search, found.development, *found.train, *found.test)]


# Repeated splits


@given(corpora(), contests)
@settings(max_examples=60)
def test_no_text_is_on_two_sides_and_nothing_is_lost(corpus, contest):
    targets, groups = corpus
    found = split(targets, groups, (), contest)
    assert (found.kind, len(found.train), len(found.test)) == (
        "splits",
        contest.seeds,
        contest.seeds,
    )
    development = set(found.development.tolist())
    for train, test in zip(found.train, found.test, strict=True):
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(targets)))
        assert not of(train, groups) & of(test, groups)
        assert development <= set(train.tolist())
        assert not development & set(test.tolist())
    search = set(found.search.tolist())
    assert search <= set(found.train[0].tolist())
    assert not search & development
    assert not of(found.search, groups) & of(found.development, groups)
    for rows in (found.search, found.development, *found.train, *found.test):
        assert rows.tolist() == sorted(set(rows.tolist()))


@given(corpora(), contests)
@settings(max_examples=60)
def test_every_class_is_learned_and_scored_where_it_has_the_texts(corpus, contest):
    targets, groups = corpus
    found = split(targets, groups, (), contest)
    for train in found.train:
        assert set(targets[train].tolist()) == set(targets.tolist())
    first: dict[int, int] = {}  # the class by which a text is drawn: its first row's
    for text, target in zip(groups.tolist(), targets.tolist(), strict=True):
        first.setdefault(text, target)
    texts = Counter(first.values())
    for test in found.test:
        scored = set(targets[test].tolist())
        assert {target for target, count in texts.items() if count >= 4} <= scored


@given(corpora(), contests)
@settings(max_examples=60)
def test_sizes_are_near_their_shares_class_by_class(corpus, contest):
    targets, groups = corpus
    largest = max(Counter(groups.tolist()).values())
    found = split(targets, groups, (), contest)
    sizes = Counter(targets.tolist())
    mixed = _labelled_twice(targets, groups)
    assume(not mixed)  # such a text may count for either class
    development = Counter(targets[found.development].tolist())
    for target, size in sizes.items():
        assert abs(development[target] - contest.development * size) <= largest + 1
        left = size - development[target]
        for test in found.test:
            scored = Counter(targets[test].tolist())[target]
            assert abs(scored - contest.held_out * left) <= largest + 1


def _labelled_twice(targets: Tensor, groups: Tensor) -> bool:
    seen: dict[int, set[int]] = defaultdict(set)
    for text, target in zip(groups.tolist(), targets.tolist(), strict=True):
        seen[text].add(target)
    return any(len(found) > 1 for found in seen.values())


def test_the_same_seed_draws_the_same_and_another_draws_others():
    targets = torch.arange(120) % 3
    groups = torch.arange(120)
    once, again = (split(targets, groups, (), PLAIN) for _ in range(2))
    assert plain(once) == plain(again)
    other = split(targets, groups, (), replace(PLAIN, seed=7))
    assert plain(other) != plain(once)
    tests = [tuple(test.tolist()) for test in once.test]
    assert len(set(tests)) == PLAIN.seeds
    more = split(targets, groups, (), replace(PLAIN, seeds=5))
    assert plain(more)[2:5] == plain(once)[2:5]  # more seeds change nothing in the first ones


def test_the_rows_searched_on_are_bounded_whatever_there_is():
    rows = 4 * MOST_SEARCH
    targets, groups = torch.arange(rows) % 2, torch.arange(rows)
    found = split(targets, groups, (), PLAIN)
    assert len(found.search) == MOST_SEARCH
    assert len(found.development) == round(PLAIN.development * rows)
    huge = split(*(torch.cat([each] * 4) for each in (targets, torch.arange(rows))), (), PLAIN)
    assert len(huge.search) <= MOST_SEARCH + 4
    assert len(huge.development) <= MOST_DEVELOPMENT + 4


def test_rows_are_fixed_only_where_a_test_set_is_given():
    targets, groups = torch.arange(200) % 2, torch.arange(200)
    assert not split(targets, groups, (), PLAIN).is_fixed
    assert split(targets, groups, ["train"] * 150 + ["test"] * 50, PLAIN).is_fixed


# Given splits


def test_a_given_test_set_is_scored_and_nothing_else():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    parts = ["train"] * 80 + ["test"] * 20
    found = split(targets, groups, parts, PLAIN)
    assert found.kind == "test set"
    for train, test in zip(found.train, found.test, strict=True):
        assert test.tolist() == list(range(80, 100))
        assert train.tolist() == list(range(80))
    assert set(found.development.tolist()) | set(found.search.tolist()) == set(range(80))
    assert len(found.development) == 12


def test_given_validation_rows_choose_the_settings():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    parts = ["train"] * 60 + ["validation"] * 20 + ["test"] * 20
    found = split(targets, groups, parts, PLAIN)
    assert found.development.tolist() == list(range(60, 80))
    assert found.search.tolist() == list(range(60))
    assert [train.tolist() for train in found.train] == [list(range(80))] * PLAIN.seeds


def test_given_validation_rows_without_a_test_set_are_never_scored():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    parts = ["train"] * 70 + ["validation"] * 30
    found = split(targets, groups, parts, PLAIN)
    assert found.kind == "splits"
    assert found.development.tolist() == list(range(70, 100))
    for train, test in zip(found.train, found.test, strict=True):
        assert set(test.tolist()) <= set(range(70))
        assert set(range(70, 100)) <= set(train.tolist())
    assert len({tuple(test.tolist()) for test in found.test}) == PLAIN.seeds


def test_a_text_that_chooses_the_settings_is_scored_in_no_other_row_either():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    groups[:10] = groups[70:80]  # ten rows repeat texts of the validation rows
    parts = ["train"] * 70 + ["validation"] * 30
    found = split(targets, groups, parts, PLAIN)
    for train, test in zip(found.train, found.test, strict=True):
        assert not of(train, groups) & of(test, groups)


def test_settings_are_not_tried_on_texts_that_judge_them():
    targets, groups = torch.arange(100) % 2, torch.arange(100)
    groups[:10] = groups[60:70]  # ten rows repeat texts of the validation rows
    parts = ["train"] * 60 + ["validation"] * 20 + ["test"] * 20
    found = split(targets, groups, parts, PLAIN)
    assert found.search.tolist() == list(range(10, 60))
    assert [train.tolist() for train in found.train] == [list(range(80))] * PLAIN.seeds


# A few rows of every class


@given(corpora(), st.integers(2, 30), st.integers(1, 4), st.integers(0, 20))
@settings(max_examples=60)
def test_so_many_different_texts_of_every_class_are_drawn(corpus, count, seeds, seed):
    targets, groups = corpus
    assume(not _labelled_twice(targets, groups))
    contest = Contest(per_class=count, seeds=seeds, seed=seed)
    found = split(targets, groups, (), contest)
    assert found.kind == "per class"
    test = found.test[0]
    assert all(torch.equal(other, test) for other in found.test)
    rest = [row for row in range(len(targets)) if row not in set(test.tolist())]
    there = {
        target: len(of(_of_class(rest, targets, target), groups)) for target in targets.tolist()
    }
    for train in found.train:
        assert not of(train, groups) & of(test, groups)
        drawn = Counter(targets[train].tolist())
        assert drawn == {target: min(count, texts) for target, texts in there.items()}
        assert len(of(train, groups)) == len(train)
    both = [*found.search.tolist(), *found.development.tolist()]
    assert sorted(both) == found.train[0].tolist()


def _of_class(rows: Sequence[int], targets: Tensor, target: int) -> Tensor:
    return torch.tensor([row for row in rows if targets[row] == target], dtype=torch.long)


def test_draws_differ_from_seed_to_seed_and_a_given_test_set_stays():
    targets, groups = torch.arange(300) % 3, torch.arange(300)
    parts = ["train"] * 240 + ["test"] * 60
    found = split(targets, groups, parts, Contest(per_class=8, seeds=4))
    assert len({tuple(train.tolist()) for train in found.train}) == 4
    assert all(test.tolist() == list(range(240, 300)) for test in found.test)
    assert all(max(train.tolist()) < 240 for train in found.train)


# What cannot be split


@pytest.mark.parametrize(
    ("targets", "groups", "parts", "contest"),
    [
        ([0, 1], [0, 1], (), PLAIN),
        ([0, 1, 0, 1], [0, 0, 0, 0], (), PLAIN),
        ([0] * 20, range(20), (), PLAIN),
        ([0, 1] * 10, range(20), ["train"] * 19 + ["validation"], PLAIN),
        ([0] * 10 + [1] * 10, range(20), ["train"] * 10 + ["test"] * 10, PLAIN),
        ([0, 1] * 10, range(20), (), Contest(per_class=1)),
        ([0, 1] * 10, range(20), ["test"] * 20, PLAIN),
    ],
    ids=["two rows", "one text", "one class", "one row to choose on", "one class learned",
         "one a class", "only a test set"],
)  # fmt: skip
def test_too_few_rows_are_a_sentence(targets, groups, parts, contest):
    with pytest.raises(DataError) as caught:
        split(torch.tensor(targets), torch.tensor(list(groups)), parts, contest)
    assert caught.value.what.endswith(".")
    assert caught.value.hint


def test_a_class_of_a_single_text_is_learned_and_not_scored():
    targets = torch.cat([torch.arange(60) % 2, torch.tensor([2])])
    for share in (0.1, 0.25, 0.5, 0.9):
        found = split(targets, torch.arange(61), (), Contest(held_out=share))
        for train, test in zip(found.train, found.test, strict=True):
            assert 60 in train.tolist()
            assert 60 not in test.tolist()
