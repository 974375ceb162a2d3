"""Writes the locks: every package that is installed, with hashes of its files; ``make locks``.

``python -m deploy.locks [--upgrade]``. ``requirements.lock`` follows from requirements.txt by uv,
for Python 3.10 and newer on every system, with the hashes of PyPI's files; what it holds already
stays unless ``--upgrade`` is given. ``requirements-cpu.lock`` is the same without what torch needs
for NVIDIA's GPUs: its torch is PyTorch's CPU build, much smaller, which is not on PyPI.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.venvs import environment

ROOT = Path(__file__).parents[1]
LOCK, CPU_LOCK = ROOT / "requirements.lock", ROOT / "requirements-cpu.lock"
UV = "uv==0.13.9"
FOR_GPUS = re.compile(r"nvidia-|cuda-|triton$")
TORCH = "torch==2.13.0+cpu"
# Of the files torch-2.13.0+cpu-… of that index, for Linux: CPython 3.11 on x86_64, 3.12 on x86_64
# and on aarch64. The first was compared with a file; the others are as other projects' locks have
# them. A wrong one would end an installation, and let nothing in.
TORCH_SHA256 = (
    "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
)
SAYS = """\
# Every package of requirements.txt and all that they need, with the hashes of their files{of}.
# Written by `make locks`; install with: pip install --require-hashes -r {name}
"""


def entries(text: str) -> list[str]:
    r"""The packages of a lock, each with its hashes.

    >>> entries("# by uv\na==1 \\\n    --hash=sha256:0\nb==2 \\\n    --hash=sha256:1\n")
    ['a==1 \\\n    --hash=sha256:0\n', 'b==2 \\\n    --hash=sha256:1\n']
    """
    return re.findall(r"^[A-Za-z0-9].*\n(?:^ .*\n)*", text, re.MULTILINE)


def name_of(entry: str) -> str:
    """The package of an entry.

    >>> name_of("torch==2.13.0 ; sys_platform == 'linux'")
    'torch'
    """
    return entry.split("==")[0]


def for_cpu(text: str) -> str:
    """The lock without what only GPUs need, from the lock with it."""
    hashes = " \\\n".join(f"    --hash=sha256:{one}" for one in TORCH_SHA256)
    torch = f"{TORCH} \\\n{hashes}\n"
    found = [
        torch if name_of(one) == "torch" else one
        for one in entries(text)
        if not FOR_GPUS.match(name_of(one))
    ]
    more = ";\n# torch is PyTorch's CPU build for Linux: --extra-index-url has to name their index"
    head = SAYS.format(of=more, name=CPU_LOCK.name)
    return head + "".join(found)


def resolved(upgrade: bool) -> str:
    """The lock as uv finds it now."""
    place = environment("locks", ROOT / "build", {"locks": (UV,)})
    if place.python is None:
        raise SystemExit(f"make locks: {UV} could not be installed: {place.reason}.")
    command = [str(place.python), "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
    command += ["--universal", "--python-version=3.10", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", f"--output-file={LOCK}"]
    subprocess.run([*command, *["--upgrade"] * upgrade, "requirements.txt"], cwd=ROOT, check=True)
    return SAYS.format(of="", name=LOCK.name) + "".join(entries(LOCK.read_text("utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes both locks."""
    parser = argparse.ArgumentParser(prog="python -m deploy.locks", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take what is newest of the rest")
    asked = parser.parse_args(arguments)
    text = resolved(asked.upgrade)
    LOCK.write_text(text, "utf-8")
    CPU_LOCK.write_text(for_cpu(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
