"""Looking inside trained heads, from the outside: by name.

The page, the shell, the API and Python ask the same functions.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from heads.errors import RecipeError
from heads.pipeline.classifier import Classifier
from heads.pipeline.corpus import gate
from heads.pipeline.look.ablation import Ablation, compared, effect, layers_named
from heads.pipeline.look.attributing import attributions, encoded
from heads.pipeline.look.attribution import Attribution
from heads.pipeline.look.chosen import Chosen, Heads, choosing
from heads.pipeline.look.edits import Flips, flipped
from heads.pipeline.look.nearest import Neighbourhood, neighbourhood, vectors_of
from heads.pipeline.look.saying import Reading, Said, reading, said
from heads.pipeline.training import Progress
from heads.settings import limits as limits_here

NEIGHBOURS = 5
HELD = 1000  # rows on which the effect of a layer is measured, at most
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Chosen):
    """Looks inside trained heads: `heads.Look(recipes=["cls+linear"]).attribute("Not bad.")`.

    What is found is a tuple with one entry a head, except for `flips`.

    Attributes:
        recipes: Recipes, "own" for the head that a checkpoint came with, or
            classifiers as `heads.train` and `heads.load` give them. Without any, four common
            ones, or the first four of a run.
        model: The bundled base model, a Hub id, or (locally) a folder; a run has its own.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity;
            the one that suits, if not given.
        run: A run whose heads are asked instead, by its id.

    Every method takes the sentence, where needed a second one as `pair`, and raises a HeadsError
    for anything in the question that does not fit, in one sentence.
    """

    def attribute(self, text: str, pair: str = "", *, label: str = "") -> tuple[Attribution, ...]:
        """Shows which tokens move the answer of each head: signed numbers that add up.

        Integrated gradients from a text of blanks to the text itself, with as many steps as it
        takes until the tokens' scores add up to the change of the logit; gradient × input; and
        the share that the pooling reads of each token.

        Args:
            label: The class whose logit is taken apart; of each head its answer, if not given.
        """
        return attributions(self._found(pair).classifiers, text, pair, label)

    def nearest(
        self, text: str, pair: str = "", *, most: int = NEIGHBOURS
    ) -> tuple[Neighbourhood, ...]:
        """Finds the training examples that each head sees as most similar to a sentence.

        Args:
            most: How many examples for each head.
        """
        return _last(searching(self._found(pair), text, pair, most))

    def flips(self, text: str, edits: Sequence[str | tuple[str, str]], pair: str = "") -> Flips:
        """Asks heads about edits of a sentence, and says which head flips on what.

        Args:
            edits: The edited sentences, for example ``["Not good at all."]``. Where there is a
                second sentence, an edit is of the first, or both as a tuple.
        """
        return flipped(self._found(pair).classifiers, text, edits, pair)

    def ablate(self, text: str, pair: str = "", *, without: str = "") -> tuple[Ablation, ...]:
        """Takes a layer out of trained heads and shows what they say with and without it.

        Args:
            without: The layer: its name, or dense, activation, norm or scale. Without it, every
                layer but the last is taken out in turn.
        """
        return _last(ablating(self._found(pair), text, pair, without))

    def readings(
        self, text: str, pair: str = "", *, temperature: float = 1.0
    ) -> tuple[Reading, ...]:
        """Reads the same logits as softmax, as sigmoid and at a temperature.

        Args:
            temperature: What the logits are divided by, from 0.1 to 10.
        """
        found = answered(self._found(pair).classifiers, text, pair)
        return tuple(reading(one, temperature) for one in found)

    def _found(self, pair: str) -> Heads:
        for event in choosing(self, pair, limits_here()):
            if isinstance(event, Heads):
                return event
        raise AssertionError("a choice ends in its heads")


def answered(classifiers: Sequence[Classifier], text: str, pair: str = "") -> tuple[Said, ...]:
    """What each head says of a text."""
    texts = _gated(text, pair)
    return tuple(said(one.head, one.logits(texts[:1], texts[1:])[0]) for one in classifiers)


def searching(
    heads: Heads, text: str, pair: str = "", most: int = NEIGHBOURS
) -> Generator[Progress, None, tuple[Neighbourhood, ...]]:
    """The nearest training examples of each head: progress while texts are read, then they.

    There are none for a head that came with its checkpoint.
    """
    texts = _gated(text, pair)
    found = []
    for number, classifier in enumerate(heads.classifiers):
        if classifier.head.is_own:
            continue  # nobody here knows what it has learned from
        found.append((yield from neighbourhood(heads, number, texts, most)))
    return tuple(found)


def ablating(
    heads: Heads, text: str, pair: str = "", without: str = ""
) -> Generator[Progress, None, tuple[Ablation, ...]]:
    """What each head says without a layer: progress while rows are read, then that.

    Raises:
        RecipeError: No head has such a layer, or none can do without it.
    """
    texts = _gated(text, pair)
    found: list[Ablation] = []
    refused: list[RecipeError] = []
    for classifier in heads.classifiers:
        try:
            names = layers_named(classifier, without)
        except RecipeError as error:
            refused.append(error)
            continue
        found += yield from _taken_out(heads, classifier, names, texts)
    if not found and refused:
        raise refused[0]
    if without and all(one.after is None for one in found):
        raise RecipeError(found[0].why_not, "Take another layer out.")
    return tuple(found)


def _taken_out(
    heads: Heads, classifier: Classifier, names: Sequence[str], texts: Sequence[str]
) -> Generator[Progress, None, list[Ablation]]:
    own = [classifier.backbone.states([one]) for one in encoded(classifier, texts)]
    with torch.no_grad():
        logits = classifier.head.module(*own)
    found = [compared(classifier, name, logits, own) for name in names]
    order, corpus = classifier.head.module.reader.order, heads.corpus
    rows = torch.tensor(heads.held[:HELD])
    if corpus is None or corpus.numbers or order.late or not len(rows) or not names:
        return found
    if classifier.head.is_own or classifier.classes != corpus.classes:  # of other data
        return found
    vectors = yield from vectors_of(classifier, corpus, rows)
    targets = [corpus.targets[row] for row in rows.tolist()]
    return [
        one if one.after is None else one.with_effect(effect(classifier, name, vectors, targets))
        for name, one in zip(names, found, strict=True)
    ]


def _gated(text: str, pair: str) -> list[str]:
    limits = limits_here()
    second = [gate(pair, limits, "second sentence")] if pair.strip() else []
    return [gate(text, limits), *second]


def _last(events: Generator[Progress, None, Found]) -> Found:
    while True:
        try:
            next(events)
        except StopIteration as done:
            return done.value
