"""The tab "Look inside" as a visitor meets it, in Chromium."""

import pytest
import slow
from pages import turn_to

DONE = "#look-status .verdict:not(.busy)"


def opened(tab, query="", width=1280):
    page = tab(query, width=width)
    turn_to(page, "Look inside")
    page.locator(DONE).wait_for(timeout=90_000)
    return page


@pytest.mark.parametrize(
    ("theme", "width"), slow.but([("light", 1280), ("dark", 1280), ("light", 390)], ("light", 390))
)
@pytest.mark.slow
def test_looks_at_what_was_compared(tab, look, theme, width):
    page = opened(tab, f"?__theme={theme}", width=width)
    cards = page.locator("#tokens .card")
    assert cards.count() == 4
    assert "the scores add up to the difference but for 0." in cards.first.inner_text()
    assert page.locator("#tokens .read.for").count() > 4
    assert page.locator("#reads .read", has_text="100 %").count() == 2  # cls+linear, cls+roberta
    assert "nearest training examples" in page.locator("#near").inner_text()
    assert "Without dense, cls+roberta" in page.locator("#layers").inner_text()
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
    look(page, f"look-{theme}-{width}")


@pytest.mark.slow
def test_edits_temperature_and_another_sentence(tab):
    page = opened(tab)
    page.get_by_label("Edited sentences").fill("Bad at all.\nNot bad at all.")
    page.get_by_role("button", name="Ask about the edits").click()
    page.locator("#flips table").wait_for()
    assert page.locator("#flips tbody tr").count() == 3
    assert page.locator("#flips del", has_text="Not bad").count() == 1
    before = page.locator("#warm").inner_text()
    slider = page.locator("#temperature input[type=number]")
    slider.fill("1")
    slider.press("Enter")
    page.locator("#warm", has_text="at temperature 10").wait_for()
    assert page.locator("#warm").inner_text() != before
    page.get_by_label("Sentence to look at", exact=True).fill("A wonderful day, never better!")
    page.get_by_role("button", name="Look inside", exact=True).click()
    page.locator("#tokens", has_text="wonderful").wait_for(timeout=60_000)


@pytest.mark.slow
def test_a_temperature_typed_out_of_range_gets_a_sentence_and_is_mended(tab):
    from playwright.sync_api import expect

    page = opened(tab)
    box = page.locator("#temperature input[type=number]")
    box.fill("5")
    page.locator("#warm [role=alert]", has_text="from −1 to 1").wait_for()
    box.press("Tab")
    page.locator("#warm", has_text="at temperature 10").wait_for()
    expect(box).to_have_value("1")


@pytest.mark.slow
def test_numbers_say_nothing_of_classes(tab, look):
    page = opened(tab, "?sample=similarity&text=A+man+sings.&pair=Someone+sings.")
    assert "What moves the number" in page.locator("#tokens").inner_text()
    assert page.locator("#temperature").count() == 0 or page.locator("#temperature").is_hidden()
    assert page.get_by_role("combobox", name="What speaks for").count() == 0
    assert page.locator("#tokens .side").count() == page.locator("#tokens .card").count()
    look(page, "look-numbers")


@pytest.mark.slow
def test_what_does_not_fit_is_a_sentence_in_place(tab):
    page = opened(tab)
    box = page.get_by_label("Sentence to look at", exact=True)
    box.fill(" ")
    box.press("Enter")
    page.locator("#look-status [role=alert]", has_text="The sentence is empty.").wait_for()
    assert page.locator("#tokens .card").count() == 0
    box.fill("<img src=x onerror='window.xss=1'>")
    box.press("Enter")
    page.locator("#tokens .read", has_text="<").first.wait_for(timeout=60_000)
    assert page.evaluate("window.xss") is None


@pytest.mark.slow
def test_pairs_bring_their_own_example(tab):
    page = opened(tab)
    box = page.get_by_role("combobox", name="Heads trained on").locator("visible=true").first
    box.click()
    page.get_by_role("option").filter(has_text="Sample: Sentence pairs").first.click()
    page.locator("#tokens .read.second").first.wait_for(timeout=90_000)
    assert page.get_by_label("Second sentence to look at").is_visible()
