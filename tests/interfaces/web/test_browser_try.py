"""Try as a visitor meets it, in Chromium; the `tab` fixture is also the offline test."""

import csv
import io
import re
import zipfile

import pytest
import slow
from pages import answers, ask, choose, fits, recipes, write

USUAL = ["cls+linear", "mean+linear", "cls+roberta", "attention+linear"]


def pick(page, sample):
    page.get_by_role("combobox", name="Task", exact=True).click()
    page.get_by_role("option").filter(has_text=sample).first.click()


def open_lane(page, number, section):
    page.locator(f".lane[data-lane='{number}'] [data-show={section}]").click()
    page.locator("#panel h2").wait_for()


@pytest.mark.parametrize(
    ("width", "height"), slow.but_each(2, [(1280, 800), (1024, 768), (390, 844)])
)
def test_opens_on_four_answers_without_scrolling(tab, width, height):
    page = tab(width=width, height=height)
    assert page.locator("h1").inner_text() == "Head to Head"
    assert recipes(page) == USUAL
    assert len(answers(page)) == 4
    assert len(set(answers(page))) > 1  # the chips are chosen so that heads disagree
    fits(page)
    if width > 390:
        last = page.locator("#lanes .lane").last.bounding_box()
        assert last["y"] + last["height"] <= height
    assert page.evaluate("document.documentElement.scrollHeight") <= 3 * height
    weights = page.evaluate(
        """[...new Set([...document.querySelectorAll('body *')]
        .filter((one) => one.offsetParent).map((one) => getComputedStyle(one).fontWeight))]"""
    )
    assert set(weights) <= {"400", "700"}  # which the fonts have whole


def test_answers_while_one_types_and_the_address_keeps_up(tab):
    page = tab()
    ask(page, "This is the worst kettle I have ever owned.")
    assert "negative" in page.locator("#verdict").inner_text()
    page.wait_for_url(re.compile("text=This"))
    before = answers(page)
    page.reload()
    page.locator("#lanes .lane .tokens i", has_text="kettle").first.wait_for()
    page.wait_for_function(  # the lanes may be there first, while Gradio puts the page together
        "() => document.querySelector('#sentence textarea').value.startsWith('This is the worst')"
    )
    assert answers(page) == before


@pytest.mark.slow
def test_a_lane_says_why_how_and_its_numbers_and_is_closed_by_going_back(tab):
    page = tab()
    open_lane(page, 3, "why")
    page.locator("#tokens .read").first.wait_for()
    page.locator("#near li").first.wait_for()
    page.locator("#layers h4").first.wait_for(timeout=60_000)
    page.locator("#ask-edits").click()
    page.locator("#flips td").first.wait_for()
    page.get_by_role("tab", name="How").click()
    page.locator("#chain .chain li").first.wait_for()
    page.get_by_role("tab", name="Numbers").click()
    page.locator("#numbers td").first.wait_for()
    assert page.locator("#panel input[type=text]:visible, #panel textarea:visible").count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    assert rows[0] == ["recipe", "class", "logit", "probability"]
    assert len(rows) == 4
    assert "show=numbers" in page.url
    page.reload()
    page.locator("#numbers td").first.wait_for()
    fits(page)
    for _ in range(3):
        page.go_back()
    page.locator("#panel").wait_for(state="hidden")


@pytest.mark.slow
def test_going_back_quickly_while_answers_are_late_ends_where_the_address_says(tab):
    page = tab()
    open_lane(page, 3, "why")
    for section, what in [("How", "#chain .chain li"), ("Numbers", "#numbers td")]:
        page.get_by_role("tab", name=section).click()
        page.locator(what).first.wait_for()

    def late(route):
        page.wait_for_timeout(600)
        route.continue_()

    page.route("**/gradio_api/run/predict*", late)
    for _ in range(3):
        page.go_back()
        page.wait_for_timeout(500)
    page.locator("#panel").wait_for(state="hidden")
    page.wait_for_timeout(3_000)  # whatever is still on its way opens nothing again
    assert "lane" not in page.url
    assert not page.locator("#panel").is_visible()


