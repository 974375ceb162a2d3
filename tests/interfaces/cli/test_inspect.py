"""The commands that look inside heads, run as a user runs them."""

import json

import pytest
from shell_runs import run

TEXT = "Not bad at all."


@pytest.fixture
def heads(tiny):
    """Flags that name two heads on a tiny base model."""
    return "-r", "mean+linear", "-r", "cls+roberta", "--model", tiny()


def test_inspect_prints_scores_error_and_neighbours(capsys, heads):
    code, out, _ = run(capsys, "inspect", TEXT, *heads)
    assert code == 0
    told = " ".join(out.split())
    assert "mean+linear: " in told
    assert "the scores add up to the difference but for 0." in told
    assert "of the 3 nearest training examples" in told


def test_inspect_as_json(capsys, heads):
    code, out, _ = run(capsys, "inspect", TEXT, *heads, "--nearest", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found["attributions"]] == ["mean+linear", "cls+roberta"]
    for one in found["attributions"]:
        assert one["completeness_error"] < 0.01
        total = sum(token["score"] for token in one["tokens"])
        change = one["value"] - one["value_on_blanks"]
        assert total == pytest.approx(change, abs=0.011 * max(abs(change), one["span"]))
        assert one["against"] == "others"
    assert [len(one["neighbours"]) for one in found["nearest"]] == [2, 2]


def test_edit_says_who_flips(capsys, heads):
    code, out, _ = run(capsys, "edit", TEXT, "Bad at all.", "Not good at all.", *heads, "--json")
    found = json.loads(out)
    assert code == 0
    assert [edit["text"] for edit in found["edits"]] == ["Bad at all.", "Not good at all."]
    for edit in found["edits"]:
        for before, after, flips in zip(
            found["original"]["said"], edit["said"], edit["flips"], strict=True
        ):
            assert flips == (before["answer"] != after["answer"])
    code, out, _ = run(capsys, "edit", TEXT, "Bad at all.", *heads)
    assert "“Not bad” → “Bad”" in " ".join(out.split())


def test_control_characters_of_a_text_do_not_reach_the_terminal(capsys, heads):
    code, out, _ = run(capsys, "edit", f"\x1b[31m{TEXT}", "\x1b[32mBad\x07 at all.", *heads)
    assert code == 0
    code, told, _ = run(capsys, "inspect", f"\x1b[31m{TEXT}\x07", *heads)
    assert code == 0
    assert not {"\x1b", "\x07"} & set(out + told)


def test_ablate_and_readings(capsys, heads):
    code, out, _ = run(capsys, "ablate", TEXT, *heads, "--without", "dense", "--json")
    found = json.loads(out)
    assert code == 0
    assert [(one["name"], one["layer"]) for one in found] == [("cls+roberta", "dense")]
    assert found[0]["retrained"]["name"] == "cls+roberta?without=dense"
    assert found[0]["worth"]["low"] < found[0]["worth"]["high"]
    code, out, _ = run(capsys, "ablate", TEXT, *heads)
    told = " ".join(out.split())
    assert "Without tanh, cls+roberta as it is, not trained anew" in told
    assert "Trained anew without tanh on the same rows" in told
    code, out, _ = run(capsys, "ablate", TEXT, *heads, "--no-retrain")
    assert "Trained anew" not in " ".join(out.split())
    code, out, _ = run(capsys, "readings", TEXT, *heads, "--temperature", "4", "--json")
    found = json.loads(out)
    assert code == 0
    assert found[0]["temperature"] == 4
    assert max(found[0]["tempered"]) < max(found[0]["softmax"])
    code, out, _ = run(capsys, "readings", TEXT, *heads)
    assert "which one class is it?" in " ".join(out.split())
