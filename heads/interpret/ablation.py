"""What a layer is worth: a head with it taken out, and the same trained anew without it.

That is not what the layer is worth, since the others have learned to stand on it: for that, a head
trained without it stands beside (`retraining`).

Legend: n rows, c classes.
"""

import copy
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heads import display, interruption
from heads.classifier.calibration import calibrate
from heads.classifier.classifier import Classifier
from heads.classifier.inputs import HeadInputs
from heads.data.corpus import Corpus
from heads.errors import HeadsError, RecipeError, did_you_mean
from heads.evaluation.details import measure
from heads.evaluation.metrics import AUTO, SCORES, MetricName, metric_of
from heads.evaluation.predictions import Answers, CellPredictions, EvaluationTask, answers_of, parts
from heads.evaluation.significance import compare
from heads.events import Progress, within
from heads.inference.selection import SelectedHeads
from heads.interpret.neighbors import vectors_of
from heads.interpret.outputs import HeadOutput, check_texts, head_output, head_outputs
from heads.parts.modules import (
    Cuts,
    Neighbours,
    Normalise,
    Residual,
    Scale,
    acts_in_training_only,
    is_idle,
    last_linear,
    leaves,
    words,
)
from heads.parts.resolve import with_options
from heads.parts.resolved_recipe import WITHOUT, ResolvedRecipe
from heads.problem import plain
from heads.runs import spec
from heads.runs.cells import answers_of_cell
from heads.runs.features import run_features, run_token_states, training_data_of
from heads.runs.folder import RunFolder
from heads.runs.spec import task_of
from heads.runs.trained_heads import majority_of, scores_of, trained_head
from heads.runs.trainer import first_split, trained
from heads.settings import current_limits
from heads.training.events import TrialFailed, TrialResult
from heads.training.scheduler import run_trials
from heads.training.search import trial_job
from heads.training.trial import trials

# --- What a layer is worth: a head beside the one that was trained without it, on the same rows.


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """How a head does beside the same recipe trained without a layer, on the same tested rows.

    Attributes:
        metric: What is scored.
        rows: How many different rows were tested.
        seeds: How often each was trained.
        whole: The score of the head with the layer.
        without: That of the head trained without it.
        difference: The one less the other: what the layer is worth.
        low: The lower end of its 95 % interval; of one seed that of these two heads alone.
        high: Its upper end.
    """

    metric: MetricName
    rows: int
    seeds: int
    whole: float
    without: float
    difference: float
    low: float
    high: float

    def told(self, layer: str) -> str:
        """How the head without the layer does, and the one with it, to follow "it"."""
        name = SCORES[self.metric]
        ends = f"{name.signed(self.low)} to {name.signed(self.high)}"
        points = " points" if name.is_share else ""
        luck = f"over {self.seeds} seeds"
        if self.seeds == 1:
            luck = "each trained once, so luck in training is not in it"
        return (
            f"{name.reached(self.without)}; with {layer} it {name.reached(self.whole)}. The "
            f"difference that {layer} makes is {name.signed(self.difference)}{points} on "
            f"{self.rows:,} tested rows (95 %: {ends}; {luck})."
        )


def worth_of(
    whole: CellPredictions | Answers, bare: CellPredictions | Answers, task: EvaluationTask
) -> Worth:
    """Compare what a head answered with what the one without a layer did, row by row."""
    found = compare([bare, whole], task, reference=bare.name).to_reference[0]
    scores = [
        sum(float(seed.mean()) for seed in each) / len(each)
        for each in (parts(one, task) for one in (whole, bare))
    ]
    return Worth(
        metric=metric_of(AUTO, task.problem),
        rows=len(torch.cat(whole.rows).unique()),
        seeds=len(whole.rows),
        whole=scores[0],
        without=scores[1],
        difference=found.difference,
        low=found.low,
        high=found.high,
    )


# --- A recipe trained anew without one of its layers, beside the head that has it.

KEPT = 64  # of runs; those of samples lie on disk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Retrained:
    """A head that was trained without a layer.

    Attributes:
        classifier: The head; None where there is none.
        worth: How it does beside the whole one.
        why_not: Why there is none, in a sentence.
    """

    classifier: Classifier | None = None
    worth: Worth | None = None
    why_not: str = ""


