"""The tour: five questions measured here, a story that needs no server, and the stage's check."""

import html
import json
import re
import shutil
import socket
import sys
from dataclasses import replace

import pandas as pd
import pytest
from boards import CLOSE, FAR, board_of
from shown_results import HOSTILE, check_shown

import heads
from heads.data.samples import SAMPLES
from heads.errors import HeadsError
from heads.events import result
from heads.extras.talks import stage, story, tour
from heads.interfaces.cli.app import main
from heads.interfaces.web.location import Location
from heads.parts.resolve import resolve

ADDRESS = "https://example.org/heads"


@pytest.fixture(scope="module")
def found():
    return heads.tour()


def test_every_question_names_heads_that_differ_in_one_thing():
    assert SAMPLES[tour.SAMPLE].path.is_file()
    for one in tour.QUESTIONS:
        first, second = map(resolve, one.heads[:2])
        assert first.recipe != second.recipe
        # Another pooling, another head or another loss: of two at once none would be to blame.
        facts = [(it.recipe.pooling, it.recipe.head, it.loss) for it in (first, second)]
        assert sum(a != b for a, b in zip(*facts, strict=True)) == 1
        assert [story.link_thread(name) for name in one.asked_in]


@pytest.mark.slow
def test_each_answer_is_what_was_measured(found):
    board = found.board
    assert board.rows == 420
    assert {cell.name for cell in board.cells if not cell.is_baseline} == set(tour.HEADS)
    for step in found.steps:
        one, other = step.question.heads[:2]
        difference, scores = step.difference, dict(step.scores)
        assert difference.difference == pytest.approx(scores[one] - scores[other], abs=1e-9)
        assert step.rows == board.rows
        expected = (0 if difference.difference > 0 else 2) if difference.differs else 1
        assert step.right == expected
        assert difference.differs or difference.low <= 0 <= difference.high or difference.p > 0.05
        shown = [str(prediction.recipe) for prediction in step.comparison.predictions]
        assert shown == [*step.question.heads]


