"""Which tokens of a text move a head's answer: scores that add up, checked for each text.

Legend: t tokens, c classes.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import torch
from torch import Tensor

from heads import interruption
from heads.backbone.states import Encoded, States
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import check_second
from heads.classifier.module import TrainedHead
from heads.errors import DataError, ModelError, RecipeError, did_you_mean
from heads.interpret.attribution_result import OTHERS, RUNNER_UP, Attribution, Token
from heads.interpret.budget import check_passes, passes_within, products_of
from heads.interpret.integrated_gradients import (
    NOT_TO_BE_HAD,
    ExplainedLogits,
    InputEmbeddings,
    embedding_gradients,
    input_embeddings,
    integrated,
)
from heads.interpret.outputs import check_texts
from heads.problem import ONE_VERSUS_REST

# --- What of a head's logits is explained: a class against the others, or its logit alone.


def held_against(
    head: TrainedHead, logits: Tensor, target: int, against: str
) -> tuple[str, int | None]:
    """What a class's logit is held against, and the number of its rival, if it is one."""
    is_alone = not head.problem.is_exclusive or len(logits) < 2
    if is_alone or (head.problem is ONE_VERSUS_REST and against == OTHERS):
        return "", None  # a sigmoid, or a number, sees the logit itself
    if against == OTHERS and len(logits) > 2:
        return OTHERS, None
    if against in head.classes and head.classes.index(against) != target:
        return RUNNER_UP, head.classes.index(against)
    others = logits.clone()
    others[target] = -torch.inf
    return OTHERS if against == OTHERS else RUNNER_UP, int(others.argmax())


def weights_of(logits: Tensor, target: int, against: str, rival: int | None) -> Tensor:
    """The weights of the logits (c,) in what is explained."""
    weights = torch.zeros_like(logits)
    if rival is not None:
        weights[rival] = -1.0
    elif against:
        weights -= 1 / (len(logits) - 1)
    weights[target] = 1.0
    return weights


STEPS = (32, 64, 128, 256, 512)
FEWEST = 8  # where a place does not allow 32; with fewer the scores say nothing
SMALL = 0.05  # of the logits' span: a change below it is none to speak of
SAME = 1e-4


def attributions(
    classifiers: Sequence[Classifier],
    text: str,
    pair: str = "",
    label: str = "",
    against: str = OTHERS,
) -> tuple[Attribution, ...]:
    """Take the answers of several heads to one text apart, token by token.

    Heads on one base model share its passes. A place that allows little computes fewer steps, and
    the result says how badly its scores add up.

    Args:
        label: The class that is asked about; of each head its answer, if not given.
        against: "others", their mean; "runner-up", the largest of them; or the name of a class.

    Raises:
        DataError: The text is empty, a head has no such class, or there is no such choice.
        ModelError: The base model cannot be differentiated down to its tokens.
        LimitError: It would take longer than this place allows, with however few steps.
    """
    classes = {name for one in classifiers for name in one.head.classes}
    if against not in (OTHERS, RUNNER_UP, *classes):
        what = f"A class is compared with 'others', 'runner-up' or a class, not '{against[:40]}'."
        raise DataError(what, did_you_mean(against, {OTHERS: 0, RUNNER_UP: 0}))
    texts = check_texts(text, pair)
    groups = list(_groups(classifiers))
    ladder = _ladder([[classifiers[number] for number in one] for one in groups], texts)
    found: dict[int, Attribution] = {}
    for numbers in groups:
        together = [classifiers[number] for number in numbers]
        own = _attributed(together, texts, label, against, ladder)
        found |= dict(zip(numbers, own, strict=True))
    return tuple(found[number] for number in range(len(classifiers)))


