"""The workflows: Actions by their commits, no more rights than to read, commands that exist."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_runs_known_actions(path):
    found = yaml.safe_load(path.read_text("utf-8"))
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        # One job may prove who it is to the index; it runs nothing of this repository.
        if "permissions" in job:
            assert (path.name, job["permissions"]) == ("publish.yml", {"id-token": "write"})
            assert not any("actions/checkout" in step.get("uses", "") for step in job["steps"])
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"]), step
    assert "pull_request_target" not in path.read_text("utf-8")
    assert "secrets." not in path.read_text("utf-8")


def test_the_audit_reads_the_lock_and_follows_its_changes():
    found = yaml.safe_load((ROOT / ".github/workflows/audit.yml").read_text("utf-8"))
    on = found[True]  # YAML 1.1 reads `on` so
    assert on["schedule"]
    for event in ("push", "pull_request"):
        assert "requirements.lock" in on[event]["paths"]
        assert all((ROOT / name).exists() for name in on[event]["paths"])
    commands = [step["run"] for step in found["jobs"]["audit"]["steps"] if "run" in step]
    assert "--requirement requirements.lock" in commands[-1]
    assert "--strict" in commands[-1]  # what could not be looked up is no pass


def test_the_tests_are_those_of_ci():
    assert "bash .ci/run" in (ROOT / ".github/workflows/tests.yml").read_text("utf-8")


def test_a_tag_is_published_after_its_wheel_was_tried_on_every_python():
    found = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text("utf-8"))
    assert found[True] == {"push": {"tags": ["v*"]}}
    jobs = found["jobs"]
    assert set(jobs["publish"]["needs"]) == {"build", "try"}
    about = (ROOT / "pyproject.toml").read_text("utf-8")
    said = re.findall(r"Programming Language :: Python :: (3\.\d+)", about)
    assert jobs["try"]["strategy"]["matrix"]["python"] == said
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert 'python -m deploy.package --only-build --tag "$GITHUB_REF_NAME"' in commands
    assert "python -m deploy.package --only-try" in commands
