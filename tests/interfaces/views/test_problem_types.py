"""A run of every kind of labels, as its page, its report and the terminal show it."""

import csv
import io
import json
import re
import shutil

import pytest
import torch

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.interfaces.cli import tables
from heads.interfaces.views import head_details
from heads.interfaces.views import leaderboard as view
from heads.interfaces.views.report import report
from heads.interfaces.web import run_access
from heads.interfaces.web.tabs import leaderboard as leaderboard_tools
from heads.interfaces.web.tabs import leaderboard as tab
from heads.runs import learning_curve
from heads.runs.drill_down import closeup, disagreements, layered, mix_weights
from heads.runs.leaderboard import leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, limits
from heads.training.fitters import successive_halving

ROWS = 60
LAYERS = ["mean@0+linear", "mean@3+linear", "mean+linear"]
ASKED = {
    "one": ("sentiment", [*LAYERS, "mean+linear?loss=ovr", "mean@mix+linear"]),
    "many": ("aspects", ["mean+linear", "cls+linear"]),
    "number": ("similarity", ["mean+linear", "mean+linear?pair=uv_diff_prod"]),
}
SCORES = {"one": "Accuracy", "many": "Micro-F1", "number": "Spearman's correlation"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs, on a part of a sample each; little is learned, since none is about quality."""
    place = tmp_path_factory.mktemp("kinds")
    threads, made = torch.get_num_threads(), {}
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_RUNS", str(place / "runs"))
        patch.setattr(successive_halving, "CAP", 24)
        patch.setattr(learning_curve, "FEWEST", 10)
        for kind, (name, recipes) in ASKED.items():
            lines = SAMPLES[name].path.read_text("utf-8").splitlines(keepends=True)
            path = place / f"{name}.csv"
            path.write_text("".join(lines[: ROWS + 1]), "utf-8")
            question = RunRequest(
                data=read(path, limits()), recipes=recipes, config=ExperimentConfig(folds=4)
            )
            made[kind] = begin(question, limits=limits())
            list(working(made[kind], limits()))
            assert leaderboard(made[kind]).kind == kind
        yield made
    torch.set_num_threads(threads)
    shutil.rmtree(place)


@pytest.fixture(params=list(ASKED))
def kind(request):
    return request.param


@pytest.fixture
def board(runs, kind):
    return leaderboard(runs[kind])


def text(html):
    return re.sub("<[^>]+>", "", str(html)).replace("&#39;", "'")


def shown(run):
    """What the page shows of a run, by the name of the component."""
    values = tab._shown(run.id, [])
    names = [name for name in tab.View.__dataclass_fields__ if name != "tools"]
    return dict(zip(names, values, strict=False))


def test_the_page_has_the_measures_of_the_kind(runs, kind, board):
    found = shown(runs[kind])
    offered = found["measure"]["choices"]
    assert offered[0][0] == SCORES[kind]
    assert found["measure"]["value"] == board.metric
    assert SCORES[kind] in text(found["heat"])
    for title, name in offered:
        assert title in text(tab._measured(runs[kind].id, name))
    assert SCORES[kind] in text(found["sizes"])
    assert SCORES[kind] in text(found["growth"])
    assert found["labels"]["visible"] == (kind == "many")
    assert found["layered"]["visible"] == (kind == "one")


def test_a_measure_of_another_kind_shows_the_score(runs, kind):
    other = "accuracy" if kind != "one" else "spearman"
    assert tab._measured(runs[kind].id, other) == view.heat_of(leaderboard(runs[kind]))


def test_the_table_and_its_csv_have_the_same_columns(runs, kind, board):
    table = shown(runs[kind])["table"]
    names, rows = table["value"]["headers"], table["value"]["data"]
    assert len(table["datatype"]) == len(table["column_widths"]) == len(names)
    assert {len(row) for row in rows} == {len(names)}
    saved = list(csv.reader(io.StringIO(tab._as_csv(runs[kind].id).lstrip("\ufeff"))))
    assert saved[0] == names
    assert [row[0] for row in saved[1:]] == [row[0] for row in rows]
    best = board.cell(board.best).measures
    factor = 1 if kind == "number" else 100
    row = next(row for row in rows if row[0] == board.best)
    assert row[1:4] == pytest.approx(
        [factor * best.score, factor * best.low, factor * best.high], abs=0.051
    )


def test_the_report_says_what_the_scores_are(runs, kind, board):
    told = text(report(board, disagreements(runs[kind])))
    assert f"{SCORES[kind]} by pooling and head" in told
    assert ("Accuracy" in told) == (kind == "one")
    assert ("Layer by layer" in told) == (kind == "one")
    assert ("Every label" in told) == (kind == "many")
    assert ("Predicted and true" in told) == (kind == "number")
    for label in board.classes if kind == "many" else ():
        assert label in told


def test_all_labels_are_saved_as_csv(runs):
    board = leaderboard(runs["many"])
    saved = tab._labels_as_csv(runs["many"].id, board.best).lstrip("\ufeff")
    rows = list(csv.DictReader(io.StringIO(saved)))
    assert sorted(row["Label"] for row in rows) == sorted(board.classes)
    f1s = [float(row["F1 %"]) for row in rows if row["F1 %"]]
    assert f1s == sorted(f1s)


def test_heads_answer_a_sentence_in_the_way_of_their_kind(runs, kind, board):
    names = ASKED[kind][1][-4:]  # a head of every loss is among them
    second = "A person plays." if kind == "number" else ""
    told = text(leaderboard_tools._tried(runs[kind].id, "A lovely day.", second, names))
    for name in names:
        assert name in told
    wanted = {"one": "questions say", "many": "each has its own", "number": "The data go from"}
    assert wanted[kind] in told


def test_the_terminal_shows_every_kind(runs, kind, board, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    tables.leaderboard(board)
    told = " ".join(capsys.readouterr().out.split())
    assert {"one": "Accuracy", "many": "Micro-F1", "number": "Spearman"}[kind] in told
    assert ("How sure " in told) == (kind != "number")
    assert ("mean+linear, layer by layer:" in told) == (kind == "one")
    assert ("mean@mix+linear has learned to read embeddings" in told) == (kind == "one")
    tables.side_by_side([board, board])
    cell = board.cell(board.best)
    assert tables.scored(cell) in " ".join(capsys.readouterr().out.split())


def test_runs_are_listed_with_the_score_of_their_kind(runs):
    titles = {name: title for title, name in run_access.choices([])}
    assert "%" in titles[runs["one"].id]
    assert "%" in titles[runs["many"].id]
    assert re.search(r"best -?0\.\d{3}$", titles[runs["number"].id])


def test_layers_are_told_from_the_embeddings_to_the_last(runs):
    board = leaderboard(runs["one"])
    [found] = layered(board)
    assert (found.recipe, found.layers) == ("mean+linear", ("0", "3", "last"))
    assert [cell.name for cell in found.cells] == LAYERS
    assert all(found.estimates)
    best = max(found.cells, key=lambda cell: cell.measures.score)
    place = {"mean@0+linear": "the embeddings", "mean@3+linear": "layer 3"}
    name = place.get(best.name, "the last layer")
    assert f"is that of {name}." in found.says
    assert ("points below it" in found.says) == (name != "the last layer")
    assert "Before any training, " in found.says
    drawn = text(view.layers(board))
    assert found.says in drawn
    assert "H-score, " in drawn
    assert layered(leaderboard(runs["many"])) == ()


def test_a_learned_mix_shows_the_shares_of_the_layers(runs):
    board = leaderboard(runs["one"])
    look = closeup(board, "mean@mix+linear")
    module = board.classifier("mean@mix+linear").head.module
    assert look.mix == mix_weights(module) == tuple(module.reader.layers.scores.softmax(0).tolist())
    assert sum(look.mix) == pytest.approx(1)
    drawn = text(head_details.one(look))
    assert "Embeddings" in drawn
    assert f"Layer {len(look.mix) - 1}" in drawn
    assert mix_weights(board.classifier("mean+linear").head.module) == ()
    assert closeup(board, "majority").mix == ()


def test_predicted_numbers_stand_against_the_true_ones(runs):
    board = leaderboard(runs["number"])
    cell = board.cell(board.best)
    points = closeup(board, board.best).points
    assert len(points) == cell.measures.rows
    error = sum((true - said) ** 2 for true, said in points) / len(points)
    assert error == pytest.approx(cell.measures.values["mean_squared_error"], rel=1e-5)
    assert "its 95 % interval" in text(head_details.numbers(cell))


def test_a_leaderboard_of_every_kind_is_json(board):
    assert json.loads(json.dumps(board.as_json()))["cells"][0]["metric"] == board.metric
