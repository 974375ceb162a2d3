"""Published figures are computed by the published protocol, on the published rows only."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from shown_results import check_shown

from heads.errors import DataError
from heads.events import Progress
from heads.extras.reproduce import mteb
from heads.extras.reproduce.mteb import BENCHMARKS, Reproduced, draw_rows
from heads.interfaces.cli.app import main


def run(name: str, folder: Path) -> tuple[list[Progress], Reproduced]:
    *progress, result = mteb.reproduce(name, folder)
    assert isinstance(result, Reproduced)
    return [event for event in progress if isinstance(event, Progress)], result


@pytest.mark.slow
def test_emotion_gives_the_published_figures_to_every_digit(shared):
    """The smaller of the two; `heads reproduce banking77` takes twice as long."""
    progress, result = run("emotion", shared / "emotion")
    assert (result.accuracy, result.f1) == (0.4083, 0.37182060763441444)
    assert result.equal
    assert result.accuracies[:3] == (0.4505, 0.371, 0.362)
    shares = [event.share for event in progress]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    plain = result.as_json()
    assert plain["accuracies"] == list(result.accuracies)
    assert plain["published"]["accuracy"] == 0.4083


def test_rows_are_drawn_from_a_shuffle_that_goes_on():
    labels = [0, 1, 2] * 20
    order, draws = numpy.arange(60), draw_rows(labels, 4, 3)
    for draw in draws:
        numpy.random.RandomState(42).shuffle(order)
        assert Counter(labels[row] for row in draw) == {0: 4, 1: 4, 2: 4}
        assert draw == sorted(draw, key=order.tolist().index)
        assert order[0] == draw[0]
    assert draws[0] != draws[1]


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """A benchmark of twelve rows."""
    benchmark = replace(BENCHMARKS["emotion"], train=8, test=4, classes=2, per_class=2, order=())
    monkeypatch.setitem(BENCHMARKS, "small", benchmark)
    rows = ["text,label", *(f"the soup is good {n},x\nthe bill is due {n},y" for n in range(4))]
    (tmp_path / "train.csv").write_text("\n".join(rows), "utf-8")
    (tmp_path / "test.csv").write_text("\n".join(rows[:3]), "utf-8")
    return tmp_path


def test_equal_means_equal_to_the_last_digit(small, monkeypatch):
    _, result = run("small", small)
    assert (result.accuracy, result.f1, result.equal) == (1.0, 1.0, False)
    check_shown(result, is_foreign=False)
    published = replace(BENCHMARKS["small"].published, accuracy=1.0, f1=1.0)
    monkeypatch.setitem(BENCHMARKS, "small", replace(BENCHMARKS["small"], published=published))
    assert run("small", small)[1].equal


@pytest.mark.parametrize(
    ("train", "says"),
    [
        (None, r"train.csv of small cannot be read \(No such file"),
        (b"text,label\n\xff,x\n", r"train.csv of small cannot be read \(UnicodeDecodeError"),
        (b"sentence,label\na,x\n", "no table with the columns text,label"),
        (b"text,label\na,x\nb,y\n", "holds 2 rows of 2 classes; small has 8 of its 2"),
        (b"text,label\n" + b"a,x\n" * 8, "holds 8 rows of 1 classes"),
    ],
)
def test_other_data_is_refused(small, train, says):
    (small / "train.csv").unlink()
    if train is not None:
        (small / "train.csv").write_bytes(train)
    with pytest.raises(DataError, match=says) as caught:
        list(mteb.reproduce("small", small))
    assert "Give the folder" in caught.value.hint


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(DataError, match="no published figures here for 'imdb'"):
        list(mteb.reproduce("imdb", tmp_path))


@pytest.mark.parametrize(
    ("name", "says"), [("nonsense", "nonsense"), ("banking77", "train.csv of banking77")]
)
def test_the_command_says_in_a_sentence_what_is_not_there(name, says, capfd):
    assert main(["reproduce", name, "--data", "/nowhere"]) == 2
    assert says in capfd.readouterr().err
