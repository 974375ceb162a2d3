"""What a recipe is made of: its layers, shapes, counts, formula, origin and what it reads.

Nothing is trained for it: a head is sketched on the meta device, without memory. What is learned
of the base model is told from one forward pass.
Legend: t tokens, d width of a state, w width of the pooled vector, c classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.loading import loading
from heads.backbone.models import BUNDLED
from heads.catalog.base_models import base_of
from heads.catalog.catalog import equals
from heads.catalog.families import FAMILIES
from heads.classifier.inputs import TextStates
from heads.classifier.module import TrainedHead, begun_with, is_familys, native_of
from heads.classifier.native_head import NativeHead, native_head, sources, stored_shapes
from heads.classifier.pretrained import is_own
from heads.data.corpus import check_text
from heads.data.dataset import corpus_of
from heads.data.samples import TEXT, sample_for
from heads.errors import DataError, did_you_mean
from heads.events import Progress
from heads.features.featurizer import Featurizer
from heads.inference.selection import HeadRequest, select_heads
from heads.interpret.differences import equivalent_heads
from heads.parts.modules import Neighbours, formula, last_linear, leaves, size_after, words
from heads.parts.resolve import loss, pairing, resolve
from heads.parts.resolved_recipe import NORMALISE, SOFTMAX, ResolvedRecipe
from heads.recipe import Recipe
from heads.rng import IsolatedRng
from heads.training.finetuning.plan import TuningPlan, plan_of

if TYPE_CHECKING:
    from pandas import DataFrame

PARTS = ("layers", "tensors")

# --- Where each tensor of a recipe comes from: the checkpoint, and which tensor of it, or nowhere.

Origin = Literal["pretrained", "tuned", "untrained", "random", "new", "mismatched", "stored"]
ORIGINS: dict[Origin, str] = {
    "pretrained": "pretrained: in the checkpoint",
    "tuned": "pretrained: in the checkpoint, then fine-tuned with the head",
    "untrained": "in the checkpoint, but still at its initial values",
    "random": "random: not in the checkpoint",
    "new": "new: not in the checkpoint, learned in training",
    "mismatched": "new: the checkpoint's has another shape",
    "stored": "a copy of the training texts' vectors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFact:
    """One tensor.

    Attributes:
        name: Its name in the Transformers checkpoint.
        shape: Its lengths; `rows` where they depend on the data.
        origin: Where its numbers come from, a key of `ORIGINS`.
        source: The tensor of the checkpoint's files that it comes from, if it does.
    """

    name: str
    shape: tuple[str | int, ...]
    origin: Origin
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What is known of the tensors of a recipe on a base model.

    Attributes:
        begun: The tensors of the head that training starts from, as the base model has them.
        native: The head of the checkpoint's own class, where this is it.
        stored: The shapes that the checkpoint has of this head's tensors, under our names.
        is_own: Whether the head is the checkpoint's own one, not one trained here.
        plan: What is learned of the base model; None where it is frozen.
    """

    resolved: ResolvedRecipe
    backbone: Backbone
    begun: dict[str, Tensor]
    native: NativeHead | None
    stored: Mapping[str, tuple[int, ...]]
    is_own: bool
    plan: TuningPlan | None = None

    def of_base(self) -> Iterator[TensorFact]:
        """The tensors of the base model that are learned with the head; all others are frozen.

        Of an adapter those that it is added to.
        """
        if self.plan is None:
            return
        # A pooler that is random has nothing to go on from.
        blank = () if self.backbone.pooler == "pretrained" else ("pooler.",)
        own = {name: self.backbone.model.get_parameter(name).detach() for name in self.plan.depths}
        found = _sources(self.backbone, own)
        for name, tensor in own.items():
            yield TensorFact(
                name=name,
                shape=tuple(tensor.shape),
                origin="tuned" if name in found and not name.startswith(blank) else "new",
                source=found.get(name, ""),
            )

    def of_layer(self, name: str, layer: nn.Module) -> Iterator[TensorFact]:
        """The facts of one layer of the head."""
        for key, tensor in layer.state_dict().items():
            ours = f"{name}.{key}".strip(".")
            origin, source = self._origin(ours, tensor, layer)
            shape = tuple(tensor.shape)
            yield TensorFact(
                name=self._called(ours),
                shape=("rows", *shape[1:]) if isinstance(layer, Neighbours) else shape,
                origin=origin,
                source=source,
            )

    def of_pooler(self) -> Iterator[TensorFact]:
        """The base model's own pooler: frozen, unless the base model is learned as well.

        It is random where the base model came without. What is learned of it stands there.
        """
        learned = self.plan.depths if self.plan else ()
        own = {
            name: tensor
            for name, tensor in self.backbone.model.named_parameters()
            if name.startswith("pooler.") and name not in learned
        }
        new = self.backbone.pooler == "new"
        found = {} if new else _sources(self.backbone, own)
        for name, tensor in own.items():
            origin: Origin = "random" if new else self._in_checkpoint()
            source = found.get(name, "")
            yield TensorFact(name=name, shape=tuple(tensor.shape), origin=origin, source=source)

    def _origin(self, ours: str, tensor: Tensor, layer: nn.Module) -> tuple[Origin, str]:
        if isinstance(layer, Neighbours):
            return "stored", ""
        source = self.native.sources.get(ours, "") if self.native else ""
        from_base = bool(self.resolved.head.from_base) and ours.startswith(
            self.resolved.head.from_base
        )
        kept: Origin = self._in_checkpoint() if from_base else "pretrained"
        if self.is_own and self.native and ours in self.native.new:
            return ("mismatched" if ours in self.native.mismatched else "random"), ""
        if self.is_own:
            return kept, source
        if ours in self.begun:
            return kept, source or _sources(self.backbone, self.begun).get(ours, "")
        there = self.stored.get(ours, tuple(tensor.shape))
        return ("new" if there == tuple(tensor.shape) else "mismatched"), ""

    def _called(self, ours: str) -> str:
        if self.is_own and self.native:
            return self.native.names[ours]
        return f"{self.resolved.head.prefix}{ours}"

    def _in_checkpoint(self) -> Origin:
        return "pretrained" if self.backbone.pooler == "pretrained" else "untrained"


