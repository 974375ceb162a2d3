"""The one face: every public function of Head to Head, which the shell and the page call too.

A function whose work is one room's own stands there with its docstring and is named here:
`compare` in `analysis.comparison`, `load` in `classifier.pretrained`, `export`, `export_onnx` and
`calibrated` in `exporters`, `catalogue` in `catalog.catalog`, `examine` in
`analysis.padding.report`.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from heads.analysis import differences, explanation
from heads.analysis.ablation import Ablation, Retrained, compared, effect, layers_named, retraining
from heads.analysis.attribution import attributions, encoded
from heads.analysis.attribution_result import OTHERS, Attribution
from heads.analysis.comparison import compare, comparing
from heads.analysis.counterfactuals import Counterfactuals, flipped
from heads.analysis.explanation import Explanation
from heads.analysis.neighbors import Neighbourhood, neighbourhood, vectors_of
from heads.analysis.padding.report import examine
from heads.analysis.selection import (
    HeadOutput,
    Reading,
    SelectedHeads,
    Selection,
    choosing,
    head_output,
    reading,
)
from heads.backbone.loading import load as load_backbone
from heads.backbone.models import BUNDLED
from heads.catalog.catalog import catalogue
from heads.classifier.classifier import Classifier
from heads.classifier.pretrained import OWN, load, own_head
from heads.data.columns import guess
from heads.data.corpus import Corpus, gate
from heads.data.dataset import Data, corpus_of, data_of, name_of
from heads.data.dataset import read as read_file
from heads.data.files import open_table, place_of
from heads.data.samples import SAMPLES, TEXT, sample_for
from heads.data.table import ColumnHints, Columns, Table
from heads.errors import DataError, LimitError, RecipeError
from heads.events import Progress
from heads.exporters.calibrated import calibrated
from heads.exporters.export import export, export_onnx
from heads.features.truncation import with_token_findings
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import JOINT, SOFTMAX
from heads.recipe import Recipe
from heads.runs.folder import find
from heads.runs.leaderboard import Leaderboard
from heads.runs.runner import Event, begin, working
from heads.runs.spec import RunRequest, rows_of
from heads.runs.trainer import trained
from heads.settings import ExperimentConfig, Limits
from heads.settings import limits as limits_here

__all__ = [
    "Inspector",
    "calibrated",
    "catalogue",
    "compare",
    "comparing",
    "difference",
    "examine",
    "explain",
    "explaining",
    "export",
    "export_onnx",
    "load",
    "read",
    "resume",
    "train",
    "train_grid",
    "training",
]


def read(
    data: str | Path,
    columns: Columns | None = None,
    *,
    header: bool | None = None,
    group: str = "",
    model: str = BUNDLED,
    limits: Limits | None = None,
) -> Data:
    """Reads a file of texts and labels, with an account of every row and warnings.

    Args:
        data: A sample, or a CSV, TSV, JSONL, JSON or Parquet file, or a `datasets` folder.
        columns: Which column is what; guessed, if not given.
        header: Whether the first line names the columns; found out, if not given.
        group: The column that says which rows belong together, such as their author: no split
            parts them. The other columns are still guessed, if not given.
        model: The base model whose tokenizer says which texts are cut.

    Raises:
        DataError: It cannot be used; one sentence with the line where it is known.
        LimitError: It holds more than this place allows.
    """
    limits = limits or limits_here()
    found = _opened(data, columns, header, group, limits)
    return with_token_findings(found, load_backbone(model, limits=limits))


def _opened(
    data: str | Path, columns: Columns | None, header: bool | None, group: str, limits: Limits
) -> Data:
    """The rows of a file, without what a tokenizer knows of them."""
    path = place_of(data)
    if not group:
        return read_file(path, limits, columns, header)
    table = open_table(path, limits, header)
    columns = replace(columns or guess(table, ColumnHints(group=group)), group=group)
    return data_of(table, limits, columns, name=name_of(path))


def train_grid(
    data: str | Path | Data,
    *,
    recipes: Sequence[str] = (),
    grid: str = "small",
    test: str | Path | Data | None = None,
    group: str = "",
    pairs: Sequence[str] = (JOINT,),
    losses: Sequence[str] = (SOFTMAX,),
    model: str = BUNDLED,
    config: ExperimentConfig | None = None,
    out: str | Path | None = None,
) -> Leaderboard:
    """Trains every recipe of a grid on the same rows and compares them.

    Args:
        data: A file, a sample, or what `heads.read` gave.
        recipes: The heads, for example ``["mean+linear", "cls+roberta"]``.
        grid: Where no recipes are given: "small" or "full"; "layers" ("layers:cls"), every layer;
            "heads" ("heads:cls"), every head on one reading; "poolings" ("poolings:mlp"), every
            pooling that is not learned under one head.
        group: The column of what belongs together, see `heads.read`.
        pairs: How two texts enter: "joint", "siamese", "features" (all seven), or by name.
        losses: Where a row has one class: "softmax", "ovr" (one versus the rest), "ordinal".
        test: Rows that are scored; without them some of the data are held out, several times.
        model: The bundled base model, a Hub id, or a folder.
        config: Seeds, splits and the like; see `heads.ExperimentConfig`.
        out: A new folder for the run; without it the run is kept where runs are kept.

    Returns:
        The leaderboard: `.verdict`, `.cells`, `.best`, `.classifier(name)`.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    limits = limits_here()
    rows = _data(data, group, limits)
    if not isinstance(data, Data):
        rows = with_token_findings(rows, load_backbone(model, limits=limits))
    request = RunRequest(
        data=rows,
        test=_scored(test, rows, limits),
        recipes=recipes,
        grid=grid,
        pairs=pairs,
        losses=losses,
        model=model,
        config=config or ExperimentConfig(),
    )
    return _leaderboard(
        working(begin(request, limits=limits, out=Path(out) if out else None), limits)
    )


