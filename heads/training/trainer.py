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

from heads.backbone.backbone import Backbone
from heads.backbone.states import States
from heads.classifier.inputs import check_pairs
from heads.classifier.module import RecipeModule, TrainedHead, assemble
from heads.data.corpus import Corpus, split
from heads.errors import DataError
from heads.evaluation.statistics import fit_of_numbers, score
from heads.events import Progress
from heads.parts.losses import squared
from heads.parts.modules import last_linear
from heads.parts.registry import loss as losses
from heads.parts.resolved_recipe import HINGE, OVR, ResolvedRecipe
from heads.problem import MULTI_LABEL, ProblemType
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.settings import Limits, TrainingConfig
from heads.training.objective import TargetScaler, check_order, targets_of
from heads.training.whitening import Standardisation


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
    training: TrainingConfig,
    limits: Limits,
) -> Iterator[Event]:
    """Trains every recipe on the same rows and scores it on the same held-out rows.

    Yields:
        `Progress` while it works, and one `Trained` a recipe, in their order.

    Raises:
        RecipeError: A recipe does not fit the base model or the labels.
        LimitError: A head would be too large.
        DataError: There are too few rows to hold some out, one text a row where a recipe
            compares two, or classes without an order where its loss needs one.
    """
    # Each recipe rolls dice of its own, so that its numbers do not depend on its neighbours.
    rng = [IsolatedRng(training.seed) for _ in recipes]
    modules = [
        _new(recipe, corpus, backbone, own, limits)
        for recipe, own in zip(recipes, rng, strict=True)
    ]
    rows, held = _parts(corpus, training)
    seen: list[tuple[Batches, Batches]] = [([], []) for _ in modules]
    together = [number for number, module in enumerate(modules) if not module.is_siamese]
    for done, (prompt, part, states, goals) in enumerate(
        _read_together([modules[n] for n in together], (rows, held), corpus, backbone, training)
    ):
        for number in together:
            if modules[number].reader.order.prompt == prompt:
                seen[number][part].append(_input(modules[number], states, goals))
        says = f"Reading {len(corpus):,} texts of {corpus.name} with {backbone.id}"
        share = min(1.0, (done + 1) * training.batch_size / len(corpus))
        yield Progress(says=says, share=share / 2)
    for number, part, given in _read_apart((rows, held), corpus, backbone, modules):
        seen[number][part].append(given)
    for number, module in enumerate(modules):
        learned, unseen = seen[number]
        for share in _fit(module, learned, rng[number], training, corpus.problem):
            says = f"Training {module.reader.order.recipe}"
            yield Progress(says=says, share=0.5 + (number + share) / len(modules) / 2)
        yield Trained(head=_scored(module, unseen, len(rows), corpus, backbone.id, training))


def _new(
    recipe: Recipe | str, corpus: Corpus, backbone: Backbone, rng: IsolatedRng, limits: Limits
) -> RecipeModule:
    """A recipe, untrained, that suits the labels."""
    with rng.rolling():
        module = assemble(
            recipe, backbone, len(corpus.classes), problem=corpus.problem, limits=limits
        )
    check_pairs(module.reader.order, corpus.pairs)
    check_order(module.reader.order, corpus)
    return module


def _parts(corpus: Corpus, training: TrainingConfig) -> tuple[list[int], list[int]]:
    """The rows that are learned from, and those held out."""
    rows, held = split(corpus, training.held_out, training.seed)
    if not rows or not held:
        what = f"{corpus.name} has {len(corpus)} rows, too few to hold some out of training."
        raise DataError(what, "Add rows.")
    return rows, held


def _scored(
    module: RecipeModule,
    unseen: Batches,
    rows: int,
    corpus: Corpus,
    model: str,
    training: TrainingConfig,
) -> TrainedHead:
    module.eval().requires_grad_(False)
    logits = torch.cat([_logits(module, given) for given, _ in unseen])
    goals = torch.cat([goal for _, goal in unseen])
    head = TrainedHead(
        recipe=module.reader.order.recipe,
        model=model,
        classes=corpus.classes,
        problem=corpus.problem,
        trained_on=corpus.name,
        rows=rows,
        scores=None,
        training=training,
        module=module,
        paired=bool(corpus.pairs),
    )
    if not head.problem.has_classes:
        return replace(head, scores=fit_of_numbers(logits[:, 0], goals[:, 0]))
    return replace(head, scores=score(logits, goals, head.problem))


def _read_together(
    modules: Sequence[RecipeModule],
    parts: Sequence[list[int]],
    corpus: Corpus,
    backbone: Backbone,
    training: TrainingConfig,
) -> Iterator[tuple[str, int, States, Tensor]]:
    """What modules read of whole rows, once with every prompt that one of them has behind texts."""
    for prompt in dict.fromkeys(module.reader.order.prompt for module in modules):
        for given in _read(parts, corpus, backbone.prompted(prompt), training):
            yield (prompt, *given)


def _read(
    parts: Sequence[list[int]], corpus: Corpus, backbone: Backbone, training: TrainingConfig
) -> Iterator[tuple[int, States, Tensor]]:
    """The number of the part, states and targets, in batches of like length."""
    for number, rows in enumerate(parts):
        pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
        encoded = backbone.encode([corpus.texts[row] for row in rows], pairs)
        goals = targets_of(corpus, rows)
        for places, states in backbone.passes(encoded, training.batch_size):
            yield number, states, goals[places]