def provenance(
    resolved: ResolvedRecipe, backbone: Backbone, chain: nn.Sequential, head: TrainedHead | None
) -> Provenance:
    """What is known of a recipe's tensors; see `Provenance`.

    Args:
        chain: The head, on whatever device.
        head: The trained head, if there is one; it may be the checkpoint's own.
    """
    is_own = head is not None and head.is_own
    return Provenance(
        resolved=resolved,
        backbone=backbone,
        begun=begun_with(resolved, backbone, chain),
        native=native_head(backbone) if is_own else native_of(resolved, backbone),
        stored=_stored(resolved, backbone, chain) if not is_own else {},
        is_own=is_own,
        plan=plan_of(resolved, backbone) if resolved.is_tuned else None,
    )


def _sources(backbone: Backbone, tensors: dict[str, Tensor]) -> dict[str, str]:
    return dict(sources(backbone.folder, tensors)) if backbone.folder else {}


def _stored(
    resolved: ResolvedRecipe, backbone: Backbone, chain: nn.Sequential
) -> Mapping[str, tuple[int, ...]]:
    """What the checkpoint's files hold of the head of its own class, if this is that one."""
    if backbone.folder is None or not is_familys(resolved, backbone):
        return {}
    form, base = FAMILIES[backbone.model_type], backbone.model.base_model_prefix
    named = {ours: form.name_of(ours, resolved.head.prefix, base) for ours in chain.state_dict()}
    shapes = stored_shapes(backbone.folder)
    return {ours: shapes[name] for ours, name in named.items() if name in shapes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationStep:
    """One station on the way from tokens to logits.

    Attributes:
        kind: Which stretch of the way it belongs to.
        name: The layer's name, as in the checkpoint.
        shape: What leaves it, for one text; t is the number of tokens.
        parameters: How many numbers it holds.
    """

    kind: Literal["text", "base", "reading", "head", "logits"]
    name: str
    does: str
    shape: tuple[str | int, ...]
    parameters: int = 0
    tensors: tuple[TensorFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(display.Displayed):
    """A recipe on a base model, taken apart.

    Attributes:
        says: One sentence each for the pooling, the layers and the head.
        formula: From states to the pooled vector, and from there to the logits.
        parameters: How many numbers are learned, the base model's not among them.
        base_parameters: How many are learned of the base model, or added to it; 0 where it is
            frozen.
        reads: Each token of the text with the share of the pooled vector that it gave.
        equals: The class of Transformers that the recipe equals, and its file and line.
        twins: Heads that are the same layers under other names.
    """

    recipe: Recipe
    model: str
    classes: int
    says: tuple[str, ...]
    formula: tuple[str, ...]
    sources: tuple[str, ...]
    steps: tuple[ExplanationStep, ...]
    parameters: int
    base_parameters: int
    reads: tuple[tuple[str, float], ...]
    equals: str
    twins: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_to_be_trained(self) -> bool:
        """Whether its head is one to be trained here, not the checkpoint's own."""
        origins = {
            fact.origin for step in self.steps if step.kind == "head" for fact in step.tensors
        }
        return bool(origins & {"new", "mismatched", "stored"})

    def to_pandas(self, of: Literal["layers", "tensors"] = "layers") -> "DataFrame":
        """A row a layer, from tokens to logits; or a row a tensor, and where it comes from.

        Raises:
            DataError: Something else is asked for.
        """
        if of not in PARTS:
            raise DataError(f"An explanation has no '{of}'.", did_you_mean(str(of), PARTS))
        if of == "layers":
            return display.data_frame(
                {name: getattr(step, name) for name in ("kind", "name", "does", "shape")}
                | {"parameters": step.parameters}
                for step in self.steps
            )
        return display.data_frame(
            {"layer": step.name, "tensor": one.name, "shape": one.shape, "origin": one.origin}
            | {"source": one.source}
            for step in self.steps
            for one in step.tensors
        )

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain values: the answer of `heads explain --json`."""
        return asdict(self) | {"recipe": str(self.recipe)}


def iter_explanation(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
) -> Iterator[Progress | Explanation]:
    """Explain a recipe as `heads.explain` does: yield progress, then the explanation."""
    pair, model, sample = pair or "", model or BUNDLED, sample or ""
    resolved = None if is_own(recipe) else resolve(recipe)
    data = sample_for(sample, pair)
    text = check_text(text)
    pair = check_text(pair, "second sentence") if data.pair else ""
    head = None
    if resolved is None or resolved.learns_to_read:
        request = HeadRequest(recipes=[recipe], pair=pair, model=model, sample=sample)
        (classifier,) = (yield from select_heads(request)).classifiers
        head, backbone = classifier.head, classifier.backbone.untuned
        resolved = head.asked
    else:
        backbone = yield from loading(model)
    yield explain(
        resolved,
        backbone,
        classes=len(head.classes if head else corpus_of(data).classes),
        text=text,
        pair=pair,
        head=head,
    )


def explain(
    resolved: ResolvedRecipe,
    backbone: Backbone,
    *,
    classes: int,
    text: str = "",
    pair: str = "",
    head: TrainedHead | None = None,
) -> Explanation:
    """Takes a recipe apart on a base model; see `heads.explain`.

    Args:
        text: A checked text, to show which tokens are read.
        head: The trained head; a learned pooling reads evenly before it is trained.
    """
    reads_by, backbone = head.backbone_for(backbone) if head else backbone, backbone.untuned
    with IsolatedRng().rolling():
        reader = head.module.reader if head else Featurizer(resolved, backbone)
    chain = resolved.sketch(resolved.widened(reader.width), classes)
    joins = pairing[resolved.pair] if resolved.pair else None
    learned = loss[resolved.loss] if resolved.loss != SOFTMAX else None
    tunes = resolved.tuning if resolved.is_tuned else None
    parts = [
        part
        for part in (resolved.pooling, resolved.layers, joins, resolved.head, learned, tunes)
        if part
    ]
    facts = provenance(resolved, backbone, chain, head)
    layers = leaves(chain) if facts.is_own else resolved.applied_layers(chain)
    steps = (*_base_steps(facts), *_steps(facts, reader, layers))
    return Explanation(
        recipe=resolved.recipe,
        model=backbone.id,
        classes=classes,
        says=head.says if facts.is_own and head else resolved.says,
        formula=tuple(_formulas(resolved, layers)),
        sources=tuple(f"{part.name}: {part.source}" for part in parts),
        steps=steps,
        parameters=sum(step.parameters for step in steps if step.kind != "base"),
        base_parameters=facts.plan.parameters if facts.plan else 0,
        reads=_reads(reads_by, reader, text, pair) if text else (),
        equals=equals(resolved.recipe, backbone.model_type),
        twins=tuple(equivalent_heads(resolved, backbone)),
        notes=tuple(_notes(facts, head)),
    )


def _formulas(resolved: ResolvedRecipe, layers: Sequence[tuple[str, nn.Module]]) -> Iterator[str]:
    """A line each for the layers, the pooling, two texts put together, the head and its loss."""
    for part in filter(None, (resolved.layers, resolved.pooling)):
        yield part.told(part.formula, resolved.pooling_options)
    if resolved.normalise:
        yield "h ← h / ‖h‖"
    if resolved.pair:
        yield f"h = {pairing[resolved.pair].formula}, where u and v are the h of the two texts"
    yield f"logits = {formula(layer for _, layer in layers)}"
    if resolved.loss != SOFTMAX:
        yield f"loss = {loss[resolved.loss].formula}"
    if resolved.is_tuned and resolved.tuning.formula:
        yield resolved.tuning.told(resolved.tuning.formula, resolved.tuning_options)


def _base_steps(facts: Provenance) -> Iterator[ExplanationStep]:
    backbone = facts.backbone
    yield ExplanationStep(kind="text", name="tokens", does="the text in pieces", shape=("t",))
    yield ExplanationStep(
        kind="base",
        name=backbone.id,
        does=f"{backbone.model_type}, {backbone.layers} layers, {_learned(facts)}",
        shape=("t", backbone.width),
        parameters=backbone.parameters,
        tensors=tuple(facts.of_base()),
    )


def _learned(facts: Provenance) -> str:
    """What is learned of the base model, and in which layers, in a few words."""
    if facts.plan is None:
        return "frozen"
    depths = sorted(set(facts.plan.depths.values()))
    layers = [depth for depth in depths if depth]
    places = ["the embeddings"] * (0 in depths)
    if layers:
        first, last = layers[0], layers[-1]
        places.append(f"layer {last}" if first == last else f"layers {first} to {last}")
    how_much = facts.resolved.learned_of_base(facts.plan.parameters, facts.backbone.parameters)
    return f"{how_much} are learned for the head, in {' and '.join(places)}"


def _steps(
    facts: Provenance, reader: Featurizer, layers: Sequence[tuple[str, nn.Module]]
) -> Iterator[ExplanationStep]:
    """Reading, then the head; or the head on every token first, whose logits are then read."""
    reading = list(_reading_steps(facts, reader))
    head = list(_head_steps(facts, layers, facts.resolved.widened(reader.width)))
    if not facts.resolved.late:
        yield from (*reading, *head)
    else:
        yield from (*reading[:-1], *head, replace(reading[-1], shape=head[-1].shape[1:]))
    yield ExplanationStep(
        kind="logits", name="logits", does="one number a class", shape=head[-1].shape[-1:]
    )


def _reading_steps(facts: Provenance, reader: Featurizer) -> Iterator[ExplanationStep]:
    resolved = facts.resolved
    if resolved.recipe.layers:
        does = resolved.layers.says if resolved.layers else f"The states of layer {resolved.layer}."
        yield _reading_step(
            f"@{resolved.recipe.layers}", does, ("t", reader.state_width), reader.layers
        )
    does = resolved.says[0]
    step = _reading_step(resolved.pooling.name, does, (reader.width,), reader.pooling)
    asks_pooler = resolved.pooling.is_pooler
    yield replace(step, tensors=tuple(facts.of_pooler())) if asks_pooler else step
    if resolved.normalise:
        yield _reading_step(NORMALISE, "scaling to length 1", (reader.width,), None)
    if resolved.pair:
        does = f"Each text is read by itself. {pairing[resolved.pair].says}"
        yield _reading_step(resolved.pair, does, (resolved.widened(reader.width),), None)


def _reading_step(
    name: str, does: str, shape: tuple[str | int, ...], made: object
) -> ExplanationStep:
    tensors: dict[str, Tensor] = made.state_dict() if isinstance(made, nn.Module) else {}
    facts = [TensorFact(name=n, shape=tuple(t.shape), origin="new") for n, t in tensors.items()]
    return ExplanationStep(
        kind="reading",
        name=name,
        does=does,
        shape=shape,
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        tensors=tuple(facts),
    )


def _head_steps(
    facts: Provenance, layers: Sequence[tuple[str, nn.Module]], size: int
) -> Iterator[ExplanationStep]:
    prefix, last = facts.resolved.head.prefix, last_linear(layers)
    for name, layer in layers:
        size = size_after(layer, size)
        yield ExplanationStep(
            kind="head",
            name=f"{prefix}{name}" or facts.resolved.head.name,
            does=words(layer, is_last=name == last),
            shape=("t", size) if facts.resolved.late else (size,),
            parameters=sum(tensor.numel() for tensor in layer.parameters()),
            tensors=tuple(facts.of_layer(name, layer)),
        )


@torch.no_grad()
def _reads(
    backbone: Backbone, reader: Featurizer, text: str, pair: str
) -> tuple[tuple[str, float], ...]:
    backbone, pairs = backbone.for_recipe(reader.resolved), [pair] if pair else []
    sides = [([text], pairs)]
    if reader.resolved.pair and pair:
        sides = [([text], []), (pairs, [])]
    found: list[tuple[str, float]] = []
    for side in sides:
        states = TextStates.encode(backbone, *side, layers=reader.depths)
        shares = reader.shares(states.first)[0]
        found += zip(states.words(backbone), shares.tolist(), strict=True)
    return tuple(found)


def _notes(facts: Provenance, head: TrainedHead | None) -> Iterator[str]:
    resolved, backbone = facts.resolved, facts.backbone
    if resolved.head.from_base:
        yield from _pooler_notes(facts)
    elif resolved.pooling.is_pooler:
        yield pooler_says(backbone)
    elif facts.begun:
        yield f"Its dense layer is pretrained: it is in the checkpoint of {backbone.id}."
    if head and head.new:
        yield f"This head is random: {backbone.id} lacks {len(head.new)} of its tensors."
    if why := base_of(backbone.model_type).why:
        yield why
    yield from _reading_notes(resolved, backbone, is_trained=head is not None)


def _reading_notes(
    resolved: ResolvedRecipe, backbone: Backbone, *, is_trained: bool
) -> Iterator[str]:
    if resolved.pair:
        yield "No class of Transformers reads two texts apart; sentence-transformers trains such."
    if backbone.trained is not None:
        yield f"{backbone.id} was trained with its own pooling: {backbone.trained.says}."
    if own := backbone.for_recipe(resolved).prefix:
        yield f"Before every text stands '{own}'."
    if resolved.learns_to_read and not is_trained:
        yield "This is the reading before training, when all count nearly the same."
    if resolved.is_tuned and not is_trained:
        yield "What is read is shown with the base model as it is before it learns."


def _pooler_notes(facts: Provenance) -> Iterator[str]:
    resolved, backbone = facts.resolved, facts.backbone
    if facts.begun:
        yield f"{pooler_says(backbone)} Training starts from them."
        if str(resolved.recipe).partition("+")[0] != "cls":
            yield "A pooler belongs on the last layer's first token; here it reads something else."
    else:
        has = bool(backbone.pooler_weights)
        why = "the pooled vector has another width" if has else "the checkpoint has none"
        yield f"The {resolved.head.from_base} layer of '{resolved.head.name}' is new here: {why}."


def pooler_says(backbone: Backbone) -> str:
    """Say whether the base model's own pooler is pretrained."""
    return {
        "pretrained": f"The pooler's weights are pretrained: in the checkpoint of {backbone.id}.",
        "untrained": f"The pooler of {backbone.id} was never trained: its weights are in the "
        "checkpoint, but still at their initial values (every bias is 0).",
    }.get(
        backbone.pooler,
        f"The checkpoint of {backbone.id} has no pooler: its weights are random.",
    )
