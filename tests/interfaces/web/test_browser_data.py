"""Your data as a visitor walks it, in Chromium; `tab` is also the offline test."""

import csv
import io
import json
import re

import pytest
from pages import answers, choose, fits, own_choice

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.data.table import Columns
from heads.runs.folder import all_runs
from heads.runs.runner import begin, working
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

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
        data = read(file, Columns(text="text", label="<b>mood</b>"))
        heads = ["mean+linear", "cls+linear"]
        run = begin(RunRequest(data=data, recipes=heads, config=config))
        for _ in working(run):
            pass
    return all_runs()[0]


def is_harmless(page):
    assert page.evaluate("window.__xss") is None
    assert page.locator("img[src=x], .gradio-container script:not([src])").count() == 0
    assert page.locator("a[href*=evil], img[src*=evil]").count() == 0


def sample(page, name):
    """Chooses a sample and waits for its card."""
    page.locator("#runs .rail").wait_for()
    page.get_by_role("button", name=name, exact=True).click()
    page.locator("#account .card-read").wait_for()


@pytest.mark.slow
def test_a_link_to_a_fold_opens_it_and_leaves_it_open(tab, file):
    page = tab("?place=data")
    page.locator("#file input[type=file]").set_input_files(file)
    for _ in range(2):
        page.locator("#account [data-fold=columns]").click()
        page.wait_for_function("() => document.activeElement.closest('#columns')")
        page.keyboard.press("Escape")


@pytest.mark.slow
def test_from_a_file_to_a_result_that_survives_a_reload(tab, file):
    page = tab("?place=data")
    page.locator("#runs .rail").wait_for()
    page.locator("#file input[type=file]").set_input_files(file)
    page.locator("#account", has_text="150 rows, 2 classes").wait_for()
    page.locator("#columns > button").click()
    choose(page, "Label", "mood")
    page.locator("#account", has_text="3 classes").wait_for()
    page.locator("#account summary", has_text="First rows").click()
    assert 'onerror="window.__xss=1"' in page.locator("#account").inner_text()
    is_harmless(page)

    before = {run.id for run in all_runs()}
    own_choice(page, ["mean+linear", "cls+linear", "cls+centroid"])
    page.locator("#start", has_text="about").wait_for(timeout=60_000)
    page.locator("#start").click()
    page.locator("#status progress").wait_for()
    page.wait_for_url(re.compile("result=reviews"))
    page.reload()  # the training does not end with the page
    page.locator("#job", has_text="Training reviews").wait_for()
    page.locator("#sentences dl").wait_for(timeout=60_000)
    assert len({run.id for run in all_runs()} - before) == 1
    assert page.locator("#sentences dt").first.inner_text() == "Use"
    page.locator("#board .point").first.wait_for()
    drawn = page.evaluate(
        "[...document.querySelector('#board .js-plotly-plot').layout.yaxis.ticktext]"
    )
    assert len(drawn) == 3
    assert page.locator("#board .js-plotly-plot").get_attribute("aria-label")
    is_harmless(page)

    box = page.locator("#board .point").last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#head-panel h2").wait_for()
    page.wait_for_url(re.compile("head="))
    for title in ("What does it get wrong?", "Where do heads disagree?", "All numbers"):
        fold = page.locator("#result .fold", has_text=title)
        fold.locator("> button").click()
        fold.locator("table, p, .js-plotly-plot").first.wait_for()
    is_harmless(page)
    with page.expect_download() as download:
        page.locator("#report").click()
    report = download.value.path().read_text("utf-8")
    assert report.startswith("<!doctype html>")
    assert "<img" not in report
    page.locator("#doors a", has_text="Try it").click()
    page.wait_for_function(
        "document.querySelector('#task input').value.startsWith('Your run: reviews')"
    )
    page.locator("#line-recipe option").nth(2).wait_for(state="attached")
    page.locator(".lane .answer strong").first.wait_for()
    assert len(answers(page)) == 3
    page.go_back()
    page.locator("#sentences dl").wait_for()


@pytest.mark.slow
def test_stop_keeps_what_is_done_and_go_on_finishes(tab, file):
    page = tab("?place=data")
    sample(page, "Sentiment")
    page.locator("#start", has_text="about").wait_for(timeout=60_000)
    page.locator("#start").click()
    page.locator("#status", has_text=re.compile(r"1 of 16 heads.* left; .*leads with")).wait_for(
        timeout=120_000
    )
    page.locator("#job [data-do=stop]").click()
    page.locator("#sentences .result", has_text="Stopped before its end").wait_for(timeout=30_000)
    told = page.locator("#sentences strong").first.inner_text()
    assert re.fullmatch(r"Nothing to recommend yet: [123] of 16 heads trained\.", told)
    run = all_runs()[0]
    assert run.read("end.json")["state"] == "stopped"
    page.locator(".run.here [data-do=resume]").click()
    page.locator("#job p").wait_for()
    page.locator("#job [data-do=stop]").click()
    page.locator("#job p").wait_for(state="hidden", timeout=30_000)
    page.locator(".run.here .menu summary").click()
    assert "cannot be undone" in page.locator(".run.here .menu").inner_text()
    assert run.id in {one.id for one in all_runs()}  # it asks first
    page.locator(".run.here [data-do=delete]").click()
    page.locator("#welcome, #card").first.wait_for()
    assert run.id not in {one.id for one in all_runs()}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.slow
