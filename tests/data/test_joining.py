"""Test rows that do not quite fit the others: of classes never met, in other spellings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from heads.api import read as read_again
from heads.api import train_grid
from heads.data.corpus import Corpus, build, numbered, select_rows
from heads.data.dataset import Data, read
from heads.data.joining import join, settle_unseen
from heads.data.splits import Splits
from heads.data.table import Columns
from heads.errors import DataError
from heads.evaluation.predictions import EvaluationTask
from heads.problem import MULTI_LABEL
from heads.runs.folder import RunFolder
from heads.runs.leaderboard import Leaderboard
from heads.runs.spec import RunSpec, load
from heads.runs.unseen_classes import says_of_unmet, set_aside, unmet
from heads.settings import ExperimentConfig
from heads.training.fitters import successive_halving


def corpus_of(name: str, labels: list, **given) -> Corpus:
    return build(name, [f"{name} {row}" for row in range(len(labels))], labels, **given)


TRAIN = corpus_of("train", ["flight", "fare", "city"] * 10)


def told(corpus: Corpus) -> list[str]:
    return [corpus.classes[target] for (target,) in corpus.targets]


def test_test_rows_of_a_class_never_met_are_set_aside_and_counted() -> None:
    test = corpus_of("test", ["flight", "fare"] * 100 + ["day_name", "flight+fare", "day_name"])
    corpus = join(TRAIN, test)
    assert corpus.classes == TRAIN.classes
    assert corpus.parts == ("train",) * 30 + ("test",) * 200
    assert told(corpus) == ["flight", "fare", "city"] * 10 + ["flight", "fare"] * 100
    assert len(corpus.texts) == len(corpus.targets) == 230
    assert "test 202" not in corpus.texts
    (says,) = corpus.notes
    assert says.startswith(
        "3 of the 203 rows for scoring have a class that no row to learn from has ('day_name', "
        "'flight+fare'); they are set aside"
    )
    assert "--unseen wrong" in says


def test_or_they_are_scored_as_wrong() -> None:
    test = corpus_of("test", ["flight", "fare"] * 10 + ["day_name"])
    corpus = join(TRAIN, test, "wrong")
    assert corpus.classes == (*TRAIN.classes, "day_name")
    assert told(corpus)[-1] == "day_name"
    assert len(corpus) == 51
    assert "scored, and no head can get them right" in corpus.notes[0]


def test_a_test_of_another_task_is_refused_in_a_sentence() -> None:
    known = ["flight", "fare"] * 5
    assert len(join(TRAIN, corpus_of("test", [*known, *["rain"] * 10]))) == 40
    for labels, hint in (
        ([*known, *["rain"] * 11], "Label both alike."),
        (["Flight", "Fare"] * 5, "Label both alike: they differ by case."),
    ):
        with pytest.raises(DataError) as refused:
            join(TRAIN, corpus_of("test", labels))
        assert "different tasks" in str(refused.value)
        assert refused.value.hint == hint


def test_one_and_one_point_nought_are_one_class_in_both_files() -> None:
    stars = corpus_of("train", ["1", "2", "3"] * 5)
    corpus = join(stars, corpus_of("test", ["1.0", "3.0", "2.0", "1.0"]))
    assert (corpus.classes, corpus.ordered) == (("1", "2", "3"), True)
    assert told(corpus)[15:] == ["1", "3", "2", "1"]
    assert list(corpus.notes) == ["'1.0' of test was taken for '1' of train."]
    corpus = join(stars, corpus_of("test", ["1", "4", "2", "3"]))
    assert (corpus.classes, corpus.ordered, len(corpus)) == (("1", "2", "3"), True, 18)


def test_several_labels_and_numbers_are_joined_too() -> None:
    train = corpus_of("train", ["a|b", "b|c", "c", "a"] * 5)
    test = corpus_of("test", ["a", "b|new", "c", "b"])
    corpus = join(train, test)
    assert (len(corpus), corpus.classes) == (23, ("a", "b", "c"))
    assert "1 of the 4 rows for scoring has a class" in corpus.notes[0]
    scored = join(train, test, "wrong")
    assert scored.targets[21] == (1, 3)
    one = numbered("n", ["x", "y"], [1.0, 2.0])
    assert join(one, numbered("m", ["z"], [9.0])).numbers == (1.0, 2.0, 9.0)


def test_a_split_column_is_treated_alike() -> None:
    labels = ["a", "b"] * 10 + ["a", "b", "a", "new"]
    corpus = corpus_of("n", labels, parts=["train"] * 20 + ["test"] * 4)
    left = settle_unseen(corpus)
    assert (len(left), left.classes, len(left.notes)) == (23, ("a", "b"), 1)
    assert left.fingerprint != corpus.fingerprint
    scored = settle_unseen(corpus, "wrong")
    assert (replace(scored, notes=()), len(scored.notes)) == (corpus, 1)
    assert settle_unseen(TRAIN) is TRAIN


def test_rows_that_differ_have_fingerprints_that_differ() -> None:
    """Some rows of a corpus are known by which these are, not by how many."""
    parts = [select_rows(TRAIN, rows) for rows in (range(10), range(1, 11), range(10, 0, -1))]
    others = [corpus_of("train", ["flight", "fare", "city", "city", "fare"] * 2), TRAIN]
    tests = [corpus_of("test", labels) for labels in (["flight", "new"], ["new", "flight"])]
    joins = [join(TRAIN, test) for test in tests]
    assert {len(corpus) for corpus in joins} == {31}
    found = [corpus.fingerprint for corpus in (*parts, *others, *joins)]
    assert len(set(found)) == len(found)
    assert select_rows(TRAIN, range(10)).fingerprint == found[0]


def test_every_step_adds_to_one_list_of_notes() -> None:
    train = corpus_of("train", ["a", "b"] * 10 + ["a"], parts=["train"] * 20 + ["test"])
    corpus = join(
        select_rows(train, range(1, 21), "1 row is left out."), corpus_of("t", ["a", "c"])
    )
    first, *others = corpus.notes
    assert first == "1 row is left out."
    assert len(others) == 2  # the row that is marked for testing, and the one of an unseen class


def test_what_a_test_shares_with_rows_to_learn_from_is_said() -> None:
    def pairs(name: str, second: str, group: str) -> Corpus:
        texts = [f"{name} premise {row}" for row in range(10)]
        seconds = [f"{second} {row}" for row in range(10)]
        return build(name, texts, ["x", "y"] * 5, seconds, groups=[group] * 10)

    notes = join(pairs("one", "same", "g"), pairs("two", "same", "g")).notes
    assert any(note.startswith("100 % of the rows of the test file share one") for note in notes)
    assert any(
        note.startswith("10 of the 10 rows of the test file are of a group") for note in notes
    )
    assert join(pairs("one", "this", "g"), pairs("two", "that", "h")).notes == ()


# Whole runs

RECIPES = ("mean+linear", "mean+roberta", "mean+centroid", "mean+cosine", "mean+ridge", "mean+knn")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: Callable[..., Path]) -> Callable:
    """What training some heads on a tiny base model comes to, and the run as it is kept."""
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(successive_halving, "CAP", 24)

    def train(data: Data, test: Data | None = None, **settings) -> tuple[Leaderboard, RunSpec]:
        settings = {"seeds": 2, "folds": 2, "curve": False} | settings
        config = ExperimentConfig(precision="exact", **settings)
        out = tmp_path / "_".join(map(str, settings.values()))
        # A class that is never met must be answered by every kind of head.
        recipes = RECIPES if config.unseen == "wrong" else RECIPES[:2]
        found = train_grid(
            data, test=test, recipes=recipes, model=str(tiny()), config=config, out=out
        )
        return found, load(RunFolder(path=out))

    return train


WORDS = {"flight": "a red fox runs", "fare": "the old stone", "city": "cold rain at night"}


def saved(folder: Path, name: str, labels: list[str]) -> Data:
    lines = [
        f"{WORDS.get(label, 'again')} {at},{label},a{at // 6}" for at, label in enumerate(labels)
    ]
    path = folder / f"{name}.csv"
    path.write_text("text,label,author\n" + "\n".join(lines), "utf-8")
    return read(path, Columns(text="text", label="label", group="author"))


@pytest.mark.parametrize("unseen", ["aside", "wrong"])
def test_a_run_scores_a_test_with_a_class_never_met(tmp_path, trained, unseen: str) -> None:
    train = saved(tmp_path, "train", [*WORDS] * 20)
    test = saved(tmp_path, "test", [*WORDS] * 5 + ["day_name"] * 5)
    found, asked = trained(train, test, unseen=unseen)
    assert len(found.cells) >= (len(RECIPES) if unseen == "wrong" else 2)
    most = 1.0 if unseen == "aside" else 15 / 20
    for cell in found.cells:
        assert 0 <= cell.measures.score <= most + 1e-9, cell.name
    assert len(asked.splits.test[0]) == (15 if unseen == "aside" else 20)
    assert any("5 of the 20 rows for scoring" in note for note in asked.account["between"])


@pytest.mark.parametrize("unseen", ["aside", "wrong"])
def test_folds_settle_rows_of_a_class_that_stands_in_one_group(
    tmp_path, trained, unseen: str
) -> None:
    data = saved(tmp_path, "train", [*WORDS] * 20 + ["day_name"] * 6)  # these of one author
    found, asked = trained(data, unseen=unseen)
    (says,) = [note for note in found.notes if "one fold" in note]
    assert says.startswith("6 of the 66 rows have a class whose rows all stand in one fold")
    assert "'day_name'" in says
    assert ("set aside" in says) == (unseen == "aside")
    rows = 60 if unseen == "aside" else 66
    assert len(torch.cat(asked.splits.test)) == rows
    for cell in found.cells:
        assert cell.measures.rows == rows
        assert cell.measures.score <= 60 / rows + 1e-9
    for learned, scored in zip(asked.splits.train, asked.splits.test, strict=True):
        met = set(asked.task.targets[learned].tolist())
        assert unseen == "wrong" or met.issuperset(asked.task.targets[scored].tolist())


def test_a_fold_of_nothing_but_rows_never_met_is_none_and_too_many_are_refused(tmp_path) -> None:
    targets = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    task = EvaluationTask(targets=targets, classes=tuple("abc"), groups=torch.arange(8))
    folds = [torch.tensor([0, 3]), torch.tensor([1, 4]), torch.tensor([2, 5]), torch.tensor([6, 7])]
    learned = [torch.tensor([n for n in range(8) if n not in own.tolist()]) for own in folds]
    splits = Splits(
        kind="folds",
        search=tuple(learned),
        development=tuple(folds[1:] + folds[:1]),
        train=tuple(learned),
        test=tuple(folds),
        repetition=(0,) * 4,
    )
    left = set_aside(splits, task)
    assert [own.tolist() for own in left.test] == [[0, 3], [1, 4], [2, 5]]
    assert len(left) == len(left.repetition) == 3
    assert set_aside(left, task) is left
    labels = torch.nn.functional.one_hot(targets, 3).float()
    many = replace(task, targets=labels, problem=MULTI_LABEL)
    assert [own.sum().item() for own in unmet(splits, many)] == [0, 0, 0, 2]
    labels[6, 0] = 1  # what else it has, others have as well
    assert [own.sum().item() for own in unmet(splits, many)] == [0, 0, 0, 1]
    assert unmet(replace(splits, kind="test set"), task) == ()
    corpus = replace(TRAIN, classes=tuple("abc"))
    assert says_of_unmet(left, task, corpus, "aside") == ""
    lonely = replace(task, targets=torch.arange(8), classes=tuple("abcdefgh"))
    with pytest.raises(DataError):
        says_of_unmet(splits, lonely, replace(TRAIN, classes=lonely.classes), "wrong")


def test_a_fold_of_which_nothing_is_scored_was_a_fold_all_the_same(tmp_path, trained) -> None:
    labels = [*WORDS] * 8 + ["day_name"] * 6  # five authors, the last alone with a class
    found, asked = trained(saved(tmp_path, "train", labels), folds=5)
    assert len(asked.splits) == 4
    assert "Split into 5 folds: each of 24 rows was scored once" in found.protocol


def test_a_run_keeps_its_groups_and_never_parts_them(tmp_path, trained) -> None:
    data = saved(tmp_path, "train", [*WORDS] * 30)
    _, asked = trained(data)
    assert asked.corpus.groups == data.corpus.groups
    authors = data.corpus.groups
    for learned, scored in zip(asked.splits.train, asked.splits.test, strict=True):
        here = {authors[row] for row in scored.tolist()}
        assert here
        assert not here & {authors[row] for row in learned.tolist()}
    again = read_again(tmp_path / "train.csv", group="author")
    assert again.corpus.groups == authors
    assert (again.columns.text, again.columns.label) == ("text", "label")
    with pytest.raises(DataError):
        train_grid(data, group="label")
    few = replace(data, corpus=replace(data.corpus, groups=("ann", "bob") * 45))
    with pytest.raises(DataError):
        trained(few, held_out=0.3)