def train_without(
    heads: SelectedHeads, wanted: Sequence[tuple[int, str]]
) -> Generator[Progress, None, list[Retrained]]:
    """Train recipes anew, each without a layer; yield progress, return the heads.

    Those that learn their base model as well are not: that takes as long as a run.

    Args:
        wanted: The numbers of heads, and the layers that they are to do without.
    """
    found: dict[int, Retrained] = {}
    recipes: dict[int, ResolvedRecipe] = {}
    for place, (number, layer) in enumerate(wanted):
        try:
            recipe = with_options(heads.classifiers[number].head.asked, {WITHOUT: layer})
        except HeadsError as error:
            found[place] = Retrained(why_not=error.what)
            continue
        if why := _why_not(heads, heads.classifiers[number], recipe):
            found[place] = Retrained(why_not=why)
        else:
            recipes[place] = recipe
    rows = len(heads.learned) if recipes else 0  # on which a head is trained, of every split
    if recipes and heads.run:
        rows = sum(map(len, spec.load(heads.run).splits.train))
    for place in [*recipes][_allowed(rows) :]:  # in the order asked for, as far as this place goes
        found[place] = Retrained(why_not=_too_many(rows))
        del recipes[place]
    whole = {place: wanted[place][0] for place in recipes}
    if recipes and heads.run:
        names = {place: heads.names[number] for place, number in whole.items()}
        found |= yield from _of_run(heads.run, heads.classifiers[0], recipes, names)
    elif recipes:
        found |= yield from _of_sample(heads, recipes, whole)
    return [found[place] for place in range(len(wanted))]


def _why_not(heads: SelectedHeads, classifier: Classifier, bare: ResolvedRecipe) -> str:
    """Say why a head is not trained anew by the recipe without a layer; nothing where it is."""
    name, corpus, config = classifier.recipe, heads.corpus, classifier.head.config
    if classifier.head.is_own:
        return f"{name} came with its checkpoint, and its training is not known here."
    if heads.run is None:
        if corpus is None or config is None or classifier.head.fingerprint != corpus.fingerprint:
            return f"What {name} was trained on is not known here."
        if first_split(corpus, config) != (heads.learned, heads.held):
            return f"Which rows {name} learned from is not known here."
    if not bare.is_tuned:
        return ""
    return (
        f"The base model is learned anew with every head, which takes long: train {bare} yourself, "
        "beside the one that has the layer."
    )


def _allowed(rows: int) -> int:
    """How many heads this place trains on so many rows for one question."""
    return current_limits().retrained_rows // max(1, rows)


def _too_many(rows: int) -> str:
    """Why no more heads are trained."""
    if most := _allowed(rows):
        heads = "one head" if most == 1 else f"{most} heads"
        return (
            f"This place trains {heads} on {rows:,} rows for a question: name one layer, or ask "
            "fewer heads."
        )
    return (
        f"It would learn from {rows:,} rows, and this place trains on "
        f"{current_limits().retrained_rows:,} for a question: do it on your own machine."
    )


