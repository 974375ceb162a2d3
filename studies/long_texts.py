"""Cut or read in windows? `python -m studies.long_texts --data FOLDER`.

FOLDER holds the Sentiment Polarity Dataset 2.0 (Pang and Lee 2004), which comes with NLTK as
``movie_reviews``: whole film reviews in ``neg`` and ``pos``, of which nearly all are longer than
the bundled model reads. A run is trained on them, every recipe with cut texts and with windows,
and its notes say what the windows gain, with a paired interval.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import heads
from benchmarks.rounds import write

RECIPES = ("mean+linear", "max+linear", "cls+linear")
FOLDS = 10


def main() -> None:
    """Trains the run, and prints its scores and what windows gain."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of neg and pos")
    parser.add_argument("--each", type=int, default=1_000, help="reviews of a class, at most")
    asked = parser.parse_args()
    recipes = [f"{name}{option}" for name in RECIPES for option in ("", "?long=windows")]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "reviews.csv", list(rows(asked.data, asked.each)))
        config = heads.ExperimentConfig(folds=FOLDS, curve=False)
        board = heads.train_grid(path, recipes=recipes, config=config)
    for cell in board.cells:
        own = cell.measures
        print(f"{cell.name}: {100 * own.score:.1f} % [{100 * own.low:.1f}, {100 * own.high:.1f}]")
    print(*board.notes, sep="\n")
    print(f"Read in {board.forward_seconds:.0f} s.")


def rows(home: Path, most: int) -> Iterator[tuple[str, str]]:
    """The reviews of both classes, in the order of their names."""
    for label in ("neg", "pos"):
        for path in sorted((home / label).glob("*.txt"))[:most]:
            yield path.read_text("utf-8", "replace"), label


if __name__ == "__main__":
    main()
