"""P3: nothing of one visitor reaches another, who asks for it in every way that is known.

Victims leave whatever a visitor leaves in a public app: an upload that nobody has read yet, one
that was read, sentences that were compared, a run with its heads on their texts, an export of it.
All of that holds their canary. Others then guess: paths, ids of runs, sessions, events and
functions, links, and routes that show what a server does. They have no session or id of a victim's:
those are as long as keys. Every byte of every answer is searched for every canary, and for the ids.
"""

import contextlib
import json
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from gradio_client import Client, handle_file

from studies.promises.promise import Row, rng
from studies.promises.server import Server, served

CALLS, SHORT_CALLS = 1_000, 60
VICTIMS, SHORT_VICTIMS = 20, 2
MOST_BYTES, MOST_SECONDS = 5_000_000, 3.0  # of an answer that goes on
AT_ONCE = 4  # calls: an address has no more of them that wait
ROWS = 40
ASKING_RUNS = ("inspect", "edit", "ablate", "readings", "labels")
ROUTES = (
    "config",
    "gradio_api/info",
    "gradio_api/app_id",
    "monitoring",
    "gradio_api/monitoring",
    "gradio_api/monitoring/x",
    "gradio_api/queue/status",
    "gradio_api/startup-events",
    "gradio_api/logs",
    "gradio_api/heartbeat/{guess}",
    "gradio_api/upload_progress?upload_id={guess}",
    "gradio_api/deep_link?session_hash={guess}",
    "?deep_link={guess}",
    "?run={guess}&result={guess}",
    "?view=api",
    "gradio_api/queue/data?session_hash={guess}",
    "gradio_api/call/inspect/{guess}",
    "gradio_api/call/read/{guess}",
    "gradio_api/proxy=http://127.0.0.1/",
    "gradio_api/stream/{guess}/1/x",
    "gradio_api/vibe-editor",
    "gradio_api/custom_component/x/y/z",
    "docs",
    "openapi.json",
    "login",
    "gradio_api/dev/reload",
    "static/../../x",
    "assets/..%2f..%2fserver.log",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A visitor, and what nobody else may ever see of him.

    Attributes:
        canary: A word that stands in his texts, labels and file names.
        run: The id of his run.
        client: His client; its session is his.
    """

    canary: str
    run: str
    client: Client

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What is searched for."""
        session = str(self.client.session_hash)
        return tuple(one.encode() for one in (self.canary, self.run, session))


def measure(short: bool) -> Iterator[Row]:
    """Lets strangers ask a server on which victims have been, and are."""
    calls, count = (SHORT_CALLS, SHORT_VICTIMS) if short else (CALLS, VICTIMS)
    chance = rng("P3")
    with served(public=True) as server:
        victims = [_visit(server, number) for number in range(count)]
        stop = threading.Event()
        busy = threading.Thread(target=_stay, args=(victims, stop))
        busy.start()
        try:
            found, statuses = _ask(server, victims, calls, chance)
        finally:
            stop.set()
            busy.join()
        in_log = sum(victim.canary in server.log() for victim in victims)
    answered = sum(number for status, number in statuses.items() if status == 200)
    told = f": {'; '.join(sorted(set(found)))[:300]}" if found else ""
    yield Row(
        promise="P3",
        says="Nothing of one visitor reaches another.",
        measured=f"{calls} calls among {count} victims who upload, compare, train and export "
        f"({answered} got an answer, the others were refused): {len(found)} canaries{told}; "
        f"{in_log} canaries in the server's log",
        target="0 canaries",
        holds=not found and not in_log,
    )


# --- Victims


def _visit(server: Server, number: int) -> Victim:
    """A visitor comes and leaves things behind."""
    canary = f"canary{number}x{secrets.token_hex(8)}"
    victim = Victim(canary=canary, run=_trained(server, canary), client=server.client())
    table = server.home / f"{canary}.csv"
    lines = [f"{canary} a fine film {row},{canary}" for row in range(20)]
    lines += [f"{canary} a bad film {row},other" for row in range(20)]
    table.write_text("\n".join(["text,label", *lines]), "utf-8")
    with table.open("rb") as file:  # one that no handler has taken away yet
        httpx.post(f"{server.url}/gradio_api/upload", files={"files": file}, timeout=30)
    _say(victim, table)
    return victim


def _say(victim: Victim, table: Path | None) -> None:
    """What a visitor sends, over and over; whoever finds the server full comes again."""
    with contextlib.suppress(Exception):
        victim.client.predict(f"{victim.canary} is fine", "", ["mean+linear"], api_name="/compare")
    with contextlib.suppress(Exception):
        if table:
            victim.client.predict(handle_file(str(table)), "", "", "", "", api_name="/read")
    with contextlib.suppress(Exception):
        victim.client.predict("A film.", run=victim.run, api_name="/readings")


def _trained(server: Server, canary: str) -> str:
    """A run as the page's own worker leaves it, and an export of its head; its id."""
    from heads.data.dataset import read
    from heads.exporters.export import export
    from heads.runs.refit import run_classifier as classifier
    from heads.runs.runner import begin, working
    from heads.runs.spec import RunRequest
    from heads.settings import ExperimentConfig

    rows = server.home / "tmp" / f"{canary}.csv"
    half = ROWS // 2
    lines = [f"{canary} good {row},{canary}" for row in range(half)]
    lines += [f"{canary} bad {row},other" for row in range(half)]
    rows.write_text("\n".join(["text,label", *lines]), "utf-8")
    name = f"r{secrets.token_urlsafe(16)}"  # as in public mode
    config = ExperimentConfig(folds=2, trials=1, curve=False)
    asked = RunRequest(data=read(rows), recipes=["mean+ridge"], config=config)
    run = begin(asked, out=server.runs / name)
    for _ in working(run):
        pass
    export(classifier(run, "mean+ridge"), server.uploads / secrets.token_hex(16) / canary)
    return name


def _stay(victims: Sequence[Victim], stop: threading.Event) -> None:
    """Victims go on while the others ask."""
    while not stop.is_set():
        for victim in victims:
            _say(victim, None)
            if stop.wait(0.2):
                return


# --- Strangers


def _ask(
    server: Server, victims: Sequence[Victim], calls: int, chance: random.Random
) -> tuple[list[str], Counter[int]]:
    """All calls; in which of them a secret was, and what they were answered."""
    wanted = [secret for victim in victims for secret in victim.secrets]
    found, statuses = list[str](), Counter[int]()
    kinds, seeds = (
        (_route, _file, _endpoint, _function, _function),
        chance.sample(range(10**9), calls),
    )
    with httpx.Client(base_url=server.url, timeout=MOST_SECONDS + 4) as web:
        functions = _functions(web)
        sent = {"text": "A.", "recipes": ["mean+ridge"], "run": victims[0].run}
        body = _called(web, "readings", sent)[1]
        if victims[0].canary.encode() not in body:
            raise RuntimeError(f"the owner of a run does not find his own canary: {body[-300:]!r}")

        def one(number: int) -> tuple[str, int, bytes]:
            kind = kinds[number % len(kinds)]
            return kind(web, server, functions, number, random.Random(seeds[number]))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for label, status, body in pool.map(one, range(calls)):
                statuses[status] += 1
                if any(secret in body for secret in wanted):
                    found.append(label)
    return found, statuses


def _functions(web: httpx.Client) -> list[dict[str, Any]]:
    """All functions of the page, hidden ones too, as its configuration lists them."""
    config = web.get("/config").json()
    kinds = {one["id"]: one.get("type", "") for one in config["components"]}
    return [
        {"id": one["id"], "inputs": [kinds.get(name, "") for name in one["inputs"]]}
        for one in config["dependencies"]
        if one.get("backend_fn", True)
    ]


def _guess(chance: random.Random) -> str:
    """An id such as a stranger may guess: of the right form, short, or a path."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    drawn = "".join(chance.choices(letters, k=22))
    tries = [
        f"r{drawn}",
        "r",
        "*",
        "",
        "..",
        f"r{drawn[:3]}",
        drawn.lower()[:11],
        "0",
        "null",
        "%",
        "../runs",
        "run.json",
        "sample:sentiment",
    ]
    return chance.choice(tries)


def _path(server: Server, chance: random.Random) -> str:
    """A path that a stranger may ask for; he may know how the folders are called."""
    guess, home = _guess(chance), server.home
    return chance.choice(
        [
            *(str(home), str(home / "server.log"), str(server.uploads), str(server.runs)),
            *(f"{server.runs}/{guess}/rows.json", f"{server.cache}/uploads/{guess}"),
            *(
                f"{server.uploads}/{guess}/data.csv",
                f"{server.uploads}/../runs",
                "/proc/self/environ",
            ),
            *(f"{server.uploads}/deep_links/{guess}/state.json", "/proc/self/cwd/server.log"),
            *(
                "file:///etc/passwd",
                "runs",
                "../server.log",
                f"{server.uploads}/../server.log",
                ".",
            ),
            *(f"{server.uploads}/{guess}/../../server.log", "/etc/passwd", f"//{home}/server.log"),
        ]
    )


def _route(
    web: httpx.Client, server: Server, functions: Any, number: int, chance: random.Random
) -> tuple[str, int, bytes]:
    """A route that shows something."""
    route = ROUTES[number // 5 % len(ROUTES)].replace("{guess}", quote(_guess(chance), safe=""))
    return route, *_read(web, "GET", f"/{route}")


def _file(
    web: httpx.Client, server: Server, functions: Any, number: int, chance: random.Random
) -> tuple[str, int, bytes]:
    """A file by its path, asked for as a download or sent as an upload's."""
    path = _path(server, chance)
    if number % 2:
        return f"file={path}", *_read(web, "GET", f"/gradio_api/file={quote(path)}")
    return f"read {path}", *_called(web, "read", {"file": _file_of(path)})


def _endpoint(
    web: httpx.Client, server: Server, functions: Any, number: int, chance: random.Random
) -> tuple[str, int, bytes]:
    """A published endpoint, of a run that is guessed."""
    name, run = chance.choice(ASKING_RUNS), _guess(chance)
    sent = {"text": "A film.", "recipes": ["mean+ridge"], "run": run}
    sent |= {"edits": ["A b."], "retrain": False}
    return f"{name} {run}", *_called(web, name, sent)


def _function(
    web: httpx.Client, server: Server, functions: Any, number: int, chance: random.Random
) -> tuple[str, int, bytes]:
    """Any function of the page by its index, with whatever its inputs might be made of."""
    one = functions[number // 5 % len(functions)]
    data = [_value(kind, server, chance) for kind in one["inputs"]]
    session = chance.choice([secrets.token_hex(6), _guess(chance) or "x", "undefined"])
    asked = {
        "fn_index": one["id"],
        "data": data,
        "session_hash": session,
        "event_data": {
            "fields": {
                "run": _guess(chance),
                "head": "mean+ridge",
                "go": "take",
                "value": _guess(chance),
            }
        },
    }
    label = f"function {one['id']}"
    status, body = _read(web, "POST", "/gradio_api/queue/join", json=asked)
    if status != 200:
        return label, status, body
    status, told = _read(web, "GET", f"/gradio_api/queue/data?session_hash={quote(session)}")
    return label, status, body + told


def _value(kind: str, server: Server, chance: random.Random) -> Any:
    """A value for a component: of its own kind mostly."""
    guess = _guess(chance)
    if kind in ("file", "uploadbutton", "downloadbutton"):
        return _file_of(_path(server, chance))
    if kind == "browserstate":
        return [guess, _guess(chance), *[f"r{n}" for n in range(3)]]
    link = f"?run={guess}&result={guess}&head=mean%2Bridge&place=data"
    return chance.choice([guess, link, None, [guess], 1, True, {"run": guess}, "mean+ridge"])


def _file_of(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "a.csv"}


def _called(web: httpx.Client, name: str, sent: dict[str, Any]) -> tuple[int, bytes]:
    """Call an endpoint with those of the named arguments that it takes."""
    described = web.get("/gradio_api/info").json()["named_endpoints"][f"/{name}"]["parameters"]
    data = [
        sent.get(parameter["parameter_name"], parameter.get("parameter_default"))
        for parameter in described
    ]
    status, body = _read(web, "POST", f"/gradio_api/call/{name}", json={"data": data})
    if status != 200:
        return status, body
    event = json.loads(body)["event_id"]
    status, answer = _read(web, "GET", f"/gradio_api/call/{name}/{event}")
    return status, body + answer


def _read(web: httpx.Client, method: str, path: str, **given: Any) -> tuple[int, bytes]:
    """An answer, or what came of it by a while."""
    body, end = b"", time.monotonic() + MOST_SECONDS
    status = 0
    with (
        contextlib.suppress(httpx.HTTPError, httpx.InvalidURL),
        web.stream(method, path, **given) as answer,
    ):
        status = answer.status_code
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > MOST_BYTES or time.monotonic() > end or b"process_completed" in body:
                break
    return status, body
