"""The leaderboard of a run, read from its folder, finished or not; and the runs that are kept."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from heads import display
from heads.classifier.classifier import Classifier
from heads.errors import DataError
from heads.evaluation.learning_curve import LearningCurvePoint, curve_says
from heads.evaluation.metrics import SCORES, MetricName
from heads.evaluation.predictions import BASELINES, Answers
from heads.evaluation.significance import Comparisons, Difference
from heads.evaluation.transferability import Estimate, RankAgreement, agreement
from heads.evaluation.verdict import Recommendation, recommend
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import ProblemType, plain
from heads.runs import notes as wording
from heads.runs.cells import Cell, answers_of_cell, read_cells
from heads.runs.folder import RunFolder
from heads.runs.racing import stopped_of
from heads.runs.refit import run_classifier
from heads.runs.saved_comparisons import SavedComparisons
from heads.runs.spec import RunSpec, load
from heads.runs.trained_heads import head_file, missing_heads
from heads.runs.ways_of_learning import WaysOfLearning, ways_of_learning
from heads.runs.windows import windows_notes
from heads.training.racing import Eliminated

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

UNFINISHED: Mapping[str, Any] = {"state": "unfinished", "seconds": 0.0}
NOTHING = ("No head is done yet.",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Leaderboard(display.Displayed):
    """Every cell of a run that is done, compared.

    Attributes:
        revision: Which version of it.
        classes: The names of the classes, in the order of every table.
        problem: What rows are labelled with.
        metric: What the score is: that of `ExperimentConfig.metric`, or the usual one of the kind.
        protocol: In a sentence, who learned from what and was scored on what.
        cells: Heads by score, the highest first; then the baselines.
        recipes: What the name of every head that was planned stands for.
        stopped: Heads that a race has stopped, the nearest to the leader first: they have no
            score on tested rows and stand in no comparison.
        planned: How many cells the run has in all.
        best: The head that leads; the reference, where no head leads it.
        reference: The cell that all are compared with.
        verdict: What the numbers allow one to say, a sentence each.
        recommendation: The head to take, why, and how sure that is; the same everywhere.
        curve: The same comparison on fewer rows, for the leaders.
        curve_says: Whether more rows would change the choice.
        ways_of_learning: Recipes that were learned in several ways, frozen and fine-tuned, each
            in all of them: whether that is worth it.
        warning: What may make every score too high, to be read before them; usually empty.
        estimates: What could be told before any training.
        agreements: Whether those agreed with what training gave.
        notes: How the data were read and what spoils the comparison, a sentence each.
        reading: With what engine and precision the base model read them, in a sentence.
        seconds: How long the run has worked.
        forward_seconds: How long of that the base model read; 0 where all was kept from before.
        precision: Of the features.
        state: "finished", "stopped" or "unfinished".
    """

    folder: RunFolder
    data: str
    model: str
    revision: str
    classes: tuple[str, ...]
    problem: ProblemType
    metric: MetricName
    rows: int
    protocol: str
    cells: tuple[Cell, ...]
    recipes: Mapping[str, ResolvedRecipe]
    stopped: tuple[Eliminated, ...]
    planned: int
    best: str
    reference: str
    verdict: tuple[str, ...]
    recommendation: Recommendation
    curve: tuple[Mapping[str, Any], ...]
    curve_says: str
    estimates: tuple[Estimate, ...]
    agreements: tuple[RankAgreement, ...]
    notes: tuple[str, ...]
    reading: str
    seconds: float
    forward_seconds: float
    precision: str
    state: str
    ways_of_learning: tuple[WaysOfLearning, ...] = ()
    warning: str = ""

    def __repr__(self) -> str:
        best = "no head done"
        if self.best:
            score = SCORES[self.metric].told(self.cell(self.best).measures.score)
            best = f"best {self.best} {score}"
        return f"<Leaderboard {self.run}: {len(self.cells)} cells, {best}>"

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.folder.id

    def classifier(self, name: str = "") -> Classifier:
        """A trained head on its base model, to ask or to export.

        It is the head that was scored; `heads.export` trains it again on all rows.

        Args:
            name: The recipe; the recommended one, if none is named, or else the best.

        Raises:
            HeadsError: The run has no such head, or the name is no recipe.
        """
        return run_classifier(self.folder, name or self.recommendation.name or self.best)

    def cell(self, name: str) -> Cell:
        """Return the cell of that name, or raise KeyError."""
        return {cell.name: cell for cell in self.cells}[name]

    def to_pandas(self) -> "DataFrame":
        """A row a cell, heads by score and then the baselines; shares, not percent.

        `reading` and `head` are the two halves of a recipe, so that
        ``.pivot(index="reading", columns="head", values="score")`` is the grid. What a cell's
        score is less that of the reference stands under `to_reference`, with the ends of its
        interval and whether the two are told apart; likewise for the recommended head.
        """
        return display.data_frame(map(self._row, self.cells))

    def _row(self, cell: Cell) -> dict[str, Any]:
        recipe, own = self.recipes.get(cell.name), cell.measures
        row: dict[str, Any] = {
            "recipe": cell.name,
            "reading": recipe.reading if recipe else None,
            "head": recipe.behind if recipe else None,
            "is_baseline": cell.is_baseline,
            "is_recommended": cell.name == self.recommendation.name,
            **{name: getattr(own, name) for name in ("metric", "score", "low", "high", "rows")},
            **own.values,
            "parameters": cell.learned,
            "train_seconds": cell.seconds,
            "latency_ms": cell.latency_ms,
        }
        for name in ("to_reference", "to_recommended"):
            found: Difference | None = getattr(cell, name)
            row |= {
                name: found.difference if found else None,
                f"{name}_low": found.low if found else None,
                f"{name}_high": found.high if found else None,
                f"{name}_differs": found.differs if found else None,
            }
        return row

    def plot(self, kind: str = "forest", *, measure: str = "", recipe: str = "") -> "Figure":
        """A picture of the run, one of those that the page draws, as a figure of Plotly's.

        Args:
            kind: forest, every head with its interval; heat_map, poolings × heads; sizes, the score
                by the number of parameters; growth, by the rows learned from; layers, by the layer
                that is read; ways, by what is learned of the base model. And of one head:
                reliability, coverage, confusion or f1.
            measure: What a heat map shows, such as macro_f1; the score, if not given.
            recipe: The head, where the picture is of one, and the recipe, where it is of layers or
                of ways; the recommended one, or the first, if not given.

        Raises:
            DataError: There is no such picture, or this run does not have what it shows.
        """
        return display.figure(self, kind, measure=measure, recipe=recipe)

    def as_json(self) -> dict[str, Any]:
        """The leaderboard as plain values: the answer of `heads train --json`."""
        apart, use = ("folder", "recipes", "recommendation"), self.recommendation
        names = [name for name in self.__dataclass_fields__ if name not in apart]
        facts = plain([(name, getattr(self, name)) for name in names])
        return (
            {"run": self.run}
            | facts
            | {
                "verdict": " ".join(self.verdict),
                "recommended": use.name,
                "lead": use.lead,
                "use": use.use,
                "because": use.because,
                "how_sure": use.how_sure,
                "cells": [cell.as_json() for cell in self.cells],
                "stopped": [asdict(one) for one in self.stopped],
                "ways_of_learning": [one.as_json() for one in self.ways_of_learning],
                "estimates": [asdict(estimate) for estimate in self.estimates],
                "agreements": [asdict(one) for one in self.agreements],
            }
        )


def leaderboard(run: RunFolder) -> Leaderboard:
    """Read a run and compare what is done of it; raise DataError if it is broken."""
    spec, stopped = load(run), stopped_of(run)
    end = {**UNFINISHED, **(run.read("end.json") or {})}
    cells = read_cells(run, spec.names)
    numbers = {name: spec.names.index(name) for name in cells}
    answers = {name: answers_of_cell(run, n, name).answers for name, n in numbers.items()}
    saved = SavedComparisons(run)
    cells, comparisons = _compare_cells(spec, cells, answers, saved)
    verdict, recommendation = NOTHING, Recommendation()
    if comparisons:
        is_over = end["state"] == "finished"
        failed = [
            name
            for number, name in enumerate(spec.recipes)
            if (run.path / f"cells/{number:03}.failed.json").is_file()
        ]
        verdict, recommendation = _verdict(
            spec, cells, comparisons, stopped, failed, is_over=is_over
        )
        cells = _compared(cells, comparisons, recommendation.name)
    facts, curve = run.read("facts.json") or {}, run.read("curve.json") or []
    reading = facts.get("reading", {})
    estimates = tuple(Estimate(**one) for one in facts.get("estimates", []))
    recipes = dict(zip(spec.recipes, spec.resolved, strict=True))
    heads = {name: resolved for name, resolved in recipes.items() if name in cells}
    task, seed = spec.task, spec.config.seed
    ways = ways_of_learning(
        cells.values(), recipes, answers, task, seed=seed, compare=saved.compare
    )
    windows = windows_notes(heads, answers, task, facts, seed=seed, compare=saved.compare)
    saved.save(prune=True)
    return Leaderboard(
        folder=run,
        data=spec.corpus.name,
        model=spec.model,
        revision=spec.revision,
        classes=spec.corpus.classes,
        problem=spec.corpus.problem,
        metric=spec.metric,
        rows=len(spec.corpus),
        protocol=wording.protocol(spec.splits, spec),
        cells=tuple(sorted(cells.values(), key=lambda c: (c.is_baseline, -c.measures.score))),
        recipes=recipes,
        stopped=stopped,
        planned=len(spec.recipes),
        best=comparisons.best if comparisons else "",
        reference=comparisons.reference if comparisons else "",
        verdict=verdict,
        recommendation=recommendation,
        curve=tuple(curve),
        curve_says=_curve_says(curve, spec.metric, is_of_some=bool(_tuned(cells))),
        ways_of_learning=ways,
        estimates=estimates,
        agreements=_agreements(estimates, cells, recipes, comparisons),
        notes=(
            *(f"{error.what} {error.hint}" for error in missing_heads(run, spec, cells)),
            *windows,
            *wording.notes(run, spec, facts, len(stopped)),
            *wording.of_tuned(list(cells.values())),
        ),
        reading=wording.read_and_learned(facts),
        seconds=end["seconds"],
        forward_seconds=facts.get("forward_seconds", 0.0),
        precision=reading.get("precision") or spec.versions.get("precision", ""),
        state=end["state"],
        warning=spec.account.get("warning", ""),
    )


def _compare_cells(
    spec: RunSpec,
    cells: Mapping[str, Cell],
    answers: Mapping[str, Answers],
    saved: SavedComparisons,
) -> tuple[dict[str, Cell], Comparisons | None]:
    """Compare the cells, and take their intervals together; None where no head is done."""
    tuned = _tuned(cells)
    reference = wording.reference_of(list(cells), tuned)
    if not reference:
        return dict(cells), None
    each, task, seed = list(answers.values()), spec.task, spec.config.seed
    ends = saved.score_intervals(each, task, tuned)
    pooled = {
        name: replace(cell, measures=replace(cell.measures, low=low, high=high))
        for (name, cell), (low, high) in zip(cells.items(), ends, strict=True)
    }
    return pooled, saved.compare(each, task, reference=reference, tuned=tuned, seed=seed)


def _tuned(cells: Mapping[str, Cell]) -> list[str]:
    """The heads that learn their base model as well."""
    return [name for name, cell in cells.items() if cell.tuning is not None]


def _verdict(
    spec: RunSpec,
    cells: Mapping[str, Cell],
    comparisons: Comparisons,
    eliminated: Sequence[Eliminated],
    failed: Collection[str],
    *,
    is_over: bool,
) -> tuple[tuple[str, ...], Recommendation]:
    stopped = len(eliminated)
    done = sum(not cell.is_baseline for cell in cells.values()) + stopped
    known = {*cells, *failed, *(head.recipe for head in eliminated)}
    both = zip(spec.recipes, spec.resolved, strict=True)
    if not is_over and any(recipe.is_quick for name, recipe in both if name not in known):
        use = f"Nothing to recommend yet: {done} of {len(spec.recipes)} heads trained"
        return (f"{use}.",), Recommendation(use=use)
    measures = {name: cell.measures for name, cell in cells.items()}
    # A head without parameters stores the training texts instead, which is larger than any layer.
    sizes = {name: cell.learned or inf for name, cell in cells.items()}
    usual = wording.commonest(spec, spec.splits.train[0])
    left = len(spec.recipes) - done
    improving = sum(not cell.is_converged for cell in cells.values())
    told = {"stopped": stopped, "left": left, "improving": improving}
    recommended = recommend(measures, comparisons, sizes, commonest=usual, **told)
    remarks = (*wording.of_these_rows(spec.splits), *wording.still_improving(cells.values()))
    return (*recommended.sentences, *remarks), recommended


def _compared(
    cells: Mapping[str, Cell], comparisons: Comparisons, recommended: str
) -> dict[str, Cell]:
    def by_name(to: str) -> dict[str, Difference]:
        return {d.name: d for d in comparisons.to(to)} if to else {}

    to_reference, to_best = by_name(comparisons.reference), by_name(comparisons.best)
    to_recommended = by_name(recommended)
    return {
        name: replace(
            cell,
            to_reference=to_reference.get(name),
            to_best=to_best.get(name),
            to_recommended=to_recommended.get(name),
        )
        for name, cell in cells.items()
    }


def _agreements(
    estimates: Sequence[Estimate],
    cells: Mapping[str, Cell],
    recipes: Mapping[str, ResolvedRecipe],
    comparisons: Comparisons | None,
) -> tuple[RankAgreement, ...]:
    """Compare estimates of readings with the best frozen head that each reading got."""
    heads: dict[str, dict[str, Cell]] = {}
    for name, cell in cells.items():
        if not cell.is_baseline and cell.tuning is None:
            resolved = recipes[name]
            heads.setdefault(resolved.reading, {})[resolved.behind] = cell
    # Readings are compared under the same heads only.
    common = set.intersection(*map(set, heads.values())) if heads else set()
    leaders = {
        reading: max((own[head] for head in sorted(common)), key=lambda c: c.measures.score)
        for reading, own in heads.items()
        if common
    }
    told = [one for one in estimates if one.name in leaders]
    if comparisons is None or len(told) < 2:
        return ()
    apart = {d.name for d in (comparisons.frozen or comparisons).to_best if d.differs}
    worse = [reading for reading, cell in leaders.items() if cell.name in apart]
    scores = {reading: cell.measures.score for reading, cell in leaders.items()}
    metric = next(iter(leaders.values())).measures.metric
    return agreement(told, scores, worse, metric)


def _curve_says(curve: Sequence[Mapping[str, Any]], metric: MetricName, *, is_of_some: bool) -> str:
    """Say what the curve shows; of heads on the frozen base model alone, where there are others."""
    if len(curve) < 2:
        return ""
    points = [
        LearningCurvePoint(
            rows=stage["rows"],
            scores={name: one["score"] for name, one in stage["scores"].items()},
            best=stage["best"],
            to_best=tuple(Difference(**one) for one in stage["to_best"]),
        )
        for stage in curve
    ]
    return f"{'On the frozen base model: ' * is_of_some}{curve_says(points, metric)}"


# --- What a list of runs says of each: enough to find the one that is meant.


def facts_of(run: RunFolder) -> dict[str, Any]:
    """Return a run in a few plain values, from small files only; its state may be "broken"."""
    try:
        facts, summary, end = (
            run.read(name) or {} for name in ("run.json", "leaderboard.json", "end.json")
        )
        stopped = len(stopped_of(run))
    except DataError:
        return _summarize(run, {}, {}, "broken", 0)
    state = end.get("state") or ("running" if run.is_busy else "unfinished")
    listed = {cell["recipe"] for cell in summary.get("cells", [])}
    numbers = [n for n, name in enumerate(facts.get("recipes", [])) if name in listed]
    files = (file for n in numbers for file in (f"cells/{n:03}.json", head_file(n)))
    if not all((run.path / file).is_file() for file in files):
        state = "broken"
    return _summarize(run, facts, summary, state, stopped)


def _find_highest(run: RunFolder) -> Mapping[str, Any]:
    """Return the head of highest score among the cells that are done."""
    heads = []
    for path in (run.path / "cells").glob("*.json"):
        if path.stem.isdecimal():
            with contextlib.suppress(DataError):
                cell = run.read(f"cells/{path.name}") or {}
                heads += [cell] * (cell.get("recipe") not in (None, *BASELINES))
    best = max(heads, key=lambda cell: cell["measures"]["score"], default={})
    return best | {name: best["measures"][name] for name in ("score", "metric") if best}


def _summarize(
    run: RunFolder, facts: Mapping[str, Any], summary: Mapping[str, Any], state: str, stopped: int
) -> dict[str, Any]:
    planned = len(facts.get("recipes", []))
    done = sum((run.path / f"cells/{number:03}.json").is_file() for number in range(planned))
    cells = {cell["recipe"]: cell for cell in summary.get("cells", [])}
    best, recommended = summary.get("best", ""), summary.get("recommended", "")
    # A run that was stopped from outside has not been compared yet.
    of_best = cells.get(best, {}) if best else _find_highest(run)
    return {
        "run": run.id,
        "data": facts.get("data", ""),
        "model": facts.get("model", ""),
        "created": facts.get("created", 0.0),
        "cells": done + stopped,  # who is stopped in a race is done with
        "planned": planned,
        "state": state,
        "best": best or of_best.get("recipe", ""),
        "score": of_best.get("score"),
        "metric": of_best.get("metric", "accuracy"),
        "recommended": recommended,
        "recommended_score": cells.get(recommended, {}).get("score"),
        "verdict": summary.get("verdict", ""),
    }
