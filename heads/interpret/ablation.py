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
from heads.classifier.module import TrainedHead
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
        rows: How many different rows were tested.
        seeds: How often each head was trained.
        difference: `whole` less `without`: what the layer is worth, with its 95 % interval; of one
            seed that of these two heads alone.
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
        worth: How it does beside the whole one.
        why_not: Why there is no such head, in a sentence.
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
    retrained: dict[int, Retrained] = {}
    recipes: dict[int, ResolvedRecipe] = {}
    for place, (number, layer) in enumerate(wanted):
        try:
            recipe = with_options(heads.classifiers[number].head.asked, {WITHOUT: layer})
        except HeadsError as error:
            retrained[place] = Retrained(why_not=error.what)
            continue
        if why := _refuse_training(heads, heads.classifiers[number], recipe):
            retrained[place] = Retrained(why_not=why)
        else:
            recipes[place] = recipe
    rows = len(heads.learned) if recipes else 0  # on which a head is trained, of every split
    if recipes and heads.run:
        rows = sum(map(len, spec.load(heads.run).splits.train))
    most = current_limits().retrained_rows // max(1, rows)
    for place in [*recipes][most:]:  # in the order asked for, as far as this place goes
        retrained[place] = Retrained(why_not=_too_many(rows, most))
        del recipes[place]
    whole = {place: wanted[place][0] for place in recipes}
    if recipes and heads.run:
        names = {place: heads.names[number] for place, number in whole.items()}
        retrained |= yield from _train_on_run(heads.run, heads.classifiers[0], recipes, names)
    elif recipes:
        retrained |= yield from _train_on_sample(heads, recipes, whole)
    return [retrained[place] for place in range(len(wanted))]


def _refuse_training(heads: SelectedHeads, classifier: Classifier, bare: ResolvedRecipe) -> str:
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


def _too_many(rows: int, most: int) -> str:
    """Say why no more heads are trained than the most that this place allows."""
    if most:
        heads = "one head" if most == 1 else f"{most} heads"
        return (
            f"This place trains {heads} on {rows:,} rows for a question: name one layer, or ask "
            "fewer heads."
        )
    return (
        f"It would learn from {rows:,} rows, and this place trains on "
        f"{current_limits().retrained_rows:,} for a question: do it on your own machine."
    )


