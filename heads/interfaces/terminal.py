"""Values to tables in a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from heads.interfaces.drawings import accuracy, count
from heads.pipeline.comparison import Comparison, spoken
from heads.pipeline.explanation import ORIGINS, Explanation


def comparison(found: Comparison) -> None:
    """A class a row, a recipe a column: probability and logit."""
    predictions = found.predictions
    table = _table("", *(str(prediction.recipe) for prediction in predictions))
    gap = " " if Console().width >= 24 + 18 * len(predictions) else "\n"
    for place, name in enumerate(found.classes):
        cells = (f"{p.probabilities[place]:.1%}{gap}{p.logits[place]:+.2f}" for p in predictions)
        table.add_row(Text(name), *cells)
    table.add_section()
    table.add_row("answer", *(Text(spoken(p.answer), style="bold") for p in predictions))
    held_out = [accuracy(p.scores).split(" (") for p in predictions]
    table.add_row("held-out accuracy", *(share for share, _ in held_out))
    table.add_row("95 % interval", *(ends.rstrip(")") for _, ends in held_out))
    table.add_row("parameters", *(count(p.parameters) for p in predictions))
    lines = [found.verdict, *(f"Note: {note}" for note in found.notes)]
    first = predictions[0]
    lines.append(
        f"Probability and logit on {found.model}; trained on {first.rows} rows of the sample "
        f"{found.sample}, scored on {first.scores.rows} others."
    )
    _show(lines[0], table, *lines[1:])


def explanations(found: Sequence[Explanation], difference: str) -> None:
    """A station a row, from tokens to logits, for each recipe."""
    for item in found:
        table = _table("layer", "does", "shape", "parameters", "weights")
        for step in item.steps:
            origins = {ORIGINS[fact.origin] for fact in step.tensors}
            where = "; ".join(sorted(origins)) or "pretrained" * (step.kind == "base")
            shape = " × ".join(map(str, step.shape))
            number = f"{step.parameters:,}" if step.parameters else ""
            table.add_row(*map(Text, (step.name, step.does, shape, number, where)))
        reads = "  ".join(f"{word} {share:.0%}" for word, share in item.reads)
        notes = [f"Note: {note}" for note in item.notes]
        if item.twins:
            notes.append(f"The same layers under other names: {', '.join(item.twins)}.")
        head = f"{item.recipe} on {item.model}, {item.classes} classes"
        tail = [*item.formula, f"Reads: {reads}", *notes, *item.sources]
        _show(f"{head}: {item.parameters:,} parameters to learn.", table, *tail)
    if difference:
        _show(difference)


def parts(shelves: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """A part a row, with its sentence and its options."""
    for title, shelf in shelves.items():
        table = _table(title, "what it does", "options")
        for part in shelf:
            options = ", ".join(f"{name}={value}" for name, value in part["options"].items())
            table.add_row(*map(Text, (part["name"], part["says"], options)))
        _show(table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(Text(column), overflow="fold", no_wrap=place == 0)
    return table


def _show(*items: str | Table) -> None:
    console = Console()
    for item in items:
        # A text of a user's is no markup, whatever stands in it.
        console.print(Text(item) if isinstance(item, str) else item)
