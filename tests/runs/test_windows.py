"""A run that has recipes with cut texts and with windows says what the windows gain."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from few_runs import training_little
from tiny_models import WORDS
from tolerances import assert_same_forward

import heads
from heads.errors import RecipeError
from heads.evaluation.predictions import Answers, EvaluationTask
from heads.evaluation.significance import compare
from heads.exporters.export import export, export_onnx
from heads.parts.resolve import resolve
from heads.runs.leaderboard import Leaderboard
from heads.runs.windows import both_ways, windows_notes

CONFIG = heads.ExperimentConfig(folds=3, curve=False, precision="exact")
BOTH = ("mean+ridge", "mean+ridge?long=windows")


@pytest.fixture(scope="module")
def board(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """Texts whose class stands at their end: of every third that is behind what is read at once."""
    rng, folder = random.Random(0), tmp_path_factory.mktemp("long")
    lines = ["text,label"]
    for row in range(90):
        name = ("cat", "flight")[row % 2]
        before = " ".join(rng.choices(WORDS[8:12], k=60 if row % 3 == 0 else 6))
        lines.append(f"{before} {' '.join([name] * 12)} {row},{name}")
    (folder / "long.csv").write_text("\n".join(lines), "utf-8")
    with training_little(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_RUNS", str(folder / "runs"))
        patch.setenv("HEADS_CACHE", str(folder / "cache"))
        return heads.train_grid(folder / "long.csv", recipes=BOTH, config=CONFIG, model=str(tiny()))


def test_both_are_compared_on_all_rows_and_on_the_longer_ones(board: Leaderboard) -> None:
    (told,) = [note for note in board.notes if "windows - cut" in note]
    assert re.fullmatch(
        r"mean\+ridge, windows - cut: \+[\d.]+ points \[[+−][\d.]+, \+[\d.]+\] on all 90 rows; "
        r"\+[\d.]+ points \[[+−][\d.]+, \+[\d.]+\] on the 30 that are longer than 40 tokens\.",
        told,
    )
    gains = [float(one) for one in re.findall(r"\+([\d.]+) points", told)]
    scores = {cell.name: cell.measures.score for cell in board.cells}
    assert gains[0] == pytest.approx(100 * (scores[BOTH[1]] - scores[BOTH[0]]), abs=0.05)
    assert gains[1] > gains[0]
    assert told in board.as_json()["notes"]
    text = "30 of 90 texts are longer than 40 tokens: read with ?long=windows, and cut by the other"
    assert any(note.startswith(text) for note in board.notes)
    assert not any("are cut at" in note for note in board.notes)  # as the file alone was told


def test_its_heads_answer_and_go_along(board: Leaderboard, tmp_path: Path) -> None:
    one = board.classifier(BOTH[1])
    texts = ["it was late " * 30 + "cat " * 12, "it was late " * 30 + "flight " * 12]
    assert one.predict(texts) == ["cat", "flight"]
    assert_same_forward(one.logits(texts[:1]), one.logits(["the mat", texts[0]])[1:])
    export(one, tmp_path / "mine")  # it answers long texts as we do, or it is not kept
    assert json.loads((tmp_path / "mine/config.json").read_text())["stride"] == 64
    with pytest.raises(RecipeError, match="windows, which ONNX does not hold"):
        export_onnx(one, tmp_path / "mine.onnx")


def test_what_is_said_is_the_comparison_of_these_rows() -> None:
    rows, rng = torch.arange(40), torch.Generator().manual_seed(0)
    targets = torch.randint(2, (40,), generator=rng)
    cut = torch.where(torch.rand(40, generator=rng) < 0.4, 1 - targets, targets)
    recipes = {name: resolve(name) for name in ("max+linear", "max+linear?long=windows&stride=8")}
    first, second = recipes
    answers = {
        first: Answers(name=first, rows=(rows,), given=(cut,), is_random=False),
        second: Answers(name=second, rows=(rows,), given=(targets,), is_random=False),
    }
    task = EvaluationTask(targets=targets, classes=("a", "b"), groups=rows)
    assert list(both_ways(recipes)) == [(second, first)]
    (told,) = windows_notes(recipes, answers, task, {"longer": list(range(10)), "tokens": 256})
    ten = [
        Answers(name=name, rows=(rows[:10],), given=(one.given[0][:10],), is_random=False)
        for name, one in answers.items()
    ]
    (found,) = compare(ten, task, reference=first).to_reference
    low, high = (f"{100 * end:+.1f}".replace("-", "−") for end in (found.low, found.high))
    assert told.endswith(
        f"{100 * found.difference:+.1f} points [{low}, {high}] on the 10 that are longer than "
        "256 tokens."
    )
    for longer in ([], list(range(40))):  # none, or all: nothing besides
        (told,) = windows_notes(recipes, answers, task, {"longer": longer, "tokens": 256})
        assert told.endswith("on all 40 rows.")


def test_a_recipe_that_has_no_other_way_is_not_compared() -> None:
    names = ("max+linear?long=windows", "mean+linear", "max+mlp")
    assert not list(both_ways({name: resolve(name) for name in names}))
