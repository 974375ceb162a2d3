"""A leaderboard as one HTML file: it asks for nothing else, and works without a script.

Every value passes `Markup.format`, which escapes it; the file's own policy forbids scripts,
images and requests besides.
"""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from heads.evaluation.metrics import SCORES
from heads.interfaces.views import head_details, leaderboard, predictions
from heads.interfaces.views.comparison import count, joined
from heads.interfaces.views.format import TIME, Measure, apart, between, offered, titled
from heads.runs.cells import Cell
from heads.runs.drill_down import Disagreement, closeup
from heads.runs.leaderboard import Leaderboard

CSS = (Path(__file__).parent / "board.css").read_text("utf-8")
LOOK = """
:root { --body-text-color: #18181b; --body-text-color-subdued: #52525b; --ground: #fafafa;
  --block-background-fill: #fff; --border-color-primary: #d4d4d8; --right: #0b7a6b;
  --font-mono: ui-monospace, monospace; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --body-text-color: #f4f4f5; --right: #2dd4bf;
  --body-text-color-subdued: #a1a1aa; --ground: #0f0f11; --block-background-fill: #18181b;
  --border-color-primary: #3f3f46; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--body-text-color);
  background: var(--ground); max-width: 1100px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 1.6rem 0 .4rem; } h4 { margin: .8rem 0 .2rem; }
.quiet { color: var(--body-text-color-subdued); font-size: .9rem; }
.verdict { background: var(--block-background-fill); border: 1px solid var(--border-color-primary);
  border-left: 4px solid #6366f1; border-radius: 10px; padding: .6rem .9rem;
  overflow-wrap: anywhere; }
.verdict p { margin: .2rem 0; } code { font-family: var(--font-mono); font-size: .92em; }
"""
PAGE = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    "<title>{title}</title><style>{style}</style></head><body><h1>{title}</h1>{body}</body></html>\n"
)


def report(board: Leaderboard, disagreements: Sequence[Disagreement] = ()) -> str:
    """All that a leaderboard shows, as the text of an HTML file."""
    score = SCORES[board.metric].title
    parts: list[tuple[str, Markup]] = [
        ("", leaderboard.verdict(board)),
        (f"{score} by pooling and head", leaderboard.heat_of(board)),
        ("All numbers", table(board)),
        (f"{score} against size", leaderboard.sizes(board)),
        ("Would more rows change the choice?", leaderboard.growth(board)),
        ("Layer by layer", leaderboard.layers(board)),
        ("Before any training", head_details.estimates(board)),
    ]
    if board.best:
        title = f"A closer look at the best head, {board.best}"
        parts.append((title, head_details.one(closeup(board, board.best))))
    apart = predictions.disagreements(disagreements, board.problem)
    parts.append(("Where the heads disagree most", apart))
    body = joined(
        Markup("{}{}").format(Markup("<h2>{}</h2>").format(title) if title else "", drawn)
        for title, drawn in parts
        if drawn
    )
    facts = f"Run {board.run}. Model version {board.revision}. Features in {board.precision}."
    return str(
        PAGE.format(
            title=f"Head to Head: {board.data}",
            style=Markup(CSS + LOOK),  # our own files, no value of a user's
            body=body + Markup('<p class="quiet">{}</p>').format(facts),
        )
    )


def table(board: Leaderboard) -> Markup:
    """A row a cell, the best first, the baselines last."""
    score, *rest = (one for one in offered(board.cells) if one.name != TIME)
    names = ["Recipe", score.title, "95 % interval", *(one.title for one in rest)]
    names += ["Parameters", "Seconds", "Against the best"]
    head = joined(Markup("<th>{}</th>").format(name) for name in names)
    rows = joined(
        Markup("<tr>{}</tr>").format(
            joined(Markup("<td>{}</td>").format(value) for value in _row(cell, score, rest))
        )
        for cell in board.cells
    )
    return Markup(
        '<div class="scroll" tabindex="0"><table class="figures"><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(head, rows)


def _row(cell: Cell, score: Measure, rest: Sequence[Measure]) -> list[str]:
    values = [(one, one.of(cell)) for one in rest]
    return [
        titled(cell),
        score.shown(cell.measures.score),
        between(cell.measures, "to"),
        *("" if value is None else one.shown(value) for one, value in values),
        count(cell.parameters),
        f"{cell.seconds:.1f}",
        apart(cell),
    ]
