"""What a run was asked: data, base model, recipes, settings; and how that is kept."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import torch

from heads.backbone import given
from heads.backbone.backbone import Backbone
from heads.backbone.models import BUNDLED
from heads.caching import writing
from heads.checked_files import CRC, crc_of_file
from heads.classifier.label_names import own_on_rows
from heads.classifier.pretrained import fine_tuned_warning, is_own
from heads.data.checks import SKEWED, majority_share
from heads.data.corpus import Corpus, groups_of
from heads.data.dataset import Data
from heads.data.joining import check_groups, join, settle_unseen
from heads.data.splits import Splits, every_row, split
from heads.data.vectors import Vectors
from heads.errors import DataError, RecipeError
from heads.evaluation.metrics import AUTO, MetricName, metric_of
from heads.evaluation.predictions import BASELINES, OWN, TFIDF, EvaluationTask, strata
from heads.options import TrainOptions
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import problem_of
from heads.runs.folder import VECTORS, VERSION, RunFolder
from heads.runs.unseen_classes import says_of_unmet, set_aside
from heads.settings import SEEDS, TUNED_SEEDS, ExperimentConfig

NONE = "none"  # of what is written before a text
PACKAGES = ("torch", "transformers", "scikit-learn", "numpy")
ROWS = ("texts", "pairs", "lines", "parts", "groups", "numbers")  # of a corpus, a value each


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRequest(TrainOptions):
    """What a user asks, before it is checked against the base model and the limits.

    Attributes:
        test: Rows that are scored; without them some of the data are held out.
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
        revision: Which version of it.
        recipes: The heads, in order; the baselines come after them.
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
    """Return what the measures need to know of rows; without a metric the usual one ranks heads."""
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
    """Split the rows, if `aside` without those of a class that their fold never met.

    Raises:
        DataError: There are too few.
    """
    found = split(strata(task), task.groups, corpus.parts, config)
    return set_aside(found, task) if aside else found


def specified(
    request: RunRequest,
    corpus: Corpus,
    backbone: Backbone,
    recipes: Sequence[str],
    notes: Sequence[str] = (),
) -> RunSpec:
    """Return the spec of a request on joined rows and a base model, with notes on its recipes."""
    data, test = request.data, request.test
    between = [*notes, *corpus.notes]
    account = data.as_json() | ({"test": test.as_json()} if test else {})
    account |= {"between": between} if test or between else {}
    account |= {"warning": fine_tuned_warning(backbone, has_test="test" in corpus.parts)}
    if any(map(is_own, request.recipes)):
        account |= {"own": own_on_rows(corpus, backbone, request.label_names).classes}
    elif request.label_names:
        what = "Label names are for the classes of own, which is not among the recipes."
        raise RecipeError(what, "Add the recipe own, or leave the label names out.")
    return spec_of(corpus, backbone, recipes, request.config, account)


def rows_of(data: Data, test: Data | None, unseen: str) -> Corpus:
    """Return all rows of a run, with notes on those left out; raise DataError if they do not fit.

    Args:
        unseen: What becomes of test rows of a class that no other row has: "aside" or "wrong".
    """
    corpus = join(data.corpus, test.corpus, unseen) if test else settle_unseen(data.corpus, unseen)
    check_groups(corpus, data.columns.group)
    return corpus


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
    rows = {name: getattr(corpus, name) for name in (*ROWS, "targets")}
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
            classes=tuple(facts["classes"]),
            targets=tuple(map(tuple, rows["targets"])),
            problem=problem_of({**facts, "numbers": rows["numbers"]}),
            ordered=facts["ordered"],
            fingerprint=facts["fingerprint"],
            **{name: tuple(rows[name]) for name in ROWS},
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
