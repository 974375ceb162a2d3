"""Runs on several labels, on numbers and on pairs: finished, resumed, asked again, refused."""

import csv
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import cache
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import slow
import torch
from expected_errors import refusing
from few_runs import finished, write_sample
from markupsafe import Markup
from same_runs import bare, tensors
from torch.testing import assert_close

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load
from heads.classifier.module import RecipeModule
from heads.data.corpus import in_order
from heads.data.dataset import Data, read
from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, LimitError, ModelError, RecipeError
from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import MAJORITY, TFIDF
from heads.events import result
from heads.exporters.model_card import model_card
from heads.features.featurizer import Featurizer
from heads.features.store import FeatureStore
from heads.interfaces.views import charts, format, report
from heads.parts.registry import head
from heads.parts.resolve import pairing, resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.problem import ONE_VERSUS_REST, SINGLE_LABEL
from heads.runs import grids
from heads.runs import spec as question
from heads.runs.cells import answers_of_cell, kept
from heads.runs.drill_down import disagreements, label_of, spelled
from heads.runs.features import CellDone, run_features
from heads.runs.folder import RunFolder, all_runs
from heads.runs.grids import chosen_recipes, entering
from heads.runs.leaderboard import facts_of, leaderboard
from heads.runs.refit import run_classifier as classifier
from heads.runs.runner import Event, begin, cells_of, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, Limits, runs_folder, use_limits
from heads.training.events import CurvePointTried

BASELINES = (MAJORITY, TFIDF)  # of every run on texts
# Heads of every way of learning, on the sample that has such labels; then the ways in, the losses.
OF_NUMBERS = (
    "mean+linear", "mean+gpt2", "mean+roberta", "mean+modernbert?out_bias=false", "mean+ridge",
    "attention+linear", "mean+linear?late=true",
)  # fmt: skip
OF_LABELS = ("mean+linear", "mean+roberta", "mean+ridge", "mean+centroid", "attention+linear")
OF_PAIRS = ("mean+linear", "cls+roberta", "mean+knn", "mean+ridge", "attention+linear")
RUNS: dict[str, dict[str, Any]] = {
    "similarity": {"recipes": OF_NUMBERS, "pairs": ("joint", "uv_diff")},
    "aspects": {"recipes": OF_LABELS},
    "pairs": {
        "recipes": OF_PAIRS, "pairs": ("joint", "siamese"), "losses": ("softmax", "ovr"),
    },
}  # fmt: skip
FEW: dict[str, dict[str, Any]] = {
    "similarity": {"recipes": ("mean+linear", "mean+ridge?pair=diff", "attention+linear")},
    "aspects": {"recipes": ("mean+linear", "mean+roberta", "attention+linear")},
    "pairs": {"recipes": ("cls+linear", "cls+roberta?loss=ovr"), "pairs": ("joint", "siamese")},
}
SIAMESE = "pair=uv_diff_prod"
CELLS = {
    "similarity": [
        "mean+linear", "mean+linear?pair=uv_diff", "mean+gpt2", "mean+gpt2?pair=uv_diff",
        "mean+roberta", "mean+roberta?pair=uv_diff", "mean+modernbert?out_bias=false",
        "mean+modernbert?out_bias=false&pair=uv_diff", "mean+ridge", "mean+ridge?pair=uv_diff",
        "attention+linear", "mean+linear?late=true",
    ],
    "aspects": list(OF_LABELS),
    "pairs": [
        "mean+linear", "mean+linear?loss=ovr", f"mean+linear?{SIAMESE}",
        f"mean+linear?loss=ovr&{SIAMESE}",
        "cls+roberta", "cls+roberta?loss=ovr", f"cls+roberta?{SIAMESE}",
        f"cls+roberta?loss=ovr&{SIAMESE}",
        "mean+knn", f"mean+knn?{SIAMESE}", "mean+ridge", f"mean+ridge?{SIAMESE}",
        "attention+linear", "attention+linear?loss=ovr",
    ],
}  # fmt: skip
METRICS = {"similarity": "spearman", "aspects": "micro_f1", "pairs": "accuracy"}
ROWS = 80
# A tiny model of random weights gives vectors so alike that 16 bits change answers.
CONFIG = ExperimentConfig(seeds=2, folds=2, precision="exact")
every_kind = pytest.mark.parametrize("sample", RUNS)
every_cell = pytest.mark.parametrize(
    ("sample", "name"), [(sample, name) for sample, names in CELLS.items() for name in names]
)


pytestmark = pytest.mark.usefixtures("little")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Data]:
    """The first rows of a sample."""
    folder = tmp_path_factory.mktemp("data")
    return cache(lambda name: read(write_sample(folder / f"{name}.csv", name, ROWS)))


