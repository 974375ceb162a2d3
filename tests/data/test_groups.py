"""Rows that belong together stand on one side: those that share a text, or a group of the data."""

import csv
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heads.data.columns import guess
from heads.data.corpus import build, groups_of
from heads.data.dataset import data_of, read
from heads.data.files import open_table
from heads.data.groups import FOLDS, LARGEST, grouping, shared
from heads.data.joining import check_groups
from heads.data.splits import split as splits_of
from heads.data.table import ColumnHints, Columns
from heads.data.text import fold
from heads.errors import DataError
from heads.settings import ExperimentConfig

FEW = st.text("abcde", min_size=1, max_size=1)
PAIRS = st.lists(st.tuples(FEW | st.text("abcdefgh", min_size=2, max_size=3), FEW | st.text(
    "abcdefgh", min_size=2, max_size=3)), min_size=1, max_size=40)  # fmt: skip


def leaks(numbers, texts, pairs) -> int:
    """Rows that share a text with a row of another group, counted the plain way."""
    groups: dict[str, set[int]] = {}
    for number, *both in zip(numbers, texts, pairs, strict=True):
        for text in both:
            groups.setdefault(fold(text), set()).add(number)
    rows = zip(texts, pairs, strict=True)
    return sum(any(len(groups[fold(text)]) > 1 for text in both) for both in rows)


# Shared texts


@given(texts=st.lists(st.text(max_size=4), max_size=30))
def test_rows_of_one_text_are_a_group_and_no_others(texts: list[str]) -> None:
    numbers = grouping(texts).numbers
    first = {}
    assert list(numbers) == [first.setdefault(fold(text), len(first)) for text in texts]


def test_pairs_the_other_way_round_are_the_same_where_texts_alone_do_not_hold() -> None:
    texts = ["always the same"] * 60 + ["other 3"]
    pairs = [f"other {row}" for row in range(60)] + ["always the same"]
    found = grouping(texts, pairs)
    assert found.rule == "equal pairs of texts"
    assert found.numbers[60] == found.numbers[3]
    assert found.count == 60


@settings(max_examples=100)
@given(rows=PAIRS)
def test_pairs_that_share_a_text_are_one_group_or_it_is_said(rows) -> None:
    texts, pairs = zip(*rows, strict=True)
    found = grouping(texts, pairs)
    assert sorted(set(found.numbers)) == list(range(found.count))
    if not found.rule:
        assert leaks(found.numbers, texts, pairs) == 0
        assert found.says == ""
    else:
        assert found.swallowed > LARGEST
        assert len(rows) > 5
        assert found.rule in found.says
        assert bool(found.leaked) == ("share a text" in found.says)
        assert found.leaked * len(rows) <= leaks(found.numbers, texts, pairs) + 1e-9
    either = grouping(pairs, texts)
    if not found.rule and not either.rule:  # whichever text comes first
        assert either.numbers == found.numbers
    twice = {}
    for number, pair in zip(found.numbers, rows, strict=True):
        assert (
            twice.setdefault(frozenset(pair), number) == number
        )  # pairs that repeat stay together


def test_case_space_and_invisible_signs_make_no_other_text() -> None:
    texts, pairs = [f"one {row}" for row in range(50)], [f"other {row}" for row in range(50)]
    assert grouping(texts, pairs).numbers == tuple(range(50))
    assert grouping(texts, groups=[""] * 50).numbers == tuple(range(50))
    assert grouping(["A b", "a  B ", "c", "\u200ba b"]).numbers == (0, 0, 1, 0)
    assert grouping(["a", "a ", "b"], ["x", "y", "X"]).numbers == (0, 0, 0)
    assert grouping(["a", "c"], ["b", "D"]).numbers == (0, 1)
    assert grouping(["a", "b", "c"], ["b", "c", "d"]).numbers == (0, 0, 0)  # a chain


def test_rows_for_scoring_bind_no_others() -> None:
    texts, pairs, parts = (
        ["a", "a", "b", "z"],
        ["b", "c", "d", "y"],
        ["train", "train", "test", "train"],
    )
    assert grouping(texts, pairs, parts=parts).numbers == (0, 0, 1, 2)
    assert shared(texts, pairs, parts) == [2]


