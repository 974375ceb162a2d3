"""AutoGluon on a table whose one column is a text: counted n-grams and the models of a preset."""
# pyright: reportMissingImports=false

from importlib.metadata import version
from pathlib import Path

import pandas
from autogluon.tabular import TabularPredictor
from peer import Clock, asked, rows

question, clock = asked(), Clock()
(texts, labels), (tested, _) = rows(question["train"]), rows(question["test"])
learned = pandas.DataFrame({"text": texts, "label": labels})

with clock.phase("fit"):
    place = str(Path(question["place"]) / "predictor")
    predictor = TabularPredictor(label="label", path=place, eval_metric="accuracy", verbosity=0)
    predictor.fit(
        learned,
        presets=question["preset"],
        time_limit=question["limit"],
        num_cpus=question["threads"],
        num_gpus=0,
    )
with clock.phase("answer"):
    given = predictor.predict(pandas.DataFrame({"text": tested}))
clock.answer(
    given=given.tolist(),
    chosen=f"{predictor.model_best} of {', '.join(predictor.model_names())}",
    version=version("autogluon.tabular"),
)
