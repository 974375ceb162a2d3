"""Step 2 of the tab Train: which heads on which base model, and how they are compared."""

import contextlib
import math
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from heads.errors import DataError, HeadsError, RecipeError
from heads.interfaces import accounts, drawings
from heads.interfaces.boards import duration
from heads.interfaces.web import models
from heads.interfaces.web.guards import sentence
from heads.parts.menu import menu, resolve
from heads.parts.models import BUNDLED
from heads.pipeline.grid.units import GRIDS
from heads.pipeline.runs.folder import all_runs
from heads.settings import Contest, Limits, limits

OWN = "own"
FIRST = ("mean+linear", "cls+linear", "mean+mlp")
PUBLIC_SECONDS = 120
COLUMNS = 3  # of controls side by side
FORM = tuple(field for field in fields(Contest) if field.name != "seeds")
TITLES = {
    "seeds": "How many times",
    "held_out": "Rows that are scored",
    "development": "Rows that settings are chosen on",
    "per_class": "Few rows a class",
    "class_weights": "Weigh classes alike",
    "curve": "Learning curve",
    "budget_seconds": "Time allowed, in seconds",
    "seed": "Seed",
}


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
    form: list[Any]

    def all(self) -> list[Any]:
        """In the order of `Plan.of`."""
        return [self.model, self.grid, self.own, self.seeds, *self.form]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the inputs of step 2 say.

    Attributes:
        model: The id of the base model.
        grid: small or full, where no recipes are named.
        recipes: The recipes of the user's own choice.
        contest: How they are compared.
    """

    model: str
    grid: str
    recipes: tuple[str, ...]
    contest: Contest

    @classmethod
    def of(cls, model: Any, grid: Any, own: Any, seeds: Any, *form: Any) -> "Plan":
        """Reads and checks the values of the inputs.

        Raises:
            RecipeError: Nothing is chosen.
            DataError: A setting is not within its range.
        """
        recipes = tuple(own or ()) if grid == OWN else ()
        if grid == OWN and not recipes:
            raise RecipeError("No head is chosen.", "Choose at least two to compare.")
        values = {field.name: value for field, value in zip(FORM, form, strict=True)}
        contest = contest_of(values | {"seeds": seeds}, limits())
        name = "small" if grid == OWN else str(grid)
        return cls(model=str(model or BUNDLED), grid=name, recipes=recipes, contest=contest)

    @property
    def heads(self) -> int:
        """How many heads that are."""
        poolings, tops = GRIDS.get(self.grid, ((), ()))
        return len(set(self.recipes)) or len(poolings) * len(tops)


def contest_of(values: dict[str, Any], here: Limits) -> Contest:
    """The settings of a contest, each within the range that it states.

    Raises:
        DataError: One is not.
    """
    checked: dict[str, Any] = {}
    for field in fields(Contest):
        value, kind = values[field.name], type(field.default)
        low, high = field.metadata.get("low", 0), field.metadata.get("high", 2**31)
        title = TITLES.get(field.name, field.name)
        if kind is bool:
            checked[field.name] = value is True
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not low <= value <= high:
            raise DataError(f"'{title}' must be between {low} and {high:,}.", "Change it.")
        checked[field.name] = kind(value)
    if here.public:
        asked = checked["budget_seconds"] or PUBLIC_SECONDS
        checked["budget_seconds"] = min(asked, PUBLIC_SECONDS)
    return Contest(**checked)


def build(rows: gr.State) -> Inputs:
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
        with gr.Column(min_width=280):
            grid = gr.Radio(_grids(), value="small", label="Heads", elem_id="grid")
            own = gr.Dropdown(
                _recipes(),
                value=list(FIRST),
                label="Your own choice",
                info="pooling+head: type to search, or write your own.",
                multiselect=True,
                allow_custom_value=True,
                interactive=True,
                visible=False,
            )
    form = _form()
    inputs = Inputs(model=model, grid=grid, own=own, seeds=seeds, form=form)
    says = gr.HTML(_planned(0, BUNDLED, "small", list(FIRST), 3, *_defaults()), padding=False)
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    grid.input(lambda grid: gr.update(visible=grid == OWN), grid, own, queue=False, **quiet)
    asked = [rows, *inputs.all()]
    changes = [grid.input, own.input, seeds.release, seeds.input, model.input, rows.change]
    gr.on(changes, _planned, asked, says, trigger_mode="always_last", **quiet)
    return inputs


def _form() -> list[Any]:
    """A control for every other setting of a contest, in the order of `FORM`."""
    controls = {}
    with gr.Accordion("More settings", open=False, elem_id="settings"), gr.Row():
        for column in range(COLUMNS):
            with gr.Column(min_width=240):
                for field in FORM[column::COLUMNS]:
                    controls[field.name] = _field(field.name)
    return [controls[field.name] for field in FORM]


def _defaults() -> list[Any]:
    return [field.default for field in FORM]


def _grids() -> list[tuple[str, str]]:
    names = [(f"{name} grid".capitalize(), name) for name in GRIDS]
    counted = [
        (f"{title}: {len(GRIDS[name][0]) * len(GRIDS[name][1])} heads", name)
        for title, name in names
    ]
    return [*counted, ("My own choice", OWN)]


def _recipes() -> list[str]:
    return [str(recipe) for recipe in menu() if not resolve(recipe).needs_states]


def _field(name: str) -> Any:
    """The control of a setting, made from what the setting says of itself."""
    field = Contest.__dataclass_fields__[name]
    title, says = TITLES.get(name, name), field.metadata["says"]
    if isinstance(field.default, bool):
        return gr.Checkbox(field.default, label=title, info=says, min_width=240)
    if isinstance(field.default, float):
        return _slider(name, title)
    value = PUBLIC_SECONDS if name == "budget_seconds" and limits().public else field.default
    return gr.Number(value, label=title, info=says, precision=0, min_width=240)


def _slider(name: str, title: str) -> gr.Slider:
    field = Contest.__dataclass_fields__[name]
    low, high = field.metadata["low"], field.metadata["high"]
    whole = isinstance(field.default, int)
    return gr.Slider(
        low,
        min(high, 10) if whole else high,
        value=field.default,
        step=1 if whole else 0.05,
        label=title,
        info=field.metadata["says"],
        min_width=240,
    )


def _planned(rows: int, *inputs: Any) -> Any:
    """How much work that is, and how long it may take here."""
    try:
        plan = Plan.of(*inputs)
    except Exception as error:
        return drawings.failure(sentence(error))
    times = "once" if plan.contest.seeds == 1 else f"{plan.contest.seeds} times"
    parts = [f"{drawings.counted(plan.heads, 'head')}, each trained {times}, and two baselines."]
    seconds = expected_seconds(plan, rows) if rows else 0.0
    if seconds:
        parts.append(
            f"Going by earlier runs here, that takes about {duration(max(1, round(seconds)))}."
        )
    if limits().public:
        parts.append(f"After {plan.contest.budget_seconds} seconds what is done is kept.")
    return accounts.remark(" ".join(parts))


def expected_seconds(plan: Plan, rows: int) -> float:
    """How long it may take, going by runs on the same base model here; 0 if there are none.

    Reading grows with the rows, and so does training, with the number of heads besides.
    """
    for run in all_runs()[:20]:
        with contextlib.suppress(HeadsError, KeyError, TypeError):  # a broken run tells nothing
            facts, end = run.read("run.json"), run.read("end.json") or {}
            read = (run.read("facts.json") or {}).get("forward_seconds")
            if facts["model"] != plan.model or end.get("state") != "finished" or not read:
                continue
            before = max(facts["account"]["rows"], 1)
            heads = len(facts["recipes"]) * facts["contest"]["seeds"]
            learning = max(0.0, end["seconds"] - read) / heads * plan.heads * plan.contest.seeds
            return (read + learning) * rows / before
    return 0.0
