"""The shell as a user runs it, and a small run that it has trained."""

import contextlib
import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from served import quick_runs

from heads.data.samples import SAMPLES
from heads.interfaces.cli.app import main

ROWS = 60
RECIPES = ("mean+linear", "cls+ridge", "mean+roberta")
TRAIN = [part for recipe in RECIPES for part in ("-r", recipe)]
QUICK = ["--folds", "2", "--no-curve"]


def write_rows(name, path):
    """Write sixty rows of a sample."""
    with SAMPLES[name].path.open(encoding="utf-8", newline="") as whole:
        rows = list(csv.reader(whole))
    with path.open("w", encoding="utf-8", newline="") as part:
        csv.writer(part).writerows(rows[: ROWS + 1])
    return path


@pytest.fixture(scope="module")
def file(place):
    return write_rows("sentiment", place / "reviews.csv")


def quiet(*arguments):
    """The exit code, stdout and stderr, for a fixture."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(map(str, arguments)))
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """What `heads train --json` printed of a small run, which is trained once for all files."""
    place = tmp_path_factory.mktemp("trained")
    with quick_runs(place):
        file = write_rows("sentiment", place / "reviews.csv")
        code, out, err = quiet("train", file, *TRAIN, *QUICK, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def trained(place, trained_once):
    """The same of a copy of that run, among the runs of this file."""
    folder = Path(trained_once["folder"])
    copy = shutil.copytree(folder, place / "runs" / folder.name)
    return trained_once | {"folder": str(copy)}


def run(capfd, *arguments):
    capfd.readouterr()
    code = main(list(map(str, arguments)))
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return code, out, err
