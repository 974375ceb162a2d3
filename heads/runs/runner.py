"""A run from its question to its leaderboard; begun, or resumed where it was left.

Whatever is finished lies on disk at once, and a resumed run gives the numbers that it would
have given without a break.
"""

import contextlib
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.errors import RecipeError
from heads.evaluation.details import measure
from heads.evaluation.predictions import MAJORITY, OWN, TFIDF
from heads.events import Progress, rising, within
from heads.runs import spec
from heads.runs.baseline_cells import (
    Baseline,
    commonest,
    is_kept,
    keep_baseline,
    own_answers,
    words_job,
)
from heads.runs.cells import Cell, TuningReport, keep, keep_failure, kept
from heads.runs.duration import Expected, check_tuning, expected
from heads.runs.features import (
    WORKSPACE,
    CellDone,
    check_room,
    cut_states,
    estimated,
    run_features,
    run_token_states,
    training_data_of,
)
from heads.runs.folder import Clock, RunFolder, new_folder
from heads.runs.grids import chosen_recipes
from heads.runs.leaderboard import Leaderboard, leaderboard
from heads.runs.learning_curve import learning_curve
from heads.runs.racing import race, stopped_of
from heads.runs.spec import RunRequest, RunSpec, fill_counts, rows_of, specified
from heads.runs.trained_heads import check_model, keep_head, latencies
from heads.settings import current_limits
from heads.training.events import (
    CurvePointTried,
    SearchFinished,
    SeedFitting,
    TrialFailed,
    TrialResult,
)
from heads.training.finetuning.checkpoints import forget
from heads.training.scheduler import Job, Scheduler, TrainingData, run_trials
from heads.training.search import fit_job, trial_job
from heads.training.trial import Trial, trials

Trying = CurvePointTried | SeedFitting

# --- The cells of a run, trained on all cores; each is measured and kept as it comes.


def filled(
    run: RunFolder,
    asked: RunSpec,
    cells: Sequence[Trial],
    training_data: TrainingData,
    backbone: Backbone,
    scheduler: Scheduler = run_trials,
) -> Generator[Progress | Trying | CellDone, None, None]:
    """Train what is still to be trained, the baselines too; of a race, whoever is left in it."""
    workers = max(1, torch.get_num_threads())
    if not is_kept(run, asked, MAJORITY):  # the heads that are kept name its score
        yield _done(
            run, asked, keep_baseline(run, asked, commonest(asked, training_data), training_data)
        )
    if OWN in asked.baselines and not is_kept(run, asked, OWN):
        own = own_answers(asked, training_data, backbone)
        yield _done(run, asked, keep_baseline(run, asked, own, training_data))
    searched: Mapping[str, SearchFinished | TrialFailed] = {}
    if asked.config.race:
        searched = yield from race(run, asked, cells, training_data, workers, scheduler)
    jobs = _left(run, asked, cells, training_data, searched)
    if TFIDF in asked.baselines and not is_kept(run, asked, TFIDF):
        jobs.append(words_job(asked, training_data, cells[0].reading))
    with contextlib.closing(scheduler(jobs, training_data, workers)) as events:
        for event in events:
            if told := _kept(run, asked, event, training_data, backbone):
                yield told


def _kept(
    run: RunFolder, asked: RunSpec, event: object, training_data: TrainingData, backbone: Backbone
) -> Trying | CellDone | Progress | None:
    """Keeps what a core has made, and says so; None, where there is nothing to say."""
    if isinstance(event, TrialResult):
        return _kept_cell(run, asked, event, training_data, backbone)
    if isinstance(event, Baseline):
        return _done(run, asked, keep_baseline(run, asked, event, training_data))
    if isinstance(event, TrialFailed):
        forget(run.path / WORKSPACE, event.name)
        return keep_failure(run, asked.names.index(event.name), event.says)
    return event if isinstance(event, CurvePointTried | SeedFitting) else None


def _left(
    run: RunFolder,
    asked: RunSpec,
    cells: Sequence[Trial],
    training_data: TrainingData,
    searched: Mapping[str, SearchFinished | TrialFailed],
) -> list[Job]:
    """What is still to be done; of a cell that has been searched, the second half."""
    out = {one.recipe for one in stopped_of(run)}
    jobs = list[Job]()
    for cell in cells:
        before = searched.get(cell.name)
        is_done = cell.name in out or kept(run, asked.recipes.index(cell.name)) is not None
        if isinstance(before, SearchFinished) and not is_done:
            jobs.append(fit_job(cell, training_data, before))
        elif before is None and not is_done:
            jobs.append(trial_job(cell, training_data))
    return jobs


