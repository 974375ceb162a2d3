"""The result section that this extra adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heads.interfaces.views.sections import ResultSection, SectionAnswer, SectionSubject

if TYPE_CHECKING:
    from heads.interfaces.views.figures import Chart

HERE = "heads.extras.maps.sections"
SECTIONS = (
    ResultSection(
        name="map",
        question="Which rows lie near each other?",
        answer=f"{HERE}:describe_map",
        charts=f"{HERE}:draw_map",
        applies="heads.extras.maps.row_map:can_be_drawn",
        after="numbers",
    ),
)


def describe_map(subject: SectionSubject) -> SectionAnswer:
    """Say how another map is drawn; the map itself takes too long for a short answer."""
    command = f"heads map {subject.board.run} --method tsne --to map.html"
    return SectionAnswer(sentences=(f"t-SNE keeps more neighbours: {command}",))


def draw_map(subject: SectionSubject) -> list[Chart]:
    """Draw the map of principal components; t-SNE would take minutes."""
    from heads.extras.maps import chart
    from heads.extras.maps.row_map import readings_of
    from heads.extras.maps.verbs import row_map

    return [chart.draw_map(row_map(subject.board, readings_of(subject.board, subject.head)))]
