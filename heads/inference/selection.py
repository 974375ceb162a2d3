"""The one way to find trained heads: of a sample, of a run, of a checkpoint, or classifiers.

Whoever asks heads anything names them in a `HeadRequest`. Heads of a sample that were never trained
are trained, which yields progress.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from heads.backbone.backbone import Backbone
from heads.backbone.downloads import fetching
from heads.backbone.loading import loading
from heads.backbone.models import BUNDLED
from heads.backbone.safety import absent
from heads.classifier import pretrained
from heads.classifier.classifier import Classifier
from heads.classifier.module import TrainedHead
from heads.classifier.pretrained import OWN, is_own, own_head
from heads.data.columns import guess
from heads.data.corpus import Corpus
from heads.data.dataset import corpus_of
from heads.data.files import open_table
from heads.data.samples import RECIPES, SAMPLES, sample_for
from heads.data.table import Columns
from heads.errors import DataError, HeadsError, LimitError, RecipeError
from heads.events import Progress
from heads.options import HeadOptions
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import JOINT, ResolvedRecipe
from heads.recipe import Recipe
from heads.runs.folder import RunFolder, all_runs, find
from heads.runs.grids import entering
from heads.runs.leaderboard import leaderboard
from heads.runs.refit import load_classifier, open_run, run_name, with_refit
from heads.runs.spec import RunSpec
from heads.runs.spec import load as load_spec
from heads.runs.trained_heads import trained_names
from heads.runs.trainer import first_split, trained
from heads.settings import ExperimentConfig, current_limits

FEW = 4  # heads of a run, where none is named
USUAL = "mean+linear"  # the head of a sample that answers a file, where none is named
TAKES = "Name a run (--run), a fine-tuned checkpoint (--model), or a recipe of a sample (--sample)."

Named = Recipe | str | Classifier
RowSplit = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of rows learned from, and held out


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRequest:
    """The heads that are asked for.

    Attributes:
        recipes: Recipes, "own" for the head that a checkpoint came with, or classifiers. Without
            any, four common ones, or the best four of a run.
        pair: The second sentence that they will be asked about, or nothing.
        model: The base model; a run has its own.
        sample: What heads are trained on; the one that suits, if not given.
        run: A run whose heads are asked instead.
        pairs: How two sentences enter, in recipes that do not say it.
        in_turn: Whether heads are loaded one after the other: a recipe that is none fails when its
            turn comes.
    """

    recipes: Sequence[Named] = ()
    pair: str = ""
    model: str = BUNDLED
    sample: str = ""
    run: str = ""
    pairs: str = JOINT
    in_turn: bool = False


# A head before it is loaded: of a run its name there; else a recipe, "own", or a classifier; or
# what is wrong with the recipe.
HeadName = ResolvedRecipe | str | Classifier | HeadsError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSource:
    """Where requested heads come from, before any of them is loaded or trained.

    Attributes:
        names: The heads; each once, unless they are loaded in turn.
        backbone: The base model; None of classifiers alone, which have their own.
        corpus: The rows that they learn from; None where those are not known.
        run: The run that they are of, if one, and its spec.
    """

    names: tuple[HeadName, ...]
    backbone: Backbone | None = None
    corpus: Corpus | None = None
    config: ExperimentConfig = field(default_factory=ExperimentConfig)
    run: tuple[RunFolder, RunSpec] | None = None

    def load(self, names: Sequence[HeadName]) -> Generator[Progress, None, tuple[Classifier, ...]]:
        """Load some of the heads, or train them together; yield progress."""
        for name in names:
            if isinstance(name, HeadsError):
                raise name
        recipes = [name for name in names if isinstance(name, ResolvedRecipe)]
        heads = []
        if recipes and self.backbone and self.corpus:
            heads = yield from trained(recipes, self.corpus, self.backbone, self.config)
        loaded = dict(zip(map(str, recipes), heads, strict=True))
        return tuple(
            name if isinstance(name, Classifier) else self._classifier(str(name), loaded)
            for name in names
        )

    def _classifier(self, name: str, loaded: dict[str, TrainedHead]) -> Classifier:
        assert self.backbone is not None
        if self.run:
            return load_classifier(*self.run, name, self.backbone)
        head = loaded[name] if name in loaded else own_head(self.backbone)
        classifier = Classifier(backbone=self.backbone, head=head)
        return with_refit(classifier, self.corpus, self.config) if self.corpus else classifier

    def split_rows(self) -> RowSplit:
        """Return the numbers of the rows that the heads learned from, and of those held out."""
        if self.run:  # the head of the first seed is kept
            splits = self.run[1].splits
            return tuple(splits.train[0].tolist()), tuple(splits.test[0].tolist())
        return first_split(self.corpus, self.config) if self.corpus else ((), ())


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedHeads:
    """Trained heads, and what they were trained on.

    Attributes:
        corpus: The rows; None where they are not known.
        split_rows: Splits the rows, when somebody asks for `learned` or `held`.
    """

    classifiers: tuple[Classifier, ...]
    corpus: Corpus | None = None
    run: RunFolder | None = None
    names: tuple[str, ...] = ()
    split_rows: Callable[[], RowSplit] = lambda: ((), ())

    @cached_property
    def _rows(self) -> RowSplit:
        return self.split_rows()

    @property
    def learned(self) -> tuple[int, ...]:
        """The numbers of the rows that the heads learned from."""
        return self._rows[0]

    @property
    def held(self) -> tuple[int, ...]:
        """The numbers of rows that they have not learned from."""
        return self._rows[1]


def select_heads(request: HeadRequest) -> Generator[Progress, None, SelectedHeads]:
    """Load the heads that are asked for, or train those of a sample; yield progress.

    Raises:
        HeadsError: A recipe, a sample, a run or a base model does not exist or does not fit.
    """
    source = yield from open_heads(request)
    classifiers = yield from source.load(source.names)
    return SelectedHeads(
        classifiers=classifiers,
        corpus=source.corpus,
        run=source.run[0] if source.run else None,
        names=tuple(map(str, source.names)) if source.run else (),
        split_rows=source.split_rows,
    )


def open_heads(request: HeadRequest) -> Generator[Progress, None, HeadSource]:
    """Find out where the heads that are asked for come from; raise HeadsError as `select_heads`."""
    recipes = [request.recipes] if isinstance(request.recipes, str) else request.recipes
    limits, chosen = current_limits(), len({_key(recipe) for recipe in recipes})
    if chosen > limits.recipes:
        what = f"{chosen} recipes are chosen; at most {limits.recipes} fit side by side here."
        raise LimitError(what, "Take some away.")
    if request.run:
        return _open_run(request, recipes)
    classifiers = [one for one in recipes if isinstance(one, Classifier)]
    if classifiers and len(classifiers) == len(recipes):
        return _open_classifiers(classifiers, request.sample)
    names = _names(request, recipes or RECIPES, partial(_resolve, pairs=request.pairs))
    needs_rows = request.sample or any(isinstance(name, ResolvedRecipe) for name in names)
    corpus = corpus_of(sample_for(request.sample, request.pair)) if needs_rows else None
    backbone = yield from loading(request.model or BUNDLED)
    return HeadSource(names=names, backbone=backbone, corpus=corpus)


def _names(
    request: HeadRequest, recipes: Sequence[Named], resolve_one: Callable[[Any], HeadName]
) -> tuple[HeadName, ...]:
    names = list[HeadName]()
    for recipe in recipes:
        try:
            names.append(resolve_one(recipe))
        except HeadsError as error:
            if not request.in_turn:
                raise
            names.append(error)
    errors = [name for name in names if isinstance(name, HeadsError)]
    if errors and len(errors) == len(names):
        raise errors[0]
    return tuple(names if request.in_turn else {_key(name): name for name in names}.values())


def _resolve(name: Named, pairs: str) -> ResolvedRecipe | str | Classifier:
    if isinstance(name, Classifier):
        return name
    return OWN if is_own(name) else entering(resolve(name), pairs)


def _key(name: Named | HeadName) -> object:
    return name if isinstance(name, Classifier) else str(name)


def _open_run(request: HeadRequest, recipes: Sequence[Named]) -> HeadSource:
    run = find(request.run, is_public=current_limits().public)
    if any(isinstance(one, Classifier) for one in recipes):
        raise RecipeError("A run has heads of its own.", "Name its recipes, or leave the run out.")
    spec, backbone = open_run(run)
    names = _names(request, recipes or trained_names(run, spec)[:FEW], partial(run_name, spec))
    return HeadSource(names=names, backbone=backbone, corpus=spec.corpus, run=(run, spec))


def _open_classifiers(classifiers: Sequence[Classifier], sample: str) -> HeadSource:
    """Return the classifiers; rows are known if data and splits of all are the sample's."""
    unknown = HeadSource(names=tuple(classifiers))
    names = {sample or one.head.trained_on for one in classifiers}
    name = names.pop() if len(names) == 1 else ""
    if name not in SAMPLES:
        return unknown
    corpus = corpus_of(SAMPLES[name])
    configs = list[ExperimentConfig]()
    for head in (one.head for one in classifiers):
        if head.config is None or head.fingerprint != corpus.fingerprint:
            return unknown
        configs += [head.config] * (head.config not in configs)
    if len(configs) > 1 and len({first_split(corpus, config) for config in configs}) > 1:
        return unknown
    return replace(unknown, corpus=corpus, config=configs[0])


