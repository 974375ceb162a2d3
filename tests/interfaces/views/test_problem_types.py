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
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL
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
    SINGLE_LABEL: ("sentiment", [*LAYERS, "mean+linear?loss=ovr", "mean@mix+linear"]),
    MULTI_LABEL: ("aspects", ["mean+linear", "cls+linear"]),
    REGRESSION: ("similarity", ["mean+linear", "mean+linear?pair=uv_diff_prod"]),
}
SCORES = {SINGLE_LABEL: "Accuracy", MULTI_LABEL: "Micro-F1", REGRESSION: "Spearman's correlation"}


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
        for problem, (name, recipes) in ASKED.items():
            lines = SAMPLES[name].path.read_text("utf-8").splitlines(keepends=True)
            path = place / f"{name}.csv"
            path.write_text("".join(lines[: ROWS + 1]), "utf-8")
            question = RunRequest(
                data=read(path, limits()), recipes=recipes, config=ExperimentConfig(folds=4)
            )
            made[problem] = begin(question, limits=limits())
            list(working(made[problem], limits()))
            assert leaderboard(made[problem]).problem is problem
        yield made
    torch.set_num_threads(threads)
    shutil.rmtree(place)


@pytest.fixture(params=list(ASKED), ids=repr)
def problem(request):
    return request.param


@pytest.fixture
def board(runs, problem):
    return leaderboard(runs[problem])


def text(html):
    return re.sub("<[^>]+>", "", str(html)).replace("&#39;", "'")


def shown(run):
    """What the page shows of a run, by the name of the component."""
    values = tab._shown(run.id, [])
    names = [name for name in tab.View.__dataclass_fields__ if name != "tools"]
    return dict(zip(names, values, strict=False))


def test_the_page_has_the_measures_of_the_kind(runs, problem, board):
    found = shown(runs[problem])
    offered = found["measure"]["choices"]
    assert offered[0][0] == SCORES[problem]
    assert found["measure"]["value"] == board.metric
    assert SCORES[problem] in text(found["heat"])
    for title, name in offered:
        assert title in text(tab._measured(runs[problem].id, name))
    assert SCORES[problem] in text(found["sizes"])
    assert SCORES[problem] in text(found["growth"])
    assert found["labels"]["visible"] == (problem is MULTI_LABEL)
    assert found["layered"]["visible"] == (problem is SINGLE_LABEL)


def test_a_measure_of_another_kind_shows_the_score(runs, problem):
    other = "accuracy" if problem is not SINGLE_LABEL else "spearman"
    assert tab._measured(runs[problem].id, other) == view.heat_of(leaderboard(runs[problem]))


def test_the_table_and_its_csv_have_the_same_columns(runs, problem, board):
    table = shown(runs[problem])["table"]
    names, rows = table["value"]["headers"], table["value"]["data"]
    assert len(table["datatype"]) == len(table["column_widths"]) == len(names)
    assert {len(row) for row in rows} == {len(names)}
    saved = list(csv.reader(io.StringIO(tab._as_csv(runs[problem].id).lstrip("\ufeff"))))
    assert saved[0] == names
    assert [row[0] for row in saved[1:]] == [row[0] for row in rows]
    best = board.cell(board.best).measures
    factor = 1 if problem is REGRESSION else 100
    row = next(row for row in rows if row[0] == board.best)
    assert row[1:4] == pytest.approx(
        [factor * best.score, factor * best.low, factor * best.high], abs=0.051
    )


def test_the_report_says_what_the_scores_are(runs, problem, board):
    told = text(report(board, disagreements(runs[problem])))
    assert f"{SCORES[problem]} by pooling and head" in told
    assert ("Accuracy" in told) == (problem is SINGLE_LABEL)
    assert ("Layer by layer" in told) == (problem is SINGLE_LABEL)
    assert ("Every label" in told) == (problem is MULTI_LABEL)
    assert ("Predicted and true" in told) == (problem is REGRESSION)
    for label in board.classes if problem is MULTI_LABEL else ():
        assert label in told


def test_all_labels_are_saved_as_csv(runs):
    board = leaderboard(runs[MULTI_LABEL])
    saved = tab._labels_as_csv(runs[MULTI_LABEL].id, board.best).lstrip("\ufeff")
    rows = list(csv.DictReader(io.StringIO(saved)))
    assert sorted(row["Label"] for row in rows) == sorted(board.classes)
    f1s = [float(row["F1 %"]) for row in rows if row["F1 %"]]
    assert f1s == sorted(f1s)


def test_heads_answer_a_sentence_in_the_way_of_their_kind(runs, problem, board):
    names = ASKED[problem][1][-4:]  # a head of every loss is among them
    second = "A person plays." if problem is REGRESSION else ""
    told = text(leaderboard_tools._tried(runs[problem].id, "A lovely day.", second, names))
    for name in names:
        assert name in told
    wanted = {
        SINGLE_LABEL: "questions say",
        MULTI_LABEL: "each has its own",
        REGRESSION: "The data go from",
    }
    assert wanted[problem] in told


def test_the_terminal_shows_every_kind(runs, problem, board, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    tables.leaderboard(board)
    told = " ".join(capsys.readouterr().out.split())
    assert {SINGLE_LABEL: "Accuracy", MULTI_LABEL: "Micro-F1", REGRESSION: "Spearman"}[
        problem
    ] in told
    assert ("How sure " in told) == (problem is not REGRESSION)
    assert ("mean+linear, layer by layer:" in told) == (problem is SINGLE_LABEL)
    assert ("mean@mix+linear has learned to read embeddings" in told) == (problem is SINGLE_LABEL)
    tables.side_by_side([board, board])
    cell = board.cell(board.best)
    assert tables.scored(cell) in " ".join(capsys.readouterr().out.split())


def test_runs_are_listed_with_the_score_of_their_kind(runs):
    titles = {name: title for title, name in run_access.choices([])}
    assert "%" in titles[runs[SINGLE_LABEL].id]
    assert "%" in titles[runs[MULTI_LABEL].id]
    assert re.search(r"best -?0\.\d{3}$", titles[runs[REGRESSION].id])


def test_layers_are_told_from_the_embeddings_to_the_last(runs):
    board = leaderboard(runs[SINGLE_LABEL])
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
    assert layered(leaderboard(runs[MULTI_LABEL])) == ()


def test_a_learned_mix_shows_the_shares_of_the_layers(runs):
    board = leaderboard(runs[SINGLE_LABEL])
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
    board = leaderboard(runs[REGRESSION])
    cell = board.cell(board.best)
    points = closeup(board, board.best).points
    assert len(points) == cell.measures.rows
    error = sum((true - said) ** 2 for true, said in points) / len(points)
    assert error == pytest.approx(cell.measures.values["mean_squared_error"], rel=1e-5)
    assert "its 95 % interval" in text(head_details.numbers(cell))


def test_a_leaderboard_of_every_kind_is_json(board):
    assert json.loads(json.dumps(board.as_json()))["cells"][0]["metric"] == board.metric
