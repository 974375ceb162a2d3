"""The base class of results that notebooks and shells show, and what they show of them.

Results are made by modules that know nothing of the views that draw them. So views are named here
by reference, and loaded when the first result is shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heads import plugins

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

RESULT = "heads.interfaces.result"  # has `text`, `html` and `figure`


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        rows: Their cells, as many in each as there are headers; the first names the row.
        recipes: The head that each row is about, which the page opens; "" for a row of none.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    note: str = ""
    recipes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        values = {"title": self.title, "headers": self.headers, "rows": self.rows}
        return values | {"note": self.note}


@dataclass(frozen=True, slots=True)
class Code:
    """A command or a program that is copied as it is."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a result says, in the order in which shell and notebook show it.

    Attributes:
        title: The first sentence.
        blocks: Sentences, tables and code below it.
    """

    title: str
    blocks: tuple[str | Table | Code, ...] = ()


class Displayed:
    """A result that a notebook shows as HTML, and `print` as the table of the shell."""

    __slots__ = ()

    def describe(self) -> Description:
        """Return what shell and notebook show; not for results that they draw in their own way."""
        raise NotImplementedError

    def __str__(self) -> str:
        return plugins.load(RESULT).text(self)

    def _repr_html_(self) -> str:
        """Return the result as a fragment of HTML, which notebooks show."""
        return plugins.load(RESULT).html(self)


def figure(result: Displayed, kind: str, **of: str) -> "Figure":
    """Draw a result as one of Plotly's figures."""
    return plugins.load(RESULT).figure(result, kind, **of)


def data_frame(rows: Iterable[Mapping[str, Any]]) -> "DataFrame":
    """Return rows as a table of pandas, which is loaded only here."""
    import pandas

    return pandas.DataFrame(list(rows))
