"""The public functions of the extra: `extract`, `fit_shards` and `predict_shards`.

Each has a generator that yields progress and returns the result: `iter_extract` and so on. Torch is
imported only inside them, so that the help of a command is printed at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.errors import DataError
from heads.events import Progress, result
from heads.extras.scale.options import ExtractOptions, FitShardsOptions, PredictShardsOptions
from heads.extras.scale.pool import HERE, check_place, make_caller, open_pool
from heads.options import PredictOptions, merge_options, takes_options
from heads.settings import ExperimentConfig

if TYPE_CHECKING:
    from heads.extras.scale.comparison import ShardedComparison
    from heads.extras.scale.pieces import Data
    from heads.extras.scale.predicting import ShardedAnswers
    from heads.extras.scale.shards import FeatureShards

DTYPES = "float32", "float16"
FIRST = 200  # rows in which the columns to predict from are found


@takes_options(ExtractOptions)
def extract(
    data: Data, to: str | Path, *, options: ExtractOptions | None = None, **changes: Any
) -> FeatureShards:
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
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        What lies in the folder: `.rows`, `.readings`, `.source.files`.

    Raises:
        HeadsError: The arguments do not fit each other, the data or the base model.
    """
    (merged,) = merge_options((options or ExtractOptions(),), changes)
    return result(iter_extract(data, to, merged))


def iter_extract(
    data: Data, to: str | Path, options: ExtractOptions
) -> Generator[Progress, None, FeatureShards]:
    """Yield the progress of `extract`, and return its result."""
    from heads.backbone.loading import load
    from heads.extras.scale.extraction import Encoder, find_columns, resolve_reading
    from heads.extras.scale.pieces import Work, absolute, absolute_model, open_source, process
    from heads.extras.scale.shards import FEATURES, FeatureShards
    from heads.features.extraction import most_at_once

    to, model = absolute(to), absolute_model(options.model)
    check_place(options.on)
    if options.dtype not in DTYPES:
        what = f"Features are kept as {' or '.join(DTYPES)}, not {options.dtype:.40}."
        raise DataError(what, "Choose.")
    backbone = load(model)
    backbone.check_reads()
    readings = [options.readings] if isinstance(options.readings, str) else options.readings
    recipes = tuple(str(resolve_reading(name, backbone).recipe) for name in dict.fromkeys(readings))
    yield Progress(says="Looking at the rows", share=0.0)
    source = open_source(data, to)
    text, pair = find_columns(source, options.text, options.pair)
    facts = {"recipes": recipes, "text": text, "pair": pair, "dtype": options.dtype}
    work = Work(
        to=to,
        kind=FEATURES,
        facts=Encoder(backbone=backbone, **facts).facts(),
        make=lambda: Encoder(backbone=load(model), **facts),
        rows_each=options.rows_each or source.rows_each(most_at_once(backbone)),
    )
    outcome = yield from process(work, source, options.on, options.workers)
    return replace(FeatureShards.load(to), fresh=outcome.fresh, seconds=outcome.seconds)


@takes_options(FitShardsOptions)
def fit_shards(
    data: Data | FeatureShards,
    *,
    config: ExperimentConfig | None = None,
    options: FitShardsOptions | None = None,
    **changes: Any,
) -> ShardedComparison:
    """Compare heads on features that need not fit in memory: raced on few rows, fitted on all.

    All recipes search their settings on the first rung of rows. Recipes that are surely behind are
    stopped; the better half of the others goes on to the next rung, and the best few are fitted on
    all rows. Up to 250,000 rows are learned from in memory. Beyond that one shard at a time is in
    memory: linear heads are solved by L-BFGS on summed gradients, ridge, lda, centroid and cosine
    from summed moments, and heads with more layers step by step.

    Args:
        data: A folder of `heads.extract`, or Parquet files with a column of vectors and one of
            labels, whichever engine made them: a path, a URL, a pattern, a folder, or several.
        config: Its seed draws the rows and the new weights; see `heads.ExperimentConfig`.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        The comparison on held-out rows: `.verdict`, `.cells`, `.rungs`, `.best`,
        `.classifier(recipe)`.

    Raises:
        HeadsError: The arguments do not fit each other or the data.
    """
    (merged,) = merge_options((options or FitShardsOptions(),), changes)
    return result(iter_fit_shards(data, merged, config or ExperimentConfig(curve=False)))


