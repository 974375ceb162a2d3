"""Change a head: which tokens, which layer, which head; or a recipe written out."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.errors import HeadsError
from heads.interfaces.views import lanes as view
from heads.interfaces.views.html import render
from heads.interfaces.web import run_access
from heads.interfaces.web.guards import clicked, failed, plain, sentence
from heads.interfaces.web.location import MOST, Location
from heads.interfaces.web.places import base_models
from heads.interfaces.web.places.try_it import ASKS, CLICKS, QUIET, SAME, SETTINGS, Try
from heads.interfaces.web.slots import pool
from heads.settings import limits

if TYPE_CHECKING:
    from heads.parts.registry import Part

Draft = dict[str, Any]  # recipe, and the lane whose place it takes; 0 to be added


# --- The menus.


def _poolings() -> list[tuple[str, list[dict[str, str]]]]:
    from heads.parts.resolve import pooling

    groups: dict[str, list[dict[str, str]]] = {
        "One token": [], "All tokens": [], "Learned": []
    }  # fmt: skip
    for part in pooling.values():
        is_one = part.token or "prompt" in part.options or part.is_pooler
        group = "Learned" if part.learned else "One token" if is_one else "All tokens"
        groups[group].append(_told(part))
    return list(groups.items())


def _heads(model: str) -> list[tuple[str, list[dict[str, str]]]]:
    """The heads; those that are another one's layers under another name stand last."""
    from heads.analysis.differences import equivalent_heads
    from heads.backbone.loading import load
    from heads.parts.resolve import head, resolve

    backbone = load(model, limits=limits())
    simple, deep, solved, twins = [], [], [], []
    seen: set[str] = set()
    for name, part in head.items():
        told = _told(part)
        same = [one for one in equivalent_heads(resolve(f"mean+{name}"), backbone) if one in seen]
        seen.add(name)
        if same:
            twins.append(told | {"mark": f"here the same layers as {same[0]}"})
        elif part.solve:
            solved.append(told)
        elif len(resolve(f"mean+{name}").sketch(8, 3).state_dict()) <= 2:
            simple.append(told)
        else:
            deep.append(told)
    groups = [
        ("One linear layer", simple),
        ("More layers", deep),
        ("Solved at once", solved),
        ("The same under other names", twins),
    ]
    return [(title, parts) for title, parts in groups if parts]


def _told(part: "Part") -> dict[str, str]:
    return {"name": part.name, "title": part.title, "says": part.says, "mark": ""}


def _layers(model: str) -> list[tuple[str, list[tuple[str, str]]]]:
    from heads.backbone.loading import load
    from heads.parts.resolve import layers

    backbone = load(model, limits=limits())
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


# --- The form and the draft.


def form(asked: Location, draft: Draft) -> Any:
    """The menus, with the draft's parts chosen."""
    from heads.parts.resolve import resolve

    try:
        if asked.run:
            known = run_access.heads_of(asked.run)
            heads = [(name, view.title_of(name)) for name in known]
            title = run_access.title_of(asked.run)
            return render("builder.html", run_heads=heads, run_title=title, recipe=draft["recipe"])
        base_models.check_at_hand(asked)
        try:
            found = resolve(draft["recipe"]).recipe
            chosen = {"reads": found.pooling, "layer": found.layers, "top": found.head}
        except HeadsError:  # "own", or what is being written
            chosen = {"reads": "", "layer": "", "top": ""}
        return render(
            "builder.html",
            run_heads=[],
            poolings=_poolings(),
            layers=_layers(asked.model),
            heads=_heads(asked.model),
            chosen=chosen,
        )
    except Exception as error:
        return failed(error)


def drawn(asked: Location, draft: Draft) -> Any:
    """The draft as a lane, its options, and whose place it takes."""
    try:
        values = {"error": "", **_sketched(asked, draft), **_where(asked, draft)}
    except Exception as error:
        values = {"error": sentence(error), "recipe": draft["recipe"]}
    return render("draft.html", names=() if asked.run else _names(), **values)


