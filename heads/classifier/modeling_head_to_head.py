"""A classification head on any base model of Transformers, as a model of Transformers.

Head to Head writes this file beside the weights that it exports. There it holds the source of the
pooling and the head that the weights belong to, and needs torch and transformers only::

    pipeline("text-classification", folder, trust_remote_code=True)

Where Head to Head is installed, ``import heads`` registers these classes: no remote code is needed.

Legend: n texts, t tokens, d width of a hidden state, w width of the pooled vector, c labels.
"""

import inspect
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

# --- The parts. An exported file has the source of those that its recipe names in this place.
from heads.backbone.states import layers_of
from heads.classifier.modeling_windows import average_windows, join_windows, split_windows
from heads.parts.losses import near
from heads.parts.modules import left_out
from heads.parts.resolve import head as HEADS
from heads.parts.resolve import layers as LAYERS
from heads.parts.resolve import loss as LOSSES
from heads.parts.resolve import pairing as PAIRINGS
from heads.parts.resolve import pooling as POOLINGS

TOOLS = {
    "left_out": left_out,
    "split_windows": split_windows,
    "join_windows": join_windows,
    "average_windows": average_windows,
}

# --- The model.

HUB_OPTIONS = "cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token"
OUTPUTS = {"classifier": "output", "score": "output"}  # names of layers of heads, and here


