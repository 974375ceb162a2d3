"""A recipe trained anew without one of its layers, beside the head that has it.

A layer that is taken out of a trained head leaves layers behind that have learned to stand on it;
what it is worth shows only a head that never had it. So the recipe without it (`?without=dense`)
learns from the same rows: of a sample with the same settings and the same dice, of a run with the
same search and the same seeds, and answers the same rows as the whole head.
Legend: n rows, c classes.

Source: ablation studies (Meyes et al. 2019, arXiv 1901.08644) take parts out of a trained network
and then let it recover by more training; RemOve And Retrain (Hooker et al. 2019, arXiv 1806.10758)
trains anew, since what was never trained without a part is asked what it does not know.
"""

import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus, groups_of, split
from heads.errors import HeadsError
from heads.evaluation.details import measure
from heads.evaluation.predictions import Outcome, Task, answers_of
from heads.events import Progress
from heads.parts.resolve import resolve
from heads.parts.resolved import WITHOUT
from heads.pipeline.look.chosen import Heads
from heads.pipeline.look.nearest import vectors_of
from heads.pipeline.look.worth import Worth, worth_of
from heads.recipe import Recipe
from heads.runs import spec as question
from heads.runs.cells import said as answered
from heads.runs.folder import RunFolder
from heads.runs.preparation import board_of, featured, stated
from heads.runs.trained_heads import trained_head
from heads.settings import limits as limits_here
from heads.training.objective import goals_of
from heads.training.sampled import trained
from heads.training.scheduler import Failed, play
from heads.training.search import Played, unit_job
from heads.training.trial import units

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


def without(recipe: Recipe, layer: str) -> Recipe:
    """A recipe less one layer of its head.

    Raises:
        RecipeError: It cannot be trained without it.
    """
    options = dict(recipe.options) | {WITHOUT: layer}
    return resolve(replace(recipe, options=tuple(sorted(options.items())))).recipe


def retraining(
    heads: Heads, wanted: Sequence[tuple[int, str]]
) -> Generator[Progress, None, list[Retrained]]:
    """Trains recipes anew, each without a layer: progress, then the heads.

    Args:
        wanted: The numbers of heads, and the layers that they are to do without.
    """
    found: dict[int, Retrained] = {}
    recipes: dict[int, Recipe] = {}
    for place, (number, layer) in enumerate(wanted):
        try:
            known = Recipe.parse(heads.names[number]) if heads.run else None
            recipes[place] = without(known or heads.classifiers[number].recipe, layer)
        except HeadsError as error:
            found[place] = Retrained(why_not=error.what)
            continue
        if why := _unknown(heads, heads.classifiers[number]):
            found[place] = Retrained(why_not=why)
            del recipes[place]
    whole = {place: wanted[place][0] for place in recipes}
    if recipes and heads.run:
        names = {place: heads.names[number] for place, number in whole.items()}
        found |= yield from _of_run(heads.run, heads.classifiers[0], recipes, names)
    elif recipes:
        found |= yield from _of_sample(heads, recipes, whole)
    return [found[place] for place in range(len(wanted))]


def _unknown(heads: Heads, classifier: Classifier) -> str:
    """Why nobody here knows what a head was trained on, or how; nothing where that is known."""
    if classifier.head.is_own:
        return f"{classifier.recipe} came with its checkpoint, and its training is not known here."
    if heads.run:
        return ""
    corpus, settings = heads.corpus, classifier.head.training
    if corpus is None or settings is None or classifier.classes != corpus.classes:
        return f"What {classifier.recipe} was trained on is not known here."
    learned, held = split(corpus, settings.held_out, settings.seed)
    if (tuple(learned), tuple(held)) != (heads.learned, heads.held):
        return f"Which rows {classifier.recipe} learned from is not known here."
    return ""


