"""From a file to a verdict as a visitor walks it, in Chromium; `tab` is also the offline test."""

import csv
import io
import time
import zipfile

import pytest
from pages import choose, fits, own_choice, start, turn_to

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.data.table import Columns
from heads.interfaces.web import uploads
from heads.runs.folder import all_runs
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig, limits

# Gradio sums up the times of its calls with an argument that pandas 3 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")

HOSTILE = {
    "negative": '<img src=x onerror="window.__xss=1">',
    "neutral": "**bold** [x](http://evil.example) ![y](http://evil.example/a.png)",
    "positive": "=1+1 <script>window.__xss=2</script>",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file with a column named label that holds no labels, and labels that attack."""
    rows = list(csv.DictReader(io.StringIO(SAMPLES["sentiment"].path.read_text("utf-8"))))[:150]
    path = tmp_path_factory.mktemp("walk") / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "label", "<b>mood</b>"])
        writer.writerows(
            [row["text"], "ab"[at % 2], HOSTILE[row["label"]]] for at, row in enumerate(rows)
        )
    return path


@pytest.fixture(scope="module")
def a_run(file):
    """The newest run that is kept; a new one where there is none."""
    if not all_runs():
        config = ExperimentConfig(folds=2, curve=False)
        data = read(file, limits(), Columns(text="text", label="<b>mood</b>"))
        heads = ["mean+linear", "cls+linear"]
        run = begin(RunRequest(data=data, recipes=heads, config=config), limits=limits())
        for _ in working(run, limits()):
            pass
    return all_runs()[0]


def is_harmless(page):
    assert page.evaluate("window.__xss") is None
    assert page.locator("img[src=x], .gradio-container script:not([src])").count() == 0
    assert page.locator("a[href*=evil], img[src*=evil]").count() == 0


def test_from_a_file_to_a_verdict(tab, look, file):
    page = tab()
    turn_to(page, "Train")
    page.locator("#file input[type=file]").set_input_files(file)
    page.locator("#account", has_text="all 150 rows are used, 2 classes").wait_for()
    choose(page, "Label", "mood")
    page.locator("#account", has_text="3 classes").wait_for()
    assert 'onerror="window.__xss=1"' in page.locator("#account").inner_text()
    is_harmless(page)
    look(page, "train-data")

    before = {run.id for run in all_runs()}
    heads = ["mean+linear", "cls+mlp", "mean+mlp", "max+mlp", "last+mlp", "mean+modernbert"]
    own_choice(page, heads)
    page.get_by_text("6 heads, each trained 3 times with a test set, 2 times without").wait_for()
    start(page)
    page.locator("#heat .tile").first.wait_for(timeout=60_000)
    look(page, "train-running")
    page.locator("#stop").click()
    page.locator("#status", has_text="Stopped before its end").wait_for(timeout=5_000)
    assert page.locator("#heat .tile").count() >= 1
    look(page, "train-stopped")

    own_choice(page, ["mean+linear", "cls+linear", "cls+centroid"])
    start(page)
    page.locator("#status", has_text="3 heads on reviews").wait_for(timeout=60_000)
    look(page, "train-finished")
    assert len({run.id for run in all_runs()} - before) == 2

    page.locator("#open").click()
    page.locator("#board .tile").first.wait_for()
    assert page.locator("#board .tile").count() == 3
    assert "TF-IDF" in page.locator("#board").inner_text()
    page.get_by_label("Macro-F1").click()
    page.locator("#board caption", has_text="Macro-F1").wait_for()
    is_harmless(page)

    page.get_by_label("Your sentence").fill("A wonderful, wonderful day.")
    page.locator("#ask").click()
    page.locator("#answers .card").first.wait_for()
    assert page.locator("#answers .card").count() == 3
    look(page, "leaderboard")
    _takes_away(page, look)
    is_harmless(page)


def _takes_away(page, look):
    with page.expect_download() as download:
        page.locator("#save-csv").click()
    rows = list(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    assert (rows[0][0], len(rows)) == ("Recipe", 6)
    with page.expect_download() as download:
        page.locator("#report").click()
    report = download.value.path().read_text("utf-8")
    assert report.startswith("<!doctype html>")
    assert "<img" not in report
    page.get_by_text("Take the winner with you").click()
    page.get_by_label("Calibrated").check()
    page.locator("#take-winner").click()
    page.locator("#winner .agree", has_text="divided by the temperature").wait_for(timeout=60_000)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the head").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert any(name.endswith("config.json") for name in archive.namelist())
    look(page, "taken-away")


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 390), ("dark", 1280)])
@pytest.mark.slow
def test_a_run_is_there_after_a_reload_and_fits_a_phone(tab, look, a_run, theme, width):
    page = tab(f"?__theme={theme}", width=width)
    turn_to(page, "Train")
    page.get_by_role("button", name="Sentence pairs").click()
    page.locator("#account", has_text="second text").wait_for()
    fits(page)
    look(page, f"train-{theme}-{width}")
    turn_to(page, "Leaderboard")
    page.locator("#board .tile").first.wait_for()
    page.locator("#closer .confusion").wait_for()
    fits(page)
    look(page, f"leaderboard-{theme}-{width}")


@pytest.mark.slow
def test_what_cannot_begin_is_a_sentence_and_earlier_results_stay(tab):
    page = tab()
    turn_to(page, "Train")
    page.get_by_role("button", name="Sentiment").click()
    page.locator("#account .verdict").wait_for()
    own_choice(page, ["mean+linear", "cls+linear"])
    start(page)
    page.locator("#status", has_text="2 heads on").wait_for(timeout=60_000)
    page.get_by_label("as one sequence (joint)").last.uncheck()
    page.get_by_text("Tick at least one way in.").wait_for()
    page.locator("#start").click()
    page.locator("#status [role=alert]", has_text="Tick at least one way in.").wait_for()
    assert page.locator("#heat .tile").count() == 2
    assert page.locator("#open").is_visible()
    page.get_by_label("as one sequence (joint)").last.check()
    page.get_by_role("spinbutton", name="number input for Seeds, with a test set").fill("60")
    page.get_by_text("'Seeds, with a test set' must be between 1 and 50.").wait_for()
    all_runs()[0].delete()


@pytest.mark.slow
def test_a_closed_page_ends_its_training(tab):
    page = tab()
    turn_to(page, "Train")
    page.get_by_role("button", name="Sentiment").click()
    page.locator("#account .verdict").wait_for()
    start(page)
    run = _busy(page)
    page.close()
    closed = time.monotonic()
    while run.is_busy and time.monotonic() < closed + 5:
        time.sleep(0.05)
    assert time.monotonic() - closed < 1.5  # a second, and what the loaded machine of a test adds
    time.sleep(0.3)  # the note of how it ended comes after the end
    assert run.read("end.json")["state"] == "stopped"
    run.delete()


def _busy(page):
    for _ in range(200):
        for run in all_runs()[:1]:
            if run.is_busy:
                return run
        page.wait_for_timeout(100)
    raise AssertionError("no training began")


@pytest.mark.slow
def test_in_public_mode_a_run_is_its_visitors_alone_and_survives_a_reload(tab, file, monkeypatch):
    page = tab()
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    turn_to(page, "Train")
    page.locator("#file input[type=file]").set_input_files(file)
    page.locator("#account .verdict").wait_for()
    own_choice(page, ["mean+linear", "cls+linear"])
    start(page)
    page.locator("#status", has_text="2 heads on reviews").wait_for(timeout=60_000)
    page.reload()
    page.locator("#verdict strong").wait_for()
    turn_to(page, "Leaderboard")
    page.locator("#board .tile").first.wait_for()
    other = tab()
    turn_to(other, "Leaderboard")
    other.locator("#found", has_text="No run is kept yet").wait_for()
    assert other.locator("#board .tile").count() == 0
    all_runs()[0].delete()


@pytest.mark.slow
def test_a_run_is_deleted_only_once_one_is_sure(tab, a_run):
    page = tab()
    count = len(all_runs())
    turn_to(page, "Leaderboard")
    page.locator("#board .tile").first.wait_for()
    page.locator("#delete").click()
    page.locator("#sure").wait_for()
    assert len(all_runs()) == count
    page.locator("#sure").click()
    page.locator("#sure").wait_for(state="hidden")
    assert len(all_runs()) == count - 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(200), "picture"),
        ("empty.csv", b"", "empty"),
        (
            "one.csv",
            b"text,label\nthe kettle leaks,x\nit is a fine day,x\n",
            "needs at least 2 classes",
        ),
    ],
)
@pytest.mark.slow
def test_a_bad_file_gets_one_sentence_in_its_place(tab, tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    page = tab()
    turn_to(page, "Train")
    page.locator("#file input[type=file]").set_input_files(tmp_path / name)
    alert = page.locator("#account [role=alert]")
    alert.wait_for()
    assert says in alert.inner_text()
    page.locator("#start").click()
    page.locator("#status [role=alert]").wait_for()
    kept = [path for path in uploads.folder().rglob("*") if path.is_file()]
    assert all(path.stat().st_size < 1_000_000 for path in kept)
