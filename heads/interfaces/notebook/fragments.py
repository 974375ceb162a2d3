"""What a notebook shows of a result by itself.

A fragment of HTML stands for itself: its style goes with it, it runs no script and asks for nothing
from elsewhere. It takes the notebook's own text colour and ground, so it is read in light and in
dark ones alike.
"""

from functools import cache, singledispatch
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heads.catalog.catalog import CatalogEntry
from heads.data.dataset import Data
from heads.display import Code, Table
from heads.explain.ablation import Ablation
from heads.explain.attribution_result import Attribution
from heads.explain.comparison import Comparison
from heads.explain.counterfactuals import Counterfactuals
from heads.explain.explanation import Explanation
from heads.explain.neighbors import Neighbourhood
from heads.explain.padding.report import PaddingReport
from heads.explain.selection import Reading
from heads.inference.predict import FileAnswers
from heads.interfaces.views import dataset, interpretation, lanes, whole_files
from heads.interfaces.views import explanation as explained
from heads.interfaces.views.descriptions import describe, tabulate_cells
from heads.interfaces.views.html import render
from heads.interfaces.views.leaderboard import result
from heads.runs.leaderboard import Leaderboard

CSS = Path(__file__).with_name("notebook.css")
MOST_ROWS = 20  # of a table that does not scroll


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
    title = Markup("<p><strong>{}</strong></p>").format(description.title)
    return title + Markup("").join(map(_draw_block, filter(None, description.blocks)))


def _draw_block(block: str | Table | Code) -> Markup:
    if isinstance(block, Code):
        return Markup("<pre>{}</pre>").format(block.text)
    if isinstance(block, str):
        return Markup("<p>{}</p>").format(block)
    is_tall, note = len(block.rows) > MOST_ROWS, Markup("<p>{}</p>").format(block.note)
    table = {"headers": block.headers, "rows": block.rows, "says": block.title}
    return render("table.html", **table, is_tall=is_tall) + note * bool(block.note)


@_body.register
def _(found: Comparison) -> Markup:
    drawn = [lanes.lane(one, number) for number, one in enumerate(found.predictions, start=1)]
    sentence = " ↔ ".join(filter(None, (found.text, found.pair)))
    return render("compared.html", says=lanes.verdict(found), sentence=sentence, lanes=drawn)


@_body.register
def _(found: Leaderboard) -> Markup:
    return result(found) + _draw_block(tabulate_cells(found, is_wide=True))


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
