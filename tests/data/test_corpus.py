"""Texts come in as they stand or not at all, tables say where they are wrong, splits are fair."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heads.data.corpus import Corpus, build, check_text, groups_of, in_order, numbered
from heads.data.dataset import read
from heads.data.joining import join
from heads.data.samples import SAMPLES
from heads.data.text import fold
from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from heads.settings import Limits, use_limits

# Rows and classes of each sample; the rows are spread evenly over the classes of all but aspects.
PROMISED = {
    "sentiment": (420, 3), "intents": (480, 10), "pairs": (400, 2), "aspects": (400, 6),
    "similarity": (120, 1),
}  # fmt: skip
EACH_SAMPLE = pytest.mark.parametrize("name", PROMISED)
ANY_TEXT = st.text(st.characters(codec=None), max_size=60)


# Texts as they stand


@given(text=ANY_TEXT, most=st.integers(min_value=1, max_value=40))
@example(text=" \ud800\udc00 a \x00\x1b[31m", most=20)
@example(text="  \x07 ", most=5)
@example(text="cafe\u0301\r\n", most=40)
def test_a_text_stays_as_it_stands_but_for_lone_surrogates(text: str, most: int) -> None:
    cut = "".join(letter for letter in text[:most] if unicodedata.category(letter) != "Cs")
    try:
        with use_limits(Limits(text_characters=most)):
            checked = check_text(text)
    except DataError:
        kinds = {unicodedata.category(letter) for letter in cut if not letter.isspace()}
        assert kinds <= {"Cc", "Cf", "Lo", "Mn", "So", "Cn"}  # Hangul's filler and the like as well
        return
    assert checked == cut
    checked.encode("utf-8")
    assert check_text(checked) == checked


@pytest.mark.parametrize("thing", [None, 5, 1.5, True, b"text", ["text"], {"text": 1}])
def test_what_is_no_text_is_refused(thing: object) -> None:
    with pytest.raises(DataError, match=type(thing).__name__):
        check_text(thing)


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\t", "\x00\x01", "\ud800", "\x7f\x9f", "\u200b", " " * 10_000_000]
)
def test_a_blank_text_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(DataError):
        check_text(text, "second sentence")


def test_endless_combining_marks_are_quick(seconds: Callable[[], float]) -> None:
    fold(check_text("a" + "\u0315\u0300" * 500_000))
    assert seconds() < 2


SAME = ("cafe\u0301  noir", " caf\u00e9 noir", "caf\u00e9\x07 noir\n", "Caf\u00e9\r\nnoir\r")


def test_texts_that_differ_in_spaces_and_spelling_belong_together() -> None:
    corpus = build("n", [*SAME, "other"], ["a", "b", "a", "b", "a"])
    assert corpus.texts[:-1] == SAME
    assert groups_of(corpus).numbers == (0, 0, 0, 0, 1)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_every_reader_gives_texts_as_they_stand(tmp_path: Path, ending: str) -> None:
    texts = [" outer ", "cafe\u0301", "caf\u00e9", "a\r\nb", "tab\t", "\x07bell", "x", "y"]
    if ending == "xlsx":  # XML cannot hold it
        texts[3], texts[5] = "a\nb", "bell"
    frame = pd.DataFrame({"text": texts, "label": ["p", " p", "q", "q ", "p", "q", "p", "q"]})
    path = tmp_path / f"rows.{ending}"
    if ending == "csv":
        path.write_bytes(frame.to_csv(index=False).encode())
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_excel(path, index=False)
    data = read(path)
    assert data.corpus.texts == tuple(texts)
    assert data.corpus.classes == ("p", "q")  # labels are cleaned
    kinds = {finding.kind for finding in data.findings}
    assert {"duplicates", "conflict"} <= kinds  # the two ways to write one word are one text
    assert ("controls" in kinds) == (ending != "xlsx")


def test_a_split_of_pairs_knows_texts_that_were_written_otherwise() -> None:
    train = build("a", ["x", "b "], ["1", "2"], [" y", "c"])
    test = build("b", ["y", "d"], ["1", "2"], ["x", "e"])
    assert any("1 of the 2 texts" in note for note in join(train, test).notes)


# Building


def test_the_fingerprint_changes_with_texts_pairs_and_labels() -> None:
    given = [
        build("n", ["a", "b"], ["x", "y"]),
        build("n", ["a", "c"], ["x", "y"]),
        build("n", ["a", "b"], ["y", "x"]),
        build("n", ["a", "b"], ["x", "z"]),
        build("n", ["a", "b"], ["x", "y"], ["c", "d"]),
        build("n", ["b", "a"], ["x", "y"]),
        build("n", ["a", "b"], ["x", "y|x"]),
        build("n", ["a", "b"], ["x", "y|x"], separator=""),
        build("n", ["a", "b"], ["x", "y"], parts=["train", "test"]),
    ]
    assert len({corpus.fingerprint for corpus in given}) == len(given)
    assert build("other", ["a", "b"], ["x", "y"]).fingerprint == given[0].fingerprint


def test_a_label_is_split_only_at_the_sign_asked_for() -> None:
    rows = ["a", "b"], ["x|y", "y;x"]
    assert build("n", *rows).classes == ("x", "y", "y;x")
    assert build("n", *rows, separator=";").classes == ("x", "x|y", "y")
    whole = build("n", *rows, separator="")
    assert (whole.classes, whole.problem) == (("x|y", "y;x"), SINGLE_LABEL)


def test_a_row_without_a_label_is_refused_where_rows_have_one() -> None:
    with pytest.raises(DataError):
        build("n", ["a", "b"], ["x", " "])


def test_classes_that_are_numbers_stand_by_value() -> None:
    stars = build("n", ["a", "b", "c"], ["10", "2", "1"])
    assert (stars.classes, stars.targets) == (("1", "2", "10"), ((2,), (1,), (0,)))
    assert stars.ordered
    assert (stars.problem, stars.numbers) == (SINGLE_LABEL, ())
    assert not build("n", ["a", "b"], ["1", "0"]).ordered  # two classes have no order to speak of
    assert not build("n", ["a", "b", "c"], ["007", "7", "8"]).ordered
    assert not build("n", ["a", "b", "c"], ["1", "2", "x"]).ordered
    assert build("n", ["a", "b", "c"], ["1_0", "9", "8"]).classes == ("1_0", "8", "9")
    many = build("n", ["a", "b"], ["10|2", "1"])
    assert (many.classes, many.targets, many.ordered) == (("1", "2", "10"), ((1, 2), (0,)), False)


def test_a_user_puts_classes_in_order() -> None:
    corpus = build("n", ["a", "b", "c"], ["low", "high", "middle"])
    found = in_order(corpus, ("low", "middle", "high"))
    assert (found.classes, found.targets) == (("low", "middle", "high"), ((0,), (2,), (1,)))
    assert found.ordered
    assert found.fingerprint != corpus.fingerprint


def test_an_order_that_does_not_fit_is_a_sentence() -> None:
    corpus = build("n", ["a", "b", "c"], ["low", "high", "middle"])
    for rows, order in (
        (corpus, ("low", "high")),
        (corpus, ("low", "middle", "high", "top")),
        (corpus, ("low", "middle", "high", "low")),
        (build("n", ["a", "b"], ["x|y", "y"]), ("x", "y")),
        (numbered("n", ["a", "b"], [0.5, 1.5]), ("number",)),
    ):
        with pytest.raises(DataError) as refused:
            in_order(rows, order)
        assert refused.value.hint


def test_a_row_may_be_given_its_labels() -> None:
    many = build("n", ["a", "b", "c"], [("y", "x"), (), ("x",)])
    assert (many.classes, many.problem) == (("x", "y"), MULTI_LABEL)
    assert many.targets == ((0, 1), (), (0,))
    assert many == build("n", ["a", "b", "c"], ["x|y", "", "x"])
    single = build("n", ["a", "b"], [("x",), ("y",)])
    assert single.problem is MULTI_LABEL
    assert single.fingerprint != build("n", ["a", "b"], ["x", "y"]).fingerprint


def test_numbers_have_one_name_and_no_classes() -> None:
    corpus = numbered("n", ["a", "b"], [2.5, 1.0], column="score")
    assert (corpus.problem, corpus.classes, corpus.targets) == (REGRESSION, ("score",), ((), ()))
    assert corpus.numbers == (2.5, 1.0)
    assert corpus.fingerprint != numbered("n", ["a", "b"], [2.5, 1.5]).fingerprint


# The samples


def plain(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts as two people would call them the same."""
    return tuple(" ".join(re.findall(r"\w+", text.casefold())) for text in texts)


