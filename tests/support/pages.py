"""How the browser tests find their way about the page."""


def choose(page, label, value):
    """Types into a dropdown and takes the first match."""
    box = page.get_by_role("combobox", name=label, exact=True)
    box.click()
    box.fill("")
    box.press_sequentially(value)  # a whole name at once would not be searched for
    page.get_by_role("option").filter(has_text=value).first.click()


def fits(page):
    """Waits until nothing is wider than the window; charts take a moment to find their width."""
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")


def ask(page, text):
    """Types a sentence and waits until the lanes have read it: its last word stands among them."""
    page.locator("#sentence textarea").fill(text)
    word = text.rstrip(" .!?,").split()[-1].lower()
    page.locator(".lane .tokens i").get_by_text(word, exact=True).first.wait_for()


def answers(page):
    """What the lanes answer."""
    return page.locator("#lanes .answer strong").all_inner_texts()


def recipes(page):
    """The recipes of the lanes."""
    return page.locator("#lanes .name code").all_inner_texts()


def own_choice(page, recipes):
    """Two folds of heads of one's own choice, in the settings of the card."""
    page.locator("#settings > button").click()
    page.get_by_label("My own choice").click()
    box = page.get_by_label("Your own choice")
    for _ in range(8):
        box.press("Backspace")
    for recipe in recipes:
        box.fill(recipe)
        box.press("Enter")
    name = "number input for Folds, without a test set"
    folds = page.get_by_role("spinbutton", name=name)
    folds.fill("2")
    folds.press("Enter")