@pytest.fixture
def start(tiny: Callable[..., Path], samples: Callable[[str], Data]) -> Callable[..., RunFolder]:
    """Begins a run on a tiny base model."""

    def begun(sample: str, **settings: Any) -> RunFolder:
        given = {"data": samples(sample), "config": CONFIG, "model": str(tiny())}
        return begin(RunRequest(**given | settings))

    return begun


@pytest.fixture(scope="module")
def worked(
    tiny: Callable[..., Path],
    samples: Callable[[str], Data],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[RunFolder, list[Event]]]:
    """A run of each kind of label, worked without a break, and its events."""

    @cache
    def run(sample: str) -> tuple[RunFolder, list[Event]]:
        given: dict[str, Any] = {"config": CONFIG, "model": str(tiny())}
        asked = RunRequest(data=samples(sample), **given, **RUNS[sample])
        made = begin(asked, out=tmp_path_factory.mktemp("whole") / sample)
        return made, list(working(made))

    return run


@pytest.fixture(scope="module")
def whole(worked) -> Callable[[str], RunFolder]:
    """The same run; never to be changed."""
    return lambda sample: worked(sample)[0]


def order_of(run: RunFolder) -> list[str]:
    return list(question.load(run).recipes)


# A whole run


@every_kind
def test_a_run_ends_with_every_cell_measured(whole, sample: str) -> None:
    found = leaderboard(whole(sample))
    assert found.state == "finished"
    assert sorted(cell.name for cell in found.cells) == sorted([*CELLS[sample], *BASELINES])
    assert not [note for note in found.notes if "could not be trained" in note]
    assert found.metric == METRICS[sample]
    values = found.as_json()
    json.dumps(values, allow_nan=False)
    assert {"best", "verdict", "seconds", "forward_seconds", "protocol"} <= set(values)
    keys = {"recipe", "f1", "confusion", "calibration", "parameters", "train_seconds"}
    lowest = -1 if found.metric == "spearman" else 0
    for cell in values["cells"]:
        assert keys <= set(cell)
        assert cell["metric"] == found.metric
        assert lowest <= cell["low"] <= cell["score"] <= cell["high"] <= 1
        assert cell["score"] == cell[found.metric]
        assert cell["score"] == pytest.approx(fmean(cell["scores"]))
        assert cell["baseline"] or cell["latency_ms"] > 0
    assert all(sentence.endswith(".") for sentence in found.verdict)
    told = facts_of(whole(sample))
    assert (told["best"], told["metric"]) == (found.best, found.metric)
    assert told["score"] == found.cell(found.best).measures.score


@every_kind
def test_the_learning_curve_ends_in_the_leaderboard(whole, sample: str) -> None:
    found = leaderboard(whole(sample))
    assert len(found.curve) in (2, 3)  # of a quarter of few rows none may be left to choose on
    rows = [stage["rows"] for stage in found.curve]
    assert rows == sorted(set(rows))
    assert "mean+linear" in found.curve[-1]["scores"]
    for name, one in found.curve[-1]["scores"].items():
        assert one["score"] == pytest.approx(found.cell(name).measures.score)
        assert one["low"] <= one["score"] <= one["high"]
    noun = {"spearman": "Spearman correlation", "micro_f1": "micro-F1", "accuracy": "accuracy"}
    assert f"The {noun[found.metric]} of `" in found.curve_says


@pytest.mark.parametrize(
    ("sample", "metric"),
    slow.but_each(
        4,
        [
            ("pairs", "balanced_accuracy"),
            ("pairs", "mcc"),
            ("aspects", "macro_f1"),
            ("aspects", "exact_match"),
            ("similarity", "neg_mean_absolute_error"),
            ("similarity", "r2"),
        ],
    ),
)
def test_a_metric_that_was_asked_for_ranks_and_decides_from_search_to_curve(
    start, sample: str, metric: str
) -> None:
    recipes = ["mean+linear", "mean+ridge", "mean+roberta"]
    run = start(sample, recipes=recipes, config=replace(CONFIG, metric=metric, race=True))
    found, name = finished(run), SCORES[metric]
    assert found.metric == metric
    json.dumps(found.as_json(), allow_nan=False)
    heads = [cell for cell in found.cells if not cell.is_baseline]
    assert heads == sorted(heads, key=lambda cell: -cell.measures.score)
    for cell in found.cells:
        own = cell.measures
        assert own.score == own.values[metric] == pytest.approx(fmean(own.scores))
        assert name.low <= own.low <= own.score <= own.high <= name.high
    # Settings were judged in the same units, on other rows.
    spread = max(abs(cell.measures.score) for cell in heads) + 1
    best = [max(point.score for point in cell.tried) for cell in heads]  # others may be far below
    assert all(abs(score) <= 3 * spread for score in best)
    assert set(found.curve[-1]["scores"]) == set(recipes)
    for one in found.curve[-1]["scores"]:
        last = found.curve[-1]["scores"][one]["score"]
        assert last == pytest.approx(found.cell(one).measures.score)
    assert name.noun in found.curve_says
    assert format.offered(found.cells)[0].name == metric
    assert format.problem_of_cells(found.cells) is found.problem
    assert name.told(found.cell(found.best).measures.score) in charts.heat_map(found).says
    assert str(Markup.escape(name.title)) in report.report(found)
    head = found.classifier(recipes[0]).head
    assert (head.scores.metric, head.scores.among) == (metric, 3)
    card = model_card(found.classifier(recipes[0]), usage="", notes=())
    assert "3 heads were scored on these rows" in card


