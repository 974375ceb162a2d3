"""The commands about rows without end: extract, fit-shards."""

from collections.abc import Sequence

from heads import api
from heads.backbone.models import BUNDLED
from heads.errors import DataError
from heads.interfaces import cli
from heads.interfaces.cli.files import GOES_ON, followed
from heads.interfaces.cli.shell import Answers, command
from heads.settings import ExperimentConfig


@command(api.extract)
def extract(
    data: Sequence[str],
    *,
    to: str,
    readings: Sequence[str] = ("mean",),
    text: str = "",
    pair: str = "",
    model: str = BUNDLED,
    dtype: str = "float32",
    on: str = api.HERE,
    workers: int = 0,
    rows_each: int = 0,
) -> Answers:
    """Keeps the vectors of any number of texts."""
    work = api.extracting(
        data[0] if len(data) == 1 else data,
        to,
        readings=readings,
        text=text,
        pair=pair,
        model=model,
        dtype=dtype,
        on=on,
        workers=workers,
        rows_each=rows_each,
    )
    found = followed(work, what=GOES_ON)
    yield found.as_json(), lambda: cli.tables.extracted(found)


@command(api.fit_shards)
def fit_shards(
    data: Sequence[str],
    *,
    recipes: Sequence[str] = (),
    label: str = "",
    split: str = "",
    vectors: str = "",
    rungs: Sequence[str] = tuple(map(str, api.RUNGS)),
    keep: int = api.KEPT,
    on: str = api.HERE,
    workers: int = 0,
    seed: int = 0,
    to: str = "",
) -> Answers:
    """Compares heads on features of any size.

    Args:
        rungs: Numbers of rows to learn from before all of them; 0: all recipes on all rows.
        seed: Draws the rows and the new weights.
        to: Export the best head into this new folder; as ONNX, if it ends in .onnx.
    """
    work = api.fitting_shards(
        data[0] if len(data) == 1 else data,
        recipes=recipes,
        label=label,
        split=split,
        vectors=vectors,
        rungs=_numbers(rungs),
        keep=keep,
        on=on,
        workers=workers,
        config=ExperimentConfig(seed=seed, curve=False),
    )
    is_onnx = to.endswith(".onnx")
    if to:
        from pathlib import Path

        from heads.exporters.export import check_place

        if vectors and not is_onnx:
            what = "A head on vectors has no base model to export with it."
            raise DataError(what, "Let the name behind --to end in .onnx.")
        check_place(Path(to), onnx=is_onnx)  # before the work, not after it
    found = followed(work)
    write = api.export_onnx if is_onnx else api.export
    exported = write(found.best, to) if to else None
    values = found.as_json() | ({"exported": exported.as_json()} if exported else {})
    yield values, lambda: cli.tables.fitted_shards(found, exported)


def _numbers(rungs: Sequence[str]) -> list[int]:
    """Numbers of rows, as one writes them: 100000 or 1e5."""
    found = []
    for rung in rungs:
        try:
            number = float(rung.replace("_", ""))
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e15:
            raise DataError(f"--rungs takes numbers of rows, not '{rung:.40}'.", "Such as 1e5,1e6.")
        found.append(int(number))
    return [number for number in found if number]
