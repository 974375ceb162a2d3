"""Recipes and trained heads as models of Transformers, and back; see `modeling_head_to_head.py`."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heads import registration
from heads.backbone.backbone import Backbone
from heads.backbone.exported import BACKBONE, CLASSIFIER, map_stored_names
from heads.backbone.states import layers_of
from heads.backbone.trained_reading import Dense, TrainedReading, UnitLength
from heads.backbone.weights import bare, has_both
from heads.catalog.base_models import base_of
from heads.classifier import modeling_head_to_head as modeling
from heads.classifier.config_extras import ConfigExtras, write_extras
from heads.classifier.modeling_head_to_head import HeadConfig
from heads.classifier.modeling_source import TEMPLATE, render_modeling_file
from heads.classifier.modeling_windows import average_windows, join_windows, split_windows
from heads.classifier.module import RecipeModule
from heads.classifier.native_head import ARCHITECTURE
from heads.errors import CheckpointError, RecipeError
from heads.parts.losses import near
from heads.parts.modules import left_out
from heads.parts.resolve import head, layers, loss, pairing, pooling
from heads.parts.resolved_recipe import LONG, ORDINAL, OVR, PAIR, SOFTMAX, WINDOWS, ResolvedRecipe
from heads.rng import IsolatedRng

TransformersProblem = Literal[
    "regression", "single_label_classification", "multi_label_classification"
]
HUB_OPTIONS = (
    *("repo_id", "commit_message", "commit_description", "private", "revision", "create_pr"),
    "tags",
)
AUTO_MAP = {
    "AutoConfig": f"{TEMPLATE.stem}.HeadConfig",
    "AutoModelForSequenceClassification": f"{TEMPLATE.stem}.{ARCHITECTURE}",
}


class HeadForSequenceClassification(modeling.HeadForSequenceClassification):
    """A base model with any pooling and any head, which saves its own source with its weights.

    So whoever loads the folder needs no installation of Head to Head.
    """

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Save configuration, weights and `modeling_head_to_head.py`, as Transformers does."""
        push = kwargs.pop("push_to_hub", False)
        source = render_source(self.config)  # before anything is written: it may be refused
        self.config.auto_map = dict(AUTO_MAP)
        hub = {name: kwargs.pop(name) for name in HUB_OPTIONS if name in kwargs}
        super().save_pretrained(save_directory, *args, **kwargs)
        folder = Path(save_directory)
        if args[0] if args else kwargs.get("is_main_process", True):
            (folder / TEMPLATE.name).write_text(source, "utf-8", newline="\n")
        if push:  # what Transformers would have pushed has no code yet
            repo = hub.pop("repo_id", folder.name)
            self.push_to_hub(repo, token=kwargs.get("token"), **hub)


def render_source(config: HeadConfig) -> str:
    """Return the modeling file of a configuration; raise RecipeError if a part has no source."""
    names = [config.pooling] if isinstance(config.pooling, str) else config.pooling
    combination = config.layers if isinstance(config.layers, str) else ""
    registries = {
        "TOOLS": _tools(config),
        "HEADS": {config.head: head[config.head].make},
        "LAYERS": {combination: layers[combination].make} if combination else {},
        "LOSSES": {config.loss: loss[config.loss].make} if config.loss != SOFTMAX else {},
        "PAIRINGS": {config.pair: pairing[config.pair].make} if config.pair else {},
        "POOLINGS": {name: pooling[name].make for name in names},
    }
    helpers = {"layers_of": layers_of} | ({"near": near} if config.loss == ORDINAL else {})
    return render_modeling_file(registries, helpers)


def _tools(config: HeadConfig) -> dict[str, Any]:
    """Return the functions that only some recipes need."""
    tools: dict[str, Any] = {"left_out": left_out} if config.without else {}
    if config.stride is not None:
        merge = average_windows if config.averages_windows else join_windows
        tools |= {"split_windows": split_windows, merge.__name__: merge}
    return tools


