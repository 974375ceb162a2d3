"""What was found of a served classifier, and what it amounts to."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from heads import display
from heads.interfaces.views.format import percent

Weight = Literal["fault", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFinding:
    """Something that one should know of a served classifier.

    Attributes:
        weight: "fault" where its answers are not those of the checkpoint's own head; else "note".
        kind: What it is about: input, pooling, head, output, temperature, labels, order, random,
            padding, truncation, precision, asking, or unexplained.
        says: What it is, in a sentence.
        hint: What to do.
    """

    weight: Weight
    kind: str
    says: str
    hint: str = ""

    @property
    def sentence(self) -> str:
        """Return the finding with its weight and what to do."""
        return " ".join(filter(None, (f"{self.weight.capitalize()}:", self.says, self.hint)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport(display.Displayed):
    """Whether a served classifier answers as the head of its checkpoint does.

    Attributes:
        url: The server's address.
        server: What it is, such as text-embeddings-inference.
        served: What it says that it serves; "" where it says nothing.
        model: The checkpoint.
        recipe: The checkpoint's own head, as a recipe.
        probes: How many texts or pairs it was asked about.
        asked: What was asked, a sentence each.
        findings: Faults first.
        difference: The largest difference between a score of the server's and the checkpoint's;
            None where they could not be held together.
        agreement: The share of the texts to which both give the same label; None where there is
            one output only.
    """

    url: str
    server: str
    served: str
    model: str
    recipe: str
    probes: int
    asked: tuple[str, ...]
    findings: tuple[EndpointFinding, ...]
    difference: float | None = None
    agreement: float | None = None

    @property
    def faults(self) -> tuple[EndpointFinding, ...]:
        """What is wrong."""
        return tuple(one for one in self.findings if one.weight == "fault")

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """In one sentence, whether the answers are those of the checkpoint's own head."""
        kinds = {one.kind for one in self.faults}
        if not kinds:
            return "The server's answers are those of the checkpoint's own head."
        many = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        if kinds <= {"truncation", "padding"}:
            return f"The head is the checkpoint's own, but texts are not read as it reads: {many}."
        return f"The server's answers are not those of the checkpoint's own head: {many}."

    def describe(self) -> display.Description:
        """Return what shell and notebook show."""
        served = f", which serves {self.served}" * bool(self.served)
        lines = [f"{self.server} at {self.url}{served}, held to {self.model} ({self.recipe})."]
        if self.difference is not None:
            share = self.agreement
            same = "" if share is None else f"; {percent(share)} of labels are the same"
            lines.append(f"Largest difference of two scores: {self.difference:.2g}{same}.")
        findings = [one.sentence for one in self.findings]
        asked = f"Asked: {' '.join(self.asked)}"
        return display.Description(title=self.verdict, blocks=(*findings, *lines, asked))

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "right": self.is_right, "verdict": self.verdict}


def fault(kind: str, says: str, hint: str = "") -> EndpointFinding:
    """Something that is wrong."""
    return EndpointFinding(weight="fault", kind=kind, says=says, hint=hint)


def note(kind: str, says: str, hint: str = "") -> EndpointFinding:
    """Something that is good to know."""
    return EndpointFinding(weight="note", kind=kind, says=says, hint=hint)
