"""The changes that the doctor tries: harmless by their looks, and what each is held against."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heads.analysis.padding.subject import Patient, Question, Side

# Within a block of a shortened or chunked sequence padding may be without effect, beyond it not.
PADDINGS = (1, 6, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A change of the input that should not change the logits.

    Attributes:
        key: Its name in JSON.
        title: What is changed, in plain words.
        plain: The text as it should be read.
        changed: The same text as it might be met, in one or more ways.
        lacks: Why it cannot be tried on this model; empty if it can.
    """

    key: str
    title: str
    plain: Question
    changed: tuple[Question, ...] = ()
    lacks: str = ""

    @property
    def side(self) -> Side:
        """Where the padding stands."""
        return self.changed[-1].side


def cases(patient: Patient) -> Iterator[Case]:
    """Every change, and the questions by which it is tried on this model."""
    alone = Question(rows=patient.texts[:1])
    longer = Question(rows=patient.texts[1:])
    side = patient.side
    yield Case(
        key="repeated",
        title="The same text once more",
        plain=longer,
        changed=(replace(longer, seed=1),),
    )
    yield _padded(patient, alone, "right")
    yield _padded(patient, alone, "left")
    yield Case(
        key="in_batch",
        title=f"Beside a longer text, padded on the {side}",
        plain=alone,
        changed=(replace(alone, rows=patient.texts, side=side),),
    )
    yield Case(
        key="no_mask",
        title=f"Padded on the {side}, without an attention mask",
        plain=alone,
        changed=(replace(alone, padding=PADDINGS[1], side=side, masked=False),),
    )
    yield from _ending(patient)
    yield Case(
        key="no_pad_token",
        title="Two texts at once, with pad_token_id None in the config",
        plain=alone,
        changed=(replace(alone, rows=2 * patient.texts[:1], pad=None),),
    )
    yield Case(
        key="truncated",
        title="Cut by hand before the special token at its end",
        plain=alone,
        changed=(replace(alone, rows=(patient.texts[0][:-1],)),),
        lacks="" if patient.ends else "It has no special token at the end of a text.",
    )


def _padded(patient: Patient, alone: Question, side: Side) -> Case:
    room = patient.room - len(patient.texts[0])
    paddings = sorted({min(padding, room) for padding in PADDINGS})
    return Case(
        key=f"{side}_padded",
        title=f"Padded on the {side}, with its attention mask",
        plain=alone,
        changed=tuple(replace(alone, padding=padding, side=side) for padding in paddings),
    )


def _ending(patient: Patient) -> Iterator[Case]:
    """What depends on the end-of-text token."""
    text, eos, side = patient.texts[0], patient.eos, patient.side
    if eos is None:
        lacks, ended, other = "It has no end-of-text token.", text, 0
    else:
        lacks, ended = "", (*(text[:-1] if text[-1] == eos else text), eos)
        used = {eos, *ended}
        other = next(number for number in range(len(used) + 1) if number not in used)
        other = patient.pad if patient.pad is not None and patient.pad != eos else other
    plain = Question(rows=(ended,), pad=other)
    same = replace(plain, pad=eos, side=side)
    yield Case(
        key="ends_in_eos",
        title="Ending in the end-of-text token, padded with another token",
        plain=plain,
        changed=(replace(plain, padding=PADDINGS[1], side=side),),
        lacks=lacks,
    )
    yield Case(
        key="pad_is_eos",
        title="Ending in the end-of-text token, which is made the pad token as well",
        plain=plain,
        changed=(same, replace(same, padding=PADDINGS[1])),
        lacks=lacks,
    )
    middle = len(ended) // 2
    neighbour = (*ended[:middle], eos or 0, *ended[middle + 1 :])
    yield Case(
        key="unequal_eos",
        title="Beside a text with one more end-of-text token",
        plain=plain,
        changed=(replace(plain, rows=(ended, neighbour)),),
        lacks=lacks,
    )
