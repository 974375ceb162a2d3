"""Match a server's labels with the classes of the checkpoint.

Legend: n texts, c classes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heads.errors import EndpointError
from heads.extras.serving.servers import CHECK_LABELS, RowScores

NUMBERED = re.compile(r"(?:label|class)?[_\s-]?(\d+)", re.IGNORECASE)


class LabelCountError(EndpointError):
    """The server has another number of labels than the checkpoint has classes."""

    def __init__(self, n_labels: int, n_classes: int) -> None:
        labels = "1 label" if n_labels == 1 else f"{n_labels} labels"
        what = f"The server scores {labels}, and the checkpoint has {n_classes}."
        super().__init__(what, "It serves another model, or another head.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The server's labels in the order of the checkpoint's classes."""

    names: tuple[str, ...]  # the server's name of each class, (c,); "" where it never gave one
    columns: Mapping[str, int] = field(default_factory=dict)  # the class of each name
    # of scores that come in an order of their own: the class of each, (c,); else empty
    places: tuple[int, ...] = ()
    # whether the server has lost the names, and gives LABEL_0, LABEL_1, …
    is_numbered: bool = False
    foreign: tuple[str, ...] = ()  # its names that the checkpoint does not have

    @property
    def is_named(self) -> bool:
        """Whether the server named any class, or there is one output, which needs no name."""
        return any(self.names) or len(self.names) == 1

    def matrix(self, answers: Sequence[RowScores]) -> Tensor:
        """Return scores (n, c) in the order of the classes; NaN where there is none."""
        scores = torch.full((len(answers), len(self.names)), torch.nan)
        for row, answer in enumerate(answers):
            places = list(self.places)
            if len(places) != len(answer.values):
                if new := [name for name in answer.names if name not in self.columns]:
                    what = f"The server answers with a label it did not have before, {new[0]:.40}."
                    raise EndpointError(what, CHECK_LABELS)
                places = [self.columns[name] for name in answer.names]
            scores[row, torch.tensor(places)] = torch.tensor(answer.values)
        return scores


def match_labels(answers: Sequence[RowScores], classes: Sequence[str]) -> Labels:
    """Find the class of each of the server's labels from all of its answers."""
    most = max(len(answer.values) for answer in answers)
    n_classes = len(classes)
    if n_classes == 1 and most == 1:
        return Labels(names=("",), places=(0,))
    has_places = any("" in answer.names for answer in answers)
    names = dict.fromkeys(name for answer in answers for name in answer.names)
    named = _name_places(answers, n_classes) if has_places else dict(enumerate(names))
    n_labels = n_classes if has_places else len(named)
    is_whole = most > 1 and all(len(answer.names) == n_labels for answer in answers)
    if n_labels > n_classes or (is_whole and n_labels < n_classes):
        raise LabelCountError(n_labels, n_classes)
    known, is_numbered = _match_names(tuple(named.values()), classes)
    matched = {place: known[name] for place, name in named.items() if name in known}
    free = [number for number in range(n_classes) if number not in matched.values()]
    for place in range(n_labels):
        if place not in matched:  # a place keeps its number where it can
            matched[place] = place if has_places and place in free else free[0]
            free.remove(matched[place])
    by_class = {matched[place]: name for place, name in named.items()}
    columns = {name: number for number, name in enumerate(classes)}
    columns |= {f"LABEL_{number}": number for number in range(n_classes) if is_numbered}
    columns |= {name: number for number, name in by_class.items()}
    return Labels(
        names=tuple(by_class.get(number, "") for number in range(n_classes)),
        columns={} if has_places else columns,
        places=tuple(matched[place] for place in range(n_classes)) if has_places else (),
        is_numbered=is_numbered,
        foreign=tuple(name for name in named.values() if name not in known),
    )


def _name_places(answers: Sequence[RowScores], n_classes: int) -> dict[int, str]:
    named: dict[int, str] = {}
    for answer in answers:
        if len(answer.values) != n_classes:
            raise LabelCountError(len(answer.values), n_classes)
        for place, name in enumerate(answer.names):
            if name and named.setdefault(place, name) != name:
                what = f"The server calls one score {named[place]:.40} and then {name:.40}."
                raise EndpointError(what, CHECK_LABELS)
    return named


def _match_names(names: Sequence[str], classes: Sequence[str]) -> tuple[dict[str, int], bool]:
    """Return the class of each name, and whether the names are mere numbers."""
    exact = {name: number for number, name in enumerate(classes)}
    folded = {_fold(name): number for number, name in enumerate(classes)}
    for matched in (
        {name: exact[name] for name in names if name in exact},
        {name: folded[_fold(name)] for name in names if _fold(name) in folded},
    ):
        if len(matched) == len(names) == len(set(matched.values())):
            return matched, False
    matches = [NUMBERED.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in matches if match]
    if names and len(set(numbers)) == len(names) and max(numbers) < len(classes):
        return dict(zip(names, numbers, strict=True)), True
    return {name: exact[name] for name in names if name in exact}, False


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()