def _scored(test: str | Path | Data | None, data: Data, limits: Limits) -> Data | None:
    """The rows to be scored, read as the data were."""
    if isinstance(test, Data) or test is None:
        return test
    path = place_of(test)
    table = open_table(path, limits)
    return data_of(table, limits, fitting(data.columns, table), name=name_of(path))


def fitting(columns: Columns, table: Table) -> Columns | None:
    """The columns of the data for a file that is to be its test; None where they are not there.

    Its classes need no order of their own, and it need not say what is a test or a group.
    """
    columns = replace(
        columns,
        split=columns.split if columns.split in table.columns else "",
        group=columns.group if columns.group in table.columns else "",
    )
    if all(name in table.columns for name in columns.used):
        return replace(columns, order=())
    return None


def resume(run: str) -> Leaderboard:
    """Goes on with a run that was stopped; what is done is not done again.

    Raises:
        DataError: There is no such run, or another process works on it.
    """
    return _leaderboard(working(find(run), limits_here()))


def _leaderboard(events: Iterator[Event]) -> Leaderboard:
    for event in events:
        if isinstance(event, Leaderboard):
            return event
    raise DataError("The run ended without a leaderboard.", "Resume it.")


# --- Training one head on one's own texts, from the outside: by name, in one call.


def train(
    recipe: Recipe | str,
    data: str | Path | Data,
    *,
    test: str | Path | Data | None = None,
    group: str = "",
    model: str = BUNDLED,
    config: ExperimentConfig | None = None,
    limits: Limits | None = None,
) -> Classifier:
    """Trains a head on a frozen base model, or finds it where it was trained before.

    It is the head that `train_grid` keeps of this recipe, to the last bit: its settings are
    searched on development rows, and its temperature and thresholds found there. It is trained on
    the first split only, so it is there sooner, and its scores are of fewer rows.

    Args:
        recipe: For example ``"cls+roberta"``.
        data: A sample (sentiment, intents, pairs, aspects, similarity), or a CSV, TSV, JSONL or
            Parquet file, or a folder saved by `datasets`, with a column of texts and one of
            labels, or what `heads.read` gave.
        test: Rows that are scored; without them the first of five folds is.
        group: The column of what belongs together, see `heads.read`.
        model: The bundled base model, a Hub id, or a folder.
        config: Seeds, splits and the like; see `heads.ExperimentConfig`.

    Returns:
        A classifier, with its scores on rows that it has not learned from.

    Raises:
        HeadsError: Anything that does not fit, in one sentence.
    """
    asked = {"test": test, "group": group, "model": model, "config": config}
    for event in training(recipe, data, **asked, limits=limits):
        if isinstance(event, Classifier):
            return event
    raise AssertionError("training ends in its result")


