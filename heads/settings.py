"""How heads are trained and what this place allows. The only reader of the environment."""

import inspect
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields
from functools import cache
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from heads.errors import LimitError

Config = TypeVar("Config")


def _setting(
    default: Any,
    title: str,
    *,
    between: tuple[float, float] | None = None,
    among: tuple[str, ...] | None = None,
    of: str = "",
) -> Any:
    """Return a field with what forms and flags need to know of a setting besides its sentence.

    Args:
        between: The least and the greatest of a number.
        among: The choices of a text.
        of: "head" if it concerns the training of one head, "classifier" if only of one with
            classes: the estimators have these. Else it concerns the comparison.
    """
    known: dict[str, Any] = {"title": title, "of": of}
    if between:
        known["low"], known["high"] = between
    return field(default=default, metadata=known | ({"among": among} if among else {}))


def _describe_settings(config: type[Config]) -> type[Config]:
    """Give each setting the sentence that the docstring of its class has on it."""
    settings: Any = getattr(config, "__dataclass_fields__", {})
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(config) or "", re.M)
    for name, says in entries:
        metadata = {**settings[name].metadata, "says": " ".join(says.split())}
        settings[name].metadata = MappingProxyType(metadata)
    return config


SEEDS, TUNED_SEEDS = 3, 5  # repetitions on a test set where `seeds` is 0, which says them too
PRECISIONS = ("auto", "exact", "fast")
SEARCHED = "searched"
UNSEEN = ("aside", "wrong")
# What heads can be ranked by; `heads.evaluation.metrics` says for which labels each one is.
MetricName = Literal[
    "accuracy", "balanced_accuracy", "micro_f1", "macro_f1", "weighted_f1", "samples_f1",
    "exact_match", "mcc", "cohen_kappa", "spearman", "pearson", "r2", "neg_mean_squared_error",
    "neg_mean_absolute_error", "quadratic_kappa",
]  # fmt: skip
METRIC_NAMES = ("auto", *get_args(MetricName))


