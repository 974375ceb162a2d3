"""What a notebook shows of a result by itself.

A fragment of HTML stands for itself: its style goes with it, it runs no script and asks for nothing
from elsewhere. It takes the notebook's own text colour and ground, so it is read in light and in
dark ones alike.
"""

from functools import cache, singledispatch
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heads.analysis.ablation import Ablation
from heads.analysis.answering import FileAnswers
from heads.analysis.attribution_result import Attribution
from heads.analysis.comparison import Comparison
from heads.analysis.counterfactuals import Counterfactuals
from heads.analysis.explanation import Explanation
from heads.analysis.neighbors import Neighbourhood
from heads.analysis.padding.report import PaddingReport
from heads.analysis.selection import Reading
from heads.catalog.catalog import CatalogEntry
from heads.data.dataset import Data
from heads.display import Code, Table
from heads.evaluation.metrics import SCORES
from heads.interfaces.views import (
    dataset,
    interpretation,
    lanes,
    whole_files,
)
from heads.interfaces.views import explanation as explained
from heads.interfaces.views.descriptions import describe
from heads.interfaces.views.format import between, count, counted, titled
from heads.interfaces.views.html import render
from heads.interfaces.views.leaderboard import result
from heads.runs.cells import Cell
from heads.runs.leaderboard import Leaderboard

CSS = Path(__file__).with_name("notebook.css")
MOST_CELLS = 20  # rows that are not folded away


def html(found: Any) -> str:
    """A result as a fragment of HTML that stands for itself."""
    return str(render("notebook.html", css=_css(), body=_body(found)))


@cache
def _css() -> Markup:
    """Return the style on one line; its id `_` makes it count more than a notebook's own rules."""
    return Markup(" ".join(CSS.read_text("utf-8").split()))  # our own file


@singledispatch
def _body(found: Any) -> Markup:
    """Draw what a result says; those below are drawn in their own way."""
    description = describe(found)
    blocks = [
        render(
            "table.html",
            headers=block.headers,
            rows=block.rows,
            says=block.title,
            is_tall=len(block.rows) > MOST_CELLS,
        )
        + Markup("<p>{}</p>").format(block.note) * bool(block.note)
        if isinstance(block, Table)
        else Markup("<pre>{}</pre>" if isinstance(block, Code) else "<p>{}</p>").format(
            block.text if isinstance(block, Code) else block
        )
        for block in filter(None, description.blocks)
    ]
    return Markup("<p><strong>{}</strong></p>").format(description.title) + Markup("").join(blocks)


@_body.register
def _(found: Comparison) -> Markup:
    drawn = [lanes.lane(one, number) for number, one in enumerate(found.predictions, start=1)]
    sentence = " ↔ ".join(filter(None, (found.text, found.pair)))
    return render("compared.html", says=lanes.verdict(found), sentence=sentence, lanes=drawn)


@_body.register
def _(found: Leaderboard) -> Markup:
    rows, name = _rows(found), SCORES[found.metric]
    return render(
        "cells.html",
        result=result(found),
        score=name.title,
        rows=rows[:MOST_CELLS],
        more=rows[MOST_CELLS:],
        told=counted(len(rows) - MOST_CELLS, "more row"),
    )


def _rows(found: Leaderboard) -> list[dict[str, Any]]:
    """The cells, each with its interval as places on one scale, from 0 to 100."""
    heads = [cell.measures for cell in found.cells if not cell.is_baseline]
    if not heads:
        return []
    low, high = min(one.low for one in heads), max(one.high for one in heads)
    span, use = (high - low) or 1.0, found.recommendation
    return [
        {
            "name": titled(cell),
            "title": recipe.title if (recipe := found.recipes.get(cell.name)) else "",
            "score": SCORES[found.metric].told(cell.measures.score),
            "between": between(cell.measures),
            "size": count(cell.learned) if cell.learned else "",
            "is_used": cell.name == use.name,
            "is_alike": cell.name in use.alike,
            **_places(cell, low, span),
        }
        for cell in found.cells
    ]


def _places(cell: Cell, low: float, span: float) -> dict[str, str]:
    """Where score and interval are drawn; baselines far away are drawn at the edge."""
    own = cell.measures
    ends = [min(max(100 * (one - low) / span, 0), 100) for one in (own.low, own.score, own.high)]
    start, at, end = ends
    return {"start": f"{start:.1f}", "width": f"{end - start:.1f}", "at": f"{at:.1f}"}


@_body.register
def _(found: Explanation) -> Markup:
    read = lanes.tokens(found.reads)
    return render("explained.html", body=explained.explanation(found, ""), tokens=read)


@_body.register
def _(found: FileAnswers) -> Markup:
    shown = whole_files.answered(found, None)
    return shown + Markup("<p>Every row is in {}.</p>").format(found.to) if found.to else shown


_body.register(Ablation, lambda found: interpretation.ablations([found]))
_body.register(
    Attribution, lambda found: interpretation.attribution(found, is_number=not found.answer)
)
_body.register(CatalogEntry, explained.family)
_body.register(Counterfactuals, interpretation.edits)
_body.register(Data, lambda found: dataset.card(found, can_change=False))
_body.register(Neighbourhood, lambda found: interpretation.neighbours([found]))
_body.register(PaddingReport, explained.padding)
_body.register(Reading, interpretation.numbers)
