"""What a run says of recipes that it learned in several ways."""

from dataclasses import replace

import pytest
from boards import WAYS, board_of, in_ways

LORA, LAST, FULL = (f"mean+linear?tune={one}" for one in ("lora", "last2", "full"))


def test_a_recipe_in_one_way_is_no_comparison():
    assert in_ways(board_of(**{"mean+linear": (0, 300), "cls+linear?tune=lora": (0, 90)})) == ()


def test_the_frozen_one_comes_first_and_every_way_is_compared_with_it():
    (one,) = in_ways(board_of(**WAYS))
    assert (one.recipe, one.ways[0].to_first) == ("mean+linear", None)
    assert [way.resolved.tune for way in one.ways] == ["frozen", "last2", "lora", "full"]
    gaps = [way.to_first.difference for way in one.ways if way.to_first]
    assert gaps == pytest.approx([0.1, 0.1, -0.1])
    assert one.best in one.ways[1:3]


def test_a_way_that_is_better_is_said_with_how_much_longer_it_takes():
    (one,) = in_ways(board_of(**{"mean+linear": (0, 300), LORA: (0, 100)}))
    assert one.best is one.ways[1]
    told = "learning LoRA of rank 8 beats the frozen base model by 10.0 points"
    assert one.says.startswith(f"On these 2,000 rows, {told}")
    assert one.says.endswith("trains about as long.")


def test_ways_that_are_not_told_apart_from_the_best_are_named():
    (one,) = in_ways(board_of(**{"mean+linear": (0, 300), LAST: (0, 100), LORA: (0, 101)}))
    assert one.best is one.ways[1]
    assert "learning LoRA of rank 8 (about as long) is not significantly different" in one.says


def test_what_is_not_shown_is_not_claimed():
    (one,) = in_ways(board_of(**{"mean+linear": (0, 300), LORA: (2, 301)}))
    assert one.best is None
    assert "learning LoRA of rank 8 is not shown to beat the frozen base model" in one.says


def test_frozen_that_wins_is_said():
    (one,) = in_ways(board_of(**{"mean+linear": (0, 100), LAST: (0, 400), FULL: (0, 300)}))
    assert one.best is None
    assert "the frozen base model beats every other way of learning" in one.says
    assert "the nearest, learning everything, by 10.0 points" in one.says


def test_the_ratio_of_times_is_rounded():
    board = board_of(**{"mean+linear": (0, 300), LORA: (0, 100)})
    cells = [replace(one, seconds=123.4) if one.name == LORA else one for one in board.cells]
    (one,) = in_ways(replace(board, cells=tuple(cells)))
    assert one.says.endswith("trains 120 times as long.")


def test_two_recipes_are_two_comparisons_the_best_first():
    wrongs = {"cls+linear": (0, 400), "cls+linear?tune=lora": (0, 350)}
    found = in_ways(board_of(**WAYS, **wrongs))
    assert [one.recipe for one in found] == ["mean+linear", "cls+linear"]
    assert found[0].as_json()["ways"][0]["tune"] == "frozen"
