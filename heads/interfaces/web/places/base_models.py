"""The base models that the page offers, and those that a link alone must not load."""

from typing import Any

import gradio as gr

from heads import plugins
from heads.backbone.hub import cached_folder
from heads.backbone.models import BUNDLED, MODELS
from heads.errors import ModelError
from heads.hub import size
from heads.interfaces.views.html import render
from heads.interfaces.web import run_access
from heads.interfaces.web.location import Location

BYTES = 4  # of a parameter


def choices() -> list[tuple[str, str]]:
    """What stands in the menu, and the id of each: what is here first, conversions last."""
    found = []
    for base in MODELS:
        fetched = base.id == BUNDLED or cached_folder(base.id) is not None
        state = "bundled" if base.id == BUNDLED else "on this machine" if fetched else "to download"
        found.append((not fetched, f"{base.name} ({base.millions}M, {state})", base.id))
    ranked = [(title, name) for _, title, name in sorted(found, key=lambda one: one[0])]
    return ranked + [choice for source in plugins.load_base_models() for choice in source.choices()]


def draw_menu(**look: Any) -> gr.Dropdown:
    """Draw the menu of base models, in which another one may be written."""
    return gr.Dropdown(
        choices(), value=BUNDLED, label="Base model", allow_custom_value=True, interactive=True,
        **look,
    )  # fmt: skip


def model_of(asked: Location) -> str:
    """Return the base model of what is asked; raise HeadsError if it is of a run that is gone."""
    return run_access.model_of(asked.run) if asked.run else asked.model.strip()


def is_at_hand(asked: Location) -> bool:
    """Whether a link alone may load it: nothing is fetched, and no folder opened, without a click.

    A folder that was opened here since the start is known, and so is that of a run of one's own.
    Raises HeadsError if it cannot be loaded at all.
    """
    from heads.backbone.loading import is_loaded
    from heads.backbone.safety import is_folder, is_here

    model = model_of(asked)
    if is_here(model):
        return True
    return is_folder(model) and (bool(asked.run) or is_loaded(model))


def check_at_hand(asked: Location) -> None:
    """Raise ModelError for a base model that nobody has asked for by a click."""
    from heads.backbone.config_check import shown

    if not is_at_hand(asked):
        what = f"The base model {shown(model_of(asked), 80)} is not loaded."
        raise ModelError(what, "Load it with the button above the heads.")


def offer(asked: Location) -> Any:
    """A sentence on a base model that a link asks for, and the button that loads it."""
    from heads.backbone.config_check import shown
    from heads.backbone.safety import is_folder

    model = model_of(asked)
    known = next((base for base in MODELS if base.id.lower() == model.lower()), None)
    about = size(known.millions * 1_000_000 * BYTES) if known else ""
    is_local = is_folder(model)
    return render("offer.html", model=shown(model, 80), is_folder=is_local, size=about)
