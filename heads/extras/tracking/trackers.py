"""Log a run to a tracker of experiments: a run of the tracker for every cell.

trackio and W&B share their calls (https://huggingface.co/docs/trackio); MLflow
(https://mlflow.org/docs/latest/api_reference) has its own. No text, label, name of a class or path
of this machine is logged, and what trackers collect by themselves is switched off.
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
from collections.abc import Generator, Iterator, Mapping
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
from heads.runs.leaderboard import Leaderboard, leaderboard
from heads.runs.spec import RunSpec, load
from heads.settings import current_limits

Scalar = str | int | float | bool

TITLES = {"trackio": "trackio", "wandb": "W&B", "mlflow": "MLflow"}
SECONDS = 30  # for an answer of a server
# A password in an address, and a token behind it.
SECRETS = re.compile(r"(?<=://)[^/\s]*@|(?<=write_token=)[^&\s]*")
LONGEST = 300  # characters of a tracker's error that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A cell as it is logged."""

    id: str  # the same whenever this cell is logged
    name: str  # the recipe
    group: str  # the run of the cell
    params: Mapping[str, Scalar]  # data, base model, recipe and settings
    metrics: Mapping[str, float]  # its measures; fractions, not percent
    tags: tuple[str, ...]  # "recommended" or "baseline", where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked(display.Displayed):
    """What was logged, and where it is."""

    tracker: str  # trackio, wandb or mlflow
    project: str  # MLflow calls it an experiment
    group: str  # the run, as its cells are grouped there
    place: str  # the folder, the database or the address
    see: str  # the command that shows or sends it; "" of an address
    logged: tuple[str, ...]  # the names of the cells
    notes: tuple[str, ...] = ()

    def describe(self) -> display.Description:
        """Return what was logged and where, with the command that shows it."""
        where = f"{self.project} of {self.tracker}: {self.place}"
        title = f"{counted(len(self.logged), 'cell')} of {self.group} are in {where}"
        blocks = (*self.notes, *([display.Code(self.see)] if self.see else []))
        return display.Description(title=title, blocks=blocks)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self) | {"logged": list(self.logged), "notes": list(self.notes)}


# --- Entries.


def build_entries(board: Leaderboard) -> tuple[Entry, ...]:
    """Return an entry for every cell that is done."""
    spec = load(find(str(board.folder.path)))
    group = group_name(board.run, spec.created)
    return tuple(
        Entry(
            id=hashlib.sha256(f"{group} {cell.name}".encode()).hexdigest()[:16],
            name=cell.name,
            group=group,
            params=_params(board, cell, spec),
            metrics=_metrics(board, cell),
            tags=("recommended",) * (cell.name == board.recommendation.name)
            + ("baseline",) * cell.is_baseline,
        )
        for cell in board.cells
    )


def group_name(run: str, created: float) -> str:
    """Return the id of a run, with its date where the id has none, as of "run"."""
    if re.search(f"{DATED}$", run) or UNGUESSABLE.fullmatch(run):
        return run
    return f"{run[:48]}-{time.strftime('%m%d-%H%M%S', time.localtime(created))}"


def _params(board: Leaderboard, cell: Cell, spec: RunSpec) -> dict[str, Scalar]:
    """Return the settings of a cell; what was chosen replaces "auto"."""
    test, recipe = spec.account.get("test"), board.recipes.get(cell.name)
    params = {
        **asdict(spec.config),
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
        "settings_tried": cell.trials,
    } | {f"chosen_{name}": value for name, value in cell.chosen.items()}
    if recipe is not None:  # baselines have none
        params |= {name: getattr(recipe, name) for name in ("reading", "loss", "tune")}
        params |= {"pooling": recipe.pooling.name, "head": recipe.head.name}
        params["layer"] = recipe.layers.name if recipe.layers else recipe.layer
    return {name: value for name, value in params.items() if isinstance(value, Scalar)}


