"""The commands of the extra: extract, fit-shards and predict-shards."""

from collections.abc import Sequence
from pathlib import Path

from heads import api
from heads.backbone.models import BUNDLED
from heads.errors import DataError
from heads.extras.scale import verbs
from heads.extras.scale.pool import HERE
from heads.interfaces import cli
from heads.interfaces.cli.files import followed
from heads.interfaces.cli.shell import Answers, command
from heads.settings import ExperimentConfig

RESUMES = "what is done stays; the same command goes on with it"


@command(verbs.extract)
def extract(
    data: Sequence[str],
    *,
    to: str,
    readings: Sequence[str] = ("mean",),
    text: str = "",
    pair: str = "",
    model: str = BUNDLED,
    dtype: str = "float32",
    on: str = HERE,
    workers: int = 0,
    rows_each: int = 0,
) -> Answers:
    """Encode any number of texts and save their vectors."""
    work = verbs.iter_extract(
        data, to, readings=readings, text=text, pair=pair, model=model, dtype=dtype, on=on,
        workers=workers, rows_each=rows_each,
    )  # fmt: skip
    shards = followed(work, what=RESUMES)
    yield shards.as_json(), lambda: cli.tables.describe(shards)


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
    comparison = followed(work)
    write = api.export_onnx if is_onnx else api.export
    exported = write(comparison.best, to) if to else None
    values = comparison.as_json() | ({"exported": exported.as_json()} if exported else {})
    more = [f"{comparison.cells[0].name} is now in {to}."] if to else []
    yield values, lambda: cli.tables.describe(comparison, *more)


@command(verbs.predict_shards)
def predict_shards(
    data: Sequence[str],
    *,
    to: str,
    recipe: str = "",
    run: str = "",
    model: str = BUNDLED,
    sample: str = "",
    text: str = "",
    pair: str = "",
    vectors: str = "",
    logits: bool = False,
    probabilities: bool = False,
    abstain_below: float = 0.0,
    on: str = HERE,
    workers: int = 0,
    rows_each: int = 0,
) -> Answers:
    """Predict any number of rows into a folder of Parquet files."""
    work = verbs.iter_predict_shards(
        data, to, recipe=recipe, run=run, model=model, sample=sample, text=text, pair=pair,
        vectors=vectors, logits=logits, probabilities=probabilities, abstain_below=abstain_below,
        on=on, workers=workers, rows_each=rows_each,
    )  # fmt: skip
    answers = followed(work, what=RESUMES)
    yield answers.as_json(), lambda: cli.tables.describe(answers)


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
