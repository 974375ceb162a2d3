"""The settings that a head was learned with, in the field's words."""

from collections.abc import Mapping

from heads.recipe import Value
from heads.runs.cells import Cell

ASIDE = ("epochs", "converged")  # what differs between seeds that have chosen the same
# What is said of a setting that is on, and of one that is off, where that is worth a word.
SWITCHES: Mapping[str, tuple[str, str]] = {
    "standardise": ("standardised", "not standardised"),
    "principal_axes": ("along principal axes", ""),
    "converged": ("", "still improving at the cap"),
}


def settings_says(chosen: Mapping[str, Value]) -> str:
    """Settings as one says them.

    >>> settings_says({"standardise": True, "principal_axes": False, "learning_rate": 0.004,
    ...     "weight_decay": 0.3, "epochs": 16.0, "converged": True})
    'standardised, learning rate 0.004, weight decay 0.3, 16 epochs'
    >>> settings_says({"standardise": False, "C": 0.1})
    'not standardised, C 0.1'
    """
    switches = [_said(name, value) for name, value in chosen.items() if name in SWITCHES]
    first = [_said("standardise", chosen["standardise"])] if "standardise" in chosen else []
    others = [_said(name, value) for name, value in chosen.items() if name not in SWITCHES]
    return ", ".join(filter(None, dict.fromkeys([*first, *others, *switches])))


def _said(name: str, value: Value) -> str:
    if name in SWITCHES:
        return SWITCHES[name][0 if value else 1]
    if name == "epochs":
        return f"{value:.3g} epoch{'' if value == 1 else 's'}"
    told = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{name.replace('_', ' ')} {told}"


def chosen_says(cell: Cell) -> str:
    """What the first seed of a cell has chosen, and how many have chosen the same; or nothing."""
    told, every = settings_says(cell.chosen), cell.chosen_by_seed
    if not told:
        return ""
    if len(every) < 2:
        return f"Settings that were best: {told}."
    same = sum(_alike(one) == _alike(cell.chosen) for one in every)
    aside = " (epochs aside)" if "epochs" in cell.chosen else ""
    again = f"The same were best in {same} of {len(every)} seeds or folds{aside}."
    return f"Settings that were best for the first seed, whose head is kept: {told}. {again}"


def _alike(chosen: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in chosen.items() if name not in ASIDE}
