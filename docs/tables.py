"""Writes what README.md and pages of docs/ have of the registries anew; `make docs`.

Tables stand between markers such as ``<!-- heads -->`` and ``<!-- /heads -->``; docs/parts.md has
every part in full, between such as ``<!-- heads_in_full -->``.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heads.backbone.models import MODELS
from heads.catalog.catalog import CatalogEntry, catalogue
from heads.catalog.families import FORMS
from heads.data.samples import SAMPLES
from heads.evaluation.metrics import METRICS, SCORES
from heads.parts.pooled import pooled
from heads.parts.registry import (
    Head,
    Part,
    Pooling,
    Registry,
    head,
    layers,
    loss,
    pairing,
    pooling,
    tuning,
)
from heads.parts.resolve import parts, resolve
from heads.problem import PROBLEM_TYPES

README = Path(__file__).parents[1] / "README.md"
CATALOGUE = Path(__file__).with_name("catalogue.md")
JSON = Path(__file__).with_name("json.md")
API = Path(__file__).with_name("api.md")
PARTS = Path(__file__).with_name("parts.md")
STATISTICS = Path(__file__).with_name("statistics.md")
FAQ = Path(__file__).with_name("faq.md")
QUESTIONS = Path(__file__).with_name("questions.json")
CONVERSIONS = Path(__file__).with_name("extras") / "conversions.md"
PAGES = [README, CATALOGUE, JSON, PARTS, STATISTICS, FAQ]
if (README.parent / "heads" / "extras" / "conversions").is_dir():  # an extra may be taken out
    PAGES.append(CONVERSIONS)

REGISTRIES: Mapping[str, Registry[Any]] = {
    "poolings": pooling, "layers": layers, "heads": head, "pairings": pairing, "losses": loss,
    "tunings": tuning,
}  # fmt: skip
WIDTH, CLASSES = 768, 3  # of the sketch of a head
SHORT = {"answered": "", "partly": ": in part", "not": ": not yet"}
STATED = re.compile(r"^(?:Formula|Source): ", re.MULTILINE)  # shown apart from the sentences


@cache
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
        "conversions": _list_conversions(),
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
        "contents": _contents(FAQ.read_text("utf-8")),
        **{
            f"{name}_in_full": "".join(map(_in_full, of.values()))
            for name, of in REGISTRIES.items()
        },
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


def anchor(heading: str) -> str:
    """Where a link to a heading leads, as GitHub and MyST have it.

    >>> anchor("pooler_output or last_hidden_state[:, 0]?")
    'pooler_output-or-last_hidden_state-0'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _contents(text: str) -> str:
    """The headings of the FAQ; behind each how far it is answered, if not in full."""
    asked = json.loads(QUESTIONS.read_text("utf-8"))
    short = {one["anchor"]: SHORT[one["status"]] for one in asked}
    lines = []
    for level, heading in re.findall(r"^(###?) (.+)$", text, re.MULTILINE):
        place = anchor(heading)
        if level == "##":
            lines.append(f"\n**[{heading}](#{place})**\n\n")
        else:
            lines.append(f"- [{heading}](#{place}){short.get(place, '')}\n")
    return "".join(lines) + "\n"


def _in_full(part: Part) -> str:
    """A part with all that its docstring and its code say: a section of docs/parts.md."""
    doc = inspect.getdoc(part.make) or ""
    told = [" ".join(one.split()) for one in STATED.split(doc)[0].split("\n\n")[1:]]
    options = ", ".join(f"`{name}={value}`" for name, value in part.options.items())
    facts = {
        "Formula": part.told(part.formula, part.options),
        "Computes": ", then ".join(_layers(part)) if isinstance(part, Head) else "",
        "Reads": ", ".join(f"`{one}`" for one in part.asks) if isinstance(part, Pooling) else "",
        "Gives": _given(part) if isinstance(part, Pooling) else "",
        "Options": options,
        "Source": part.source,
    }
    lines = [f"- {name}: {value}\n" for name, value in facts.items() if value]
    text = "\n\n".join((f"### `{part.name}`", part.says, *filter(None, told), "".join(lines)))
    return "\n" + text.replace("<", "&lt;")


def _layers(part: Head) -> Iterator[str]:
    """The layers of a head on a base model of width 768, under their names."""
    recipe = resolve(f"mean+{part.name}")
    layers = recipe.applied_layers(recipe.sketch(WIDTH, CLASSES))
    return (f"`{name}` {_layer(layer)}" for name, layer in layers)


def _layer(layer: torch.nn.Module) -> str:
    """A layer in a few words: what PyTorch calls it, less what goes without saying."""
    told = layer.extra_repr().replace(", inplace=False", "")
    if isinstance(layer, torch.nn.Linear):
        told = f"{layer.in_features} → {layer.out_features}" + ", no bias" * (layer.bias is None)
    return type(layer).__name__ + (f"({told})" if told else "")


def _given(part: Pooling) -> str:
    """The shape of the pooled vectors, or of the chosen states, asked of the part itself."""
    if part.is_trained:
        return "(n, w), w as its modules say"
    n, t, d = 1, 2, 4
    states = torch.zeros(n, t, d)
    made = part.make(*_sizes(part, d), **part.options) if part.learned else part
    known: dict[str, Any] = {
        "mask": torch.ones(n, t), "content": torch.ones(n, t), "eos": torch.ones(n, t),
        "states": states, "decoder": states, "pooler": torch.zeros(n, d), "hidden": [states] * 5,
    }  # fmt: skip
    with torch.no_grad():
        answer = made(*(known[name] for name in part.asks))
    is_choice = part.kind == layers.kind
    given = answer if is_choice and isinstance(answer, Tensor) else pooled(answer, states).vectors
    times = given.shape[-1] // d
    width = "d" if times == 1 else f"{times} d"
    return f"(n, t, {width})" if is_choice else f"(n, {width})"


def _sizes(part: Pooling, width: int) -> tuple[int, ...]:
    """What a learned part is made for: as many layers as there are, or the width of a state."""
    return (5,) if part.kind == layers.kind else (width,)


def _list_conversions() -> str:
    """Return the table of the extra `conversions`, if it is there."""
    try:
        from heads.extras.conversions.rules import CONVERSIONS, converted_id
    except ImportError:
        return ""
    rows = ((f"`{converted_id(name)}`", rules.says) for name, rules in CONVERSIONS.items())
    return _table(("model", "what was done to the bundled model"), rows)


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

    for page in PAGES:
        page.write_text(fresh(page.read_text("utf-8")), "utf-8")
    told = endpoints(build().blocks.get_api_info())
    API.write_text(with_endpoints(API.read_text("utf-8"), told), "utf-8")
