"""Looking inside trained heads, from the outside: by name.

The page, the shell, the API and Python ask the same functions.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from heads.analysis.ablation import Ablation, Retrained, compared, effect, layers_named, retraining
from heads.analysis.attribution import attributions, encoded
from heads.analysis.attribution_methods import OTHERS, Attribution
from heads.analysis.counterfactuals import Flips, flipped
from heads.analysis.neighbors import Neighbourhood, neighbourhood, vectors_of
from heads.analysis.selection import Chosen, Heads, Reading, Said, choosing, reading, said
from heads.classifier.classifier import Classifier
from heads.data.corpus import gate
from heads.errors import RecipeError
from heads.events import Progress
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

    def attribute(
        self, text: str, pair: str = "", *, label: str = "", against: str = OTHERS
    ) -> tuple[Attribution, ...]:
        """Shows which tokens move the answer of each head: signed numbers that add up.

        Integrated gradients from a text of blanks to the text itself, with as many steps as it
        takes until the tokens' scores add up to the change of what is explained; gradient × input;
        and the share that the pooling reads of each token. Explained is the logit of a class less
        the mean of the others; of several labels, one versus the rest and numbers the logit alone.

        Args:
            label: The class that is asked about; of each head its answer, if not given.
            against: "others", or "runner-up" for the margin to the largest other logit.
        """
        return attributions(self._found(pair).classifiers, text, pair, label, against)

    def nearest(
        self, text: str, pair: str = "", *, most: int = NEIGHBOURS
    ) -> tuple[Neighbourhood, ...]:
        """Finds the training examples that each head sees as most similar to a sentence.

        Args:
            most: How many examples for each head.
        """
        return _result(searching(self._found(pair), text, pair, most))

    def flips(self, text: str, edits: Sequence[str | tuple[str, str]], pair: str = "") -> Flips:
        """Asks heads about edits of a sentence, and says which head flips on what.

        Args:
            edits: The edited sentences, for example ``["Not good at all."]``. Where there is a
                second sentence, an edit is of the first, or both as a tuple.
        """
        return flipped(self._found(pair).classifiers, text, edits, pair)

    def ablate(
        self, text: str, pair: str = "", *, without: str = "", retrain: bool = True
    ) -> tuple[Ablation, ...]:
        """Takes a layer out of trained heads, and trains them anew without it.

        The head as it is, less a layer, shows how much its other layers lean on that one; the
        head trained without it, with the same rows, settings and seeds, what the layer is worth.

        Args:
            without: The layer: its name, or dense, activation, norm or scale. Without it, every
                layer but the last is taken out in turn.
            retrain: Whether to train anew, which takes seconds on a sample; on a run about as
                long as its own heads took.
        """
        return _result(ablating(self._found(pair), text, pair, without, retrain=retrain))

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
    heads: Heads, text: str, pair: str = "", without: str = "", *, retrain: bool = True
) -> Generator[Progress, None, tuple[Ablation, ...]]:
    """What each head says without a layer: progress while rows are read, then that.

    Args:
        retrain: Whether heads are trained anew without it as well.

    Raises:
        RecipeError: No head has such a layer, or none can do without it.
    """
    texts = _gated(text, pair)
    found: list[Ablation] = []
    wanted: list[tuple[int, str]] = []
    refused: list[RecipeError] = []
    for number, classifier in enumerate(heads.classifiers):
        try:
            names = layers_named(classifier, without)
        except RecipeError as error:
            refused.append(error)
            continue
        found += yield from _taken_out(heads, classifier, names, texts)
        wanted += [(number, name) for name in names]
    if not found and refused:
        raise refused[0]
    if retrain:
        others = yield from retraining(heads, wanted)
        found = [_beside(one, other, texts) for one, other in zip(found, others, strict=True)]
    if without and all(one.after is None and one.retrained is None for one in found):
        raise RecipeError(found[0].why_not, "Take another layer out.")
    return tuple(found)


def _beside(one: Ablation, other: Retrained, texts: Sequence[str]) -> Ablation:
    """A head with a layer taken out, and the one that was trained without it."""
    bare = other.classifier
    says = said(bare.head, bare.logits(texts[:1], texts[1:])[0]) if bare else None
    return one.beside(other, says)


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


def _result(events: Generator[Progress, None, Found]) -> Found:
    while True:
        try:
            next(events)
        except StopIteration as done:
            return done.value
