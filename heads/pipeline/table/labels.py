"""What is wrong or suspicious about a column of labels."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from heads.errors import DataError, LimitError
from heads.pipeline.numerals import plainest
from heads.pipeline.table.kinds import SEPARATORS, is_measured, numbers_of
from heads.pipeline.table.rows import Rows
from heads.pipeline.table.sheet import Finding, count, short
from heads.settings import Limits

_FEW_ROWS = 5
_LOPSIDED = 0.8
_FEW_LABELS = 20
_FEWEST_NUMBERS = 10
# Letters of other scripts that look like Latin ones (from Unicode's table of confusables).
_TWINS = str.maketrans(
    "аеорсухіјѕԁһԛԝӏАВЕКМНОРСТХІЈЅԌԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαονριѵɡıǀ",
    "aeopcyxijsdhqwlABEKMHOPCTXIJSGQWABEZHIKMNOPTYXaovpivgil",
)
# Marks that turn the direction of writing around or have no width; joiners make other letters.
_UNSEEN = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
# Whole numbers of which so many are different measure something rather than name classes.
_MANY_NUMBERS = 10
_NONE = {"-", "?", "nan", "NaN", "None", "null", "N/A", "n/a"}


def counted(rows: Rows) -> Counter[str]:
    """How many rows have each label, in the order in which the labels come."""
    return Counter(label for labels in rows.sets for label in labels)


def shorten(rows: Rows, name: str, limits: Limits) -> list[Finding]:
    """Cuts labels that are too long, where they stay different.

    Raises:
        DataError: Two of them are the same when cut.
    """
    most = limits.label_characters
    short_of = {label: label[:most].rstrip() for label in counted(rows)}
    long = [row for row, labels in enumerate(rows.sets) if any(len(each) > most for each in labels)]
    if not long:
        return []
    longest = max(map(len, short_of))
    rows.sets[:] = [tuple(short_of[label] for label in labels) for labels in rows.sets]
    told = f"{count(len(long), 'label')} longer than {most} characters (up to {longest:,})"
    if len(set(short_of.values())) < len(short_of):
        what = f"{name} has {told}: {rows.where(long)}."
        raise DataError(what, "Shorten them, or choose the column that holds the labels.")
    return [rows.found("long_labels", f"Cut {told}: {rows.where(long)}.", long)]


def check_labels(rows: Rows, name: str, limits: Limits, *, many: bool) -> None:
    """Refuses what cannot be classes.

    Raises:
        DataError: Fewer than two; or, of one label a row, real numbers, or one for each row.
        LimitError: Too many.
    """
    counts = counted(rows)
    if not counts:
        raise DataError(f"No row of {name} has a label.", "Choose the column that holds labels.")
    if len(counts) == 1:
        what = f"{name} needs at least 2 classes; found only '{short(next(iter(counts)))}'."
        raise DataError(what, "Add rows of another class.")
    if not many and is_measured(counts):
        every = len(counts) == len(rows.sets)
        so = "every row has its own number" if every else f"{len(counts):,} different numbers"
        what = f"The labels of {name} are real numbers ({so}), not classes."
        hint = "Choose to predict the number, or turn the numbers into a few classes."
        raise DataError(what, hint)
    if len(counts) > limits.classes:
        what = f"{name} has {len(counts):,} classes; this place allows {limits.classes:,}."
        raise LimitError(what, "Choose the column that holds the labels, or keep fewer classes.")
    if not many and len(counts) == len(rows.sets) > _FEW_LABELS:
        what = f"Every row of {name} has a label of its own."
        more = (
            ", or choose to predict the number" if len(numbers_of(counts)[1]) == len(counts) else ""
        )
        raise DataError(what, f"Choose the column that holds the labels{more}.")


def check_numbers(numbers: Sequence[float], name: str) -> None:
    """Refuses numbers from which nothing can be learned.

    Raises:
        DataError: There are fewer than ten, or all are the same.
    """
    if len(numbers) < _FEWEST_NUMBERS:
        what = f"{name} has {count(len(numbers), 'row')} with a number; at least 10 are needed."
        raise DataError(what, "Add rows, or choose the column that holds the labels.")
    if len(set(numbers)) == 1:
        what = f"All numbers of {name} are {numbers[0]:g}; nothing can be learned from them."
        raise DataError(what, "Add rows with other numbers, or choose another column.")


def one_spelling(rows: Rows) -> list[Finding]:
    """Makes 1 and 1.0 one label, where both are there."""
    counts = counted(rows)
    plain: dict[str, list[str]] = defaultdict(list)
    for label in counts:
        plain[plainest(label)].append(label)
    same = {label: one for one, labels in plain.items() if len(labels) > 1 for label in labels}
    odd = [row for row, labels in enumerate(rows.sets) if any(same.get(n, n) != n for n in labels)]
    if not odd:
        return []
    rows.sets[:] = [tuple(sorted({same.get(n, n) for n in labels})) for labels in rows.sets]
    one = next(iter(same.values()))
    says = (
        f"{_quoted(plain[one])} are one number and were taken for one label, '{one}' "
        f"({rows.where(odd)})."
    )
    return [rows.found("one_spelling", says, odd)]


def label_findings(rows: Rows, *, many: bool) -> list[Finding]:
    """Warnings on the labels, in the order in which to read them."""
    counts = counted(rows)
    first: dict[str, int] = {}
    for row, labels in enumerate(rows.sets):
        for label in labels:
            first.setdefault(label, row)
    by_kind: list[tuple[str, str, list[str]]] = []
    for group in _alike(counts, str.casefold):
        says = f"The labels {_quoted(group)} differ only by case"
        by_kind.append(("case", says, group))
    for twins in _alike({label.casefold() for label in counts}, _skeleton):
        group = sorted(label for label in counts if label.casefold() in twins)
        says = f"The labels {_quoted(group)} look alike but are spelled with different letters"
        by_kind.append(("lookalike", says, group))
    found = []
    for label in sorted(_NONE & set(counts)):
        says = (
            f"'{label}' is the label of {count(counts[label], 'row')}; it often says that there is "
            "no label. If it does here, leave these rows out."
        )
        found.append(rows.found("no_label", says, [first[label]]))
    for kind, says, group in by_kind:
        places = [first[label] for label in group]
        says += f" ({rows.where(places)}); write them alike if they are one."
        found.append(rows.found(kind, says, places))
    unseen = [label for label in sorted(counts) if _UNSEEN.search(label)]
    if unseen:
        places = [first[label] for label in unseen]
        says = (
            f"{count(len(unseen), 'label')} with invisible marks, for example "
            f"'{short(unseen[0])}': {rows.where(places)}. Remove the marks."
        )
        found.append(rows.found("invisible", says, places))
    more = [] if many else _several(counts, first, rows) + _amounts(counts, rows)
    return found + more + _sizes(counts, first, rows, many=many)


def _alike(labels: Iterable[str], fold: Callable[[str], str]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for label in labels:
        groups[fold(label)].append(label)
    return [sorted(group) for group in groups.values() if len(group) > 1]


def _skeleton(label: str) -> str:
    """What a label looks like: without accents, in Latin letters where they look the same."""
    parts = unicodedata.normalize("NFKD", label)
    seen = "".join(each for each in parts if unicodedata.category(each) not in ("Mn", "Cf"))
    return seen.translate(_TWINS).casefold()


def _quoted(labels: Sequence[str]) -> str:
    shown = [f"'{short(label)}'" for label in labels[:4]]
    return ", ".join(shown) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")


def _several(counts: Counter[str], first: dict[str, int], rows: Rows) -> list[Finding]:
    """Cells that seem to hold several labels: their parts come again in other cells."""
    if len(numbers_of(counts)[1]) == len(counts):
        return []  # a comma in 3,1 parts no labels
    for sign in SEPARATORS:
        joined = [label for label in counts if sign in label.strip(sign)]
        cells: Counter[str] = Counter()
        for label in counts:
            cells.update({part.strip() for part in label.split(sign)} - {""})
        again = [
            label for label in joined if any(cells[part.strip()] > 1 for part in label.split(sign))
        ]
        if again:
            held = sum(counts[label] for label in again)
            says = (
                f"{count(held, 'row')} may hold several labels in one cell, for example "
                f"'{short(again[0])}'; each such cell was treated as one class."
            )
            return [rows.found("several", says, sorted(first[label] for label in again))]
    return []


def _amounts(counts: Counter[str], rows: Rows) -> list[Finding]:
    """Labels that may measure something: percentages, prices, whole numbers from 0 to 100."""
    notation, numbers = numbers_of(counts)
    if len(numbers) < len(counts) or len(numbers) < 3:
        return []
    what = {"percent": "percentages", "price": "prices", "": "whole numbers"}[notation.unit]
    if not notation.unit:
        values = sorted(numbers.values())
        low, high = values[0], values[-1]
        # 0, 1, 2 and so on without a gap are numbers that somebody gave to classes.
        counted_up = low in (0, 1) and high - low == len(values) - 1 and high != 100
        whole = all(value == int(value) for value in values)
        if not whole or counted_up or len(values) <= _MANY_NUMBERS or low < 0 or high > 100:
            return []
        what += f" from {low:g} to {high:g}"
    says = (
        f"The labels are {what} ({len(counts):,} different), each taken for a class; if they "
        "measure something, choose to predict the number (--number)."
    )
    return [rows.found("amounts", says)]


def _sizes(counts: Counter[str], first: dict[str, int], rows: Rows, *, many: bool) -> list[Finding]:
    found = []
    total = len(rows.sets)
    small = sorted((label for label in counts if counts[label] < _FEW_ROWS), key=counts.__getitem__)
    if small:
        things = ("label has", "labels have") if many else ("class has", "classes have")
        says = (
            f"{count(len(small), *things)} fewer than {_FEW_ROWS} rows: "
            f"{_quoted(small)}. Too few to learn or to score; add rows or leave them out."
        )
        found.append(rows.found("tiny", says, [first[label] for label in small]))
    label, most = counts.most_common(1)[0]
    if most > _LOPSIDED * total:
        instead = (
            "macro-F1, not micro-F1" if many else "macro-F1 and balanced accuracy, not accuracy"
        )
        does = "applies to" if many else "makes up"
        says = (
            f"'{short(label)}' {does} {100 * most / total:.1f} % of the rows "
            f"({most:,} of {total:,}); compare {instead}."
        )
        found.append(rows.found("imbalance", says))
    return found
