"""The model card of a classifier: what it is, what it was trained on, how well it does.

Names and labels come from others' tables and folders: they are shown as text, never as markup.
"""

import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from heads import __version__
from heads.parts.models import BUNDLED
from heads.pipeline.assembly import TrainedHead
from heads.pipeline.backbone import Backbone
from heads.pipeline.classifier import Classifier
from heads.pipeline.hub import HUB_ID
from heads.pipeline.notation import formula

MOST_CLASSES = 50
MOST_LETTERS = 200
PACKAGES = ("torch", "transformers", "safetensors")
MARKUP = re.compile(r"([\\`*_{}\[\]()<>#!|~$&@:])")


def model_card(
    classifier: Classifier, usage: str, notes: Sequence[str], *, library: str = "transformers"
) -> str:
    """A README.md in the Hugging Face Hub's form.

    Args:
        usage: Lines of Python that load it.
        notes: What one should know besides, a sentence each.
        library: What the Hub is told to load it with.
    """
    head, backbone = classifier.head, classifier.backbone
    title = f"`{head.recipe}` on {plain(base_name(backbone))}"
    sections = {
        "How to load it": [f"```python\n{usage.strip()}\n```"],
        "What it is": _made_of(classifier),
        "What it was trained on": _trained_on(head),
        "How well it does": _scored(head),
        "What to know": ["\n".join(f"- {note}" for note in (*_limits(classifier), *notes))],
        "Made with": [", ".join(f"{name} {number}" for name, number in versions().items()) + "."],
    }
    text = [_front_matter(backbone, library), f"# {title}"]
    for name, paragraphs in sections.items():
        text += [f"## {name}", *paragraphs]
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
    is_commit = re.fullmatch(r"[0-9a-f]{40}", backbone.revision)
    return backbone.id if is_commit and HUB_ID.fullmatch(backbone.id) else ""


def formulas(classifier: Classifier) -> list[str]:
    """From states to the pooled vector, and from there to the logits, a line each."""
    order = classifier.head.module.reader.order
    parts = [part for part in (order.layers, order.pooling) if part and part.formula]
    reading = [part.told(part.formula, order.pooling_options) for part in parts]
    return [*reading, f"logits = {formula(classifier.head.module.head)}"]


def versions() -> dict[str, str]:
    """The versions of what it was made with."""
    return {"head-to-head": __version__} | {name: version(name) for name in PACKAGES}


def plain(text: str, most: int = MOST_LETTERS) -> str:
    r"""A foreign text in one line, without what Markdown or HTML would read.

    >>> plain("<b>a|b</b>\n# c")
    '\\<b\\>a\\|b\\</b\\> \\# c'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return MARKUP.sub(r"\\\1", line if len(line) <= most else line[:most] + "…")


def _front_matter(backbone: Backbone, library: str) -> str:
    base = f"base_model: {json.dumps(hub_id(backbone))}\n" if hub_id(backbone) else ""
    return (
        f"---\nlibrary_name: {library}\npipeline_tag: text-classification\n{base}"
        "tags:\n- text-classification\n- head-to-head\n---"
    )


def _made_of(classifier: Classifier) -> list[str]:
    head, backbone = classifier.head, classifier.backbone
    lines = "\n".join(f"- {line}" for line in head.module.reader.order.says)
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
    if head.is_own:
        text = f"This head came with the checkpoint {plain(head.trained_on)}; what it was trained "
        text += "on is not known here."
    kind = "any number of which may apply" if head.many else "one of which applies"
    return [text, f"{len(head.classes):,} classes, {kind}: {listed}."]


def _scored(head: TrainedHead) -> list[str]:
    scores = head.scores
    if scores is None:
        return ["Nobody has scored it here."]
    ends = f"{scores.low:.1%} to {scores.high:.1%}"
    right = "all labels of a text right" if head.many else "texts answered right"
    return [
        f"{scores.accuracy:.1%} ({right}; 95 % interval {ends}), "
        f"on {scores.rows:,} rows of the same data that it was not trained on.",
        f"Chance level, always giving the commonest answer: {scores.majority:.1%}.",
    ]


def _limits(classifier: Classifier) -> Iterator[str]:
    head, backbone = classifier.head, classifier.backbone
    if not head.is_own:
        yield "The base model was not changed (frozen); only the head was trained."
    yield f"The first {backbone.tokens:,} tokens of a text are read, and none after them."
    if head.new:
        names = ", ".join(f"`{name}`" for name in head.new)
        yield f"These tensors of the head are random, for the checkpoint lacks them: {names}."
    yield "No licence is stated here; the weights of the base model keep theirs."
