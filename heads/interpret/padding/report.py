"""The padding check: which harmless-looking changes of its input change a classifier's logits.

Every change is measured against the same text alone, on the class of Transformers as it is.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from heads import display
from heads.backbone.models import CHOOSE_ANOTHER
from heads.errors import ModelError, RecipeError
from heads.interpret.budget import check_passes, products_of
from heads.interpret.padding.cases import perturbations
from heads.interpret.padding.reasons import (
    LogitScale,
    PerturbationEffect,
    advice,
    outcome,
    reason,
    scale,
)
from heads.interpret.padding.subject import PaddedInput, Subject
from heads.interpret.padding.subject import subject_of as admitted

if TYPE_CHECKING:
    from pandas import DataFrame

TRIES = 3  # how often a question is put, about: as it is, mended, and to see what is read


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingFinding:
    """What one change of the input does.

    Attributes:
        case: Its name: repeated, right_padded, left_padded, in_batch, no_mask, ends_in_eos,
            pad_is_eos, unequal_eos, no_pad_token or truncated.
        changes: Whether the logits change or fail to come; None where it could not be tried. Where
            they do, `why` and `advice` are a sentence each.
        difference: The largest difference between two logits; None where there are none.
        relative: The same as a share of the range in which the model's logits lie.
        error: What the model said when it did not take the input; empty if it did.
    """

    case: str
    title: str
    changes: bool | None
    difference: float | None
    relative: float | None
    why: str
    advice: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingReport(display.Displayed):
    """The findings of the padding check.

    Attributes:
        model: What was examined: an id, a folder or a family.
        tiny: Whether it is a small random model that stands for its family.
        head_is_new: Whether its head, or a part of it, is random as the checkpoint lacks it.
        recipe: The recipe that equals the class; empty where `no_recipe` says why there is none.
        spread: The range in which its logits lie.
        least: The difference above which it is a finding, and not rounding.
    """

    model: str
    model_type: str
    class_name: str
    tiny: bool
    head_is_new: bool
    recipe: str
    no_recipe: str
    spread: float
    least: float
    findings: tuple[PaddingFinding, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """All findings in one sentence."""
        tried = [finding for finding in self.findings if finding.changes is not None]
        stops = sum(bool(finding.error) for finding in tried)
        alter = sum(bool(finding.changes) for finding in tried) - stops
        many = str(alter) if alter else "None"
        verb = "alter" if alter > 1 else "alters"
        says = f"{many} of {len(tried)} changes {verb} the logits of {self.class_name}"
        return says + (f", and {stops} {'stop' if stops > 1 else 'stops'} it." if stops else ".")

    def to_pandas(self) -> "DataFrame":
        """A row a change of the input, and what it does to the logits."""
        return display.data_frame(map(asdict, self.findings))

    def as_json(self) -> dict[str, Any]:
        """Plain values, the verdict among them."""
        values = asdict(self) | {"verdict": self.verdict, "notes": list(self.notes)}
        return values | {"findings": [asdict(finding) for finding in self.findings]}


def examine(model: str) -> PaddingReport:
    """What `heads.examine` does: every change of the input, its effect, and the reason."""
    subject = admitted(model)
    cases = list(perturbations(subject))
    tokens = sum(one.tokens for case in cases for one in (case.plain, *case.changed))
    asked = TRIES * tokens, products_of(subject.model.base_model)
    check_passes(*asked, f"Examining {subject.name}", "Choose a smaller model.")
    try:
        measure = scale(subject)
    except ModelError as error:
        what = f"{subject.name} does not read a plain text ({error.what.rstrip('.')})."
        raise ModelError(what, CHOOSE_ANOTHER) from error
    outcomes = {case.key: outcome(subject, case, measure) for case in cases}
    recipe, no_recipe = _recipe(subject)
    return PaddingReport(
        model=subject.name,
        model_type=subject.model.config.model_type,
        class_name=type(subject.model).__name__,
        tiny=subject.tiny,
        head_is_new=bool(subject.new),
        recipe=recipe,
        no_recipe=no_recipe,
        spread=measure.spread,
        least=measure.least,
        findings=tuple(_finding(subject, each, outcomes, measure) for each in outcomes.values()),
        notes=tuple(_notes(subject, measure)),
    )


def _finding(
    subject: Subject,
    found: PerturbationEffect,
    others: dict[str, PerturbationEffect],
    measure: LogitScale,
) -> PaddingFinding:
    difference, spread = found.difference, measure.spread
    return PaddingFinding(
        case=found.case.key,
        title=found.case.title,
        changes=found.changes,
        difference=difference,
        relative=difference / spread if difference is not None and spread > 0 else None,
        why=reason(subject, found),
        advice=advice(subject, found, others),
        error=found.error,
    )


def _recipe(subject: Subject) -> tuple[str, str]:
    """The recipe that equals the class, or why there is none."""
    if subject.form is None:
        return "", "The catalogue does not know this family."
    try:
        return str(subject.form.recipe_for(subject.model.config)), ""
    except RecipeError as error:
        return "", str(error)


def _notes(subject: Subject, measure: LogitScale) -> list[str]:
    notes = []
    if subject.tiny:
        notes.append(
            "A small random model of this family was examined: what is found holds for the "
            "class, the size of a difference does not. Its texts end in the end-of-text token, "
            "which a real tokenizer of the family may not add."
        )
    if subject.new:
        notes.append(
            f"The checkpoint lacks {subject.new[0]}, so its head is random here, and the same "
            "every time: the size of a difference depends on it, what is found does not."
        )
    if subject.eos is not None and subject.pad == subject.eos:
        notes.append("Its config names the same token for padding and for the end of a text.")
    if _is_blind(subject, measure):
        notes.append(
            "Its logits hardly depend on a token in the middle of the text here, so that a "
            "change without effect says little."
        )
    return notes


def _is_blind(subject: Subject, measure: LogitScale) -> bool:
    """Whether another token in the middle of a text makes hardly a difference to the logits."""
    text, other = subject.texts
    middle = len(text) // 2
    token = next((number for number in other if number != text[middle]), text[middle])
    alone = PaddedInput(rows=(text,))
    changed = PaddedInput(rows=((*text[:middle], token, *text[middle + 1 :]),))
    difference = (subject.logits(alone) - subject.logits(changed)).abs().max().item()
    return difference <= measure.least
