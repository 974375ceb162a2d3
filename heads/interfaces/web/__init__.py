"""The page: one file a tab, one for the theme, one for what guards the handlers."""

import gradio as gr
from gradio.events import api as publish

from heads.interfaces import api
from heads.interfaces.web import (
    compare,
    doctor,
    endpoints,
    explained,
    families,
    leaderboard,
    look,
    train,
)
from heads.interfaces.web.theme import CSS, THEME
from heads.interfaces.web.worker import Places
from heads.settings import limits

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


def build() -> gr.Blocks:
    """Builds the page with a finished example in each tab; trains its heads at first."""
    places = Places(most=1 if limits().public else 2)
    with gr.Blocks(
        title=TITLE, analytics_enabled=False, fill_width=False, delete_cache=(300, 300)
    ) as page:
        gr.Markdown(f"# {TITLE}\n{SAYS}")
        mine = train.remembered()
        with gr.Tabs() as tabs:
            with gr.Tab("Compare", id="compare"):
                asked = compare.build(page)
            with gr.Tab("Train", id="train"):
                trained = train.build(page, mine, places)
            with gr.Tab("Leaderboard", id="leaderboard") as tab:
                leaderboard.build(tabs, tab, trained)
            with gr.Tab("Explained", id="explained") as tab:
                explained.build(tab, asked)
            with gr.Tab("Look inside", id="look") as tab:
                look.build(tab, asked, mine)
            with gr.Tab("Catalogue", id="catalogue") as tab:
                families.build(tab)
            with gr.Tab("Doctor", id="doctor"):
                doctor.build()
        gr.Markdown(_mode(), elem_classes="quiet")
        typed = (api.compare, api.explain, api.difference, api.families, api.doctor, api.parts)
        typed += (api.look, api.edit, api.ablate, api.readings)
        for endpoint in typed:
            publish(endpoint, api_name=endpoint.__name__, **compare.CONCURRENCY)
        endpoints.build(places)
    return page.queue(max_size=32)


def _mode() -> str:
    if limits().public:
        return (
            "Public mode: models from the menu or the Hub, small limits. What you type is not "
            "kept; what you train on is, for a day, where only your browser finds it."
        )
    return "Local mode: everything runs on this machine, and your texts stay on it."
