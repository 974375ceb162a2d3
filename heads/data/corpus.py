"""Texts and their labels as a `Corpus`, and fair splits of it.

Every text, wherever it comes from, passes `check_text` before a tokenizer sees it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from heads.data.groups import Grouping, grouping
from heads.data.numbers import PLAIN, notation_of
from heads.data.text import SURROGATES, is_blank
from heads.errors import DataError
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.settings import current_limits

if TYPE_CHECKING:  # tables are read before torch is imported
    from torch import Tensor

    from heads.data.vectors import RowVectors, Vectors

SEPARATOR = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Labelled texts.

    Attributes:
        pairs: The second text of each row; empty where rows hold one text.
        classes: The names of the classes, in the order of the logits; where rows are labelled
            with numbers, the one name that those have.
        targets: For each row the numbers of its classes; none where rows are labelled with numbers.
        fingerprint: A digest of all of it.
        lines: The line of the file on which each row begins; empty where there is no file.
        parts: "train", "validation" or "test" for each row; empty where no split is given.
        numbers: The number of each row, where rows are labelled with numbers; else empty.
        ordered: Whether the classes stand in an order, from low to high.
        groups: The group that the data put each row into, such as its author, "" for none; empty
            where they do not.
        vectors: One a row, which heads learn from in the place of texts; None where they learn
            from texts.
        are_named: Whether the texts are names made of vectors, since there are no others.
        notes: Sentences on rows that were joined or left out since they were read, in order.
    """

    name: str
    texts: tuple[str, ...]
    pairs: tuple[str, ...]
    classes: tuple[str, ...]
    targets: tuple[tuple[int, ...], ...]
    problem: ProblemType
    fingerprint: str
    lines: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    ordered: bool = False
    groups: tuple[str, ...] = ()
    vectors: "Vectors | None" = None
    are_named: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labels(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...] | tuple[float, ...]:
        """What each row is labelled with: the name of its class, of several, or its number."""
        if not self.problem.has_classes:
            return self.numbers
        named = (tuple(self.classes[label] for label in row) for row in self.targets)
        return tuple(named) if self.problem.has_label_sets else tuple(name for (name,) in named)

    def targets_of(self, rows: Sequence[int]) -> "Tensor":
        """Return the targets of some rows, in the form that their problem type says."""
        values = [self.numbers[row] for row in rows] if self.numbers else ()
        labels = [self.targets[row] for row in rows]
        return self.problem.targets(labels, values, len(self.classes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTexts:
    """The texts of some rows.

    Attributes:
        pairs: The second text of each row; empty where rows hold one text.
        vectors: The vector of each row, where rows hold those; the texts are their names.
    """

    texts: tuple[str, ...]
    pairs: tuple[str, ...] = ()
    vectors: "RowVectors | None" = None


def check_text(text: object, name: str = "sentence", *, longest: int | None = None) -> str:
    r"""Return a text cut to the longest that is read, without lone surrogates.

    >>> check_text(" cafe\u0301\x07")
    ' cafe\u0301\x07'

    Args:
        longest: Characters; by default those of the limits.

    Raises:
        DataError: It is no text, or has no visible character.
    """
    if not isinstance(text, str):
        raise DataError(f"The {name} must be a text, not {type(text).__name__}.", "Type it.")
    longest = current_limits().text_characters if longest is None else longest
    text = SURROGATES.sub("", text[:longest])
    if is_blank(text):
        raise DataError(f"The {name} is empty.", f"Type a {name} first.")
    return text


def build(
    name: str,
    texts: Sequence[str],
    labels: Sequence[str | tuple[str, ...]],
    pairs: Sequence[str] = (),
    separator: str = SEPARATOR,
    parts: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Corpus:
    """Make a corpus of texts and their labels; classes that are numbers stand in order.

    Args:
        labels: The cells of a label column; or for each row its labels, any number of them.
        separator: Where a cell holds it, rows may have any number of labels, and an empty
            cell means none; "" means one label a row.

    Raises:
        DataError: Fewer than two classes, or a row without a label where rows have one.
    """
    many = any(isinstance(each, tuple) or (separator and separator in each) for each in labels)
    sets = [_parted(each, separator if many else "") for each in labels]
    empty = next((n for n, names in enumerate(sets, start=2) if names == [""]), None)
    if empty:
        raise DataError(f"Row {empty} of {name} has no label.", "Give it one.", line=empty)
    classes, ordered = class_order({label for names in sets for label in names})
    if len(classes) < 2:
        found = f"found only '{classes[0]}'" if classes else "found none"
        raise DataError(f"{name} needs at least 2 classes; {found}.", "Add rows of another class.")
    number = {label: index for index, label in enumerate(classes)}
    told: list[object] = [list(texts), list(pairs), sets, *([list(parts)] if parts else [])]
    if many and all(len(names) == 1 for names in sets):
        told.append("many")  # else its sets would tell it apart
    told += [classes] * (classes != sorted(classes)) + [("groups", *groups)] * bool(groups)
    return Corpus(
        name=name,
        texts=tuple(texts),
        pairs=tuple(pairs),
        classes=tuple(classes),
        targets=tuple(tuple(sorted(number[label] for label in names)) for names in sets),
        problem=MULTI_LABEL if many else SINGLE_LABEL,
        fingerprint=_digest(told),
        parts=tuple(parts),
        ordered=ordered and not many,
        groups=tuple(groups),
    )


def _parted(labels: str | tuple[str, ...], separator: str) -> list[str]:
    """Return the labels of a row; with no separator, a cell is one."""
    if isinstance(labels, str) and not separator:
        return [labels.strip()]
    names = labels.split(separator) if isinstance(labels, str) else labels
    return sorted({name.strip() for name in names} - {""})


def class_order(classes: set[str]) -> tuple[list[str], bool]:
    """Return classes by value where all are numbers, else by name, and whether that orders them.

    Two classes have no order to speak of, and two ways to write a number none at all. Integers from
    0 on are codes of classes more often than ratings.
    """
    comma = notation_of(classes).comma
    read = replace(PLAIN, comma=comma)  # a percentage or a price is a name, unless one says else
    values = {label: value for label in classes if (value := read.value(label)) is not None}
    if len(values) < len(classes):
        return sorted(classes), False
    found = sorted(classes, key=lambda label: (values[label], label))
    are_codes = [values[label] for label in found] == list(range(len(found)))
    return found, len(found) > 2 and len(set(values.values())) == len(found) and not are_codes


def _digest(told: Sequence[object]) -> str:
    return hashlib.sha256(repr(tuple(told)).encode()).hexdigest()


def numbered(
    name: str,
    texts: Sequence[str],
    numbers: Sequence[float],
    pairs: Sequence[str] = (),
    column: str = "number",
    parts: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Corpus:
    """Make a corpus of texts and the number, called `column`, that is to be predicted for each."""
    told = [list(texts), list(pairs), list(numbers), list(parts), "numbers"]
    if groups:
        told.append(list(groups))
    return Corpus(
        name=name,
        texts=tuple(texts),
        pairs=tuple(pairs),
        classes=(column,),
        targets=((),) * len(texts),
        problem=REGRESSION,
        fingerprint=_digest(told),
        parts=tuple(parts),
        numbers=tuple(numbers),
        groups=tuple(groups),
    )


def of_targets(
    name: str,
    rows: RowTexts,
    classes: Sequence[str],
    targets: Sequence[tuple[int, ...]],
    problem: ProblemType = SINGLE_LABEL,
    groups: Sequence[str] = (),
    *,
    ordered: bool = False,
) -> Corpus:
    """Make a corpus of texts whose classes are known, and stand in their order.

    Args:
        classes: Their names, in the order of the logits; of several labels one may have no row.
        targets: For each row the numbers of its classes.
        ordered: Whether the classes stand in an order, from low to high.
    """
    parts = [list(rows.texts), list(rows.pairs), list(targets), list(groups), list(classes)]
    return Corpus(
        name=name,
        texts=rows.texts,
        pairs=rows.pairs,
        classes=tuple(classes),
        targets=tuple(targets),
        problem=problem,
        fingerprint=_digest([*parts, problem.name, ordered, "targets"]),
        ordered=ordered,
        groups=tuple(groups),
    )


def in_order(corpus: Corpus, order: Sequence[str]) -> Corpus:
    """Put the classes in an order from low to high; raise DataError if it names others."""
    if not corpus.problem.is_exclusive:
        raise DataError("An order of classes is for one label a row.", "Leave the order out.")
    unknown = [label for label in corpus.classes if label not in order]
    if unknown:
        what = f"The class '{unknown[0][:60]}' of {corpus.name} is not in the order that was given."
        raise DataError(what, "Name every class once, from low to high.")
    absent = [label for label in order if label not in corpus.classes]
    if absent or len(order) > len(corpus.classes):
        says = f"no row of {corpus.name} has" if absent else "it names twice"
        twice = [label for at, label in enumerate(order) if label in order[:at]]
        what = f"The order names the class '{(absent or twice)[0][:60]}', which {says}."
        raise DataError(what, "Name every class once, from low to high.")
    place = {label: at for at, label in enumerate(order)}
    moved = tuple((place[corpus.classes[target]],) for (target,) in corpus.targets)
    digest = _digest([corpus.fingerprint, list(order)])
    return replace(corpus, classes=tuple(order), targets=moved, ordered=True, fingerprint=digest)


def select_rows(corpus: Corpus, rows: Sequence[int], *notes: str) -> Corpus:
    """Return some rows of a corpus, with a fingerprint of their own and notes on the others."""
    columns = ("texts", "pairs", "targets", "lines", "parts", "numbers", "groups")
    some = {name: column for name in columns if (column := getattr(corpus, name))}
    return replace(
        corpus,
        **{name: tuple(column[row] for row in rows) for name, column in some.items()},
        vectors=corpus.vectors and corpus.vectors.of(rows),
        fingerprint=_digest([corpus.fingerprint, "rows", *rows]),
        notes=(*corpus.notes, *notes),
    )


def groups_of(corpus: Corpus) -> Grouping:
    """Return which rows belong together: those that share a text, or a group of the data."""
    return grouping(corpus.texts, corpus.pairs, corpus.groups, corpus.parts)


def on_vectors(
    corpus: Corpus, given: "RowVectors", rows: Sequence[int], *, are_named: bool
) -> Corpus:
    """Add the vectors that heads learn from, those of `rows` of a file, in place of the texts."""
    names = () if are_named else [given.names[row] for row in rows]  # digests of the vectors
    return replace(
        corpus,
        vectors=given.vectors.of(rows),
        are_named=are_named,
        fingerprint=_digest([corpus.fingerprint, "vectors", given.vectors.width, *names]),
    )
