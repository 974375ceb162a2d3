"""Tables as people publish them come out with the right texts and labels, or one sentence."""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import slow

from heads.data.dataset import Data, read
from heads.data.table import Columns
from heads.problem import MULTI_LABEL
from heads.settings import PUBLIC, Limits, use_limits

COMMON = {"duplicates", "conflict", "controls"}
# Rows and classes of published sets, and what they may be warned of.
CLEAN: dict[str, tuple[int, int, set[str]]] = {
    "ag_news/train": (5000, 4, set()),
    "ag_news/test": (7600, 4, set()),
    "banking77/train": (10003, 77, {"duplicates"}),
    "banking77/test": (3080, 77, {"duplicates"}),
    "emotion/train": (16000, 6, {"duplicates", "conflict"}),
    "emotion/test": (2000, 6, set()),
    "mrpc/train": (4076, 2, {"controls"}),
    "mrpc/test": (1725, 2, set()),
    "rte/train": (2490, 2, COMMON),
    "sick_entailment/train": (4500, 3, {"duplicates"}),
    "sms_spam/train": (4460, 2, COMMON | {"imbalance", "near_duplicates"}),
    "sst2/train": (6920, 2, {"duplicates"}),
    "sst2/test": (1821, 2, set()),
    "sst5/train": (8544, 5, {"duplicates"}),
    "trec6/train": (5452, 6, {"duplicates"}),
    "trec6/test": (500, 6, set()),
}


@pytest.fixture
def messy(shared: Path) -> Callable[[str], tuple[Data, Path]]:
    def read_named(name: str) -> tuple[Data, Path]:
        (path,) = (shared / "messy").glob(f"{name}*")
        data = read(path)
        assert data.rows_in == len(data.corpus) + sum(map(len, data.dropped.values()))
        return data, path

    return read_named


def labels(data: Data) -> list[str]:
    return [data.corpus.classes[number] for (number,) in data.corpus.targets]


def test_spam_in_windows_1252_with_text_spilled_over(messy: Callable) -> None:
    data, _ = messy("kaggle_spam")
    assert Counter(labels(data)) == {"ham": 4825, "spam": 747}
    assert data.columns == Columns(text="v2", label="v1")
    assert data.corpus.texts[5].endswith("to send, å£1.50 to rcv")
    assert data.corpus.texts[-1] == "Rofl. Its true to its name"
    joined = next(text for text in data.corpus.texts if "Wen u miss" in text)
    assert joined == (
        "\\Wen u miss someone, the person is definitely special for u..... But if the person is so "
        'special, why to miss them, just Keep-in-touch\\" gdeve.."'
    )
    spilled = next(finding for finding in data.findings if finding.kind == "spill")
    assert "50 texts" in spilled.says


def test_paraphrases_with_quotes_that_do_not_pair(messy: Callable) -> None:
    data, path = messy("msr_paraphrase")
    rows = [line.split("\t") for line in path.read_text("utf-8-sig").splitlines()[1:] if line]
    assert data.columns == Columns(text="#1 String", pair="#2 String", label="Quality")
    assert Counter(labels(data)) == {"1": 2753, "0": 1323}
    assert labels(data) == [row[0] for row in rows]
    odd = next(finding for finding in data.findings if finding.kind == "controls").lines
    kept = [at for at, line in enumerate(data.corpus.lines) if line not in odd]
    assert [data.corpus.texts[at] for at in kept] == [rows[at][3] for at in kept]
    assert [data.corpus.pairs[at] for at in kept] == [rows[at][4] for at in kept]
    assert data.corpus.texts[0].startswith('Amrozi accused his brother, whom he called "the wit')


def test_a_class_column_among_numbers_that_look_like_it(messy: Callable) -> None:
    data, path = messy("davidson")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert data.columns == Columns(text="tweet", label="class")
    assert Counter(labels(data)) == {"1": 19190, "2": 4163, "0": 1430}
    assert data.corpus.texts == tuple([row[6] for row in rows])
    assert sum("\n" in text for text in data.corpus.texts) > 800
    assert data.corpus.lines[-1] == path.read_text("utf-8").count("\n")


def test_semicolons_in_a_file_called_txt(messy: Callable) -> None:
    data, path = messy("emotion_val")
    rows = [line.rsplit(";", 1) for line in path.read_text("utf-8").splitlines()[1:]]
    assert data.columns == Columns(text="text", label="label_name")
    assert data.corpus.texts == tuple([row[0] for row in rows])
    assert labels(data) == [row[1] for row in rows]
    assert data.corpus.lines == tuple(range(2, 2002))


