"""A recipe on a base model: what it reads and its head, as one module; and trained, with scores.

Legend: n texts, w width of the pooled vector, c classes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf
from typing import Any

from torch import Tensor, nn

from heads.backbone.backbone import Backbone
from heads.backbone.states import States
from heads.backbone.tuned import TunedBase
from heads.catalog.families import FAMILIES
from heads.classifier.native_head import NativeHead, native_head
from heads.errors import HeadsError, LimitError, RecipeError
from heads.evaluation.statistics import Scores
from heads.features.featurizer import Featurizer
from heads.parts.modules import last_linear, leaves
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import SOFTMAX, ResolvedRecipe
from heads.problem import ProblemType, problem_of
from heads.recipe import Recipe, Value
from heads.rng import IsolatedRng
from heads.settings import ExperimentConfig, current_limits


class RecipeModule(nn.Module):
    """Token states to logits (n, c). Both halves keep their own names: `reader`, `head`.

    A siamese one is given the states of two texts, each read by itself.

    Attributes:
        width: W of what the head gets: w, or of a siamese pair k w.
        pretrained: The tensors of the head that the base model brought along.
    """

    def __init__(
        self,
        resolved: ResolvedRecipe,
        backbone: Backbone,
        classes: int,
        reader: Featurizer | None = None,
    ) -> None:
        super().__init__()
        self.reader = reader or Featurizer(resolved, backbone)
        if resolved.late and not self.reader.weighs:
            what = f"{resolved.pooling.name} does not weigh tokens, so it cannot pool their logits."
            raise RecipeError(what, "Take late=true away, or pool with mean, cls or last.")
        self.width = resolved.widened(self.reader.width)
        self.head, self.pretrained = new_head(resolved, backbone, self.width, classes)

    @property
    def is_siamese(self) -> bool:
        """Whether two texts are read each by itself."""
        return bool(self.reader.resolved.pair)

    def forward(self, states: States, second: States | None = None) -> Tensor:
        if not self.reader.resolved.late:
            # A copy, for vectors may be part of the states, and a head may work in place.
            return self.head(self.vectors(states, second).clone())
        read = self.reader(states)
        tokens = self.reader.chosen(states)  # (n, t, w), which a head takes row by row
        logits = self.head(tokens.flatten(0, 1).clone()).unflatten(-2, tokens.shape[:2])
        return (read.reads[:, None] @ logits).squeeze(-2)

    def vectors(self, states: States, second: States | None = None) -> Tensor:
        """Return what the head gets, (n, W), given the states of texts, or of both of a pair."""
        own = self.reader(states).vectors
        if not self.is_siamese:
            return own
        assert second is not None
        return self.reader.resolved.joined(own, self.reader(second).vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refit:
    """How a head was trained again from all rows, after its recipe had been scored on part of them.

    Attributes:
        rows: How many rows the heads had learned from that were scored.
        seconds: How long the training on all rows took.
    """

    rows: int
    trainings: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedHead:
    """A classifier with what it was trained on and how well it did.

    Attributes:
        recipe: The recipe in its canonical form, with the options that its search chose.
        model: The id of the base model.
        classes: The names of the classes, in the order of the logits.
        problem: What it was trained for: by it logits become probabilities and answers.
        trained_on: The name of the data; of a checkpoint's own head, the checkpoint's.
        rows: How many rows it was trained on; 0 where nobody here knows.
        scores: Its scores on the rows held out, or None where nobody here knows.
        training: The settings that it was trained under, or None where nobody here knows.
        module: The trained module, in evaluation mode.
        new: The tensors of a checkpoint's own head that the checkpoint lacks: they are random.
        chosen: The settings that a grid chose for it; empty where none were searched.
        temperature: What its logits are still to be divided by so that its confidence fits its
            accuracy, found on development rows; 1 once that is folded into its last layer.
        raw: The head as it was trained, where its temperature is folded in; else None.
        thresholds: For each class the logit from which it is answered, where several may apply;
            0 where there are none.
        paired: Whether it learned from two texts a row, and so needs two.
        fingerprint: Of the data; empty where nobody here knows.
        trained_as: The recipe that was asked for, before its search chose options of the head;
            None where that is not known.
        base: What the base model has learned with it; None where it is frozen. Whoever asks the
            head lets the base model read with that (`backbone_for`).
        base_parameters: How many numbers of the base model were learned with it, also where they
            lie in the base model itself, as in an exported folder; 0 where it is frozen.
        refit: How it was trained again from all rows; None where it is the head that was scored.
    """

    recipe: Recipe
    model: str
    classes: tuple[str, ...]
    problem: ProblemType
    trained_on: str
    module: RecipeModule
    rows: int = 0
    scores: Scores | None = None
    training: Mapping[str, Value] | None = None
    new: tuple[str, ...] = ()
    chosen: Mapping[str, Value] = field(default_factory=dict)
    temperature: float = 1.0
    thresholds: tuple[float, ...] = ()
    paired: bool = False
    fingerprint: str = ""
    trained_as: ResolvedRecipe | None = None
    base: TunedBase | None = None
    base_parameters: int = 0
    raw: "TrainedHead | None" = None
    refit: Refit | None = None

    def backbone_for(self, backbone: Backbone) -> Backbone:
        """Return the frozen base model, or a copy with what it has learned with this head."""
        return backbone.untuned if self.base is None else self.base.onto(backbone)

    def __post_init__(self) -> None:
        answered = self.problem.learned_by(self.module.reader.resolved.loss)
        object.__setattr__(self, "problem", answered)
        if self.base is not None:
            object.__setattr__(self, "base_parameters", self.base.parameters)

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of it beside its tensors and its base model, as plain values."""
        return {
            "recipe": str(self.recipe),
            "classes": self.classes,
            "problem_type": self.problem.name,
            "trained_on": self.trained_on,
            "rows": self.rows,
            "scores": asdict(self.scores) if self.scores else None,
            "training": None if self.training is None else dict(self.training),
            "fingerprint": self.fingerprint,
            "trained_as": str(self.asked),
            "chosen": dict(self.chosen),
            "temperature": self.temperature,
            "thresholds": self.thresholds,
            "paired": self.paired,
            "base_parameters": self.base_parameters,
            "refit": asdict(self.refit) if self.refit else None,
        }

    @property
    def needs_pairs(self) -> bool:
        """Whether it can be asked about two texts only."""
        return self.paired or self.module.is_siamese

    @property
    def is_own(self) -> bool:
        """Whether it is the head that the checkpoint itself came with."""
        return self.training is None

    @property
    def layers(self) -> list[tuple[str, nn.Module]]:
        """Its layers by name, less a dropout that its training never applied."""
        resolved, chain = self.module.reader.resolved, self.module.head
        return leaves(chain) if self.is_own else resolved.applied_layers(chain)

    @property
    def says(self) -> tuple[str, ...]:
        """A sentence each for what it reads, its head, and how that was fitted, if it was here."""
        resolved = self.module.reader.resolved
        return tuple(one for one in resolved.says if not self.is_own or one != resolved.fit_says)

    @property
    def asked(self) -> ResolvedRecipe:
        """The recipe that was asked for, before its search chose options of the head."""
        return self.trained_as or self.module.reader.resolved

    @property
    def name(self) -> str:
        """What it is called beside others."""
        return f"own ({self.recipe})" if self.is_own else str(self.asked)

    @property
    def config(self) -> ExperimentConfig | None:
        """The settings that it was trained under; None where an earlier version trained it."""
        names = {one.name for one in fields(ExperimentConfig)}
        known = {name: value for name, value in (self.training or {}).items() if name in names}
        try:
            return ExperimentConfig(**known) if "folds" in known else None  # type: ignore[arg-type]
        except (HeadsError, TypeError, ValueError):  # a file that somebody has changed
            return None

    @property
    def parameters(self) -> int:
        """How many numbers of its own were learned or solved for, the pooling's included."""
        return sum(tensor.numel() for tensor in self.module.parameters())


