"""The result section that this extra adds, and the files that the page offers below it."""

from __future__ import annotations

from functools import partial
from typing import Any

from heads.interfaces.views.sections import (
    ResultSection,
    SectionAnswer,
    SectionFile,
    SectionSubject,
)

HERE = "heads.extras.labels.sections"
SECTIONS = (
    ResultSection(
        name="labels",
        question="Which labels may be wrong?",
        answer=f"{HERE}:find_labels",
        applies="heads.extras.labels.doubtful_labels:has_probabilities",
        downloads=(
            SectionFile(label="Save these as CSV", filename="labels-to-look-at.csv",
                     rows=f"{HERE}:export_doubtful"),
            SectionFile(label="Save all rows, these marked", filename="all-rows.csv",
                     rows=f"{HERE}:export_all"),
        ),
        after="mistakes",
    ),
)  # fmt: skip


def find_labels(subject: SectionSubject) -> SectionAnswer:
    """List the labels that may be wrong."""
    from heads.extras.labels import doubtful_labels as labels

    doubtful = labels.doubtful_labels(subject.board.folder)
    number, tested = len(doubtful.places), len(doubtful.tested)
    return SectionAnswer(
        phrase=f"{number:,} of {tested:,} to look at" if number else "none stands out",
        sentences=(doubtful.says, *doubtful.notes),
        tables=(doubtful.table(labels.MOST_SHOWN),) if number else (),
    )


def export_doubtful(
    subject: SectionSubject, *, whole: bool = False
) -> tuple[list[str], list[list[Any]]]:
    """Return the doubtful rows for a spreadsheet, or the whole file with these marked."""
    from heads.extras.labels import doubtful_labels as labels

    return labels.doubtful_labels(subject.board.folder).sheet(whole=whole)


export_all = partial(export_doubtful, whole=True)
