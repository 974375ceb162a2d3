"""A Hugging Face Hub of one's own on the loopback: the few addresses that the client asks."""

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "5ca1ab1e" * 5
BRANCHED = "c0ffee00" * 5  # the commit of every other branch


@dataclass(kw_only=True)
class Repository:
    """A model or a data set on the fake Hub."""

    folder: Path  # its files
    # files that are listed with a size, whether they are there or not
    claims: dict[str, int] = field(default_factory=dict)
    gated: bool = False  # whether its files are refused
    status: int = 200  # what its page answers, if not its listing
    seconds: float = 0.0  # how long its page takes to answer
    unsized: frozenset[str] = frozenset()  # files of which no size is told
    file_status: int = 200  # what its files answer, but for the config
    rate: float = 0.0  # bytes a second at which its weights come; 0 at once, below 0 never
    sends: int = 0  # bytes that its weights are really made of, if not those of the file
    branches: dict[str, Path] = field(default_factory=dict)  # folders of other branches, by name
    card: dict[str, object] = field(default_factory=dict)  # what its card says

    def sizes_of(self, folder: Path) -> dict[str, int | None]:
        files = (path for path in folder.rglob("*") if path.is_file())
        real = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
        return real | self.claims | dict.fromkeys(self.unsized)

    def at(self, revision: str) -> tuple[str, Path] | None:
        """The commit and the folder of a branch or commit."""
        if revision in ("", "main", COMMIT):
            return COMMIT, self.folder
        if revision == BRANCHED and self.branches:
            return BRANCHED, next(iter(self.branches.values()))
        return (BRANCHED, self.branches[revision]) if revision in self.branches else None


