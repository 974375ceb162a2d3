"""Five questions that people ask about classification heads, each with an answer measured here.

One run on the sample `sentiment` scores every head of the tour on the same rows, so that the heads
of a question are compared by a paired difference. Only definitions are written down.
"""

import hashlib
import shutil
import uuid
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heads import display, plugins
from heads.backbone.loading import load as load_model
from heads.backbone.models import BUNDLED
from heads.caching import make_room
from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.significance import Difference, compare
from heads.events import Progress
from heads.interfaces.views.format import apart
from heads.interpret.comparison import Compared, Comparison, iter_comparison
from heads.interpret.differences import apart_by_name
from heads.interpret.explanation import pooler_says
from heads.options import CompareOptions
from heads.parts.resolve import resolve
from heads.runs.cells import answers_of_cell, kept
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard, leaderboard
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest, load
from heads.settings import ExperimentConfig, cache_folder, current_limits, use_limits

SAMPLE = "sentiment"
CONFIG = ExperimentConfig(curve=False)
ROOM_BYTES, UNUSED_SECONDS = 50_000_000, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TourQuestion:
    """A question that people ask of heads."""

    asks: str  # the question
    guess: str  # what to guess first, of the first head against the second
    heads: tuple[str, ...]  # the two that are compared, and then those that are shown beside them
    text: str  # the text that they classify
    says: str  # what is true of them by definition
    asked_in: tuple[str, ...]  # threads in which it was asked, such as transformers #8776


