"""A classifier out of a portable folder: what answers where Head to Head is not installed.

This file goes into the folder as it is, with those that it imports: a head is run there by what has
trained it. What is particular to one base model or head stands in the folder's `head.json`.
Legend: n texts, t tokens, w width of a pooled vector, c classes.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoTokenizer

from heads.backbone.backbone import Backbone, NoModel
from heads.backbone.states import States, states_of
from heads.backbone.trained_reading import sentence_config, trained_reading
from heads.data.text import SURROGATES, is_blank
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import problem_of


class StandaloneModule(nn.Module):
    """The states of a batch's tokens to logits (n, c), by the parts that a recipe names."""

    def __init__(self, resolved: ResolvedRecipe, backbone: Backbone, classes: int) -> None:
        super().__init__()
        self.reader = Featurizer(resolved, backbone)
        self.head = resolved.chain(resolved.widened(self.reader.width), classes)

    def forward(self, states: States) -> Tensor:
        read = self.reader(states)
        if not self.reader.resolved.late:
            return self.head(read.vectors.clone())  # a head may work in place
        tokens = self.reader.chosen(states)  # (n, t, w), which a head takes row by row
        logits = self.head(tokens.flatten(0, 1).clone()).unflatten(-2, tokens.shape[:2])
        return (read.reads[:, None] @ logits).squeeze(-2)


def _loaded(folder: Path, base: Mapping[str, Any]) -> tuple[Any, Any]:
    """The base model and its tokenizer."""
    model = getattr(importlib.import_module(base["module"]), base["class"]).from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation=base["attention"],
        **base["arguments"],
    )
    return model.eval(), AutoTokenizer.from_pretrained(folder, split_special_tokens=True)


class StandaloneClassifier:
    """A base model and the head on it: texts in, labels or numbers out."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "head.json").read_text("utf-8"))
        resolved, base = resolve(facts["recipe"]), facts["base"]
        model, tokenizer = _loaded(folder / "backbone", base) if base else (NoModel(), None)
        self.backbone = Backbone(
            model=model, tokenizer=tokenizer, folder=None, pooler_weights={}, **facts["backbone"]
        )
        home, width = folder / "backbone", self.backbone.width
        self.backbone = replace(self.backbone, sentences=sentence_config(home))
        if resolved.pooling.is_trained:
            self.backbone = replace(self.backbone, trained=trained_reading(home, width))
        self.classes: list[str] = facts["classes"]
        self.letters: int = facts["letters"]
        # The logits above which labels apply, found on texts that it was not trained on.
        self.thresholds: list[float] = facts["thresholds"]
        self.problem = problem_of(facts).learned_by(resolved.loss)
        self.head = StandaloneModule(resolved, self.backbone, len(self.classes)).eval()
        self.head.load_state_dict(load_file(folder / "head.safetensors"))

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[Any]:
        """The label of each text and its probability; a list of them where several may apply.

        Of a head that gives numbers the score is the number; one that learned from vectors is given
        an array (n, w) of such vectors.
        """
        logits = self.logits(texts, pairs)
        scores = self.problem.probabilities(logits).tolist()
        chosen = self.problem.chosen(logits, self.thresholds).tolist()
        answers = [
            [
                {"label": label, "score": score}
                for label, score, applies in zip(self.classes, *row, strict=True)
                if applies
            ]
            for row in zip(scores, chosen, strict=True)
        ]
        return answers if self.problem.has_label_sets else [answer for [answer] in answers]

    @torch.no_grad()
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """One number a text and class, before softmax or sigmoid, (n, c)."""
        resolved, reader = self.head.reader.resolved, self.head.reader
        if self.backbone.is_given:
            return self.head(states_of(torch.as_tensor(texts, dtype=torch.float32)))
        if isinstance(texts, str) or isinstance(pairs, str):
            raise ValueError("The texts must be a list: write [text] for a single one.")
        if resolved.pair and len(pairs) != len(texts):
            raise ValueError("It compares two texts: give one second text for each text.")
        if pairs and not resolved.takes_pairs:
            raise ValueError("It reads windows of one text: give no second texts.")
        if pairs and len(pairs) != len(texts):
            raise ValueError("Give one second text for each text, or none.")
        sides = [[self._checked(text) for text in side] for side in (texts, pairs) if side]
        if not sides:
            return torch.zeros(0, len(self.classes))
        if resolved.pair:
            vectors = (self._read(lambda s: reader(s).vectors, reader.width, one) for one in sides)
            return self.head.head(resolved.joined(*vectors))
        return self._read(self.head, len(self.classes), *sides)

    def _read(
        self, through: Callable[[States], Tensor], width: int, *sides: Sequence[str]
    ) -> Tensor:
        """What becomes of the states of texts, or of pairs as one sequence, (n, width)."""
        encoded = self.backbone.encode(*sides)
        found = torch.zeros(len(encoded), width)
        for rows, states in self.backbone.passes(encoded, layers=self.head.reader.depths):
            found[rows] = through(states)
        return found

    def _checked(self, text: str) -> str:
        """Return a text as it stands, cut to the characters that are read."""
        text = SURROGATES.sub("", text[: self.letters])
        if is_blank(text):
            raise ValueError("A text is empty.")
        return text
