"""What the package holds, and what an index would show of it."""

import configparser
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from deploy import package
from deploy.package import ROOT, PackageError

pytest.importorskip("hatchling", reason="`make test` installs what builds the package")


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Wheel and source, built as `build` has them built."""
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def wheel(dist) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(dist.glob("*.whl")))


@pytest.fixture(scope="module")
def about(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_the_wheel_holds_all_of_heads_its_samples_and_nothing_else(wheel):
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tree = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "heads").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    samples = {f"heads/assets/examples/{path.name}" for path in _files("assets/examples")}
    assert found == tree | samples
    for needed in ("py.typed", "interfaces/web/page.js", "interfaces/views/templates/lanes.html"):
        assert f"heads/{needed}" in found


def test_both_commands_are_one(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    said = configparser.ConfigParser()
    said.read_string(wheel.read(name).decode())
    commands = dict(said["console_scripts"])
    assert set(commands) == {"heads", "head-to-head"}
    assert len(set(commands.values())) == 1


def test_an_index_shows_the_readme_without_the_front_matter_of_the_space(about):
    text = about.get_payload()
    assert text.lstrip().startswith("# Head to Head\n")
    assert "sdk_version" not in text
    if "Project-URL" not in about:  # without an address no link to a file can be right
        assert not re.findall(r"\]\((?!https?:)", text)
    # Code is shown as it was written.
    original = (ROOT / "README.md").read_text("utf-8")
    code = re.compile(r"^```.*?^```$", re.M | re.S)
    assert code.findall(text) == code.findall(original)
    tables = re.compile(r"^\|.*\|$", re.M)
    assert len(tables.findall(text)) == len(tables.findall(original))


def test_the_source_can_be_tested_and_holds_no_leftovers(dist):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert tests <= names
    needed = ("README.md", "LICENSE", "Makefile", "app.py", "requirements.txt", "docs/tables.py")
    assert names.issuperset(needed)
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def test_a_tag_names_the_version():
    package.check_tag(f"v{package.version()}")
    with pytest.raises(PackageError, match=r"v0\.0\.0 is not v"):
        package.check_tag("v0.0.0")


def test_what_lies_in_the_folder_is_not_built_over(tmp_path):
    (tmp_path / "old.whl").touch()
    with pytest.raises(PackageError, match="something in"):
        package.build(tmp_path)


def _files(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).iterdir() if path.is_file()]
