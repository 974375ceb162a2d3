"""The training examples that a head sees as most similar to a text.

Legend: n rows, W width of what the head gets.
"""

import weakref
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from heads import display
from heads.backbone.states import states_of
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.classifier.module import RecipeModule
from heads.data.corpus import Corpus
from heads.data.text import folded
from heads.errors import DataError
from heads.events import Progress
from heads.features.extraction import FeatureMatrices, extract
from heads.inference.selection import SelectedHeads
from heads.interpret.outputs import check_texts, head_output

MOST = 50
ROUNDING = 1e-4  # of a cosine
READ_AT_MOST = 5000  # rows of a learned reading, which no disk holds
# What a learned reading made of the rows that it was last asked about.
_read: "weakref.WeakKeyDictionary[RecipeModule, tuple[object, Tensor]]" = (
    weakref.WeakKeyDictionary()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A training example.

    Attributes:
        labels: Its labels; where rows are labelled with numbers, that number.
        similarity: The cosine of its vector and the text's, -1 to 1.
        line: Where it stands in its file; 0 where that is not known.
        times: How often it stands among the training examples, with these labels.
    """

    text: str
    pair: str
    labels: tuple[str, ...]
    similarity: float
    line: int
    times: int = 1
    is_same: bool = False

    @property
    def told(self) -> str:
        """How near it is, and whether it is special, in a few words."""
        own = ["this very text"] * self.is_same + [f"{self.times} times"] * (self.times > 1)
        return ", ".join([f"similarity {self.similarity:.2f}", *own])


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood(display.Displayed):
    """The training examples that one head sees as most similar to a text.

    Attributes:
        answer: What the head answers, as a reader would say it.
        searched: Among how many training examples.
        alike: How many of the neighbours have the label that the head answers.
    """

    name: str
    answer: str
    neighbours: tuple[Neighbour, ...]
    searched: int
    alike: int
    numbers: bool = False

    @property
    def says(self) -> str:
        """How the neighbours' labels go with the answer, in a sentence."""
        same = " The text itself is among them: its neighbours explain little." * any(
            one.is_same for one in self.neighbours
        )
        if self.numbers:
            mean = sum(float(one.labels[0]) for one in self.neighbours) / len(self.neighbours)
            average = f"{mean:.2f}".replace("-", "−")
            return (
                f"The {len(self.neighbours)} nearest training examples have {average} on "
                f"average; {self.name} answers {self.answer}.{same}"
            )
        return (
            f"{self.alike} of the {len(self.neighbours)} nearest training examples "
            f"{'is' if self.alike == 1 else 'are'} labelled {self.answer}, "
            f"which is what {self.name} answers.{same}"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self) | {"says": self.says}


def find_neighbours(
    heads: SelectedHeads, text: str, pair: str = "", most: int = 5
) -> Generator[Progress, None, tuple[Neighbourhood, ...]]:
    """The nearest training examples of each head: progress while texts are read, then they.

    There are none for a head that came with its checkpoint.
    """
    texts = check_texts(text, pair)
    found = []
    for number, classifier in enumerate(heads.classifiers):
        if classifier.head.is_own:
            continue  # nobody here knows what it has learned from
        found.append((yield from find_neighbourhood(heads, number, texts, most)))
    return tuple(found)


def find_neighbourhood(
    heads: SelectedHeads, number: int, texts: Sequence[str], most: int
) -> Generator[Progress, None, Neighbourhood]:
    """The training examples nearest to a text in the space that a head sees it in.

    Those of equal text and labels are one neighbour, with how often it stands there.

    Raises:
        DataError: What the head was trained on is not known, or it is of another kind.
    """
    corpus, classifier = heads.corpus, heads.classifiers[number]
    if corpus is None:
        what = f"What {classifier.recipe} was trained on is not known here."
        raise DataError(what, "Say which sample or which run its training examples are in.")
    if bool(corpus.pairs) != (len(texts) > 1):
        what = f"The rows of {corpus.name} hold {'two texts' if corpus.pairs else 'one text'} each."
        raise DataError(what, "Ask about as many.")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST:
        raise DataError(f"There must be 1 to {MOST} neighbours, not {most!r:.40}.", "Change it.")
    rows = torch.tensor(heads.learned)
    module = classifier.head.module
    if module.reader.resolved.learns_to_read and len(rows) > READ_AT_MOST:
        rows = rows[torch.linspace(0, len(rows) - 1, READ_AT_MOST).long()]
    inputs = HeadInputs(classifier.backbone, texts[:1], texts[1:])
    inputs.encode([classifier.head])
    known = yield from vectors_of(classifier, corpus, rows)
    with torch.no_grad():
        states = inputs.states(classifier.head)
        own = module.vectors(*states)
        answer = head_output(classifier.head, module(*states)[0])
        similar = (normalize(known, dim=-1) @ normalize(own, dim=-1).T)[:, 0]
    order = similar.argsort(descending=True, stable=True)
    found = _different(corpus, rows[order].tolist(), similar[order].tolist(), texts, most)
    return Neighbourhood(
        name=answer.name,
        answer=answer.spoken,
        neighbours=tuple(found),
        searched=len(rows),
        alike=sum(set(one.labels) == set(answer.answer) for one in found),
        numbers=bool(corpus.numbers),
    )


def _different(
    corpus: Corpus, rows: Sequence[int], cosines: Sequence[float], texts: Sequence[str], most: int
) -> list[Neighbour]:
    """The first so many different examples of rows in the order of their nearness."""
    asked, found = folded(*texts), dict[object, Neighbour]()
    for row, cosine in zip(rows, cosines, strict=True):
        if len(found) == most and cosine < list(found.values())[-1].similarity - ROUNDING:
            break  # whatever equals a neighbour would be as near
        names = tuple(corpus.classes[target] for target in corpus.targets[row])
        one = Neighbour(
            text=corpus.texts[row],
            pair=corpus.pairs[row] if corpus.pairs else "",
            labels=(f"{corpus.numbers[row]:g}",) if corpus.numbers else names,
            similarity=cosine,
            line=corpus.lines[row] if corpus.lines else 0,
        )
        text = folded(one.text, one.pair) if one.pair else folded(one.text)
        if before := found.get((text, one.labels)):
            found[text, one.labels] = replace(before, times=before.times + 1)
        elif len(found) < most:
            found[text, one.labels] = replace(one, is_same=text == asked)
    return list(found.values())


def vectors_of(
    classifier: Classifier, corpus: Corpus, rows: Tensor
) -> Generator[Progress, None, Tensor]:
    """What a head gets of some rows of a corpus, (n, W); fixed readings are kept on disk."""
    module, backbone = classifier.head.module, classifier.backbone
    resolved = module.reader.resolved
    if corpus.vectors is not None:
        with torch.no_grad():
            return module.vectors(states_of(corpus.vectors.of(rows.tolist()).tensor()))
    if resolved.learns_to_read:
        return (yield from _learned(classifier, corpus, rows))
    sides = [*corpus.texts, *corpus.pairs] if resolved.pair else corpus.texts
    pairs = () if resolved.pair else corpus.pairs
    features = None
    for event in extract([resolved.side], sides, pairs, backbone):
        if isinstance(event, FeatureMatrices):
            features = event
        else:
            yield event
    assert features is not None
    vectors = features.matrix(resolved.side.reading)
    if not resolved.pair:
        return vectors[features.index[rows]]
    first, second = features.index.chunk(2)
    return resolved.joined(vectors[first[rows]], vectors[second[rows]])


def _learned(
    classifier: Classifier, corpus: Corpus, rows: Tensor
) -> Generator[Progress, None, Tensor]:
    """The vectors of a reading that was learned with its head, kept while the head is."""
    module, backbone = classifier.head.module, classifier.backbone
    asked = (corpus.fingerprint, tuple(rows.tolist()))
    known = _read.get(module)
    if known and known[0] == asked:
        return known[1]
    texts = [corpus.texts[row] for row in asked[1]]
    pairs = [corpus.pairs[row] for row in asked[1]] if corpus.pairs else []
    vectors = torch.empty(len(texts), module.width)
    done = 0
    for places, states in backbone.passes(backbone.encode(texts, pairs)):
        with torch.no_grad():
            vectors[places] = module.vectors(states)
        done += len(places)
        says = f"Reading {len(texts):,} training examples as {classifier.recipe} does"
        yield Progress(says=says, share=done / len(texts))
    _read[module] = (asked, vectors)
    return vectors
