"""The page without a browser: endpoints, their types, and what handlers answer."""

import json
from dataclasses import fields

import numpy
import pandas
import pytest
from fake_hub import Repository
from gradio_client import handle_file
from gradio_client.exceptions import AppError

import heads
from heads.errors import DataError, HeadsError
from heads.interfaces.web import endpoints
from heads.interfaces.web.endpoints import ColumnArguments
from heads.interfaces.web.location import Location
from heads.interfaces.web.places.answers import PendingQuestion, answering
from heads.options import TrainOptions
from heads.settings import ExperimentConfig

TEXT, RECIPES = "Not bad at all.", ["mean+linear", "cls+roberta"]


def test_compare_answers_as_python_does(client):
    found = client.predict(TEXT, "", RECIPES, api_name="/compare")
    assert found == json.loads(json.dumps(heads.compare(TEXT, recipes=RECIPES).as_json()))
    assert len(client.predict(TEXT, api_name="/compare")["recipes"]) == 4


def test_compare_reads_two_sentences_each_by_itself(client):
    asked = ["The dog chased the cat.", "The cat chased the dog.", ["mean+linear"]]
    found = client.predict(*asked, pairs="siamese", api_name="/compare")
    assert [one["recipe"] for one in found["recipes"]] == ["mean+linear?pair=uv_diff_prod"]
    with pytest.raises(AppError, match="no pairing called 'siamse'"):
        client.predict(*asked, pairs="siamse", api_name="/compare")


def test_families_difference_and_padding_answer(client):
    rows = {row["model_type"]: row for row in client.predict(api_name="/families")}
    assert rows["bert"]["recipe"] == "cls+bert"
    found = client.predict("bert", "roberta", api_name="/difference")
    assert "adds a dropout" in found["difference"]
    found = client.predict("xlnet", api_name="/padding")
    assert next(f for f in found["findings"] if f["case"] == "right_padded")["changes"]


def test_the_checkpoints_own_head_is_marked_where_it_is_random(client):
    found = client.predict("Not bad.", "", ["own", "mean+linear"], api_name="/compare")
    own, other = found["recipes"]
    assert own["random"]
    assert not other["random"]
    assert "is random" in found["notes"][0]


def test_explain_and_parts_answer(client):
    explained = client.predict("cls+roberta", api_name="/explain")
    assert explained["parameters"] == 148_995
    shelves = client.predict(api_name="/parts")
    assert "mean" in [part["name"] for part in shelves["poolings"]]


def test_recipes_are_a_list_or_one_text_and_a_path_is_no_file(client, tmp_path):
    several = "mean+linear, cls+roberta"
    found = client.predict("Not bad.", "", several, api_name="/compare")
    assert [one["recipe"] for one in found["recipes"]] == ["mean+linear", "cls+roberta"]
    (tmp_path / "bad.csv").write_text("text,label\nno,\n", "utf-8")
    file = handle_file(str(tmp_path / "bad.csv"))
    with pytest.raises(AppError) as refused:  # of the file, which is read before the recipes
        client.predict(file=file, recipes=["mean+linear"], api_name="/train_grid")
    assert "recipes" not in str(refused.value)
    for name in ("/read", "/train_grid"):
        with pytest.raises(
            AppError, match=r"file must be a file that is sent, not a path.*handle_"
        ):
            client.predict("my.csv", api_name=name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("",), "The sentence is empty."),
        (("x", "", ["mean+robert"]), "Did you mean 'roberta'?"),
        (("x", "", []), "No recipe is chosen."),
        (("x", "", ["mean+linear&&"]), "not a recipe"),
        (("x", "", ["mean+linear"], "../../etc"), "no config.json|no folder"),
    ],
)
def test_bad_input_is_a_sentence(client, arguments, sentence):
    with pytest.raises(AppError, match=sentence):
        client.predict(*arguments, api_name="/compare")


def test_ten_megabytes_of_text_are_cut_and_answered(client):
    found = client.predict("word " * 2_000_000, "", ["mean+linear"], api_name="/compare")
    assert any("first 20,000 of 10,000,000 characters" in note for note in found["notes"])


