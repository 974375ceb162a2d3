"""The main job: one or two sentences under several recipes, side by side.

The page, the shell, the API and Python ask the same function and show the same answer.
"""

import unicodedata
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.loading import loading
from heads.backbone.models import BUNDLED
from heads.backbone.states import Encoded
from heads.classifier.fine_tuned import fine_tuned_warning
from heads.classifier.inputs import HeadInputs, check_second, head_inputs
from heads.classifier.module import TrainedHead
from heads.classifier.prediction import UNDECIDED, Prediction, predict
from heads.classifier.pretrained import OWN, is_own, own_head
from heads.data.corpus import check_text
from heads.data.dataset import corpus_of
from heads.data.samples import RECIPES, SAMPLES, sample_for
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.explain.differences import same_in_training
from heads.explain.explanation import pooler_says
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import JOINT, LONG, WINDOWS, ResolvedRecipe
from heads.problem import ProblemType
from heads.recipe import Recipe
from heads.runs.folder import find
from heads.runs.grids import entering
from heads.runs.trained_heads import heads_of
from heads.runs.trainer import trained
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
        return spoken(prediction.answer)
    return counted(prediction.classes, prediction.logits)


def counted(names: Sequence[str], numbers: Sequence[float]) -> str:
    """Numbers as a reader would say them, each with its name where there are several.

    >>> counted(["label"], [-1.5]), counted(["calm", "loud"], [0.25, 3])
    ('−1.50', 'calm +0.25, loud +3.00')
    """
    told = [f"{value:+.2f}".replace("-", "−") for value in numbers]
    if len(told) == 1:
        return told[0]
    return ", ".join(map(" ".join, zip(names, told, strict=True)))


def spoken(answer: Sequence[str]) -> str:
    """The classes of an answer as a reader would say them."""
    return ", ".join(answer) or "none of the classes"


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
        many: Whether any number of classes may apply.
        predictions: One a recipe, in the order asked for.
        notes: What one should know before believing the numbers, a sentence each.
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
class Compared:
    """The last event of a comparison."""

    comparison: Comparison


def comparing(
    text: str,
    pair: str = "",
    *,
    recipes: Sequence[Recipe | str] = RECIPES,
    model: str = BUNDLED,
    sample: str = "",
    run: str = "",
    pairs: str = JOINT,
    raw: bool = False,
) -> Iterator[Progress | Compared]:
    """What `heads.compare` does, as a stream: progress while heads are trained, then the result."""
    _check_texts(("second sentence", pair), ("base model", model), ("sample", sample), ("run", run))
    pair, way = pair or "", pairs or JOINT
    notes = cut_notes((text, pair))
    text = check_text(text)
    pair = check_text(pair, "second sentence") if pair.strip() else ""
    if run:
        named = () if recipes is RECIPES else recipes or ()
        backbone, heads = _of_run(run, named, pair)
        data = ""
    else:
        chosen = _chosen(recipes or (), way)
        asked = sample or "", pair, model or BUNDLED
        backbone, heads, data = yield from _of_sample(chosen, *asked)
    if raw and any(head.raw for head in heads):
        heads = [head.raw or head for head in heads]
        notes.append("Logits are raw: not divided by the temperature found on development rows.")
    second = [pair] if pair else []
    given = _read(backbone, text, second, heads)
    notes += token_notes((given.read or backbone.encode([text], second))[0], heads, backbone)
    notes += script_notes([text, *second], backbone.tokenizer)
    notes += recipe_notes(heads, backbone)
    notes += joint_notes(heads) if way != JOINT else []
    first = next((head for head in heads if not head.is_own), heads[0])
    yield Compared(
        comparison=Comparison(
            model=backbone.id,
            revision=backbone.revision,
            text=text,
            pair=pair,
            sample=data,
            run=run,
            classes=first.classes,
            problem=first.problem,
            predictions=tuple(predict(given, heads)),
            notes=tuple(notes),
            expected=SAMPLES[data].expected_of(text, pair) if data in SAMPLES else "",
        )
    )


def _of_sample(
    chosen: Sequence[ResolvedRecipe | str], sample: str, pair: str, model: str
) -> Generator[Progress, None, tuple[Backbone, list[TrainedHead], str]]:
    """The base model, the heads on it, trained if need be, and the name of their data."""
    ours = [recipe for recipe in chosen if isinstance(recipe, ResolvedRecipe)]
    data = sample_for(sample, pair) if ours else None
    backbone = yield from loading(model)
    own = own_head(backbone) if OWN in chosen else None
    found = (yield from trained(ours, corpus_of(data), backbone)) if data else []
    remaining = iter(found)
    heads = [next(remaining) if isinstance(recipe, ResolvedRecipe) else own for recipe in chosen]
    return backbone, [head for head in heads if head is not None], data.name if data else ""


def _of_run(
    run: str, recipes: Sequence[Recipe | str], pair: str
) -> tuple[Backbone, list[TrainedHead]]:
    """The base model and heads of a run; where none is named, the best four."""
    asked, backbone, heads = heads_of(find(run, is_public=current_limits().public), recipes)
    check_number(len(heads))
    if pair and not asked.corpus.pairs:
        what = f"{asked.corpus.name} has one text a row, and there are two."
        raise DataError(what, "Empty the second sentence.")
    return backbone, list(heads.values())


def _read(
    backbone: Backbone, text: str, second: Sequence[str], heads: Sequence[TrainedHead]
) -> HeadInputs:
    for head in heads:
        check_second(head, second)
    return head_inputs(backbone, [text], second, heads)


def _check_texts(*named: tuple[str, object]) -> None:
    for what, value in named:
        if value is not None and not isinstance(value, str):
            raise DataError(f"The {what} must be a text, not {type(value).__name__}.", "Type it.")


def _chosen(recipes: Sequence[Recipe | str], way: str) -> list[ResolvedRecipe | str]:
    if isinstance(recipes, str):
        recipes = [recipes]
    check_number(len(dict.fromkeys(map(str, recipes))))
    asked = (OWN if is_own(one) else entering(resolve(one), way) for one in recipes)
    chosen = list({str(one): one for one in asked}.values())
    if not chosen:
        raise RecipeError("No recipe is chosen.", "Choose at least one, for example mean+linear.")
    check_number(len(chosen))
    return chosen


def check_number(recipes: int) -> None:
    """Raise LimitError for more heads than stand side by side."""
    limits = current_limits()
    if recipes > limits.recipes:
        what = f"{recipes} recipes are chosen; at most {limits.recipes} fit side by side here."
        raise LimitError(what, "Take some away.")