def _sketched(asked: Location, draft: Draft) -> dict[str, Any]:
    from heads.analysis.explanation import explain
    from heads.backbone.loading import load
    from heads.classifier.pretrained import is_own, own_head
    from heads.data.corpus import check_text
    from heads.data.dataset import corpus_of
    from heads.data.samples import SAMPLES
    from heads.parts.resolve import resolve

    here = limits()
    base_models.check_at_hand(asked)
    backbone = load(base_models.model_of(asked), limits=here)
    own = own_head(backbone) if is_own(draft["recipe"]) else None
    resolved = own.asked if own else resolve(draft["recipe"])
    classes = len(own.classes) if own else 2
    if not asked.run and not own:
        classes = len(corpus_of(SAMPLES[asked.sample], here).classes)
    text = check_text(asked.text, here) if asked.text.strip() else "A sentence."
    found = explain(resolved, backbone, classes=classes, text=text, head=own)
    steps = [step for step in found.steps if step.kind == "head"]
    known = {**resolved.pooling_options, **resolved.head_options}
    twins = f"The same layers as {', '.join(found.twins)}." if found.twins else ""
    return {
        "tokens": view.tokens(found.reads),
        "title": view.title_of(draft["recipe"]),
        "recipe": draft["recipe"],
        "layers": [step.does for step in steps],
        "says": [*found.says, *([twins] if twins else [])],
        "size": "" if own else _size(found.parameters, is_tuned=resolved.is_tuned),
        "options": []
        if asked.run or own
        else [
            {"name": name, "title": name.replace("_", " "), "value": _shown(value)}
            for name, value in known.items()
        ],
    }


def _size(parameters: int, *, is_tuned: bool) -> str:
    """How much there is to learn; where it is the base model too, that takes long."""
    first = f"{parameters:,} parameters to learn"
    return f"{first}, and the base model, which takes minutes" if is_tuned else first


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _where(asked: Location, draft: Draft) -> dict[str, Any]:
    colours = view.COLOURS
    lanes = [(number, name, colours[number - 1]) for number, name in enumerate(asked.recipes, 1)]
    return {"lanes": lanes, "lane": draft["lane"], "can_add": len(asked.recipes) < MOST}


def picked(draft: Draft, given: dict[str, str]) -> Draft:
    """The draft after a choice in the menus."""
    from heads.parts.resolve import resolve

    if given.get("recipe"):  # of a run
        return draft | {"recipe": given["recipe"]}
    layer = given.get("layer", "")
    recipe = (
        f"{given.get('reads') or 'mean'}{f'@{layer}' * bool(layer)}+{given.get('top') or 'linear'}"
    )
    with contextlib.suppress(HeadsError):  # what does not fit is said where the draft is drawn
        recipe = str(resolve(recipe).recipe)
    return draft | {"recipe": recipe}


def written(draft: Draft, given: dict[str, str]) -> Draft:
    """The draft after a change of its line, of an option, or of its place."""
    from heads.parts.resolve import resolve

    lane, line = given.get("lane", ""), given.get("recipe", "").strip()
    draft = draft | ({"lane": int(lane)} if lane.isdecimal() else {})
    if line and line != draft["recipe"]:
        recipe = line
    else:
        options = [
            f"{name.removeprefix('option_')}={value.strip()}"
            for name, value in given.items()
            if name.startswith("option_") and value.strip()
        ]
        if not options:
            return draft
        body, _, tail = draft["recipe"].partition("?")
        drawn = {one.partition("=")[0] for one in options}
        kept = [one for one in tail.split("&") if one and one.partition("=")[0] not in drawn]
        recipe = f"{body}?{'&'.join([*options, *kept])}"
    with contextlib.suppress(HeadsError):
        recipe = str(resolve(recipe).recipe)
    return draft | {"recipe": recipe}


