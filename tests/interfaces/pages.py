"""How the browser tests find their way about the page."""


def turn_to(page, name):
    """Opens a tab; on a narrow screen the last ones stand in a menu."""
    tab = page.get_by_role("tab", name=name)
    if tab.count() == 0:
        page.get_by_label("More tabs").click()
        tab = page.locator(".overflow-dropdown").get_by_role("button", name=name)
    tab.click()
