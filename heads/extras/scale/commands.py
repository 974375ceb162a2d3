"""The commands of the extra: extract, predict-shards and fit-shards."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heads import api
from heads.errors import DataError
from heads.events import Progress
from heads.extras.scale import verbs
from heads.extras.scale.options import ExtractOptions, FitShardsOptions, PredictShardsOptions
from heads.interfaces import cli
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command
from heads.settings import ExperimentConfig

RESUMES = "what is done stays; the same command goes on with it"


def _follow_pieces(work: Generator[Progress, None, Any]) -> Answers:
    result = follow_work(work, what=RESUMES)
    yield result.as_json(), lambda: cli.tables.show(result)


@command(verbs.extract, flags={"readings": ("--reading", "-r")}, repeated=["readings"])
def extract(data: Sequence[str], *, to: str, options: ExtractOptions) -> Answers:
    """Encode any number of texts and save their vectors."""
    yield from _follow_pieces(verbs.iter_extract(data, to, options))


@command(verbs.predict_shards)
def predict_shards(data: Sequence[str], *, to: str, options: PredictShardsOptions) -> Answers:
    """Predict any number of rows into a folder of Parquet files."""
    yield from _follow_pieces(verbs.iter_predict_shards(data, to, options))


@command(verbs.fit_shards)
def fit_shards(
    data: Sequence[str], *, options: FitShardsOptions, seed: int = 0, to: str = ""
) -> Answers:
    """Compare heads on features of any size.

    Args:
        seed: Draws the rows and the new weights.
        to: Export the best head into this new folder; as ONNX, if it ends in .onnx.
    """
    options = replace(options, rungs=[_parse_rung(str(rung)) for rung in options.rungs])
    is_onnx = to.endswith(".onnx")
    if to:
        from heads.exporters.export import check_place

        if options.vectors and not is_onnx:
            what = "A head on vectors has no base model to export with it."
            raise DataError(what, "Let the name behind --to end in .onnx.")
        check_place(Path(to), onnx=is_onnx)  # before the work, not after it
    config = ExperimentConfig(seed=seed, curve=False)
    files = data[0] if len(data) == 1 else data
    comparison = follow_work(verbs.iter_fit_shards(files, options, config))
    write = api.export_onnx if is_onnx else api.export
    exported = write(comparison.best, to) if to else None
    values = comparison.as_json() | ({"exported": exported.as_json()} if exported else {})
    more = [f"{comparison.cells[0].name} is now in {to}."] if to else []
    yield values, lambda: cli.tables.show(comparison, *more)


def _parse_rung(text: str) -> int:
    """Parse a number of rows such as 100000, 100_000 or 1e5."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e15:
        raise DataError(f"--rungs takes numbers of rows, not '{text:.40}'.", "Such as 1e5,1e6.")
    return int(number)
