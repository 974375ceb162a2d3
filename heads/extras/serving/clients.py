"""What servers of classifiers are asked, and what they answer, by their documented HTTP formats.

Each server is one class. All of them read scores that may be wrapped in several ways, and say in
one sentence what cannot be read. Nothing but what the user gives is sent: no token of the Hub, and
no header to another host. Gradio's own client sends a saved token and counts its calls, so the
two documented steps of a call are made here instead.
"""

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import httpx

from heads.errors import DataError, EndpointError, did_you_mean

ServerName = Literal["auto", "tei", "vllm", "transformers", "gradio"]
SECONDS = 60.0  # for one answer
MOST_BYTES = 20_000_000  # of one answer
MOST_REDIRECTS = 3
PAUSES = (0.5, 1.0, 2.0)  # seconds before the same is asked again, where a server is busy
BUSY = (429, 503)
HERE = ("localhost", "127.0.0.1", "::1")
WRAPPERS = ("predictions", "outputs", "output", "results", "result", "data")
NAMES, VALUES = ("label", "class", "name"), ("score", "confidence", "probability", "prob")
ENDS = ("/predict", "/classify", "/info", "/v1/models", "/v1")  # of an address, left out of it
ANOTHER = "Name the server with --server, or check the address."


class Refusal(EndpointError):
    """An answer with a status of 400 or above, or an error that the app told of.

    Attributes:
        status: The status.
    """

    def __init__(self, what: str, hint: str, status: int) -> None:
        super().__init__(what, hint)
        self.status = status


class Unreadable(EndpointError):
    """An answer that is no JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a server says of one text.

    Attributes:
        names: The label of each value; "" where it is known by its place alone.
        values: The scores.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]


# --- One request and its answer, whatever they mean.


class Http:
    """Requests to one server, with JSON in and out.

    Args:
        url: Its address.
        headers: Lines such as "Authorization: Bearer …"; they go to this host alone.

    Raises:
        DataError: It is no address, or no header.
    """

    def __init__(self, url: str, headers: Sequence[str] = (), seconds: float = SECONDS) -> None:
        self.url = _checked(url)
        self._seconds = seconds
        loopback = self.url.host in HERE
        self._client = httpx.Client(
            headers=_headers(headers),
            timeout=httpx.Timeout(seconds, connect=min(seconds, 10.0)),
            trust_env=not loopback,  # a proxy does not reach this machine's own servers
        )

    def close(self) -> None:
        """Lets the connection go."""
        self._client.close()

    @property
    def shown(self) -> str:
        """The address without a password in it."""
        return str(self.url.copy_with(username=None, password=None, query=None, fragment=None))

    def at(self, path: str) -> httpx.URL:
        """The address of a path below that of the server."""
        base = self.url.path.rstrip("/")
        for end in ENDS:
            base = base.removesuffix(end)
        return self.url.copy_with(path=f"{base}{path}", query=None)

    def get(self, path: str) -> Any:
        """What lies at a path, as JSON."""
        return self._read("GET", self.at(path), None)

    def post(self, path: str | None, body: Any) -> Any:
        """What a path answers to JSON; None for the address itself."""
        return self._read("POST", self.url if path is None else self.at(path), body)

    def text(self, method: str, url: httpx.URL, body: Any = None) -> str:
        """The text of an answer; the same is asked again a few times where a server is busy.

        Raises:
            EndpointError: There is none, in time or at all, or it is too long.
            Refusal: Its status is 400 or above.
        """
        status, text = self._once(method, url, body)
        for pause in PAUSES:
            if status not in BUSY:
                break
            time.sleep(pause)
            status, text = self._once(method, url, body)
        if status >= 400:
            raise _refused(status, text, f"{method} {url.path}")
        return text

    def _read(self, method: str, url: httpx.URL, body: Any) -> Any:
        text = self.text(method, url, body)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            what = f"The server answers {method} {url.path} with what is no JSON ({_short(text)})."
            raise Unreadable(what, ANOTHER) from None

    def _once(self, method: str, url: httpx.URL, body: Any) -> tuple[int, str]:
        """Status and text of one answer, behind redirects within the host."""
        for _ in range(MOST_REDIRECTS + 1):
            with self._blamed(url), self._client.stream(method, url, json=body) as response:
                if not response.has_redirect_location:
                    return response.status_code, _limited(response, self._seconds)
                url = _redirected(url, response)
        raise EndpointError("The server redirects again and again.", ANOTHER)

    @contextmanager
    def _blamed(self, url: httpx.URL) -> Iterator[None]:
        """What keeps a request from its answer, in a sentence."""
        place = f"{url.host}:{url.port}" if url.port else url.host
        try:
            yield
        except httpx.TimeoutException:
            what = f"The server at {place} did not answer in time."
            raise EndpointError(what, "Look whether it is up, or still loading.") from None
        except (httpx.DecodingError, ValueError) as error:  # not what its encoding says
            what = f"What {place} answers cannot be read ({type(error).__name__})."
            raise EndpointError(what, ANOTHER) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            what = f"There is no server at {place} ({type(error).__name__})."
            raise EndpointError(what, "Check the address, and whether it is up.") from None


def _checked(url: str) -> httpx.URL:
    hint = "Write it as in http://127.0.0.1:8080."
    try:
        found = httpx.URL(url.strip())
    except (httpx.InvalidURL, ValueError, TypeError):
        raise DataError(f"'{url:.80}' is no address.", hint) from None
    if found.scheme not in ("http", "https") or not found.host:
        raise DataError(f"'{url:.80}' is no address of http or https.", hint)
    return found


def _headers(lines: Sequence[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        is_sound = colon and name.strip().isascii() and value.isascii() and line.isprintable()
        if not is_sound or not name.strip() or " " in name.strip():
            what = "A header is a name, a colon and a value."  # which may be secret: not shown
            raise DataError(what, 'Write it as in "Authorization: Bearer …".')
        found[name.strip()] = value.strip()
    return found


def _limited(response: httpx.Response, seconds: float) -> str:
    """The text of an answer that comes whole in time, and is not too long."""
    read, end = bytearray(), time.monotonic() + seconds
    for piece in response.iter_bytes():
        read += piece
        if time.monotonic() > end:
            raise httpx.ReadTimeout("it trickles")
        if len(read) > MOST_BYTES:
            what = f"The server's answer is longer than {MOST_BYTES // 1_000_000} MB."
            raise EndpointError(what, ANOTHER)
    return read.decode("utf-8", "replace")


def _redirected(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Where a redirect leads, within the host: headers of the user's go nowhere else."""
    to = url.join(response.headers["location"])
    if to.host != url.host or (url.scheme, to.scheme) == ("https", "http"):
        what = f"The server redirects to {to.scheme}://{to.host}, to which nothing is sent."
        raise EndpointError(what, "Give that address, if you trust it.")
    return to


