"""P6: every file of the corpus of hostile files gets what it must, the same wherever it is given.

Tables and ids of models are read in public mode, folders of models and heads locally, since in
public none may be named. Each goes through Python, the shell and a client of the API; heads alone
are read in Python only. It counts as right if the outcome is the expected one, the same in all of
them, one sentence without traceback or path, within ten seconds, and if no row is lost unsaid.
"""

import contextlib
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from heads.backbone.models import BUNDLED
from heads.errors import HeadsError
from studies.promises.corpus_expected import HEADS, ID, MODELS, TABLES
from studies.promises.promise import Row, corpus, is_within
from studies.promises.server import served

MOST_SECONDS = 10.0
SHORT_STEP = 9
UGLY = re.compile(r"Traceback|Something went wrong|/tmp/|/home/|\bnull\b|[\x00-\x1f\x7f]")
TEXT = "A fine film."


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """What somebody got.

    Attributes:
        error: The sentence; empty where there is a result.
        result: What was read.
        seconds: How long it took.
    """

    error: str = ""
    result: Any = None
    seconds: float = 0.0


Way = Callable[[str], Got]


def measure(short: bool) -> Iterator[Row]:
    """All rows of the corpus through all ways; short every ninth, and without a server."""
    place, step = corpus(), SHORT_STEP if short else 1
    tables = [path for kind in "cltf" for path in sorted(place.glob(f"{kind}[0-9]*"))][::step]
    ids = (place / "model_ids.txt").read_text("utf-8").split("\n")[::step]
    models = sorted((place / "models").iterdir())[::step]
    heads = sorted(place.glob("h[0-9]*"))[::step]
    wrong: list[str] = []
    _compare(BUNDLED)  # whoever is first would wait for libraries and the base model
    with _mode(public=True), _client(public=True, short=short) as client:
        ways = [_python(_read), _shell("read"), *_api(client, "read")]
        for path in tables:
            wrong += _judged(path.name, str(path), ways, _fits_table)
        ways = [_python(_compare), _shell("compare"), *_api(client, "compare")]
        for name in ids:
            wrong += _judged(f"id {name!a:.30}", name, ways, _fits_id)
    with _mode(public=False), _client(public=False, short=short) as client:
        ways = [_python(_compare), _shell("compare"), *_api(client, "compare")]
        for path in models:
            wrong += _judged(path.name, str(path), ways, _fits_model)
        for path in heads:
            wrong += _judged(path.name, str(path), [_python(_load)], _fits_head)
    count = len(tables) + len(ids) + len(models) + len(heads)
    told = f": {'; '.join(wrong)[:600]}" if wrong else ""
    yield Row(
        promise="P6",
        says="Every hostile file, id, model and head gets what it must in Python, the shell and "
        "the API.",
        measured=f"{count - len(wrong)} of {count} ({len(tables)} tables, {len(ids)} ids, "
        f"{len(models)} models, {len(heads)} heads){told}",
        target=f"{count} of {count}, {MOST_SECONDS:.0f} s each at most",
        holds=not wrong,
    )


def _judged(
    name: str, asked: str, ways: list[Way], fits: Callable[[str, Got], bool]
) -> Iterator[str]:
    """What is wrong with a row, in words; nothing where all is as it must be."""
    found = [way(asked) for way in ways]
    # Gradio's client sends no empty file, and says so in words of its own.
    if len(found) > 2 and Path(name).suffix and not _size(asked):
        found.pop()
    if not fits(name, found[0]):
        yield f"{name} got {found[0].error[:80] or 'a result'}"
    elif any(one.error != found[0].error for one in found):
        yield f"{name} differs: {' | '.join(one.error[:60] or 'a result' for one in found)}"
    elif any(one.result != found[0].result for one in found):
        yield f"{name} is read differently"
    elif UGLY.search(found[0].error.replace(asked, "")):
        yield f"{name} is no sentence"
    elif not is_within(max(one.seconds for one in found), MOST_SECONDS):
        yield f"{name} takes {max(one.seconds for one in found):.0f} s"