def test_solved_heads_of_one_seed_are_told_apart_and_learned_ones_are_not(start, samples) -> None:
    recipes = ["mean+linear", "mean+ridge", "mean+roberta"]
    config = replace(CONFIG, seeds=1, curve=False)
    run = start("pairs", recipes=recipes, config=config, test=samples("pairs"))
    found = finished(run)
    random = {
        name: answers_of_cell(run, number, name).answers.is_random
        for number, name in enumerate([*recipes, *BASELINES])
    }
    assert random == {name: name == "mean+roberta" for name in random}
    assert not found.cell("mean+roberta").to_reference.differs
    assert any("trained once" in sentence for sentence in found.verdict)


def test_heads_are_judged_by_macro_f1_where_most_rows_are_of_one_class(start, samples) -> None:
    data = samples("pairs")
    corpus = data.corpus
    some = [n for n, target in enumerate(corpus.targets) if target == corpus.targets[0]]
    few = [n for n, target in enumerate(corpus.targets) if target != corpus.targets[0]][:8]
    rows = sorted([*some, *few])
    names = ("texts", "pairs", "targets", "lines")
    less = replace(corpus, **{one: tuple(getattr(corpus, one)[n] for n in rows) for one in names})
    lopsided = replace(data, corpus=less)
    config = replace(CONFIG, seeds=1, curve=False)
    run = start("pairs", data=lopsided, recipes=["mean+ridge"], config=config)
    share = len(some) / len(rows)
    name = corpus.classes[corpus.targets[0][0]]
    told = f"{100 * share:.0f} % of the rows are '{name}'"
    found = finished(run)
    assert found.metric == "macro_f1"
    assert found.notes[0] == f"Heads are judged by macro-F1: {told}."
    other = replace(config, metric="accuracy")
    found = finished(start("pairs", data=lopsided, recipes=["mean+ridge"], config=other))
    assert found.metric == "accuracy"
    assert found.notes[0].startswith(f"{told}, and accuracy says little")


def test_few_rows_per_class_are_a_warning_with_folds_alone(start, tmp_path: Path) -> None:
    file, test = tmp_path / "few.csv", tmp_path / "test.csv"
    config = replace(CONFIG, seeds=1, folds=3, curve=False)
    for classes, is_few in ((2, False), (8, True)):
        lines = [f"text {n} of {n % classes},class {n % classes}" for n in range(48)]
        file.write_text("\n".join(["text,label", *lines]))
        test.write_text("\n".join(["text,label", *(f"other {line}" for line in lines)]))
        data = read(file)
        run = start("sentiment", data=data, recipes=["mean+ridge"], config=config)
        assert any("rows per class" in note for note in finished(run).notes) is is_few
        both = {"data": data, "test": read(test)}
        run = start("sentiment", **both, recipes=["mean+ridge"], config=config)
        assert not any("rows per class" in note for note in finished(run).notes)


@every_kind
def test_a_cell_comes_back_from_disk_as_it_was(worked, sample: str) -> None:
    run, events = worked(sample)
    told = [event.cell for event in events if isinstance(event, CellDone)]
    for number, name in enumerate([*order_of(run), *BASELINES]):
        cell, wanted = kept(run, number), next(cell for cell in told if cell.name == name)
        assert cell is not None
        one, other = (cell.as_json() for cell in (cell, wanted))
        assert {**one, "latency_ms": None} == {**other, "latency_ms": None}
        assert cell.tried == wanted.tried


