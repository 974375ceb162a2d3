"""Writes the tables of README.md and of pages of docs/ anew; `make docs`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heads.backbone.conversion_rules import TWINS, converted_id
from heads.backbone.models import MODELS
from heads.catalog.catalog import CatalogEntry, catalogue
from heads.catalog.families import FORMS
from heads.data.samples import SAMPLES
from heads.evaluation.metrics import METRICS, SCORES
from heads.parts.registry import tuning
from heads.parts.resolve import parts
from heads.problem import PROBLEM_TYPES

README = Path(__file__).parents[1] / "README.md"
CATALOGUE = Path(__file__).with_name("catalogue.md")
JSON = Path(__file__).with_name("json.md")
API = Path(__file__).with_name("api.md")


def tables() -> dict[str, str]:
    """The text between each pair of markers, by the markers' name."""
    shelves = parts()
    return {
        "poolings": _shelf(shelves["poolings"]),
        "layers": _shelf(shelves["layers"]),
        "heads": _shelf(shelves["heads"]),
        "pairings": _shelf(shelves["pairings"]),
        "losses": _shelf(shelves["losses"]),
        "tunings": _shelf(shelves["tunings"]),
        "models": _table(
            ("base model", "what it is", "parameters", "layers × width", "licence"),
            (
                (f"`{m.id}`", m.says, f"{m.millions}M", f"{m.layers} × {m.width}", m.licence)
                for m in MODELS
            ),
        ),
        "twins": _table(
            ("model", "what was done to the bundled model"),
            ((f"`{converted_id(name)}`", twin.says) for name, twin in TWINS.items()),
        ),
        "forms": _table(
            ("form", "what its head does", "recipe", "families"),
            (_form(name) for name in dict.fromkeys(form.name for form in FORMS)),
        ),
        "families": _table(
            ("family", "class", "form", "recipe", "tensors of the head"),
            (_family(entry) for entry in catalogue()),
        ),
        "metrics": _table(
            ("metric", "what it is", "better", "problem types", "can rank"),
            (
                (
                    f"`{name}`",
                    one.says,
                    "more" if one.high_is_good else "less",
                    ", ".join(p.labels for p in PROBLEM_TYPES.values() if p in one.problems),
                    "yes" if name in SCORES else "",
                )
                for name, one in METRICS.items()
            ),
        ),
        "samples": _table(
            ("sample", "question"), ((f"`{item.name}`", item.says) for item in SAMPLES.values())
        ),
    }


def fresh(text: str) -> str:
    """A page with those tables written anew whose markers it has."""
    for name, table in tables().items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if found:
            text = f"{before}{start}{table}{end}{after}"
    return text


def endpoints(info: Mapping[str, Any]) -> str:
    """Every endpoint with its arguments, as the page tells them (`get_api_info`)."""
    return _table(
        ("endpoint", "what it does", "arguments"),
        (
            (f"`{name}`", one["description"].partition(".")[0] + ".", _arguments(one["parameters"]))
            for name, one in info["named_endpoints"].items()
        ),
    )


def _arguments(parameters: Iterable[Mapping[str, Any]]) -> str:
    told = []
    for one in parameters:
        default = one["parameter_default"]
        shown = "" if default in (None, "", False, 0) else f"={default}"
        required = "" if one["parameter_has_default"] else " (required)"
        told.append(f"`{one['parameter_name']}{shown}`{required}")
    return ", ".join(told) or "none"


def with_endpoints(text: str, table: str) -> str:
    """The page of the API with its table written anew."""
    before, start, rest = text.partition("<!-- endpoints -->\n")
    return f"{before}{start}{table}{''.join(rest.partition('<!-- /endpoints -->')[1:])}"


def _form(name: str) -> tuple[str, ...]:
    forms = [form for form in FORMS if form.name == name]
    first = forms[0]
    recipes = [text for form in forms for text in form.texts]
    families = [family for form in forms for family in form.families]
    told = ", ".join(f"`{recipe}`" for recipe in dict.fromkeys(recipes)) or first.reason
    return name, first.says, told, f"{len(families)}: {', '.join(families)}"


def _family(entry: CatalogEntry) -> tuple[str, ...]:
    told = f"`{entry.recipe}`" if entry.recipe else f"none: {entry.reason}"
    tensors = ", ".join(f"`{name}`" for name in entry.tensors)
    return f"`{entry.model_type}`", entry.called, entry.form, told, tensors


def _shelf(shelf: Iterable[Mapping[str, Any]]) -> str:
    rows = ((f"`{_written(part)}`", part["says"], part["source"]) for part in shelf)
    return _table(("name", "what it does", "source"), rows)


def _written(part: Mapping[str, Any]) -> str:
    """A part as a recipe writes it: of last layers it is always said how many."""
    name, options = part["name"], part["options"]
    is_of_layers = "layers" in options and name in tuning and tuning[name].above
    return f"{name}{options['layers']}" if is_of_layers else name


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(columns)
    lines = [columns, ("---",) * len(columns), *rows]
    cells = (
        " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in row) for row in lines
    )
    return "".join(f"| {row} |\n" for row in cells)


if __name__ == "__main__":
    from heads.interfaces.web.app import build

    for page in (README, CATALOGUE, JSON):
        page.write_text(fresh(page.read_text("utf-8")), "utf-8")
    told = endpoints(build().get_api_info())
    API.write_text(with_endpoints(API.read_text("utf-8"), told), "utf-8")