def _kept_cell(
    run: RunFolder,
    asked: RunSpec,
    result: TrialResult,
    training_data: TrainingData,
    backbone: Backbone,
) -> CellDone | Progress:
    """Measure a cell and save it, its measures last; one that answers NaN fails alone."""
    name, number = result.trial.name, asked.recipes.index(result.trial.name)
    try:
        measures = measure(result.outcome, training_data.task)
    except RecipeError as error:
        return keep_failure(run, number, str(error))
    cell = Cell(
        name=name,
        measures=measures,
        parameters=result.trial.parameters,
        seconds=result.seconds,
        chosen=result.chosen[0],
        chosen_by_seed=result.chosen,
        tried=result.tried,
        development_score=result.development_score,
        tuning=_tuning(result),
    )
    keep_head(run, number, result, asked, cell.measures, backbone)
    keep(run, number, cell, result.outcome, training_data.task)
    if result.trial.is_tuned:
        forget(run.path / WORKSPACE, name)
    return _done(run, asked, cell)


def _tuning(result: TrialResult) -> TuningReport | None:
    """What it took to learn the base model as well, over all seeds."""
    if not result.trial.is_tuned:
        return None
    return TuningReport(
        parameters=result.trial.base_parameters,
        diverged=sum(one.diverged for one in result.learned),
        peak_bytes=max(one.peak_bytes for one in result.learned),
    )


def _done(run: RunFolder, asked: RunSpec, cell: Cell) -> CellDone:
    done = len(stopped_of(run)) + _recipes_done(run, asked)
    return CellDone(cell=cell, done=done, planned=len(asked.recipes))


Event = Progress | Trying | CellDone | Leaderboard


def begin(request: RunRequest, *, out: Path | None = None, run: str = "") -> RunFolder:
    """Check a whole request and write it into a new run; nothing is trained yet.

    Args:
        out: The run's folder, or None for the place where runs are kept.
        run: Its id there, or nothing for one that is made up.
    """
    asked, _, _ = _checked(request)
    made = new_folder(asked.corpus.name, out=out, is_public=current_limits().public, run=run)
    with made.beginning():
        spec.save(made, asked)
    return made


def _checked(request: RunRequest) -> tuple[RunSpec, list[Trial], Backbone]:
    """The question, held to the base model and to what this place allows."""
    backbone = load(request.base)
    corpus = rows_of(request.data, request.test, request.config.unseen)
    choice = chosen_recipes(request, corpus, backbone)
    cells = trials(choice.recipes, backbone, len(corpus.classes), corpus.problem, choice.built)
    by_seed = request.config.per_class > 0 or "test" in corpus.parts
    config, most = request.config, current_limits().run_seconds
    if most and not 0 < config.budget_seconds <= most:
        config = replace(config, budget_seconds=most)
    config, told = fill_counts(config, choice.recipes, by_seed=by_seed)
    allowed, names = replace(request, config=config), [cell.name for cell in cells]
    asked = specified(allowed, corpus, backbone, names, [*choice.notes, *told])
    _ = asked.splits  # which says it where there are too few rows
    check_room(asked, cells, backbone)
    check_tuning(asked, cells)
    return asked, cells, backbone


def probed(request: RunRequest, stop: threading.Event | None = None) -> Expected:
    """Estimate how long a run would take, before it begins: some texts are read for it."""
    return expected(*_checked(request), stop)


def cells_of(asked: RunSpec, backbone: Backbone) -> list[Trial]:
    """The cells of a run."""
    corpus = asked.corpus
    return trials(asked.resolved, backbone, len(corpus.classes), corpus.problem)


def foreseen(run: RunFolder) -> Expected:
    """Estimate how long the heads of a run that are not trained yet will take."""
    asked = spec.load(run)
    backbone = load(asked.model, download=not current_limits().public)
    cells = cells_of(asked, backbone)
    left = [cell for number, cell in enumerate(cells) if kept(run, number) is None]
    return expected(asked, left, backbone)


