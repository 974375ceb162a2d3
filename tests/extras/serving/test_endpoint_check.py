"""Served classifiers: right ones are not blamed, and the fault of each wrong one is named."""

import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import httpx
import pytest
import slow
import torch
from served_classifiers import (
    FAMILIES,
    FORMATS,
    NAMES,
    Served,
    answering,
    serving_app,
    serving_classifier,
    write_served,
)
from shown_results import HOSTILE, check_shown
from tiny_models import FORMS, PIECES, real_tokenizer

import heads
from heads.catalog.tiny_models import tiny_model
from heads.errors import DataError, EndpointError, HeadsError, LimitError
from heads.extras.serving import http as http_module
from heads.extras.serving.http import Http
from heads.extras.serving.labels import LabelCountError, match_labels
from heads.extras.serving.report import EndpointReport, fault
from heads.extras.serving.servers import RowScores, connect, parse_scores
from heads.interfaces.cli.app import main
from heads.settings import PUBLIC, use_limits

Folders = Callable[..., Path]
FEW = ("Good.", "Not bad at all.", "The cat sat on a mat.", "a flight cancelled twice", "Why not?")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders of small classifiers, each written once."""
    made: dict[str, Path] = {}

    def folder(family: str = "bert", labels: Any = NAMES, **more: Any) -> Path:
        key = repr((family, labels, sorted(more.items())))
        if key not in made:
            made[key] = write_served(
                tmp_path_factory.mktemp("served") / family, family, labels, **more
            )
        return made[key]

    return folder


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "PAUSES", (0.0, 0.0))


def check(form: str, served: Served, **asked: Any) -> EndpointReport:
    serving = serving_app(served) if form == "gradio" else serving_classifier(form, served)
    with serving as url:
        return heads.check_endpoint(url, served.folder, **asked)


@contextmanager
def client(answer: Callable[..., Any], *seen: list[dict[str, str]]) -> Iterator[Http]:
    with answering(answer, *seen) as url, closing(Http(url)) as http:
        yield http


def faults(found: EndpointReport) -> list[str]:
    return [one.kind for one in found.faults]


def told(found: EndpointReport) -> str:
    return " ".join(one.says for one in found.findings)


# Right servers


HALF = ("bfloat16", "float16")
ONE_LAYER = ("gpt2", "dropped")  # a head of one layer has none to drop


def serve_each(often: Sequence[tuple[str, ...]], *lists: Iterable[str]) -> list[Any]:
    """Return every combination, each with one form of server in turn, and those run often.

    What a form of server changes does not depend on the rest: it is how answers are wrapped.
    """
    forms = itertools.cycle((*FORMATS, "gradio"))
    products = [row for row in itertools.product(*lists) if row[:2] != ONE_LAYER]
    rows = [(form, *row) for form, row in zip(forms, products, strict=False)]
    return slow.but([*rows, *(row for row in often if row not in rows)], *often)


OFTEN_RIGHT = (
    ("tei", "bert", "float32"),
    ("vllm", "gpt2", "bfloat16"),
    ("transformers", "roberta", "float16"),
)


@pytest.mark.parametrize(
    ("form", "family", "dtype"), serve_each(OFTEN_RIGHT, FAMILIES, ("float32", *HALF))
)
def test_a_right_server_is_not_blamed(
    checkpoint: Folders, form: str, family: str, dtype: str
) -> None:
    served = Served(folder=checkpoint(family), dtype=getattr(torch, dtype))
    found = check(form, served)
    assert found.is_right, found.findings
    assert found.verdict == "The server's answers are those of the checkpoint's own head."
    assert (found.agreement, found.probes) == (1.0, 24)
    assert ("as half precision does" in told(found)) == (dtype != "float32")
    assert "tokens is refused" in told(found)


PROBLEMS: dict[str, dict[str, Any]] = {
    "two classes": {"labels": ("no", "yes")},
    "77 classes": {"labels": tuple(f"intent {n}" for n in range(77))},
    "regression": {"labels": ("LABEL_0",), "problem_type": "regression"},
    "one output": {"labels": ("LABEL_0",)},
    "several labels": {
        "labels": ("a", "b", "c", "d"),
        "problem_type": "multi_label_classification",
    },
    "hardly apart": {"size": 0.02},
    "far apart": {"size": 60.0},
    "two texts, types": {"template": "segments", "paired": True},
    "two texts, no types": {"family": "roberta", "template": "around", "paired": True},
    "two texts, a decoder": {"family": "gpt2", "paired": True},
}
OFTEN_ASKED = (
    ("vllm", "regression", "float32"),
    ("tei", "several labels", "float32"),
    ("transformers", "two texts, types", "bfloat16"),
)


@pytest.mark.parametrize(
    ("form", "problem", "dtype"), serve_each(OFTEN_ASKED, PROBLEMS, ("float32", *HALF))
)
def test_so_it_is_of_every_kind_of_head(
    checkpoint: Folders, form: str, problem: str, dtype: str
) -> None:
    if "two texts" in problem and form in ("vllm", "gradio"):
        form = "tei"  # these are asked about single texts
    facts = dict(PROBLEMS[problem])
    paired = facts.pop("paired", False)
    served = Served(folder=checkpoint(**facts), dtype=getattr(torch, dtype))
    found = check(form, served, paired=paired)
    assert found.is_right, found.findings


@pytest.mark.parametrize("decimals", slow.but((2, 3, 4), 2))
def test_rounded_scores_are_right_and_faults_of_them_are_seen(
    checkpoint: Folders, decimals: int
) -> None:
    served = Served(folder=checkpoint(), decimals=decimals)
    assert check("gradio", served, long=False).is_right
    served.head = "mean"
    assert faults(check("gradio", served, long=False)) == ["pooling"]


def test_a_decoder_whose_places_count_padding_is_told(checkpoint: Folders) -> None:
    """As GPT-2's do on the left of which a batch is filled up, if nobody gives it the places."""
    folder = checkpoint("gpt2")
    assert check("tei", Served(folder=folder), long=False).is_right
    found = check("tei", Served(folder=folder, padding="left"), long=False)
    assert faults(found) == ["padding"], found.findings


