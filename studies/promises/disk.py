"""P8: the disk stays bounded, whatever is uploaded, and the clean-up outlives an attack."""

import itertools
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from studies.promises.calls import API, Caller, file_data, in_sequence
from studies.promises.promise import Row
from studies.promises.server import Server, served
from studies.promises.watching import became, held, row

SHORT, WHOLE = 30, 1_000  # uploads
LARGE = 1_000_000  # bytes of one
SMALL = 10_000  # bytes of each of many in one request
MANY = 1_000
WAIT = 60.0  # seconds within which the folders are within their quota
MOST = 200_000_000  # bytes of both folders
FILES = ("file", "uploadbutton", "image", "audio", "video", "gallery", "multimodaltextbox",
         "imageeditor", "model3d", "chatbot", "downloadbutton", "annotatedimage")  # fmt: skip
SWEEPS = 310.0  # seconds in which Gradio's clean-up, or ours, comes by


def measure(short: bool) -> Iterator[Row]:
    """The attack first: what comes after it shows whether anything is cleaned still."""
    with served(public=True) as server:
        with Caller(server.url, "127.0.5.1") as caller:
            attacked = list(attacks(caller))
        yield _attack_row(attacked)
        yield _in_one_request(server)
        yield _aborted(server)
        yield _uploads(server, SHORT if short else WHOLE)
        yield _cleans(server, short)


def attacks(caller: Caller) -> Iterator[tuple[str, str]]:
    """Sends Gradio's own folder as a file to every component that takes one; what is answered."""
    _, paths = caller.upload(("a.csv", b"text,label\n"))
    folder = str(Path(paths[0]).parents[1])
    for endpoint in caller.endpoints():
        for at, component in enumerate(endpoint.inputs):
            if component["type"] in FILES:
                asked = list(endpoint.defaults)
                asked[at] = file_data(folder)
                answer = caller.private(endpoint, asked)
                name = f"{endpoint.name or endpoint.index}:{component['id']}"
                is_refused = not answer.is_done or 'role=\\"alert' in answer.text  # on the page
                yield name, "" if is_refused else answer.text[:100]


def _attack_row(attacked: Sequence[tuple[str, str]]) -> Row:
    taken = [name for name, said in attacked if said]
    return row(
        "P8",
        "Gradio's own folder sent as a file, to every input that takes one",
        f"{len(attacked) - len(taken)} of {len(attacked)} refuse it",
        "all; see what is cleaned afterwards",
        holds=bool(attacked) and not taken,
        note=", ".join(taken),
    )


def _in_one_request(server: Server) -> Row:
    """A thousand files at once."""
    before = _held(server)[0]
    with Caller(server.url, "127.0.5.2") as caller:
        files = [(f"{number}.csv", b"x" * SMALL) for number in range(MANY)]
        status, paths = caller.upload(*files)
    became(lambda: _held(server)[0] <= before, WAIT if status != 200 else 0)
    count, _ = _held(server)
    return row(
        "P8",
        f"{MANY:,} files in one request",
        f"status {status}, {len(paths)} taken, {max(0, count - before)} files left",
        "refused, 0 left",
        holds=400 <= status < 500 and count <= before,
    )


def _aborted(server: Server) -> Row:
    """An upload that breaks off in its middle, over a bare socket."""
    before = _held(server)[1]
    where = urlsplit(server.url)
    body = (
        b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\n'
        + b"x" * (LARGE * 3)
    )
    head = (
        f"POST /{API}/upload HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {LARGE * 6}\r\n\r\n"
    )
    with socket.create_connection(
        (where.hostname or "", where.port or 80), source_address=("127.0.5.3", 0)
    ) as line:
        line.sendall(head.encode() + body)
        time.sleep(0.5)
    begun = time.monotonic()
    is_clean = became(lambda: _held(server)[1] <= before, WAIT)
    left = max(0, _held(server)[1] - before)
    return row(
        "P8",
        f"an upload aborted after {LARGE * 3 // 1_000_000} MB",
        f"{left:,} bytes left after {time.monotonic() - begun:.0f} s",
        f"0 within {WAIT:g} s",
        holds=is_clean,
    )


def _uploads(server: Server, count: int) -> Row:
    """Many uploads of many addresses, which nobody reads."""
    statuses, addresses = [], itertools.cycle(in_sequence("127.0.4"))
    for number in range(count):
        with Caller(server.url, next(addresses)) as caller:
            content = f"{number}\n".encode() * (LARGE // len(f"{number}\n"))
            statuses.append(caller.upload((f"{number}.csv", content))[0])
    peak = sum(_sizes(server))
    begun = time.monotonic()
    is_met = became(lambda: sum(_sizes(server)) < MOST, WAIT)
    gradio, ours = _sizes(server)
    taken = statuses.count(200)
    return row(
        "P8",
        f"{count:,} uploads of 1 MB",
        f"{gradio / 1e6:.0f} MB in Gradio's folder and {ours / 1e6:.0f} MB in ours after "
        f"{time.monotonic() - begun:.0f} s ({peak / 1e6:.0f} MB at once; {taken} taken)",
        f"< {MOST / 1e6:g} MB within {WAIT:g} s",
        holds=is_met and taken > 0,
    )


def _cleans(server: Server, short: bool) -> Row:
    """An upload that is made old is deleted, by whoever comes by first."""
    paths: list[str] = []

    def is_taken() -> bool:  # a moment after so many there is no room yet
        nonlocal paths
        with Caller(server.url, "127.0.5.4") as caller:
            _, paths = caller.upload(("old.csv", b"text,label\nold,a\n"))
        return bool(paths)

    became(is_taken, WAIT)
    then = time.time() - 86_400
    for path in paths:
        os.utime(path, (then, then))
    wait, begun = WAIT if short else SWEEPS, time.monotonic()
    is_gone = bool(paths) and became(lambda: not any(map(os.path.exists, paths)), wait)
    return row(
        "P8",
        "after the attack, an upload as old as a day",
        f"gone after {time.monotonic() - begun:.0f} s" if is_gone else f"there after {wait:g} s",
        f"gone within {wait:g} s",
        holds=is_gone,
    )


def _held(server: Server) -> tuple[int, int]:
    """Files, and their bytes, that uploads can have made."""
    return held(server.uploads)


def _sizes(server: Server) -> tuple[int, int]:
    """Bytes in Gradio's folder, and of visitors' files in ours."""
    return held(server.uploads)[1], held(server.cache)[1]
