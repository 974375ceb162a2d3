"""Values to tables in a terminal."""

import io
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
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
from heads.analysis.adapter_check import AdapterFinding, AdapterReport
from heads.analysis.answering import FileAnswers
from heads.analysis.attribution_result import Attribution
from heads.analysis.comparison import Comparison, said
from heads.analysis.counterfactuals import Counterfactuals
from heads.analysis.endpoint.report import EndpointFinding, EndpointReport
from heads.analysis.explanation import ORIGINS, Explanation
from heads.analysis.neighbors import Neighbourhood
from heads.analysis.padding.report import PaddingReport
from heads.analysis.row_map import RowMap, axes
from heads.analysis.scoring import FileScores
from heads.analysis.selection import SIGMOID, SOFTMAX, TEMPERATURE, HeadOutput, Reading
from heads.analysis.stage import StageCheck
from heads.analysis.tour import CHOICES, Tour
from heads.backbone.given import is_given
from heads.catalog.catalog import CatalogEntry, Catalogue
from heads.classifier.calibration import CALIBRATED
from heads.classifier.classifier import Classifier
from heads.classifier.prediction import Prediction
from heads.data.dataset import Data
from heads.display import Code, Displayed
from heads.errors import printable
from heads.evaluation.critical_differences import CriticalDifferences
from heads.evaluation.metrics import SCORES, Metric
from heads.evaluation.significance import Difference
from heads.evaluation.transferability import MEASURES as ESTIMATES
from heads.events import Progress
from heads.exporters.export import Exported
from heads.exporters.onnx import OnnxReport
from heads.exporters.push import Pushed
from heads.interfaces.views import maps, ranks
from heads.interfaces.views import ways_of_learning as ways
from heads.interfaces.views.doubtful_labels import agree_of, sure_of
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
from heads.interfaces.views.head_details import abstained_says, chosen_says, scaled_says
from heads.interfaces.views.leaderboard import behind
from heads.interfaces.views.predictions import short
from heads.interfaces.views.whole_files import class_rows, held_out
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.runs.cells import Cell
from heads.runs.doubtful_labels import DoubtfulLabels
from heads.runs.drill_down import layer_name, layered, mix_of
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.notes import raced
from heads.runs.runner import CellDone, Event
from heads.runs.spec import RunSpec
from heads.study.mteb import Reproduced
from heads.trackers import Tracked
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


def describe(result: Displayed, *more: str) -> None:
    """Print what a result says, and more sentences below."""
    description = result.describe()
    show(Text(description.title, style="bold"))
    for block in (*description.blocks, *more):
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


def comparison(found: Comparison, to: Path | None = None) -> None:
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
    lines += [f"The same as one HTML file: {to}"] * (to is not None)
    show(found.verdict, *tables, *lines)


def tour(found: Tour, to: Path | None) -> None:
    """Five questions, each with what was measured."""
    metric = SCORES[found.board.metric]
    for number, step in enumerate(found.steps, start=1):
        one = step.difference
        scores = ", ".join(f"{name} {metric.told(score)}" for name, score in step.scores)
        show(f"{number}. {step.question.asks}", Padding(Group(
            Text(step.question.guess),
            Text(f"{CHOICES[step.right]} {one.name} less {one.other}: {apart(one, metric)}, "
                 f"95 % interval, on {step.rows:,} rows."),
            Text(f"{metric.title}: {scores}."),
        ), (0, 0, 0, 3)))  # fmt: skip
    said = f"The same as one HTML file: {to}" if to else "As a file for a stage: --to tour.html"
    show(said)


def stage(found: StageCheck, to: Path | None) -> None:
    """What has to hold on a stage, and whether it does."""
    table = table_of("", "", "")
    table.show_header = False
    for one in found.checks:
        table.add_row("ready" if one.is_ready else "NOT READY", one.what, one.says)
    show(table, *[f"The tour as one HTML file: {to}"] * (to is not None))


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


def adapter(found: AdapterReport) -> None:
    """What is wrong with an adapter, and what is in it."""
    onto = f" ({found.called})" if found.called else ""
    rank = f" of rank {found.rank}" * bool(found.rank)
    show(found.verdict, "", f"{found.kind or 'PEFT'}{rank} for {found.base}{onto}.")
    for first in found.learned[:1]:
        show(f"Learned: {counted(len(found.learned), 'module')}, such as {first}.")
    show(f"Saved whole: {', '.join(found.saved) or 'nothing'}.")
    show(*([f"Labels: {', '.join(found.labels)}."] if found.labels else []), "")
    _findings(found.findings)