QUESTIONS: tuple[TourQuestion, ...] = (
    TourQuestion(
        asks="What is the extra dense layer of a classification head for?",
        guess="The base model is frozen. Does RoBERTa's dense layer with its tanh classify "
        "more texts correctly than one linear layer, both on the first token?",
        heads=("cls+roberta", "cls+linear"),
        text="I expected more, but the ending won me over.",
        says="A dense layer with a tanh lets the head bend what it reads before it is cut by "
        "straight lines. One linear layer has only the lines.",
        asked_in=("transformers #8776", "transformers #14817", "fairseq #2390"),
    ),
    TourQuestion(
        asks="Why do heads differ from family to family, and which of their weights are trained?",
        guess="BERT's dense layer starts as the pooler of the checkpoint, RoBERTa's is new. Once "
        "both are trained, is BERT's head right more often?",
        heads=("cls+bert", "cls+roberta"),
        text="The train left on time, for once.",
        says="Both compute the same function: dense, tanh, linear. They differ in the weights that "
        "training starts from and in where dropout is applied. The pooler is pretrained in BERT's "
        "own checkpoints, by next-sentence prediction; a head's other layers are always new.",
        asked_in=("transformers #5421", "transformers #8887", "transformers #14017"),
    ),
    TourQuestion(
        asks="Logits or probabilities: one classifier, or one for each class?",
        guess="One softmax over all classes, or one yes-or-no question a class (one versus rest) "
        "with the same linear layer: is the softmax right more often?",
        heads=("mean+linear", "mean+linear?loss=ovr"),
        text="Great, another delay.",
        says="Logits are what the last layer gives. Softmax makes them compete; a sigmoid asks of "
        "each alone, so several classes may say yes, or none.",
        asked_in=("transformers #4418",),
    ),
    TourQuestion(
        asks="Does a BERT classifier read [CLS], and what is the pooler?",
        guess="The pooler is a dense layer with a tanh on [CLS]. Is a linear layer on its output "
        "right more often than one on [CLS] itself?",
        heads=("pooler+linear", "cls+linear"),
        text="Too good to be true.",
        says="BertForSequenceClassification reads [CLS] through BertPooler, which is pretrained in "
        "BERT's own checkpoints. Many later checkpoints never trained it, or have none.",
        asked_in=("transformers #1328", "transformers #7540", "transformers #4048", "bert #43"),
    ),
    TourQuestion(
        asks="First token, last token, mean, or the largest of all?",
        guess="One linear layer on each. Is the mean of all tokens right more often than the "
        "first token?",
        heads=("mean+linear", "cls+linear", "last+linear", "max+linear"),
        text="I expected more, but the ending won me over.",
        says="What a base model was trained to put where decides: this one was trained to make "
        "the mean of its tokens the meaning of a sentence.",
        asked_in=("transformers #16651", "sentence-transformers #3208", "flair #2179"),
    ),
)
HEADS = tuple(dict.fromkeys(head for question in QUESTIONS for head in question.heads))
CHOICES = ("Yes, it is better.", "No significant difference.", "No, the other is better.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStep:
    """A question with what was measured."""

    question: TourQuestion  # the question
    difference: Difference  # score of the first head less that of the second, on the same rows
    right: int  # the right one of `CHOICES`, from 0
    scores: tuple[tuple[str, float], ...]  # the score of each head of the step, on held-out rows
    rows: int  # the number of those rows
    comparison: Comparison  # the comparison of the heads on its text
    apart: str  # how the first two differ, derived from their layers

    def describe_scores(self, metric: Metric, where: str = "") -> str:
        """Return the score of each head with the name of the metric."""
        scores = ", ".join(f"{name} {metric.told(score)}" for name, score in self.scores)
        return f"{metric.title}{where}: {scores}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour(display.Displayed):
    """The five steps, and the run that they were measured by."""

    steps: tuple[TourStep, ...]
    board: Leaderboard

    def __repr__(self) -> str:
        return f"<Tour of {len(self.steps)} questions on {self.board.data}>"

    def save(self, to: str | Path, address: str = "") -> Path:
        """Write it as one HTML file, as `heads.save_story` does."""
        return plugins.load("heads.extras.talks.verbs:save_story")(self, to, address=address)

    def describe(self) -> display.Description:
        """Return what shell and notebook show: every question with what was measured."""
        metric = SCORES[self.board.metric]
        blocks = list[str]()
        for number, step in enumerate(self.steps, start=1):
            difference, rows = step.difference, f"95 % interval, on {step.rows:,} rows"
            names = f"{difference.name} minus {difference.other}"
            blocks += [
                f"{number}. {step.question.asks}",
                f"   {step.question.guess}",
                f"   {CHOICES[step.right]} {names}: {apart(difference, metric)}, {rows}. "
                f"{step.describe_scores(metric)}.",
            ]
        title = f"Five questions about heads, measured on {self.board.data}"
        return display.Description(title=title, blocks=tuple(blocks))

    def as_json(self) -> dict[str, Any]:
        """Return the questions with what was measured, as plain values."""
        steps = [
            {
                "question": step.question.asks,
                "guess": step.question.guess,
                "answer": CHOICES[step.right],
                "difference": asdict(step.difference),
                "scores": dict(step.scores),
                "rows": step.rows,
                "text": step.question.text,
                "verdict": step.comparison.verdict,
            }
            for step in self.steps
        ]
        board = self.board
        return {"data": board.data, "model": board.model, "metric": board.metric, "steps": steps}


def iter_tour() -> Generator[Progress, None, Tour]:
    """Yield progress and return the tour; its heads are trained unless they were before."""
    board = yield from _load_board()
    steps = []
    for number, question in enumerate(QUESTIONS):
        yield Progress(says=f"Asking: {question.asks}", share=0.7 + 0.06 * number)
        steps.append(_measure(question, board))
    return Tour(steps=tuple(steps), board=board)


def _measure(question: TourQuestion, board: Leaderboard) -> TourStep:
    # The heads of the run, whose scores the step reports: those of the sample are scored elsewhere.
    options = CompareOptions(recipes=question.heads, run=str(board.folder.path))
    with use_limits(replace(current_limits(), public=False)):  # no visitor chooses this path
        *_, event = iter_comparison(question.text, options=options)
    assert isinstance(event, Compared)
    expected = SAMPLES[SAMPLE].expected_of(question.text, "")
    comparison = replace(event.comparison, run="", sample=SAMPLE, expected=expected)
    first, other = names = question.heads[:2]
    # These two alone: the board compares all pairs.
    run, spec = board.folder, load(board.folder)
    answers = [answers_of_cell(run, spec.names.index(name), name).answers for name in names]
    compared = compare(answers, spec.task, reference=other, seed=spec.config.seed)
    difference = compared.between(first, other)
    assert difference is not None
    reads_pooler = any(head.startswith("pooler+") or head.endswith("+bert") for head in names)
    pooler = pooler_says(load_model(BUNDLED)) if reads_pooler else ""
    return TourStep(
        question=question,
        difference=difference,
        right=1 if not difference.differs else 0 if difference.difference > 0 else 2,
        scores=tuple((head, board.cell(head).measures.score) for head in question.heads),
        rows=board.cell(first).measures.rows,
        comparison=comparison,
        apart=" ".join(filter(None, (apart_by_name(first, other).says, pooler))),
    )


def _load_board() -> Generator[Progress, None, Leaderboard]:
    """Yield progress and return the run of the tour; trained now, unless it was before."""
    # A folder that other heads, another sample or another base model would not share.
    facts = [BUNDLED, SAMPLES[SAMPLE].path.read_text("utf-8"), *HEADS]
    facts += [str(resolve(head)) for head in HEADS]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    run = RunFolder(path=cache_folder() / "tour" / name)
    if _is_whole(run):
        return leaderboard(run)
    made = run.path.with_name(f"making-{uuid.uuid4().hex}")
    try:
        data = read(SAMPLES[SAMPLE].path)
        request = RunRequest(data=data, recipes=HEADS, config=CONFIG)
        for event in working(begin(request, out=made)):
            if isinstance(event, Progress):
                says = f"Training the heads of the tour: {event.says}"
                yield Progress(says=says, share=0.7 * event.share)
        if not _is_whole(run):  # else another visitor has made it meanwhile, and reads it now
            shutil.rmtree(run.path, ignore_errors=True)
            made.replace(run.path)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    make_room(run.path.parent, ROOM_BYTES, UNUSED_SECONDS)
    return leaderboard(run)


def _is_whole(run: RunFolder) -> bool:
    is_begun = (run.path / "run.json").is_file()
    return is_begun and all(kept(run, number) for number in range(len(HEADS)))