# Seeded faults


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "dropped": ({"head": "dropped"}, "head", "dropped"),
    "pooling": ({"head": "mean"}, "pooling", "The pooling is another: average (mean)"),
    "logits": ({"output": "logits"}, "output", "The scores are logits"),
    "labels": (
        {"names": ("negative", "positive", "neutral")},
        "labels",
        "what the checkpoint calls positive the server calls neutral",
    ),
    "cut": ({"cut": 90}, "truncation", "is cut without an error: it reads the first 90 tokens"),
}
OFTEN_SEEDED = (
    ("tei", "bert", "dropped", "float32"),
    ("vllm", "distilbert", "pooling", "float32"),
    ("gradio", "roberta", "logits", "float32"),
    ("transformers", "gpt2", "labels", "float32"),
    ("tei", "roberta", "cut", "bfloat16"),
)


@pytest.mark.parametrize(
    ("form", "family", "fault", "dtype"),
    serve_each(OFTEN_SEEDED, FAMILIES, FAULTS, ("float32", "bfloat16")),
)
def test_a_seeded_fault_is_named(
    checkpoint: Folders, form: str, family: str, fault: str, dtype: str
) -> None:
    seeded, kind, says = FAULTS[fault]
    served = Served(folder=checkpoint(family), dtype=getattr(torch, dtype), **seeded)
    found = check(form, served)
    assert set(faults(found)) == {kind}, found.findings
    if fault != "cut" or dtype == "float32":
        assert says in told(found)
    else:  # so exact half precision is not always
        [places] = re.findall(r"reads the first ([\d to]+) tokens", told(found))
        ends = [int(place) for place in places.split(" to ")]
        assert ends[0] <= 90 <= ends[-1]


OTHERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "twice": ("tei", {"output": "twice"}, "output", "a softmax of a softmax"),
    "sigmoid": ("vllm", {"output": "sigmoid"}, "output", "a sigmoid of each logit"),
    "raw is not": ("tei", {"raw_output": "softmax"}, "output", "it gives a softmax"),
    "the end": ("tei", {"cut": 90, "left": True}, "truncation", "it reads the last 90 tokens"),
    "cut early": ("tei", {"cut": 20}, "truncation", "it reads the first 20 tokens"),
    "cut late": ("tei", {"cut": 117}, "truncation", "it reads the first 117 tokens"),
    "temperature": ("tei", {"factor": 0.6}, "temperature", "multiplied by 0.6 "),
    "sorted": ("transformers", {"sorts": True}, "order", "another order"),
    "dropout": ("vllm", {"dropout": True}, "random", "when sent again"),
    "beside others": ("tei", {"reads_padding": True}, "padding", "batched with"),
    "lower case": ("tei", {"change": str.lower}, "input", "lower-cased"),
    "several labels": ("tei", {"output": "softmax"}, "output", "a softmax of the logits"),
    "pair, one read": ("tei", {"change": lambda both: both[0]}, "input", "The second text of a"),
    "pair, turned": ("tei", {"change": lambda both: both[::-1]}, "input", "the other way round"),
}


