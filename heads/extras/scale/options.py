"""Options of the verbs of the extra: Python, shell and page follow from them, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from heads.backbone.models import BUNDLED
from heads.extras.scale.pool import HERE
from heads.options import AnswerOptions, HeadOptions, option

RUNGS, KEPT = (10_000, 100_000, 1_000_000), 2  # of a race on features of any number of rows


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Where work is done."""

    on: str = option(
        HERE, "here; ray, the cluster of $RAY_ADDRESS, else of this machine; or ray:HOST:PORT."
    )
    workers: int = option(
        0, "The largest number of workers; 0: one per GPU, else one per processor."
    )


@dataclass(frozen=True, kw_only=True)
class PieceOptions(WorkerOptions):
    """How rows are cut into pieces, and where these are processed."""

    rows_each: int = option(0, "Rows of a piece; 0: by the number of rows.")


@dataclass(frozen=True, kw_only=True)
class ExtractOptions(PieceOptions):
    """Options of `heads.extract`. One reading may be given as a text."""

    readings: Sequence[str] = option(
        ("mean",),
        "Poolings with their layers, such as mean, cls, mean@6 or cls@cat4; one pass of the base "
        "model serves all of them.",
    )
    text: str = option("", "The column of the texts. Default: detected.")
    pair: str = option("", "The column of the second texts, if there is one.")
    model: str = option(
        BUNDLED, "The base model: the bundled one, a Hub id, or (locally) a folder."
    )
    dtype: str = option("float32", "float32, or float16 for half the size.")


@dataclass(frozen=True, kw_only=True)
class FitShardsOptions(WorkerOptions):
    """Options of `heads.fit_shards`. One recipe may be given as a text."""

    recipes: Sequence[str] = option(
        (),
        "Such as mean+linear or cls+roberta, of readings that were extracted; vectors+linear for "
        "vectors from elsewhere. Default: linear, ridge, lda, roberta, distilbert and mlp on every "
        "reading.",
    )
    label: str = option(
        "", "The column of the labels, one class a row. Default: the one with a usual name."
    )
    split: str = option(
        "",
        "The column that says train, validation or test. Default: rows are drawn, and copies of a "
        "text stay in one part.",
    )
    vectors: str = option("", "The column of vectors from elsewhere, where there are several.")
    rungs: Sequence[int] = option(
        RUNGS,
        "Numbers of rows to learn from before all of them; 0: all recipes on all rows.",
    )
    keep: int = option(KEPT, "The largest number of recipes that are fitted on all rows.")


@dataclass(frozen=True, kw_only=True)
class PredictShardsOptions(PieceOptions, AnswerOptions, HeadOptions):
    """Options of `heads.predict_shards`; on Ray a run must be on a disk that all nodes share."""
