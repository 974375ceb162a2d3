"""P10: the same sentence, asked again and again, gets the same numbers.

Every other time the heads are trained anew too, from nothing that is kept.
"""

import os
import tempfile
from collections.abc import Iterator

from studies.promises.promise import Row

REPEATS, SHORT_REPEATS = 50, 2
SENTENCES = ("A fine film, against all odds.", "It was not bad, only long.")
RECIPES = ("mean+linear", "cls+roberta", "mean+ridge")
MOST = 1e-5


def measure(short: bool) -> Iterator[Row]:
    """Asks some heads the same, over and over."""
    repeats = SHORT_REPEATS if short else REPEATS
    first: dict[tuple[str, str], list[float]] = {}
    largest, trained = 0.0, 0
    before = os.environ.get("HEADS_CACHE")
    with tempfile.TemporaryDirectory(prefix="promises-") as place:
        for number in range(repeats):
            if number % 2 == 0 or short:
                _forget(f"{place}/{number}")
                trained += 1
            for key, logits in _answers():
                known = first.setdefault(key, logits)
                gaps = (abs(one - other) for one, other in zip(known, logits, strict=True))
                largest = max(largest, *gaps)
    os.environ.pop("HEADS_CACHE")
    if before is not None:
        os.environ["HEADS_CACHE"] = before
    yield Row(
        promise="P10",
        says="Same input, seed and version give the same numbers.",
        measured=f"{repeats} repeats of {len(first)} answers, {trained} of them of heads trained "
        f"anew, differ by {largest:.1g} at most",
        target=f"{MOST:g} at most",
        holds=largest <= MOST,
    )


def _forget(place: str) -> None:
    """A cache of its own, and no head in memory."""
    from heads.classifier import head_cache

    os.environ["HEADS_CACHE"] = place
    head_cache._recent.clear()


def _answers() -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Sentence and recipe, and the logits."""
    from heads import compare

    for sentence in SENTENCES:
        for lane in compare(sentence, recipes=RECIPES).as_json()["recipes"]:
            yield (sentence, lane["recipe"]), [float(one) for one in lane["logits"]]
