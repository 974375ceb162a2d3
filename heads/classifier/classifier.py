"""A base model and a trained head together: texts in, answers out.

Legend: n texts, c classes.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.states import states_of
from heads.classifier.inputs import apply_module, check_second, sides_of
from heads.classifier.module import TrainedHead
from heads.data.arrays import matrix_of
from heads.data.corpus import Corpus, check_text
from heads.errors import DataError
from heads.events import Progress
from heads.features.store import FeatureMatrices
from heads.features.text_store import extract_by_text
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.recipe import Recipe

AT_ONCE = 16_384  # texts whose vectors are in memory together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Classifier(display.Displayed):
    """A base model with a trained head on it.

    Attributes:
        backbone: The base model, with what it has learned together with the head, if anything; it
            writes the recipe's prompt behind texts, if it has one. Given may be the one that was
            there before, or that of another head.
        head: The trained head, with its recipe, its classes and what is known of its training.
        refit: Trains the head again on all rows, as progress that ends in a classifier; None where
            nothing more is known to learn from.
        corpus: The rows that it was trained and scored on; None where they are not known.
    """

    backbone: Backbone
    head: TrainedHead
    refit: Callable[[], Generator[Progress, None, "Classifier"]] | None = None
    corpus: Corpus | None = None

    def __post_init__(self) -> None:
        own = self.head.backbone_for(self.backbone).for_recipe(self.head.module.reader.resolved)
        object.__setattr__(self, "backbone", own)

    def __repr__(self) -> str:
        """In one line: the numbers of a base model would fill thousands."""
        return f"<Classifier {self.recipe} on {self.backbone.id}: {len(self.classes)} outputs>"

    @property
    def recipe(self) -> Recipe:
        """What it reads, and the form of its head."""
        return self.head.recipe

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return self.head.classes

    def refitted(self) -> Generator[Progress, None, "Classifier"]:
        """Train the head again on all rows but test rows; return this one if it has them all."""
        return (yield from self.refit()) if self.refit else self

    @torch.no_grad()
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """Return one number a text and class, before softmax or sigmoid, (n, c).

        Args:
            texts: Any number of texts; of a head that learned from vectors an array (n, w).

        Raises:
            DataError: A text is empty, or there are not as many second texts as it needs.
        """
        if self.backbone.is_given:
            blocks = matrix_of(texts, self.backbone.width).split(AT_ONCE)
            logits = [self.head.module(states_of(block)) for block in blocks if len(block)]
            return torch.cat([torch.zeros(0, len(self.classes)), *logits])
        texts, pairs = self._validate_texts(texts, pairs)
        if not texts:
            return torch.zeros(0, len(self.classes))
        module = self.head.module
        sides = [
            self.backbone.passes(self.backbone.encode(*side), layers=module.reader.depths)
            for side in sides_of(module, texts, pairs)
        ]
        return apply_module(module, sides, len(texts))

    @torch.no_grad()
    def kept_logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """Return the `logits` up to rounding, (n, c); only texts not cached are encoded.

        What it has made of a text is found again, whichever texts were read beside it and for
        whichever frozen recipe. A head that learned how to read, that learned its base model as
        well, or that is applied to every token reads all texts anew.

        Raises:
            DataError: A text is empty, or there are not as many second texts as it needs.
        """
        resolved = self.head.module.reader.resolved
        if self.head.base is not None or resolved.needs_states or self.backbone.is_given:
            return self.logits(texts, pairs)
        texts, pairs = self._validate_texts(texts, pairs)
        logits = torch.zeros(len(texts), len(self.classes))
        for start in range(0, len(texts), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            logits[some] = self.head.module.head(self._kept(resolved, texts[some], pairs[some]))
        return logits

    def _validate_texts(
        self, texts: Sequence[str], pairs: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return the cleaned texts and second texts, or raise DataError."""
        if isinstance(texts, str):
            raise DataError("The texts must be a list.", "Write [text] for a single one.")
        if pairs and len(pairs) != len(texts):
            what = f"There are {len(texts)} texts and {len(pairs)} second texts."
            raise DataError(what, "Give one second text for each text, or none.")
        if not texts:
            return [], []
        texts = [check_text(text, "text") for text in texts]
        pairs = [check_text(text, "second text") for text in pairs]
        check_second(self.head, pairs)
        return texts, pairs

    def _kept(self, resolved: ResolvedRecipe, texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        """What the head gets of some texts, (n, W), read now or before."""
        asked, rows = resolved, (texts, pairs)
        if resolved.pair:
            asked, rows = resolved.side, ([*texts, *pairs], ())
        *_, found = extract_by_text([asked], *rows, self.backbone, on_disk=False)
        assert isinstance(found, FeatureMatrices)
        vectors = found.matrix(asked.reading)[found.index]
        return resolved.joined(*vectors.chunk(2)) if resolved.pair else vectors

    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """Return softmax, or sigmoids (one-versus-rest: over their sum), of the logits, (n, c)."""
        return self.head.problem.probabilities(self.logits(texts, pairs))

    def predict(
        self, texts: Sequence[str], pairs: Sequence[str] = (), *, abstain_below: float = 0.0
    ) -> Sequence[str | float | tuple[str, ...] | tuple[float, ...] | None]:
        """Return the answer to each text: its class, its number, or a tuple of its labels.

        Args:
            abstain_below: Where one class applies: None where it is less sure than that, its
                logits divided by its temperature.

        Raises:
            DataError: It is asked to abstain, and its answers are of another kind.
        """
        answers = self.decided(self.logits(texts, pairs), abstain_below=abstain_below)
        problem = self.head.problem
        if problem.has_label_sets or (not problem.has_classes and len(self.classes) > 1):
            return answers
        return [answer[0] if answer else None for answer in answers]

    def decided(
        self, logits: Tensor, *, abstain_below: float = 0.0
    ) -> list[tuple[str, ...]] | list[tuple[float, ...]]:
        """Return the classes or numbers decided for at these logits (n, c), as `predict` does."""
        if abstain_below:
            self.check_abstains()
        if not self.head.problem.has_classes:
            return [tuple(row) for row in logits.tolist()]
        chosen = self.head.problem.chosen(logits, self.head.thresholds)
        if abstain_below:
            chosen &= (self.sureness(logits) >= abstain_below)[:, None]
        return [
            tuple(name for name, yes in zip(self.classes, row, strict=True) if yes)
            for row in chosen
        ]

    def check_abstains(self) -> None:
        """Raise DataError where a text may have several answers, or gets a number."""
        if not self.head.problem.is_exclusive:
            what = f"{self.recipe} does not answer with one class, so it cannot abstain as a whole."
            raise DataError(what, "Leave abstain_below out.")

    def sureness(self, logits: Tensor) -> Tensor:
        """The probability of the class answered, as calibrated as the head is, (n,)."""
        return self.head.problem.probabilities(logits, self.head.temperature).amax(dim=1)
