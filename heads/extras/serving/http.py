"""HTTP requests to one server, with JSON in and out.

Nothing is sent but what the user gives: no token of the Hub, and no header to another host.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from heads.data.table import short
from heads.errors import DataError, EndpointError

SECONDS = 60.0  # for one answer
MOST_BYTES = 20_000_000  # of one answer
MOST_REDIRECTS = 3
PAUSES = (0.5, 1.0, 2.0)  # seconds before a request is repeated, where a server is busy
BUSY = (429, 503)
REFUSING = (401, 403, *BUSY)  # whatever is asked
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ENDS = ("/predict", "/classify", "/info", "/v1/models", "/v1")  # of an address, left out of it
OTHER_SERVER = "Name the server with --server, or check the address."


class RefusedError(EndpointError):
    """An answer with a `status` of 400 or above, or an error that an app reports."""

    def __init__(self, what: str, hint: str, status: int) -> None:
        super().__init__(what, hint)
        self.status = status


class NotJsonError(EndpointError):
    """An answer that is not JSON."""


class Http:
    """Requests to one server, to which alone headers such as "Authorization: Bearer …" go."""

    def __init__(self, url: str, headers: Sequence[str] = (), seconds: float = SECONDS) -> None:
        self.url = _parse_url(url)
        self._seconds = seconds
        self._client = httpx.Client(
            headers=_parse_headers(headers),
            timeout=httpx.Timeout(seconds, connect=min(seconds, 10.0)),
            # A proxy does not reach this machine's own servers.
            trust_env=self.url.host not in LOOPBACK,
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def shown(self) -> str:
        """The address without a password in it."""
        return str(self.url.copy_with(username=None, password=None, query=None, fragment=None))

    def at(self, path: str) -> httpx.URL:
        """Return the address of a path below that of the server."""
        base = self.url.path.rstrip("/")
        for end in ENDS:
            base = base.removesuffix(end)
        return self.url.copy_with(path=f"{base}{path}", query=None)

    def json(self, path: str | None, body: Any = None) -> Any:
        """Return the JSON at a path, to which a body is posted; None is the address itself."""
        url, method = self.url if path is None else self.at(path), "POST" if body else "GET"
        text = self.request(method, url, body)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            what = f"The server answers {method} {url.path} with no JSON ({reason(text)})."
            raise NotJsonError(what, OTHER_SERVER) from None

    def look_at(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at a path; an empty one where there is none."""
        try:
            values = self.json(path)
        except (NotJsonError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.status in REFUSING:
                raise
            return {}
        return values if isinstance(values, Mapping) else {}

    def request(self, method: str, url: httpx.URL, body: Any = None) -> str:
        """Return the text of an answer; the request is repeated where a server is busy."""
        status, text = self._send(method, url, body)
        for pause in PAUSES:
            if status in BUSY:
                time.sleep(pause)
                status, text = self._send(method, url, body)
        if status >= 400:
            raise _refusal(status, text, f"{method} {url.path}")
        return text

    def _send(self, method: str, url: httpx.URL, body: Any) -> tuple[int, str]:
        """Return status and text of one answer, after redirects within the host."""
        for _ in range(MOST_REDIRECTS + 1):
            with _explained(url), self._client.stream(method, url, json=body) as response:
                if not response.has_redirect_location:
                    return response.status_code, self._read(response)
                target = url.join(response.headers["location"])
                if target.host != url.host or (url.scheme, target.scheme) == ("https", "http"):
                    what = f"The server redirects to {target.scheme}://{target.host}."
                    hint = "Nothing was sent there: give that address, if you trust it."
                    raise EndpointError(what, hint)
                url = target
        raise EndpointError("The server redirects again and again.", OTHER_SERVER)

    def _read(self, response: httpx.Response) -> str:
        """Return the text of an answer that comes whole in time, and is not too long."""
        content, end = bytearray(), time.monotonic() + self._seconds
        for piece in response.iter_bytes():
            content += piece
            if time.monotonic() > end:
                raise httpx.ReadTimeout("it trickles")
            if len(content) > MOST_BYTES:
                what = f"The server's answer is longer than {MOST_BYTES // 1_000_000} MB."
                raise EndpointError(what, OTHER_SERVER)
        return content.decode("utf-8", "replace")


@contextmanager
def _explained(url: httpx.URL) -> Iterator[None]:
    """Raise what keeps a request from its answer as one sentence."""
    place = f"{url.host}:{url.port}" if url.port else url.host
    try:
        yield
    except httpx.TimeoutException:
        what = f"The server at {place} did not answer in time."
        raise EndpointError(what, "Check whether it is up, or still loading.") from None
    except (httpx.DecodingError, ValueError) as error:  # not what its encoding says
        what = f"The answer of {place} cannot be read ({type(error).__name__})."
        raise EndpointError(what, OTHER_SERVER) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        what = f"There is no server at {place} ({type(error).__name__})."
        raise EndpointError(what, "Check the address, and whether it is up.") from None


def _parse_url(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url.strip())
    except (httpx.InvalidURL, ValueError, TypeError):
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        what = f"'{url:.80}' is no address of http or https."
        raise DataError(what, "Write it as in http://127.0.0.1:8080.")
    return parsed


def _parse_headers(lines: Sequence[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (name and colon and line.isprintable() and line.isascii()) or " " in name:
            what = "A header is a name, a colon and a value."  # which may be secret: not shown
            raise DataError(what, 'Write it as in "Authorization: Bearer …".')
        headers[name] = value
    return headers


def _refusal(status: int, text: str, request: str) -> RefusedError:
    if status in (401, 403):
        hint = 'Give it with --header, as in --header "Authorization: Bearer …".'
        return RefusedError(f"The server asks for a key ({status}).", hint, status)
    if status in BUSY:
        return RefusedError(f"The server is busy or not ready ({status}).", "Try later.", status)
    what = f"The server answers {request} with the status {status} ({reason(text)})."
    return RefusedError(what, OTHER_SERVER if status in (404, 405) else "See its log.", status)


def reason(text: str) -> str:
    """Return the message of an error, from JSON as servers write it or from plain text."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return short(text, 80) or "nothing"
    for key in ("error", "message", "detail", "object"):
        if isinstance(values, Mapping) and values.get(key):
            values = values[key]
    return short(str(values), 80)