def training(
    recipe: Recipe | str,
    data: str | Path | Data,
    *,
    test: str | Path | Data | None = None,
    group: str = "",
    model: str = BUNDLED,
    config: ExperimentConfig | None = None,
    limits: Limits | None = None,
) -> Iterator[Progress | Classifier]:
    """The same as `train`, as a stream; the recipe may be "own", which needs no data."""
    limits = limits or limits_here()
    config = config or ExperimentConfig()
    own = isinstance(recipe, str) and recipe.strip().lower() == OWN
    resolved = None if own else resolve(recipe)
    corpus = None if own else _corpus(data, test, group, config, limits)
    yield Progress(says=f"Loading {model}", share=0.0)
    if resolved is None or corpus is None:
        yield load(model, limits=limits)
        return
    backbone = load_backbone(model, limits=limits)
    head = (yield from trained([resolved], corpus, backbone, limits, config))[0]
    yield Classifier(backbone=backbone, head=head)


def _corpus(
    data: str | Path | Data,
    test: str | Path | Data | None,
    group: str,
    config: ExperimentConfig,
    limits: Limits,
) -> Corpus:
    """The rows of a sample or of a file, with those of its test.

    Raises:
        DataError: There is no such file, it cannot be used, or the two do not fit.
        LimitError: A file, where only samples are allowed.
    """
    if isinstance(data, str) and data in SAMPLES and test is None and not group:
        return corpus_of(SAMPLES[data], limits)
    if limits.public:
        raise LimitError("Files are for local use.", f"Choose a sample: {', '.join(SAMPLES)}.")
    rows = _data(data, group, limits)
    return rows_of(rows, _scored(test, rows, limits), config.unseen)[0]


def _data(data: str | Path | Data, group: str, limits: Limits) -> Data:
    """The rows of a file, read now or before."""
    if not isinstance(data, Data):
        return _opened(data, None, None, group, limits)
    if group and group != data.columns.group:
        what = "The rows are read already, without a column of groups."
        raise DataError(what, f"Write heads.read(…, group={group!r}).")
    return data


# --- Explaining, from the outside: what a recipe is, and what sets two apart, by name.


