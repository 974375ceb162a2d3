"""Write a classifier as one ONNX file: base model, pooling and head, token numbers to logits.

The file is kept only if onnxruntime gives the logits that we give.
Legend: n texts, t tokens, c classes.
"""

import importlib.util
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heads import display
from heads.backbone.backbone import Backbone
from heads.backbone.states import States, states_of
from heads.caching import place_told, writing
from heads.classifier.classifier import Classifier
from heads.classifier.head_model import find_special_token_ids
from heads.classifier.inputs import sides_of
from heads.classifier.module import RecipeModule
from heads.errors import CheckpointError, DataError, HeadsError, LimitError, ModelError, RecipeError
from heads.exporters.model_card import base_name, hub_id
from heads.exporters.verification import PAIRS, TEXTS, example, first_line, verify_logits
from heads.problem import OutputActivation

Tokens = dict[str, Tensor]  # input_ids, attention_mask and the like, (n, t) each
SUFFIXES = "", "_pair"  # of the names of first and second texts
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MOST_BYTES = 2_000_000_000  # what one protobuf file can hold
MOST_DIFFERENCE = 1e-4
INSTEAD = "Write a Transformers folder instead."
ANSWERS: Mapping[OutputActivation, tuple[str, ...]] = {
    "normalised_sigmoid": (
        "Each class is a yes-or-no question: its probability is its sigmoid's share of all.",
    ),
    "none": ("Its output is the number itself, under the name logits.",),
}
USAGE = """\
import json

{imports}

session = onnxruntime.InferenceSession({file})
{inputs}
[logits] = session.run(["logits"], inputs)  # (n, {classes})
{answer}
"""
READ_TEXTS = """\
tokenizer = AutoTokenizer.from_pretrained({tokenizer}, split_special_tokens=True)
options = {options}
tokens = dict(tokenizer({texts}, **options))
inputs = {{value.name: tokens[value.name] for value in session.get_inputs()}}"""
READ_SECOND_TEXTS = """\
second = tokenizer({pairs}, **options)
tokens |= {{f"{{name}}{suffix}": values for name, values in second.items()}}
inputs ="""
READ_VECTORS = """\
vectors = numpy.zeros((2, {width}), dtype="float32")  # from the model that it was trained on
inputs = {{"vectors": vectors}}"""
NAME_CLASSES = """\
facts = session.get_modelmeta().custom_metadata_map
classes = json.loads(facts["classes"])
"""
LARGEST = "print([classes[number] for number in logits.argmax(axis=1)])"
ALL_ABOVE = """\
thresholds = json.loads(facts["thresholds"]) or 0
print([[name for name, yes in zip(classes, row > thresholds) if yes] for row in logits])"""


class TokensToLogits(nn.Module):
    """A classifier from token numbers (n, t) to logits (n, c).

    Args:
        mask_type: The type of the mask that the base model takes.
    """

    def __init__(self, backbone: Backbone, head: RecipeModule, mask_type: torch.dtype) -> None:
        super().__init__()
        self.backbone = backbone
        self.model: nn.Module = backbone.model
        self.head = head
        self.mask_type = mask_type
        self.special = nn.Buffer(torch.tensor(find_special_token_ids(backbone) or [-1]))

    def forward(self, first: Tokens, second: Tokens | None = None) -> Tensor:
        """Return logits of texts, or of pairs whose two texts are encoded separately."""
        sides = [first] if second is None else [first, second]
        return self.head(*map(self.encode, sides))

    def encode(self, tokens: Tokens) -> States:
        """Return the states of texts."""
        numbers, mask = tokens["input_ids"], tokens["attention_mask"]
        output = self.backbone.run(tokens | {"attention_mask": mask.to(self.mask_type)})
        special = (numbers[..., None] == self.special).any(dim=-1)  # isin has no ONNX
        return self.backbone.build_states(output, numbers, mask, special)


class VectorsToLogits(nn.Module):
    """A head that was trained on vectors: vectors (n, w) to logits (n, c)."""

    def __init__(self, head: RecipeModule) -> None:
        super().__init__()
        self.head = head

    def forward(self, vectors: Tensor) -> Tensor:
        return self.head(states_of(vectors))


