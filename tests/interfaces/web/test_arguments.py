"""Arguments of a wrong kind: a sentence that names the argument, from every endpoint."""

import math
import random
import re

import gradio as gr
import pytest
from served import Served, served

from heads.errors import HeadsError
from heads.interfaces.web import calls
from heads.settings import ExperimentConfig

# A call of each endpoint that fits; what takes long is asked of one short head.
FITTING = {
    "compare": ["Not bad.", "", ["mean+linear"], "", "", "joint"],
    "explain": ["mean+linear", "Not bad.", "", "", ""],
    "difference": ["cls+bert", "cls+roberta", ""],
    "families": [],
    "padding": ["roberta"],
    "parts": [],
    "inspect": ["Bad.", "", ["mean+linear"], "", "", "", "", "others"],
    "edit": ["Bad.", ["Good."], "", ["mean+linear"], "", "", ""],
    "ablate": ["Bad.", "", ["cls+bert"], "", "", "", "", False],
    "readings": ["Bad.", "", ["mean+linear"], "", "", "", 1.0],
    "read": [None, "", "", "", "", "", "", "", ""],
    "train_grid": [
        None, None, "", "", "", "", "", "", "", "", "", "small", "joint", "softmax", "frozen", "",
        "", "", 3, 5, 1, "auto",
    ],
}  # fmt: skip
ODD = [
    "", " ", "\0", "\n", "x" * 3_000, "é́", "\u202e", "\ud800", "&#60;", "<b>", "../..",
    "/etc/passwd", "~", "C:\\x", "\\\\host\\share", "a/b", "a/b/c", "https://x.y/z", "mean+linear",
    "+", "mean", "mean+linear?x=1", "mean+linear?tune=last99999999999", "last999999999.mean+linear",
    "own", "1", "mlp(9e999)", "mean+mlp?hidden=-1", "mean+mlp?hidden=1e99", "sentiment", "pairs",
    "joint", "others", "positive", "dense", "bert", "?", "=", "%00", "{}", "[]", "null", "NaN",
    "r" + "x" * 22,
]  # fmt: skip
NUMBERS = [0, 1, -1, 0.5, 1e308, -0.0, 2**63, 10**40, 10**400, math.nan, math.inf, -math.inf]
OTHERS = [None, True, False, [], {}, [None], [[]], {"a": []}, [1, "x"], {"path": "/etc/passwd"}]
BUG = re.compile(r"Something went wrong|code [0-9A-F]{4}|bug of ours")
PATH = re.compile(r"(?:/tmp|/root|/home|/usr|/work|/opt|site-packages|\.py\b)")