@pytest.mark.parametrize("sample", slow.but_each(3, FEW))
def test_a_run_that_is_stopped_resumes_to_the_same_numbers(start, sample: str) -> None:
    ends: tuple[Callable[[Any], bool], ...] = (
        lambda event: getattr(event, "says", "").startswith("Scoring"),
        lambda event: isinstance(event, CurvePointTried),
        lambda event: isinstance(event, CellDone) and event.done == 1,
        lambda event: getattr(event, "says", "").startswith("Training the leaders"),
    )
    unbroken, run = start(sample, **FEW[sample]), start(sample, **FEW[sample])
    wanted, seconds = bare(finished(unbroken).as_json()), 0.0
    for end in ends:  # stopped again and again
        stream = working(run)
        assert isinstance(stream, Generator)
        next(event for event in stream if end(event))
        stream.close()
        assert leaderboard(run).state == "stopped"
        repr(leaderboard(run))
        assert run.read("end.json")["seconds"] > seconds  # of all resumptions together
        seconds = run.read("end.json")["seconds"]
    assert bare(finished(run).as_json()) == wanted
    assert tensors(run) == tensors(unbroken)


@pytest.mark.parametrize("repetitions", [1, 2])
def test_labels_of_each_fold_are_given_from_its_own_thresholds(start, repetitions: int) -> None:
    config = replace(CONFIG, curve=False, repetitions=repetitions)
    run = start("aspects", recipes=["mean+linear"], config=config)
    found, targets = finished(run).cell("mean+linear").measures, question.load(run).task.targets
    answers = answers_of_cell(run, 0, "mean+linear").answers
    assert len(answers.rows) == 2 * repetitions
    wrong = [
        float((torch.cat(answers.given[at : at + 2]) != targets[rows].bool()).double().mean())
        for at in range(0, 2 * repetitions, 2)
        if len(rows := torch.cat(answers.rows[at : at + 2])) == len(targets)
    ]
    assert len(found.scores) == len(wrong) == repetitions
    assert found.values["hamming_loss"] == pytest.approx(fmean(wrong))


# A head of it, asked again


@every_cell
def test_a_head_of_a_run_answers_as_its_stored_answers_say(whole, sample: str, name: str) -> None:
    run = whole(sample)
    corpus = question.load(run).corpus
    told = answers_of_cell(run, order_of(run).index(name), name)
    rows, given = told.answers.rows[0].tolist(), told.answers.given[0]
    found = classifier(run, name)
    found = replace(found, head=found.head.raw or found.head)  # cells hold heads as trained
    texts = [corpus.texts[row] for row in rows]
    pairs = [corpus.pairs[row] for row in rows] if corpus.pairs else []
    logits = found.logits(texts, pairs)
    cell = leaderboard(run).cell(name)
    assert found.head.scores is not None
    assert (found.head.scores.metric, found.head.scores.accuracy) == (
        METRICS[sample],
        cell.measures.score,
    )
    if sample == "similarity":
        # The one number, in the units of the labels.
        assert_close(logits[:, 0], given, rtol=1e-3, atol=5e-3)
        assert found.head.problem.gives_number
        assert 0 < float(given.mean()) < 5
    elif sample == "aspects":
        bars = torch.tensor(found.head.thresholds)
        assert bars.any()  # it is not what the usual threshold would give
        assert ((logits > bars) == given)[(logits - bars).abs() > 5e-3].all()
        wanted = [tuple(compress(corpus.classes, row)) for row in (logits > bars).tolist()]
        assert found.predict(texts) == wanted
        assert cell.measures.calibration is not None
        assert found.head.temperature > 0  # of its own development rows: the cell's is of all
    else:
        shares = found.head.problem.probabilities(logits)
        assert found.head.problem is (ONE_VERSUS_REST if "loss=ovr" in name else SINGLE_LABEL)
        assert_close(shares.amax(dim=1), told.confidence[0], rtol=0, atol=5e-3)
        sure = (shares[:, 0] - 0.5).abs() > 5e-3
        assert torch.equal(shares.argmax(dim=1)[sure], given[sure])


def test_a_siamese_head_of_a_run_needs_two_texts(whole) -> None:
    found = classifier(whole("pairs"), f"mean+linear?{SIAMESE}")
    with pytest.raises(DataError, match="compares two texts, and there is one"):
        found.logits(["a cat"])
    assert found.logits(["a cat", "a dog"], ["a mat", "home"]).shape == (2, 2)
    assert found.logits([], []).shape == (0, 2)


# The texts on which heads part


