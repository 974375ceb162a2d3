"""Values to tables in a terminal."""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from heads import display
from heads.analysis.ablation import Ablation
from heads.analysis.answering import FileAnswers
from heads.analysis.attribution_result import Attribution
from heads.analysis.comparison import Comparison, said
from heads.analysis.counterfactuals import Counterfactuals
from heads.analysis.explanation import ORIGINS, Explanation
from heads.analysis.neighbors import Neighbourhood
from heads.analysis.padding.report import PaddingReport
from heads.analysis.scoring import FileScores
from heads.analysis.selection import SIGMOID, SOFTMAX, TEMPERATURE, HeadOutput, Reading
from heads.backbone.given import is_given
from heads.catalog.catalog import CatalogEntry, Catalogue
from heads.classifier.calibration import CALIBRATED
from heads.classifier.classifier import Classifier
from heads.classifier.prediction import Prediction
from heads.data.dataset import Data
from heads.display import Code, Displayed
from heads.errors import printable
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.significance import Difference
from heads.events import Progress
from heads.exporters.export import Exported
from heads.exporters.onnx import OnnxReport
from heads.interfaces.views.format import (
    BRIEF,
    MEASURES,
    accuracy,
    apart,
    between,
    commonest,
    count,
    counted,
    effect,
    noun_of,
    of_metric,
    percent,
    ranked,
    signed,
    titled,
)
from heads.interfaces.views.head_details import chosen_says
from heads.interfaces.views.leaderboard import behind
from heads.interfaces.views.sections import find_sections, find_subject, result_sections
from heads.interfaces.views.whole_files import class_rows, held_out
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.folder import RunFolder, all_runs
from heads.runs.leaderboard import Leaderboard
from heads.runs.notes import raced
from heads.runs.runner import CellDone, Event
from heads.runs.spec import RunSpec
from heads.training.search import CurvePointTried, SeedFitting

UNBOUND = 10_000  # characters of a line in which nothing is folded
GAP = 3  # characters between two columns
_capture: ContextVar[Console | None] = ContextVar("capture", default=None)


def _console() -> Console:
    return _capture.get() or Terminal()


def text(result: Any) -> str:
    """Return a result as the shell prints it, or its `repr` where the shell prints none."""
    draw = next((draw for kind, draw in _TABLES.items() if isinstance(result, kind)), None)
    if draw is None and type(result).describe is Displayed.describe:
        return repr(result)
    draw = draw or describe
    output = io.StringIO()
    token = _capture.set(Terminal(file=output))
    try:
        draw(result)
    finally:
        _capture.reset(token)
    return output.getvalue().rstrip()


def describe(result: Displayed, *more: str | display.Table | Code) -> None:
    """Print what a result says, and more sentences below."""
    description = result.describe()
    show_blocks(description.title, *description.blocks, *more)


def show_blocks(title: str, *blocks: str | display.Table | Code) -> None:
    """Print a title, and sentences, tables and code below."""
    show(Text(title, style="bold"))
    for block in filter(None, blocks):
        if isinstance(block, display.Table):
            show(*[block.title] * bool(block.title), draw_table(block))
            show(*[block.note] * bool(block.note))
        elif isinstance(block, Code):
            _console().print(Text(block.text), soft_wrap=True)  # to be copied as it is
        else:
            show(block)


def draw_table(table: display.Table) -> Table:
    """Return a table of texts as the shell draws one."""
    drawn = table_of(*table.headers)
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def comparison(found: Comparison) -> None:
    """Print a class a row and a recipe a column, a table for each set of classes."""
    sets = list(dict.fromkeys(p.classes for p in found.predictions))
    tables = [_answers([p for p in found.predictions if p.classes == classes]) for classes in sets]
    lines = [f"Note: {note}" for note in found.notes]
    caption = f"Probability and logit on {found.model}"
    trained = next((p for p in found.predictions if p.scores), None)
    if trained and trained.scores:
        rows, scored = trained.rows, trained.scores.rows
        caption += (
            f"; trained on {rows} rows of the sample {found.sample}, scored on {scored} others"
            if found.sample
            else f"; trained on {rows} rows, scored on {scored} held-out rows"
        )
    lines.append(f"{caption}.")
    if any(p.thresholds and p.scores for p in found.predictions):
        lines.append("Each label is given above a threshold of its own (--json shows them).")
    show(found.verdict, *tables, *lines)


