"""What heads, labels and texts are said of in HTML: names in order, nothing foreign as markup."""

import re
from dataclasses import replace

import pytest
from boards import CLOSE, FAR, SCALED, board_of, label
from shown_results import Tags

from heads import plugins
from heads.data.table import Columns
from heads.display import Table
from heads.evaluation.predictions import BASELINES
from heads.interfaces.views import dataset, head_details, leaderboard, questions
from heads.interfaces.views import format as form
from heads.interfaces.views.format import MEASURES, headers
from heads.interfaces.views.html import render
from heads.interfaces.views.questions import export_cells, list_cells
from heads.interfaces.views.sections import SectionAnswer, find_subject, result_sections
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from heads.runs.drill_down import Disagreement

HOSTILE = '<img src=x onerror="x">" style="x'
POINTS = SCALED.coverage


@pytest.mark.parametrize(
    "drawn",
    [
        render(
            "answer.html",
            says=[HOSTILE],
            answer=SectionAnswer(
                sentences=(HOSTILE,),
                tables=(
                    Table(
                        headers=(HOSTILE,), rows=((HOSTILE,),), title=HOSTILE, note=HOSTILE,
                        recipes=(HOSTILE,),
                    ),
                ),
            ),
            opens=True,
        ),
        leaderboard.coded(f"`{HOSTILE}` is {HOSTILE}"),
        leaderboard.broken(HOSTILE),
        leaderboard.result(replace(board_of(**CLOSE, **FAR), data=HOSTILE, notes=(HOSTILE,))),
        dataset.preview([HOSTILE], [[HOSTILE]], Columns(text=HOSTILE, label="")),
    ],
)  # fmt: skip
def test_hostile_names_are_text_everywhere(drawn):
    parser = Tags(str(drawn))
    assert parser.open == []
    for tag, attributes in parser.seen:
        assert tag not in ("img", "script", "a")
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("style") != "x"


def test_the_result_names_the_head_why_and_how_sure():
    board = board_of(**CLOSE, **FAR)
    drawn = leaderboard.result(board)
    use = board.recommendation
    assert "<dd><strong>Average → One layer</strong> <code>mean+linear</code></dd>" in drawn
    assert f"<dt>Because</dt><dd>{leaderboard.coded(use.because)}</dd>" in drawn
    assert "<dt>How sure</dt>" in drawn
    none = board_of(40, **{"mean+linear": (0, 3)}, majority=(0, 30))
    drawn = leaderboard.result(none)
    assert "No recommendation: 40 held-out rows are too few" in drawn
    assert "<code>mean+linear</code> scores highest" in drawn
    empty = replace(none, recommendation=type(use)(), cells=())
    assert "No head is done yet." in leaderboard.result(empty)


def test_one_head_is_set_against_the_recommended():
    board = board_of(**CLOSE, **FAR)
    assert board.recommendation.name == "mean+linear"
    against = {cell.name: head_details.against(board, cell) for cell in board.cells}
    assert against["mean+linear"] == ""
    facts = dict(head_details.facts(board, board.cell("mean+linear")))
    assert facts["Accuracy"].startswith("85.0 % (83.")
    assert "Against mean+linear" not in facts
    assert re.fullmatch(r"\+0\.2 \(−\d+\.\d to \+\d+\.\d\)", against["mean+mlp"])
    assert re.fullmatch(r"−\d+\.\d \(−\d+\.\d to −\d+\.\d\) \*", against["cls+linear"])
    told = dict(head_details.facts(board, board.cell("cls+linear")))
    assert told["Against mean+linear"].endswith(": more than chance")
    unpaired = replace(board.cell("mean+mlp"), to_recommended=None)
    assert head_details.against(board, unpaired) == "+0.2"
    (table,) = list_cells(find_subject(board)).tables
    assert (
        dict(zip(table.recipes, (row[0] for row in table.rows), strict=True))["mean+linear"]
        == "mean+linear ★"
    )
    headers, rows = export_cells(find_subject(board))
    assert headers[-1] == table.headers[-1] == "Against the recommended"
    assert [row[-1] for row in rows] == list(against.values())
    assert all(len(row) == len(headers) for row in rows)