def inputs(
    classifier: Classifier, texts: Sequence[str], pairs: Sequence[str] = ()
) -> dict[str, Tensor]:
    """Return the inputs of the file for texts, padded to the longest of them, (n, t) each.

    Where the two texts of a pair are encoded separately, names of the second end in ``_pair``.
    """
    if classifier.backbone.is_given:
        return {"vectors": torch.as_tensor(texts)}
    return {
        name + suffix: numbers
        for side, suffix in zip(tokenize(classifier, texts, pairs), SUFFIXES, strict=False)
        for name, numbers in side.items()
    }


def tokenize(classifier: Classifier, texts: Sequence[str], pairs: Sequence[str]) -> list[Tokens]:
    """Return the tokens of texts or pairs; of pairs that are encoded separately, of both sides."""
    backbone, sides = classifier.backbone, sides_of(classifier.head.module, texts, pairs)
    return [backbone.filled(backbone.encode(*side)) for side in sides]


def export_module(module: nn.Module, inputs: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return torch's ONNX program of a module, for any number of rows and tokens.

    Args:
        inputs: Example arguments: tensors, or dictionaries of them for each side of a pair.
    """
    sides = dict(zip(inputs, SUFFIXES, strict=False))
    shapes = {
        name: {key: {0: "texts", 1: f"tokens{sides[name]}"} for key in values}
        if isinstance(values, dict)
        else {0: "rows"}
        for name, values in inputs.items()
    }
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of what torch itself will change
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.onnx.export(
                module.eval(),
                kwargs=dict(inputs),
                dynamic_shapes=shapes,
                input_names=list(names),
                output_names=["logits"],
                custom_translation_table={torch.ops.aten.sort.stable: _sort},
                dynamo=True,
                verbose=False,
            )
    finally:
        logger.setLevel(level)


def _sort(tensor: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """Translate `torch.sort(stable=True)`, which the exporter lacks: TopK keeps equals in order."""
    from onnxscript import opset18

    onnx: Any = opset18  # its types do not know operators that follow one another
    size = onnx.Gather(onnx.Shape(tensor), onnx.Constant(value_ints=[dim]))
    return onnx.TopK(tensor, size, axis=dim, largest=int(descending))


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Comparison:
    """An 8-bit ONNX file beside the 32-bit file that it was made from (``_float``).

    Attributes:
        is_training_data: Whether the head was trained on these rows.
        accuracy: The share of rows whose class, or whose whole set of labels, is right.
        agreement: The share of rows that both answer alike.
        largest_change: The largest change of a probability.
        milliseconds: The median time of so many texts, by their number.
    """

    rows: int
    is_training_data: bool
    accuracy: float
    accuracy_float: float
    agreement: float
    largest_change: float
    milliseconds: Mapping[int, float]
    milliseconds_float: Mapping[int, float]
    size_bytes: int
    size_bytes_float: int

    def sentences(self) -> Iterator[str]:
        """Yield what the comparison shows, one sentence each."""
        yield (
            f"8 bits against 32, on {self.rows:,} rows: {self.agreement:.2%} equal answers,"
            f" accuracy {self.accuracy:.2%} against {self.accuracy_float:.2%}, probabilities up to"
            f" {self.largest_change:.3f} apart."
        )
        if self.is_training_data:
            yield "The head was trained on these rows: on others fewer answers may be equal."
        sizes = self.size_bytes / 1e6, self.size_bytes_float / 1e6
        times = [
            f"{time:.1f} against {self.milliseconds_float[size]:.1f} ms for {size} at once"
            for size, time in self.milliseconds.items()
        ]
        yield f"{sizes[0]:.0f} against {sizes[1]:.0f} MB; {', '.join(times)}."
        is_slower = any(
            self.milliseconds[n] >= self.milliseconds_float[n] for n in self.milliseconds
        )
        if is_slower or sizes[0] >= sizes[1]:
            yield "It is not faster or not smaller here: the 32-bit file may serve you better."


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxReport(display.Displayed):
    """An ONNX file that has been written and checked.

    Attributes:
        inputs: The names of its inputs, (n, t) whole numbers each.
        texts: The number of texts that it was checked on, alone and in batches.
        difference: The largest difference of a logit from ours; of a file in 8 bits, that of the
            32-bit file that it was made from.
        usage: Python that runs it, without this package.
        notes: What one should know, one sentence each.
        int8: A comparison with the 32-bit file, where this one has 8 bits.
    """

    path: Path
    size_bytes: int
    inputs: tuple[str, ...]
    texts: int
    difference: float
    usage: str
    notes: tuple[str, ...]
    int8: Int8Comparison | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values: the answer of `heads export --onnx --json`."""
        return asdict(self) | {"path": str(self.path)}


def write_onnx(classifier: Classifier, path: Path) -> OnnxReport:
    """Write a classifier as one ONNX file, in 32-bit floats, for any number of texts and tokens.

    Args:
        path: A file that ends in .onnx; an existing one is replaced.

    Raises:
        HeadsError: A package is missing, or the file cannot be written.
        LimitError: The model is too large for one file.
        ModelError: The base model or a part does something that ONNX does not know.
        CheckpointError: onnxruntime gives other logits than we do; the file is not kept.
    """
    check_onnx(classifier, path)
    with (
        writing(place_told(path)),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder,
    ):
        draft = Path(folder) / path.name
        write_file(classifier, draft)
        session = open_session(draft)
        texts, difference = verify_logits(
            classifier,
            lambda texts, pairs: run_session(session, inputs(classifier, texts, pairs)),
            most=MOST_DIFFERENCE,
            padded=not classifier.backbone.reads_padding,
        )
        draft.replace(path)
    return OnnxReport(
        path=path,
        size_bytes=path.stat().st_size,
        inputs=tuple(value.name for value in session.get_inputs()),
        texts=texts,
        difference=difference,
        usage=usage(classifier, path.name),
        notes=tuple(_notes(classifier)),
    )


def usage(classifier: Classifier, file: str, tokenizer: str = "") -> str:
    """Return Python that runs the file with onnxruntime and the base model's tokenizer.

    Args:
        tokenizer: The folder of the tokenizer. Default: where the base model was loaded from.
    """
    backbone, head = classifier.backbone, classifier.head
    if backbone.is_given:
        imports, lines = "import numpy\nimport onnxruntime", READ_VECTORS
    else:
        imports, lines = "import onnxruntime\nfrom transformers import AutoTokenizer", READ_TEXTS
    if head.module.is_siamese:
        lines = lines.replace("inputs =", READ_SECOND_TEXTS)
    options = f'truncation=True, max_length={backbone.tokens}, return_tensors="np"'
    texts, pairs = '["one text at a time"]', '["and its second"]'
    if pads(classifier):
        options += ', padding=True, padding_side="right"'
        texts, pairs = '["a text", "another, longer text"]', '["a second text", "one more"]'
    read = lines.format(
        tokenizer=json.dumps(tokenizer or str(backbone.folder or hub_id(backbone))),
        options=f"dict({options})",
        texts=f"{texts}, {pairs}" if head.paired and not head.module.is_siamese else texts,
        pairs=pairs,
        suffix=SUFFIXES[1],
        width=backbone.width,
    )
    answer = {"sigmoid": NAME_CLASSES + ALL_ABOVE, "none": "print(logits)"}
    return USAGE.format(
        imports=imports,
        file=json.dumps(file),
        inputs=read,
        classes=len(classifier.classes),
        answer=answer.get(head.problem.output_activation, NAME_CLASSES + LARGEST),
    )


def pads(classifier: Classifier) -> bool:
    """Return True if texts of different lengths may be given in one batch."""
    backbone = classifier.backbone
    has_padding = backbone.is_given or backbone.tokenizer.pad_token_id is not None
    return has_padding and not backbone.reads_padding


def check_onnx(classifier: Classifier, path: Path) -> None:
    """Raise HeadsError for a classifier or a file name that cannot become an ONNX file."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        what = f"Writing ONNX needs {', '.join(missing)}, not installed here."
        raise HeadsError(what, f"Run: pip install {' '.join(PACKAGES)}")
    if path.suffix != ".onnx" or path.is_dir():
        raise DataError(f"{path} is no name for an ONNX file.", "Let it end in .onnx.")
    backbone, head = classifier.backbone, classifier.head.module
    if backbone.written or backbone.stride is not None:
        reason = "writes a prompt around every text" if backbone.written else "reads windows"
        raise RecipeError(f"{classifier.recipe} {reason}, which ONNX does not hold.", INSTEAD)
    parts = [head] if backbone.is_given else [backbone.model, head]
    size = sum(t.numel() * t.element_size() for part in parts for t in part.state_dict().values())
    if size > MOST_BYTES:
        what = f"{base_name(classifier.backbone)} takes {size / 1e9:.1f} GB; "
        raise LimitError(what + f"one ONNX file holds {MOST_BYTES / 1e9:.0f} GB.", INSTEAD)


def write_file(classifier: Classifier, path: Path, backbone: Backbone | None = None) -> None:
    """Write a classifier as ONNX, with another base model if given, without checking it."""
    try:
        program = _build_program(classifier, backbone or classifier.backbone)
        precision = {"precision": "int8" if backbone else "float32"}
        program.model.metadata_props.update(_metadata(classifier) | precision)
        program.save(path, external_data=False)
    except OSError:  # of the disk
        raise
    except Exception as error:
        cause = type(error.__cause__ or error).__name__
        name, recipe = base_name(classifier.backbone), classifier.recipe
        what = f"{recipe} on {name} does something that torch cannot write as ONNX ({cause})."
        raise ModelError(what, INSTEAD) from error


def _build_program(classifier: Classifier, backbone: Backbone) -> Any:
    head = classifier.head.module
    if batch := example(classifier):
        vectors = {"vectors": torch.as_tensor(batch[0])}
        return export_module(VectorsToLogits(head), vectors, [*vectors])
    pairs = PAIRS[1:3] if head.is_siamese else ()
    names = [*inputs(classifier, TEXTS[1:3], pairs)]
    sides: dict[str, Tokens] = dict(
        zip(("first", "second"), tokenize(classifier, TEXTS[1:3], pairs), strict=False)
    )
    try:
        return export_module(TokensToLogits(backbone, head, torch.long), sides, names)
    except Exception:
        # XLNet computes 1.0 - mask, which the exporter understands of floats only.
        return export_module(TokensToLogits(backbone, head, torch.float32), sides, names)


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


def open_session(model: Path | bytes) -> Any:
    """Open a model in onnxruntime on the CPU, without logs, or raise CheckpointError."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, settings, ["CPUExecutionProvider"])
    except Exception as error:
        what = f"onnxruntime does not load the file ({first_line(error)})."
        raise CheckpointError(what, INSTEAD) from error


def run_session(session: Any, tokens: Tokens) -> Tensor:
    """Return the logits of a session, (n, c)."""
    inputs = {name: numbers.numpy() for name, numbers in tokens.items()}
    return torch.from_numpy(session.run(["logits"], inputs)[0])


def _notes(classifier: Classifier) -> Iterator[str]:
    backbone, head = classifier.backbone, classifier.head
    if head.module.is_siamese:
        yield f"It compares two texts: the inputs of the second end in {SUFFIXES[1]}."
    yield from ANSWERS.get(head.problem.output_activation, ())
    if head.thresholds:
        yield "A label applies where its logit is above its threshold in the metadata 'thresholds'."
    if backbone.reads_padding:
        yield "This base model reads padding: give it texts of one length at a time."
    elif not backbone.is_given and backbone.tokenizer.pad_token_id is None:
        yield f"Its tokenizer has no padding token: one text at a time, or pad with {backbone.pad}."
    if backbone.stubborn:
        yield "Words that look like special tokens count as such here, unlike in Head to Head."
    if not backbone.separates and not backbone.is_given:
        yield "A second text comes after the first one and a line break."