@torch.no_grad()
def _read_apart(
    parts: Sequence[list[int]], corpus: Corpus, backbone: Backbone, modules: Sequence[RecipeModule]
) -> Iterator[tuple[int, int, tuple[Tensor, Tensor]]]:
    """For siamese modules: the module's number, the part's, and what its head gets of the rows."""
    siamese = {n: module for n, module in enumerate(modules) if module.is_siamese}
    for part, rows in enumerate(parts if siamese else ()):
        sides: list[dict[int, Tensor]] = []
        for texts in (corpus.texts, corpus.pairs):
            own = {n: torch.empty(len(rows), m.reader.width) for n, m in siamese.items()}
            encoded = backbone.encode([texts[row] for row in rows])
            for places, states in backbone.passes(encoded):
                for number, module in siamese.items():
                    own[number][places] = module.reader(states).vectors
            sides.append(own)
        for number, module in siamese.items():
            given = module.reader.order.joined(sides[0][number], sides[1][number])
            yield number, part, (given, targets_of(corpus, rows))


@torch.no_grad()
def _input(module: RecipeModule, states: States, goals: Tensor) -> tuple[Tensor | States, Tensor]:
    """Pooled vectors where the reading is fixed, else the states to learn it from."""
    order = module.reader.order
    if not order.needs_states:
        return module.reader(states).vectors, goals
    if order.layers is None:  # only one layer is read: let go of the others
        states = replace(states, hidden=(states.layer(order.layer),) * len(states.hidden))
    return states, goals


def _logits(module: RecipeModule, given: Tensor | States) -> Tensor:
    return module(given) if isinstance(given, States) else module.head(given)


def _fit(
    module: RecipeModule,
    batches: Batches,
    rng: IsolatedRng,
    training: TrainingConfig,
    problem: ProblemType,
) -> Iterator[float]:
    """Trains a classifier in place; yields the share that is done, once an epoch."""
    if problem.has_classes:
        yield from _fit_goals(module, batches, rng, training, problem)
        return
    last = last_linear(module.head)
    bias = f"{last}.bias" in module.head.state_dict()
    span = TargetScaler.of(torch.cat([goal for _, goal in batches])[:, 0], centred=bias)
    narrow: Batches = [(given, span.narrowed(goal)) for given, goal in batches]
    yield from _fit_goals(module, narrow, rng, training, problem)
    module.head.load_state_dict(span.put_back(module.head.state_dict(), last))


def _fit_goals(
    module: RecipeModule,
    batches: Batches,
    rng: IsolatedRng,
    training: TrainingConfig,
    problem: ProblemType,
) -> Iterator[float]:
    """The same for goals as they are."""
    order = module.reader.order
    batches = [(given, order.target_matrix(goal)) for given, goal in batches]
    if all(isinstance(given, Tensor) for given, _ in batches):
        vectors = torch.cat([given for given, _ in batches if isinstance(given, Tensor)])
        goals = torch.cat([goal for _, goal in batches])
        if order.head.solve:
            _solve(module, vectors, goals, problem)
            return
        standard = Standardisation.of(vectors) if order.standardise else None
        batches = [(standard.seen(vectors) if standard else vectors, goals)]
        if standard and module.pretrained:
            standard.unfold(module.head)
    else:
        standard = None
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    total = sum(len(goal) for _, goal in batches) * training.epochs
    done = 0
    for _ in range(training.epochs):
        with rng.rolling():
            for given, goal in _shuffled(batches, training.batch_size):
                optimizer.param_groups[0]["lr"] = training.learning_rate * (1 - done / total)
                optimizer.zero_grad()
                _loss(_logits(module.train(), given), goal, problem, order).backward()
                optimizer.step()
                done += len(goal)
        yield done / total
    if standard:
        standard.fold(module.head)


def _solve(module: RecipeModule, vectors: Tensor, goals: Tensor, problem: ProblemType) -> None:
    """Hands the solver the rows and those of the head's options that it knows."""
    top = module.reader.order.head
    assert top.solve is not None
    known = inspect.signature(top.solve).parameters
    options = {n: v for n, v in module.reader.order.head_options.items() if n in known}
    many = problem is MULTI_LABEL or module.reader.order.loss == OVR
    goals = goals if problem.has_classes else (goals + 1) / 2  # a solver's 0 and 1 are −1 and +1
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


def _loss(logits: Tensor, goals: Tensor, problem: ProblemType, order: ResolvedRecipe) -> Tensor:
    """Cross-entropy, or one binary one a class; averaged over samples (s, n, c) if there are."""
    goals = goals.expand_as(logits)
    if not problem.has_classes:
        return squared(logits, goals).mean()
    if order.loss in (OVR, HINGE):
        return losses[order.loss](logits, goals).mean()
    if problem is MULTI_LABEL:
        return binary_cross_entropy_with_logits(logits, goals)
    seen = logits - order.margin * goals if order.margin else logits
    return cross_entropy(seen.flatten(0, -2), goals.flatten(0, -2))
