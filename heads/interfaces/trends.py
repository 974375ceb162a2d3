"""How the score goes with the size of a head, the number of rows and the layer. No Gradio."""

from markupsafe import Markup

from heads.evaluation.metrics import SCORES
from heads.evaluation.transferability import MEASURES
from heads.interfaces.boards import coded
from heads.interfaces.charts import Axis, Line, chart, powers, scores
from heads.interfaces.drawings import joined
from heads.interfaces.figures import COLOURS
from heads.runs.drill_down import Layered, layered
from heads.runs.leaderboard import Leaderboard


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


def _layers(board: Leaderboard, found: Layered) -> Markup:
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


def _depth(found: Layered) -> Axis:
    ticks = tuple((float(at), name) for at, name in enumerate(found.layers))
    says = "Layer that is read (0: the embeddings)"
    return Axis(low=-0.3, high=len(ticks) - 0.7, ticks=ticks, says=says)


def _foretold(found: Layered) -> Markup:
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
