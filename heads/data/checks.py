"""What would spoil a comparison: repeated or leaking texts, classes of few rows, odd labels."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from statistics import quantiles

from heads.data.corpus import Corpus, groups_of
from heads.data.groups import LARGEST, shared
from heads.data.labels import SEPARATORS, find_separator, is_measured, numbers_of
from heads.data.numbers import plainest
from heads.data.rows import Rows
from heads.data.table import LISTS, Columns, Finding, Table, count, finding, quoted, short
from heads.data.text import folded, normalize_text
from heads.errors import DataError, LimitError
from heads.settings import current_limits

_NEAR = 0.02
_LEAK = 0.5
_CONTRAST = 0.4
_ONE_TEXT = 0.5
_OTHERS = 2_000
_NOT_LETTERS = re.compile(r"[\W\d_]+")


def text_findings(rows: Rows) -> list[Finding]:
    """Return warnings on the texts, in the order in which to read them."""
    seconds = rows.pairs or [""] * len(rows.texts)
    keys = [folded(*pair) for pair in zip(rows.texts, seconds, strict=True)]
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    found = [] if rows.are_named else _leaks(rows)
    most = max(groups.values(), key=len)
    if len(most) > _ONE_TEXT * len(keys) and len(keys) > 2:
        says = (
            f"{len(most):,} of {len(keys):,} rows have the same {rows.thing}, "
            f"'{short(rows.texts[most[0]])}'; nothing can be learned from it."
        )
        found.append(rows.found("constant", says, most))
    twins = [group for group in groups.values() if len(group) > 1]
    near = [] if rows.are_named else _near(keys, rows)
    return found + _repeated(twins, rows) + _across(twins, rows) + near


def _repeated(twins: Sequence[Sequence[int]], rows: Rows) -> list[Finding]:
    again = sorted(row for group in twins for row in group[1:])
    if not again:
        return []
    found = [
        rows.found(
            "duplicates",
            f"{count(len(again), 'row repeats', 'rows repeat')} the {rows.thing} of an earlier "
            f"row: {rows.where(again)}. Repeated {rows.thing}s stay on one side of each split.",
            again,
        )
    ]
    said = rows.numbers or rows.sets
    torn = [group for group in twins if len({said[row] for row in group}) > 1]
    if torn:
        places = sorted(row for group in torn for row in group)
        what = "numbers" if rows.numbers else "labels"
        says = (
            f"{count(len(torn), f'{rows.thing} has', f'{rows.thing}s have')} different {what} "
            f"in different rows: {rows.where(places)}. Decide for one."
        )
        found.append(rows.found("conflict", says, places))
    return found


def _across(twins: Sequence[Sequence[int]], rows: Rows) -> list[Finding]:
    """Return texts of the training rows that come again in the rows for scoring."""
    if not rows.parts:
        return []
    leaked = []
    for group in twins:
        scored = [row for row in group if rows.parts[row] != "train"]
        if scored and len(scored) < len(group):
            leaked += scored
    half = shared(rows.texts, rows.pairs, rows.parts) if rows.pairs else []
    found = []
    if len(half) > len(leaked):
        scored = sum(part != "train" for part in rows.parts)
        says = (
            f"{_percent(len(half), scored)} of the rows for validation or testing share one of "
            f"their texts with a training row: {rows.where(half)}. Scores may be too good for "
            "texts that are new."
        )
        found.append(rows.found("shared_texts", says, half))
    if not leaked:
        return found
    leaked.sort()
    says = (
        f"{count(len(leaked), rows.thing)} for validation or testing also among the training rows: "
        f"{rows.where(leaked)}. Remove them, or scores are too good."
    )
    return [rows.found("split_overlap", says, leaked), *found]


def _near(keys: Sequence[str], rows: Rows) -> list[Finding]:
    """Return texts that differ from another only in digits, signs and spaces."""
    groups: dict[str, set[str]] = defaultdict(set)
    bare = [_NOT_LETTERS.sub(" ", key).strip() for key in keys]
    for key, letters in zip(keys, bare, strict=True):
        if letters:
            groups[letters].add(key)
    near = [row for row, letters in enumerate(bare) if len(groups.get(letters, ())) > 1]
    if len(near) <= _NEAR * len(keys):
        return []
    says = (
        f"{100 * len(near) / len(keys):.0f} % of the rows differ from another only in digits or "
        f"signs: {rows.where(near)}. Near-duplicates on both sides of a split make scores too good."
    )
    return [rows.found("near_duplicates", says, near)]


def _leaks(rows: Rows) -> list[Finding]:
    """Return labels that stand in the texts they are to be found from."""
    if rows.numbers:
        return []
    texts = [normalize_text(text).casefold() for text in rows.texts]
    for row, pair in enumerate(rows.pairs):
        texts[row] += "\n" + normalize_text(pair).casefold()
    sets = [tuple(label.casefold() for label in labels) for labels in rows.sets]
    same = [row for row, text in enumerate(texts) if text in sets[row]]
    if len(same) > _LEAK * len(texts):
        says = f"The text equals the label in {_percent(len(same), len(texts))} of the rows."
        hint = "Choose other columns, or nothing is learned."
        return [rows.found("label_is_text", f"{says} {hint}", same)]
    inside = _inside(texts, sets)
    if len(inside) <= _LEAK * len(texts):
        return []
    says = (
        f"The label stands in the text in {_percent(len(inside), len(texts))} of the rows: "
        f"{rows.where(inside)}. Remove it from the texts."
    )
    return [rows.found("label_in_text", says, inside)]


def _inside(texts: Sequence[str], sets: Sequence[tuple[str, ...]]) -> list[int]:
    """Return rows whose text holds all their labels, if other rows hold these words less often."""
    of_class: dict[str, list[int]] = defaultdict(list)
    for row, labels in enumerate(sets):
        for label in labels:
            of_class[label].append(row)
    held: Counter[int] = Counter()
    for label, own in of_class.items():
        holds = re.compile(rf"(?<!\w){re.escape(label)}(?!\w)").search
        having = [row for row in own if label in texts[row] and holds(texts[row])]
        if len(having) <= _LEAK * len(own):
            continue
        others = list(islice((row for row, each in enumerate(sets) if label not in each), _OTHERS))
        common = sum(holds(texts[row]) is not None for row in others) / max(len(others), 1)
        if len(having) / len(own) - common > _CONTRAST:
            held.update(having)
    return sorted(row for row, labels in held.items() if labels == len(set(sets[row])))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def majority_share(corpus: Corpus) -> tuple[str, float]:
    """Return the most frequent class and its share of the rows; "", 0 if a row may have several."""
    if not corpus.problem.is_exclusive:
        return "", 0.0
    ((label,), rows), *_ = Counter(corpus.targets).most_common(1)
    return corpus.classes[label], rows / len(corpus)


# --- What is wrong or suspicious about a column of labels.

_FEW_ROWS = 5
SKEWED = 0.7  # of the rows in one class, from which on accuracy says little of the others
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


def count_labels(rows: Rows) -> Counter[str]:
    """Return how many rows have each label, in the order in which the labels come."""
    return Counter(label for labels in rows.sets for label in labels)


def shorten(rows: Rows, name: str) -> list[Finding]:
    """Cut labels that are too long; raise DataError if two of them are the same when cut."""
    most = current_limits().label_characters
    short_of = {label: label[:most].rstrip() for label in count_labels(rows)}
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


def check_labels(rows: Rows, name: str, *, many: bool) -> None:
    """Raise DataError or LimitError for what cannot be classes: one, too many, or real numbers."""
    limits = current_limits()
    counts = count_labels(rows)
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
    """Raise DataError for fewer than ten numbers, or numbers that are all the same."""
    if len(numbers) < _FEWEST_NUMBERS:
        what = f"{name} has {count(len(numbers), 'row')} with a number; at least 10 are needed."
        raise DataError(what, "Add rows, or choose the column that holds the labels.")
    if len(set(numbers)) == 1:
        what = f"All numbers of {name} are {numbers[0]:g}; nothing can be learned from them."
        raise DataError(what, "Add rows with other numbers, or choose another column.")


def one_spelling(rows: Rows) -> list[Finding]:
    """Make 1 and 1.0 one label, where both are there."""
    counts = count_labels(rows)
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
        f"{quoted(plain[one], 4)} are one number and were taken for one label, '{one}' "
        f"({rows.where(odd)})."
    )
    return [rows.found("one_spelling", says, odd)]


def label_findings(rows: Rows, *, many: bool) -> list[Finding]:
    """Return warnings on the labels, in the order in which to read them."""
    counts = count_labels(rows)
    first: dict[str, int] = {}
    for row, labels in enumerate(rows.sets):
        for label in labels:
            first.setdefault(label, row)
    by_kind: list[tuple[str, str, list[str]]] = []
    for group in _alike(counts, str.casefold):
        says = f"The labels {quoted(group, 4)} differ only by case"
        by_kind.append(("case", says, group))
    for twins in _alike({label.casefold() for label in counts}, _skeleton):
        group = sorted(label for label in counts if label.casefold() in twins)
        says = f"The labels {quoted(group, 4)} look alike but are spelled with different letters"
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
    """Return a label without accents, in Latin letters where they look the same."""
    parts = unicodedata.normalize("NFKD", label)
    seen = "".join(each for each in parts if unicodedata.category(each) not in ("Mn", "Cf"))
    return seen.translate(_TWINS).casefold()


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
    """Return a warning of labels that may measure something, such as percentages or prices."""
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
            f"{quoted(small, 4)}. Too few to learn or to score; add rows or leave them out."
        )
        found.append(rows.found("tiny", says, [first[label] for label in small]))
    label, most = counts.most_common(1)[0]
    if most >= SKEWED * total:
        does = "applies to" if many else "makes up"
        advice = "compare macro-F1, not micro-F1" if many else "accuracy says little of the others"
        says = (
            f"'{short(label)}' {does} {100 * most / total:.1f} % of the rows "
            f"({most:,} of {total:,}); {advice}."
        )
        found.append(rows.found("imbalance", says))
    return found


# --- What the labels of a table were taken for, in a few words and as warnings.


def describe_labels(corpus: Corpus, columns: Columns) -> str:
    """Return what the labels are, such as "48 labels, 2.3 a row, separated by '|'"."""
    if not corpus.problem.has_classes:
        return f"numbers from {min(corpus.numbers):.6g} to {max(corpus.numbers):.6g}"
    if corpus.problem.is_exclusive:
        return count(len(corpus.classes), "class", "classes") + ", in order" * corpus.ordered
    each = sum(map(len, corpus.targets)) / len(corpus)
    how = f"separated by '{columns.separator}'" if columns.separator else "a 0/1 column each"
    how = "in lists" if columns.separator == LISTS else how
    return f"{count(len(corpus.classes), 'label')}, {each:.1f} a row, {how}"


def kind_findings(rows: Rows, corpus: Corpus, columns: Columns, *, guessed: bool) -> list[Finding]:
    """Return what was guessed of the labels and how to change it; then what does not fit."""
    found = []
    if guessed and not corpus.problem.is_exclusive:
        found.append(_guessed(rows, corpus, columns))
    if columns.separator not in ("", LISTS) and all(len(labels) < 2 for labels in rows.sets):
        says = f"No cell holds '{columns.separator}', so no row has several labels."
        other = find_separator(label for labels in rows.sets for label in labels)
        hint = f" '{other}' seems to stand between them." if other else ""
        found.append(finding("separator", says + hint))
    never = [name for name in columns.labels if name not in corpus.classes]
    if never:
        says = f"No row has {quoted(never)}: left out, since nothing can be learned of it."
        found.append(finding("never", says))
    return found


def _guessed(rows: Rows, corpus: Corpus, columns: Columns) -> Finding:
    if not corpus.problem.has_classes:
        different = len(set(corpus.numbers))
        every = "every row has its own number"
        so = every if different == len(corpus) else f"{different:,} different numbers"
        says = (
            f"The labels are real numbers ({so}), so the number itself is predicted. If classes "
            "are meant, turn the numbers into a few, such as low and high."
        )
        return finding("numbers", says)
    without = [row for row, labels in enumerate(rows.sets) if not labels]
    none = f" {count(len(without), 'row has', 'rows have')} none." if without else ""
    if columns.labels:
        says = (
            f"The columns {quoted(columns.labels)} are labels, with 1 where a row has them."
            f"{none} If they are something else, choose the label column."
        )
        return rows.found("columns", says, without)
    held = sum(len(labels) > 1 for labels in rows.sets)
    how = "as a list" if columns.separator == LISTS else f"separated by '{columns.separator}'"
    says = (
        f"{count(held, 'row holds', 'rows hold')} several labels, {how}.{none} "
        "If each cell is one class, choose one label a row."
    )
    return rows.found("separator", says, without)


def group_findings(rows: Rows, corpus: Corpus, columns: Columns) -> list[Finding]:
    """Return what holds rows together that no split parts, where one should know of it."""
    found = []
    if columns.group:
        sizes = Counter(group for group in corpus.groups if group)
        most, held = sizes.most_common(1)[0] if sizes else ("", 0)
        without = [row for row, group in enumerate(rows.groups) if not group]
        groups = count(len(sizes), "group")
        says = f"'{short(columns.group)}' makes {groups}, each on one side of every split"
        if without:
            have = count(len(without), "row has none and is", "rows have none and are")
            says += f"; {have} held together with others by equal texts only"
        if held > LARGEST * len(corpus):
            says += (
                f"; '{short(most)}' alone has {100 * held / len(corpus):.0f} % of the rows, "
                "which all stand on one side"
            )
        found.append(rows.found("groups", f"{says}.", without))
    # Where the data say what is scored, nothing is drawn.
    if "test" not in corpus.parts and (says := groups_of(corpus).says):
        found.append(finding("chained", says))
    return found


def spread_of(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the least number, the quartiles and the greatest; nothing where there are none.

    >>> spread_of([3.0, 1.0, 2.0, 5.0, 4.0])
    (1.0, 2.0, 3.0, 4.0, 5.0)
    """
    if not numbers:
        return ()
    quartiles = quantiles(numbers, n=4, method="inclusive")
    return tuple(round(number, 9) for number in (min(numbers), *quartiles, max(numbers)))


def vector_findings(table: Table, columns: Columns, corpus: Corpus) -> list[Finding]:
    """Return what was taken where a file holds vectors, and texts as well."""
    if corpus.vectors is None:
        others = [name for name in table.vectors if name not in columns.used]
        if not others:
            return []
        says = f"The texts of '{short(columns.text)}' are learned from, not the vectors of "
        says += (
            f"'{short(others[0])}'; choose these if they are meant (--vectors {short(others[0])})."
        )
        return [finding("vectors", says)]
    says = f"Learned from: vectors of {count(corpus.vectors.width, 'number')}, as they are."
    if not corpus.are_named:
        says += f" The texts of '{short(columns.text)}' only name the rows, and words are counted "
        says += "in them."
    return [finding("vectors", says)]
