"""What the labels of a table were taken for, in a few words and as warnings."""

from collections import Counter
from collections.abc import Sequence

from heads.pipeline.corpus import Corpus, groups_of
from heads.pipeline.groups import LARGEST
from heads.pipeline.table.cells import LISTS
from heads.pipeline.table.kinds import find_separator
from heads.pipeline.table.rows import Rows
from heads.pipeline.table.sheet import Columns, Finding, count, finding, short


def told(corpus: Corpus, columns: Columns) -> str:
    """What the labels are, in a few words.

    Returns:
        For example "6 classes", "48 labels, 2.3 a row, parted by '|'" or "numbers from 0 to 5".
    """
    if corpus.kind == "number":
        return f"numbers from {min(corpus.numbers):.6g} to {max(corpus.numbers):.6g}"
    if corpus.kind == "one":
        return count(len(corpus.classes), "class", "classes") + ", in order" * corpus.ordered
    each = sum(map(len, corpus.targets)) / len(corpus)
    how = f"parted by '{columns.separator}'" if columns.separator else "a 0/1 column each"
    how = "in lists" if columns.separator == LISTS else how
    return f"{count(len(corpus.classes), 'label')}, {each:.1f} a row, {how}"


def kind_findings(rows: Rows, corpus: Corpus, columns: Columns, *, guessed: bool) -> list[Finding]:
    """What was guessed of the labels and how to change it; then what does not fit."""
    found = []
    if guessed and corpus.kind != "one":
        found.append(_guessed(rows, corpus, columns))
    if columns.separator not in ("", LISTS) and all(len(labels) < 2 for labels in rows.sets):
        says = f"No cell holds '{columns.separator}', so no row has several labels."
        other = find_separator(label for labels in rows.sets for label in labels)
        hint = f" '{other}' seems to stand between them." if other else ""
        found.append(finding("separator", says + hint))
    never = [name for name in columns.labels if name not in corpus.classes]
    if never:
        says = f"No row has {_some(never)}: left out, since nothing can be learned of it."
        found.append(finding("never", says))
    return found


def _guessed(rows: Rows, corpus: Corpus, columns: Columns) -> Finding:
    if corpus.kind == "number":
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
            f"The columns {_some(columns.labels)} are labels, with 1 where a row has them."
            f"{none} If they are something else, choose the label column."
        )
        return rows.found("columns", says, without)
    held = sum(len(labels) > 1 for labels in rows.sets)
    how = "as a list" if columns.separator == LISTS else f"parted by '{columns.separator}'"
    says = (
        f"{count(held, 'row holds', 'rows hold')} several labels, {how}.{none} "
        "If each cell is one class, choose one label a row."
    )
    return rows.found("separator", says, without)


def group_findings(rows: Rows, corpus: Corpus, columns: Columns) -> list[Finding]:
    """What holds rows together that no split parts, where one should know of it."""
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


def _some(names: Sequence[str]) -> str:
    shown = [f"'{short(name)}'" for name in names[:3]]
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def rows_of_classes(rows: Rows, corpus: Corpus) -> dict[str, int]:
    """How many rows have each class, in the order of the classes; nothing for numbers."""
    counts = Counter(label for labels in rows.sets for label in labels)
    return {} if corpus.numbers else {name: counts[name] for name in corpus.classes}


def spread_of(numbers: Sequence[float]) -> tuple[float, ...]:
    """The least number, the quartiles and the greatest; nothing where there are none.

    >>> spread_of([3.0, 1.0, 2.0, 5.0, 4.0])
    (1.0, 2.0, 3.0, 4.0, 5.0)
    """
    if not numbers:
        return ()
    ranked, last = sorted(numbers), len(numbers) - 1
    found = []
    for quarter in range(5):
        at, over = divmod(quarter * last, 4)
        above = ranked[min(at + 1, last)]
        found.append(round(ranked[at] + (above - ranked[at]) * over / 4, 9))
    return tuple(found)
