"""A classifier as one ONNX file: base model, reading and head in it, token numbers in, logits out.

The file is offered only once onnxruntime has given the logits that we give.
Legend: n texts, t tokens, c classes.
"""

import importlib.util
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heads.errors import CheckpointError, DataError, HeadsError, LimitError, ModelError
from heads.pipeline.card import base_name
from heads.pipeline.classifier import Classifier
from heads.pipeline.states import Encoded, States, layers_of

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MOST_BYTES = 2_000_000_000  # what one protobuf file can hold
MOST_DIFFERENCE = 1e-4
INSTEAD = "Write the self-contained folder instead."
TEXTS = (
    "no",
    "The flight was late.",
    "It was late, and then it was cancelled; nobody told us why!",
    "We sat at the gate for two hours. " * 20,
)
PAIRS = ("yes", "It was cancelled twice, which is rare.", "a", "The dog ran home.")
USAGE = """\
import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({tokenizer!r}, split_special_tokens=True)
session = onnxruntime.InferenceSession({file!r})
texts = {texts}
tokens = tokenizer(texts, truncation=True, max_length={tokens}, {padding}{special}
                   return_tensors="np")
given = {{one.name: tokens[one.name] for one in session.get_inputs()}}
[logits] = session.run(["logits"], given)  # (texts, {classes})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxReport:
    """An ONNX file that has been written and checked.

    Attributes:
        path: Where it lies.
        size_bytes: Its size.
        inputs: The names of what it takes, (n, t) whole numbers each.
        texts: How many texts it was checked on, alone and in batches.
        largest_difference: The most by which one of its logits differed from ours.
        usage: Python that runs it, without this package.
        notes: What one should know, a sentence each.
    """

    path: Path
    size_bytes: int
    inputs: tuple[str, ...]
    texts: int
    largest_difference: float
    usage: str
    notes: tuple[str, ...]


class Whole(nn.Module):
    """A classifier from token numbers (n, t) to logits (n, c), as the file holds it."""

    def __init__(self, classifier: Classifier, mask_type: torch.dtype) -> None:
        super().__init__()
        self.backbone = classifier.backbone
        self.model: nn.Module = classifier.backbone.model
        self.assembly = classifier.head.module
        self.mask_type = mask_type
        self.register_buffer("ends", torch.tensor(sorted(classifier.backbone.ends)))

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
            content=mask * (special == 0),
            hidden=layers_of(output, attention_mask),
            pooler=getattr(output, "pooler_output", None),
            eos=(input_ids[..., None] == self.ends).any(dim=-1).float(),
            decoder=output.last_hidden_state if decodes else None,
            decoder_mask=self.backbone._decoder_mask(mask) if decodes else None,
        )
        return self.assembly(states)


def write_onnx(classifier: Classifier, path: Path) -> OnnxReport:
    """Writes a classifier as one ONNX file, in 32-bit floats, for any number of texts and tokens.

    Raises:
        HeadsError: A package is missing, or the file cannot stand there.
        LimitError: It is too large for one file.
        ModelError: The base model or a part does something that ONNX does not know.
        CheckpointError: onnxruntime gives other logits than we do; nothing is left of the file.
    """
    _check(classifier, path)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            draft = Path(folder) / path.name
            _write(classifier, draft)
            inputs, texts, difference = _verified(classifier, draft)
            os.replace(draft, path)  # noqa: PTH105  replaces an older file on every system
    except OSError as error:
        what = f"{path} cannot be written ({error.strerror})."
        raise DataError(what, "Choose another place.") from None
    return OnnxReport(
        path=path,
        size_bytes=path.stat().st_size,
        inputs=inputs,
        texts=texts,
        largest_difference=difference,
        usage=usage(classifier, path.name),
        notes=tuple(_notes(classifier)),
    )


def usage(classifier: Classifier, file: str) -> str:
    """A few lines of Python that run the file with onnxruntime and the base model's tokenizer."""
    backbone = classifier.backbone
    filled = backbone.tokenizer.pad_token_id is not None and not backbone.reads_padding
    special = " return_special_tokens_mask=True," if _asks_content(classifier) else ""
    return USAGE.format(
        tokenizer=base_name(backbone),
        file=file,
        texts='["a text", "another, longer text"]' if filled else '["one text at a time"]',
        tokens=backbone.tokens,
        padding='padding=True, padding_side="right",' if filled else "",
        special=special,
        classes=len(classifier.classes),
    )


