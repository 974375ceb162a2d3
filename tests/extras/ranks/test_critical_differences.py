"""Average ranks over data sets: the published example, SciPy's tests, and what cannot be told."""

import json
from itertools import combinations, product
from math import inf

import numpy as np
import pandas as pd
import pytest
from boards import board_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, wilcoxon
from shown_results import HOSTILE, check_shown

import heads
from heads.errors import DataError
from heads.extras.ranks.chart import draw_ranks
from heads.extras.ranks.critical_differences import (
    LEVEL,
    _holm,
    _wilcoxon,
    critical_differences,
    needed,
)
from heads.runs.folder import RunFolder

# Demšar 2006 (JMLR 7), table 6: AUC of C4.5 and three variants on 14 data sets, and their ranks.
# His ranks are of more digits than are printed: of "voting" he tells two of 0.975 apart.
VARIANTS = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
AUC = {
    "adult (sample)": (0.763, 0.768, 0.771, 0.798),
    "breast cancer": (0.599, 0.591, 0.590, 0.569),
    "breast cancer wisconsin": (0.954, 0.971, 0.968, 0.967),
    "cmc": (0.628, 0.661, 0.654, 0.657),
    "ionosphere": (0.882, 0.888, 0.886, 0.898),
    "iris": (0.936, 0.931, 0.916, 0.931),
    "liver disorders": (0.661, 0.668, 0.609, 0.685),
    "lung cancer": (0.583, 0.583, 0.563, 0.625),
    "lymphography": (0.775, 0.838, 0.866, 0.875),
    "mushroom": (1.000, 1.000, 1.000, 1.000),
    "primary tumor": (0.940, 0.962, 0.965, 0.962),
    "rheum": (0.619, 0.666, 0.614, 0.669),
    "voting": (0.972, 0.981, 0.9751, 0.975),
    "wine": (0.957, 0.978, 0.946, 0.970),
}
DEMSAR = {name: dict(zip(VARIANTS, row, strict=True)) for name, row in AUC.items()}


