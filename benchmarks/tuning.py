"""How fast base models are tuned: a pass over the rows, beside Transformers' Trainer and the cut.

Everything runs in one process, in turn, in 32 bits, on rows of trec6: the steps of `tune=full`,
those of Trainer on the true class (its rows grouped by length as well), and those of `tune=last2`
with the lower layers computed in every step, and with their states kept at the cut. What the share
of layers predicts is 2 of 6 of the time of everything.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.reports import Row, compared
from benchmarks.rounds import read
from benchmarks.timing import time_in_turn
from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.events import result
from heads.features.token_states import different, keep_states
from heads.parts.resolve import resolve
from heads.problem import SINGLE_LABEL
from heads.rng import IsolatedRng
from heads.training.finetuning.learning import BATCH, TuningRun, TuningSettings
from heads.training.finetuning.module import Texts, TunedRecipe
from heads.training.finetuning.plan import plan_of
from heads.training.objective import Objective
from heads.training.task import TrainingTask

ROWS, QUICK_ROWS = 960, 192
LAYERS, TOP = 6, 2  # of the bundled model, and those that are learned above the cut
SHARE = 0.8  # of what the share of layers predicts
LEARNED = "a pass of tune=last2, its cut kept"


def main(data: Path, rounds: int) -> list[Row]:
    """Measures all four in turn, after one pass each that nobody counts."""
    folder = data / "trec6"
    if not folder.is_dir():
        print(f"{folder} is not there: tuning was not measured")
        return []
    backbone = load()
    task = task_of(read(folder / "train.csv")[: ROWS if rounds > 1 else QUICK_ROWS])
    with tempfile.TemporaryDirectory() as place:
        passes = {
            "full": ours("cls+bert?tune=full", backbone, task, kept=False),
            "trainer": theirs(backbone, task, Path(place)),
            "whole": ours("cls+bert?tune=last2", backbone, task, kept=False),
            "kept": ours("cls+bert?tune=last2", backbone, task, kept=True),
        }
        times = time_in_turn(passes, rounds, is_printed=True)
    predicted = LAYERS / TOP
    told = f"{len(task.targets)} rows of trec6, all-MiniLM-L6-v2, 32 bits"
    layers = f"{TOP} of {LAYERS} layers predict {predicted:g}"
    full, kept = times["full"], times["kept"]
    return [
        compared("a pass of tune=full", full, "Transformers' Trainer", times["trainer"], note=told),
        compared(LEARNED, kept, "one of tune=full", full, note=layers, target=SHARE * predicted),
        compared(LEARNED, kept, "the same, lower layers computed", times["whole"], note=told),
    ]


def task_of(rows: Sequence[tuple[str, str]]) -> TrainingTask:
    """Rows as what is learned from."""
    classes = sorted({label for _, label in rows})
    targets = torch.tensor([classes.index(label) for _, label in rows])
    objective, texts = Objective(problem=SINGLE_LABEL, outputs=len(classes)), [t for t, _ in rows]
    return TrainingTask.of_rows(torch.empty(0, 0), targets, objective, texts=texts)


def ours(recipe: str, backbone: Backbone, task: TrainingTask, *, kept: bool) -> Callable[[], Any]:
    """One more pass over the rows, by our own steps."""
    resolved, rng = resolve(recipe), IsolatedRng()
    plan, states = plan_of(resolved, backbone), None
    if kept:
        texts, pairs, _ = different(task.texts, task.pairs)
        every = range(len(texts))
        states = result(keep_states([resolved], texts, pairs, backbone, "exact", every, plan.reads))
    own = replace(task, cut_states=states)
    texts_of = Texts.of(own, resolved, backbone)
    with rng.rolling():
        module = TunedRecipe(resolved, backbone, task.classes, plan, begins_at_cut=kept)
    rows = torch.arange(len(task.targets))
    settings = TuningSettings(learning_rate=3e-5, epochs=100)
    run = TuningRun(module, texts_of, own, rows, settings, rng, 0)
    return lambda: list(run.learn())


def theirs(backbone: Backbone, task: TrainingTask, place: Path) -> Callable[[], Any]:
    """One pass over the rows by Transformers' Trainer, on the class that BERT has for that."""
    assert backbone.folder is not None
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        backbone.folder, num_labels=task.classes
    )
    encoded = backbone.encode(task.texts)
    rows: Any = [  # a list will do, though it is no Dataset
        {**one.inputs, "attention_mask": [1] * len(one), "labels": int(target)}
        for one, target in zip(encoded, task.targets, strict=True)
    ]
    settings = transformers.TrainingArguments(
        output_dir=str(place),
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        learning_rate=3e-5,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=backbone.device.type == "cpu",
        dataloader_pin_memory=False,
    )
    collate = transformers.DataCollatorWithPadding(backbone.tokenizer)
    trainer = transformers.Trainer(
        model=model, args=settings, train_dataset=rows, data_collator=collate
    )
    return trainer.train
