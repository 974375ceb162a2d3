"""The locks hold what requirements.txt says, and only files whose hashes are known."""

import re

import pytest
from packaging.requirements import Requirement

from deploy import locks
from deploy.locks import CPU_LOCK, LOCK, ROOT

PINS = [
    Requirement(line)
    for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
PLACES = [
    {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": system,
     "platform_machine": machine, "platform_system": system.capitalize(),
     "implementation_name": "cpython", "platform_python_implementation": "CPython"}
    for version in ("3.10", "3.11", "3.12", "3.13")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]  # fmt: skip


def installed(path, place):
    """The versions that a lock installs in a place, by package."""
    found = {}
    for entry in locks.entries(path.read_text("utf-8")):
        one = Requirement(entry.split("\\\n")[0].strip())
        if one.marker is None or one.marker.evaluate(place):
            assert one.name not in found, f"{one.name} twice"
            found[one.name] = str(one.specifier).removeprefix("==")
    return found


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", [LOCK, CPU_LOCK], ids=lambda path: path.name)
@pytest.mark.parametrize("place", PLACES, ids=lambda one: " ".join(list(one.values())[1:4]))
def test_a_lock_installs_every_pin_and_no_other_version(path, place):
    asked = {
        plain(pin.name): str(pin.specifier).removeprefix("==")
        for pin in PINS
        if pin.marker is None or pin.marker.evaluate(place)
    }
    found = installed(path, place)
    assert {name: found[name].split("+")[0] for name in asked} == asked


@pytest.mark.parametrize("path", [LOCK, CPU_LOCK], ids=lambda path: path.name)
def test_every_package_of_a_lock_has_hashes(path):
    text = path.read_text("utf-8")
    found = locks.entries(text)
    assert len(found) > 80
    for entry in found:
        assert re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.MULTILINE), entry
        assert re.match(r"[a-z0-9.-]+==[^ ]+( ;|$| \\)", entry), entry
    rest = "".join(text.split(entry)[-1] for entry in found[-1:])
    assert rest == ""


def test_the_cpu_lock_follows_from_the_other():
    assert CPU_LOCK.read_text("utf-8") == locks.for_cpu(LOCK.read_text("utf-8"))
    assert "nvidia" not in CPU_LOCK.read_text("utf-8")
    pin = next(pin for pin in PINS if pin.name == "torch")
    assert f"{pin}+cpu" == locks.TORCH