def placed(asked: Location, draft: Draft) -> Location:
    """Return the location with the draft in its place; raise RecipeError if it is no recipe."""
    from heads.classifier.pretrained import is_own
    from heads.parts.resolve import resolve

    recipe = draft["recipe"]
    if not asked.run and not is_own(recipe):
        recipe = str(resolve(recipe).recipe)
    names = list(asked.recipes)
    if 1 <= draft["lane"] <= len(names):
        names[draft["lane"] - 1] = recipe
    else:
        names = [*names[: MOST - 1], recipe]
    return replace(asked, recipes=tuple(dict.fromkeys(names)), lane=0)


# --- The panel.


class BuilderHandlers:
    """What the panel does: it opens, follows what is chosen and written, and is used."""

    def __init__(self, place: Try) -> None:
        self._handlers = place.handlers

    def opened(self, query: str, event: gr.EventData) -> list[Any]:
        """The panel with the head of the open lane, or of the last one."""
        if clicked(event).get("do") != "build":
            return [gr.skip()] * 4
        asked = Location.of(query)
        lane = min(asked.lane or MOST, len(asked.recipes))
        new = {"recipe": asked.recipes[lane - 1], "lane": lane}
        return [gr.update(visible=True), form(asked, new), drawn(asked, new), new]

    def chose(self, query: str, draft: Draft, event: gr.EventData) -> list[Any]:
        """A choice in the menus, which stay as they are: the focus is in them."""
        new = picked(draft, clicked(event))
        return [gr.skip(), gr.skip(), drawn(Location.of(query), new), new]

    def wrote(self, query: str, draft: Draft, event: gr.EventData) -> list[Any]:
        """A change of the recipe's line, of an option, or of the lane."""
        asked, new = Location.of(query), written(draft, clicked(event))
        is_new = new["recipe"] != draft["recipe"]
        return [gr.skip(), form(asked, new) if is_new else gr.skip(), drawn(asked, new), new]

    def used(
        self, query: str, draft: Draft, mine: Any, event: gr.EventData, request: gr.Request
    ) -> Iterator[list[Any]]:
        """The draft takes its place, or its lane goes; the heads answer anew."""
        asked, given = Location.of(query), clicked(event)
        same = [gr.skip()] * (len(SAME) + SETTINGS + 1)
        if given.get("do") not in (None, "remove"):
            yield same
            return
        try:
            is_gone = given.get("do") == "remove"
            asked = without(asked, draft) if is_gone else placed(asked, written(draft, given))
        except Exception as error:
            gr.Warning(plain(sentence(error)))
            yield same
            return
        for values in self._handlers.with_settings(asked, mine, request):
            yield [*values, gr.update(visible=False)]


def without(asked: Location, draft: Draft) -> Location:
    """Where one is once the lane of the draft is gone."""
    lane = draft["lane"] or len(asked.recipes)
    names = [one for at, one in enumerate(asked.recipes, 1) if at != lane]
    return replace(asked, recipes=tuple(names), lane=0)


def build(place: Try, mine: gr.BrowserState) -> None:
    """Draws the panel, which is closed at first."""
    with gr.Column(visible=False, elem_id="builder") as area:
        menus = gr.HTML("", js_on_load=CLICKS)
        preview = gr.HTML("", js_on_load=f"{CLICKS}; heads.refocus(element, watch)")
    draft, building = gr.State({"recipe": "mean+linear", "lane": 1}), BuilderHandlers(place)
    every = [area, menus, preview, draft]
    # Every event is sent, one after the other: "always_last" would send the first one's data again.
    run: dict[str, Any] = {"trigger_mode": "multiple", **QUIET}
    run |= pool("builder")
    place.under.click(building.opened, place.query, every, **run).success(
        None, None, None, js="() => heads.focus('builder')", **QUIET
    )
    menus.input(building.chose, [place.query, draft], every, **run)
    preview.input(building.wrote, [place.query, draft], every, **run)
    answers = [*place.answers, place.query, *place.settings, area]
    used: dict[str, Any] = run | ASKS
    for event in (preview.submit, preview.click):
        event(building.used, [place.query, draft, mine], answers, **used)

    def closed(event: gr.EventData) -> Any:
        is_close = clicked(event).get("do") == "close-builder"
        return gr.update(visible=False) if is_close else gr.skip()

    menus.click(closed, None, area, queue=False, **QUIET)
