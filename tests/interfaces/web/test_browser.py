"""The page as a visitor meets it, in Chromium; the `tab` fixture is also the offline test."""

import csv
import io
import re
import zipfile

import pytest
import slow
from pages import turn_to

PLOTS = "document.querySelectorAll('.js-plotly-plot .bars path').length"


def say(page, label, text):
    box = page.get_by_role("textbox", name=label).and_(page.locator("textarea")).first
    box.fill(text)
    return box


def choose(page, label, value):
    """Types into a dropdown and takes the first match."""
    box = page.get_by_role("combobox", name=label, exact=True)
    box.click()
    box.fill("")
    box.press_sequentially(value)  # a whole name at once would not be searched for
    page.get_by_role("option").filter(has_text=value).first.click()


def ask(page, text):
    """Compares a sentence and waits for its cards; not for words, which charts still add."""
    page.evaluate("document.querySelectorAll('#cards .card').forEach(card => card.id = 'before')")
    say(page, "Sentence", text).press("Enter")
    page.wait_for_function(
        "document.querySelector('#cards .card') && !document.querySelector('#cards #before')"
        " && !document.querySelector('#verdict .busy')",
    )


def recipes(page):
    return page.locator(".card h4").all_inner_texts()


def fits(page):
    """Waits until nothing is wider than the window; charts take a moment to find their width."""
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize(
    ("theme", "width"),
    slow.but_each(4, [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]),
)
def test_opens_on_a_finished_example(tab, look, theme, width):
    page = tab(f"?__theme={theme}", width=width)
    assert "heads agree" in page.locator("#verdict").inner_text()
    assert len(recipes(page)) == 4
    page.wait_for_function(f"{PLOTS} === 24")  # 4 recipes, 3 classes, probability and logit
    assert page.locator("h1").inner_text() == "Head to Head"
    fits(page)
    look(page, f"compare-{theme}-{width}")
    turn_to(page, "Explained")
    page.locator("#chain li").first.wait_for()
    fits(page)
    look(page, f"explained-{theme}-{width}")


def test_compares_a_new_sentence_on_enter(tab):
    page = tab()
    ask(page, "This is the worst kettle I have ever owned.")
    assert "negative" in page.locator("#verdict").inner_text()


@pytest.mark.slow
def test_a_chip_fills_the_sentence_and_compares(tab):
    from playwright.sync_api import expect

    page = tab()
    page.locator(".gallery-item, .sample, button").get_by_text(
        "The flight was cancelled twice."
    ).first.click()
    sentence = page.get_by_label("Sentence", exact=True)
    expect(sentence).to_have_value(re.compile("^The flight"))
    expect(page.locator("#verdict")).to_contain_text("negative")


@pytest.mark.slow
def test_an_untrained_recipe_is_trained_with_progress(tab, look):
    page = tab()
    page.get_by_label("Recipes, up to four").press("Backspace")
    box = page.get_by_label("Recipes, up to four")
    box.fill("mean@4+mlp?hidden=24")
    box.press("Enter")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator(".card h4", has_text="mean@4+mlp?hidden=24").wait_for()
    assert len(recipes(page)) == 4


@pytest.mark.slow
def test_a_recipe_is_put_together_from_menus(tab, look):
    page = tab()
    page.get_by_label("Recipes, up to four").press("Backspace")
    page.get_by_text("Put a recipe together").click()
    choose(page, "Pooling", "weighted")
    choose(page, "Head", "centroid")
    look(page, "put-together")
    page.get_by_role("button", name="Add to the recipes").click()
    page.locator(".legend dt", has_text="weighted+centroid").wait_for()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator(".card h4", has_text="weighted+centroid").wait_for()


@pytest.mark.slow
def test_a_second_sentence_takes_the_heads_of_the_pairs(tab, look):
    page = tab()
    page.get_by_text("Compare with a second sentence").click()
    say(page, "Sentence", "The bridge is closed.")
    say(page, "Second sentence", "The bridge is shut.").press("Enter")
    page.locator("#verdict", has_text="Sentence pairs").wait_for()
    assert "guessing" in page.locator("#verdict").inner_text()
    look(page, "pairs")


@pytest.mark.slow
def test_another_sample_brings_its_own_example(tab, look):
    page = tab()
    choose(page, "Heads trained on", "Review aspects")
    page.locator("#verdict", has_text="Review aspects").wait_for()
    assert "Lovely colour" in page.get_by_label("Sentence", exact=True).input_value()
    look(page, "aspects")


@pytest.mark.slow
def test_the_link_restores_the_same_comparison(tab):
    page = tab()
    ask(page, "I would buy it again & again, 100 %!")
    link = ""
    for _ in range(20):  # the cards are drawn a moment before the page knows the new link
        page.get_by_role("button", name="Copy link").click()
        page.wait_for_timeout(250)
        link = page.evaluate("navigator.clipboard.readText()")
        if "?text=I+would+buy" in link:
            break
    assert "?text=I+would+buy" in link
    again = tab(link[link.index("?") :])
    again.wait_for_function(
        "cards => document.querySelector('#cards').innerText === cards",
        arg=page.locator("#cards").inner_text(),
    )
    assert again.get_by_label("Sentence", exact=True).input_value().endswith("100 %!")
    assert again.locator("#cards").inner_text() == page.locator("#cards").inner_text()


