"""AutoIntent: a preset of its own on the base model that it is given, and what it answers.

Its preset's search, hold-out and all else are as they come, so it learns from four fifths of the
rows; only the embedder is another. It keeps embeddings for the run, in a folder of the run.
"""
# pyright: reportMissingImports=false

import os
from importlib.metadata import version

from peer import Clock, asked, numbered, rows

SEED = 42  # its own default
question, clock = asked(), Clock()
os.environ["XDG_CACHE_HOME"] = question["place"]  # before it is imported
os.chdir(question["place"])  # where it logs

from autointent import Dataset, Pipeline  # noqa: E402
from autointent.configs import get_default_embedder_config  # noqa: E402

(texts, labels), (tested, _) = rows(question["train"]), rows(question["test"])
(numbers,), _ = numbered(labels)
names = sorted(set(labels))

with clock.phase("fit"):
    pipeline = Pipeline.from_preset(question["preset"], seed=SEED + question["seed"])
    pipeline.set_config(get_default_embedder_config(model_name=question["model"], device="cpu"))
    pairs = zip(texts, numbers, strict=True)
    data = Dataset.from_dict({"train": [{"utterance": text, "label": own} for text, own in pairs]})
    found = pipeline.fit(data)
with clock.phase("answer"):
    given = pipeline.predict(tested)
modules = [node.module_name for node in found.optimization_info.get_inference_nodes_config()]
clock.answer(
    given=["" if one is None else names[one] for one in given],
    chosen=" + ".join(modules),
    version=version("autointent"),
)
