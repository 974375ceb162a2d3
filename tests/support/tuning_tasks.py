"""Rows of texts for base models that learn: what the first word of each is tells its class."""

from typing import Any

import torch
from tiny_models import WORDS

from heads.data.splits import Splits
from heads.problem import SINGLE_LABEL
from heads.training.objective import Objective
from heads.training.task import TrainingTask

ROWS, CLASSES = 96, 3
EVERY = torch.arange(ROWS)
SPLITS = Splits(
    kind="folds",
    search=(EVERY[:48],),
    development=(EVERY[48:64],),
    train=(EVERY[:64],),
    test=(EVERY[64:],),
)


def task_of(rows: int = ROWS, **more: Any) -> TrainingTask:
    """Rows of random words of unlike length; what their first word is tells the class."""
    rng = torch.Generator().manual_seed(0)
    texts, targets = [], []
    for _ in range(rows):
        length = int(torch.randint(2, 9, (1,), generator=rng))
        numbers = torch.randint(len(WORDS), (length,), generator=rng).tolist()
        texts.append(" ".join(WORDS[number] for number in numbers))
        targets.append(numbers[0] % CLASSES)
    objective = Objective(problem=SINGLE_LABEL, outputs=CLASSES)
    nothing, targets = torch.empty(0, 0), torch.tensor(targets)
    return TrainingTask.of_rows(nothing, targets, objective, texts=texts, **more)
