"""Extras plug in: without them the core is whole, and anybody can write one."""

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from heads import plugins

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(path.parent.name for path in (ROOT / "heads" / "extras").glob("*/__init__.py"))
SHOWN = """
import json, sys
import typer
import heads
from heads import plugins
from heads.interfaces.cli import app
from heads.interfaces.views.sections import result_sections
from heads.interfaces.web.app import build

page = build().blocks
calls = [call.api_name for call in page.fns.values() if call.api_visibility == "public"]
markup = [str(block.value) for block in page.blocks.values() if type(block).__name__ == "HTML"]
print(json.dumps({
    "extras": [extra.name for extra in plugins.extras()],
    "verbs": dir(heads),
    "commands": list(app._load_commands("--help").commands),
    "sections": [section.name for section in result_sections()],
    "endpoints": calls,
    "topics": [text for text in markup if "<h2" in text],
}))
"""


def run_code(code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that also imports what lies in a folder."""
    search = os.pathsep.join(map(str, filter(None, (path, ROOT))))
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": search}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


def list_shown(*before: str, path: Path | None = None) -> dict:
    """Return what a fresh process offers after some lines of code."""
    code = "\n".join(["import sys", *before, SHOWN])
    output = run_code(code, path)
    assert output.returncode == 0, output.stderr
    return json.loads(output.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def whole():
    return list_shown()


def test_without_any_extra_page_and_shell_show_the_core_and_nothing_else(whole):
    core = list_shown("sys.modules['heads.extras'] = None")
    assert core["extras"] == []
    assert set(whole["extras"]) >= set(FOLDERS)
    for kind, names in core.items():
        assert set(names) <= set(whole[kind]), kind
    assert set(core["commands"]) >= {
        "compare", "explain", "diff", "parts", "families", "padding", "fetch", "export", "app",
        "read", "train", "runs", "predict", "evaluate", "inspect", "edit", "ablate", "readings",
    }  # fmt: skip
    added = {name for extra in plugins.extras() for name in extra.verbs}
    assert set(whole["verbs"]) - set(core["verbs"]) == added
    assert set(core["sections"]) == {
        "tuning", "rows", "confidence", "mistakes", "disagreements", "size", "layers", "estimates",
        "numbers", "models",
    }  # fmt: skip
    has_topics = any(extra.page_sections for extra in plugins.extras())
    assert (len(core["topics"]) < len(whole["topics"])) == has_topics


@pytest.mark.parametrize("name", FOLDERS)
def test_an_extra_knows_no_other_and_its_manifest_imports_only_the_registry(name):
    folder = ROOT / "heads" / "extras" / name
    others = {f"heads.extras.{other}" for other in FOLDERS if other != name}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                assert ".".join(module.split(".")[:3]) not in others, (path, module)
                if path == folder / "__init__.py":
                    assert module == "heads.plugins"


def test_the_core_imports_no_extra():
    registry = ROOT / "heads" / "plugins.py"
    for path in (ROOT / "heads").rglob("*.py"):
        if "extras" not in path.parts and path != registry:
            assert "heads.extras" not in path.read_text("utf-8"), path


@pytest.mark.parametrize("arguments", [[], ["compare", "--help"]])
def test_no_extra_is_loaded_before_it_is_needed(arguments):
    code = f"""
import sys
import heads
from heads.interfaces.cli.app import main
{"main(" + repr(arguments) + ")" if arguments else "heads.compare"}
print([name for name in sys.modules if name.startswith("heads.extras")])
"""
    output = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)
    assert output.splitlines()[-1] == "[]"


def test_whatever_an_extra_names_is_there():
    for extra in plugins.extras():
        references = [*extra.verbs.values(), *extra.run_backends.values()]
        references += [*extra.data_sources.values(), *extra.base_models.values()]
        parts = (getattr(extra, field.name) for field in fields(extra))
        references += [part for part in parts if isinstance(part, str) and part[:6] == "heads."]
        assert references, extra.name
        for reference in references:
            assert plugins.load(reference) is not None


# The example of the docs.
DOCS = (ROOT / "docs/extras.md").read_text("utf-8")
PLUGIN, PARTS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture
def installed(tmp_path):
    """A package of somebody else, installed with an entry point."""
    package, facts = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    package.mkdir()
    facts.mkdir()
    (package / "__init__.py").write_text(PLUGIN, "utf-8")
    (package / "parts.py").write_text(PARTS, "utf-8")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    entry_points = "[heads.plugins]\nsample = my_package:EXTRA\n"
    (facts / "entry_points.txt").write_text(entry_points + "broken = my_package:NOTHING\n")
    return tmp_path


def test_somebody_elses_extra_adds_a_command_a_section_and_a_verb(installed, whole):
    shown = list_shown(path=installed)
    for kind, name in (
        ("extras", "my_extra"), ("verbs", "count_words"), ("commands", "words"),
        ("sections", "count"),
    ):  # fmt: skip
        assert set(shown[kind]) - set(whole[kind]) == {name}
    code = """
import heads
from heads.interfaces.cli.app import main
print(heads.count_words("a b"))
main(["words", "-t", "a b", "--text", "a b c", "--json"])
"""
    output = run_code(code, installed)
    assert output.stdout.splitlines()[0] == "2"
    assert json.loads(output.stdout.partition("\n")[2]) == {"words": [2, 3]}
    assert "my_package:NOTHING cannot be loaded" in output.stderr


FAULTY = """
from heads.plugins import Extra

REFERENCE = "faulty_plugin.parts:"
EXTRA = Extra(
    name="faulty",
    summary="Whatever can be wrong is wrong.",
    commands="faulty_plugin.nowhere",
    run_backends={"ray": REFERENCE + "fail"},
    data_sources={"hub": REFERENCE + "fail", "wrong": "nowhere:reader"},
    base_models={"wrong-": "nowhere:source"},
    result_sections=REFERENCE + "RESULTS",
    lane_sections=REFERENCE + "LANES",
    page_sections=REFERENCE + "PAGES",
    endpoints=REFERENCE + "ENDPOINTS",
)
"""
FAULTY_PARTS = """
from heads.interfaces.views.sections import ResultSection
from heads.interfaces.web.lane_sections import LaneSection
from heads.interfaces.web.page_sections import PageSection

FAIL = "faulty_plugin.parts:fail"


def fail(*arguments):
    raise ValueError("as written")


def compare(text: str) -> str:
    return text


def count(text: str) -> str:
    return text


RESULTS = (
    ResultSection(name="faulty", question="What fails?", answer=FAIL, charts=FAIL),
    ResultSection(name="rows", question="A second one?", answer=FAIL),
)
LANES = (
    LaneSection(name="why", title="Why", draw=FAIL, load=FAIL),
    LaneSection(name="faulty", title="Faulty", draw=FAIL, load=FAIL),
)
PAGES = (PageSection(place="learn", name="faulty", draw=FAIL, title="What fails?"),)
ENDPOINTS = ((compare, "infer"), (count, "nowhere"))
"""


@pytest.mark.needs_extra("hub")
@pytest.mark.needs_extra("scale")
def test_a_faulty_extra_takes_nothing_away(installed):
    package = installed / "my_package"
    (installed / "faulty_plugin").mkdir()
    (installed / "faulty_plugin" / "__init__.py").write_text(FAULTY, "utf-8")
    (installed / "faulty_plugin" / "parts.py").write_text(FAULTY_PARTS, "utf-8")
    entry_points = "[heads.plugins]\nfaulty = faulty_plugin:EXTRA\nother = my_package:EXTRA\n"
    facts = installed / "my_package-1.0.dist-info" / "entry_points.txt"
    facts.write_text(f"{entry_points}same = my_package.parts:EXTRA\n", "utf-8")
    with (package / "parts.py").open("a", encoding="utf-8") as parts:
        parts.write("from my_package import EXTRA as _EXTRA\n")
        parts.write("from dataclasses import replace\nEXTRA = replace(_EXTRA, summary='')\n")
    code = """
import heads
from heads import plugins
from heads.interfaces.cli.app import main
from heads.interfaces.views.sections import FAILED, SectionSubject, find_sections
from heads.interfaces.web.app import build
from heads.interfaces.web.lane_sections import lane_sections

assert main(["words", "--text", "a b c"]) == 0
assert main(["--help"]) == 0
assert main(["read", "wrong:data"]) == 2
assert plugins.load_data_source("hub").__module__.startswith("heads.extras.hub")
assert plugins._merge("run_backends")["ray"][0].name == "scale"
assert [section.name for section in lane_sections()].count("why") == 1
(section,) = find_sections(["faulty"])
assert section.find_answer(None).sentences == (FAILED,)
assert section.draw_charts(None) == []
assert find_sections(["rows"])[0].question != "A second one?"
try:
    plugins.load("faulty_plugin.parts:fail")()
except ValueError as error:
    print("faulty:", plugins.find_faulty_extra(error))
build()
print("built")
"""
    output = run_code(code, installed)
    assert output.returncode == 0, output.stderr
    assert "faulty: faulty" in output.stdout
    assert "built" in output.stdout
    for sentence in (
        "The extra 'faulty' is broken: faulty_plugin.nowhere cannot be loaded",
        "my_package.parts:EXTRA is left out",
        "cannot add 'hub'",
        "cannot add 'ray'",
        "two lane sections called 'why'",
        "The lane section 'faulty' cannot be drawn (ValueError: as written)",
        "The page section 'faulty' cannot be drawn",
        "The endpoint 'compare' of an extra is left out",
        "The endpoint 'count' of an extra is left out",
    ):
        assert output.stderr.count(sentence) == 1, (sentence, output.stderr)