def new_head(
    resolved: ResolvedRecipe, backbone: Backbone, width: int, classes: int
) -> tuple[nn.Sequential, tuple[str, ...]]:
    """An untrained head, and the names of its tensors that the base model brought along."""
    chain: nn.Sequential = resolved.chain(width, classes)
    begun = begun_with(resolved, backbone, chain)
    return _with_tensors(chain, begun), tuple(begun)


def drawn_head(
    resolved: ResolvedRecipe, begun: Mapping[str, Tensor], width: int, classes: int
) -> nn.Sequential:
    """The same where it is known what the base model brings along, without a base model."""
    return _with_tensors(resolved.chain(width, classes), begun)


def _with_tensors(chain: nn.Sequential, tensors: Mapping[str, Tensor]) -> nn.Sequential:
    own = chain.state_dict()
    for name, tensor in tensors.items():
        own[name].copy_(tensor)
    return chain


def begun_with(
    resolved: ResolvedRecipe, backbone: Backbone, chain: nn.Sequential
) -> dict[str, Tensor]:
    """The head's tensors that the base model's checkpoint has pretrained, of the same shape.

    They are a pooler's, or those of the family's own head where this is that head: ModernBERT's
    has its dense layer from the training on masked words. The last layer is always new.
    """
    layer = resolved.head.from_base
    last = last_linear(chain)
    if layer:
        offered: Mapping[str, Tensor] = backbone.pooler_weights
    else:
        native = native_of(resolved, backbone)
        offered = {name: native.tensors[name] for name in native.sources} if native else {}
    return {
        name: offered[name]
        for name, tensor in chain.state_dict().items()
        if name in offered
        and name.startswith(f"{layer}." if layer else "")
        and name.rpartition(".")[0] != last
        and offered[name].shape == tensor.shape
    }


