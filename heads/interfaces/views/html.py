"""The HTML of page and report, from the Jinja2 templates beside this file.

Every value is escaped: a text of a user's stays a text. A template that lacks a value fails.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def render(template: str, **values: Any) -> Markup:
    """A template of this folder, such as "lanes.html", with its values."""
    return Markup(ENVIRONMENT.get_template(template).render(**values))
