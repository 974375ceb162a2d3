"""The image: what its Dockerfile says, and that its health check tells the living from the dead."""

import json
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text("utf-8")
STEPS = [
    tuple(re.split(r"\s+", step.strip(), maxsplit=1))
    for step in re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.M)).splitlines()
    if step.strip()
]
LAST = STEPS[max(at for at, (name, _) in enumerate(STEPS) if name == "FROM") :]


def said(name):
    return [rest for step, rest in LAST if step == name]


def test_every_stage_begins_from_one_image_of_the_python_of_the_space():
    images = {rest.split()[0] for name, rest in STEPS if name == "FROM"}
    assert len(images) == 1
    version = re.search(r'^python_version: "(.+)"$', (ROOT / "README.md").read_text("utf-8"), re.M)
    image = rf"python:{re.escape(version[1])}\.\d+-slim-\w+@sha256:[0-9a-f]{{64}}"
    assert re.fullmatch(image, images.pop())


def test_packages_are_installed_by_their_hashes_alone():
    installs = [rest for name, rest in STEPS if name == "RUN" and "pip" in rest]
    assert installs
    assert all("--require-hashes" in rest and "--only-binary=:all:" in rest for rest in installs)


def test_it_runs_as_nobody_of_weight_in_public_mode():
    assert LAST.index(("USER", "1000:1000")) < [name for name, _ in LAST].index("CMD")
    settings = dict(pair.split("=", 1) for pair in shlex.split(said("ENV")[0]))
    assert settings["HEADS_PUBLIC"] == "1"
    assert settings["GRADIO_SERVER_PORT"] == said("EXPOSE")[0] == "7860"
    written = ("HOME", "TMPDIR", "GRADIO_TEMP_DIR")
    assert all(f"{settings[name]}/".startswith("/data/") for name in written)
    assert said("VOLUME") == ["/data"]
    assert said("STOPSIGNAL") == ["SIGINT"]  # Python as the first process ignores SIGTERM
    assert "exec python app.py" in said("CMD")[0]


def test_it_copies_the_app_and_the_builder_sees_no_more():
    copied = [
        shlex.split(rest)[:-1] for name, rest in STEPS if name == "COPY" and "--from" not in rest
    ]
    names = {name for names in copied for name in names}
    assert names == {"app.py", "LICENSE", "assets/examples", "heads", "requirements-cpu.lock"}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == names
    assert all((ROOT / name).exists() for name in names)


class Page(BaseHTTPRequestHandler):
    """A page that is well or ill."""

    status = 200

    def do_GET(self):
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(("status", "code"), [(200, 0), (500, 1), (None, 1)])
def test_the_health_check_tells_the_living_from_the_dead(status, code, monkeypatch):
    monkeypatch.setattr(Page, "status", status)
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        if status:
            thread.start()
        port = server.server_address[1]
        if not status:
            server.server_close()
        program, *rest = json.loads(re.search(r"CMD (\[.*\])$", said("HEALTHCHECK")[0])[1])
        assert program == "python"
        command = [sys.executable, *(part.replace("7860", str(port)) for part in rest)]
        done = subprocess.run(command, capture_output=True, check=False)
        if status:
            server.shutdown()
            thread.join()
    assert bool(done.returncode) == bool(code), done.stderr
