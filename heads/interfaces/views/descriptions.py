"""Core results in sentences and tables, which shell and notebook draw alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from heads.backbone.given import is_given
from heads.catalog.catalog import CatalogEntry, Catalogue
from heads.classifier.calibration import CALIBRATED
from heads.classifier.classifier import Classifier
from heads.classifier.prediction import Prediction
from heads.classifier.pretrained import fine_tuned_warning
from heads.data.dataset import Data
from heads.display import Code, Description, Table
from heads.errors import printable
from heads.evaluation.metrics import SCORES
from heads.exporters.export import Exported
from heads.exporters.onnx import OnnxReport
from heads.inference.evaluate import FileScores
from heads.inference.predict import FileAnswers
from heads.interfaces.views.dataset import ROLES
from heads.interfaces.views.explanation import headline, list_notes
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
from heads.interfaces.views.lanes import trained_on
from heads.interfaces.views.leaderboard import behind
from heads.interfaces.views.questions import NOT_ALIKE
from heads.interfaces.views.sections import find_subject
from heads.interfaces.views.whole_files import held_out, tabulate_classes
from heads.interpret.ablation import Ablation
from heads.interpret.attribution_result import Attribution
from heads.interpret.comparison import Comparison, said
from heads.interpret.counterfactuals import Counterfactuals
from heads.interpret.explanation import ORIGINS, Explanation
from heads.interpret.neighbors import Neighbourhood
from heads.interpret.outputs import SIGMOID, SOFTMAX, TEMPERATURE, HeadOutput, Reading
from heads.interpret.padding.report import PaddingReport
from heads.runs.cells import Cell
from heads.runs.leaderboard import Leaderboard
from heads.runs.notes import raced

MOST_LINES, MOST_CLASSES = 10, 20  # lines and classes that are listed
FEW = 12  # classes of which a confusion matrix is shown


@singledispatch
def describe(result: Any) -> Description:
    """Return what shell and notebook show of a result."""
    return result.describe()


# --- Heads, and what they answer to a text.


@describe.register
def _(comparison: Comparison) -> Description:
    predictions = comparison.predictions
    sets = dict.fromkeys(prediction.classes for prediction in predictions)
    tables = [_tabulate_answers([p for p in predictions if p.classes == own]) for own in sets]
    title = "" if comparison.sample else comparison.run or "other data"
    caption = f"Probability and logit on {comparison.model}. {trained_on(comparison, title)}"
    thresholds = "Each label is given above a threshold of its own (--json shows them)."
    has_thresholds = any(p.thresholds and p.scores for p in predictions)
    notes = [f"Note: {note}" for note in comparison.notes]
    blocks = (*tables, *notes, caption.strip(), *[thresholds] * has_thresholds)
    return Description(title=comparison.verdict, blocks=blocks)


def _tabulate_answers(predictions: Sequence[Prediction]) -> Table:
    """Return a row a class and a column a head; all heads have the same classes."""
    rows = [
        (
            name,
            *(
                f"{percent(p.probabilities[at])} " * p.problem.has_classes + signed(p.logits[at])
                for p in predictions
            ),
        )
        for at, name in enumerate(predictions[0].classes)
    ]
    rows.append(("answer", *map(said, predictions)))
    if any(p.new for p in predictions):
        rows.append(("", *("this head is random" if p.new else "" for p in predictions)))
    if scores := [p.scores for p in predictions if p.scores]:
        ends = [accuracy(p.scores).split(" (") if p.scores else ("", "") for p in predictions]
        rows.append((f"held-out {noun_of(scores[0].metric)}", *(score for score, _ in ends)))
        rows.append(("95 % interval", *(interval.rstrip(")") for _, interval in ends)))
    rows.append(("parameters", *(count(p.parameters) for p in predictions)))
    return Table(headers=("", *(p.name for p in predictions)), rows=tuple(rows))


@describe.register
def _(explanation: Explanation) -> Description:
    rows = []
    for step in explanation.steps:
        is_base = step.kind == "base"  # of which there are too many to name them
        origins = {
            ORIGINS[fact.origin] + f" ({fact.source})" * bool(fact.source and not is_base)
            for fact in step.tensors
        }
        name = step.name.rpartition("/")[2] if is_base else step.name
        size = f"{step.parameters:,}" if step.parameters else ""
        origin = "; ".join(sorted(origins)) or "pretrained" * is_base
        rows.append((name, step.does, " × ".join(map(str, step.shape)), size, origin))
    reads = "  ".join(f"{word} {percent(fraction, 0)}" for word, fraction in explanation.reads)
    headers = ("layer", "does", "shape", "parameters", "weights")
    return Description(
        title=headline(explanation),
        blocks=(
            Table(headers=headers, rows=tuple(rows)),
            *explanation.formula,
            f"Reads: {reads}",
            *(f"Note: {note}" for note in list_notes(explanation)),
            *explanation.sources,
        ),
    )


@describe.register
def _(classifier: Classifier) -> Description:
    head = classifier.head
    classes = f"Answers: {', '.join(classifier.classes)}." if head.problem.has_classes else ""
    warning = fine_tuned_warning(classifier.backbone) if head.scores else ""
    if head.new:
        warning = f"This head is random: what it says means nothing. {warning}".strip()
    learned = f"Learned: {head.parameters + head.base_parameters:,} parameters."
    blocks = (classes, learned, warning)
    return Description(title=f"{summarize_head(classifier)}.", blocks=blocks)


def summarize_head(classifier: Classifier) -> str:
    """Return a head in a phrase: recipe, base model, classes, and score on held-out rows."""
    head = classifier.head
    kind = "a number" if head.problem.gives_number else counted(len(classifier.classes), "class")
    scores = ""
    if head.scores:
        scores = f", {noun_of(head.scores.metric)} {accuracy(head.scores)} on held-out rows"
    divided = head.chosen.get(CALIBRATED)
    temperature = f", last layer divided by its temperature, {divided:.3g}" if divided else ""
    return f"{classifier.recipe} on {head.model} ({kind}{scores}{temperature})"


def tabulate_parts(registries: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Table]:
    """Return a table for each registry of parts, with the sentence and the options of each."""
    return [
        Table(
            headers=(title, "what it does", "options"),
            rows=tuple(
                (
                    part["name"],
                    part["says"],
                    ", ".join(f"{name}={value}" for name, value in part["options"].items()),
                )
                for part in registry
            ),
        )
        for title, registry in registries.items()
    ]


@describe.register(Catalogue)
def describe_families(
    entries: Sequence[CatalogEntry], checks: Mapping[str, Mapping[str, Any]] | None = None
) -> Description:
    """Return a row a family of Transformers: its form, its recipe and its class.

    Args:
        checks: What comparing logits with the class gave, by family.
    """
    rows = []
    for entry in entries:
        row = (entry.model_type, entry.form, entry.recipe or entry.reason or "", entry.called)
        if check := (checks or {}).get(entry.model_type):
            exact = f"yes ({check['max_difference']})".replace("(0.0)", "(to the bit)")
            row += ({True: exact, False: "NO", None: "not built"}[check["equal"]],)
        rows.append(row)
    headers = ("family", "form", "recipe, or why there is none", "class", "equal")
    blocks: list[str | Table] = [Table(headers=headers[: len(rows[0])], rows=tuple(rows))]
    if checks:
        equal = sum(check["equal"] is True for check in checks.values())
        exact = sum(check["max_difference"] == 0 for check in checks.values())
        told = f"{equal} give the very logits of their class, {exact} of them to the last bit."
        blocks.append(told)
    here = sum(entry.recipe is not None for entry in entries)
    families = f"{here} of {len(entries)} families are a recipe here."
    return Description(title=families, blocks=tuple(blocks))


@describe.register
def _(entry: CatalogEntry) -> Description:
    return describe_families([entry])


@describe.register
def _(report: PaddingReport) -> Description:
    recipe = f" is {report.recipe}" if report.recipe else f": {report.no_recipe}"
    changes = []
    for finding in report.findings:
        error = f"It says: {finding.error}" if finding.error else ""
        reasons = filter(None, (finding.why, finding.advice, error))
        changes.append(" ".join((f"{finding.title}: {effect(finding)}.", *reasons)))
    head = f"{report.class_name}{recipe}.".replace("..", ".")
    return Description(title=report.verdict, blocks=(head, *report.notes, *changes))


@describe.register
def _(exported: Exported) -> Description:
    files = f"Files: {', '.join(exported.files)}."
    blocks = (_exactness(exported), *exported.notes, files, Code(exported.usage))
    return Description(title=f"Exported as {exported.called}: {exported.folder}", blocks=blocks)


@describe.register
def _(report: OnnxReport) -> Description:
    exactness = "" if report.int8 else _exactness(report)  # its notes compare the one in 8 bits
    return Description(
        title=f"Exported as one ONNX file of {report.size_bytes / 1e6:.0f} MB: {report.path}",
        blocks=(exactness, *report.notes, Code(report.usage)),
    )


def _exactness(exported: Exported | OnnxReport) -> str:
    return f"Loaded anew, its logits differ from ours by at most {exported.difference:.1g}."


# --- Data and whole files.


@describe.register
def _(data: Data) -> Description:
    corpus, dropped = data.corpus, sum(map(len, data.dropped.values()))
    lines = []
    for reason, numbers in data.dropped.items():
        more = " …" * (len(numbers) > MOST_LINES)
        shown = ", ".join(map(str, numbers[:MOST_LINES]))
        lines.append(f"Left out, {reason}: {data.unit} {shown}{more}")
    used = [(role, getattr(data.columns, name)) for name, role in ROLES.items()]
    used += [("label", name) for name in data.columns.labels]
    how = "guessed" if data.guessed else "as named"
    columns = ", ".join(f"{role} '{name}'" for role, name in used if name)
    lines += [f"Columns ({how}): {columns}", f"Labels ({how}): {data.says}"]
    if data.guessed and not corpus.problem.is_exclusive:
        lines.append("Change it with --label, --separator none, --labels or --no-number.")
    findings = [f"Note: {finding.says}" for finding in data.findings]
    return Description(
        title=f"{corpus.name}: {data.rows_in:,} rows, {len(corpus):,} used, {dropped:,} left out.",
        blocks=(*lines, _count_labels(data), *data.notes, *findings),
    )


def _count_labels(data: Data) -> str | Table:
    """Return the rows of each class, or how numbers spread."""
    if data.spread:
        _, quarter, middle, most, _ = (f"{value:.4g}" for value in data.spread)
        return f"Half of them lie between {quarter} and {most}, the median is {middle}."
    problem, more = data.corpus.problem, len(data.classes) - MOST_CLASSES
    rows = [(name, f"{rows:,}") for name, rows in list(data.classes.items())[:MOST_CLASSES]]
    things = "labels" if problem.has_label_sets else "classes"
    note = f"And {more:,} other {things}." if more > 0 else ""
    return Table(headers=(problem.group, "rows"), rows=tuple(rows), note=note)


@describe.register
def _(answers: FileAnswers) -> Description:
    to = f" They are in {answers.to}." if answers.to else ""
    texts = f"texts: '{answers.text}'" + (f" and '{answers.pair}'" if answers.pair else "")
    texts = f"vectors: '{answers.vectors}'" if answers.vectors else texts
    lines = [*answers.told]
    lines += [f"Answers: {commonest(answers.counts, MOST_CLASSES)}."] if answers.counts else []
    if answers.abstained:
        lines.append(f"It abstained from {counted(answers.abstained, 'row')}.")
    if answers.spread:
        least, mean, most = (f"{value:.4g}" for value in answers.spread)
        lines.append(f"Answers lie between {least} and {most}; their mean is {mean}.")
    return Description(
        title=f"{answers.head} on {answers.model} answered {answers.answered:,} of "
        f"{answers.rows:,} rows of {answers.file} ({texts}) in {answers.seconds:.1f} s.{to}",
        blocks=tuple(lines),
    )


@describe.register
def _(scores: FileScores) -> Description:
    measures, metric = scores.measures, SCORES[scores.measures.metric]
    score = f"{metric.told(measures.score)} ({metric.between(measures.low, measures.high)}, 95 %)"
    lines = held_out(scores)
    if scores.commonest is not None:
        lines.append(f"The commonest label is that of {percent(scores.commonest)} of the rows.")
    rows = [
        (measure.label, measure.shown(value))
        for measure in ranked(scores.problem, measures.metric)
        if (value := measures.values.get(measure.name)) is not None
    ]
    note = ""
    if scores.calibrated_error is not None and scores.temperature != 1:
        divided = f"Calibration error at temperature {scores.temperature:.2f}"
        rows.append((divided, percent(scores.calibrated_error)))
        note = "The temperature was found on development rows of its training, not on these rows."
    return Description(
        title=f"{scores.head} on {scores.model}, on {measures.rows:,} of {scores.rows:,} rows of "
        f"{scores.file}: {metric.noun} {score}.",
        blocks=(
            *lines,
            *scores.told,
            Table(headers=("Measure", "Value"), rows=tuple(rows), note=note),
            *_tabulate_classes(scores),
        ),
    )


def _tabulate_classes(scores: FileScores) -> list[Table]:
    """Return a row a class or label, and of a few classes the confusion matrix."""
    tables, confusion = [], scores.measures.confusion
    if (table := tabulate_classes(scores)).rows:
        more = len(scores.classes) - MOST_CLASSES
        note = f"And {more:,} others (--json has them)." if more > 0 else ""
        tables.append(replace(table, rows=table.rows[:MOST_CLASSES], note=note))
    if confusion is not None and len(scores.classes) <= FEW:
        counts = [
            (name, *(f"{number:,}" for number in numbers))
            for name, numbers in zip(scores.classes, confusion.tolist(), strict=True)
        ]
        tables.append(Table(headers=("Is \\ answered", *scores.classes), rows=tuple(counts)))
    return tables


# --- What trained heads look at, and what-ifs.


@describe.register
def _(attribution: Attribution) -> Description:
    return Description(title=attribution.says, blocks=tuple(tabulate_tokens([attribution])))


def tabulate_tokens(attributions: Sequence[Attribution]) -> list[Table]:
    """Return a row a token and a column a head, a table for all heads that read the same tokens."""
    groups: dict[tuple[str, ...], list[Attribution]] = {}
    for attribution in attributions:
        tokens = tuple(token.text for token in attribution.tokens)
        groups.setdefault(tokens, []).append(attribution)
    return [
        Table(
            headers=("token", *(f"{head.name}: {head.label}" for head in heads)),
            rows=tuple(
                (word, *("" if h.why_not else signed(h.tokens[at].score, 3) for h in heads))
                for at, word in enumerate(words)
            ),
        )
        for words, heads in groups.items()
    ]


@describe.register
def _(neighbourhood: Neighbourhood) -> Description:
    rows = [
        (
            neighbour.told,
            ", ".join(neighbour.labels) or "none",
            printable(" ↔ ".join(filter(None, (neighbour.text, neighbour.pair)))),
        )
        for neighbour in neighbourhood.neighbours
    ]
    table = Table(headers=("how near", "label", "training example"), rows=tuple(rows))
    return Description(title=neighbourhood.says, blocks=(table,))


@describe.register
def _(flips: Counterfactuals) -> Description:
    edits = [(flips.original.text, flips.original), *((edit.change, edit) for edit in flips.edits)]
    rows = [
        (
            printable(change),
            *(
                _answer_with_chance(output) + " (flips)" * has_flipped
                for output, has_flipped in zip(edit.said, edit.flips, strict=True)
            ),
        )
        for change, edit in edits
    ]
    headers = ("", *(output.name for output in flips.original.said))
    table = Table(headers=headers, rows=tuple(rows))
    return Description(title=printable(flips.summary), blocks=(table,))


def _answer_with_chance(output: HeadOutput) -> str:
    return (
        output.spoken if output.chance is None else f"{output.spoken} {percent(output.chance, 0)}"
    )


@describe.register
def _(ablation: Ablation) -> Description:
    outputs = {
        "whole": ablation.before,
        f"{ablation.layer} ({ablation.does}) taken out": ablation.after,
        f"trained without {ablation.layer}": ablation.retrained,
    }
    logits = {title: output.logits for title, output in outputs.items() if output is not None}
    rows = [
        (name, *(signed(value, 3) for value in values))
        for name, *values in zip(ablation.before.classes, *logits.values(), strict=True)
    ]
    corner = "logit of" if ablation.before.problem.has_classes else "number"
    table = Table(headers=(corner, *logits), rows=tuple(rows))
    return Description(title=ablation.says, blocks=(table,) * (len(logits) > 1))


@describe.register
def _(reading: Reading) -> Description:
    title, *blocks = list_readings([reading])
    return Description(title=str(title), blocks=tuple(blocks))


def list_readings(readings: Sequence[Reading]) -> list[str | Table]:
    """Return a sentence and a table for each head, and below what softmax and sigmoid ask."""
    blocks = list[str | Table]()
    for reading in readings:
        output = reading.said
        if not output.problem.has_classes:
            blocks.append(f"{output.name} says {output.spoken}: a number, no probability.")
            continue
        columns = (output.logits, reading.softmax, reading.sigmoid, reading.tempered)
        rows = [
            (name, signed(logit, 3), *map(percent, fractions))
            for name, logit, *fractions in zip(output.classes, *columns, strict=True)
        ]
        temperature = f"at temperature {reading.temperature:g}"
        headers = ("class", "logit", "softmax", "sigmoid", temperature)
        blocks += [f"{output.name} says {output.spoken}.", Table(headers=headers, rows=tuple(rows))]
    has_fractions = any(reading.softmax for reading in readings)
    return blocks + [SOFTMAX, SIGMOID, TEMPERATURE] * has_fractions


# --- Leaderboards.


def mark_baseline(cell: Cell) -> str:
    """Return the recipe of a cell, or a baseline in words and brackets."""
    return f"({titled(cell)})" if cell.is_baseline else cell.name


def score_with_interval(cell: Cell) -> str:
    """Return the score of a cell and its 95 % interval."""
    measures = cell.measures
    return f"{of_metric(measures.metric).shown(measures.score)} ({between(measures, 'to')})"


@describe.register
def describe_leaderboard(
    board: Leaderboard, *, is_wide: bool = False, known_notes: Sequence[str] = ()
) -> Description:
    """Return the verdict of a run, a row a cell, and how the numbers came about.

    Args:
        is_wide: Whether there is room for more measures than the score.
        known_notes: Notes that the reader has seen before.
    """
    warning = [f"Warning: {board.warning}"] if board.warning else []
    title, *lines = (*warning, *board.verdict)  # a warning is read before any score
    known = {*known_notes, raced(len(board.stopped))}
    notes = [note for note in board.notes if note not in known and note not in board.reading]
    lines += [f"Note: {note}" for note in notes]
    blocks = (*lines, tabulate_cells(board, is_wide=is_wide), *remark_run(board))
    return Description(title=title, blocks=blocks)


def tabulate_cells(board: Leaderboard, *, is_wide: bool) -> Table:
    """Return a row a cell, and below what its signs mean."""
    score, metric = of_metric(board.metric), SCORES[board.metric]
    known = {measure.name: measure for measure in MEASURES[board.problem]}
    measures = [known[name] for name in BRIEF[board.problem]] if is_wide else []
    rows = []
    for cell in board.cells:
        against = cell.to_reference
        values = [(measure, measure.of(cell)) for measure in measures]
        rows.append(
            (
                mark_baseline(cell) + " ★" * (cell.name == board.recommendation.name),
                score.shown(cell.measures.score),
                between(cell.measures).replace(" ", ""),
                apart(against, metric) + "*" * against.differs if against else "",
                *("" if value is None else measure.shown(value) for measure, value in values),
                *[count(cell.learned) if cell.learned else ""] * is_wide,
            )
        )
    titles = [*(measure.heading for measure in measures), *["parameters"] * is_wide]
    key = "★ recommended. " * bool(board.recommendation.name)
    if any(cell.to_reference and cell.to_reference.differs for cell in board.cells):
        key += f"* significantly different from {board.reference}, over all comparisons (95 %)."
    headers = ("", score.heading, "95 %", f"against {board.reference}", *titles)
    return Table(headers=headers, rows=tuple(rows), note=key.strip())


def remark_run(board: Leaderboard) -> list[str]:
    """Return how the numbers of a run came about: protocol, settings, race, time, state."""
    lines = [board.protocol]
    name = find_subject(board).head
    if name and (chosen := chosen_says(board.cell(name))):
        lines.append(f"{name}: {chosen[:1].lower()}{chosen[1:]}")
    if board.stopped:
        lines.append(raced(len(board.stopped)))
        shown = board.stopped[:MOST_LINES]
        lines += [f"{head.recipe}: {behind(head, board.metric)}." for head in shown]
        more = len(board.stopped) - MOST_LINES
        lines += [f"And {more} others."] * (more > 0)
    else:
        lines += [note for note in board.notes if note == raced(0)]
    encoding = (
        ""
        if is_given(board.model)
        else f", {board.forward_seconds:,.0f} s of them reading with {board.model} "
        f"({board.precision})"
    )
    lines += [f"{board.seconds:,.0f} s in all{encoding}.", board.reading]
    if board.state != "finished":
        done = sum(not cell.is_baseline for cell in board.cells) + len(board.stopped)
        lines.append(f"The run is {board.state}: {done} of {board.planned} heads.")
    return lines


def tabulate_runs(boards: Sequence[Leaderboard]) -> Table:
    """Return a row a recipe and a column a run."""
    titles = {cell.name: mark_baseline(cell) for board in boards for cell in board.cells}
    scores = [{cell.name: score_with_interval(cell) for cell in board.cells} for board in boards]
    rows = [(title, *(own.get(name, "") for own in scores)) for name, title in titles.items()]
    rows += [
        ("data", *(board.data for board in boards)),
        ("base model", *(board.model for board in boards)),
        ("best", *(board.best for board in boards)),
        ("recommended", *(board.recommendation.name or "none" for board in boards)),
    ]
    protocols = {(board.data, board.protocol) for board in boards}
    told = [NOT_ALIKE, *(f"{board.run}: {board.data}. {board.protocol}" for board in boards)]
    return Table(
        headers=("", *(f"{board.data}\n{board.run[-16:]}" for board in boards)),
        rows=tuple(rows),
        note="\n".join(told) if len(protocols) > 1 else "",
    )
