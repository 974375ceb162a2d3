"""The commands that look inside heads, run as a user runs them."""

import json

import pytest
from shell_runs import run

HEADS = ("-r", "mean+linear", "-r", "cls+roberta")
TEXT = "Not bad at all."


def test_inspect_prints_scores_error_and_neighbours(capsys):
    code, out, _ = run(capsys, "inspect", TEXT, *HEADS)
    assert code == 0
    told = " ".join(out.split())
    assert "mean+linear: positive" in told
    assert "the scores add up to the difference but for 0." in told
    assert "of the 3 nearest training examples" in told


def test_inspect_as_json(capsys):
    code, out, _ = run(capsys, "inspect", TEXT, *HEADS, "--nearest", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found["attributions"]] == ["mean+linear", "cls+roberta"]
    for one in found["attributions"]:
        assert one["completeness_error"] < 0.01
        total = sum(token["score"] for token in one["tokens"])
        assert total == pytest.approx(one["value"] - one["value_on_blanks"], rel=0.011)
        assert one["against"] == "others"
    assert [len(one["neighbours"]) for one in found["nearest"]] == [2, 2]


def test_the_margin_to_the_runner_up(capsys):
    code, out, _ = run(capsys, "inspect", TEXT, *HEADS, "--against", "runner-up", "--nearest", "0")
    assert code == 0
    assert "the logit of positive less that of n" in " ".join(out.split())


def test_edit_says_who_flips(capsys):
    code, out, _ = run(capsys, "edit", TEXT, "Bad at all.", "Not good at all.", *HEADS, "--json")
    found = json.loads(out)
    assert code == 0
    assert [edit["text"] for edit in found["edits"]] == ["Bad at all.", "Not good at all."]
    for edit in found["edits"]:
        for before, after, flips in zip(
            found["original"]["said"], edit["said"], edit["flips"], strict=True
        ):
            assert flips == (before["answer"] != after["answer"])
    code, out, _ = run(capsys, "edit", TEXT, "Bad at all.", *HEADS)
    assert "“Not bad” → “Bad”" in " ".join(out.split())


def test_control_characters_of_a_text_do_not_reach_the_terminal(capsys):
    code, out, _ = run(capsys, "edit", f"\x1b[31m{TEXT}", "\x1b[32mBad\x07 at all.", *HEADS)
    assert code == 0
    code, told, _ = run(capsys, "inspect", f"\x1b[31m{TEXT}\x07", *HEADS)
    assert code == 0
    assert not {"\x1b", "\x07"} & set(out + told)


def test_ablate_and_readings(capsys):
    code, out, _ = run(capsys, "ablate", TEXT, *HEADS, "--without", "dense", "--json")
    found = json.loads(out)
    assert code == 0
    assert [(one["name"], one["layer"]) for one in found] == [("cls+roberta", "dense")]
    assert found[0]["retrained"]["name"] == "cls+roberta?without=dense"
    assert found[0]["worth"]["low"] < found[0]["worth"]["high"]
    code, out, _ = run(capsys, "ablate", TEXT, *HEADS)
    told = " ".join(out.split())
    assert "Without tanh, cls+roberta as it is, not trained anew" in told
    assert "Trained anew without tanh on the same rows" in told
    code, out, _ = run(capsys, "ablate", TEXT, *HEADS, "--no-retrain")
    assert "Trained anew" not in " ".join(out.split())
    code, out, _ = run(capsys, "readings", TEXT, *HEADS, "--temperature", "4", "--json")
    found = json.loads(out)
    assert code == 0
    assert found[0]["temperature"] == 4
    assert max(found[0]["tempered"]) < max(found[0]["softmax"])
    code, out, _ = run(capsys, "readings", TEXT, *HEADS)
    assert "which one class is it?" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("inspect", ""), "The sentence is empty."),
        (("inspect", TEXT, "--run", "nothing"), "no run called 'nothing'"),
        (("inspect", TEXT, "--run", "x", "--sample", "pairs"), "A run has its own data."),
        (("inspect", TEXT, "--label", "positiv"), "Did you mean 'positive'?"),
        (("ablate", TEXT, *HEADS, "--without", "tahn"), "no layer 'tahn'"),
        (("readings", TEXT, *HEADS, "--temperature", "0"), "between 0.1 and 10"),
        (("edit", TEXT, " ", *HEADS), "The sentence is empty."),
    ],
)
def test_what_does_not_fit_is_a_sentence(capsys, arguments, sentence):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert sentence in err
