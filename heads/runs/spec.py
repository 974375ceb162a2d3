"""What a run was asked: data, base model, recipes, settings; and how that is kept."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from itertools import product
from types import MappingProxyType
from typing import Any

import torch

from heads.backbone import given
from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED
from heads.caching import writing
from heads.checked_files import CRC, crc_of_file
from heads.classifier.fine_tuned import fine_tuned_warning
from heads.classifier.inputs import check_pairs
from heads.classifier.label_names import own_on_rows
from heads.classifier.module import assemble
from heads.classifier.pretrained import is_own
from heads.data.checks import SKEWED, majority_share
from heads.data.corpus import Corpus, groups_of
from heads.data.dataset import Data
from heads.data.joining import check_groups, joined, met
from heads.data.splits import Splits, every_row, split
from heads.data.vectors import Vectors
from heads.errors import DataError, HeadsError, LimitError, RecipeError, did_you_mean
from heads.evaluation.metrics import AUTO, MetricName, metric_of
from heads.evaluation.predictions import BASELINES, OWN, TFIDF, EvaluationTask, strata
from heads.options import TrainOptions
from heads.parts.poolings import GIVEN
from heads.parts.resolve import head, loss, pairing, pooling, resolve, tuned, with_options
from heads.parts.resolved_recipe import (
    FEATURES,
    FROZEN,
    JOINT,
    LOSS,
    PAIR,
    PREFIX,
    SIAMESE,
    SOFTMAX,
    TUNE,
    ResolvedRecipe,
)
from heads.problem import problem_of
from heads.recipe import Recipe, as_value
from heads.rng import IsolatedRng
from heads.runs.folder import VECTORS, VERSION, RunFolder
from heads.runs.unseen_classes import says_of_unmet, set_aside
from heads.settings import SEEDS, TUNED_SEEDS, ExperimentConfig, current_limits
from heads.training.finetuning.plan import plan_of
from heads.training.objective import check_order

NONE = "none"  # of what is written before a text
PACKAGES = ("torch", "transformers", "scikit-learn", "numpy")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRequest(TrainOptions):
    """What a user asks, before it is checked against the base model and the limits.

    Attributes:
        data: The rows.
        test: Rows that are scored; without them some of the data are held out.
        config: The settings.
    """

    data: Data
    test: Data | None = None
    config: ExperimentConfig = field(default_factory=ExperimentConfig)

    @classmethod
    def of(
        cls, data: Data, test: Data | None, options: TrainOptions, config: ExperimentConfig
    ) -> "RunRequest":
        """Return a request with these options."""
        values = {known.name: getattr(options, known.name) for known in fields(options)}
        return cls(data=data, test=test, config=config, **values)

    @property
    def base(self) -> str:
        """The base model; for vectors its stand-in, or DataError if a model is named."""
        return base_of(self.data.corpus, self.model)


def base_of(corpus: Corpus, model: str) -> str:
    """Return the base model of some rows; for vectors its stand-in, or raise DataError."""
    if corpus.vectors is None:
        return model
    own = given.named(corpus.vectors.width)
    if model not in (BUNDLED, own):
        what = f"{corpus.name} is learned from by its vectors, which {model[:80]} does not read."
        raise DataError(what, "Leave out the base model, or choose a column of texts.")
    return own


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: what is worked out is remembered
class RunSpec:
    """The question of a run, checked and as it is kept.

    Attributes:
        corpus: The rows.
        model: The id of the base model.
        revision: Which version of it.
        recipes: The heads, in order; the baselines come after them.
        config: The settings.
        account: How the data were read: rows, columns, what was dropped, warnings; whether
            folds set rows aside, which older runs have scored; whether settings of solved heads are
            cross-validated, which older runs chose on development rows; what may make every score
            too high (`warning`); and the classes of the checkpoint's own head, if that is scored
            (`own`).
        created: Seconds since 1970.
        versions: Of the packages that compute.
        is_scored: Whether rows are held out and scored; else every row is learned from, which no
            run is kept of.
    """

    corpus: Corpus
    model: str
    revision: str
    recipes: tuple[str, ...]
    config: ExperimentConfig
    account: Mapping[str, Any]
    created: float
    versions: Mapping[str, str]
    is_scored: bool = True

    @cached_property
    def resolved(self) -> tuple[ResolvedRecipe, ...]:
        """The heads, in order."""
        return tuple(map(resolve, self.recipes))

    @property
    def names(self) -> tuple[str, ...]:
        """The cells of the leaderboard, by the numbers under which they are kept."""
        return (*self.recipes, *self.baselines)

    @property
    def baselines(self) -> tuple[str, ...]:
        """What heads are held against; where there are no texts no words are counted."""
        absent = {TFIDF} if self.corpus.are_named else set[str]()
        absent |= set[str]() if "own" in self.account else {OWN}
        return tuple(name for name in BASELINES if name not in absent)

    @cached_property
    def task(self) -> EvaluationTask:
        """What the measures need to know."""
        return task_of(self.corpus, self.metric)

    @cached_property
    def metric(self) -> MetricName:
        """What heads are ranked and compared by."""
        return metric_of(self.config.metric, self.corpus.problem, ordered=self.corpus.ordered)

    @cached_property
    def splits(self) -> Splits:
        """Who learns from what."""
        if not self.is_scored:
            return every_row(strata(self.task), self.task.groups, self.config)
        aside = bool(self.account.get("aside"))
        splits = splits_of(self.corpus, self.task, self.config, aside=aside)
        return splits if self.account.get("cross_validated") else replace(splits, folds=())


def task_of(corpus: Corpus, metric: MetricName | None = None) -> EvaluationTask:
    """What the measures need to know of some rows.

    Args:
        metric: What heads are ranked by; that of the problem type, if None.
    """
    targets = corpus.targets_of(range(len(corpus)))
    known: dict[tuple[str, str], int] = {}  # rows of the same text, or pair, share a number
    both = zip(corpus.texts, corpus.pairs or [""] * len(corpus), strict=True)
    return EvaluationTask(
        targets=targets.float() if targets.is_floating_point() else targets,
        classes=corpus.classes,
        groups=groups_of(corpus).tensor,
        problem=corpus.problem,
        ordered=corpus.ordered,
        metric=metric,
        texts=torch.tensor([known.setdefault(one, len(known)) for one in both]),
    )


def splits_of(
    corpus: Corpus, task: EvaluationTask, config: ExperimentConfig, *, aside: bool
) -> Splits:
    """Split the rows into those learned from and scored; raise DataError for too few.

    Args:
        aside: Whether rows of a class that their fold never met are left out.
    """
    found = split(strata(task), task.groups, corpus.parts, config)
    return set_aside(found, task) if aside else found


def specified(
    request: RunRequest, backbone: Backbone, recipes: Sequence[str], notes: Sequence[str] = ()
) -> RunSpec:
    """Return the spec of a request on a base model.

    Args:
        recipes: The heads that the question comes to on this base model.
        notes: What is to be said of them.
    """
    data, test = request.data, request.test
    corpus, found = rows_of(data, test, request.config.unseen)
    between = [*notes, *found]
    account = data.as_json() | ({"test": test.as_json()} if test else {})
    account |= {"between": between} if test or between else {}
    account |= {"warning": fine_tuned_warning(backbone, has_test="test" in corpus.parts)}
    if any(map(is_own, request.recipes)):
        account |= {"own": own_on_rows(corpus, backbone, request.label_names).classes}
    elif request.label_names:
        what = "Label names are for the classes of own, which is not among the recipes."
        raise RecipeError(what, "Add the recipe own, or leave the label names out.")
    return spec_of(corpus, backbone, recipes, request.config, account)


def rows_of(data: Data, test: Data | None, unseen: str) -> tuple[Corpus, list[str]]:
    """Join data and test rows, with notes; raise DataError if they do not fit."""
    corpus, notes = joined(data.corpus, test.corpus, unseen) if test else met(data.corpus, unseen)
    check_groups(corpus, data.columns.group)
    return corpus, notes


def spec_of(
    corpus: Corpus,
    backbone: Backbone,
    recipes: Sequence[str],
    config: ExperimentConfig,
    account: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_scored: bool = True,
) -> RunSpec:
    """Return the spec of a run on joined rows; raise DataError if they or a setting do not fit.

    Args:
        is_scored: Whether rows are held out and scored; else every row is learned from.
    """
    metric_of(config.metric, corpus.problem, ordered=corpus.ordered)  # refuses one that is not
    asked = [n for n in ("per_class", "class_weights", "focal", "smoothing") if getattr(config, n)]
    if not corpus.problem.has_classes and asked:
        what = f"{asked[0]} is for classes, and the labels of {corpus.name} are numbers."
        raise DataError(what, "Leave it out.")
    if config.metric == AUTO and not corpus.ordered and majority_share(corpus)[1] >= SKEWED:
        config = replace(config, metric="macro_f1")
    asked = RunSpec(
        corpus=corpus,
        model=backbone.id,
        revision=backbone.revision,
        recipes=tuple(recipes),
        config=config,
        account={**account, "cross_validated": True},
        created=time.time(),
        versions={name: version(name) for name in PACKAGES},
        is_scored=is_scored,
    )
    says = says_of_unmet(asked.splits, asked.task, corpus, config.unseen)
    if not says:
        return asked
    own = {"between": [*account.get("between", []), says], "aside": config.unseen == "aside"}
    return replace(asked, account={**asked.account, **own})


TUNED_TRIALS = 3


def fill_counts(
    config: ExperimentConfig, recipes: Sequence[ResolvedRecipe], *, by_seed: bool = True
) -> tuple[ExperimentConfig, list[str]]:
    """Return the config with open numbers of seeds and trials filled in, and notes on them.

    Where a recipe tunes the base model, every cell tries the same number of settings: otherwise
    "tuned beats frozen" would only say which was searched for longer. A number of seeds that was
    chosen is never changed; the default is larger for tuned cells, which vary more between seeds.

    Args:
        by_seed: True if heads are trained once per seed, False if once per fold.
    """
    is_tuned = any(recipe.is_tuned for recipe in recipes)
    seeds = config.seeds or (TUNED_SEEDS if is_tuned else SEEDS) * by_seed
    if not is_tuned:
        return replace(config, seeds=seeds), []
    trials = config.trials or TUNED_TRIALS
    each = "setting" if trials == 1 else "settings"
    more = f" and is trained with {seeds} seeds" if by_seed and not config.seeds else ""
    fair = "so that frozen and tuned base models are compared fairly"
    notes = [f"Every head tries {trials} {each}{more}, {fair}."]
    count, unit = (seeds, "seeds") if by_seed else (config.folds * config.repetitions, "folds")
    if count < TUNED_SEEDS:
        notes.append(
            f"A tuned base model varies between trainings, and {count} are few: intervals are "
            f"wide. Use {TUNED_SEEDS} {unit} or more."
        )
    return replace(config, trials=trials, seeds=seeds), notes


def save(run: RunFolder, asked: RunSpec) -> None:
    """Write the spec into the run's folder; run.json last."""
    corpus = asked.corpus
    rows = {name: getattr(corpus, name) for name in ("texts", "pairs", "lines", "parts", "groups")}
    rows |= {"targets": corpus.targets, "numbers": corpus.numbers}
    vectors: Mapping[str, Any] = {}
    if corpus.vectors is not None:
        with writing("The vectors of the run"):
            corpus.vectors.save(run.path / VECTORS)
            vectors = {"are_named": corpus.are_named, CRC: crc_of_file(run.path / VECTORS)}
    run.write("rows.json", rows)
    run.write(
        "run.json",
        {
            "version": VERSION,
            "data": corpus.name,
            "fingerprint": corpus.fingerprint,
            "classes": corpus.classes,
            "problem_type": corpus.problem.name,
            "ordered": corpus.ordered,
            "model": asked.model,
            "revision": asked.revision,
            "recipes": asked.recipes,
            "contest": asdict(asked.config),
            "account": asked.account,
            "created": asked.created,
            "versions": asked.versions,
            **({"vectors": vectors} if vectors else {}),
        },
    )


