"""Pairs, several labels and numbers as a visitor walks them, in Chromium; also the offline test."""

import pytest
from pages import fits, own_choice, start, turn_to

# Gradio sums up the times of its calls with an argument that pandas 3 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")


def trained(page, sample, recipes, heads):
    """Trains recipes on a sample and opens the leaderboard."""
    turn_to(page, "Train")
    page.get_by_role("button", name=sample).click()
    page.locator("#account .verdict").wait_for()
    own_choice(page, recipes)
    return lambda: _finished(page, heads)


def _finished(page, heads):
    start(page)
    page.locator("#status", has_text=f"{heads} heads on").wait_for(timeout=90_000)
    page.locator("#open").click()
    page.locator("#board .tile").first.wait_for()
    page.locator("#closer h4").first.wait_for()


@pytest.mark.slow
def test_two_texts_are_compared_joint_and_siamese(tab, look):
    page = tab()
    go = trained(page, "Sentence pairs", ["mean+linear", "cls+linear"], 4)
    page.get_by_label("each by itself (siamese)").last.check()
    page.get_by_text("4 heads, each trained 3 times with a test set, 2 times").wait_for()
    go()
    board = page.locator("#board").inner_text()
    assert "mean?pair=uv_diff_prod" in board
    assert page.locator("#board .tile").count() == 4
    page.locator("#closer", has_text="Is it as sure as it is right?").wait_for()
    page.locator("#closer", has_text="abstain").wait_for()
    look(page, "kinds-pairs")


@pytest.mark.slow
def test_several_labels_have_thresholds_and_a_table(tab, look):
    page = tab(width=390)
    trained(page, "Review aspects", ["mean+linear", "cls+linear"], 2)()
    page.locator("#measure", has_text="Hamming").wait_for()
    table = page.locator("#closer table").first
    assert "usability" in table.inner_text()
    page.get_by_label("Your sentence").fill("Too expensive, and it broke after a month.")
    page.locator("#ask").click()
    page.locator("#answers .card").first.wait_for()
    fits(page)
    look(page, "kinds-labels-390")


@pytest.mark.slow
def test_numbers_are_predicted(tab, look):
    page = tab("?__theme=dark")
    trained(page, "Sentence similarity", ["mean+linear?pair=uv_diff_prod", "mean+linear"], 2)()
    assert "Spearman" in page.locator("#board").inner_text()
    look(page, "kinds-numbers-dark")


@pytest.mark.slow
def test_softmax_and_one_versus_rest_side_by_side(tab, look):
    page = tab("?text=Not+bad+at+all.&recipes=mean%2Blinear,mean%2Blinear%3Floss%3Dovr")
    page.locator("#cards .card", has_text="questions say yes").wait_for()
    assert page.locator("#cards .card").count() == 2
    look(page, "kinds-ovr")


@pytest.mark.slow
def test_two_sentences_are_compared_siamese(tab, look):
    page = tab("?text=The+dog+chased+the+cat.&pair=The+cat+chased+the+dog.&recipes=mean%2Blinear")
    page.locator("#cards .card h4", has_text="mean+linear").wait_for()
    page.get_by_label("each by itself (siamese)").first.check()
    page.locator("#cards .card h4", has_text="pair=uv_diff_prod").wait_for(timeout=60_000)
    look(page, "kinds-siamese")


@pytest.mark.slow
def test_a_link_to_one_pairing_shows_it_in_the_menu(tab):
    page = tab("?text=A+dog.&pair=A+cat.&recipes=mean%2Blinear&pairs=uv_diff")
    page.locator("#cards .card h4", has_text="pair=uv_diff").wait_for(timeout=60_000)
    assert page.get_by_label("each by itself (uv_diff)").is_checked()


@pytest.mark.slow
def test_numbers_are_compared_without_probabilities(tab, look):
    page = tab("?text=A+dog.&pair=A+cat.&sample=similarity&recipes=cls%2Blinear")
    page.locator("#verdict", has_text="cls+linear gives").wait_for(timeout=60_000)
    page.get_by_text("The number that each head gives").wait_for()
    assert not page.get_by_text("Probability per class").is_visible()
    look(page, "kinds-number-compared")
