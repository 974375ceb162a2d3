"""How Sphinx draws the site; docs/site/build.py puts its pages together first."""

project = "Head to Head"
html_title = project
html_theme = "furo"  # fonts of the system: an opened page asks no other place for anything
html_theme_options = {"top_of_page_buttons": []}
html_extra_path = ["drawings"]  # what raw HTML of a page asks for by name
html_copy_source = html_show_copyright = html_show_sphinx = False
pygments_style, pygments_dark_style = "friendly", "monokai"

extensions = ["myst_parser"]  # CommonMark, as GitHub reads it
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages may skip a level of headings
