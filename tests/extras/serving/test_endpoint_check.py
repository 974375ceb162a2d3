"""Served classifiers: right ones are not blamed, and the fault of each wrong one is named."""

import itertools
import json
import socket
import time
from collections.abc import Callable
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
from heads.errors import DataError, EndpointError, LimitError
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
def checkpoint(tmp_path_factory):
    """Folders of small classifiers, each written once."""
    made: dict[str, Path] = {}

    def folder(family="bert", labels=NAMES, **more):
        key = repr((family, labels, sorted(more.items())))
        if key not in made:
            made[key] = write_served(
                tmp_path_factory.mktemp("served") / family, family, labels, **more
            )
        return made[key]

    return folder


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(http_module, "PAUSES", (0.0, 0.0))


def check(form, served, **asked):
    serving = serving_app(served) if form == "gradio" else serving_classifier(form, served)
    with serving as url:
        return heads.check_endpoint(url, served.folder, **asked)


@contextmanager
def client(answer, *seen):
    with answering(answer, *seen) as url, closing(Http(url)) as http:
        yield http


def faults(found):
    return [one.kind for one in found.faults]


def told(found):
    return " ".join(one.says for one in found.findings)


# Right servers


# Heads that are served, as arguments of `checkpoint`.
HEADS = {
    **{family: {"family": family} for family in FAMILIES},
    "two classes": {"labels": ("no", "yes")},
    "77 classes": {"labels": tuple(f"intent {n}" for n in range(77))},
    "regression": {"labels": ("LABEL_0",), "problem_type": "regression"},
    "one output": {"labels": ("LABEL_0",)},
    "several labels": {"labels": tuple("abcd"), "problem_type": "multi_label_classification"},
    "hardly apart": {"size": 0.02},
    "far apart": {"size": 60.0},
    "two texts, types": {"template": "segments"},
    "two texts, no types": {"family": "roberta", "template": "around"},
    "two texts, a decoder": {"family": "gpt2"},
}
OFTEN_RIGHT = (
    ("tei", "bert", "float32"),
    ("vllm", "gpt2", "bfloat16"),
    ("vllm", "regression", "float32"),
    ("tei", "several labels", "float32"),
    ("transformers", "two texts, types", "float32"),
)


# What a form of server changes does not depend on the rest: it is how answers are wrapped.
PRODUCTS = itertools.product(HEADS, ("float32", "bfloat16", "float16"))
RIGHT = [
    (form, *row) for form, row in zip(itertools.cycle((*FORMATS, "gradio")), PRODUCTS, strict=False)
]
RIGHT += [row for row in OFTEN_RIGHT if row not in RIGHT]


@pytest.mark.parametrize(("form", "head", "dtype"), slow.but(RIGHT, *OFTEN_RIGHT))
def test_a_right_server_is_not_blamed(checkpoint, form, head, dtype):
    is_paired = "two texts" in head
    if is_paired and form in ("vllm", "gradio"):
        form = "tei"  # these are asked about single texts
    served = Served(folder=checkpoint(**HEADS[head]), dtype=getattr(torch, dtype))
    found = check(form, served, paired=is_paired, long=head in FAMILIES)
    assert found.is_right, found.findings
    kinds = {finding.kind for finding in found.findings}
    if head in FAMILIES:
        assert (found.agreement, found.probes) == (1.0, 24)
        assert ("precision" in kinds) == (dtype != "float32")
        assert "truncation" in kinds  # a note: longer texts are refused


@pytest.mark.parametrize("decimals", slow.but((2, 3, 4), 2))
def test_rounded_scores_are_right_and_faults_of_them_are_seen(checkpoint, decimals):
    served = Served(folder=checkpoint(), decimals=decimals)
    assert check("gradio", served, long=False).is_right
    served.head = "mean"
    assert faults(check("gradio", served, long=False)) == ["pooling"]


# Seeded faults


