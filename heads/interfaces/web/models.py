"""The base models that the page offers."""

from heads.backbone.conversion_rules import TWINS, twin_id
from heads.backbone.hub import cached_folder
from heads.backbone.models import BUNDLED, MODELS


def choices() -> list[tuple[str, str]]:
    """What stands in the menu, and the id of each."""
    found = []
    for base in MODELS:
        fetched = base.id != BUNDLED and cached_folder(base.id) is not None
        state = "bundled" if base.id == BUNDLED else "on this machine" if fetched else "not fetched"
        found.append((f"{base.name} ({base.millions}M parameters, {state})", base.id))
    twins = [(twin.title, twin_id(family)) for family, twin in TWINS.items()]
    return [*found[:1], *twins, *found[1:]]