def _of_sample(
    heads: Heads, recipes: Mapping[int, Recipe], whole: Mapping[int, int]
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Heads of a sample: the same rows, settings and dice; one training each."""
    corpus, found = heads.corpus, dict[int, Retrained]()
    assert corpus is not None
    task, rows = _task(corpus), torch.tensor(heads.held)
    groups: dict[object, list[int]] = {}  # those that are trained alike share one reading
    for place, number in whole.items():
        one = heads.classifiers[number]
        groups.setdefault((id(one.backbone), repr(one.head.training)), []).append(place)
    for places in groups.values():
        first = heads.classifiers[whole[places[0]]]
        asked = [recipes[place] for place in places]
        events = trained(asked, corpus, first.backbone, limits_here(), first.head.training)
        for place, head in zip(places, (yield from events), strict=True):
            bare = replace(first, head=head)
            said = yield from _outcome(heads.classifiers[whole[place]], corpus, rows)
            other = yield from _outcome(bare, corpus, rows)
            found[place] = Retrained(classifier=bare, worth=worth_of(said, other, task))
    return found


@torch.no_grad()
def _outcome(
    classifier: Classifier, corpus: Corpus, rows: Tensor
) -> Generator[Progress, None, Outcome]:
    """What a head says of some rows."""
    if classifier.head.module.reader.order.late:
        texts = [corpus.texts[row] for row in rows.tolist()]
        pairs = [corpus.pairs[row] for row in rows.tolist()] if corpus.pairs else []
        logits = classifier.logits(texts, pairs)
    else:
        vectors = yield from vectors_of(classifier, corpus, rows)
        logits = classifier.head.module.head(vectors)
    return Outcome(name=str(classifier.recipe), rows=(rows,), logits=(logits,))


def _task(corpus: Corpus) -> Task:
    goals = goals_of(corpus, range(len(corpus)))
    one = goals[:, 0] if corpus.kind == "number" else goals.argmax(dim=1)
    return Task(
        targets=goals if corpus.many else one,
        classes=corpus.classes,
        groups=groups_of(corpus).tensor,
        kind=corpus.kind,
        ordered=corpus.ordered,
    )


_recent: "OrderedDict[tuple[str, float, str, str], Retrained]" = OrderedDict()
_lock = threading.Lock()


def _of_run(
    run: RunFolder, one: Classifier, recipes: Mapping[int, Recipe], names: Mapping[int, str]
) -> Generator[Progress, None, dict[int, Retrained]]:
    """Heads of a run: the same rows, the same search and the same seeds as its cells."""
    asked, limits = question.load(run), limits_here()
    keys = {
        place: (str(run.path), asked.created, names[place], str(recipe))
        for place, recipe in recipes.items()
    }
    with _lock:
        found = {place: _recent[key] for place, key in keys.items() if key in _recent}
    missing = {place: recipe for place, recipe in recipes.items() if place not in found}
    if not missing:
        return found
    corpus, backbone = asked.corpus, one.backbone
    cells = units(list(missing.values()), backbone, len(corpus.classes), limits, corpus.kind)
    read = yield from featured(run, asked, cells, backbone)
    states = yield from stated(run, asked, cells, read, backbone, limits)
    board = board_of(run, asked, read, states)
    places = {str(recipe): place for place, recipe in missing.items()}
    jobs = [unit_job(cell, board) for cell in cells]
    done = 0
    for event in play(jobs, board, max(1, torch.get_num_threads())):
        if isinstance(event, Failed):
            found[places[event.name]] = Retrained(why_not=event.says)
        elif isinstance(event, Played):
            place = places[event.unit.name]
            measures = measure(event.outcome, asked.task)
            head = trained_head(run, event, asked, measures, backbone)
            whole = answered(run, asked.recipes.index(names[place]), names[place]).answers
            worth = worth_of(whole, answers_of(event.outcome, asked.task), asked.task)
            bare = Classifier(backbone=backbone, head=head)
            found[place] = Retrained(classifier=bare, worth=worth)
            _remember(keys[place], found[place])
        done += isinstance(event, Failed | Played)
        says = f"Training without a layer: {done} of {len(jobs)} heads done"
        yield Progress(says=says, share=0.5 + done / len(jobs) / 2)
    return found


def _remember(key: tuple[str, float, str, str], retrained: Retrained) -> None:
    with _lock:
        _recent[key] = retrained
        while len(_recent) > KEPT:
            _recent.popitem(last=False)
