"""A run as one HTML file: the head to use on its first page, what that rests on behind it.

It opens from a disk with no network. Plotly draws its charts; without scripts it shows their
numbers. All values pass Jinja2, which escapes them, and figures stand as JSON in which no tag can
be, so that a foreign text is never a script.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from markupsafe import Markup

from heads.interfaces.views import charts, leaderboard
from heads.interfaces.views.html import render
from heads.interfaces.views.sections import find_subject, result_sections
from heads.runs import spec
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.settings import ExperimentConfig

CSS = Path(__file__).parent / "board.css"


def report(board: Leaderboard, runs: Sequence[RunFolder] = ()) -> str:
    """Return all that a leaderboard shows, beside other runs, as the text of an HTML file."""
    from plotly.offline import get_plotlyjs

    asked, subject = spec.load(board.folder), find_subject(board, runs=runs)
    return str(
        render(
            "report.html",
            title=f"Head to Head: {board.data}",
            css=Markup(CSS.read_text("utf-8")),  # our own file
            plotly=Markup(get_plotlyjs()),
            result=leaderboard.result(board),
            forest=charts.forest(board),
            facts=_facts(board, asked),
            heat=charts.heat_map(board) if board.best else None,
            remarks=[
                leaderboard.coded(line)
                for line in board.verdict
                if line not in board.recommendation.sentences
            ],
            sections=[
                (section, section.find_answer(subject), section.draw_charts(subject))
                for section in result_sections()
                if subject.head and section.has_answer(board)
            ],
            data=_data(asked),
            json=_json,
        )
    )


def _json(value: object) -> Markup:
    """JSON that may stand in a script: what could end it or begin a tag is written in signs."""
    text = json.dumps(value, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _facts(board: Leaderboard, asked: spec.RunSpec) -> list[tuple[str, str]]:
    usual, own = asdict(ExperimentConfig()), asdict(asked.config)
    settings = [f"{name} {value}" for name, value in own.items() if value != usual[name]]
    versions = ", ".join(f"{name} {number}" for name, number in asked.versions.items())
    return [
        ("Date", time.strftime("%Y-%m-%d %H:%M", time.localtime(asked.created))),
        ("Data", f"{board.data}, {board.rows:,} rows"),
        ("Base model", f"{board.model}, version {board.revision}; features in {board.precision}"),
        ("Settings", ", ".join(settings) or "all as usual"),
        ("Versions", versions),
        ("Run", board.run),
    ]


def _data(asked: spec.RunSpec) -> charts.Chart:
    corpus = asked.corpus
    if not corpus.problem.has_classes:
        return charts.number_counts(corpus.numbers)
    counts = dict.fromkeys(corpus.classes, 0)
    for row in corpus.targets:
        for label in row:
            counts[corpus.classes[label]] += 1
    return charts.class_counts(counts)
