"""Which trained heads are asked: those of a sample, those of a run, or heads given as they are."""

import math
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from heads import display
from heads.backbone.loading import loading
from heads.backbone.models import BUNDLED
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.classifier.pretrained import is_own, own_head
from heads.data.corpus import Corpus, check_text
from heads.data.dataset import corpus_of
from heads.data.samples import RECIPES, SAMPLES, Sample, sample_for
from heads.errors import DataError, RecipeError
from heads.events import Progress
from heads.explain.comparison import check_number, counted
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import MULTI_LABEL, SINGLE_LABEL, ProblemType, plain
from heads.recipe import Recipe
from heads.runs.folder import RunFolder, find
from heads.runs.refit import run_classifiers, with_refit
from heads.runs.trainer import first_split, trained
from heads.settings import ExperimentConfig, current_limits

Named = Recipe | str | Classifier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectedHeads:
    """The heads that were chosen, and what they were trained on.

    Attributes:
        classifiers: The heads, each on its base model.
        corpus: The rows; None where they are not known.
        learned: The numbers of the rows that they learned from.
        held: The numbers of rows that they have not learned from.
        run: The run that they are of, if one.
        names: Their names in it.
    """

    classifiers: tuple[Classifier, ...]
    corpus: Corpus | None = None
    learned: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    run: RunFolder | None = None
    names: tuple[str, ...] = ()


def choosing(
    recipes: Sequence[Named] = (),
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
    run: str = "",
) -> Generator[Progress, None, SelectedHeads]:
    """Find trained heads, or train those of a sample; yield progress.

    Args:
        recipes: Recipes, "own" for the head that a checkpoint came with, or classifiers. Without
            any, four common ones, or the first four of a run.
        pair: The second sentence that they will be asked about, or nothing.
        model: The base model; a run has its own.
        sample: What the heads are trained on; the one that suits, if not given.
        run: A run whose heads are asked instead.
    """
    check_number(len(recipes))
    if run:
        return _of_run(run, recipes)
    given = [one for one in recipes if isinstance(one, Classifier)]
    if given and len(given) == len(recipes):
        return _given(given, sample)
    data = sample_for(sample, pair)
    return (yield from _of_sample(data, recipes or RECIPES, model or BUNDLED))


def _of_sample(
    data: Sample, recipes: Sequence[Named], model: str
) -> Generator[Progress, None, SelectedHeads]:
    names = [one if isinstance(one, Classifier) or is_own(one) else resolve(one) for one in recipes]
    backbone = yield from loading(model)
    corpus, config = corpus_of(data), ExperimentConfig()
    different = {one.recipe if isinstance(one, ResolvedRecipe) else one: one for one in names}
    ours = {one.recipe: one for one in names if isinstance(one, ResolvedRecipe)}
    heads = (yield from trained([*ours.values()], corpus, backbone)) if ours else []
    found, classifiers = dict(zip(ours, heads, strict=True)), list[Classifier]()
    for one in different.values():
        if isinstance(one, Classifier):
            classifiers.append(one)
            continue
        head = found[one.recipe] if isinstance(one, ResolvedRecipe) else own_head(backbone)
        classifier = Classifier(backbone=backbone, head=head)
        classifiers.append(with_refit(classifier, corpus, config))
    learned, held = first_split(corpus, config)
    return SelectedHeads(classifiers=tuple(classifiers), corpus=corpus, learned=learned, held=held)


def _given(classifiers: Sequence[Classifier], sample: str) -> SelectedHeads:
    """Return the classifiers; rows are known if data and splits of all are the sample's."""
    names = {sample or one.head.trained_on for one in classifiers}
    name = names.pop() if len(names) == 1 else ""
    nothing = SelectedHeads(classifiers=tuple(classifiers))
    if name not in SAMPLES:
        return nothing
    corpus = corpus_of(SAMPLES[name])
    known = [one.head.config for one in classifiers if one.head.fingerprint == corpus.fingerprint]
    configs = [config for config in known if config]
    if len(configs) < len(classifiers):
        return nothing
    splits = {first_split(corpus, config) for config in configs}
    if len(splits) > 1:
        return nothing
    learned, held = splits.pop()
    return SelectedHeads(classifiers=tuple(classifiers), corpus=corpus, learned=learned, held=held)


def _of_run(called: str, recipes: Sequence[Named]) -> SelectedHeads:
    run, named = find(called, is_public=current_limits().public), list[Recipe | str]()
    for one in recipes:
        if isinstance(one, Classifier):
            what = "A run has heads of its own."
            raise RecipeError(what, "Name its recipes, or leave the run out.")
        named.append(one)
    asked, classifiers = run_classifiers(run, named)
    return SelectedHeads(
        classifiers=tuple(classifiers.values()),
        corpus=asked.corpus,
        learned=tuple(asked.splits.train[0].tolist()),  # the head of the first seed is kept
        held=tuple(asked.splits.test[0].tolist()),
        run=run,
        names=tuple(classifiers),
    )