@pytest.fixture(scope="module")
def samples() -> dict[str, Corpus]:
    return {name: read(entry.path).corpus for name, entry in SAMPLES.items()}


def rows_of(corpus: Corpus) -> list[tuple[str, ...]]:
    return list(
        zip(corpus.texts, corpus.pairs, strict=True)
        if corpus.pairs
        else zip(corpus.texts, strict=True)
    )


@EACH_SAMPLE
def test_a_sample_is_as_promised(samples: dict[str, Corpus], name: str) -> None:
    corpus, sample = samples[name], SAMPLES[name]
    assert set(SAMPLES) == set(PROMISED)
    assert (len(corpus), len(corpus.classes)) == PROMISED[name]
    assert (corpus.problem is MULTI_LABEL) == (name == "aspects")
    assert (bool(corpus.pairs), bool(corpus.numbers)) == (sample.pair, sample.number)
    if corpus.problem is SINGLE_LABEL:
        each = Counter(corpus.targets)
        assert set(each.values()) == {len(corpus) // len(corpus.classes)}
    rows = Counter(plain(row) for row in rows_of(corpus))
    assert [row for row, times in rows.items() if times > 1] == []
    assert all(all(row) for row in rows)
    assert sample.tries
    assert all(len(texts) == 1 + sample.pair for texts in sample.tries)
    assert not {plain(texts) for texts in sample.tries} & set(rows)
    if sample.pair:
        assert not [row for row in rows if len(set(row)) == 1]
        assert len(set(map(frozenset, rows))) == len(corpus)
    else:  # no two rows are of nearly the same words
        words = [set(row[0].split()) for row in rows]
        near = [(a, b) for a, b in combinations(words, 2) if len(a & b) > 0.7 * len(a | b)]
        assert near == []


def test_samples_cover_what_they_are_for(samples: dict[str, Corpus]) -> None:
    numbers = samples["similarity"].numbers
    assert (min(numbers), max(numbers)) == (0.0, 5.0)
    assert Counter(min(4, int(number)) for number in numbers) == dict.fromkeys(range(5), 24)
    assert len(set(numbers)) > 40
    sizes = Counter(len(target) for target in samples["aspects"].targets)
    assert sizes[0] == 23
    assert sizes[1] > 100
    assert sizes[2] + sizes[3] > 100
