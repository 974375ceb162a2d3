"""What a leaderboard says beside its numbers: how it came about, and what to know of it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from heads.data.checks import SKEWED, majority_share
from heads.data.splits import FOLDS, PER_CLASS, TEST_SET, Splits
from heads.evaluation.predictions import BASELINES
from heads.features.store import GIVEN_ENGINE
from heads.features.truncation import TOKENS_CUT
from heads.runs.cells import Cell
from heads.runs.folder import RunFolder
from heads.runs.spec import RunSpec
from heads.settings import ExperimentConfig
from heads.training.fitters.successive_halving import CAP, CAP_PASSES
from heads.training.racing import WRONG

# The simplest head on what the base model was trained to give, and on the average of its tokens.
REFERENCES = ("trained+linear", "mean+linear")
FEW_ROWS_PER_CLASS = 10  # below which intervals from folds hold too seldom (docs/statistics.md)
LISTED = 5  # heads, by name; more are counted


def reference_of(names: Sequence[str], tuned: Collection[str] = ()) -> str:
    """Return the head that all others are compared with: linear, and not tuned, if there is one."""
    every = [name for name in names if name not in BASELINES]
    heads = [name for name in every if name not in tuned] or every
    linear = [name for name in heads if name.endswith("+linear")]
    fixed = [name for name in REFERENCES if name in heads]
    return next(iter(fixed or linear or heads), "")


def commonest(asked: RunSpec, rows: Tensor) -> str:
    """The class that most of some rows have; nothing, where it is not one class a row."""
    if not asked.corpus.problem.is_exclusive:
        return ""
    return asked.corpus.classes[int(torch.bincount(asked.task.targets[rows]).argmax())]


def protocol(splits: Splits, asked: RunSpec) -> str:
    """Who learned from what and was scored on what, in a sentence."""
    seeds, test, train = len(splits), len(splits.test[0]), len(splits.train[0])
    chosen = f"settings chosen on {len(splits.development[0]):,} of them"
    if seeds > 1 and not torch.equal(splits.development[0], splits.development[1]):
        chosen += ", drawn anew each time"
    if splits.folds and len(splits.folds[0]):
        chosen += "; of linear and other solved heads on all, by cross-validation"
    times = "once" if seeds == 1 else f"{seeds} times"
    if splits.kind == "per class":
        each = asked.config.per_class
        all_there = train == each * len(asked.corpus.classes)
        rows = f"{each} rows of every class" if all_there else f"up to {each} rows of every class"
        return (
            f"Learned from {rows}, {train:,} in all, drawn {times} ({chosen}), "
            f"and scored on {test:,} rows."
        )
    if splits.kind == "test set":
        return (
            f"Learned {times} from {train:,} rows ({chosen}), and scored on the {test:,} rows "
            "of the test set."
        )
    repetitions = max(splits.repetition) + 1
    # A fold may have had nothing but rows that are set aside: it was learned from all the same.
    folds = asked.config.folds if asked.account.get("aside") else seeds // repetitions
    scored = len(torch.cat(splits.test).unique())
    again = "" if repetitions == 1 else f", {repetitions} times in other folds"
    return (
        f"Split into {folds} folds: each of {scored:,} rows was scored once{again}, by heads that "
        f"learned from about {train:,} rows of the other folds ({chosen})."
    )


def of_these_rows(splits: Splits) -> tuple[str, ...]:
    """Whether all seeds learn from the same rows, whose luck no interval holds then."""
    if not splits.is_fixed:
        return ()
    rows = f"{len(splits.train[0]):,}"
    return (
        f"All intervals are for heads that learn from these {rows} rows: what other rows to learn "
        "from would change is not in them.",
    )


def skewed(asked: RunSpec) -> list[str]:
    """Say by what heads are judged, where most rows are of one class."""
    if asked.metric not in ("accuracy", "macro_f1") or not asked.corpus.problem.is_exclusive:
        return []
    name, share = majority_share(asked.corpus)
    if share < SKEWED:
        return []
    rows = f"{100 * share:.0f} % of the rows are '{name}'"
    if asked.metric == "accuracy":
        return [f"{rows}, and accuracy says little of the other classes; macro-F1 says more."]
    return [f"Heads are judged by macro-F1: {rows}."]


def few_rows_per_class(asked: RunSpec) -> list[str]:
    """Warn that folds give scores that are too high where classes have few rows."""
    rows, classes = len(asked.corpus), len(asked.corpus.classes)
    is_many = not asked.corpus.problem.is_exclusive or rows >= FEW_ROWS_PER_CLASS * classes
    if asked.splits.kind != FOLDS or is_many:
        return []
    return [
        f"With {rows / classes:.1f} rows per class, scores from folds may be too high and their "
        "intervals too narrow. Score on a test set instead."
    ]


def still_improving(cells: Collection[Cell]) -> tuple[str, ...]:
    """Which heads were cut off by the cap of steps, in any of their seeds; a sentence or none."""
    cut = [cell for cell in cells if not cell.is_converged]
    frozen, tuned = ([c for c in cut if bool(c.tuning) is kind] for kind in (False, True))
    cap = f"the cap of {CAP:,} steps or {CAP_PASSES} passes"
    passes = "the last of the passes that tuning was given"
    return (
        *_cut_off(frozen, cap, "a little low"),
        *_cut_off(tuned, passes, "low, and more passes would tell"),
    )


def _cut_off(cells: Collection[Cell], cap: str, low: str) -> Iterator[str]:
    if cells:
        heads, they, scores = "1 head was", "it", "its score"
        if len(cells) > 1:
            heads, they, scores = f"{len(cells)} heads were", "they", "their scores"
        yield f"{heads} still improving when {they} reached {cap}: {scores} may be {low}."


def without_effect(asked: RunSpec) -> list[str]:
    """Settings that were given and mean nothing where rows are split like this, a sentence each."""
    usual, kind, config = ExperimentConfig(), asked.splits.kind, asked.config
    learned = {
        TEST_SET: "with a test set heads are trained once a seed, and scored on all of it",
        FOLDS: "without a test set heads are trained once a fold of every repetition",
        PER_CLASS: "with per_class heads are trained once a seed, on rows drawn for it",
    }[kind]
    names = ("seeds",) if kind == FOLDS else ("folds", "repetitions")
    found = [
        f"The setting {name} has no effect here: {learned}."
        for name in names
        if getattr(config, name) != getattr(usual, name)
    ]
    if not any(one.is_tuned for one in asked.resolved):
        found += [
            f"The setting {name} has no effect here: no recipe learns its base model (tune=)."
            for name in ("epochs", "tuning_rate", "gradient_checkpointing")
            if getattr(config, name) != getattr(usual, name)
        ]
    drawn = kind == PER_CLASS and "test" not in asked.corpus.parts
    if config.held_out != usual.held_out and not drawn:
        why = "it is for per_class without a test set"
        found.append(f"The setting held_out has no effect here: {why}.")
    return found


def raced(stopped: int) -> str:
    """Whether heads were stopped in a race, and how often a race is wrong."""
    behind = "behind the leader by more than chance on the development rows"
    if not stopped:
        return f"The race stopped no head: none is {behind}."
    heads = "1 head was" if stopped == 1 else f"{stopped} heads were"
    return f"{heads} stopped in the race: {behind}. {WRONG}"


def _of(account: Mapping[str, Any] | None) -> list[str]:
    """Return how a file was read, and its warnings, but for long texts: the run knows of those."""
    if not account:
        return []
    told = (one["says"] for one in account["warnings"] if one["kind"] != TOKENS_CUT)
    return [*account["notes"], *told]


def notes(
    run: RunFolder, asked: RunSpec, facts: Mapping[str, Any], stopped: int
) -> tuple[str, ...]:
    """Return what failed or was stopped, how data were read and what spoils the comparison."""
    notes = [raced(stopped)] if run.read("race.json") else []
    notes += [
        *skewed(asked),
        *few_rows_per_class(asked),
        *filter(None, (run.read(f"cells/{n:03}.failed.json") for n in range(len(asked.names)))),
        *asked.account.get("between", []),
        *_of(asked.account),
    ]
    notes += [f"In the test file: {says}" for says in _of(asked.account.get("test"))]
    notes += [says] if (says := facts.get("reading", {}).get("says")) else []
    notes += without_effect(asked)
    return tuple(dict.fromkeys([*notes, *facts.get("notes", [])]))


def of_tuned(cells: Sequence[Cell]) -> list[str]:
    """What one should know of heads that learned their base model as well, where there are any.

    A comparison is fair only where all have tried as many settings; and a training that diverged is
    no part of a score, but of the risk.
    """
    heads = [cell for cell in cells if not cell.is_baseline]
    told, tuned = list[str](), [cell for cell in heads if cell.tuning is not None]
    for cell in tuned:
        assert cell.tuning is not None
        if count := cell.tuning.diverged:
            every = len(cell.chosen_by_seed) + count
            each = "it was thrown away" if count == 1 else "they were thrown away"
            told.append(
                f"{cell.name}: {count} of {every} trainings ended worse than an answer that is the "
                f"same for every text; {each} and begun anew with other random numbers."
            )
        table = cell.measures.confusion
        if table is not None and (table.sum(dim=0) > 0).sum() == 1:
            told.append(
                f"{cell.name} gives every text the same class: its training has not left the "
                "constant answer. More passes, or another tuning rate, may help."
            )
    counts = {cell.trials for cell in heads if cell.trials}
    if tuned and len(counts) > 1:
        few = [cell.name for cell in heads if 0 < cell.trials < max(counts)]
        more = f" and {len(few) - LISTED} more" if len(few) > LISTED else ""
        told.append(
            f"Not all heads tried as many settings ({min(counts)} to {max(counts)}); fewer than "
            f"others: {', '.join(few[:LISTED])}{more}."
        )
    return told


NOTHING_READ = "Nothing was read anew: an earlier run had read all texts."


def read_and_learned(facts: Mapping[str, Any]) -> str:
    """How the texts were read, and in how many bits heads learned where those were not 32."""
    reading = facts.get("reading", {})
    says = reading.get("says", "")
    is_kept = "states" not in reading and reading.get("engine") != GIVEN_ENGINE
    if is_kept and facts.get("forward_seconds") == 0:
        says = f"{NOTHING_READ} {says}"
    if facts.get("training", "float32") != "float32":
        says += " Heads learned with 16-bit products of 32-bit weights."
    return says.strip()