SWAPPED = ("negative", "positive", "neutral")
# By name: the form of server, what is wrong with it, the kind of the fault, and what its sentence
# names. The first ones are served with each family.
FAULTS = {
    "dropped": ("tei", {"head": "dropped"}, "head", "dropped"),
    "pooling": ("vllm", {"head": "mean"}, "pooling", "average (mean)"),
    "logits": ("gradio", {"output": "logits"}, "output", "scores are logits"),
    "labels": ("transformers", {"names": SWAPPED}, "labels", "positive the server calls neutral"),
    "cut": ("tei", {"cut": 90}, "truncation", "first 90 tokens"),
    # Where half precision leaves several places, their range is told.
    "cut, halved": ("tei", {"cut": 90, "dtype": torch.bfloat16}, "truncation", "the first "),
    "twice": ("tei", {"output": "twice"}, "output", "a softmax of a softmax"),
    "sigmoid": ("vllm", {"output": "sigmoid"}, "output", "a sigmoid of each"),
    "raw is not": ("tei", {"raw_output": "softmax"}, "output", "gives a softmax"),
    "the end": ("tei", {"cut": 90, "left": True}, "truncation", "last 90 tokens"),
    "cut early": ("tei", {"cut": 20}, "truncation", "first 20 tokens"),
    "cut late": ("tei", {"cut": 117}, "truncation", "first 117 tokens"),
    "temperature": ("tei", {"factor": 0.6}, "temperature", "0.6 "),
    "temperature, halved": (
        "tei", {"factor": 2.5, "dtype": torch.bfloat16}, "temperature", "",
    ),
    "sorted": ("transformers", {"sorts": True}, "order", ""),
    "dropout": ("vllm", {"dropout": True}, "random", ""),
    "beside others": ("tei", {"reads_padding": True}, "padding", ""),
    # As GPT-2 is on the left of which a batch is filled up, if nobody gives it the places.
    "gpt2": ("tei", {"padding": "left"}, "padding", ""),
    "lower case": ("tei", {"change": str.lower}, "input", "lower-cased"),
    "other names": ("tei", {"names": ("bad", "so-so", "good")}, "labels", ""),
    "swapped, the best alone": (
        "transformers", {"takes_parameters": False, "names": SWAPPED}, "labels", "",
    ),
    "several labels": ("tei", {"output": "softmax"}, "output", "a softmax of the logits"),
    "pair, one read": ("tei", {"change": lambda both: both[0]}, "input", "The second text"),
    "pair, turned": ("tei", {"change": lambda both: both[::-1]}, "input", "other way round"),
}  # fmt: skip
SEEDED = [*((fault, "bert") for fault in FAULTS)]
SEEDED += [(fault, family) for fault in list(FAULTS)[:5] for family in FAMILIES[1:]]
SEEDED.remove(("dropped", "gpt2"))  # a head of one layer has none to drop
OFTEN = (
    ("dropped", "bert"), ("pooling", "distilbert"), ("logits", "roberta"), ("labels", "gpt2"),
    ("cut", "roberta"),
    *((f, "bert") for f in ("beside others", "gpt2", "temperature, halved", "sorted", "dropout")),
)  # fmt: skip


@pytest.mark.parametrize(("fault", "family"), slow.but(SEEDED, *OFTEN))
def test_a_seeded_fault_is_named(checkpoint, fault, family):
    form, seeded, kind, named = FAULTS[fault]
    served = Served(folder=checkpoint(**HEADS.get(fault, HEADS[family])), **seeded)
    found = check(form, served, paired=fault.startswith("pair"), long=kind == "truncation")
    assert set(faults(found)) == {kind}, found.findings
    assert named in told(found)


@pytest.mark.parametrize("clean", [str.strip, partial(normalize, "NFC")])
def test_a_server_that_cleans_texts_is_recognised(tmp_path, clean):
    settings = {"vocab_size": PIECES, "pad_token_id": 0}
    tiny_model("gpt2", **settings).save_pretrained(tmp_path)
    real_tokenizer("bytes", FORMS["gpt2"][0], 512).save_pretrained(tmp_path)
    found = check("tei", Served(folder=tmp_path, change=clean), long=False)
    assert faults(found) == ["input"], found.findings