def load(run: RunFolder) -> RunSpec:
    """Read the spec of a run; raise DataError if it is broken or of another version."""
    facts, rows = run.read("run.json"), run.read("rows.json")
    if facts and not rows:
        raise run.broken("rows.json")
    try:
        if facts["version"] != VERSION:  # a run that is gone has no facts
            raise ValueError("another version")
        vectors = facts.get("vectors")
        corpus = Corpus(
            name=facts["data"],
            texts=tuple(rows["texts"]),
            pairs=tuple(rows["pairs"]),
            classes=tuple(facts["classes"]),
            targets=tuple(tuple(targets) for targets in rows["targets"]),
            numbers=tuple(rows["numbers"]),
            problem=problem_of({**facts, "numbers": rows["numbers"]}),
            ordered=facts["ordered"],
            fingerprint=facts["fingerprint"],
            lines=tuple(rows["lines"]),
            parts=tuple(rows["parts"]),
            groups=tuple(rows["groups"]),
            vectors=_open_vectors(run, vectors) if vectors else None,
            are_named=bool(vectors and vectors["are_named"]),
        )
        return RunSpec(
            corpus=corpus,
            model=facts["model"],
            revision=facts["revision"],
            recipes=tuple(facts["recipes"]),
            # A run that was begun before one could choose was exact.
            config=ExperimentConfig(**{"precision": "exact"} | facts["contest"]),
            account=facts["account"],
            created=facts["created"],
            versions=facts["versions"],
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        what = f"The run {run.id} is broken, or of another version of this app."
        raise DataError(what, "Delete it and train again.") from error


def _open_vectors(run: RunFolder, facts: Mapping[str, Any]) -> Vectors:
    """Open the vectors of a run, which must be what was written."""
    with suppress(OSError, ValueError):
        if facts.get(CRC) in (None, crc_of_file(run.path / VECTORS)):
            return Vectors.opened(run.path / VECTORS)
    raise run.broken(VECTORS)


# --- Which cells a question comes to: the recipes of a grid in every way in and under every loss.

SMALL = "small"
LAYERS, HEADS, POOLINGS = "layers", "heads", "poolings"  # each after all that there is
# One recipe, this one if none is named, frozen and in the usual ways to learn the base model.
TUNES, TUNED = "tunes", "mean+linear"
USUAL_TUNES = (FROZEN, "last2", "lora", "full", "lpft")
# Read besides where a base model says how it was trained to be read, unless that is the average.
TRAINED, AVERAGE = "trained", "mean"
GRIDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    SMALL: (("cls", "last", "mean", "max"), ("linear", "roberta", "distilbert", "modernbert")),
    "full": (
        ("cls", "last", "mean", "mean_content", "max", "weighted", "mean@{middle}", "mean@mean4"),
        ("linear", "gpt2", "bert", "roberta", "distilbert", "electra", "modernbert", "mlp"),
    ),
}


