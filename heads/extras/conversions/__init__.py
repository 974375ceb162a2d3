"""The bundled model as another family's checkpoint: one function, several native heads."""

from heads.plugins import Extra

EXTRA = Extra(
    name="conversions",
    summary="Use the bundled model as another family's checkpoint.",
    commands="heads.extras.conversions.commands",
    base_models={"all-MiniLM-L6-v2-as-": "heads.extras.conversions.rules:SOURCE"},
)
