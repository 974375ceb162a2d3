"""SetFit's first stage, by the SetFit library: a base model learns on pairs of texts.

Imported where a training begins, as the library is an optional one.
Legend: n rows, b texts of a batch, w width of the pooled vector.
"""
# pyright: reportMissingImports=false

import logging
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import setfit
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from setfit.sampler import ContrastiveDataset
from torch import Tensor, nn
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from heads.backbone.device import for_training
from heads.rng import IsolatedRng
from heads.training.finetuning.memory import TrainingMemory
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.task import TrainingTask

PAIRS = 16  # in a step, as is SetFit's default
WARM_UP = 0.1  # of all steps
AT_ONCE = 2_000  # rows all of whose pairs are listed at once: their number grows by the square


def learn_pairs(
    module: TunedRecipe,
    texts: Texts,
    task: TrainingTask,
    rows: Tensor,
    *,
    rate: float,
    steps: int,
    seed: int,
    rng: IsolatedRng,
) -> int:
    """Let a copy of a base model learn: texts of one class near each other, others far.

    Args:
        module: The copy; its head learns nothing.
        rows: (n,), of two classes at least.
        rate: The learning rate at its highest.
        steps: Of `PAIRS` pairs each.

    Returns:
        The most bytes that it held, as `TrainingMemory` counts them.
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    numbers = rows[order].tolist()  # the library draws the same pairs of places whatever the seed
    memory = TrainingMemory(module, module.learned().values())
    with _quietly(), _own_numbers(), _Turns(rng, memory) as turns:
        body = SentenceTransformer(
            modules=[_PooledTexts(module, texts, task, memory)], device=str(for_training())
        )
        arguments = _arguments(rate, steps, seed)
        trainer = _Trainer(setfit.SetFitModel(model_body=body), arguments, callbacks=[turns])
        for shown in (ProgressCallback, PrinterCallback):
            trainer.remove_callback(shown)
        given = trainer.st_trainer.args
        given.dataloader_pin_memory = False
        given._n_gpu = min(given.n_gpu, 1)  # of several, the one that everything else is on
        trainer.train_embeddings(
            list(map(str, numbers)), task.targets[numbers].tolist(), args=arguments
        )
    return memory.peak


def _arguments(rate: float, steps: int, seed: int) -> setfit.TrainingArguments:
    return setfit.TrainingArguments(
        output_dir=tempfile.gettempdir(),  # it must be named, and nothing is written there
        batch_size=PAIRS,
        num_epochs=1,
        max_steps=steps,
        body_learning_rate=rate,
        warmup_proportion=WARM_UP,
        sampling_strategy="oversampling",
        seed=seed,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
    )


class _PooledTexts(nn.Module):
    """The one module of a SentenceTransformer: the vectors that a recipe pools of some rows.

    Texts are given by the numbers of their rows, which stand where token ids do.
    """

    def __init__(
        self, module: TunedRecipe, texts: Texts, task: TrainingTask, memory: TrainingMemory
    ) -> None:
        super().__init__()
        self.module, self._texts, self._task, self._memory = module, texts, task, memory

    def preprocess(self, inputs: Sequence[str], **_: Any) -> dict[str, Tensor]:
        return {"input_ids": torch.tensor([int(row) for row in inputs])}

    tokenize = preprocess  # as sentence-transformers before 6 calls it

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The vectors of a batch, (b, w)."""
        self._task.check()
        rows, device = features["input_ids"].cpu(), for_training()
        dtype = self._task.products_on(device)
        autocast = torch.autocast(device.type, dtype, dtype != torch.float32)
        with self._memory.counting(), autocast:
            vectors = self.module.vectors(self._texts, rows).float()
        return {**features, "sentence_embedding": vectors}


class _Trainer(setfit.Trainer):
    """SetFit's trainer, with pairs of as many rows as there may be."""

    def get_dataset(self, x: Any, y: Any, args: Any, max_pairs: int = -1) -> Any:
        """Pairs among every share of the rows, in which the classes have their own shares."""
        by_class = sorted(range(len(y)), key=y.__getitem__)
        shares, pairs = -(-len(y) // AT_ONCE), list[dict[str, Any]]()
        for share in (by_class[number::shares] for number in range(shares)):
            own, labels = [x[place] for place in share], [y[place] for place in share]
            if len({*labels}) > 1:  # without texts of another class the library fails
                most = max(2, max_pairs // shares)
                pairs += ContrastiveDataset(own, labels, False, max_pairs=most)
        return Dataset.from_list(pairs), args.loss(self.model.model_body)


class _Turns(TrainerCallback):
    """Holds torch's random numbers while a step draws them, not while the optimizer takes it."""

    def __init__(self, rng: IsolatedRng, memory: TrainingMemory) -> None:
        self._rng, self._memory, self._rolling = rng, memory, ExitStack()

    def __enter__(self) -> "_Turns":
        self._rolling.enter_context(self._rng.rolling())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._rolling.__exit__(*raised)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._memory.begin()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._rolling.close()

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._rolling.enter_context(self._rng.rolling())


@contextmanager
def _own_numbers() -> Iterator[None]:
    """Within it, the random numbers of Python and of NumPy may be seeded anew."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextmanager
def _quietly() -> Iterator[None]:
    """Within it, the library tells only of errors."""
    logger = logging.getLogger("setfit")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
