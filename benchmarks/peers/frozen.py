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
    """Trains whatever of the model is not frozen; the clock, and the share of right answers."""
    tokenizer, clock = AutoTokenizer.from_pretrained(folder), Clock()
    with tempfile.TemporaryDirectory() as place:
        plan = TrainingArguments(
            output_dir=place,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            learning_rate=PACE,
            save_strategy="no",
            logging_strategy="no",
            label_names=["labels"],  # which it cannot tell by itself of adapters' models
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        with clock.phase("train"):
            trainer: Any = Trainer(
                model=model,
                args=plan,
                train_dataset=Rows(tokenizer, *learned),
                data_collator=DataCollatorWithPadding(tokenizer),
            )
            trainer.train()
        with clock.phase("answer"):
            logits = trainer.predict(Rows(tokenizer, *tested)).predictions
    return clock, share(logits.argmax(-1).tolist(), tested[1])