class HeadConfig(PretrainedConfig):
    """The configuration of a base model with a pooling and a head on it.

    Attributes:
        backbone_config: The configuration of the base model, or its values.
        backbone_class: The class of the base model, as `transformers` names it.
        add_pooling_layer: Whether the base model has its pooler; None where it has no choice.
        encoder_only: Whether only the encoder of an encoder-decoder model is used.
        recipe: The recipe as Head to Head writes it, with the options of its training.
        layers: The hidden state that is pooled, -1 for the last; or the name of a combination.
        pooling: The name of the pooling, or of several whose vectors stand side by side.
        pooling_options: The options of the pooling.
        projection: Layers between pooling and head, which the base model was trained with: each has
            `type` (Linear, LayerNorm, Normalize or an activation of torch.nn) and its sizes.
        normalize: Whether the pooled vector is scaled to length 1.
        pair: How the vectors of two texts that are encoded separately are combined; None where two
            texts are encoded as one sequence.
        head: The name of the head.
        head_options: The options of the head.
        without: The layer of the head that is left out.
        late: Whether the head is applied to every token, and the pooling to the logits.
        loss: The loss where each text has one label: softmax, ovr, ordinal or hinge.
        margin: The margin by which the logit of the true label is lowered in training.
        hidden_size: d. Default: that of the base model.
        num_hidden_layers: The number of layers. Default: that of the base model.
        pooled_width: w before two texts are combined. Default: found by pooling zeros.
        special_token_ids: The tokens that do not count as content, such as [CLS] and [SEP].
        end_token_ids: The tokens that end a text, for the pooling `eos`.
        skipped_token_id: The token that is no last token wherever it ends a text, as padding.
        prefix: The text that the tokenizer writes before every text, such as "query: ".
        prefix_tokens: The number of its tokens, with those that stand before them.
        use_prefix: Whether the tokens of the prefix are pooled.
        marks_first: Whether the first token gets global attention, as in Longformer.
        shifts_decoder: Whether the decoder reads one token more than the text has.
        most_tokens: The most tokens of a window, or of each of two texts encoded separately.
        stride: The tokens that two windows of a long text share; None where long texts are cut.
        most_windows: The most windows of a text.
        averages_windows: Whether each window has its own vector, and a text their average; else
            all tokens of all windows are pooled as if they were one text.
        buffer_shapes: Sizes of the tensors of the head that depend on its training rows.
    """

    model_type = "head_to_head"
    is_composition = True
    sub_configs: ClassVar[Any] = {"backbone_config": AutoConfig}

    backbone_config: Any = None
    backbone_class: str = "AutoModel"
    add_pooling_layer: bool | None = None
    encoder_only: bool = False
    recipe: str = ""
    layers: int | str = -1
    pooling: str | list[str] = "mean"
    pooling_options: dict[str, Any] = field(default_factory=dict)
    projection: list[dict[str, Any]] = field(default_factory=list)
    normalize: bool = False
    pair: str | None = None
    head: str = "linear"
    head_options: dict[str, Any] = field(default_factory=dict)
    without: str | None = None
    late: bool = False
    loss: str = "softmax"
    margin: float = 0.0
    hidden_size: int = 0
    num_hidden_layers: int = 0
    pooled_width: int | None = None
    special_token_ids: list[int] = field(default_factory=list)
    end_token_ids: list[int] = field(default_factory=list)
    skipped_token_id: int | None = None
    prefix: str = ""
    prefix_tokens: int = 0
    use_prefix: bool = True
    marks_first: bool = False
    shifts_decoder: bool = False
    most_tokens: int | None = None
    stride: int | None = None
    most_windows: int | None = None
    averages_windows: bool = False
    buffer_shapes: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self, **kwargs: Any) -> None:
        config = {"model_type": "bert"} if self.backbone_config is None else self.backbone_config
        if isinstance(config, Mapping):
            values = dict(config)
            config = AutoConfig.for_model(values.pop("model_type"), **values)
        inner = config.get_text_config()
        self.backbone_config = config
        self.hidden_size = self.hidden_size or inner.hidden_size
        self.num_hidden_layers = self.num_hidden_layers or inner.num_hidden_layers
        self.num_attention_heads = getattr(inner, "num_attention_heads", None)
        kwargs.setdefault("pad_token_id", getattr(inner, "pad_token_id", None))
        super().__post_init__(**kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Return a configuration; the values of a base model alone become its `backbone_config`."""
        if config_dict.get("model_type", cls.model_type) != cls.model_type:
            base = {n: v for n, v in config_dict.items() if n != "_name_or_path"}
            labels = ("id2label", "label2id", "problem_type")
            config_dict = {n: base[n] for n in labels if n in base} | {"backbone_config": base}
        return super().from_dict(config_dict, **kwargs)

    def get_text_config(self, *args: Any, **kwargs: Any) -> PretrainedConfig:
        """Return the text configuration of the base model, which knows the vocabulary."""
        return self.backbone_config.get_text_config(*args, **kwargs)


class PooledClassifier(nn.Module):
    """Hidden states to logits: a choice of layers, a pooling and a head."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        names = [config.pooling] if isinstance(config.pooling, str) else config.pooling
        self.layers = None
        if isinstance(config.layers, str):
            self.layers = _build(LAYERS[config.layers], config.num_hidden_layers + 1)
        zeros = torch.zeros(1, 2, config.hidden_size)  # (1, t, d)
        hidden = [zeros] * (config.num_hidden_layers + 1)
        width = self.select_layers(hidden, zeros).shape[-1]
        poolings = [_build(POOLINGS[name], width, **config.pooling_options) for name in names]
        # One that learns is a module; of the rest nothing is saved.
        self.poolings = nn.ModuleList(p for p in poolings if isinstance(p, nn.Module))
        self._functions = [p for p in poolings if not isinstance(p, nn.Module)]
        self.projection = nn.Sequential(*map(_projection_layer, config.projection))
        ones = torch.ones(1, 2)
        inputs = {"mask": ones, "content": ones, "eos": ones, "pooler": zeros[:, 0]}
        width = config.pooled_width or self.pool(hidden, zeros, inputs)[0].shape[-1]
        if config.pair:
            width = PAIRINGS[config.pair](torch.zeros(1, width), torch.zeros(1, width)).shape[-1]
        self.head = HEADS[config.head](width, config.num_labels, **config.head_options)
        if config.without:
            self.head = TOOLS["left_out"](self.head, config.without, width)
        for name, shape in config.buffer_shapes.items():
            module, _, buffer = name.rpartition(".")
            if buffer in self.head.get_submodule(module)._buffers:
                setattr(self.head.get_submodule(module), buffer, torch.zeros(shape))
        if type(self.head) is nn.Sequential:
            # PEFT saves modules by the ends of their names: no layer may be called as the whole.
            layers = self.head._modules.items()
            self.head = nn.Sequential(
                OrderedDict((OUTPUTS.get(n, n), layer) for n, layer in layers)
            )

    def select_layers(self, hidden: Sequence[Tensor], decoder: Tensor | None) -> Tensor:
        """Return the hidden states that are pooled, (n, t, d), given those of every layer."""
        if self.layers is None:
            return hidden[int(self.config.layers)]
        return self.layers(decoder if self.config.layers == "decoder" else hidden)

    def pool(
        self, hidden: Sequence[Tensor], decoder: Tensor | None, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the pooled vectors (n, w), the weights of the tokens, and the states (n, t, d)."""
        states = self.select_layers(hidden, decoder)
        vectors, weights = [], inputs["mask"]
        for pooling in [*self._functions, *self.poolings]:
            # A sum over many tokens needs 32 bits; a pooling that learns has its own precision.
            values = states if isinstance(pooling, nn.Module) else states.float()
            known = {**inputs, "states": values}
            tensors = [known[name].to(values.dtype) for name in _arguments(pooling)]
            device = "cpu" if values.is_meta else values.device.type
            with torch.autocast(device, enabled=False):
                answer = pooling(*tensors)
                if isinstance(answer, Tensor):  # (n, t), or (n, k, t) for k vectors side by side
                    weights = answer.to(values.dtype)
                    weights = weights if weights.dim() == 3 else weights[:, None]
                    vectors.append((weights @ values).flatten(1))
                else:  # vectors that are no weighted sum of states
                    vectors.append(answer.vectors)
        return self.projection(torch.cat(vectors, dim=-1).to(states.dtype)), weights, states

    def forward(
        self,
        hidden: Sequence[Tensor],
        decoder: Tensor | None,
        inputs: Mapping[str, Tensor],
        windows: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return logits (n, c).

        Args:
            hidden: The embeddings and the states of every layer, (n, t, d) each.
            decoder: The states of the last layer of a decoder, (n, t, d), or None.
            inputs: What poolings ask for besides: `mask`, `content`, `eos`, (n, t) each; `pooler`.
            windows: Where the rows are windows of texts: which tokens count, (m, t), and the
                number of each window's text, (m,).
        """
        if windows and not self.config.averages_windows:
            join = partial(TOOLS["join_windows"], counted=windows[0], owner=windows[1])
            hidden = [join(states) for states in hidden]
            inputs = {name: join(values) for name, values in inputs.items()}
        pooled, weights, states = self.pool(hidden, decoder, inputs)
        if windows and self.config.averages_windows:
            pooled = TOOLS["average_windows"](pooled, *windows)
            if self.config.projection[-1:] == [{"type": "Normalize"}]:
                pooled = normalize(pooled, dim=-1)
        if self.config.normalize:
            pooled = normalize(pooled, dim=-1)
        if self.config.pair:  # the second texts follow the first ones: (2n, w)
            pooled = PAIRINGS[self.config.pair](*pooled.chunk(2))
        if not self.config.late:
            return self.head(pooled)
        logits = self.head(states.flatten(0, 1)).unflatten(-2, states.shape[:2])  # (n, t, c)
        return (weights.to(logits.dtype) @ logits).squeeze(-2)  # (n, 1, t) @ (n, t, c)


class HeadForSequenceClassification(PreTrainedModel):
    """A base model with any pooling and any head on it.

    Padding may stand on either side: it is moved to the right before the base model reads, so that
    positions count from a text's first token. Hidden states and attentions come in that order.
    """

    config_class = HeadConfig
    base_model_prefix = "backbone"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # so that Trainer divides the loss of accumulated batches
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    config: HeadConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.backbone = _build_backbone(config)
        self.classifier = PooledClassifier(config)  # so called, PEFT saves it beside an adapter
        self.post_init()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load such a model; or put a new head on a base model's checkpoint, as fields tell."""
        if kwargs.get("config") is None:
            options = {name: kwargs[name] for name in HUB_OPTIONS if name in kwargs}
            values, _ = HeadConfig.get_config_dict(pretrained_model_name_or_path, **options)
            if values.get("model_type") != HeadConfig.model_type:
                kind: Any = MODEL_MAPPING[type(AutoConfig.for_model(**values))]
                prefix = {rf"^{kind.base_model_prefix}\.": f"{cls.base_model_prefix}."}
                kwargs["key_mapping"] = prefix | (kwargs.get("key_mapping") or {})
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise what a checkpoint lacks: poolings and heads as they are when they are new."""
        super()._init_weights(module)
        if isinstance(module, PooledClassifier):
            new = PooledClassifier(self.config).to(next(module.parameters()).device)
            for parameter, fresh in zip(module.parameters(), new.parameters(), strict=True):
                if not getattr(parameter, "_is_hf_initialized", False):
                    parameter.data.copy_(fresh)

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of the base model."""
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the embeddings of the base model."""
        self.backbone.set_input_embeddings(value)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | list[int] | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Return the logits (n, c), and the loss where labels are given.

        Args:
            input_ids: (n, t).
            attention_mask: (n, t), 1 on real tokens.
            token_type_ids: (n, t). Where two texts are encoded separately: 1 on the second.
            inputs_embeds: (n, t, d), in the place of `input_ids`.
            labels: (n,) whole numbers from 0 on where one label applies, -100 for a row without;
                (n, c) 0 or 1 where several may apply; of a regression (n,) or (n, c) numbers.
            output_hidden_states: Whether the states of all layers are returned, or of which.
            return_dict: Whether the output has names, or is a tuple.
            kwargs: What the base model takes besides, such as `output_attentions`.
        """
        config = self.config
        kwargs.pop("num_items_in_batch", None)  # of Trainer
        tensors = ("input_ids", input_ids), ("inputs_embeds", inputs_embeds)
        inputs = {name: values for name, values in tensors if values is not None}
        if not inputs:
            raise ValueError("Give input_ids or inputs_embeds.")
        tokens = next(iter(inputs.values()))
        mask = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
        mask = mask if attention_mask is None else attention_mask
        inputs |= {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        # What else has a value for each token, such as position_ids, moves with the tokens.
        along = [n for n, v in kwargs.items() if isinstance(v, Tensor) and v.shape == mask.shape]
        inputs |= {name: kwargs.pop(name) for name in along}
        inputs, mask, windows = self._arrange_rows(inputs, mask)
        outputs = self._run_backbone(inputs, mask, **kwargs)
        hidden = layers_of(outputs, mask)  # l + 1 times (n, t, d)
        decoder, read = None, mask
        if config.layers == "decoder":
            if config.shifts_decoder:  # it reads one token more than the text has
                read = torch.maximum(mask, nn.functional.pad(mask[:, :-1], (1, 0), value=1))
            decoder = outputs.last_hidden_state.masked_fill((read == 0)[..., None], 0.0)
        pooling_inputs = self._pooling_inputs(inputs.get("input_ids"), read)
        if config.pooling == "pooler":
            pooling_inputs["pooler"] = outputs.pooler_output
        logits = self.classifier(hidden, decoder, pooling_inputs, windows)

        loss = None if labels is None else self._loss(logits, labels.to(logits.device))
        if logits.dim() > 2:  # a head that samples its dropout in training: (s, n, c)
            logits = logits.mean(dim=0)
        if output_hidden_states is None:
            output_hidden_states = config.output_hidden_states
        states: Any = getattr(outputs, "hidden_states", None) or hidden
        if isinstance(output_hidden_states, list):  # the numbers of those that are asked for
            wanted = {number % len(states) for number in output_hidden_states}
            states = tuple(s if number in wanted else None for number, s in enumerate(states))
        attentions = getattr(outputs, "attentions", None)
        result = SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=states if output_hidden_states else None,
            attentions=attentions or getattr(outputs, "encoder_attentions", None),
        )
        return_dict = config.return_dict if return_dict is None else return_dict
        return result if return_dict else result.to_tuple()

    def _arrange_rows(
        self, inputs: dict[str, Tensor], mask: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, tuple[Tensor, Tensor] | None]:
        """Return the rows that the base model reads, padded on the right: texts or windows."""
        needs_ids = self.config.pair or self.config.stride is not None
        if (needs_ids or self.config.layers == "decoder") and "input_ids" not in inputs:
            raise ValueError("Give input_ids: this recipe reads two texts, windows or a decoder.")
        if self.config.pair:
            return *self._split_pairs(inputs, mask), None
        inputs, mask = _pad_right(inputs, mask)
        if self.config.stride is None:
            return inputs, mask, None
        is_special = _is_in(inputs["input_ids"], self.config.special_token_ids)
        inputs, mask, *windows = TOOLS["split_windows"](inputs, mask, is_special, self.config)
        return inputs, mask, (windows[0], windows[1])

    def _run_backbone(self, inputs: Mapping[str, Tensor], mask: Tensor, **kwargs: Any) -> Any:
        """Return the output of the base model, given what its family's classifier gives it."""
        known = inspect.signature(type(self.backbone).forward).parameters
        inputs = {name: values for name, values in inputs.items() if name in known}
        if "use_cache" in known:
            kwargs["use_cache"] = False
        if self.config.marks_first:
            first = torch.arange(mask.shape[1], device=mask.device) == 0
            kwargs["global_attention_mask"] = first.to(mask.dtype).expand_as(mask)
        shift = getattr(
            self.backbone, "_shift_right", None
        )  # T5; BART and its kin do it themselves
        if shift is not None and not self.config.encoder_only:
            kwargs["decoder_input_ids"] = shift(inputs["input_ids"])
        return self.backbone(**inputs, attention_mask=mask, output_hidden_states=True, **kwargs)

    def _pooling_inputs(self, input_ids: Tensor | None, mask: Tensor) -> dict[str, Tensor]:
        """Return which tokens are read, are content, and end a text: 0 or 1, (n, t) each."""
        config = self.config
        size = (mask.sum(dim=1, keepdim=True) - 1).clamp(max=config.prefix_tokens)
        is_prefix = torch.arange(mask.shape[1], device=mask.device) < size
        read = mask if config.use_prefix else mask.masked_fill(is_prefix, 0)
        content, ends = read.masked_fill(is_prefix, 0), torch.zeros_like(mask)
        if input_ids is not None:
            content = content.masked_fill(_is_in(input_ids, config.special_token_ids), 0)
            ends = _is_in(input_ids, config.end_token_ids)
            if config.skipped_token_id is not None and config.pooling == "last":
                wanted = read * (input_ids != config.skipped_token_id)
                behind = wanted.flip(1).cumsum(dim=1).flip(1)  # wanted ones from here to the end
                read = torch.where(wanted.any(dim=1, keepdim=True), read * (behind > 0), read)
        return {"mask": read.float(), "content": content.float(), "eos": ends.float()}

    def _split_pairs(
        self, inputs: Mapping[str, Tensor], mask: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Return the two texts of each row as rows of their own, (2n, t): first all first texts.

        The tokenizer of such a model gives every token of the second text the type 1.
        """
        tokens, types = inputs.get("input_ids"), inputs.get("token_type_ids")
        if tokens is None or types is None or not bool((types * mask).any(dim=1).all()):
            raise ValueError("This model compares two texts: give text and text_pair.")
        sides = torch.cat([mask * (types == 0), mask * (types == 1)])  # (2n, t)
        split, mask = _pad_right({"input_ids": torch.cat([tokens, tokens])}, sides)
        most = self.config.most_tokens
        if most and mask.shape[1] > most:
            # Each text is cut as if it were alone: special tokens at its end stay.
            is_special = _is_in(split["input_ids"], self.config.special_token_ids) | (mask == 0)
            is_end = is_special.flip(1).long().cumprod(dim=1).flip(1) * mask
            positions = torch.arange(mask.shape[1], device=mask.device)
            keep = positions < most - is_end.sum(dim=1, keepdim=True)
            split, mask = _pad_right(split, mask * (keep | (is_end > 0)))
        size = int(mask.sum(dim=1).amax())
        tokens = split["input_ids"].masked_fill(mask == 0, self.config.pad_token_id or 0)
        return {"input_ids": tokens[:, :size]}, mask[:, :size]

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of the recipe, or of the problem type where that decides."""
        config, num_labels = self.config, logits.shape[-1]
        if logits.dim() > 2:  # (s, n, c)
            labels = labels.repeat(logits.shape[0], *[1] * (labels.dim() - 1))
            logits = logits.flatten(0, 1)
        has_values = num_labels == 1 or config.problem_type == "regression"
        is_several = config.problem_type == "multi_label_classification" and config.loss != "ovr"
        if labels.dim() > 1 or has_values or is_several:
            return self.loss_function(labels=labels, pooled_logits=logits, config=config)
        if labels.is_floating_point():
            raise ValueError("Labels are whole numbers; numbers need problem_type='regression'.")
        logits, labels = logits[labels >= 0], labels[labels >= 0]  # -100: no label
        truth = one_hot(labels.long(), num_labels).to(logits.dtype)  # (n, c)
        logits = logits - config.margin * truth
        if config.loss == "softmax":
            return nn.functional.cross_entropy(logits, labels.long())
        truth = near(labels, num_labels) if config.loss == "ordinal" else truth
        return LOSSES[config.loss](logits, truth).mean()


def _build_backbone(config: HeadConfig) -> PreTrainedModel:
    """Return the base model, by AutoModel or by the class that its family's classifier has."""
    has_choice = config.add_pooling_layer is not None
    options = {"add_pooling_layer": config.add_pooling_layer} if has_choice else {}
    if config.backbone_class == "AutoModel":
        model = AutoModel.from_config(config.backbone_config, trust_remote_code=False, **options)
    else:
        kind = getattr(transformers, config.backbone_class, None)
        if not (isinstance(kind, type) and issubclass(kind, PreTrainedModel)):
            what = f"backbone_class={config.backbone_class!r} is no model of Transformers."
            raise ValueError(f"{what} Leave it out for the one that AutoModel builds.")
        model = kind._from_config(config.backbone_config, **options)
    return model.get_encoder() if config.encoder_only else model


def _build(part: Any, size: int, **options: Any) -> Any:
    """Return a part as a function of tensors; one that learns is a module of that size."""
    make = getattr(part, "make", part)
    return make(size, **options) if isinstance(make, type) else partial(make, **options)


def _arguments(pooling: Any) -> list[str]:
    """Return the names of the tensors that a pooling asks for."""
    function = pooling.forward if isinstance(pooling, nn.Module) else pooling
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def _projection_layer(layer: dict[str, Any]) -> nn.Module:
    """Return a layer of the base model's own projection, such as Linear, Tanh or Normalize."""
    sizes, name = {n: v for n, v in layer.items() if n != "type"}, str(layer.get("type"))
    if name == "Normalize":
        return LengthOne()
    kind: Any = getattr(nn, name, None)
    is_activation = getattr(kind, "__module__", "") == "torch.nn.modules.activation"
    if not (is_activation or kind in (nn.Linear, nn.LayerNorm, nn.Identity)):
        raise ValueError(f"A projection cannot have a layer of type {name!r}.")
    return kind(**sizes)


class LengthOne(nn.Module):
    """Scale vectors to length 1: (n, w) to (n, w)."""

    def forward(self, vectors: Tensor) -> Tensor:
        return normalize(vectors, dim=-1)


def _is_in(input_ids: Tensor, numbers: list[int]) -> Tensor:
    """Return which tokens are among these, (n, t)."""
    return torch.isin(input_ids, torch.tensor(numbers, device=input_ids.device))


def _pad_right(inputs: Mapping[str, Tensor], mask: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Return inputs (n, t) or (n, t, d) and mask (n, t) with all padding moved to the right."""
    order = (mask == 0).long().argsort(dim=1, stable=True)  # (n, t)
    moved = {}
    for name, values in inputs.items():
        index = order if values.dim() == 2 else order[..., None].expand_as(values)
        moved[name] = values.gather(1, index)
    return moved, mask.gather(1, order)