def _refused(status: int, text: str, asked: str) -> Refusal:
    """A status of 400 or above, in a sentence."""
    if status in (401, 403):
        hint = 'Give what it asks for, as in --header "Authorization: Bearer …".'
        return Refusal(f"The server lets nobody in without a key ({status}).", hint, status)
    if status in BUSY:
        return Refusal(f"The server is busy or not ready ({status}).", "Try later.", status)
    what = f"The server answers {asked} with the status {status} ({_short(_reason(text))})."
    return Refusal(what, ANOTHER if status in (404, 405) else "Look into its log.", status)


def _reason(text: str) -> str:
    """What an error says of itself, where it is JSON as servers write it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("error", "message", "detail", "object"):
        if isinstance(found, Mapping) and found.get(key):
            found = found[key]
    return str(found)


def _short(text: str) -> str:
    told = " ".join(text.split())
    return f"{told[:80]}…" if len(told) > 80 else told or "nothing"


# --- Scores, however they are wrapped.


def scores_of(found: Any, texts: int) -> list[Scores]:
    """Reads an answer about some texts.

    >>> scores_of([[{"label": "a", "score": 0.9}, {"label": "b", "score": 0.1}]], 1)
    [Scores(names=('a', 'b'), values=(0.9, 0.1))]
    >>> scores_of({"predictions": [{"label": "a", "score": 0.9}, {"label": "b", "score": 0.7}]}, 2)
    [Scores(names=('a',), values=(0.9,)), Scores(names=('b',), values=(0.7,))]

    Raises:
        EndpointError: It holds no scores, one that is no number, or not as many answers.
    """
    while isinstance(found, Mapping) and (key := _wrapper(found)):
        found = found[key]
    rows = list(found) if isinstance(found, list) else [found]
    if texts == 1 and not any(isinstance(row, list) for row in rows):
        rows = [rows]  # one text's entries, not packed into a list of texts
    if len(rows) != texts:
        asked = "1 text" if texts == 1 else f"{texts} texts"
        what = f"The server was asked about {asked}, and answered {len(rows)}."
        raise EndpointError(what, ANOTHER)
    return [_row(row) for row in rows]


def _wrapper(found: Mapping[str, Any]) -> str:
    return next((key for key in WRAPPERS if isinstance(found.get(key), (list, Mapping))), "")


def _row(row: Any) -> Scores:
    """The scores of one text."""
    entries = row if isinstance(row, list) else [row]
    if len(entries) == 1 and isinstance(entries[0], Mapping):
        entries = _entries(entries[0])
    pairs = [_entry(one) for one in entries]
    names = [name for name, _ in pairs if name]
    if not pairs:
        raise EndpointError("The server answers a text with no score at all.", ANOTHER)
    if len(set(names)) < len(names):
        what = f"The server gives two scores for one label, {max(names, key=names.count):.60}."
        raise EndpointError(what, "Mend id2label in the config.json that it serves.")
    return Scores(names=tuple(n for n, _ in pairs), values=tuple(v for _, v in pairs))


def _entries(one: Mapping[str, Any]) -> list[Any]:
    """The scores in one object: a label with its score, a score a label, or Gradio's Label."""
    if isinstance(one.get("confidences"), list):
        return one["confidences"]
    if _named(one, NAMES) is not None and _named(one, VALUES) is not None:
        return [one]
    return [{"label": key, "score": value} for key, value in one.items()]


