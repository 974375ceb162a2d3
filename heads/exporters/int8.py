"""Write a classifier as an ONNX file whose dense layers have 8 bits, if it answers alike.

Static quantisation: the inputs of the base model's dense layers become uint8 by ranges that are
measured on calibration rows, their weights int8 with one scale per output. Attention, pooling and
head stay in 32 bits; plain embeddings are stored in 16.
Legend: n texts, c classes, w inputs of a layer, k outputs.
"""

import copy
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from heads.backbone.backbone import Backbone
from heads.caching import place_told, writing
from heads.classifier.classifier import Classifier
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.exporters import onnx

CALIBRATION_ROWS, MOST_ROWS = 128, 2_048  # that set the ranges, and that are compared, at most
LEAST_ROWS = 100  # fewer cannot show 99 % of equal answers
BATCH, REPEATS = 32, 20  # of timings
LEAST_AGREEMENT, MOST_LOSS = 0.99, 0.01
LEVELS = ((8, True), (32, True), (32, False))  # float columns; whether narrowing layers are int8
SMOOTHING = 0.7  # how far weights take over the ranges of their inputs: alpha of SmoothQuant
RANGE = 0.9  # share of the measured range that 8 bits cover: values beyond it are clipped
INSTEAD = "Write the 32-bit file instead."
NOTE = "It was compared on this processor; one without 8-bit dot products (VNNI) may round more."
Rows = tuple[list[str], list[str], Tensor]  # texts, second texts or none, targets
Ranges = dict[str, tuple[Tensor, Tensor]]  # smallest and largest of each input, (w,) each


def write_int8(
    classifier: Classifier, path: Path, corpus: Corpus, *, most_loss: float = MOST_LOSS
) -> onnx.OnnxReport:
    """Write a classifier as one ONNX file with 8-bit dense layers and 16-bit embeddings.

    128 rows set the ranges, and up to 2,048 others are compared with the 32-bit file. A file must
    answer 99 % of them as the 32-bit one does, whatever loss is allowed. If it does not, more stays
    in 32 bits: first more columns of large values, then all layers with fewer outputs than inputs.

    Args:
        path: A file that ends in .onnx; an existing one is replaced.
        corpus: Labelled rows, such as those that the head was trained on.
        most_loss: The largest loss of accuracy, as a share of the rows.

    Raises:
        HeadsError: As `write_onnx`.
        RecipeError: The head was trained on vectors, is a regression, or no layer can be quantised.
        CheckpointError: The file answers otherwise at every level; it is not kept.
    """
    onnx.check_onnx(classifier, path)
    if not hasattr(torch.onnx, "ops"):
        raise HeadsError("8 bits need torch 2.8 or newer.", f"Update torch. {INSTEAD}")
    if not 0 <= most_loss <= 1:
        raise RecipeError(f"most_loss={most_loss} is no share.", "Write 0.01 for one point.")
    calibration, rows, notes = _split_rows(classifier, corpus)
    with (
        writing(place_told(path)),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder,
    ):
        source, draft = Path(folder) / path.name, Path(folder) / f"int8-{path.name}"
        report = onnx.write_onnx(classifier, source)
        ranges = _measure_ranges(classifier, calibration)
        if not ranges:
            what = f"The base model of {classifier.recipe} has no dense layers to quantise."
            raise RecipeError(what, INSTEAD)
        logits, attempts = _run(source, classifier, rows), []
        for level in LEVELS:
            onnx.write_file(classifier, draft, _quantise(classifier.backbone, ranges, *level))
            figures = _compare(classifier, _run(draft, classifier, rows), logits, rows)
            attempts.append(figures)
            loss = figures["accuracy_float"] - figures["accuracy"]
            if figures["agreement"] >= LEAST_AGREEMENT and loss <= most_loss:
                break
        else:
            best = max(attempts, key=lambda figures: figures["agreement"])
            what = (
                f"In 8 bits {best['agreement']:.2%} of {len(rows[0])} answers are those of 32 bits"
            )
            what += f" and accuracy is {best['accuracy']:.2%}, not {best['accuracy_float']:.2%}; at"
            what += (
                f" least {LEAST_AGREEMENT:.0%} and a loss of at most {most_loss:.2%} are needed."
            )
            raise CheckpointError(what, INSTEAD)
        slow, fast = _time([source, draft], classifier, rows)
        comparison = onnx.Int8Comparison(
            rows=len(rows[0]),
            is_training_data=corpus is classifier.corpus and "test" not in corpus.parts,
            milliseconds=fast,
            milliseconds_float=slow,
            size_bytes=draft.stat().st_size,
            size_bytes_float=report.size_bytes,
            **attempts[-1],
        )
        draft.replace(path)
    notes = (*report.notes, *comparison.sentences(), *notes, NOTE)
    sizes = {"size_bytes": comparison.size_bytes, "int8": comparison}
    return replace(report, path=path, notes=notes, **sizes)