def _groups(classifiers: Sequence[Classifier]) -> Iterable[list[int]]:
    """The numbers of those that read alike: on one base model, and texts together or alone."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for number, one in enumerate(classifiers):
        key = (id(one.backbone), one.head.module.is_siamese)
        groups.setdefault(key, []).append(number)
    return groups.values()


def _ladder(groups: Sequence[Sequence[Classifier]], texts: Sequence[str]) -> tuple[int, ...]:
    """List the numbers of steps to try, as far as this place allows; raise LimitError if none."""
    tokens = [sum(map(len, _encode(one[0], texts))) for one in groups]
    products = max(products_of(one[0].backbone.model) for one in groups)
    passes = sum(n * (1 + len(one)) for n, one in zip(tokens, groups, strict=True))
    heads = sum(map(len, groups))
    what = f"Taking {heads} {'head' if heads == 1 else 'heads'} apart on {max(tokens):,} tokens"
    hint = "Shorten the text, choose fewer heads, or a smaller base model."
    check_passes(FEWEST * passes, products, what, hint)
    left = passes_within(products) // passes
    ladder = [min(STEPS[0], left)]
    for steps in STEPS[1:]:
        left -= ladder[-1]
        if left < steps:
            break
        ladder.append(steps)
    return tuple(ladder)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ground:
    """What heads on one base model share: the text at its door, and states of it and of blanks."""

    entries: tuple[InputEmbeddings, ...]
    states: tuple[States, ...]
    looked_up: tuple[States, ...]
    blanks: tuple[States, ...]

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but special tokens."""
        return all(torch.equal(entry.embeddings, entry.baseline) for entry in self.entries)


def _attributed(
    classifiers: Sequence[Classifier],
    texts: Sequence[str],
    label: str,
    against: str,
    ladder: Sequence[int],
) -> list[Attribution]:
    begun = time.perf_counter()
    ground = _ground(classifiers[0], texts)
    found = {at: _begun(one, ground, label, against) for at, one in enumerate(classifiers)}
    aims = {at: aim for at, (_, aim) in found.items() if aim}
    results = {at: attribution for at, (attribution, _) in found.items()}
    passed = time.perf_counter() - begun
    results = {at: replace(one, seconds=passed / len(results)) for at, one in results.items()}
    for steps in ladder:
        if not aims:
            break
        begun = time.perf_counter()
        scores = integrated(list(aims.values()), ground.entries, steps)
        seconds = (time.perf_counter() - begun) / len(aims)
        for at, own in zip(list(aims), scores, strict=True):
            results[at] = _scored(results[at], torch.cat(own), steps, seconds)
            if results[at].is_complete:
                del aims[at]
    return [results[at] for at in range(len(classifiers))]


@torch.no_grad()
def _ground(classifier: Classifier, texts: Sequence[str]) -> _Ground:
    backbone = classifier.backbone
    read = _encode(classifier, texts)
    if most := max(len(one.windows) for one in read):
        what = f"{classifier.recipe} reads this text in {most} windows, and gradients are of one."
        raise RecipeError(what, f"Shorten the text to {backbone.tokens} tokens.")
    entries = tuple(input_embeddings(backbone, one) for one in read)
    return _Ground(
        entries=entries,
        states=tuple(backbone.states([one.encoded]) for one in entries),
        looked_up=tuple(one.states(one.embeddings) for one in entries),
        blanks=tuple(one.states(one.baseline) for one in entries),
    )


