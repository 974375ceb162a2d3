"""What one should know before believing a comparison, a sentence each."""

from collections.abc import Sequence
from itertools import combinations

from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded
from heads.classifier.module import TrainedHead
from heads.pipeline.differences import same_in_training
from heads.settings import Limits


def cut_notes(texts: Sequence[str], limits: Limits) -> list[str]:
    """Of texts that are longer than this place reads."""
    most = limits.text_characters
    return [
        f"Only the first {most:,} of {len(text):,} characters were read."
        for text in texts
        if isinstance(text, str) and len(text) > most
    ]


def token_notes(encoded: Encoded) -> list[str]:
    """Of a text that has more tokens than the base model reads."""
    if encoded.whole_length <= len(encoded):
        return []
    return [f"Only the first {len(encoded):,} of {encoded.whole_length:,} tokens were read."]


def joint_notes(heads: Sequence[TrainedHead]) -> list[str]:
    """Of heads that cannot read two sentences each by itself."""
    return [
        f"{head.recipe} reads the two sentences as one sequence: it learns from all their tokens."
        for head in heads
        if head.module.reader.order.needs_states and not head.is_own
    ]


def recipe_notes(heads: Sequence[TrainedHead], backbone: Backbone) -> list[str]:
    """Of heads that are random, give numbers, hardly learn, or are the same as another."""
    notes = [
        f"{backbone.id} came without a trained head, so what 'own' shows is random: "
        "its probabilities mean nothing."
        for head in heads
        if head.new
    ]
    notes += [
        f"The head that {backbone.id} came with gives numbers, not classes: read its logits."
        for head in heads
        if head.numbers and head.is_own
    ]
    if backbone.pooler == "new" and any(head.recipe.pooling == "pooler" for head in heads):
        notes.append(f"{backbone.id} has no pretrained pooler: 'pooler' reads random weights.")
    lucky = [str(h.recipe) for h in heads if h.scores and h.scores.low <= h.scores.majority]
    if lucky:
        is_or_are = "is" if len(lucky) == 1 else "are"
        notes.append(f"{', '.join(lucky)} {is_or_are} hardly better than guessing on new texts.")
    for one, other in combinations([head for head in heads if not head.is_own], 2):
        reads_alike = one.recipe.pooling == other.recipe.pooling  # most do not: told at once
        if reads_alike and same_in_training(one.recipe, other.recipe, backbone):
            notes.append(
                f"{one.recipe} and {other.recipe} are the same layers under other names: "
                "any difference between them is chance."
            )
    return notes
