"""Every pairing on the shelf is under these contracts by being there."""

from collections.abc import Callable

import pytest
import torch
from expected_errors import refusing
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from heads.errors import RecipeError
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
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("width", [1, 7])
def test_is_as_wide_as_declared(part, rows, width):
    vectors = part(*two(rows, width))
    assert vectors.shape == (rows, resolve(f"mean+linear?pair={part.name}").widened(width))
    assert vectors.shape == (rows, len(BLOCKS[part.name]) * width)
    assert vectors.dtype == torch.float32


numbers = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)


@given(u=numbers, v=numbers)
def test_is_what_its_formula_says(u, v):
    assert set(pairing) == set(BLOCKS)
    for part in PAIRINGS:
        found = part(torch.tensor([u]), torch.tensor([v]))[0]
        wanted = [number for block in BLOCKS[part.name] for number in NAIVE[block](u, v)]
        assert_close(found, torch.tensor(wanted))


@every_pairing
def test_each_row_is_paired_alone_and_has_a_gradient(part):
    u, v = (side.requires_grad_() for side in two())
    before = u.detach().clone(), v.detach().clone()
    found, order = part(u, v), torch.tensor([2, 0, 3, 1])
    assert torch.equal(part(u[order], v[order]), found[order])
    assert torch.equal(part(u[1:2], v[1:2]), found[1:2])
    assert torch.equal(part(v, u), found) == (part.name in SYMMETRIC)
    (found * torch.linspace(1, 2, found.numel()).view(found.shape)).sum().backward()
    for side, untouched in zip((u, v), before, strict=True):
        assert torch.equal(side.detach(), untouched)
        assert side.grad.isfinite().all()
        assert side.grad.any()
    alike = part(u, u).chunk(len(BLOCKS[part.name]), dim=-1)
    for block, vectors in zip(BLOCKS[part.name], alike, strict=True):
        assert bool(vectors.any()) == (block != "diff")


# As an option of a recipe


@pytest.mark.parametrize("recipe", ["attention+linear", "mean@mix+linear", "mean+linear?late=true"])
def test_what_is_learned_from_all_tokens_takes_none(recipe):
    sign = "&" if "?" in recipe else "?"
    with refusing(RecipeError, "mean+linear?pair=uv_diff"):
        resolve(f"{recipe}{sign}pair=uv_diff")
    assert resolve(f"{recipe}{sign}pair=joint").pair == ""


def test_joint_is_the_recipe_without_a_pairing():
    resolved = resolve("mean+linear?pair=joint")
    assert (str(resolved.recipe), resolved.widened(9)) == ("mean+linear", 9)
    with refusing(RecipeError, "'uv_diff'"):
        resolve("mean+linear?pair=uv_dif")


@every_pairing
def test_a_pairing_is_a_reading_of_its_own(part):
    resolved = resolve(f"cls@cat4+mlp?pair={part.name}&hidden=8&loss=ovr")
    assert resolved.reading == f"cls@cat4?pair={part.name}"
    assert (resolved.side.reading, resolved.side.pair) == ("cls@cat4", "")
    assert part.says in resolved.says