@pytest.mark.parametrize(
    "fault", slow.but(OTHERS, "cut early", "beside others", "temperature", "sorted", "dropout")
)
def test_other_faults_are_named(checkpoint: Folders, fault: str) -> None:
    form, seeded, kind, says = OTHERS[fault]
    served = Served(folder=checkpoint(**PROBLEMS.get(fault, {})), **seeded)
    found = check(form, served, paired=fault.startswith("pair"))
    assert set(faults(found)) == {kind}, found.findings
    assert says in told(found)


@pytest.mark.parametrize("clean", [str.strip, partial(normalize, "NFC")])
def test_a_server_that_cleans_texts_is_recognised(
    tmp_path: Path, clean: Callable[[str], str]
) -> None:
    settings = {"vocab_size": PIECES, "pad_token_id": 0}
    tiny_model("gpt2", **settings).save_pretrained(tmp_path)
    real_tokenizer("bytes", FORMS["gpt2"][0], 512).save_pretrained(tmp_path)
    found = check("tei", Served(folder=tmp_path, change=clean), long=False)
    assert faults(found) == ["input"], found.findings


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_weights_are_no_known_fault(checkpoint: Folders, dtype: str) -> None:
    served = Served(folder=checkpoint("bert"), dtype=getattr(torch, dtype))
    with torch.no_grad():
        served.model.bert.encoder.layer[1].output.dense.weight.mul_(0.5)
    found = check("tei", served)
    assert faults(found) == ["unexplained"], found.findings
    assert "no known fault explains them" in told(found)


@pytest.mark.slow
def test_several_faults_at_once_are_told_each_for_itself(checkpoint: Folders) -> None:
    served = Served(
        folder=checkpoint("roberta"), head="dropped", output="logits", names=NAMES[::-1], cut=90
    )
    found = check("tei", served)
    assert sorted(faults(found)) == ["head", "labels", "output", "truncation"], found.findings
    assert found.verdict.endswith("own head: 4 faults.")


def test_weights_with_noise_are_not_half_precision(checkpoint: Folders) -> None:
    served = Served(folder=checkpoint("bert"), dtype=torch.bfloat16)
    with torch.no_grad():
        for parameter in served.model.parameters():
            parameter.mul_(1 + 0.02 * torch.randn(parameter.shape).to(parameter.dtype))
    assert not check("tei", served, long=False).is_right


def test_a_temperature_in_half_precision_is_named(checkpoint: Folders) -> None:
    found = check("tei", Served(folder=checkpoint(), factor=2.5, dtype=torch.bfloat16), long=False)
    assert faults(found) == ["temperature"], found.findings


# What is a note


NOTES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    **{form: ({}, {"cut": 128}, "cut to the first 128") for form in FORMATS},
    "lost names": (
        {}, {"names": ("LABEL_0", "LABEL_1", "LABEL_2")}, "has lost the labels' names",
    ),
    "a documented sigmoid": (
        PROBLEMS["regression"], {"output": "sigmoid"}, "a sigmoid of the number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", slow.but(NOTES, "tei", "a documented sigmoid"))
def test_what_is_right_though_worth_a_note(checkpoint: Folders, name: str) -> None:
    facts, seeded, says = NOTES[name]
    form = name if name in FORMATS else "tei"
    found = check(form, Served(folder=checkpoint(**facts), **seeded), long="cut" in seeded)
    assert found.is_right, found.findings
    assert says in told(found)


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_a_server_that_names_the_best_label_alone(checkpoint: Folders, swapped: bool) -> None:
    names = ("negative", "positive", "neutral") if swapped else ()
    served = Served(folder=checkpoint(), takes_parameters=False, names=names)
    found = check("transformers", served)
    assert faults(found) == ["labels"] * swapped, found.findings
    assert "It names some labels only" in told(found)


def test_what_cannot_be_told_apart_is_said(checkpoint: Folders) -> None:
    served = Served(folder=checkpoint("gpt2"), head="mean")
    found = check("tei", served, texts=["cat cat", "dog"], long=False)
    assert not found.is_right


# Labels


