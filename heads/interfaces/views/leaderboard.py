"""A leaderboard as fragments of HTML: verdict, heat map, tables. No Gradio.

The page and the report draw the same. Every value passes `Markup.format`, which escapes it.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.transferability import MEASURES
from heads.interfaces.views.charts import Tile, in_order
from heads.interfaces.views.plain_charts import Axis, Line, chart, powers, scores
from heads.interfaces.views.comparison import COLOURS, counted, joined
from heads.interfaces.views.format import LEAST, Measure, between, offered, titled
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.drill_down import LayerCurve, layered
from heads.runs.leaderboard import Leaderboard
from heads.training.racing import Eliminated

STATES = {"finished": "", "stopped": "Stopped before its end. ", "unfinished": "Not finished. "}


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
    return Markup(
        '<div class="verdict agree" role="status"><p><strong>{}</strong> {}</p>'
        '<p class="quiet">{}</p></div>{}{}'
    ).format(coded(first), coded(" ".join(rest)), facts(board), notes(board), stopped(board))


def facts(board: Leaderboard) -> str:
    """How the numbers came about, in a sentence or two."""
    heads = sum(not cell.is_baseline for cell in board.cells)
    return (
        f"{STATES.get(board.state, '')}{counted(heads, 'head')} on "
        f"{board.data} ({board.rows:,} rows, {_labels(board)}) with {board.model}"
        f"{f', in {duration(board.seconds)}' if board.seconds else ''}. {board.protocol}"
    )


def stopped(board: Leaderboard) -> Markup:
    """Whom a race has stopped, and what each came to on the development rows."""
    if not board.stopped:
        return Markup("")
    items = joined(
        Markup("<li><code>{}</code>: {}</li>").format(broken(one.recipe), behind(one, board.metric))
        for one in board.stopped
    )
    return Markup(
        '<details class="notes stopped"><summary>{}</summary><ul>{}</ul></details>'
    ).format(f"Stopped in the race: {counted(len(board.stopped), 'head')}", items)


def behind(one: Eliminated, metric: MetricName) -> str:
    """What a head that was stopped came to on the development rows.

    >>> one = Eliminated(recipe="cls+mlp", development_score=0.8, behind=0.03, least=0.01)
    >>> behind(one, "accuracy")
    '80.0 % on the development rows, 3.0 points behind the leader'
    """
    score = SCORES[metric]
    told = score.told(one.development_score)
    return f"{told} on the development rows, {score.gap(one.behind)} behind the leader"


def _labels(board: Leaderboard) -> str:
    """What is to be answered."""
    if not board.problem.has_classes:
        return "a number each"
    return counted(len(board.classes), board.problem.group)


def notes(board: Leaderboard) -> Markup:
    """What one should know of the data; folded away where it is only how texts were read."""
    if not board.notes:
        return Markup("")
    items = joined(Markup("<li>{}</li>").format(says) for says in board.notes)
    is_open = any(one not in board.reading for one in board.notes)
    return Markup('<details class="notes"{}><summary>{}</summary><ul>{}</ul></details>').format(
        Markup(" open") if is_open else "", counted(len(board.notes), "note"), items
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


def broken(name: str) -> Markup:
    """A name that may go on in the next line after each of its signs.

    >>> broken("mean?pair=uv_diff")
    Markup('mean?<wbr>pair=<wbr>uv_<wbr>diff')
    """
    parts = re.split("(?<=[?&=_+@])", name)
    return Markup("<wbr>").join(parts)


OUT = Markup('<td class="waits" title="Stopped in the race"><small>stopped</small></td>')
WAITS, NONE = Markup('<td class="waits"></td>'), Markup('<td class="none"></td>')


def heat(
    recipes: Sequence[ResolvedRecipe],
    tiles: Mapping[str, Tile],
    measure: Measure,
    *,
    is_live: bool = False,
    out: Collection[str] = (),
) -> Markup:
    """A row a pooling, a column a head; the better, the darker, and the best has a star.

    Args:
        recipes: All cells that are planned; one without a tile is still empty.
        is_live: Whether more are to come, so that no star is given yet.
        out: Of them those that were stopped in a race.
    """
    names = {str(recipe): (recipe.reading, recipe.behind) for recipe in recipes}
    readings = list(dict.fromkeys(reading for reading, _ in names.values()))
    tops = list(dict.fromkeys(top for _, top in names.values()))
    at = {place: recipe for recipe, place in names.items()}
    sign = 1 if measure.high_is_good else -1
    values = [sign * tile.value for tile in tiles.values()] or [0.0]
    least = LEAST[measure.form] or 0.02 * max(map(abs, values))
    span = max(max(values) - min(values), least) or 1.0
    rows = []
    for reading in readings:
        cells = []
        for top in tops:
            recipe = at.get((reading, top), "")
            tile = tiles.get(recipe)
            if tile is None:
                cells.append(OUT if recipe in out else WAITS if recipe else NONE)
                continue
            depth = 1 - (max(values) - sign * tile.value) / span
            best = not is_live and sign * tile.value == max(values)
            cells.append(_tile(tile, depth, best=best))
        rows.append(Markup("<tr><th>{}</th>{}</tr>").format(broken(reading), joined(cells)))
    return Markup(
        '<div class="scroll" tabindex="0"><table class="heat"><caption>{}</caption>'
        "<thead><tr><th>pooling</th>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(
        f"{measure.label} by pooling (rows) and head (columns)",
        joined(Markup("<th>{}</th>").format(broken(top)) for top in tops),
        joined(rows),
    )


def _tile(tile: Tile, depth: float, *, best: bool) -> Markup:
    star = Markup(' <span title="The best">★</span>') if best else ""
    below = Markup("<small>{}</small>").format(tile.below) if tile.below else ""
    drawn = Markup('<td class="tile" style="--depth:{:.3f}"><b>{}{}</b>{}</td>')
    return drawn.format(depth, tile.shown, star, below)


def tile(cell: Cell, measure: Measure) -> Tile | None:
    """A cell under a measure; the score has its 95 % interval below it."""
    value = measure.of(cell)
    if value is None:
        return None
    below = between(cell.measures) if measure.name == cell.measures.metric else ""
    return Tile(value=value, shown=measure.shown(value), below=below)


def heat_of(board: Leaderboard, name: str = "") -> Markup:
    """The heat map of a measure, and what the baselines reach.

    Args:
        name: Of the measure; the score, if the cells have none of that name.
    """
    cells, out = board.cells, {one.recipe for one in board.stopped}
    heads, known = [cell for cell in cells if not cell.is_baseline], offered(cells)
    measure = next((one for one in known if one.name == name), known[0])
    tiles = {cell.name: found for cell in heads if (found := tile(cell, measure))}
    if not tiles:
        return Markup('<p class="quiet">Not measured yet.</p>')
    names = in_order([board.recipes[name] for name in (*(cell.name for cell in heads), *out)])
    drawn = heat(names, tiles, measure, out=out)
    lines = [
        Markup("<li>{}: <b>{}</b> {}</li>").format(
            titled(cell), found.shown, f"({found.below})" * bool(found.below)
        )
        for cell in cells
        if cell.is_baseline and (found := tile(cell, measure))
    ]
    beside = Markup('<ul class="beside" aria-label="Without a transformer">{}</ul>')
    return drawn + (beside.format(joined(lines)) if lines else Markup(""))


# --- How the score goes with the size of a head, the number of rows and the layer. No Gradio.


def sizes(board: Leaderboard) -> Markup:
    """The score against the number of parameters that are learned, with intervals."""
    heads = [cell for cell in board.cells if not cell.is_baseline and cell.parameters]
    if not heads:
        return Markup("")
    told = SCORES[board.metric].told
    named = {board.best: (COLOURS[0], "the best"), board.reference: (COLOURS[1], "the reference")}
    if board.best == board.reference:
        named = {board.best: (COLOURS[0], "the best, and the reference")}
    groups = [[cell for cell in heads if cell.name not in named]]
    groups += [[cell for cell in heads if cell.name == name] for name in reversed(named)]
    lines = []
    for group in filter(None, groups):
        colour, role = named.get(group[0].name, ("rgba(128,128,140,.75)", ""))
        lines.append(
            Line(
                name=f"{group[0].name}, {role}" if role else "the other heads",
                points=tuple((c.parameters, c.measures.score) for c in group),
                spans=tuple((c.measures.low, c.measures.high) for c in group),
                says=tuple(
                    f"{c.name}: {told(c.measures.score)}, {c.parameters:,} parameters"
                    for c in group
                ),
                colour=colour,
            )
        )
    ends = [end for c in heads for end in (c.measures.low, c.measures.high)]
    x = powers([cell.parameters for cell in heads], "Parameters that are learned")
    says = f"{SCORES[board.metric].title} against parameters; see the table"
    return chart(lines, x, scores(ends, board.metric), says=says)


def growth(board: Leaderboard) -> Markup:
    """The learning curve: the score of the leaders against the number of rows."""
    if len(board.curve) < 2:
        return Markup('<p class="quiet">This run has no learning curve.</p>')
    names = list(board.curve[-1]["scores"])[: len(COLOURS)]
    lines = [_course(board, *pair) for pair in zip(names, COLOURS, strict=False)]
    rows = [stage["rows"] for stage in board.curve]
    x = Axis(
        low=0,
        high=max(rows) * 1.05,
        ticks=tuple((float(at), f"{at:,}") for at in rows),
        says="Rows learned from",
    )
    ends = [end for line in lines for span in line.spans for end in span]
    says = f"{SCORES[board.metric].title} against the number of rows"
    drawn = chart(lines, x, scores(ends, board.metric), says=says)
    return Markup("<p>{}</p>{}").format(coded(board.curve_says), drawn)


def _course(board: Leaderboard, name: str, colour: str) -> Line:
    stages = [stage for stage in board.curve if name in stage["scores"]]
    found = [(stage["rows"], stage["scores"][name]) for stage in stages]
    told = SCORES[board.metric].told
    return Line(
        name=name,
        points=tuple((rows, own["score"]) for rows, own in found),
        spans=tuple((own["low"], own["high"]) for _, own in found),
        says=tuple(f"{name}, {rows:,} rows: {told(own['score'])}" for rows, own in found),
        colour=colour,
        joins=True,
    )


def layers(board: Leaderboard) -> Markup:
    """Where the task lives: the score of every layer, and what could be told of it before."""
    return joined(_layers(board, one) for one in layered(board))


def _layers(board: Leaderboard, found: LayerCurve) -> Markup:
    told = SCORES[board.metric].told
    line = Line(
        name="",
        points=tuple((at, cell.measures.score) for at, cell in enumerate(found.cells)),
        spans=tuple((cell.measures.low, cell.measures.high) for cell in found.cells),
        says=tuple(f"{cell.name}: {told(cell.measures.score)}" for cell in found.cells),
        colour=COLOURS[0],
        joins=True,
    )
    ends = [end for span in line.spans for end in span]
    title = SCORES[board.metric].title
    drawn = chart([line], _depth(found), scores(ends, board.metric), says=f"{title} layer by layer")
    return Markup("<p>{}</p><div class='pair'><div>{}</div><div>{}</div></div>").format(
        coded(f"`{found.recipe}`: {found.says}"), drawn, _foretold(found)
    )


def _depth(found: LayerCurve) -> Axis:
    ticks = tuple((float(at), name) for at, name in enumerate(found.layers))
    says = "Layer that is read (0: the embeddings)"
    return Axis(low=-0.3, high=len(ticks) - 0.7, ticks=ticks, says=says)


def _foretold(found: LayerCurve) -> Markup:
    """The instant estimates of every layer, each from its lowest to its highest."""
    if any(one is None for one in found.estimates):
        return Markup("")
    lines = []
    for (measure, title), colour in zip(MEASURES.items(), COLOURS, strict=False):
        values = [getattr(one, measure) for one in found.estimates]
        span = max(values) - min(values) or 1.0
        lines.append(
            Line(
                name=f"{title}, {_plain(min(values))} to {_plain(max(values))}",
                points=tuple((at, (own - min(values)) / span) for at, own in enumerate(values)),
                says=tuple(f"{title}: {own:.3f}" for own in values),
                colour=colour,
                joins=True,
            )
        )
    title = "Estimates before any training, each on a scale of its own"
    y = Axis(low=-0.05, high=1.05, ticks=((0, "lowest"), (1, "highest")), says=title)
    return chart(lines, _depth(found), y, says=title)


def _plain(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
