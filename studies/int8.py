"""ONNX in 8 bits beside 32: `python -m studies.int8`; ``--write`` for docs/serving.md.

Heads are trained on 1,500 rows of a training file; 2,048 others calibrate and compare the files.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas

import heads
from benchmarks import stored
from benchmarks.stored import Cell, Table, figure

NAMES, RECIPES = ("sst2", "trec6", "banking77"), ("mean+linear", "mean+roberta")
TRAIN_ROWS, OTHER_ROWS = 1_500, 2_048
COLUMNS = (
    *("data", "head", "rows", "accuracy, 32 bits", "8 bits", "equal answers", "largest change"),
    *("1 text, 32 bits", "8 bits", "32 texts, 32 bits", "8 bits", "size, 32 bits", "8 bits"),
)


def main() -> None:
    """Train, export and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=stored.DATA)
    options = stored.parse_arguments(parser)
    folders = [options.data / name for name in NAMES]
    with stored.some_of(folders, quick=options.quick) as sources:
        rows = [list(row) for folder in sources for row in measure(folder)]
    table = Table(title="", columns=COLUMNS, rows=rows)
    command = "python -m studies.int8 --write"
    stored.publish("int8", [table], options, command=command, data=folders)


def measure(folder: Path) -> Iterator[list[Cell]]:
    """Yield a row of the table for each recipe."""
    frame = pandas.read_csv(folder / "train.csv").sample(frac=1, random_state=0)
    size = min(TRAIN_ROWS, len(frame) // 2)
    train, others = frame[:size], frame[size : size + OTHER_ROWS]
    for recipe in RECIPES:
        classifier = heads.train(recipe, train)
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "head.onnx"
            report = heads.export_onnx(classifier, path, refit=False, int8=True, rows=others)
        int8 = report.int8
        assert int8 is not None
        yield [
            *(folder.name, recipe, figure(int8.rows, 0)),
            *(figure(share, 2, "%") for share in (int8.accuracy_float, int8.accuracy)),
            *(figure(int8.agreement, 2, "%"), figure(int8.largest_change, 3)),
            *(
                figure(milliseconds[size], 1, "ms")
                for size in (1, 32)
                for milliseconds in (int8.milliseconds_float, int8.milliseconds)
            ),
            *(figure(b / 1e6, 0, "MB") for b in (int8.size_bytes_float, report.size_bytes)),
        ]
        print(recipe, folder.name, *report.notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