class Hub(ThreadingHTTPServer):
    """The server, what it has, and what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, Repository] = {}
        self.datasets: dict[str, Repository] = {}
        self.asked: list[str] = []
        self.token = ""  # who may write
        self.place: Path | None = None  # where new models come to lie
        self.blobs: dict[str, bytes] = {}
        self.commits: list[dict[str, object]] = []
        self.broken = 200  # what files that are sent are answered with
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def downloads(self, name: str) -> list[str]:
        """The files of a model that were asked for."""
        start = f"/{name}/resolve/"
        found = (path.removeprefix(start) for path in self.asked if path.startswith(start))
        return [path.partition("/")[2] for path in found]


class Handler(BaseHTTPRequestHandler):
    """Answers as the Hub does: a model's page, its tree, its files."""

    protocol_version = "HTTP/1.1"
    server: Hub
    commit = COMMIT

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.server.asked.append(path)
        if asked := re.match(r"/api/(models|datasets)/(.+)", path):
            name, _, tree = asked[2].partition("/tree/")
            name, _, revision = name.partition("/revision/")
            tree, _, inner = tree.partition("/")
            if inner:  # a folder of a repository: none here has one
                return self._answer(404, error="EntryNotFound")
            found = self.server.datasets if asked[1] == "datasets" else self.server.models
            self._describe(found.get(name), name, revision or tree, bool(tree))
        else:
            name, _, rest = path.strip("/").partition("/resolve/")
            kind = self.server.datasets if name.startswith("datasets/") else self.server.models
            self._give(kind.get(name.removeprefix("datasets/")), *rest.split("/", 1))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """What a client asks that pushes a model: a repository, how files come, and a commit."""
        path, body = unquote(self.path.partition("?")[0]), self._body()
        self.server.asked.append(path)
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            return self._answer(401)
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._tell({"errors": [], "warnings": []})
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._batch(json.loads(body)["objects"])
        asked = re.fullmatch(r"/api/models/(.+)/(preupload|commit)/main", path)
        one = self.server.models.get(asked[1]) if asked else None
        if asked is None or one is None:
            return self._answer(404, error="RepoNotFound")
        if (status := max(one.file_status, self.server.broken)) != 200:
            return self._answer(status)
        if asked[2] == "preupload":
            return self._modes([file["path"] for file in json.loads(body)["files"]])
        return self._commit(one, asked[1], [json.loads(line) for line in body.splitlines()])

    def _batch(self, objects: list[dict[str, object]]) -> None:
        """Where each large file is to be sent."""
        for one in objects:
            one["actions"] = {"upload": {"href": f"{self.server.address}/lfs/{one['oid']}"}}
        self._tell({"transfer": "basic", "objects": objects})

    def _modes(self, names: list[str]) -> None:
        """How each file is to be sent."""
        modes = ["lfs" if name.endswith(".safetensors") else "regular" for name in names]
        files = [
            {"path": name, "uploadMode": mode, "shouldIgnore": False}
            for name, mode in zip(names, modes, strict=True)
        ]
        self._tell({"files": files})

    def do_DELETE(self) -> None:
        """A repository that is to go."""
        asked = json.loads(self._body())
        self.server.asked.append(self.path)
        del self.server.models[f"{asked['organization']}/{asked['name']}"]
        self._answer(200)

    def do_PUT(self) -> None:
        """A large file, under the digest of what it holds."""
        body = self._body()
        assert hashlib.sha256(body).hexdigest() == self.path.removeprefix("/lfs/")
        self.server.blobs[self.path.removeprefix("/lfs/")] = body
        self._answer(200)

    def _create(self, asked: dict[str, str]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        facts = {"url": f"{self.server.address}/{name}"}
        if name in self.server.models:
            return self._tell(facts | {"error": "You already created this model repo"}, 409)
        assert self.server.place is not None
        folder = self.server.place / name
        folder.mkdir(parents=True)
        self.server.models[name] = Repository(folder=folder, card=dict(asked))
        return self._tell(facts)

    def _commit(self, one: Repository, name: str, lines: list[dict[str, dict[str, str]]]) -> None:
        """Does what a commit says, a line each."""
        kinds: dict[str, list[str]] = {}
        for line in lines:
            value = line["value"]
            kinds.setdefault(str(line["key"]), []).append(value.get("path", ""))
            path = one.folder / value.get("path", "")
            if line["key"] == "deletedFile":
                path.unlink()
            elif line["key"] in ("file", "lfsFile"):
                path.parent.mkdir(parents=True, exist_ok=True)
                is_large = line["key"] == "lfsFile"
                content = self.server.blobs[value["oid"]] if is_large else ""
                path.write_bytes(content or base64.b64decode(value["content"]))
        self.server.commits.append({"repo": name} | kinds)
        url = f"{self.server.address}/{name}/commit/{COMMIT}"
        return self._tell({"commitUrl": url, "commitOid": COMMIT, "success": True})

    def _tell(self, values: object, status: int = 200) -> None:
        self._answer(status, json.dumps(values).encode())

    def _body(self) -> bytes:
        """What was sent, in one piece or in several."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _describe(self, one: Repository | None, name: str, revision: str, as_tree: bool) -> None:
        if one is None:
            return self._answer(404, error="RepoNotFound")
        self.server.closing.wait(one.seconds)
        if (found := one.at(revision)) is None:
            return self._answer(404, error="RevisionNotFound")
        commit, folder = found
        sizes = one.sizes_of(folder).items()
        siblings = [{"rfilename": file, "size": size} for file, size in sizes]
        tree = [{"type": "file", "path": n, "size": size, "oid": "0" * 40} for n, size in sizes]
        facts = {"id": name, "sha": commit, "siblings": siblings, "tags": [], "cardData": one.card}
        facts["private"] = one.card.get("visibility") == "private"
        return self._answer(one.status, json.dumps(tree if as_tree else facts).encode())

    def _give(self, one: Repository | None, revision: str, file: str = "") -> None:
        found = one.at(revision) if one else None
        if one is None or found is None or not (found[1] / file).is_file():
            return self._answer(404, error="EntryNotFound")
        if one.gated:
            return self._answer(403, error="GatedRepo")
        if file != "config.json" and one.file_status != 200:
            return self._answer(one.file_status)
        self.commit, body = found[0], (found[1] / file).read_bytes()
        if not file.endswith(".safetensors"):
            return self._answer(200, body)
        return self._answer(200, body + b"0" * max(0, one.sends - len(body)), rate=one.rate)

    def _answer(self, status: int, body: bytes = b"", error: str = "", rate: float = 0.0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        if error:
            self.send_header("X-Error-Code", error)
        self.end_headers()
        if self.command == "HEAD":
            return
        if not rate:
            self.wfile.write(body)
            return
        part = max(1, int(rate / 10))
        while rate < 0 and not self.server.closing.wait(0.1):
            pass
        with contextlib.suppress(OSError):  # who asked is gone
            for start in range(0, len(body), part):
                if self.server.closing.wait(0.1):
                    return
                self.wfile.write(body[start : start + part])


@contextmanager
def serving() -> Iterator[Hub]:
    """A running Hub, on a port of its own."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        hub.shutdown()
        hub.server_close()
        thread.join()
