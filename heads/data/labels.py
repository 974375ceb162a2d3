"""What the cells of a label column say: one label, several, a number, or yes and no."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from heads.data.numbers import Notation, notation_of
from heads.data.table import LISTS, Columns, Table, clean_label, members, short, unguard_cell
from heads.errors import DataError

SEPARATORS = "|;,"
FLAGS = {
    "0": False, "1": True, "0.0": False, "1.0": True,
    "false": False, "true": True, "no": False, "yes": True,
}  # fmt: skip
_SPELLINGS = (("0", "1"), ("0.0", "1.0"), ("false", "true"), ("no", "yes"))
_MOST_CELLS = 20_000
_JOINED = 3  # different cells with several labels each
_AGAIN = 0.75  # of the labels in these, the share that stands in other cells too
_FEW_NUMBERS = 20
_ODD = 0.02  # of the cells of a 0/1 column
_NEARLY_ALL = 0.95


def cells_of(table: Table, name: str) -> Counter[str]:
    """Return the cells of a column as labels, each with its number of rows, but the empty ones."""
    at = table.columns.index(name)
    raw = Counter(row[at] for row in table.rows)
    counts: Counter[str] = Counter()
    for cell, rows in raw.items():
        counts[clean_label(unguard_cell(cell) if table.spelled else cell)] += rows
    del counts[""]
    return counts


def numbers_of(counts: Counter[str]) -> tuple[Notation, dict[str, float]]:
    """Return how the numbers among cells are written, and the number in each that holds one."""
    notation = notation_of(counts)
    values = ((cell, notation.value(cell)) for cell in counts)
    return notation, {cell: value for cell, value in values if value is not None}


def is_measured(counts: Counter[str]) -> bool:
    """Return True if the cells measure something, such as 0.844422, rather than name classes.

    >>> is_measured(Counter({"4.5": 9, "3.0": 9})), is_measured(Counter({"0,31": 1, "0,7": 1}))
    (False, True)
    """
    _, numbers = numbers_of(counts)
    rows = counts.total()
    return (
        sum(counts[cell] for cell in numbers) >= _NEARLY_ALL * rows
        and any(value != int(value) for value in numbers.values())
        and (len(numbers) > _FEW_NUMBERS or len(numbers) * 2 > rows)
    )


def are_lists(counts: Counter[str]) -> bool:
    """Return True if the cells are lists of labels."""
    return bool(counts) and all(members(cell) is not None for cell in counts)


def are_vectors(counts: Counter[str]) -> bool:
    """Return True if the cells are lists of 0 and 1 of one length: a place for each label.

    >>> are_vectors(Counter(["[0, 1]", "[1 1]"])), are_vectors(Counter(["[0]", "[1]"]))
    (True, False)
    """
    lists = [members(cell) or [] for cell in counts]
    lengths = set(map(len, lists))
    is_flags = all(FLAGS.get(member) is not None for one in lists for member in one)
    return is_flags and len(lengths) == 1 and min(lengths) > 1


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell, each once and in the order of the alphabet.

    >>> split_labels("new| pin |new|", "|"), split_labels("", "|"), split_labels('["b", "a"]', "[]")
    (('new', 'pin'), (), ('a', 'b'))
    """
    if separator == LISTS:
        found = members(cell)
        return tuple(sorted({*map(clean_label, [cell] if found is None else found)} - {""}))
    return tuple(sorted({part.strip() for part in cell.split(separator)} - {""}))


def find_separator(cells: Iterable[str]) -> str:
    """Return the sign that surely stands between labels, or "".

    >>> find_separator(["a", "b", "c", "a|b", "a|c", "b|c"])
    '|'
    >>> find_separator(["card payment, fee", "card payment, lost", "transfer, fee", "top up"])
    ''
    """
    some = [cell for cell in islice(cells, _MOST_CELLS) if cell]
    return next((sign for sign in SEPARATORS if _is_parted(some, sign)), "")


