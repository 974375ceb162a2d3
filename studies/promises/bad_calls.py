"""P6: every wrong argument gets a sentence, and no answer tells of the server's inside.

Calls are the defaults of an endpoint with some arguments made wrong: in their type, in their range,
in their number. Public endpoints are called by name, the page's own handlers by index.
"""

import contextlib
import html
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from heads.data.corpus import check_text
from studies.promises.calls import Answer, Caller, Endpoint, file_data, in_sequence
from studies.promises.promise import Row, is_within
from studies.promises.server import Server, served
from studies.promises.watching import row

SHORT, WHOLE = 12, 300  # calls an endpoint
PRIVATE = 4  # times fewer of a handler of the page, of which there are many
AT_ONCE = 4
# For one sentence. A call waits for its turn before its arguments are looked at, and in public mode
# one address after the other is told about its heads: three others ask beside it here.
MOST_SECONDS = 60.0
GATE_SECONDS = 0.1  # for ten megabytes of text
TIME_IS_OVER = "seconds that one call may compute"  # of what was right, and asked for much
HUGE = 10_000_000  # characters
DEEP: Any = [[[[[[[[[[[["x"]]]]]]]]]]]]
WRONG: Sequence[Any] = (
    None, True, False, "", " ", "x", "mean+linear", "../../etc", "/etc/passwd", "C:\\x", "\\\\a\\b",
    "null", "NaN", "\x00", "a\nb", "\u202e", "\ud83d", "<img src=x>", "a" * 5_000, "é" * 99,
    0, -1, 1, 2, 1.5, 10**30, -(10**30), 1e308, float("nan"), float("inf"), [], [None], [1], ["x"],
    [[]], DEEP, {}, {"a": 1}, {"path": "/etc/passwd"}, {"path": 1}, {"__type__": "update"},
    {"path": "x", "meta": {"_type": "gradio.FileData"}}, ["mean+linear"] * 50, ["?"] * 3,
    {"path": "http://127.0.0.1:1/x.csv", "meta": {"_type": "gradio.FileData"}},
)  # fmt: skip
FAULTS = {
    "null": re.compile(r'"error": ?null|^event: error\ndata: null', re.MULTILINE),
    "bug code": re.compile(r"Something went wrong|\(code [0-9A-F]{4}\)"),
    "traceback": re.compile(r"Traceback|File \\?\".+\.py|\w+Error:|\w+Exception:"),
    "path": re.compile(
        "|".join(map(re.escape, {"site-packages", sys.prefix, str(Path(__file__).parents[2])}))
        + r"|/tmp/|/home/|/root/"
    ),
}
# Ours end as sentences do; Gradio's own names the choices that there are.
SENTENCE = re.compile(r"\w.*[.!?)”\"']\s*$|is not in the list of choices: \[.*\]$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """One call and what is wrong with its answer; nothing, mostly.

    Attributes:
        kind: One of `FAULTS`, or "500", "no sentence", "slow" or "no answer".
        seconds: Until the refusal was there; 0 where it was none.
    """

    name: str
    kind: str
    asked: str
    said: str
    seconds: float


def measure(short: bool) -> Iterator[Row]:
    """Every endpoint, every handler of the page, and ten megabytes."""
    count = SHORT if short else WHOLE
    with served(public=True) as server:
        with Caller(server.url) as caller:
            known = caller.endpoints()
        public = [one for one in known if one.is_public]
        private = [one for one in known if not one.is_public]
        yield _row("endpoints by name", public, list(fuzzed(server, public, count)), count)
        fewer = max(1, count // PRIVATE)
        answers = list(fuzzed(server, private, fewer))
        yield _row("handlers of the page by index", private, answers, fewer)
        yield from huge(server)


def _usually(endpoint: Endpoint) -> list[Any]:
    """What somebody usually sends to an endpoint."""
    asked = endpoint.arguments(seeds=1, folds=2, recipes="mean+centroid")
    return [_usual(endpoint, at, value) for at, value in enumerate(asked)]


def fuzzed(server: Server, endpoints: Sequence[Endpoint], count: int) -> Iterator[Fuzzed]:
    """Calls every endpoint so often with wrong arguments."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        callers = cycle(
            [
                stack.enter_context(Caller(server.url, one, MOST_SECONDS + 30.0))
                for one in _addresses()
            ]
        )
        jobs = [
            pool.submit(_judged, next(callers), endpoint, random.Random(f"{endpoint.index} {seed}"))
            for seed in range(count)
            for endpoint in endpoints
        ]
        for job in jobs:
            yield job.result()


def _addresses() -> list[str]:
    return [address for address, _ in zip(in_sequence("127.0.6"), range(40), strict=False)]


