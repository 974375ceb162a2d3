"""A run in a tracker of experiments, where somebody asks for it: a tracker's run for every cell.

So they are sorted and filtered there by what they are and by how well they do. trackio and W&B
share their calls (https://huggingface.co/docs/trackio), so one adapter is for both; MLflow
(https://mlflow.org/docs/latest/api_reference) has its own. Where a tracker keeps what it is given
(a folder, a server) is what it is itself told, such as by $MLFLOW_TRACKING_URI.

Settings and measures are handed over: no text, no label, no name of a class, no path of this
machine. What trackers collect by themselves of machine, code and console is switched off.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import io
import re
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from shlex import quote
from typing import Any

from heads import display
from heads.errors import DataError, HeadsError, LimitError, did_you_mean
from heads.events import Progress
from heads.hub import HUB_ID
from heads.interfaces.views.format import counted
from heads.runs.cells import Cell
from heads.runs.folder import DATED, UNGUESSABLE, find
from heads.runs.leaderboard import Leaderboard
from heads.runs.spec import RunSpec, load
from heads.settings import Limits

Scalar = str | int | float | bool

SECONDS = 30  # without an answer of a server
# A password in an address, and a token behind it.
SECRETS = re.compile(r"(?<=://)[^/\s]*@|(?<=write_token=)[^&\s]*")
LONGEST = 300  # characters that are told of an error of a tracker's


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a tracker is given of a cell.

    Attributes:
        id: The same whenever this cell is logged, so that it is found again.
        name: The recipe.
        group: The run that it is of.
        params: What it is: data, base model, recipe, settings.
        metrics: How well it does; shares, not percent.
        tags: "recommended" or "baseline", where it is.
    """

    id: str
    name: str
    group: str
    params: Mapping[str, Scalar]
    metrics: Mapping[str, float]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked(display.Displayed):
    """What was logged, and where it is now.

    Attributes:
        tracker: trackio, wandb or mlflow.
        project: The project; MLflow calls it an experiment.
        group: The run, as its cells are grouped there.
        place: The folder, the data base or the address.
        see: The command that shows or sends it; "" where an address does.
        logged: The names of the cells.
        notes: What one should know, a sentence each.
    """

    tracker: str
    project: str
    group: str
    place: str
    see: str
    logged: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def describe(self) -> display.Description:
        """Return what shell and notebook show."""
        where = f"{self.project} of {self.tracker}: {self.place}"
        title = f"{counted(len(self.logged), 'cell')} of {self.group} are in {where}"
        blocks = (*self.notes, *([display.Code(self.see)] if self.see else []))
        return display.Description(title=title, blocks=blocks)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values: the answer of `heads track --json`."""
        lists = {"logged": list(self.logged), "notes": list(self.notes)}
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | lists


# --- What is handed over.


def entries(board: Leaderboard) -> tuple[Entry, ...]:
    """What a tracker is given of every cell that is done."""
    asked = load(find(str(board.folder.path)))
    group = group_of(board.run, asked.created)
    return tuple(
        Entry(
            id=hashlib.sha256(f"{group} {cell.name}".encode()).hexdigest()[:16],
            name=cell.name,
            group=group,
            params=_params(board, cell, asked),
            metrics=_metrics(board, cell),
            tags=("recommended",) * (cell.name == board.recommendation.name)
            + ("baseline",) * cell.is_baseline,
        )
        for cell in board.cells
    )


def group_of(run: str, created: float) -> str:
    """What cells are grouped by: the id of their run, with its date where that is not in it.

    A folder that its user has named may well be called "run", as another one is.
    """
    if re.search(f"{DATED}$", run) or UNGUESSABLE.fullmatch(run):
        return run
    return f"{run[:48]}-{time.strftime('%m%d-%H%M%S', time.localtime(created))}"


def _params(board: Leaderboard, cell: Cell, asked: RunSpec) -> dict[str, Scalar]:
    """What a cell is; of the settings, what was decided stands in place of "auto"."""
    test, recipe = asked.account.get("test"), board.recipes.get(cell.name)
    parts: dict[str, Scalar] = {}
    if recipe is not None:  # and no baseline
        parts = {
            "reading": recipe.reading,
            "pooling": recipe.pooling.name,
            "layer": recipe.layers.name if recipe.layers else recipe.layer,
            "head": recipe.head.name,
            "loss": recipe.loss,
            "tune": recipe.tune,
        }
    told = {
        **asdict(asked.config),
        "run": board.run,
        "data": board.data,
        "test": test["name"] if test else None,
        "rows": board.rows,
        "classes": len(board.classes),
        "problem": board.problem.name,
        "metric": board.metric,
        "model": board.model if HUB_ID.fullmatch(board.model) else Path(board.model).name,
        "revision": board.revision,
        "precision": board.precision,
        "recipe": cell.name,
        **parts,
        "settings_tried": cell.trials,
        **{f"chosen_{name}": value for name, value in cell.chosen.items()},
    }
    return {name: value for name, value in told.items() if isinstance(value, Scalar)}


def _metrics(board: Leaderboard, cell: Cell) -> dict[str, float]:
    """How well a cell does: its score by the name of the metric, and all that stands beside it."""
    own, apart, name = cell.measures, cell.to_reference, board.metric
    told = {
        **own.values,
        name: own.score,
        f"{name}_low": own.low,
        f"{name}_high": own.high,
        "development_score": None if cell.is_baseline else cell.development_score,
        "parameters": cell.learned,
        "train_seconds": cell.seconds,
        "latency_ms": cell.latency_ms,
    }
    if apart:
        told |= {"to_reference": apart.difference}
        told |= {"to_reference_low": apart.low, "to_reference_high": apart.high}
    return {key: float(v) for key, v in told.items() if v is not None and isfinite(v)}


# --- Who it is handed to.


class CommonCalls:
    """What trackio and W&B have in common: `init` with a group and a config, `log`, `finish`.

    Attributes:
        place: Where entries are once they are handed over; "" before the first.
        see: The command that shows or sends them.
    """

    def __init__(self, project: str, library: str) -> None:
        self._library = importlib.import_module(library)
        self._project = project
        self._own: Callable[[Entry], dict[str, Any]] = getattr(self, f"_of_{library}")
        self.place = self.see = ""
        if library == "wandb":
            self._check_wandb()

    def log(self, entry: Entry) -> None:
        """Logs one cell in a context of its own, so that a run of the user's stays as it is."""
        Context().run(self._log, entry)

    def _log(self, entry: Entry) -> None:
        run = self._library.init(
            project=self._project, group=entry.group, resume="allow", **self._own(entry)
        )
        try:
            run.log(dict(entry.metrics))
            self.place, self.see = self._found(run)
        finally:
            run.finish()

    def _of_trackio(self, entry: Entry) -> dict[str, Any]:
        """It finds a run again by its name alone, and knows no tags."""
        tags = {f"is_{tag}": tag in entry.tags for tag in ("recommended", "baseline")}
        return {
            "name": f"{entry.name} {entry.group}",
            "config": {**entry.params, **tags},
            "embed": False,
            "auto_log_cpu": False,
            "auto_log_gpu": False,
        }

    def _of_wandb(self, entry: Entry) -> dict[str, Any]:
        settings = self._library.Settings(
            silent=True,
            console="off",
            init_timeout=SECONDS,
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        return {
            "id": entry.id,
            "name": entry.name,
            "config": dict(entry.params),
            "tags": entry.tags,
            "reinit": "create_new",
            "settings": settings,
        }

    def _check_wandb(self) -> None:
        """Refuses what would log nothing, or ask for a key at the terminal."""
        mode = self._library.setup().settings.mode
        if mode == "disabled":
            raise HeadsError("W&B is switched off here (WANDB_MODE=disabled).", "Unset it.")
        if mode == "online" and not self._library.login(prompt=False):
            hint = "Run: wandb login, or set WANDB_MODE=offline to keep it on this machine."
            raise HeadsError("W&B has no API key on this machine.", hint)

    def _found(self, run: Any) -> tuple[str, str]:
        """Where a run is, and the command that shows or sends it."""
        if self._library.__name__ == "trackio":
            if run.url:
                return run.url, ""
            return str(self._library.TRACKIO_DIR), f"trackio show --project {quote(self._project)}"
        if run.offline:
            folder = str(Path(run.settings.sync_dir).parent)
            return folder, f"wandb sync {quote(folder)}/offline-run-*"
        return str(run.project_url), ""


class MLflow:
    """MLflow by its client, which leaves the active experiment and run of the user alone.

    Attributes: as of `CommonCalls`.
    """

    def __init__(self, project: str) -> None:
        self._library = importlib.import_module("mlflow")
        self._client = self._library.MlflowClient()
        with self._not_for_long():
            known = self._client.get_experiment_by_name(project)
            made = known.experiment_id if known else self._client.create_experiment(project)
        self._experiment = made
        self.place = uri = self._library.get_tracking_uri()
        is_address = uri.startswith(("http:", "https:", "databricks"))
        self.see = "" if is_address else f"mlflow ui --backend-store-uri {quote(uri)}"

    def log(self, entry: Entry) -> None:
        """Logs one cell, or brings it up to date: it is found again by a tag."""
        of, now = self._library.entities, int(time.time() * 1000)
        tags = {"group": entry.group, "cell_id": entry.id}
        tags |= {tag: str(tag in entry.tags).lower() for tag in ("recommended", "baseline")}
        with self._not_for_long():
            found = self._client.search_runs([self._experiment], f"tags.cell_id = '{entry.id}'")
            made = found or [self._client.create_run(self._experiment, run_name=entry.name)]
            run = made[0].info.run_id
            self._client.log_batch(
                run,
                metrics=[of.Metric(name, v, now, 0) for name, v in entry.metrics.items()],
                params=[of.Param(name, str(value)) for name, value in entry.params.items()],
                tags=[of.RunTag(name, value) for name, value in tags.items()],
            )
            self._client.set_terminated(run)

    @staticmethod
    @contextlib.contextmanager
    def _not_for_long() -> Iterator[None]:
        """Within it a server that does not answer is not asked for minutes, as it would be."""
        known = importlib.import_module("mlflow.environment_variables")
        most = {
            known.MLFLOW_HTTP_REQUEST_MAX_RETRIES: 1,
            known.MLFLOW_HTTP_REQUEST_TIMEOUT: SECONDS,
        }
        ours = [variable for variable in most if not variable.is_set()]
        for variable in ours:
            variable.set(most[variable])
        try:
            yield
        finally:
            for variable in ours:
                variable.unset()


TITLES = {"trackio": "trackio", "wandb": "W&B", "mlflow": "MLflow"}


# --- Handing it over.


def check_tracker(tracker: str, project: str, limits: Limits) -> None:
    """Refuses what could not be logged, before any work is done for it.

    Raises:
        LimitError: It is asked for in public.
        HeadsError: There is no such tracker, it is not installed, or the project has no name.
    """
    if limits.public:
        raise LimitError("Runs are logged in local mode alone.", "Run it on your own machine.")
    if tracker not in TITLES:
        hint = did_you_mean(tracker, TITLES)
        raise HeadsError(f"There is no tracker called '{tracker[:60]}'.", hint)
    if not project.strip():
        raise HeadsError("The project has no name.", "Name one, such as head-to-head.")
    if importlib.util.find_spec(tracker) is None:
        what = f"Logging to {TITLES[tracker]} needs {tracker}, not installed here."
        raise HeadsError(what, f"Run: pip install {tracker}")


def tracking(
    board: Leaderboard, tracker: str, project: str, limits: Limits
) -> Iterator[Progress | Tracked]:
    """Logs every cell that is done; one that was logged before is brought up to date.

    Raises:
        DataError: No cell is done.
        HeadsError: The tracker is not there, or does not take them.
    """
    check_tracker(tracker, project, limits)
    given = entries(board)
    if not given:
        raise DataError(f"No head of the run {board.run} is done yet.", "Log it later.")
    yield Progress(says=f"Opening {TITLES[tracker]}", share=0.0)
    with _asking(tracker):
        opened = MLflow(project) if tracker == "mlflow" else CommonCalls(project, tracker)
    for number, entry in enumerate(given):
        yield Progress(says=f"Logging {entry.name}", share=number / len(given))
        with _asking(tracker):
            opened.log(entry)
    yield Tracked(
        tracker=tracker,
        project=project,
        group=given[0].group,
        place=_without_secrets(opened.place),
        see=_without_secrets(opened.see),
        logged=tuple(entry.name for entry in given),
        notes=_notes(board),
    )


def _notes(board: Leaderboard) -> tuple[str, ...]:
    """What is not there, and why."""
    heads, stopped = [cell for cell in board.cells if not cell.is_baseline], len(board.stopped)
    left = board.planned - len(heads) - stopped
    notes = []
    if left > 0:
        told = f"{left} of {board.planned} heads are not trained: log the run again when they are."
        notes.append(told)
    if stopped:
        notes.append(f"{stopped} that the race has stopped have no score, and are not logged.")
    return tuple(notes)


@contextlib.contextmanager
def _asking(tracker: str) -> Iterator[None]:
    """Says in one sentence why a tracker does not take a run, and keeps what it prints to itself.

    trackio warns where it could keep nothing, and goes on.
    """
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            yield
        except HeadsError:
            raise
        except Exception as error:  # each has kinds of its own, and those of what it is made of
            raise _refused(tracker, str(error) or type(error).__name__) from None
    lost = [one for one in told if tracker == "trackio" and one.category is UserWarning]
    if lost:
        raise _refused(tracker, str(lost[0].message))


def _refused(tracker: str, says: str) -> HeadsError:
    line = _without_secrets(says).strip().partition("\n")[0]
    first = textwrap.shorten(line, LONGEST, placeholder=" …").rstrip(" .")
    return HeadsError(
        f"{TITLES[tracker]} does not take the run: {first}.", "Mend it; log it again."
    )


def _without_secrets(told: str) -> str:
    """An address, or a sentence with some, without passwords and tokens.

    >>> _without_secrets("postgresql://me:secret@host/db"), _without_secrets("a?write_token=x&b=1")
    ('postgresql://host/db', 'a?write_token=&b=1')
    """
    return SECRETS.sub("", told)