def native_of(resolved: ResolvedRecipe, backbone: Backbone) -> NativeHead | None:
    """The family's own head, if this recipe's is that one and has more than its last layer.

    One that begins in the base model, as BERT's with the pooler, is known from there.
    """
    if resolved.head.from_base or len(resolved.sketch(8, 2).state_dict()) < 3:
        return None
    try:
        return native_head(backbone) if is_familys(resolved, backbone) else None
    except HeadsError:
        return None


def is_familys(resolved: ResolvedRecipe, backbone: Backbone) -> bool:
    """Whether a recipe's head is the one of the base model's own class."""
    if backbone.folder is None or backbone.model_type not in FAMILIES:
        return False
    try:
        recipe = FAMILIES[backbone.model_type].recipe_for(backbone.model.config)
    except HeadsError:
        return False
    return recipe.head.name == resolved.head.name


def assemble(
    resolved: ResolvedRecipe,
    backbone: Backbone,
    classes: int,
    *,
    problem: ProblemType,
) -> RecipeModule:
    """Build a recipe, untrained, after counting it without memory.

    Raises:
        RecipeError: The recipe does not fit the base model or the labels.
        LimitError: The head would be too large for this place.
    """
    limits = current_limits()
    if resolved.head.single_label and problem.has_label_sets:
        what = f"{resolved.head.name} gives one label a text, and these texts may have several."
        raise RecipeError(what, "Choose another head, for example linear or logistic.")
    only_classes = resolved.head.is_solved or resolved.head.single_label
    if not problem.has_classes and only_classes and not resolved.head.regression:
        what = f"{resolved.head.name} answers with classes, and these labels are numbers."
        raise RecipeError(what, "Choose another head, for example linear or mlp.")
    if not problem.is_exclusive and resolved.loss != SOFTMAX:
        several = "may be several and are learned one by one"
        why = several if problem.has_classes else "are numbers"
        what = f"{resolved.recipe}: loss={resolved.loss} has no meaning here, where the labels"
        raise RecipeError(f"{what} of a text {why}.", f"Take loss={resolved.loss} away.")
    reader = Featurizer(resolved, backbone)
    width = resolved.widened(reader.width)
    if width > limits.pooled_width:
        raise LimitError(
            f"{resolved.recipe} would read {width:,} numbers a text; "
            f"this place allows {limits.pooled_width:,}.",
            "Choose a smaller option or another pooling.",
        )
    size = sum(tensor.numel() for tensor in resolved.sketch(width, classes).parameters())
    if size > limits.head_parameters:
        raise LimitError(
            f"{resolved.recipe} would have {size:,} parameters on {width:,} numbers a text; "
            f"this place allows {limits.head_parameters:,}.",
            f"Choose a smaller head, for example {resolved.recipe.pooling}+linear.",
        )
    return RecipeModule(resolved, backbone, classes, reader)