def explain(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Explanation:
    """Takes a recipe apart on a base model: layers, shapes, counts, formula, origin, reading.

    A learned pooling is trained on the sample first, so that it shows what it has learned
    to read.

    Args:
        recipe: For example ``"cls+roberta"``; ``"own"`` is the head that a fine-tuned
            checkpoint came with.
        text: The sentence on which the reading is shown.
        pair: A second sentence.
        model: The bundled base model, a Hub id, or (locally) a folder.
        sample: The data of its classes: sentiment, intents, pairs, aspects or similarity.

    Raises:
        HeadsError: Anything in the question that does not fit, in one sentence.
    """
    for event in explaining(recipe, text, pair, model=model, sample=sample, limits=limits):
        if isinstance(event, Explanation):
            return event
    raise AssertionError("an explanation ends in its result")


def explaining(
    recipe: Recipe | str,
    text: str = TEXT,
    pair: str = "",
    *,
    model: str = BUNDLED,
    sample: str = "",
    limits: Limits | None = None,
) -> Iterator[Progress | Explanation]:
    """The same as `explain`, as a stream: progress, then the explanation."""
    limits = limits or limits_here()
    pair, model, sample = pair or "", model or BUNDLED, sample or ""
    is_own = isinstance(recipe, str) and recipe.strip().lower() == OWN
    resolved = None if is_own else resolve(recipe)
    data = sample_for(sample, pair)
    text = gate(text, limits)
    pair = gate(pair, limits, "second sentence") if data.pair else ""
    yield Progress(says=f"Loading {model}", share=0.0)
    backbone = load_backbone(model, limits=limits)
    head = None
    if resolved is None:
        head = own_head(backbone)
        resolved = head.asked
    elif resolved.learns_to_read:
        head = (yield from trained([resolved], corpus_of(data, limits), backbone, limits))[0]
    yield explanation.explain(
        resolved,
        backbone,
        classes=len(head.classes if head else corpus_of(data, limits).classes),
        text=text,
        pair=pair,
        head=head,
    )


def difference(
    one: Recipe | str, other: Recipe | str, *, model: str = BUNDLED, limits: Limits | None = None
) -> str:
    """What sets the second head apart from the first, in a few sentences.

    Args:
        one: A recipe, a family of Transformers such as ``"bert"``, or a model.
        other: The same.
        model: The base model under two recipes.

    Raises:
        HeadsError: A recipe, a family or a model does not exist or does not fit.
    """
    limits = limits or limits_here()
    one, other = (_own_recipe(name, model, limits) for name in (one, other))
    if any(isinstance(name, str) and "+" not in name for name in (one, other)):
        return differences.difference_by_name(str(one), str(other), limits)
    return differences.difference(resolve(one), resolve(other), load_backbone(model, limits=limits))


def _own_recipe(name: Recipe | str, model: str, limits: Limits) -> Recipe | str:
    """The recipe that "own" stands for on a base model; any other name as it is."""
    if isinstance(name, str) and name.strip().lower() == OWN:
        return own_head(load_backbone(model, limits=limits)).recipe
    return name


# --- Looking inside trained heads, from the outside: by name.

NEIGHBOURS = 5
HELD = 1000  # rows on which the effect of a layer is measured, at most
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector(Selection):
    """Looks inside trained heads: `heads.Inspector(recipes=["cls+linear"]).attribute("Not bad.")`.

    What is found is a tuple with one entry a head, except for `flips`.

    Attributes:
        recipes: Recipes, "own" for the head that a checkpoint came with, or
            classifiers as `heads.train` and `heads.load` give them. Without any, four common
            ones, or the first four of a run.
        model: The bundled base model, a Hub id, or (locally) a folder; a run has its own.
        sample: What the heads are trained on: sentiment, intents, pairs, aspects or similarity;
            the one that suits, if not given.
        run: A run whose heads are asked instead, by its id.

    Every method takes the sentence, where needed a second one as `pair`, and raises a HeadsError
    for anything in the question that does not fit, in one sentence.
    """

    def attribute(
        self, text: str, pair: str = "", *, label: str = "", against: str = OTHERS
    ) -> tuple[Attribution, ...]:
        """Shows which tokens move the answer of each head: signed numbers that add up.

        Integrated gradients from a text of blanks to the text itself, with as many steps as it
        takes until the tokens' scores add up to the change of what is explained; gradient × input;
        and the share that the pooling reads of each token. Explained is the logit of a class less
        the mean of the others; of several labels, one versus the rest and numbers the logit alone.

        Args:
            label: The class that is asked about; of each head its answer, if not given.
            against: "others", or "runner-up" for the margin to the largest other logit.
        """
        return attributions(self._found(pair).classifiers, text, pair, label, against)

    def nearest(
        self, text: str, pair: str = "", *, most: int = NEIGHBOURS
    ) -> tuple[Neighbourhood, ...]:
        """Finds the training examples that each head sees as most similar to a sentence.

        Args:
            most: How many examples for each head.
        """
        return _result(searching(self._found(pair), text, pair, most))

    def flips(
        self, text: str, edits: Sequence[str | tuple[str, str]], pair: str = ""
    ) -> Counterfactuals:
        """Asks heads about edits of a sentence, and says which head flips on what.

        Args:
            edits: The edited sentences, for example ``["Not good at all."]``. Where there is a
                second sentence, an edit is of the first, or both as a tuple.
        """
        return flipped(self._found(pair).classifiers, text, edits, pair)

    def ablate(
        self, text: str, pair: str = "", *, without: str = "", retrain: bool = True
    ) -> tuple[Ablation, ...]:
        """Takes a layer out of trained heads, and trains them anew without it.

        The head as it is, less a layer, shows how much its other layers lean on that one; the
        head trained without it, with the same rows, settings and seeds, what the layer is worth.

        Args:
            without: The layer: its name, or dense, activation, norm or scale. Without it, every
                layer but the last is taken out in turn.
            retrain: Whether to train anew, which takes seconds on a sample; on a run about as
                long as its own heads took.
        """
        return _result(ablating(self._found(pair), text, pair, without, retrain=retrain))

    def readings(
        self, text: str, pair: str = "", *, temperature: float = 1.0
    ) -> tuple[Reading, ...]:
        """Reads the same logits as softmax, as sigmoid and at a temperature.

        Args:
            temperature: What the logits are divided by, from 0.1 to 10.
        """
        found = answered(self._found(pair).classifiers, text, pair)
        return tuple(reading(one, temperature) for one in found)

    def _found(self, pair: str) -> SelectedHeads:
        for event in choosing(self, pair, limits_here()):
            if isinstance(event, SelectedHeads):
                return event
        raise AssertionError("a choice ends in its heads")


def answered(
    classifiers: Sequence[Classifier], text: str, pair: str = ""
) -> tuple[HeadOutput, ...]:
    """What each head says of a text."""
    texts = _gated(text, pair)
    return tuple(head_output(one.head, one.logits(texts[:1], texts[1:])[0]) for one in classifiers)


def searching(
    heads: SelectedHeads, text: str, pair: str = "", most: int = NEIGHBOURS
) -> Generator[Progress, None, tuple[Neighbourhood, ...]]:
    """The nearest training examples of each head: progress while texts are read, then they.

    There are none for a head that came with its checkpoint.
    """
    texts = _gated(text, pair)
    found = []
    for number, classifier in enumerate(heads.classifiers):
        if classifier.head.is_own:
            continue  # nobody here knows what it has learned from
        found.append((yield from neighbourhood(heads, number, texts, most)))
    return tuple(found)


def ablating(
    heads: SelectedHeads, text: str, pair: str = "", without: str = "", *, retrain: bool = True
) -> Generator[Progress, None, tuple[Ablation, ...]]:
    """What each head says without a layer: progress while rows are read, then that.

    Args:
        retrain: Whether heads are trained anew without it as well.

    Raises:
        RecipeError: No head has such a layer, or none can do without it.
    """
    texts = _gated(text, pair)
    found: list[Ablation] = []
    wanted: list[tuple[int, str]] = []
    refused: list[RecipeError] = []
    for number, classifier in enumerate(heads.classifiers):
        try:
            names = layers_named(classifier, without)
        except RecipeError as error:
            refused.append(error)
            continue
        found += yield from _taken_out(heads, classifier, names, texts)
        wanted += [(number, name) for name in names]
    if not found and refused:
        raise refused[0]
    if retrain:
        others = yield from retraining(heads, wanted)
        found = [_beside(one, other, texts) for one, other in zip(found, others, strict=True)]
    if without and all(one.after is None and one.retrained is None for one in found):
        raise RecipeError(found[0].why_not, "Take another layer out.")
    return tuple(found)


def _beside(one: Ablation, other: Retrained, texts: Sequence[str]) -> Ablation:
    """A head with a layer taken out, and the one that was trained without it."""
    bare = other.classifier
    says = head_output(bare.head, bare.logits(texts[:1], texts[1:])[0]) if bare else None
    return one.beside(other, says)


def _taken_out(
    heads: SelectedHeads, classifier: Classifier, names: Sequence[str], texts: Sequence[str]
) -> Generator[Progress, None, list[Ablation]]:
    own = [classifier.backbone.states([one]) for one in encoded(classifier, texts)]
    with torch.no_grad():
        logits = classifier.head.module(*own)
    found = [compared(classifier, name, logits, own) for name in names]
    resolved, corpus = classifier.head.module.reader.resolved, heads.corpus
    rows = torch.tensor(heads.held[:HELD])
    if corpus is None or corpus.numbers or resolved.late or not len(rows) or not names:
        return found
    if classifier.head.is_own or classifier.classes != corpus.classes:  # of other data
        return found
    vectors = yield from vectors_of(classifier, corpus, rows)
    targets = [corpus.targets[row] for row in rows.tolist()]
    return [
        one if one.after is None else one.with_effect(effect(classifier, name, vectors, targets))
        for name, one in zip(names, found, strict=True)
    ]


def _gated(text: str, pair: str) -> list[str]:
    limits = limits_here()
    second = [gate(pair, limits, "second sentence")] if pair.strip() else []
    return [gate(text, limits), *second]


def _result(events: Generator[Progress, None, Found]) -> Found:
    while True:
        try:
            next(events)
        except StopIteration as done:
            return done.value
