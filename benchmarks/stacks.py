"""Copies of a head that learn side by side, beside the library's way: functional_call and vmap.

Both take the same steps of AdamW on the same random vectors, in one thread as in a grid; dropout
is drawn by torch for the one and cut out of a bank for the other.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from benchmarks.reports import Row, compared
from benchmarks.timing import time_in_turn
from heads.backbone.device import products
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.rng import IsolatedRng
from heads.training.fitters import adamw
from heads.training.fitters.adamw import AdamWCopies, CopyData
from heads.training.fitters.batched import NEW_HEADS, BatchedHeads
from heads.training.objective import Objective
from heads.training.task import TrainingTask

ROWS, WIDTH, CLASSES, SEEDS, STEPS = 4_634, 384, 6, 3, 30  # as of trec6
RECIPES = ("mean+roberta", "mean+mlp", "mean+norm_linear", "mean+linear?fit=adamw")


class MappedHeads(BatchedHeads):
    """The same stack, its heads run by `functional_call` under `vmap`."""

    def logits(self, values: Tensor, *, training: bool) -> Tensor:
        chain = self._chains[0].train(training)

        def apply_head(tensors: dict[str, Tensor], rows: Tensor) -> Tensor:
            return functional_call(chain, tensors, (rows,))

        def run(flat: Tensor) -> Tensor:
            apply_heads = vmap(apply_head, randomness="different")
            return apply_heads(self._views(flat.to(self._products)), values)

        logits, self._back, *_ = vjp(run, self.numbers.data)
        return logits

    def learn(self, gradient: Tensor) -> None:
        assert self.numbers.grad is not None
        self.numbers.grad.copy_(self._back(gradient)[0])


def main(data: Path, rounds: int) -> list[Row]:
    """Time both in turn, for each recipe in 32 bits and in those that `auto` takes here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        kinds = dict.fromkeys((torch.float32, products("auto")))
        return [measure(recipe, kind, rounds) for recipe in RECIPES for kind in kinds]
    finally:
        torch.set_num_threads(threads)


def measure(recipe: str, kind: torch.dtype, rounds: int) -> Row:
    """Compare the seconds of `STEPS` steps of all copies."""
    works = {cls.__name__: steps_of(cls, recipe, kind) for cls in (BatchedHeads, MappedHeads)}
    seconds = time_in_turn(works, rounds)
    copies, name = SEEDS * len(NEW_HEADS), str(kind).removeprefix("torch.")
    return compared(
        f"{STEPS} steps of {copies} copies of {recipe}, {name}", seconds["BatchedHeads"],
        "torch.func's functional_call and vmap", seconds["MappedHeads"],
        note=f"{ROWS:,} vectors of {WIDTH} numbers, one thread", drawn=False,
    )  # fmt: skip


def steps_of(cls: type[BatchedHeads], recipe: str, kind: torch.dtype) -> Callable[[], None]:
    """Return the work of `STEPS` more steps of all copies of a head."""
    rng = torch.Generator().manual_seed(0)
    vectors, targets = torch.randn(ROWS, WIDTH, generator=rng), torch.arange(ROWS) % CLASSES
    objective = Objective(problem=SINGLE_LABEL, outputs=CLASSES)
    task = TrainingTask.of_rows(vectors, targets, objective, products=kind)
    choices = list(NEW_HEADS) * SEEDS
    with IsolatedRng().rolling():
        chains = [resolve(recipe).chain(WIDTH, CLASSES) for _ in choices]
    seeds, data = list(range(len(chains))), CopyData(rows=task.index, vectors=vectors.to(kind))
    copies = AdamWCopies(
        cls(chains, seeds, kind), task, [data] * len(chains), choices, seeds, adamw.batch_of(ROWS)
    )
    return lambda: copies.learn(copies.steps + STEPS)


if __name__ == "__main__":
    for row in main(Path(), 5):
        print(row)
