"""transformer-ranker: its three estimates of every layer of one model, on one set of rows.

Its `run` embeds all rows, scores every layer and keeps only the best layer's score; the same
three of its parts are called here one after another, so that every layer's score is seen and
the rows are embedded once instead of once for each estimate.
"""
# pyright: reportMissingImports=false

from importlib.metadata import version

import torch
from datasets import Dataset
from peer import Clock, asked, rows
from transformer_ranker import TransformerRanker
from transformer_ranker.embedder import Embedder

question, clock = asked(), Clock()
texts, labels = rows(question["train"])
embedder = Embedder(model=question["model"], sentence_pooling="mean", device="cpu")

with clock.phase("clean"):
    table = Dataset.from_dict({"text": texts, "label": labels})
    ranker = TransformerRanker(table, text_column="text", label_column="label")
with clock.phase("read"):
    embedded = embedder.embed(ranker.texts, batch_size=32, show_progress=False)
found = {}
for name, kind in ranker.transferability_metrics.items():
    with clock.phase(name):
        found[name] = [
            kind().fit(
                embeddings=torch.stack([row[layer] for row in embedded]), labels=ranker.labels
            )
            for layer in range(len(embedded[0]))
        ]
clock.answer(layers=found, rows=len(embedded), version=version("transformer-ranker"))
