"""The menu of recipes: search one, write one, or put one together from its parts."""

from typing import Any

import gradio as gr

from heads.backbone.conversion_rules import TWINS, converted_id
from heads.backbone.hub import cached_folder
from heads.backbone.models import BUNDLED, MODELS
from heads.errors import HeadsError, LimitError
from heads.interfaces.views import comparison
from heads.interfaces.web.guards import guarded
from heads.interfaces.web.links import OPENING
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs.compare_outputs import PLACES
from heads.parts.resolved_recipe import JOINT, LOSS, PAIR, SIAMESE, SOFTMAX

WAYS = [("as one sequence (joint)", JOINT), ("each by itself (siamese)", SIAMESE)]
LAST = "the last layer"
JOINT_SAYS = "joint: Both are read as one sequence."


def build(opening: Opening) -> gr.Dropdown:
    """Draws the menu with the opening recipes, their sentences and the workbench."""
    recipes = gr.Dropdown(
        label="Recipes, up to four",
        info="pooling+head: type to search, or write your own, such as mean@3+linear. "
        "A fine-tuned model's own head is called own.",
        choices=list(OPENING.recipes),
        value=list(OPENING.recipes),
        multiselect=True,
        max_choices=PLACES,
        allow_custom_value=True,
        interactive=True,
    )
    legend = gr.HTML("", padding=False)
    opening.fills([recipes, legend], _menu)
    recipes.change(_legend, recipes, legend, show_progress="hidden", api_visibility="private")
    _workbench(recipes, opening)
    return recipes


def _menu() -> list[Any]:
    from heads.classifier.pretrained import OWN
    from heads.parts.resolve import menu

    names = [OWN, *(str(recipe) for recipe in menu())]
    return [gr.update(choices=names), _legend(list(OPENING.recipes))]


def way(name: str) -> Any:
    """The way in that a link names; a pairing that the menu lacks joins it."""
    from heads.parts.resolve import pairing

    if name in pairing:
        return gr.update(choices=[*WAYS, (f"each by itself ({name})", name)], value=name)
    return name if name in (JOINT, SIAMESE) else gr.skip()


def _workbench(recipes: gr.Dropdown, opening: Opening) -> None:
    """Puts a recipe together from menus in which every part says what it is."""
    with gr.Accordion("Put a recipe together", open=False):
        with gr.Row():
            reads = gr.Dropdown(
                ["mean"],
                value="mean",
                label="Pooling",
                info="Which tokens are read.",
                interactive=True,
                min_width=220,
            )
            of = gr.Dropdown(
                [(LAST, "")],
                value="",
                label="Layers",
                info="Or the number of one; 0 is the embeddings.",
                allow_custom_value=True,
                interactive=True,
                min_width=160,
            )
            top = gr.Dropdown(
                ["roberta"],
                value="roberta",
                label="Head",
                info="From the pooled vector to the logits.",
                interactive=True,
                min_width=220,
            )
        joins, learns = _beside()
        opening.fills([reads, of, top, joins, learns], _registries)
        add = gr.Button("Add to the recipes", size="sm")
        add.click(
            _added, [recipes, reads, of, top, joins, learns], recipes, show_progress="hidden",
            api_visibility="private",
        )  # fmt: skip


def _registries() -> list[Any]:
    """The menus, in which every part says what it is."""
    from heads.parts.resolve import head, layers, loss, pairing, pooling

    first: list[list[tuple[str, str]]] = [[], [(LAST, "")], [], [(JOINT_SAYS, JOINT)], []]
    registries = (pooling, layers, head, pairing, loss)
    return [
        gr.update(
            choices=[*begin, *((f"{name}: {part.says}", name) for name, part in registry.items())]
        )
        for begin, registry in zip(first, registries, strict=True)
    ]


def _beside() -> tuple[gr.Dropdown, gr.Dropdown]:
    """What belongs to the whole recipe: how two texts enter, and the loss."""
    with gr.Row():
        joins = gr.Dropdown(
            [(JOINT_SAYS, JOINT)],
            value=JOINT,
            label="Two texts",
            info="Each read by itself, and then put together so.",
            interactive=True,
            min_width=220,
        )
        learns = gr.Dropdown(
            [SOFTMAX],
            value=SOFTMAX,
            label="Loss",
            info="What the head learns, where one class applies.",
            interactive=True,
            min_width=220,
        )
    return joins, learns


@guarded
def _added(recipes: list[str], reads: str, of: str, top: str, joins: str, learns: str) -> list[str]:
    from heads.parts.resolve import resolve

    layer = "" if of in ("", LAST) else f"@{of}"
    beside = f"?{PAIR}={joins or JOINT}&{LOSS}={learns or SOFTMAX}"
    recipe = str(resolve(f"{reads}{layer}+{top}{beside}").recipe)
    if len(recipes) >= PLACES and recipe not in recipes:
        raise LimitError(f"{PLACES} recipes are chosen already.", "Take one of them away first.")
    return list(dict.fromkeys([*recipes, recipe]))


def _legend(recipes: list[str]) -> str:
    from heads.classifier.pretrained import OWN
    from heads.parts.resolve import resolve

    lines = []
    for recipe in recipes:
        if recipe.strip().lower() == OWN:
            lines.append((OWN, "The head that the checkpoint came with; random if it has none."))
            continue
        try:
            resolved = resolve(recipe)
            lines.append((str(resolved.recipe), " ".join(resolved.says)))
        except HeadsError as error:
            lines.append((recipe, str(error)))
    return comparison.legend(lines)


# --- The base models that the page offers.


def choices() -> list[tuple[str, str]]:
    """What stands in the menu, and the id of each."""
    found = []
    for base in MODELS:
        fetched = base.id != BUNDLED and cached_folder(base.id) is not None
        state = "bundled" if base.id == BUNDLED else "on this machine" if fetched else "not fetched"
        found.append((f"{base.name} ({base.millions}M parameters, {state})", base.id))
    twins = [(twin.title, converted_id(family)) for family, twin in TWINS.items()]
    return [*found[:1], *twins, *found[1:]]
