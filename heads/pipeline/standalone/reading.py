"""How `load.py` reads a base model, as lines of Python: the answer to a batch, and what is read.

The lines do what `Backbone` and `Reader` do, for one base model and one recipe.
"""

import copy
import inspect
from collections.abc import Iterable
from typing import Any

import torch

from heads.backbone.backbone import Backbone
from heads.backbone.weights import bare
from heads.catalog.base_models import base_of
from heads.classifier.classifier import Classifier
from heads.features.featurizer import LAST
from heads.pipeline.standalone import template

SENTENCE = "The flight was late, and then it was cancelled; nobody at the gate could say why."
# What a part asks for, and what it is called on the page, where parts go by their own names.
CALLED = {
    "mask": "mask",
    "content": "content",
    "eos": "ends",
    "pooler": "summary",
    "hidden": "hidden",
    "decoder": "decoded",
    "states": "states",
}


def read_lines(classifier: Classifier) -> list[str]:
    """The base model's answer to rows of tokens, and what the head reads of it."""
    backbone, wanted = classifier.backbone, asked(classifier)
    order = classifier.head.module.reader.order
    lines = [*_run(backbone, whole="hidden" in wanted or order.layer >= 0)]
    lines.append('mask = inputs["attention_mask"].float()  # (n, t)')
    if backbone.skipped is not None and order.pooling.name == LAST:
        lines += template.SKIPPED.substitute(skipped=backbone.skipped).splitlines()
    if "content" in wanted:
        lines.append('special = filled([row["special_tokens_mask"] for row in rows], 1)')
        lines.append("content = mask * (special == 0)")
    if "eos" in wanted:
        ends = f"torch.tensor({sorted(backbone.ends)})"
        lines.append(f'ends = torch.isin(inputs["input_ids"], {ends}).float()')
    if "pooler" in wanted:
        lines.append("summary = output.pooler_output")
    if "states" in wanted or "hidden" in wanted:
        lines += _layers(classifier)
    if "decoder" in wanted:
        lines += template.FURTHER.splitlines() * backbone.shifted
        lines.append("decoded = output.last_hidden_state.masked_fill((mask == 0)[..., None], 0.0)")
    return [*lines, f"return self.head({arguments(wanted)})"]


def _run(backbone: Backbone, whole: bool) -> list[str]:
    """The call of the base model, with what its family's classifier gives it besides."""
    model, given, lines = backbone.model, ["**inputs"], []
    if "use_cache" in inspect.signature(model.forward).parameters:
        given.append("use_cache=False")
    if base_of(backbone.model_type).marks_first:
        lines += template.FIRST.splitlines()
        given.append("global_attention_mask=first")
    shifts = ("_shift_right", "prepare_decoder_input_ids_from_labels")
    shift = next((name for name in shifts if hasattr(model, name)), "")
    if backbone.decoder_width and shift:
        lines.append(f'shifted = self.backbone.{shift}(inputs["input_ids"])')
        given.append("decoder_input_ids=shifted")
    if whole:
        given.append("output_hidden_states=True")
    return [*lines, f"output = self.backbone({', '.join(given)})"]


def _layers(classifier: Classifier) -> list[str]:
    """The states of the one layer, or of all layers, that the recipe names; 0 on padding."""
    backbone, order = classifier.backbone, classifier.head.module.reader.order
    output = backbone.run(backbone.filled(backbone.encode([SENTENCE])))
    beside = getattr(output, "encoder_last_hidden_state", None)
    encoder = "encoder_" if beside is not None else ""
    last, hidden = f"output.{encoder}last_hidden_state", f"output.{encoder}hidden_states"
    states = output.last_hidden_state if beside is None else beside
    lines, stretched = ["padding = (mask == 0)[..., None]"], ""
    if states.shape[1] != len(backbone.encode([SENTENCE])[0]):
        lines.append("tokens = mask.shape[1]  # of which several have gone into one state each")
        lines.append(f"places = torch.arange(tokens) * {last}.shape[1] // tokens")
        stretched = "[:, places]"
    if order.layers:
        several = f"(*{hidden}[:-1], {last})" if backbone.layers else f"({last},)"
        lines.append(f"layers = {several}  # embeddings first")
        filled = f"layer{stretched}.masked_fill(padding, 0.0)"
        return [*lines, f"hidden = tuple({filled} for layer in layers)"]
    one = f"{hidden}[{order.layer}]" if -1 < order.layer < backbone.layers else last
    return [*lines, f"states = {one}{stretched}.masked_fill(padding, 0.0)  # (n, t, d)"]


def asked(classifier: Classifier) -> list[str]:
    """What the reading needs of the base model."""
    order = classifier.head.module.reader.order
    wanted = {*order.pooling.asks}
    if order.layers:
        wanted = wanted - {"states"} | {*order.layers.asks}
    return [name for name in CALLED if name in wanted]


def arguments(asks: Iterable[str]) -> str:
    """What is handed to a part, under the names of the page."""
    return ", ".join(CALLED[name] for name in asks)


def base_class(backbone: Backbone) -> tuple[str, str]:
    """The module and the name of the class that loads the base model."""
    kind: Any = type(backbone.model)
    if base_of(backbone.model_type).built_as:
        return "transformers", kind.__name__
    with torch.device("meta"):
        config = copy.deepcopy(backbone.model.config)  # building sets its attention
        if type(bare(config)) is kind:
            return "transformers", "AutoModel"
    return kind.__module__, kind.__name__
