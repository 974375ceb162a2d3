"""Servers of classifiers on this machine, in the formats of others, right and with seeded faults.

They compute with Transformers and torch alone, and know nothing of the package that asks them.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from tiny_models import write_classifier
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

FAMILIES = ("bert", "roberta", "distilbert", "gpt2")
LAST = {"bert": "classifier", "roberta": "classifier.out_proj", "distilbert": "classifier"}
NAMES = ("negative", "neutral", "positive")


def write_served(
    folder: Path,
    family: str = "bert",
    labels: Sequence[str] = NAMES,
    size: float = 6.0,
    **more: Any,
) -> Path:
    """Writes a small random classifier whose logits are as far apart as trained ones are.

    Args:
        size: What its last layer is multiplied by.
    """
    template = more.pop("template", "")
    write_classifier(folder, family, template, labels=len(labels))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    last = model.get_submodule(LAST.get(family, "score"))
    with torch.no_grad():
        last.weight.mul_(size)
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {name: number for number, name in enumerate(labels)}
    for name, value in more.items():
        setattr(model.config, name, value)
    model.save_pretrained(folder)
    return folder


@dataclass(kw_only=True)
class Served:
    """How a checkpoint is served, and with which fault."""

    folder: Path
    head: str = "own"  # or "dropped" (its hidden layers are not run) or "mean" (of the states)
    dtype: torch.dtype = torch.float32  # in what it computes
    output: str = "own"  # its scores: "own", or logits, softmax, sigmoid, twice
    raw_output: str = "logits"  # its scores where it is asked for logits
    names: Sequence[str] = ()  # of its labels; those of the config, if not given
    # after how many tokens a text is cut; None where one that is too long is refused
    cut: int | None = None
    left: bool = False  # whether it is cut at its beginning
    reads_padding: bool = False  # whether tokens that only fill a batch up are read
    padding: str = "right"  # on which side they stand
    change: Callable[[Any], Any] = lambda text: text  # what is done to the texts first
    takes_parameters: bool = True  # whether what a question names beside texts is heard
    decimals: int | None = None  # how many of a score are given; None for all
    factor: float = 1.0  # what logits are multiplied by before they become scores
    dropout: bool = False  # whether it is on, as in training
    sorts: bool = False  # whether a batch is answered in the order of its texts' lengths
    model: Any = field(init=False)
    tokenizer: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model = AutoModelForSequenceClassification.from_pretrained(
            self.folder, dtype=self.dtype
        ).train(self.dropout)
        self.tokenizer = AutoTokenizer.from_pretrained(self.folder)
        self.tokenizer.padding_side = self.padding
        self.tokenizer.truncation_side = "left" if self.left else "right"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = "[PAD]"
        labels = self.model.config.id2label
        self.names = self.names or [labels[number] for number in sorted(labels)]

    @property
    def own(self) -> str:
        """What the pipeline of Transformers makes of the logits."""
        config = self.model.config
        if config.problem_type == "regression":
            return "logits"
        several = config.problem_type == "multi_label_classification" or config.num_labels == 1
        return "sigmoid" if several else "softmax"

    @torch.no_grad()
    def logits(self, texts: Sequence[Any]) -> Tensor:
        """(n, c). Raises ValueError for a text that is too long."""
        given = [self.change(text) for text in texts]
        asked = list(zip(*given, strict=True)) if isinstance(given[0], tuple) else [given]
        cut = {"truncation": True, "max_length": self.cut} if self.cut else {}
        inputs = self.tokenizer(
            *map(list, asked), padding=True, return_tensors="pt", verbose=False, **cut
        )
        most = getattr(self.model.config, "max_position_embeddings", 512)
        if self.model.config.model_type == "roberta":  # whose places begin behind that of padding
            most -= self.model.config.pad_token_id + 1
        if inputs["input_ids"].shape[1] > most:
            raise ValueError("too long")
        if self.reads_padding:
            inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
        if self.head == "own" and not self.reads_padding:
            return self.model(**inputs).logits.float()
        states = self.model.base_model(**inputs).last_hidden_state
        mask = inputs["attention_mask"]
        return self._headed(states, mask).float()

    def _headed(self, states: Tensor, mask: Tensor) -> Tensor:
        model, family = self.model, self.model.config.model_type
        first = states[:, -1] if family == "gpt2" else states[:, 0]
        if self.head == "mean":
            weights = (mask / mask.sum(dim=1, keepdim=True)).to(states.dtype)
            first = (weights[:, None] @ states)[:, 0]
        if self.head == "dropped":
            return model.get_submodule(LAST[family])(first)
        if family == "bert":
            return model.classifier(torch.tanh(model.bert.pooler.dense(first)))
        if family == "roberta":
            return model.classifier(first[:, None])
        if family == "distilbert":
            return model.classifier(torch.relu(model.pre_classifier(first)))
        return model.score(first)

    def scores(self, texts: Sequence[Any], *, raw: bool = False) -> list[list[float]]:
        """What is answered, in the order of its labels."""
        if self.sorts:
            texts = sorted(texts, key=len)
        logits = self.logits(texts)
        scaled = logits * self.factor
        name = self.raw_output if raw and self.takes_parameters else self.output
        made = {
            "logits": lambda: logits,
            "softmax": lambda: scaled.softmax(1),
            "sigmoid": lambda: logits.sigmoid(),
            "twice": lambda: logits.softmax(1).softmax(1),
        }
        found = made[self.own if name == "own" else name]().tolist()
        if self.decimals is None:
            return found
        return [[round(score, self.decimals) for score in row] for row in found]

    def named(self, row: Sequence[float]) -> list[dict[str, Any]]:
        """Labels with their scores, the best first."""
        found = [{"label": n, "score": s} for n, s in zip(self.names, row, strict=True)]
        return sorted(found, key=lambda one: -one["score"])


# --- The formats. Each answers a method, a path and a body with a status and a value.


def tei(served: Served, method: str, path: str, body: Any) -> tuple[int, Any]:
    """text-embeddings-inference: `/info` and `/predict`."""
    if (method, path) == ("GET", "/info"):
        kind = {"classifier": {"id2label": dict(enumerate(served.names))}}
        return 200, {
            "model_id": "tiny", "model_type": kind, "max_input_length": 128,
            "max_client_batch_size": 8, "auto_truncate": served.cut is not None,
        }  # fmt: skip
    if (method, path) != ("POST", "/predict"):
        return 404, {}
    inputs = body["inputs"]
    if len(inputs) > 8:
        return 422, {"error": "batch size 9 > maximum allowed 8", "error_type": "Validation"}
    texts = [one[0] if len(one) == 1 else tuple(one) for one in inputs]
    if served.output == "own":  # whatever the config says
        served.output = "sigmoid" if len(served.names) == 1 else served.own
    try:
        rows = served.scores(texts, raw=body.get("raw_scores", False))
    except ValueError:
        return 413, {"error": "`inputs` must have less than 128 tokens", "error_type": "Validation"}
    return 200, [served.named(row) for row in rows]


def vllm(served: Served, method: str, path: str, body: Any) -> tuple[int, Any]:
    """vLLM: `/v1/models` and `/classify`."""
    if (method, path) == ("GET", "/v1/models"):
        return 200, {
            "object": "list",
            "data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 128}],
        }
    if (method, path) != ("POST", "/classify") or body["model"] != "tiny":
        return 404, {"error": {"message": "Not Found", "code": 404}}
    try:
        rows = served.scores(body["input"], raw=body.get("use_activation") is False)
    except ValueError:
        return 400, {"error": {"message": "This model's maximum context length is 128 tokens."}}
    data = [
        {"index": n, "label": served.names[max(range(len(row)), key=row.__getitem__)],
         "probs": row, "num_classes": len(row)}
        for n, row in enumerate(rows)
    ]  # fmt: skip
    return 200, {"id": "classify-1", "object": "list", "model": "tiny", "data": data}


def pipeline(served: Served, method: str, path: str, body: Any) -> tuple[int, Any]:
    """A server around the pipeline of Transformers, at one address."""
    if method != "POST" or path not in ("/", ""):
        return 404, {"error": "Not Found"}
    inputs, parameters = body["inputs"], body.get("parameters") or {}
    parameters = parameters if served.takes_parameters else {}
    is_one = not isinstance(inputs, list)
    given = [inputs] if is_one else inputs
    texts = [(x["text"], x["text_pair"]) if isinstance(x, dict) else x for x in given]
    try:
        rows = served.scores(texts, raw=parameters.get("function_to_apply") == "none")
    except ValueError:
        return 500, {"error": "index out of range in self"}
    named = [served.named(row) for row in rows]
    if parameters.get("top_k", 1) == 1:
        return 200, [one[0] for one in named]
    return 200, named


FORMATS = {"tei": tei, "vllm": vllm, "transformers": pipeline}
Answer = Callable[[str, str, Any], tuple[int, Any]]


@contextlib.contextmanager
def answering(answer: Answer, seen: list[dict[str, str]] | None = None) -> Iterator[str]:
    """A server whose every answer a function gives: a status and a value, or bytes as they are.

    Args:
        seen: Gets the headers of every request.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet: else each answer waits for 40 ms

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            if seen is not None:
                seen.append(dict(self.headers))
            status, value = answer(self.command, self.path, body)
            headers = {}
            if isinstance(value, tuple):
                value, headers = value
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, told in headers.items():
                self.send_header(name, told)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def serving_classifier(form: str, served: Served) -> Iterator[str]:
    """A checkpoint behind one of the formats."""
    own, lock = FORMATS[form], threading.Lock()

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        with lock:
            return own(served, method, path, body)

    with answering(answer) as url:
        yield url


@contextlib.contextmanager
def serving_app(served: Served, *, several: bool = False, two: bool = False) -> Iterator[str]:
    """A checkpoint behind a real app of Gradio that shows a Label."""
    import gradio

    def classify(text: str) -> dict[str, float]:
        return dict(zip(served.names, served.scores([text])[0], strict=True))

    def classify_two(text: str, pair: str) -> dict[str, float]:
        return dict(zip(served.names, served.scores([(text, pair)])[0], strict=True))

    with gradio.Blocks(analytics_enabled=False) as app:
        text, pair, label = gradio.Textbox(), gradio.Textbox(), gradio.Label()
        given, function = ([text, pair], classify_two) if two else ([text], classify)
        gradio.Button().click(function, given, label, api_name="classify")
        if several:
            gradio.Button().click(function, given, label, api_name="again")
    _, url, _ = app.launch(
        prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", share=False
    )
    try:
        yield url
    finally:
        app.close(verbose=False)