@every_kind
def test_the_texts_on_which_heads_part_most_come_first(whole, sample: str) -> None:
    run = whole(sample)
    corpus, names = question.load(run).corpus, order_of(run)
    answers = [answers_of_cell(run, number, name).answers for number, name in enumerate(names)]
    rows, given = torch.cat(answers[0].rows).tolist(), [torch.cat(one.given) for one in answers]
    found = disagreements(run, most=100)
    shares = [one.share for one in found]
    assert shares == sorted(shares, reverse=True)
    assert len(rows) == ROWS  # every row was scored in one of the folds
    if sample == "similarity":
        spread = torch.stack(given).std(dim=0)
        assert (len(found), shares[0]) == (ROWS, pytest.approx(float(spread.max())))
    else:
        told = [[spelled(corpus, answer) for answer in own] for own in given]
        assert len(found) == sum(len({*column}) > 1 for column in zip(*told, strict=True)) > 0
    for one in found:
        row = corpus.lines.index(one.line)
        assert (one.text, one.label) == (corpus.texts[row], label_of(corpus, row))
        assert one.pair == (corpus.pairs[row] if corpus.pairs else "")
        place, texts = rows.index(row), [answer for _, answer, _ in one.answers]
        assert texts == [spelled(corpus, own[place]) for own in given]
        assert [name for name, _, _ in one.answers] == names
        assert all((sure is None) == (sample != "pairs") for _, _, sure in one.answers)
        if sample != "similarity":
            commonest = max(map(texts.count, texts))
            assert one.share == pytest.approx(1 - commonest / len(texts))
    assert disagreements(run, most=3) == found[:3]


# Two texts a row, each read by itself


@pytest.fixture
def pair_read(start, small: Backbone) -> tuple[question.RunSpec, FeatureStore, list[str]]:
    """What the base model made of pairs under a joint and under siamese readings."""
    readings = [f"mean+linear?pair={name}" for name in pairing] + ["cls+linear", "mean+linear"]
    run = start("pairs", recipes=readings)
    asked = question.load(run)
    backbone = load(asked.model)
    events = run_features(run, asked, cells_of(asked, backbone), backbone)
    return asked, result(events), readings


def test_vectors_of_a_siamese_reading_are_those_of_the_assembly(pair_read) -> None:
    asked, found, _ = pair_read
    backbone = load(asked.model)
    corpus, some = asked.corpus, list(range(0, len(asked.corpus), 7))
    first, second = (
        backbone.states(backbone.encode([side[row] for row in some]))
        for side in (corpus.texts, corpus.pairs)
    )
    for name in pairing:
        resolved = resolve(f"mean+linear?pair={name}")
        vectors, index = found.vectors(resolved.reading)
        module = RecipeModule(resolved, backbone, 2)
        assert vectors.shape[1] == module.width
        assert len(index) == len(corpus)
        with torch.no_grad():
            wanted = module.vectors(first, second)
        assert_close(vectors[index[some]], wanted, rtol=1e-3, atol=1e-4)


def test_texts_that_stand_on_both_sides_are_read_once(
    start, samples: Callable[[str], Data]
) -> None:
    data = samples("pairs")
    texts = data.corpus.texts
    turned = (*texts[1:], texts[0])  # every first text is the second of another row
    corpus = replace(data.corpus, pairs=turned, fingerprint="turned")
    run = start("pairs", data=replace(data, corpus=corpus), recipes=["mean+linear?pair=uv"])
    asked = question.load(run)
    backbone = load(asked.model)
    found = result(run_features(run, asked, cells_of(asked, backbone), backbone))
    assert found.joint is None
    assert found.alone is not None
    assert len(found.alone.tokens) == len(set(texts))
    vectors, index = found.vectors("mean?pair=uv")
    width = vectors.shape[1] // 2
    rows = vectors[index]
    assert torch.equal(rows[1:, :width], rows[:-1, width:])


def test_what_both_ways_in_read_is_counted_for_each_row(pair_read) -> None:
    asked, found, _ = pair_read
    assert found.joint is not None
    tokens, whole, unknown = found.counts()
    assert tokens.shape == whole.shape == unknown.shape == (len(asked.corpus),)
    alone = replace(found, joint=None)
    apart, _, _ = alone.counts()
    # Two texts by themselves have a special token more than as one sequence.
    uncut = whole == tokens
    assert torch.equal(apart[uncut], tokens[uncut] + 1)


# Which cells a question comes to


def chosen(backbone: Backbone, data: Data, **settings: Any) -> list[str]:
    request = RunRequest(data=data, **settings)
    return list(map(str, chosen_recipes(request, data.corpus, backbone).recipes))


def recipes_of(grid: str, backbone: Backbone) -> list[str]:
    return list(map(str, grids.recipes_of(grid, backbone)))


def test_features_are_all_that_sentence_bert_compares(small: Backbone, samples) -> None:
    data = samples("pairs")
    found = chosen(small, data, recipes=["mean+linear"], pairs=("features",))
    assert found == [f"mean+linear?pair={name}" for name in pairing]
    assert len(found) == 7
    both = chosen(small, data, recipes=["mean+linear"], pairs=("joint", "siamese", "features"))
    assert both == [
        "mean+linear",
        f"mean+linear?{SIAMESE}",
        *(f for f in found if SIAMESE not in f),
    ]
    named = chosen(small, data, recipes=["mean+linear"], pairs=("uv", "joint", "uv"))
    assert named == ["mean+linear?pair=uv", "mean+linear"]