def _judged(caller: Caller, endpoint: Endpoint, rng: random.Random) -> Fuzzed:
    asked = spoilt(endpoint, rng, caller)
    if endpoint.is_public and rng.random() < 0.8:
        answer = caller.call(endpoint.name, asked)
    else:
        answer = caller.private(endpoint, asked)
    kind = fault(answer)
    name = endpoint.name or f"function {endpoint.index}"
    shown = json.dumps(asked)[:300] if kind else ""
    seconds = 0.0 if answer.is_done else answer.seconds
    return Fuzzed(name=name, kind=kind, asked=shown, said=_shown(answer, kind), seconds=seconds)


def _shown(answer: Answer, kind: str) -> str:
    """What is to be seen of a fault: the words around it."""
    found = FAULTS[kind].search(answer.text) if kind in FAULTS else None
    around = answer.text[max(0, found.start() - 60) : found.end() + 120] if found else answer.said
    return f"status {answer.status}, {answer.seconds:.1f} s: {around[:240]}" if kind else ""


def spoilt(endpoint: Endpoint, rng: random.Random, caller: Caller) -> list[Any]:
    """The defaults of an endpoint with some of them made wrong; now and then too few or many."""
    asked = endpoint.arguments(seeds=1, folds=2, recipes="mean+centroid")
    if endpoint.is_public:
        asked = _usually(endpoint)
    for at in rng.sample(range(len(asked)), rng.randint(0, min(3, len(asked)))):
        asked[at] = rng.choice(WRONG)
    if endpoint.name in ("read", "train_grid") and rng.random() < 0.15:
        status, paths = caller.upload(("a.csv", b"text,label\n" + b"good,a\nbad,b\n" * 9))
        asked[0] = file_data(paths[0]) if status == 200 else None
    if rng.random() < 0.1:
        asked = asked[: rng.randint(0, len(asked))] if rng.random() < 0.5 else [*asked, 1, "x"]
    return asked


def _usual(endpoint: Endpoint, at: int, value: Any) -> Any:
    """What somebody usually sends where the component holds nothing."""
    name = str(endpoint.inputs[at].get("props", {}).get("label", ""))
    usual = {"text": "A fine day.", "recipe": "mean+linear", "one": "bert", "other": "roberta"}
    return usual.get(name, value) if value is None else value


def fault(answer: Answer) -> str:
    """What is wrong with an answer; empty where it is a result or a sentence."""
    if not answer.status:
        return "no answer"
    # What is called past the queue is refused by Gradio with 500 and a sentence, as JSON.
    message = html.unescape(answer.said)
    if answer.status >= 500 and answer.status != 503 and not SENTENCE.search(message):
        return "500"
    # A result may take as long as a call may compute: some are of heads that are trained first.
    is_late = not answer.is_done and not is_within(answer.seconds, MOST_SECONDS)
    if is_late and TIME_IS_OVER not in answer.said:
        return "slow"
    text = answer.text
    told = text if not answer.is_done else ""  # a result may hold a file of Gradio's, and code
    for kind, pattern in FAULTS.items():
        if pattern.search(text if kind in ("null", "bug code") else told):
            return kind
    return "" if answer.is_done or SENTENCE.search(message) else "no sentence"


def _row(what: str, asked: Sequence[Endpoint], answers: Sequence[Fuzzed], count: int) -> Row:
    wrong = [one for one in answers if one.kind]
    kinds = Counter(one.kind for one in wrong)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    worst = next(iter(wrong), None)
    note = f"First: {worst.name}({worst.asked[:120]}) → {worst.said[:120]}" if worst else ""
    for one in wrong[:40]:
        print(f"   {one.kind}: {one.name} {one.asked[:160]} → {one.said[:160]}")
    return row(
        "P6",
        f"{len(answers)} wrong calls of {len(asked)} {what}, {count} each",
        f"{len(wrong)} without a sentence{f': {told}' if told else ''}; the slowest refusal after "
        f"{max((one.seconds for one in answers), default=0.0):.1f} s, in line behind others",
        "0",
        holds=not wrong,
        note=note,
    )


def huge(server: Server) -> Iterator[Row]:
    """Ten megabytes of text: the body limit in public, the check of texts where there is none."""
    with Caller(server.url, "127.0.6.250") as caller:
        asked = ["word " * (HUGE // 5), *caller.endpoint("compare").defaults[1:]]
        answer = caller.call("compare", asked)
    yield row(
        "P6",
        "10 MB of text over HTTP, public mode",
        f"status {answer.status} in {answer.seconds:.2f} s: {answer.said[:80]}",
        "refused with a sentence",
        holds=400 <= answer.status < 500 and not fault(answer),
    )
    seconds = [_check_seconds() for _ in range(5)]
    yield row(
        "P6",
        "10 MB of text to be checked, local mode",
        f"{statistics.median(seconds) * 1000:.0f} ms",
        f"< {GATE_SECONDS * 1000:.0f} ms",
        holds=is_within(statistics.median(seconds), GATE_SECONDS),
    )


def _check_seconds() -> float:
    begun = time.perf_counter()
    check_text("word " * (HUGE // 5))
    return time.perf_counter() - begun