@pytest.mark.slow
def test_what_is_typed_right_after_going_back_stays_and_late_answers_lead_nowhere(tab):
    page = tab()
    page.locator("#strip nav a[data-place=data]").click()
    page.locator("#strip nav a[data-place=learn]").click()
    page.locator("#place-learn").wait_for()
    page.go_back()
    page.go_back()
    page.locator("#sentence textarea").fill("The kettle broke")
    page.locator("#lanes .lane .tokens i", has_text="kettle").first.wait_for()
    page.wait_for_url(re.compile(r"\?text=The\+kettle\+broke$"))

    def late(route):
        page.wait_for_timeout(1_000)
        route.continue_()

    page.route("**/gradio_api/queue/join*", late)
    page.locator("#sentence textarea").fill("The kettle sings")
    page.wait_for_timeout(300)
    page.locator("#strip nav a[data-place=data]").click()
    page.wait_for_url(re.compile("sings"))
    page.wait_for_timeout(1_000)
    assert page.locator("#place-data").is_visible()
    page.locator("#strip nav a[data-place=try]").click()
    page.locator("#place-try").wait_for()
    assert page.locator("#sentence textarea").input_value() == "The kettle sings"


@pytest.mark.slow
def test_why_follows_the_lane_that_is_open_and_the_words_that_are_asked(tab):
    page = tab()
    open_lane(page, 1, "why")
    page.locator("#why-status progress, #tokens .read").first.wait_for()
    open_lane(page, 2, "why")
    page.locator("#tokens .quiet", has_text="mean+linear").wait_for()
    box = page.locator("#sentence textarea")
    box.fill("The kettle broke")
    box.press("Enter")
    page.locator("#tokens .read", has_text="kettle").wait_for()
    assert "mean+linear" in page.locator("#tokens .quiet").inner_text()
    page.locator("#tries button").nth(2).click()
    page.locator("#tokens .read", has_text="delay").wait_for()
    assert page.locator("#sentence textarea").input_value() == "Great, another delay."
    page.keyboard.press("Escape")
    page.locator("#panel").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.dataset.lane") == "2"


@pytest.mark.slow
def test_a_head_is_taken_away_as_a_folder(tab):
    page = tab()
    open_lane(page, 2, "take")
    page.locator("#prepare").click()
    page.locator("#taken strong").wait_for(timeout=60_000)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the head").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert any(name.endswith("modeling_head_to_head.py") for name in archive.namelist())
    assert page.locator("#section-take label", has_text="its own class").count()
    page.locator("#taken [data-do=copy]").click()
    page.wait_for_function("navigator.clipboard.readText().then((t) => t.includes('pipeline('))")


@pytest.mark.slow
def test_pooling_and_head_of_a_lane_are_chosen_in_the_line_above(tab):
    page = tab()
    page.locator("#line-lane").select_option("2")
    page.wait_for_function("document.querySelector('#line-pooling').value === 'mean'")
    page.locator("#line-pooling").select_option("weighted")
    page.locator("#lanes .lane .name code", has_text="weighted+linear").wait_for()
    page.locator("#line-head").select_option("centroid")
    page.locator("#lanes .lane .name code", has_text="weighted+centroid").wait_for()
    page.locator("#lanes .lane[data-lane='2'] .answer strong").wait_for(timeout=60_000)
    assert recipes(page) == [USUAL[0], "weighted+centroid", *USUAL[2:]]
    assert "weighted%2Bcentroid" in page.url
    page.locator("#line-lane").select_option("1")  # what another lane has is not shown twice
    page.wait_for_function("document.querySelector('#line-pooling').value === 'cls'")
    page.locator("#line-head").select_option("roberta")
    page.locator("#question-error", has_text="is in lane 3 already").wait_for()
    page.wait_for_function("document.querySelector('#line-head').value === 'linear'")
    page.locator("#parts [data-do=build]").click()
    page.locator("#recipe-line").fill("mean+lineer")
    page.locator("#recipe-line").press("Tab")
    page.locator("#builder [role=alert]", has_text="Did you mean 'linear'").wait_for()
    page.locator("#recipe-line").fill("cls+linear")
    page.locator("#recipe-line").press("Tab")
    page.locator("#o-layer").select_option("cat4")
    page.locator(".preview code", has_text="cls@cat4+linear").wait_for()
    fits(page)
    page.get_by_role("button", name="Use in lane 1").click()
    page.locator("#lanes .name code", has_text="cls@cat4+linear").wait_for()
    page.locator("#builder").wait_for(state="hidden")
    page.locator("#lanes .lane[data-lane='1'] .answer strong").wait_for(timeout=60_000)
    page.locator("#parts [data-do=build]").click()
    page.get_by_role("button", name="Remove lane 1").click()
    page.wait_for_function("document.querySelectorAll('#lanes .lane').length === 3")
    assert recipes(page) == ["weighted+centroid", *USUAL[2:]]


