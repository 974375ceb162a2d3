"""A leaderboard as fragments of HTML: verdict, heat map, tables. No Gradio.

The page and the report draw the same. Every value passes `Markup.format`, which escapes it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heads.interfaces.charts import percent
from heads.interfaces.drawings import counted, joined
from heads.parts.menu import head, pooling
from heads.pipeline.runs.cell import Cell
from heads.pipeline.runs.leaderboard import Leaderboard
from heads.recipe import Recipe

BASELINES = {"majority": "always the commonest class", "tfidf": "TF-IDF + logistic regression"}
STATES = {"finished": "", "stopped": "Stopped before its end. ", "unfinished": "Not finished. "}
NARROW = 0.02  # differences of less than two points never take the whole scale of colours


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of every cell.

    Attributes:
        title: What the user calls it.
        of: Reads it from a cell; None where it is not known.
        shown: How it is written.
        high_is_good: Whether more is better.
        least: The smallest difference that takes the whole scale of colours.
    """

    title: str
    of: Callable[[Cell], float | None]
    shown: Callable[[float], str]
    high_is_good: bool = True
    least: float = NARROW


MEASURES: dict[str, Measure] = {
    "accuracy": Measure(title="Accuracy", of=lambda cell: cell.measures.accuracy, shown=percent),
    "macro_f1": Measure(title="Macro-F1", of=lambda cell: cell.measures.macro_f1, shown=percent),
    "log_loss": Measure(
        title="Log loss (less is better)",
        of=lambda cell: cell.measures.log_loss,
        shown="{:.3f}".format,
        high_is_good=False,
    ),
    "calibration_error": Measure(
        title="Calibration error (less is better)",
        of=lambda cell: cell.measures.calibration_error,
        shown=percent,
        high_is_good=False,
    ),
    "latency_ms": Measure(
        title="Time added to a text (less is better)",
        of=lambda cell: cell.latency_ms,
        shown="{:.2f} ms".format,
        high_is_good=False,
        least=0.01,
    ),
}


def coded(sentence: str) -> Markup:
    """A sentence in which what stands between backticks is a name.

    >>> coded("`mean+linear` is enough: <b>.")
    Markup('<code>mean+linear</code> is enough: &lt;b&gt;.')
    """
    parts = sentence.split("`")
    return joined(
        Markup("<code>{}</code>" if place % 2 and place < len(parts) - 1 else "{}").format(part)
        for place, part in enumerate(parts)
    )


def verdict(board: Leaderboard) -> Markup:
    """What the numbers allow one to say; then how they came about, and what spoils them."""
    first, *rest = board.verdict
    heads = sum(not cell.is_baseline for cell in board.cells)
    facts = (
        f"{STATES.get(board.state, '')}{counted(heads, 'head')} on "
        f"{board.data} ({board.rows:,} rows, {len(board.classes)} classes) with {board.model}, "
        f"in {duration(board.seconds)}. {board.protocol}"
    )
    return Markup(
        '<div class="verdict agree" role="status"><p><strong>{}</strong> {}</p>'
        '<p class="quiet">{}</p></div>{}'
    ).format(coded(first), coded(" ".join(rest)), facts, notes(board.notes))


def notes(sentences: Sequence[str]) -> Markup:
    """What one should know of the data, folded away where it is much."""
    if not sentences:
        return Markup("")
    items = joined(Markup("<li>{}</li>").format(says) for says in sentences)
    title = "1 note on the data" if len(sentences) == 1 else f"{len(sentences)} notes on the data"
    return Markup('<details class="notes"><summary>{}</summary><ul>{}</ul></details>').format(
        title, items
    )


def duration(seconds: float) -> str:
    """A time for the eye.

    >>> duration(3.14), duration(21.4), duration(75), duration(7300)
    ('3.1 s', '21 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def split_name(recipe: str) -> tuple[str, str]:
    """The reading and the head of a recipe: the row and the column of its cell.

    >>> split_name("cls@cat4+mlp?hidden=8")
    ('cls@cat4', 'mlp?hidden=8')
    """
    reading, _, top = str(Recipe.parse(recipe)).partition("+")
    return reading, top


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A cell of the heat map.

    Attributes:
        value: Which decides on the shade.
        shown: What is written.
        below: What is written below it, smaller.
    """

    value: float
    shown: str
    below: str = ""


