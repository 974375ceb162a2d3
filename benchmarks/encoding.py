"""One pass over the texts: against a naive loop, a sorted one, and the processor's own peak.

Everything is read in turn, round by round, with nothing kept from before: the loop that everybody
writes (32 texts in the order of the file), the same sorted by length, and eight readings of every
text by our pass, exact and with 16-bit products. What a pass computes is counted, not estimated.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

import heads
from benchmarks.growth import POOLINGS, operations
from benchmarks.reports import Row, compared, measured
from benchmarks.rounds import precisions
from benchmarks.timing import Work, fresh_cache, seconds_of
from heads.backbone.backbone import Backbone
from heads.backbone.device import HERE, fastest, lying_on, products, tokens_at_once
from heads.backbone.engine import Backend, InferenceEngine, agreement
from heads.backbone.loading import load
from heads.features.extraction import extract
from heads.parts.resolve import resolve

BATCH = 32
SAMPLE = 200  # texts on which passes are held against each other
GOALS = {"exact": 3.0, "fast": 12.0}
MANY = {"exact": 1.02, "fast": 1.05}


def main(data: Path, rounds: int) -> list[Row]:
    """Measures reading banking77 (training and test rows), or a tenth of it in one round."""
    texts = [
        text
        for name in ("train.csv", "test.csv")
        for text in heads.read(data / "banking77" / name).corpus.texts
    ][:: 1 if rounds > 1 else 10]
    backbone = load()
    there = replace(backbone, model=lying_on(fastest(), backbone.model))
    ways: dict[str, Work] = {"naive": lambda: naive(texts, there)}
    ways["sorted"] = lambda: naive(sorted(texts, key=len, reverse=True), there)
    for precision in precisions():
        for count in (len(POOLINGS), 1):
            ways[f"{precision} {count}"] = lambda p=precision, c=count: ours(texts, backbone, p, c)
    times, peaks = in_turn(ways, rounds)
    work = sum(operations(len(text)) for text in backbone.encode(texts))
    return [
        *against(times, len(texts), [work / seconds for seconds in times["exact 8"]], peaks),
        *agreeing(texts, backbone),
    ]


def in_turn(
    ways: Mapping[str, Work], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of every way in every round; and in each round the peaks of both precisions."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks: dict[str, list[float]] = {"exact": [], "fast": []}
    for _ in range(rounds):
        for name, work in ways.items():
            times[name].append(seconds_of(work))
            print(f"  {name}: {times[name][-1]:.2f} s", flush=True)
        peaks["exact"].append(peak(torch.float32, fastest()))
        peaks["fast"].append(peak(torch.bfloat16, fastest()))
    return times, peaks


@torch.inference_mode()
def naive(texts: Sequence[str], backbone: Backbone, pairs: Sequence[str] = ()) -> None:
    """Take the mean of every text, or pair, in batches as they come, where the model lies."""
    for start in range(0, len(texts), BATCH):
        sides = [list(side[start : start + BATCH]) for side in (texts, pairs) if side]
        given = backbone.tokenizer(
            *sides, padding=True, truncation=True, max_length=256, return_tensors="pt"
        ).to(backbone.device)  # fmt: skip
        states = backbone.model(**given).last_hidden_state
        mask = given["attention_mask"][..., None]
        _ = ((states * mask).sum(1) / mask.sum(1)).to(HERE)


def ours(texts: Sequence[str], backbone: Backbone, precision: str, count: int) -> None:
    """So many readings of every text in one pass, from the texts to files."""
    names = POOLINGS if count > 1 else ("mean",)
    recipes = [resolve(f"{name}+linear") for name in names]
    with fresh_cache():
        *_, _ = extract(recipes, texts, (), backbone, precision)


@torch.inference_mode()
def peak(dtype: torch.dtype, device: torch.device) -> float:
    """Operations a second of the widest product of the base model, on all cores; the best of 5."""
    layer = torch.nn.Linear(384, 1536).to(device, dtype)
    rows = 512 if device == HERE else tokens_at_once(device)
    values, best = torch.randn(rows, 384).to(device, dtype), 0.0
    last = layer(values)
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(100):
            last = layer(values)
        last[0, 0].item()  # a GPU is waited for
        best = max(best, 100 * 2 * rows * 384 * 1536 / (time.perf_counter() - begun))
    return best


def against(
    times: Mapping[str, Sequence[float]],
    texts: int,
    pace: Sequence[float],
    peaks: Mapping[str, Sequence[float]],
) -> list[Row]:
    """The rows: eight readings against both loops, against one reading, and against the peak."""
    rows = []
    for precision in precisions():
        eight, one = times[f"{precision} 8"], times[f"{precision} 1"]
        what = f"8 poolings of {texts:,} texts, {precision}"
        rows.append(compared(what, eight, "naive loop", times["naive"], target=GOALS[precision]))
        rows.append(compared(what, eight, "sorted loop", times["sorted"]))
        more = [many / few for many, few in zip(eight, one, strict=True)]
        note = f"{median(more):.3f} of one; goal {MANY[precision]} at most"
        rows.append(compared(f"8 poolings, {precision}", eight, "1 pooling", one, note=note))
    found = [100 * own / most for own, most in zip(pace, peaks["exact"], strict=True)]
    note = (
        f"{median(pace) / 1e9:.0f} of {median(peaks['exact']) / 1e9:.0f} GFLOP/s, tokenising, "
        f"poolings and files included; in 16 bits the peak is {median(peaks['fast']) / 1e9:.0f}; "
        "goal 90 %"
    )
    what = "Exact pass, of the processor's peak in 32 bits"
    return [*rows, measured(what, found, unit="%", note=note)]


def agreeing(texts: Sequence[str], backbone: Backbone) -> list[Row]:
    """How far both passes are from Transformers, over all layers of some texts."""
    sample = backbone.encode(texts[:: max(1, len(texts) // SAMPLE)][:SAMPLE])
    rows = []
    for precision, dtype in (("exact", torch.float32), ("fast", torch.bfloat16)):
        way = Backend(device=fastest(), dtype=dtype)
        found = agreement(InferenceEngine(backbone=backbone, way=way), sample)
        what = f"Difference from Transformers, {precision}"
        note = f"of the largest number, on {found.texts} texts; cosine at least {found.cosine:.5f}"
        if precision == "fast":
            is_used = products("auto", fastest()) == torch.bfloat16
            note += "" if is_used else "; there are no instructions for 16 bits here: not used"
        rows.append(Row(what=what, ours=found.difference, unit="", note=note))
    return rows
