"""The page: one file a tab, one for the theme, one for what guards the handlers."""

from heads.interfaces.web import gradio_patches  # before Gradio

# isort: split
import gradio as gr
from gradio.events import api as publish

from heads.interfaces.web import endpoints
from heads.interfaces.web.startup import Opening, Page
from heads.interfaces.web.tabs import (
    catalog,
    compare,
    explain,
    inspect,
    leaderboard,
    padding,
    train,
)
from heads.interfaces.web.theme import CSS, THEME
from heads.interfaces.web.training_process import Places
from heads.settings import limits

gradio_patches.settle()

TITLE = "Head to Head"
SAYS = "One transformer, many classification heads: see how pooling and head change the answer."

# What `launch` needs besides: the same for app.py, the command and the tests.
LAUNCH = {
    "theme": THEME,
    "css": CSS,
    "footer_links": ["api", "settings"],
    "run_history": False,
    "ssr_mode": False,
    "max_file_size": limits().upload_bytes,
}


def build() -> Page:
    """Builds the page; its examples are made once it is served, and their heads at first."""
    places = Places(most=1 if limits().public else 2)
    with Page(
        title=TITLE, analytics_enabled=False, fill_width=False, delete_cache=(300, 300)
    ) as page:
        gr.Markdown(f"# {TITLE}\n{SAYS}")
        mine = train.remembered()
        page.opening = opening = Opening()
        with gr.Tabs() as tabs:
            with gr.Tab("Compare", id="compare"):
                asked = compare.build(page, opening)
            with gr.Tab("Train", id="train"):
                trained = train.build(page, opening, mine, places)
            with gr.Tab("Leaderboard", id="leaderboard") as tab:
                leaderboard.build(tabs, tab, opening, trained)
            with gr.Tab("Explained", id="explained") as tab:
                explain.build(tab, opening, asked)
            with gr.Tab("Look inside", id="look") as tab:
                inspect.build(tab, opening, asked, mine)
            with gr.Tab("Catalogue", id="catalogue") as tab:
                catalog.build(tab, opening)
            with gr.Tab("Doctor", id="doctor"):
                padding.build(opening)
        gr.Markdown(_mode(), elem_classes="quiet")
        typed = (
            endpoints.compare,
            endpoints.explain,
            endpoints.difference,
            endpoints.families,
            endpoints.doctor,
            endpoints.parts,
        )
        typed += (endpoints.look, endpoints.edit, endpoints.ablate, endpoints.readings)
        for endpoint in typed:
            publish(endpoint, api_name=endpoint.__name__, **compare.CONCURRENCY)
        endpoints.build(places)
        opening.wire(page)
    return page


def _mode() -> str:
    if limits().public:
        return (
            "Public mode: models from the menu or the Hub, small limits. What you type is not "
            "kept; what you train on is, for a day, where only your browser finds it."
        )
    return "Local mode: everything runs on this machine, and your texts stay on it."