def _metrics(board: Leaderboard, cell: Cell) -> dict[str, float]:
    """Return the measures of a cell; its score has the name of the metric."""
    measures, difference, name = cell.measures, cell.to_reference, board.metric
    metrics = {
        **measures.values,
        name: measures.score,
        f"{name}_low": measures.low,
        f"{name}_high": measures.high,
        "development_score": None if cell.is_baseline else cell.development_score,
        "parameters": cell.learned,
        "train_seconds": cell.seconds,
        "latency_ms": cell.latency_ms,
    }
    if difference:
        ends = {"_low": difference.low, "_high": difference.high, "": difference.difference}
        metrics |= {f"to_reference{end}": value for end, value in ends.items()}
    return {key: float(v) for key, v in metrics.items() if v is not None and isfinite(v)}


# --- Trackers.


class CommonCalls:
    """trackio or W&B: `init` with a group and a config, `log`, `finish`."""

    def __init__(self, project: str, library: str) -> None:
        self._library, self._project = importlib.import_module(library), project
        self.place = ""  # the folder or address of the entries
        self.see = ""  # the command that shows or sends them
        self._is_wandb = library == "wandb"
        mode = self._library.setup().settings.mode if self._is_wandb else ""
        if mode == "disabled":  # it would log nothing
            raise HeadsError("W&B is switched off here (WANDB_MODE=disabled).", "Unset it.")
        if mode == "online" and not self._library.login(prompt=False):  # else it asks for a key
            hint = "Run: wandb login, or set WANDB_MODE=offline to keep it on this machine."
            raise HeadsError("W&B has no API key on this machine.", hint)

    def log(self, entry: Entry) -> None:
        """Log one cell in a context of its own, so that a run of the user's stays as it is."""
        Context().run(self._log, entry)

    def _log(self, entry: Entry) -> None:
        options: dict[str, Any]
        if self._is_wandb:
            options = self._wandb_options(entry)
        else:  # trackio finds a run by its name alone, and has no tags
            tags = {f"is_{tag}": tag in entry.tags for tag in ("recommended", "baseline")}
            options = dict.fromkeys(("embed", "auto_log_cpu", "auto_log_gpu"), False)
            options |= {"name": f"{entry.name} {entry.group}", "config": {**entry.params, **tags}}
        options |= {"project": self._project, "group": entry.group, "resume": "allow"}
        run = self._library.init(**options)
        try:
            run.log(dict(entry.metrics))
            if self._is_wandb and run.offline:
                self.place = str(Path(run.settings.sync_dir).parent)
                self.see = f"wandb sync {quote(self.place)}/offline-run-*"
            elif self._is_wandb or run.url:
                self.place = str(run.project_url if self._is_wandb else run.url)
            else:
                self.place = str(self._library.TRACKIO_DIR)
                self.see = f"trackio show --project {quote(self._project)}"
        finally:
            run.finish()

    def _wandb_options(self, entry: Entry) -> dict[str, Any]:
        on = ["silent", "disable_git", "disable_code"]
        on += [f"x_disable_{name}" for name in ("meta", "stats", "machine_info")]
        switches = dict.fromkeys(on, True) | {"save_code": False, "x_save_requirements": False}
        return {
            "id": entry.id,
            "name": entry.name,
            "config": dict(entry.params),
            "tags": entry.tags,
            "reinit": "create_new",
            "settings": self._library.Settings(console="off", init_timeout=SECONDS, **switches),
        }


class MLflow:
    """MLflow by its client, which leaves the user's own runs alone; `CommonCalls` has the names."""

    def __init__(self, project: str) -> None:
        self._library = importlib.import_module("mlflow")
        self._client = self._library.MlflowClient()
        with _short_waits():
            known = self._client.get_experiment_by_name(project)
            made = known.experiment_id if known else self._client.create_experiment(project)
        self._experiment = made
        self.place = uri = self._library.get_tracking_uri()
        is_address = uri.startswith(("http:", "https:", "databricks"))
        self.see = "" if is_address else f"mlflow ui --backend-store-uri {quote(uri)}"

    def log(self, entry: Entry) -> None:
        """Log one cell, or update it: it is found again by a tag."""
        entities, now = self._library.entities, int(time.time() * 1000)
        tags = {"group": entry.group, "cell_id": entry.id}
        tags |= {tag: str(tag in entry.tags).lower() for tag in ("recommended", "baseline")}
        with _short_waits():
            runs = self._client.search_runs([self._experiment], f"tags.cell_id = '{entry.id}'")
            runs = runs or [self._client.create_run(self._experiment, run_name=entry.name)]
            run = runs[0].info.run_id
            self._client.log_batch(
                run,
                metrics=[entities.Metric(name, v, now, 0) for name, v in entry.metrics.items()],
                params=[entities.Param(name, str(v)) for name, v in entry.params.items()],
                tags=[entities.RunTag(name, value) for name, value in tags.items()],
            )
            self._client.set_terminated(run)