def _is_parted(cells: Sequence[str], sign: str) -> bool:
    """Return True if few labels make many cells, and no label keeps to one place in them."""
    sets = [[part.strip() for part in cell.split(sign) if part.strip()] for cell in cells]
    joined = [labels for labels in sets if len(labels) > 1]
    cells_with = Counter(label for labels in sets for label in set(labels))
    if len(joined) < _JOINED or len(cells_with) >= len(cells) or _are_numerals(joined, sign):
        return False
    again = [cells_with[label] > 1 for labels in joined for label in labels]
    if sum(again) < _AGAIN * len(again):
        return False
    first = {labels[0] for labels in sets if labels}
    later = {label for labels in joined for label in labels[1:]}
    # "Books, new" and "Toys, used" are classes: their parts keep to their places.
    moving = len(first & later)
    if sign == ",":  # which stands in names too
        return moving > 1
    return moving > 0 or len(set(map(len, sets))) > 1


def _are_numerals(joined: Sequence[Sequence[str]], sign: str) -> bool:
    """Return True if a comma stands in numbers: 3,5 or 1,000,000."""
    if sign != "," or not all(part.isdigit() for labels in joined for part in labels):
        return False
    halves = all(len(labels) == 2 for labels in joined)
    return halves or all(len(part) == 3 for labels in joined for part in labels[1:])


def flag_columns(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold nothing but 0 and 1, or yes and no, all spelled alike.

    Those of the commonest spelling; a column that never says 0 is none, and at least two must
    say both. A cell in fifty may be odd, so that a slip is named where the column is read
    instead of hiding the column.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    both: Counter[tuple[str, str]] = Counter()
    for name in names:
        spelling, says_both = _flags(table, name)
        if spelling:
            groups.setdefault(spelling, []).append(name)
            both[spelling] += says_both
    if not both:
        return ()
    most, count = both.most_common(1)[0]
    return tuple(groups[most]) if count > 1 else ()


def _flags(table: Table, name: str) -> tuple[tuple[str, str] | None, bool]:
    """Return how a column spells no and yes, and whether it says both; None where it says more."""
    at, odd, said = table.columns.index(name), 0, set[str]()
    for row in table.rows:
        cell = row[at].strip().casefold()
        spelled = FLAGS.get(cell) is not None
        odd += not spelled
        if odd > _ODD * len(table.rows) + 1:
            return None, False
        if spelled:
            said.add(cell)
    spelling = next((each for each in _SPELLINGS if each[0] in said and said <= set(each)), None)
    is_clear = odd * 4 < len(table.rows)
    return (spelling, len(said) > 1) if is_clear else (None, False)


# --- The label cells of a row to its labels, or to its number.

NO_LABEL, NO_NUMBER = "no label", "no number"
# What a row and its line say: its labels, its number, or why it cannot be used.
Marks = Callable[[Sequence[str], int], tuple[str, ...] | float | str]


def label_cells(table: Table, columns: Columns) -> Marks:
    """Return a reader of a row's labels; it raises DataError for a bad cell of a 0/1 column."""
    if columns.labels:
        return _of_flags(table, columns.labels)
    at = table.columns.index(columns.label)
    notation = notation_of(cells_of(table, columns.label)) if columns.number else None
    known: dict[str, tuple[str, ...] | float | str] = {}

    def read(row: Sequence[str], _line: int) -> tuple[str, ...] | float | str:
        raw = row[at]
        if raw not in known:
            cell = clean_label(unguard_cell(raw) if table.spelled else raw)
            if notation:
                value = notation.value(cell)
                known[raw] = NO_NUMBER if value is None else value
            elif columns.separator:
                known[raw] = split_labels(cell, columns.separator)
            else:
                known[raw] = (cell,) if cell else NO_LABEL
        return known[raw]

    return read


def _of_flags(table: Table, names: Sequence[str]) -> Marks:
    places = [(table.columns.index(name), clean_label(name) or name) for name in names]

    def read(row: Sequence[str], line: int) -> tuple[str, ...]:
        found = []
        for at, name in places:
            cell = row[at].strip().casefold()
            if cell not in FLAGS:
                said = f"says '{short(row[at])}'" if cell else "is empty"
                what = f"The label column '{short(name)}' {said} on {table.unit} {line} of "
                hint = "Write 0 or 1, or choose other columns."
                raise DataError(f"{what}{table.name}.", hint, line=line, column=name)
            if FLAGS[cell]:
                found.append(name)
        return tuple(sorted(found))

    return read