def _size(path: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return Path(path).stat().st_size
    return 1


# --- What they must get


def _fits_table(name: str, got: Got) -> bool:
    kind, says = TABLES[name[:3]]
    if kind == "ERR":
        return _says(says, got)
    if got.error or not _is_accounted(got.result):
        return False
    warnings = [one["says"] for one in got.result["warnings"]]
    if kind == "WARN":
        return any(re.search(says, warning) for warning in warnings)
    return re.match(says, _facts(got.result)) is not None


def _facts(found: Mapping[str, Any]) -> str:
    """Rows, classes, notes and columns, as the expectations name them."""
    columns = " ".join(f"{name}={found['columns'][name]}" for name in ("text", "label"))
    return f"{found['rows']} {len(found['classes'])} {' '.join(found['notes'])} {columns}"


def _is_accounted(found: Mapping[str, Any]) -> bool:
    """Whether every row is used, or dropped for a reason that is said."""
    return found["rows_in"] == found["rows"] + sum(o["count"] for o in found["dropped"].values())


def _fits_id(name: str, got: Got) -> bool:
    """No id at all is the bundled model's."""
    return got.result == BUNDLED if name == "id ''" else _says(ID, got)


def _fits_model(name: str, got: Got) -> bool:
    return _says(MODELS[name[:3]], got)


def _fits_head(name: str, got: Got) -> bool:
    return _says(HEADS[name[:3]], got)


def _says(wanted: str, got: Got) -> bool:
    return re.search(wanted, got.error) is not None


# --- The ways


@contextlib.contextmanager
def _mode(*, public: bool) -> Iterator[None]:
    """Within it, this process is in a mode, and without a network."""
    before = dict(os.environ)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.pop("HEADS_PUBLIC", None)
    if public:
        os.environ["HEADS_PUBLIC"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _client(*, public: bool, short: bool) -> Iterator[Client | None]:
    """A client of a server in that mode; None where it would take too long."""
    if short:
        yield None
        return
    with served(public=public) as server:
        yield server.client()


def _python(ask: Callable[[str], Any]) -> Way:
    def asked(what: str) -> Got:
        begun = time.monotonic()
        try:
            result = ask(what)
        except HeadsError as error:
            return Got(error=str(error), seconds=time.monotonic() - begun)
        return Got(result=result, seconds=time.monotonic() - begun)

    return asked


def _read(path: str) -> Any:
    import heads

    return json.loads(json.dumps(heads.read(path).as_json()))


def _compare(model: str) -> Any:
    import heads

    return heads.compare(TEXT, recipes=["mean+linear"], model=model).as_json()["model"]


def _load(path: str) -> Any:
    import heads

    return repr(heads.load(path))


def _shell(command: str) -> Way:
    """The same as a command line, in this process: what it prints is what a user sees."""
    from heads.interfaces.cli.app import main

    def asked(what: str) -> Got:
        given = [what] if command == "read" else [TEXT, "-r", "mean+linear", f"--model={what}"]
        out, told, begun = io.StringIO(), io.StringIO(), time.monotonic()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            code = main([command, *given, "--json"])
        seconds = time.monotonic() - begun
        if code == 2:
            said = told.getvalue().removeprefix("heads: ").rstrip("\n")
            return Got(error=said, seconds=seconds)
        if code:
            return Got(error=f"exit code {code}: {told.getvalue()}", seconds=seconds)
        result = json.loads(out.getvalue())
        return Got(result=result if command == "read" else result["model"], seconds=seconds)

    return asked


def _api(client: Client | None, name: str) -> list[Way]:
    """The endpoint, called by a client; none, without one."""
    if client is None:
        return []

    def asked(what: str) -> Got:
        begun = time.monotonic()
        try:
            if name == "read":
                found = client.predict(handle_file(what), "", "", "", "", api_name="/read")
            else:
                recipes = ["mean+linear"]
                found = client.predict(TEXT, recipes=recipes, model=what, api_name="/compare")[
                    "model"
                ]
        except AppError as error:
            said = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), str(error))
            return Got(error=said, seconds=time.monotonic() - begun)
        except Exception as error:  # of the client itself
            return Got(error=f"{type(error).__name__}: {error}", seconds=time.monotonic() - begun)
        return Got(result=found, seconds=time.monotonic() - begun)

    return [asked]
