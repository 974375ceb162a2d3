"""Do attributions add up, and what do they cost: every head of the shelf, over several poolings.

    python -m studies.attributions             the first 50 test rows of emotion, heads of a sample
    python -m studies.attributions --rows 10 -r cls+linear

Heads are trained on the sample `sentiment`; what they are asked about is text that they have
never seen. The completeness error is how far the scores of all tokens miss the change of the
logit between a text of blanks and the text, as a share of that change (of the logits' span,
where that change is below a twentieth of it: those rows are counted under "on span").
"""

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Sequence

import torch

from benchmarks.stored import DATA
from heads.api import Inspector
from heads.classifier.classifier import Classifier
from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.events import result
from heads.inference.selection import HeadRequest, select_heads
from heads.interpret.attribution import attributions
from heads.interpret.attribution_result import ENOUGH
from heads.parts.resolve import head, resolve

READINGS = ("cls", "mean", "max", "attention", "flatten", "mean@mix")


def sentences(data: str, rows: int) -> list[str]:
    """The first test rows of a shared data set, or what one can try of the samples."""
    if data == "samples":
        return [text for sample in SAMPLES.values() for text, *_ in sample.tries][:rows]
    path = DATA / data / "test.csv"
    if not path.is_file():
        sys.exit(f"There is no {path}: give --data samples.")
    with path.open(encoding="utf-8", newline="") as file:
        found = csv.DictReader(file)
        column = "text" if "text" in (found.fieldnames or ()) else "sentence"
        return [row[column] for row, _ in zip(found, range(rows), strict=False)]


def recipes() -> list[str]:
    """Every pooling of the list under every head that can be trained with it."""
    found = []
    for reading in READINGS:
        for name in head:
            try:
                found.append(str(resolve(f"{reading}+{name}").recipe))
            except HeadsError:
                continue  # what is learned step by step is not solved at once
    return found


def classifiers(names: Sequence[str]) -> list[Classifier]:
    """Those of the recipes that can be trained here; why not, of the others."""
    found = []
    for name in names:
        try:
            found += result(
                select_heads(HeadRequest(recipes=[name], sample="sentiment"))
            ).classifiers
        except HeadsError as error:
            print(f"{name:<34} {error}")
    return found


def measured(one: Classifier, texts: Sequence[str]) -> tuple[float, int]:
    """Prints a line for a head; returns its worst error, and on how many texts it is too large."""
    found, seconds = [], []
    for text in texts:
        begun = time.perf_counter()
        found += attributions([one], text)
        seconds.append(time.perf_counter() - begun)
    if found[0].why_not:
        print(f"{one.recipe!s:<34} {found[0].why_not}")
        return 0.0, 0
    errors = [item.completeness_error for item in found]
    small = sum(item.measured_on == "logits" for item in found)
    failed = sum(error >= ENOUGH for error in errors)
    steps = [item.steps for item in found]
    print(
        f"{one.recipe!s:<34} worst {max(errors) * 100:6.3f} %  median "
        f"{statistics.median(errors) * 100:6.3f} %  failed {failed:2}  on span {small:2}  steps "
        f"{statistics.median(steps):4.0f} to {max(steps):3}  seconds "
        f"{statistics.median(seconds):.2f} to {max(seconds):.2f}",
        flush=True,
    )
    return max(errors), failed


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="emotion", help="emotion, sst2 or samples")
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("-r", "--recipe", action="append")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    texts = sentences(asked.data, asked.rows)
    Inspector(recipes=["mean+linear"]).attribute(texts[0])  # the first call also trains the head
    names = asked.recipe or recipes()
    results = [measured(one, texts) for one in classifiers(names)]
    print(
        f"{len(results)} heads on {len(texts)} texts of {asked.data}: worst error "
        f"{max(error for error, _ in results) * 100:.3f} %, "
        f"{sum(failed for _, failed in results)} at or above {ENOUGH:.0%}."
    )


if __name__ == "__main__":
    main()
