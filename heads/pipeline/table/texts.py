"""What in the texts would spoil a comparison: repetitions, leaks, texts that say nothing."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice

from heads.pipeline.groups import shared
from heads.pipeline.letters import folded
from heads.pipeline.table.rows import Rows
from heads.pipeline.table.sheet import Finding, count, short

_NEAR = 0.02
_LEAK = 0.5
_CONTRAST = 0.4
_ONE_TEXT = 0.5
_OTHERS = 2_000
_NOT_LETTERS = re.compile(r"[\W\d_]+")


def text_findings(rows: Rows) -> list[Finding]:
    """Warnings on the texts, in the order in which to read them."""
    seconds = rows.pairs or [""] * len(rows.texts)
    keys = [folded(*pair) for pair in zip(rows.texts, seconds, strict=True)]
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    found = _leaks(rows)
    most = max(groups.values(), key=len)
    if len(most) > _ONE_TEXT * len(keys) and len(keys) > 2:
        says = (
            f"{len(most):,} of {len(keys):,} rows have the same text, "
            f"'{short(rows.texts[most[0]])}'; nothing can be learned from it."
        )
        found.append(rows.found("constant", says, most))
    twins = [group for group in groups.values() if len(group) > 1]
    return found + _repeated(twins, rows) + _across(twins, rows) + _near(keys, rows)


def _repeated(twins: Sequence[Sequence[int]], rows: Rows) -> list[Finding]:
    again = sorted(row for group in twins for row in group[1:])
    if not again:
        return []
    found = [
        rows.found(
            "duplicates",
            f"{count(len(again), 'row repeats', 'rows repeat')} the text of an earlier row: "
            f"{rows.where(again)}. Repeated texts stay on one side of each split.",
            again,
        )
    ]
    said = rows.numbers or rows.sets
    torn = [group for group in twins if len({said[row] for row in group}) > 1]
    if torn:
        places = sorted(row for group in torn for row in group)
        what = "numbers" if rows.numbers else "labels"
        says = (
            f"{count(len(torn), 'text has', 'texts have')} different {what} in different rows: "
            f"{rows.where(places)}. Decide for one."
        )
        found.append(rows.found("conflict", says, places))
    return found


def _across(twins: Sequence[Sequence[int]], rows: Rows) -> list[Finding]:
    """Texts of the training rows that come again in the rows for scoring."""
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
        f"{count(len(leaked), 'text')} for validation or testing also among the training rows: "
        f"{rows.where(leaked)}. Remove them, or scores are too good."
    )
    return [rows.found("split_overlap", says, leaked), *found]


def _near(keys: Sequence[str], rows: Rows) -> list[Finding]:
    """Texts that differ from another only in digits, signs and spaces."""
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
    """Labels that stand in the texts they are to be found from."""
    if rows.numbers:
        return []
    texts = [text.casefold() for text in rows.texts]
    for row, pair in enumerate(rows.pairs):
        texts[row] += "\n" + pair.casefold()
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
    """Rows whose text holds all their labels, where that is more than the words' being common."""
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
