"""Data sets of the Hub: their Parquet files, bounded before they come, from a Hub of our own."""

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from fake_hub import BRANCHED, COMMIT, Repository
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import heads
from heads.data.dataset import data_of
from heads.data.sources import open_source
from heads.errors import DataError, LimitError
from heads.extras.hub.datasets import HubDataset, parse_dataset
from heads.hub import hub_folder
from heads.settings import PUBLIC, Limits, use_limits

NAMED = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
PLAIN = Features({"text": Value("string"), "label": Value("int64")})
LABEL = {"name": "label", "dtype": {"class_label": {"names": {"0": "bad", "1": "good"}}}}
CARD = {"dataset_info": {"features": [{"name": "text", "dtype": "string"}, LABEL]}}


def write(path, name, count, *, secret=False, features=NAMED):
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = [-1 if secret else row % 2 for row in range(count)]
    texts = [f"Text {row} of {name}." for row in range(count)]
    Dataset.from_dict({"text": texts, "label": labels}, features).to_parquet(str(path))


def converted(folder, configs):
    """A folder as the branch of Parquet files has it."""
    for config, splits in configs.items():
        for split, (count, secret) in splits.items():
            write(folder / config / split / "0000.parquet", split, count, secret=secret)
    return folder


@pytest.fixture
def glue(fake, tmp_path):
    """A data set of two configurations, of which one keeps the labels of its test secret."""
    sst2 = {"train": (20, False), "validation": (6, False), "test": (8, True)}
    other = {"train": (12, False), "extra": (4, False)}
    branch = converted(tmp_path / "branch", {"sst2": sst2, "other": other})
    main = tmp_path / "main"
    main.mkdir()
    (main / "glue.py").write_text("raise SystemExit('never run')", "utf-8")
    repository = Repository(folder=main, branches={"refs/convert/parquet": branch})
    fake.datasets["nyu/glue"] = repository
    return repository


def opened(text):
    table, name = open_source(text)
    return data_of(table, name=name)


def refused(text, limits=None, kind=DataError):
    with use_limits(limits or Limits()), pytest.raises(kind) as told:
        open_source(text)
    assert "\n" not in str(told.value)
    return str(told.value)


NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@settings(max_examples=25, deadline=None)
@given(owner=NAME, name=NAME, config=NAME, split=NAME | st.just(""), revision=NAME | st.just(""))
def test_a_name_comes_back_as_it_was_written(owner, name, config, split, revision):
    assume(".." not in revision)
    facts = {"config": config, "split": split, "revision": revision}
    dataset = HubDataset(repo=f"{owner}/{name}", **facts)
    assert parse_dataset(str(dataset)) == dataset


def test_splits_and_class_names_come_from_the_branch_of_parquet_files(fake, glue):
    found = opened("hub:nyu/glue:sst2")
    assert found.corpus.name == "nyu/glue:sst2"
    assert found.corpus.classes == ("bad", "good")
    assert found.source == f"hub:nyu/glue@{BRANCHED}:sst2"
    # The labels of the test are secret, so the validation rows are the test.
    parts = [found.corpus.parts.count(part) for part in ("train", "validation", "test")]
    assert parts == [20, 0, 6]
    assert "8 rows" in found.notes[-1]
    assert not [path for path in fake.asked if "other" in path or path.endswith(".py")]


def test_what_was_read_is_read_again_by_its_commit_and_without_a_network(glue, monkeypatch):
    found = opened("hub:nyu/glue:sst2")
    assert opened(found.source).corpus.fingerprint == found.corpus.fingerprint
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert opened("hub:nyu/glue:sst2").corpus.fingerprint == found.corpus.fingerprint
    assert opened(found.source).corpus.fingerprint == found.corpus.fingerprint
    refused("hub:nyu/others")


def test_offline_a_part_is_not_read_as_the_whole(glue, monkeypatch):
    opened("hub:nyu/glue:sst2:train")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = refused("hub:nyu/glue:sst2")
    assert "sst2/test/0000.parquet" in message
    assert message.endswith(" hub:nyu/glue:sst2:train.")  # a split that is here
    assert "other, sst2" in refused("hub:nyu/glue")
    assert len(opened("hub:nyu/glue:sst2:train").corpus.texts) == 20


def test_offline_classes_keep_the_names_that_the_card_has(fake, tmp_path, monkeypatch):
    main = tmp_path / "main"
    write(main / "data" / "train-00000-of-00001.parquet", "train", 20, features=PLAIN)
    fake.datasets["own/set"] = Repository(folder=main, card=CARD)
    found = opened("hub:own/set:train")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert opened("hub:own/set:train").corpus.classes == found.corpus.classes == ("bad", "good")


