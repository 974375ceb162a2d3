"""The model card of a classifier: what it is, what it was trained on, how well it does.

Names and labels come from others' tables and folders: they are shown as text, never as markup.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from heads import __version__
from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED
from heads.classifier.calibration import CALIBRATED
from heads.classifier.classifier import Classifier
from heads.classifier.config_extras import shares
from heads.classifier.fine_tuned import fine_tuned_warning
from heads.classifier.module import Refit, TrainedHead
from heads.data.hub_datasets import source
from heads.evaluation.metrics import score_called
from heads.evaluation.statistics import Scores
from heads.hub import HUB_ID
from heads.parts.modules import formula
from heads.parts.registry import pairing
from heads.parts.resolved_recipe import TUNE
from heads.problem import ONE_VERSUS_REST

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TRANSFORMERS = "transformers"
MOST_CLASSES = 50
MOST_LETTERS = 200
PACKAGES = ("torch", "transformers", "safetensors")
MARKUP = re.compile(r"([\\`*_{}\[\]()<>#!|~$&@:])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What is known of a classifier that is put onto the Hub, besides what it is.

    Attributes:
        repo: Where, as owner/name.
        license: Its licence as the Hub names it, or "" for none that is stated.
        language: The languages of its texts, by their codes.
        source: Of a data set of the Hub its name down to the commit; else "".
    """

    repo: str
    license: str = ""
    language: tuple[str, ...] = ()
    source: str = ""


def model_card(
    classifier: Classifier,
    usage: str,
    notes: Sequence[str],
    *,
    library: str = TRANSFORMERS,
    is_adapter: bool = False,
    has_code: bool = False,
    published: Publication | None = None,
) -> str:
    """A README.md in the Hugging Face Hub's form.

    Args:
        usage: Lines of Python that load it.
        notes: What one should know besides, a sentence each.
        library: What the Hub is told to load it with.
        is_adapter: Whether what was learned of the base model lies beside it, not in it.
        has_code: Whether its class lies in the folder.
        published: What is said of it on the Hub besides.
    """
    head, backbone = classifier.head, classifier.backbone
    licence = published.license if published else ""
    known = [f"- {note}" for note in (*_limits(classifier, is_adapter), _licensed(licence), *notes)]
    title = f"`{head.recipe}` on {plain(base_name(backbone))}"
    warning = filter(None, [fine_tuned_warning(backbone) if head.scores else ""])
    sections: dict[str, list[str]] = {
        "How to load it": [f"```python\n{usage.strip()}\n```"],
        "What it is": _made_of(classifier),
        "What it was trained on": _trained_on(head),
        "How well it does": [*warning, *_scored(head)],
        "Which labels it gives": _given(head),
        "What to know": ["\n".join(known)],
        "Made with": [", ".join(f"{name} {number}" for name, number in versions().items()) + "."],
    }
    text = [_metadata(classifier, library, published, has_code=has_code), f"# {title}"]
    for name, paragraphs in sections.items():
        text += [f"## {name}", *paragraphs] if paragraphs else []
    return "\n\n".join(text) + "\n"


def base_name(backbone: Backbone) -> str:
    """What others know a base model by: its id on the Hub, or the last name of its folder."""
    if hub_id(backbone):
        return hub_id(backbone)
    return Path(backbone.id).name or "a base model"


def hub_id(backbone: Backbone) -> str:
    """The base model's id on the Hub, or nothing."""
    if backbone.id == BUNDLED:
        return f"sentence-transformers/{BUNDLED}"
    is_commit = re.fullmatch(r"[0-9a-f]{40}", backbone.untuned.revision)
    return backbone.id if is_commit and HUB_ID.fullmatch(backbone.id) else ""


