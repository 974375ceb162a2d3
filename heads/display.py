"""What a notebook shows of a result, and its pictures: asked for here, drawn far above.

Results are made in rooms that know nothing of views. So a result that can be shown asks whoever
draws here, and `heads/__init__.py`, which stands above all rooms and runs before any of them, says
who that is. What draws is loaded when the first result is shown, so that nothing waits for it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        headers: What stands above each column.
        rows: Their cells, as many in each as there are headers; the first names the row.
        title: What stands above the table.
        note: What stands below it.
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


class Renderer(Protocol):
    """Who draws results."""

    def html(self, result: Any, /) -> str:
        """A result as a fragment of HTML that stands for itself."""
        ...

    def figure(self, result: Any, kind: str, /, **of: str) -> "Figure":
        """A picture of a result."""
        ...


_loaders: list[Callable[[], Renderer]] = []
_text_functions: list[Callable[[Any], str]] = []


def drawn_by(load: Callable[[], Renderer], text: Callable[[Any], str]) -> None:
    """Set what draws results from now on.

    Args:
        load: Returns the renderer; called when something is shown, and not before.
        text: Returns a result as plain text, as wide as the terminal.
    """
    _loaders[:], _text_functions[:] = [load], [text]


class Displayed:
    """A result that a notebook shows as HTML, and `print` as the table of the shell."""

    __slots__ = ()

    def describe(self) -> Description:
        """Return what shell and notebook show; not for results that they draw in their own way."""
        raise NotImplementedError

    def __str__(self) -> str:
        return _text_functions[0](self)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return _loaders[0]().html(self)


def figure(result: Displayed, kind: str, **of: str) -> "Figure":
    """A picture of a result, one of Plotly's figures."""
    return _loaders[0]().figure(result, kind, **of)


def data_frame(rows: Iterable[Mapping[str, Any]]) -> "DataFrame":
    """Rows as a table of pandas, which is loaded only here."""
    import pandas

    return pandas.DataFrame(list(rows))
