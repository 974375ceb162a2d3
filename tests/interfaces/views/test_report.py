"""The report: one file that asks for nothing, in which everything foreign is text or data."""

import json
import re
import time
from dataclasses import replace
from html import unescape

import pytest
from shown_results import Tags

from heads.data.dataset import read
from heads.interfaces.views.head_details import chosen_says
from heads.interfaces.views.report import report
from heads.interfaces.views.sections import find_subject, result_sections
from heads.runs import learning_curve
from heads.runs.leaderboard import leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest, load
from heads.settings import ExperimentConfig

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
    data = read(place / "evil.jsonl")
    question = RunRequest(data=data, recipes=RECIPES, config=ExperimentConfig(folds=2))
    run = begin(question, out=place / "run")
    for _ in working(run):
        pass
    return run


@pytest.fixture(scope="module")
def html(found):
    return report(leaderboard(found))


def body(html):
    """The file without the scripts that are ours: the first after the body's content is Plotly."""
    return html[: html.index("<script>")]


def figures(html):
    found = re.findall('<script type="application/json">(.*?)</script>', html)
    return [json.loads(one) for one in found]


def test_it_asks_for_nothing_and_runs_no_script_but_its_own(html):
    assert html.startswith("<!doctype html>")
    policy = re.search('Content-Security-Policy" content="([^"]+)"', html)
    assert policy
    assert policy[1] == (
        "default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline' 'unsafe-eval'; img-src data:"
    )
    # Plotly once, the few lines that draw, and figures that are data.
    assert html.count("<script>") == 2
    assert html.count("Plotly, Inc.") == 1
    assert html.count('<script type="application/json">') == html.count('class="plot"') > 5
    assert not re.search(r"<(img|link|iframe|a|form)\b", body(html))
    names = {name for _, attributes in Tags(body(html)).seen for name in attributes}
    assert {"aria-label", "class"} <= names
    assert not any(name in ("src", "href", "action") or name[:2] == "on" for name in names)
    assert "url(" not in body(html)
    assert "@import" not in body(html)


def test_labels_and_texts_are_text_in_tables_and_in_figures(html):
    assert HOSTILE not in html
    assert "&lt;img src=x" in html
    assert "`b` &amp; &lt;b&gt;" in html
    for one in re.findall('<script type="application/json">(.*?)</script>', html):
        assert not set("<>&") & set(one)
    drawn = figures(html)
    assert all(set(one) == {"data", "layout", "config"} for one in drawn)
    assert any("&lt;img src=x" in json.dumps(one["layout"]) for one in drawn)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_browser_draws_every_chart_and_shows_all_tables_without_a_script(
    chrome, html, tmp_path, scripts
):
    path = tmp_path / "report.html"
    path.write_text(html, "utf-8")
    context = chrome.new_context(
        java_script_enabled=scripts, viewport={"width": 390, "height": 800}
    )
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: wrong.append(asked.url) if asked.url[:5] != "file:" else 0)
    page.goto(path.as_uri())
    drawn = page.locator(".plot .main-svg").count()
    assert wrong == []
    assert (drawn >= html.count('class="plot"')) if scripts else (drawn == 0)
    assert page.locator("img").count() == 0
    assert page.get_by_text("Because", exact=True).is_visible()
    assert page.get_by_role("heading", name="All numbers").is_visible()
    if scripts:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_it_says_what_the_leaderboard_says(found, html):
    board = leaderboard(found)
    shown = unescape(re.sub("<[^>]+>", "", body(html)))
    use = board.recommendation
    for told in (use.use, use.because, use.how_sure):
        assert told.replace("`", "") in shown
    assert board.verdict[0].replace("`", "") in shown
    for cell in board.cells[:2]:
        assert cell.name in shown
        assert f"{cell.measures.low * 100:.1f} to {cell.measures.high * 100:.1f}" in shown
    assert board.curve_says.replace("`", "") in shown
    for section in result_sections():
        if section.has_answer(board):
            assert section.question in shown
            assert section.find_answer(find_subject(board)).phrase[1:] in shown
    facts = load(found)
    assert all(number in shown for number in facts.versions.values())
    assert time.strftime("%Y-%m-%d", time.localtime(facts.created)) in shown


def test_settings_are_told_in_the_words_of_the_field(found, html):
    cell = leaderboard(found).cell("mean+linear")
    assert cell.chosen_by_seed[0] == cell.chosen
    assert chosen_says(cell).startswith("Settings that were best for the first seed, whose head")
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
    for name in ("curve.json", "leaderboard.json"):  # which lists the cells of a finished run
        (found.path / name).unlink()
    board = leaderboard(found)
    assert "this run has no learning curve" in report(board)