def _train_on_sample(
    heads: SelectedHeads, recipes: Mapping[int, ResolvedRecipe], whole: Mapping[int, int]
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Train heads of a sample without a layer: on the same rows, by the same search and seed."""
    corpus, retrained = heads.corpus, dict[int, Retrained]()
    assert corpus is not None
    task, rows = task_of(corpus), torch.tensor(heads.held)
    groups: dict[object, list[int]] = {}  # those that are trained alike share one reading
    for place, number in whole.items():
        whole_head = heads.classifiers[number]
        key = id(whole_head.backbone.untuned), whole_head.head.config
        groups.setdefault(key, []).append(place)
    for places in groups.values():
        first = heads.classifiers[whole[places[0]]]
        bare_recipes = [recipes[place] for place in places]
        backbone = first.backbone.untuned
        events = trained(bare_recipes, corpus, backbone, first.head.config)
        for place, head in zip(places, (yield from events), strict=True):
            bare = replace(first, head=head)
            answers = yield from _answer_rows(heads.classifiers[whole[place]], corpus, rows)
            other = yield from _answer_rows(bare, corpus, rows)
            retrained[place] = Retrained(classifier=bare, worth=worth_of(answers, other, task))
    return retrained


@torch.no_grad()
def _answer_rows(
    classifier: Classifier, corpus: Corpus, rows: Tensor
) -> Generator[Progress, None, CellPredictions]:
    """Return what a head answers to some rows."""
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


def _train_on_run(
    run: RunFolder,
    classifier: Classifier,
    recipes: Mapping[int, ResolvedRecipe],
    names: Mapping[int, str],
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Train heads of a run without a layer: with the rows, search and seeds of its cells."""
    run_spec = spec.load(run)
    keys = {
        place: (str(run.path), run_spec.created, names[place], str(recipe))
        for place, recipe in recipes.items()
    }
    with _lock:
        retrained = {place: _recent[key] for place, key in keys.items() if key in _recent}
    missing = {place: recipe for place, recipe in recipes.items() if place not in retrained}
    if not missing:
        return retrained
    corpus, backbone = run_spec.corpus, classifier.backbone.untuned
    cells = trials(list(missing.values()), backbone, len(corpus.classes), corpus.problem)
    features = yield from within(run_features(run, run_spec, cells, backbone), 0.0, 0.4)
    states = yield from run_token_states(run, run_spec, cells, features, backbone)
    training_data = training_data_of(run, run_spec, features, states)
    places = {str(recipe): place for place, recipe in missing.items()}
    jobs = [trial_job(cell, training_data) for cell in cells]
    done = 0
    for event in run_trials(jobs, training_data, max(1, torch.get_num_threads())):
        if isinstance(event, TrialFailed):
            retrained[places[event.name]] = Retrained(why_not=event.says)
        elif isinstance(event, TrialResult):
            place = places[event.trial.name]
            measures = measure(event.outcome, run_spec.task)
            scores = scores_of(event, run_spec, measures, majority_of(run, run_spec))
            head = calibrate(trained_head(event, run_spec, scores, backbone))
            whole = answers_of_cell(run, run_spec.recipes.index(names[place]), names[place]).answers
            worth = worth_of(whole, answers_of(event.outcome, run_spec.task), run_spec.task)
            bare = Classifier(backbone=backbone, head=head)
            retrained[place] = Retrained(classifier=bare, worth=worth)
            with _lock:
                _recent[keys[place]] = retrained[place]
                while len(_recent) > KEPT:
                    _recent.popitem(last=False)
        done += isinstance(event, TrialFailed | TrialResult)
        says = f"Training without a layer: {done} of {len(jobs)} heads done"
        yield Progress(says=says, share=0.5 + done / len(jobs) / 2)
    return retrained


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What taking a layer out changes on rows that the head has not learned from.

    Attributes:
        changed: How many answers are others.
        before: The share of right answers with the layer; `after` is that without it.
    """

    rows: int
    changed: int
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation(display.Displayed):
    """What a head says with and without one of its layers.

    Attributes:
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
    """Return the trained head without a layer such as ``"dense"``: what enters it leaves it.

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
def _measure_effect(
    whole: TrainedHead, bare: TrainedHead, vectors: Tensor, targets: Sequence[Sequence[int]]
) -> Effect:
    """Return what taking a layer out of a head changes on rows, given their vectors (n, w)."""
    target_matrix = torch.zeros(len(vectors), len(whole.classes), dtype=torch.bool)
    for row, numbers in enumerate(targets):
        target_matrix[row, list(numbers)] = True
    answers = [
        whole.problem.chosen(head.module.head(vectors), whole.thresholds) for head in (whole, bare)
    ]
    before, after = ((own == target_matrix).all(dim=1).float().mean().item() for own in answers)
    changed = int((answers[0] != answers[1]).any(dim=1).sum())
    return Effect(rows=len(vectors), changed=changed, before=before, after=after)


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
        found += yield from _take_out(heads, classifier, names, texts)
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


def _take_out(
    heads: SelectedHeads, classifier: Classifier, names: Sequence[str], texts: Sequence[str]
) -> Generator[Progress, None, list[Ablation]]:
    """Ask a head about a text without each of some layers."""
    head, corpus = classifier.head, heads.corpus
    inputs = HeadInputs(classifier.backbone, texts[:1], texts[1:])
    inputs.encode([head])
    states = inputs.states(head)
    rows, vectors = torch.tensor(heads.held[:HELD]), None
    resolved = head.module.reader.resolved
    is_of_corpus = corpus and classifier.classes == corpus.classes and not head.is_own
    if corpus and is_of_corpus and not corpus.numbers and len(rows) and names:
        vectors = None if resolved.late else (yield from vectors_of(classifier, corpus, rows))
    layers, last = dict(leaves(head.module.head)), last_linear(head.module.head)
    found = []
    with torch.no_grad():
        before = head_output(head, head.module(*states)[0])
        for name in names:
            interruption.check()
            does = words(layers[name], is_last=name == last)
            ablation = Ablation(name=before.name, layer=name, does=does, before=before, after=None)
            try:
                bare = remove_layer(classifier, name).head
            except RecipeError as error:
                found.append(replace(ablation, why_not=error.what))
                continue
            effect = None
            if corpus and vectors is not None:
                targets = [corpus.targets[row] for row in rows.tolist()]
                effect = _measure_effect(head, bare, vectors, targets)
            after = head_output(bare, bare.module(*states)[0])
            found.append(replace(ablation, after=after, effect=effect))
    return found
