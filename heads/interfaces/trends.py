"""How accuracy goes with the size of a head and with the number of rows. No Gradio."""

from markupsafe import Markup

from heads.interfaces.boards import coded
from heads.interfaces.charts import Axis, Line, chart, percent, powers, shares
from heads.interfaces.figures import COLOURS
from heads.pipeline.runs.leaderboard import Leaderboard


def sizes(board: Leaderboard) -> Markup:
    """Accuracy against the number of parameters that are learned, with intervals."""
    heads = [cell for cell in board.cells if not cell.is_baseline and cell.parameters]
    if not heads:
        return Markup("")
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
                points=tuple((c.parameters, c.measures.accuracy) for c in group),
                spans=tuple((c.measures.low, c.measures.high) for c in group),
                says=tuple(
                    f"{c.name}: {percent(c.measures.accuracy)}, {c.parameters:,} parameters"
                    for c in group
                ),
                colour=colour,
            )
        )
    ends = [end for c in heads for end in (c.measures.low, c.measures.high)]
    x = powers([cell.parameters for cell in heads], "Parameters that are learned")
    return chart(
        lines, x, shares(ends, "Answered right"), says="Accuracy against parameters; see the table"
    )


def growth(board: Leaderboard) -> Markup:
    """The learning curve: accuracy of the leaders against the number of rows."""
    if len(board.curve) < 2:
        return Markup('<p class="quiet">There is none for this run.</p>')
    names = list(board.curve[-1]["accuracies"])[: len(COLOURS)]
    lines = [_course(board, *pair) for pair in zip(names, COLOURS, strict=False)]
    rows = [stage["rows"] for stage in board.curve]
    x = Axis(
        low=0,
        high=max(rows) * 1.05,
        ticks=tuple((float(at), f"{at:,}") for at in rows),
        says="Rows learned from",
    )
    ends = [end for line in lines for span in line.spans for end in span]
    y = shares(ends, "Answered right")
    drawn = chart(lines, x, y, says="Accuracy against the number of rows")
    return Markup("<p>{}</p>{}").format(coded(board.curve_says), drawn)


def _course(board: Leaderboard, name: str, colour: str) -> Line:
    stages = [stage for stage in board.curve if name in stage["accuracies"]]
    found = [(stage["rows"], stage["accuracies"][name]) for stage in stages]
    return Line(
        name=name,
        points=tuple((rows, own["accuracy"]) for rows, own in found),
        spans=tuple((own["low"], own["high"]) for _, own in found),
        says=tuple(f"{name}, {rows:,} rows: {percent(own['accuracy'])}" for rows, own in found),
        colour=colour,
        joins=True,
    )
