"""The benchmarks' own parts: what they say, keep and draw. Nothing is timed here."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as bench
from benchmarks import (
    figure,
    growth,
    memory,
    peers,
    reports,
    rounds,
    stored,
    venvs,
)
from benchmarks.figure import DARK, LIGHT, drawn
from benchmarks.reports import Report, Row, compared, measured
from heads.backbone.loading import load

MACHINE = {
    "date": "2026-11-22 06:00 UTC",
    "processor": "a processor",
    "instructions": "AVX2",
    "cores": 2,
    "memory": 24.2,
    "system": "Linux x86_64",
    "versions": {"torch": "2.13.0"},
}
ROWS = [
    compared("reading", [1.0, 1.0], "a naive loop", [3.0, 2.0], note="5 | rows", target=3.0),
    compared("learning", [4.0], "one pass", [2.0]),
    measured("memory", [1.5, 2.5], unit="GB"),
    Row(what="one head", against="a peer", note="not installed: no network", rounds=0),
]
REPORT = Report(machine=MACHINE, parts={"extraction": ROWS}, missing={"page": "there is none."})


@pytest.mark.parametrize(
    "module", [reports, figure, growth, memory, venvs, stored], ids=lambda one: one.__name__
)
def test_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def test_a_process_says_its_own_peak_and_not_that_of_who_started_it():
    ballast = b"1" * 300_000_000  # held while the other runs
    command = [sys.executable, "-m", "benchmarks.memory", "platform"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.strip()
    assert memory.unsaid(done.stderr) == ""
    assert 1_000_000 < memory.said(done.stderr) < len(ballast) < memory.peak_bytes()


def test_a_report_is_kept_whole(tmp_path):
    REPORT.save(tmp_path / "new" / "report.json")
    assert reports.opened(tmp_path / "new" / "report.json") == REPORT


def test_a_report_shows_the_machine_ratios_goals_reasons_and_what_is_missing():
    page = reports.markdown(REPORT, "the figure")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1
    assert "a processor, 2 cores, 24 GB" in page
    assert page.index("the figure") < page.index("### Extraction")
    assert "**2.50** (2.00 to 3.00)" in page
    assert "goal 3.00; 5 \\| rows" in page
    assert "2.00 GB (1.50 to 2.50)" in page
    assert "not installed: no network" in page
    assert page.endswith("Not measured: page, there is none.\n")
    for row in ROWS:
        assert reports.line(row).startswith(f"{row.what}: ")


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_the_figure_is_svg_with_a_bar_for_every_ratio(ink):
    root = ElementTree.fromstring(drawn(REPORT, ink))
    bars = [one for one in root if one.tag.endswith("rect")]
    assert len(bars) == 2
    at = [float(bar.get("x")) for bar in bars]
    assert at[1] < at[0]  # what is slower stands left of 1
    words = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert {"reading", "against a naive loop", "2.50×", "0.500×"} <= set(words)
    wide = float(root.get("viewBox").split()[2])
    assert all(float(bar.get("x")) + float(bar.get("width")) < wide for bar in bars)


def test_what_is_compared_runs_in_turn_and_one_that_fails_is_asked_no_more():
    asked = []

    def say(name):
        asked.append(name)
        if name == "bad":
            raise rounds.CannotSayError("no module")
        return {"seconds": 0.0}

    names = ("one", "bad", "other")
    found, failed = rounds.in_turn({name: lambda name=name: say(name) for name in names}, 3)
    assert asked == ["one", "bad", "other", "other", "one", "one", "other"]
    assert {name: len(answers) for name, answers in found.items()} == {"one": 3, "other": 3}
    assert failed == {"bad": "no module"}


def test_a_program_answers_in_its_last_line():
    code = "import json, sys; print('hello'); print(json.dumps(json.load(sys.stdin) | {'b': 2}))"
    assert rounds.answered([sys.executable, "-c", code], {"a": 1}) == {"a": 1, "b": 2}
    with pytest.raises(rounds.CannotSayError, match="ValueError: no"):
        rounds.answered([sys.executable, "-c", "raise ValueError('no')"], {})


def test_every_peer_has_its_script_and_its_environment():
    folder = Path(peers.__file__).parent / "peer_scripts"
    for name, (environment, script) in peers.SCRIPTS.items():
        assert environment in venvs.ENVIRONMENTS, name
        assert (folder / f"{script}.py").is_file(), name
    for path in folder.glob("*.py"):
        assert not re.search(
            r"^\s*(from|import) (heads|benchmarks|studies)\b", path.read_text("utf-8"), re.M
        )


def answer(seconds, **phases):
    told = {"seconds": seconds, "phases": phases, "accuracy": 0.9, "precision": "float32"}
    return told | {"searched": 0.92}


def test_a_part_of_the_rows_is_scaled_and_said():
    files, few = ({"train_rows": r, "test_rows": r // 2} for r in (1_000, 100))
    answers = {
        peers.EXACT: [answer(10.0, read=5.0, train=1.0)],
        peers.SETFIT: [answer(30.0, fit=20.0, answer=10.0)],
        peers.SENTENCE: [answer(45.0, fit=5.0, **{"search C": 10.0})],
        peers.TRAINER: [answer(9.0, train=8.0, answer=1.0)],
    }
    found = peers.one_head("data", answers, peers.Scale(files=files, few=few))
    whole = {row.against: row for row in found if row.what.endswith("whole run")}
    assert whole[peers.SETFIT].ratio == pytest.approx(3.0)
    assert whole[peers.SENTENCE].peer == pytest.approx(35.0)
    assert whole[peers.SEARCHED].peer == pytest.approx(40.0)
    assert whole[peers.TRAINER].peer == pytest.approx(90.0)
    assert "measured on 100 of 1,000 rows" in whole[peers.TRAINER].note
    bare = [row for row in found if row.what.endswith("reading and learning")]
    assert [(row.against, row.ours) for row in bare] == [(peers.SETFIT, 6.0)]


def test_texts_have_the_tokens_that_they_are_said_to_have():
    texts = growth.texts_of(32, 11)
    assert len(set(texts)) == 11
    assert {len(one) for one in load().encode(texts)} == {32}


def test_without_data_parts_are_left_out_with_a_sentence(tmp_path, capsys):
    out = tmp_path / "report.json"
    assert bench.main(["--data", str(tmp_path / "no"), "--only", "peers", "--out", str(out)]) == 0
    assert "there are no data in" in capsys.readouterr().out
    assert set(json.loads(out.read_text("utf-8"))["missing"]) == {"peers"}


def test_a_part_that_is_unknown_is_a_sentence(capsys):
    assert bench.main(["--only", "nonsense"]) == 2
    assert "There is no part called nonsense" in capsys.readouterr().out


def test_a_part_that_fails_stops_no_other(tmp_path, monkeypatch, capsys):
    def fail(data, rounds):
        raise RuntimeError("no luck")

    monkeypatch.setattr(peers, "main", fail)
    monkeypatch.setattr(growth, "main", lambda data, rounds: ROWS)
    out = tmp_path / "report.json"
    asked = ["--data", str(tmp_path), "--only", "growth,peers", "--quick", "--out", str(out)]
    assert bench.main(asked) == 1
    kept = reports.opened(out)
    assert kept.missing == {"peers": "it failed (RuntimeError: no luck)."}
    assert kept.parts == {"growth": ROWS}


def test_the_page_and_its_figures_are_written(tmp_path, monkeypatch, capsys):
    page = tmp_path / "PERFORMANCE.md"
    monkeypatch.setattr(bench, "PAGE", page)
    bench.publish(REPORT)
    assert "has no place for the table" in capsys.readouterr().out
    page.write_text("# Title\n\n<!-- measured -->\nold\n<!-- /measured -->\nend\n", "utf-8")
    bench.publish(REPORT)
    assert "### Extraction" in page.read_text("utf-8")
    assert "old" not in page.read_text("utf-8")
    assert page.read_text("utf-8").endswith("<!-- /measured -->\nend\n")
    for name in bench.FIGURES:
        assert name in page.read_text("utf-8")
        ElementTree.parse(tmp_path / name)


# Tables of the docs that are written from stored figures


def test_every_measured_table_of_the_docs_is_what_is_stored():
    regions = dict[str, str]()
    for page in stored.PAGES:
        text = page.read_text("utf-8")
        assert stored.fresh(text) == text, f"{page.name} is not what is stored: run make docs"
        for found in stored.REGION.finditer(text):
            assert found[3] not in regions, f"{found[3]} stands twice"
            regions[found[3]] = found[0]
    kept = {path.stem for path in stored.FOLDER.glob("*.json")}
    assert kept <= set(regions), "figures are stored that no page shows"
    for name in set(regions) - kept:  # not measured by this command yet: it must not look so
        assert "Measured at" not in regions[name]
    assert {"pairs", "losses", "labels", "calibration", "race"} <= set(regions)


def test_what_is_stored_is_drawn_with_commit_date_and_data(tmp_path):
    data = tmp_path / "toy"
    data.mkdir()
    (data / "train.csv").write_text("text,label\n")
    rows = [["`a|b`", stored.score(0.5, 0.4, 0.6), stored.gap(-0.1, -0.2, 0.0, differs=True)]]
    table = stored.Table(title="toy, accuracy", columns=("", "score", "against"), rows=rows)
    path = stored.store("toy", [table], command="measure toy", data=[data], folder=tmp_path)
    page = "before\n  <!-- measured: toy -->\nold\n  <!-- /measured: toy -->\nafter\n"
    found = stored.fresh(page, tmp_path)
    values = json.loads(path.read_text("utf-8"))
    assert values["tables"][0]["rows"][0][1] == {"score": 0.5, "low": 0.4, "high": 0.6}
    assert "old" not in found
    assert f"  *Measured at {values['commit']} on {values['date']} with `measure toy`" in found
    assert f"toy {stored.fingerprint(data)[:8]}" in found
    assert "\n  | `a\\|b` | 50.0 (40.0–60.0) | −10.0 (−20.0 to +0.0) * |\n" in found
    assert stored.fresh(found, tmp_path) == found
    assert found.startswith("before\n")
    assert found.endswith("  <!-- /measured: toy -->\nafter\n")
    (data / "train.csv").write_text("text,label\nother,rows\n")
    assert stored.fingerprint(data)[:8] not in found


@pytest.mark.parametrize("module", ["studies.task_types", "benchmarks.grid", "studies.racing"])
@pytest.mark.slow
def test_figures_of_few_rows_are_not_for_the_docs(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "nowhere", "--quick", "--write"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 2
    assert "figures of --quick are not for the docs" in done.stderr
