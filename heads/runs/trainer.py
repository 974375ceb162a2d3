"""One head, or a few, trained without a run: each is to the last bit what a run would keep of it.

A run trains a recipe on every split, scores all of them, and keeps the head of the first. What
that one learns does not depend on the others, so here it is trained alone, at a share of the cost;
its scores and its temperature are those of its own split. Or it learns from every row, as the
first does that a run scores on a test set, and has no scores.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.device import products
from heads.classifier import head_cache
from heads.classifier.calibration import calibrate
from heads.classifier.inputs import check_pairs
from heads.classifier.module import Refit, TrainedHead
from heads.data.corpus import Corpus
from heads.data.joining import settle_unseen
from heads.evaluation.details import measure
from heads.events import Progress, within
from heads.features.text_store import extract_by_text
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.baseline_cells import commonest
from heads.runs.duration import check_tuning
from heads.runs.features import (
    Extract,
    check_room,
    cut_states,
    features,
    in_chunks,
    token_states,
)
from heads.runs.spec import RunSpec, spec_of, splits_of, task_of
from heads.runs.trained_heads import scores_of, trained_head
from heads.settings import ExperimentConfig
from heads.training.events import TrialFailed, TrialResult
from heads.training.objective import check_order
from heads.training.scheduler import Job, TrainingData, run_trials
from heads.training.search import refit_job, trial_job
from heads.training.trial import Trial, trials


def train(
    recipes: Sequence[ResolvedRecipe],
    corpus: Corpus,
    backbone: Backbone,
    *,
    config: ExperimentConfig | None = None,
) -> Generator[Progress, None, list[TrainedHead]]:
    """Trains every recipe on the first split of the corpus; all of them on one forward pass.

    Returns:
        The heads, in the order of the recipes.

    Raises:
        RecipeError: A recipe does not fit the base model or the labels.
        LimitError: A head would be too large.
        DataError: There are too few rows to learn from, to choose on and to score, one text a row
            where a recipe compares two, or classes without an order where a head needs one.
    """
    config = config or ExperimentConfig()
    corpus = settle_unseen(corpus, config.unseen)
    cells = _checked(recipes, corpus, backbone)
    asked = spec_of(corpus, backbone, [cell.name for cell in cells], config)
    reads = in_chunks(asked, config.precision, config.precision)
    found = yield from _trained(asked, cells, backbone, reads)
    return [found[str(recipe)] for recipe in recipes]


def refit(
    head: TrainedHead,
    corpus: Corpus,
    backbone: Backbone,
    config: ExperimentConfig,
    trainings: int,
) -> Generator[Progress, None, TrainedHead]:
    """Train a scored head again on every row, with the settings that its search chose.

    Temperature and thresholds stay as they were found, on rows that the scored head had not seen.

    Args:
        trainings: How many trainings the score is the mean of.
    """
    begun = time.perf_counter()
    cells = _checked([head.asked], corpus, backbone)
    scored = spec_of(corpus, backbone, [cells[0].name], config)
    reads = in_chunks(scored, config.precision, config.precision)  # as they are kept
    has_learned = head.scores is not None and head.scores.accuracy > head.scores.majority
    job = partial(refit_job, chosen=head.chosen, has_learned=has_learned)
    asked = replace(scored, is_scored=False)
    found = yield from _trained(asked, cells, backbone, reads, job)
    how = Refit(rows=head.rows, trainings=trainings, seconds=time.perf_counter() - begun)
    return replace(
        found[cells[0].name],
        scores=head.scores and replace(head.scores, own=None),
        temperature=head.temperature,
        thresholds=head.thresholds,
        refit=how,
    )


def fit(
    recipe: ResolvedRecipe,
    corpus: Corpus,
    backbone: Backbone,
    *,
    config: ExperimentConfig,
) -> Generator[Progress, None, TrainedHead]:
    """Train a recipe on every row of the corpus; none is held out, so it has no scores.

    What the base model makes of a text is kept for the next call, whatever rows that has.
    """
    cells = _checked([recipe], corpus, backbone)
    asked = spec_of(corpus, backbone, [cell.name for cell in cells], config, is_scored=False)
    reads = extract_by_text, extract_by_text
    found = yield from _trained(asked, cells, backbone, reads)
    return calibrate(found[str(recipe)])


def _checked(recipes: Sequence[ResolvedRecipe], corpus: Corpus, backbone: Backbone) -> list[Trial]:
    """The cells of some recipes, held to the base model and the rows."""
    cells = trials(recipes, backbone, len(corpus.classes), corpus.problem)
    for cell in cells:
        check_pairs(cell.resolved, corpus.pairs)
        check_order(cell.resolved, corpus)
    return cells


def _trained(
    asked: RunSpec,
    cells: Sequence[Trial],
    backbone: Backbone,
    reads: tuple[Extract, Extract],
    job_of: Callable[[Trial, TrainingData], Job] = trial_job,
) -> Generator[Progress, None, dict[str, TrainedHead]]:
    """The head of every cell by its name: texts read, then learned from on the first split."""
    check_room(asked, cells, backbone)
    check_tuning(asked, cells, seeds=1)
    config = asked.config
    # Texts are read again where the states of tokens are kept, or those at a cut.
    again = any(cell.needs_states for cell in cells), any(cell.cut_layers for cell in cells)
    once = 0.5 / (1 + sum(again))
    read = yield from within(features(asked, cells, backbone, *reads), 0.0, once)
    states = yield from within(
        token_states(asked, cells, read, backbone, config.precision), once, once
    )
    cut = yield from within(cut_states(asked, cells, backbone), 0.5 - once, once)
    training_data = TrainingData(
        read=read,
        task=asked.task,
        splits=asked.splits.only(0),
        config=config,
        states=states,
        products=products(config.precision),
        texts=asked.corpus.texts,
        pairs=asked.corpus.pairs,
        cut_states=cut,
    )
    jobs = [job_of(cell, training_data) for cell in cells]
    return (yield from _fitted(asked, jobs, training_data, backbone))


def _fitted(
    asked: RunSpec, jobs: Sequence[Job], training_data: TrainingData, backbone: Backbone
) -> Generator[Progress, None, dict[str, TrainedHead]]:
    """The head of every cell by its name, on all cores."""
    task, found = training_data.task, dict[str, TrainedHead]()
    usual = measure(commonest(asked, training_data).outcome, task).score if asked.is_scored else 0.0
    with closing(run_trials(jobs, training_data, max(1, torch.get_num_threads()))) as events:
        for event in events:
            if isinstance(event, TrialFailed):
                raise event.error
            if isinstance(event, TrialResult):
                scores = None
                if asked.is_scored:  # whoever was trained beside it says nothing of it
                    scores = scores_of(event, asked, measure(event.outcome, task), usual)
                    scores = replace(scores, among=1)
                found[event.trial.name] = trained_head(event, asked, scores, backbone)
                yield Progress(
                    says=f"Trained {event.trial.name}", share=0.5 + len(found) / len(jobs) / 2
                )
    return found


def first_split(
    corpus: Corpus, config: ExperimentConfig
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the rows from which such a head learns, and of those on which it is scored."""
    splits = splits_of(corpus, task_of(corpus), config, aside=config.unseen == "aside")
    return tuple(splits.train[0].tolist()), tuple(splits.test[0].tolist())


def trained(
    recipes: Sequence[ResolvedRecipe],
    corpus: Corpus,
    backbone: Backbone,
    config: ExperimentConfig | None = None,
) -> Generator[Progress, None, list[TrainedHead]]:
    """Find or train heads on these texts; return them calibrated, in the order of the recipes."""
    config = config or ExperimentConfig()
    keys = [head_cache.fingerprint(recipe, corpus, backbone, config) for recipe in recipes]
    found = {key: head_cache.recall(key, backbone) for key in keys}
    missing = {key: one for key, one in zip(keys, recipes, strict=True) if not found[key]}
    if missing:
        ours = list(missing.values())
        heads = yield from train(ours, corpus, backbone, config=config)
        for key, head in zip(missing, heads, strict=True):
            found[key] = head
            head_cache.keep(key, head)
    return [calibrate(head) for key in keys if (head := found[key])]
