"""What is pushed stands on the Hub whole, with a card that it reads: the real client, our Hub."""

import re
import sys
from dataclasses import replace

import huggingface_hub
import pandas as pd
import pytest
import torch
from fake_hub import COMMIT
from huggingface_hub import ModelCard
from shown_results import HOSTILE, check_shown
from tiny_models import WORDS

import heads
from heads.backbone.models import BUNDLED
from heads.errors import CheckpointError, DataError, LimitError, RecipeError
from heads.exporters.export import Exported
from heads.exporters.model_card import Publication, model_card
from heads.extras.hub.pushing import Pushed
from heads.interfaces.cli.app import main
from heads.recipe import Recipe

# The Hub's client sends large files in a way that its HTTP library has given up.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload:DeprecationWarning")
SOURCE = f"hub:nyu/glue@{'c0ffee00' * 5}:sst2"
TEXTS = ["the cat sat on a mat", "a dog ran home"]


@pytest.fixture(scope="module")
def board(tiny, tmp_path_factory):
    """A run of two heads on rows of the Hub; the tiny base model is a folder."""
    texts = [f"{WORDS[row % len(WORDS)]} {WORDS[row * 7 % len(WORDS)]} {row}" for row in range(60)]
    frame = pd.DataFrame({"text": texts, "label": ["no", "yes", "maybe"] * 20})
    frame["split"] = ["test" if row % 4 == 0 else "train" for row in range(60)]
    data = replace(heads.read(frame, model=str(tiny())), source=SOURCE)
    config = heads.ExperimentConfig(seeds=2, steps=3, learning_rate=0.01, curve=False)
    asked = {"recipes": ["cls+bert", "mean+logistic"], "model": str(tiny()), "config": config}
    return heads.train_grid(data, **asked, out=tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def hub(fake, tmp_path, monkeypatch):
    """A Hub that takes models from who has its token, as we have."""
    fake.token, fake.place = "hf_writes", tmp_path / "pushed"
    monkeypatch.setenv("HF_TOKEN", fake.token)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    return fake


def test_a_head_of_a_run_is_one_commit_that_loads_with_a_card_that_the_hub_reads(hub, board):
    asked = {"recipe": "cls+bert", "license": "cc-by-4.0", "language": ["en", "de"]}
    found = heads.push(board, "me/winner", private=True, **asked)
    assert (found.url, found.commit) == (f"{hub.address}/me/winner", COMMIT)
    (commit,), folder = hub.commits, hub.models["me/winner"].folder
    assert commit["lfsFile"] == ["model.safetensors"]
    assert set(commit["file"]) | {"model.safetensors"} == set(found.exported.files)
    assert hub.models["me/winner"].card["visibility"] == "private"
    assert not found.exported.folder.exists()
    mine, theirs = board.classifier("cls+bert"), heads.load(folder)
    assert torch.allclose(theirs.logits(TEXTS), mine.logits(TEXTS), atol=1e-5)

    card, scores = ModelCard.load(folder / "README.md"), mine.head.scores
    assert scores is not None
    assert card.data.license == "cc-by-4.0"
    assert card.data.language == ["en", "de"]
    assert card.data.datasets == ["nyu/glue"]
    assert card.data.tags == ["text-classification", "head-to-head"]
    assert card.data.pipeline_tag == "text-classification"
    assert card.data.library_name == "transformers"
    (mean,) = card.data.eval_results  # one score: that of the page
    dataset = (mean.dataset_type, mean.dataset_config, mean.dataset_revision)
    assert dataset == ("nyu/glue", "sst2", "c0ffee00" * 5)
    assert (mean.metric_type, mean.metric_value) == ("accuracy", round(scores.accuracy, 4))
    assert f"{scores.low:.4f} to {scores.high:.4f}, 15 rows" in mean.metric_name
    assert 'pipeline("text-classification", "me/winner", top_k=None)' in card.text
    assert "cc-by-4.0" in card.text


def test_without_a_recipe_it_is_the_recommended_head_or_the_best(hub, board):
    found = heads.push(board.folder.path, "me/best")
    expected = board.recommendation.name or board.best
    assert f"`{board.classifier(expected).recipe}`" in found.card
    assert "--license" in found.notes[0]


def test_a_head_with_its_own_class_is_loaded_from_the_hub_as_its_card_says(
    hub, board, monkeypatch, tmp_path
):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = heads.push(board, "me/own", recipe="mean+logistic")
    data = ModelCard(found.card).data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert "custom_code" in data.tags
    code = re.findall(r"^```python\n(.*?)^```", found.card, re.M | re.S)[0]
    there: dict = {}
    exec(code, there)
    mine = board.classifier("mean+logistic")
    answers = [answer[0]["label"] for answer in there["classify"](list(TEXTS))]
    assert answers == mine.predict(TEXTS)


@pytest.mark.parametrize("private", [False, True])
def test_what_is_there_stays_unless_it_is_to_be_replaced(hub, board, private):
    heads.push(board, "me/one", recipe="mean+logistic", private=private)
    folder, commits = hub.models["me/one"].folder, [*hub.commits]
    assert ("visibility" in hub.models["me/one"].card) == private  # else as its owner has set it
    assert (folder / "modeling_head_to_head.py").is_file()
    refused = [{}] if private else [{}, {"private": True, "replace": True}]  # it stays public
    for options in refused:
        with pytest.raises(CheckpointError):
            heads.push(board, "me/one", recipe="cls+bert", **options)
    assert hub.commits == commits
    heads.push(board, "me/one", recipe="cls+bert", private=private, replace=True)
    assert not (folder / "modeling_head_to_head.py").exists()
    assert heads.load(folder).recipe.head == "bert"


@pytest.mark.parametrize(
    ("repo", "more", "named"),
    [
        ("winner", {}, "'winner'"),
        ("me/../x", {}, "'me/../x'"),
        ("me/x", {"license": "My Own!"}, "'My Own!'"),
        ("me/x", {"language": ["English"]}, "'English'"),
        ("me/x", {"recipe": "mean+mlp"}, "mean+mlp"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_made(hub, board, repo, more, named):
    with pytest.raises((CheckpointError, DataError)) as refused:
        heads.push(board, repo, **more)
    assert named in str(refused.value)
    assert not [path for path in hub.asked if "create" in path]


def test_without_a_token_or_with_a_wrong_one_nothing_is_sent(hub, board, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_reads")
    with pytest.raises(CheckpointError) as refused:
        heads.push(board, "me/x", recipe="mean+logistic")
    assert "(401)" in refused.value.what
    monkeypatch.delenv("HF_TOKEN")
    hub.asked.clear()
    with pytest.raises(CheckpointError) as refused:
        heads.push(board, "me/x")
    assert "hf auth login" in refused.value.hint
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError):
        heads.push(board, "me/x")
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    with pytest.raises(LimitError):
        heads.push(board, "me/x")
    assert hub.asked == []


def test_a_hub_that_fails_leaves_what_was_there_and_no_empty_place(hub, board):
    hub.broken = 507
    with pytest.raises(CheckpointError):
        heads.push(board, "me/x", recipe="mean+logistic", replace=True)
    assert not hub.models
    (hub.place / "me/x").rmdir()
    hub.broken = 200
    assert heads.push(board, "me/x", recipe="mean+logistic").commit == COMMIT
    hub.models["me/x"].file_status = 507
    with pytest.raises(CheckpointError) as refused:
        heads.push(board, "me/x", recipe="mean+logistic", replace=True)
    assert "(507)" in refused.value.what
    assert (hub.models["me/x"].folder / "README.md").is_file()  # which was there before


def test_a_dry_run_in_the_shell_writes_the_folder_and_shows_the_card(
    board, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)  # no Hub, and no token
    asked = ["push", str(board.folder.path), "me/winner", "-r", "cls+bert", "--dry-run"]
    assert main([*asked, "--license", "mit", "--language", "en,de"]) == 0
    card = (tmp_path / "winner" / "README.md").read_text("utf-8").strip()
    assert card in capsys.readouterr().out
    assert "license: mit" in card
    assert "- de" in card
    assert main(asked) == 2
    assert "winner" in capsys.readouterr().err  # where something is already


def test_it_goes_for_the_library_that_is_asked_for(board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {"recipe": "mean+logistic", "library": "sentence-transformers", "dry_run": True}
    found = heads.push(board, "me/vectors", **asked)
    assert "modules.json" in found.exported.files
    assert ModelCard(found.card).data.library_name == "sentence-transformers"
    with pytest.raises(RecipeError):
        heads.push(board, "me/other", **(asked | {"library": "keras"}))


def test_the_card_of_the_bundled_model_names_its_base_and_its_licence(backbone, board):
    mine = board.classifier("cls+bert")
    of_bundled = replace(mine, backbone=backbone)
    published = Publication(repo="me/x", license="apache-2.0")
    data = ModelCard(model_card(of_bundled, "load()", [], published=published)).data
    assert data.base_model == f"sentence-transformers/{BUNDLED}"
    assert data.eval_results[0].dataset_type == "DataFrame"


def test_a_name_is_escaped_for_markdown_and_not_for_the_hub(board):
    mine = board.classifier("cls+bert")
    named = replace(mine, head=replace(mine.head, trained_on="my_data: <b>\n# 1 " + "x" * 999))
    card = model_card(named, "load()", [], published=Publication(repo="me/x"))
    for one in ModelCard(card).data.eval_results:
        assert one.dataset_name == one.dataset_type
        assert one.dataset_name.startswith("my_data: <b> # 1 xx")
        assert len(one.dataset_name) == 201
    assert r"my\_data\: \<b\> \# 1 xx" in card


@pytest.mark.parametrize("on_saving", [False, True])
def test_a_model_of_transformers_pushes_itself_with_its_code(
    on_saving, hub, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # of the Hub before
    monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", hub.address)  # made at import
    model = heads.for_transformers("mean+roberta", str(tiny()), labels=("no", "yes"))
    if on_saving:
        model.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="me/untrained")
    else:
        model.push_to_hub("me/untrained")
    files = {path.name for path in hub.models["me/untrained"].folder.iterdir()}
    assert {"config.json", "model.safetensors", "modeling_head_to_head.py"} <= files


def test_a_push_is_shown_by_notebook_and_shell(tmp_path):
    exported = Exported(
        folder=tmp_path, native=True, called=HOSTILE, recipe=Recipe.parse("cls+bert"),
        files=(HOSTILE,), usage=HOSTILE, notes=(HOSTILE,), difference=1e-6,
    )  # fmt: skip
    for commit in ("", "abc"):
        check_shown(Pushed(repo=HOSTILE, url="", commit=commit, card="a card", exported=exported))
