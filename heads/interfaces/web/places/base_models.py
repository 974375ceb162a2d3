"""The base models that the page offers."""

from heads.backbone.conversion_rules import TWINS, converted_id
from heads.backbone.hub import cached_folder
from heads.backbone.models import BUNDLED, MODELS


def choices() -> list[tuple[str, str]]:
    """What stands in the menu, and the id of each: what is here first, conversions last."""
    found = []
    for base in MODELS:
        fetched = base.id == BUNDLED or cached_folder(base.id) is not None
        state = "bundled" if base.id == BUNDLED else "on this machine" if fetched else "to download"
        found.append((not fetched, f"{base.name} ({base.millions}M parameters, {state})", base.id))
    ranked = [(title, name) for _, title, name in sorted(found, key=lambda one: one[0])]
    return ranked + [(twin.title, converted_id(family)) for family, twin in TWINS.items()]
