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

from heads.backbone.states import States, layers_of
from heads.classifier.classifier import Classifier

Tokens = dict[str, Tensor]  # input_ids, attention_mask and the like, (n, t) each
SUFFIXES = "", "_pair"  # of the names of first and second texts
SPECIAL = "special_tokens_mask"


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

    def forward(self, first: Tokens, second: Tokens | None = None) -> Tensor:
        """Texts to logits; with `second`, the second texts of pairs that are read apart."""
        states = self.states(first)
        return (
            self.assembly(states) if second is None else self.assembly(states, self.states(second))
        )

    def states(self, tokens: Tokens) -> States:
        """What the base model makes of one side."""
        input_ids, attention_mask = tokens["input_ids"], tokens["attention_mask"]
        given = {name: tokens[name] for name in tokens if name != SPECIAL}
        output = self.backbone.run(given | {"attention_mask": attention_mask.to(self.mask_type)})
        mask = attention_mask.float()
        special = tokens.get(SPECIAL, torch.zeros_like(mask))
        decodes = bool(self.backbone.decoder_width)
        return States(
            mask=mask,
            unpadded=self.backbone._unpadded(input_ids, attention_mask).float(),
            content=mask * (special == 0),
            hidden=layers_of(output, attention_mask),
            pooler=getattr(output, "pooler_output", None),
            eos=input_ids[..., None].eq(self.ends).any(dim=-1).float(),  # isin has no ONNX
            **(self.backbone._decoded(output, attention_mask) if decodes else {}),
        )


def inputs(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str] = ()
) -> dict[str, Tensor]:
    """What the file takes of texts, filled up to the longest of them, (n, t) each.

    Of pairs that are read apart, the names of the second side end in ``_pair``.
    """
    return {
        name + suffix: numbers
        for side, suffix in zip(sides(classifier, texts, pairs), SUFFIXES, strict=False)
        for name, numbers in side.items()
    }


def sides(classifier: Classifier, texts: Sequence[str], pairs: Sequence[str]) -> list[Tokens]:
    """What `Whole` takes: texts or pairs as one sequence each, or two sides by themselves."""
    if classifier.head.module.is_siamese:
        return [_tokens(classifier, texts, ()), _tokens(classifier, pairs, ())]
    return [_tokens(classifier, texts, pairs)]


def _tokens(classifier: Classifier, texts: Sequence[str], pairs: Sequence[str]) -> Tokens:
    encoded = classifier.backbone.encode(texts, pairs)
    given = classifier.backbone.filled(encoded)
    if asks_content(classifier):
        rows = [torch.tensor(text.special) for text in encoded]
        special = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
        given[SPECIAL] = special
    return given


def asks_content(classifier: Classifier) -> bool:
    """Whether its pooling must be told which tokens are special."""
    return "content" in classifier.head.module.reader.order.pooling.asks


def exported(whole: Whole, example: Sequence[Tokens]) -> Any:
    """Torch's ONNX program of it, for any number of texts and tokens."""
    given: dict[str, Tokens] = dict(zip(("first", "second"), example, strict=False))
    suffixes = dict(zip(given, SUFFIXES, strict=False))
    with _quiet(), torch.no_grad():
        return torch.onnx.export(
            whole.eval(),
            kwargs=given,
            dynamic_shapes={
                side: {name: {0: "texts", 1: f"tokens{suffixes[side]}"} for name in tokens}
                for side, tokens in given.items()
            },
            input_names=[name + suffixes[side] for side in given for name in given[side]],
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