# --- The one head that answers a file.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileHead:
    """The head that answers a file, and what is known of the rows that it learned from.

    Attributes:
        selected: The rows that it learned from, where they are known.
        columns: The columns of those; without names where they are not known.
        metric: What its run ranks by; auto, if it is of none.
    """

    classifier: Classifier
    selected: SelectedHeads
    columns: Columns
    metric: str = "auto"

    @property
    def ordered(self) -> bool:
        """Whether its classes stand in an order."""
        return bool(self.selected.corpus and self.selected.corpus.ordered)


def select_file_head(options: HeadOptions) -> Generator[Progress, None, FileHead]:
    """Load the head that answers a file, or train that of a sample; yield progress.

    Without a recipe it is the run's recommended head, the own head of a model, or the usual one of
    a sample. The recipe may be a head that was selected before.

    Raises:
        HeadsError: No head is named, or as of `select_heads`.
    """
    recipe: Named | FileHead = options.recipe
    model, sample = options.model or BUNDLED, options.sample
    if isinstance(recipe, FileHead):
        return recipe
    if options.run:
        return (yield from _select_of_run(recipe, options.run, model, sample))
    is_checkpoint = not recipe and not sample and model != BUNDLED
    if not isinstance(recipe, Classifier) and (is_own(recipe) or is_checkpoint):
        if name := absent(model):
            yield from fetching(name)
        yield Progress(says=f"Loading {model}", share=0.0)
        recipe, sample = pretrained.load(model, BUNDLED, resolve(USUAL)), ""
    if not recipe and not sample:
        last = next(iter(all_runs()), None) if not current_limits().public else None
        hint = f"{TAKES} The last run is {last.id}." if last else TAKES
        raise DataError("No head is named that could answer.", hint)
    pair = "a pair" if sample in SAMPLES and SAMPLES[sample].pair else ""
    request = HeadRequest(recipes=[recipe or USUAL], pair=pair, model=model, sample=sample)
    selected = yield from select_heads(request)
    columns, corpus = Columns(), selected.corpus
    if corpus and corpus.name in SAMPLES:
        columns = guess(open_table(SAMPLES[corpus.name].path))
    return FileHead(classifier=selected.classifiers[0], selected=selected, columns=columns)


def _select_of_run(
    recipe: Named, run_id: str, model: str, sample: str
) -> Generator[Progress, None, FileHead]:
    if sample or model != BUNDLED:
        what = "A run has its own data and its own base model."
        raise DataError(what, "Leave out the sample and the model, or the run.")
    run = find(run_id, is_public=current_limits().public)
    yield Progress(says=f"Loading the head of {run.id}", share=0.0)
    spec = load_spec(run)
    if not recipe:
        names, board = trained_names(run, spec), leaderboard(run)
        if not names:
            what = f"No head of the run {run.id} is done yet."
            raise DataError(what, f"Go on with it: heads train --resume {run.id}")
        recipe = next((n for n in (board.recommendation.name, board.best) if n in names), names[0])
    selected = yield from select_heads(HeadRequest(recipes=[recipe], run=run_id))
    saved = dict(spec.account.get("columns", {}))
    columns = {name: saved[name] for name in Columns.__dataclass_fields__ if name in saved}
    columns |= {name: tuple(columns.get(name, ())) for name in ("labels", "order")}
    return FileHead(
        classifier=selected.classifiers[0],
        selected=selected,
        columns=Columns(**{"text": "", "label": "", **columns}),
        metric=spec.metric,
    )
