"""The one face: every public function of Head to Head, with its docstring.

The shell and the page call them too, and draw the sentences of their flags and endpoints from
these docstrings. So nothing here imports torch before a function is called: a command's help and
the page's menus are there at once. What a function does stands in the rooms below.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads import plugins
from heads.backbone.models import BUNDLED
from heads.data.columns import fitting, guess
from heads.data.dataset import Data, corpus_of, data_of
from heads.data.frames import Frame
from heads.data.samples import SAMPLES, TEXT
from heads.data.sources import open_source
from heads.data.table import ColumnHints, Columns
from heads.errors import DataError, LimitError
from heads.events import Progress, result
from heads.interpret.attribution_result import OTHERS, Attribution
from heads.options import (
    CompareOptions,
    EvaluateOptions,
    PredictOptions,
    TableOptions,
    TrainOptions,
    merge_options,
    takes_options,
)
from heads.recipe import Recipe
from heads.settings import ExperimentConfig, current_limits

if TYPE_CHECKING:
    from heads.catalog.catalog import Catalogue
    from heads.classifier.classifier import Classifier
    from heads.classifier.head_model import HeadForSequenceClassification, TransformersProblem
    from heads.data.corpus import Corpus
    from heads.exporters.export import Exported
    from heads.exporters.onnx import OnnxReport
    from heads.inference.evaluate import FileScores
    from heads.inference.predict import FileAnswers
    from heads.inference.selection import Named, SelectedHeads
    from heads.interpret.ablation import Ablation
    from heads.interpret.comparison import Comparison
    from heads.interpret.counterfactuals import Counterfactuals
    from heads.interpret.explanation import Explanation
    from heads.interpret.neighbors import Neighbourhood
    from heads.interpret.outputs import Reading
    from heads.interpret.padding.report import PaddingReport
    from heads.runs.leaderboard import Leaderboard
    from heads.training.scheduler import Scheduler

__all__ = [
    "Inspector",
    "calibrated",
    "catalogue",
    "compare",
    "difference",
    "evaluate",
    "examine",
    "explain",
    "export",
    "export_onnx",
    "load",
    "predict",
    "read",
    "resume",
    "train",
    "train_grid",
    "training",
]

HERE = "here"  # where work is done, where no other place is named


# --- One or two sentences under several heads.


@takes_options(CompareOptions)
def compare(
    text: str, pair: str = "", *, options: CompareOptions | None = None, **changes: Any
) -> Comparison:
    """Compares heads on one or two sentences: every logit and probability, side by side.

    A recipe that has not been trained on the sample yet is trained first, which takes
    seconds; after that it is kept.

    Args:
        text: The sentence.
        pair: A second sentence.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        Logits and probabilities of every class under every recipe: `.predictions`, `.verdict`,
        `.to_pandas()`, `.plot()`.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    from heads.interpret.comparison import iter_comparison

    (chosen,) = merge_options((options or CompareOptions(),), changes)
    return _last(iter_comparison(text, pair, chosen)).comparison


def _last(events: Iterable[Any]) -> Any:
    """Return the last event of a stream, which is its result."""
    return deque(events, maxlen=1)[0]


# --- Data, and heads trained on them.


def read(
    data: str | Path | Frame,
    columns: Columns | None = None,
    *,
    header: bool | None = None,
    group: str = "",
    vectors: str = "",
    labels: Any = None,
    model: str = BUNDLED,
) -> Data:
    """Reads a file of texts and labels, with an account of every row and warnings.

    Args:
        data: A sample (sentiment, intents, pairs, aspects or similarity), or a CSV, TSV, JSON,
            JSONL, Parquet or Excel file, or a folder that `datasets` saved; or a table in memory:
            a DataFrame of pandas or Polars, a table of pyarrow, a `datasets.Dataset`, or a
            DatasetDict, whose splits are used as they are called; or a name that an extra fetches,
            such as hub:owner/name. Rows of these count from 1. Vectors may stand in the place of
            texts: in a column of lists of floats, in a .npy or .npz file, or as an array (n, w).
        columns: Which column is what; guessed, if not given.
        header: Whether the first line names the columns; found out, if not given.
        group: The column that says which rows belong together, such as their author: no split
            parts them.
        vectors: The column of vectors to learn from in the place of texts; one is taken by itself
            where there are no texts.
        labels: The labels of vectors that have none beside them, one a row in the same order: a
            CSV, JSONL or .npy file, or a list or an array.
        model: The base model whose tokenizer says which texts are cut.

    Raises:
        DataError: It cannot be used; one sentence with the line where it is known.
        LimitError: It holds more than this place allows.
    """
    hints = ColumnHints(group=group, vectors=vectors)
    return warn_of_cuts(open_data(data, hints, columns, header, labels), model)