def iter_fit_shards(
    data: Data | FeatureShards, options: FitShardsOptions, config: ExperimentConfig
) -> Generator[Progress, None, ShardedComparison]:
    """Yield the progress of `fit_shards`, and return its result."""
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
    check_place(options.on)
    shards = data if isinstance(data, FeatureShards) else FeatureShards.load(data)
    backbone = load_backbone(shards, options.vectors)
    resolved = resolve_recipes(options.recipes, shards, backbone)
    options = replace(options, label=find_label_column(shards, options.label))
    if options.split:
        shards.source.check_column(options.split, "splits")
    with contextlib.closing(open_pool(make_caller, options.on, options.workers)) as pool:
        yield Progress(says="Counting labels", share=0.0)
        counts, classes = count_labels(shards.source, options.label, pool)
        cells = trials(resolved, backbone, len(classes), SINGLE_LABEL)
        for cell in cells:
            check_streams(cell.fitter, cell.name)
        sample = ShardSample.of_rows(counts.total(), config.seed, options.split)
        race = Race(
            shards=shards, classes=classes, cells=cells, backbone=backbone, pool=pool,
            sample=sample, config=config, options=options, rows=counts.total(),
        )  # fmt: skip
        yield from race.run()
        return race.compare(time.perf_counter() - begun)


@takes_options(PredictShardsOptions)
def predict_shards(
    data: Data, to: str | Path, *, options: PredictShardsOptions | None = None, **changes: Any
) -> ShardedAnswers:
    """Predict any number of rows, piece after piece, into a folder of Parquet files.

    Rows, head and columns are chosen as by `heads.predict`. The same call resumes where it was
    stopped. On Ray, the folder of a run must be on a disk that all nodes share.

    Args:
        data: As of `heads.extract`; with a column of vectors where the head learned from vectors.
        to: The folder to write, a path or URL: the rows with the columns of the answers.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        Counts of rows and answers: `.rows`, `.answered`, `.counts`, `.to`.

    Raises:
        HeadsError: The arguments do not fit each other, the data or the head.
    """
    (merged,) = merge_options((options or PredictShardsOptions(),), changes)
    return result(iter_predict_shards(data, to, merged))


def iter_predict_shards(
    data: Data, to: str | Path, options: PredictShardsOptions
) -> Generator[Progress, None, ShardedAnswers]:
    """Yield the progress of `predict_shards`, and return its result."""
    from heads.classifier.classifier import Classifier
    from heads.extras.scale import predicting
    from heads.extras.scale.pieces import Work, absolute, absolute_model, open_source, process
    from heads.inference.selection import select_file_head

    to = absolute(to)
    if check_place(options.on) != HERE and isinstance(options.recipe, Classifier):
        what = "A classifier in memory is not sent to other machines."
        raise DataError(what, "Export it, and name the folder (model).")
    shared = {field.name for field in fields(options)} & {f.name for f in fields(PredictOptions)}
    predict_options = PredictOptions(**{name: getattr(options, name) for name in shared})
    predict_options = replace(predict_options, model=absolute_model(options.model))
    head = yield from select_file_head(predict_options)
    yield Progress(says="Looking at the rows", share=0.0)
    source = open_source(data, to)
    predictor = predicting.Predictor(head=head, options=predict_options)
    # The columns are found once, so that no piece takes another for the texts; and what cannot be
    # answered is said before any worker is started.
    first = predictor.predict(source.pieces(FIRST)[0].read())
    predict_options = replace(
        predict_options, text=first.text, pair=first.pair, vectors=first.vectors
    )
    predictor = replace(predictor, options=predict_options)
    work = Work(
        to=to,
        kind=predicting.ANSWERS,
        facts=predicting.collect_facts(predictor, first.columns),
        make=lambda: predicting.Predictor(
            head=result(select_file_head(predict_options)), options=predict_options
        ),
        rows_each=options.rows_each or source.rows_each(),
    )
    outcome = yield from process(work, source, options.on, options.workers)
    return predicting.sum_up(outcome, predictor, source.name, to, first.columns)