def build_config(module: RecipeModule, backbone: Backbone, num_labels: int) -> HeadConfig:
    """Return the configuration of a recipe, or raise RecipeError if no single pass computes it."""
    resolved = module.reader.resolved
    check_fits(resolved, backbone)
    reads_decoder = resolved.layers is not None and "decoder" in resolved.layers.asks
    encoder_only = _is_encoder_alone(backbone) or (has_both(backbone.model) and not reads_decoder)
    names, projection = resolved.pooling.name, []
    if resolved.pooling.is_trained:
        reading = backbone.trained
        assert reading is not None
        names, projection = reading.poolings, [*_projection_facts(reading)]
        names = names[0] if len(names) == 1 else names
    tokenizer, config = backbone.tokenizer, copy.deepcopy(backbone.model.config)
    config._name_or_path = ""  # a folder of this machine
    head_config = HeadConfig(
        backbone_config=config,
        backbone_class=base_of(backbone.model_type).built_as or "AutoModel",
        add_pooling_layer=_adds_pooler(backbone, resolved, encoder_only),
        encoder_only=encoder_only,
        recipe=str(resolved.recipe),
        layers=resolved.layers.name if resolved.layers else resolved.layer,
        pooling=names,
        pooling_options=dict(resolved.pooling_options),
        projection=projection,
        normalize=resolved.normalise,
        pair=resolved.pair or None,
        head=resolved.head.name,
        head_options=dict(resolved.head_options),
        without=resolved.without or None,
        late=resolved.late,
        loss=resolved.loss,
        margin=resolved.margin,
        hidden_size=backbone.width,
        num_hidden_layers=backbone.layers,
        pooled_width=module.reader.width,
        special_token_ids=find_special_token_ids(backbone),
        end_token_ids=sorted(backbone.ends),
        skipped_token_id=backbone.skipped,
        prefix=backbone.prefix,
        prefix_tokens=backbone.prefix_tokens,
        use_prefix=backbone.reads_prefix,
        marks_first=base_of(backbone.model_type).marks_first,
        shifts_decoder=backbone.shifted,
        most_tokens=backbone.tokens if resolved.pair or resolved.reads_windows else None,
        stride=resolved.stride,
        most_windows=backbone.windows if resolved.reads_windows else None,
        averages_windows=resolved.reads_windows and module.reader.by_window,
        buffer_shapes=_buffer_shapes(module, num_labels),
    )
    head_config.num_labels = num_labels
    head_config.pad_token_id = backbone.pad if tokenizer is None else tokenizer.pad_token_id
    return head_config


def check_fits(resolved: ResolvedRecipe, backbone: Backbone) -> None:
    """Raise RecipeError for a recipe that a model of Transformers cannot compute."""
    if backbone.is_given:
        what = f"{resolved.recipe} learned from vectors, and has no base model."
        raise RecipeError(what, "Export it as an ONNX file, which takes vectors: --onnx.")
    if resolved.reads_windows and (resolved.pair or resolved.prompt):
        what = "No model of Transformers writes a prompt or a second text into every window, as "
        raise RecipeError(f"{what}{resolved.recipe} does.", f"Train it without {LONG}={WINDOWS}.")
    needs_template = resolved.pair or resolved.prompt or backbone.prefix
    has_types = resolved.pair and any(backbone.tokenizer("a").get("token_type_ids", ()))
    if needs_template and (has_types or not backbone.tokenizer.is_fast):
        what = (
            f"The tokenizer of {backbone.id} cannot be told to write what {resolved.recipe} needs."
        )
        raise RecipeError(what, f"Train it without {PAIR}=, a prompt and a prefix.")


def find_special_token_ids(backbone: Backbone) -> list[int]:
    """Return the tokens that stand around texts, and those of a prompt but its [MASK]."""
    tokenizer = backbone.tokenizer
    ids: set[int] = set()
    for texts in (("a",), ("a", "b")):
        encoded = tokenizer(*texts, return_special_tokens_mask=True)
        pairs = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
        ids |= {number for number, is_special in pairs if is_special}
    return sorted(
        (ids | {*backbone.prompt}) - {tokenizer.mask_token_id} if backbone.prompt else ids
    )


def _is_encoder_alone(backbone: Backbone) -> bool:
    """Return True if the base model is the encoder of what AutoModel would build."""
    if base_of(backbone.model_type).built_as or has_both(backbone.model):
        return False
    with torch.device("meta"):
        return type(bare(copy.deepcopy(backbone.model.config))) is not type(backbone.model)


def _adds_pooler(backbone: Backbone, resolved: ResolvedRecipe, encoder_only: bool) -> bool | None:
    """Return whether the base model is built with its pooler; None where it has no choice."""
    arguments = inspect.signature(type(backbone.model).__init__).parameters
    if encoder_only or "add_pooling_layer" not in arguments:
        return None
    return resolved.pooling.is_pooler or bool(base_of(backbone.model_type).arguments)


def _projection_facts(reading: TrainedReading) -> Iterator[dict[str, Any]]:
    """Yield the layers behind that pooling as the configuration has them."""
    for step in reading.steps:
        if isinstance(step, UnitLength):
            yield {"type": "Normalize"}
        elif isinstance(step, nn.LayerNorm):
            size = list(step.normalized_shape)
            yield {"type": "LayerNorm", "normalized_shape": size, "eps": step.eps}
        elif isinstance(step, Dense) and step.residual is None:
            linear = step.linear
            sizes = {"in_features": linear.in_features, "out_features": linear.out_features}
            yield {"type": "Linear", **sizes, "bias": linear.bias is not None}
            yield {"type": type(step.activation).__name__}
        else:
            what = (
                "A dense layer of this base model's own vector adds its input, which no export has."
            )
            raise RecipeError(what, "Take another pooling, for example mean.")