@pytest.mark.parametrize("ending", ["", "-0a1b"])
def test_offline_downloads_of_others_must_be_complete(fake, tmp_path, monkeypatch, ending):
    main = tmp_path / "main"
    for at in range(2):
        write(main / "data" / f"train-0000{at}-of-00002{ending}.parquet", f"{at}", 20)
    fake.datasets["own/parts"] = Repository(folder=main)
    found = opened("hub:own/parts:train")
    (note,) = hub_folder().glob("datasets--own--parts/heads-*.json")
    note.unlink()  # as if another program had downloaded it
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    again = opened("hub:own/parts")
    assert again.corpus.fingerprint == found.corpus.fingerprint
    (second,) = hub_folder().glob("datasets--own--parts/snapshots/*/data/train-00001*")
    second.unlink()
    assert "data/train-00001" in refused("hub:own/parts")


def test_one_split_is_named(glue):
    assert len(opened("hub:nyu/glue:sst2:validation").corpus) == 6
    found = opened("hub:nyu/glue:other")
    assert (len(found.corpus), found.corpus.parts) == (12, ())
    assert "extra" in found.notes[-1]


def test_files_of_the_data_set_itself_are_read_where_there_is_no_branch(fake, tmp_path):
    main = tmp_path / "main"
    write(main / "data" / "train-00000-of-00002.parquet", "a", 10, features=PLAIN)
    write(main / "data" / "train-00001-of-00002.parquet", "b", 10, features=PLAIN)
    write(main / "data" / "test-00000-of-00001.parquet", "c", 6, features=PLAIN)
    fake.datasets["me/mine"] = Repository(folder=main, card=CARD)
    found = opened("hub:me/mine")
    assert found.corpus.classes == ("bad", "good")
    assert found.source == f"hub:me/mine@{COMMIT}:default"
    assert [found.corpus.parts.count(part) for part in ("train", "test")] == [20, 6]
    assert len(opened("hub:me/mine:test").corpus) == 6  # no configuration is called so


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("hub:nyu/glue", "hub:nyu/glue:other"),
        ("hub:nyu/glue:sst", "'sst2'"),
        ("hub:nyu/glue:sst2:tset", "test"),
        ("hub:no/such", "no/such"),
        ("hub:a/b/c", "'hub:a/b/c'"),
        ("hub:a/b@../../c", "'hub:a/b@../../c'"),
        ("nyu/glue", "hub:nyu/glue."),
        ("me/mine", "hub:me/mine."),
    ],
)
def test_a_name_of_nothing_is_refused_with_what_there_is(fake, glue, name, named):
    assert named in refused(name)
    glue.branches.clear()  # then there is a script alone, which is never run
    refused("hub:nyu/glue:sst2")
    assert not [path for path in fake.asked if "/resolve/" in path]


def test_what_is_too_large_is_refused_before_it_comes(fake, glue):
    refused("hub:nyu/glue:sst2", Limits(upload_bytes=1_000), LimitError)
    glue.claims["sst2/train/0000.parquet"] = 10**15
    refused("hub:nyu/glue:sst2", Limits(upload_bytes=10**18))  # no disk has room for that
    glue.unsized = frozenset(["sst2/test/0000.parquet"])
    refused("hub:nyu/glue:sst2")
    assert not [path for path in fake.asked if "/resolve/" in path]


def test_a_public_place_asks_the_hub_for_no_data(fake, glue):
    refused("hub:nyu/glue:sst2", PUBLIC, LimitError)
    assert fake.asked == []


def test_a_gated_data_set_and_a_broken_hub_are_refused(fake, glue):
    glue.gated = True
    assert "gated" in refused("hub:nyu/glue:sst2")
    glue.gated, glue.status = False, 503
    assert "503" in refused("hub:nyu/glue:sst2")


def test_a_run_keeps_where_its_rows_are_from(glue, tiny):
    config = heads.ExperimentConfig(seeds=1, curve=False)
    asked = {"recipes": ["mean+logistic"], "model": str(tiny()), "config": config}
    board = heads.train_grid("hub:nyu/glue:sst2", **asked)
    account = board.folder.read("run.json")["account"]
    assert account["source"] == f"hub:nyu/glue@{BRANCHED}:sst2"
    assert board.cell("mean+logistic").measures.rows == 6