@pytest.mark.slow
def test_two_heads_that_disagree_stand_side_by_side_one_click_from_the_verdict(tab):
    page = tab()
    page.get_by_role("button", name="Why do they disagree?").click()
    columns = page.locator("#side-by-side section")
    columns.nth(1).wait_for()
    one, other = (columns.nth(at).inner_text() for at in (0, 1))
    assert one.split("\n")[0].endswith("cls+linear")
    assert other.split("\n")[0].endswith("mean+linear")
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page)
    choose(page, "Compare with", "attention+linear")
    page.locator("#side-by-side h3", has_text="attention+linear").wait_for()
    phone = tab("?lane=1&show=compare", width=390, height=844)
    phone.locator("#side-by-side section").nth(1).wait_for()
    for section in ("Why", "How", "Numbers", "Take it"):  # none is folded away
        phone.get_by_role("tab", name=section, exact=True).click()


@pytest.mark.slow
def test_a_text_too_long_for_an_address_survives_a_reload(tab):
    page = tab()
    page.locator("#sentence textarea").fill("soup " * 900 + "kettle")
    page.locator("#verdict .note", has_text="of 90").wait_for()
    page.wait_for_url(re.compile("long="))
    assert len(page.url) < 300
    page.reload()
    page.locator("#verdict .note", has_text="of 90").wait_for()
    assert page.locator("#sentence textarea").input_value().endswith("kettle")
    write(page, "#sentence", "Короткий текст о чайнике")
    page.locator("#verdict .note", has_text="script").wait_for()
    page.wait_for_url(re.compile(r"\?text="))
    assert page.locator("#sentence textarea").get_attribute("dir") == "auto"


@pytest.mark.slow
def test_another_sample_keeps_what_one_has_typed(tab):
    page = tab()
    ask(page, "The lamp is bright and cheap.")
    page.get_by_role("button", name="Light or dark").click()
    pick(page, "Review aspects")
    page.locator("#under .told", has_text="Review aspects").wait_for(timeout=60_000)
    assert "__theme=dark" in page.url
    assert page.locator("#sentence textarea").input_value() == "The lamp is bright and cheap."
    page.locator("#verdict strong").wait_for(timeout=60_000)
    pick(page, "Sentence similarity")
    page.locator("#question-error", has_text="Type the second sentence as well").wait_for()
    assert len(answers(page)) == 4  # the last result stays
    assert page.locator("#lanes progress").count() == 0


def test_hostile_text_stays_text(tab):
    page = tab("?text=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.__xss%3D1%22%3E%20%3Cscript%3E")
    page.locator("#lanes .lane .tokens i").first.wait_for()
    open_lane(page, 1, "numbers")
    page.locator("#numbers td").first.wait_for()
    assert page.evaluate("window.__xss") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_a_link_is_copied_and_restores_the_same(tab):
    page = tab()
    ask(page, "I would buy it again and again.")
    before = answers(page)
    page.locator("#under button", has_text="link").click()
    page.get_by_text("Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    other = tab(link[link.index("?") :])
    other.locator("#lanes .lane .tokens i", has_text="again").first.wait_for()
    assert answers(other) == before
    page.locator("#under button", has_text="Python").click()
    page.wait_for_function(
        "navigator.clipboard.readText().then((t) => t.includes('heads.compare'))"
    )


@pytest.mark.slow
def test_places_are_reached_with_the_keyboard_alone(tab):
    page = tab()
    page.locator("#strip nav a").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("place=data"))
    assert page.locator("#place-data").is_visible()
    assert not page.locator("#place-try").is_visible()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("place=learn"))
    page.go_back()
    page.locator("#place-data").wait_for()
    page.go_back()
    page.locator("#place-try").wait_for()


@pytest.mark.slow
def test_on_stage_the_room_votes_before_the_answers_show(tab):
    page = tab("?present=1&vote=1")
    page.locator("#vote button").first.wait_for()
    assert not page.locator("#lanes .lane .answer strong").first.is_visible()
    page.locator("#vote button", has_text="negative").click()
    page.locator("#vote button", has_text="negative 1").wait_for()
    page.get_by_role("button", name="Reveal").click()
    assert page.locator("#lanes .lane .answer strong").first.is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_learn_shows_its_answers(tab, width):
    page = tab("?place=learn", width=width)
    page.locator("#families-apart p", has_text="leaves out a dropout").wait_for(timeout=60_000)
    told = page.locator("#weights strong").inner_text()
    assert "pooler.dense is in the checkpoint, but still at its initial values" in told
    assert "classifier is new" in told
    page.locator("#padding td").first.wait_for(timeout=60_000)
    assert "GPT2ForSequenceClassification" in page.locator("#padding").inner_text()
    assert page.evaluate("document.documentElement.scrollHeight") <= 3_200
    page.locator("#catalogue > button").click()
    page.locator(".catalogue tr").nth(50).wait_for(timeout=60_000)
    fits(page)
    choose(page, "The other", "distilbert")
    page.locator("#families-apart", has_text="distilbert").wait_for()
