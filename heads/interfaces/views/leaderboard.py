"""A leaderboard in words: the recommended head, and how that came about. No Gradio."""

import re
from dataclasses import replace

from markupsafe import Markup

from heads.evaluation.metrics import SCORES, MetricName
from heads.interfaces.views.format import counted
from heads.interfaces.views.html import render
from heads.runs.leaderboard import Leaderboard
from heads.training.racing import Eliminated

STATES = {"finished": "", "stopped": "Stopped before its end. ", "unfinished": "Not finished. "}


def coded(sentence: str) -> Markup:
    """A sentence in which what stands between backticks is a name.

    >>> coded("`mean+linear` is enough: <b>.")
    Markup('<code>mean+linear</code> is enough: &lt;b&gt;.')
    """
    return render("coded.html", parts=sentence.split("`"))


def result(board: Leaderboard) -> Markup:
    """The head to use, why, and how sure that is; below, how the numbers came about."""
    one = board.recommendation
    count = len(board.notes) + len(board.stopped)
    return render(
        "result.html",
        warning=board.warning,
        one=replace(
            one,
            lead=coded(one.lead),
            use=coded(one.use),
            because=coded(one.because),
            how_sure=coded(one.how_sure),
        ),
        title=board.recipes[one.name].title if one.name else "",
        facts=facts(board),
        notes=board.notes,
        stopped=[(each.recipe, behind(each, board.metric)) for each in board.stopped],
        told=counted(count, "note"),
    )


def facts(board: Leaderboard) -> str:
    """How the numbers came about, in a sentence or two."""
    heads = sum(not cell.is_baseline for cell in board.cells)
    return (
        f"{STATES.get(board.state, '')}{counted(heads, 'head')} on "
        f"{board.data} ({board.rows:,} rows, {_labels(board)}) with {board.model}"
        f"{f', in {duration(board.seconds)}' if board.seconds else ''}. {board.protocol}"
    )


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
    if not board.problem.has_classes:
        return "a number each"
    return counted(len(board.classes), board.problem.group)


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
