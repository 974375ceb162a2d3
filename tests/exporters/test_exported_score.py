"""What stands on the leaderboard is the score of the head that is exported, row for row.

The base model reads in 16 bits wherever that is allowed here, whatever this machine would choose.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import slow
import torch
from torch import Tensor

from heads.backbone import device
from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.exporters.export import export
from heads.features.extraction import FeatureMatrices, extract
from heads.parts.resolve import resolve
from heads.runs import spec as question
from heads.runs.cells import answers_of_cell, kept
from heads.runs.refit import run_classifier as classifier
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

ROWS = 60  # to learn from, and as many to be scored on
RECIPES = {
    "intents": ("cls+bert", "mean+linear", "attention+linear"),
    "pairs": ("cls+linear", "mean+linear?pair=uv_diff"),
    "similarity": ("cls+linear", "mean+roberta"),
    "aspects": ("cls+linear", "mean+linear"),
}
CLOSE = 1e-4  # of a number or a probability, where 16 bits change 1e-3 and more


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sixteen bits are said to be fast, and are used where they may be."""
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(device, "has_instructions", lambda device=None: True)


def split(sample: str, folder: Path) -> tuple[Path, Path]:
    """A file to learn from and a file to be tested on."""
    with SAMPLES[sample].path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    some = rows[: 2 * ROWS]
    for name, part in (("train", some[::2]), ("test", some[1::2])):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *part])
    return folder / "train.csv", folder / "test.csv"


def plainly(folder: Path) -> Callable[..., Tensor]:
    """The logits of an exported folder as anybody would compute them, in 32 bits."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert next(model.parameters()).dtype == torch.float32

    def logits(texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        both = (list(texts), list(pairs)) if pairs else (list(texts),)
        given = tokenizer(*both, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            return model(**given).logits

    return logits


@pytest.mark.parametrize("sample", slow.but(RECIPES, "aspects"))
def test_the_board_scores_the_head_that_is_exported(sample, tmp_path):
    train, test = (read(path) for path in split(sample, tmp_path))
    asked = RunRequest(
        data=train,
        test=test,
        recipes=RECIPES[sample],
        config=ExperimentConfig(seeds=2, curve=False),
    )
    run = begin(asked)
    for _ in working(run):
        pass
    facts = run.read("facts.json")["reading"]
    assert facts["precision"] == "bfloat16 and float32"
    assert "Rows that are scored were read in 32 bits" in facts["says"]
    corpus = question.load(run).corpus
    names = question.load(run).recipes
    assert len(names) == len(RECIPES[sample])
    for number, name in enumerate(names):
        cell, board, found = (
            kept(run, number),
            answers_of_cell(run, number, name),
            classifier(run, name),
        )
        found = replace(found, head=found.head.raw or found.head)  # cells hold heads as trained
        assert cell is not None
        assert found.head.scores is not None
        assert found.head.scores.own == cell.measures.scores[0]
        rows = board.answers.rows[0].tolist()
        assert len(rows) == len(test.corpus)
        folder = tmp_path / f"export-{number}"
        export(found, folder)
        ask = plainly(folder)
        pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else ()
        logits = ask([corpus.texts[row] for row in rows], pairs)
        given = board.answers.given[0]
        if sample == "similarity":
            torch.testing.assert_close(logits[:, 0], given, rtol=CLOSE, atol=CLOSE)
        elif sample == "aspects":
            bars = torch.tensor(found.head.thresholds)
            assert torch.equal(logits > bars, given.bool())
        else:
            assert torch.equal(logits.argmax(dim=1), given.long())
            sure = logits.softmax(dim=1).amax(dim=1)
            torch.testing.assert_close(sure, board.confidence[0], rtol=CLOSE, atol=CLOSE)
            targets = torch.tensor([corpus.targets[row][0] for row in rows])
            share = float((logits.argmax(dim=1) == targets).double().mean())
            assert share == pytest.approx(cell.measures.scores[0])
        card = (folder / "README.md").read_text("utf-8")
        assert "the mean of several trainings of this recipe" in card


def test_only_rows_that_are_not_scored_are_read_in_16_bits(backbone):
    """What is learned from differs from 32 bits; a text on both sides is read once, in 32."""
    with SAMPLES["intents"].path.open(encoding="utf-8", newline="") as file:
        texts = [row[0] for row in list(csv.reader(file))[1:31]]
    texts = [*texts, texts[0]]
    recipes = [resolve("mean+linear")]
    asked = [*range(20, 30), 30]

    def features(*given: object) -> FeatureMatrices:
        *_, found = extract(recipes, texts, (), backbone, *given)
        assert isinstance(found, FeatureMatrices)
        return found

    exact, mixed = features("exact"), features("auto", asked)
    assert (mixed.precision, mixed.scored) == ("bfloat16", "float32")
    one, other = (found.matrix("mean")[found.index] for found in (exact, mixed))
    same = (one - other).abs().amax(dim=1) < 1e-6
    assert same.nonzero()[:, 0].tolist() == [0, *asked]
    everything = features("auto", range(len(texts)))
    assert (everything.precision, everything.fresh) == ("float32", 0)  # as exact, and found kept
    assert torch.equal(everything.matrix("mean"), exact.matrix("mean"))
