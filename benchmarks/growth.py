"""How time and memory grow: with rows, tokens a row, classes, and heads.

Every point is a process of its own: `heads train … --json`, as anybody would call it, or for the
tokens of a row reading alone, as such a run does it. Points are measured in turn. With one
round only the small ones are measured.
"""

import functools
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reports import Row, measured, number
from benchmarks.rounds import Answer, in_turn, own, precisions, read, run_heads, write

POOLINGS = ("cls", "last", "mean", "mean_content", "max", "weighted", "mean@3", "mean@mean4")
LAYERS, WIDTH = 6, 384  # of the bundled model
BLAND = "account "  # a word that is one token


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The points that are measured, and how many rows, or tokens in all, they have."""

    rows: tuple[int, ...]
    tokens: tuple[int, ...]
    all_tokens: int
    classes: tuple[int, ...]
    class_rows: int
    heads: tuple[int, ...]
    head_rows: int


FULL = Sizes(
    rows=(1_000, 10_000, 100_000),
    tokens=(16, 64, 128, 256, 512),
    all_tokens=32_768,
    classes=(2, 10, 77, 300, 1_000),
    class_rows=10_000,
    heads=(1, 8, 64, 320),
    head_rows=10_000,
)
QUICK = Sizes(
    rows=(500, 2_000),
    tokens=(16, 128, 512),
    all_tokens=8_192,
    classes=(2, 77),
    class_rows=1_000,
    heads=(1, 8),
    head_rows=500,
)


def main(data: Path, rounds: int) -> list[Row]:
    """Measures all four on banking77: tokens and classes twice, rows and heads once."""
    sizes, folder = FULL if rounds > 1 else QUICK, data / "banking77"
    if not folder.is_dir():
        print(f"{folder} is not there: growth was not measured")
        return []
    lines = read(folder / "train.csv")
    told = [
        *grown(lambda place: by_rows(lines, sizes, place), 1),
        *grown(lambda place: by_tokens(sizes), min(rounds, 2)),
        *grown(lambda place: by_classes(lines, sizes, place), min(rounds, 2)),
        *grown(lambda place: by_heads(lines, sizes, place), 1),
    ]
    return told


Points = dict[str, Callable[[], Answer]]


def grown(points: Callable[[Path], Points], rounds: int) -> list[Row]:
    """Measures points in turn; a row of its time for each, with the peak of its memory."""
    with tempfile.TemporaryDirectory() as place:
        answers, failed = in_turn(points(Path(place)), rounds)
    rows = []
    for name, found in answers.items():
        peak = max(one["peak_bytes"] for one in found) / 1e9
        note = f"peak {number(peak)} GB; {found[0]['note']}"
        rows.append(measured(name, [one["seconds"] for one in found], note=note))
        if "features_bytes" in found[0]:
            above = [(one["peak_bytes"] - one["features_bytes"]) / 1e9 for one in found]
            rows.append(measured(f"{name}: memory above its features", above, unit="GB"))
    return rows + [Row(what=name, note=why, rounds=0) for name, why in failed.items()]


def by_rows(lines: Sequence[tuple[str, str]], sizes: Sizes, place: Path) -> Points:
    """Eight poolings of so many rows, and a head that costs next to nothing on each."""

    def at(rows: int) -> Answer:
        path = write(place / f"{rows}.csv", many(lines, rows))
        found = train(path, [f"{name}+centroid" for name in POOLINGS], seeds=1)
        features = rows * len(POOLINGS) * WIDTH * 4
        reading = f"{found['forward_seconds']:.1f} s in {found['precision']}"
        note = f"of which reading {reading}; features {number(features / 1e9)} GB"
        return found | {"features_bytes": features, "note": note}

    return {
        f"{rows:,} rows, 8 poolings, whole run": functools.partial(at, rows) for rows in sizes.rows
    }


def by_tokens(sizes: Sizes) -> Points:
    """As many tokens in all, in texts of that many tokens: reading alone, in both precisions."""

    def at(tokens: int, precision: str) -> Answer:
        texts = texts_of(tokens, 1 + max(8, sizes.all_tokens // tokens))
        question = {"job": "read", "texts": texts, "tokens": 512, "poolings": POOLINGS}
        found = own(question | {"precision": precision})
        count, seconds = len(texts) - 1, found["seconds"]  # the last warms up
        every, work = tokens * count, operations(tokens) * count
        pace = f"{every / seconds:,.0f} tokens/s, {work / seconds / 1e9:.0f} GFLOP/s"
        return found | {"note": f"{every:,} tokens in {found['precision']}: {pace}"}

    return {
        f"{tokens} tokens a row, 8 poolings, reading, {precision}": functools.partial(
            at, tokens, precision
        )
        for tokens in sizes.tokens
        for precision in precisions()
    }


def by_classes(lines: Sequence[tuple[str, str]], sizes: Sizes, place: Path) -> Points:
    """A linear head where labels are drawn by lot: features are kept, so it is training only."""

    def at(classes: int) -> Answer:
        rng, texts = random.Random(classes), [text for text, _ in lines[: sizes.class_rows]]
        labels = [f"class {number % classes}" for number in range(len(texts))]
        rng.shuffle(labels)
        path = write(place / f"{classes}.csv", list(zip(texts, labels, strict=True)))
        found = train(path, ["mean+linear"], seeds=1, cache=place / "cache")
        seconds = next(c["train_seconds"] for c in found["cells"] if not c["baseline"])
        whole = f"the whole run, with intervals and baselines, {found['seconds']:.1f} s"
        return found | {"seconds": seconds, "note": f"labels by lot; {whole}"}

    return {
        f"{classes:,} classes, mean+linear, search and learning": functools.partial(at, classes)
        for classes in sizes.classes
    }


def by_heads(lines: Sequence[tuple[str, str]], sizes: Sizes, place: Path) -> Points:
    """So many heads on kept features: the cells of the full grid, and then their seeds."""
    path = write(place / "heads.csv", many(lines, sizes.head_rows))
    cache = place / "cache"

    def at(heads: int) -> Answer:
        if heads > len(POOLINGS):
            found = train(path, [], seeds=max(1, heads // 64), grid="full", cache=cache)
        else:
            found = train(path, [f"{p}+linear" for p in POOLINGS[:heads]], seeds=1, cache=cache)
        reading = found["forward_seconds"]
        note = f"reading is not in it ({reading:.1f} s, if anything was left to read)"
        return found | {"seconds": found["seconds"] - reading, "note": note}

    return {
        f"{heads} head{'s' * (heads > 1)}, whole run less reading": functools.partial(at, heads)
        for heads in sizes.heads
    }


def many(lines: Sequence[tuple[str, str]], rows: int) -> list[tuple[str, str]]:
    """The rows of a file again and again, made different, up to so many.

    >>> many([("a", "x"), ("b", "y")], 3)
    [('a', 'x'), ('b', 'y'), ('a 1', 'x')]
    """
    order = list(lines)
    if rows < len(order):  # a file may be sorted by class
        order = random.Random(0).sample(order, rows)
    turns = ((number // len(order), order[number % len(order)]) for number in range(rows))
    return [(f"{text} {turn}" if turn else text, label) for turn, (text, label) in turns]


def texts_of(tokens: int, count: int) -> list[str]:
    """Different texts of that many tokens, with the two around them; digits are tokens each."""
    return [
        (BLAND * (tokens - 2 - len(digits)) + " ".join(digits)).strip()
        for digits in (f"{number:04}" for number in range(count))
    ]


def operations(tokens: int) -> int:
    """Multiplications and additions of the base model for a text of so many tokens."""
    return tokens * LAYERS * (24 * WIDTH**2 + 4 * tokens * WIDTH)


def train(
    path: Path, recipes: Sequence[str], *, seeds: int, grid: str = "", cache: Path | None = None
) -> dict[str, Any]:
    """`heads train` in a process of its own: its JSON and the peak of its memory.

    Raises:
        CannotSayError: It failed.
    """
    asked = ["train", str(path), "--seeds", str(seeds), "--no-curve", "--json"]
    asked += [part for name in recipes for part in ("-r", name)] + (
        ["--grid", grid] if grid else []
    )
    with tempfile.TemporaryDirectory() as runs:
        settings = {"HEADS_RUNS": runs} | ({"HEADS_CACHE": str(cache)} if cache else {})
        return run_heads(asked, settings)