def drawn(rng):
    """A value of any kind, most of them texts."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(ODD)
    if kind < 0.6:
        return [drawn(rng) for _ in range(rng.randint(0, 4))]
    return rng.choice(NUMBERS if kind < 0.8 else OTHERS)


def changed(rng, fitting):
    """A call that fits, but for one to three of its arguments, or for their number."""
    given = list(fitting)
    for _ in range(rng.randint(1, 3)):
        if given:
            given[rng.randrange(len(given))] = drawn(rng)
    if rng.random() < 0.1:
        given = given[: rng.randint(0, len(given))]
    if rng.random() < 0.1:
        given.append(drawn(rng))
    return given


def said(answer):
    """The sentence of an error, as it is read."""
    text = answer.get("error") if isinstance(answer, dict) else answer
    return re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), str(text))


def is_sentence(kind, answer):
    """Whether an answer is a result, or one sentence for whoever asked."""
    if kind == "complete":
        return True
    text = said(answer)
    is_mine = text not in ("None", "null", "") and not BUG.search(text)
    return is_mine and "Traceback" not in text and not PATH.search(text.replace("/etc/passwd", ""))


def fuzzed(server, name, seed, calls):
    """Calls of an endpoint that got no sentence."""
    rng = random.Random(seed)
    bad = []
    for given in [changed(rng, FITTING[name]) for _ in range(calls)]:
        kind, answer = server.call(name, given)
        if not is_sentence(kind, answer):
            bad.append((given, kind, said(answer)))
    return bad


@pytest.fixture(scope="module")
def server(page_url, tmp_path_factory):
    port = int(page_url.rstrip("/").rpartition(":")[2])
    return Served(port=port, written=tmp_path_factory.mktemp("none") / "none")


@pytest.mark.parametrize(
    ("name", "place", "value", "says"),
    [
        ("compare", 0, None, "text must be a text, not null. Change it."),
        ("compare", 0, 5, "text must be a text, not the number 5. Change it."),
        ("compare", 2, 5, "recipes must be a list of texts, not the number 5."),
        ("compare", 2, ["a", 5], "recipes must be a list of texts alone, not the number 5 (entry"),
        ("compare", 2, {"a": 1}, "recipes must be a list of texts, not an object."),
        ("edit", 1, None, "edits must be a list of texts, not null."),
        ("ablate", 7, "yes", "retrain must be true or false, not the text 'yes'."),
        ("readings", 6, "1", "temperature must be a number, not the text '1'."),
        ("readings", 6, math.nan, "temperature must be a number, not N"),
        ("readings", 6, True, "temperature must be a number, not true."),
        ("read", 1, ["a"], "text must be a text, not a list."),
        ("train_grid", 18, "three", "seeds must be a number, not the text 'three'."),
        ("train_grid", 18, 2.5, "seeds must be a whole number of at least 0 and at most 50, not"),
        ("train_grid", 20, 7000, "repetitions must be a whole number of at least 1 and at most"),
        ("train_grid", 12, 1, "pairs must be a text or a list, not the number 1."),
        ("train_grid", 12, ["a", 5], "pairs must be a list of texts alone, not"),
    ],
)
def test_an_argument_of_another_kind_is_named(server, name, place, value, says):
    given = list(FITTING[name])
    given[place] = value
    kind, answer = server.call(name, given)
    assert kind == "error"
    assert said(answer).startswith(says)


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, "3", None, True, 2.5, [3]])
def test_settings_of_another_kind_are_refused_in_python_too(value):
    with pytest.raises(HeadsError, match="folds must be a whole number of at least 2"):
        ExperimentConfig(folds=value)
    assert ExperimentConfig(folds=3.0).folds == 3
    assert isinstance(ExperimentConfig(folds=3.0).folds, int)


def test_arguments_left_out_at_the_end_have_their_defaults(server):
    whole = ["Not bad.", "", ["mean+linear"], "", "", "joint"]
    kind, wanted = server.call("compare", whole)
    assert kind == "complete"
    for given in (whole[:3], whole[:4]):
        kind, answer = server.call("compare", given)
        assert kind == "complete"
        assert {**answer[0], "seconds": 0} == {**wanted[0], "seconds": 0}
    kind, answer = server.call("explain", [])
    assert kind == "error"
    assert said(answer).startswith("This call takes 5 arguments and got 0.")


@pytest.mark.parametrize("calls", [6, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FITTING)
def test_odd_arguments_get_a_sentence(server, name, calls):
    assert fuzzed(server, name, seed=name, calls=calls) == []


@pytest.mark.slow
def test_many_odd_arguments_get_a_sentence_in_public(tmp_path):
    with served(tmp_path) as server:
        bad = {name: fuzzed(server, name, seed=f"{name} again", calls=100) for name in FITTING}
    assert {name: found for name, found in bad.items() if found} == {}


def test_a_menu_in_which_one_may_type_takes_texts():
    menu = gr.Dropdown(["a"], allow_custom_value=True)
    for value in ("b", None):
        assert calls.fit(menu, value) == value
    for value in (1, 1e308, True, ["a"], {}):
        with pytest.raises(TypeError):
            calls.fit(menu, value)