def _entry(one: Any) -> tuple[str, float]:
    """A label and its score."""
    name, value = ("", one)
    if isinstance(one, Mapping):
        name, value = str(_named(one, NAMES) or ""), _named(one, VALUES)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what = f"The server answers with something else than scores ({_short(str(one))})."
        raise EndpointError(what, ANOTHER)
    if not math.isfinite(value):
        what = f"The server gives a score that is no number ({value})."
        raise EndpointError(what, "Look at its weights and its precision.")
    return name, float(value)


def _named(one: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((one[name] for name in names if one.get(name) is not None), None)


# --- The servers.


class Server(ABC):
    """A server of a classifier.

    Attributes:
        called: Its name.
        raw_by: What asks it for logits; "" where nothing does.
        always_raw: Whether every version of it can give logits.
        squashes_numbers: Whether it documents a sigmoid also on the one number of a regression.
        takes_pairs: Whether it can be asked about two texts.
        most: How many texts are asked about at once; 1 where it takes no more.
        model: What it says that it serves; "" where it says nothing.
        tokens: How many tokens it says that it reads; 0 where it says nothing.
    """

    called: ClassVar[str]
    raw_by: ClassVar[str] = ""
    always_raw: ClassVar[bool] = False
    squashes_numbers: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = True
    whole_texts: ClassVar[str]  # what makes it refuse a text that is too long

    def __init__(self, http: Http) -> None:
        self.http = http
        self.most = 32
        self.model = ""
        self.tokens = 0

    @abstractmethod
    def ask(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, raw: bool = False
    ) -> list[Scores]:
        """What it says of some texts in one request.

        Args:
            raw: Ask for logits; else as its users do who name no parameter.

        Raises:
            EndpointError: It does not answer, or with no scores.
        """


class TextEmbeddingsInference(Server):
    """text-embeddings-inference, `POST /predict`."""

    called = "text-embeddings-inference"
    raw_by = '"raw_scores": true'
    always_raw = True
    squashes_numbers = True
    whole_texts = 'Start it with --auto-truncate false, or send "truncate": false.'

    def __init__(self, http: Http, info: Any = None) -> None:
        super().__init__(http)
        info = http.get("/info") if info is None else info
        kind = info.get("model_type") if isinstance(info, Mapping) else None
        if isinstance(kind, Mapping) and "embedding" in kind:
            what = "The server gives embeddings: it has loaded the model without its head."
            raise EndpointError(what, "Let it serve a folder of an XForSequenceClassification.")
        if isinstance(info, Mapping):
            self.model = str(info.get("model_id") or "")
            self.most = _count(info.get("max_client_batch_size")) or self.most
            self.tokens = _count(info.get("max_input_length"))

    def ask(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, raw: bool = False
    ) -> list[Scores]:
        inputs = [list(both) for both in zip(texts, pairs, strict=True)] if pairs else None
        body: dict[str, Any] = {"inputs": inputs or [[text] for text in texts]}
        body |= {"raw_scores": True} if raw else {}
        return scores_of(self.http.post("/predict", body), len(texts))


class Vllm(Server):
    """vLLM, `POST /classify`: scores in the order of the classes, and the name of the largest."""

    called = "vLLM"
    raw_by = '"use_activation": false'
    squashes_numbers = True
    takes_pairs = False
    whole_texts = "Send no truncate_prompt_tokens, and set none at its start."

    def __init__(self, http: Http, listed: Any = None) -> None:
        super().__init__(http)
        listed = http.get("/v1/models") if listed is None else listed
        models = listed.get("data") if isinstance(listed, Mapping) else None
        if not isinstance(models, list) or not models or not isinstance(models[0], Mapping):
            raise EndpointError("The server lists no model at /v1/models.", ANOTHER)
        self.model = str(models[0].get("id") or "")
        self.tokens = _count(models[0].get("max_model_len"))
        self._switch = "use_activation"

    def ask(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, raw: bool = False
    ) -> list[Scores]:
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        body |= {self._switch: False} if raw else {}
        found = self.http.post("/classify", body)
        rows = found.get("data") if isinstance(found, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise EndpointError("The server answers /classify without data.", ANOTHER)
        if len(rows) == len(texts):
            rows = sorted(rows, key=lambda row: _count(row.get("index")))
        values = scores_of([row.get("probs") for row in rows], len(texts))
        told = [str(row.get("label") or "") for row in rows]
        return [_with_best(one, name) for one, name in zip(values, told, strict=True)]

    def with_older_switch(self) -> None:
        """From now on asks for logits as versions did before use_activation."""
        self._switch = "activation"


def _with_best(scores: Scores, name: str) -> Scores:
    """Scores by place, of which the largest has a name."""
    best = max(range(len(scores.values)), key=lambda place: scores.values[place])
    names = tuple(name if place == best else "" for place in range(len(scores.values)))
    return Scores(names=names, values=scores.values)


class Pipeline(Server):
    """A server around Transformers' pipeline for text classification, as Inference Endpoints."""

    called = "Transformers"
    raw_by = '"parameters": {"top_k": null, "function_to_apply": "none"}'
    whole_texts = "Call its pipeline without truncation=True, or cut texts where that is seen."

    def ask(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, raw: bool = False
    ) -> list[Scores]:
        inputs: list[Any] = list(texts)
        if pairs:
            both = zip(texts, pairs, strict=True)
            inputs = [{"text": text, "text_pair": pair} for text, pair in both]
        body: dict[str, Any] = {"inputs": inputs if len(inputs) > 1 else inputs[0]}
        if raw:
            body["parameters"] = {"top_k": None, "function_to_apply": "none"}
        return scores_of(self.http.post(None, body), len(texts))


class Gradio(Server):
    """An app of Gradio with an endpoint that answers a Label, or JSON with scores.

    Args:
        config: Its `/config`.
        endpoint: The name of the endpoint; the only one that suits, if not given.
        texts: How many texts it is asked about: 1, or 2 of pairs.
    """

    called = "Gradio"
    whole_texts = "Let its function refuse what is too long, or say where it cut."

    def __init__(self, http: Http, config: Any, endpoint: str, texts: int) -> None:
        super().__init__(http)
        self.most = 1
        self._prefix = str(config.get("api_prefix") or "") if isinstance(config, Mapping) else ""
        info = http.get(f"{self._prefix}/info")
        known = info.get("named_endpoints") if isinstance(info, Mapping) else None
        known = {n: one for n, one in (known or {}).items() if isinstance(one, Mapping)}
        self._name = _endpoint(known, endpoint, texts)
        self._asked: Sequence[Mapping[str, Any]] = known[self._name].get("parameters") or ()

    def ask(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, raw: bool = False
    ) -> list[Scores]:
        own, data = [*texts, *pairs], []
        for one in self._asked:
            is_ours = own and _is_text(one)
            data.append(own.pop(0) if is_ours else one.get("parameter_default"))
        path = f"{self._prefix}/call{self._name}"
        begun = self.http.post(path, {"data": data})
        event = begun.get("event_id") if isinstance(begun, Mapping) else None
        if not isinstance(event, str):
            raise EndpointError(f"The app does not begin the call of {self._name}.", ANOTHER)
        stream = self.http.text("GET", self.http.at(f"{path}/{event}"))
        return scores_of(_completed(stream, self._name), len(texts))


def _endpoint(known: Mapping[str, Mapping[str, Any]], asked: str, texts: int) -> str:
    """Return the endpoint to call: the one asked for, or the only one that takes texts alone."""
    name = f"/{asked.strip().lstrip('/')}" if asked.strip() else ""
    if name and name not in known:
        raise EndpointError(f"The app has no endpoint {name:.60}.", did_you_mean(name, known))
    suited = [name] if name else [n for n, one in known.items() if _suits(one, texts)]
    if not suited:
        what = f"No endpoint of the app takes {'two texts' if texts > 1 else 'a text'} and "
        raise EndpointError(f"{what}answers with a Label or JSON.", "Name one with --endpoint.")
    if len(suited) > 1:
        what = f"Several endpoints of the app may be meant: {', '.join(suited)[:200]}."
        raise EndpointError(what, "Name one with --endpoint.")
    return suited[0]


def _suits(one: Mapping[str, Any], texts: int) -> bool:
    """Whether an endpoint takes so many texts, and nothing else that it must be told."""
    asked, gives = one.get("parameters") or (), one.get("returns") or ()
    needed = [own for own in asked if not own.get("parameter_has_default")]
    words = sum(map(_is_text, asked))
    answers = bool(gives) and str(gives[0].get("component")).lower() in ("label", "json")
    return answers and words == texts and all(map(_is_text, needed))


def _is_text(one: Mapping[str, Any]) -> bool:
    return str(one.get("component")).lower() in ("textbox", "text", "textarea")


def _completed(stream: str, name: str) -> Any:
    """The first value that a call ends with, read from its stream of events."""
    for block in reversed(stream.replace("\r\n", "\n").strip().split("\n\n")):
        lines = [line.partition(": ") for line in block.split("\n")]
        told = {name: value for name, _, value in lines}
        event, data = told.get("event", ""), told.get("data", "")
        if event == "error":
            what = f"The app's {name} fails ({_short(_reason(data))})."
            raise Refusal(what, "Look into its log.", 500)
        if event == "complete":
            try:
                return json.loads(data)[0]
            except (ValueError, RecursionError, LookupError, TypeError):
                break
    raise EndpointError(f"The app's {name} ends without an answer.", ANOTHER)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def connect(http: Http, server: str, *, endpoint: str = "", texts: int = 1) -> Server:
    """Finds out which server answers at an address.

    Args:
        server: What it is, or auto.
        endpoint: The endpoint of a Gradio app; the only one that suits, if not given.
        texts: How many texts it will be asked about at a time: 1, or 2 of pairs.

    Raises:
        DataError: No server has that name.
        EndpointError: There is none, or it serves no classifier.
    """
    if server not in get_args(ServerName):
        hint = did_you_mean(server, get_args(ServerName))
        raise DataError(f"No server is called '{server:.40}'.", hint)
    if server == "tei":
        return TextEmbeddingsInference(http)
    if server == "vllm":
        return Vllm(http)
    if server == "gradio":
        return Gradio(http, http.get("/config"), endpoint, texts)
    if server == "transformers":
        return Pipeline(http)
    return _found(http, endpoint, texts)


def _found(http: Http, endpoint: str, texts: int) -> Server:
    """The server, by what only that one has at a certain path."""
    info = _there(http, "/info")
    if "model_id" in info:
        return TextEmbeddingsInference(http, info)
    models = _there(http, "/v1/models")
    if isinstance(models.get("data"), list):
        return Vllm(http, models)
    config = _there(http, "/config")
    if "dependencies" in config:
        return Gradio(http, config, endpoint, texts)
    return Pipeline(http)


def _there(http: Http, path: str) -> Mapping[str, Any]:
    """An object that lies at a path; nothing where there is none, or something else."""
    try:
        found = http.get(path)
    except Unreadable:
        return {}
    except Refusal as error:
        if error.status in (401, 403, *BUSY):
            raise
        return {}
    return found if isinstance(found, Mapping) else {}