def _findings(findings: Iterable[AdapterFinding | EndpointFinding]) -> None:
    """Print what is wrong, with what to do below it."""
    for one in findings:
        show(Text(one.says, style="bold" if one.weight == "fault" else ""))
        show(*([Padding(Text(one.hint), (0, 0, 0, 4))] if one.hint else []))


def endpoint(found: EndpointReport) -> None:
    """Whether a server is right, what is wrong with what to do, and what it was asked."""
    served = f", which serves {found.served}" if found.served else ""
    show(found.verdict, "")
    _findings(found.findings)
    show(*([""] if found.findings else []))
    show(f"{found.server} at {found.url}{served}, held to {found.model} ({found.recipe}).")
    if found.difference is not None:
        share = (
            f"; {percent(found.agreement)} of labels alike" if found.agreement is not None else ""
        )
        show(f"Largest difference of two scores: {found.difference:.2g}{share}.")
    show("Asked:", *(Padding(Text(one), (0, 0, 0, 2)) for one in found.asked))


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


def pushed(found: Pushed) -> None:
    """Where it is now, or what would have been sent, with its card."""
    files, one = counted(len(found.exported.files), "file"), found.exported
    if found.commit:
        show(f"{found.repo} is on the Hub: {found.url} ({files}, {one.called})", *found.notes)
        return
    show(
        f"Nothing was sent. {found.repo} would be {files} ({one.called}). They lie in the folder "
        f"{one.folder}, to be looked at; delete it afterwards.",
        *found.notes,
    )
    _console().print(Text(found.card), soft_wrap=True)


def tracked(found: Tracked) -> None:
    """Where a run is logged, and the command that shows it."""
    cells = counted(len(found.logged), "cell")
    show(f"{cells} of {found.group} are in {found.project} of {found.tracker}: {found.place}")
    show(*found.notes)
    if found.see:
        _console().print(Text(found.see), soft_wrap=True)  # to be copied as it is


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
    """Prints texts and tables, each on lines of its own."""
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
PRICED = 6  # columns up to the price of a way of learning: its name, score and time
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
    """Print the verdict, a cell a row, and the notes that were not told before."""
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
    _layers(found)
    _ways(found)
    show(*_remarks(found), *([f"The run is {run.id}: {run.path}"] if run else []))


def _remarks(found: Leaderboard) -> list[str]:
    """What stands below the table, a sentence or two each."""
    lines = [found.protocol, *_describe_recommended(found), *_raced(found), found.curve_says]
    lines += [f"Before training: {one.says}" for one in found.agreements]
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
    """Say how the head to use was trained, how sure it is, and which layers learned mixes read."""
    listed, recommended = [cell.name for cell in found.cells], found.recommendation.name
    name = recommended if recommended in listed else found.best
    says = chosen_says(found.cell(name)) if name else ""
    lines = [f"{name}: {says[:1].lower()}{says[1:]}"] if says else []
    if name and (scaled := found.cell(name).measures.calibration):
        gained = abstained_says(scaled.coverage, found.problem)
        lines.append(f"How sure {name} is: {scaled_says(scaled)} {gained}")
    for cell in found.cells:
        shares = [
            f"{layer_name(layer)} {percent(share, 0)}"
            for layer, share in enumerate(mix_of(found, cell.name))
        ]
        lines += [f"{cell.name} has learned to read {', '.join(shares)}."] if shares else []
    return lines


def _layers(found: Leaderboard) -> None:
    """One pooling and head at several layers: a layer a row, and where the best one is."""
    for one in layered(found):
        score = of_metric(found.metric)
        table = table_of("layer", score.heading, "95 %", *ESTIMATES.values())
        for layer, cell, told in zip(one.layers, one.cells, one.estimates, strict=True):
            own = cell.measures
            before = [f"{getattr(told, name):.3f}" if told else "" for name in ESTIMATES]
            ends = between(own).replace(" ", "")
            table.add_row(layer, score.shown(own.score), ends, *before)
        show(f"{one.recipe}, layer by layer:", table, one.says)


def _ways(found: Leaderboard) -> None:
    """One recipe in several ways of learning the base model: a way a row, and what it is worth."""
    for one in found.ways_of_learning:
        table = table_of("", *map(str.lower, ways.headers(one, found.metric)))
        for way, row in zip(one.ways, ways.rows(one), strict=True):
            table.add_row(way.resolved.tune, *row)
        parts, end = [table], len(table.columns)
        if _console().width < WIDE:  # what it gives and takes stays together
            parts = [_part(table, range(PRICED)), _part(table, (0, *range(PRICED, end)))]
        show(f"{one.recipe}, by what is learned of the base model:", one.says, *parts)
    if found.ways_of_learning:
        show(ways.notes(found))


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