def warn_of_cuts(data: Data, model: str) -> Data:
    """Return the rows, with a warning of those that the base model cuts."""
    if data.corpus.vectors is not None:
        return data
    from heads.backbone.loading import load
    from heads.features.truncation import with_token_findings

    return with_token_findings(data, load(model))


def open_data(
    data: str | Path | Frame,
    hints: ColumnHints,
    columns: Columns | None = None,
    header: bool | None = None,
    labels: Any = None,
) -> Data:
    """Return the rows of a file or a table, without what a tokenizer knows of them."""
    table, name = open_source(data, header, labels)
    if hints:
        named = {"group": hints.group, "vectors": hints.vectors}
        named = {role: column for role, column in named.items() if column}
        columns = replace(columns or guess(table, hints), **named)
    return data_of(table, columns, name=name)


@takes_options(TrainOptions, TableOptions)
def train_grid(
    data: str | Path | Frame | Data,
    *,
    test: str | Path | Frame | Data | None = None,
    options: TrainOptions | None = None,
    config: ExperimentConfig | None = None,
    out: str | Path | None = None,
    on: str = HERE,
    **changes: Any,
) -> Leaderboard:
    """Trains every recipe of a grid on the same rows and compares them.

    Args:
        data: A sample, a file, a folder or a table as `heads.read` takes it, or what it gave.
        test: Rows that are scored; without them some of the data are held out, several times.
        options: Options of an earlier call; arguments that are given beside them replace theirs.
        config: Seeds, splits and the like; see `heads.ExperimentConfig`.
        out: A new folder for the run; without it the run is kept where runs are kept.
        on: Where heads are trained: here, or a run backend of an extra (docs/extras.md).

    Returns:
        The leaderboard: `.verdict`, `.cells`, `.best`, `.classifier(name)`, `.to_pandas()`,
        `.plot()`.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    from heads.runs.grids import named_recipes
    from heads.runs.runner import begin, working
    from heads.runs.spec import RunRequest

    chosen: TrainOptions
    chosen, tables = merge_options((options or TrainOptions(), TableOptions()), changes)
    named_recipes(chosen.recipes)  # before anything is read
    hints = ColumnHints(group=tables.group, vectors=tables.vectors)
    rows = _data(data, hints, tables.labels)
    if not isinstance(data, Data):
        rows = warn_of_cuts(rows, chosen.model)
    scored = open_test(test, rows, labels=tables.test_labels)
    request = RunRequest.of(rows, scored, chosen, config or ExperimentConfig())
    place = scheduler(on)  # before anything is written
    run = begin(request, out=Path(out) if out else None)
    return _last(working(run, place))


def scheduler(on: str) -> Scheduler:
    """Return what trains the cells of a run: this machine, or the run backend of an extra.

    Raises:
        HeadsError: No extra has such a backend, or it cannot be used here.
    """
    from heads.training.scheduler import run_trials

    return run_trials if on in ("", HERE) else plugins.load_run_backend(on)


def open_test(
    test: str | Path | Frame | Data | None,
    data: Data,
    header: bool | None = None,
    labels: Any = None,
) -> Data | None:
    """Return the test rows; their columns are those of the data, where they are called so."""
    if isinstance(test, Data) or test is None:
        return test
    table, name = open_source(test, header, labels)
    return data_of(table, fitting(data.columns, table), name=name)


def resume(run: str, *, on: str = HERE) -> Leaderboard:
    """Goes on with a run that was stopped; what is done is not done again.

    Args:
        run: The id of the run, or its folder.
        on: Where heads are trained, as of `heads.train_grid`.

    Raises:
        DataError: There is no such run, or another process works on it.
    """
    from heads.runs.folder import find
    from heads.runs.runner import working

    place = scheduler(on)
    return _last(working(find(run), place))


def train(
    recipe: Recipe | str,
    data: str | Path | Frame | Data,
    *,
    test: str | Path | Frame | Data | None = None,
    group: str = "",
    model: str = BUNDLED,
    config: ExperimentConfig | None = None,
) -> Classifier:
    """Trains a head on a base model, or finds it where it was trained before.

    The base model is frozen, unless the recipe says what is learned of it, as in
    ``mean+linear?tune=lora``.

    It is the head that `train_grid` keeps of this recipe, up to rounding: its settings are
    searched on development rows, and its temperature and thresholds found there. It is trained on
    the first split only, so it is there sooner, and its scores are of fewer rows.

    Args:
        recipe: For example ``"cls+roberta"``.
        data: A sample, a file, a folder or a table as `heads.read` takes it, or what it gave.
        test: Rows that are scored; without them the first of five folds is.
        group: The column that says which rows belong together, such as their author: no split
            parts them.
        model: The base model: the bundled one, a Hub id, or (locally) a folder.
        config: Seeds, splits and the like; see `heads.ExperimentConfig`.

    Returns:
        A classifier, with its scores on rows that it has not learned from.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    return _last(training(**locals()))


