"""The one door for rows: each step takes a corpus, leaves rows out or joins some, and notes it.

Every step returns a corpus whose notes have a sentence more and whose fingerprint is of its rows.
A run goes through it before its classes are counted. Rows without a text or a label are left out
where a file is read (`data.rows`); rows that one fold alone cannot score, where folds are made
(`runs.unseen_classes`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from heads.data.corpus import Corpus, groups_of, select_rows
from heads.data.groups import FEWEST, shared
from heads.data.numbers import plainest
from heads.data.table import quoted
from heads.data.text import fold
from heads.errors import DataError
from heads.problem import MULTI_LABEL, SINGLE_LABEL

# Of the rows for scoring, the share of classes never seen beyond which they are of another task.
# Below it most rows can be answered and are worth scoring (ATIS has 0.6 %, a set with questions out
# of scope 10 to 20 %); above it most cannot, which nobody means.
MOST_UNSEEN = 0.5


def join(train: Corpus, test: Corpus, unseen: str = "aside") -> Corpus:
    """Join two files to one corpus, whose rows know their part, with notes on what does not fit.

    Rows that the first file itself marks for testing are left out: the second file is the test.

    Args:
        unseen: What becomes of test rows of a class that the first file does not have, see
            `settle_unseen`.

    Raises:
        DataError: One has second texts and the other not, or most of the test has other classes.
    """
    if bool(train.pairs) != bool(test.pairs):
        raise DataError(f"Only one of {train.name} and {test.name} has second texts.", "Mend one.")
    # A test whose every row happens to have one label is read as such.
    if train.problem is not test.problem and not (
        train.problem is MULTI_LABEL and test.problem is SINGLE_LABEL
    ):
        what = f"The labels of {train.name} and of {test.name} are not of one kind."
        hint = "Name the same columns for both, and the same separator."
        raise DataError(what, hint)
    _check_vectors(train, test)
    parts = train.parts or ("train",) * len(train)
    first = select_rows(train, [row for row, part in enumerate(parts) if part != "test"])
    classes, moved, notes = _classes(train, test)
    groups = ()
    if train.groups or test.groups:  # rows of a file that names none are groups of their own
        groups = tuple(
            name for corpus in (first, test) for name in corpus.groups or [""] * len(corpus)
        )
    corpus = replace(
        train,
        texts=(*first.texts, *test.texts),
        pairs=(*first.pairs, *test.pairs),
        classes=classes,
        targets=(*first.targets, *moved),
        numbers=(*first.numbers, *test.numbers),
        lines=(*first.lines, *test.lines) if train.lines else (),
        parts=(*(first.parts or ["train"] * len(first)), *["test"] * len(test)),
        groups=groups,
        fingerprint=train.fingerprint + test.fingerprint,
        vectors=first.vectors.followed_by(test.vectors) if first.vectors and test.vectors else None,
        are_named=train.are_named or test.are_named,
    )
    if left := len(train) - len(first):
        notes.append(f"{left:,} rows that {train.name} marks for testing are left out.")
    notes += _between(train, test, corpus)
    corpus = settle_unseen(replace(corpus, notes=(*train.notes, *notes)), unseen)
    # An order is of the classes that were learned; others have no place in it.
    return replace(corpus, ordered=train.ordered and corpus.classes == train.classes)


def _check_vectors(train: Corpus, test: Corpus) -> None:
    """Refuse vectors beside texts, and vectors of two widths."""
    widths = [one.vectors.width if one.vectors else 0 for one in (train, test)]
    if widths[0] == widths[1]:
        return
    if not all(widths):
        what = f"{train.name} and {test.name} hold vectors in one and texts in the other."
        raise DataError(what, "Choose the same columns in both (--vectors).")
    what = f"The vectors of {train.name} have {widths[0]:,} numbers and those of {test.name} "
    raise DataError(f"{what}{widths[1]:,}.", "Let one model make both.")


def _classes(
    train: Corpus, test: Corpus
) -> tuple[tuple[str, ...], list[tuple[int, ...]], list[str]]:
    """Return the classes of both, the test's targets in them, and a note on names taken for one."""
    if not train.problem.has_classes:
        return train.classes, [()] * len(test), []
    plain = {plainest(name): name for name in train.classes}
    same = {
        name: plain[plainest(name)]
        for name in test.classes
        if name not in train.classes and plainest(name) in plain
    }
    others = sorted(set(test.classes) - set(train.classes) - set(same))
    classes = (*train.classes, *others)
    number = {name: place for place, name in enumerate(classes)}
    place = [number[same.get(name, name)] for name in test.classes]
    notes = []
    if same:
        one, other = next(iter(same.items()))
        notes.append(f"'{one}' of {test.name} was taken for '{other}' of {train.name}.")
    moved = [tuple(sorted({place[one] for one in targets})) for targets in test.targets]
    return classes, moved, notes


