"""The commands about whole files, run as a user runs them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from few_runs import FewRuns
from shell_runs import run as shell

from heads.classifier.classifier import Classifier
from heads.data.files import open_table
from heads.data.samples import SAMPLES
from heads.inference import predict


@pytest.fixture(scope="module")
def run(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> FewRuns:
    return FewRuns(tmp_path_factory.mktemp("runs"), tiny())


def test_rows_are_printed_as_csv_and_the_account_beside_them(capsys, run, tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text('id\ttext\n1\t"A ""fine"" cat, it was"\n2\t\n', "utf-8")
    code, out, err = shell(capsys, "predict", path, "--run", run("sentiment"))
    assert code == 0
    names, *rows = csv.reader(io.StringIO(out))
    assert names == ["id", "text", "answer", "probability"]
    assert [row[:2] for row in rows] == [["1", 'A "fine" cat, it was'], ["2", ""]]
    assert rows[1][2:] == ["", ""]
    assert "answered 1 of 2 rows of in.tsv (texts: 'text')" in err
    assert "1 row got no answer, no text: line 3." in err


def test_lines_come_from_standard_input(capsys, monkeypatch, run):
    stream = io.TextIOWrapper(io.BytesIO(b"Well, the cat ran\n\nlate\n"))
    monkeypatch.setattr("sys.stdin", stream)
    code, out, _ = shell(capsys, "predict", "-", "--run", run("sentiment"), "--logits")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["text"] for row in rows] == ["Well, the cat ran", "", "late"]
    assert rows[0]["logit_neutral"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"late\n")))
    code, out, _ = shell(capsys, "predict", "-", "--run", run("sentiment"), "--json")
    found = json.loads(out)
    assert (found["rows"], found["to"], len(found["answers"])) == (1, None, 1)


def test_a_file_is_written_in_the_format_of_its_ending(capsys, run, tmp_path):
    to = tmp_path / "out.jsonl"
    asked = ["--run", run("sentiment"), "-r", "cls+linear", "--to", to, "--abstain-below", "0.9"]
    code, out, err = shell(capsys, "predict", "sentiment", *asked)
    assert (code, out) == (0, "")
    rows = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    assert len(rows) == len(open_table(SAMPLES["sentiment"].path).rows)
    assert set(rows[0]) == {
        "text", "label", "answer", "probability", "abstained", "calibrated_probability"
    }  # fmt: skip
    assert f"They are in {to}" in err
    sure = sum(not row["abstained"] for row in rows)
    assert f"answered {sure:,} of {len(rows):,} rows" in err
    assert f"It abstained from {len(rows) - sure:,} rows." in err
    code, out, err = shell(capsys, "predict", "sentiment", *asked, "--json")
    assert (code, f"{to} is there already" in err) == (2, True)
    to.unlink()
    code, out, _ = shell(capsys, "predict", "sentiment", *asked, "--json")
    assert code == 0
    assert "answers" not in json.loads(out)
    code, _, err = shell(capsys, "predict", "sentiment", *asked[:4], "--to", tmp_path / "a.doc")
    assert code == 2
    assert "names no format" in err


def test_an_interruption_leaves_no_half_file_unsaid(capsys, monkeypatch, run, tmp_path):
    monkeypatch.setattr(predict, "MOST", 50)
    monkeypatch.setattr(predict, "FEWEST", 50)
    usual, asked = Classifier.logits, []

    def interrupted(self, texts, pairs=()):
        if len(asked) > 1:
            raise KeyboardInterrupt
        asked.append(texts)
        return usual(self, texts, pairs)

    monkeypatch.setattr(Classifier, "logits", interrupted)
    to = tmp_path / "out.csv"
    code, _, err = shell(capsys, "predict", "sentiment", "--run", run("sentiment"), "--to", to)
    assert code == 130
    assert f"heads: stopped. Answered 100 of 420 rows; {to} was not written." in err
    assert list(tmp_path.iterdir()) == []


def test_a_head_is_scored(capsys, run):
    name, file = run("sentiment"), run.file("sentiment")
    code, out, _ = shell(capsys, "evaluate", file, "--run", name)
    told = " ".join(out.split())
    assert code == 0
    assert "rows of sentiment.csv: accuracy " in told
    assert "learned from, which flatters its score" in told
    assert "Precision" in told
    code, out, _ = shell(capsys, "evaluate", file, "--run", name, "--metric", "mcc", "--json")
    found = json.loads(out)
    assert (code, found["metric"], found["label"]) == (0, "mcc", "label")
    assert {"score", "low", "high", "values", "by_class", "confusion", "unrepeated"} <= set(found)
    code, out, _ = shell(capsys, "evaluate", run.file("sentiment"), "--run", run("aspects"))
    assert code == 2
    code, out, _ = shell(capsys, "evaluate", "aspects", "--run", run("aspects"))
    assert "average precision" in out.lower()
    code, out, _ = shell(capsys, "evaluate", "similarity", "--run", run("similarity"))
    assert "Spearman" in out


def test_without_a_head_it_says_how_to_name_one(capsys, run, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "none"))
    for verb in ("predict", "evaluate"):
        code, _, err = shell(capsys, verb, "sentiment")
        assert code == 2
        assert "No head is named that could answer. Name a run (--run)" in err
