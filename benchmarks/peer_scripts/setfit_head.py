"""SetFit, the head only: the body embeds, its default head (a logistic regression) is fitted."""
# pyright: reportMissingImports=false, reportArgumentType=false

import setfit
from peer import Clock, asked, rows, share
from setfit import SetFitModel

question, clock = asked(), Clock()
model = SetFitModel.from_pretrained(question["model"], device="cpu")
(texts, labels), (tested, goals) = rows(question["train"]), rows(question["test"])

with clock.phase("fit"):  # embeds the rows and fits the head, as SetFit's Trainer does last
    model.fit(texts, labels, num_epochs=1)
with clock.phase("answer"):
    given = list(model.predict(tested, use_labels=False))
clock.answer(accuracy=share(given, goals), version=setfit.__version__)
