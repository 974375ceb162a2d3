"""What is taken elsewhere has learned from all rows; what was scored stays what it was."""

import csv
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heads
from heads.backbone.backbone import Backbone
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus
from heads.events import result
from heads.interfaces.cli.app import main
from heads.interfaces.web import downloads
from heads.interfaces.web.location import Location
from heads.interfaces.web.places.lane_answers import prepare_file
from heads.parts.resolve import resolve
from heads.runs import trainer
from heads.runs.leaderboard import Leaderboard
from heads.settings import ExperimentConfig

TEXTS = ["the cat sat on a mat", "a dog ran home", "it was late"]
RECIPES = ("cls+bert", "mean+ridge", "mean+logistic", "mean+roberta")
# One setting each, and so many steps: what is learned hangs on rows and seed alone.
FIXED = ExperimentConfig(
    folds=2, learning_rate=0.02, steps=12, standardise="no", trials=1, curve=False
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, rows: Corpus) -> Path:
    path = tmp_path_factory.mktemp("refit") / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        told = zip(rows.texts, rows.targets, strict=True)
        written = [(text, rows.classes[target]) for text, (target,) in told]
        csv.writer(out).writerows([("text", "label"), *written])
    return path


@pytest.fixture(scope="module")
def board(file: Path, tiny: Callable[..., Path]) -> Leaderboard:
    """A run; what its heads learn from all rows is kept in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_RUNS", str(file.parent / "runs"))
        return heads.train_grid(str(file), recipes=RECIPES, model=str(tiny()), config=FIXED)


@pytest.fixture(autouse=True)
def _its_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADS_RUNS", str(file.parent / "runs"))


def refitted_files(board: Leaderboard) -> list[Path]:
    return [*(board.folder.path / "heads").glob("*.refit.safetensors")]


def logits(folder: Path) -> Tensor:
    return heads.load(folder).logits(TEXTS)


def uncalibrated(classifier: Classifier) -> Classifier:
    return replace(classifier, head=classifier.head.raw or classifier.head)


def is_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("recipe", RECIPES)
def test_it_is_the_head_that_one_training_on_all_rows_gives(
    board: Leaderboard, rows: Corpus, small: Backbone, recipe: str
) -> None:
    scored = board.classifier(recipe)
    found = result(scored.refitted())
    assert (scored.head.rows, found.head.rows) == (30, 60)
    assert found.head.chosen == scored.head.chosen  # the temperature among them
    found, scored = uncalibrated(found), uncalibrated(scored)
    fit = trainer.fit(resolve(recipe), rows, small, config=FIXED)
    alone = uncalibrated(Classifier(backbone=small, head=result(fit)))
    assert torch.allclose(found.logits(TEXTS), alone.logits(TEXTS), atol=2e-3)  # of a solver
    assert (found.head.temperature, found.head.thresholds) == (scored.head.temperature, ())
    assert not is_close(found.logits(TEXTS), scored.logits(TEXTS))


def test_every_door_of_python_gives_it(board: Leaderboard, tmp_path: Path) -> None:
    scored = board.classifier("cls+bert")
    wanted = result(scored.refitted()).logits(TEXTS)
    found = heads.export(scored, tmp_path / "one")
    assert found.notes
    assert is_close(logits(tmp_path / "one"), wanted)
    heads.export(scored, tmp_path / "two", library="sentence-transformers")
    assert is_close(logits(tmp_path / "two"), wanted)
    heads.export(scored, tmp_path / "as-scored", refit=False)
    assert is_close(logits(tmp_path / "as-scored"), scored.logits(TEXTS))
    divided = heads.calibrated(scored)
    heads.export(divided, tmp_path / "divided")
    assert is_close(logits(tmp_path / "divided"), wanted / scored.head.temperature)


def test_the_card_says_where_head_and_score_come_from(board: Leaderboard, tmp_path: Path) -> None:
    scored = board.classifier("cls+bert")
    assert scored.head.scores is not None
    heads.export(scored, tmp_path / "one")
    heads.export(scored, tmp_path / "two", refit=False)
    card, of_scored = ((tmp_path / name / "README.md").read_text() for name in ("one", "two"))
    assert "mine, 60 rows" in card
    trainings = "the mean of 2 trainings of this recipe, on about 30 rows (50 %)"
    assert trainings in " ".join(card.split())
    assert "mine, 30 rows" in of_scored
    cell = board.cell("cls+bert").measures
    interval = f"95 % interval {100 * cell.low:.1f} to {100 * cell.high:.1f}"
    assert interval in card
    assert interval in of_scored


def test_an_export_of_the_shell_gives_it(board: Leaderboard, tmp_path: Path) -> None:
    wanted = result(board.classifier("cls+bert").refitted()).logits(TEXTS)
    for name, flags in (("one", []), ("two", ["--as", "transformers"])):
        place = str(tmp_path / name)
        assert main(["export", "cls+bert", place, "--run", board.run, *flags]) == 0
        assert is_close(logits(tmp_path / name), wanted)
    place = str(tmp_path / "scored")
    assert main(["export", "cls+bert", place, "--run", board.run, "--no-refit"]) == 0
    assert not is_close(logits(tmp_path / "scored"), wanted)


@pytest.mark.needs_extra("hub")
def test_a_push_gives_it(
    board: Leaderboard, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    wanted = result(board.classifier("cls+bert").refitted()).logits(TEXTS)
    monkeypatch.chdir(tmp_path)
    told = ["push", board.run, "me/pushed", "--recipe", "cls+bert", "--dry-run", "--json"]
    assert main(told) == 0
    assert "60 rows" in json.loads(capfd.readouterr().out)["card"]
    assert is_close(logits(tmp_path / "pushed"), wanted)


def test_the_page_gives_it(board: Leaderboard) -> None:
    wanted = result(board.classifier("cls+bert").refitted()).logits(TEXTS)
    opened = replace(Location.of(""), run=board.run, recipes=("cls+bert",), lane=1)
    *_, (_, file) = prepare_file(opened, downloads.FOLDER)
    with zipfile.ZipFile(file["value"]) as archive:
        place = Path(file["value"]).parent / "unpacked"
        archive.extractall(place)
    (folder,) = (path for path in place.iterdir() if path.is_dir())
    assert is_close(logits(folder), wanted)


def test_a_head_trained_alone_is_trained_on_all_rows_as_well(
    file: Path, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    found = heads.train("cls+bert", str(file), model=str(tiny()), config=FIXED)
    heads.export(found, tmp_path / "out")
    wanted = result(found.refitted())
    assert wanted.head.rows == 60
    assert is_close(logits(tmp_path / "out"), wanted.logits(TEXTS))


def test_it_is_trained_once_and_nothing_is_encoded_for_it(
    board: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = board.classifier("mean+ridge")
    for path in refitted_files(board):
        path.unlink()

    def refuse(*given: Any, **more: Any) -> Any:
        raise AssertionError("this was done before")

    for name in ("forward", "states"):
        monkeypatch.setattr(Backbone, name, refuse)
    first = result(scored.refitted())
    monkeypatch.setattr(trainer, "refit", refuse)
    again = result(board.classifier("mean+ridge").refitted())
    assert again.head.refit == first.head.refit
    for one, other in zip(
        again.head.module.parameters(), first.head.module.parameters(), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("how", ["test set", "per class"])
def test_a_head_that_nothing_more_is_known_for_stays_as_it_is(
    file: Path, tiny: Callable[..., Path], how: str
) -> None:
    """With a test set it has learned from all other rows, and those stay untouched."""
    asked: dict[str, Any] = {"recipes": ["mean+ridge"], "model": str(tiny())}
    if how == "test set":
        found = heads.train_grid(str(file), test=str(file), config=replace(FIXED, seeds=1), **asked)
    else:
        few = replace(FIXED, per_class=4, seeds=1)
        found = heads.train_grid(str(file), config=few, **asked)
    scored = found.classifier()
    assert result(scored.refitted()) is scored
    assert scored.head.rows == (60 if how == "test set" else 12)


def test_a_broken_file_of_it_is_trained_again(board: Leaderboard) -> None:
    first = result(board.classifier("mean+ridge").refitted())
    for path in refitted_files(board):
        path.write_bytes(b"broken")
    again = result(board.classifier("mean+ridge").refitted())
    assert is_close(again.logits(TEXTS), first.logits(TEXTS))


@pytest.mark.parametrize("tune", ["lora", pytest.param("lpft", marks=pytest.mark.slow)])
def test_a_tuned_head_takes_its_base_model_along(
    file: Path, tiny: Callable[..., Path], tmp_path: Path, tune: str
) -> None:
    config = replace(FIXED, epochs=1, tuning_rate=0.02, seeds=2, learning_rate=0.0, steps=0)
    asked = {"recipes": [f"cls+bert?tune={tune}"], "model": str(tiny()), "config": config}
    scored = heads.train_grid(str(file), **asked).classifier()
    found = result(scored.refitted())
    assert found.head.base is not None
    assert scored.head.base is not None
    heads.export(scored, tmp_path / "out")
    assert is_close(logits(tmp_path / "out"), found.logits(TEXTS))
    assert not is_close(found.logits(TEXTS), scored.logits(TEXTS))
    if tune == "lora":
        heads.export(scored, tmp_path / "adapter", adapter=True)
        assert "60 rows" in (tmp_path / "adapter" / "README.md").read_text()