def _split_rows(classifier: Classifier, corpus: Corpus) -> tuple[Rows, Rows, list[str]]:
    """Return rows that set the ranges, rows to compare on, and notes on them.

    Test rows are compared, and the others set the ranges. Without a test set both are drawn from
    all rows. Rows with labels that the head does not know are left out; too few are a RecipeError.
    """
    problem, names = classifier.head.problem, {n: i for i, n in enumerate(classifier.classes)}
    if classifier.backbone.is_given or problem.gives_number:
        what = (
            f"{classifier.recipe} gives numbers or takes vectors; 8 bits are for classes of texts."
        )
        raise RecipeError(what, INSTEAD)
    needs_pairs = classifier.head.needs_pairs
    labels = [[names.get(corpus.classes[label], -1) for label in row] for row in corpus.targets]
    usable = [
        row
        for row in np.random.default_rng(0).permutation(len(labels)).tolist()
        if min(labels[row], default=0) >= 0 and (len(labels[row]) == 1 or problem.has_label_sets)
    ]
    if len(usable) < LEAST_ROWS or (needs_pairs and not corpus.pairs):
        kind = "pairs of texts" if needs_pairs else "texts"
        what = f"{corpus.name} has {len(usable)} rows with {kind} and labels that the head knows."
        raise RecipeError(what, f"Give {LEAST_ROWS} or more. {INSTEAD}")
    notes = []
    if left_out := len(labels) - len(usable):
        notes.append(
            f"{left_out:,} rows have labels that the head does not know: they are left out."
        )
    test = [row for row in usable if corpus.parts and corpus.parts[row] == "test"]
    if test:
        others = [row for row in usable if corpus.parts[row] != "test"]
    elif len(usable) >= 2 * CALIBRATION_ROWS:
        others, test = usable[:CALIBRATION_ROWS], usable[CALIBRATION_ROWS:]
    else:
        notes.append(f"With fewer than {2 * CALIBRATION_ROWS} rows the same ones set the ranges.")
        others, test = usable, usable

    def select(rows: Sequence[int]) -> Rows:
        targets = problem.targets([labels[row] for row in rows], (), len(names))
        pairs = [corpus.pairs[row] for row in rows] if needs_pairs else []
        return [corpus.texts[row] for row in rows], pairs, targets

    return select(others[:CALIBRATION_ROWS]), select(test[:MOST_ROWS]), notes


def _batches(rows: Rows, size: int) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    texts, pairs, _ = rows
    for start in range(0, len(texts), size):
        yield texts[start : start + size], pairs[start : start + size]


def _run(path: Path, classifier: Classifier, rows: Rows) -> Tensor:
    session, size = onnx.open_session(path), BATCH if onnx.pads(classifier) else 1
    batches = (onnx.inputs(classifier, *batch) for batch in _batches(rows, size))
    return torch.cat([onnx.run_session(session, tokens) for tokens in batches])