def formulas(classifier: Classifier) -> list[str]:
    """From states to the pooled vector, and from there to the logits, a line each."""
    resolved = classifier.head.module.reader.resolved
    parts = [part for part in (resolved.layers, resolved.pooling) if part and part.formula]
    reading = [part.told(part.formula, resolved.pooling_options) for part in parts]
    if resolved.pair:
        both = f"then h = {pairing[resolved.pair].formula}, u and v that of first and second text"
        reading.append(both)
    return [*reading, f"logits = {formula([layer for _, layer in classifier.head.layers])}"]


def versions() -> dict[str, str]:
    """The versions of what it was made with."""
    return {"head-to-head": __version__} | {name: version(name) for name in PACKAGES}


def plain(text: str, most: int = MOST_LETTERS) -> str:
    r"""A foreign text in one line, without what Markdown or HTML would read.

    >>> plain("<b>a|b</b>\n# c")
    '\\<b\\>a\\|b\\</b\\> \\# c'
    """
    return MARKUP.sub(r"\\\1", one_line(text, most))


def one_line(text: str, most: int = MOST_LETTERS) -> str:
    r"""A foreign text in one line and as it is, for YAML, which escapes what it must by itself.

    >>> one_line("my_data:\n- x", most=10)
    'my_data: -…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[:most] + "…"


# What the Hub calls the metrics that it knows; others keep their name.
HUB_METRICS = {
    "mcc": "matthews_correlation", "spearman": "spearmanr", "pearson": "pearsonr",
    "macro_f1": "f1", "micro_f1": "f1", "weighted_f1": "f1", "samples_f1": "f1",
    "r2": "r_squared", "neg_mean_squared_error": "mse", "neg_mean_absolute_error": "mae",
}  # fmt: skip


def _metadata(
    classifier: Classifier, library: str, published: Publication | None, *, has_code: bool
) -> str:
    """What the Hub reads of a model: what it is, what loads it, its data and its scores."""
    from huggingface_hub import ModelCardData

    about = published or Publication(repo="")
    of_hub = source(about.source).repo if about.source else ""
    head, base = classifier.head, base_name(classifier.backbone)
    tags = ["text-classification", "head-to-head"] + ["custom_code"] * has_code
    values = {
        "library_name": library,
        # Of other libraries the pipeline of Transformers loads nothing.
        "pipeline_tag": "text-classification" if library == TRANSFORMERS else None,
        "license": about.license or None,
        "language": list(about.language) or None,
        "datasets": [of_hub] if of_hub else None,
        "base_model": hub_id(classifier.backbone) or None,
        "tags": tags,
    }
    if head.scores:
        name = about.repo.rpartition("/")[2] or one_line(f"{head.recipe} on {base}")
        values |= {"model_name": name, "eval_results": [_result(head, about, head.scores)]}
    data = ModelCardData(**{name: value for name, value in values.items() if value is not None})
    return f"---\n{data.to_yaml()}\n---"


def _result(head: TrainedHead, published: Publication, scores: Scores) -> "EvalResult":
    """The score of a head in the Hub's form, with its interval."""
    from huggingface_hub import EvalResult

    metric = score_called(scores.metric)
    title = metric.title if metric else "Accuracy"
    # A score of an error is negated, so that more is better.
    sign = -1 if metric and metric.scale == "error" else 1
    dataset = source(published.source) if published.source else None
    low, high = sorted(sign * end for end in (scores.low, scores.high))
    is_mean = head.refit.trainings > 1 if head.refit else scores.own is not None
    many = "mean of several trainings, one a fold or seed, " * is_mean
    interval = f"95 % interval {low:.4f} to {high:.4f}, {scores.rows:,} rows"
    return EvalResult(
        task_type="text-classification",
        task_name="Text Classification",
        dataset_type=dataset.repo if dataset else one_line(head.trained_on),
        dataset_name=one_line(head.trained_on),
        dataset_config=dataset.config if dataset else None,
        dataset_split=(dataset.split or None) if dataset else None,
        dataset_revision=dataset.revision if dataset else None,
        metric_type=HUB_METRICS.get(scores.metric, scores.metric),
        metric_name=f"{title} ({many}{interval})",
        metric_value=round(sign * scores.accuracy, 4),
    )