@pytest.mark.slow
def test_the_numbers_are_saved_as_csv_without_the_server(tab):
    page = tab()
    page.locator("#numbers button").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    text = download.value.path().read_text("utf-8-sig")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["recipe", "class", "logit", "probability"]
    assert len(rows) == 13
    assert all(0 <= float(row[3]) <= 1 for row in rows[1:])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "Type a sentence first."), ("\x07", "Type a sentence first.")],
)
@pytest.mark.slow
def test_bad_input_gets_a_sentence_in_the_place_of_the_verdict(tab, text, sentence):
    page = tab()
    say(page, "Sentence", text).press("Enter")
    page.locator("#verdict [role=alert]", has_text=sentence).wait_for()
    say(page, "Sentence", "Fine again.").press("Enter")
    page.locator("#verdict strong").wait_for()


@pytest.mark.slow
def test_a_model_that_is_not_there_says_what_to_do(tab, look):
    page = tab()
    choose(page, "Base model", "roberta-base")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator("#verdict", has_text="heads fetch FacebookAI/roberta-base").wait_for()
    look(page, "not-fetched")


def test_hostile_text_stays_text(tab):
    page = tab()
    hostile = (
        '<img src=x onerror="window.xss=1"> ![x](http://evil.example/a.png) <script>xss=1</script>'
    )
    ask(page, hostile)
    page.get_by_role("tab", name="Explained").click()
    page.locator("#reading .read", has_text="evil").wait_for()
    assert page.evaluate("window.xss") is None


@pytest.mark.slow
def test_explains_a_recipe_and_what_sets_two_apart(tab, look):
    page = tab()
    ask(page, "Every word counts here.")
    page.get_by_role("tab", name="Explained").click()
    page.locator("#reading .read", has_text="every").wait_for()
    assert "never trained" in page.locator("#against").inner_text()
    choose(page, "Recipe", "attention+linear")
    page.locator("#headline", has_text="attention+linear").wait_for()
    shares = page.locator("#reading .read i").all_inner_texts()
    assert len([share for share in shares if "%" in share]) > 2
    assert re.search(r"query", page.locator(".tensors").inner_text())
    look(page, "explained-attention")


@pytest.mark.slow
def test_works_with_the_keyboard_alone(tab):
    page = tab()
    page.get_by_label("Sentence", exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("What a wonderful, wonderful day!")
    page.keyboard.press("Enter")
    page.locator("#verdict", has_text="positive").wait_for()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.innerText?.trim().slice(0, 40)"))
    assert {"Compare", "Save as CSV"} & seen
    assert any("Copy link" in (text or "") for text in seen)


@pytest.mark.slow
def test_asks_only_for_font_weights_that_are_whole(tab):
    page = tab()
    weights = page.evaluate(
        "[...new Set([...document.querySelectorAll('button, h1, h2, h3, h4, label, span, th, b')]"
        ".map(e => getComputedStyle(e).fontWeight))]"
    )
    assert set(weights) <= {"400", "700"}


@pytest.mark.slow
def test_a_random_head_says_so_wherever_its_numbers_stand(tab, look):
    page = tab("?text=Not+bad+at+all.&recipes=own,mean%2Blinear")
    page.locator(".card h4", has_text="own (cls+bert)").wait_for()
    assert "is random" in page.locator("#verdict").inner_text()
    assert page.locator(".card", has_text="own").locator(".random").count() == 1
    marks = page.locator(".chart-name .random")
    assert [marks.nth(n).is_visible() for n in range(marks.count())].count(True) == 2
    look(page, "own-random")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.slow
def test_the_catalogue_is_searched_and_two_heads_are_set_apart(tab, look, width):
    page = tab(width=width)
    turn_to(page, "Catalogue")
    table = page.locator("#families")
    table.get_by_text("albert", exact=True).first.wait_for()
    search = table.get_by_placeholder("Search")
    search.fill("modernbert-decoder")
    cell = table.get_by_text("modernbert-decoder", exact=True).locator("visible=true").first
    cell.click()
    page.locator("#family", has_text="ModernBertDecoderForSequenceClassification").wait_for()
    choose(page, "The other", "distilbert")
    page.locator("#apart", has_text="DistilBertForSequenceClassification").wait_for()
    fits(page)
    look(page, f"catalogue-{width}")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.slow
def test_the_doctor_examines_a_family(tab, look, width):
    page = tab(width=width)
    turn_to(page, "Doctor")
    page.get_by_role("button", name="Examine").click()
    page.locator("#diagnosis", has_text="GPT2ForSequenceClassification").wait_for()
    fits(page)
    look(page, f"doctor-{width}")


@pytest.mark.slow
def test_a_head_is_taken_away_as_a_folder(tab, look):
    page = tab()
    page.get_by_text("Take a head with you").click()
    page.get_by_role("button", name="Prepare the file").click()
    page.locator("#taken", has_text="its own loader, load.py").wait_for(timeout=60_000)
    look(page, "taken")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert {"cls-linear/load.py", "cls-linear/README.md"} <= set(archive.namelist())
