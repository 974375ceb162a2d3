"""The shape of the house: who may import whom, what is light, what is public, how long it is."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "heads").rglob("*.py"))
# From the foundations up: a module imports only what stands before it.
ORDER = [
    "heads.errors",
    "heads.recipe",
    "heads.settings",
    "heads.parts.registry",
    "heads.parts.modules",
    "heads.parts.solvers",
    "heads.parts.layers",
    "heads.parts.poolings",
    "heads.parts.heads",
    "heads.parts.heads",
    "heads.parts.heads",
    "heads.parts.pairings",
    "heads.parts.losses",
    "heads.parts.resolved",
    "heads.parts.resolve",
    "heads.parts.resolve",
    "heads.catalog.base_models",
    "heads.catalog.forms",
    "heads.catalog.families",
    "heads.backbone.models",
    "heads.backbone.conversion_rules",
    "heads.data.samples",
    "heads.events",
    "heads.data.text",
    "heads.data.numbers",
    "heads.data.groups",
    "heads.data.corpus",
    "heads.data.joining",
    "heads.data.table",
    "heads.data.table",
    "heads.data.table",
    "heads.data.columns",
    "heads.data.columns",
    "heads.data.files",
    "heads.data.files",
    "heads.data.delimited",
    "heads.data.labels",
    "heads.data.labels",
    "heads.data.json_files",
    "heads.data.columnar",
    "heads.data.delimited",
    "heads.data.files",
    "heads.data.files",
    "heads.data.columns",
    "heads.data.rows",
    "heads.data.checks",
    "heads.data.checks",
    "heads.data.checks",
    "heads.data.dataset",
    "heads.pipeline.table",
    "heads.caching",
    "heads.caching",
    "heads.backbone.hub",
    "heads.backbone.config_check",
    "heads.backbone.hub",
    "heads.backbone.conversion",
    "heads.backbone.safety",
    "heads.rng",
    "heads.catalog.tiny_models",
    "heads.parts.modules",
    "heads.catalog.catalog",
    "heads.backbone.weights",
    "heads.backbone.device",
    "heads.backbone.states",
    "heads.pipeline.packed",
    "heads.backbone.unpadded.linear",
    "heads.backbone.unpadded.bert",
    "heads.backbone.unpadded.bert",
    "heads.backbone.unpadded.forward",
    "heads.backbone.precision",
    "heads.backbone.backbone",
    "heads.backbone.engine",
    "heads.backbone.engine",
    "heads.backbone.loading",
    "heads.features.featurizer",
    "heads.evaluation.statistics",
    "heads.classifier.config_extras",
    "heads.classifier.native_head",
    "heads.training.objective",
    "heads.classifier.module",
    "heads.classifier.inputs",
    "heads.analysis.catalog_check",
    "heads.classifier.classifier",
    "heads.classifier.pretrained",
    "heads.classifier.pretrained",
    "heads.training.fitters.whitening",
    "heads.training.trainer",
    "heads.classifier.head_cache",
    "heads.classifier.head_cache",
    "heads.classifier.prediction",
    "heads.analysis.comparison",
    "heads.analysis.differences",
    "heads.analysis.differences",
    "heads.analysis.explanation",
    "heads.analysis.explanation",
    "heads.features.truncation",
    "heads.features.store",
    "heads.features.extraction",
    "heads.features.store",
    "heads.features.extraction",
    "heads.features.token_states",
    "heads.features.token_states",
    "heads.evaluation.statistics",
    "heads.evaluation.statistics",
    "heads.evaluation.statistics",
    "heads.evaluation.metrics",
    "heads.evaluation.predictions",
    "heads.evaluation.calibration",
    "heads.evaluation.calibration",
    "heads.evaluation.details",
    "heads.evaluation.details",
    "heads.evaluation.details",
    "heads.evaluation.details",
    "heads.evaluation.details",
    "heads.evaluation.seed_variance",
    "heads.evaluation.selection_bias",
    "heads.evaluation.significance",
    "heads.evaluation.verdict",
    "heads.evaluation.baselines",
    "heads.evaluation.transferability",
    "heads.evaluation.transferability",
    "heads.evaluation.learning_curve",
    "heads.pipeline.measure",
    "heads.data.splits",
    "heads.training.fitters.whitening",
    "heads.training.task",
    "heads.training.fitters.batched",
    "heads.training.fitters.batched",
    "heads.training.fitters.batched",
    "heads.training.fitters.base",
    "heads.training.fitters.lbfgs",
    "heads.training.fitters.logistic",
    "heads.training.fitters.adamw",
    "heads.training.fitters.successive_halving",
    "heads.training.fitters.logistic",
    "heads.training.fitters.sgd",
    "heads.training.fitters.closed_form",
    "heads.training.fitters.token_sgd",
    "heads.training.trial",
    "heads.training.search",
    "heads.training.racing",
    "heads.training.scheduler",
    "heads.training.search",
    "heads.pipeline.grid",
    "heads.runs.folder",
    "heads.runs.folder",
    "heads.runs.cells",
    "heads.runs.unseen_classes",
    "heads.runs.spec",
    "heads.runs.spec",
    "heads.runs.baselines",
    "heads.runs.trained_heads",
    "heads.runs.notes",
    "heads.runs.racing",
    "heads.runs.leaderboard",
    "heads.runs.learning_curve",
    "heads.runs.preparation",
    "heads.runs.duration",
    "heads.runs.runner",
    "heads.runs.runner",
    "heads.runs.leaderboard",
    "heads.runs.drill_down",
    "heads.runs.drill_down",
    "heads.runs.drill_down",
    "heads.pipeline.runs",
    "heads.api",
    "heads.study.mteb",
    "heads.training.sampled",
    "heads.api",
    "heads.analysis.comparison",
    "heads.analysis.comparison",
    "heads.analysis.attribution_methods",
    "heads.analysis.attribution",
    "heads.analysis.integrated_gradients",
    "heads.analysis.integrated_gradients",
    "heads.analysis.selection",
    "heads.analysis.selection",
    "heads.analysis.attribution",
    "heads.analysis.neighbors",
    "heads.analysis.ablation",
    "heads.analysis.ablation",
    "heads.analysis.ablation",
    "heads.analysis.counterfactuals",
    "heads.api",
    "heads.pipeline.look",
    "heads.api",
    "heads.exporters.model_card",
    "heads.exporters.calibrated",
    "heads.exporters.matching",
    "heads.exporters.portable_sources",
    "heads.exporters.portable_sources",
    "heads.exporters.portable_template",
    "heads.exporters.portable",
    "heads.exporters.portable",
    "heads.exporters.portable",
    "heads.exporters.verification",
    "heads.exporters.portable",
    "heads.exporters.onnx",
    "heads.exporters.onnx",
    "heads.exporters.transformers",
    "heads.exporters.export",
    "heads.analysis.padding.subject",
    "heads.analysis.padding.subject",
    "heads.analysis.padding.cases",
    "heads.analysis.padding.reasons",
    "heads.analysis.padding.report",
    "heads.interfaces.views.comparison",
    "heads.interfaces.views.comparison",
    "heads.interfaces.views.explanation",
    "heads.interfaces.web.app.guards",
    "heads.interfaces.web.app.endpoints",
    "heads.interfaces.web.app.theme",
    "heads.interfaces.web.app.gradio_patches",
    "heads.interfaces.web.app.startup",
    "heads.interfaces.web.app.links",
    "heads.interfaces.web.app.tabs.compare_outputs",
    "heads.interfaces.web.app.tabs.recipe_picker",
    "heads.interfaces.web.app.tabs.export_panel",
    "heads.interfaces.web.app.tabs.recipe_picker",
    "heads.interfaces.web.app.tabs.compare",
    "heads.interfaces.web.app.tabs.compare",
    "heads.interfaces.web.app.tabs.explain",
    "heads.interfaces.web.app.tabs.catalog",
    "heads.interfaces.web.app.tabs.padding",
    "heads.interfaces.views.charts",
    "heads.interfaces.views.format",
    "heads.interfaces.cli.app.tables",
    "heads.interfaces.views.head_details",
    "heads.interfaces.views.predictions",
    "heads.interfaces.views.interpretation",
    "heads.interfaces.views.leaderboard",
    "heads.interfaces.views.head_details",
    "heads.interfaces.views.head_details",
    "heads.interfaces.views.leaderboard",
    "heads.interfaces.views.report",
    "heads.interfaces.web.app.run_access",
    "heads.interfaces.web.app.tabs.inspect",
    "heads.interfaces.web.app.tabs.inspect",
    "heads.interfaces.web.app.guards",
    "heads.interfaces.web.app.tabs.leaderboard",
    "heads.interfaces.web.app.tabs.train",
    "heads.interfaces.views.dataset",
    "heads.interfaces.web.app.uploads",
    "heads.interfaces.web.app.tabs.train_data",
    "heads.interfaces.web.app.tabs.train_data",
    "heads.interfaces.web.app.tabs.train_settings",
    "heads.interfaces.web.app.tabs.train_settings",
    "heads.interfaces.web.app.training_process",
    "heads.interfaces.web.app.tabs.train",
    "heads.interfaces.web.app.tabs.leaderboard",
    "heads.interfaces.web.app.endpoints",
    "heads.interfaces.web.app",
    "heads.interfaces.cli.app.tables",
    "heads.interfaces.cli.app.commands",
    "heads.interfaces.cli.app.commands",
    "heads.interfaces.cli.app.inspect",
    "heads.interfaces.cli.app.commands",
    "heads.interfaces.cli.app.train",
    "heads.interfaces.cli.app.train",
    "heads.interfaces.cli.app",
]
# Packages whose import takes long, which `import heads` must not touch.
HEAVY = (
    "torch", "transformers", "gradio", "plotly", "numpy", "pandas", "rich",
    "sklearn", "scipy", "threadpoolctl", "pyarrow",
)  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports, at any depth of its code."""
    known = {module_of(other) for other in FILES}
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inner]
        found |= {name for name in names if name in known}
    return found


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_only_down(path):
    module = module_of(path)
    if module in ("heads", "heads.__main__", "heads.parts", "heads.pipeline", "heads.interfaces"):
        return
    assert module in ORDER, f"{module} has no place in the order yet"
    below = {"heads", *ORDER[: ORDER.index(module)]}
    # A package's name stands for its __init__, which holds nothing here.
    packages = {"heads.parts", "heads.pipeline", "heads.interfaces"}
    packages |= {
        f"heads.pipeline.{name}"
        for name in ("doctor", "standalone", "table", "measure", "grid", "runs", "look")
    }
    assert imports_of(path) <= below | packages