def head_from_facts(
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    backbone: Backbone,
    base: TunedBase | None = None,
) -> TrainedHead:
    """Put a head that was saved with its `TrainedHead.facts` back onto its base model.

    Args:
        tensors: The state of its module.
        base: What its base model has learned with it, if that does not lie in `backbone`.

    Raises:
        ValueError: The facts are not those of a head, or a weight is no number. What lacks a name
            or has another shape raises as Python and torch do.
    """
    _check_facts(facts)
    numbers = (*tensors.values(), *(base.tensors.values() if base else ()))
    if not all(tensor.isfinite().all() for tensor in numbers):
        raise ValueError("a weight is no number")
    classes, problem = tuple(facts["classes"]), problem_of(facts)
    with IsolatedRng().rolling():
        module = assemble(resolve(facts["recipe"]), backbone, len(classes), problem=problem)
    module.load_state_dict(dict(tensors))
    scores, training, refit = (facts.get(name) for name in ("scores", "training", "refit"))
    return TrainedHead(
        recipe=module.reader.resolved.recipe,
        model=backbone.id,
        classes=classes,
        problem=problem,
        trained_on=str(facts["trained_on"]),
        rows=int(facts["rows"]),
        scores=Scores(**scores) if scores else None,
        training=dict(training) if training else None,
        fingerprint=str(facts.get("fingerprint", "")),
        trained_as=resolve(facts["trained_as"]) if facts.get("trained_as") else None,
        module=module.eval().requires_grad_(False),
        chosen=dict(facts.get("chosen") or {}),
        temperature=float(facts.get("temperature", 1.0)),
        thresholds=tuple(facts.get("thresholds", ())),
        paired=bool(facts.get("paired")),
        refit=Refit(**refit) if refit else None,
        base=base,
        base_parameters=int(facts.get("base_parameters", 0)),
    )


def _check_facts(facts: Mapping[str, Any]) -> None:
    """Raise ValueError for values that `TrainedHead.facts` never has."""
    classes, scores = facts["classes"], dict(facts["scores"] or {})
    settings = (facts["training"] or {}).values()
    if scores.get("own") is None:  # of one training, or written by an older version
        scores.pop("own", None)
    texts = (*classes, facts["recipe"], scores.pop("metric", ""))
    thresholds, temperature = facts.get("thresholds", ()), facts.get("temperature", 1.0)
    numbers = (*scores.values(), *thresholds, temperature, facts["rows"])
    if not (
        isinstance(classes, list)
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and all(isinstance(value, int | float | str) for value in settings)
        and len(set(classes)) == len(classes) > 0
    ):
        raise ValueError("not the facts of a head")
    if not (0 < temperature < inf and len(thresholds) in (0, len(classes)) and facts["rows"] >= 0):
        raise ValueError("no temperature or thresholds of these classes")
