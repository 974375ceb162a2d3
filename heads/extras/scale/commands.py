"""The commands of the extra: extract, predict-shards and fit-shards."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heads import api
from heads.errors import DataError
from heads.extras.scale import verbs
from heads.extras.scale.pool import HERE
from heads.interfaces import cli
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command
from heads.settings import ExperimentConfig

RESUMES = "what is done stays; the same command goes on with it"


def _add_command(stream: Callable[..., Any], summary: str) -> None:
    """Add a command with the arguments of a verb, of which `data` alone is positional."""

    def run(data: Any, **options: Any) -> Answers:
        result = follow_work(stream(data, **options), what=RESUMES)
        yield result.as_json(), lambda: cli.tables.show(result)

    parameters = []
    for name, parameter in inspect.signature(stream).parameters.items():
        is_list = name == "data" or isinstance(parameter.default, tuple)
        kind = str if parameter.default is parameter.empty else type(parameter.default)
        place = parameter.POSITIONAL_OR_KEYWORD if name == "data" else parameter.KEYWORD_ONLY
        kind = Sequence[str] if is_list else kind
        parameters.append(parameter.replace(annotation=kind, kind=place))
    run.__name__, run.__doc__ = stream.__name__.removeprefix("iter_"), summary
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command(stream, flags={"readings": ("--reading", "-r")}, repeated=["readings"])(run)


_add_command(verbs.iter_extract, "Encode any number of texts and save their vectors.")
_add_command(
    verbs.iter_predict_shards, "Predict any number of rows into a folder of Parquet files."
)


@command(verbs.fit_shards)
def fit_shards(
    data: Sequence[str],
    *,
    recipes: Sequence[str] = (),
    label: str = "",
    split: str = "",
    vectors: str = "",
    rungs: Sequence[str] = tuple(map(str, verbs.RUNGS)),
    keep: int = verbs.KEPT,
    on: str = HERE,
    workers: int = 0,
    seed: int = 0,
    to: str = "",
) -> Answers:
    """Compare heads on features of any size.

    Args:
        rungs: Numbers of rows to learn from before all of them; 0: all recipes on all rows.
        seed: Draws the rows and the new weights.
        to: Export the best head into this new folder; as ONNX, if it ends in .onnx.
    """
    work = verbs.iter_fit_shards(
        data[0] if len(data) == 1 else data, recipes=recipes, label=label, split=split,
        vectors=vectors, rungs=_parse_rungs(rungs), keep=keep, on=on, workers=workers,
        config=ExperimentConfig(seed=seed, curve=False),
    )  # fmt: skip
    is_onnx = to.endswith(".onnx")
    if to:
        from heads.exporters.export import check_place

        if vectors and not is_onnx:
            what = "A head on vectors has no base model to export with it."
            raise DataError(what, "Let the name behind --to end in .onnx.")
        check_place(Path(to), onnx=is_onnx)  # before the work, not after it
    comparison = follow_work(work)
    write = api.export_onnx if is_onnx else api.export
    exported = write(comparison.best, to) if to else None
    values = comparison.as_json() | ({"exported": exported.as_json()} if exported else {})
    more = [f"{comparison.cells[0].name} is now in {to}."] if to else []
    yield values, lambda: cli.tables.show(comparison, *more)


def _parse_rungs(rungs: Sequence[str]) -> list[int]:
    """Parse numbers of rows such as 100000, 100_000 or 1e5, without zeros."""
    rows = []
    for rung in rungs:
        try:
            number = float(rung.replace("_", ""))
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e15:
            raise DataError(f"--rungs takes numbers of rows, not '{rung:.40}'.", "Such as 1e5,1e6.")
        rows.append(int(number))
    return [number for number in rows if number]
