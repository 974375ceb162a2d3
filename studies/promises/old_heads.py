"""P12: heads that were saved once load for ever, and answer as they did.

What each format wrote is kept beside the tests, with the logits of its time; an exported folder is
also loaded by the loader that lies in it, where this package cannot be imported.
"""

from collections.abc import Iterator

from studies.promises.promise import Row, from_tests

MOST = 1e-4  # of logits up to 5, between machines


def measure(short: bool) -> Iterator[Row]:
    """Loads all of them, however short."""
    kept = from_tests("kept_heads")
    names = kept.names()
    gaps = {name: kept.difference(name) for name in names}
    yield Row(
        promise="P12",
        says=f"Heads saved in any format so far load and answer as they did: {', '.join(names)}.",
        measured=f"{sum(gap < MOST for gap in gaps.values())} of {len(names)}; logits differ by "
        f"{max(gaps.values()):.1g} at most",
        target=f"all, {MOST:g} at most",
        holds=all(gap < MOST for gap in gaps.values()),
    )
