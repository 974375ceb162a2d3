"""What is wrong or suspicious about a column of labels."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from heads.errors import DataError, LimitError
from heads.pipeline.table.dialect import is_number
from heads.pipeline.table.rows import Rows
from heads.pipeline.table.sheet import Finding, count, short
from heads.settings import Limits

SEPARATORS = "|;,"
_FEW_ROWS = 5
_LOPSIDED = 0.8
_MOST_NUMBERS = 20
# Letters of other scripts that look like Latin ones (from Unicode's table of confusables).
_TWINS = str.maketrans(
    "аеорсухіјѕԁһԛԝӏАВЕКМНОРСТХІЈЅԌԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαονριѵɡıǀ",
    "aeopcyxijsdhqwlABEKMHOPCTXIJSGQWABEZHIKMNOPTYXaovpivgil",
)
# Marks that turn the direction of writing around or have no width.
_UNSEEN = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def shorten(rows: Rows, name: str, limits: Limits) -> list[Finding]:
    """Cuts labels that are too long, where they stay different.

    Raises:
        DataError: Two of them are the same when cut.
    """
    most = limits.label_characters
    long = [row for row, label in enumerate(rows.labels) if len(label) > most]
    if not long:
        return []
    before = len(set(rows.labels))
    longest = max(len(rows.labels[row]) for row in long)
    rows.labels[:] = [label[:most].rstrip() for label in rows.labels]
    told = f"{count(len(long), 'label')} longer than {most} characters (up to {longest:,})"
    if len(set(rows.labels)) < before:
        what = f"{name} has {told}: {rows.where(long)}."
        raise DataError(what, "Shorten them, or choose the column that holds the labels.")
    return [rows.found("long_labels", f"Cut {told}: {rows.where(long)}.", long)]


def check_labels(labels: Sequence[str], name: str, limits: Limits) -> None:
    """Refuses what cannot be classes.

    Raises:
        DataError: Fewer than two, real numbers, or one for each row.
        LimitError: Too many.
    """
    counts = Counter(labels)
    if len(counts) == 1:
        what = f"{name} needs at least 2 classes; found only '{short(labels[0])}'."
        raise DataError(what, "Add rows of another class.")
    _refuse_numbers(counts, len(labels), name)
    check_classes(len(counts), name, limits)
    if len(counts) == len(labels) and len(labels) > _MOST_NUMBERS:
        what = f"Every row of {name} has a label of its own."
        raise DataError(what, "Choose the column that holds the labels.")


def check_classes(number: int, name: str, limits: Limits) -> None:
    """Refuses more classes than this place allows.

    Raises:
        LimitError: There are too many.
    """
    if number > limits.classes:
        what = f"{name} has {number:,} classes; this place allows {limits.classes:,}."
        raise LimitError(what, "Choose the column that holds the labels, or keep fewer classes.")


def _refuse_numbers(counts: Counter[str], rows: int, name: str) -> None:
    """Refuses labels that measure something, such as 0.844422."""
    measured = all(map(is_number, counts)) and any(
        re.search(r"\.\d*[1-9]", each) for each in counts
    )
    if measured and (len(counts) > _MOST_NUMBERS or len(counts) * 2 > rows):
        every = len(counts) == rows
        so = "every row has its own number" if every else f"{len(counts):,} different numbers"
        what = f"The labels of {name} are real numbers ({so}); this app predicts classes."
        raise DataError(what, "Turn the numbers into a few classes, such as low and high.")


def label_findings(rows: Rows) -> list[Finding]:
    """Warnings on the labels of single-label rows, in the order in which to read them."""
    counts = Counter(rows.labels)
    first = {label: row for row, label in reversed(list(enumerate(rows.labels)))}
    by_kind: list[tuple[str, str, list[str]]] = []
    for group in _alike(counts, str.casefold):
        says = f"The labels {_quoted(group)} differ only by case"
        by_kind.append(("case", says, group))
    for twins in _alike({label.casefold() for label in counts}, _skeleton):
        group = sorted(label for label in counts if label.casefold() in twins)
        says = f"The labels {_quoted(group)} look alike but are spelled with different letters"
        by_kind.append(("lookalike", says, group))
    found = []
    for kind, says, group in by_kind:
        places = [first[label] for label in group]
        says += f" ({rows.where(places)}); write them alike if they are one."
        found.append(rows.found(kind, says, places))
    unseen = [first[label] for label in sorted(counts) if _UNSEEN.search(label)]
    if unseen:
        says = (
            f"{count(len(unseen), 'label')} with invisible marks, for example "
            f"'{short(rows.labels[unseen[0]])}': {rows.where(unseen)}. Remove the marks."
        )
        found.append(rows.found("invisible", says, unseen))
    return found + _several(counts, first, rows) + _sizes(counts, first, rows)


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


def _sizes(counts: Counter[str], first: dict[str, int], rows: Rows) -> list[Finding]:
    found = []
    total = counts.total()
    small = sorted((label for label in counts if counts[label] < _FEW_ROWS), key=counts.__getitem__)
    if small:
        says = (
            f"{count(len(small), 'class has', 'classes have')} fewer than {_FEW_ROWS} rows: "
            f"{_quoted(small)}. Too few to learn or to score; add rows or leave them out."
        )
        found.append(rows.found("tiny", says, [first[label] for label in small]))
    label, most = counts.most_common(1)[0]
    if most > _LOPSIDED * total:
        says = (
            f"'{short(label)}' makes up {100 * most / total:.1f} % of the rows "
            f"({most:,} of {total:,}); compare macro-F1 and balanced accuracy, not accuracy."
        )
        found.append(rows.found("imbalance", says))
    return found
