"""Every pairing on the shelf is under these contracts by being there.

One test compares with the answers kept in golden.json; a part that is not yet in it is skipped by
that test alone. `python tests/support/golden.py` adds the missing ones and rewrites none.
"""

import re
from collections.abc import Callable

import pytest
import torch
from golden import answer_of_pairing, kept
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from heads.errors import RecipeError
from heads.parts.registry import Part
from heads.parts.resolve import pairing, resolve

WIDTH = 5
PAIRINGS = list(pairing.values())
every_pairing = pytest.mark.parametrize("part", PAIRINGS, ids=lambda part: part.name)
SYMMETRIC = ("diff", "prod", "diff_prod")

# What each is, said a second time: on the numbers of one pair of texts.
NAIVE: dict[str, Callable[[list[float], list[float]], list[float]]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "diff": lambda u, v: [abs(a - b) for a, b in zip(u, v, strict=True)],
    "prod": lambda u, v: [a * b for a, b in zip(u, v, strict=True)],
}
BLOCKS = {
    "uv": ("u", "v"),
    "diff": ("diff",),
    "prod": ("prod",),
    "diff_prod": ("diff", "prod"),
    "uv_prod": ("u", "v", "prod"),
    "uv_diff": ("u", "v", "diff"),
    "uv_diff_prod": ("u", "v", "diff", "prod"),
}


def two(rows: int = 4, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(rows)
    return torch.randn(rows, width, generator=rng), torch.randn(rows, width, generator=rng)


@every_pairing
def test_says_one_sentence_its_formula_and_its_source(part: Part) -> None:
    assert re.fullmatch(r"[A-Z].{8,}\.", part.says)
    assert not re.search(r"[.!?] [A-Z]", part.says)
    assert re.search(r"[uv]", part.formula)
    assert re.search(r"\d{4}|table", part.source)
    assert not part.options
    assert not part.learned


def test_all_that_sentence_bert_compares_are_there() -> None:
    assert list(pairing) == [
        "uv",
        "diff",
        "prod",
        "diff_prod",
        "uv_prod",
        "uv_diff",
        "uv_diff_prod",
    ]


@every_pairing
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("width", [1, 7])
def test_is_as_wide_as_declared(part: Part, rows: int, width: int) -> None:
    vectors = part(*two(rows, width))
    assert vectors.shape == (rows, resolve(f"mean+linear?pair={part.name}").widened(width))
    assert vectors.shape == (rows, len(BLOCKS[part.name]) * width)
    assert vectors.dtype == torch.float32


numbers = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)


@given(u=numbers, v=numbers)
def test_is_what_its_formula_says(u: list[float], v: list[float]) -> None:
    for part in PAIRINGS:
        found = part(torch.tensor([u]), torch.tensor([v]))[0]
        wanted = [number for block in BLOCKS[part.name] for number in NAIVE[block](u, v)]
        assert_close(found, torch.tensor(wanted))


@every_pairing
def test_only_the_symmetric_ones_do_not_care_which_text_comes_first(part: Part) -> None:
    u, v = two()
    assert torch.equal(part(u, v), part(v, u)) == (part.name in SYMMETRIC)


@every_pairing
def test_a_row_is_paired_with_its_own_alone(part: Part) -> None:
    u, v = two()
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(part(u[order], v[order]), part(u, v)[order])
    assert torch.equal(part(u[1:2], v[1:2]), part(u, v)[1:2])


@every_pairing
def test_leaves_its_inputs_and_has_a_gradient(part: Part) -> None:
    u, v = (side.requires_grad_() for side in two())
    before = u.detach().clone(), v.detach().clone()
    found = part(u, v)
    (found * torch.linspace(1, 2, found.numel()).view(found.shape)).sum().backward()
    assert torch.equal(u.detach(), before[0])
    assert torch.equal(v.detach(), before[1])
    for side in (u, v):
        assert side.grad is not None
        assert side.grad.isfinite().all()
        assert side.grad.any()


@every_pairing
def test_two_texts_alike_have_no_distance(part: Part) -> None:
    u, _ = two()
    found = part(u, u).chunk(len(BLOCKS[part.name]), dim=-1)
    for block, vectors in zip(BLOCKS[part.name], found, strict=True):
        assert bool(vectors.any()) == (block != "diff")


def test_a_name_that_is_not_there_is_refused_with_a_hint() -> None:
    with pytest.raises(RecipeError, match=r"no pairing called 'uv_dif'\. Did you mean 'uv_diff'"):
        resolve("mean+linear?pair=uv_dif")


@pytest.mark.parametrize("recipe", ["attention+linear", "mean@mix+linear", "mean+linear?late=true"])
def test_what_is_learned_from_all_tokens_takes_none(recipe: str) -> None:
    sign = "&" if "?" in recipe else "?"
    with pytest.raises(RecipeError, match="learned from the states of all tokens") as refused:
        resolve(f"{recipe}{sign}pair=uv_diff")
    assert "mean+linear?pair=uv_diff" in str(refused.value)
    assert resolve(f"{recipe}{sign}pair=joint").pair == ""


def test_joint_is_the_recipe_without_a_pairing() -> None:
    resolved = resolve("mean+linear?pair=joint")
    assert str(resolved.recipe) == "mean+linear"
    assert resolved.widened(9) == 9


@every_pairing
def test_a_pairing_is_a_reading_of_its_own(part: Part) -> None:
    resolved = resolve(f"cls@cat4+mlp?pair={part.name}&hidden=8&loss=ovr")
    assert resolved.reading == f"cls@cat4?pair={part.name}"
    assert resolved.side.reading == "cls@cat4"
    assert resolved.side.pair == ""
    assert part.says in resolved.says


@every_pairing
def test_a_name_keeps_its_meaning(part: Part) -> None:
    known = kept(f"pairing {part.name}")
    assert_close(
        torch.tensor(answer_of_pairing(part)["vectors"]),
        torch.tensor(known["vectors"]),
        rtol=1e-6,
        atol=1e-6,
    )