@contextlib.contextmanager
def _short_waits() -> Iterator[None]:
    """Within it MLflow does not wait for minutes for a server that does not answer."""
    variables = importlib.import_module("mlflow.environment_variables")
    values = {variables.MLFLOW_HTTP_REQUEST_MAX_RETRIES: 1}
    values |= {variables.MLFLOW_HTTP_REQUEST_TIMEOUT: SECONDS}
    with contextlib.ExitStack() as stack:
        for variable, value in values.items():
            if not variable.is_set():
                variable.set(value)
                stack.callback(variable.unset)
        yield


# --- Logging.


def _check_tracker(tracker: str, project: str) -> None:
    """Refuse what could not be logged, before any work is done for it."""
    if current_limits().public:
        raise LimitError("Runs are logged in local mode only.", "Run it on your own machine.")
    if tracker not in TITLES:
        hint = did_you_mean(tracker, TITLES)
        raise HeadsError(f"There is no tracker called '{tracker[:60]}'.", hint)
    if not project.strip():
        raise HeadsError("The project has no name.", "Name one, such as head-to-head.")
    if importlib.util.find_spec(tracker) is None:
        what = f"Logging to {TITLES[tracker]} needs {tracker}, not installed here."
        raise HeadsError(what, f"Run: pip install {tracker}")


def iter_tracking(
    run: str | Path | Leaderboard, tracker: str, project: str
) -> Generator[Progress, None, Tracked]:
    """Log every cell of a run that is done: yield progress, return the result of `heads.track`."""
    _check_tracker(tracker, project)
    board = leaderboard(find(str(run))) if isinstance(run, str | Path) else run
    entries = build_entries(board)
    if not entries:
        raise DataError(f"No head of the run {board.run} is done yet.", "Log it later.")
    yield Progress(says=f"Opening {TITLES[tracker]}", share=0.0)
    with _explained(tracker):
        library = MLflow(project) if tracker == "mlflow" else CommonCalls(project, tracker)
    for number, entry in enumerate(entries):
        yield Progress(says=f"Logging {entry.name}", share=number / len(entries))
        with _explained(tracker):
            library.log(entry)
    stopped, notes = len(board.stopped), []
    left = board.planned - sum(not cell.is_baseline for cell in board.cells) - stopped
    if left > 0:
        heads = f"{left} of {board.planned} heads"
        notes.append(f"{heads} are not trained: log the run again when they are.")
    if stopped:
        notes.append(f"{counted(stopped, 'head')} eliminated by the race: no score to log.")
    return Tracked(
        tracker=tracker,
        project=project,
        group=entries[0].group,
        place=SECRETS.sub("", library.place),
        see=SECRETS.sub("", library.see),
        logged=tuple(entry.name for entry in entries),
        notes=tuple(notes),
    )


@contextlib.contextmanager
def _explained(tracker: str) -> Iterator[None]:
    """Raise one sentence where a tracker does not take a run, and hide what it prints."""
    message = ""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            yield
        except HeadsError:
            raise
        except Exception as error:  # each has kinds of its own, and those of its own libraries
            message = str(error) or type(error).__name__
    if tracker == "trackio" and not message:  # it only warns where it could store nothing
        lost = (str(warning.message) for warning in caught if warning.category is UserWarning)
        message = next(lost, "")
    if message:
        line = SECRETS.sub("", message).strip().partition("\n")[0]
        first = textwrap.shorten(line, LONGEST, placeholder=" …").rstrip(" .")
        what = f"{TITLES[tracker]} does not take the run: {first}."
        raise HeadsError(what, "Correct it, and log the run again.")
