"""Findings about a served classifier or an adapter, and the reports that hold them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from heads.display import Description, Displayed
from heads.interfaces.views.format import counted, percent

HeadState = Literal["whole", "partly", "missing", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """A fault, or something that is good to know."""

    weight: Literal["fault", "note"]  # a fault where not the checkpoint is served or saved
    # of a server: input, pooling, head, output, temperature, labels, order, random, padding,
    # truncation, precision, asking or unexplained; of an adapter: base, head, labels or weights
    kind: str
    says: str  # a sentence that describes it
    hint: str = ""  # the remedy


def fault(kind: str, says: str, hint: str = "") -> CheckFinding:
    """Return a finding that is a fault."""
    return CheckFinding(weight="fault", kind=kind, says=says, hint=hint)


def note(kind: str, says: str, hint: str = "") -> CheckFinding:
    """Return a finding that is no fault."""
    return CheckFinding(weight="note", kind=kind, says=says, hint=hint)


class _Report(Displayed):
    """A verdict with findings."""

    __slots__ = ()
    findings: tuple[CheckFinding, ...]

    @property
    def faults(self) -> tuple[CheckFinding, ...]:
        """The findings that are faults."""
        return tuple(finding for finding in self.findings if finding.weight == "fault")

    def _describe(self, title: str, facts: Sequence[str]) -> Description:
        findings = [f"{one.weight.capitalize()}: {one.says} {one.hint}" for one in self.findings]
        return Description(title=title, blocks=(*map(str.rstrip, findings), *facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport(_Report):
    """Whether a served classifier answers as the head of its checkpoint does."""

    url: str
    server: str  # its name, such as text-embeddings-inference
    served: str  # the model that it names, or ""
    model: str  # the checkpoint
    recipe: str  # the checkpoint's own head
    probes: int  # the number of texts or pairs that were sent
    asked: tuple[str, ...]  # the requests, a sentence each
    findings: tuple[CheckFinding, ...]  # faults first
    difference: float | None = None  # the largest of two scores; None where they cannot be compared
    # the fraction of the texts with the same label; None of one output
    agreement: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """One sentence that says whether the answers are those of the checkpoint's own head."""
        if self.is_right:
            return "The server's answers are those of the checkpoint's own head."
        faults = counted(len(self.faults), "fault")
        if {finding.kind for finding in self.faults} <= {"truncation", "padding"}:
            return f"The head is the checkpoint's own, but texts are encoded otherwise: {faults}."
        return f"The server's answers are not those of the checkpoint's own head: {faults}."

    def describe(self) -> Description:
        """Return the verdict, the findings and what was compared."""
        served = f", which serves {self.served}" * bool(self.served)
        own = f"{self.model} ({self.recipe})"
        facts = [f"{self.server} at {self.url}{served}, compared with {own}."]
        if self.difference is not None:
            share = self.agreement
            same = "" if share is None else f"; {percent(share)} of labels are the same"
            facts.append(f"Largest difference of two scores: {self.difference:.2g}{same}.")
        return self._describe(self.verdict, [*facts, f"Requests: {' '.join(self.asked)}"])

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {**asdict(self), "right": self.is_right, "verdict": self.verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterReport(_Report):
    """Whether an adapter folder of PEFT holds a whole classifier."""

    folder: str
    kind: str  # such as LORA
    base: str  # the base model that it names
    # the class of Transformers that it is added to; "" where the base model is not here
    called: str
    rank: int  # of its matrices; 0 where it has none
    # the modules with an addition; empty where its kind of matrices is not checked
    learned: tuple[str, ...]
    # the modules that are saved whole, among them the head if it was learned
    saved: tuple[str, ...]
    head: HeadState  # whether it is in the folder; unknown where no name tells
    outputs: int  # the number of logits of the saved head; 0 where there is none
    labels: tuple[str, ...]  # their names, where the folder has them
    findings: tuple[CheckFinding, ...]  # faults first

    @property
    def is_whole(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """One sentence that says whether it is a whole classifier."""
        if self.faults:
            return f"This adapter is no whole classifier: {counted(len(self.faults), 'fault')}."
        if self.head != "whole":
            return "No fault was found, but the head could not be compared with its base model."
        if not self.outputs:
            return "The adapter is for a classifier whose head is in the base model's own files."
        return f"Adapter and head are both here: a classifier of {self.outputs} outputs."

    def describe(self) -> Description:
        """Return the verdict, the findings and what the folder holds."""
        rank = f" of rank {self.rank}" * bool(self.rank)
        onto = f" ({self.called})" * bool(self.called)
        facts = [f"{self.kind or 'PEFT'}{rank} for {self.base}{onto}."]
        if self.learned:
            modules = counted(len(self.learned), "module")
            facts.append(f"Learned: {modules}, such as {self.learned[0]}.")
        facts.append(f"Saved whole: {', '.join(self.saved) or 'nothing'}.")
        facts += [f"Labels: {', '.join(self.labels)}."] * bool(self.labels)
        return self._describe(self.verdict, facts)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {**asdict(self), "whole": self.is_whole, "verdict": self.verdict}
