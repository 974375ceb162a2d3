"""What one sees of a single head of a run besides its measures: learned layers, and its answers."""

import contextlib
from dataclasses import dataclass

import torch

from heads.classifier.module import Assembly
from heads.data.corpus import Kind
from heads.errors import HeadsError
from heads.parts.resolve import resolve
from heads.pipeline.runs import asked as question
from heads.pipeline.runs.cell import Cell, said
from heads.pipeline.runs.disagreement import once
from heads.pipeline.runs.leaderboard import Leaderboard

MIX = "mix"
MOST_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Closeup:
    """One head of a run, or a baseline, closely.

    Attributes:
        cell: Its measures.
        kind: Of the labels.
        classes: Their names, in the order of every table.
        mix: The shares of the layers that it has learned to read, embeddings first, summing to
            1; none where it reads no learned mix.
        points: Of predicted numbers, pairs of the true and the predicted one; else none.
    """

    cell: Cell
    kind: Kind
    classes: tuple[str, ...]
    mix: tuple[float, ...] = ()
    points: tuple[tuple[float, float], ...] = ()


def closeup(board: Leaderboard, name: str) -> Closeup:
    """Looks closely at a head of a run, or at a baseline.

    Raises:
        DataError: The run is broken.
        KeyError: It has no such cell.
    """
    return Closeup(
        cell=board.cell(name),
        kind=board.kind,
        classes=board.classes,
        mix=mix_of(board, name),
        points=_points(board, name) if board.kind == "number" else (),
    )


def mix_weights(module: Assembly) -> tuple[float, ...]:
    """The shares of the layers in a learned mix, embeddings first; none, if it has no mix."""
    layers = module.reader.order.layers
    if layers is None or layers.name != MIX:
        return ()
    scores = module.reader.layers.get_parameter("scores")
    return tuple(scores.detach().softmax(dim=0).tolist())


def mix_of(board: Leaderboard, name: str) -> tuple[float, ...]:
    """The same of a head of a run; none, where its base model is not there any more."""
    with contextlib.suppress(HeadsError):
        layers = None if board.cell(name).is_baseline else resolve(name).layers
        if layers is not None and layers.name == MIX:
            return mix_weights(board.classifier(name).head.module)
    return ()


def layer_name(number: int) -> str:
    """What a layer is called.

    >>> layer_name(0), layer_name(3)
    ('embeddings', 'layer 3')
    """
    return f"layer {number}" if number else "embeddings"


def _points(board: Leaderboard, name: str) -> tuple[tuple[float, float], ...]:
    """True and predicted numbers, each row once, at most 300 rows, evenly taken."""
    asked = question.load(board.folder)
    number = asked.names.index(name)
    told = once(said(board.folder, number, name), asked.splits)
    true, given = asked.targets[told.rows], told.given
    chosen = torch.linspace(0, len(true) - 1, min(len(true), MOST_POINTS)).long()
    return tuple(zip(true[chosen].tolist(), given[chosen].tolist(), strict=True))