def _compare(classifier: Classifier, logits: Tensor, full: Tensor, rows: Rows) -> dict[str, Any]:
    """Return accuracies, agreement and largest change of logits in 8 and in 32 bits, (n, c)."""
    head, problem = classifier.head, classifier.head.problem
    truth = problem.target_matrix(rows[2], logits.shape[1]).bool()
    answers, answers_full = (problem.chosen(t, head.thresholds) for t in (logits, full))
    new, old = (problem.probabilities(t, head.temperature) for t in (logits, full))
    if not new.isfinite().all():
        answers = torch.zeros_like(answers)  # NaN has no answer
    return {
        "accuracy": float((answers == truth).all(dim=1).double().mean()),
        "accuracy_float": float((answers_full == truth).all(dim=1).double().mean()),
        "agreement": float((answers == answers_full).all(dim=1).double().mean()),
        "largest_change": float((new - old).abs().max()),
    }


def _time(paths: Sequence[Path], classifier: Classifier, rows: Rows) -> list[dict[int, float]]:
    """Return the median milliseconds of each file by the number of texts, taken in turns."""
    sessions, medians = [*map(onnx.open_session, paths)], [{} for _ in paths]
    for size in (1, BATCH) if onnx.pads(classifier) else (1,):
        texts, pairs, targets = rows  # repeated where they are fewer than a batch
        batches = islice(_batches((texts * size, pairs * size, targets), size), REPEATS)
        batches = [onnx.inputs(classifier, *batch) for batch in batches]
        times = np.zeros((REPEATS + 1, len(sessions)))  # the first warms up
        for repeat, column in np.ndindex(times.shape):
            start = time.perf_counter()
            onnx.run_session(sessions[column], batches[repeat % len(batches)])
            times[repeat, column] = 1000 * (time.perf_counter() - start)
        for median, milliseconds in zip(medians, np.median(times[1:], axis=0), strict=True):
            median[size] = float(milliseconds)
    return medians


# --- The base model.


