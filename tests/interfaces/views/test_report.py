"""The report: one file that asks for nothing, in which everything foreign is text."""

import json
import re
from dataclasses import replace

import pytest

from heads.data.dataset import read
from heads.interfaces.views.head_details import chosen_says
from heads.interfaces.views.report import report
from heads.runs import learning_curve
from heads.runs.drill_down import disagreements
from heads.runs.leaderboard import leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, limits

HOSTILE = '<img src=x onerror="x">'
RECIPES = ["mean+linear", "cls+linear"]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A small run whose labels and texts attack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_curve, "FEWEST", 10)
        return trained(tmp_path_factory)


def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    rows = [
        {"text": f"{word} {n} {HOSTILE}", "label": label}
        for n in range(30)
        for word, label in (("A lovely day", HOSTILE), ("It broke at once", "`b` & <b>"))
    ]
    lines = "\n".join(map(json.dumps, rows))
    (place / "evil.jsonl").write_text(lines, "utf-8")
    data = read(place / "evil.jsonl", limits())
    question = RunRequest(data=data, recipes=RECIPES, config=ExperimentConfig(folds=2))
    run = begin(question, limits=limits(), out=place / "run")
    for _ in working(run, limits()):
        pass
    return run


@pytest.fixture(scope="module")
def html(found):
    return report(leaderboard(found), disagreements(found))


def test_it_asks_for_nothing_and_runs_nothing(html):
    assert html.startswith("<!doctype html>")
    assert "default-src 'none'" in html
    assert not re.search(r"<(script|img|link|iframe|a|form)\b", html)
    assert "url(" not in html
    assert "@import" not in html


def test_labels_are_text(html):
    assert HOSTILE not in html
    assert "&lt;img src=x" in html
    assert "`b` &amp; &lt;b&gt;" in html


def test_it_says_what_the_leaderboard_says(found, html):
    board = leaderboard(found)
    shown = re.sub("<[^>]+>", "", html)
    assert board.verdict[0].replace("`", "") in shown
    for cell in board.cells[:2]:
        assert cell.name in shown
        assert f"{cell.measures.low * 100:.1f} to {cell.measures.high * 100:.1f}" in shown
    assert board.curve_says.replace("`", "") in shown
    assert "★" in shown


def test_settings_are_told_in_the_words_of_the_field(found, html):
    cell = leaderboard(found).cell("mean+linear")
    assert cell.chosen_by_seed[0] == cell.chosen
    assert chosen_says(cell).startswith("Settings that were best for the first seed, whose head")
    assert chosen_says(leaderboard(found).cell(leaderboard(found).best)) in html
    one = {"learning_rate": 0.004, "weight_decay": 1.0, "standardise": True}
    one |= {"principal_axes": True, "epochs": 12.5, "converged": False}
    others = ({**one, "epochs": 3.0, "converged": True}, {**one, "weight_decay": 0.3})
    many = replace(cell, chosen=one, chosen_by_seed=(one, *others))
    assert chosen_says(many) == (
        "Settings that were best for the first seed, whose head is kept: standardised, learning "
        "rate 0.004, weight decay 1, 12.5 epochs, along principal axes, still improving at the "
        "cap. The same were best in 2 of 3 seeds or folds (epochs aside)."
    )
    alone = replace(cell, chosen={"k": 10}, chosen_by_seed=({"k": 10},))
    assert chosen_says(alone) == "Settings that were best: k 10."
    assert chosen_says(replace(cell, chosen={}, chosen_by_seed=())) == ""


def test_an_unfinished_run_has_a_report_too(found):
    for path in found.path.glob("cells/000.*"):
        path.unlink()
    (found.path / "curve.json").unlink()
    board = leaderboard(found)
    assert "This run has no learning curve" in report(board)