def inference(premises: int, generic: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """Three hypotheses a premise, of which some are such as everybody writes."""
    rng = random.Random(seed)
    texts, pairs = [], []
    for premise in range(premises):
        for each in range(3):
            common = rng.random() < generic
            texts.append(f"premise {premise}")
            often = f"a man is outside {int(rng.paretovariate(0.6)) % 500}"
            pairs.append(often if common else f"hypothesis {premise} {each}")
    return texts, pairs


def test_a_chain_that_swallows_the_data_is_parted_and_said() -> None:
    texts, pairs = inference(800, 0.3)
    found = grouping(texts, pairs)
    sizes = Counter(found.numbers)
    assert max(sizes.values()) <= LARGEST * len(texts)
    assert found.swallowed > 0.5
    assert 0 < found.leaked < 0.5
    assert f"{100 * found.leaked:.0f} % of rows drawn for scoring" in found.says
    ordered = Counter(zip(texts, pairs, strict=True))
    assert found.count < len(ordered)
    together: dict[str, set[int]] = {}
    for text, number in zip(texts, found.numbers, strict=True):
        together.setdefault(text, set()).add(number)
    assert all(len(numbers) == 1 for numbers in together.values())  # a premise stays whole


@pytest.mark.parametrize("files", [("train",), ("train", "val", "test")])
def test_sick_without_its_split_leaks_nothing(shared: Path, files: tuple[str, ...]) -> None:
    rows = []
    for name in files:
        path = shared / "sick_entailment" / f"{name}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows += [(row["text_a"], row["text_b"]) for row in csv.DictReader(file)]
    texts, pairs = zip(*rows, strict=True)
    found = grouping(texts, pairs)
    assert (found.rule, leaks(found.numbers, texts, pairs)) == ("", 0)
    ordered = [hash(row) for row in rows]
    assert leaks(ordered, texts, pairs) > 0.9 * len(rows)  # what a row's own pair would leave
    assert max(Counter(found.numbers).values()) < LARGEST * len(rows)


# Groups of the data


@given(
    groups=st.lists(st.sampled_from(["ann", "bob", "cy", "dee", ""]), min_size=5, max_size=40),
    words=st.lists(st.sampled_from("pqrstuvw"), min_size=5, max_size=40),
)
def test_rows_of_one_group_are_never_parted(groups, words) -> None:
    size = min(len(groups), len(words))
    groups, texts = groups[:size], words[:size]
    found = grouping(texts, groups=groups)
    numbers: dict[str, int] = {}
    for group, number in zip(groups, found.numbers, strict=True):
        if group:
            assert numbers.setdefault(group, number) == number
    if not found.rule:
        first: dict[str, int] = {}
        for text, number in zip(texts, found.numbers, strict=True):
            assert first.setdefault(text, number) == number  # equal texts join groups


def authors(count: int, rows: int) -> tuple[list[str], list[str]]:
    return [f"author {row % count}" for row in range(rows)], [f"text {row}" for row in range(rows)]


def test_groups_stand_on_one_side_of_every_split() -> None:
    groups, texts = authors(24, 240)
    texts[7] = texts[8]  # an equal text makes one group of two authors
    labels = [("x", "y")[row // 24 % 2] for row in range(240)]
    corpus = build("made", texts, labels, groups=groups)
    assert groups_of(corpus).count == 23
    assert build("made", texts, labels).fingerprint != corpus.fingerprint
    targets = torch.tensor([target[0] for target in corpus.targets])
    found = splits_of(targets, groups_of(corpus).tensor, (), ExperimentConfig(folds=3))
    for learned, scored in zip(found.train, found.test, strict=True):
        here = {groups[row] for row in scored.tolist()}
        assert here
        assert not here & {groups[row] for row in learned.tolist()}
    for chosen, tried in zip(found.development, found.search, strict=True):
        assert not {groups[row] for row in chosen.tolist()} & {
            groups[row] for row in tried.tolist()
        }


def test_an_answer_that_many_authors_give_makes_no_one_group_of_them() -> None:
    groups, texts = authors(40, 400)
    texts[::3] = ["ok"] * 134
    found = grouping(texts, groups=groups)
    assert found.rule.startswith("the groups of the data")
    assert found.count == 40
    assert found.leaked == pytest.approx(134 / 400)


@pytest.mark.parametrize(("count", "fits"), [(1, False), (FOLDS - 1, False), (FOLDS, True)])
def test_too_few_groups_are_a_sentence(count: int, fits: bool) -> None:
    groups, texts = authors(count, 60)
    corpus = build("made", texts, [("x", "y")[row % 2] for row in range(60)], groups=groups)
    if fits:
        check_groups(corpus, "author")
        return
    with pytest.raises(DataError) as refused:
        check_groups(corpus, "author")
    assert refused.value.hint


def test_a_column_of_groups_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mail.csv"
    lines = [
        f"some words {row} of a mail,{('spam', 'ham')[row % 2]},a{row // 6}" for row in range(60)
    ]
    lines[9] = lines[9].rsplit(",", 1)[0] + ","
    path.write_text("text,label,author\n" + "\n".join(lines), "utf-8")
    data = read(path, Columns(text="text", label="label", group="author"))
    assert data.corpus.groups[:2] == ("a0", "a0")
    assert data.corpus.groups[9] == ""
    assert groups_of(data.corpus).count == 11
    says = next(one for one in data.findings if one.kind == "groups")
    assert says.says.startswith(
        "'author' makes 10 groups, each on one side of every split; 1 row has none"
    )
    assert says.lines == (11,)
    assert data.as_json()["columns"]["group"] == "author"
    table = open_table(path)
    columns = guess(table, ColumnHints(group="author"))
    assert (columns.text, columns.label, columns.group) == ("text", "label", "author")
    assert data_of(table, columns).corpus.groups == data.corpus.groups
    with pytest.raises(DataError):
        read(path, Columns(text="text", label="label", group="label"))
