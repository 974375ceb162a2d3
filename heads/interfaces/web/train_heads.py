"""Step 2 of the tab Train: which heads on which base model, and how they are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.interfaces import accounts, drawings
from heads.interfaces.web import models
from heads.interfaces.web.guards import sentence, unchecked
from heads.interfaces.web.opening import Opening
from heads.interfaces.web.train_plan import (
    FORM,
    OWN,
    PUBLIC_SECONDS,
    TITLES,
    Plan,
    expected_seconds,
    times_say,
)
from heads.parts.resolved import FEATURES, HINGE, JOINT, ORDINAL, OVR, SIAMESE, SOFTMAX
from heads.settings import Contest, limits

FIRST = ("mean+linear", "cls+linear", "mean+mlp")
GRID = [("Small grid", "small")]  # until the others are known
COLUMNS = 3  # of controls side by side
WAYS = [
    ("as one sequence (joint)", JOINT),
    ("each by itself (siamese)", SIAMESE),
    ("each by itself, put together in 7 ways", FEATURES),
]
LOSSES = [
    ("softmax", SOFTMAX),
    ("one versus the rest", OVR),
    ("ordinal (classes in order)", ORDINAL),
    ("hinge (linear SVM)", HINGE),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The components that say which heads.

    Attributes:
        form: One a setting of a contest, in the order of `FORM`.
    """

    model: gr.Dropdown
    grid: gr.Radio
    own: gr.Dropdown
    seeds: gr.Slider
    pairs: gr.CheckboxGroup
    losses: gr.CheckboxGroup
    form: list[Any]

    def all(self) -> list[Any]:
        """In the order of `Plan.of`."""
        return [self.model, self.grid, self.own, self.seeds, self.pairs, self.losses, *self.form]


def build(rows: gr.State, opening: Opening) -> Inputs:
    """Draws the step and returns what says which heads."""
    gr.Markdown("### 2. The heads")
    with gr.Row():
        with gr.Column(min_width=280):
            model = gr.Dropdown(
                models.choices(),
                value=BUNDLED,
                label="Base model",
                info="It stays as it is; only the heads on it are trained.",
                allow_custom_value=True,
                interactive=True,
            )
            seeds = _slider("seeds", TITLES["seeds"])
            folds = _slider("folds", TITLES["folds"])
        with gr.Column(min_width=280):
            grid = gr.Radio(GRID, value="small", label="Heads", elem_id="grid")
            own = gr.Dropdown(
                list(FIRST),
                value=list(FIRST),
                label="Your own choice",
                info="pooling+head: type to search, or write your own.",
                multiselect=True,
                allow_custom_value=True,
                interactive=True,
                visible=False,
            )
    pairs, losses = _ways()
    form = _form({"folds": folds})
    inputs = Inputs(
        model=model, grid=grid, own=own, seeds=seeds, pairs=pairs, losses=losses, form=form
    )
    says = gr.HTML(
        "",
        padding=False,
    )
    opening.fills([grid, own, says], _opened)
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    grid.input(lambda grid: gr.update(visible=grid == OWN), grid, own, queue=False, **quiet)
    asked = [rows, *inputs.all()]
    changes = [grid.input, own.input, model.input, rows.change, pairs.input, losses.input]
    changes += [seeds.change, *(control.change for control in form)]
    gr.on(changes, _planned, asked, says, trigger_mode="always_last", **quiet)
    return inputs


def _opened() -> list[Any]:
    planned = _planned(0, BUNDLED, "small", list(FIRST), 3, [JOINT], [SOFTMAX], *_defaults())
    return [gr.update(choices=_grids()), gr.update(choices=_recipes()), planned]


