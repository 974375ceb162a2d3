"""A run of every kind of labels, as its page, its report and the terminal show it."""

import json
import re
import shutil
from html import unescape

import pytest
import torch

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.interfaces.cli import tables
from heads.interfaces.views import charts, dataset, descriptions, questions
from heads.interfaces.views.format import TIME, offered
from heads.interfaces.views.report import report
from heads.interfaces.views.sections import find_subject, result_sections
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from heads.runs import learning_curve
from heads.runs.drill_down import layered, mix_of, mix_weights, predicted_points
from heads.runs.leaderboard import facts_of, leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig
from heads.training.fitters import successive_halving

ROWS = 60
LAYERS = ["mean@0+linear", "mean@1+linear", "mean+linear"]
ASKED = {
    SINGLE_LABEL: ("sentiment", [*LAYERS, "mean+linear?loss=ovr", "mean@mix+linear"]),
    MULTI_LABEL: ("aspects", ["mean+linear", "cls+linear"]),
    REGRESSION: ("similarity", ["mean+linear", "mean+linear?pair=uv_diff_prod"]),
}
SCORES = {SINGLE_LABEL: "Accuracy", MULTI_LABEL: "Micro-F1", REGRESSION: "Spearman's correlation"}


@pytest.mark.parametrize(
    ("rows", "tested", "says"),
    [(40, 0, "40 rows to score on"), (50, 0, ""), (60, 1, "1 row to score on"), (60, 50, "")],
)
def test_a_card_says_before_training_that_rows_are_too_few(rows, tested, says, tmp_path):
    path = tmp_path / "few.csv"
    lines = [
        f"text number {one},{'ab'[one % 2]},{'test' if one < tested else 'train'}"
        for one in range(rows)
    ]
    path.write_text("\n".join(["text,label,split"[: None if tested else 10], *lines]), "utf-8")
    if not tested:
        path.write_text(path.read_text("utf-8").replace(",train", ""), "utf-8")
    drawn = dataset.card(read(path))
    assert ("too few to recommend a head" in drawn) is bool(says)
    assert says in drawn


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
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
            config, model = ExperimentConfig(folds=4), str(tiny())
            request = RunRequest(data=read(path), recipes=recipes, model=model, config=config)
            made[problem] = begin(request)
            list(working(made[problem]))
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
    return unescape(re.sub("<script>.*?</script>|<[^>]+>", "", str(html), flags=re.S))


def test_every_question_is_answered_and_drawn_as_the_kind_wants_it(runs, problem, board):
    subject = find_subject(board)
    asked = {one.name: one for one in result_sections() if one.has_answer(board)}
    assert ("confidence" in asked) == problem.has_classes
    assert ("layers" in asked) == (problem is SINGLE_LABEL)
    for section in asked.values():
        charts_of, answer = section.draw_charts(subject), section.open_answer(subject)
        assert charts_of or answer.sentences or answer.tables
        assert len(charts_of) <= 2
        assert not answer.phrase.endswith(".")
        json.dumps(answer.as_json(), allow_nan=False)
        for table in answer.tables:
            assert {len(row) for row in table.rows} <= {len(table.headers)}
        for chart in charts_of:
            assert chart.says
            json.dumps(chart.figure, allow_nan=False)
    wrong = asked["mistakes"].draw_charts(subject)
    assert len(wrong) == {SINGLE_LABEL: 2, MULTI_LABEL: 0, REGRESSION: 1}[problem]
    (numbers,) = asked["numbers"].find_answer(subject).tables
    for title in (one.title for one in offered(board.cells) if one.name != TIME):
        assert title in numbers.headers


def test_the_recommended_head_is_the_same_everywhere(runs, problem, board):
    use, values = board.recommendation, board.as_json()
    keys = ("recommended", "use", "because", "how_sure")
    assert [values[key] for key in keys] == [use.name, use.use, use.because, use.how_sure]
    kept = facts_of(runs[problem])
    assert kept["recommended"] == use.name
    if use.name:
        assert kept["recommended_score"] == board.cell(use.name).measures.score
        assert str(board.classifier().head.trained_as) == use.name
        assert use.name in charts.forest(board).says
        assert find_subject(board).head == use.name
    assert str(charts.forest(board).figure).count("★") == bool(use.name)
    assert use.because.replace("`", "") in text(report(board))