def _of_sample(
    heads: SelectedHeads, recipes: Mapping[int, ResolvedRecipe], whole: Mapping[int, int]
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Heads of a sample: the same rows, search and seed; one training each."""
    corpus, found = heads.corpus, dict[int, Retrained]()
    assert corpus is not None
    task, rows = task_of(corpus), torch.tensor(heads.held)
    groups: dict[object, list[int]] = {}  # those that are trained alike share one reading
    for place, number in whole.items():
        one = heads.classifiers[number]
        groups.setdefault((id(one.backbone.untuned), one.head.config), []).append(place)
    for places in groups.values():
        first = heads.classifiers[whole[places[0]]]
        asked = [recipes[place] for place in places]
        backbone = first.backbone.untuned
        events = trained(asked, corpus, backbone, first.head.config)
        for place, head in zip(places, (yield from events), strict=True):
            bare = replace(first, head=head)
            said = yield from _outcome(heads.classifiers[whole[place]], corpus, rows)
            other = yield from _outcome(bare, corpus, rows)
            found[place] = Retrained(classifier=bare, worth=worth_of(said, other, task))
    return found


@torch.no_grad()
def _outcome(
    classifier: Classifier, corpus: Corpus, rows: Tensor
) -> Generator[Progress, None, CellPredictions]:
    """What a head says of some rows."""
    if classifier.head.module.reader.resolved.late:
        texts = [corpus.texts[row] for row in rows.tolist()]
        pairs = [corpus.pairs[row] for row in rows.tolist()] if corpus.pairs else []
        logits = classifier.logits(texts, pairs)
    else:
        vectors = yield from vectors_of(classifier, corpus, rows)
        logits = classifier.head.module.head(vectors)
    return CellPredictions(name=classifier.head.name, rows=(rows,), logits=(logits,))


_recent: "OrderedDict[tuple[str, float, str, str], Retrained]" = OrderedDict()
_lock = threading.Lock()


def _of_run(
    run: RunFolder, one: Classifier, recipes: Mapping[int, ResolvedRecipe], names: Mapping[int, str]
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Heads of a run: the same rows, the same search and the same seeds as its cells."""
    asked = spec.load(run)
    keys = {
        place: (str(run.path), asked.created, names[place], str(recipe))
        for place, recipe in recipes.items()
    }
    with _lock:
        found = {place: _recent[key] for place, key in keys.items() if key in _recent}
    missing = {place: recipe for place, recipe in recipes.items() if place not in found}
    if not missing:
        return found
    corpus, backbone = asked.corpus, one.backbone.untuned
    cells = trials(list(missing.values()), backbone, len(corpus.classes), corpus.problem)
    read = yield from within(run_features(run, asked, cells, backbone), 0.0, 0.4)
    states = yield from run_token_states(run, asked, cells, read, backbone)
    training_data = training_data_of(run, asked, read, states)
    places = {str(recipe): place for place, recipe in missing.items()}
    jobs = [trial_job(cell, training_data) for cell in cells]
    done = 0
    for event in run_trials(jobs, training_data, max(1, torch.get_num_threads())):
        if isinstance(event, TrialFailed):
            found[places[event.name]] = Retrained(why_not=event.says)
        elif isinstance(event, TrialResult):
            place = places[event.trial.name]
            measures = measure(event.outcome, asked.task)
            scores = scores_of(event, asked, measures, majority_of(run, asked))
            head = calibrate(trained_head(event, asked, scores, backbone))
            whole = answers_of_cell(run, asked.recipes.index(names[place]), names[place]).answers
            worth = worth_of(whole, answers_of(event.outcome, asked.task), asked.task)
            bare = Classifier(backbone=backbone, head=head)
            found[place] = Retrained(classifier=bare, worth=worth)
            with _lock:
                _recent[keys[place]] = found[place]
                while len(_recent) > KEPT:
                    _recent.popitem(last=False)
        done += isinstance(event, TrialFailed | TrialResult)
        says = f"Training without a layer: {done} of {len(jobs)} heads done"
        yield Progress(says=says, share=0.5 + done / len(jobs) / 2)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What taking a layer out changes on rows that the head has not learned from.

    Attributes:
        rows: How many rows.
        changed: How many answers are others.
        before: The share that the whole head answers right.
        after: The share that it answers right without the layer.
    """

    rows: int
    changed: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation(display.Displayed):
    """What a head says with and without one of its layers.

    Attributes:
        name: The head.
        layer: The layer's name.
        does: The layer in a few words.
        before: What the whole head says.
        after: What it says without the layer; None where it cannot be taken out.
        effect: What changes on other rows; None where it was not measured.
        why_not: Why it cannot be taken out, in a sentence.
        retrained: What a head says that was trained without the layer; None where there is none.
        worth: How that head does beside the whole one.
        why_not_retrained: Why there is no such head, in a sentence; nothing where none was asked
            for.
    """

    name: str
    layer: str
    does: str
    before: HeadOutput
    after: HeadOutput | None
    effect: Effect | None = None
    why_not: str = ""
    retrained: HeadOutput | None = None
    worth: Worth | None = None
    why_not_retrained: str = ""

    @property
    def says(self) -> str:
        """What happens, in a few sentences: of the head as it is, then of one trained without."""
        return " ".join(filter(None, (self._says_as_it_is, self._says_retrained)))

    @property
    def _says_as_it_is(self) -> str:
        if self.after is None:
            return self.why_not
        was, now = self.before.spoken, self.after.spoken
        says = f"still says {now}" if was == now else f"says {now} instead of {was}"
        told = f"Without {self.layer}, {self.name} as it is, not trained anew, {says}."
        if self.effect is None:
            return told
        right = f"from {self.effect.before * 100:.1f} to {self.effect.after * 100:.1f} % right"
        return (
            f"{told} Of {self.effect.rows} rows that it has not learned from, "
            f"{self.effect.changed} get another answer ({right}). That shows how much its other "
            f"layers lean on {self.layer}, not what {self.layer} is worth."
        )

    @property
    def _says_retrained(self) -> str:
        if self.retrained is None or self.worth is None:
            why = self.why_not_retrained
            return f"It was not trained anew without it: {why[:1].lower() + why[1:]}" if why else ""
        return (
            f"Trained anew without {self.layer} on the same rows, it says "
            f"{self.retrained.spoken} and {self.worth.told(self.layer)}"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self, dict_factory=plain) | {"says": self.says}


def kind_of(layer: nn.Module) -> str:
    """What sort of layer it is: dense, activation, norm, dropout, scale, or votes."""
    kinds: dict[str, tuple[type[nn.Module], ...]] = {
        "dense": (nn.Linear,),
        "residual": (Residual,),
        "thresholds": (Cuts,),
        "norm": (nn.LayerNorm, Normalise),
        "scale": (Scale,),
        "votes": (Neighbours,),
    }
    if acts_in_training_only(layer):
        return "dropout"
    return next((name for name, types in kinds.items() if isinstance(layer, types)), "activation")


def find_layers(classifier: Classifier, without: str = "") -> tuple[str, ...]:
    """Return a head's layers of that name or kind, or all in use; raise RecipeError for none."""
    chain = classifier.head.module.head
    known, last = dict(leaves(chain)), last_linear(chain)
    acting = {
        name: layer
        for name, layer in known.items()
        if not acts_in_training_only(layer) and not is_idle(layer) and name != last
    }
    if not without:
        return tuple(acting)
    if without in known:
        return (without,)
    before = {name: layer for name, layer in known.items() if name != last}
    found = [
        name
        for name, layer in before.items()
        if without in (name.rpartition(".")[2], kind_of(layer))
    ]
    if not found:
        what = f"{classifier.recipe} has no layer '{without[:60]}' before its last one."
        if not acting:
            raise RecipeError(what, "It has only the one that gives the logits.")
        names = dict.fromkeys([*acting, *map(kind_of, acting.values())])
        raise RecipeError(what, did_you_mean(without, names))
    return tuple(found)


def remove_layer(classifier: Classifier, layer: str) -> Classifier:
    """The same trained head with one layer replaced by nothing: what enters it leaves it.

    Args:
        layer: The layer's name, as its tensors have it, for example ``"dense"``.

    Raises:
        RecipeError: There is no such layer, or the sizes beside it do not fit without it.
    """
    module = classifier.head.module
    known = dict(leaves(module.head))
    if not layer or layer not in known:
        what = f"{classifier.recipe} has no layer '{layer[:60]}'."
        raise RecipeError(what, did_you_mean(layer, dict.fromkeys(known)))
    chain = _without(module.head, layer)
    width, classes = module.width, len(classifier.classes)
    try:
        fits = chain(torch.zeros(1, width)).shape[-1] == classes
    except RuntimeError:
        fits = False
    if not fits:
        raise RecipeError(_misfit(classifier, layer, known[layer]), "Take another layer out.")
    bare = copy.copy(module)
    bare._modules = {**module._modules, "head": chain}
    return replace(classifier, head=replace(classifier.head, module=bare))


def _without(chain: nn.Module, layer: str) -> nn.Sequential:
    """A chain of the same layers, one of them replaced by the identity."""
    outer, _, inner = layer.partition(".")
    return nn.Sequential(
        OrderedDict(
            (name, (_without(child, inner) if inner else nn.Identity()) if name == outer else child)
            for name, child in chain._modules.items()
            if child is not None
        )
    ).eval()


def _misfit(classifier: Classifier, layer: str, taken: nn.Module) -> str:
    name = f"{layer} of {classifier.recipe}"
    if layer == last_linear(classifier.head.module.head):
        return f"{name} gives the logits: without it there is no answer."
    if isinstance(taken, nn.Linear):
        sizes = f"{taken.in_features:,} numbers to {taken.out_features:,}"
        return f"{name} maps {sizes}, and what comes after it needs {taken.out_features:,}."
    return f"{name} changes the size of what passes through it, and what comes after needs that."


@torch.no_grad()
def compare_without_layer(classifier: Classifier, layer: str, logits: Tensor, own: Any) -> Ablation:
    """What a head says of one text with and without a layer.

    Args:
        logits: What the whole head says, (1, c).
        own: The states of the text, as the head reads them.
    """
    before = head_output(classifier.head, logits[0])
    taken = dict(leaves(classifier.head.module.head)).get(layer)
    last = layer == last_linear(classifier.head.module.head)
    does = words(taken, is_last=last) if taken is not None else ""
    try:
        without = remove_layer(classifier, layer)
    except RecipeError as error:
        return Ablation(
            name=before.name, layer=layer, does=does, before=before, after=None, why_not=error.what
        )
    after = head_output(classifier.head, without.head.module(*own)[0])
    return Ablation(name=before.name, layer=layer, does=does, before=before, after=after)


@torch.no_grad()
def effect(
    classifier: Classifier, layer: str, vectors: Tensor, targets: Sequence[Sequence[int]]
) -> Effect:
    """What taking a layer out changes on other rows.

    Args:
        vectors: What the head gets of them, (n, w).
        targets: For each row the numbers of its classes.
    """
    head = classifier.head
    target_matrix = torch.zeros(len(vectors), len(classifier.classes), dtype=torch.bool)
    for row, numbers in enumerate(targets):
        target_matrix[row, list(numbers)] = True
    chains = (head.module.head, remove_layer(classifier, layer).head.module.head)
    found = [head.problem.chosen(chain(vectors), head.thresholds) for chain in chains]
    right = [(each == target_matrix).all(dim=1).float().mean().item() for each in found]
    return Effect(
        rows=len(vectors),
        changed=int((found[0] != found[1]).any(dim=1).sum()),
        before=right[0],
        after=right[1],
    )


# --- Layers taken out of heads, one after the other.

HELD = 1000  # rows on which the effect of a layer is measured, at most


def ablate_layers(
    heads: SelectedHeads, text: str, pair: str = "", without: str = "", *, retrain: bool = True
) -> Generator[Progress, None, tuple[Ablation, ...]]:
    """Ask each head without a layer: yield progress while rows are read, return what it says.

    Args:
        retrain: Whether heads are trained anew without it as well.

    Raises:
        RecipeError: No head has such a layer, or none can do without it.
    """
    texts = check_texts(text, pair)
    found: list[Ablation] = []
    wanted: list[tuple[int, str]] = []
    refused: list[RecipeError] = []
    for number, classifier in enumerate(heads.classifiers):
        interruption.check()
        try:
            names = find_layers(classifier, without)
        except RecipeError as error:
            refused.append(error)
            continue
        found += yield from _taken_out(heads, classifier, names, texts)
        wanted += [(number, name) for name in names]
    if not found and refused:
        raise refused[0]
    if retrain:
        others = yield from train_without(heads, wanted)
        for place, other in enumerate(others):
            bare = other.classifier
            found[place] = replace(
                found[place],
                retrained=head_outputs([bare], *texts)[0] if bare else None,
                worth=other.worth,
                why_not_retrained=other.why_not,
            )
    if without and all(one.after is None and one.retrained is None for one in found):
        raise RecipeError(found[0].why_not, "Take another layer out.")
    return tuple(found)


def _taken_out(
    heads: SelectedHeads, classifier: Classifier, names: Sequence[str], texts: Sequence[str]
) -> Generator[Progress, None, list[Ablation]]:
    inputs = HeadInputs(classifier.backbone, texts[:1], texts[1:])
    inputs.encode([classifier.head])
    own = inputs.states(classifier.head)
    with torch.no_grad():
        logits = classifier.head.module(*own)
    found = []
    for name in names:
        interruption.check()
        found.append(compare_without_layer(classifier, name, logits, own))
    resolved, corpus = classifier.head.module.reader.resolved, heads.corpus
    rows = torch.tensor(heads.held[:HELD])
    if corpus is None or corpus.numbers or resolved.late or not len(rows) or not names:
        return found
    if classifier.head.is_own or classifier.classes != corpus.classes:  # of other data
        return found
    vectors = yield from vectors_of(classifier, corpus, rows)
    targets = [corpus.targets[row] for row in rows.tolist()]
    return [
        one
        if one.after is None
        else replace(one, effect=effect(classifier, name, vectors, targets))
        for name, one in zip(names, found, strict=True)
    ]