@pytest.mark.needs_extra("public")
def test_public_mode_is_said_on_the_page_and_refuses_folders(monkeypatch, tmp_path):
    from heads.interfaces.web.app import build

    monkeypatch.setenv("SPACE_ID", "someone/space")
    config = json.dumps(build().blocks.config["components"], default=str)
    assert "Public mode" in config
    *_, shown = answering(PendingQuestion(asked=Location(text="x", model=str(tmp_path))))
    assert "is not a model id" in shown["error"]


def test_a_bug_is_shown_as_a_code_and_logged_whole(caplog):
    from heads.interfaces.web.guards import sentence

    shown = sentence(ValueError("/secret/path"))
    assert "secret" not in shown
    assert "Something went wrong (code " in shown
    assert "ValueError: /secret/path" in caplog.text


def test_a_grid_is_trained_over_the_api(client, tmp_path, tiny):
    rows = [f"The soup number {n} is warm and good,food" for n in range(20)]
    rows += [f"The train number {n} is late again,travel" for n in range(20)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]), "utf-8")
    file = handle_file(str(tmp_path / "mine.csv"))
    asked = {"recipes": "mean+linear", "model": str(tiny("bert")), "folds": 2, "trials": 1}
    short = {"tune": "frozen, last1", "epochs": 1, "tuning_rate": 1e-3}
    job = client.submit(file, **asked, **short, api_name="/train_grid")
    job.result()
    *events, board = job.outputs()
    assert {event["event"] for event in events} >= {"progress", "cell"}
    assert board["state"] == "finished"
    assert board["reference"] == "mean+linear"
    cells = {cell["recipe"]: cell for cell in board["cells"] if not cell["baseline"]}
    assert cells["mean+linear"]["tuning"] is None
    own = cells["mean+linear?tune=last1"]
    assert own["tuning"]["parameters"] > 0
    assert own["trials"] == 1
    assert own["chosen"]["learning_rate"] == 1e-3
    assert own["chosen"]["planned"] == 1
    (found,) = board["ways_of_learning"]
    assert [way["tune"] for way in found["ways"]] == ["frozen", "last1"]
    assert found["says"].startswith("On these 40 rows, ")


def test_what_a_grid_takes_is_named_as_in_python(client):
    named = client.view_api(return_format="dict")["named_endpoints"]["/train_grid"]["parameters"]
    # Nothing is needed: a data set of the Hub may stand in the place of a file.
    assert all(one["parameter_has_default"] for one in named)
    options = (ColumnArguments, TrainOptions, ExperimentConfig)
    assert [one["parameter_name"] for one in named] == [
        "file", "test", *(field.name for kind in options for field in fields(kind)), "dataset"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("seeds", -1), ("seeds", 2.5), ("seeds", 1000), ("precision", "double"), ("metric", "auc"),
        ("tune", "everything"), ("tuning_rate", 7), ("focal", -1), ("smoothing", 0.9),
        ("development", 0), ("standardise", "maybe"), ("class_weights", "yes"), ("curve", 1),
        ("seed", -1),
    ],
)  # fmt: skip
def test_a_bad_setting_over_the_api_is_named(client, tmp_path, setting, value):
    (tmp_path / "mine.csv").write_text("text,label\na,x\nb,y\n", "utf-8")
    file = handle_file(str(tmp_path / "mine.csv"))
    with pytest.raises(AppError) as refused:
        client.predict(file, **{setting: value}, api_name="/train_grid")
    assert ("everything" if setting == "tune" else setting) in str(refused.value)


def test_a_link_with_half_a_letter_is_one():
    assert Location.of({"text": "a\ud800"}).query == "?text=a%3F"


