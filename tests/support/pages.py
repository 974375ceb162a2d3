"""How the browser tests find their way about the page."""


def turn_to(page, name):
    """Opens a tab; on a narrow screen the last ones stand in a menu."""
    tab = page.get_by_role("tab", name=name)
    if tab.count() == 0:
        page.get_by_label("More tabs").click()
        tab = page.locator(".overflow-dropdown").get_by_role("button", name=name)
    tab.click()


def choose(page, label, value):
    box = page.get_by_role("combobox", name=label, exact=True)
    box.click()
    page.get_by_role("option").filter(has_text=value).first.click()


def fits(page):
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")


def own_choice(page, recipes):
    page.get_by_label("My own choice").click()
    box = page.get_by_label("Your own choice")
    for _ in range(8):
        box.press("Backspace")
    for recipe in recipes:
        box.fill(recipe)
        box.press("Enter")
    name = "number input for Folds, without a test set"
    page.get_by_role("spinbutton", name=name).fill("2")


def start(page):
    page.locator("#start").click()
    page.locator("#status .busy").wait_for(timeout=5_000)