def test_43_columns_with_rows_that_hold_more(messy: Callable) -> None:
    data, path = messy("isear")
    rows = [line.split("|") for line in path.read_text("utf-8").split("\n")[1:] if line]
    even = [row for row in rows if len(row) == 43]
    assert data.columns == Columns(text="SIT", label="Field1")
    assert (data.rows_in, len(data.corpus)) == (len(rows), len(even)) == (7666, 7503)
    assert labels(data) == [row[36] for row in even]
    assert data.corpus.texts == tuple([row[40] for row in even])
    odd = tuple(line for line, row in enumerate(rows, start=2) if len(row) != 43)
    assert data.dropped == {"wrong number of cells": odd}


def test_no_header_and_the_label_first(messy: Callable) -> None:
    data, path = messy("sentiment140")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert not data.has_header
    assert data.columns == Columns(text="column 2", label="column 1")
    assert Counter(labels(data)) == {"4": 182, "0": 177, "2": 139}
    assert data.corpus.texts == tuple([row[1] for row in rows])
    assert data.findings[0].kind == "header"


def test_similarities_without_a_header_are_numbers(messy: Callable) -> None:
    data, path = messy("stsb_dev")
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    even = [row for row in rows if len(row) == 7]
    assert data.columns == Columns(text="column 6", pair="column 7", label="column 5", number=True)
    assert data.corpus.numbers == tuple(float(row[4]) for row in even)
    assert data.corpus.texts == tuple(row[5] for row in even)
    assert data.corpus.pairs == tuple(row[6] for row in even)
    assert data.spread == (0.0, 1.0, 2.55, 3.6, 5.0)
    numbers = next(finding for finding in data.findings if finding.kind == "numbers")
    assert "78 different numbers" in numbers.says


@pytest.mark.parametrize("name", slow.but_each(4, CLEAN))
def test_a_clean_set_is_read_whole_and_warned_of_nothing_absurd(shared: Path, name: str) -> None:
    rows, classes, allowed = CLEAN[name]
    with use_limits(PUBLIC):
        data = read(shared / f"{name}.csv")
    assert (len(data.corpus), len(data.corpus.classes), data.rows_in) == (rows, classes, rows)
    assert data.dropped == {}
    assert {finding.kind for finding in data.findings} <= allowed
    pair = bool(data.corpus.pairs)
    assert data.columns == Columns(
        text="text_a" if pair else "text", pair="text_b" if pair else "", label="label"
    )


@pytest.mark.parametrize(
    ("name", "rows", "classes", "without"),
    [
        pytest.param("goemotions_ekman/train", 43410, 7, 0, marks=pytest.mark.slow),
        ("goemotions_ekman/test", 5427, 7, 0),
        ("nlupp_banking/train", 1658, 48, 73),
        ("nlupp_banking/test", 413, 48, 15),
    ],
)
def test_several_labels_in_a_cell_are_found(
    shared: Path, name: str, rows: int, classes: int, without: int
) -> None:
    path = shared / f"{name}.csv"
    data = read(path)
    with path.open(encoding="utf-8", newline="") as file:
        cells = [row["label"] for row in csv.DictReader(file)]
    corpus = data.corpus
    assert (corpus.problem, len(corpus), len(corpus.classes)) == (MULTI_LABEL, rows, classes)
    assert data.dropped == {}
    sets = [{corpus.classes[number] for number in target} for target in corpus.targets]
    assert sets == [set(cell.split("|")) - {""} for cell in cells]
    assert data.columns == Columns(text="text", label="label", separator="|")
    said = next(finding for finding in data.findings if finding.kind == "separator")
    several = sum("|" in cell for cell in cells)
    assert said.says.startswith(f"{several:,} rows hold several labels, separated by '|'")
    assert f"{without} rows have none" in said.says or not without
    assert data.classes == dict(sorted(Counter(label for each in sets for label in each).items()))


def test_columns_of_one_file_fit_its_test(shared: Path) -> None:
    folder = shared / "nlupp_banking"
    train = read(folder / "train.csv")
    test = read(folder / "test.csv", train.columns)
    assert set(test.corpus.classes) <= set(train.corpus.classes)
    assert test.corpus.problem is MULTI_LABEL
    assert "separator" not in {finding.kind for finding in test.findings}


def test_several_labels_are_one_class_where_a_user_says_so(shared: Path) -> None:
    path = shared / "nlupp_banking" / "train.csv"
    with use_limits(Limits(classes=1000)):
        data = read(path, Columns(text="text", label="label"))
    assert data.corpus.problem is not MULTI_LABEL
    assert "several" in {finding.kind for finding in data.findings}
    assert len(data.dropped["no label"]) == 73
