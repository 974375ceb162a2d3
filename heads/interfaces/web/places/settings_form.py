"""Which heads on which base model, and how they are compared."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from heads.backbone.models import BUNDLED
from heads.data.dataset import Data
from heads.errors import RecipeError
from heads.evaluation.metrics import metrics_of
from heads.interfaces.web.guards import Values, by_name, unchecked
from heads.interfaces.web.places import base_models
from heads.interfaces.web.slots import QUIET
from heads.interfaces.web.startup import Opening
from heads.options import TrainOptions
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
from heads.settings import ExperimentConfig, check_setting, current_limits

if TYPE_CHECKING:
    from heads.runs.spec import RunRequest

# --- What the form says: which heads, in which ways, compared how.

OWN = "own"
PUBLIC_SECONDS = 120
FORM = tuple(field for field in fields(ExperimentConfig) if field.name != "seeds")


def build_request(
    data: Data, model: Any, grid: Any, own: Any, seeds: Any, *rest: Any
) -> "RunRequest":
    """Return what the values of the inputs ask of some data; raise HeadsError if they do not fit.

    Args:
        rest: How two texts enter, the losses and what is learned; then the settings of `FORM`.
    """
    from heads.runs.grids import TUNED, TUNES
    from heads.runs.spec import RunRequest

    pairs, losses, tunes, *form = rest
    recipes = {OWN: tuple(own or ()), TUNES: (TUNED,)}.get(str(grid), ())
    if grid == OWN and not recipes:
        raise RecipeError("No head is chosen.", "Choose at least two to compare.")
    for ticked, what, hint in (
        (pairs, "No way in for two texts is ticked.", "Tick at least one way in."),
        (losses, "No loss is ticked.", "Tick at least one loss."),
        (tunes, "Nothing is ticked of what is learned.", "Tick at least the head alone."),
    ):
        if not ticked:
            raise RecipeError(what, hint)
    options = TrainOptions(
        recipes=recipes,
        grid="" if recipes else str(grid),
        pairs=pairs,
        losses=losses,
        tune=tunes,
        model=str(model or BUNDLED),
    )
    values = {field.name: value for field, value in zip(FORM, form, strict=True)}
    return RunRequest.of(data, None, options, build_config(values | {"seeds": seeds}))


def build_config(values: dict[str, Any]) -> ExperimentConfig:
    """Return the settings of an experiment; raise HeadsError if one is out of its range."""
    checked: dict[str, Any] = {}
    for field in fields(ExperimentConfig):
        kind = type(field.default)
        value = values[field.name] is True if kind is bool else values[field.name]
        check_setting(field, value, f"'{field.metadata['title']}'")
        checked[field.name] = kind(value)
    if current_limits().public:
        seconds = checked["budget_seconds"] or PUBLIC_SECONDS
        checked["budget_seconds"] = min(seconds, PUBLIC_SECONDS)
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


def list_changes(inputs: dict[str, Any]) -> list[Any]:
    """Return the events that change what the inputs ask."""
    # A recipe that is typed is a change, and to Gradio no input.
    changes = {name: inputs[name].change for name in ("own", "tunes")}
    return [
        changes.get(name) or (control.release if isinstance(control, gr.Slider) else control.input)
        for name, control in inputs.items()
    ]


def update_settings(data: Data) -> Values:
    """Return updates that show the settings that apply to some data."""
    problem, has_test = data.corpus.problem, bool(data.columns.split)
    is_one = problem is SINGLE_LABEL
    updates: Values = {field.name: gr.update(visible=True) for field in FORM}
    shown = {
        "seeds": has_test,
        "pairs": bool(data.corpus.pairs),
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
    updates |= {name: gr.update(visible=is_shown) for name, is_shown in shown.items()}
    updates["losses"] = gr.update(visible=is_one, choices=losses)
    updates["metric"] = gr.update(choices=metrics)
    # These are sent again later; a value would take back what was chosen in the meantime.
    last_updates = {name: dict(update) for name, update in updates.items()}
    updates["metric"]["value"] = "auto"
    return updates | {"last_updates": last_updates}


def build(opening: Opening) -> tuple[dict[str, Any], gr.State]:
    """Draw the settings, folded.

    Returns:
        The inputs by name, in the order in which `build_request` takes their values, and the last
        updates of `update_settings`, without values.
    """
    with gr.Accordion("Settings", open=False, elem_id="settings") as settings:
        with gr.Row():
            with gr.Column(min_width=280):
                info = "It stays as it is, unless more than the head is to be learned."
                model = base_models.draw_menu(info=info)
                seeds, folds = (_control(name, is_slider=True) for name in ("seeds", "folds"))
            with gr.Column(min_width=280):
                grid = gr.Radio(GRID, value="small", label="Heads", elem_id="grid")
                own = gr.Dropdown(
                    list(FIRST), value=list(FIRST), label="Your own choice",
                    info="pooling+head: type to search, or write your own.", multiselect=True,
                    allow_custom_value=True, interactive=True, visible=False,
                )  # fmt: skip
        with gr.Row():
            info = "Every head is trained in each way ticked. Only for data with second texts."
            pairs = _tick_boxes(WAYS, JOINT, "Two texts a row enter", info, "ways")
            info = "Every head is trained with each loss that is ticked. "
            info += "Several labels or numbers decide for themselves."
            losses = _tick_boxes(LOSSES, SOFTMAX, "Loss", info, "losses")
        missing = [
            f"{part.title}: pip install {part.library}"
            for part in tuning.values()
            if not part.is_installed
        ]
        info = "Every head is trained in each way that is ticked. All but the first learn the "
        info += "base model too, which takes minutes to hours a head where there is no GPU; "
        info += "the button says how long."
        if missing and not current_limits().public:
            info += f" Not installed: {', '.join(missing)}."
        tunes = _tick_boxes(LEARNED, FROZEN, "What is learned", info, "tunes")
        controls: dict[str, Any] = {"folds": folds}
        others = [field.name for field in FORM if field.name != "folds"]
        with gr.Accordion("How they are compared", open=False) as comparison, gr.Row():
            for column in range(COLUMNS):
                with gr.Column(min_width=240):
                    controls |= {name: _control(name) for name in others[column::COLUMNS]}
    inputs: dict[str, Any] = {
        "model": model, "grid": grid, "own": own, "seeds": seeds, "pairs": pairs,
        "losses": losses, "tunes": tunes, **{field.name: controls[field.name] for field in FORM},
    }  # fmt: skip
    last_updates = gr.State({})
    # Gradio before 6.30 loses updates of components in an accordion that was never opened.
    resend = lambda updates: updates  # noqa: E731
    resends = by_name(resend, last_updates, inputs)
    events = [settings.expand, comparison.expand]
    gr.on(events, **resends, queue=False, trigger_mode="multiple", **QUIET)
    opening.fills([grid, own], lambda: [gr.update(choices=_grids()), gr.update(choices=_recipes())])

    def chosen(grid: str, ticked: list[str]) -> list[Any]:
        """The choice of heads of one's own; and which ways of learning are ticked."""
        from heads.runs.grids import TUNES, USUAL_TUNES

        others = [one for one in ticked if one not in USUAL_TUNES]
        if grid == TUNES:
            ticked = [*USUAL_TUNES, *others]
        elif {*USUAL_TUNES} <= {*ticked}:  # they came with that grid
            ticked = [FROZEN, *others]
        return [gr.update(visible=grid == OWN), ticked]

    grid.input(chosen, [grid, tunes], [own, tunes], queue=False, **QUIET)
    return inputs, last_updates