def test_a_recipe_that_says_it_itself_keeps_it(small: Backbone, samples) -> None:
    recipes = ["mean+linear?pair=uv", "mean+linear?loss=ovr", "mean+ridge"]
    found = chosen(
        small, samples("pairs"), recipes=recipes, pairs=("joint", "prod"), losses=("softmax", "ovr")
    )
    assert found == [
        "mean+linear?pair=uv",
        "mean+linear?loss=ovr&pair=uv",
        "mean+linear?loss=ovr",
        "mean+linear?loss=ovr&pair=prod",
        "mean+ridge",
        "mean+ridge?pair=prod",
    ]


@pytest.mark.parametrize("sample", SAMPLES)
def test_without_a_word_a_question_comes_to_its_grid(small: Backbone, samples, sample: str) -> None:
    data = samples(sample)
    assert chosen(small, data) == recipes_of("small", small)
    assert chosen(small, data, pairs=(), losses=()) == recipes_of("small", small)
    assert chosen(small, data, recipes=["mean+linear", "Mean+Linear"]) == ["mean+linear"]


def test_every_layer_is_a_cell(small: Backbone, backbone: Backbone) -> None:
    assert recipes_of("layers", small) == ["mean@0+linear", "mean@1+linear", "mean+linear"]
    assert recipes_of("layers:cls", small) == ["cls@0+linear", "cls@1+linear", "cls+linear"]
    found = recipes_of("layers", backbone)
    assert len(found) == backbone.layers + 1
    for grid in ("layers:nothing", "heads:nothing", "poolings:nothing", "layer", "small:cls", ""):
        with pytest.raises(RecipeError, match="There is no"):
            recipes_of(grid, small)


def test_every_head_that_suits_the_labels_is_a_cell(small: Backbone, samples) -> None:
    for sample, absent in (
        ("sentiment", {"proportional_odds"}),  # its classes have no order
        ("aspects", {"proportional_odds", "cosine_margin", "cosine", "knn"}),
        ("similarity", {name for name, top in head.items() if top.single_label} | {"lda"}),
    ):
        found = {resolve(one).head.name for one in chosen(small, samples(sample), grid="heads")}
        assert not found & absent
        assert {"linear", "roberta", "dense_linear", "norm_linear", "residual"} <= found
    found = chosen(small, samples("sentiment"), grid="heads:cls@cat4")
    assert "cls@cat4+lda" in found
    assert len(found) == len(head) - 1
    assert all(one.startswith("cls@cat4+") for one in found)


def test_every_pooling_that_suits_the_base_model_is_a_cell(small: Backbone, samples) -> None:
    found = chosen(small, samples("sentiment"), grid="poolings:mlp")
    assert {"mean+mlp", "gem+mlp", "cls_mean+mlp", "std+mlp"} <= set(found)
    assert not any(resolve(one).needs_states for one in found)
    pairs = chosen(small, samples("pairs"), grid="poolings", pairs=("joint", "diff"))
    assert {"mean+linear", "mean+linear?pair=diff"} <= set(pairs)


def test_one_recipe_in_every_usual_way_that_its_base_model_can_be_learned(
    small: Backbone, samples
) -> None:
    data = samples("sentiment")
    found = chosen(small, data, grid="tunes")
    assert found == [
        "mean+linear",
        *(f"mean+linear?tune={tune}" for tune in ("last2", "lora", "full", "lpft")),
    ]
    found = chosen(small, data, grid="tunes:cls+roberta", tune=("bitfit",))
    assert {"cls+roberta", "cls+roberta?tune=bitfit", "cls+roberta?tune=full"} <= set(found)
    assert len(found) == 6
    question = RunRequest(data=data, grid="tunes:mean@0+linear")
    choice = chosen_recipes(question, question.data.corpus, small)  # which depends on no layer
    assert "mean@0+linear?tune=full" in map(str, choice.recipes)
    assert "Left out of the grid tunes:mean@0+linear: mean@0+linear?tune=last2" in choice.notes[0]
    with pytest.raises(RecipeError, match="ridge is solved at once"):
        recipes_of("tunes:mean+ridge", small)


def test_a_run_says_what_its_grid_left_out(start, small: Backbone, samples) -> None:
    question = RunRequest(data=samples("sentiment"), grid="heads:cls")
    (says,) = chosen_recipes(question, question.data.corpus, small).notes
    assert says.startswith("Left out of the grid heads:cls: cls+proportional_odds. ")
    run = start("similarity", grid="heads", config=ExperimentConfig(folds=2))
    told = run.read("run.json")["account"]["between"]
    assert any("Left out of the grid heads" in one and "mean+knn" in one for one in told)
    assert chosen_recipes(replace(question, grid="small"), question.data.corpus, small).notes == ()