def training(
    recipe: Recipe | str,
    data: str | Path | Frame | Data,
    *,
    test: str | Path | Frame | Data | None = None,
    group: str = "",
    model: str = BUNDLED,
    config: ExperimentConfig | None = None,
) -> Iterator[Progress | Classifier]:
    """The same as `train`, as a stream; the recipe may be "own", which needs no data."""
    from heads.backbone.loading import load as load_backbone
    from heads.classifier.classifier import Classifier
    from heads.classifier.pretrained import is_own
    from heads.parts.resolve import resolve
    from heads.runs.refit import with_refit
    from heads.runs.spec import base_of
    from heads.runs.trainer import trained

    config = config or ExperimentConfig()
    resolved = None if is_own(recipe) else resolve(recipe)
    corpus = _corpus(data, test, group, config) if resolved else None
    yield Progress(says=f"Loading {model}", share=0.0)
    if resolved is None or corpus is None:
        yield load(model)
        return
    backbone = load_backbone(base_of(corpus, model))
    head = (yield from trained([resolved], corpus, backbone, config))[0]
    yield with_refit(Classifier(backbone=backbone, head=head), corpus, config)


def _corpus(
    data: str | Path | Frame | Data,
    test: str | Path | Frame | Data | None,
    group: str,
    config: ExperimentConfig,
) -> Corpus:
    """Return the rows of a sample or of a file, with those of its test."""
    from heads.runs.spec import rows_of

    if isinstance(data, str) and data in SAMPLES and test is None and not group:
        return corpus_of(SAMPLES[data])
    if current_limits().public:
        raise LimitError("Files are for local use.", f"Choose a sample: {', '.join(SAMPLES)}.")
    rows = _data(data, ColumnHints(group=group))
    return rows_of(rows, open_test(test, rows), config.unseen)


def _data(data: str | Path | Frame | Data, hints: ColumnHints, labels: Any = None) -> Data:
    """Return the rows of a file, read now or before."""
    if not isinstance(data, Data):
        return open_data(data, hints, labels=labels)
    for what, name in (("group", hints.group), ("vectors", hints.vectors)):
        if name and name != getattr(data.columns, what):
            told = "The rows are read already, without this column."
            raise DataError(told, f"Write heads.read(…, {what}={name!r}).")
    return data


# --- Whole files: answered, and scored.


@takes_options(PredictOptions)
def predict(
    file: str | Path | Frame,
    *,
    to: str | Path | None = None,
    options: PredictOptions | None = None,
    **changes: Any,
) -> FileAnswers:
    """Answers every row of a file with one head: as many rows come back, in the same order.

    What stands in the file stays as it is, with an answer and its probability beside it. A row
    without a text gets no answer, and is counted. Answers are those of `Classifier.predict`.

    Args:
        file: A CSV, TSV, JSON, JSONL, Parquet or Excel file, a folder that `datasets` saved, or a
            sample; or a table in memory, as `heads.read` takes it. It needs no labels.
        to: A new file, where the rows are written with their answers, in the format of its ending;
            without it the answers are returned.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        An account of every row: `.rows`, `.unanswered`, `.counts`; and `.answers` and
        `.to_pandas()`, where nothing was written.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    from heads.inference.predict import iter_prediction

    (chosen,) = merge_options((options or PredictOptions(),), changes)
    return result(iter_prediction(file, chosen, to=to))


@takes_options(EvaluateOptions)
def evaluate(
    file: str | Path | Frame, *, options: EvaluateOptions | None = None, **changes: Any
) -> FileScores:
    """Scores one head on a file with labels, with the intervals of a leaderboard.

    It says how many rows have a text that the head learned from, which labels the head does not
    know, and which of its classes are not there.

    Args:
        file: A CSV, TSV, JSON, JSONL, Parquet or Excel file, a folder that `datasets` saved, or a
            sample; or a table in memory, as `heads.read` takes it.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        The scores: `.score`, `.measures` with intervals, `.by_class`, `.told`.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    from heads.inference.evaluate import iter_evaluation

    (chosen,) = merge_options((options or EvaluateOptions(),), changes)
    return result(iter_evaluation(file, chosen))


