"""The public functions of the extra: `extract`, `fit_shards` and `predict_shards`.

Each has a generator that yields progress and returns the result: `iter_extract` and so on. Torch is
imported only inside them, so that the help of a command is printed at once.
"""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from heads.backbone.models import BUNDLED
from heads.errors import DataError
from heads.events import Progress, result
from heads.extras.scale.pool import HERE, check_place, make_caller, open_pool
from heads.recipe import Recipe
from heads.settings import ExperimentConfig

if TYPE_CHECKING:
    from heads.classifier.classifier import Classifier
    from heads.extras.scale.comparison import ShardedComparison
    from heads.extras.scale.predicting import ShardedAnswers
    from heads.extras.scale.shards import FeatureShards

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
DTYPES = "float32", "float16"
FIRST = 200  # rows in which the columns to predict from are found
RUNGS, KEPT = (10_000, 100_000, 1_000_000), 2  # of a race on features of any number of rows


def _run_to_end(
    stream: Callable[Arguments, Generator[Progress, None, Result]], returns: str
) -> Callable[Arguments, Result]:
    """Return a function that runs a stream of progress and returns its result."""

    @wraps(stream)
    def run(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return result(stream(*args, **options))

    run.__name__ = run.__qualname__ = stream.__name__.removeprefix("iter_")
    signature = inspect.signature(stream).replace(return_annotation=returns)
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def iter_extract(
    data: str | Path | Sequence[str | Path],
    to: str | Path,
    *,
    readings: Sequence[str] = ("mean",),
    text: str = "",
    pair: str = "",
    model: str = BUNDLED,
    dtype: str = "float32",
    on: str = HERE,
    workers: int = 0,
    rows_each: int = 0,
) -> Generator[Progress, None, FeatureShards]:
    """Encode any number of texts once, and save their vectors as Parquet files.

    The rows are encoded in pieces, one file each. The same call resumes where it was stopped, and
    encodes pieces again whose rows have changed. On Ray, a lost worker or node costs only the
    pieces it was working on.

    Args:
        data: Parquet files: a path, a URL that fsspec knows (s3://…, hf://…), a pattern such as
            "part-*.parquet", a folder, or several of these; or one CSV, TSV, JSON, JSONL or Excel
            file, which is first copied as Parquet.
        to: The folder to write, a path or URL. It gets every column but the texts, the number of
            each row (source_row) and of its text (text_hash), and a column of vectors per reading.
        readings: Poolings with their layers, such as mean, cls, mean@6 or cls@cat4; one pass of the
            base model serves all of them.
        text: The column of the texts. Default: detected.
        pair: The column of the second texts, if there is one.
        model: The base model: the bundled one, a Hub id, or (locally) a folder.
        dtype: float32, or float16 for half the size.
        on: here; ray, the cluster of $RAY_ADDRESS, else of this machine; or ray:HOST:PORT.
        workers: The largest number of workers; 0: one per GPU, else one per processor.
        rows_each: Rows of a piece; 0: by the number of rows.

    Returns:
        What lies in the folder: `.rows`, `.readings`, `.source.files`.

    Raises:
        HeadsError: The arguments do not fit each other, the data or the base model.
    """
    from heads.backbone.loading import load
    from heads.extras.scale.extraction import Encoder, find_columns, resolve_reading
    from heads.extras.scale.pieces import Work, absolute, absolute_model, open_source, process
    from heads.extras.scale.shards import FEATURES, FeatureShards
    from heads.features.extraction import most_at_once

    to, model = absolute(to), absolute_model(model)
    check_place(on)
    if dtype not in DTYPES:
        raise DataError(f"Features are kept as {' or '.join(DTYPES)}, not {dtype:.40}.", "Choose.")
    backbone = load(model)
    backbone.check_reads()
    names = [readings] if isinstance(readings, str) else dict.fromkeys(readings)
    recipes = tuple(str(resolve_reading(name, backbone).recipe) for name in names)
    yield Progress(says="Looking at the rows", share=0.0)
    source = open_source(data, to)
    text, pair = find_columns(source, text, pair)
    options = {"recipes": recipes, "text": text, "pair": pair, "dtype": dtype}
    work = Work(
        to=to,
        kind=FEATURES,
        facts=Encoder(backbone=backbone, **options).facts(),
        make=lambda: Encoder(backbone=load(model), **options),
        rows_each=rows_each or source.rows_each(most_at_once(backbone)),
    )
    outcome = yield from process(work, source, on, workers)
    return replace(FeatureShards.load(to), fresh=outcome.fresh, seconds=outcome.seconds)


def iter_fit_shards(
    data: str | Path | Sequence[str | Path] | FeatureShards,
    *,
    recipes: Sequence[str] = (),
    label: str = "",
    split: str = "",
    vectors: str = "",
    rungs: Sequence[int] = RUNGS,
    keep: int = KEPT,
    on: str = HERE,
    workers: int = 0,
    config: ExperimentConfig | None = None,
) -> Generator[Progress, None, ShardedComparison]:
    """Compare heads on features that need not fit in memory: raced on few rows, fitted on all.

    All recipes search their settings on the first rung of rows. Recipes that are surely behind are
    stopped; the better half of the others goes on to the next rung, and the best few are fitted on
    all rows. Up to 250,000 rows are learned from in memory. Beyond that one shard at a time is in
    memory: linear heads are solved by L-BFGS on summed gradients, ridge, lda, centroid and cosine
    from summed moments, and heads with more layers step by step.

    Args:
        data: A folder of `heads.extract`, or Parquet files with a column of vectors and one of
            labels, whichever engine made them: a path, a URL, a pattern, a folder, or several.
        recipes: Such as mean+linear or cls+roberta, of readings that were extracted; vectors+linear
            for vectors from elsewhere. Default: linear, ridge, lda, roberta, distilbert and mlp on
            every reading.
        label: The column of the labels, one class a row. Default: the one with a usual name.
        split: The column that says train, validation or test. Default: rows are drawn, and copies
            of a text stay in one part.
        vectors: The column of vectors from elsewhere, where there are several.
        rungs: Numbers of rows to learn from before all of them; none: all recipes on all rows.
        keep: The largest number of recipes that are fitted on all rows.
        on: here; ray, the cluster of $RAY_ADDRESS, else of this machine; or ray:HOST:PORT.
        workers: The largest number of workers; 0: one per GPU, else one per processor.
        config: Its seed draws the rows and the new weights; see `heads.ExperimentConfig`.

    Returns:
        The comparison on held-out rows: `.verdict`, `.cells`, `.rungs`, `.best`,
        `.classifier(recipe)`.

    Raises:
        HeadsError: The arguments do not fit each other or the data.
    """
    from heads.extras.scale.fitting import Race, load_backbone, resolve_recipes
    from heads.extras.scale.shards import (
        FeatureShards,
        ShardSample,
        count_labels,
        find_label_column,
    )
    from heads.extras.scale.streaming import check_streams
    from heads.problem import SINGLE_LABEL
    from heads.training.trial import trials

    begun = time.perf_counter()
    config = config or ExperimentConfig(curve=False)
    check_place(on)
    shards = data if isinstance(data, FeatureShards) else FeatureShards.load(data)
    backbone = load_backbone(shards, vectors)
    names = [recipes] if isinstance(recipes, str) else recipes
    resolved = resolve_recipes(names, shards, backbone)
    label = find_label_column(shards.source, label, list(shards.readings))
    if split:
        shards.source.check_column(split, "splits")
    with contextlib.closing(open_pool(make_caller, on, workers)) as pool:
        yield Progress(says="Counting labels", share=0.0)
        counts, classes = count_labels(shards.source, label, pool)
        cells = trials(resolved, backbone, len(classes), SINGLE_LABEL)
        for cell in cells:
            check_streams(cell.fitter, cell.name)
        rows = sum(counts.values())
        race = Race(
            shards=shards, label=label, classes=classes, cells=cells, backbone=backbone, pool=pool,
            sample=ShardSample.of_rows(rows, config.seed, split), config=config, on=on,
            vectors=vectors, rows=rows,
        )  # fmt: skip
        yield from race.run(rungs, max(1, keep))
        return race.compare(time.perf_counter() - begun)


def iter_predict_shards(
    data: str | Path | Sequence[str | Path],
    to: str | Path,
    *,
    recipe: Recipe | str | Classifier = "",
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
) -> Generator[Progress, None, ShardedAnswers]:
    """Predict any number of rows, piece after piece, into a folder of Parquet files.

    Rows, head and columns are chosen as by `heads.predict`. The same call resumes where it was
    stopped.

    Args:
        data: As of `heads.extract`; with a column of vectors where the head learned from vectors.
        to: The folder to write, a path or URL: the rows with the columns of the answers.
        recipe: The head, as of `heads.predict`.
        run: A run whose head answers; on Ray its folder must be on a disk that all nodes share.
        model: A fine-tuned checkpoint, or the base model of a sample's head.
        sample: What a head is trained on that is of no run.
        text: The column of the texts. Default: the one the head was trained on, else detected.
        pair: The column of the second texts, where the head needs two.
        vectors: The column of the vectors, where the head learned from vectors.
        logits: Write the logits of all classes as well.
        probabilities: Write all probabilities as well.
        abstain_below: Give no answer below this probability, where one class applies.
        on: here; ray, the cluster of $RAY_ADDRESS, else of this machine; or ray:HOST:PORT.
        workers: The largest number of workers; 0: one per GPU, else one per processor.
        rows_each: Rows of a piece; 0: by the number of rows.

    Returns:
        Counts of rows and answers: `.rows`, `.answered`, `.counts`, `.to`.

    Raises:
        HeadsError: The arguments do not fit each other, the data or the head.
    """
    from heads.classifier.classifier import Classifier
    from heads.extras.scale import predicting
    from heads.extras.scale.pieces import Work, absolute, absolute_model, open_source, process
    from heads.inference.selection import select_file_head
    from heads.options import PredictOptions

    to, model = absolute(to), absolute_model(model)
    if check_place(on) != HERE and isinstance(recipe, Classifier):
        what = "A classifier in memory is not sent to other machines."
        raise DataError(what, "Export it, and name the folder (model).")
    options = PredictOptions(
        recipe=recipe, run=run, model=model, sample=sample, text=text, pair=pair, vectors=vectors,
        logits=logits, probabilities=probabilities, abstain_below=abstain_below,
    )  # fmt: skip
    head = yield from select_file_head(options)
    yield Progress(says="Looking at the rows", share=0.0)
    source = open_source(data, to)
    predictor = predicting.Predictor(head=head, options=options)
    # The columns are found once, so that no piece takes another for the texts; and what cannot be
    # answered is said before any worker is started.
    first = predictor.predict(source.pieces(FIRST)[0].read())
    options = replace(options, text=first.text, pair=first.pair, vectors=first.vectors)
    predictor = replace(predictor, options=options)
    work = Work(
        to=to,
        kind=predicting.ANSWERS,
        facts=predicting.collect_facts(predictor, run, first.columns),
        make=lambda: predicting.Predictor(head=result(select_file_head(options)), options=options),
        rows_each=rows_each or source.rows_each(),
    )
    outcome = yield from process(work, source, on, workers)
    return predicting.sum_up(outcome, predictor, source.name, to, first.columns)


extract = _run_to_end(iter_extract, "FeatureShards")
fit_shards = _run_to_end(iter_fit_shards, "ShardedComparison")
predict_shards = _run_to_end(iter_predict_shards, "ShardedAnswers")
