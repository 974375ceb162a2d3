"""P10: the same sentence, asked again and again, gets the same numbers to the bit."""

from collections.abc import Iterator

from benchmarks.promises.promise import Row

REPEATS = 50
SENTENCES = ("A fine film, against all odds.", "It was not bad, only long.", "")


def measure(short: bool) -> Iterator[Row]:
    """Asks every recipe of the page the same, each time with nothing kept of the time before."""
    from heads import compare
    from heads.data.samples import RECIPES

    repeats = 5 if short else REPEATS
    sentences = [one for one in SENTENCES if one]
    largest = 0.0
    first: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for sentence in sentences:
            for lane in compare(sentence, recipes=RECIPES).as_json()["recipes"]:
                logits = [float(one) for one in lane["logits"]]
                before = first.setdefault((sentence, lane["recipe"]), logits)
                gaps = (abs(a - b) for a, b in zip(before, logits, strict=True))
                largest = max(largest, *gaps)
    yield Row(
        promise="P10",
        says="Same input, seed and version give the same numbers.",
        measured=f"{repeats} repeats of {len(first)} answers differ by {largest:.1g} at most",
        target="1e-5 at most",
        holds=largest <= 1e-5,
    )
