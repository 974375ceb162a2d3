"""Training: a corpus, a base model and recipes to a stream of events that ends in heads.

The base model stays frozen and reads every text once, whatever the number of recipes.
Legend: n rows, w width of the pooled vector, c classes.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from heads.errors import DataError
from heads.pipeline.assembly import Assembly, TrainedHead, assemble
from heads.pipeline.backbone import Backbone
from heads.pipeline.corpus import Corpus, split
from heads.pipeline.dice import Dice
from heads.pipeline.metrics import score
from heads.pipeline.states import States
from heads.recipe import Recipe
from heads.settings import Limits, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Something is under way: a sentence, and how far it is (0 to 1)."""

    says: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A head is ready."""

    head: TrainedHead


Event = Progress | Trained
Batches = list[tuple[Tensor | States, Tensor]]  # what a head sees, and its targets (n, c)


def train(
    recipes: Sequence[Recipe | str],
    corpus: Corpus,
    backbone: Backbone,
    *,
    training: Training,
    limits: Limits,
) -> Iterator[Event]:
    """Trains every recipe on the same rows and scores it on the same held-out rows.

    Yields:
        `Progress` while it works, and one `Trained` a recipe, in their order.

    Raises:
        RecipeError: A recipe does not fit the base model or the labels.
        LimitError: A head would be too large.
        DataError: There are too few rows to hold some out.
    """
    # Each recipe rolls dice of its own, so that its numbers do not depend on its neighbours.
    dice = [Dice(training.seed) for _ in recipes]
    modules = []
    for recipe, own in zip(recipes, dice, strict=True):
        with own.rolling():
            modules.append(
                assemble(recipe, backbone, len(corpus.classes), many=corpus.many, limits=limits)
            )
    rows, held = split(corpus, training.held_out, training.seed)
    if not rows or not held:
        what = f"{corpus.name} has {len(corpus)} rows, too few to hold some out of training."
        raise DataError(what, "Add rows.")
    seen: list[tuple[Batches, Batches]] = [([], []) for _ in modules]
    for done, (part, states, goals) in enumerate(_read((rows, held), corpus, backbone, training)):
        for batches, module in zip(seen, modules, strict=True):
            batches[part].append(_input(module, states, goals))
        says = f"Reading {len(corpus):,} texts of {corpus.name} with {backbone.id}"
        share = min(1.0, (done + 1) * training.batch_size / len(corpus))
        yield Progress(says=says, share=share / 2)
    for number, module in enumerate(modules):
        learned, unseen = seen[number]
        for share in _fit(module, learned, dice[number], training, corpus.many):
            says = f"Training {module.reader.order.recipe}"
            yield Progress(says=says, share=0.5 + (number + share) / len(modules) / 2)
        yield Trained(head=_scored(module, unseen, len(rows), corpus, backbone.id, training))


def _scored(
    module: Assembly, unseen: Batches, rows: int, corpus: Corpus, model: str, training: Training
) -> TrainedHead:
    module.eval().requires_grad_(False)
    logits = torch.cat([_logits(module, given) for given, _ in unseen])
    goals = torch.cat([goal for _, goal in unseen])
    return TrainedHead(
        recipe=module.reader.order.recipe,
        model=model,
        classes=corpus.classes,
        many=corpus.many,
        trained_on=corpus.name,
        rows=rows,
        scores=score(logits, goals, many=corpus.many),
        training=training,
        module=module,
    )


def _read(
    parts: Sequence[list[int]], corpus: Corpus, backbone: Backbone, training: Training
) -> Iterator[tuple[int, States, Tensor]]:
    """The number of the part, states and targets, in batches of like length."""
    for number, rows in enumerate(parts):
        pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
        encoded = backbone.encode([corpus.texts[row] for row in rows], pairs)
        goals = torch.zeros(len(rows), len(corpus.classes))
        for place, row in enumerate(rows):
            goals[place, list(corpus.targets[row])] = 1.0
        for places, states in backbone.passes(encoded, training.batch_size):
            yield number, states, goals[places]


@torch.no_grad()
def _input(module: Assembly, states: States, goals: Tensor) -> tuple[Tensor | States, Tensor]:
    """Pooled vectors where the reading is fixed, else the states to learn it from."""
    order = module.reader.order
    if not order.needs_states:
        return module.reader(states).vectors, goals
    if order.layers is None:  # only one layer is read: let go of the others
        states = replace(states, hidden=(states.layer(order.layer),) * len(states.hidden))
    return states, goals


def _logits(module: Assembly, given: Tensor | States) -> Tensor:
    return module(given) if isinstance(given, States) else module.head(given)


def _fit(
    module: Assembly, batches: Batches, dice: Dice, training: Training, many: bool
) -> Iterator[float]:
    """Trains a classifier in place; yields the share that is done, once an epoch."""
    order = module.reader.order
    if all(isinstance(given, Tensor) for given, _ in batches):
        vectors = torch.cat([given for given, _ in batches if isinstance(given, Tensor)])
        goals = torch.cat([goal for _, goal in batches])
        if order.head.solve:
            _solve(module, vectors, goals, many)
            return
        batches = [(vectors, goals)]
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    total = sum(len(goal) for _, goal in batches) * training.epochs
    done = 0
    for _ in range(training.epochs):
        with dice.rolling():
            for given, goal in _shuffled(batches, training.batch_size):
                optimizer.param_groups[0]["lr"] = training.learning_rate * (1 - done / total)
                optimizer.zero_grad()
                _loss(_logits(module.train(), given), goal, many).backward()
                optimizer.step()
                done += len(goal)
        yield done / total


def _solve(module: Assembly, vectors: Tensor, goals: Tensor, many: bool) -> None:
    """Hands the solver the rows and those of the head's options that it knows."""
    top = module.reader.order.head
    assert top.solve is not None
    known = inspect.signature(top.solve).parameters
    options = {n: v for n, v in module.reader.order.head_options.items() if n in known}
    top.solve(module.head, vectors, goals, many=many, **options)


def _shuffled(batches: Batches, size: int) -> Iterator[tuple[Tensor | States, Tensor]]:
    """Vectors in new batches; states in their batches of like length, in a new order."""
    for number in torch.randperm(len(batches)).tolist():
        given, goals = batches[number]
        if isinstance(given, States):
            yield given, goals
            continue
        for rows in torch.randperm(len(goals)).split(size):
            yield given[rows], goals[rows]


def _loss(logits: Tensor, goals: Tensor, many: bool) -> Tensor:
    """Cross-entropy, or one binary one a class; averaged over samples (s, n, c) if there are."""
    goals = goals.expand_as(logits)
    if many:
        return binary_cross_entropy_with_logits(logits, goals)
    return cross_entropy(logits.flatten(0, -2), goals.flatten(0, -2))
