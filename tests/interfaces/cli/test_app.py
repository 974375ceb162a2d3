"""The command `heads`, run as a user runs it."""

import inspect
import json
import os
import subprocess
import sys
import typing

import pytest
import slow
from shell_runs import run, write_rows

import heads
from heads.interfaces.cli.shell import _parted


def test_compare_prints_a_table_and_the_verdict(capsys):
    code, out, _ = run(capsys, "compare", "Not bad at all.", "-r", "mean+linear", "-r", "cls+bert")
    assert code == 0
    assert "mean+linear" in out
    assert "positive" in out
    assert "held-out accuracy" in out


def test_compare_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", __import__("io").StringIO("A text from a pipe.\n"))
    code, out, _ = run(capsys, "compare", "-", "-r", "mean+linear", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["text"] == "A text from a pipe."
    assert len(found["recipes"][0]["logits"]) == len(found["classes"]) == 3


def test_explain_one_recipe_and_what_sets_two_apart(capsys):
    code, out, _ = run(capsys, "explain", "cls+roberta")
    assert code == 0
    assert "classifier.out_proj" in out
    code, out, _ = run(capsys, "explain", "cls+bert", "cls+roberta", "--json")
    found = json.loads(out)
    assert code == 0
    assert "initial values" in found["difference"]
    assert [item["recipe"] for item in found["recipes"]] == ["cls+bert", "cls+roberta"]


def test_families_lists_the_whole_mapping_in_the_documented_form(monkeypatch, capsys):
    code, out, _ = run(capsys, "families", "--json")
    found = json.loads(out)
    assert code == 0
    assert {frozenset(item) for item in found} == {
        frozenset(("model_type", "class", "form", "recipe", "reason"))
    }
    rows = {item["model_type"]: item for item in found}
    assert len(rows) == len(found)
    assert rows["bert"]["class"] == "BertForSequenceClassification"
    assert (rows["bert"]["form"], rows["bert"]["recipe"]) == ("F2", "cls+bert")
    assert [name for name, item in rows.items() if item["reason"]] == ["layoutlmv2", "perceiver"]
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = run(capsys, "families")
    assert code == 0
    assert {"roberta-prelayernorm", *filter(None, (item["recipe"] for item in found))} <= {
        *out.split()
    }


def test_families_are_checked_against_their_classes(monkeypatch, capsys):
    code, out, _ = run(capsys, "families", "gpt2", "eurobert", "perceiver", "--check", "--json")
    rows = {item["model_type"]: item for item in json.loads(out)}
    assert code == 0
    assert (rows["gpt2"]["equal"], rows["gpt2"]["max_difference"]) == (True, 0.0)
    assert rows["eurobert"]["equal"]
    assert 0 < rows["eurobert"]["max_difference"] < 1e-6
    assert (rows["perceiver"]["equal"], rows["perceiver"]["max_difference"]) == (None, None)
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run(capsys, "families", "gpt2", "--check")
    assert "yes (to the bit)" in out


def test_a_head_that_is_not_what_its_class_computes_is_exit_code_2(monkeypatch, capsys):
    from heads.interpret import catalog_check

    wrong = catalog_check.FamilyCheck(model_type="bert", equal=False, max_difference=0.5)
    monkeypatch.setattr(catalog_check, "compare_family", lambda name: wrong)
    code, out, err = run(capsys, "families", "bert", "--check")
    assert code == 2
    assert "NO" in out
    assert "bert: the recipe is not what the class computes" in err


def test_diff_says_what_sets_two_families_apart(capsys):
    code, out, _ = run(capsys, "diff", "bert-base-uncased", "roberta-base")
    assert code == 0
    told = " ".join(out.split())
    assert "adds a dropout (0.1) before the dense layer" in told
    assert "in the base model (its pooler)" in told
    code, out, _ = run(capsys, "diff", "cls+bert", "distilbert", "--json")
    assert set(json.loads(out)) == {"one", "other", "difference"}


@pytest.mark.slow
def test_padding_is_examined_of_a_family_and_of_the_bundled_model(capsys):
    code, out, _ = run(capsys, "padding", "gpt2")
    assert code == 0
    assert "GPT2ForSequenceClassification" in out
    code, out, _ = run(capsys, "padding", "all-MiniLM-L6-v2", "--json")
    found = json.loads(out)
    assert code == 0
    assert next(f for f in found["findings"] if f["case"] == "left_padded")["changes"]
    assert not next(f for f in found["findings"] if f["case"] == "right_padded")["changes"]


@pytest.mark.slow
def test_a_head_is_exported_and_comes_back_as_own(tmp_path, capsys):
    folder = str(tmp_path / "mine")
    code, out, _ = run(capsys, "export", "cls+bert", folder, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["called"], found["native"]) == ("BertForSequenceClassification", True)
    asked = ["compare", "Not bad at all.", "-r", "own", "-r", "mean+linear", "--json"]
    code, out, _ = run(capsys, *asked, "--model", folder)
    own, other = json.loads(out)["recipes"]
    assert code == 0
    assert (own["recipe"], own["name"]) == ("cls+bert", "own (cls+bert)")
    assert own["classes"] == other["classes"] == ["negative", "neutral", "positive"]
    assert (own["held_out"], own["random"]) == (None, [])
    code, _, err = run(capsys, "export", "cls+bert", folder)
    assert code == 2
    assert "There is something in" in err


@pytest.mark.slow
def test_a_head_is_exported_as_one_onnx_file(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    file = tmp_path / "mine.onnx"
    code, out, _ = run(capsys, "export", "mean+linear", str(file), "--onnx", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["difference"] < 1e-4
    assert file.stat().st_size > 50_000_000


def test_parts_lists_everything_with_a_sentence(capsys):
    code, out, _ = run(capsys, "parts", "--json")
    shelves = json.loads(out)
    assert code == 0
    assert {"poolings", "heads"} <= set(shelves)
    for shelf in shelves.values():
        for part in shelf:
            assert {"name", "says", "source", "learned"} <= set(part)
            assert part["says"].endswith(".")
    code, out, _ = run(capsys, "parts")
    assert code == 0
    assert "mean_content" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compare", ""], "The sentence is empty."),
        (["compare", "x", "-r", "mean+robert"], "Did you mean 'roberta'?"),
        (["compare", "x", "--sample", "sentimant"], "Did you mean 'sentiment'?"),
        (["compare", "x", "--pair", "y", "--pairs", "siamse"], "no pairing called 'siamse'"),
        (["compare", "x", "--model", "gpt2"], "heads fetch openai-community/gpt2"),
        (["compare", "x", "--model", "/nowhere"], "There is no folder /nowhere"),
        (["explain", "cls+roberta", "a+b", "c+d"], "At most two recipes"),
        (["fetch", "google-bert/bert-base-uncased"], "offline"),
        (["parts", "--with", "/nowhere.py"], "There is no file"),
        (["families", "rberta"], "Did you mean 'roberta'?"),
        (["diff", "perceiver", "bert"], "attention decoder"),
        (["padding", "nothing-of-the-kind"], "nothing-of-the-kind"),
        (["explain", "own", "--model", "/nowhere"], "There is no folder /nowhere"),
        (["export", "own", "/tmp/never-written"], "has no trained head"),
        (["export", "mean+linear", "/tmp/never-written", "--data", "no.csv"], "no file and no"),
        (["export", "mean+linear", "/tmp/never-written.onnx"], "is to be a folder"),
        (["export", "mean+linear", "/tmp/never-written", "--onnx"], "is to be one ONNX file"),
        (["export", "cls+bert", "/tmp/never-written", "--adapter"], "learns no adapter of its"),
        (["export", "mean+linear?tune=lora", "/tmp/x", "--adapter"], "no class of Transformers"),
        (["export", "a+b", "/tmp/never.onnx", "--adapter", "--onnx"], "has its own in it"),
        (["export", "mean+linear", "/tmp/never-written", "--as", "setfit"], "head as a pickle"),
        (
            ["export", "std+linear", "/tmp/never-written", "--as", "sentence-transformers"],
            "no pooling that reads as std does",
        ),
        (["comprae", "x"], "heads: There is no command 'comprae'. Did you mean 'compare'?"),
        (["zzz"], "heads: There is no command 'zzz'. There are: compare, "),
        (["compare", "x", "--recipee", "y"], "no option --recipee. Did you mean '--recipe'? See: "),
        (["--nope"], "heads: There is no option --nope. See: heads --help"),
        (["compare"], "heads: Missing argument 'text'. See: heads compare --help"),
        (["compare", "x", "-r"], "'-r' requires an argument. See: heads compare --help"),
        (["compare", "x", "--json=1"], "'--json' does not take a value. See: heads compare --help"),
        (["inspect", "x", "--against", "y"], "'y' is not one of 'others', 'runner-up'. See: "),
        (["app", "--port", "x"], "'--port'"),
        (["app", "--port", "99999"], "A port is a number from 1 to 65535, not 99999."),
        (["train"], "No data are given. Write heads train data.csv"),
        (["train", "/nowhere.csv"], "There is no file and no sample called /nowhere.csv."),
        (["train", "FILE", "-r", "mean+robert"], "Did you mean 'roberta'?"),
        (["train", "FILE", "--model", "/nowhere"], "There is no folder /nowhere"),
        (["train", "FILE", "--test", "pairs"], "Only one of"),
        (["train", "FILE", "--per-class", "1"], "at least 2 of every class"),
        (["train", "FILE", "--pairs", "siamese"], "has one text a row, and a siamese way in needs"),
        (["train", "pairs", "--loss", "softmax,hing"], "There is no loss called 'hing'"),
        (["train", "aspects", "--loss", "ovr"], "loss=ovr has no meaning here"),
        (["train", "FILE", "--grid", "layer"], "There is no grid called 'layer'"),
        (["train", "FILE", "--smoothing", "0.9"], "smoothing must be a number"),
        (["train", "--resume", "nothing-here"], "There is no run called 'nothing-here'"),
        (["runs", "../.."], "There is no run called"),
        (["inspect", "", "-r", "mean+linear"], "The sentence is empty."),
        (["inspect", "x", "--run", "nothing"], "no run called 'nothing'"),
        (["inspect", "x", "--run", "x", "--sample", "pairs"], "A run has its own data."),
        (["inspect", "x", "-r", "mean+linear", "--label", "positiv"], "Did you mean 'positive'?"),
        (["ablate", "x", "-r", "cls+bert", "--without", "tahn"], "no layer 'tahn'"),
        (["readings", "x", "-r", "cls+bert", "--temperature", "0"], "between 0.1 and 10"),
        (["edit", "x", " ", "-r", "cls+bert"], "The sentence is empty."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    capfd, tmp_path, monkeypatch, arguments, sentence
):
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))
    file = write_rows("sentiment", tmp_path / "reviews.csv")
    code, out, err = run(capfd, *(file if part == "FILE" else part for part in arguments))
    *notes, last = err.strip().splitlines()
    assert (code, out) == (2, "")
    assert last.startswith("heads: ")
    assert sentence in last
    assert not notes or arguments[0] == "train"
    assert not any((tmp_path / "runs").glob("*"))  # no run was begun


def test_an_address_that_this_machine_has_not_is_refused_before_the_page_is_built(
    monkeypatch, capsys
):
    monkeypatch.setenv("HEADS_PUBLIC", "1")  # which another address sets: undone after this
    code, out, err = run(capsys, "app", "--host", "heads.invalid")
    assert (code, out) == (2, "")
    assert "This machine has no address 'heads.invalid'." in err


@pytest.mark.slow
def test_parts_of_ones_own_come_from_a_file(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "import heads\n\n\n@heads.pooling\ndef alternate(mask, states):\n"
        '    """Every other real token.\n\n    Source: a test.\n    """\n'
        "    chosen = mask * (mask.cumsum(dim=1) % 2)\n"
        "    return chosen / chosen.sum(dim=1, keepdim=True)\n"
    )
    command = [sys.executable, "-m", "heads", "compare", "A fine day.", "--json"]
    command += ["--with", str(file), "-r", "alternate+linear"]
    found = json.loads(subprocess.check_output(command, text=True))
    assert found["recipes"][0]["recipe"] == "alternate+linear"
    file.write_text("1 / 0")
    code, _, err = run(capsys, "parts", "--with", str(file))
    assert code == 2
    assert "ZeroDivisionError" in err


def test_public_mode_opens_no_folder_and_runs_no_file(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    code, _, err = run(capsys, "compare", "x", "--model", str(tmp_path))
    assert code == 2
    assert "is not a model id" in err
    code, _, err = run(capsys, "parts", "--with", __file__)
    assert code == 2
    assert "local use" in err


def test_a_bug_is_exit_code_1_without_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr("heads.parts.resolve.parts", lambda: 1 / 0)
    code, _, err = run(capsys, "parts", "--json")
    assert code == 1
    assert "a bug of ours, ZeroDivisionError" in err


def test_the_command_alone_shows_its_help(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert run(capsys, "--help") == run(capsys, "-h") == (0, out, "")
    for name in ("compare", "padding", "inspect", "export", "work"):
        assert f"\n  {name} " in out
        assert run(capsys, name, "--help")[0] == 0
    assert run(capsys, "--version") == (0, f"heads {heads.__version__}\n", "")


@pytest.mark.parametrize("text", ["- not bad", "-5", "-1 of 10 stars", "--- all of it"])
def test_a_text_may_begin_with_a_dash(capsys, text):
    code, out, err = run(capsys, "compare", text, "-r", "mean+linear", "--json")
    assert (code, json.loads(out)["text"]) == (0, text), err


@pytest.mark.skipif(os.name == "nt", reason="pipes are of Unix")
@pytest.mark.parametrize(
    "asked", slow.but([["families"], ["parts", "--json"], ["--help"], ["--version"]], ["--help"])
)
def test_a_reader_that_has_gone_is_no_fault(asked):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "heads", *asked]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("asked", [[], ["train", "--help"]])
def test_help_is_instant(asked):
    """It loads none of the heavy packages, and not pydantic, with which typer reads values."""
    code = (
        f"import sys\nfrom heads.interfaces.cli.app import main\nmain({asked})\n"
        "print(sorted({'torch', 'gradio', 'transformers', 'pydantic'} & set(sys.modules)))"
    )
    out = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert out.strip().endswith("[]")


def test_no_callback_of_a_flag_breaks_typer_on_python_3_10():
    """There `isinstance(Sequence[str], type)` is true, and typer asks whether it is a subclass."""
    said = inspect.signature(_parted).parameters.values()
    assert [typing.get_origin(one.annotation) for one in said] == [None]
