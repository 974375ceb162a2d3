"""What became of a file that a head answered, and how well it did, as the page shows it."""

from collections.abc import Sequence

from markupsafe import Markup

from heads.display import Table
from heads.evaluation.metrics import SCORES
from heads.inference.evaluate import FileScores
from heads.inference.predict import FileAnswers
from heads.interfaces.views.format import (
    accuracy,
    commonest,
    counted,
    noun_of,
    percent,
    percent_or_blank,
)
from heads.interfaces.views.head_details import tabulate_labels
from heads.interfaces.views.html import render

ROWS, LETTERS = 5, 120  # rows that are shown, and letters of a cell


def answered(found: FileAnswers, scores: FileScores | None, why_not: str = "") -> Markup:
    """Show the account of every row, the first rows, and the score or why there is none."""
    says = (
        f"{found.file}: {found.answered:,} of {counted(found.rows, 'row')} answered by {found.head}"
    )
    texts = f"“{found.vectors or found.text}”" + (f" and “{found.pair}”" if found.pair else "")
    if found.abstained:
        says += f", {found.abstained:,} abstained from"
    says += f", in {found.seconds:.1f} s; {'vectors' if found.vectors else 'texts'}: {texts}."
    names, rows = _shown(found)
    return render(
        "answered.html",
        says=says,
        told=found.told,
        counts=commonest(found.counts, ROWS),
        names=names,
        rows=rows,
        score=_score(scores) if scores else why_not,
        remarks=_remarks(found, scores) if scores else (),
        classes=tabulate_classes(scores) if scores else None,
    )


def held_out(scores: FileScores) -> list[str]:
    """What the head scored in its training, on rows that it had not learned from."""
    own = scores.held_out
    if own is None:
        return []
    return [f"In its training, on held-out rows: {noun_of(own.metric)} {accuracy(own)}."]


def _shown(found: FileAnswers) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    names, *rows = found.first
    ours = range(len(names) - len(found.columns), len(names))
    known = {name for name in (found.text, found.pair) if name}
    texts = [at for at, name in enumerate(names) if name.strip() in known]
    places, numbers = [*texts[:2], *ours], ours[1:]  # the answer itself stays as it is written
    return [names[at] for at in places], [
        [_rounded(row[at]) if at in numbers else row[at][:LETTERS] for at in places]
        for row in rows[:ROWS]
    ]


def _rounded(cell: str) -> str:
    try:
        return f"{float(cell):.3f}"
    except ValueError:
        return cell[:LETTERS]


def _score(scores: FileScores) -> str:
    own, name = scores.measures, SCORES[scores.measures.metric]
    ends = name.between(own.low, own.high)
    return (
        f"With the labels in “{scores.label}” it {name.reached(own.score)} ({ends}, 95 %), "
        f"on {counted(own.rows, 'row')}."
    )


def _remarks(found: FileAnswers, scores: FileScores) -> list[str]:
    """What flatters or spoils the score; what was said of the rows is not said again."""
    known = set(found.notes)
    said = [one for one in scores.told if one not in known and "no text" not in one]
    if scores.commonest is not None:
        said.insert(0, f"The commonest label is that of {percent(scores.commonest)} of these rows.")
    return [*held_out(scores), *said]


def tabulate_classes(scores: FileScores) -> Table:
    """Return a row a class, or a row a label where a row may have any number of them."""
    if labels := scores.measures.labels:
        return tabulate_labels(labels)
    rows = [
        (one.name, f"{one.rows:,}", f"{one.answered:,}",
         *map(percent_or_blank, (one.precision, one.recall, one.f1)))
        for one in scores.by_class
    ]  # fmt: skip
    headers = ("Class", "Rows", "Answered", "Precision", "Recall", "F1")
    return Table(headers=headers, rows=tuple(rows))
