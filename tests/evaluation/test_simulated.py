"""Two identical heads are not called different, intervals hold, and real differences are found.

Simulated heads: a row is right when its ease, with noise of its own for every head and seed and
with the luck of the whole seed, is above a threshold. Some texts stand in several rows and are
answered alike. The tests run few repetitions; `python -m studies.verdicts` runs many and writes
what they gave into docs/training.md.
"""

import math
from collections.abc import Sequence
from itertools import product

import pytest
import slow
import torch

from heads.evaluation.significance import compare
from studies.simulation import RIGHT, Design
from studies.simulation import simulated as simulate
from studies.verdicts import (
    BY_CLASSES,
    MIXES,
    OF_FEW,
    OF_SMALL,
    rates,
    rates_by,
    rates_of_small,
    wrong,
)

NOISE = 0.35  # of a head's training, as a share of the spread of the rows' ease
CELLS = 16


def rate(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits)


@pytest.mark.parametrize(("heads", "found"), [(2, 0.5), (16, 0.7)])
def test_two_points_are_found_among_3000_rows(heads, found):
    gains, luck, hits = [0.0, 0.02, *[0.0] * (heads - 2)], [0.001] * heads, []
    for number in range(20):
        rng = torch.Generator().manual_seed(number)
        cells, task = simulate(Design(rows=3000, seeds=3), gains, luck, rng)
        hits.append(compare(cells, task, reference="head 0", seed=number).to_reference[0].differs)
    assert rate(hits) >= found


def test_training_luck_that_one_seed_cannot_show_is_shown_by_three():
    """What three trainings are for: of the trained heads themselves much is true that is luck."""
    rng = [torch.Generator().manual_seed(n) for n in range(30)]
    once, thrice = (Design(rows=3000, seeds=seeds) for seeds in (1, 3))
    one = [simulate(once, [0.0] * 4, [0.01] * 4, n, is_random=False) for n in rng]
    careful = [simulate(once, [0.0] * 4, [0.01] * 4, n) for n in rng]
    three = [simulate(thrice, [0.0] * 4, [0.01] * 4, n) for n in rng]
    fooled, silent, warned = (
        rate([wrong(*run, RIGHT, n)[0] for n, run in enumerate(runs)])
        for runs in (one, careful, three)
    )
    assert fooled > 0.5 > 0.2 > warned
    assert silent == 0.0


@pytest.mark.parametrize(
    "design",
    slow.but_each(
        3,
        [
            Design(rows=600, seeds=5, repetitions=3),
            Design(rows=600, seeds=3),
            Design(rows=600, seeds=5, repetitions=1),
            Design(rows=100, seeds=1),
            Design(rows=3000, seeds=3),
        ],
    ),
    ids=str,
)
@pytest.mark.parametrize("mix", slow.but_each(2, ["14 quiet, 2 noisy", "16 quiet"]))
def test_no_design_and_no_noisy_neighbour_makes_like_heads_differ(design, mix):
    found = rates(design, MIXES[mix], 40)
    assert max(found.to_reference, found.to_best) <= 6 / 40
    assert found.held >= 34 / 40


@pytest.mark.parametrize("metric", BY_CLASSES)
@pytest.mark.slow
def test_scores_that_are_no_means_of_rows_are_compared_as_honestly(metric):
    for design in (Design(rows=400, seeds=3), Design(rows=400, seeds=5, repetitions=1)):
        found = rates_by(metric, design, 30)
        assert max(found.to_reference, found.to_best) <= 4 / 30
        assert found.held >= 25 / 30


@pytest.mark.parametrize("metric", slow.but_each(2, OF_SMALL))
@pytest.mark.parametrize(
    ("even", "design"), slow.but_each(4, [(True, OF_FEW[0]), *product([False], OF_FEW)])
)
def test_classes_of_three_rows_are_compared_as_honestly(metric, even, design):
    found = rates_of_small(metric, design, 60, even=even)
    assert max(found.to_reference, found.to_best) <= 8 / 60
    assert math.isnan(found.held) or found.held >= 53 / 60


# --- Heads that learn their base model as well scatter more, and blur nothing else.


@pytest.mark.parametrize("luck", [0.0, 0.05])
@pytest.mark.parametrize(
    "design", [Design(rows=600, seeds=5), Design(rows=600, seeds=5, repetitions=1)], ids=str
)
def test_tuned_neighbours_change_nothing_between_frozen_heads(design, luck):
    rng, frozen = torch.Generator().manual_seed(1), 4
    gains = [0.0, 0.01, 0.03, -0.05, 0.06, 0.02]
    heads, task = simulate(
        design, gains, [0.003] * frozen + [luck] * 2, rng, noises=[0.35] * frozen + [1.5] * 2
    )
    alone = compare(heads[:frozen], task, reference="head 0", seed=3)
    tuned = ["head 4", "head 5"]
    both = compare(heads, task, reference="head 0", tuned=tuned, seed=3)
    assert [d for d in both.to_reference if d.name not in tuned] == list(alone.to_reference)
    assert both.frozen.as_json() == alone.as_json()
    if both.best not in tuned:
        assert [d for d in both.to_best if d.name not in tuned] == list(alone.to_best)
    blurred = compare(heads, task, reference="head 0", seed=3)  # the kinds not told apart
    assert [d for d in blurred.to_reference if d.name not in tuned] != list(alone.to_reference)
    assert (
        compare(heads[:frozen], task, reference="head 0", tuned=tuned, seed=3).as_json()
        == alone.as_json()
    )


def test_lucky_tuned_heads_are_seldom_told_apart():
    """Ten frozen heads, all alike, and three tuned ones, alike on average, with wild luck."""
    design, tuned = Design(rows=600, seeds=5), [f"head {n}" for n in range(10, 13)]
    quiet, wild = 0, 0
    for number in range(40):
        rng = torch.Generator().manual_seed(number)
        luck, noises = [0.003] * 10 + [0.03] * 3, [0.35] * 10 + [1.0] * 3
        heads, task = simulate(design, [0.0] * 13, luck, rng, noises=noises)
        found = compare(heads, task, reference="head 0", tuned=tuned, seed=number)
        told = [d for d in found.to_reference if d.differs]
        quiet += any(d.name not in tuned for d in told)
        wild += any(d.name in tuned for d in told)
    assert quiet <= 6
    assert wild <= 6


def test_one_tuned_head_by_itself_has_luck_too():
    """About its own mean it would have none: its luck is told beside the frozen heads."""
    told = 0
    for number in range(30):
        rng = torch.Generator().manual_seed(number)
        luck, noises = [0.003] * 4 + [0.05], [0.1] * 4 + [0.5]
        heads, task = simulate(Design(rows=1000, seeds=5), [0.0] * 5, luck, rng, noises=noises)
        found = compare(heads, task, reference="head 0", tuned=["head 4"], seed=number)
        told += any(d.name == "head 4" and d.differs for d in found.to_reference)
    assert told <= 4
