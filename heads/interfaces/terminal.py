"""Values to tables in a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heads.analysis.comparison import Comparison, said
from heads.analysis.explanation import ORIGINS, Explanation, TensorFact
from heads.analysis.padding.report import Diagnosis
from heads.catalog.catalog import Entry
from heads.classifier.classifier import Classifier
from heads.classifier.prediction import Prediction
from heads.evaluation.metrics import SCORES
from heads.exporters.export import Exported
from heads.exporters.model_card import CALIBRATED
from heads.exporters.onnx import OnnxReport
from heads.interfaces.charts import percent
from heads.interfaces.drawings import accuracy, count, counted, effect
from heads.interfaces.figures import signed


def comparison(found: Comparison) -> None:
    """A class a row, a recipe a column: probability and logit; a table for each set of classes."""
    sets = list(dict.fromkeys(p.classes for p in found.predictions))
    tables = [_answers([p for p in found.predictions if p.classes == classes]) for classes in sets]
    lines = [f"Note: {note}" for note in found.notes]
    trained = next((p for p in found.predictions if p.scores), None)
    lines.append(f"Probability and logit on {found.model}.")
    if trained and trained.scores:
        lines[-1] = (
            f"{lines[-1][:-1]}; trained on {trained.rows} rows of the sample {found.sample}, "
            f"scored on {trained.scores.rows} others."
        )
    show(found.verdict, *tables, *lines)


def _answers(predictions: Sequence[Prediction]) -> Table:
    table = table_of("", *(p.name for p in predictions))
    gap = " " if Console().width >= 24 + 18 * len(predictions) else "\n"
    for place, name in enumerate(predictions[0].classes):
        cells = (
            signed(p.logits[place])
            if p.squash == "none"
            else f"{percent(p.probabilities[place])}{gap}{signed(p.logits[place])}"
            for p in predictions
        )
        table.add_row(Text(name), *cells)
    table.add_section()
    table.add_row("answer", *(Text(said(p), style="bold") for p in predictions))
    if any(p.new for p in predictions):
        table.add_row("", *("this head is random" if p.new else "" for p in predictions))
    if any(p.scores for p in predictions):
        held_out = [accuracy(p.scores).split(" (") if p.scores else ("", "") for p in predictions]
        is_number = any(p.squash == "none" for p in predictions)
        table.add_row(
            "Spearman" if is_number else "held-out accuracy", *(share for share, _ in held_out)
        )
        table.add_row("95 % interval", *(ends.rstrip(")") for _, ends in held_out))
    table.add_row("parameters", *(count(p.parameters) for p in predictions))
    return table


def explanations(found: Sequence[Explanation], difference: str) -> None:
    """A station a row, from tokens to logits, for each recipe."""
    for item in found:
        table = table_of("layer", "does", "shape", "parameters", "weights")
        for step in item.steps:
            origins = {_origin(fact) for fact in step.tensors}
            where = "; ".join(sorted(origins)) or "pretrained" * (step.kind == "base")
            shape = " × ".join(map(str, step.shape))
            number = f"{step.parameters:,}" if step.parameters else ""
            name = step.name.rpartition("/")[2] if step.kind == "base" else step.name
            table.add_row(*map(Text, (name, step.does, shape, number, where)))
        reads = "  ".join(f"{word} {percent(share, 0)}" for word, share in item.reads)
        notes = [f"Note: {note}" for note in item.notes]
        if item.equals:
            notes.append(f"The class that it equals: {item.equals}.")
        if item.twins:
            notes.append(f"The same layers under other names: {', '.join(item.twins)}.")
        head = f"{item.recipe} on {item.model}, {counted(item.classes, 'class')}"
        tail = [*item.formula, f"Reads: {reads}", *notes, *item.sources]
        to_learn = " to learn" * item.is_to_be_trained
        show(f"{head}: {item.parameters:,} parameters{to_learn}.", table, *tail)
    if difference:
        show(difference)


def parts(shelves: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """A part a row, with its sentence and its options."""
    for title, shelf in shelves.items():
        table = table_of(title, "what it does", "options")
        for part in shelf:
            options = ", ".join(f"{name}={value}" for name, value in part["options"].items())
            table.add_row(*map(Text, (part["name"], part["says"], options)))
        show(table)


def _origin(fact: TensorFact) -> str:
    return ORIGINS[fact.origin] + (f" ({fact.source})" if fact.source else "")


def families(entries: Sequence[Entry], found: Mapping[str, Mapping[str, Any]]) -> None:
    """A family a row: its class, its form, its recipe; and whether the walk found it equal."""
    table = table_of(
        "family", "class", "form", "recipe, or why there is none", *["equal"] * bool(found)
    )
    for item in entries:
        step = found.get(item.model_type, {})
        told = {True: f"yes ({step.get('max_difference')})", False: "NO", None: "not built"}
        cells = (item.model_type, item.called, item.form, item.recipe or item.reason or "")
        checked = (told[step["equal"]].replace("(0.0)", "(to the bit)"),) if step else ()
        table.add_row(*map(Text, (*cells, *checked)))
    here = [item for item in entries if item.recipe]
    show(table, f"{len(here)} of {len(entries)} families are a recipe here.")
    if found:
        equal = sum(step["equal"] is True for step in found.values())
        exact = sum(step["max_difference"] == 0 for step in found.values())
        show(f"{equal} give the very logits of their class, {exact} of them to the last bit.")


def diagnosis(found: Diagnosis) -> None:
    """A change of the input a paragraph: what the logits do, why, and what to do."""
    recipe = f" is {found.recipe}" if found.recipe else f": {found.no_recipe}"
    show(found.verdict, "", f"{found.class_name}{recipe}.".replace("..", "."), *found.notes, "")
    for item in found.findings:
        show(Text(f"{item.title}: {effect(item)}.", style="bold" if item.changes else ""))
        told = (item.why, item.advice, item.error and f"It says: {item.error}")
        show(*(Padding(Text(line), (0, 0, 0, 4)) for line in told if line))


def exported(found: Exported | OnnxReport, classifier: Classifier) -> None:
    """Where it lies, what it is, how exact it is, what to know."""
    head = classifier.head
    what = f"{classifier.recipe} on {head.model}"
    kind = "a number" if head.numbers else counted(len(classifier.classes), "class")
    scores = ""
    if head.scores:
        noun = next((one.noun for key, one in SCORES.items() if key == head.scores.metric), "")
        scores = f", {noun} {accuracy(head.scores)} on held-out rows"
    divided = head.chosen.get(CALIBRATED)
    show(
        f"{what} ({kind}{scores}) is now {_what(found)}",
        f"Loaded anew, its logits differ from ours by at most {found.difference:.1g}.",
        *([f"Its last layer is divided by its temperature, {divided:.3g}."] if divided else []),
        *found.notes,
        *(found.files if isinstance(found, Exported) else ()),
    )
    if isinstance(found, OnnxReport):
        Console().print(Text(found.usage), soft_wrap=True)  # to be copied as it is


def _what(found: Exported | OnnxReport) -> str:
    if isinstance(found, Exported):
        return f"{found.called}: {found.folder}"
    return f"one ONNX file of {found.size_bytes / 1e6:.0f} MB: {found.path}"


def sentences(text: str) -> None:
    """A text, broken into lines where the terminal ends."""
    show(text)


def listing(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Any rows under their columns."""
    table = table_of(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    show(table)


def table_of(*columns: str) -> Table:
    """An empty table under these columns, as all of ours look."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(Text(column), overflow="fold", no_wrap=place == 0)
    return table


def show(*items: str | Table | Text | Padding) -> None:
    """Prints texts and tables, each on lines of its own."""
    console = Console()
    for item in items:
        # A text of a user's is no markup, whatever stands in it.
        console.print(Text(item) if isinstance(item, str) else item)