def heat(
    recipes: Sequence[str], tiles: Mapping[str, Tile], measure: Measure, *, live: bool = False
) -> Markup:
    """A row a pooling, a column a head; the better, the darker, and the best has a star.

    Args:
        recipes: All cells that are planned; one without a tile is still empty.
        live: Whether more are to come, so that no star is given yet.
    """
    names = {recipe: split_name(recipe) for recipe in recipes}
    readings = list(dict.fromkeys(reading for reading, _ in names.values()))
    tops = list(dict.fromkeys(top for _, top in names.values()))
    at = {place: recipe for recipe, place in names.items()}
    sign = 1 if measure.high_is_good else -1
    values = [sign * tile.value for tile in tiles.values()] or [0.0]
    span = max(max(values) - min(values), measure.least)
    rows = []
    for reading in readings:
        cells = []
        for top in tops:
            recipe = at.get((reading, top), "")
            tile = tiles.get(recipe)
            if tile is None:
                cells.append(Markup('<td class="{}"></td>').format("waits" if recipe else "none"))
                continue
            depth = 1 - (max(values) - sign * tile.value) / span
            best = not live and sign * tile.value == max(values)
            cells.append(_tile(tile, depth, best=best))
        rows.append(Markup("<tr><th>{}</th>{}</tr>").format(reading, joined(cells)))
    return Markup(
        '<div class="scroll" tabindex="0"><table class="heat"><caption>{}</caption>'
        "<thead><tr><th>pooling</th>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(
        f"{measure.title} by pooling (rows) and head (columns)",
        joined(Markup("<th>{}</th>").format(top) for top in tops),
        joined(rows),
    )


def _tile(tile: Tile, depth: float, *, best: bool) -> Markup:
    star = Markup(' <span title="The best">★</span>') if best else ""
    below = Markup("<small>{}</small>").format(tile.below) if tile.below else ""
    drawn = Markup('<td class="tile" style="--depth:{:.3f}"><b>{}{}</b>{}</td>')
    return drawn.format(depth, tile.shown, star, below)


def tile(cell: Cell, name: str) -> Tile | None:
    """A cell under a measure; accuracy has its 95 % interval below it."""
    value = MEASURES[name].of(cell)
    if value is None:
        return None
    between = ""
    if name == "accuracy":
        between = f"{cell.measures.low * 100:.1f} – {cell.measures.high * 100:.1f}"
    return Tile(value=value, shown=MEASURES[name].shown(value), below=between)


def heat_of(cells: Sequence[Cell], name: str) -> Markup:
    """The heat map of a measure, and what the baselines reach."""
    heads = [cell for cell in cells if not cell.is_baseline]
    tiles = {cell.name: found for cell in heads if (found := tile(cell, name))}
    if not tiles:
        return Markup('<p class="quiet">Not measured yet.</p>')
    drawn = heat(in_order([cell.name for cell in heads]), tiles, MEASURES[name])
    lines = [
        Markup("<li>{}: <b>{}</b> {}</li>").format(
            BASELINES.get(cell.name, cell.name), found.shown, f"({found.below})" * bool(found.below)
        )
        for cell in cells
        if cell.is_baseline and (found := tile(cell, name))
    ]
    beside = Markup('<ul class="beside" aria-label="Without a transformer">{}</ul>')
    return drawn + (beside.format(joined(lines)) if lines else Markup(""))


def in_order(recipes: Iterable[str]) -> list[str]:
    """Recipes in the order of the menu: like poolings and like heads side by side."""
    poolings, heads = list(pooling), list(head)

    def place(name: str) -> tuple[int, str, int, str]:
        recipe = Recipe.parse(name)
        known = recipe.pooling in poolings and recipe.head in heads
        at = (poolings.index(recipe.pooling), heads.index(recipe.head)) if known else (999, 999)
        return at[0], split_name(name)[0], at[1], name

    return sorted(recipes, key=place)
