"""`benchmarks/gpu.sh` runs through without a GPU, and one part that fails leaves the others."""

import doctest
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import gpu

ROOT = Path(gpu.__file__).parents[1]
BROKEN = f"""#!{sys.executable}
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from benchmarks import gpu_parts
def found(work): return {{"numbers": [1.0]}}
def crashes(work): os.kill(os.getpid(), signal.SIGSEGV)
def hangs(work): time.sleep(600)
def raises(work): raise RuntimeError("CUDA error: an illegal memory access")
def lacks(work): import no_such_package
works = (found, crashes, hangs, raises, lacks, found)
gpu_parts.PARTS = dict(zip(gpu_parts.TOLERANCES, works))
sys.argv = ["", sys.argv[-1]]
gpu_parts.main()
"""


def test_examples_in_docstrings_hold():
    assert doctest.testmod(gpu).failed == 0


@pytest.mark.slow
def test_a_part_that_crashes_or_hangs_leaves_the_others(tmp_path, monkeypatch):
    (tmp_path / "python").write_text(BROKEN)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(gpu.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(gpu, "LONGEST", 2)
    names = list(gpu.PARTS)[:6]
    asked = {"device": "cpu", "quick": True, "model": str(tmp_path), "place": str(tmp_path / "a")}
    found = gpu.run_parts(names, asked, os.environ, time.monotonic() + 500)
    errors = [found[name].get("error", "") for name in names]
    assert errors[0] == errors[5] == ""
    assert "-11" in errors[1]
    assert errors[2] == gpu.TOO_LONG
    assert "illegal memory access" in errors[3]
    assert "no_such_package" in errors[4]
    assert [name for name in names if "left" in found[name]] == names[4:5]
    late = gpu.run_parts(names, {**asked, "place": str(tmp_path / "b")}, os.environ, 0.0)
    assert all(late[name]["left"] for name in names)


@pytest.mark.parametrize(
    ("device", "processor", "result"),
    [
        ({"numbers": [1.0, 2.0]}, {"numbers": [1.0, 2.000001]}, "same"),
        ({"numbers": [1.0, 2.0]}, {"numbers": [1.0, 2.1]}, "differs"),
        ({"numbers": [float("nan")]}, {"numbers": [1.0]}, "differs"),
        ({"numbers": []}, {"numbers": [1.0]}, "differs"),
        ({"error": "it broke"}, {"numbers": [1.0]}, "failed"),
        ({"numbers": [1.0]}, {"error": "no time", "left": True}, "left out"),
        ({"error": "it broke"}, {"error": "no Gradio", "left": True}, "failed"),
    ],
)
def test_a_row_says_what_became_of_a_part(device, processor, result):
    row = gpu.compared("encode", device, processor)
    assert row["result"] == result
    assert f"| {result} |" in gpu.table({"device": "cuda", "facts": {}, "parts": [row]})


def test_only_packages_that_are_missing_are_installed(tmp_path, monkeypatch):
    for name in ("torch-2.0.0-py3-none-any.whl", "no_such_package-1.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    commands = list[list[str]]()
    monkeypatch.setattr(gpu.subprocess, "run", lambda command, **_: commands.append(command))
    gpu.prepare(tmp_path / "site", tmp_path)
    ((*_, last),) = commands
    assert Path(last).name == "no_such_package-1.0-py3-none-any.whl"
    assert not any("torch-" in word for word in commands[0])


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["bash", str(ROOT / "benchmarks" / "gpu.sh"), *arguments]
    own = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, env=own)


def test_without_a_gpu_the_script_says_so():
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    done = run()
    assert done.returncode == 2
    assert "--device cpu" in done.stderr


@pytest.mark.slow
def test_the_script_runs_through_on_the_processor(tmp_path):
    out = tmp_path / "report.json"  # the cores are shared, so it may take longer than on a GPU
    done = run("--device", "cpu", "--quick", "--minutes", "20", "--out", str(out))
    assert done.returncode == 0, done.stdout
    rows = json.loads(out.read_text("utf-8"))["parts"]
    assert [row["part"] for row in rows] == list(gpu.PARTS)
    for row in rows:
        wanted = "ran" if row["allowed"] is None else "same"
        assert row["result"] == wanted or row["part"] == "page: one request", row
        assert (row["difference"] or 0) <= 1e-6  # the processor beside itself
