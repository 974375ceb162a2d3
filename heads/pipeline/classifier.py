"""A base model and a trained head together: texts in, answers out.

Legend: n texts, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.errors import DataError
from heads.pipeline.assembly import TrainedHead
from heads.pipeline.backbone import Backbone
from heads.pipeline.corpus import gate
from heads.pipeline.metrics import answers, probabilities
from heads.recipe import Recipe
from heads.settings import limits as limits_here


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classifier:
    """A base model with a trained head on it.

    Attributes:
        backbone: The base model.
        head: The trained head, with its recipe, its classes and what is known of its training.
    """

    backbone: Backbone
    head: TrainedHead

    @property
    def recipe(self) -> Recipe:
        """What it reads, and the form of its head."""
        return self.head.recipe

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.head.classes

    @torch.no_grad()
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """One number a text and class, before softmax or sigmoid, (n, c).

        Args:
            texts: Any number of texts.
            pairs: As many second texts, or none.

        Raises:
            DataError: A text is empty, or there are not as many second texts.
        """
        limits = limits_here()
        if isinstance(texts, str):
            raise DataError("The texts must be a list.", "Write [text] for a single one.")
        if pairs and len(pairs) != len(texts):
            what = f"There are {len(texts)} texts and {len(pairs)} second texts."
            raise DataError(what, "Give one second text for each text, or none.")
        if not texts:
            return torch.zeros(0, len(self.classes))
        encoded = self.backbone.encode(
            [gate(text, limits, "text") for text in texts],
            [gate(text, limits, "second text") for text in pairs],
        )
        logits = torch.zeros(len(encoded), len(self.classes))
        for rows, states in self.backbone.passes(encoded):
            logits[rows] = self.head.module(states)
        return logits

    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """One probability a text and class, (n, c): softmax, or sigmoid where several may apply."""
        return probabilities(self.logits(texts, pairs), many=self.head.many)

    def predict(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """The classes that it decides for, one or several a text."""
        chosen = answers(self.logits(texts, pairs), many=self.head.many)
        return [
            tuple(name for name, yes in zip(self.classes, row, strict=True) if yes)
            for row in chosen
        ]