@_describe_settings
@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentConfig:
    """How many heads are trained and compared: the same rows and seeds for every one of them.

    Attributes:
        seeds: Repetitions on a test set: other new weights, and other development rows. 0: 3, and 5
            where a base model is tuned.
        folds: Without a test set: into how many parts the rows are split; each is scored by heads
            that learned from the others.
        repetitions: Without a test set: how often all rows are scored, in other folds.
        metric: What heads are ranked and compared and their settings chosen by; auto: accuracy, or
            macro_f1 where 70 % of the rows are of one class, micro_f1 of several labels, spearman
            of numbers.
        held_out: With a few rows a class and without a test set: the share of the rows that is
            scored.
        development: Share of the rows that a seed learns from, drawn anew for each, on which it
            chooses its settings and when to stop.
        learning_rate: Step size of AdamW for heads with hidden layers on a frozen base model; 0:
            searched, with the weight decay. Linear heads are solved without steps.
        steps: How many steps heads with hidden layers take; 0: until the development loss stops
            falling.
        trials: How many settings every head tries on its development rows. 0: as many as each kind
            of head needs; 3 of every kind where a base model is tuned, so that none is searched
            longer.
        epochs: Passes over the rows in which a base model is tuned, at most; 0: 3 to 10, fewer the
            more rows there are.
        tuning_rate: Learning rate of the last layer of a base model that is tuned, or of its
            adapter; 0: searched.
        gradient_checkpointing: A tuned base model computes its layers twice instead of keeping what
            they gave: about a third more time, and much less memory. Not on an Apple GPU.
        standardise: Whether heads see every number of a vector with mean 0 and deviation 1.
        per_class: Learn from that many rows a class only, drawn anew for each seed; 0: all. Of
            several labels a row counts for its rarest.
        class_weights: Rows of rare classes count more, so that all classes count alike; not in
            ridge, lda, centroid, cosine and knn.
        focal: Focal loss: how much less rows count that are right already; 0: all alike.
        smoothing: Label smoothing: how far goals of 0 and 1 are drawn together.
        curve: Also train the leaders on a quarter and on half of the rows.
        race: Stop recipes that are behind by more than chance on the development rows; they are
            listed without a score.
        precision: auto: matrix products in 16 bits where the processor or GPU has instructions for
            them; exact: 32 bits, for numbers to compare with float32 ones; fast: 16 bits wherever
            torch has kernels for them.
        unseen: Rows for scoring of a class that no row to learn from has: aside: left out, and
            counted; wrong: scored, and no head gets them right.
        budget_seconds: Stop after that many seconds and keep what is done; 0: no end.
        budget_cells: Stop after that many recipes and keep what is done; 0: all.
        seed: Seed of splits, new weights and dropout.
    """

    seeds: int = _setting(0, "Seeds, with a test set", between=(0, 50))
    folds: int = _setting(5, "Folds, without a test set", between=(2, 20))
    repetitions: int = _setting(1, "Repetitions of the folds", between=(1, 20))
    metric: str = _setting("auto", "Ranked by", among=METRIC_NAMES, of="head")
    held_out: float = _setting(
        0.25, "Rows that are scored, with few rows a class", between=(0.05, 0.9)
    )
    development: float = _setting(
        0.15, "Rows that settings are chosen on", between=(0.05, 0.5), of="head"
    )
    learning_rate: float = _setting(0.0, "Learning rate", between=(0.0, 1.0), of="head")
    steps: int = _setting(0, "Steps", between=(0, 1_000_000), of="head")
    trials: int = _setting(0, "Settings tried", between=(0, 3), of="head")
    epochs: int = _setting(
        0, "Passes over the rows, of a tuned base model", between=(0, 100), of="head"
    )
    tuning_rate: float = _setting(
        0.0, "Learning rate, of a tuned base model", between=(0.0, 1.0), of="head"
    )
    gradient_checkpointing: bool = _setting(False, "Spare memory, of a tuned base model", of="head")
    standardise: str = _setting(SEARCHED, "Standardise", among=(SEARCHED, "yes", "no"), of="head")
    per_class: int = _setting(0, "Few rows a class", between=(0, 100_000))
    class_weights: bool = _setting(False, "Weigh classes alike", of="classifier")
    focal: float = _setting(0.0, "Focal loss", between=(0.0, 10.0), of="classifier")
    smoothing: float = _setting(0.0, "Label smoothing", between=(0.0, 0.5), of="classifier")
    curve: bool = _setting(True, "Learning curve")
    race: bool = _setting(False, "Race")
    precision: str = _setting("auto", "Precision", among=PRECISIONS, of="head")
    unseen: str = _setting("aside", "Classes never met", among=UNSEEN)
    budget_seconds: int = _setting(0, "Time allowed, in seconds", between=(0, 1_000_000))
    budget_cells: int = _setting(0, "Recipes trained at most", between=(0, 1_000_000))
    seed: int = _setting(0, "Seed", between=(0, 2**32 - 1), of="head")

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            check_setting(setting, value, setting.name)
            if type(setting.default) is int:
                object.__setattr__(self, setting.name, int(value))  # 3.0 is 3


