"""Which of a server's scores is of which class of the checkpoint, as far as its labels tell.

Legend: n texts, c classes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heads.errors import EndpointError
from heads.extras.serving.clients import Scores

NUMBERED = re.compile(r"(?:label|class)?[_\s-]?(\d+)", re.IGNORECASE)


class OtherLabels(EndpointError):
    """The server has another number of labels than the checkpoint has classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The server's labels in the order of the checkpoint's classes.

    Attributes:
        names: What the server calls each class, (c,); "" where it never said it.
        columns: The class of each name.
        places: Of scores that are known by their place: the class of each, (c,); else nothing.
        is_numbered: Whether the server has lost the names, and says LABEL_0, LABEL_1, …
        is_named: Whether it gave any name at all.
        foreign: Its names that the checkpoint does not know.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int] = field(default_factory=dict)
    places: tuple[int, ...] = ()
    is_numbered: bool = False
    is_named: bool = True
    foreign: tuple[str, ...] = ()

    def matrix(self, answers: Sequence[Scores]) -> Tensor:
        """The scores (n, c) in the order of the checkpoint's classes; NaN where none was told.

        Raises:
            EndpointError: There is a label that it did not have before.
        """
        found = torch.full((len(answers), len(self.names)), torch.nan)
        for row, one in enumerate(answers):
            found[row, torch.tensor(self._places(one))] = torch.tensor(one.values)
        return found

    def _places(self, one: Scores) -> list[int]:
        """The class of each score."""
        if self.places and len(self.places) == len(one.values):
            return list(self.places)
        strange = [name for name in one.names if name not in self.columns]
        if strange:
            what = f"The server answers with a label that it did not have before, {strange[0]:.40}."
            raise EndpointError(what, "Look at its id2label.")
        return [self.columns[name] for name in one.names]


def labels_of(answers: Sequence[Scores], classes: Sequence[str]) -> Labels:
    """Finds the class of each of the server's labels.

    Args:
        answers: All that it said.
        classes: Those of the checkpoint.

    Raises:
        OtherLabels: They are not as many.
        EndpointError: One of its labels changes from answer to answer.
    """
    most = max(len(one.values) for one in answers)
    if len(classes) == 1 and most == 1:
        return Labels(names=("",), places=(0,))
    if any("" in one.names for one in answers):
        return _by_place(answers, classes)
    names = tuple(dict.fromkeys(name for one in answers for name in one.names))
    is_whole = most > 1 and all(len(one.names) == len(names) for one in answers)
    if len(names) > len(classes) or (is_whole and len(names) < len(classes)):
        raise _other(len(names), classes)
    known, is_numbered = _known(names, classes)
    foreign = tuple(name for name in names if name not in known)
    free = [place for place in range(len(classes)) if place not in known.values()]
    known |= dict(zip(foreign, free, strict=False))
    others = {name: place for place, name in enumerate(classes)}
    others |= {f"LABEL_{place}": place for place in range(len(classes)) if is_numbered}
    called = {place: name for name, place in known.items()}
    return Labels(
        names=tuple(called.get(place, "") for place in range(len(classes))),
        columns=others | known,
        is_numbered=is_numbered,
        foreign=foreign,
    )


def _by_place(answers: Sequence[Scores], classes: Sequence[str]) -> Labels:
    """Scores in an order of their own, in which some places have a name."""
    for one in answers:
        if len(one.values) != len(classes):
            raise _other(len(one.values), classes)
    named: dict[int, str] = {}
    for one in answers:
        for place, name in enumerate(one.names):
            if name and named.setdefault(place, name) != name:
                what = f"The server calls one score {named[place]:.40} and then {name:.40}."
                raise EndpointError(what, "Look at its id2label.")
    known, is_numbered = _known(tuple(named.values()), classes)
    found = {place: known[name] for place, name in named.items() if name in known}
    free = [number for number in range(len(classes)) if number not in found.values()]
    for place in range(len(classes)):
        if place not in found:
            found[place] = place if place in free else free[0]
            free.remove(found[place])
    called = {found[place]: name for place, name in named.items()}
    return Labels(
        names=tuple(called.get(number, "") for number in range(len(classes))),
        places=tuple(found[place] for place in range(len(classes))),
        is_numbered=is_numbered,
        is_named=bool(named),
        foreign=tuple(name for name in named.values() if name not in known),
    )


def _known(names: Sequence[str], classes: Sequence[str]) -> tuple[dict[str, int], bool]:
    """The classes that have these names, and whether the names are mere numbers of them."""
    for same in (str, _folded):
        numbers = {same(name): place for place, name in enumerate(classes)}
        found = {name: numbers[same(name)] for name in names if same(name) in numbers}
        if len(found) == len(names) and len(set(found.values())) == len(names):
            return found, False
    matches = [NUMBERED.fullmatch(name) for name in names]
    counted = [int(match[1]) for match in matches if match]
    if names and len(set(counted)) == len(names) and max(counted) < len(classes):
        return dict(zip(names, counted, strict=True)), True
    exact = {name: place for place, name in enumerate(classes)}
    return {name: exact[name] for name in names if name in exact}, False


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _other(count: int, classes: Sequence[str]) -> OtherLabels:
    theirs = "1 label" if count == 1 else f"{count} labels"
    what = f"The server scores {theirs}, and the checkpoint has {len(classes)}."
    return OtherLabels(what, "It serves another model, or another head.")