def recipes_of(grid: str, backbone: Backbone) -> list[ResolvedRecipe]:
    """The recipes of a grid by name, some of which may not suit the labels at hand.

    Args:
        grid: small; full; `layers`, each layer under a linear layer (`layers:cls` of another
            pooling than the mean); `heads`, each head on the mean (`heads:mean@cat4` on another
            reading); `poolings`, each pooling that is not learned under a linear layer
            (`poolings:mlp` under another head); `tunes`, mean+linear frozen, with the last two
            layers, with LoRA, with everything, and everything after the head (`tunes:cls+roberta`
            of another recipe).

    Raises:
        RecipeError: There is no such grid, or its recipe can only be frozen.
    """
    if backbone.is_given:
        return _of_vectors(grid)
    name, _, part = grid.partition(":")
    if name == LAYERS:
        reader = resolve(f"{part or 'mean'}+linear").pooling.name
        layers = [f"{reader}@{layer}+linear" for layer in range(backbone.layers)]
        return [resolve(recipe) for recipe in (*layers, f"{reader}+linear")]
    if name == HEADS:
        reading = resolve(f"{part or 'mean'}+linear").recipe
        return [resolve(replace(reading, head=top)) for top in head]
    if name == POOLINGS:
        top = resolve(f"mean+{part or 'linear'}").recipe
        found = [resolve(replace(top, pooling=reader)) for reader in pooling]
        return [recipe for recipe in found if not recipe.needs_states]
    if name == TUNES:
        asked = resolve(part or TUNED)
        return [with_options(asked, {TUNE: tune}) for tune in USUAL_TUNES]
    if grid not in GRIDS:
        known = ", ".join((*GRIDS, LAYERS, HEADS, POOLINGS, TUNES))
        raise RecipeError(f"There is no grid called '{grid[:40]}'.", f"There are: {known}.")
    readings, tops = GRIDS[grid]
    if backbone.trained is not None and backbone.trained.plain != AVERAGE:
        readings = (TRAINED, *readings)
    middle = max(1, backbone.layers // 2)
    readings = tuple(reading.format(middle=middle) for reading in readings)
    return [resolve(f"{reading}+{top}") for reading in readings for top in tops]


def named_recipes(recipes: Sequence[str]) -> list[ResolvedRecipe]:
    """Resolve recipes by name, each once, before anything is read for them."""
    limits = current_limits()
    asked = {str(one): one for one in recipes if not is_own(one)}
    if len(asked) > limits.cells:
        what = f"{len(asked):,} recipes are named; at most {limits.cells} fit here."
        raise LimitError(what, "Take some away.")
    return list(map(resolve, asked.values()))


def _of_vectors(grid: str) -> list[ResolvedRecipe]:
    """Return the recipes of a grid that vectors can have; raise RecipeError for other grids."""
    if grid not in (*GRIDS, HEADS):
        what = f"The grid '{grid[:40]}' compares what a base model gives, and vectors are given."
        raise RecipeError(what, f"There are: {', '.join((*GRIDS, HEADS))}.")
    tops = GRIDS[grid][1] if grid in GRIDS else tuple(head)
    return [resolve(f"{GIVEN.name}+{top}") for top in tops]


def chosen_recipes(
    request: RunRequest, backbone: Backbone
) -> tuple[list[ResolvedRecipe], list[str]]:
    """The recipes of the cells; one that says itself how texts enter, or its loss, keeps it.

    Of a grid of all heads, poolings or ways of learning, those that suit labels, base model and
    place. To the ways of the grid `tunes` those are added that are asked for.

    Returns:
        The recipes, and a sentence on those that were left out, if any were.

    Raises:
        DataError: The data have one text a row, or classes without an order.
        RecipeError: There is no such way in, or no such loss.
    """
    corpus, losses = request.data.corpus, list(request.losses) or [SOFTMAX]
    ways = _ways(request.pairs or (JOINT,))
    if ways != [JOINT] and not corpus.pairs:
        what = f"{corpus.name} has one text a row, and a siamese way in needs two."
        raise DataError(what, "Name the column of second texts, or leave the way in joint.")
    for name in losses:
        loss[name]  # says what there is, where there is none of that name
    tunes = [tuned(name) for name in request.tune or (FROZEN,)]
    prefixes = ["" if one == NONE else as_value(one) for one in request.prefixes or (NONE,)]
    found, notes = dict[Recipe, ResolvedRecipe](), list[str]()
    recipes = named_recipes(request.recipes)
    if not recipes:
        grid = request.grid or SMALL
        recipes, notes = _grid(grid, request, backbone)
        if grid.partition(":")[0] == TUNES:
            tunes = [FROZEN, *tunes]
    for recipe in recipes:
        own = list(_each(recipe, ways, losses, tunes, prefixes))
        # Of none that can be, the first says why.
        own = own or [_with(recipe, ways[0], losses[0], tunes[0], prefixes[0])]
        found |= {one.recipe: one for one in own}
    for resolved in found.values():
        check_pairs(resolved, corpus.pairs)
        check_order(resolved, corpus)
    return list(found.values()), notes


def _grid(
    grid: str, request: RunRequest, backbone: Backbone
) -> tuple[list[ResolvedRecipe], list[str]]:
    """The recipes of a grid that suit, and a sentence on those that do not."""
    recipes = recipes_of(grid, backbone)
    if grid.partition(":")[0] not in (HEADS, POOLINGS, TUNES):
        return recipes, []
    corpus, found = request.data.corpus, list[ResolvedRecipe]()
    for recipe in recipes:
        with suppress(HeadsError), IsolatedRng().rolling():  # its random weights are not used
            check_order(recipe, corpus)
            assemble(recipe, backbone, len(corpus.classes), problem=corpus.problem)
            if recipe.is_tuned:
                plan_of(recipe, backbone)  # it says where there is nothing of it to learn
            found.append(recipe)
    unsuited = ", ".join(str(recipe) for recipe in recipes if recipe not in found)
    says = f"Left out of the grid {grid}: {unsuited}. Asked for by name, each says why."
    return found, [says] * bool(unsuited)


def entering(recipe: ResolvedRecipe, way: str) -> ResolvedRecipe:
    """Return a recipe with the way in of two texts, unless it names one itself.

    One that learns from the states of all tokens reads the two as one sequence.
    """
    name = pairing.usual if way == SIAMESE else way
    if name != JOINT and name not in pairing:
        raise _unknown(name, [JOINT, SIAMESE, *pairing])
    if PAIR in dict(recipe.recipe.options) or recipe.needs_states:
        return recipe
    return with_options(recipe, {PAIR: name})


def _ways(pairs: Sequence[str]) -> list[str]:
    found: list[str] = []
    for way in pairs:
        if way == FEATURES:
            found += pairing
        elif way == SIAMESE:
            found.append(pairing.usual)
        elif way == JOINT or way in pairing:
            found.append(way)
        else:
            raise _unknown(way, [JOINT, SIAMESE, FEATURES, *pairing])
    return list(dict.fromkeys(found))


def _unknown(way: str, known: Sequence[str]) -> RecipeError:
    what = f"There is no pairing called '{way[:80]}'."
    return RecipeError(what, did_you_mean(way, known))


def _each(
    recipe: ResolvedRecipe,
    ways: Sequence[str],
    losses: Sequence[str],
    tunes: Sequence[str],
    prefixes: Sequence[str],
) -> Iterator[ResolvedRecipe]:
    """A recipe in every way that fits it; a head that is solved at once has no loss to choose."""
    given = dict(recipe.recipe.options)
    asked = ((PAIR, ways), (LOSS, losses), (TUNE, tunes), (PREFIX, prefixes))
    for chosen in product(*([str(given[n])] if n in given else values for n, values in asked)):
        with suppress(RecipeError):
            yield _with(recipe, *chosen)


def _with(recipe: ResolvedRecipe, way: str, name: str, tune: str, prefix: str) -> ResolvedRecipe:
    return with_options(recipe, {PAIR: way, LOSS: name, TUNE: tune, PREFIX: prefix})
