"""The changes that the padding check tries: harmless ones, and what each is held against."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heads.interpret.padding.subject import PaddedInput, Side, Subject

# Within a block of a shortened or chunked sequence padding may be without effect, beyond it not.
PADDINGS = (1, 6, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
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
    plain: PaddedInput
    changed: tuple[PaddedInput, ...] = ()
    lacks: str = ""

    @property
    def side(self) -> Side:
        """Where the padding stands."""
        return self.changed[-1].side


def perturbations(subject: Subject) -> Iterator[Perturbation]:
    """Every change, and the questions by which it is tried on this model."""
    alone = PaddedInput(rows=subject.texts[:1])
    longer = PaddedInput(rows=subject.texts[1:])
    side = subject.side
    yield Perturbation(
        key="repeated",
        title="The same text once more",
        plain=longer,
        changed=(replace(longer, seed=1),),
    )
    yield _padded(subject, alone, "right")
    yield _padded(subject, alone, "left")
    yield Perturbation(
        key="in_batch",
        title=f"Beside a longer text, padded on the {side}",
        plain=alone,
        changed=(replace(alone, rows=subject.texts, side=side),),
    )
    yield Perturbation(
        key="no_mask",
        title=f"Padded on the {side}, without an attention mask",
        plain=alone,
        changed=(replace(alone, padding=PADDINGS[1], side=side, masked=False),),
    )
    yield from _ending(subject)
    yield Perturbation(
        key="no_pad_token",
        title="Two texts at once, with pad_token_id None in the config",
        plain=alone,
        changed=(replace(alone, rows=2 * subject.texts[:1], pad=None),),
    )
    yield Perturbation(
        key="truncated",
        title="Cut by hand before the special token at its end",
        plain=alone,
        changed=(replace(alone, rows=(subject.texts[0][:-1],)),),
        lacks="" if subject.ends else "It has no special token at the end of a text.",
    )


def _padded(subject: Subject, alone: PaddedInput, side: Side) -> Perturbation:
    room = subject.room - len(subject.texts[0])
    paddings = sorted({min(padding, room) for padding in PADDINGS})
    return Perturbation(
        key=f"{side}_padded",
        title=f"Padded on the {side}, with its attention mask",
        plain=alone,
        changed=tuple(replace(alone, padding=padding, side=side) for padding in paddings),
    )


def _ending(subject: Subject) -> Iterator[Perturbation]:
    """What depends on the end-of-text token."""
    text, eos, side = subject.texts[0], subject.eos, subject.side
    if eos is None:
        lacks, ended, other = "It has no end-of-text token.", text, 0
    else:
        lacks, ended = "", (*(text[:-1] if text[-1] == eos else text), eos)
        used = {eos, *ended}
        other = next(number for number in range(len(used) + 1) if number not in used)
        other = subject.pad if subject.pad is not None and subject.pad != eos else other
    plain = PaddedInput(rows=(ended,), pad=other)
    same = replace(plain, pad=eos, side=side)
    yield Perturbation(
        key="ends_in_eos",
        title="Ending in the end-of-text token, padded with another token",
        plain=plain,
        changed=(replace(plain, padding=PADDINGS[1], side=side),),
        lacks=lacks,
    )
    yield Perturbation(
        key="pad_is_eos",
        title="Ending in the end-of-text token, which is made the pad token as well",
        plain=plain,
        changed=(same, replace(same, padding=PADDINGS[1])),
        lacks=lacks,
    )
    middle = len(ended) // 2
    neighbour = (*ended[:middle], eos or 0, *ended[middle + 1 :])
    yield Perturbation(
        key="unequal_eos",
        title="Beside a text with one more end-of-text token",
        plain=plain,
        changed=(replace(plain, rows=(ended, neighbour)),),
        lacks=lacks,
    )
