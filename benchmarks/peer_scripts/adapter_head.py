"""AdapterHub's adapters: a classification head on a frozen base model, no adapter."""
# pyright: reportMissingImports=false

import adapters
import transformers
from adapters import AutoAdapterModel
from frozen import EPOCHS, train
from peer import asked, numbered, rows

question = asked()
(texts, labels), (tested, goals) = rows(question["train"]), rows(question["test"])
(learned, held), classes = numbered(labels, goals)
transformers.set_seed(0)
model = AutoAdapterModel.from_pretrained(question["model"])
model.add_classification_head("head", num_labels=classes)
model.active_head = "head"
for weight in model.base_model.parameters():
    weight.requires_grad_(False)
clock, accuracy = train(model, question["model"], (texts, learned), (tested, held))
clock.answer(accuracy=accuracy, version=adapters.__version__, epochs=EPOCHS)
