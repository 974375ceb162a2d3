"""One head closely, in words and tables: its confidence, its settings, every label."""

from collections.abc import Mapping, Sequence

from heads.display import Table
from heads.evaluation.calibration import Calibration, Coverage
from heads.evaluation.details import LabelDetails
from heads.evaluation.metrics import SCORES
from heads.interfaces.views.format import apart, between, percent, percent_or_blank
from heads.problem import ProblemType
from heads.recipe import Value
from heads.runs.cells import Cell
from heads.runs.leaderboard import Leaderboard

# --- Whether a head is as sure as it is right, and what it gains by abstaining.

NEAR = 1.05  # a temperature within this factor of 1 changes little
CALIBRATED_BY_DEFAULT = (
    "Heads whose last layer is linear answer and are exported with that division in it."
)


def scaled_says(found: Calibration) -> str:
    """Describe in two or three sentences what temperature scaling does to a head."""
    how = f"Dividing its logits by {found.temperature:.2f} (the temperature, from development rows)"
    if found.temperature >= NEAR:
        first = "As trained it is overconfident."
    elif found.temperature <= 1 / NEAR:
        first = "As trained it is underconfident."
    else:
        first = "As trained its confidence fits its accuracy."
    before, after = (f"{100 * one:.1f}" for one in (found.error_before, found.error_after))
    if found.error_after >= found.error_before:
        effect = f"did not help on the tested rows: the calibration error went from {before} to"
    else:
        effect = f"takes the calibration error on the tested rows from {before} to"
    return f"{first} {how} {effect} {after} points. {CALIBRATED_BY_DEFAULT}"


def useful(points: Sequence[Coverage]) -> Coverage | None:
    """Where abstaining halves the errors at the least cost; None where it never does."""
    goal = (1 + points[0].accuracy) / 2
    return next((point for point in points[1:] if point.accuracy >= goal), None)


def abstained_says(points: Sequence[Coverage], problem: ProblemType) -> str:
    """What a head gains where it may leave open what it is not sure of, in a sentence."""
    whole, found = points[0], useful(points)
    things = problem.decided
    if whole.accuracy == 1:
        return f"It answers all {things} right, so abstaining has nothing to gain."
    if found is None:
        last = points[-1]
        return (
            f"Abstaining would not halve its errors: of the {_share(last.coverage)} of {things} "
            f"that it is surest of, it answers {_share(last.accuracy)} right."
        )
    return (
        f"If it may abstain where it is less sure than {_share(found.threshold)}, it answers "
        f"{_share(found.coverage)} of the {things} and {_share(found.accuracy)} of those right; "
        f"of all it answers {_share(whole.accuracy)} right."
    )


def _share(share: float) -> str:
    """A share with as many digits as tell it from all.

    >>> _share(0.8), _share(0.9912), _share(0.99951), _share(1)
    ('80 %', '99.1 %', '99.95 %', '100 %')
    """
    digits = 0 if share < 0.985 or share == 1 else 1 if share < 0.9985 else 2
    return percent(share, digits)


# --- The settings that a head was learned with, in the field's words.

ASIDE = ("epochs", "converged")  # what differs between seeds that have chosen the same
# What is said of a setting that is on, and of one that is off, where that is worth a word.
SWITCHES: Mapping[str, tuple[str, str]] = {
    "standardise": ("standardised", "not standardised"),
    "principal_axes": ("along principal axes", ""),
    "converged": ("", "still improving at the cap"),
}


# Settings of a base model that is learned too, as one says them.
CALLED: Mapping[str, str] = {
    "head_rate": "learning rate of the head", "decay": "learning rate decay a layer",
    "base_rate": "learning rate of the base model", "base_epochs": "passes of pairs",
}  # fmt: skip
PLANNED = "planned"  # epochs that a training was to take, of which it stopped after some