def halve(model):
    model.bert.encoder.layer[1].output.dense.weight.mul_(0.5)


def add_noise(model):
    for parameter in model.parameters():
        parameter.mul_(1 + 0.02 * torch.randn(parameter.shape).to(parameter.dtype))


@pytest.mark.parametrize(
    ("dtype", "change"),
    slow.but(
        [("float32", halve), ("bfloat16", halve), ("bfloat16", add_noise)], ("bfloat16", add_noise)
    ),
)
def test_other_weights_are_no_known_fault(checkpoint, dtype, change):
    served = Served(folder=checkpoint("bert"), dtype=getattr(torch, dtype))
    with torch.no_grad():
        change(served.model)
    found = check("tei", served, long=change is halve)
    assert faults(found) == ["unexplained"], found.findings


@pytest.mark.slow
def test_several_faults_at_once_are_told_each_for_itself(checkpoint):
    served = Served(
        folder=checkpoint("roberta"), head="dropped", output="logits", names=NAMES[::-1], cut=90
    )
    found = check("tei", served)
    assert sorted(faults(found)) == ["head", "labels", "output", "truncation"], found.findings


# What is a note


NOTES = {
    **{form: (form, {}, {"cut": 128}, "truncation") for form in FORMATS},
    "lost names": ("tei", {}, {"names": ("LABEL_0", "LABEL_1", "LABEL_2")}, "labels"),
    "a documented sigmoid": ("tei", HEADS["regression"], {"output": "sigmoid"}, "output"),
    "the best label alone": ("transformers", {}, {"takes_parameters": False}, "asking"),
}


@pytest.mark.parametrize("name", slow.but(NOTES, "tei", "a documented sigmoid"))
def test_what_is_right_though_worth_a_note(checkpoint, name):
    form, facts, seeded, kind = NOTES[name]
    found = check(form, Served(folder=checkpoint(**facts), **seeded), long="cut" in seeded)
    assert found.is_right, found.findings
    assert kind in [finding.kind for finding in found.findings]


# Labels


def scores(*names):
    return RowScores(names=names, values=tuple(map(float, range(len(names)))))


def test_labels_are_matched_by_name_by_number_and_by_place():
    turned = [scores("b", "a")]
    assert match_labels(turned, ("a", "b")).matrix(turned).tolist() == [[1.0, 0.0]]
    assert match_labels([scores("So so", "OK")], ("ok", "so_so")).names == ("OK", "So so")
    assert match_labels([scores("LABEL_1", "LABEL_0")], ("a", "b")).is_numbered
    assert match_labels([scores("x", "a")], ("a", "b")).foreign == ("x",)
    placed = match_labels([scores("", "no")] * 2, ("no", "yes"))
    assert (placed.places, placed.names) == ((1, 0), ("no", ""))
    assert not match_labels([scores("", "")], ("a", "b")).is_named
    for names in (("a", "b", "c"), ("",)):
        with pytest.raises(LabelCountError):
            match_labels([scores(*names)], ("a", "b"))


@pytest.mark.slow
def test_another_number_of_labels_is_a_fault(checkpoint):
    with serving_classifier("tei", Served(folder=checkpoint(labels=("no", "yes")))) as url:
        found = heads.check_endpoint(url, checkpoint())
    assert (faults(found), found.difference) == (["labels"], None)


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
def test_scores_are_read_however_they_are_wrapped(answer, texts):
    assert parse_scores(answer, texts) == [RowScores(names=("a", "b"), values=(0.75, 0.25))] * texts


