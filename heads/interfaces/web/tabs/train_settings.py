"""Step 2 of the tab Train: which heads on which base model, and how they are compared."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.errors import DataError, HeadsError, RecipeError
from heads.interfaces.views import comparison, dataset
from heads.interfaces.web.guards import sentence, unchecked
from heads.interfaces.web.startup import Opening
from heads.interfaces.web.tabs import recipe_picker
from heads.parts.resolved_recipe import FEATURES, HINGE, JOINT, ORDINAL, OVR, SIAMESE, SOFTMAX
from heads.runs.folder import all_runs
from heads.settings import ExperimentConfig, Limits, limits

# --- What step 2 of the tab Train says: which heads, in which ways, compared how.

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
    "seed": "Seed",
}
LAYERS_USUAL = 7  # of small base models, embeddings included


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the inputs of step 2 say.

    Attributes:
        model: The id of the base model.
        grid: small or full, where no recipes are named.
        recipes: The recipes of the user's own choice.
        pairs: How two texts enter.
        losses: What one class a row is learned by.
        config: How they are compared.
    """

    model: str
    grid: str
    recipes: tuple[str, ...]
    pairs: tuple[str, ...]
    losses: tuple[str, ...]
    config: ExperimentConfig

    @classmethod
    def of(cls, model: Any, grid: Any, own: Any, seeds: Any, *rest: Any) -> "Plan":
        """Reads and checks the values of the inputs.

        Raises:
            RecipeError: No head is chosen, or nothing is ticked.
            DataError: A setting is not within its range.
        """
        recipes = tuple(own or ()) if grid == OWN else ()
        if grid == OWN and not recipes:
            raise RecipeError("No head is chosen.", "Choose at least two to compare.")
        pairs, losses, *form = rest
        if not pairs:
            raise RecipeError("No way in for two texts is ticked.", "Tick at least one way in.")
        if not losses:
            raise RecipeError("No loss is ticked.", "Tick at least one loss.")
        values = {field.name: value for field, value in zip(FORM, form, strict=True)}
        config = config_of(values | {"seeds": seeds}, limits())
        name = "small" if grid == OWN else str(grid)
        return cls(
            model=str(model or BUNDLED),
            grid=name,
            recipes=recipes,
            pairs=tuple(pairs),
            losses=tuple(losses),
            config=config,
        )

    @property
    def heads(self) -> int:
        """How many heads that are, or about how many: of layers, as many as usual models have."""
        from heads.parts.resolve import head, pairing, pooling
        from heads.runs.spec import GRIDS, HEADS, LAYERS, POOLINGS

        about = {name: len(poolings) * len(tops) for name, (poolings, tops) in GRIDS.items()}
        about |= {LAYERS: LAYERS_USUAL, HEADS: len(head), POOLINGS: len(pooling)}
        each = len(set(self.recipes)) or about[self.grid.partition(":")[0]]
        ways = sum(len(pairing) if way == FEATURES else 1 for way in self.pairs)
        return each * ways * len(self.losses)


def config_of(values: dict[str, Any], here: Limits) -> ExperimentConfig:
    """The settings of a contest, each within the range that it states.

    Raises:
        DataError: One is not.
        LimitError: One is none of its choices.
    """
    checked: dict[str, Any] = {}
    for field in fields(ExperimentConfig):
        value, kind = values[field.name], type(field.default)
        low, high = field.metadata.get("low", 0), field.metadata.get("high", 2**31)
        title = TITLES.get(field.name, field.name)
        if kind in (bool, str):  # of texts, the contest itself knows which there are
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


def times_of(config: ExperimentConfig, *, has_test: bool) -> int:
    """How many times each head is trained: once a seed, or once a fold of every repetition."""
    is_seeded = has_test or config.per_class > 0
    return config.seeds if is_seeded else config.folds * config.repetitions


def times_say(config: ExperimentConfig) -> str:
    """The same in words, for data with a test set and without."""
    seeds, folds = (times_of(config, has_test=has_test) for has_test in (True, False))
    if seeds == folds:
        return _times(seeds)
    return f"{_times(seeds)} with a test set, {_times(folds)} without one"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _trained(facts: dict[str, Any]) -> int:
    """How many times each head of a run was trained."""
    return times_of(ExperimentConfig(**facts["contest"]), has_test=_has_test(facts))


def _has_test(facts: dict[str, Any]) -> bool:
    """Whether the data of a run had a test set."""
    account = facts["account"]
    return "test" in account or bool(account.get("columns", {}).get("split"))


def expected_seconds(plan: Plan, rows: int) -> float:
    """How long it may take, going by runs on the same base model here; 0 if there are none.

    Reading grows with the rows, and so does training, with the number of heads besides. A run with
    a race tells nothing of one without. Whether there will be a test set is taken from that run.
    """
    for run in all_runs()[:20]:
        with contextlib.suppress(HeadsError, KeyError, TypeError):  # a broken run tells nothing
            facts, end = run.read("run.json"), run.read("end.json") or {}
            read = (run.read("facts.json") or {}).get("forward_seconds")
            if facts["model"] != plan.model or end.get("state") != "finished" or not read:
                continue
            if facts["contest"].get("race", False) != plan.config.race:
                continue
            before = max(facts["account"]["rows"], 1)
            heads = len(facts["recipes"]) * _trained(facts)
            times = times_of(plan.config, has_test=_has_test(facts))
            learning = max(0.0, end["seconds"] - read) / heads * plan.heads * times
            return (read + learning) * rows / before
    return 0.0


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
class SettingsInputs:
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


def build(rows: gr.State, opening: Opening) -> SettingsInputs:
    """Draws the step and returns what says which heads."""
    gr.Markdown("### 2. The heads")
    with gr.Row():
        with gr.Column(min_width=280):
            model = gr.Dropdown(
                recipe_picker.choices(),
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
    inputs = SettingsInputs(
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
    from heads.runs.spec import GRIDS, HEADS, LAYERS, POOLINGS

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
    field = ExperimentConfig.__dataclass_fields__[name]
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


def _planned(rows: int, *inputs: Any) -> Any:
    """How much work that is, and how long it may take here."""
    from heads.interfaces.views.leaderboard import duration

    try:
        plan = Plan.of(*inputs)
    except Exception as error:
        return comparison.failure(sentence(error))
    heads, times = comparison.counted(plan.heads, "head"), times_say(plan.config)
    parts = [f"{heads}, each trained {times}, and two baselines."]
    seconds = expected_seconds(plan, rows) if rows else 0.0
    if seconds:
        parts.append(
            f"Going by earlier runs here, that takes about {duration(max(1, round(seconds)))}."
        )
    if limits().public:
        parts.append(f"After {plan.config.budget_seconds} seconds what is done is kept.")
    return dataset.remark(" ".join(parts))