def test_the_published_example_comes_out_to_every_printed_digit():
    found = critical_differences(DEMSAR, groups="nemenyi")
    ranks = {name: round(rank, 3) for name, rank in zip(found.recipes, found.ranks, strict=True)}
    assert ranks == {"C4.5+m+cf": 1.964, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5": 3.143}
    friedman = found.friedman
    assert friedman is not None
    assert round(friedman.chi_squared_untied, 2) == 9.28
    assert round(friedman.f_untied, 2) == 3.69
    assert round(found.critical_difference, 2) == 1.25
    # "… the Nemenyi test is not powerful enough to detect any significant differences."
    assert found.cliques == (found.recipes,)


def test_ties_are_corrected_for_as_scipy_does():
    found = critical_differences(DEMSAR).friedman
    columns = np.array(list(AUC.values())).T
    assert found is not None
    assert found.chi_squared == pytest.approx(friedmanchisquare(*columns).statistic)
    assert found.chi_squared > found.chi_squared_untied


def test_where_all_data_sets_agree_the_chance_of_that_is_told():
    agreed = {name: {"x": 1.0, "y": 2.0, "z": 3.0, "w": 4.0} for name in "abc"}
    found = critical_differences(agreed)
    assert found.friedman is not None
    assert found.friedman.f == inf
    assert found.friedman.p == pytest.approx(1 / 24**2)
    assert found.as_json()["friedman"]["f"] is None
    alike = critical_differences({name: {"x": 1.0, "y": 1.0, "z": 1.0} for name in "abc"})
    assert alike.friedman is not None
    assert (alike.friedman.p, alike.ranks) == (1.0, (2.0, 2.0, 2.0))
    assert "7 data sets" in alike.verdict


def scores(n, k, lead=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return {
        f"set {row}": {f"r{at}": lead * at + rng.normal() for at in range(k)} for row in range(n)
    }


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_as_many_data_sets_are_needed_as_are_said_to_be(k):
    """One that wins everywhere is told apart with so many, and never with one fewer."""
    n = needed(k)
    for data_sets, told in ((n, True), (n - 1, False)):
        found = critical_differences(scores(data_sets, k, lead=100.0))
        assert any(pair.differs for pair in found.pairs) is told
        assert ("with fewer than" in found.verdict) is not told
    bar = needed(k, "nemenyi")
    assert k - 1 >= critical_differences(scores(bar, k)).critical_difference
    if bar > 2:
        assert k - 1 < critical_differences(scores(bar - 1, k)).critical_difference


def test_wilcoxon_is_exact_with_ties_and_zeros_where_signs_can_be_enumerated():
    differences = np.array([0.0, 0.1, 0.1, -0.1, 0.3, 0.3, 0.2, 0.5])
    sizes = np.array([1, 3, 3, 3, 6.5, 6.5, 5, 8])[1:]  # ranks with the 0, which is then left out
    plus = abs(sum(np.sign(differences[1:]) * sizes))
    all_signs = [abs(sum(sizes * signs)) for signs in product((1, -1), repeat=7)]
    exact = np.mean(np.array(all_signs) >= plus - 1e-9)
    assert _wilcoxon(differences) == pytest.approx(exact)
    assert _wilcoxon(np.zeros(6)) == 1.0
    many = np.random.default_rng(0).normal(size=30) + 0.3
    assert _wilcoxon(many) == wilcoxon(many, method="exact").pvalue


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_as_it_is_defined(p):
    for value, corrected in zip(p, _holm(p), strict=True):
        ranked = sorted(other for other in p if other <= value)
        scaled = [(len(p) - place) * other for place, other in enumerate(ranked)]
        assert corrected == pytest.approx(min(1.0, max(scaled)))


@settings(max_examples=40)
@given(st.integers(6, 12), st.integers(2, 6), st.integers(0, 10**6))
def test_groups_are_all_that_is_not_told_apart(n, k, seed):
    found = critical_differences(scores(n, k, lead=1.0, seed=seed))
    together = {frozenset(pair) for clique in found.cliques for pair in combinations(clique, 2)}
    alike = {frozenset((pair.one, pair.other)) for pair in found.pairs if not pair.differs}
    assert together == alike
    for one, other in combinations(map(set, found.cliques), 2):
        assert not one <= other
        assert not other <= one
    assert list(found.ranks) == sorted(found.ranks)
    for pair in found.pairs:
        assert pair.differs == (pair.p_holm <= LEVEL)
        share = set(found.letters[pair.one]) & set(found.letters[pair.other])
        assert bool(share) is not pair.differs


def test_rounding_makes_no_difference_of_equal_scores():
    found = critical_differences({
        "a": {"x": 0.1 + 0.2, "y": 0.3}, "b": {"x": 0.7, "y": 0.8 - 0.1},
    })  # fmt: skip
    assert found.ranks == (1.5, 1.5)
    assert (found.pairs[0].wins, found.pairs[0].losses) == (0, 0)


# Runs


@pytest.fixture
def runs(tmp_path):
    """Leaderboards of three data sets, each told by the rows that its heads answer wrong."""

    def run(name, rows=None, **more):
        wrong = {"mean+linear": (0, 300), "cls+linear": (0, 600), **more}
        board = board_of(**wrong, majority=(0, 1300))
        folder = RunFolder(path=tmp_path / name)
        folder.path.mkdir()
        folder.write("run.json", {"fingerprint": rows or name})
        object.__setattr__(board, "folder", folder)
        object.__setattr__(board, "data", name)
        return board

    return run


def test_runs_are_ranked_by_the_recipes_that_all_have(runs):
    boards = [runs("a", **{"max+linear": (0, 900)}), runs("b"), runs("c")]
    found = heads.critical_differences(boards)
    assert found.recipes == ("mean+linear", "cls+linear")
    assert found.left_out == ("max+linear",)
    assert found.ranks == (1.0, 2.0)
    assert found.data == ("a", "b", "c")
    assert found.scores[0] == (0.85, 0.7)
    with_baselines = heads.critical_differences(boards, baselines=True)
    assert with_baselines.recipes == ("mean+linear", "cls+linear", "majority")


def test_runs_of_the_same_rows_are_one_data_set(runs):
    first, again = runs("a", rows="same"), runs("a2", rows="same", **{"mean+linear": (0, 500)})
    found = heads.critical_differences([first, again, runs("b")])
    assert found.data == ("a", "b")
    assert found.scores[0][0] == pytest.approx((0.85 + 0.75) / 2)
    assert found.notes[0].startswith("2 runs ")
    for same in ([first, again], [first]):
        with pytest.raises(DataError):
            heads.critical_differences(same)


def test_errors_in_units_are_told_apart_by_ranks_alone(runs):
    boards = [runs("a"), runs("b")]
    object.__setattr__(boards[0], "metric", "neg_mean_absolute_error")
    found = heads.critical_differences(boards)
    assert found.groups == "nemenyi"
    assert found.pairs[0].p is None
    assert len(found.notes) == 2


def test_a_table_of_scores_will_do():
    table = pd.DataFrame(DEMSAR).T
    found = heads.critical_differences(table)
    assert found == critical_differences(DEMSAR)
    assert found.to_pandas()["recipe"].tolist() == list(found.recipes)
    assert found.to_pandas("pairs").shape == (6, 8)
    scores_of = found.to_pandas("scores").set_index("data")
    pd.testing.assert_frame_equal(
        scores_of[list(VARIANTS)], table, check_names=False, check_index_type=False
    )
    table.loc["adult (sample)", "C4.5"] = None
    assert heads.critical_differences(table).left_out == ("C4.5",)
    for bad in (
        pd.DataFrame({"x": ["a", "b"]}),
        {"a": 1},
        {"a": {"x": 1}},
        {"a": {"x": 1, "y": inf}, "b": {"x": 1, "y": 2}},
        {"a": {"x": 1, "y": 1}, "b": {"x": 1}},
    ):
        with pytest.raises(DataError):
            heads.critical_differences(bad)
    with pytest.raises(DataError):
        heads.critical_differences(table, groups="dunn")


RANKED = critical_differences({
    f"data set {n}": {HOSTILE: 0.9 + n / 100, "b": 0.1 * n, "c": 0.2 * n, "d": 0.15 * n - 1}
    for n in range(9)
})  # fmt: skip


def test_the_diagram_has_names_in_order_bars_over_groups_and_the_ruler():
    chart = draw_ranks(RANKED)
    figure = chart.figure
    assert "&lt;img" in json.dumps(figure, allow_nan=False)
    bars = [trace for trace in figure["data"] if trace["mode"] == "lines+markers"]
    at = dict(zip(RANKED.recipes, RANKED.ranks, strict=True))
    assert [one["x"] for one in bars] == [[at[name] for name in own] for own in RANKED.cliques]
    lines = [trace for trace in figure["data"] if trace["mode"] == "lines"]
    assert {one["x"][0] for one in lines} == set(RANKED.ranks)
    sides = [one["x"][-1] for one in lines]
    assert sides == [1, 1, 4, 4]
    (ruler,) = figure["layout"]["shapes"]
    assert ruler["x1"] - ruler["x0"] == pytest.approx(RANKED.critical_difference)
    named = [one for one in figure["layout"]["annotations"] if one.get("yref") != "paper"]
    assert len(named) == 4


def test_ranks_are_shown_by_notebook_and_shell():
    check_shown(RANKED)