def _buffer_shapes(module: RecipeModule, num_labels: int) -> dict[str, list[int]]:
    """Return the sizes of the head's tensors that another number of training rows would change."""
    resolved = module.reader.resolved
    usual = resolved.sketch(module.width, num_labels).state_dict()
    trained = module.head.state_dict()
    return {n: list(t.shape) for n, t in trained.items() if t.shape != usual[n].shape}


def build_model(
    module: RecipeModule, backbone: Backbone, config: HeadConfig
) -> HeadForSequenceClassification:
    """Return a recipe's model with its weights; raise CheckpointError if one has no source."""
    with torch.device("meta"):
        model = HeadForSequenceClassification(config)
    state, wanted = _state(module, backbone, config), model.state_dict()
    if lacking := [name for name in wanted if name not in state]:
        what = f"{config.recipe} on {backbone.id} lacks the tensor {lacking[0]}."
        raise CheckpointError(what, "Export another recipe.")
    model.load_state_dict({n: state[n].contiguous() for n in wanted}, assign=True)
    return model.eval()


def _state(module: RecipeModule, backbone: Backbone, config: HeadConfig) -> Mapping[str, Tensor]:
    """Return the tensors of base model, pooling and head by their names in the model."""
    base = _used_part(backbone, config).state_dict()
    state = {f"{BACKBONE}{name}": tensor for name, tensor in base.items()}
    tensors = module.head.state_dict()
    state |= {
        f"{CLASSIFIER}{n}": tensors[ours] for ours, n in map_stored_names(module.head).items()
    }
    for name, tensor in module.reader.state_dict().items():
        state[CLASSIFIER + name.replace("pooling.", "poolings.0.", 1)] = tensor
    if config.projection and backbone.trained is not None:
        steps = backbone.trained.steps
        parts = [(s.linear, s.activation) if isinstance(s, Dense) else (s,) for s in steps]
        projection = nn.Sequential(*(layer for part in parts for layer in part)).state_dict()
        state |= {f"{CLASSIFIER}projection.{name}": t for name, t in projection.items()}
    return state


def _used_part(backbone: Backbone, config: HeadConfig) -> Any:
    """Return the base model, or its encoder where the decoder is not read."""
    model = backbone.model
    return model.get_encoder() if config.encoder_only and has_both(model) else model


def build_untrained_model(
    recipe: ResolvedRecipe,
    backbone: Backbone,
    *,
    num_labels: int,
    labels: Sequence[str] = (),
    problem_type: TransformersProblem | None = None,
) -> HeadForSequenceClassification:
    """Do what `heads.for_transformers` does: return the model of a recipe with a new head.

    Raises:
        RecipeError: The recipe does not fit the base model, is no gradient's to train, or needs
            another tokenizer than the base model's.
    """
    if recipe.head.is_solved:
        what = f"{recipe.head.name} is solved at once, so Trainer cannot train it."
        raise RecipeError(what, f"Write {recipe.recipe.pooling}+linear, or use heads.train.")
    backbone = backbone.for_recipe(recipe)
    if recipe.pair or backbone.prompt or backbone.prefix:
        what = f"{recipe.recipe} writes more around texts than the tokenizer of {backbone.id} does."
        raise RecipeError(what, "Train it with heads.train, or without pair=, prompt and prefix.")
    with IsolatedRng().rolling():
        module = RecipeModule(recipe, backbone, num_labels)
    config = build_config(module, backbone, num_labels)
    names = labels or [f"LABEL_{number}" for number in range(num_labels)]
    config.id2label, config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    config.problem_type = problem_type
    if recipe.loss == OVR:  # as an export says it
        config.problem_type = "multi_label_classification"
        write_extras(config, names, ConfigExtras(votes=True))
    render_source(
        config
    )  # a part of somebody's own that cannot be saved is refused before training
    config._attn_implementation = backbone.model.config._attn_implementation
    model = build_model(module, backbone, config)
    # What no checkpoint holds, such as positions, is still without memory: take the base model's.
    model.backbone = copy.deepcopy(_used_part(backbone, config))
    model.classifier = copy.deepcopy(model.classifier)  # its projection is the base model's, too
    if config.add_pooling_layer is False:
        model.backbone.pooler = None
    return model.requires_grad_(True)


registration.register()  # where it was this module's import that brought Transformers in
