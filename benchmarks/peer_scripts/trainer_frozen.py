"""Transformers' Trainer: AutoModelForSequenceClassification with its base model frozen."""
# pyright: reportMissingImports=false

import transformers
from frozen import EPOCHS, train
from peer import asked, numbered, rows
from transformers import AutoModelForSequenceClassification

question = asked()
(texts, labels), (tested, goals) = rows(question["train"]), rows(question["test"])
(learned, held), classes = numbered(labels, goals)
transformers.set_seed(0)
model = AutoModelForSequenceClassification.from_pretrained(question["model"], num_labels=classes)
for weight in model.base_model.parameters():
    weight.requires_grad_(False)
clock, accuracy = train(model, question["model"], (texts, learned), (tested, held))
clock.answer(accuracy=accuracy, version=transformers.__version__, epochs=EPOCHS)