# By name: the status and the body of an answer, and what the error names of them.
BAD = {
    "html": (200, b"<html>Hello</html>", "<html>Hello</html>"),
    "nothing": (200, b"", ""),
    "no scores": (200, [[{"label": "a", "score": "high"}]], "high"),
    "a sentence": (200, "Hello", "Hello"),
    "empty": (200, [[]], ""),
    "NaN": (200, b'[[{"label": "a", "score": NaN}]]', "nan"),
    "infinity": (200, [[{"label": "a", "score": 1e999}]], "inf"),
    "null": (200, [[{"label": "a", "score": None}]], "'score'"),
    "two of a name": (200, [[ROW[0], ROW[0]]], "a."),
    "too many": (200, [ROW, ROW], "2 answers"),
    "no key": (401, {"error": "no"}, "401"),
    "forbidden": (403, b"", "403"),
    "fault": (500, {"error": "CUDA out of memory"}, "500 (CUDA out of memory)"),
    "busy": (503, {"error": "loading"}, "503"),
    "not found": (404, b"Not Found", "404 (Not Found)"),
    "away": (307, (b"", {"Location": "http://example.org/x"}), "http://example.org"),
    "round": (307, (b"", {"Location": "/"}), ""),
    "latin": (200, (b"[]", {"Content-Encoding": "gzip"}), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_server_is_one_sentence(name):
    status, value, named = BAD[name]
    with client(lambda *_: (status, value)) as http, pytest.raises(EndpointError) as raised:
        connect(http, "transformers").ask([("Good.",)])
    assert named in raised.value.what
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("server", ["auto", "tei", "vllm", "transformers", "gradio"])
def test_where_no_server_is_that_is_said(checkpoint, server):
    with pytest.raises(EndpointError):
        heads.check_endpoint("http://127.0.0.1:9", checkpoint(), server=server)


def test_a_server_that_does_not_answer_is_not_waited_for():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with closing(Http(address, seconds=0.2)) as http, pytest.raises(EndpointError):
            connect(http, "auto")


def test_an_endless_answer_and_embeddings_are_refused(monkeypatch):
    info = {"model_id": "x", "model_type": {"embedding": {"pooling": "cls"}}}
    with client(lambda *_: (200, info)) as http, pytest.raises(EndpointError):
        connect(http, "auto")
    monkeypatch.setattr(http_module, "MOST_BYTES", 1000)
    with client(lambda *_: (200, b" " * 5000)) as http, pytest.raises(EndpointError):
        connect(http, "transformers").ask([("Good.",)])


def test_a_busy_server_is_asked_again_and_the_header_goes_along():
    answers, seen = [429, 503, 200], []
    with (
        answering(lambda *_: (answers.pop(0), [ROW]), seen) as url,
        closing(Http(url, ["Authorization: Bearer secret"])) as http,
    ):
        assert connect(http, "transformers").ask([("Good.",)])[0].values == (0.75, 0.25)
    assert [headers["Authorization"] for headers in seen] == ["Bearer secret"] * 3


def test_nothing_secret_is_sent_unasked_or_shown(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    seen = []
    with client(lambda *_: (200, [ROW]), seen) as http:
        connect(http, "transformers").ask([("Good.",)])
    assert "secret" not in json.dumps(seen)
    with closing(Http("http://user:secret@127.0.0.1:9/models?key=secret")) as http:
        assert http.shown == "http://127.0.0.1:9/models"
        assert str(http.at("/info").path) == "/models/info"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"url": "localhost:8080"}, "localhost:8080"),
        ({"url": "file:///etc/passwd"}, "file:///etc/passwd"),
        ({"server": "tie"}, "'tei'"),
        ({"headers": ["Bearer x"]}, "Authorization"),
        ({"texts": ["a", "b"], "pairs": ["c"]}, "2 texts and 1 second"),
        ({"texts": ["a"], "paired": True}, "second texts"),
        ({"texts": [" "]}, "text"),
    ],
)
def test_options_that_do_not_fit_are_refused(checkpoint, asked, named):
    # No server is at this address, which would be an EndpointError.
    with pytest.raises(DataError) as refused:
        heads.check_endpoint(**{"url": "http://127.0.0.1:9", "model": checkpoint()} | asked)
    assert named in str(refused.value)


def test_vllm_takes_no_pairs_and_a_public_place_asks_nobody(checkpoint):
    with pytest.raises(DataError):
        check("vllm", Served(folder=checkpoint()), paired=True)
    with use_limits(PUBLIC), pytest.raises(LimitError):
        heads.check_endpoint("http://127.0.0.1:9", checkpoint())