def test_a_result_fits_every_screen_and_is_drawn_in_two_ways(tab, a_run, width):
    page = tab(f"?place=data&result={a_run.id}", width=width)
    page.locator("#board .point").first.wait_for()
    fits(page)
    page.get_by_label("Heat map").check()
    page.locator("#board .heatmaplayer").first.wait_for()
    fits(page)


@pytest.mark.slow
def test_what_cannot_begin_is_a_sentence_in_its_place(tab, tmp_path):
    page = tab("?place=data")
    page.locator("#runs .rail").wait_for()
    (tmp_path / "one.csv").write_text("text,label\nthe kettle leaks,x\nit is fine,x\n", "utf-8")
    page.locator("#file input[type=file]").set_input_files(tmp_path / "one.csv")
    page.locator("#account [role=alert]", has_text="needs at least 2 classes").wait_for()
    sample(page, "Sentence pairs")
    page.locator("#start", has_text="about").wait_for(timeout=60_000)
    page.locator("#settings > button").click()
    page.get_by_label("as one sequence (joint)").last.uncheck()
    page.locator("#estimate", has_text="Tick at least one way in.").wait_for()
    assert page.locator("#start").is_disabled()
    page.get_by_label("as one sequence (joint)").last.check()
    page.locator("#start", has_text="about").wait_for(timeout=60_000)


@pytest.mark.slow
def test_settings_show_only_what_applies(tab):
    page = tab("?place=data")
    sample(page, "Sentiment")
    page.locator("#settings > button").click()
    page.locator("#losses").wait_for()
    page.locator("#ways").wait_for(state="hidden")
    page.get_by_role("button", name="How they are compared").click()
    choose(page, "Ranked by", "mcc")
    page.get_by_label("Classes never met").wait_for(state="hidden")
    for _ in range(2):
        page.locator("#settings > button").click()
    page.wait_for_timeout(1000)  # what is sent again takes back no choice
    assert page.get_by_label("Ranked by").input_value() == "mcc"
    page.get_by_role("button", name="Sentence pairs", exact=True).click()
    page.locator("#ways").wait_for()


@pytest.mark.slow
def test_in_public_mode_a_run_is_its_visitors_alone(tab, file, monkeypatch):
    page = tab("?place=data")
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    second = page.context.new_page()  # another tab of the same browser
    second.goto(page.url)
    second.locator("#runs .rail").wait_for()
    page.bring_to_front()
    page.locator("#runs .rail").wait_for()
    page.locator("#file input[type=file]").set_input_files(file)
    page.locator("#account .card-read").wait_for()
    own_choice(page, ["mean+linear", "cls+linear"])
    page.locator("#start", has_text="about").wait_for(timeout=60_000)
    page.locator("#start").click()
    page.locator("#sentences .result").wait_for(timeout=60_000)
    page.reload()
    page.locator("#sentences .result").wait_for()
    assert page.locator(".run").count() == 1
    run = all_runs()[0]
    other = tab("?place=data")
    other.locator("#runs .rail").wait_for()
    assert other.locator(".run").count() == 0

    by_link = tab(f"?place=data&result={run.id}")
    by_link.locator("#sentences .result").wait_for()
    rights = "[data-do=stop], [data-do=resume], [data-do=delete]"
    assert by_link.locator(rights).count() == 0

    secrets = page.evaluate("heads.known")
    assert run.id not in secrets
    assert json.loads(secrets)[0] not in page.content() + page.url
    second.bring_to_front()
    second.locator(".run .menu summary").click()
    second.locator(".run [data-do=delete]").click()
    second.locator(".run").wait_for(state="detached")
    assert not run.path.exists()


@pytest.mark.slow
def test_an_estimate_that_arrives_after_another_file_was_chosen_is_no_error(tab, tmp_path):
    page = tab("?place=data")
    page.get_by_role("button", name="Sentiment", exact=True).click()
    page.locator("#account").wait_for()
    page.locator("#settings > button").click()
    delayed = []

    def delay_first(route):
        if delayed:
            route.continue_()
        else:
            delayed.append(route)

    page.route("**/gradio_api/queue/join*", delay_first)
    page.get_by_label("Full grid").click()  # is estimated for the columns text and label
    page.wait_for_timeout(500)
    other = tmp_path / "other.csv"
    other.write_text("sentence,mood\n" + "A good film,good\nA bad film,bad\n" * 20, "utf-8")
    page.locator("input[type=file]").first.set_input_files(other)
    page.locator("#account", has_text="sentence").wait_for()
    delayed[0].continue_()
    page.wait_for_timeout(3_000)
    assert page.locator(".toast-body").count() == 0