def _begun(
    classifier: Classifier, ground: _Ground, label: str, against: str
) -> tuple[Attribution, ExplainedLogits | None]:
    """What one pass tells of a head: all but the integrated gradients, and where they aim."""
    interruption.check()
    head, module = classifier.head, classifier.head.module
    with torch.no_grad():
        logits = module(*ground.states)
        blank = module(*ground.blanks)[0]
        if not torch.allclose(logits, module(*ground.looked_up), rtol=SAME, atol=SAME):
            what = "Attributions are not to be had for "
            what += f"{classifier.backbone.id}: its logits come out differently."
            raise ModelError(what, NOT_TO_BE_HAD)
        reads = torch.cat([module.reader(states).reads[0] for states in ground.states])
    target = _target(classifier, logits[0], label)
    chosen = head.problem.chosen(logits, head.thresholds)[0]
    held, rival = held_against(head, logits[0], target, against)
    weights = weights_of(logits[0], target, held, rival)
    pulled = embedding_gradients(module, weights, ground.entries)
    times_input = [
        (gradient * one.embeddings[0]).sum(dim=-1)
        for gradient, one in zip(pulled.gradients if pulled else (), ground.entries, strict=False)
    ]
    attribution = Attribution(
        name=head.name,
        label=classifier.classes[target],
        answer=() if head.problem.gives_number else tuple(compress(classifier.classes, chosen)),
        logit=float(logits[0, target]),
        baseline=float(blank[target]),
        against=held,
        rival="" if rival is None else classifier.classes[rival],
        value=float(logits[0] @ weights),
        value_on_blanks=float(blank @ weights),
        # How far the logits lie apart; of a single number, how far it is from 0.
        span=float(logits.max() - logits.min() if len(logits[0]) > 1 else logits.abs().max()),
        blank=ground.entries[0].blank,
        tokens=_tokens(ground.entries, torch.cat(times_input) if times_input else None, reads),
        why_not=""
        if pulled
        else f"{classifier.recipe} counts votes, which no small change of a text moves, so it has "
        "no gradient: see its nearest training examples instead.",
        unread=sum(one.encoded.whole_length - len(one.encoded) for one in ground.entries),
    )
    if pulled is None or ground.is_blank:
        return attribution, None
    return attribution, ExplainedLogits(module=module, weights=weights, pull=pulled)


def _target(classifier: Classifier, logits: Tensor, label: str) -> int:
    """The number of the class that is asked about."""
    if not label:
        return int(logits.argmax())
    alike = [n for n, name in enumerate(classifier.classes) if name.casefold() == label.casefold()]
    if not alike:
        what = f"{classifier.recipe} has no class '{label[:60]}'."
        raise DataError(what, did_you_mean(label, dict.fromkeys(classifier.classes)))
    return alike[0]


def _scored(begun: Attribution, scores: Tensor, steps: int, seconds: float) -> Attribution:
    """The same with the scores of its tokens, and how well they add up."""
    change = begun.value - begun.value_on_blanks
    gap = abs(float(scores.double().sum()) - change)
    is_small = abs(change) < SMALL * begun.span
    scale = max(begun.span if is_small else abs(change), 1e-9)
    pairs = zip(begun.tokens, scores.tolist(), strict=True)
    return replace(
        begun,
        tokens=tuple(replace(token, score=score) for token, score in pairs),
        completeness_error=gap / scale,
        measured_on="logits" if is_small else "change",
        steps=steps,
        seconds=begun.seconds + seconds,
    )


def _tokens(
    entries: Sequence[InputEmbeddings], times_input: Tensor | None, reads: Tensor
) -> tuple[Token, ...]:
    words = [word for one in entries for word in one.backbone.words(one.encoded)]
    gradients = reads.new_zeros(len(words)) if times_input is None else times_input
    return tuple(
        Token(text=word, side=side, score=0.0, gradient_times_input=gradient, read=read)
        for word, side, gradient, read in zip(
            words, _sides(entries), gradients.tolist(), reads.tolist(), strict=True
        )
    )


def _sides(entries: Sequence[InputEmbeddings]) -> list[str]:
    """For each token to which of two texts it belongs; special ones stand between and around."""
    sides = []
    for number, one in enumerate(entries):
        passed = False  # whether the first text has begun
        second = number == 1
        for special in one.special.tolist():
            second = second or (special and passed)
            passed = passed or not special
            sides.append("" if special else "pair" if second else "text")
        if one.backbone.prompt:  # its [MASK] stands behind the texts and belongs to neither
            last = max(at for at, special in enumerate(one.special.tolist()) if not special)
            sides[last - len(one.special)] = ""
    return sides


def _encode(classifier: Classifier, texts: Sequence[str]) -> list[Encoded]:
    """Encode one or two texts as a head reads them; raise DataError if it lacks a second."""
    check_second(classifier.head, texts[1:])
    if classifier.head.module.is_siamese:
        return classifier.backbone.encode(texts)
    return classifier.backbone.encode(texts[:1], texts[1:])
