"""What holds of every part on every shelf, and of a shelf itself.

One test compares with the answers kept in golden.json; a part that is not yet in it is skipped by
that test alone. `python tests/support/golden.py` adds the missing ones and rewrites none.
"""

import re

import pytest
import torch
from expected_errors import refusing
from golden import answers, kept
from torch import nn
from torch.testing import assert_close

from heads.errors import RecipeError
from heads.parts.registry import Head, Pooling, Registry
from heads.parts.resolve import head, layers, loss, pairing, pooling

SHELVES = (pooling, layers, head, pairing, loss)
PARTS = [part for shelf in SHELVES for part in shelf.values()]
ANSWERS = dict(answers())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.kind}-{part.name}")
def test_a_part_says_one_sentence_and_its_source(part):
    assert re.fullmatch(r"[A-Z].{8,}\.", part.says)
    assert not re.search(r"[.!?] [A-Z]", part.says)
    assert part.source
    if part in pairing.values():
        assert re.search(r"[uv]", part.formula)
        assert (dict(part.options), part.learned) == ({}, False)
    if part in loss.values():
        assert "ln" in part.formula or part.name == "hinge"  # which knows no probabilities
        assert dict(part.options) == {"focal": 0.0}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_name_keeps_its_meaning(name):
    answer, known = ANSWERS[name](), kept(name)
    assert answer.keys() == known.keys()
    for key, values in known.items():
        assert_close(torch.tensor(answer[key]), torch.tensor(values), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shelf", [pooling, layers, head], ids=lambda shelf: shelf.kind)
def test_a_name_that_is_taken_is_refused(shelf):
    taken, before = next(iter(shelf)), dict(shelf)

    def part(mask):
        """Another thing under a known name."""
        return mask

    part.__name__ = taken
    with pytest.raises(ValueError, match=f"'{taken}'"):
        shelf(part)
    assert dict(shelf) == before


def test_a_part_without_a_docstring_is_refused():
    shelf = Registry("pooling", Pooling)

    def silent(mask):
        return mask

    class silent_too(nn.Module):
        def forward(self, mask):
            return mask

    for maker in (silent, silent_too):
        with pytest.raises(ValueError, match=maker.__name__):
            shelf(maker)
    assert not shelf


def test_a_shelf_keeps_order_options_and_lines_of_the_docstring():
    shelf = Registry("head", Head)

    @shelf(prefix="top.", single_label=True)
    def second(width: int, classes: int, *, rate: float = 0.5, deep: bool = False) -> None:
        """Says it in one sentence.

        Formula: y = x,
            over two lines
        Source: nobody.
        """

    @shelf
    def first(width: int, classes: int) -> None:
        """Says another."""

    part = shelf["second"]
    assert list(shelf) == ["second", "first"]
    assert (part.says, part.formula) == ("Says it in one sentence.", "y = x, over two lines")
    assert (part.source, part.prefix, part.single_label) == ("nobody.", "top.", True)
    assert part.options == {"rate": 0.5, "deep": False}
    assert second.__name__ == "second"
    assert part.learned
    assert not Registry("head", Head)


def test_a_shelf_answers_an_unknown_name_with_the_nearest():
    assert "roberta" in head
    assert "robert" not in head
    for ask in (head.__getitem__, head):
        with refusing(RecipeError, "'roberta'"):
            ask("robert")