def _check(classifier: Classifier, path: Path) -> None:
    """Raises what can be known beforehand."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        what = f"Writing ONNX needs {', '.join(missing)}, not installed here."
        raise HeadsError(what, f"Run: pip install {' '.join(PACKAGES)}")
    if path.suffix != ".onnx" or path.is_dir():
        raise DataError(f"{path} is no name for an ONNX file.", "Let it end in .onnx.")
    if not path.parent.is_dir():
        raise DataError(f"There is no folder {path.parent}.", "Make it first.")
    parts = (classifier.backbone.model, classifier.head.module)
    size = sum(t.numel() * t.element_size() for part in parts for t in part.state_dict().values())
    if size > MOST_BYTES:
        what = f"{base_name(classifier.backbone)} takes {size / 1e9:.1f} GB; "
        raise LimitError(what + f"one ONNX file holds {MOST_BYTES / 1e9:.0f} GB.", INSTEAD)


def _write(classifier: Classifier, path: Path) -> None:
    inputs = _inputs(classifier, TEXTS[1:3])
    try:
        try:
            program = _exported(Whole(classifier, torch.long), inputs)
        except Exception:
            # XLNet takes its mask from 1.0, which the exporter understands of floats only.
            program = _exported(Whole(classifier, torch.float32), inputs)
        program.model.metadata_props.update(_metadata(classifier))
        program.save(path, external_data=False)
    except Exception as error:
        said = str(error.__cause__ or error).strip().split("\n", 1)[0][:160].strip()
        name, recipe = base_name(classifier.backbone), classifier.recipe
        what = f"{recipe} on {name} cannot be written as ONNX ({said})."
        raise ModelError(what, INSTEAD) from error


def _exported(whole: Whole, inputs: dict[str, Tensor]) -> Any:
    with _quiet(), torch.no_grad():
        return torch.onnx.export(
            whole.eval(),
            kwargs=inputs,
            dynamic_shapes={name: {0: "texts", 1: "tokens"} for name in inputs},
            output_names=["logits"],
            dynamo=True,
            verbose=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, the exporter says nothing of what torch itself will change."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _metadata(classifier: Classifier) -> dict[str, str]:
    backbone = classifier.backbone
    return {
        "recipe": str(classifier.recipe),
        "classes": json.dumps(classifier.classes, ensure_ascii=False),
        "many": json.dumps(classifier.head.many),
        "base_model": base_name(backbone),
        "base_revision": backbone.revision,
        "tokens": str(backbone.tokens),
    }


def _verified(classifier: Classifier, path: Path) -> tuple[tuple[str, ...], int, float]:
    """Its inputs, how many texts it was run on, and the largest difference from our logits."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
        count, largest = 0, 0.0
        for texts, pairs in _trials(classifier):
            ours = classifier.logits(texts, pairs)
            given = {n: t.numpy() for n, t in _inputs(classifier, texts, pairs).items()}
            theirs = torch.from_numpy(session.run(["logits"], given)[0])
            difference = float((theirs - ours).abs().max() / ours.abs().max().clamp(min=1))
            if not difference <= MOST_DIFFERENCE:  # NaN is no number either
                raise ValueError(f"its logits differ from ours by {difference:.2g}")
            count, largest = count + len(texts), max(largest, float((theirs - ours).abs().max()))
    except HeadsError:
        raise
    except Exception as error:
        said = str(error).strip().split("\n", 1)[0][:160]
        what = f"The ONNX file of {classifier.recipe} did not pass its check: {said}."
        raise CheckpointError(what, INSTEAD) from error
    return tuple(one.name for one in session.get_inputs()), count, largest


def _trials(classifier: Classifier) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Texts of several lengths: alone, in batches of one length, in padded ones, in pairs."""
    for text, pair in zip(TEXTS, PAIRS, strict=True):
        yield [text], ()
        yield [text] * 3, [pair] * 3
    if not classifier.backbone.reads_padding:
        yield from ((TEXTS[:2], ()), (TEXTS, ()), (TEXTS * 2, PAIRS * 2))


def _inputs(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str] = ()
) -> dict[str, Tensor]:
    """What the file takes, for texts filled up to the longest of them."""
    encoded = classifier.backbone.encode([text.strip() for text in texts], pairs)
    inputs = classifier.backbone.filled(encoded)
    return inputs | (
        {"special_tokens_mask": _special(encoded)} if _asks_content(classifier) else {}
    )


def _special(encoded: Sequence[Encoded]) -> Tensor:
    rows = [torch.tensor(text.special) for text in encoded]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)


def _asks_content(classifier: Classifier) -> bool:
    return "content" in classifier.head.module.reader.order.pooling.asks


def _notes(classifier: Classifier) -> Iterator[str]:
    backbone = classifier.backbone
    if backbone.reads_padding:
        yield "This base model reads padding: give it texts of one length at a time."
    elif backbone.tokenizer.pad_token_id is None:
        yield f"Its tokenizer fills nothing up: give one text at a time, or fill up with {backbone.pad}."
    if backbone.stubborn:
        yield "Words that look like its special tokens count as such here; our own reading does not."
    if not backbone.separates:
        yield "A second text comes after the first one and a line break."