def _ways() -> tuple[gr.CheckboxGroup, gr.CheckboxGroup]:
    """How two texts enter, and what one class a row is learned by."""
    with gr.Row():
        pairs = gr.CheckboxGroup(
            WAYS,
            value=[JOINT],
            label="Two texts a row enter",
            info="Each way is a cell of its own. Only for data with second texts.",
            min_width=280,
            elem_id="ways",
        )
        losses = gr.CheckboxGroup(
            LOSSES,
            value=[SOFTMAX],
            label="One class a row is learned by",
            info="Each loss is a cell of its own. Several labels or numbers decide for themselves.",
            min_width=280,
            elem_id="losses",
        )
    return pairs, losses


def _form(drawn: Mapping[str, Any]) -> list[Any]:
    """A control for every other setting of a contest, in the order of `FORM`; some are drawn."""
    controls, left = dict(drawn), [field for field in FORM if field.name not in drawn]
    with gr.Accordion("More settings", open=False, elem_id="settings"), gr.Row():
        for column in range(COLUMNS):
            with gr.Column(min_width=240):
                for field in left[column::COLUMNS]:
                    controls[field.name] = _field(field.name)
    return [controls[field.name] for field in FORM]


def _defaults() -> list[Any]:
    return [field.default for field in FORM]


def _grids() -> list[tuple[str, str]]:
    from heads.training.trial import GRIDS, HEADS, LAYERS, POOLINGS

    names = [(f"{name} grid".capitalize(), name) for name in GRIDS]
    counted = [
        (f"{title}: {len(GRIDS[name][0]) * len(GRIDS[name][1])} heads", name)
        for title, name in names
    ]
    return [
        *counted,
        ("Every head, on the mean", HEADS),
        ("Every pooling, a linear layer on each", POOLINGS),
        ("Layer by layer, a linear layer on each", LAYERS),
        ("My own choice", OWN),
    ]


def _recipes() -> list[str]:
    from heads.parts.resolve import menu, resolve

    return [str(recipe) for recipe in menu() if not resolve(recipe).needs_states]


def _field(name: str) -> Any:
    """The control of a setting, made from what the setting says of itself."""
    field = Contest.__dataclass_fields__[name]
    title, says = TITLES.get(name, name), field.metadata["says"]
    if isinstance(field.default, bool):
        return gr.Checkbox(field.default, label=title, info=says, min_width=240)
    if among := field.metadata.get("among"):
        return gr.Dropdown(list(among), value=field.default, label=title, info=says, min_width=240)
    if isinstance(field.default, float) and name != "learning_rate":
        return _slider(name, title)
    if isinstance(field.default, float):  # it is chosen by its order of magnitude
        return gr.Number(field.default, label=title, info=says, step=0.001, min_width=240)
    value = PUBLIC_SECONDS if name == "budget_seconds" and limits().public else field.default
    return gr.Number(value, label=title, info=says, precision=0, min_width=240)


def _slider(name: str, title: str) -> gr.Slider:
    field = Contest.__dataclass_fields__[name]
    low, high = field.metadata["low"], field.metadata["high"]
    slider = gr.Slider(
        low,
        high,
        value=field.default,
        step=1 if isinstance(field.default, int) else 0.05,
        label=title,
        info=field.metadata["says"],
        min_width=240,
    )
    return unchecked(slider)


def _planned(rows: int, *inputs: Any) -> Any:
    """How much work that is, and how long it may take here."""
    from heads.interfaces.boards import duration

    try:
        plan = Plan.of(*inputs)
    except Exception as error:
        return drawings.failure(sentence(error))
    heads, times = drawings.counted(plan.heads, "head"), times_say(plan.contest)
    parts = [f"{heads}, each trained {times}, and two baselines."]
    seconds = expected_seconds(plan, rows) if rows else 0.0
    if seconds:
        parts.append(
            f"Going by earlier runs here, that takes about {duration(max(1, round(seconds)))}."
        )
    if limits().public:
        parts.append(f"After {plan.contest.budget_seconds} seconds what is done is kept.")
    return accounts.remark(" ".join(parts))
