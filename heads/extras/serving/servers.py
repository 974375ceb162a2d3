"""Servers of classifiers, by their documented HTTP formats, and the scores that they answer.

Gradio's own client sends a saved token and counts its calls, so its two steps are made here.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from heads import interruption
from heads.data.table import short
from heads.errors import DataError, EndpointError, did_you_mean
from heads.extras.serving.encoding import Row
from heads.extras.serving.http import OTHER_SERVER, Http, RefusedError, reason
from heads.interfaces.views.format import counted

WRAPPERS = ("predictions", "outputs", "output", "results", "result", "data")
NAMES, VALUES = ("label", "class", "name"), ("score", "confidence", "probability", "prob")
CHECK_LABELS = "Correct id2label in the config.json that it serves."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScores:
    """A server's scores of one text."""

    names: tuple[str, ...]  # the label of each value; "" where only its place is known
    values: tuple[float, ...]  # the scores


def parse_scores(answer: Any, n_rows: int) -> list[RowScores]:
    """Read the answer about some texts, whatever its scores are wrapped in.

    >>> parse_scores([[{"label": "a", "score": 0.9}, {"label": "b", "score": 0.1}]], 1)
    [RowScores(names=('a', 'b'), values=(0.9, 0.1))]
    >>> parse_scores({"predictions": [{"label": "a", "score": 0.9}, {"b": 0.7}]}, 2)
    [RowScores(names=('a',), values=(0.9,)), RowScores(names=('b',), values=(0.7,))]
    """
    while isinstance(answer, Mapping):
        inner = [answer[key] for key in WRAPPERS if isinstance(answer.get(key), (list, Mapping))]
        if not inner:
            break
        answer = inner[0]
    rows = list(answer) if isinstance(answer, list) else [answer]
    if n_rows == 1 and not any(isinstance(row, list) for row in rows):
        rows = [rows]  # one text's entries, without a list around them
    if len(rows) != n_rows:
        answers = counted(len(rows), "answer")
        what = f"The server was asked about {counted(n_rows, 'text')}, and gave {answers}."
        raise EndpointError(what, OTHER_SERVER)
    return [_parse_row(row if isinstance(row, list) else [row]) for row in rows]


def _parse_row(entries: list[Any]) -> RowScores:
    if len(entries) == 1 and isinstance(entry := entries[0], Mapping):
        if isinstance(entry.get("confidences"), list):  # Gradio's Label
            entries = entry["confidences"]
        elif _first(entry, NAMES) is None or _first(entry, VALUES) is None:
            entries = [{"label": key, "score": value} for key, value in entry.items()]
    if not entries:
        raise EndpointError("The server answers a text with no score at all.", OTHER_SERVER)
    names, values = zip(*map(_parse_entry, entries), strict=True)
    labels = [name for name in names if name]
    if len(set(labels)) < len(labels):
        what = f"The server gives two scores for one label, {max(labels, key=labels.count):.60}."
        raise EndpointError(what, CHECK_LABELS)
    return RowScores(names=names, values=values)


def _parse_entry(entry: Any) -> tuple[str, float]:
    name, value = "", entry
    if isinstance(entry, Mapping):
        name, value = str(_first(entry, NAMES) or ""), _first(entry, VALUES)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what = f"The server answers with something else than scores ({short(str(entry), 80)})."
        raise EndpointError(what, OTHER_SERVER)
    if not math.isfinite(value):
        what = f"The server gives a score that is no number ({value})."
        raise EndpointError(what, "Check its weights and its precision.")
    return name, float(value)