@pytest.mark.slow
def test_a_second_visitor_who_trains_it_too_leaves_the_first_one_its_heads(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADS_CACHE", str(tmp_path))
    late = tour.iter_tour()
    next(late)  # it has begun to train: nothing was trained before
    first = heads.tour()
    folder = first.board.folder.path
    number = folder.stat().st_ino
    result(late)
    assert folder.stat().st_ino == number
    assert [path.name for path in folder.parent.iterdir()] == [first.board.run]
    monkeypatch.setattr(tour, "begin", lambda *_, **__: pytest.fail("it is trained again"))
    assert heads.tour().as_json() == first.as_json()


@pytest.mark.slow
def test_the_command_writes_a_story_and_says_whether_all_is_ready(found, tmp_path, capfd):
    place = tmp_path / "tour.html"
    code = main(["demo", "--check", "--to", str(place), "--address", ADDRESS, "--json"])
    told = json.loads(capfd.readouterr().out)
    assert code == (0 if told["ready"] else 2)
    assert len(told["checks"]) == 5
    assert told["checks"][3]["is_ready"]  # it works with the network cut
    assert [step["question"] for step in told["tour"]["steps"]] == [q.asks for q in tour.QUESTIONS]
    page = place.read_text("utf-8")
    assert page.count("<svg") == 5
    assert page.count(f'href="{ADDRESS}/?text=') == 5
    assert "<script src" not in page
    assert not re.search(r'(?:src|href)="(?!#|https://)', page)
    assert main(["demo"]) == 0
    assert "--to tour.html" in capfd.readouterr().out


def test_the_network_is_cut_for_all_but_this_machine():
    before = socket.socket.connect
    with stage.no_network() as tried, socket.socket() as listens:
        listens.bind(("127.0.0.1", 0))
        listens.listen()
        with socket.create_connection(listens.getsockname(), 5):
            pass
        with pytest.raises(OSError, match="cut for this check"):
            socket.create_connection(("192.0.2.1", 80), 1)
        with pytest.raises(OSError, match="cut for this check"):
            socket.create_connection(("example.org", 80), 1)
    assert tried == ["192.0.2.1", "example.org"]
    assert socket.socket.connect is before


# --- A comparison as a story.


@pytest.fixture(scope="module")
def comparison(tiny):
    return heads.compare("<b>Not</b> bad & cheap.", recipes=["mean+linear"], model=str(tiny()))


def test_a_comparison_is_one_file_that_asks_for_nothing(comparison, tmp_path):
    place = heads.save_story(comparison, tmp_path / "story.html")
    page = place.read_text("utf-8")
    assert "<b>Not</b>" not in page
    assert "&lt;b&gt;Not&lt;/b&gt; bad &amp; cheap." in page
    assert "default-src 'none'" in page
    assert "<svg" not in page
    assert place.stat().st_mode & 0o444 == 0o444
    linked = story.write_story(comparison, ADDRESS)
    assert "<svg" in linked
    assert f'href="{ADDRESS}/?text=%3Cb%3ENot' in linked


def test_a_link_to_heads_of_a_run_leads_to_the_same_or_is_not_there(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADS_RUNS", str(tmp_path / "runs"))
    rows = [(f"{word} {row}", word) for row in range(12) for word in ("cat", "dog")]
    frame = pd.DataFrame(rows, columns=["text", "label"])
    config = heads.ExperimentConfig(folds=2, curve=False)
    asked = {"recipes": ["mean+logistic", "cls+ridge"], "config": config, "model": str(tiny())}
    inside = heads.train_grid(frame, **asked).folder
    for run in (inside.id, inside.id[:-1], str(inside.path)):
        found = heads.compare("a cat", run=run, recipes=["cls+ridge", "mean+logistic"])
        (link,) = re.findall(rf'href="{ADDRESS}/(\?[^"]+)"', story.write_story(found, ADDRESS))
        there = Location.of(html.unescape(link))
        assert (there.run, there.text) == (inside.id, "a cat")
        again = heads.compare(**there.asked)
        assert [one.logits for one in again.predictions] == [o.logits for o in found.predictions]
    shutil.move(inside.path, tmp_path / "elsewhere")
    found = heads.compare("a cat", run=str(tmp_path / "elsewhere"))
    assert ADDRESS not in story.write_story(found, ADDRESS)  # which no page finds
    shutil.move(tmp_path / "elsewhere", inside.path)
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    assert ADDRESS not in story.write_story(replace(found, run=inside.id), ADDRESS)


def test_several_heads_are_guessed_first_and_linked_by_their_names(tiny):
    model = str(tiny("bert", "ForSequenceClassification"))
    found = heads.compare("Not bad.", recipes=["own", "mean+linear"], model=model)
    page = story.write_story(found, ADDRESS)
    (right,) = re.findall(r'id="guess-1-(\d)" class="right"', page)
    assert (right == "1") == found.is_unanimous
    assert "recipes=own%2Cmean%2Blinear" in page


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--to", "story.txt"], "story.txt"),
        (["--address", ADDRESS], "--to"),
        (["--to", "a.html", "--address", "example"], "example"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_computed(
    given, named, capfd, monkeypatch
):
    monkeypatch.setattr(
        "heads.interpret.comparison.iter_comparison", lambda *_, **__: pytest.fail("ran")
    )
    for command in [["story", "Bad."]] * ("--to" in given) + [["demo"]]:
        assert main([*command, *given]) == 2
        assert named in capfd.readouterr().err


def test_a_file_that_cannot_be_written_is_refused(comparison, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    for place in ("story.txt", "file/story.html"):
        with pytest.raises(HeadsError):
            heads.save_story(comparison, tmp_path / place)


def test_a_code_is_drawn_of_what_a_telephone_can_read(monkeypatch):
    assert "<svg" in story.draw_code(ADDRESS)
    assert story.draw_code("") == ""
    assert story.draw_code(f"{ADDRESS}?text={'x' * story.LONGEST_LINK}") == ""
    monkeypatch.setitem(sys.modules, "segno", None)  # without the library there are links alone
    assert story.draw_code(ADDRESS) == ""


@pytest.mark.slow
def test_the_story_goes_on_where_server_and_network_are_gone(found, tmp_path, chrome):
    """Opened from the disk; at step 3 everything else is cut; the guesses still unfold."""
    place = found.save(tmp_path / "tour.html")
    context = chrome.new_context(viewport={"width": 1024, "height": 800})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    page.on("request", lambda one: said.append(one.url) if "file:" not in one.url else None)
    page.goto(place.as_uri())
    for number, step in enumerate(found.steps, start=1):
        if number == 3:
            context.set_offline(True)
            place.unlink()
        answer = page.locator(f"#step-{number} .answer")
        assert not answer.is_visible()
        page.locator(f"label[for=guess-{number}-{step.right + 1}]").click()
        assert answer.is_visible()
        assert "You guessed right" in answer.inner_text()
        wrong = (step.right + 1) % 3 + 1
        page.locator(f"label[for=guess-{number}-{wrong}]").click()
        assert "Not quite" in answer.inner_text()
    assert said == []
    context.close()


def test_a_tour_is_shown_by_notebook_and_shell():
    shown = tour.Tour(steps=(), board=board_of(**CLOSE, **FAR))
    check_shown(shown, is_foreign=False)
    failed = stage.Checked(what="It works", is_ready=False, says=HOSTILE)
    check_shown(stage.StageCheck(checks=(failed,), tour=shown))