def working(run: RunFolder, scheduler: Scheduler = run_trials) -> Generator[Event, None, None]:
    """Works on a run until it is finished; closing the iterator stops it, results kept.

    Args:
        scheduler: Does the work on cells, on this machine or on several.

    Yields:
        `Progress`, whose share never falls, `CurvePointTried` for every point of a validation
        curve, `SeedFitting` where a seed of a tuned cell begins its last training, `CellDone` for
        every cell, and the `Leaderboard` at the end, also where the time allowed was used up.

    Raises:
        HeadsError: The run is broken, busy, or its base model has changed.
    """
    with run.held():
        _mend(run)
        if _is_whole(run):
            # One that was killed at its very end lacks it.
            yield leaderboard(run) if run.read("leaderboard.json") else _compared(run)
            return
        clock = Clock(run)
        state = "stopped"
        try:
            asked = spec.load(run)
            before = _recipes_done(run, asked)
            yield Progress(says=f"Loading {asked.model}", share=0.0)
            # In public a page fetches models before, within bounds that nobody holds here.
            backbone = load(asked.model, download=not current_limits().public)
            check_model(run, asked, backbone)
            for event in rising(_worked(run, asked, backbone, scheduler)):
                yield event
                if clock.is_over(asked.config) or _has_enough(run, asked, before):
                    break
            else:
                state = "finished"
        finally:
            clock.stop(state)
        yield _compared(run)


def _mend(run: RunFolder) -> None:
    """Delete what is damaged, and each cell of which a file is missing: they are computed anew."""
    asked, is_any = spec.load(run), run.delete_damaged()
    for number, name in enumerate(asked.names):
        files = {
            f"cells/{number:03}.json": ["cells", "heads"] if name in asked.recipes else ["cells"],
            f"race/{number:03}.json": ["race"],
        }
        for note, folders in files.items():
            paths = [run.path / folder / f"{number:03}.safetensors" for folder in folders]
            if (run.path / note).is_file() and not all(path.is_file() for path in paths):
                (run.path / note).unlink()
                is_any = True
    if is_any:
        (run.path / "end.json").unlink(missing_ok=True)


def _has_enough(run: RunFolder, asked: RunSpec, before: int) -> bool:
    """Whether as many recipes are done as the settings want; that is of each resumption."""
    most = asked.config.budget_cells
    done = _recipes_done(run, asked) if most else 0
    return 0 < most <= done - before and done < len(asked.recipes)


def _recipes_done(run: RunFolder, asked: RunSpec) -> int:
    """How many recipes are done."""
    return sum((run.path / f"cells/{at:03}.json").is_file() for at in range(len(asked.recipes)))


def _is_whole(run: RunFolder) -> bool:
    """Whether a run has ended with every cell done: there is nothing to go on with."""
    asked = spec.load(run)
    is_over = (run.read("end.json") or {}).get("state") == "finished"
    files = (run.path / f"cells/{number:03}.json" for number in range(len(asked.names)))
    done = len(stopped_of(run)) + sum(file.is_file() for file in files)
    return is_over and done == len(asked.names)


def stopped(run: RunFolder) -> None:
    """Note that a run was stopped from outside, if it had not ended by itself."""
    with run.held():
        if run.read("end.json") is None:
            Clock(run).stop("stopped")
        if run.read("leaderboard.json") is None:
            _compared(run)


def _compared(run: RunFolder) -> Leaderboard:
    """The leaderboard, which is kept for lists of runs: they read nothing else."""
    found = leaderboard(run)
    values = found.as_json()
    for cell in values["cells"]:
        del cell["confusion"]  # these tables lie beside the cells and may be large
    run.write("leaderboard.json", values)
    return found


def _worked(
    run: RunFolder, asked: RunSpec, backbone: Backbone, scheduler: Scheduler
) -> Generator[Progress | Trying | CellDone, None, None]:
    cells = cells_of(asked, backbone)
    # All texts are read again where the states of their tokens are kept, or those at a cut.
    again = any(cell.needs_states for cell in cells), any(cell.cut_layers for cell in cells)
    once = 0.4 / (1 + sum(again))
    read = yield from within(run_features(run, asked, cells, backbone), 0.0, once)
    states = yield from within(run_token_states(run, asked, cells, read, backbone), once, once)
    cut = yield from within(cut_states(asked, cells, backbone), 0.4 - once, once)
    training_data = training_data_of(run, asked, read, states, cut)
    yield from estimated(run, asked, cells, training_data)
    yield from filled(run, asked, cells, training_data, backbone, scheduler)
    if asked.config.curve and run.read("curve.json") is None:
        yield Progress(says="Training the leaders on fewer rows", share=0.95)
        workers = max(1, torch.get_num_threads())
        yield from learning_curve(run, asked, cells, training_data, workers, scheduler)
    yield Progress(says="Timing every head on one text", share=0.99)
    run.write("latency.json", latencies(run, asked, backbone))