def settle_unseen(corpus: Corpus, unseen: str = "aside") -> Corpus:
    """Settle what becomes of rows for scoring of a class that no row to learn from has.

    Args:
        unseen: "aside": they are left out, and counted; "wrong": they are scored, and since no head
            has ever met their class, none gets them right.

    Returns:
        The corpus, with a note where there are such rows.

    Raises:
        DataError: More than half of the rows for scoring are such: they are of another task.
    """
    scored = [row for row, part in enumerate(corpus.parts) if part == "test"]
    if not scored or not corpus.problem.has_classes:
        return corpus
    known = {
        one
        for part, targets in zip(corpus.parts, corpus.targets, strict=True)
        if part != "test"
        for one in targets
    }
    odd = [row for row in scored if not known.issuperset(corpus.targets[row])]
    if not odd:
        return corpus
    new = sorted({one for row in odd for one in corpus.targets[row]} - known)
    have = "has" if len(odd) == 1 else "have"
    told = f"{len(odd):,} of the {len(scored):,} rows for scoring {have} a class"
    told += f" that no row to learn from has ({named(corpus, new)})"
    if len(odd) > MOST_UNSEEN * len(scored):
        names, learned = ([corpus.classes[at] for at in places] for places in (new, known))
        is_case = differ_by_case(names, learned)
        hint = "Label both alike: they differ by case." if is_case else "Label both alike."
        raise DataError(f"{told}: the two are different tasks.", hint)
    if unseen == "wrong":
        note = f"{told}; they are scored, and no head can get them right."
        return replace(corpus, notes=(*corpus.notes, note))
    note = f"{told}; they are set aside and not scored (--unseen wrong scores them as wrong)."
    left = set(odd)
    some = select_rows(corpus, [row for row in range(len(corpus)) if row not in left], note)
    kept = [at for at in range(len(corpus.classes)) if at in known]
    number = {at: place for place, at in enumerate(kept)}
    return replace(
        some,
        classes=tuple(corpus.classes[at] for at in kept),
        targets=tuple(tuple(number[at] for at in targets) for targets in some.targets),
    )


def differ_by_case(names: Iterable[str], known: Iterable[str]) -> bool:
    """Return True if each name is a known one in another case."""
    return {name.casefold() for name in known}.issuperset(map(str.casefold, names))


def named(corpus: Corpus, classes: Sequence[int]) -> str:
    """Return some classes by name, the first few of them."""
    return quoted(corpus.classes[place] for place in classes)


def _between(train: Corpus, test: Corpus, corpus: Corpus) -> list[str]:
    """Return what rows of the test share with rows to learn from."""
    notes, things = [], "vectors" if corpus.are_named else "texts"
    seconds = corpus.pairs or [""] * len(corpus)
    keys = [tuple(sorted(map(fold, pair))) for pair in zip(corpus.texts, seconds, strict=True)]
    learned = len(corpus) - len(test)
    known = set(keys[:learned])
    both = sum(key in known for key in keys[learned:])
    if both:
        notes.append(
            f"{both:,} of the {len(test):,} {things} of the test file stand in {train.name} as "
            "well: remove them, or scores are too good."
        )
    parts = ["train"] * learned + ["test"] * len(test)
    half = len(shared(corpus.texts, corpus.pairs, parts)) if corpus.pairs else 0
    if half > both:
        notes.append(
            f"{100 * half / len(test):.0f} % of the rows of the test file share one of their texts "
            f"with a row of {train.name}: scores may be too good for texts that are new."
        )
    groups = set(corpus.groups[:learned]) - {""}
    known_groups = sum(group in groups for group in corpus.groups[learned:])
    if known_groups:
        notes.append(
            f"{known_groups:,} of the {len(test):,} rows of the test file are of a group that "
            f"{train.name} has as well: scores say nothing of groups that are new."
        )
    return notes


def check_groups(corpus: Corpus, column: str) -> None:
    """Raise DataError for groups that are too few to learn from, to choose on and to score."""
    if not corpus.groups:
        return
    found = groups_of(corpus).numbers
    given = "test" in corpus.parts
    left = {n for at, n in enumerate(found) if not (given and corpus.parts[at] == "test")}
    least = 2 if given else FEWEST
    if len(left) < least:
        groups = "1 group" if len(left) == 1 else f"{len(left)} groups"
        says = f"The column '{column[:60]}' leaves {groups} of rows to split"
        what = f"{says}; at least {least} are needed, since no group is both learned and scored."
        raise DataError(what, "Choose a finer column, or none.")