def _licensed(licence: str) -> str:
    if licence:
        return (
            f"Its licence is stated as {plain(licence)}; the weights of the base model keep theirs."
        )
    return "No licence is stated here; the weights of the base model keep theirs."


def _made_of(classifier: Classifier) -> list[str]:
    head, backbone = classifier.head, classifier.backbone
    lines = "\n".join(f"- {line}" for line in head.says)
    return [
        f"A text classifier: the recipe `{head.recipe}` on {plain(base_name(backbone))}, "
        f"a {backbone.model_type} of {backbone.layers} layers and width {backbone.width}.",
        lines,
        "```\n" + "\n".join(formulas(classifier)) + "\n```",
        f"The head has {head.parameters:,} numbers, the base model {backbone.parameters:,}.",
    ]


def _trained_on(head: TrainedHead) -> list[str]:
    names = [plain(name) for name in head.classes[:MOST_CLASSES]]
    more = len(head.classes) - len(names)
    listed = ", ".join(names) + (f", and {more:,} more" if more else "")
    text = f"{plain(head.trained_on)}, {head.rows:,} rows."
    if head.refit:
        text += " These are all rows: it was trained again on them after its recipe was scored, "
        text += "with the settings chosen then."
    if head.is_own:
        text = f"This head came with the checkpoint {plain(head.trained_on)}; what it was trained "
        text += "on is not known here."
    if not head.problem.has_classes:
        return [text, f"It was trained to give a number: {listed}."]
    kind = "one of which applies" if head.problem.is_exclusive else "any number of which may apply"
    return [text, f"{len(head.classes):,} classes, {kind}: {listed}."]


def _scored(head: TrainedHead) -> list[str]:
    scores = head.scores
    if scores is None:
        return ["Nobody has scored it here."]
    name = score_called(scores.metric)
    low, high, mean, chance = (
        f"{value:.1%}" if name is None or name.is_share else name.told(value)
        for value in (scores.low, scores.high, scores.accuracy, scores.majority)
    )
    of = ""
    if scores.own is not None:
        of = " That is the mean of several trainings of this recipe, one a fold or a seed."
    if head.refit:
        of = f" That is the {'mean' if head.refit.trainings > 1 else 'score'} of "
        of += _scored_trainings(head.refit, head.rows)
    right = "all labels of a text right" if head.problem.has_label_sets else "texts answered right"
    says = right if name is None or scores.metric == "accuracy" else name.noun
    always = "the commonest answer" if head.problem.has_classes else "the same number"
    return [
        f"{mean} ({says}; 95 % interval {low} to {high}), "
        f"on {scores.rows:,} rows of the same data, none by a head that was trained on it.{of}",
        f"Chance level, always giving {always}: {chance}.",
        *_cautions(head.refit.trainings == 1 if head.refit else scores.own is None, scores.among),
    ]


def _scored_trainings(refit: Refit, rows: int) -> str:
    """Return which trainings a score is of, where the head has learned from more rows since."""
    share = f"about {refit.rows:,} rows each, {refit.rows / rows:.0%} of them"
    many = "one head" if refit.trainings == 1 else f"{refit.trainings} heads of this recipe"
    told = f"{many} that learned from {share}. This very head learned from all {rows:,} afterwards "
    return told + "and was scored on none; in the run the scored head still answers."


def _cautions(is_single: bool, among: int) -> Iterator[str]:
    """What a score and its interval do not tell."""
    if is_single:
        yield (
            "The interval is for new texts of the kind that was tested; the head was trained once, "
            "and luck in training is not in it."
        )
    else:
        yield (
            "The interval is for new texts of the kind that was tested and for training again on "
            "rows of this very data: other rows to learn from would give another head, and where a "
            "test set was given that luck is not in it."
        )
    if among > 1:
        yield (
            f"{among:,} heads were scored on these rows. If this one was chosen because it scored "
            "highest, its score is a little too good, since the same rows chose it: score it once "
            "on other rows for a figure of its own."
        )