def test_layers_are_trained_as_any_other_cells(start) -> None:
    config = ExperimentConfig(folds=2, curve=False)
    found = finished(start("pairs", grid="layers", pairs=("joint", "diff"), config=config))
    heads = {cell.name for cell in found.cells if not cell.is_baseline}
    assert heads == {
        f"mean{layer}+linear{way}" for layer in ("@0", "@1", "") for way in ("", "?pair=diff")
    }
    assert found.agreements  # joint and siamese readings under one head are compared


@pytest.mark.parametrize(
    ("recipe", "way", "wanted"),
    [
        ("mean+linear", "joint", "mean+linear"),
        ("mean+linear", "siamese", f"mean+linear?{SIAMESE}"),
        ("mean+linear", "uv", "mean+linear?pair=uv"),
        ("mean+linear?pair=diff", "uv", "mean+linear?pair=diff"),
        ("mean+linear?loss=ovr", "uv", "mean+linear?loss=ovr&pair=uv"),
        ("attention+linear", "uv", "attention+linear"),
    ],
)
def test_one_way_in_for_a_comparison(recipe: str, way: str, wanted: str) -> None:
    assert str(entering(resolve(recipe), way)) == wanted


@pytest.mark.parametrize("way", ["features", "uv_dif", ""])
def test_a_comparison_has_one_way_in_that_there_is(way: str) -> None:
    with pytest.raises(RecipeError, match="There is no pairing called"):
        entering(resolve("attention+linear"), way)


# What cannot be


ORDERED = {"losses": ("softmax", "ordinal")}


@pytest.mark.parametrize(
    ("sample", "settings", "error"),
    [
        ("sentiment", {"recipes": ["mean+robert"]}, RecipeError),
        ("sentiment", {"recipes": ["mean@9+linear"]}, RecipeError),
        ("sentiment", {"recipes": [], "grid": "large"}, RecipeError),
        ("sentiment", {"model": "/nowhere"}, ModelError),
        ("sentiment", {"pairs": ("siamese",)}, DataError),  # one text a row
        ("sentiment", {"pairs": ("joint", "uv")}, DataError),
        ("sentiment", {"recipes": ["mean+linear?pair=uv"]}, DataError),
        ("pairs", {"grid": "layers:pooler", "recipes": []}, RecipeError),
        ("pairs", {"pairs": ("siamse",)}, RecipeError),
        ("pairs", {"recipes": ["attention+linear"], "pairs": ("siamese",)}, RecipeError),
        ("pairs", {"recipes": ["attention+linear?pair=uv"]}, RecipeError),
        ("sentiment", {"losses": ("softmax", "nonsense")}, RecipeError),
        ("sentiment", ORDERED, DataError),  # classes without an order
        ("sentiment", {"recipes": ["mean+linear?loss=ordinal"]}, DataError),
        ("aspects", {"losses": ("ovr",)}, RecipeError),
        ("aspects", {"recipes": ["mean+linear?loss=ovr"]}, RecipeError),
        ("aspects", {"losses": ("ordinal",)}, DataError),
        ("aspects", {"recipes": ["mean+knn"]}, RecipeError),  # one label a text
        ("similarity", {"losses": ("ovr",)}, RecipeError),
        ("similarity", {"recipes": ["mean+knn"]}, RecipeError),  # for classes
        ("similarity", {"recipes": ["mean+logistic"]}, RecipeError),
        ("similarity", {"config": ExperimentConfig(metric="mcc")}, DataError),
        ("similarity", {"config": ExperimentConfig(per_class=8)}, DataError),
        ("similarity", {"config": ExperimentConfig(focal=1.0)}, DataError),
        ("similarity", {"config": ExperimentConfig(smoothing=0.1)}, DataError),
        ("similarity", {"config": ExperimentConfig(class_weights=True)}, DataError),
    ],
    ids=str,
)
def test_a_question_that_does_not_fit_is_a_sentence_and_leaves_no_run(
    start, sample: str, settings: dict[str, Any], error: type[HeadsError]
) -> None:
    with refusing(error):
        start(sample, **{"recipes": ["mean+linear"]} | settings)
    with use_limits(Limits(cells=0)), refusing(LimitError):
        start(sample, recipes=["mean+linear"])
    assert all_runs() == []
    assert not runs_folder().exists() or not list(runs_folder().iterdir())


def test_a_test_of_another_kind_is_refused(start, samples) -> None:
    labels = {name: samples(name) for name in SAMPLES}
    plain = labels["sentiment"]
    texts = replace(labels["aspects"].corpus, classes=plain.corpus.classes)
    for data, test in (
        (labels["similarity"], labels["pairs"]),
        (labels["pairs"], labels["similarity"]),
        (plain, replace(labels["aspects"], corpus=texts)),
    ):
        with pytest.raises(DataError, match="are not of one kind"):
            start("pairs", data=data, test=test, recipes=["mean+linear"])
    with pytest.raises(DataError, match="has second texts"):
        start("pairs", test=plain, recipes=["mean+linear"])


