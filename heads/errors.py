"""What can go wrong, and what to do about it.

::

    HeadsError            one sentence on what is wrong, one on what to do
    ├── RecipeError       a recipe, a part or an option that does not exist or does not fit
    ├── DataError         a text or a table that cannot be used (knows line and column)
    ├── ModelError        a base model that cannot be reached or must not be loaded
    ├── CheckpointError   a saved head that cannot be read
    ├── EndpointError     a server that cannot be asked, or whose answers cannot be read
    └── LimitError        more than this place allows

Each is raised where the fact is known and shown in three places: as a notice on the
page, as one line on stderr with exit code 2, and as an ordinary exception in Python.
Anything else that escapes is a bug.
"""

import difflib
from collections.abc import Iterable

MOST_LISTED = 40
LONGEST = 80  # of names that are compared: no known one is longer, and it takes time


class HeadsError(Exception):
    """Something the user can mend: what is wrong, and a hint on what to do.

    Args:
        what: One sentence on what is wrong and where.
        hint: One sentence on what to do, or nothing.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        # Foreign names stand in them, and would move a terminal's cursor or begin another line.
        what, hint = printable(what), printable(hint)
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} {self.hint}".strip()


class RecipeError(HeadsError):
    """A recipe, a part or an option that does not exist or does not fit."""


class DataError(HeadsError):
    """A text or a table that cannot be used.

    Args:
        what: One sentence on what is wrong.
        hint: One sentence on what to do.
        line: The line of the file, counted from 1, where it is known.
        column: The name of the column, where it is known.
    """

    def __init__(
        self, what: str, hint: str = "", *, line: int | None = None, column: str | None = None
    ) -> None:
        super().__init__(what, hint)
        self.line = line
        self.column = column


class ModelError(HeadsError):
    """A base model that cannot be reached or must not be loaded."""


class CheckpointError(HeadsError):
    """A saved head that cannot be read."""


class EndpointError(HeadsError):
    """A server that cannot be asked, or whose answers cannot be read."""


class LimitError(HeadsError):
    """More than this place allows."""


def printable(text: str) -> str:
    r"""A text in one line and of the same length, without signs that cannot be printed.

    >>> printable("a\nb\x1b[31m \u202e \ud800")
    'a b�[31m � �'
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else "\ufffd" for letter in text
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Names the nearest known name, or all of them where none is near and they are few.

    >>> did_you_mean("robert", ["linear", "roberta"])
    "Did you mean 'roberta'?"
    >>> did_you_mean("zzz", ["linear", "roberta"])
    'There are: linear, roberta.'
    """
    known = list(known)
    near = difflib.get_close_matches(name[:LONGEST].lower(), known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"There are: {', '.join(known)}." if len(known) <= MOST_LISTED else ""