def check_setting(setting: Field[Any], value: Any, name: str) -> None:
    """Raise LimitError if a setting cannot have a value; the sentence calls it by `name`."""
    choices = setting.metadata.get("among")
    if isinstance(setting.default, bool):
        choices = (True, False)
    if choices:
        if not isinstance(value, type(setting.default)) or value not in choices:
            known = f"{', '.join(map(str, choices[:-1]))} or {choices[-1]}"
            raise LimitError(f"{name} must be {known}, not {value!r:.40}.", "Change it.")
        return
    low, high = setting.metadata["low"], setting.metadata["high"]
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    is_whole = isinstance(setting.default, float) or (is_number and value % 1 == 0)
    if not (is_number and is_whole and low <= value <= high):
        number = "a number" if isinstance(setting.default, float) else "a whole number"
        is_short = not isinstance(value, int) or abs(value) < 10**40
        what = f"{name} must be {number} of at least {low:g} and at most {high:,.10g}, not "
        raise LimitError(f"{what}{f'{value!r:.40}' if is_short else 'larger'}.", "Change it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may ask for, here. Checked in the pipeline, whoever asks.

    Of seconds, of tags, and of what is counted for each address or in the Hub's cache, 0 is without
    end.
    """

    public: bool = False
    recipes: int = 16
    cells: int = 400
    states_bytes: int = 20_000_000_000
    kept_features_bytes: int = 500_000_000  # of texts one by one, in memory
    run_seconds: int = 0  # that one run may train
    upload_bytes: int = 2_000_000_000
    unpacked_bytes: int = 8_000_000_000
    read_seconds: int = 0  # that a pass over an Excel workbook may compute
    xml_tags: int = 0  # of an Excel workbook
    rows: int = 5_000_000
    columns: int = 1_000
    classes: int = 1_000
    label_characters: int = 100
    text_characters: int = 20_000
    tokens: int = 256
    windows: int = 64  # of a text that is longer, where a recipe reads it in windows
    products: int = 10**16  # of two numbers, by the base model for one question
    edits: int = 100
    retrained_rows: int = 100_000_000  # once a head and split, without a layer, for one question
    head_parameters: int = 50_000_000
    pooled_width: int = 262_144
    model_layers: int = 128
    model_width: int = 16_384
    model_vocabulary: int = 1_000_000
    model_positions: int = 2_000_000
    model_labels: int = 100_000
    model_parameters: int = 20_000_000_000
    download_bytes: int = 40_000_000_000
    download_seconds: int = 0  # until a base model has arrived on the page
    downloads: int = 0  # at a time, on the page
    hub_cache_bytes: int = 0  # of all base models fetched for visitors
    export_bytes: int = 100_000_000_000
    body_bytes: int = 20_000_000  # of a call, without its files
    call_seconds: int = 0  # that one call may compute
    trainings_each: int = 0  # that wait or run, of one address
    sessions: int = 1_000  # that are remembered


PUBLIC = Limits(
    public=True,
    recipes=4,
    cells=64,
    states_bytes=1_000_000_000,
    kept_features_bytes=100_000_000,
    run_seconds=120,
    upload_bytes=10 * 1024**2,  # as Gradio's page counts, whose notice gives the number
    unpacked_bytes=50_000_000,
    read_seconds=10,
    xml_tags=2_000_000,
    rows=20_000,
    columns=50,
    windows=16,
    classes=200,
    products=140_000_000_000,  # about 5 seconds of two cores
    edits=32,
    retrained_rows=4_000,
    head_parameters=5_000_000,
    pooled_width=32_768,
    model_layers=64,
    model_width=4_096,
    model_vocabulary=300_000,
    model_positions=33_000,
    model_labels=1_000,
    model_parameters=500_000_000,
    download_bytes=2_000_000_000,
    download_seconds=300,
    downloads=2,
    hub_cache_bytes=8_000_000_000,
    export_bytes=200_000_000,
    body_bytes=1_000_000,
    call_seconds=60,
    trainings_each=2,
)


SPACE_STORAGE = "/data"


_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)


def current_limits() -> Limits:
    """Return the limits in use; if none are set, small ones on a Space or with HEADS_PUBLIC."""
    if (limits := _limits.get()) is not None:
        return limits
    return PUBLIC if os.environ.get("SPACE_ID") or os.environ.get("HEADS_PUBLIC") else Limits()


def set_limits(limits: Limits | None) -> None:
    """Set the limits of this thread; a thread does not inherit them from the one that starts it."""
    _limits.set(limits)


@contextmanager
def use_limits(limits: Limits | None) -> Iterator[None]:
    """Use limits in a `with` block, in this thread; None: those of the process.

    >>> with use_limits(Limits(recipes=2)):
    ...     current_limits().recipes
    2
    """
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


def cache_folder() -> Path:
    """Return where trained heads are kept: $HEADS_CACHE, storage or ~/.cache/head-to-head."""
    if home := os.environ.get("HEADS_CACHE"):
        return Path(home)
    storage = _own_storage()
    return storage / "head-to-head" if storage else Path.home() / ".cache" / "head-to-head"


def _own_storage() -> Path | None:
    """Return $HEADS_STORAGE of a local server; in public mode it holds nothing of visitors."""
    is_named = bool(os.environ.get("HEADS_STORAGE"))
    return storage_folder() if is_named and not current_limits().public else None


def runs_folder() -> Path:
    """Return where runs are kept: $HEADS_RUNS, in $HEADS_CACHE or storage, or the user's data."""
    if home := os.environ.get("HEADS_RUNS"):
        return Path(home)
    if os.environ.get("HEADS_CACHE") or _own_storage():
        return cache_folder() / "runs"
    return Path.home() / ".local" / "share" / "head-to-head" / "runs"


SERVED = "head-to-head-served"


def served_folder() -> Path:
    """Return the folder of this app's own where Gradio puts uploads, the only one it serves.

    What lies in it is deleted by age and size, so it is never one that others use as well, as the
    one that Gradio would take, or $GRADIO_TEMP_DIR.
    """
    given = os.environ.get("GRADIO_TEMP_DIR")
    if given and Path(given).name == SERVED:  # `prepare_server` has been here
        return Path(given)
    return (Path(given) if given else cache_folder()) / SERVED


def server_address() -> tuple[str, int | None]:
    """Return host and port of `python app.py`: $GRADIO_SERVER_NAME and $GRADIO_SERVER_PORT."""
    port = os.environ.get("GRADIO_SERVER_PORT", "")
    if port and not port.isdecimal():
        raise misset("GRADIO_SERVER_PORT", port, "a port", "Write it as in 7860.")
    return os.environ.get("GRADIO_SERVER_NAME") or HERE[1], int(port) if port else None


def server_hosts() -> frozenset[str]:
    """Name that the app goes by besides localhost: $HEADS_HOSTS, and on a Space its own."""
    return frozenset(listed("HEADS_HOSTS") + listed("SPACE_HOST"))


def is_space() -> bool:
    """Return True on a Space of Hugging Face."""
    return bool(os.environ.get("SPACE_ID"))


def listed(name: str) -> list[str]:
    """Return the entries of a variable that holds several, separated by commas or spaces."""
    return os.environ.get(name, "").lower().replace(",", " ").split()


def is_set(name: str) -> bool:
    """Return True if a variable is there, even if it is empty."""
    return name in os.environ


HERE = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[?[0-9a-f:]*:[0-9a-f:]*\]?")


def check_hosts() -> None:
    """Raise LimitError if $HEADS_HOSTS holds what is no name of a host."""
    for name in listed("HEADS_HOSTS"):
        if not HOST.fullmatch(name):
            hint = "Write it as in heads.example.org: no https://, no port, no path."
            raise misset("HEADS_HOSTS", name, "the name of a host", hint)


def misset(variable: str, value: str, kind: str, hint: str) -> LimitError:
    """Return the error of a variable that holds what could never work."""
    return LimitError(f"{variable} holds '{value:.60}', which is not {kind}.", hint)


def prepare_server() -> None:
    """Set what the server's libraries read from the environment; called before it is built.

    Gradio keeps facts of ten thousand calls, which nobody reads here. It gets a folder of its own
    for files. Its tools for agents call this very server, which a proxy ($HTTP_PROXY) cannot reach.

    Raises:
        LimitError: A variable holds what could never work.
    """
    check_hosts()
    os.environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(served_folder().absolute())
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    past = ",".join(dict.fromkeys(filter(None, (*direct.split(","), *HERE))))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = past


def storage_asked() -> str:
    """Return the path in $HEADS_STORAGE, which may take no file."""
    return os.environ.get("HEADS_STORAGE", "")


def storage_folder() -> Path | None:
    """Storage that outlasts a restart: $HEADS_STORAGE, or /data on a Space; None if there is none.

    A Space has /data where its owner has mounted a bucket there. It counts only where a file can
    be written: a bucket may be mounted to be read alone.
    """
    named = storage_asked() or (SPACE_STORAGE if is_space() else "")
    return Path(named) if named and _takes_files(Path(named)) else None


@cache
def _takes_files(folder: Path) -> bool:
    """Return True if a file can be written into a folder, which may be there to be read alone."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def kept_folder() -> Path:
    """Return where lies what the next start uses again: in storage, else with the caches.

    Trained heads on show and models that extras made lie there, and nothing that visitors brought.
    """
    storage = storage_folder()
    return storage / "head-to-head" if storage else cache_folder()


def use_storage() -> None:
    """Let the Hub's client keep models in storage that lasts, where it is told nowhere else.

    The client reads the environment once, as it is imported; so this is called before.
    """
    storage = storage_folder()
    if storage and not any(map(os.environ.get, ("HF_HOME", "HF_HUB_CACHE"))):
        os.environ["HF_HUB_CACHE"] = str(storage / "huggingface" / "hub")


def is_offline() -> bool:
    """Return True if the user has told the Hub's client not to use the network."""
    values = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.upper() in ("1", "ON", "YES", "TRUE") for value in values)


def is_debugging() -> bool:
    """Return True if the log has tracebacks too, which may quote texts: never in public."""
    return bool(os.environ.get("HEADS_DEBUG")) and not current_limits().public


def set_public() -> None:
    """Put this process into public mode, as `heads app --public` asks."""
    os.environ["HEADS_PUBLIC"] = "1"


def parts_file() -> Path | None:
    """Return the file of the user's own parts that the process which started this one was given."""
    path = os.environ.get("HEADS_PARTS")
    return Path(path) if path else None


def set_parts_file(path: Path) -> None:
    """Let the processes that this one starts take the same parts."""
    os.environ["HEADS_PARTS"] = str(path.absolute())


def environment_with(folder: Path) -> dict[str, str]:
    """Return the environment of this process, for another that also imports what lies in a folder.

    On a Space the package is not installed, and a process started elsewhere would not find it.
    """
    known = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, (str(folder), known)))
    return {**os.environ, "PYTHONPATH": path}