def test_the_order_names_only_what_exists():
    assert set(ORDER) <= {module_of(path) for path in FILES}


def test_import_heads_is_light():
    code = "import sys, heads; print([name for name in sys.argv[1:] if name in sys.modules])"
    command = [sys.executable, "-c", code, *HEAVY]
    assert subprocess.check_output(command, text=True, cwd=ROOT).strip() == "[]"


def test_every_public_name_loads_and_is_listed():
    import heads

    assert {"compare", "explain", "pooling", "head"} <= set(heads.__all__)
    for name in heads.__all__:
        assert getattr(heads, name) is not None
    assert dir(heads) == sorted(heads.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = heads.nonsense


def test_only_settings_reads_the_environment():
    readers = [module_of(path) for path in FILES if "os.environ" in path.read_text("utf-8")]
    assert readers == ["heads.settings"]


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_and_functions_stay_within_a_screenful_or_two(path):
    text = path.read_text("utf-8")
    assert text.count("\n") <= 320
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 55, node.name


def test_the_readme_tables_are_fresh():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import tables
    finally:
        sys.path.pop(0)
    for page in (tables.README, tables.CATALOGUE):
        text = page.read_text("utf-8")
        assert tables.fresh(text) == text, "run: make docs"
        for name in re.findall(r"<!-- /(\w+) -->", text):
            assert name in tables.tables()


def test_requirements_pin_what_the_package_asks_for():
    pins = (ROOT / "requirements.txt").read_text("utf-8")
    assert "torch==2.13.0\n" in pins
    # A Space installs Gradio by the front matter; it must be the tested one.
    version = next(line for line in pins.splitlines() if line.startswith("gradio==")).split("==")[1]
    assert f'sdk_version: "{version}"' in (ROOT / "README.md").read_text("utf-8")