def _tick_boxes(
    choices: list[tuple[str, str]], value: str, label: str, info: str, name: str
) -> gr.CheckboxGroup:
    look: dict[str, Any] = {"label": label, "info": info, "min_width": 280, "elem_id": name}
    return gr.CheckboxGroup(choices, value=[value], **look)


def _grids() -> list[tuple[str, str]]:
    from heads.runs.grids import GRIDS, HEADS, LAYERS, POOLINGS, TUNED, TUNES, USUAL_TUNES

    return [
        *(
            (f"{name.capitalize()} grid: {len(poolings) * len(heads)} heads", name)
            for name, (poolings, heads) in GRIDS.items()
        ),
        ("Every head, on the mean", HEADS),
        ("Every pooling, a linear layer on each", POOLINGS),
        ("Layer by layer, a linear layer on each", LAYERS),
        (f"Frozen or fine-tuned? {TUNED} in {len(USUAL_TUNES)} ways", TUNES),
        ("My own choice", OWN),
    ]


def _recipes() -> list[str]:
    from heads.parts.resolve import menu, resolve

    return [str(recipe) for recipe in menu() if not resolve(recipe).needs_states]


def _control(name: str, *, is_slider: bool = False) -> Any:
    """Draw the control of a setting, made from what the setting says of itself."""
    field = ExperimentConfig.__dataclass_fields__[name]
    default, says = field.default, field.metadata
    look: dict[str, Any] = {"label": says["title"], "info": says["says"], "min_width": 240}
    is_rate = name.endswith("_rate")  # it is chosen by its order of magnitude
    if isinstance(default, bool):
        return gr.Checkbox(default, **look)
    if among := says.get("among"):
        return gr.Dropdown(list(among), value=default, **look)
    if is_slider or (isinstance(default, float) and not is_rate):
        step = 1 if isinstance(default, int) else 0.05
        return unchecked(gr.Slider(says["low"], says["high"], value=default, step=step, **look))
    if is_rate:
        return gr.Number(default, step=0.001, **look)
    value = PUBLIC_SECONDS if name == "budget_seconds" and current_limits().public else default
    return gr.Number(value, precision=0, **look)
