"""The menu of recipes: search one, write one, or put one together from its parts."""

from typing import Any

import gradio as gr

from heads.errors import HeadsError, LimitError
from heads.interfaces import drawings
from heads.interfaces.web.answers import PLACES
from heads.interfaces.web.guards import guarded
from heads.interfaces.web.question import OPENING
from heads.parts.menu import head, layers, loss, menu, pairing, pooling, resolve
from heads.parts.order import JOINT, LOSS, PAIR, SOFTMAX
from heads.pipeline.imported import OWN
from heads.pipeline.runs.choosing import SIAMESE

WAYS = [("as one sequence (joint)", JOINT), ("each by itself (siamese)", SIAMESE)]
LAST = "the last layer"
JOINT_SAYS = "joint: Both are read as one sequence."


def build() -> gr.Dropdown:
    """Draws the menu with the opening recipes, their sentences and the workbench."""
    recipes = gr.Dropdown(
        label="Recipes, up to four",
        info="pooling+head: type to search, or write your own, such as mean@3+linear. "
        "A fine-tuned model's own head is called own.",
        choices=[OWN, *(str(recipe) for recipe in menu())],
        value=list(OPENING.recipes),
        multiselect=True,
        max_choices=PLACES,
        allow_custom_value=True,
        interactive=True,
    )
    legend = gr.HTML(_legend(list(OPENING.recipes)), padding=False)
    recipes.change(_legend, recipes, legend, show_progress="hidden", api_visibility="private")
    _workbench(recipes)
    return recipes


def way(name: str) -> Any:
    """The way in that a link names; a pairing that the menu lacks joins it."""
    if name in pairing:
        return gr.update(choices=[*WAYS, (f"each by itself ({name})", name)], value=name)
    return name if name in (JOINT, SIAMESE) else gr.skip()


def _workbench(recipes: gr.Dropdown) -> None:
    """Puts a recipe together from menus in which every part says what it is."""
    with gr.Accordion("Put a recipe together", open=False):
        with gr.Row():
            reads = gr.Dropdown(
                [(f"{part.name}: {part.says}", name) for name, part in pooling.items()],
                value="mean",
                label="Pooling",
                info="Which tokens are read.",
                interactive=True,
                min_width=220,
            )
            of = gr.Dropdown(
                [(LAST, ""), *((f"{p.name}: {p.says}", name) for name, p in layers.items())],
                value="",
                label="Layers",
                info="Or the number of one; 0 is the embeddings.",
                allow_custom_value=True,
                interactive=True,
                min_width=160,
            )
            top = gr.Dropdown(
                [(f"{part.name}: {part.says}", name) for name, part in head.items()],
                value="roberta",
                label="Head",
                info="From the pooled vector to the logits.",
                interactive=True,
                min_width=220,
            )
        joins, learns = _beside()
        add = gr.Button("Add to the recipes", size="sm")
        add.click(
            _added, [recipes, reads, of, top, joins, learns], recipes, show_progress="hidden",
            api_visibility="private",
        )  # fmt: skip


def _beside() -> tuple[gr.Dropdown, gr.Dropdown]:
    """What belongs to the whole recipe: how two texts enter, and the loss."""
    with gr.Row():
        joins = gr.Dropdown(
            [(JOINT_SAYS, JOINT), *((f"{p.name}: {p.says}", name) for name, p in pairing.items())],
            value=JOINT,
            label="Two texts",
            info="Each read by itself, and then put together so.",
            interactive=True,
            min_width=220,
        )
        learns = gr.Dropdown(
            [(f"{part.name}: {part.says}", name) for name, part in loss.items()],
            value=SOFTMAX,
            label="Loss",
            info="What the head learns, where one class applies.",
            interactive=True,
            min_width=220,
        )
    return joins, learns


@guarded
def _added(recipes: list[str], reads: str, of: str, top: str, joins: str, learns: str) -> list[str]:
    layer = "" if of in ("", LAST) else f"@{of}"
    beside = f"?{PAIR}={joins or JOINT}&{LOSS}={learns or SOFTMAX}"
    recipe = str(resolve(f"{reads}{layer}+{top}{beside}").recipe)
    if len(recipes) >= PLACES and recipe not in recipes:
        raise LimitError(f"{PLACES} recipes are chosen already.", "Take one of them away first.")
    return list(dict.fromkeys([*recipes, recipe]))


def _legend(recipes: list[str]) -> str:
    lines = []
    for recipe in recipes:
        if recipe.strip().lower() == OWN:
            lines.append((OWN, "The head that the checkpoint came with; random if it has none."))
            continue
        try:
            order = resolve(recipe)
            lines.append((str(order.recipe), " ".join(order.says)))
        except HeadsError as error:
            lines.append((recipe, str(error)))
    return drawings.legend(lines)
