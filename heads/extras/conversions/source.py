"""The base models that this extra adds."""

from pathlib import Path

from heads.extras.conversions.rules import TWINS, converted_id, family_of


class ConvertedModels:
    """The bundled model under the classes of other families."""

    def find(self, name: str) -> tuple[str, Path]:
        """Return the id of a converted model and its folder, or raise ModelError."""
        from heads.extras.conversions.conversion import converted_folder

        family = family_of(name) or ""
        return converted_id(family.strip()), converted_folder(family)

    def choices(self) -> list[tuple[str, str]]:
        """Return titles and ids of all conversions."""
        return [(twin.title, converted_id(family)) for family, twin in TWINS.items()]


SOURCE = ConvertedModels()
