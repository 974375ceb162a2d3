"""The guided tour, docs/tour.ipynb: its cells run in their order, offline."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from heads.data.dataset import corpus_of
from heads.data.samples import SAMPLES, Sample
from heads.exporters import verification
from heads.training.fitters import successive_halving

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"
CELLS = json.loads(TOUR.read_text("utf-8"))["cells"]


def run(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does, and gives the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, TOUR.name, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), TOUR.name, "eval"), names)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What every cell of code shows at its end.

    The sample has every fourth of its rows, little is learned, and the export is tried on short
    texts alone: all of that has tests of its own.
    """
    place, names = tmp_path_factory.mktemp("tour"), dict[str, Any]()
    head, *lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()
    (place / "sentiment.csv").write_text("\n".join([head, *lines[::4]]), "utf-8")
    sources = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_RUNS", str(place / "runs"))
        patch.setattr(Sample, "path", place / "sentiment.csv")
        patch.setattr(successive_halving, "CAP", 24)
        patch.setattr(verification, "TEXTS", (*verification.TEXTS[:3], "A last one."))
        corpus_of.cache_clear()
        yield {source: run(source, names) for source in sources}
    corpus_of.cache_clear()


def last(shown: dict[str, Any], part: str) -> Any:
    (found,) = (value for source, value in shown.items() if part in source)
    return found


def test_the_tour_is_kept_without_outputs():
    for cell in CELLS:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")


@pytest.mark.slow
def test_every_result_of_the_tour_is_shown_as_html(shown):
    for part in ("heads.compare(", "heads.read(", "heads.train_grid(", "heads.export("):
        assert last(shown, part)._repr_html_().startswith('<div class="heads-shown">')
    assert len(last(shown, "found.plot()").data) == 2
    assert len(last(shown, "board.plot()").data) == 3  # rows, the recommended, the others
    assert last(shown, ".pivot(").shape == (3, 2)


@pytest.mark.slow
def test_the_tour_tells_the_truth(shown):
    assert set(last(shown, "id2label")) <= {"negative", "neutral", "positive"}
    assert last(shown, "type(model)") == ("BertForSequenceClassification", True)
    table = last(shown, "to_reference_differs")
    assert set(table["recipe"]) >= {"mean+linear", "majority", "tfidf"}
