"""Result sections: what one asks of a leaderboard, found by name by page, report, shell and JSON.

A section names its functions as ``module:function`` (see `heads.plugins`), so that the page can be
built before torch is loaded. Extras add their own by `Extra.result_sections`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heads import plugins
from heads.display import Table
from heads.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from heads.interfaces.views.figures import Chart
    from heads.runs.folder import RunFolder
    from heads.runs.leaderboard import Leaderboard


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSubject:
    """What a section is about.

    Attributes:
        head: The recipe that is looked at; "" while no head is done.
        runs: Other runs that may be shown beside it.
    """

    board: Leaderboard
    head: str
    runs: Sequence[RunFolder] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionAnswer:
    """The answer of a section as data.

    Attributes:
        phrase: The answer in a few words; "" if there is none.
        sentences: What one should know of it.
        tables: The numbers behind it.
    """

    phrase: str = ""
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        tables = [table.as_json() for table in self.tables]
        return {"phrase": self.phrase, "sentences": self.sentences, "tables": tables}


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFile:
    """A file that the page offers below a section.

    Attributes:
        label: The words on the button.
        filename: The name of the CSV file.
        rows: Reference of a function that takes the subject and returns headers and rows.
    """

    label: str
    filename: str
    rows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSection:
    """One question about a leaderboard.

    Attributes:
        question: The question, as a user asks it.
        answer: Reference of a function that takes a `SectionSubject` and returns a
            `SectionAnswer`. It is called whenever a leaderboard is shown, so it must be quick.
        charts: Reference of a function that takes a `SectionSubject` and returns at most two
            `heads.interfaces.views.figures.Chart`. It is called when the section is opened.
        applies: Reference of a function that takes a `Leaderboard` and returns whether it has an
            answer; all have, if it is "".
        downloads: Files that the page offers.
        after: The name of the section that it follows; it comes last, if that is not there.
    """

    name: str
    question: str
    answer: str
    charts: str = ""
    applies: str = ""
    downloads: tuple[SectionFile, ...] = ()
    after: str = ""

    def has_answer(self, board: Leaderboard) -> bool:
        """Return whether the leaderboard has an answer to the question."""
        return not self.applies or bool(self._call(self.applies, board, default=False))

    def find_answer(self, subject: SectionSubject) -> SectionAnswer:
        """Return the answer without what takes long."""
        return self._call(self.answer, subject, default=SectionAnswer(sentences=(FAILED,)))

    def draw_charts(self, subject: SectionSubject) -> list[Chart]:
        """Return the charts."""
        charts = self._call(self.charts, subject, default=[]) if self.charts else []
        return list(charts)[:MOST_CHARTS]

    def _call(self, reference: str, subject: Any, *, default: Any) -> Any:
        """Call a function of the section; what fails in an extra takes no leaderboard away."""
        try:
            return plugins.load(reference)(subject)
        except Exception as error:
            if self in CORE_SECTIONS:
                raise
            reason = plugins.locate_error(error)
            plugins.log_once(f"The section '{self.name}' of an extra failed ({reason}).")
            return default

    def open_answer(self, subject: SectionSubject) -> SectionAnswer:
        """Return the whole answer; the numbers of its charts are its tables if it has no others."""
        answer = self.find_answer(subject)
        if answer.tables:
            return answer
        charts = self.draw_charts(subject)
        tables = [
            replace(chart.numbers, title=chart.says, note=chart.note)
            for chart in charts
            if chart.rows
        ]
        sentences = [chart.says for chart in charts if chart.says and not chart.rows]
        return replace(answer, sentences=(*answer.sentences, *sentences), tables=tuple(tables))


FAILED = "This section failed; the log says why."
MOST_CHARTS = 2
QUESTIONS = "heads.interfaces.views.questions:"


def _question(
    name: str, question: str, answer: str, *, charts: str = "", applies: str = "", rows: str = ""
) -> ResultSection:
    """Return a section of the core, whose functions are in `questions`."""
    save = SectionFile(label="Save as CSV", filename="leaderboard.csv", rows=QUESTIONS + rows)
    return ResultSection(
        name=name,
        question=question,
        answer=QUESTIONS + answer,
        charts=charts and QUESTIONS + charts,
        applies=applies and QUESTIONS + applies,
        downloads=(save,) if rows else (),
    )


CORE_SECTIONS = (
    _question("tuning", "Is fine-tuning worth it?", "compare_tunings",
              charts="draw_tunings", applies="has_tunings"),
    _question("rows", "Would more rows help?", "judge_learning_curve",
              charts="draw_learning_curve"),
    _question("confidence", "Can I trust its confidence?", "judge_confidence",
              charts="draw_confidence", applies="has_classes"),
    _question("mistakes", "What does it get wrong?", "find_mistakes", charts="draw_mistakes"),
    _question("disagreements", "Where do heads disagree?", "find_disagreements",
              applies="has_several_heads"),
    _question("size", "Is it worth its size?", "judge_size",
              charts="draw_sizes", applies="has_sizes"),
    _question("layers", "Which layer?", "compare_layers",
              charts="draw_layers", applies="has_layers"),
    _question("estimates", "Could that be told before any training?", "judge_estimates",
              applies="has_estimates"),
    _question("numbers", "All numbers", "list_cells", rows="export_cells"),
    _question("models", "What about another base model?", "compare_models",
              applies="has_base_model"),
)  # fmt: skip


def result_sections() -> list[ResultSection]:
    """Return all sections in their order: the core's, and those of extras where they belong."""
    sections = list(CORE_SECTIONS)
    for section in plugins.load_sections("result_sections"):
        names = [one.name for one in sections]
        at = names.index(section.after) + 1 if section.after in names else len(sections)
        if section.name in names:
            plugins.log_once(f"There are two result sections called '{section.name}'.")
        else:
            sections.insert(at, section)
    return sections


def find_sections(names: Sequence[str]) -> list[ResultSection]:
    """Return the sections of these names.

    Raises:
        DataError: There is no such section.
    """
    known = {section.name: section for section in result_sections()}
    for name in names:
        if name not in known:
            raise DataError(f"There is no section '{name[:60]}'.", did_you_mean(name, known))
    return [known[name] for name in names]


def find_subject(
    board: Leaderboard, head: str = "", runs: Sequence[RunFolder] = ()
) -> SectionSubject:
    """Return what sections are about: the named head, or else the recommended or the best one."""
    names = {cell.name for cell in board.cells if not cell.is_baseline}
    chosen = [name for name in (head, board.recommendation.name, board.best) if name in names]
    return SectionSubject(board=board, head=chosen[0] if chosen else "", runs=runs)