def row_map(found: RowMap, to: Path | None) -> None:
    """How well each picture can be trusted, and where the map was written."""
    table = table_of(*maps.HEADERS)
    for row in maps.rows(found):
        table.add_row(*map(Text, row))
    show(maps.says(found), table, maps.KEY, *(f"Note: {one}" for one in found.notes))
    if to is None:
        show("Write it with --to map.html, to be looked at, or --to map.parquet.")
        return
    show(f"The map: {to}")
    if to.suffix.lower() == ".parquet":
        x, y = axes(found.readings[0].reading)
        opens = f"embedding-atlas {shlex.quote(str(to))} --text text --x {x} --y {y}"
        show("Embedding Atlas opens it (pip install embedding-atlas):")
        _console().print(Text(opens), soft_wrap=True)  # to be copied as it is


def differences(found: CriticalDifferences, to: Path | None = None) -> None:
    """A recipe a row, the best average rank first; then the pairs that are told apart."""
    show(Text(found.verdict, style="bold"))
    table, letters = table_of("", "average rank", "groups", *found.data), found.letters
    for at, (name, rank) in enumerate(zip(found.recipes, found.ranks, strict=True)):
        scores = (f"{row[at]:.3f}" for row in found.scores)
        table.add_row(Text(name), f"{rank:.2f}", letters[name], *scores)
    show(table, ranks.key(found))
    show(*(f"Note: {one}" for one in ranks.notes(found)))
    if told := [pair for pair in found.pairs if pair.differs]:
        pairs = table_of("better", "than", "on data sets", "p (Holm)")
        for pair in told:
            p = "" if pair.p_holm is None else f"{pair.p_holm:.2g}"
            wins = f"{pair.wins} of {len(found.data)}"
            pairs.add_row(*map(Text, (pair.one, pair.other, wins, p)))
        show("Told apart:", pairs)
    if to:
        show(f"The diagram: {to}")


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


def labels(found: DoubtfulLabels, most: int) -> None:
    """A doubtful label a row, the most doubtful first."""
    shown = found.rows[:most] if most > 0 else found.rows
    show(Text(found.says, style="bold"), *(f"Note: {one}" for one in found.notes))
    if shown:
        listing(
            (found.unit, "label", "suggested", "probabilities", "agree", "text"),
            [
                (
                    str(one.line),
                    one.label,
                    one.suggested,
                    " → ".join(filter(None, sure_of(one))),
                    agree_of(one, found),
                    printable(short(" ↔ ".join(filter(None, (one.text, one.pair))), LONG)),
                )
                for one in shown
            ],
        )
    if left := len(found.rows) - len(shown):
        show(f"And {left:,} more: --most 0 prints all, --to FILE writes them into a file.")


def reproduced(found: Reproduced) -> None:
    """The published figures beside those computed here."""
    table = table_of(found.name, "here", "published")
    table.add_row("accuracy", repr(found.accuracy), repr(found.published.accuracy))
    table.add_row("macro-F1", repr(found.f1), repr(found.published.f1))
    told = "Equal to every digit." if found.equal else "Not equal."
    show(table, f"{told} Published: {found.published.source}.")


_TABLES: dict[type, Callable[[Any], None]] = {
    Ablation: lambda result: ablations([result]),
    AdapterReport: adapter,
    Attribution: lambda result: attributions([result], []),
    CatalogEntry: lambda result: families([result], {}),
    Catalogue: lambda result: families(result, {}),
    Comparison: comparison,
    Counterfactuals: flips,
    CriticalDifferences: differences,
    Data: data,
    DoubtfulLabels: lambda result: labels(result, 20),
    EndpointReport: endpoint,
    Exported: exported,
    Explanation: lambda result: explanations([result], ""),
    FileAnswers: lambda result: show(*_answer_lines(result)),
    FileScores: scored_file,
    Leaderboard: leaderboard,
    Neighbourhood: lambda result: attributions([], [result]),
    OnnxReport: exported,
    PaddingReport: diagnosis,
    Pushed: pushed,
    Reading: lambda result: readings([result]),
    RowMap: lambda result: row_map(result, None),
    Tour: lambda result: tour(result, None),
    Tracked: tracked,
}