def _given(head: TrainedHead) -> list[str]:
    """From which probability each label is given, where that was tuned."""
    if not head.thresholds:
        return []
    found = shares(head.classes, head.thresholds)
    rows = [f"| {plain(name)} | {share:.3f} |" for name, share in [*found.items()][:MOST_CLASSES]]
    more = len(found) - len(rows)
    text = "A label is given above its own probability, found on rows set aside in training"
    text += f" ({more:,} more are in its files)." if more else "."
    return [text, "\n".join(["| label | given above |", "|---|---|", *rows])]


def _learned_of_base(head: TrainedHead, backbone: Backbone, is_adapter: bool) -> str:
    """What was learned of the base model, how much of it, and by which settings."""
    resolved, settings = head.asked, cast("Mapping[str, Any]", head.chosen)
    if not resolved.is_tuned:
        return "The base model was not changed (frozen); only the head was trained."
    how_much = resolved.learned_of_base(head.base_parameters, backbone.parameters)
    when = "on pairs of texts, before the head" if resolved.tuning.paired else "with the head"
    told = [f"The base model was learned {when} (`{TUNE}={resolved.tune}`): {how_much}"]
    if "base_rate" in settings:
        told.append(f"in {_passes(settings['base_epochs'])} over the rows, with a")
        told.append(f"learning rate of {settings['base_rate']:.2g}")
    elif "epochs" in settings:
        rates = settings["learning_rate"], settings["head_rate"]
        told.append(f"in {_passes(settings['epochs'])} over the rows, with a")
        told.append("learning rate of {:.2g} ({:.2g} for the head)".format(*rates))
    merged = " They are merged into its weights." * (resolved.tuning.adapter and not is_adapter)
    return f"{' '.join(told)}.{merged}"


def _passes(epochs: float) -> str:
    return f"{epochs:g} pass{'' if epochs == 1 else 'es'}"


def _reads(head: TrainedHead, backbone: Backbone) -> Iterator[str]:
    """How much of a text is read, and whether there are two."""
    windows = f", in windows of {backbone.tokens:,}" if backbone.stride is not None else ""
    if not backbone.is_given:
        reach = f"The first {backbone.reach:,} tokens of a text are read"
        yield f"{reach}{windows}, and none after them."
    if backbone.prefix:
        told = plain(json.dumps(backbone.prefix, ensure_ascii=False))
        yield f"Before every text its loader writes {told}."
    if head.module.is_siamese:
        yield "It compares two texts, each of which is read by itself: it needs both."
    elif head.paired:
        yield "It learned from two texts a row, read as one sequence: it needs both."


def _limits(classifier: Classifier, is_adapter: bool) -> Iterator[str]:
    head, backbone = classifier.head, classifier.backbone
    if not head.is_own:
        yield _learned_of_base(head, backbone, is_adapter)
    yield from _reads(head, backbone)
    if head.problem is ONE_VERSUS_REST:
        yield "Each class is a yes-or-no question; its probability is the share of the sum of all."
    if head.temperature != 1:
        of = "the logarithms of its sigmoids" if head.problem is ONE_VERSUS_REST else "its logits"
        but = "the probabilities above are for logits as they are" if head.thresholds else ""
        yield (
            f"Its probabilities fitted rows set aside in training best with {of} divided by "
            f"{head.temperature:.3g} (temperature scaling); {but or 'that changes no answer'}."
        )
    divided = head.chosen.get(CALIBRATED)
    if isinstance(divided, float):
        yield (
            f"It is calibrated: its last layer was divided by the temperature {divided:.3g}, "
            "found on rows set aside in training."
        )
    if head.new:
        names = ", ".join(f"`{name}`" for name in head.new)
        yield f"These tensors of the head are random, for the checkpoint lacks them: {names}."