def test_labels_are_matched_by_name_by_number_and_by_place() -> None:
    def of(*names: str) -> RowScores:
        return RowScores(names=names, values=tuple(float(n) for n in range(len(names))))

    assert match_labels([of("b", "a")], ("a", "b")).matrix([of("b", "a")]).tolist() == [[1.0, 0.0]]
    assert match_labels([of("So so", "OK")], ("ok", "so_so")).names == ("OK", "So so")
    assert match_labels([of("LABEL_1", "LABEL_0")], ("a", "b")).is_numbered
    assert match_labels([of("x", "a")], ("a", "b")).foreign == ("x",)
    placed = match_labels([of("", "no"), of("", "no")], ("no", "yes"))
    assert (placed.places, placed.names) == ((1, 0), ("no", ""))
    assert not match_labels([of("", "")], ("a", "b")).is_named
    with pytest.raises(LabelCountError, match="scores 3 labels, and the checkpoint has 2"):
        match_labels([of("a", "b", "c")], ("a", "b"))
    with pytest.raises(LabelCountError, match="scores 1 label, and the checkpoint has 2"):
        match_labels([of("")], ("a", "b"))


@pytest.mark.slow
def test_other_labels_are_a_fault(checkpoint: Folders) -> None:
    found = check("tei", Served(folder=checkpoint(), names=("bad", "so-so", "good")))
    assert set(faults(found)) == {"labels"}, found.findings
    two = Served(folder=checkpoint(labels=("no", "yes")))
    with serving_classifier("tei", two) as url:
        found = heads.check_endpoint(url, checkpoint())
    [fault] = found.faults
    assert fault.says == "The server scores 2 labels, and the checkpoint has 3."
    assert found.difference is None


# What is read of an answer


ROW = [{"label": "a", "score": 0.75}, {"label": "b", "score": 0.25}]
READ: list[tuple[Any, int]] = [
    ([ROW], 1),
    (ROW, 1),
    ({"predictions": [ROW]}, 1),
    ({"outputs": {"predictions": ROW}}, 1),
    ([{"a": 0.75, "b": 0.25}], 1),
    ({"a": 0.75, "b": 0.25}, 1),
    ({"label": "a", "confidences": [{"label": "a", "confidence": 0.75},
                                    {"label": "b", "confidence": 0.25}]}, 1),
    ([ROW, ROW], 2),
    ({"results": [ROW, ROW, ROW]}, 3),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "texts"), READ)
def test_scores_are_read_however_they_are_wrapped(answer: Any, texts: int) -> None:
    assert parse_scores(answer, texts) == [RowScores(names=("a", "b"), values=(0.75, 0.25))] * texts