# --- What a head is, what sets two apart, and what padding does to one.


def explain(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
) -> Explanation:
    """Explains a recipe on a base model: layers, shapes, counts, formula, origin, tokens read.

    A learned pooling is trained on the sample first, so that it shows what it has learned
    to read.

    Args:
        recipe: A pooling and a head, such as cls+roberta; "own" is the head that a fine-tuned
            checkpoint came with.
        text: The sentence on which the reading is shown.
        pair: A second sentence.
        model: The base model: the bundled one, a Hub id, or (locally) a folder.
        sample: The data of its classes: sentiment, intents, pairs, aspects or similarity.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    options = dict(locals())
    from heads.interpret.explanation import iter_explanation

    return _last(iter_explanation(**options))


def difference(one: Recipe | str, other: Recipe | str, *, model: str = BUNDLED) -> str:
    """Says in plain words what sets two heads apart.

    Args:
        one: A recipe such as cls+bert, a family of Transformers such as roberta, or a model.
        other: The same.
        model: The base model under two recipes.

    Returns:
        What sets the second apart from the first, in a few sentences.

    Raises:
        HeadsError: A recipe, a family or a model does not exist or does not fit.
    """
    from heads.backbone.loading import load
    from heads.classifier.pretrained import is_own, own_head
    from heads.interpret import differences
    from heads.parts.resolve import resolve

    one, other = (own_head(load(model)).recipe if is_own(name) else name for name in (one, other))
    if any(isinstance(name, str) and "+" not in name for name in (one, other)):
        return differences.difference_by_name(str(one), str(other))
    return differences.difference(resolve(one), resolve(other), load(model))


def catalogue() -> Catalogue:
    """Lists every XForSequenceClassification of Transformers with the recipe that equals it.

    Returns:
        One entry for each key of Transformers' mapping, in its order: a tuple, and
        `.to_pandas()`.
    """
    from heads.catalog import catalog

    return catalog.catalogue()


def examine(model: str) -> PaddingReport:
    """Finds which changes of padding and truncation change a classifier's logits, and why.

    Args:
        model: The bundled model, a folder, a Hub id; or a family such as gpt2, of which a small
            random model is made where no model on this machine has that name.

    Raises:
        ModelError: There is no such model, it must not be loaded, or it reads no plain text.
    """
    from heads.interpret.padding import report

    return report.examine(model)


# --- A classifier from a checkpoint, and to one.


def load(
    model: str | Path,
    *,
    base: str = BUNDLED,
    recipe: Recipe | str = "mean+linear",
) -> Classifier:
    """Takes a fine-tuned classifier apart: base model, recipe, trained head.

    It is an XForSequenceClassification, a SentenceTransformer with a classification layer among its
    modules, a CrossEncoder, or a SetFit model whose arrays lie beside its pickle.

    Args:
        model: A folder that `save_pretrained` or `heads.export` wrote, or an id of the Hub; or
            a safetensors file that holds a head alone.
        base: The base model of a head alone.
        recipe: The recipe of a head alone.

    Returns:
        A classifier with the labels of its config, whose logits are those of its own class.

    Raises:
        ModelError: It cannot be reached, or must not be loaded.
        CheckpointError: It has no trained head, or tensors are missing or wrong.
        RecipeError: No recipe expresses its family's head; says why.
    """
    from heads.classifier import pretrained
    from heads.parts.resolve import resolve

    return pretrained.load(model, base, resolve(recipe))


def for_transformers(
    recipe: Recipe | str,
    base_model: str = BUNDLED,
    *,
    num_labels: int = 2,
    labels: Sequence[str] = (),
    problem_type: TransformersProblem | None = None,
) -> HeadForSequenceClassification:
    """Return a base model with a new head on it, for Trainer, PEFT or a loop of your own.

    It is a model of Transformers: ``Trainer(model=...)`` fine-tunes base model and head, and a LoRA
    of PEFT with ``task_type="SEQ_CLS"`` saves the head beside the adapter. Freeze the base model
    with ``model.backbone.requires_grad_(False)``.

    Args:
        recipe: Such as mean+roberta; its head starts from random numbers, or from what the base
            model has of it.
        base_model: The bundled model, a folder or an id of the Hub.
        num_labels: The number of logits.
        labels: The names of the labels, which count more than `num_labels`.
        problem_type: As in Transformers: "single_label_classification",
            "multi_label_classification" or "regression"; by the labels of the first batch, if not
            given.

    Raises:
        ModelError: The base model cannot be reached, or must not be loaded.
        RecipeError: The recipe does not fit it, is solved at once instead of trained, or writes
            more around texts than the base model's own tokenizer does.
    """
    from heads.backbone.loading import load
    from heads.classifier.head_model import build_untrained_model
    from heads.parts.resolve import resolve

    return build_untrained_model(
        resolve(recipe),
        load(base_model),
        num_labels=len(labels) or num_labels,
        labels=labels,
        problem_type=problem_type,
    )


def export(
    classifier: Classifier,
    folder: str | Path,
    *,
    library: str = "",
    adapter: bool = False,
    refit: bool = True,
) -> Exported:
    """Write a trained head with its base model as a folder that Transformers loads.

    Where a class of Transformers computes the same, it is that class. Else it is one of
    `HeadForSequenceClassification`, whose code lies in the folder: load it with
    ``trust_remote_code=True``, or ``import heads`` first.

    Without a test set a head was scored after learning from part of the rows. It is trained again
    on all of them first, with the settings that were chosen; the card says so.

    Args:
        classifier: From `heads.train` or `heads.load`.
        folder: A new folder: it must not exist, or be empty.
        library: What is to load the folder: "transformers" or "sentence-transformers".
        adapter: Write what was learned alone, as an adapter of PEFT for the base model; for heads
            that were trained with tune=lora and are a class of Transformers.
        refit: Train the head again on all rows that are no test rows; else the head that was
            scored is written.

    Raises:
        CheckpointError: There is something in the folder, it cannot be written, or what was
            written does not answer as this classifier does (it is deleted then).
        RecipeError: An adapter is asked for, and none was learned, or no class computes the same;
            or the library that is asked for cannot compute it.
    """
    from heads.exporters import export as exporter

    exporter.check_place(folder, onnx=False)  # before the work, not after it
    exporter.check_library(library, adapter=adapter)
    classifier = result(classifier.refitted()) if refit else classifier
    return exporter.export(classifier, folder, library=library, adapter=adapter)


def export_onnx(
    classifier: Classifier,
    path: str | Path,
    *,
    refit: bool = True,
    int8: bool = False,
    rows: str | Path | Frame | Data | None = None,
    most_loss: float = 0.01,
) -> OnnxReport:
    """Write base model, pooling and head as one ONNX file, and check it with onnxruntime.

    Args:
        classifier: From `heads.train` or `heads.load`.
        path: A new file whose name ends in .onnx.
        refit: Train the head again on all rows first, as `heads.export` does.
        int8: Write its dense layers in 8 bits, which makes the file about half as large and mostly
            faster (docs/serving.md). At least 99 % of the rows must get the answer of 32 bits.
        rows: Labelled rows that the 8-bit file is calibrated and compared on, as `heads.train`
            takes them. Default: those that the head was trained on.
        most_loss: The largest loss of accuracy of the 8-bit file, as a share of the rows.

    Returns:
        What was written; `.int8` compares the 8-bit file with the 32-bit one.

    Raises:
        HeadsError: Packages are missing, ONNX does not know a part of it, or the file does not
            answer as this classifier does (it is deleted then).
    """
    from heads.exporters import export as exporter

    exporter.check_place(path, onnx=True)
    if rows is not None and not int8:
        raise DataError("Rows are for a file in 8 bits.", "Add int8=True, or leave rows out.")
    corpus = classifier.corpus if int8 else None
    if int8 and rows is not None:
        corpus = _corpus(rows, None, "", ExperimentConfig())
    if int8 and corpus is None:
        what = "The rows that this head was trained on are not known here."
        raise DataError(what, "Give labelled rows as rows=, or leave int8 out.")
    classifier = result(classifier.refitted()) if refit else classifier
    return exporter.export_onnx(classifier, path, int8=corpus, most_loss=most_loss)


def calibrated(classifier: Classifier) -> Classifier:
    """Return the classifier with its logits divided by the temperature found in its training.

    Heads trained here are calibrated already; this is for one that was exported raw. Every answer
    stays, for thresholds are divided as well. The classifier that is given is left as it was.

    Args:
        classifier: Loaded from the export of a head whose temperature was found in its training.

    Raises:
        CheckpointError: No temperature was found for it.
        RecipeError: It cannot be divided: it is one-versus-rest, or has no last linear layer.
    """
    from heads.classifier import calibration

    return calibration.calibrated(classifier)


# --- Looking inside trained heads.


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """Looks inside trained heads: `heads.Inspector(recipes=["cls+linear"]).attribute("Not bad.")`.

    What is found is a tuple with one entry a head, except for `flips`. In the place of a recipe
    may stand a classifier as `heads.train` and `heads.load` give it.

    Attributes:
        recipes: At most four heads, such as mean+linear or cls+roberta, or "own" for the head that
            a checkpoint came with; four common ones, or the first four of a run, if none is given.
        model: The base model: the bundled one, a Hub id, or (locally) a folder; a run has its own.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity;
            the one that suits, if not given.
        run: The id of a run whose heads are asked instead.

    Every method takes the sentence, where needed a second one as `pair`, and raises a HeadsError
    for anything in the question that does not fit, in one sentence.
    """

    recipes: Sequence[Named] = ()
    model: str = BUNDLED
    sample: str = ""
    run: str = ""

    def attribute(
        self, text: str, pair: str = "", *, label: str = "", against: str = OTHERS
    ) -> tuple[Attribution, ...]:
        """Shows which tokens move the answer of each head: signed numbers that add up.

        Integrated gradients from a text of blanks to the text itself, with as many steps as it
        takes until the tokens' scores add up to the change of what is explained (in public mode
        as many as fit, and how badly they add up is told); gradient × input;
        and the share that the pooling reads of each token. Explained is the logit of a class less
        the mean of the others; of several labels, one versus the rest and numbers the logit alone.

        Args:
            label: The class that is asked about; of each head its answer, if not given.
            against: What its logit is compared with: others, their mean; runner-up, the largest of
                them; or a class. Of several labels and of numbers the logit itself is explained.
        """
        from heads.interpret.attribution import attributions

        return attributions(self._select(pair).classifiers, text, pair, label, against)

    def nearest(self, text: str, pair: str = "", *, most: int = 5) -> tuple[Neighbourhood, ...]:
        """Finds the training examples that each head sees as most similar to a sentence.

        Args:
            most: How many training examples of each head.
        """
        from heads.interpret.neighbors import find_neighbours

        return result(find_neighbours(self._select(pair), text, pair, most))

    def flips(
        self, text: str, edits: Sequence[str | tuple[str, str]], pair: str = ""
    ) -> Counterfactuals:
        """Asks heads about edits of a sentence, and says which head flips on what.

        Args:
            edits: The edited sentences, such as "Not good at all."; where there is a second
                sentence, an edit is of the first, or both as a tuple.
        """
        from heads.interpret.counterfactuals import compare_edits

        return compare_edits(self._select(pair).classifiers, text, edits, pair)

    def ablate(
        self, text: str, pair: str = "", *, without: str = "", retrain: bool = True
    ) -> tuple[Ablation, ...]:
        """Takes a layer out of trained heads, and trains them anew without it.

        The head as it is, less a layer, shows how much its other layers lean on that one; the
        head trained without it, with the same rows, settings and seeds, what the layer is worth.

        Args:
            without: A layer's name, or dense, activation, norm or scale; every layer but the last
                in turn, if not given.
            retrain: Whether to train anew without it as well, which takes seconds on a sample; on
                a run about as long as its own heads took.
        """
        from heads.interpret.ablation import ablate_layers

        return result(ablate_layers(self._select(pair), text, pair, without, retrain=retrain))

    def readings(
        self, text: str, pair: str = "", *, temperature: float = 1.0
    ) -> tuple[Reading, ...]:
        """Reads the same logits as softmax, as sigmoid and at a temperature.

        Args:
            temperature: What the logits are divided by, from 0.1 to 10.
        """
        from heads.interpret.outputs import head_outputs, read_output

        found = head_outputs(self._select(pair).classifiers, text, pair)
        return tuple(read_output(one, temperature) for one in found)

    def _select(self, pair: str) -> SelectedHeads:
        from heads.inference.selection import HeadRequest, select_heads

        request = HeadRequest(
            recipes=self.recipes, pair=pair, model=self.model, sample=self.sample, run=self.run
        )
        return result(select_heads(request))