@pytest.mark.parametrize("sample", ["similarity", "aspects"])
def test_a_test_file_of_the_same_kind_is_scored(start, samples, sample: str) -> None:
    data = samples(sample)
    corpus = data.corpus

    def some(rows: Sequence[int], name: str) -> Data:
        def of(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[row] for row in rows) if values else ()

        fields = ("texts", "pairs", "targets", "numbers", "lines")
        changed = {field: of(getattr(corpus, field)) for field in fields}
        return replace(data, corpus=replace(corpus, name=name, fingerprint=name, **changed))

    train, test = some(range(60), "train"), some(range(60, ROWS), "test")
    config = ExperimentConfig(seeds=1, folds=2, curve=False)
    found = finished(start(sample, data=train, test=test, recipes=["mean+linear"], config=config))
    assert found.cell("mean+linear").measures.rows == ROWS - 60
    assert "the 20 rows of the test set" in found.protocol


def test_a_column_of_0_and_1_for_each_label_is_the_same_as_labels_in_one_cell(
    samples, tmp_path: Path
) -> None:
    corpus = samples("aspects").corpus
    rows = [["text", *corpus.classes]]
    for text, targets in zip(corpus.texts, corpus.targets, strict=True):
        rows.append([text, *(str(int(n in targets)) for n in range(len(corpus.classes)))])
    with (tmp_path / "wide.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    wide = read(tmp_path / "wide.csv")
    assert wide.columns.labels == corpus.classes
    for name in ("texts", "targets", "classes", "problem", "numbers"):
        assert getattr(wide.corpus, name) == getattr(corpus, name)


def test_classes_in_an_order_may_be_learned_by_it(start, samples) -> None:
    data = samples("sentiment")
    ordered = in_order(data.corpus, ["negative", "neutral", "positive"])
    run = start(
        "sentiment", data=replace(data, corpus=ordered), recipes=["mean+linear", "mean+roberta"],
        losses=("softmax", "ordinal"), config=ExperimentConfig(seeds=1, folds=2, curve=False),
    )  # fmt: skip
    found = finished(run)
    assert {cell.name for cell in found.cells if not cell.is_baseline} == {
        "mean+linear", "mean+linear?loss=ordinal", "mean+roberta", "mean+roberta?loss=ordinal",
    }  # fmt: skip
    assert "mean_absolute_error" in found.cell("mean+linear").measures.values
    assert classifier(run, "mean+linear?loss=ordinal").head.problem.output_activation == "softmax"


def test_a_layer_that_no_stack_knows_is_learned_also_on_siamese_pairs(start) -> None:
    def strange(width: int, classes: int) -> torch.nn.Sequential:
        """A layer that no stack knows."""
        layers = torch.nn.Sequential()
        layers.add_module("norm", torch.nn.BatchNorm1d(width))
        layers.add_module("classifier", torch.nn.Linear(width, classes))
        return layers

    head(strange)
    try:
        found = finished(
            start(
                "pairs",
                recipes=["mean+strange", "mean+strange?pair=uv"],
                config=ExperimentConfig(seeds=1, folds=2, curve=False),
            )
        )
        assert len(found.cells) == 4
    finally:
        head._parts.pop("strange")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"recipes": ("mean+linear", "attention+linear", "mean+linear?pair=uv")}, 3),
        ({"recipes": ("cls+roberta?tune=last1",)}, 1),
        ({}, 16),
        ({"grid": "layers"}, 3),
        ({"grid": "heads"}, len(head) - 1),  # one needs classes in an order
        ({"grid": "tunes"}, 5),
    ],
)
def test_a_recipe_is_built_once_where_a_run_begins(
    start, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], wanted: int
) -> None:
    built, asked, init, own = list[str](), list[str](), Featurizer.__init__, Backbone.for_recipe

    def count(self: Featurizer, resolved: ResolvedRecipe, backbone: Backbone) -> None:
        built.append(str(resolved))
        init(self, resolved, backbone)

    def count_of_base(self: Backbone, resolved: ResolvedRecipe) -> Backbone:
        asked.append(str(resolved))
        return own(self, resolved)

    monkeypatch.setattr(Featurizer, "__init__", count)
    monkeypatch.setattr(Backbone, "for_recipe", count_of_base)
    start("pairs", **settings)
    assert len(built) == len(set(built)) == wanted
    # What is tuned is asked once more, for the copy of the base model that learns.
    assert len(asked) <= sum(1 + bool(resolve(recipe).is_tuned) for recipe in built)
