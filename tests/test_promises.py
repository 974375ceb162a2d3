"""Every promise of docs/PROMISES.md, measured on little; `make prove` measures it whole."""

import doctest
import json

import pytest
from loops import alone

from studies.promises import __main__ as promises
from studies.promises import promise, proofs
from studies.promises.promise import Row, Unmeasured, roomy

# The rest take longer than one waits for a quick run of the tests.
QUICK = ("repeats", "canaries")
ROOM = 5.0  # times what is promised of seconds and memory: other tests run beside these
ROW = Row(promise="P1", says="None lost.", measured="0 | 200", target="0", holds=False, command="c")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in promises.MODULES]
)
def test_a_promise_holds_on_little(name):
    def rows() -> list[Row]:
        with roomy(ROOM):
            return list(promises.measured(name, short=True))

    try:
        found = rows() if name == "properties" else alone(rows)  # it sets an alarm
    except Unmeasured as why:
        pytest.skip(str(why))
    assert found
    for row in found:
        assert row.promise == promises.MODULES[name]
        assert row.holds, f"{row.says} {row.measured}"


def test_the_page_is_what_is_kept():
    text = proofs.PAGE.read_text("utf-8")
    assert "<!-- promises -->\n" in text
    assert proofs.fresh(text) == text, "docs/PROMISES.md is not what is kept: run make docs"


def test_a_module_measured_anew_takes_its_own_place_and_failing_rows_are_shown(tmp_path):
    kept, order = tmp_path / "promises.json", ("kills", "repeats")
    proofs.keep("repeats", [promise.Row(promise="P10", says="Same.", measured="0",
                                        target="0", holds=True)], order, kept)  # fmt: skip
    proofs.keep("kills", [ROW, ROW], order, kept)
    proofs.keep("kills", [ROW], order, kept)
    assert list(json.loads(kept.read_text("utf-8"))) == ["kills", "repeats"]
    page = proofs.fresh("a\n<!-- promises -->\nstale\n<!-- /promises -->\nz\n", kept)
    assert "stale" not in page
    assert "| P1 | None lost. | 0 \\| 200 | 0 | **no** | 0 | `c` |" in page
    assert "1 of 2 rows hold." in page
    assert page.index("| P1 |") < page.index("| P10 |")
    assert "- P1, P10: " in page


def test_examples_hold():
    assert doctest.testmod(promise).failed == 0


def test_an_unknown_promise_is_a_sentence(capsys):
    assert promises.main(["--only", "P99"]) == 2
    assert capsys.readouterr().err.startswith("There is no promise called P99; there are P1, P2,")
