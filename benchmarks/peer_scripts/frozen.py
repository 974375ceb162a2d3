"""A head trained by Transformers' Trainer on a frozen base model, as two scripts here do it.

The base model reads every row anew in every epoch; batches of 32, padded to their longest row.
"""
# pyright: reportMissingImports=false

import tempfile
from typing import Any

from peer import Clock, share
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

EPOCHS, BATCH, PACE = 3, 32, 2e-3


class Rows:
    """Tokenised rows, as Trainer takes them."""

    def __init__(self, tokenizer: Any, texts: list[str], goals: list[int]) -> None:
        self.read, self.goals = tokenizer(texts, truncation=True, max_length=256), goals

    def __len__(self) -> int:
        return len(self.goals)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {name: self.read[name][place] for name in self.read} | {"label": self.goals[place]}


def train(
    model: Any,
    folder: str,
    learned: tuple[list[str], list[int]],
    tested: tuple[list[str], list[int]],
) -> tuple[Clock, float]:
    """Trains whatever of the model is not frozen; the clock, and the share of right answers.

    A first step is not timed: what is slow only once must not be taken to grow with the rows.
    """
    tokenizer, clock = AutoTokenizer.from_pretrained(folder), Clock()
    some = tuple(side[:BATCH] for side in learned)
    with tempfile.TemporaryDirectory() as place:
        first = trainer(model, tokenizer, some, place, steps=1)
        first.train()
        first.predict(first.train_dataset)
        with clock.phase("train"):
            fitter = trainer(model, tokenizer, learned, place)
            fitter.train()
        with clock.phase("answer"):
            logits = fitter.predict(Rows(tokenizer, *tested)).predictions
    return clock, share(logits.argmax(-1).tolist(), tested[1])


def trainer(model: Any, tokenizer: Any, rows: Any, place: str, steps: int = -1) -> Any:
    """A Trainer with all that one would set; so many steps, or three epochs."""
    plan = TrainingArguments(
        output_dir=place,
        num_train_epochs=EPOCHS,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        learning_rate=PACE,
        label_names=["labels"],  # which it cannot tell by itself of adapters' models
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    collator = DataCollatorWithPadding(tokenizer)
    return Trainer(
        model=model,
        args=plan,
        train_dataset=Rows(tokenizer, *rows),  # pyright: ignore[reportArgumentType]
        data_collator=collator,
    )
