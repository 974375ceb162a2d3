"""A new pooling is one function: menus, shell, API, README and contract tests follow."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POOLING = '''

@pooling
def second(mask: Tensor, states: Tensor) -> Tensor:
    """The second real token, which is the first word.

    Formula: h = h₂
    Source: an example.
    """
    return mask * (mask.cumsum(dim=1) == mask.sum(dim=1, keepdim=True).clamp(max=2))
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with one pooling more, and no other edit."""
    folder = tmp_path_factory.mktemp("project")
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=ignore, dirs_exist_ok=True)
    with (folder / "heads/parts/poolings.py").open("a", encoding="utf-8") as file:
        file.write(POOLING)
    return folder


def run(copy, *command):
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.check_output(
        [sys.executable, *command], text=True, cwd=copy, env=environment, stderr=subprocess.STDOUT
    )


def test_it_is_eight_lines():
    assert len(POOLING.strip().splitlines()) == 8


@pytest.mark.slow
def test_it_is_in_the_menu_of_the_page_and_in_the_api(copy):
    code = (
        "import heads, json\n"
        "from heads.interfaces.web import endpoints\n"
        "from heads.interfaces.web.app import build\n"
        f"assert heads.__file__.startswith({str(copy)!r})\n"
        "served = build()\n"
        "served.launch()\n"
        "served.opening.wait(served.blocks)\n"  # its menus are made afterwards
        "page = json.dumps(served.blocks.config['components'], default=str)\n"
        "from heads.interfaces.web.location import OPENING\n"
        "from heads.interfaces.web.places import answers\n"
        "menu = answers.line(OPENING, 1)\n"
        "print(json.dumps(['second+linear' in page, 'value=\"second\"' in menu,"
        " 'second' in json.dumps(endpoints.parts())]))"
    )
    assert json.loads(run(copy, "-c", code).splitlines()[-1]) == [True, True, True]


@pytest.mark.slow
def test_it_is_in_the_shell(copy):
    listed = json.loads(run(copy, "-m", "heads", "parts", "--json"))
    assert listed["poolings"][-1]["says"] == "The second real token, which is the first word."
    found = json.loads(
        run(copy, "-m", "heads", "compare", "Fine.", "-r", "second+linear", "--json")
    )
    assert found["recipes"][0]["recipe"] == "second+linear"


@pytest.mark.slow
def test_it_is_in_the_readme(copy):
    run(copy, "docs/tables.py")
    assert "| `second` | The second real token" in (copy / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_it_is_under_the_contract_tests(copy):
    out = run(copy, "-m", "pytest", "tests/parts/test_poolings.py", "-k", "second")
    passed = re.search(r"(\d+) passed", out)
    assert passed
    assert int(passed[1]) >= 5
