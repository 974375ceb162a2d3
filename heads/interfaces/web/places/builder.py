"""Change a head: pooling and head by the menus of the line, all else in a panel below the lanes."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from heads.errors import HeadsError, RecipeError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import render
from heads.interfaces.web.guards import Values, by_name, clicked, failed, plain, sentence
from heads.interfaces.web.location import MOST, Location
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.answers import line
from heads.interfaces.web.places.try_it import ASKS, CLICKS, QUIET, Try
from heads.interfaces.web.slots import pool
from heads.recipe import Recipe

Draft = dict[str, Any]  # a recipe, and the lane that it is for; 0 for a new one


# --- The draft.


def _layers(model: str) -> list[tuple[str, list[tuple[str, str]]]]:
    from heads.backbone.loading import load
    from heads.parts.resolve import layers

    backbone = load(model)
    single = [(str(number), f"Layer {number}") for number in range(backbone.layers - 1, 0, -1)]
    several = [
        (name, part.title.capitalize())
        for name, part in layers.items()
        if "decoder" not in part.asks or backbone.decoder_width
    ]
    return [
        ("The usual", [("", "The last layer")]),
        ("Several together", several),
        ("One of the others", [*single, ("0", "The embeddings")]),
    ]


def _names() -> list[str]:
    from heads.classifier.pretrained import OWN
    from heads.parts.resolve import menu

    return [OWN, *map(str, menu())]


def draw_draft(asked: Location, draft: Draft) -> Any:
    """Draw the draft as a lane, with its layer and its options."""
    try:
        values = {"error": "", **_sketched(asked, draft)}
    except Exception as error:
        values = {"error": sentence(error)}
    return render(
        "draft.html",
        names=() if asked.run else _names(),
        lane=draft["lane"],
        can_remove=draft["lane"] > 0 and len(asked.recipes) > 1,
        mark=view.COLOURS[draft["lane"] - 1] if draft["lane"] else "var(--accent)",
        **{"recipe": draft["recipe"]} | values,
    )


def _sketched(asked: Location, draft: Draft) -> dict[str, Any]:
    from heads.backbone.loading import load
    from heads.classifier.pretrained import is_own, own_head
    from heads.data.corpus import check_text
    from heads.data.dataset import corpus_of
    from heads.data.samples import SAMPLES
    from heads.interpret.explanation import explain
    from heads.parts.resolve import resolve

    base_models.check_at_hand(asked)
    backbone = load(base_models.model_of(asked))
    own = own_head(backbone) if is_own(draft["recipe"]) else None
    resolved = own.asked if own else resolve(draft["recipe"])
    classes = len(own.classes) if own else 2
    if not asked.run and not own:
        classes = len(corpus_of(SAMPLES[asked.sample]).classes)
    text = check_text(asked.text) if asked.text.strip() else "A sentence."
    found = explain(resolved, backbone, classes=classes, text=text, head=own)
    steps = [step for step in found.steps if step.kind == "head"]
    known = {**resolved.pooling_options, **resolved.head_options}
    size = f"{found.parameters:,} parameters to learn"
    size += ", and the base model, which takes minutes" if resolved.is_tuned else ""
    twins = f"The same layers as {', '.join(found.twins)}." if found.twins else ""
    return {
        "tokens": view.tokens(found.reads),
        "title": view.title_of(draft["recipe"]),
        "recipe": draft["recipe"],
        "drawn": [step.does for step in steps],
        "says": [*found.says, *([twins] if twins else [])],
        "size": "" if own else size,
        "layer": "" if own else resolved.recipe.layers,
        "menu": [] if asked.run or own else _layers(asked.model),
        "options": []
        if asked.run or own
        else [
            {
                "name": name,
                "title": name.replace("_", " "),
                "value": str(value).lower() if isinstance(value, bool) else str(value),
            }
            for name, value in known.items()
        ],
    }


def apply_menus(draft: Draft, given: dict[str, str]) -> Draft:
    """Return the draft with the pooling and head chosen; layer and options stay if they fit."""
    from heads.parts.resolve import resolve

    if given.get("recipe"):  # of a run
        return draft | {"recipe": given["recipe"]}
    recipe = Recipe(pooling=given.get("pooling") or "mean", head=given.get("head") or "linear")
    with contextlib.suppress(HeadsError):
        before = resolve(draft["recipe"]).recipe
        recipe = replace(recipe, layers=before.layers)
        for option in before.options:
            with contextlib.suppress(HeadsError):
                recipe = resolve(replace(recipe, options=(*recipe.options, option))).recipe
    return draft | {"recipe": str(recipe)}


def apply_form(draft: Draft, given: dict[str, str]) -> Draft:
    """Return the draft after a change of its recipe, its layer or one of its options."""
    from heads.parts.resolve import resolve

    recipe = given.get("recipe", "").strip() or draft["recipe"]
    options = {
        name.removeprefix("option_"): value.strip()
        for name, value in given.items()
        if name.startswith("option_") and value.strip()
    }
    if recipe == draft["recipe"] and ("layer" in given or options):
        with contextlib.suppress(HeadsError):  # it is no recipe at all
            before = Recipe.parse(recipe)
            chosen = (dict(before.options) | options).items()
            layers = given.get("layer", before.layers)
            recipe = str(replace(before, layers=layers, options=tuple(chosen)))
    with contextlib.suppress(HeadsError):  # what does not fit is said where the draft is drawn
        recipe = str(resolve(recipe).recipe)
    return draft | {"recipe": recipe}


def place_draft(asked: Location, draft: Draft) -> Location:
    """Return the location with the draft in its place; raise RecipeError if it is no recipe."""
    from heads.classifier.pretrained import is_own
    from heads.parts.resolve import resolve

    recipe = draft["recipe"]
    if not asked.run and not is_own(recipe):
        recipe = str(resolve(recipe).recipe)
    names = list(asked.recipes)
    if recipe in names and names.index(recipe) != draft["lane"] - 1:
        what = f"{recipe} is in lane {names.index(recipe) + 1} already."
        raise RecipeError(what, "Choose another pooling or head.")
    if 1 <= draft["lane"] <= len(names):
        names[draft["lane"] - 1] = recipe
    else:
        names = [*names[: MOST - 1], recipe]
    return replace(asked, recipes=tuple(names), lane=0)


# --- The menus of the line, and the panel.


class BuilderHandlers:
    """What the panel does: it opens, follows what is chosen and written, and is used."""

    def __init__(self, place: Try) -> None:
        self._handlers = place.handlers

    def chose(self, query: str, event: gr.EventData, request: gr.Request) -> Iterator[Values]:
        """Answer with another pooling or head in a lane, or show another lane in the menus."""
        asked, given = Location.of(query), clicked(event)
        lane = _lane_of(given, asked)
        if given.get("changed") == "lane":
            yield {"line": line(asked, lane)}
            return
        try:
            draft = apply_menus({"recipe": asked.recipes[lane - 1], "lane": lane}, given)
            now = place_draft(asked, draft)
            menus = line(now, lane or len(now.recipes))
        except Exception as error:
            problem = failed(error)
            with contextlib.suppress(HeadsError):  # of a run that is gone
                # Of menus that are as before the browser would keep the choice.
                for drawn_anew in ("", line(asked, lane)):
                    yield {"error": problem, "line": drawn_anew}
            return
        yield from self._handlers.answers(now, request, menus=menus)

    def opened(self, query: str, event: gr.EventData) -> Values:
        """Open the panel with the head of the lane that the menus show."""
        given = clicked(event)
        if given.get("do") != "build":
            return {}
        asked = Location.of(query)
        lane = _lane_of(given, asked)
        new = {"recipe": asked.recipes[lane - 1], "lane": lane}
        return {"area": gr.update(visible=True), "preview": draw_draft(asked, new), "draft": new}

    def wrote(self, query: str, draft: Draft, event: gr.EventData) -> Values:
        """Draw the draft anew after a change of its recipe, its layer or an option."""
        new = apply_form(draft, clicked(event))
        return {"preview": draw_draft(Location.of(query), new), "draft": new}

    def used(
        self, query: str, draft: Draft, mine: Any, event: gr.EventData, request: gr.Request
    ) -> Iterator[Values]:
        """Put the draft into its lane, or remove the lane; the heads answer anew."""
        asked, given = Location.of(query), clicked(event)
        if given.get("do") not in (None, "remove"):
            yield {}
            return
        try:
            if given.get("do") == "remove":
                asked = remove_lane(asked, draft)
            else:
                asked = place_draft(asked, apply_form(draft, given))
        except Exception as error:
            gr.Warning(plain(sentence(error)))
            yield {}
            return
        area = gr.update(visible=False)  # once: it may be opened again before all have answered
        for values in self._handlers.with_settings(asked, mine, request):
            yield values | {"area": area}
            area = gr.skip()


def _lane_of(given: dict[str, str], asked: Location) -> int:
    """Return the number of the lane that a form is for, from 1; 0 for a new one."""
    lane = int(given["lane"]) if given.get("lane", "").isdecimal() else 1
    return lane if lane <= len(asked.recipes) else 0


def remove_lane(asked: Location, draft: Draft) -> Location:
    """Return the location without the lane of the draft."""
    lane = draft["lane"] or len(asked.recipes)
    names = [one for at, one in enumerate(asked.recipes, 1) if at != lane]
    return replace(asked, recipes=tuple(names), lane=0)


def build(place: Try, mine: gr.BrowserState) -> None:
    """Draw the panel, which is closed at first, and wire the menus of the line."""
    with gr.Column(visible=False, elem_id="builder") as area:
        preview = gr.HTML("", js_on_load=f"{CLICKS}; heads.refocus(element, watch)")
    draft, building = gr.State({"recipe": "mean+linear", "lane": 1}), BuilderHandlers(place)
    # Every event is sent, one after the other: "always_last" would send the first one's data again.
    run: dict[str, Any] = {"trigger_mode": "multiple", **QUIET}
    query, line = place.query, place.answers["line"]
    drawn: dict[str, Any] = {"area": area, "preview": preview, "draft": draft}
    line.input(**by_name(building.chose, query, place.outputs), **run | ASKS)
    run |= pool("builder")
    line.click(**by_name(building.opened, query, drawn), **run).success(
        None, None, None, js="() => heads.focus('builder')", **QUIET
    )
    preview.input(**by_name(building.wrote, [query, draft], drawn), **run)
    uses = by_name(building.used, [query, draft, mine], {**place.outputs, "area": area})
    for event in (preview.submit, preview.click):
        event(**uses, **run | ASKS)

    def closed(event: gr.EventData) -> Any:
        is_close = clicked(event).get("do") == "close-builder"
        return gr.update(visible=False) if is_close else gr.skip()

    preview.click(closed, None, area, queue=False, **QUIET)