def test_a_measure_of_another_kind_shows_the_score(runs, problem, board):
    other = "accuracy" if problem is not SINGLE_LABEL else "spearman"
    assert charts.heat_map(board, other).figure == charts.heat_map(board).figure


def test_the_report_says_what_the_scores_are(runs, problem, board):
    told = text(report(board))
    assert f"{SCORES[problem]} by pooling and head" in told
    assert ("Accuracy" in told) == (problem is SINGLE_LABEL)
    assert ("Which layer?" in told) == (problem is SINGLE_LABEL)
    assert ("Average precision" in told) == (problem is MULTI_LABEL)
    assert ("Predicted against true" in told) == (problem is REGRESSION)
    for label in board.classes if problem is MULTI_LABEL else ():
        assert label in told


def test_the_terminal_shows_every_kind(runs, problem, board, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    tables.leaderboard(board, run=board.folder)
    told = " ".join(capsys.readouterr().out.split())
    assert {SINGLE_LABEL: "Accuracy", MULTI_LABEL: "Micro-F1", REGRESSION: "Spearman"}[
        problem
    ] in told
    assert ("Can I trust its confidence?" in told) == (problem is not REGRESSION)
    assert ("Which layer?" in told) == (problem is SINGLE_LABEL)
    tables.show(descriptions.tabulate_runs([board, board]))
    score = descriptions.score_with_interval(board.cell(board.best))
    assert score in " ".join(capsys.readouterr().out.split())


def test_layers_are_told_from_the_embeddings_to_the_last(runs):
    board = leaderboard(runs[SINGLE_LABEL])
    [found] = layered(board)
    assert (found.recipe, found.layers) == ("mean+linear", ("0", "1", "last"))
    assert [cell.name for cell in found.cells] == LAYERS
    assert all(found.estimates)
    best = max(found.cells, key=lambda cell: cell.measures.score)
    place = {"mean@0+linear": "the embeddings", "mean@1+linear": "layer 1"}
    name = place.get(best.name, "the last layer")
    assert f"is that of {name}." in found.says
    assert ("points below it" in found.says) == (name != "the last layer")
    assert "Before any training, " in found.says
    (drawn,) = charts.layers(board)
    assert found.says in drawn.says
    assert "H-score" in drawn.headers
    assert layered(leaderboard(runs[MULTI_LABEL])) == ()


def test_a_learned_mix_shows_the_shares_of_the_layers(runs):
    board = leaderboard(runs[SINGLE_LABEL])
    mix = mix_of(board, "mean@mix+linear")
    module = board.classifier("mean@mix+linear").head.module
    assert mix == mix_weights(module) == tuple(module.reader.layers.scores.softmax(0).tolist())
    assert sum(mix) == pytest.approx(1)
    names = charts.mix(mix).figure["layout"]["yaxis"]["ticktext"]
    assert (names[0], names[-1]) == ("Embeddings", f"Layer {len(mix) - 1}")
    assert mix_weights(board.classifier("mean+linear").head.module) == ()
    assert mix_of(board, "majority") == ()


def test_predicted_numbers_stand_against_the_true_ones(runs):
    board = leaderboard(runs[REGRESSION])
    cell = board.cell(board.best)
    points = predicted_points(board, board.best)
    assert len(points) == cell.measures.rows
    error = sum((true - said) ** 2 for true, said in points) / len(points)
    assert error == pytest.approx(cell.measures.values["mean_squared_error"], rel=1e-5)
    assert "its 95 % interval" in questions._measure_table(cell).rows[1][0]


def test_a_leaderboard_of_every_kind_is_json(board):
    assert json.loads(json.dumps(board.as_json()))["cells"][0]["metric"] == board.metric
