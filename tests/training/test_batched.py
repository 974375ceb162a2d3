"""Layers written out forward and back are torch's layers; an input's axes are taken up exactly."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heads.parts.modules import Normalise, Repeat, Scale, chain
from heads.training import whitening as axes
from heads.training.fitters.batched import BatchedHeads, drop_out
from heads.training.whitening import DerivedVectors, InputBasis, basis

WIDTH, CLASSES = 6, 3
BETWEEN: dict[str, Any] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "norm": lambda: nn.LayerNorm(5),
    "norm without a shift": lambda: nn.LayerNorm(5, bias=False),
    "normalise": Normalise,
    "scale": lambda: Scale(3.0),
    "repeat": lambda: Repeat(2),
    "nothing": nn.Identity,
    "no dropout": lambda: nn.Dropout(0.0),
    "product": lambda: nn.Linear(5, 5),
    "product without a bias": lambda: nn.Linear(5, 5, bias=False),
}


def made(between: list[str], seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [(f"layer{n}", BETWEEN[name]()) for n, name in enumerate(between)]
        found = chain(("first", nn.Linear(WIDTH, 5)), *layers, ("last", nn.Linear(5, CLASSES)))
        for tensor in found.state_dict().values():
            tensor.add_(torch.randn_like(tensor) * 0.5)
    return found.double()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(sorted(BETWEEN)), max_size=4), st.integers(1, 3))
def test_gradients_are_those_of_autograd(between: list[str], copies: int) -> None:
    chains = [made(between, seed) for seed in range(copies)]
    stack = BatchedHeads(chains, list(range(copies)), torch.float64)
    rng = torch.Generator().manual_seed(copies)
    values = torch.randn(copies, 7, WIDTH, generator=rng).double()
    targets = torch.randint(CLASSES, (7,), generator=rng)
    found = stack.logits(values, training=True).requires_grad_()
    samples = found.shape[1] // 7
    loss = torch.stack([cross_entropy(one, targets.repeat(samples)) for one in found]).sum()
    stack.learn(torch.autograd.grad(loss, found)[0])
    for number, one in enumerate(chains):
        logits = one.train()(values[number]).view(samples, 7, CLASSES)
        assert torch.allclose(found[number], logits.flatten(0, 1))
        cross_entropy(logits.flatten(0, 1), targets.repeat(samples)).backward()
        for own, alone in zip(stack.copies[number], one.parameters(), strict=True):
            assert own.grad is not None
            assert alone.grad is not None
            assert torch.allclose(own.grad, alone.grad, atol=1e-9)


def rngs_of(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def test_what_is_dropped_forward_is_dropped_on_the_way_back() -> None:
    ones = torch.ones(2, 30, 20, requires_grad=True)
    forward = drop_out(ones, 0.4, rngs_of(1, 2))
    assert not torch.equal(forward[0], forward[1])
    forward.backward(torch.ones_like(ones))
    assert ones.grad is not None
    assert torch.equal(ones.grad, forward)


def test_masks_of_a_copy_do_not_depend_on_who_learns_beside_it() -> None:
    ones, three, alone = torch.ones(3, 10, 8), rngs_of(5, 6, 7), rngs_of(6)
    for _ in range(3):
        assert torch.equal(drop_out(ones, 0.3, three)[1], drop_out(ones[:1], 0.3, alone)[0])


def test_a_batch_larger_than_the_bank_gets_masks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heads.training.fitters.batched.BANK", 64)
    monkeypatch.setattr(
        "heads.training.fitters.batched.mask_bank",
        lambda probability, dtype, device: (torch.arange(64) % 2).to(device, dtype) * 2,
    )
    assert float(drop_out(torch.ones(1, 10, 20), 0.5, rngs_of(0)).mean()) == 1.0


def test_sixteen_bits_are_near_and_what_is_learned_stays_in_thirty_two() -> None:
    chains = [made(["gelu", "norm"], seed).float() for seed in range(2)]
    values = torch.randn(2, 64, WIDTH, generator=torch.Generator().manual_seed(1))
    exact, rough = BatchedHeads(chains, [0, 1]), BatchedHeads(chains, [0, 1], torch.bfloat16)
    wanted = exact.logits(values, training=True)
    found = rough.logits(values.bfloat16(), training=True)
    assert found.dtype == torch.bfloat16
    assert (found.float() - wanted).norm() < 0.03 * wanted.norm()
    gradient = torch.ones_like(wanted) / 64
    exact.learn(gradient)
    rough.learn(gradient.bfloat16())
    assert rough.numbers.grad is not None
    assert exact.numbers.grad is not None
    assert rough.numbers.dtype == rough.numbers.grad.dtype == torch.float32
    distance = (rough.numbers.grad - exact.numbers.grad).norm()
    assert distance < 0.05 * exact.numbers.grad.norm()
    with torch.no_grad():
        rough.numbers.mul_(0)
    assert not rough.logits(values.bfloat16(), training=False).any()


# The axes of the input


def vectors_of(rows: int = 200) -> Tensor:
    rng = torch.Generator().manual_seed(4)
    mixed = torch.randn(rows, WIDTH, generator=rng) @ torch.randn(WIDTH, WIDTH, generator=rng)
    mixed[:, 2] = 5.0  # the same in every text
    return mixed + 3


@pytest.mark.parametrize("widest", [WIDTH, WIDTH - 1])
@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_takes_a_change_of_axes_up(
    widest: int, standardise: bool, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(axes, "WIDEST", widest)
    vectors = vectors_of()
    found = basis(vectors, standardise=standardise, centred=bias)
    layer = nn.Linear(WIDTH, 4, bias=bias)
    seen = found.seen(vectors, torch.float32)
    plain = nn.Linear(WIDTH, 4, bias=bias)
    plain.load_state_dict(
        {
            name.removeprefix("a."): tensor
            for name, tensor in found.folded(
                {f"a.{name}": tensor for name, tensor in layer.state_dict().items()}, "a"
            ).items()
        }
    )
    assert torch.allclose(plain(vectors), layer(seen), atol=1e-4)
    again = found.unfolded({f"a.{n}": t for n, t in plain.state_dict().items()}, "a")
    back = seen @ again["a.weight"].T + (again["a.bias"] if bias else 0)
    assert torch.allclose(back, plain(vectors), atol=1e-4)


def test_principal_axes_vary_apart_from_each_other() -> None:
    vectors = vectors_of()
    for standardise in (True, False):
        seen = basis(vectors, standardise=standardise, centred=True).seen(vectors, torch.float32)
        together = seen.T @ seen / len(seen)
        assert torch.allclose(together, together.diag().diag(), atol=1e-4 * float(together.max()))
        assert torch.allclose(seen.mean(dim=0), torch.zeros(WIDTH), atol=1e-4)


def test_fewer_rows_than_numbers_have_axes_too() -> None:
    found = basis(vectors_of(3), standardise=True, centred=True)
    assert found.turn.isfinite().all()
    assert found.seen(vectors_of(3), torch.float32).isfinite().all()


def test_what_is_kept_is_made_once_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made_of: list[int] = []

    def make(number: int) -> tuple[InputBasis, Tensor]:
        made_of.append(number)
        one = torch.ones(2)
        return InputBasis(shift=one, turn=one, back=one), torch.full((10,), float(number))

    kept = DerivedVectors()
    monkeypatch.setattr(axes, "KEPT_BYTES", 80)
    for number in (1, 2, 1, 3, 1, 2):
        assert float(kept.of(number, lambda n=number: make(n))[1][0]) == number
    assert made_of == [1, 2, 3, 2]
