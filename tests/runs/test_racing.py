"""A race: who is stopped, that it is decided once and alike, and that it is told honestly."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from few_runs import finished, training_little, write_sample
from safetensors.torch import load_file
from same_runs import tensors
from small_training_data import blobs, cells, training_data_of
from torch import Tensor
from torch.nn.functional import one_hot

from heads.backbone.backbone import Backbone
from heads.data.dataset import Data, read
from heads.data.splits import Splits
from heads.evaluation.metrics import SCORES
from heads.evaluation.predictions import EvaluationTask
from heads.events import Progress
from heads.interfaces.cli import tables
from heads.interfaces.views import leaderboard as view
from heads.interfaces.views.descriptions import remark_run
from heads.interfaces.views.report import report
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL, ProblemType
from heads.runs import racing as heats
from heads.runs import spec as question
from heads.runs.drill_down import disagreements
from heads.runs.features import CellDone
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard, facts_of
from heads.runs.notes import reference_of
from heads.runs.racing import stopped_of
from heads.runs.runner import Event, begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig
from heads.training import racing
from heads.training.events import CurvePointTried, SearchFinished
from heads.training.fitters.base import SearchResult, TriedSettings
from heads.training.fitters.closed_form import ClosedFormFitter
from heads.training.racing import bar, eliminated
from heads.training.scheduler import TrainingData, run_trials
from heads.training.search import search_job
from studies.racing import Whole, ended

RECIPES = ("mean+linear", "mean+roberta", "cls+ridge", "cls+knn", "mean+centroid", "cls+linear")
CONFIG = ExperimentConfig(folds=2, race=True, precision="exact", curve=False)
ROWS = 400
pytestmark = pytest.mark.usefixtures("little")


def answers(*shares: float, rows: int = ROWS, seed: int = 0) -> Tensor:
    """Right or wrong (m, k): each cell answers that share of rows right, the same ones first."""
    rng = torch.Generator().manual_seed(seed)
    hardness = torch.rand(rows, 1, generator=rng)
    own = 0.1 * torch.rand(rows, len(shares), generator=rng)
    return (0.9 * hardness + own < torch.tensor(shares)).float()


def names_of(parts: Tensor) -> list[str]:
    return [f"cell {number}" for number in range(parts.shape[1])]


def out_of(parts: Tensor, always: Sequence[str] = (), texts: Tensor | None = None) -> list[str]:
    texts = torch.arange(len(parts)) if texts is None else texts
    return [one.recipe for one in eliminated(names_of(parts), parts, texts, always)]


# Who is stopped


def test_who_is_far_behind_is_stopped_and_who_is_near_is_not() -> None:
    parts = answers(0.80, 0.795, 0.79, 0.60, 0.70)
    found = eliminated(names_of(parts), parts, torch.arange(ROWS))
    assert [one.recipe for one in found] == ["cell 4", "cell 3"]  # the nearest first
    scores = parts.mean(dim=0)
    for one, cell in zip(found, (4, 3), strict=True):
        assert one.development_score == pytest.approx(float(scores[cell]))
        assert one.behind == pytest.approx(float(scores.max() - scores[cell]))
        assert 0 < one.least < one.behind


def test_the_interval_is_that_of_the_paired_difference() -> None:
    parts = answers(0.8, 0.78, 0.7, 0.5)
    (one,) = [
        one
        for one in eliminated(names_of(parts), parts, torch.arange(ROWS))
        if one.recipe == "cell 2"
    ]
    gaps = (parts[:, 2] - parts[:, 0]).double()
    error = ((gaps - gaps.mean()).square().sum() + 2).sqrt() / ROWS
    assert one.least == pytest.approx(float(-(gaps.mean() + bar(4) * error)))


def test_who_answers_with_no_number_is_last_by_an_error_as_well() -> None:
    rng = torch.Generator().manual_seed(0)
    errors = -(torch.tensor([5.0, 5.5]) * torch.randn(ROWS, 2, generator=rng)).square()
    parts = torch.cat([errors, torch.full((ROWS, 1), torch.nan)], dim=1)
    assert out_of(parts) == names_of(parts)[2:]


def test_in_what_units_numbers_are_does_not_decide_who_is_stopped() -> None:
    rng = torch.Generator().manual_seed(0)
    scales = torch.tensor([1.0, 1.0, 1.4, 1.05, 1.6])
    errors = -torch.randn(ROWS, 5, generator=rng).abs() * scales
    found = out_of(errors)
    assert found == ["cell 2", "cell 4"]
    assert out_of(100 * errors) == out_of(errors / 100) == found
    few = -torch.tensor([[1.0, 1.0, 1.0]]).repeat(8, 1)  # they differ on one text, by much
    few[0, 2] = -50.0
    assert out_of(few) == out_of(few / 50) == []


def test_the_leader_the_second_and_whom_the_caller_names_are_never_stopped() -> None:
    parts = answers(0.9, 0.3, 0.2, 0.1)
    assert out_of(parts) == ["cell 2", "cell 3"]
    assert out_of(parts, always=["cell 3"]) == ["cell 2"]
    assert out_of(answers(0.9, 0.1)) == []
    assert out_of(answers(0.9)) == []


def test_the_order_of_the_cells_does_not_matter() -> None:
    parts = answers(0.7, 0.8, 0.5, 0.79, 0.6)
    order = [3, 0, 4, 1, 2]
    texts = torch.arange(ROWS)
    mine = eliminated(names_of(parts), parts, texts)
    theirs = eliminated([names_of(parts)[n] for n in order], parts[:, order], texts)
    assert [one.recipe for one in mine] == [one.recipe for one in theirs] == [
        "cell 0", "cell 4", "cell 2",
    ]  # fmt: skip


def test_rows_of_one_text_are_one_piece_of_evidence() -> None:
    parts = answers(0.80, 0.80, 0.78, rows=150)
    assert out_of(parts) == []
    often = parts.repeat(4, 1)
    assert out_of(often) == ["cell 2"]
    assert out_of(often, texts=torch.arange(150).repeat(4)) == []


def test_a_head_that_answers_with_no_number_is_stopped_and_stops_nobody() -> None:
    parts = answers(0.8, 0.79, 0.78, 0.1)
    before = out_of(parts)
    parts[:, 3] = torch.nan
    assert out_of(parts) == before
    assert before[-1] == "cell 3"


def test_more_cells_ask_for_a_clearer_difference() -> None:
    assert bar(2) < bar(8) < bar(64) < bar(400)


def test_of_cells_that_are_equally_good_hardly_one_is_stopped() -> None:
    stopped, draws, cells = 0, 100, 16
    for seed in range(draws):
        stopped += len(out_of(answers(*[0.75] * cells, seed=seed)))
    assert stopped / (draws * cells) < 0.02


@pytest.mark.parametrize(
    ("problem", "weighed"),
    [(SINGLE_LABEL, False), (SINGLE_LABEL, True), (MULTI_LABEL, False), (REGRESSION, False)],
)
def test_the_parts_of_every_score_have_it_as_their_mean(
    small: Backbone, problem: ProblemType, weighed: bool
) -> None:
    vectors, classes = blobs(150)
    targets = {MULTI_LABEL: one_hot(classes, 3).float(), REGRESSION: vectors[:, 0] + classes}
    config = ExperimentConfig(folds=2, class_weights=weighed)
    training_data = training_data_of(
        vectors, targets.get(problem, classes), config, problem=problem
    )
    for trial in cells(["mean+linear", "mean+roberta", "mean+ridge"], small, training_data):
        *_, one = run_trials([search_job(trial, training_data)], training_data, 1)
        assert isinstance(one, SearchFinished)
        assert one.parts.shape == (sum(map(len, training_data.splits.development)),)
        scores = [each.point.score for each in one.found]
        assert float(one.parts.mean()) == pytest.approx(fmean(scores), abs=1e-5)
        for number, score in enumerate(scores):
            tried = [p.score for p in one.tried if p.seed == number]
            # The others choose by more rows than the development rows that they are raced on.
            assert trial.name != "mean+roberta" or min(tried) <= score <= max(tried)


# A run with a race


@pytest.fixture
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is behind at all is stopped, so that few rows of random vectors make a race."""
    monkeypatch.setattr(racing, "bar", lambda cells: 0.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read(write_sample(tmp_path_factory.mktemp("data") / "mine.csv", "sentiment", 120))


@pytest.fixture
def start(tiny: Callable[..., Path], data: Data) -> Callable[..., RunFolder]:
    def begun(recipes: Sequence[str] = RECIPES, config: ExperimentConfig = CONFIG) -> RunFolder:
        asked = RunRequest(data=data, recipes=recipes, model=str(tiny()), config=config)
        return begin(asked)

    return begun


@pytest.fixture(scope="module")
def raced(
    tiny: Callable[..., Path], data: Data, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, list[Event]]:
    """A strict race, run to its end, and its events; never to be changed."""
    with training_little(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(racing, "bar", lambda cells: 0.0)
        asked = RunRequest(data=data, recipes=RECIPES, model=str(tiny()), config=CONFIG)
        run = begin(asked, out=tmp_path_factory.mktemp("raced") / "run")
        return run, list(working(run))


def heads_of(found: Leaderboard) -> set[str]:
    return {cell.name for cell in found.cells if not cell.is_baseline}


def test_who_is_stopped_has_no_score_and_is_told_of(raced, capsys) -> None:
    run, events = raced
    found = events[-1]
    assert isinstance(found, Leaderboard)
    out, heads = {one.recipe for one in found.stopped}, heads_of(found)
    assert out
    assert out | heads == set(RECIPES)
    assert not out & heads
    assert {"mean+linear"} < heads  # the reference, and never it alone
    assert found.reference == "mean+linear"
    assert found.best in heads
    compared = {
        one
        for cell in found.cells
        for d in (cell.to_best, cell.to_reference)
        if d
        for one in (d.name, d.other)
    }
    assert not out & compared
    assert not out & {name for item in disagreements(run) for name, _, _ in item.answers}
    for number, name in enumerate(question.load(run).recipes):
        assert (run.path / f"heads/{number:03}.safetensors").exists() == (name in heads)
    told = f"{len(out)} head{'s were' if len(out) > 1 else ' was'} stopped in the race"
    assert (
        f"{len(out)} more {'were' if len(out) > 1 else 'was'} eliminated"
        in found.recommendation.how_sure
    )
    assert found.notes[0].startswith(f"{told}: behind the leader by more than chance")
    assert found.notes[0].endswith(racing.WRONG)
    values = found.as_json()
    json.dumps(values, allow_nan=False)
    assert values["stopped"] == [asdict(one) for one in found.stopped]
    assert set(values["stopped"][0]) == {"recipe", "development_score", "behind", "least"}
    drawn = [str(view.result(found)), report(found)]
    tables.leaderboard(found)
    drawn.append(" ".join(capsys.readouterr().out.split()))
    for text in drawn:
        assert racing.WRONG[:40] in text
        for one in found.stopped:
            told = view.behind(one, found.metric)
            assert told in text, one


def test_a_run_with_a_race_counts_who_is_stopped_as_done(raced) -> None:
    run, events = raced
    found = events[-1]
    assert isinstance(found, Leaderboard)
    assert (found.state, found.planned) == ("finished", 6)
    assert len(found.cells) + len(found.stopped) == 6 + 2
    done = [event for event in events if isinstance(event, CellDone)]
    assert done[-1].done == done[-1].planned == 6
    facts = facts_of(run)
    assert (facts["cells"], facts["planned"], facts["state"]) == (6, 6, "finished")
    again = list(working(run))
    assert not any(isinstance(event, CellDone | CurvePointTried) for event in again)
    says = [event.says for event in events if isinstance(event, Progress)]
    assert "Race, first heat: the settings of 6 of 6 recipes are chosen" in says
    told = f"Race: {len(found.stopped)} of 6 recipes cannot win any more and are stopped"
    assert told in says


def test_who_goes_on_has_the_numbers_of_a_run_without_a_race(raced, start) -> None:
    runs = raced[0], start(config=replace(CONFIG, race=False))
    board, plain = raced[1][-1], finished(runs[1])
    assert plain.stopped == ()
    assert heads_of(plain) == set(RECIPES)
    for name in heads_of(board):
        mine, theirs = board.cell(name), plain.cell(name)
        assert (mine.chosen_by_seed, mine.tried) == (theirs.chosen_by_seed, theirs.tried)
        assert mine.development_score == theirs.development_score
        assert mine.measures.scores == theirs.measures.scores
    recipes = question.load(runs[0]).recipes
    numbers = {f"{recipes.index(name):03}" for name in heads_of(board)}
    kept = [
        {
            path: load_file(run.path / path)
            for path in tensors(run)
            if not path.startswith("race/") and path.partition("/")[2].partition(".")[0] in numbers
        }
        for run in runs
    ]
    assert len(kept[0]) >= len(numbers)
    assert set(kept[0]) == set(kept[1])
    for path, mine in kept[0].items():  # every answer and every head, to the last bit
        assert all(torch.equal(tensor, kept[1][path][name]) for name, tensor in mine.items()), path


@pytest.mark.parametrize("given", [False, True])
def test_what_a_search_found_is_read_back_to_the_last_bit(
    small: Backbone, start, given: bool
) -> None:
    """The tensors too from which learning goes on, and where seeds share what they found."""
    vectors, targets = blobs(150)
    parts = ["train"] * 80 + ["validation"] * 30 + ["test"] * 40 if given else ()
    training_data, run = (
        training_data_of(vectors, targets, ExperimentConfig(seeds=2, folds=2), parts=parts),
        start(),
    )
    recipes = ["mean+linear", "mean+roberta", "mean+ridge"]
    jobs = [search_job(trial, training_data) for trial in cells(recipes, small, training_data)]
    for one in (
        event for event in run_trials(jobs, training_data, 1) if isinstance(event, SearchFinished)
    ):
        number = recipes.index(one.name)
        heats._keep(run, number, one)
        back = heats._kept(run, number)
        assert back is not None
        assert (back.name, back.tried, back.seconds) == (one.name, one.tried, one.seconds)
        assert torch.equal(back.parts, one.parts)
        for mine, theirs in zip(one.found, back.found, strict=True):
            assert (mine.chosen, mine.point) == (theirs.chosen, theirs.point)
            assert mine.held is not None
            assert theirs.held is not None
            assert torch.equal(mine.held, theirs.held)
            # A solved head begins anew on all rows; the others go on from what they came to.
            assert (mine.state is None) == (theirs.state is None) == (one.name == "mean+ridge")
            if mine.state is not None and theirs.state is not None:
                assert set(mine.state) == set(theirs.state)
                assert all(torch.equal(t, theirs.state[name]) for name, t in mine.state.items())
        # What an earlier version kept, without answers to the development rows, is searched anew.
        path = run.path / f"race/{number:03}.safetensors"
        kept = {name: t.clone() for name, t in load_file(path).items() if "held" not in name}
        run.write_tensors(f"race/{number:03}.safetensors", kept)
        assert heats._kept(run, number) is None


def test_a_race_by_the_mean_over_small_classes_stops_hardly_any_of_equal_heads() -> None:
    """Of one development row a class parts never differ from the score, whatever the luck."""
    classes, heads, rng = 77, 12, torch.Generator().manual_seed(0)
    rows = torch.arange(3 * classes)
    config = ExperimentConfig(seeds=3, metric="balanced_accuracy")
    task = EvaluationTask(
        targets=rows % classes,
        classes=tuple(map(str, range(classes))),
        groups=rows,
        metric="balanced_accuracy",
    )
    development = rows.split(classes)
    splits = Splits(
        kind="per class", search=development, development=development, train=development,
        test=development,
    )  # fmt: skip
    features = training_data_of(*blobs(30), ExperimentConfig()).read
    training_data = TrainingData(read=features, task=task, splits=splits, config=config)
    stopped = before = 0
    for _ in range(10):
        found = {f"cell {n}": searched_as(training_data, rng, f"cell {n}") for n in range(heads)}
        parts = torch.stack([one.parts for one in found.values()], dim=1)
        before += len(eliminated(list(found), parts, rows))
        stopped += len(heats.behind(found, training_data))
    assert before > 0.5 * 10 * heads  # by the parts themselves nearly all were
    assert stopped <= 0.05 * 10 * heads


def test_a_tuned_leader_stops_no_head_on_the_frozen_base_model() -> None:
    """The best of those is what it has to beat."""
    rng, training_data = torch.Generator().manual_seed(0), training_data_of(*blobs(600), CONFIG)
    shares = {"mean+linear": 0.7, "mean+mlp": 0.72, "cls+mlp": 0.71, "cls+linear": 0.3}
    tuned = {"mean+linear?tune=full": 0.97, "cls+mlp?tune=full": 0.96, "mean+mlp?tune=lora": 0.5}
    found = {
        name: searched_as(training_data, rng, name, share)
        for name, share in (shares | tuned).items()
    }
    alone = heats.behind({name: found[name] for name in shares}, training_data)
    assert [one.recipe for one in alone] == ["cls+linear"]
    both = heats.behind(found, training_data, list(tuned))
    assert [one for one in both if one.recipe in shares] == list(alone)
    assert {one.recipe for one in both} == {"cls+linear", "mean+mlp?tune=lora"}
    blurred = {one.recipe for one in heats.behind(found, training_data)}
    assert {"mean+mlp", "cls+mlp"} <= blurred


def test_the_reference_is_a_tuned_head_only_where_there_is_no_other() -> None:
    names = ["cls+mlp?tune=full", "cls+mlp", "majority"]
    assert reference_of(names, names[:1]) == "cls+mlp"
    assert reference_of(names[:1], names[:1]) == "cls+mlp?tune=full"
    assert reference_of(["mean+mlp", "cls+linear"]) == "cls+linear"


def searched_as(
    training_data: TrainingData, rng: torch.Generator, name: str, share: float = 0.7
) -> SearchFinished:
    """A cell that answers so many of the development rows right."""
    found = list[SearchResult]()
    count = SCORES[training_data.task.ranked_by].parts[SINGLE_LABEL]
    for rows in training_data.splits.development:
        truth, classes = training_data.task.targets[rows], len(training_data.task.classes)
        right = torch.rand(len(rows), generator=rng) < share
        given = torch.where(right, truth, (truth + 1) % classes)
        parts = count(given, truth, classes).float()
        point = TriedSettings(settings={}, step=0, score=float(parts.mean()), loss=1.0, parts=parts)
        held = one_hot(given, classes).float()
        found.append(SearchResult(chosen={}, point=point, held=held))
    return SearchFinished(name=name, found=tuple(found), tried=(), seconds=0.0)


@pytest.mark.usefixtures("_strict")
def test_what_is_decided_stays_decided(start, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = start(), set[str]()
    stream = working(run)
    for event in stream:
        if isinstance(event, CellDone) and not event.cell.is_baseline:
            out = {one.recipe for one in stopped_of(run)}
            break
    stream.close()
    assert out
    monkeypatch.setattr(racing, "bar", lambda cells: 100.0)  # nobody would be stopped now
    assert {one.recipe for one in finished(run).stopped} == out


def test_a_race_that_stops_nobody_says_so(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "bar", lambda cells: 100.0)
    found = finished(start())
    assert found.stopped == ()
    assert heads_of(found) == set(RECIPES)
    says = "The race stopped no head: none is behind the leader by more than chance"
    assert any(note.startswith(says) for note in found.notes)
    assert says in " ".join(remark_run(found))
    plain = finished(start(config=replace(CONFIG, race=False)))
    assert "race" not in json.dumps(plain.as_json() | {"run": ""})


@pytest.mark.usefixtures("_strict")
def test_a_cell_that_cannot_be_searched_takes_no_part(start, monkeypatch) -> None:
    searched = ClosedFormFitter.search

    begun = list[str]()

    def fails(self: ClosedFormFitter, *given: Any) -> Any:
        begun.append(self.resolved.head.name)
        if self.resolved.head.name == "knn":
            raise ZeroDivisionError("in a search")
        return searched(self, *given)

    monkeypatch.setattr(ClosedFormFitter, "search", fails)
    run = start()
    found = finished(run)
    assert begun.count("knn") == 1  # nor is it searched again at once
    assert "cls+knn" not in heads_of(found) | {one.recipe for one in found.stopped}
    assert any(note.startswith("cls+knn could not be trained") for note in found.notes)
    monkeypatch.setattr(ClosedFormFitter, "search", searched)
    assert "cls+knn" in heads_of(finished(run))  # it is done whole then


@pytest.mark.usefixtures("_strict")
def test_nothing_after_the_race_moves_the_bar_back(start, monkeypatch) -> None:
    def fails(self: ClosedFormFitter, *given: Any) -> Any:
        raise ZeroDivisionError("in every solver")

    monkeypatch.setattr(ClosedFormFitter, "learn", fails)
    events = list(working(start()))
    told = [event for event in events if isinstance(event, Progress)]
    assert any("could not be trained" in event.says for event in told)
    shares = [event.share for event in told]
    assert shares == sorted(shares)


# How often a race is wrong


def test_a_replay_counts_a_lost_winner_its_regret_and_the_time_saved() -> None:
    parts = answers(0.9, 0.9, 0.5, 0.3)
    tested = answers(0.7, 0.6, 0.8, 0.5, rows=200)[None]  # the third is better than it looked
    whole = Whole(
        data="made up",
        names=["mean+linear", "b", "c", "d"],
        parts=parts,
        texts=torch.arange(ROWS),
        tested=tested,
        search=torch.ones(4),
        learn=torch.full((4,), 3.0),
    )
    found = ended(whole, parts, whole.texts)
    assert (found.lost, found.kept) == (True, 2)
    assert found.regret == pytest.approx(100 * float(whole.scores[2] - whole.scores[0]))
    assert found.share == pytest.approx((4 + 2 * 3) / 16)
    found = ended(whole, tested[0], torch.arange(200))
    assert (found.lost, found.regret) == (False, 0.0)
