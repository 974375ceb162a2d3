"""What a change of the input does to a classifier, why, and what to do about it.

Every reason is measured on the model itself: which places its head reads, and whether the
logits are mended once the pad token is named or positions are counted from the text's first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from heads.catalog.base_models import base_of
from heads.errors import ModelError, RecipeError
from heads.interpret.padding.cases import Perturbation
from heads.interpret.padding.subject import PaddedInput, Subject

# A finding is a difference over this share of the range in which the logits lie,
SHARE = 1e-4
# over this share of their size, and over so many times what another size of the batch does.
ROUNDING, CLEARLY = 1e-5, 20.0
OTHER = {"right": "left", "left": "right"}
Remedy = Literal["", "pad", "positions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitScale:
    """What counts as a difference between a model's logits.

    Attributes:
        spread: The range in which its logits of two texts lie.
        least: The difference above which it is not rounding.
    """

    spread: float
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbationEffect:
    """What came of a case.

    Attributes:
        changes: Whether the logits change or fail to come; None where it could not be tried.
        worst: The question with the largest difference, or the one that the model did not take.
        difference: The largest difference between two logits, if there were any.
        remedy: What undoes the change: naming the pad token, or counting positions anew.
    """

    case: Perturbation
    changes: bool | None
    worst: PaddedInput
    difference: float | None = None
    error: str = ""
    remedy: Remedy = ""


def scale(subject: Subject) -> LogitScale:
    """The range of a model's logits, and how far rounding carries in them.

    Raises:
        ModelError: It cannot even read a text alone.
    """
    alone, longer = (PaddedInput(rows=(text,)) for text in subject.texts)
    logits, others = subject.logits(alone), subject.logits(longer)
    both = torch.cat([logits, others])
    noise = (logits - subject.logits(alone)).abs().max().item()
    try:
        twice = subject.logits(replace(alone, rows=2 * alone.rows))
        noise = max(noise, (logits - twice).abs().max().item())
    except ModelError:
        pass  # a case of its own
    spread, largest = (both.max() - both.min()).item(), both.abs().max().item()
    return LogitScale(spread=spread, least=max(SHARE * spread, ROUNDING * largest, CLEARLY * noise))


def outcome(subject: Subject, case: Perturbation, scale: LogitScale) -> PerturbationEffect:
    """Tries one change."""
    if case.lacks:
        return PerturbationEffect(case=case, changes=None, worst=case.plain)
    try:
        plain = subject.logits(case.plain)
    except ModelError as error:
        return PerturbationEffect(case=case, changes=None, worst=case.plain, error=error.what)
    difference, worst = 0.0, case.changed[0]
    for question in case.changed:
        try:
            found = (subject.logits(question) - plain).abs().max().item()
        except ModelError as error:
            remedy = _remedy(subject, case, question, scale)
            return PerturbationEffect(
                case=case, changes=True, worst=question, error=error.what, remedy=remedy
            )
        if found > difference:
            difference, worst = found, question
    changes = difference > scale.least
    return PerturbationEffect(
        case=case,
        changes=changes,
        difference=difference,
        worst=worst,
        remedy=_remedy(subject, case, worst, scale) if changes else "",
    )


def _remedy(subject: Subject, case: Perturbation, worst: PaddedInput, scale: LogitScale) -> Remedy:
    """What makes the logits of a padded text those of the text alone."""
    if not _is_padded(worst):
        return ""
    tries: dict[Remedy, PaddedInput] = {}
    if worst.pad == "own" and subject.pad is None:
        tries["pad"] = replace(worst, pad=subject.filler)
    if worst.masked and subject.takes("position_ids"):
        tries["positions"] = replace(worst, counted=True)
    for remedy, question in tries.items():
        try:
            difference = (subject.logits(question) - subject.logits(case.plain)).abs().max().item()
        except ModelError:
            continue
        if difference <= scale.least:
            return remedy
    return ""


def _is_padded(question: PaddedInput) -> bool:
    return bool(question.padding) or len(set(map(len, question.rows))) > 1


def reason(subject: Subject, found: PerturbationEffect) -> str:
    """Why the logits change, in one sentence."""
    if not found.changes:
        untried = "The model does not take the text alone in this way." if found.error else ""
        return found.case.lacks or untried
    if found.case.key == "repeated":
        return "It draws random numbers at every call."
    if found.error:
        return _refusal(subject, found)
    padded = _is_padded(found.worst)
    if padded and found.remedy == "pad":
        return "Its config names no pad token, so the head takes padding for the text's end."
    usual, now = subject.places(found.case.plain), subject.places(found.worst)
    if not now and padded and found.worst.side == "left" and token_of(subject) == "first":
        now = (-1,)  # where a head is saturated, one cannot see what it reads; its form says it
    return _misread(subject, found, usual, now) or _mixed(subject, found)


def _refusal(subject: Subject, found: PerturbationEffect) -> str:
    """Why the class takes no such input."""
    token = token_of(subject)
    if token == "eos" and found.case.key in ("unequal_eos", "truncated"):
        return (
            "The class reads the last end-of-text token, and wants the same number of them, "
            "and at least one, in every text of a batch."
        )
    if token == "last" and (found.worst.pad is None or found.remedy == "pad"):
        return "Without a pad token in its config the class cannot tell where each text ends."
    return "The class does not take such an input."


def _misread(
    subject: Subject, found: PerturbationEffect, usual: tuple[int, ...], now: tuple[int, ...]
) -> str:
    """What the head reads, if that is not what it reads of the text alone."""
    length = len(found.case.plain.rows[0])
    if found.case.key == "truncated":
        last = usual == (length - 1,)
        return "The head reads the text's last token, which is now another one." if last else ""
    if not now or usual == now:
        return ""
    if subject.form and subject.form.shifted and _is_padded(found.worst):
        return (
            "The head reads its decoder one place behind the text; there is no such place in a "
            "text alone, of which it reads the last."
        )
    padding = [place for place in now if not 0 <= place < length]
    if len(now) == len(padding) == 1:
        return f"The head reads the {'first' if now[0] < 0 else 'last'} place, which is padding."
    if padding:
        return "The head reads padding together with the text."
    if len(usual) == len(now) == 1:
        return f"The head reads token {now[0] + 1} of {length} instead of token {usual[0] + 1}."
    return "The head reads other tokens of the text."


def _mixed(subject: Subject, found: PerturbationEffect) -> str:
    """What changes in the states of the right tokens."""
    question = found.worst
    if found.case.key == "truncated":
        return "The tokens are read together, and one of them is missing."
    if not _is_padded(question):
        return "What it makes of a text depends on its neighbours or on the pad token's number."
    if found.remedy == "positions":
        return "It counts positions from the first place, padding included."
    if not subject.takes("attention_mask"):
        return "The class takes no attention mask, so it reads padding like text."
    if not question.masked:
        return "Without a mask it reads padding like text."
    if question.side == "left":
        return (
            "Padding in front moves the text to other positions, or is read by layers that the "
            "mask does not reach."
        )
    return "The mask does not keep padding out of all its layers."


def advice(
    subject: Subject, found: PerturbationEffect, others: Mapping[str, PerturbationEffect]
) -> str:
    """What to do, in one sentence."""
    question, key = found.worst, found.case.key
    if not found.changes:
        return ""
    if key == "repeated":
        settings = base_of(subject.model.config.model_type).settings
        fixing = ", ".join(f"config.{name} = {value}" for name, value in settings.items())
        return f"Set {fixing}." if fixing else "Call torch.manual_seed before every call."
    fixed = {
        "pad_is_eos": "Add a pad token of its own, and set model.config.pad_token_id to it.",
        "no_pad_token": "Set model.config.pad_token_id, or give one text at a time.",
        "unequal_eos": "Batch only texts with the same number of end-of-text tokens.",
        "truncated": "Let the tokenizer cut (truncation=True): it keeps the token at the end.",
    }
    # Where padding has an effect even if it is done as usual, that comes first.
    usual = others[f"{question.side}_padded"]
    as_usual = usual.changes and usual.remedy != "pad" and _is_padded(question)
    if key in fixed and not as_usual:
        return fixed[key]
    if found.remedy == "pad" and subject.filler == subject.eos:
        return "Add a pad token, and set model.config.pad_token_id to it."
    if found.remedy == "pad":
        return f"Set model.config.pad_token_id = {subject.filler}, the token that you pad with."
    if key == "no_mask" and not as_usual:
        return "Give the attention mask that the tokenizer returns."
    return _padding(question, found, others)


def _padding(
    question: PaddedInput, found: PerturbationEffect, others: Mapping[str, PerturbationEffect]
) -> str:
    other = OTHER[question.side]
    ways = []
    if others[f"{other}_padded"].changes is False:
        ways.append(f"pad on the {other} (tokenizer.padding_side = '{other}')")
    if found.remedy == "positions":
        ways.append("give position_ids that count from the text's first token")
    if not ways:
        return "Do not pad: give one text at a time, or batches of one length."
    says = ", or ".join(ways)
    return f"{says[0].upper()}{says[1:]}."


def token_of(subject: Subject) -> str:
    """Which one token the family's head reads; empty where it reads several, or none is known."""
    try:
        form, config = subject.form, subject.model.config
        return form.recipe_for(config).pooling.token if form else ""
    except RecipeError:
        return ""