BAD: dict[str, tuple[int, Any, str]] = {
    "html": (200, b"<html>Hello</html>", "with no JSON (<html>Hello</html>)"),
    "nothing": (200, b"", "with no JSON (nothing)"),
    "no scores": (200, [[{"label": "a", "score": "high"}]], "something else than scores"),
    "a sentence": (200, "Hello", "something else than scores (Hello)"),
    "empty": (200, [[]], "no score at all"),
    "NaN": (200, b'[[{"label": "a", "score": NaN}]]', "a score that is no number (nan)"),
    "infinity": (200, [[{"label": "a", "score": 1e999}]], "no number (inf)"),
    "null": (200, [[{"label": "a", "score": None}]], "something else than scores"),
    "two of a name": (200, [[ROW[0], ROW[0]]], "two scores for one label, a"),
    "too many": (200, [ROW, ROW], "about 1 text, and gave 2 answers"),
    "no key": (401, {"error": "no"}, "asks for a key (401)"),
    "forbidden": (403, b"", "asks for a key (403)"),
    "fault": (500, {"error": "CUDA out of memory"}, "the status 500 (CUDA out of memory)"),
    "busy": (503, {"error": "loading"}, "busy or not ready (503)"),
    "not found": (404, b"Not Found", "the status 404 (Not Found)"),
    "away": (307, (b"", {"Location": "http://example.org/x"}), "redirects to http://example.org"),
    "round": (307, (b"", {"Location": "/"}), "redirects again and again"),
    "latin": (200, (b"[]", {"Content-Encoding": "gzip"}), "cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_server_gets_one_sentence(name: str) -> None:
    status, value, says = BAD[name]
    with client(lambda *_: (status, value)) as http, pytest.raises(EndpointError) as raised:
        connect(http, "transformers").ask([("Good.",)])
    assert says in raised.value.what
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("server", ["auto", "tei", "vllm", "transformers", "gradio"])
def test_where_no_server_is_that_is_said(checkpoint: Folders, server: str) -> None:
    with pytest.raises(EndpointError, match=r"There is no server at 127\.0\.0\.1:9 "):
        heads.check_endpoint("http://127.0.0.1:9", checkpoint(), server=server)


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        http = Http(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.2)
        with pytest.raises(EndpointError, match="did not answer in time"):
            connect(http, "auto")
        http.close()


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MOST_BYTES", 1000)
    says = pytest.raises(EndpointError, match="longer than")
    with client(lambda *_: (200, b" " * 5000)) as http, says:
        connect(http, "transformers").ask([("Good.",)])


def test_a_busy_server_is_asked_again_and_the_header_goes_along() -> None:
    answers, seen = [429, 503, 200], list[dict[str, str]]()
    with (
        answering(lambda *_: (answers.pop(0), [ROW]), seen) as url,
        closing(Http(url, ["Authorization: Bearer secret"])) as http,
    ):
        assert connect(http, "transformers").ask([("Good.",)])[0].values == (0.75, 0.25)
    assert [one["Authorization"] for one in seen] == ["Bearer secret"] * 3


def test_nothing_secret_is_sent_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    seen: list[dict[str, str]] = []
    with client(lambda *_: (200, [ROW]), seen) as http:
        connect(http, "transformers").ask([("Good.",)])
    assert "secret" not in json.dumps(seen)


def test_embeddings_are_no_classifier() -> None:
    info = {"model_id": "x", "model_type": {"embedding": {"pooling": "cls"}}}
    says = pytest.raises(EndpointError, match="gives embeddings")
    with client(lambda *_: (200, info)) as http, says:
        connect(http, "auto")


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({"url": "localhost:8080"}, "no address of http or https"),
    "a file": ({"url": "file:///etc/passwd"}, "no address of http or https"),
    "no such server": ({"server": "tie"}, "No server is called 'tie'. Did you mean 'tei'?"),
    "no header": ({"headers": ["Bearer x"]}, "A header is a name, a colon and a value."),
    "too few": ({"texts": ["a", "b"], "pairs": ["c"]}, "2 texts and 1 second texts"),
    "one only": ({"texts": ["a"], "paired": True}, "This head needs two texts"),
    "empty": ({"texts": [" "]}, "The text is empty"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_question_gets_one_sentence(checkpoint: Folders, name: str) -> None:
    asked, says = ODD[name]
    with pytest.raises(HeadsError) as raised:
        heads.check_endpoint(**{"url": "http://127.0.0.1:9", "model": checkpoint()} | asked)
    assert says in str(raised.value)


def test_vllm_takes_no_pairs(checkpoint: Folders) -> None:
    served = Served(folder=checkpoint())
    with pytest.raises(DataError, match="vLLM takes one text at a time, and this head needs two"):
        check("vllm", served, paired=True)


def test_a_public_place_asks_nobody(checkpoint: Folders) -> None:
    with use_limits(PUBLIC), pytest.raises(LimitError, match="from your own machine"):
        heads.check_endpoint("http://127.0.0.1:9", checkpoint())


# Gradio


@pytest.mark.slow
def test_of_several_endpoints_of_an_app_one_has_to_be_named(checkpoint: Folders) -> None:
    served = Served(folder=checkpoint())
    with serving_app(served, several=True) as url:
        with pytest.raises(EndpointError, match=r"may be meant: /classify, /again\."):
            heads.check_endpoint(url, checkpoint())
        with pytest.raises(EndpointError, match="no endpoint /clasify"):
            heads.check_endpoint(url, checkpoint(), endpoint="clasify")
        found = heads.check_endpoint(url, checkpoint(), endpoint="again")
    assert found.is_right, found.findings


@pytest.mark.slow
def test_an_app_of_two_texts_is_asked_about_pairs(checkpoint: Folders) -> None:
    with serving_app(Served(folder=checkpoint()), two=True) as url:
        found = heads.check_endpoint(url, checkpoint(), paired=True)
        assert found.is_right, found.findings
        with pytest.raises(EndpointError, match="No endpoint of the app takes a text"):
            heads.check_endpoint(url, checkpoint())


# A trained head


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["cls+bert", "cls+roberta"])
def test_a_trained_head_on_the_bundled_model(tmp_path: Path, recipe: str) -> None:
    heads.export(heads.train(recipe, "sentiment"), tmp_path / "model")
    found = check("tei", Served(folder=tmp_path / "model"))
    assert found.is_right, found.findings
    found = check("tei", Served(folder=tmp_path / "model", dtype=torch.bfloat16))
    assert found.is_right, found.findings
    found = check("tei", Served(folder=tmp_path / "model", head="dropped"))
    assert faults(found) == ["head"], found.findings
    found = check("tei", Served(folder=tmp_path / "model", cut=64))
    assert set(faults(found)) == {"truncation"}, found.findings
    assert "the first 64 tokens" in told(found)


# The shell


def test_the_shell_says_the_same_and_ends_with_2(
    checkpoint: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [option for text in FEW for option in ("--text", text)]
    folder = str(checkpoint())
    with serving_classifier("tei", Served(folder=checkpoint(), output="logits")) as url:
        command = ["check-endpoint", url, "--model", folder, "--no-long"]
        assert main([*command, *asked, "--json"]) == 2
        out, err = capsys.readouterr()
        assert json.loads(out)["findings"][0]["kind"] == "output"
        assert err.startswith("heads: The server's answers are not those of the checkpoint's own")
        (tmp_path / "texts.txt").write_text("\n".join(FEW), "utf-8")
        assert main([*command, "--texts", str(tmp_path / "texts.txt")]) == 2
        out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("The server's answers are not those of the checkpoint's own head")
    assert "The scores are logits, to which nothing was applied" in out
    assert "5 texts, each by itself" in out
    with serving_classifier("tei", Served(folder=checkpoint())) as url:
        assert main(["check-endpoint", url, "--model", folder, "--no-long", *asked]) == 0
    assert "are those of the checkpoint's own head." in capsys.readouterr().out


def test_a_file_of_texts_is_read(
    checkpoint: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["check-endpoint", "http://127.0.0.1:9", "--model", str(checkpoint())]
    odd = {b"": "There is no text in", b"\xff\xfe\xff": "cannot be read", b"a\tb\nc\n": "2 texts"}
    for content, says in odd.items():
        (tmp_path / "texts.txt").write_bytes(content)
        assert main([*command, "--texts", str(tmp_path / "texts.txt")]) == 2
        assert says in capsys.readouterr().err
    assert main([*command, "--texts", str(tmp_path / "none"), "--text", "a"]) == 2
    assert "given twice" in capsys.readouterr().err


def test_a_password_in_an_address_is_not_shown() -> None:
    http = Http("http://user:secret@127.0.0.1:9/models?key=secret")
    assert http.shown == "http://127.0.0.1:9/models"
    assert str(http.at("/info").path) == "/models/info"
    http.close()


def test_an_answer_that_trickles_is_not_waited_for() -> None:
    """As the heartbeats of an app whose queue stands still."""

    def trickle() -> Iterator[bytes]:
        while True:
            time.sleep(0.05)
            yield b"event: heartbeat\n\n"

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=trickle()))
    with closing(Http("http://127.0.0.1:9", seconds=0.4)) as http:
        http._client = httpx.Client(transport=transport)
        with pytest.raises(EndpointError, match="did not answer in time"):
            connect(http, "auto")


def test_a_label_that_is_new_in_a_later_answer_is_told() -> None:
    best = [RowScores(names=("a",), values=(0.9,))]
    labels = match_labels(best, ("a", "b", "c"))
    later = labels.matrix([RowScores(names=("b",), values=(0.5,))])
    assert later.isnan().tolist() == [[True, False, True]]
    with pytest.raises(EndpointError, match="a label it did not have before, x"):
        labels.matrix([RowScores(names=("x",), values=(0.5,))])
    placed = match_labels([RowScores(names=("", "a"), values=(0.1, 0.9))], ("b", "a"))
    with pytest.raises(EndpointError, match="did not have before"):
        placed.matrix([RowScores(names=("", "a", ""), values=(0.1, 0.8, 0.1))])


def test_one_text_of_ones_own_is_enough_to_be_right(checkpoint: Folders) -> None:
    assert check("tei", Served(folder=checkpoint()), texts=["It was late."], long=False).is_right


def test_a_report_is_shown_by_notebook_and_shell() -> None:
    finding = fault("labels", HOSTILE, "Look at id2label.")
    facts = {"url": "http://127.0.0.1", "served": HOSTILE, "model": "a folder", "asked": ("Once.",)}
    check_shown(
        EndpointReport(
            server="vLLM", recipe="cls+bert", probes=2, findings=(finding,), difference=0.1, **facts
        )
    )