def test_heads_stand_against_a_frozen_recommended_one_also_where_a_tuned_one_leads():
    tuned = "mean+linear?tune=full"
    board = board_of(**CLOSE, **FAR, **{tuned: (2, 296)})
    assert (board.best, board.recommendation.name) == (tuned, "mean+linear")
    for cell in board.cells:
        told = head_details.against(board, cell)
        assert (" to " in told) == (cell.name != "mean+linear"), (cell.name, told)


def test_a_chart_says_what_its_signs_mean_where_it_has_any():
    assert "★ recommended." in render("chart.html", chart="x", says="y", key="★ recommended.")
    for nothing in ({}, {"key": ""}):
        assert "quiet" not in render("chart.html", chart="x", says="y", **nothing)


def test_sections_are_found_by_name_and_all_that_they_name_is_there():
    sections = result_sections()
    assert len({section.name for section in sections}) == len(sections)
    for section in sections:
        for reference in (section.answer, section.charts, section.applies):
            assert not reference or callable(plugins.load(reference))
        assert all(callable(plugins.load(download.rows)) for download in section.downloads)


def test_disagreements_name_a_few_heads_the_surest_first():
    answers = [(f"head{n}", "yes", n / 10) for n in range(5)] + [("other", "no", 0.5)]
    found = Disagreement(line=2, text="t", pair="", label="no", answers=tuple(answers), share=1 / 6)
    assert questions._group_answers(found, SINGLE_LABEL) == (
        "yes: head4 (40 %), head3 (30 %), head2 (20 %) and 2 more; no: other (50 %)"
    )


def test_of_numbers_the_lowest_and_the_highest_are_shown_and_nobody_says_how_sure():
    answers = [(f"head{n}", f"{n - 3}", None) for n in range(9)]
    found = Disagreement(line=2, text="t", pair="", label="5", answers=tuple(answers), share=1.0)
    drawn = questions._group_answers(found, REGRESSION)
    assert re.findall(r"(−?\d+): head", drawn) == ["−3", "−2", "−1", "3", "4", "5"]
    assert drawn.endswith("and 3 other answers")
    assert "%" not in drawn


def test_labels_stand_with_the_worst_first_and_what_nobody_tested_last():
    found = [label("good", 0.9), label("none", None), label("bad", 0.1)]
    assert [row[0] for row in questions._label_table(found).rows] == ["bad", "good", "none"]


def test_scores_and_their_columns_are_called_by_the_kind_of_labels():
    error, accuracy = MEASURES[REGRESSION][3], MEASURES[SINGLE_LABEL][0]
    assert headers(MEASURES[MULTI_LABEL])[:4] == ["Recipe", "Micro-F1 %", "from %", "to %"]
    assert headers(MEASURES[REGRESSION])[:4] == ["Recipe", "Spearman", "from", "to"]
    assert "mAP %" in headers(MEASURES[MULTI_LABEL])
    assert error.shown(123456.7) == "123,457"
    assert (error.plain(123456.7), accuracy.plain(0.12345)) == (123500.0, 12.3)
    assert all(set(named) == set(BASELINES) for named in form.BASELINES.values())


@pytest.mark.parametrize(
    ("temperature", "how"), [(1.34, "overconfident"), (0.74, "underconfident"), (1.02, "fits")]
)
def test_a_temperature_says_which_way_a_head_errs(temperature, how):
    says = head_details.scaled_says(replace(SCALED, temperature=temperature))
    assert how in says
    assert f"by {temperature}" in says


def test_a_temperature_that_fails_its_own_test_says_so():
    assert "from 40.0 to 10.0 points" in head_details.scaled_says(SCALED)
    for after in (SCALED.error_before, 0.6):
        assert "not help" in head_details.scaled_says(replace(SCALED, error_after=after))


def test_abstaining_is_told_where_it_halves_the_errors():
    assert head_details.useful(POINTS) is POINTS[2]
    says = head_details.abstained_says(POINTS, SINGLE_LABEL)
    assert "less sure than 80 %, it answers 70 % of the texts and 96 % of those right" in says
    assert "of all it answers 80 % right" in says
    assert "yes-or-no questions" in head_details.abstained_says(POINTS, MULTI_LABEL)
    few = head_details.abstained_says(POINTS[:2], SINGLE_LABEL)
    assert "would not halve its errors: of the 90 %" in few
    right = (replace(POINTS[0], accuracy=1.0),)
    assert "nothing to gain" in head_details.abstained_says(right, SINGLE_LABEL)
