"""The head that a checkpoint came with as a row of the leaderboard, also under other names."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import rewrite, write_classifier

import heads
from heads.classifier.label_names import rename_classes, suggest_names
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, HeadsError
from heads.evaluation.predictions import OWN
from heads.interfaces.cli.app import main
from heads.runs.leaderboard import facts_of
from heads.settings import ExperimentConfig

QUICK = ExperimentConfig(folds=2, trials=1, curve=False)
NAMES = ("neg", "neu", "pos")  # in the order of the logits
TEXTS = ["the cat sat on a mat", "a dog ran home"]


class Given(NamedTuple):
    """A fine-tuned classifier, a file whose labels are most of its answers, and their share."""

    model: str
    file: Path
    share: float


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, rows: Corpus) -> Given:
    place = tmp_path_factory.mktemp("own")
    folder = write_classifier(place / "ft", "bert")
    tensors = load_file(folder / "model.safetensors")
    middle = heads.load(folder).logits(rows.texts).mean(dim=0)
    tensors["classifier.bias"] -= middle  # so that all three classes are answered
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    answers = heads.load(folder).logits(rows.texts).argmax(dim=1).tolist()
    assert set(answers) == {0, 1, 2}
    labels = [NAMES[answer] for answer in answers]
    labels[0] = next(name for name in NAMES if name != labels[0])  # one that it gets wrong
    path = place / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *zip(rows.texts, labels, strict=True)])
    return Given(str(folder), path, 59 / 60)


def trained(given: Given, **more: Any) -> Any:
    asked = {"recipes": ["own", "mean+ridge", "cls+ridge"], "model": given.model, "config": QUICK}
    return heads.train_grid(str(given.file), **asked | more)


@pytest.mark.parametrize(
    "names",
    [NAMES, {"LABEL_0": "neg", "LABEL_1": "neu", "LABEL_2": "pos"}],
    ids=["list", "by name"],
)
def test_it_is_scored_on_the_same_rows_and_compared(given: Given, names: Any) -> None:
    board = trained(given, label_names=names)
    own = board.cell(OWN)
    assert own.measures.score == pytest.approx(given.share)
    assert "checkpoint's own head" in board.verdict[0]
    head, cell = board.classifier("mean+ridge").head, board.cell("mean+ridge").measures
    assert (head.scores.low, head.scores.high) == (cell.low, cell.high)
    assert own.measures.rows == board.cell("mean+ridge").measures.rows == 60
    assert own.to_reference is not None
    assert own.to_reference.difference == pytest.approx(
        own.measures.score - board.cell(board.reference).measures.score
    )
    assert own.as_json()["recipe"] == OWN
    assert board.warning
    assert board.recommendation.name != OWN  # it may have seen the rows
    assert OWN not in (board.best, board.reference)
    assert (board.planned, len(board.cells)) == (2, 5)
    facts = facts_of(board.folder)
    assert (facts["cells"], facts["planned"]) == (2, 2)


def test_its_head_is_the_checkpoints_under_these_names(given: Given) -> None:
    found = trained(given, label_names=NAMES).classifier(OWN)
    assert found.classes == NAMES
    assert torch.equal(found.logits(TEXTS), heads.load(given.model).logits(TEXTS))


def test_names_of_the_config_in_any_order_need_none(given: Given, tmp_path: Path) -> None:
    known = {str(number): name for number, name in enumerate(NAMES)}
    folder = shutil.copytree(given.model, tmp_path / "ft")
    rewrite(folder / "config.json", id2label=known)
    found = trained(given._replace(model=str(folder)))
    assert found.cell(OWN).measures.score == pytest.approx(given.share)


def test_names_are_proposed_where_none_fits(given: Given) -> None:
    for work in (
        lambda: trained(given),
        lambda: heads.evaluate(str(given.file), model=given.model),
        lambda: heads.evaluate(str(given.file), model=given.model, label="label"),
    ):
        with pytest.raises(CheckpointError) as told:
            work()
        assert ",".join(NAMES) in told.value.hint
        assert "98 %" in told.value.hint


def test_a_file_is_scored_under_these_names(given: Given) -> None:
    found = heads.evaluate(str(given.file), model=given.model, label_names=NAMES)
    assert (found.score, found.measures.rows) == (pytest.approx(given.share), 60)
    assert found.classes == NAMES
    spaced = heads.evaluate(str(given.file), model=given.model, label_names=" neg, neu ,pos")
    assert spaced.classes == NAMES


def test_the_shell_takes_them(given: Given, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("--label-names", ",".join(NAMES), "--model", given.model, "--json")
    assert main(["evaluate", str(given.file), *names]) == 0
    assert json.loads(capfd.readouterr().out)["score"] == pytest.approx(given.share)
    flags = ("-r", "own", "-r", "mean+ridge", "--folds", "2", "--trials", "1", "--no-curve")
    assert main(["train", str(given.file), *flags, *names]) == 0
    cells = {cell["recipe"]: cell for cell in json.loads(capfd.readouterr().out)["cells"]}
    assert cells[OWN]["score"] == pytest.approx(given.share)
    assert main(["train", str(given.file), *flags, *names[:-1]]) == 0  # shown as a table
    assert "own" in capfd.readouterr().out


@pytest.mark.parametrize("names", [("neg", "pos"), ("neg", "neg", "pos"), {"LABEL_7": "neg"}])
def test_names_that_do_not_fit_are_refused(given: Given, names: Any) -> None:
    with pytest.raises(CheckpointError):
        rename_classes(heads.load(given.model).head, names)
    with pytest.raises(CheckpointError):
        trained(given, label_names=names)


def test_a_checkpoint_without_a_trained_head_has_none(
    tiny: Callable[..., Path], given: Given
) -> None:
    with pytest.raises(HeadsError):
        trained(given._replace(model=str(tiny())), label_names=NAMES)


def test_the_proposal_is_the_one_with_most_right_answers() -> None:
    answers = torch.tensor([0, 0, 0, 1, 1, 2])
    labels = ["b", "b", "a", "b", "c", "a"]
    assert suggest_names(answers, labels, ["a", "b", "c"]) == (("b", "c", "a"), 4 / 6)


def test_a_resumed_run_scores_it_as_well(given: Given) -> None:
    whole = trained(given, label_names=NAMES)
    board = trained(given, label_names=NAMES, config=replace(QUICK, budget_cells=1))
    assert board.state == "stopped"
    assert board.cell(OWN).measures.score == whole.cell(OWN).measures.score
    assert heads.resume(board.run).state == "finished"
