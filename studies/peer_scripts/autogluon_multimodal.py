"""AutoGluon's predictor for texts: it fine-tunes the base model that it is given."""
# pyright: reportMissingImports=false

from importlib.metadata import version
from pathlib import Path

import pandas
from autogluon.multimodal import MultiModalPredictor
from peer import Clock, asked, rows

question, clock = asked(), Clock()
(texts, labels), (tested, _) = rows(question["train"]), rows(question["test"])
learned = pandas.DataFrame({"text": texts, "label": labels})

with clock.phase("fit"):
    place = str(Path(question["place"]) / "predictor")
    predictor = MultiModalPredictor(
        label="label", path=place, eval_metric="accuracy", verbosity=0, presets=question["preset"]
    )
    predictor.fit(
        learned,
        time_limit=question["limit"],
        seed=question["seed"],
        hyperparameters={
            "model.names": ["hf_text"],
            "model.hf_text.checkpoint_name": question["model"],
            "env.num_gpus": 0,
        },
    )
with clock.phase("answer"):
    given = predictor.predict(pandas.DataFrame({"text": tested}))
clock.answer(
    given=given.tolist(),
    chosen="the base model, fine-tuned",
    version=version("autogluon.multimodal"),
)
