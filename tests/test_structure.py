"""The shape of the house: who may import whom, what is light, what is public."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from heads import plugins

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "heads").rglob("*.py"))
# Packages whose import takes long, which `import heads` must not touch.
HEAVY = (
    "torch", "transformers", "gradio", "plotly", "numpy", "pandas", "rich",
    "sklearn", "scipy", "threadpoolctl", "pyarrow",
)  # fmt: skip


def test_imports_point_only_down(capsys):
    """By the contracts of pyproject.toml, which name rooms."""
    config, known = str(ROOT / "pyproject.toml"), logging.Logger.manager.loggerDict
    heard = [one for one in known.values() if isinstance(one, logging.Logger) and not one.disabled]
    status = lint_imports(config_filename=config, no_cache=True)
    for one in heard:
        one.disabled = False  # it turns off every logger that is there, ours among them
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_import_heads_is_light():
    code = "import sys, heads; print([name for name in sys.argv[1:] if name in sys.modules])"
    command = [sys.executable, "-c", code, *HEAVY]
    assert subprocess.check_output(command, text=True, cwd=ROOT).strip() == "[]"


def test_every_public_name_loads_and_is_listed():
    import heads

    assert {"compare", "explain", "pooling", "head"} <= set(heads.__all__)
    for name in heads.__all__:
        assert getattr(heads, name) is not None
    assert {*dir(heads)} == {*heads.__all__, *plugins.verbs()}
    for name in plugins.verbs():
        assert callable(getattr(heads, name))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = heads.nonsense


def test_only_settings_reads_the_environment():
    core = [path for path in FILES if "extras" not in path.parts]
    readers = [path.name for path in core if "os.environ" in path.read_text("utf-8")]
    assert readers == ["settings.py"]


def test_the_readme_tables_are_fresh():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import tables
    finally:
        sys.path.pop(0)
    for page in tables.PAGES:
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