def _measure_ranges(classifier: Classifier, rows: Rows) -> Ranges:
    """Return the smallest and largest value of each input of the base model's dense layers."""
    ranges: Ranges = {}
    backbone = replace(classifier.backbone, model=copy.deepcopy(classifier.backbone.model))

    def measure(name: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not inputs or not inputs[0].numel():  # an expert without tokens
            return
        low, high = inputs[0].flatten(0, -2).aminmax(dim=0)  # (w,) each
        if name in ranges:
            low, high = torch.minimum(low, ranges[name][0]), torch.maximum(high, ranges[name][1])
        ranges[name] = low, high

    for name, layer in backbone.model.named_modules():
        if isinstance(layer, (nn.Linear, Conv1D)) and "pooler" not in name:
            layer.register_forward_pre_hook(partial(measure, name))
    model = onnx.TokensToLogits(backbone, classifier.head.module, torch.long)
    with torch.inference_mode():
        for batch in _batches(rows, 1):
            model(*onnx.tokenize(classifier, *batch))
    return ranges


def _quantise(backbone: Backbone, ranges: Ranges, columns: int, narrowing: bool) -> Backbone:
    """Return a base model with dense layers in 8 bits and embeddings stored in 16."""
    model = copy.deepcopy(backbone.model)
    groups: dict[bytes, list[str]] = {}
    for name, ends in ranges.items():
        # Layers with one input, such as queries and keys, have equal ranges: they share its scale.
        groups.setdefault(torch.stack(ends).numpy().tobytes(), []).append(name)
    for names in groups.values():
        layers: list[Any] = [model.get_submodule(name) for name in names]
        matrices = [layer.weight.detach() for layer in layers]
        weights = [
            matrix.T if isinstance(layer, Conv1D) else matrix  # (k, w)
            for layer, matrix in zip(layers, matrices, strict=True)
        ]
        heaviest = torch.cat(weights).abs().amax(dim=0)  # (w,)
        for name, layer, weight in zip(names, layers, weights, strict=True):
            if narrowing or weight.shape[1] <= weight.shape[0]:
                new = Int8Linear(weight, layer.bias, heaviest, *ranges[name], columns)
                model.set_submodule(name, new)
    tables: dict[int, HalfEmbedding] = {}  # models share a table under several names
    for name, layer in [*model.named_modules(remove_duplicate=False)]:
        if type(layer) is nn.Embedding:
            table = tables.setdefault(id(layer), HalfEmbedding(layer.weight.detach()))
            model.set_submodule(name, table)
    return replace(backbone, model=model)


class HalfEmbedding(nn.Module):
    """An embedding whose table has 16 bits."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.table = nn.Buffer(weight.half())

    @property
    def weight(self) -> Tensor:
        """Return the table in 32 bits, for models that multiply by it, such as DeBERTa."""
        return self.table.float()

    def forward(self, numbers: Tensor) -> Tensor:
        return nn.functional.embedding(numbers, self.table).float()


class Int8Linear(nn.Module):
    """A dense layer (…, w) to (…, k) as ONNX operators: uint8 inputs, int8 weights.

    The columns of the largest values are multiplied in floats, as they would stretch the 256 steps
    that all columns share. The others are divided by a scale that their weights are multiplied by.

    Source: Dettmers et al. (2022), LLM.int8(); Xiao et al. (2023), SmoothQuant.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        heaviest: Tensor,
        low: Tensor,
        high: Tensor,
        columns: int,
    ) -> None:
        super().__init__()
        largest = torch.maximum(-low, high).clamp(min=1e-5)  # (w,)
        heaviest = heaviest.clamp(min=1e-5)
        scale = largest**SMOOTHING / heaviest ** (1 - SMOOTHING)
        large = (largest * heaviest).topk(min(columns, len(scale) // 4)).indices.sort().values
        is_small = torch.ones_like(scale).index_fill(0, large, 0.0).bool()
        least = RANGE * (low / scale)[is_small].min().clamp(max=0)
        step = ((RANGE * (high / scale)[is_small].max() - least) / 255).clamp(min=1e-12)
        rows = weight * scale * is_small  # (k, w)
        scales = (rows.abs().amax(dim=1) / 127).clamp(min=1e-12)  # (k,)
        self.bias = bias
        self.inverse = nn.Buffer(1 / scale)
        self.large = nn.Buffer(large)
        self.exact = nn.Buffer(weight[:, large].T.contiguous())
        self.step = nn.Buffer(step)
        self.zero = nn.Buffer((-least / step).round().clamp(0, 255).to(torch.uint8))
        self.weight = nn.Buffer((rows / scales[:, None]).round().to(torch.int8).T)
        self.scales = nn.Buffer(scales)
        self.zeros = nn.Buffer(torch.zeros_like(scales, dtype=torch.int8))

    def forward(self, values: Tensor) -> Tensor:
        narrow = _node("QuantizeLinear", values * self.inverse, self.step, self.zero)
        wide = _node("DequantizeLinear", narrow, self.step, self.zero)
        matrix = _node("DequantizeLinear", self.weight, self.scales, self.zeros, axis=1)
        # einsum and index_select would become other operators than MatMul and Gather.
        product = wide @ matrix + values[..., self.large] @ self.exact
        return product if self.bias is None else product + self.bias


def _node(name: str, values: Tensor, *parameters: Tensor, **attributes: Any) -> Tensor:
    """Return an operator of ONNX, which computes nothing before it is exported."""
    kind = torch.uint8 if name == "QuantizeLinear" else torch.float32
    tensors = (values, *parameters)
    return torch.onnx.ops.symbolic(name, tensors, attributes, dtype=kind, shape=values.shape)
