"""Options of the verbs: the signatures of Python, shell, page and endpoints follow from them.

An option is described once, at its field. Nothing here imports torch.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from heads.backbone.models import BUNDLED
from heads.data.samples import RECIPES
from heads.errors import RecipeError, did_you_mean
from heads.parts.resolved_recipe import FROZEN, JOINT, SOFTMAX
from heads.recipe import Recipe

Verb = TypeVar("Verb", bound=Callable[..., Any])
BASE_MODEL = "The base model: the bundled one, a Hub id, or (locally) a folder."
VECTOR_LABELS = (
    "The labels of vectors that have none beside them, one a row in the same order: a CSV, JSONL "
    "or .npy file, or a list or an array."
)


def option(default: Any, says: str, *, is_local: bool = False, is_switch: bool = False) -> Any:
    """Return a field with its description, from which flags and endpoints take theirs.

    Args:
        is_local: True if it may name a file of this machine, or is an object of Python: then no
            endpoint takes it.
        is_switch: True if the flag has no --no-FLAG beside it.
    """
    metadata = {"says": says, "is_local": is_local, "is_switch": is_switch}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of `heads.compare`: which heads are asked, and how they read two sentences."""

    recipes: Sequence[Recipe | str] = option(
        RECIPES,
        'The heads, such as mean+linear or cls+roberta; "own" is the head that a fine-tuned '
        "checkpoint came with.",
    )
    model: str = option(BUNDLED, BASE_MODEL)
    sample: str = option(
        "",
        "What the heads are trained on: sentiment, intents, pairs, aspects or similarity; the one "
        "that suits, if not given.",
    )
    run: str = option(
        "", "A run whose heads are asked instead; it has its own base model.", is_local=True
    )
    pairs: str = option(
        JOINT,
        "How two sentences enter, in recipes that do not say it: joint, as one sequence; siamese, "
        "each by itself; or a pairing by name, such as uv_diff.",
    )
    raw: bool = option(
        False, "Show logits and probabilities as trained, before calibration.", is_switch=True
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of `heads.train_grid`: which heads are trained on which base model.

    A list of one text may be given as that text.
    """

    recipes: Sequence[str] = option(
        (),
        "The heads, such as mean+linear or cls+roberta; own, the head that a fine-tuned model "
        "came with, is scored beside them and not trained.",
    )
    grid: str = option(
        "",
        "Instead of recipes: small, the default, or full; layers, each under a linear layer (of "
        "another pooling: layers:cls); heads, each on the mean (or heads:cls); poolings that are "
        "not learned, each under a linear layer (or poolings:mlp); tunes, the recipe mean+linear "
        "frozen and fine-tuned in four ways (or tunes:cls+roberta).",
    )
    pairs: Sequence[str] = option(
        (JOINT,),
        "How two texts enter: joint, as one sequence; siamese, each by itself; features, in all "
        "ways of putting two vectors together; or a pairing by name, such as uv_diff.",
    )
    losses: Sequence[str] = option(
        (SOFTMAX,),
        "What one class a row is learned by: softmax, ovr (one versus the rest), ordinal, hinge.",
    )
    tune: Sequence[str] = option(
        (FROZEN,),
        "What is learned of the base model besides the heads: frozen, nothing; last2, its last two "
        "layers; lora; full, everything; lpft, the head first and then everything; bitfit; "
        "layernorm; setfit, everything on pairs of texts and then the head (by the library of that "
        "name, pip install setfit). Each gives cells of its own, which are compared on the same "
        "rows.",
    )
    prefixes: Sequence[str] = option(
        (),
        'What is written before every text: a text such as "query: ", or the name of a prompt that '
        "the base model has; none for nothing. Each gives cells of its own.",
    )
    model: str = option(BUNDLED, BASE_MODEL)
    label_names: Sequence[str] | Mapping[str, str] = option(
        (),
        "Other names for the classes of own, such as neg, neu, pos for LABEL_0 and so on: in the "
        "order of its logits, or by the names that it has.",
    )

    def __post_init__(self) -> None:
        for name in ("recipes", "pairs", "losses", "tune", "prefixes"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if self.recipes and self.grid:
            raise RecipeError("Recipes are chosen, and a grid as well.", "Leave out one of them.")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of tables that a verb reads by itself; `heads.read` takes all there are."""

    group: str = option(
        "",
        "The column that says which rows belong together, such as their author: no split parts "
        "them.",
    )
    vectors: str = option(
        "",
        "The column of vectors to learn from in the place of texts, whichever engine made them; "
        "one is taken by itself where there are no texts. All heads then have one reading, as in "
        "vectors+linear, and no base model is loaded.",
    )
    labels: Any = option(None, VECTOR_LABELS)
    test_labels: Any = option(None, "The same of the test.")


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Which head is asked, and which columns it reads."""

    recipe: Any = option(
        "",
        "The head, such as mean+linear, or a classifier; the recommended one of a run, or the one "
        "that a fine-tuned model came with (own), if not given.",
    )
    run: str = option("", "A run whose head is asked; it has its own base model.")
    model: str = option(
        BUNDLED,
        "A fine-tuned or exported checkpoint whose head is asked, or the base model of a recipe: a "
        "Hub id, or (locally) a folder.",
    )
    sample: str = option(
        "",
        "What a recipe is trained on where no run is named: sentiment, intents, pairs, aspects or "
        "similarity.",
    )
    text: str = option(
        "",
        "The column of the texts; the one called as where the head learned, or else guessed, if "
        "not named.",
    )
    pair: str = option("", "The column of the second texts; likewise.")
    vectors: str = option(
        "", "The column of the vectors, where the head learned from vectors; likewise."
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(HeadOptions):
    """Options of `heads.predict` and `heads.evaluate`: which head, and how the file is read."""

    header: bool | None = option(
        None, "Whether the first line names the columns; found out, if not given.", is_local=True
    )


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What is written of an answer, and when there is none."""

    logits: bool = option(False, "Write every class's logit as well.")
    probabilities: bool = option(False, "Write every class's probability as well.")
    abstain_below: float = option(
        0.0,
        "Where one class applies: no answer where the head is less sure than that, its logits "
        "divided by its temperature.",
    )


@dataclass(frozen=True, kw_only=True)
class PredictOptions(AnswerOptions, FileOptions):
    """Options of `heads.predict`: which head answers, and what is written."""

    lines: bool = option(
        False, "Each line is one text, whatever characters it holds.", is_local=True
    )
    excel_safe: bool = option(
        False,
        "In CSV and TSV, put ' before every cell that a spreadsheet would run as a formula, in "
        "names, the file's own columns and ours; else all cells stay as they are.",
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(FileOptions):
    """Options of `heads.evaluate`: which head is scored, and which columns hold the labels."""

    label: str = option(
        "",
        "The column of the labels; the one called as where the head learned, or else the one that "
        "holds its classes, if not named.",
    )
    labels: Sequence[str] = option(
        (),
        "Columns of 0 and 1, one for each label; those called as the head's classes, if not named.",
    )
    labels_file: Any = option("", VECTOR_LABELS, is_local=True)
    separator: str | None = option(
        None,
        "The sign between labels in a cell, [] where cells are lists; found out, if not given.",
    )
    group: str = option(
        "",
        "The column that says which rows belong together, such as their author: they count as one "
        "piece of evidence.",
    )
    metric: str = option(
        "auto",
        "What the score is: accuracy, macro_f1, spearman and so on; auto: that of the run, or the "
        "usual one of such labels.",
    )
    label_names: Sequence[str] | Mapping[str, str] = option(
        (),
        "Other names for the classes of the head, such as neg, neu, pos for LABEL_0 and so on: in "
        "the order of its logits, or by the names that it has.",
    )


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `heads export`: where the head comes from, and the form in which it is written."""

    data: str = option(
        "", "What it is trained on, as heads read takes it; sentiment, if not given."
    )
    run: str = option("", "Take a head of this run instead.")
    model: str = option(BUNDLED, BASE_MODEL)
    library: str = option(
        "",
        "For what: transformers or sentence-transformers; transformers, if not given.",
    )
    onnx: bool = option(False, "Write one ONNX file instead.", is_switch=True)
    int8: bool = option(
        False,
        "Write the ONNX file in 8 bits, if it answers as the one in 32 bits does on the rows of "
        "the training; with own, on those of --data.",
        is_switch=True,
    )
    adapter: bool = option(
        False,
        "Write the adapter of a head trained with tune=lora instead, for PEFT.",
        is_switch=True,
    )
    raw: bool = option(
        False,
        "Leave its logits as trained, not divided by the temperature found on development rows.",
        is_switch=True,
    )
    refit: bool = option(
        True,
        "Train it again on all rows that are no test rows, with the settings chosen; else the "
        "head that was scored is written, which without a test set learned from some.",
    )


def merge_options(objects: Sequence[Any], changes: Mapping[str, Any]) -> list[Any]:
    """Return options objects with changed fields, each change in the object that has the field.

    Raises:
        TypeError: A change is a field of none of them.
    """
    names = [{field.name for field in fields(options)} for options in objects]
    for name in changes:
        if not any(name in known for known in names):
            hint = did_you_mean(name, set().union(*names))
            raise TypeError(f"There is no argument '{name}'. {hint}".rstrip())
    return [
        replace(options, **{name: changes[name] for name in changes if name in known})
        for options, known in zip(objects, names, strict=True)
    ]


def takes_options(*kinds: Any) -> Callable[[Verb], Verb]:
    """Show the fields of options classes as keyword arguments of a function.

    The function takes them as ``**changes``. Its signature and its docstring then name each of
    them, as if they were written out.
    """
    options = [field for kind in kinds for field in fields(kind)]

    def complete(verb: Verb) -> Verb:
        signature = inspect.signature(verb)
        *parameters, _ = signature.parameters.values()  # the last one is **changes
        for field in options:
            kind = inspect.Parameter.KEYWORD_ONLY
            settings = {"default": field.default, "annotation": field.type}
            parameters.append(inspect.Parameter(field.name, kind, **settings))
        verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        lines = [f"        {field.name}: {field.metadata['says']}" for field in options]
        before, mark, after = (verb.__doc__ or "").partition("\n\n    Returns:")
        verb.__doc__ = "\n".join([before, *lines]) + mark + after
        return verb

    return complete