def settings_says(chosen: Mapping[str, Value]) -> str:
    """Settings as one says them.

    >>> settings_says({"standardise": True, "principal_axes": False, "learning_rate": 0.004,
    ...     "weight_decay": 0.3, "epochs": 16.0, "converged": True})
    'standardised, learning rate 0.004, weight decay 0.3, 16 epochs'
    >>> settings_says({"standardise": False, "C": 0.1})
    'not standardised, C 0.1'
    >>> settings_says({"head_rate": 0.001, "decay": 0.9, "planned": 10, "epochs": 4})
    'learning rate of the head 0.001, learning rate decay a layer 0.9, 4 of 10 epochs'
    """
    if PLANNED in chosen:
        epochs = f"{chosen['epochs']:g} of {chosen[PLANNED]:g} epochs"
        aside = {PLANNED, "epochs"}
        chosen = {name: value for name, value in chosen.items() if name not in aside}
        return ", ".join([settings_says(chosen), epochs])
    switches = [_said(name, value) for name, value in chosen.items() if name in SWITCHES]
    first = [_said("standardise", chosen["standardise"])] if "standardise" in chosen else []
    others = [_said(name, value) for name, value in chosen.items() if name not in SWITCHES]
    return ", ".join(filter(None, dict.fromkeys([*first, *others, *switches])))


def _said(name: str, value: Value) -> str:
    if name in SWITCHES:
        return SWITCHES[name][0 if value else 1]
    if name == "epochs":
        return f"{value:.3g} epoch{'' if value == 1 else 's'}"
    told = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{CALLED.get(name, name.replace('_', ' '))} {told}"


def chosen_says(cell: Cell) -> str:
    """What the first seed of a cell has chosen, and how many have chosen the same; or nothing."""
    told, every = settings_says(cell.chosen), cell.chosen_by_seed
    if not told:
        return ""
    if len(every) < 2:
        return f"Settings that were best: {told}."
    same = sum(_alike(one) == _alike(cell.chosen) for one in every)
    aside = " (epochs aside)" if "epochs" in cell.chosen else ""
    again = f"The same were best in {same} of {len(every)} seeds or folds{aside}."
    return f"Settings that were best for the first seed, whose head is kept: {told}. {again}"


def _alike(chosen: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in chosen.items() if name not in ASIDE}


def facts(board: Leaderboard, cell: Cell) -> list[tuple[str, str]]:
    """One head in a few lines: what it reaches, against the recommended one, and at what price."""
    name, measures = SCORES[board.metric], cell.measures
    rows = [(name.title, f"{name.told(measures.score)} ({between(measures, 'to')}, 95 %)")]
    if told := against(board, cell):
        unit, is_apart = " points" * name.is_share, told.endswith("*")
        surely = "more than chance" if is_apart else "within chance"
        told = f"{told.removesuffix(' *').replace(' (', f'{unit} (', 1)}: {surely}"
        rows.append((f"Against {board.recommendation.name}", told))
    size = f"{cell.learned:,} parameters are learned"
    if cell.tuning:
        size += f", {cell.tuning.parameters:,} of them the base model's"
    rows.append(("Size", size))
    time = f"{cell.seconds:.1f} s to train"
    if cell.latency_ms is not None:
        time += f", {cell.latency_ms:.2f} ms added to a text"
    rows.append(("Time", time))
    if told := chosen_says(cell):
        rows.append(("Settings", told.partition(": ")[2] or told))
    return rows


def against(board: Leaderboard, cell: Cell) -> str:
    """Tell how far a cell is from the recommended head, with an interval if they were compared."""
    use = board.recommendation
    if not use.name or cell.name == use.name:
        return ""
    name, own = SCORES[board.metric], board.cell(use.name).measures.score
    if (found := cell.to_recommended) is None:
        return name.signed(cell.measures.score - own)
    return apart(found, name) + " *" * (found.differs and cell.name not in use.alike)


def tabulate_labels(labels: Sequence[LabelDetails]) -> Table:
    """Return how well each label is found, a row a label."""
    rows = []
    for label in labels:
        fractions = (label.precision, label.recall, label.f1, label.average_precision)
        rows.append((label.name, f"{label.rows:,}", *map(percent_or_blank, fractions)))
    headers = ("Label", "Rows", "Precision", "Recall", "F1", "Average precision")
    return Table(headers=headers, rows=tuple(rows))
