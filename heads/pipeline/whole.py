"""A classifier as one module, from token numbers to logits, and its way through torch's exporter.

Legend: n texts, t tokens, c classes.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from heads.pipeline.classifier import Classifier
from heads.pipeline.states import States, layers_of


class Whole(nn.Module):
    """A classifier from token numbers (n, t) to logits (n, c).

    Args:
        mask_type: What the base model is given as its mask.
    """

    ends: Tensor

    def __init__(self, classifier: Classifier, mask_type: torch.dtype) -> None:
        super().__init__()
        self.backbone = classifier.backbone
        self.model: nn.Module = classifier.backbone.model
        self.assembly = classifier.head.module
        self.mask_type = mask_type
        ends = sorted(classifier.backbone.ends) or [-1]  # which no token is
        self.register_buffer("ends", torch.tensor(ends))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
    ) -> Tensor:
        given = {"input_ids": input_ids, "attention_mask": attention_mask.to(self.mask_type)}
        if token_type_ids is not None:
            given["token_type_ids"] = token_type_ids
        output = self.backbone.run(given)
        mask = attention_mask.float()
        special = torch.zeros_like(mask) if special_tokens_mask is None else special_tokens_mask
        decodes = bool(self.backbone.decoder_width)
        states = States(
            mask=mask,
            unpadded=self.backbone._unpadded(input_ids, attention_mask).float(),
            content=mask * (special == 0),
            hidden=layers_of(output, attention_mask),
            pooler=getattr(output, "pooler_output", None),
            eos=input_ids[..., None].eq(self.ends).any(dim=-1).float(),  # isin has no ONNX
            **(self.backbone._decoded(output, attention_mask) if decodes else {}),
        )
        return self.assembly(states)


def inputs(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str] = ()
) -> dict[str, Tensor]:
    """What `Whole` takes of texts, filled up to the longest of them, (n, t) each."""
    encoded = classifier.backbone.encode(texts, pairs)
    given = classifier.backbone.filled(encoded)
    if asks_content(classifier):
        rows = [torch.tensor(text.special) for text in encoded]
        special = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
        given["special_tokens_mask"] = special
    return given


def asks_content(classifier: Classifier) -> bool:
    """Whether its pooling must be told which tokens are special."""
    return "content" in classifier.head.module.reader.order.pooling.asks


def exported(whole: Whole, example: dict[str, Tensor]) -> Any:
    """Torch's ONNX program of it, for any number of texts and tokens."""
    with _quiet(), torch.no_grad():
        return torch.onnx.export(
            whole.eval(),
            kwargs=example,
            dynamic_shapes={name: {0: "texts", 1: "tokens"} for name in example},
            output_names=["logits"],
            custom_translation_table={torch.ops.aten.sort.stable: _sort},
            dynamo=True,
            verbose=False,
        )


def _sort(tensor: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """`torch.sort(stable=True)`, which the exporter lacks: TopK takes equals in their order."""
    from onnxscript import opset18

    onnx: Any = opset18  # its types know of no operators that follow one another
    size = onnx.Gather(onnx.Shape(tensor), onnx.Constant(value_ints=[dim]))
    return onnx.TopK(tensor, size, axis=dim, largest=int(descending))


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, the exporter does not speak of what torch itself will change."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