def _first(entry: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


# --- The servers.


class Server(ABC):
    """A server of a classifier.

    Args:
        endpoint: The endpoint of a Gradio app; the only one that suits, if not given.
        texts: How many texts it is asked about at a time: 1, or 2 of pairs.
    """

    title: ClassVar[str]  # its name
    raw_by: ClassVar[str] = ""  # the parameter that asks it for logits; "" where there is none
    always_raw: ClassVar[bool] = False  # whether every version of it can give logits
    # whether it documents a sigmoid also on the one number of a regression
    squashes_numbers: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = True  # whether it can be asked about two texts
    whole_texts: ClassVar[str]  # how to make it refuse a text that is too long

    def __init__(self, http: Http, endpoint: str = "", texts: int = 1) -> None:
        self.http, self.most = http, 32  # rows of a request; 1 where it takes no more
        self.model, self.tokens = "", 0  # the model and the limit that it names
        self._connect(endpoint, texts)

    def _connect(self, endpoint: str, texts: int) -> None:  # noqa: B027  a pipeline says nothing
        """Ask the server what it serves."""

    def ask_one(self, row: Row, *, raw: bool = False) -> RowScores:
        """Return the scores of one row, sent by itself."""
        interruption.check()
        return self.ask([row], raw=raw)[0]

    @abstractmethod
    def ask(self, rows: Sequence[Row], *, raw: bool = False) -> list[RowScores]:
        """Return the scores of some rows, asked for in one request; raw asks for logits."""


class TextEmbeddingsInference(Server):
    """text-embeddings-inference, `POST /predict`."""

    title = "text-embeddings-inference"
    raw_by = '"raw_scores": true'
    always_raw = True
    squashes_numbers = True
    whole_texts = 'Start it with --auto-truncate false, or send "truncate": false.'

    def _connect(self, endpoint: str, texts: int) -> None:
        info = self.http.json("/info")
        info = info if isinstance(info, Mapping) else {}
        kind = info.get("model_type")
        if isinstance(kind, Mapping) and "embedding" in kind:
            what = "The server gives embeddings: it has loaded the model without its head."
            raise EndpointError(what, "Let it serve a folder of an XForSequenceClassification.")
        self.model = str(info.get("model_id") or "")
        self.most = _count(info.get("max_client_batch_size")) or self.most
        self.tokens = _count(info.get("max_input_length"))

    def ask(self, rows: Sequence[Row], *, raw: bool = False) -> list[RowScores]:
        body: dict[str, Any] = {"inputs": [list(row) for row in rows]}
        body |= {"raw_scores": True} if raw else {}
        return parse_scores(self.http.json("/predict", body), len(rows))


class Vllm(Server):
    """vLLM, `POST /classify`: scores in the order of the classes, and the name of the largest."""

    title = "vLLM"
    raw_by = '"use_activation": false'
    squashes_numbers = True
    takes_pairs = False
    whole_texts = "Send no truncate_prompt_tokens, and set none at its start."
    switch = "use_activation"  # in older versions "activation"

    def _connect(self, endpoint: str, texts: int) -> None:
        listed = self.http.json("/v1/models")
        models = listed.get("data") if isinstance(listed, Mapping) else None
        if not isinstance(models, list) or not models or not isinstance(models[0], Mapping):
            raise EndpointError("The server lists no model at /v1/models.", OTHER_SERVER)
        self.model = str(models[0].get("id") or "")
        self.tokens = _count(models[0].get("max_model_len"))

    def ask(self, rows: Sequence[Row], *, raw: bool = False) -> list[RowScores]:
        body: dict[str, Any] = {"model": self.model, "input": [row[0] for row in rows]}
        body |= {self.switch: False} if raw else {}
        answer = self.http.json("/classify", body)
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
            raise EndpointError("The server answers /classify without data.", OTHER_SERVER)
        if len(data) == len(rows):
            data = sorted(data, key=lambda entry: _count(entry.get("index")))
        parsed, answers = parse_scores([entry.get("probs") for entry in data], len(rows)), []
        for entry, scores in zip(data, parsed, strict=True):
            names = [""] * len(scores.values)
            names[scores.values.index(max(scores.values))] = str(entry.get("label") or "")
            answers.append(RowScores(names=tuple(names), values=scores.values))
        return answers


class Pipeline(Server):
    """A server around Transformers' pipeline for text classification, as Inference Endpoints."""

    title = "Transformers"
    raw_by = '"parameters": {"top_k": null, "function_to_apply": "none"}'
    whole_texts = "Call its pipeline without truncation=True, or cut texts where users see it."

    def ask(self, rows: Sequence[Row], *, raw: bool = False) -> list[RowScores]:
        inputs: list[Any] = [
            {"text": text, "text_pair": pair[0]} if pair else text for text, *pair in rows
        ]
        body: dict[str, Any] = {"inputs": inputs if len(inputs) > 1 else inputs[0]}
        if raw:
            body["parameters"] = {"top_k": None, "function_to_apply": "none"}
        return parse_scores(self.http.json(None, body), len(rows))


class Gradio(Server):
    """An app of Gradio with an endpoint that answers a Label, or JSON with scores."""

    title = "Gradio"
    whole_texts = "Let its function refuse what is too long, or say where it cut."

    def _connect(self, endpoint: str, texts: int) -> None:
        self.most = 1
        self._prefix = str(self.http.look_at("/config").get("api_prefix") or "")
        info = self.http.json(f"{self._prefix}/info")
        named = info.get("named_endpoints") if isinstance(info, Mapping) else None
        endpoints = {name: one for name, one in (named or {}).items() if isinstance(one, Mapping)}
        self._name = _select_endpoint(endpoints, endpoint, texts)
        self._inputs: Sequence[Mapping[str, Any]] = endpoints[self._name].get("parameters") or ()

    def ask(self, rows: Sequence[Row], *, raw: bool = False) -> list[RowScores]:
        texts = list(rows[0])
        data = [
            texts.pop(0) if texts and _is_text(one) else one.get("parameter_default")
            for one in self._inputs
        ]
        path = f"{self._prefix}/call{self._name}"
        begun = self.http.json(path, {"data": data})
        event = begun.get("event_id") if isinstance(begun, Mapping) else None
        if not isinstance(event, str):
            what = f"The app does not begin the call of {self._name}."
            raise EndpointError(what, OTHER_SERVER)
        stream = self.http.request("GET", self.http.at(f"{path}/{event}"))
        return parse_scores(_read_result(stream, self._name), len(rows))


def _select_endpoint(known: Mapping[str, Mapping[str, Any]], endpoint: str, texts: int) -> str:
    """Return the endpoint to call: the one asked for, or the only one that takes texts alone."""
    name = f"/{endpoint.strip().lstrip('/')}" if endpoint.strip() else ""
    if name and name not in known:
        raise EndpointError(f"The app has no endpoint {name:.60}.", did_you_mean(name, known))
    suitable = [name] if name else [n for n, one in known.items() if _is_suitable(one, texts)]
    if len(suitable) == 1:
        return suitable[0]
    what = f"Several endpoints of the app may be meant: {', '.join(suitable)[:200]}."
    if not suitable:
        inputs = "two texts" if texts > 1 else "a text"
        what = f"No endpoint of the app takes {inputs} and answers with a Label or JSON."
    raise EndpointError(what, "Name one with --endpoint.")


def _is_suitable(endpoint: Mapping[str, Any], texts: int) -> bool:
    """Return True if an endpoint takes so many texts, needs nothing else and answers scores."""
    inputs, outputs = endpoint.get("parameters") or (), endpoint.get("returns") or ()
    needed = [one for one in inputs if not one.get("parameter_has_default")]
    answers = bool(outputs) and str(outputs[0].get("component")).lower() in ("label", "json")
    return answers and sum(map(_is_text, inputs)) == texts and all(map(_is_text, needed))


def _is_text(component: Mapping[str, Any]) -> bool:
    return str(component.get("component")).lower() in ("textbox", "text", "textarea")


def _read_result(stream: str, name: str) -> Any:
    """Return the first value that a call ends with, read from its stream of events."""
    for block in reversed(stream.replace("\r\n", "\n").strip().split("\n\n")):
        lines = [line.partition(": ") for line in block.split("\n")]
        fields = {key: value for key, _, value in lines}
        event, data = fields.get("event", ""), fields.get("data", "")
        if event == "error":
            what = f"The app's {name} fails ({reason(data)})."
            raise RefusedError(what, "See its log.", 500)
        if event == "complete":
            try:
                return json.loads(data)[0]
            except (ValueError, RecursionError, LookupError, TypeError):
                break
    raise EndpointError(f"The app's {name} ends without an answer.", OTHER_SERVER)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


SERVERS: Mapping[str, type[Server]] = {
    "tei": TextEmbeddingsInference,
    "vllm": Vllm,
    "transformers": Pipeline,
    "gradio": Gradio,
}


def connect(http: Http, server: str, *, endpoint: str = "", texts: int = 1) -> Server:
    """Connect to a server of a kind, a key of SERVERS or auto; see `Server` for the others."""
    if server == "auto":  # by what only one kind has at a certain path
        if "model_id" in http.look_at("/info"):
            server = "tei"
        elif isinstance(http.look_at("/v1/models").get("data"), list):
            server = "vllm"
        else:
            server = "gradio" if "dependencies" in http.look_at("/config") else "transformers"
    if server not in SERVERS:
        hint = did_you_mean(server, ["auto", *SERVERS])
        raise DataError(f"No server is called '{server:.40}'.", hint)
    return SERVERS[server](http, endpoint, texts)
