"""The bundled model as another family's checkpoint: one function, several native heads."""

from heads.plugins import Extra

HERE = "heads.extras.conversions"
EXTRA = Extra(
    name="conversions",
    summary="Use the bundled model as another family's checkpoint.",
    commands=f"{HERE}.commands",
    base_models={"all-MiniLM-L6-v2-as-": f"{HERE}.source:SOURCE"},
)