def _answers(predictions: Sequence[Prediction]) -> Table:
    table = table_of("", *(p.name for p in predictions))
    gap = " " if _console().width >= 24 + 18 * len(predictions) else "\n"
    for place, name in enumerate(predictions[0].classes):
        cells = (
            signed(p.logits[place])
            if not p.problem.has_classes
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
        metric = next(p.scores.metric for p in predictions if p.scores)
        table.add_row(f"held-out {noun_of(metric)}", *(one for one, _ in held_out))
        table.add_row("95 % interval", *(ends.rstrip(")") for _, ends in held_out))
    table.add_row("parameters", *(count(p.parameters) for p in predictions))
    return table


def explanations(found: Sequence[Explanation], difference: str) -> None:
    """A station a row, from tokens to logits, for each recipe."""
    for item in found:
        table = table_of("layer", "does", "shape", "parameters", "weights")
        for step in item.steps:
            is_base = step.kind == "base"  # of which there are too many to name them
            origins = {
                ORIGINS[fact.origin] + f" ({fact.source})" * bool(fact.source and not is_base)
                for fact in step.tensors
            }
            where = "; ".join(sorted(origins)) or "pretrained" * is_base
            shape = " × ".join(map(str, step.shape))
            number = f"{step.parameters:,}" if step.parameters else ""
            name = step.name.rpartition("/")[2] if is_base else step.name
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
        of_base = f", and {item.base_parameters:,} of the base model" * bool(item.base_parameters)
        show(f"{head}: {item.parameters:,} parameters{to_learn}{of_base}.", table, *tail)
    if difference:
        show(difference)


def parts(registries: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """A part a row, with its sentence and its options."""
    for title, registry in registries.items():
        table = table_of(title, "what it does", "options")
        for part in registry:
            options = ", ".join(f"{name}={value}" for name, value in part["options"].items())
            table.add_row(*map(Text, (part["name"], part["says"], options)))
        show(table)


def families(entries: Sequence[CatalogEntry], found: Mapping[str, Mapping[str, Any]]) -> None:
    """A family a row: its class, its form, its recipe; and whether the walk found it equal."""
    titles = ("family", "form", "recipe, or why there is none", "class")
    table = table_of(*titles, *["equal"] * bool(found))
    for item in entries:
        step = found.get(item.model_type, {})
        told = {True: f"yes ({step.get('max_difference')})", False: "NO", None: "not built"}
        cells = (item.model_type, item.form, item.recipe or item.reason or "", item.called)
        checked = (told[step["equal"]].replace("(0.0)", "(to the bit)"),) if step else ()
        table.add_row(*map(Text, (*cells, *checked)))
    here = [item for item in entries if item.recipe]
    show(table, f"{len(here)} of {len(entries)} families are a recipe here.")
    if found:
        equal = sum(step["equal"] is True for step in found.values())
        exact = sum(step["max_difference"] == 0 for step in found.values())
        show(f"{equal} give the very logits of their class, {exact} of them to the last bit.")


def diagnosis(found: PaddingReport) -> None:
    """A change of the input a paragraph: what the logits do, why, and what to do."""
    recipe = f" is {found.recipe}" if found.recipe else f": {found.no_recipe}"
    show(found.verdict, "", f"{found.class_name}{recipe}.".replace("..", "."), *found.notes, "")
    for item in found.findings:
        show(Text(f"{item.title}: {effect(item)}.", style="bold" if item.changes else ""))
        told = (item.why, item.advice, item.error and f"It says: {item.error}")
        show(*(Padding(Text(line), (0, 0, 0, 4)) for line in told if line))


def exported(
    found: Exported | OnnxReport, classifier: Classifier | None = None, told: str = ""
) -> None:
    """Print where an export is, how exact it is, and what to know of it."""
    exact = [f"Loaded anew, its logits differ from ours by at most {found.difference:.1g}."]
    if isinstance(found, Exported):
        now = f"{found.called}: {found.folder}"
    else:
        now = f"one ONNX file of {found.size_bytes / 1e6:.0f} MB: {found.path}"
        exact = [] if found.int8 else exact  # its notes compare it
    divided = classifier.head.chosen.get(CALIBRATED) if classifier else None
    show(
        f"{_describe_head(classifier)} is now {now}" if classifier else f"Exported as {now}",
        *([told] if told else []),
        *exact,
        *([f"Its last layer is divided by its temperature, {divided:.3g}."] if divided else []),
        *found.notes,
        *(found.files if isinstance(found, Exported) else ()),
    )
    _console().print(Text(found.usage), soft_wrap=True)  # to be copied as it is


def _describe_head(classifier: Classifier) -> str:
    head = classifier.head
    what = f"{classifier.recipe} on {head.model}"
    kind = "a number" if head.problem.gives_number else counted(len(classifier.classes), "class")
    scores = ""
    if head.scores:
        scores = f", {noun_of(head.scores.metric)} {accuracy(head.scores)} on held-out rows"
    return f"{what} ({kind}{scores})"


def listing(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Any rows under their columns."""
    table = table_of(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    show(table)


def table_of(*columns: RenderableType) -> Table:
    """An empty table under these columns, as all of ours look."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(column) if isinstance(column, str) else column, overflow="fold")
    return table


class Terminal(Console):
    """A console on which no text of a user's moves the cursor or turns the way of writing."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                text = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(text, segment.style)


def show(*items: str | Table | Text | Padding) -> None:
    """Print texts and tables, each on lines of its own; nothing for an empty text."""
    console = _console()
    for item in items:
        if isinstance(item, Table):
            console.print(*fitted(item, console), sep="\n")
        else:  # a text of a user's is no markup, whatever stands in it
            console.print(Text(item) if isinstance(item, str) else item)


def fitted(table: Table, console: Console) -> list[Table]:
    """A table as wide as a terminal, in which no recipe and no other word is broken.

    Wide columns are folded, the first one last. Columns for which there is still no room go into a
    table of their own, beside the first one again.
    """
    options, end = console.options.update(max_width=UNBOUND), len(table.columns)
    spans = [
        [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
        for column in table.columns
    ]
    widths = [max(1, *(one.maximum for one in column)) for column in spans]
    least = [max(1, *(one.minimum for one in column)) for column in spans]

    def excess(columns: Sequence[int]) -> int:
        return sum(columns) + GAP * len(columns) - 1 - console.width

    if excess(least) > 0 and end > 2:
        cut = next((n for n in range(end - 1, 2, -1) if excess(least[:n]) <= 0), 2)
        parts = (_part(table, places) for places in (range(cut), (0, *range(cut, end))))
        return [one for part in parts for one in fitted(part, console)]
    for _ in range(excess(widths)):
        if folded := [place for place in range(end) if widths[place] > least[place]]:
            widths[max(folded, key=lambda place: (place > 0, widths[place]))] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    return [table]


def _part(table: Table, places: Sequence[int]) -> Table:
    """Some columns of a table."""
    columns = [table.columns[place] for place in places]
    part = table_of(*(column.header for column in columns))
    for row, *cells in zip(table.rows, *(column.cells for column in columns), strict=True):
        part.add_row(*cells, end_section=row.end_section)
    return part


# --- Whole files.


def answered(found: FileAnswers, to: Any) -> None:
    """What became of the rows of a file; on stderr, since answers may be printed."""
    console = Terminal(stderr=True, soft_wrap=True)
    for line in _answer_lines(found, to):
        console.print(Text(f"heads: {line}"))


def _answer_lines(found: FileAnswers, to: Any = None) -> list[str]:
    where = f" They are in {to}." if to else ""
    texts = f"texts: '{found.text}'" + (f" and '{found.pair}'" if found.pair else "")
    texts = f"vectors: '{found.vectors}'" if found.vectors else texts
    lines = [
        f"{found.head} on {found.model} answered {found.answered:,} of {found.rows:,} rows of "
        f"{found.file} ({texts}) in {found.seconds:.1f} s.{where}",
        *found.told,
    ]
    lines += [f"Answers: {commonest(found.counts, CLASSES)}."] if found.counts else []
    if found.abstained:
        lines.append(f"It abstained from {counted(found.abstained, 'row')}.")
    if found.spread:
        least, mean, most = (f"{one:.4g}" for one in found.spread)
        lines.append(f"Answers lie between {least} and {most}; their mean is {mean}.")
    return lines


def _against(found: Difference | None, name: Metric) -> str:
    """How far a head is from another one, and whether the two are told apart."""
    return "" if found is None else apart(found, name) + "*" * found.differs


def scored_file(found: FileScores) -> None:
    """The score of a head on a file, every class, every measure, and what flatters it."""
    own, name = found.measures, SCORES[found.measures.metric]
    told = f"{name.told(own.score)} ({name.between(own.low, own.high)}, 95 %)"
    show(
        f"{found.head} on {found.model}, on {own.rows:,} of {found.rows:,} rows of {found.file}: "
        f"{name.noun} {told}."
    )
    show(*held_out(found))
    if found.commonest is not None:
        show(f"The commonest label is that of {percent(found.commonest)} of the rows.")
    show(*found.told)
    table = table_of("measure", "value")
    for one in ranked(found.problem, own.metric):
        if (value := own.values.get(one.name)) is not None:
            table.add_row(one.label, one.shown(value))
    if found.calibrated_error is not None and found.temperature != 1:
        divided = f"Calibration error at temperature {found.temperature:.2f}"
        table.add_row(divided, percent(found.calibrated_error))
    show(table)
    if found.calibrated_error is not None and found.temperature != 1:
        show("The temperature was found on development rows of its training, not on these rows.")
    _of_classes(found)


def _of_classes(found: FileScores) -> None:
    """Every class or label, and how often each was taken for which."""
    if rows := class_rows(found):
        has_labels = bool(found.measures.labels)
        first = ("label", "rows") if has_labels else ("class", "rows", "answered")
        last = ("average precision",) * has_labels
        listing((*first, "precision", "recall", "F1", *last), rows[:CLASSES])
    if len(found.classes) > CLASSES:
        show(f"And {len(found.classes) - CLASSES:,} others (--json has them).")
    confusion = found.measures.confusion
    if confusion is not None and len(found.classes) <= FEW:
        table = table_of("is \\ answered", *found.classes)
        for one, row in zip(found.classes, confusion.tolist(), strict=True):
            table.add_row(Text(one), *(f"{cell:,}" for cell in row))
        show(table)


# --- What trained heads look at, and what-ifs.


def attributions(found: Sequence[Attribution], near: Sequence[Neighbourhood]) -> None:
    """A token a row, a head a column; heads that read other tokens have a table of their own."""
    groups: dict[tuple[str, ...], list[Attribution]] = {}
    for one in found:
        groups.setdefault(tuple(token.text for token in one.tokens), []).append(one)
    for words, heads in groups.items():
        table = table_of("token", *(f"{one.name}: {one.label}" for one in heads))
        for place, word in enumerate(words):
            scores = (_score(one, one.tokens[place].score) for one in heads)
            table.add_row(Text(word), *(Text(told, style=style) for told, style in scores))
        show(table)
    for one in found:
        show(one.says)
    for one in near:
        show(one.says)
        listing(
            ("how near", "label", "training example"),
            [
                (
                    each.told,
                    ", ".join(each.labels) or "none",
                    printable(" ↔ ".join(filter(None, (each.text, each.pair)))),
                )
                for each in one.neighbours
            ],
        )


def _score(one: Attribution, score: float) -> tuple[str, str]:
    if one.why_not:
        return "", ""
    return signed(score, 3), "green" if score > 0 else "red" if score < 0 else "dim"


def flips(found: Counterfactuals) -> None:
    """A sentence a row, as it is and edited; a head a column: what it says, whether it flips."""
    rows = [(found.original.text, found.original), *((one.change, one) for one in found.edits)]
    show(printable(found.summary))
    listing(
        ("", *(one.name for one in found.original.said)),
        [
            (
                printable(change),
                *(
                    _sure(said) + " (flips)" * turned
                    for said, turned in zip(one.said, one.flips, strict=True)
                ),
            )
            for change, one in rows
        ],
    )


def _sure(said: HeadOutput) -> str:
    return said.spoken if said.chance is None else f"{said.spoken} {percent(said.chance, 0)}"


def ablations(found: Sequence[Ablation]) -> None:
    """The logits of heads with a layer, with it taken out, and trained without it."""
    if not found:
        show("These heads have one layer that does anything, and it gives the logits.")
    for one in found:
        show(one.says)
        taken, anew = f"{one.layer} ({one.does}) taken out", f"trained without {one.layer}"
        columns = {"whole": one.before, taken: one.after, anew: one.retrained}
        shown = {title: said.logits for title, said in columns.items() if said is not None}
        if len(shown) == 1:
            continue
        listing(
            ("logit of", *shown),
            [
                (name, *(signed(value, 3) for value in values))
                for name, *values in zip(one.before.classes, *shown.values(), strict=True)
            ],
        )


def readings(found: Sequence[Reading]) -> None:
    """The same logits as softmax, as sigmoid, and at a temperature."""
    for one in found:
        if not one.said.problem.has_classes:
            show(f"{one.said.name} says {one.said.spoken}: a number, no probability.")
            continue
        show(f"{one.said.name} says {one.said.spoken}.")
        columns = (one.said.classes, one.said.logits, one.softmax, one.sigmoid, one.tempered)
        listing(
            ("class", "logit", "softmax", "sigmoid", f"at temperature {one.temperature:g}"),
            [
                (name, signed(logit, 3), *map(percent, shares))
                for name, logit, *shares in zip(*columns, strict=True)
            ],
        )
    if any(one.softmax for one in found):
        show(SOFTMAX, SIGMOID, TEMPERATURE)


# --- Runs and leaderboards as tables in a terminal, one of them live.

WIDE = 110  # columns of a terminal that hold every measure
SHOWN, CLASSES = 10, 20  # lines and classes that are listed
LONG = 120  # letters of a text in a table
FEW = 12  # classes of which it is shown which is taken for which
A_SECOND = 4  # times that the live table is drawn anew


def called(cell: Cell) -> str:
    """A recipe; a baseline in brackets."""
    return f"({titled(cell)})" if cell.is_baseline else cell.name


def scored(cell: Cell) -> str:
    """The score of a cell and its 95 % interval."""
    own = cell.measures
    score = of_metric(own.metric)
    return f"{score.shown(own.score)} ({between(own, 'to')})"


def followed(events: Iterator[Event], asked: RunSpec) -> Leaderboard:
    """Shows a run while it works: what it does, and a grid that fills; its leaderboard."""
    told, recipes = SCORES[asked.metric].told, dict(zip(asked.recipes, asked.resolved, strict=True))
    found: Leaderboard | None = None
    cells: dict[str, Cell] = {}
    says, trying = "Starting", ""
    with Live(console=Terminal(stderr=True), refresh_per_second=A_SECOND, transient=True) as live:
        for event in events:
            if isinstance(event, Progress):
                says, trying = f"{event.says} ({event.share:.0%})", ""
            elif isinstance(event, CurvePointTried):
                trying = f"{event.name}: {told(event.point.score)} on held-out rows"
            elif isinstance(event, SeedFitting):
                trying = f"{event.name}: training {event.seed + 1} of {len(asked.splits)}"
            elif isinstance(event, CellDone):
                cells[event.cell.name] = event.cell
                says = f"{event.done} of {event.planned} heads trained"
            else:
                found = event
            tables = fitted(_grid(cells, recipes), live.console)
            live.update(Group(*tables, Text(says), Text(trying)))
    assert found is not None
    return found


def _grid(cells: Mapping[str, Cell], recipes: Mapping[str, ResolvedRecipe]) -> Table:
    """Readings down, heads across, the score in each cell."""
    shown: dict[str, dict[str, str]] = {}
    for name, cell in cells.items():
        if not cell.is_baseline:
            recipe, own = recipes[name], cell.measures
            shown.setdefault(recipe.reading, {})[recipe.behind] = SCORES[own.metric].told(own.score)
    heads = list(dict.fromkeys(head for row in shown.values() for head in row))
    table = table_of("", *heads)
    for reading, row in shown.items():
        table.add_row(reading, *(row.get(head, "") for head in heads))
    return table


def leaderboard(found: Leaderboard, told: Sequence[str] = (), run: RunFolder | None = None) -> None:
    """Print the verdict, a cell a row, and the notes that were not told before.

    Args:
        found: The leaderboard.
        told: Notes that were printed before.
        run: The run; with it the short answers to the questions about it are printed too.
    """
    show(*([f"Warning: {found.warning}"] if found.warning else []))
    lines = found.verdict
    show(*(Text(line, style="bold" if not n else "") for n, line in enumerate(lines)))
    before = {*told, raced(len(found.stopped))}
    notes = [one for one in found.notes if one not in before and one not in found.reading]
    show(*(f"Note: {one}" for one in notes))
    wide = _console().width >= WIDE
    known = {one.name: one for one in MEASURES[found.problem]}
    more = [known[name] for name in BRIEF[found.problem]] if wide else []
    titles = [*(one.heading for one in more), *(["parameters"] if wide else [])]
    score = of_metric(found.metric)
    table = table_of("", score.heading, "95 %", f"against {found.reference}", *titles)
    for cell in found.cells:
        values = [(one, one.of(cell)) for one in more]
        size = [count(cell.learned) if cell.learned else ""] if wide else []
        is_used = cell.name == found.recommendation.name
        table.add_row(
            Text(called(cell) + " ★" * is_used, style="bold" * is_used),
            score.shown(cell.measures.score),
            between(cell.measures).replace(" ", ""),
            difference(cell),
            *("" if value is None else one.shown(value) for one, value in values),
            *size,
        )
    show(table)
    keys = ["★ recommended."] * bool(found.recommendation.name)
    if any(cell.to_reference and cell.to_reference.differs for cell in found.cells):
        told = f"* significantly different from {found.reference}, over all comparisons (95 %)."
        keys.append(told)
    show(*([" ".join(keys)] if keys else []))
    show(*_remarks(found))
    if run:
        answer_questions(found)
        show(f"The run is {run.id}: {run.path}")


def answer_questions(board: Leaderboard, names: Sequence[str] = ()) -> None:
    """Print the short answer to every question about a run; the whole answer to those named."""
    sections, chosen = result_sections(), find_sections(names)
    subject = find_subject(board, runs=all_runs())
    if not subject.head:
        return
    for section in chosen:
        answer = section.open_answer(subject)
        show_blocks(section.question, answer.phrase, *answer.sentences, *answer.tables)
    if chosen:
        return
    table = table_of("--show", "question and answer")
    for section in sections:
        if section.has_answer(board) and (phrase := section.find_answer(subject).phrase):
            table.add_row(Text(section.name), Text(f"{section.question} {phrase}"))
    if table.row_count:
        show(table, f"What an answer rests on: heads runs {board.run} --show NAME")


def answers_as_json(board: Leaderboard, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answers to the questions about a run by the names of their sections."""
    subject, chosen = find_subject(board, runs=all_runs()), find_sections(names)
    return {
        section.name: {"question": section.question}
        | (
            section.open_answer(subject).as_json()
            if section in chosen
            else {"phrase": section.find_answer(subject).phrase}
        )
        for section in chosen or result_sections()
        if subject.head and section.has_answer(board)
    }


def _remarks(found: Leaderboard) -> list[str]:
    """What stands below the table, a sentence or two each."""
    lines = [found.protocol, *_describe_recommended(found), *_raced(found)]
    read = "" if is_given(found.model) else (
        f", {found.forward_seconds:,.0f} s of them reading with {found.model} ({found.precision})"
    )  # fmt: skip
    lines += [f"{found.seconds:,.0f} s in all{read}.", found.reading]
    if found.state != "finished":
        done = sum(not cell.is_baseline for cell in found.cells) + len(found.stopped)
        lines.append(f"The run is {found.state}: {done} of {found.planned} heads.")
    return [line for line in lines if line]


def _raced(found: Leaderboard) -> list[str]:
    """Whom a race has stopped, the nearest first."""
    if not found.stopped:
        return [note for note in found.notes if note == raced(0)]
    told = [f"{one.recipe}: {behind(one, found.metric)}." for one in found.stopped[:SHOWN]]
    more = len(found.stopped) - SHOWN
    return [raced(len(found.stopped)), *told, f"And {more} others." if more > 0 else ""]


def _describe_recommended(found: Leaderboard) -> list[str]:
    """Say with which settings the recommended head was trained."""
    name = find_subject(found).head
    says = chosen_says(found.cell(name)) if name else ""
    return [f"{name}: {says[:1].lower()}{says[1:]}"] if says else []


def difference(cell: Cell) -> str:
    """How far a cell is from the reference, and whether the two are told apart."""
    return _against(cell.to_reference, SCORES[cell.measures.metric])


def data(found: Data) -> None:
    """How a file was read."""
    corpus, dropped = found.corpus, sum(map(len, found.dropped.values()))
    show(f"{corpus.name}: {found.rows_in:,} rows, {len(corpus):,} used, {dropped:,} left out.")
    for reason, lines in found.dropped.items():
        more = " …" if len(lines) > SHOWN else ""
        show(f"Left out, {reason}: {found.unit} {', '.join(map(str, lines[:SHOWN]))}{more}")
    named = {"text": "text", "pair": "second text", "label": "label", "split": "split"}
    named |= {"group": "group", "vectors": "vectors"}
    used = [(says, getattr(found.columns, name)) for name, says in named.items()]
    used += [("label", name) for name in found.columns.labels]
    how = "guessed" if found.guessed else "as named"
    show(f"Columns ({how}): " + ", ".join(f"{says} '{name}'" for says, name in used if name))
    show(f"Labels ({how}): {found.says}")
    if found.guessed and not corpus.problem.is_exclusive:
        show("Change it with --label, --separator none, --labels or --no-number.")
    _counted(found)
    show(*found.notes, *(f"Note: {one.says}" for one in found.findings))


def _counted(found: Data) -> None:
    """Rows of each class, or how the numbers spread."""
    if found.spread:
        _, quarter, middle, most, _ = (f"{value:.4g}" for value in found.spread)
        show(f"Half of them lie between {quarter} and {most}, the median is {middle}.")
        return
    many = found.corpus.problem.has_label_sets
    table = table_of(found.corpus.problem.group, "rows")
    for name, number in list(found.classes.items())[:CLASSES]:
        table.add_row(Text(name), f"{number:,}")
    show(table)
    if len(found.classes) > CLASSES:
        things = "labels" if many else "classes"
        show(f"And {len(found.classes) - CLASSES:,} other {things}.")


def side_by_side(found: Sequence[Leaderboard]) -> None:
    """A recipe a row, a run a column."""
    table = table_of("", *(f"{one.data}\n{one.run[-16:]}" for one in found))
    names = {cell.name: called(cell) for one in found for cell in one.cells}
    for name in names:
        row = []
        for one in found:
            cells = [cell for cell in one.cells if cell.name == name]
            row.append(scored(cells[0]) if cells else "")
        table.add_row(Text(names[name]), *row)
    for title, value in (("data", "data"), ("base model", "model"), ("best", "best")):
        table.add_row(Text(title), *(Text(str(getattr(one, value))) for one in found))
    table.add_row("recommended", *(Text(one.recommendation.name or "none") for one in found))
    show(table)
    if len({(one.data, one.protocol) for one in found}) > 1:
        show("These runs were not scored alike, so their numbers do not compare directly:")
        show(*(f"{one.run}: {one.protocol}" for one in found))


def listed(runs: Sequence[Mapping[str, Any]]) -> None:
    """A run a row, the newest first."""
    if not runs:
        show("There are no runs yet. Write: heads train data.csv")
        return
    wide = _console().width >= WIDE
    columns = ("data", "base model", "when") * wide
    table = table_of("run", "cells", "state", "recommended", *columns)
    for one in runs:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["created"]))
        row = (one["run"], f"{one['cells']}/{one['planned']}", one["state"], _chosen(one))
        table.add_row(*map(Text, (*row, *((one["data"], one["model"], when) * wide))))
    show(table)


def _chosen(one: Mapping[str, Any]) -> str:
    """The recommended head of a listed run with its score, or else the best one."""
    name, score = one["recommended"], one["recommended_score"]
    if not name:
        name, score = one["best"], one["score"]
    told = "" if score is None else f" ({SCORES[one['metric']].told(score)})"
    return f"{name}{told}" if one["recommended"] else f"best: {name}{told}" * bool(name)


_TABLES: dict[type, Callable[[Any], None]] = {
    Ablation: lambda result: ablations([result]),
    Attribution: lambda result: attributions([result], []),
    CatalogEntry: lambda result: families([result], {}),
    Catalogue: lambda result: families(result, {}),
    Comparison: comparison,
    Counterfactuals: flips,
    Data: data,
    Exported: exported,
    Explanation: lambda result: explanations([result], ""),
    FileAnswers: lambda result: show(*_answer_lines(result)),
    FileScores: scored_file,
    Leaderboard: leaderboard,
    Neighbourhood: lambda result: attributions([], [result]),
    OnnxReport: exported,
    PaddingReport: diagnosis,
    Reading: lambda result: readings([result]),
}