# Gradio


@pytest.mark.slow
def test_an_endpoint_of_an_app_is_chosen_by_its_name_or_by_what_it_takes(checkpoint):
    served = Served(folder=checkpoint())
    with serving_app(served, several=True) as url:
        with pytest.raises(EndpointError):
            heads.check_endpoint(url, checkpoint())
        with pytest.raises(EndpointError):
            heads.check_endpoint(url, checkpoint(), endpoint="clasify")
        found = heads.check_endpoint(url, checkpoint(), endpoint="again")
    assert found.is_right, found.findings
    with serving_app(served, two=True) as url:
        found = heads.check_endpoint(url, checkpoint(), paired=True)
        assert found.is_right, found.findings
        with pytest.raises(EndpointError):
            heads.check_endpoint(url, checkpoint())


# The shell


def test_the_shell_says_the_same_and_ends_with_2(checkpoint, tmp_path, capsys):
    asked = [option for text in FEW for option in ("--text", text)]
    folder = str(checkpoint())
    with serving_classifier("tei", Served(folder=checkpoint(), output="logits")) as url:
        command = ["check-endpoint", url, "--model", folder, "--no-long"]
        assert main([*command, *asked, "--json"]) == 2
        report = json.loads(capsys.readouterr().out)
        assert report["findings"][0]["kind"] == "output"
        (tmp_path / "texts.txt").write_text("\n".join(FEW), "utf-8")
        assert main([*command, "--texts", str(tmp_path / "texts.txt")]) == 2
        assert report["verdict"] in " ".join(capsys.readouterr().out.split())
    with serving_classifier("tei", Served(folder=checkpoint())) as url:
        assert main(["check-endpoint", url, "--model", folder, "--no-long", *asked]) == 0


def test_a_file_of_texts_is_read(checkpoint, tmp_path, capsys):
    command = ["check-endpoint", "http://127.0.0.1:9", "--model", str(checkpoint())]
    odd = {b"": "texts.txt", b"\xff\xfe\xff": "texts.txt", b"a\tb\nc\n": "2 texts"}
    for content, named in odd.items():
        (tmp_path / "texts.txt").write_bytes(content)
        assert main([*command, "--texts", str(tmp_path / "texts.txt")]) == 2
        assert named in capsys.readouterr().err
    assert main([*command, "--texts", str(tmp_path / "none"), "--text", "a"]) == 2
    assert "--text" in capsys.readouterr().err


def test_an_answer_that_trickles_is_not_waited_for():
    """As the heartbeats of an app whose queue stands still."""

    def trickle():
        while True:
            time.sleep(0.05)
            yield b"event: heartbeat\n\n"

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=trickle()))
    with closing(Http("http://127.0.0.1:9", seconds=0.4)) as http:
        http._client = httpx.Client(transport=transport)
        with pytest.raises(EndpointError):
            connect(http, "auto")


def test_a_label_that_is_new_in_a_later_answer_is_told():
    labels = match_labels([scores("a")], ("a", "b", "c"))
    assert labels.matrix([scores("b")]).isnan().tolist() == [[True, False, True]]
    with pytest.raises(EndpointError):
        labels.matrix([scores("x")])
    placed = match_labels([scores("", "a")], ("b", "a"))
    with pytest.raises(EndpointError):
        placed.matrix([scores("", "a", "")])


def test_one_text_of_ones_own_is_enough_to_be_right(checkpoint):
    assert check("tei", Served(folder=checkpoint()), texts=["It was late."], long=False).is_right


def test_a_report_is_shown_by_notebook_and_shell():
    facts = {"url": "http://127.0.0.1", "served": HOSTILE, "model": "a folder", "asked": ("Once.",)}
    facts |= {"server": "vLLM", "recipe": "cls+bert", "probes": 2, "difference": 0.1}
    check_shown(EndpointReport(findings=(fault("labels", HOSTILE),), **facts))
