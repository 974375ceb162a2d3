"""The HTML of page and report, from the Jinja2 templates beside this file.

Every value is escaped: a text of a user's stays a text. A template that lacks a value fails.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from heads.display import Table

TEMPLATES = Path(__file__).parent / "templates"


def make_renderer(*folders: Path) -> Callable[..., Markup]:
    """Return a function that renders a template of these folders, or else of this package."""
    environment = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )

    def render(template: str, **values: Any) -> Markup:
        """Render a template, such as "lanes.html", with its values."""
        return Markup(environment.get_template(template).render(**values))

    return render


render = make_renderer()


def busy(says: str, share: float | None = None) -> Markup:
    """What is under way, with a bar where it is known how far it is (0 to 1)."""
    return render("busy.html", says=says, share=share)


def failure(says: str) -> Markup:
    """What went wrong, in a sentence in its place."""
    return render("failure.html", says=says)


def draw_table(table: Table) -> Markup:
    """Return a table with its title and its note; one of many rows scrolls."""
    return render("table.html", table=table)
