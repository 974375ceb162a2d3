"""Which heads on which base model, and how they are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data.dataset import Data
from heads.errors import DataError, RecipeError
from heads.evaluation.metrics import metrics_of
from heads.interfaces.web.guards import unchecked
from heads.interfaces.web.places import base_models
from heads.interfaces.web.startup import Opening
from heads.parts import tunings as _tunings  # noqa: F401  fills the registry
from heads.parts.registry import tuning
from heads.parts.resolved_recipe import (
    FEATURES,
    FROZEN,
    HINGE,
    JOINT,
    ORDINAL,
    OVR,
    SIAMESE,
    SOFTMAX,
)
from heads.problem import SINGLE_LABEL
from heads.settings import ExperimentConfig, Limits, limits

if TYPE_CHECKING:
    from heads.runs.spec import RunRequest

# --- What the form says: which heads, in which ways, compared how.

OWN = "own"
PUBLIC_SECONDS = 120
FORM = tuple(field for field in fields(ExperimentConfig) if field.name != "seeds")
TITLES = {
    "seeds": "Seeds, with a test set",
    "metric": "Ranked by",
    "folds": "Folds, without a test set",
    "repetitions": "Repetitions of the folds",
    "held_out": "Rows that are scored, with few rows a class",
    "development": "Rows that settings are chosen on",
    "learning_rate": "Learning rate",
    "steps": "Steps",
    "trials": "Settings tried",
    "epochs": "Passes over the rows, of a tuned base model",
    "tuning_rate": "Learning rate, of a tuned base model",
    "gradient_checkpointing": "Spare memory, of a tuned base model",
    "standardise": "Standardise",
    "per_class": "Few rows a class",
    "class_weights": "Weigh classes alike",
    "focal": "Focal loss",
    "smoothing": "Label smoothing",
    "curve": "Learning curve",
    "race": "Race",
    "precision": "Precision",
    "unseen": "Classes never met",
    "budget_seconds": "Time allowed, in seconds",
    "budget_cells": "Recipes trained at most",
    "seed": "Seed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the form says.

    Attributes:
        model: The id of the base model.
        grid: small or full, where no recipes are named.
        recipes: The recipes of the user's own choice.
        pairs: How two texts enter.
        losses: What one class a row is learned by.
        tunes: What is learned of the base model.
        config: How they are compared.
    """

    model: str
    grid: str
    recipes: tuple[str, ...]
    pairs: tuple[str, ...]
    losses: tuple[str, ...]
    tunes: tuple[str, ...]
    config: ExperimentConfig

    @classmethod
    def of(cls, model: Any, grid: Any, own: Any, seeds: Any, *rest: Any) -> "Plan":
        """Read and check the values of the inputs."""
        from heads.runs.spec import TUNED, TUNES

        recipes = {OWN: tuple(own or ()), TUNES: (TUNED,)}.get(str(grid), ())
        if grid == OWN and not recipes:
            raise RecipeError("No head is chosen.", "Choose at least two to compare.")
        pairs, losses, tunes, *form = rest
        if not pairs:
            raise RecipeError("No way in for two texts is ticked.", "Tick at least one way in.")
        if not losses:
            raise RecipeError("No loss is ticked.", "Tick at least one loss.")
        if not tunes:
            what = "Nothing is ticked of what is learned."
            raise RecipeError(what, "Tick at least the head alone.")
        values = {field.name: value for field, value in zip(FORM, form, strict=True)}
        config = config_of(values | {"seeds": seeds}, limits())
        name = "small" if recipes else str(grid)
        return cls(
            model=str(model or BUNDLED),
            grid=name,
            recipes=recipes,
            pairs=tuple(pairs),
            losses=tuple(losses),
            tunes=tuple(tunes),
            config=config,
        )

    def request(self, data: Data) -> "RunRequest":
        """What is asked of some data."""
        from heads.runs.spec import RunRequest

        return RunRequest(
            data=data,
            recipes=self.recipes,
            grid=self.grid,
            pairs=self.pairs,
            losses=self.losses,
            tunes=self.tunes,
            model=self.model,
            config=self.config,
        )