@pytest.mark.needs_extra("hub")
def test_a_data_set_of_the_hub_is_read_in_local_mode_and_no_path(fake, tmp_path, monkeypatch):
    place = tmp_path / "main" / "data"
    place.mkdir(parents=True)
    rows = {"text": [f"text {n}" for n in range(20)], "label": ["no", "yes"] * 10}
    pandas.DataFrame(rows).to_parquet(place / "train-00000-of-00001.parquet")
    fake.datasets["me/mine"] = Repository(folder=tmp_path / "main")
    found = endpoints.read(dataset="hub:me/mine")
    assert found["classes"] == {"no": 10, "yes": 10}
    path = str(place / "train-00000-of-00001.parquet")
    for name, says in (
        (path, "names no data set"),
        ("../../etc/passwd", "names no data set"),
        ("me/mine", "Write hub:owner/name"),
        (f"hub:{path}", "names no data set of the Hub"),
        ("", "There is no file."),
    ):
        with pytest.raises(DataError, match=says):
            endpoints.read(dataset=name)
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    with pytest.raises(HeadsError, match="for local use"):
        endpoints.read(dataset="hub:me/mine")


@pytest.mark.slow
def test_a_grid_is_trained_on_vectors_over_the_api(client, tmp_path):
    labels = ["a", "b"] * 30
    X = numpy.random.default_rng(0).standard_normal((60, 4))
    X[::2] += 1
    pandas.DataFrame({"embedding": list(X), "label": labels}).to_parquet(tmp_path / "mine.parquet")
    file = handle_file(str(tmp_path / "mine.parquet"))
    found = client.predict(file, "", "", "", "", "", "", "", api_name="/read")
    assert found["columns"]["vectors"] == "embedding"
    assert found["vectors"] == 4
    job = client.submit(file, recipes="vectors+linear vectors+knn", api_name="/train_grid")
    job.result()
    board = job.outputs()[-1]
    assert board["model"] == "vectors:4"
    assert {cell["recipe"] for cell in board["cells"]} == {
        "vectors+linear", "vectors+knn", "majority"
    }  # fmt: skip


def test_look_answers_with_scores_that_add_up(client):
    found = client.predict(TEXT, "", RECIPES, api_name="/inspect")
    for one, same in zip(
        found["attributions"], heads.Inspector(recipes=RECIPES).attribute(TEXT), strict=True
    ):
        scores = [token["score"] for token in one["tokens"]]
        assert scores == pytest.approx([token.score for token in same.tokens], abs=1e-5)
        assert one["completeness_error"] < 0.01
    assert len(found["nearest"][0]["neighbours"]) == 5


def test_a_class_and_what_it_is_held_against_can_be_asked_for(client):
    asked = (TEXT, "", RECIPES, "all-MiniLM-L6-v2", "", "", "negative", "runner-up")
    for one in client.predict(*asked, api_name="/inspect")["attributions"]:
        assert one["label"] == "negative"
        assert one["rival"] in ("neutral", "positive")
        total = sum(token["score"] for token in one["tokens"])
        assert total == pytest.approx(one["value"] - one["value_on_blanks"], rel=0.011)


def test_edit_ablate_and_readings(client):
    found = client.predict(TEXT, ["Bad at all."], "", RECIPES, api_name="/edit")
    assert found["summary"] == heads.Inspector(recipes=RECIPES).flips(TEXT, ["Bad at all."]).summary
    found = client.predict(TEXT, "", RECIPES, without="dense", api_name="/ablate")
    assert [one["layer"] for one in found] == ["dense"]
    assert found[0]["retrained"]["name"] == "cls+roberta?without=dense"
    bare = client.predict(TEXT, "", RECIPES, without="dense", retrain=False, api_name="/ablate")
    assert bare[0]["retrained"] is None
    found = client.predict(TEXT, "", RECIPES, temperature=2.0, api_name="/readings")
    assert sum(found[0]["tempered"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "arguments", "sentence"),
    [
        ("/inspect", {"text": ""}, "The sentence is empty."),
        ("/edit", {"edits": []}, "no edited sentence"),
        ("/ablate", {"recipes": RECIPES, "without": "tahn"}, "no layer"),
        ("/readings", {"recipes": RECIPES, "temperature": 99.0}, "The temperature must lie"),
    ],
)
def test_what_does_not_fit_is_a_sentence(client, call, arguments, sentence):
    with pytest.raises(AppError, match=sentence):
        client.predict(**{"text": TEXT, **arguments}, api_name=call)
