"""The main job: one or two sentences under several recipes, side by side.

The page, the shell, the API and Python ask the same function and show the same answer.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.classifier.module import TrainedHead
from heads.classifier.prediction import UNDECIDED, Prediction, predict
from heads.classifier.pretrained import fine_tuned_warning
from heads.data.corpus import check_text
from heads.data.samples import RECIPES, SAMPLES
from heads.errors import DataError, HeadsError, RecipeError
from heads.events import Progress
from heads.inference.selection import HeadRequest, HeadSource, open_heads
from heads.interpret.differences import same_in_training
from heads.interpret.explanation import pooler_says
from heads.interpret.outputs import spell_classes, spell_numbers
from heads.options import CompareOptions
from heads.parts.resolved_recipe import JOINT, LONG, WINDOWS
from heads.problem import ProblemType
from heads.recipe import Recipe
from heads.settings import current_limits

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

# --- What one should know before believing a comparison, a sentence each.


def cut_notes(texts: Sequence[str]) -> list[str]:
    """Of texts that are longer than this place reads."""
    most = current_limits().text_characters
    return [
        f"Only the first {most:,} of {len(text):,} characters were read."
        for text in texts
        if isinstance(text, str) and len(text) > most
    ]


def token_notes(
    encoded: Encoded, heads: Sequence[TrainedHead], backbone: Backbone
) -> Iterator[str]:
    """Of a text that has more tokens than the base model reads at once."""
    whole, recipes = encoded.whole_length, [head.module.reader.resolved for head in heads]
    windowed = [one for one in recipes if one.reads_windows]
    if whole > len(encoded) and len(windowed) < len(recipes):
        who = f" by recipes without ?{LONG}={WINDOWS}" * bool(windowed)
        yield f"Only the first {len(encoded):,} of {whole:,} tokens were read{who}."
    reach = min((backbone.for_recipe(one).reach for one in windowed), default=whole)
    if whole > reach:
        yield (
            f"Only the first {reach:,} of {whole:,} tokens were read in windows, at most "
            f"{backbone.windows}."
        )


def _is_letter(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LM"  # vowels of Hindi and Thai are marks


def script_notes(texts: Sequence[str], tokenizer: Any) -> Iterator[str]:
    """Yield a note on words or letters that the tokenizer of the base model does not know."""
    pieces = [piece for text in texts for piece in tokenizer.tokenize(text)]
    word_pieces = sum(any(map(_is_letter, piece)) for piece in pieces)
    words = sum(any(map(_is_letter, word)) for text in texts for word in text.split())
    splits = word_pieces - words
    letters = [sign for sign in "".join(texts) if _is_letter(sign)]
    names = [unicodedata.name(sign, "").partition(" ")[0] for sign in letters]
    # In Chinese, Japanese and Korean a token of one character is usual.
    foreign = sum(name not in ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL") for name in names)
    if unknown := tokenizer.unk_token is not None and pieces.count(tokenizer.unk_token):
        is_or_are = "is" if unknown == 1 else "are"
        yield (
            f"{unknown} of {len(pieces)} tokens {is_or_are} {tokenizer.unk_token}: the base model "
            "does not know these words or characters."
        )
    # Words are split at more than half of the places between two of their letters.
    elif word_pieces > 3 and foreign > len(letters) / 2 and 2 * splits > len(letters) - words:
        yield (
            "The tokenizer splits this text almost into single characters: the base model was "
            "hardly trained on its script."
        )


def joint_notes(heads: Sequence[TrainedHead]) -> list[str]:
    """Of heads that cannot read two sentences each by itself."""
    return [
        f"{head.name} reads the two sentences as one sequence: it learns from all their tokens."
        for head in heads
        if head.module.reader.resolved.needs_states and not head.is_own
    ]


def recipe_notes(heads: Sequence[TrainedHead], backbone: Backbone) -> list[str]:
    """Return what to know of the heads and of their base model, a sentence each."""
    notes = [
        f"{backbone.id} came without a trained head, so what 'own' shows is random: "
        "its probabilities mean nothing."
        for head in heads
        if head.new
    ]
    notes += [
        f"The head that {backbone.id} came with gives numbers, not classes: read its logits."
        for head in heads
        if head.problem.gives_number and head.is_own
    ]
    if backbone.pooler in ("new", "untrained") and any(
        head.module.reader.resolved.pooling.is_pooler and not head.base_parameters for head in heads
    ):
        notes.append(pooler_says(backbone))
    notes += [
        f"{head.name} reads by a base model of its own, learned for the head: "
        f"{head.asked.learned_of_base(head.base_parameters, backbone.parameters)}."
        for head in heads
        if head.base_parameters
    ]
    if any(head.scores for head in heads):
        notes += filter(None, [fine_tuned_warning(backbone)])
    lucky = [h for h in heads if h.scores and h.scores.low <= h.scores.majority]
    if lucky:
        names, is_or_are = ", ".join(h.name for h in lucky), "is" if len(lucky) == 1 else "are"
        usual = lucky[0].problem.usual_answer
        notes.append(f"{names} {is_or_are} hardly better than the {usual} on new texts.")
    for one, other in combinations([head for head in heads if not head.is_own], 2):
        reads_alike = one.asked.pooling is other.asked.pooling  # most do not: told at once
        if reads_alike and same_in_training(one.asked, other.asked, backbone):
            notes.append(
                f"{one.asked} and {other.asked} are the same layers under other names: "
                "any difference between them is chance."
            )
    return notes


# --- Who agrees on what, in a sentence or two.


def verdict(predictions: Sequence[Prediction]) -> str:
    """Who agrees on what; a random head and one with classes of its own are not counted."""
    known = _known(predictions)
    if not known:
        return f"{predictions[0].name} is a random head: what it says means nothing."
    first = kinds(next((p for p in known if p.scores), known[0]).classes)
    alike = [p for p in known if kinds(p.classes) == first and not p.problem.gives_number] or known[
        :1
    ]
    if not any(p.problem.has_classes for p in known):
        return _each(known)
    others = [p for p in known if p not in alike]
    told = f" Of its own classes, {_each(others)}" if others else ""
    return _among(alike) + told


def is_unanimous(predictions: Sequence[Prediction]) -> bool:
    """Whether all heads give the same answer."""
    known = _known(predictions)
    if not all(prediction.problem.has_classes for prediction in known):
        return False  # numbers agree more or less
    return len({answer_key(prediction) for prediction in known}) <= 1


def rightness(predictions: Sequence[Prediction], expected: str) -> str:
    """Say which heads answer the class that a reader would, or "" where that is not known."""
    known = [one for one in _known(predictions) if expected in one.classes]
    if not expected or not known:
        return ""
    right = [one.name for one in known if one.answer == (expected,) and not one.is_undecided]
    if len(known) == 1 and known[0].is_undecided:
        return f"The right answer is {expected}."
    if len(known) == 1:
        return f"That is {'right' if right else f'wrong: it is {expected}'}."
    who = {0: "no head is right", len(known): "all are right"}.get(len(right))
    if who is None:
        who = f"{', '.join(right)} {'is' if len(right) == 1 else 'are'} right"
    return f"The right answer is {expected}: {who}."


def _known(predictions: Sequence[Prediction]) -> list[Prediction]:
    return [prediction for prediction in predictions if not prediction.new]


def said(prediction: Prediction) -> str:
    """What a head answers, as a reader would say it: classes, numbers, or that it is undecided."""
    if prediction.is_undecided:
        return UNDECIDED
    if not prediction.problem.gives_number:
        return spell_classes(prediction.answer)
    return spell_numbers(prediction.classes, prediction.logits)


def kinds(classes: Sequence[str]) -> frozenset[str]:
    """The classes, however they are written: POSITIVE is positive."""
    return frozenset(name.casefold() for name in classes)


def _among(predictions: Sequence[Prediction]) -> str:
    count = Counter(answer_key(prediction) for prediction in predictions)
    most, votes = count.most_common(1)[0]
    answer = next(said(p) for p in predictions if answer_key(p) == most)
    if len(predictions) == 1:
        return _each(predictions)
    if votes == len(predictions):
        everyone = "Both" if votes == 2 else f"All {votes}"
        return f"{everyone} heads agree: {answer}."
    if votes == 1:
        number = "two" if len(predictions) == 2 else f"{len(predictions)}"
        return f"The {number} heads disagree: {_each(predictions)}"
    if list(count.values()).count(votes) > 1:
        return f"The heads are split: {_each(predictions)}"
    rest = [p for p in predictions if answer_key(p) != most]
    return f"{votes} of {len(predictions)} heads agree: {answer}. {_each(rest)}"


def answer_key(prediction: Prediction) -> frozenset[str] | None:
    """Return what heads agree on: the classes of the answer; None if the head is undecided."""
    return None if prediction.is_undecided else kinds(prediction.answer)


def _each(predictions: Sequence[Prediction]) -> str:
    verbs = [
        "is" if p.is_undecided else "gives" if p.problem.gives_number else "says"
        for p in predictions
    ]
    told = zip(predictions, verbs, strict=True)
    return "; ".join(f"{p.name} {verb} {said(p)}" for p, verb in told) + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(display.Displayed):
    """What several heads say of one text, or of one pair.

    Attributes:
        model: The id of the base model, and which version of it.
        sample: The data that the heads were trained on; empty where all came with the checkpoint
            or are of a run.
        run: The id of the run that the heads are of, if one.
        classes: The names of the classes, in the order of every logit. A head that came with
            the checkpoint may have others: see its prediction.
        predictions: One a recipe, in the order asked for.
        expected: The class of the text, where it is an example of the sample; else "".
    """

    model: str
    revision: str
    text: str
    pair: str
    sample: str
    classes: tuple[str, ...]
    problem: ProblemType
    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...]
    run: str = ""
    expected: str = ""

    @property
    def verdict(self) -> str:
        """Who agrees on what, and who is right where that is known, in a sentence or two."""
        right = rightness(self.predictions, self.expected)
        return " ".join(filter(None, (verdict(self.predictions), right)))

    @property
    def is_unanimous(self) -> bool:
        """Whether all heads give the same answer."""
        return is_unanimous(self.predictions)

    def to_pandas(self) -> "DataFrame":
        """A row a recipe and class: its logit, its probability, and whether it is the answer.

        Of numbers there is no probability, and no class is the answer.
        """
        return display.data_frame(
            {
                "recipe": one.name,
                "class": name,
                "logit": one.logits[at],
                "probability": one.probabilities[at] if one.problem.has_classes else None,
                "threshold": one.thresholds[at] if one.thresholds else None,
                "is_answer": name in one.answer,
            }
            for one in self.predictions
            for at, name in enumerate(one.classes)
        )

    def plot(self) -> "Figure":
        """The probability of every class under every recipe; of numbers the numbers."""
        return display.figure(self, "answers")

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain values: the answer of `heads compare --json`."""
        return {
            "model": self.model,
            "revision": self.revision,
            "text": self.text,
            "pair": self.pair or None,
            "sample": self.sample,
            "run": self.run or None,
            "classes": list(self.classes),
            "problem_type": self.problem.name,
            "expected": self.expected or None,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "recipes": [
                {
                    "recipe": str(prediction.recipe),
                    "name": prediction.name,
                    "classes": list(prediction.classes),
                    "random": list(prediction.new),
                    "trained_on": prediction.trained_on,
                    "rows": prediction.rows,
                    "held_out": asdict(prediction.scores) if prediction.scores else None,
                    "parameters": prediction.parameters,
                    "base_parameters": prediction.base_parameters,
                    "answer": list(prediction.answer),
                    "undecided": prediction.is_undecided,
                    "output_activation": prediction.problem.output_activation,
                    "logits": list(prediction.logits),
                    "probabilities": list(prediction.probabilities),
                    "thresholds": list(prediction.thresholds),
                    "reads": [list(one) for one in prediction.reads],
                    "layers": list(prediction.layers),
                }
                for prediction in self.predictions
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadProgress(Progress):
    """How far the training of one head is.

    Attributes:
        number: The head's place among those asked for, from 0.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAnswered:
    """What one head says, or why it says nothing.

    Attributes:
        number: The head's place among those asked for, from 0.
        head: The head, calibrated; None where there is no prediction.
        prediction: None where it cannot answer, or its training was cancelled.
        error: Why it cannot answer; None where it was cancelled.
    """

    number: int
    head: TrainedHead | None = None
    prediction: Prediction | None = None
    error: HeadsError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The last event of a comparison."""

    comparison: Comparison


def iter_comparison(
    text: str,
    pair: str = "",
    options: CompareOptions = CompareOptions(),
    *,
    is_cancelled: Callable[[int], bool] | None = None,
) -> Generator[Progress | HeadAnswered | Compared, None, None]:
    """Compare heads as `heads.compare` does: progress, each head's answer, then the comparison.

    The text is encoded once, however many heads are to be trained.

    Args:
        is_cancelled: Given, heads are trained and asked one after the other; one that fails does
            not keep the others from answering, and one is left out once this is true of its number.
            If none answers, there is no comparison.
    """
    recipes, run = options.recipes or (), options.run
    names = {"base model": options.model, "sample": options.sample, "run": run}
    _check_strings({"second sentence": pair, **names})
    _check_recipes(recipes, run)
    notes = cut_notes((text, pair))
    text = check_text(text)
    pair = check_text(pair, "second sentence") if (pair or "").strip() else ""
    request = HeadRequest(
        recipes=() if run and recipes is RECIPES else recipes,  # of a run its best four
        pair=pair,
        model=options.model,
        sample=options.sample or "",
        run=run,
        pairs=options.pairs or JOINT,
        in_turn=is_cancelled is not None,
    )
    source = yield from open_heads(request)
    assert source.backbone is not None  # only classifiers come without
    if run and pair and source.corpus and not source.corpus.pairs:
        what = f"{source.corpus.name} has one text a row, and there are two."
        raise DataError(what, "Empty the second sentence.")
    inputs = HeadInputs(source.backbone, [text], [pair] if pair else [])
    if is_cancelled is None:
        answers = _ask_together(source, inputs, options.raw)
    else:
        answers = _ask_in_turn(source, inputs, options.raw, is_cancelled)
    heads, predictions = list[TrainedHead](), list[Prediction]()
    with closing(answers):
        for event in answers:
            yield event
            if not isinstance(event, HeadAnswered) or event.head is None:
                continue
            if event.prediction and event.prediction not in predictions:  # named twice in turn
                heads.append(event.head)
                predictions.append(event.prediction)
    if not heads:
        return
    if options.raw and any(head.raw for head in heads):
        notes.append("Logits are raw: not divided by the temperature found on development rows.")
    heads = [head.raw or head for head in heads] if options.raw else heads
    notes += token_notes(inputs.sequence, heads, source.backbone)
    notes += script_notes([text, pair] if pair else [text], source.backbone.tokenizer)
    notes += recipe_notes(heads, source.backbone)
    notes += joint_notes(heads) if request.pairs != JOINT else []
    first = next((head for head in heads if not head.is_own), heads[0])
    data = source.corpus.name if source.corpus and not (run or first.is_own) else ""
    yield Compared(
        comparison=Comparison(
            model=source.backbone.id,
            revision=source.backbone.revision,
            text=text,
            pair=pair,
            sample=data,
            run=run,
            classes=first.classes,
            problem=first.problem,
            predictions=tuple(predictions),
            notes=tuple(notes),
            expected=SAMPLES[data].expected_of(text, pair) if data in SAMPLES else "",
        )
    )


def _ask_together(
    source: HeadSource, inputs: HeadInputs, raw: bool
) -> Generator[Progress | HeadAnswered, None, None]:
    """Train all heads that lack it at once, then ask them."""
    classifiers = yield from source.load(source.names)
    inputs.encode([one.head for one in classifiers])
    for number, classifier in enumerate(classifiers):
        yield _answer(number, classifier.head, inputs, raw)


def _ask_in_turn(
    source: HeadSource, inputs: HeadInputs, raw: bool, is_cancelled: Callable[[int], bool]
) -> Generator[Progress | HeadAnswered, None, None]:
    """Load or train one head after the other and ask it; go on after one that fails."""
    for number, name in enumerate(source.names):
        answered = HeadAnswered(number=number)
        try:
            with closing(source.load([name])) as events:
                while not is_cancelled(number):
                    try:
                        event = next(events)
                    except StopIteration as end:
                        (classifier,) = end.value
                        inputs.encode([classifier.head])
                        answered = _answer(number, classifier.head, inputs, raw)
                        break
                    yield HeadProgress(number=number, says=event.says, share=event.share)
        except HeadsError as error:
            answered = HeadAnswered(number=number, error=error)
        yield answered


def _answer(number: int, head: TrainedHead, inputs: HeadInputs, raw: bool) -> HeadAnswered:
    asked = (head.raw or head) if raw else head
    return HeadAnswered(number=number, head=head, prediction=predict(inputs, asked))


def _check_recipes(recipes: Sequence[Recipe | str], run: str) -> None:
    if not recipes and not run:
        raise RecipeError("No recipe is chosen.", "Choose at least one, for example mean+linear.")
    if any(isinstance(recipe, Classifier) for recipe in recipes):
        raise RecipeError("A comparison takes recipes.", "Ask classifiers by an Inspector.")


def _check_strings(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"The {name} must be a text, not {type(value).__name__}.", "Type it.")
