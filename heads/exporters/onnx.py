"""A classifier as one ONNX file: base model, reading and head in it, token numbers in, logits out.

The file is offered only once onnxruntime has given the logits that we give.
Legend: n texts, t tokens, c classes.
"""

import importlib.util
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heads import display
from heads.backbone.states import States, layers_of, states_of
from heads.caching import place_told, writing
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, DataError, HeadsError, LimitError, ModelError, RecipeError
from heads.exporters.model_card import base_name, hub_id
from heads.exporters.verification import PAIRS, TEXTS, example, first_line, verify_logits
from heads.problem import OutputActivation

# --- A classifier as one module, from token numbers to logits, and torch's exporter.

Tokens = dict[str, Tensor]  # input_ids, attention_mask and the like, (n, t) each
SUFFIXES = "", "_pair"  # of the names of first and second texts
SPECIAL = "special_tokens_mask"


class TokensToLogits(nn.Module):
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


class VectorsToLogits(nn.Module):
    """A head alone, from the vectors (n, w) that it learned from to logits (n, c)."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.assembly = classifier.head.module

    def forward(self, vectors: Tensor) -> Tensor:
        return self.assembly(states_of(vectors))


def inputs(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str] = ()
) -> dict[str, Tensor]:
    """What the file takes of texts, filled up to the longest of them, (n, t) each.

    Of pairs that are read apart, the names of the second side end in ``_pair``.
    """
    if classifier.backbone.is_given:
        return {"vectors": torch.as_tensor(texts)}
    return {
        name + suffix: numbers
        for side, suffix in zip(sides(classifier, texts, pairs), SUFFIXES, strict=False)
        for name, numbers in side.items()
    }


def sides(classifier: Classifier, texts: Sequence[str], pairs: Sequence[str]) -> list[Tokens]:
    """What `TokensToLogits` takes: texts or pairs as one sequence each, or two sides apart."""
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
    return "content" in classifier.head.module.reader.resolved.pooling.asks


def exported(whole: TokensToLogits, example: Sequence[Tokens]) -> Any:
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


def exported_head(head: VectorsToLogits, vectors: Tensor) -> Any:
    """Torch's ONNX program of a head alone, for any number of vectors."""
    with _quiet(), torch.no_grad():
        return torch.onnx.export(
            head.eval(),
            kwargs={"vectors": vectors},
            dynamic_shapes={"vectors": {0: "rows"}},
            input_names=["vectors"],
            output_names=["logits"],
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


PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MOST_BYTES = 2_000_000_000  # what one protobuf file can hold
MOST_DIFFERENCE = 1e-4
ANSWERS: Mapping[OutputActivation, tuple[str, ...]] = {
    "normalised_sigmoid": (
        "Each class is a yes-or-no question: its probability is its sigmoid's share of all.",
    ),
    "none": ("Its output is the number itself, under the name logits.",),
}
INSTEAD = "Write the self-contained folder instead."
USAGE = """\
import json

import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({tokenizer}, split_special_tokens=True)
session = onnxruntime.InferenceSession({file})
{given}
[logits] = session.run(["logits"], given)  # (texts, {classes})
{answer}
"""
USAGE_OF_VECTORS = """\
import json

import numpy
import onnxruntime

session = onnxruntime.InferenceSession({file})
vectors = numpy.zeros((2, {width}), dtype="float32")  # those of the model that it learned from
[logits] = session.run(["logits"], {{"vectors": vectors}})  # (rows, {classes})
{answer}
"""
CLASSES = """\
facts = session.get_modelmeta().custom_metadata_map
classes = json.loads(facts["classes"])
"""
ANSWER = CLASSES + "print([classes[number] for number in logits.argmax(axis=1)])"
CHOSEN = (
    CLASSES
    + """\
bars = json.loads(facts["thresholds"]) or 0
print([[name for name, yes in zip(classes, row > bars) if yes] for row in logits])"""
)
GIVEN = """\
tokens = tokenizer(
    {texts},
    {arguments},
)
given = {{one.name: tokens[one.name] for one in session.get_inputs()}}"""
GIVEN_APART = """\
names = {{one.name for one in session.get_inputs()}}
given = {{}}
for side, texts in (("", {texts}), ("{suffix}", {pairs})):
    tokens = tokenizer(
        texts,
        {arguments},
    )
    given |= {{name + side: tokens[name] for name in tokens if name + side in names}}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxReport(display.Displayed):
    """An ONNX file that has been written and checked.

    Attributes:
        path: Where it lies.
        size_bytes: Its size.
        inputs: The names of what it takes, (n, t) whole numbers each.
        texts: How many texts it was checked on, alone and in batches.
        difference: The most by which one of its logits differed from ours.
        usage: Python that runs it, without this package.
        notes: What one should know, a sentence each.
    """

    path: Path
    size_bytes: int
    inputs: tuple[str, ...]
    texts: int
    difference: float
    usage: str
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values: the answer of `heads export --onnx --json`."""
        return asdict(self) | {"path": str(self.path)}


def write_onnx(classifier: Classifier, path: Path) -> OnnxReport:
    """Writes a classifier as one ONNX file, in 32-bit floats, for any number of texts and tokens.

    Args:
        path: A file that ends in .onnx; one that is there already is replaced.

    Raises:
        HeadsError: A package is missing, or the file cannot stand there.
        LimitError: It is too large for one file.
        ModelError: The base model or a part does something that ONNX does not know.
        CheckpointError: onnxruntime gives other logits than we do; nothing is left of the file.
    """
    _check(classifier, path)
    with (
        writing(place_told(path)),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder,
    ):
        draft = Path(folder) / path.name
        _write(classifier, draft)
        names, texts, difference = _verified(classifier, draft)
        draft.replace(path)
    return OnnxReport(
        path=path,
        size_bytes=path.stat().st_size,
        inputs=names,
        texts=texts,
        difference=difference,
        usage=usage(classifier, path.name),
        notes=tuple(_notes(classifier)),
    )


def usage(classifier: Classifier, file: str, tokenizer: str = "") -> str:
    """A few lines of Python that run the file with onnxruntime and the base model's tokenizer.

    Args:
        tokenizer: The folder of the tokenizer; where it lies here, if not given.
    """
    backbone = classifier.backbone
    if backbone.is_given:
        return USAGE_OF_VECTORS.format(
            file=json.dumps(file),
            width=backbone.width,
            classes=len(classifier.classes),
            answer=_answer(classifier),
        )
    given = ["truncation=True", f"max_length={backbone.tokens}", 'return_tensors="np"']
    if asks_content(classifier):
        given.append("return_special_tokens_mask=True")
    filled = backbone.tokenizer.pad_token_id is not None and not backbone.reads_padding
    if filled:
        given += ["padding=True", 'padding_side="right"']
    head, apart = classifier.head, classifier.head.module.is_siamese
    texts = '["a text", "another, longer text"]' if filled else '["one text at a time"]'
    pairs = '["a second text", "one more"]' if filled else '["and its second"]'
    page = (GIVEN_APART if apart else GIVEN).format(
        texts=f"{texts},\n    {pairs}" if head.paired and not apart else texts,
        pairs=pairs,
        suffix=SUFFIXES[1],
        arguments=(",\n        " if apart else ",\n    ").join(given),
    )
    return USAGE.format(
        tokenizer=json.dumps(tokenizer or str(backbone.folder or hub_id(backbone))),
        file=json.dumps(file),
        given=page,
        classes=len(classifier.classes),
        answer=_answer(classifier),
    )


def _answer(classifier: Classifier) -> str:
    """The lines that make answers of logits."""
    activation = classifier.head.problem.output_activation
    return {"sigmoid": CHOSEN, "none": "print(logits)"}.get(activation, ANSWER)


def _check(classifier: Classifier, path: Path) -> None:
    """Raises what can be known beforehand."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        what = f"Writing ONNX needs {', '.join(missing)}, not installed here."
        raise HeadsError(what, f"Run: pip install {' '.join(PACKAGES)}")
    if path.suffix != ".onnx" or path.is_dir():
        raise DataError(f"{path} is no name for an ONNX file.", "Let it end in .onnx.")
    if classifier.backbone.written:
        what = f"{classifier.recipe} writes a prompt around every text, which ONNX does not hold."
        raise RecipeError(what, INSTEAD)
    if classifier.backbone.stride is not None:
        what = f"{classifier.recipe} reads long texts in windows, which ONNX does not hold."
        raise RecipeError(what, INSTEAD)
    backbone, head = classifier.backbone, classifier.head.module
    parts = [head] if backbone.is_given else [backbone.model, head]
    size = sum(t.numel() * t.element_size() for part in parts for t in part.state_dict().values())
    if size > MOST_BYTES:
        what = f"{base_name(classifier.backbone)} takes {size / 1e9:.1f} GB; "
        raise LimitError(what + f"one ONNX file holds {MOST_BYTES / 1e9:.0f} GB.", INSTEAD)


def _write(classifier: Classifier, path: Path) -> None:
    try:
        program = _program(classifier)
        program.model.metadata_props.update(_metadata(classifier))
        program.save(path, external_data=False)
    except OSError:  # it is the disk's
        raise
    except Exception as error:
        said = type(error.__cause__ or error).__name__
        name, recipe = base_name(classifier.backbone), classifier.recipe
        what = f"{recipe} on {name} does something that torch cannot write as ONNX ({said})."
        raise ModelError(what, INSTEAD) from error


def _program(classifier: Classifier) -> Any:
    """Torch's ONNX program of a classifier."""
    if given := example(classifier):
        return exported_head(VectorsToLogits(classifier), torch.as_tensor(given[0]))
    pairs = PAIRS[1:3] if classifier.head.module.is_siamese else ()
    tokens = sides(classifier, TEXTS[1:3], pairs)
    try:
        return exported(TokensToLogits(classifier, torch.long), tokens)
    except Exception:
        # XLNet takes its mask from 1.0, which the exporter understands of floats only.
        return exported(TokensToLogits(classifier, torch.float32), tokens)


def _metadata(classifier: Classifier) -> dict[str, str]:
    backbone, head = classifier.backbone, classifier.head
    return {
        "recipe": str(classifier.recipe),
        "classes": json.dumps(classifier.classes, ensure_ascii=False),
        "problem_type": head.problem.name,
        "output_activation": head.problem.output_activation,
        "thresholds": json.dumps(head.thresholds),
        "temperature": json.dumps(head.temperature),
        "base_model": base_name(backbone),
        "base_revision": backbone.revision,
        "tokens": str(backbone.tokens),
    }


def _verified(classifier: Classifier, path: Path) -> tuple[tuple[str, ...], int, float]:
    """Its inputs, how many texts it was tried on, and the largest difference from our logits."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # what fails is said by us
    try:
        session = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    except Exception as error:
        what = f"onnxruntime does not take the file ({first_line(error)})."
        raise CheckpointError(what, INSTEAD) from error

    def logits(texts: Sequence[str], pairs: Sequence[str]) -> Tensor:
        given = {name: one.numpy() for name, one in inputs(classifier, texts, pairs).items()}
        return torch.from_numpy(session.run(["logits"], given)[0])

    padded = not classifier.backbone.reads_padding
    count, difference = verify_logits(classifier, logits, most=MOST_DIFFERENCE, padded=padded)
    return tuple(one.name for one in session.get_inputs()), count, difference


def _notes(classifier: Classifier) -> Iterator[str]:
    backbone, head = classifier.backbone, classifier.head
    if head.module.is_siamese:
        yield f"It compares two texts: the inputs of the second ones end in {SUFFIXES[1]}."
    yield from ANSWERS.get(head.problem.output_activation, ())
    if head.thresholds:
        yield "A label applies where its logit is above its own one in the metadata 'thresholds'."
    if backbone.reads_padding:
        yield "This base model reads padding: give it texts of one length at a time."
    elif not backbone.is_given and backbone.tokenizer.pad_token_id is None:
        yield f"Its tokenizer has no padding token: one text at a time, or pad with {backbone.pad}."
    if backbone.stubborn:
        yield "What looks like a special token in a text counts as one here, unlike in our reading."
    if not backbone.separates and not backbone.is_given:
        yield "A second text comes after the first one and a line break."