def config_of(values: dict[str, Any], here: Limits) -> ExperimentConfig:
    """Return the settings of an experiment; raise HeadsError if one is out of its range."""
    checked: dict[str, Any] = {}
    for field in fields(ExperimentConfig):
        value, kind = values[field.name], type(field.default)
        low, high = field.metadata.get("low", 0), field.metadata.get("high", 2**31)
        title = TITLES.get(field.name, field.name)
        if kind in (bool, str):  # of texts, the experiment itself knows which there are
            checked[field.name] = value is True if kind is bool else value
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not low <= value <= high:
            raise DataError(f"'{title}' must be between {low} and {high:,}.", "Change it.")
        checked[field.name] = kind(value)
    if here.public:
        asked = checked["budget_seconds"] or PUBLIC_SECONDS
        checked["budget_seconds"] = min(asked, PUBLIC_SECONDS)
    return ExperimentConfig(**checked)


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

# Each way of learning by its usual number: LoRA without one, but of layers it is always said.
LEARNED = [
    (part.told(part.title, part.options), f"{name}{part.options['layers']}" if part.above else name)
    for name, part in tuning.items()
    if part.is_installed
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInputs:
    """The components that say which heads.

    Attributes:
        form: One a setting of an experiment, in the order of `FORM`.
    """

    model: gr.Dropdown
    grid: gr.Radio
    own: gr.Dropdown
    seeds: gr.Slider
    pairs: gr.CheckboxGroup
    losses: gr.CheckboxGroup
    tunes: gr.CheckboxGroup
    form: list[Any]

    def all(self) -> list[Any]:
        """In the order of `Plan.of`."""
        ways = [self.pairs, self.losses, self.tunes]
        return [self.model, self.grid, self.own, self.seeds, *ways, *self.form]

    def applying(self) -> list[Any]:
        """Those that apply to some labels only, in the order of `applies`."""
        return [self.seeds, self.pairs, self.losses, *self.form]


def applies(data: Data) -> list[Any]:
    """Which settings are shown for some data, in the order of `SettingsInputs.applying`."""
    problem, has_test = data.corpus.problem, bool(data.columns.split)
    is_one = problem is SINGLE_LABEL
    shown = {
        "seeds": has_test,
        "folds": not has_test,
        "repetitions": not has_test,
        "per_class": is_one,
        "class_weights": is_one,
        "focal": problem.has_classes,
        "smoothing": is_one,
        "unseen": has_test and problem.has_classes,
    }
    losses = [one for one in LOSSES if one[1] != ORDINAL or data.corpus.ordered]
    metrics = ["auto", *metrics_of(problem, ordered=data.corpus.ordered)]
    return [
        gr.update(visible=has_test),
        gr.update(visible=bool(data.corpus.pairs)),
        gr.update(visible=is_one, choices=losses),
        *(
            gr.update(choices=metrics, value="auto")
            if field.name == "metric"
            else gr.update(visible=shown.get(field.name, True))
            for field in FORM
        ),
    ]


def build(opening: Opening) -> SettingsInputs:
    """Draws the settings, folded, and returns what says which heads."""
    with gr.Accordion("Settings", open=False, elem_id="settings"):
        with gr.Row():
            with gr.Column(min_width=280):
                model = gr.Dropdown(
                    base_models.choices(),
                    value=BUNDLED,
                    label="Base model",
                    info="It stays as it is, unless more than the head is to be learned.",
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
        tunes = _tunes()
        form = _form({"folds": folds})
    inputs = SettingsInputs(
        model=model,
        grid=grid,
        own=own,
        seeds=seeds,
        pairs=pairs,
        losses=losses,
        tunes=tunes,
        form=form,
    )
    opening.fills([grid, own], lambda: [gr.update(choices=_grids()), gr.update(choices=_recipes())])
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

    def chosen(grid: str, ticked: list[str]) -> list[Any]:
        """The choice of heads of one's own; and which ways of learning are ticked."""
        from heads.runs.spec import TUNES, USUAL_TUNES

        others = [one for one in ticked if one not in USUAL_TUNES]
        if grid == TUNES:
            ticked = [*USUAL_TUNES, *others]
        elif {*USUAL_TUNES} <= {*ticked}:  # they came with that grid
            ticked = [FROZEN, *others]
        return [gr.update(visible=grid == OWN), ticked]

    grid.input(chosen, [grid, tunes], [own, tunes], queue=False, **quiet)
    return inputs


def _ways() -> tuple[gr.CheckboxGroup, gr.CheckboxGroup]:
    """How two texts enter, and what one class a row is learned by."""
    with gr.Row():
        pairs = gr.CheckboxGroup(
            WAYS,
            value=[JOINT],
            label="Two texts a row enter",
            info="Every head is trained in each way ticked. Only for data with second texts.",
            min_width=280,
            elem_id="ways",
        )
        losses = gr.CheckboxGroup(
            LOSSES,
            value=[SOFTMAX],
            label="Loss",
            info="Every head is trained with each loss that is ticked. Several labels or numbers "
            "decide for themselves.",
            min_width=280,
            elem_id="losses",
        )
    return pairs, losses


def _tunes() -> gr.CheckboxGroup:
    """What is learned of the base model."""
    return gr.CheckboxGroup(
        LEARNED,
        value=[FROZEN],
        label="What is learned",
        info="Every head is trained in each way that is ticked. All but the first learn the base "
        "model too, which takes minutes to hours a head where there is no GPU; the button says how "
        f"long.{_missing()}",
        min_width=280,
        elem_id="tunes",
    )


def _missing() -> str:
    """Which ways of learning need a library that is not here."""
    names = [f"{part.title}: pip install {part.library}" for part in tuning.values()
             if not part.is_installed]  # fmt: skip
    return f" Not installed: {', '.join(names)}." if names and not limits().public else ""


def _form(drawn: Mapping[str, Any]) -> list[Any]:
    """A control for every other setting of a contest, in the order of `FORM`; some are drawn."""
    controls, left = dict(drawn), [field for field in FORM if field.name not in drawn]
    with gr.Accordion("How they are compared", open=False), gr.Row():
        for column in range(COLUMNS):
            with gr.Column(min_width=240):
                for field in left[column::COLUMNS]:
                    controls[field.name] = _field(field.name)
    return [controls[field.name] for field in FORM]


def _grids() -> list[tuple[str, str]]:
    from heads.runs.spec import GRIDS, HEADS, LAYERS, POOLINGS, TUNED, TUNES, USUAL_TUNES

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
        (f"Frozen or fine-tuned? {TUNED} in {len(USUAL_TUNES)} ways", TUNES),
        ("My own choice", OWN),
    ]


def _recipes() -> list[str]:
    from heads.parts.resolve import menu, resolve

    return [str(recipe) for recipe in menu() if not resolve(recipe).needs_states]


def _field(name: str) -> Any:
    """The control of a setting, made from what the setting says of itself."""
    field = ExperimentConfig.__dataclass_fields__[name]
    title, says = TITLES.get(name, name), field.metadata["says"]
    if isinstance(field.default, bool):
        return gr.Checkbox(field.default, label=title, info=says, min_width=240)
    if among := field.metadata.get("among"):
        return gr.Dropdown(list(among), value=field.default, label=title, info=says, min_width=240)
    if isinstance(field.default, float) and not name.endswith("_rate"):
        return _slider(name, title)
    if isinstance(field.default, float):  # it is chosen by its order of magnitude
        return gr.Number(field.default, label=title, info=says, step=0.001, min_width=240)
    value = PUBLIC_SECONDS if name == "budget_seconds" and limits().public else field.default
    return gr.Number(value, label=title, info=says, precision=0, min_width=240)


def _slider(name: str, title: str) -> gr.Slider:
    field = ExperimentConfig.__dataclass_fields__[name]
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