# --- What a head says of a text once it has been asked: the values that what-ifs compare.

LOWEST, HIGHEST = 0.1, 10.0
SOFTMAX = (
    "Softmax lets the classes compete: the numbers add up to 100 %, so one class can only gain "
    "what the others lose. It answers: which one class is it?"
)
SIGMOID = (
    "Sigmoid asks each class by itself: the numbers need not add up to anything, so none of the "
    "classes may apply, or several. It answers: does this class apply, yes or no?"
)
TEMPERATURE = (
    "Every logit is divided by the temperature before it becomes a probability. Above 1 the head "
    "becomes less sure, below 1 more sure; the order of the classes, and so the answer, stays."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOutput:
    """What one head says.

    Attributes:
        name: The head.
        classes: The names of its classes.
        logits: One number a class.
        probabilities: One number a class; of a head that gives numbers, those.
        answer: The classes that it answers; none or several only where several may apply.
        problem: How its logits become probabilities and answers.
        temperature: The one at which it is as sure as it is right, found in its training; 1
            where nobody looked for it.
    """

    name: str
    classes: tuple[str, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    answer: tuple[str, ...]
    problem: ProblemType
    temperature: float = 1.0

    @property
    def spoken(self) -> str:
        """The answer as a reader would say it."""
        if not self.problem.has_classes:
            return counted(self.classes, self.logits)
        return ", ".join(self.answer) or "none of the classes"

    @property
    def chance(self) -> float | None:
        """The probability of the answer; None where it is not one class."""
        if not self.problem.is_exclusive:
            return None
        return max(self.probabilities)


@torch.no_grad()
def head_output(head: TrainedHead, logits: Tensor) -> HeadOutput:
    """What a head says, given its logits (c,)."""
    shares = head.problem.probabilities(logits[None])[0]
    chosen = head.problem.chosen(logits[None], head.thresholds)[0].tolist()
    return HeadOutput(
        name=head.name,
        classes=head.classes,
        logits=tuple(logits.tolist()),
        probabilities=tuple(shares.tolist()),
        answer=() if head.problem.gives_number else tuple(compress(head.classes, chosen)),
        problem=head.problem,
        temperature=head.temperature,
    )


def check_texts(text: str, pair: str) -> list[str]:
    """Return one or two texts, cut to the longest that is read; raise DataError for blank ones."""
    second = [check_text(pair, "second sentence")] if pair.strip() else []
    return [check_text(text), *second]


def answered(
    classifiers: Sequence[Classifier], text: str, pair: str = ""
) -> tuple[HeadOutput, ...]:
    """What each head says of a text, and of its pair."""
    texts = check_texts(text, pair)
    return tuple(head_output(one.head, one.logits(texts[:1], texts[1:])[0]) for one in classifiers)


def tempered(
    logits: Sequence[float], temperature: float, problem: ProblemType = SINGLE_LABEL
) -> tuple[float, ...]:
    """Probabilities of logits that are divided by a temperature; no forward pass.

    Of one-versus-rest the logarithms of the sigmoids are divided; numbers stay what they are.

    >>> [round(share, 3) for share in tempered([2.0, 0.0], 1)]
    [0.881, 0.119]
    >>> [round(share, 3) for share in tempered([2.0, 0.0], 10)]
    [0.55, 0.45]

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    if not (math.isfinite(temperature) and LOWEST <= temperature <= HIGHEST):
        what = f"The temperature must lie between {LOWEST:g} and {HIGHEST:g}."
        raise DataError(what, "1 leaves the logits as they are.")
    given = torch.tensor([list(logits)], dtype=torch.float64)
    return tuple(problem.probabilities(given, temperature)[0].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(display.Displayed):
    """The same logits of one head read in several ways.

    Attributes:
        said: What the head says, read as it was trained.
        softmax: One probability a class where classes compete; none of a number.
        sigmoid: One probability a class where each is asked by itself; none of a number.
        temperature: What the logits were divided by for `tempered`.
        tempered: One probability a class, read as the head was trained, at that temperature.
    """

    said: HeadOutput
    softmax: tuple[float, ...]
    sigmoid: tuple[float, ...]
    temperature: float
    tempered: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        facts = asdict(self, dict_factory=plain)
        return facts.pop("said") | facts


def reading(said: HeadOutput, temperature: float = 1.0) -> Reading:
    """Reads what a head has said by the softmax, by one sigmoid a class, and at a temperature.

    Raises:
        DataError: The temperature is not between a tenth and ten.
    """
    is_number = not said.problem.has_classes
    return Reading(
        said=said,
        softmax=() if is_number else tempered(said.logits, 1.0),
        sigmoid=() if is_number else tempered(said.logits, 1.0, MULTI_LABEL),
        temperature=temperature,
        tempered=tempered(said.logits, temperature, said.problem),
    )
