"""Published figures are computed by the published protocol, on the published rows only."""

from collections import Counter
from dataclasses import replace

import numpy
import pytest
from shown_results import check_shown

from heads.errors import DataError
from heads.events import result
from heads.extras.reproduce import mteb
from heads.extras.reproduce.mteb import BENCHMARKS, draw_rows
from heads.interfaces.cli.app import main


@pytest.mark.slow
def test_emotion_gives_the_published_figures_to_every_digit(shared):
    """The smaller of the two; `heads reproduce banking77` takes twice as long."""
    figures = result(mteb.iter_reproduction("emotion", shared / "emotion"))
    assert (figures.accuracy, figures.f1) == (0.4083, 0.37182060763441444)
    assert figures.equal
    assert figures.accuracies[:3] == (0.4505, 0.371, 0.362)


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
def small(tmp_path, monkeypatch):
    """A benchmark of twelve rows."""
    benchmark = replace(BENCHMARKS["emotion"], train=8, test=4, classes=2, per_class=2, order=())
    monkeypatch.setitem(BENCHMARKS, "small", benchmark)
    rows = ["text,label", *(f"the soup is good {n},x\nthe bill is due {n},y" for n in range(4))]
    (tmp_path / "train.csv").write_text("\n".join(rows), "utf-8")
    (tmp_path / "test.csv").write_text("\n".join(rows[:3]), "utf-8")
    return tmp_path


def test_equal_means_equal_to_the_last_digit(small, monkeypatch):
    figures = result(mteb.iter_reproduction("small", small))
    assert (figures.accuracy, figures.f1, figures.equal) == (1.0, 1.0, False)
    check_shown(figures, is_foreign=False)
    published = replace(BENCHMARKS["small"].published, accuracy=1.0, f1=1.0)
    monkeypatch.setitem(BENCHMARKS, "small", replace(BENCHMARKS["small"], published=published))
    assert result(mteb.iter_reproduction("small", small)).equal


@pytest.mark.parametrize(
    "train",
    [
        None,
        b"text,label\n\xff,x\n",
        b"sentence,label\na,x\n",
        b"text,label\na,x\nb,y\n",  # too few rows
        b"text,label\n" + b"a,x\n" * 8,  # of too few classes
    ],
)
def test_other_data_is_refused_by_the_name_of_the_file(small, train):
    (small / "train.csv").unlink()
    if train is not None:
        (small / "train.csv").write_bytes(train)
    with pytest.raises(DataError) as refused:
        result(mteb.iter_reproduction("small", small))
    assert "train.csv" in refused.value.what


@pytest.mark.parametrize(("name", "named"), [("imdb", "imdb"), ("banking77", "train.csv")])
def test_the_command_names_what_is_not_there(name, named, capfd):
    assert main(["reproduce", name, "--data", "/nowhere"]) == 2
    assert named in capfd.readouterr().err
