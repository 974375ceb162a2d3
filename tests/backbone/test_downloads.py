"""Downloads for the page: ended with their readers, bounded, shared, and judged beforehand."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from expected_errors import refusing
from fake_hub import Hub, Repository
from tiny_models import rewrite

from heads.backbone import downloads, hub, safety
from heads.backbone.loading import load, loading
from heads.errors import LimitError, ModelError
from heads.events import Progress
from heads.hub import free_bytes, hub_folder
from heads.interruption import Interrupted, interruptible
from heads.settings import PUBLIC, Limits, current_limits, use_limits

RARE = pytest.mark.slow  # it waits for 12 s


@pytest.fixture
def slow(fake: Hub, tiny: Callable[..., Path]) -> Hub:
    """The same with a model of 40 MB that takes 20 s."""
    size = 40_000_000
    fake.models["a/slow"] = Repository(
        folder=tiny(), rate=2_000_000, sends=size, claims={"model.safetensors": size}
    )
    return fake


@pytest.fixture(autouse=True)
def _public() -> Iterator[None]:
    with use_limits(PUBLIC):
        yield


class Visitor(threading.Thread):
    """One who waits for a model on the page, until told to leave."""

    def __init__(self, model: str, whose: str = "") -> None:
        super().__init__()
        self.model, self.limits, self.whose = model, current_limits(), whose
        self.is_gone, self.is_outside = False, False
        self.error: Exception | None = None
        self.folder: Path | None = None
        self.start()

    def check(self) -> None:
        if self.is_gone:
            raise Interrupted

    @contextmanager
    def outside(self) -> Iterator[None]:
        self.is_outside = True
        try:
            yield
        finally:
            self.is_outside = False

    def run(self) -> None:
        try:
            with (
                use_limits(self.limits),
                interruptible(self.check, self.outside, self.whose),
            ):
                self.folder = downloads.fetch(self.model)
        except Exception as error:
            self.error = error


def refused(
    model: str, *names: str, kind: Any = ModelError, within: float = 60.0, whose: str = ""
) -> None:
    """A visitor is told in time, in a line that names the model, that it does not come."""
    start = time.monotonic()
    with interruptible(lambda: None, whose=whose), refusing(kind, *names):
        downloads.fetch(model)
    assert time.monotonic() - start < within


def leave(*visitors: Visitor) -> None:
    """All of them leave, and nothing is downloaded any more."""
    for visitor in visitors:
        visitor.is_gone = True
    for visitor in visitors:
        visitor.join()
    until(lambda: not processes(), 3)


def fetched(model: str) -> Path:
    """The folder of a model that a visitor has waited for."""
    with use_limits(PUBLIC), interruptible(lambda: None):
        return downloads.fetch(model)


def until(found: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def processes() -> list[psutil.Process]:
    """The processes of downloads that this one has started."""
    return [one for one in psutil.Process().children() if "hub_process" in " ".join(_line(one))]


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def parts() -> list[Path]:
    return list(hub_folder().glob("models--*/blobs/*.incomplete"))


def come() -> int:
    """Bytes of the part that is largest; one may get its last name between two looks."""
    sizes = [0]
    for path in parts():
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return max(sizes)


def test_a_visitor_who_leaves_ends_the_download_and_leaves_nothing(slow):
    visitor = Visitor("a/slow")
    until(lambda: come() > 500_000)
    assert visitor.is_outside, "who waits holds no core"
    assert processes()
    visitor.is_gone, start = True, time.monotonic()
    visitor.join()
    assert time.monotonic() - start < 0.5
    assert isinstance(visitor.error, Interrupted)
    until(lambda: not processes(), 3)
    until(lambda: not (hub_folder() / "models--a--slow").exists(), 3)


def test_two_visitors_share_a_download_and_one_may_leave(fake, tiny):
    fake.models["a/tiny"] = Repository(folder=tiny(), rate=30_000)
    one, other = Visitor("a/tiny"), Visitor("a/Tiny".lower())
    until(lambda: "model.safetensors" in fake.downloads("a/tiny"))
    one.is_gone = True
    other.join()
    one.join()
    assert other.error is None
    assert other.folder
    with use_limits(PUBLIC):
        assert safety.admit("a/tiny").folder == other.folder
    assert fake.asked.count("/api/models/a/tiny") == 1
    assert isinstance(one.error, Interrupted)


def test_who_asks_again_at_once_goes_on_with_the_same_download(slow):
    one = Visitor("a/slow")
    until(parts)
    one.is_gone = True
    one.join()
    other = Visitor("a/slow")
    time.sleep(downloads.GRACE + 3 * downloads.POLL)
    assert slow.asked.count("/api/models/a/slow") == 1
    leave(other)


def test_so_many_are_fetched_at_a_time(slow, monkeypatch):
    monkeypatch.setattr(downloads, "TURN", 1.0)
    with use_limits(replace(PUBLIC, downloads=1)):
        visitor = Visitor("a/slow")
    until(processes)
    with use_limits(replace(PUBLIC, downloads=1)):
        refused("a/other", "Others", kind=LimitError, within=3)
    assert "/api/models/a/other" not in slow.asked
    leave(visitor)


def test_nobody_holds_the_places_of_others(slow, monkeypatch):
    monkeypatch.setattr(downloads, "TURN", 1.0)
    visitor = Visitor("a/slow", whose="one")
    until(processes)
    refused("a/other", "Another model", kind=LimitError, whose="one")
    assert "/api/models/a/other" not in slow.asked
    refused("a/other", "The Hub", "a/other", whose="two")
    leave(visitor)


def test_a_download_has_a_deadline(slow):
    with use_limits(replace(PUBLIC, download_seconds=2)):
        refused("a/slow", "a/slow", "2 seconds")
    assert not processes()
    assert not (hub_folder() / "models--a--slow").exists()


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        pytest.param({"seconds": 60}, ["in time"], marks=RARE),
        ({"rate": -1}, ["stopped sending"]),
        ({"rate": 20}, ["stopped sending"]),
        ({"sends": 60_000_000}, ["more of a/bad"]),
        ({"status": 401}, ["login (401)"]),
        ({"status": 404}, ["does not have"]),
        *(({"status": code}, [f"({code})"]) for code in (429, 500)),
        pytest.param({"file_status": 500}, [], marks=RARE),
        ({"file_status": 404}, []),
        ({"gated": True}, ["gated"]),
        ({"unsized": frozenset({"model.safetensors"})}, ["how large"]),
    ],
)
def test_a_hub_that_misbehaves_gets_one_sentence_in_time(fake, tiny, settings, names, monkeypatch):
    if "rate" in settings:
        monkeypatch.setattr(downloads, "STALLED", 2.0)
    fake.models["a/bad"] = Repository(folder=tiny(), **settings)
    refused("a/bad", *names)
    assert not processes()
    assert not parts()
    if "unsized" in settings or "status" in settings:
        assert not fake.downloads("a/bad")


def test_what_arrives_between_two_looks_is_counted_too(fake, tiny, monkeypatch):
    monkeypatch.setattr(downloads, "POLL", 60.0)
    fake.models["a/bad"] = Repository(folder=tiny(), sends=60_000_000)
    refused("a/bad", "more of a/bad", within=55.0)
    assert not (hub_folder() / "models--a--bad").exists()


@pytest.mark.parametrize("config", [{"num_hidden_layers": 10**5}, {"model_type": "nonsense"}])
def test_a_config_over_the_limits_is_refused_before_any_weights(fake, copied, config):
    fake.models["a/deep"] = Repository(folder=copied(**config))
    refused("a/deep", "a/deep")
    assert fake.downloads("a/deep") == ["config.json"]


def test_a_config_of_many_megabytes_is_not_read_to_its_end(fake, copied):
    folder = copied()
    rewrite(folder / "config.json", filling="x" * 20_000_000)
    size = (folder / "model.safetensors").stat().st_size
    claims = {"config.json": 500, "model.safetensors": size}
    fake.models["a/config"] = Repository(folder=folder, claims=claims)
    refused("a/config", "config.json of a/config", "1 MB")
    assert fake.downloads("a/config") == ["config.json"]


def test_what_does_not_fit_is_not_fetched(fake, tiny):
    free = free_bytes()
    fake.models |= {
        "a/large": Repository(folder=tiny(), claims={"vocab.txt": free}),
        "a/tiny": Repository(folder=tiny()),
    }
    with use_limits(replace(PUBLIC, download_bytes=10**15)):
        refused("a/large", "disk", "a/large")
    with use_limits(replace(PUBLIC, hub_cache_bytes=1_000)):
        refused("a/tiny", "at most 0 MB", "a/tiny")
    assert set(fake.downloads("a/large") + fake.downloads("a/tiny")) == {"config.json"}


def test_it_is_told_how_far_a_download_is(slow):
    with interruptible(lambda: None):
        with use_limits(PUBLIC):
            events = loading("a/slow")
        told = (event.says for event in events if isinstance(event, Progress))
        assert next(told) == "Loading a/slow"
        while not (says := next(told)).startswith("Fetching a/slow: 1 of 4"):
            assert says.startswith(("Asking the Hub for a/slow", "Fetching a/slow: 0 of 4"))
        events.close()
    until(lambda: not processes(), 3)


def test_a_download_ends_with_the_server(slow, tmp_path):
    asked = json.dumps({"does": "download", "model": "a/slow", "limits": {}})
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'heads.backbone.hub_process', "
        "sys.argv[1]], stdin=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(hub.__file__).parents[2]
    server = psutil.Popen([os.sys.executable, "-c", code, asked], stdout=-1, cwd=root, text=True)
    assert server.stdout
    child = psutil.Process(int(server.stdout.readline()))
    until(parts)
    server.kill()
    server.communicate()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 3)


@pytest.mark.parametrize(
    "path",
    [r"\\host\share", "//host/share", r"\/host/share", " //host/share", "file:///etc", "FILE:x"],
)
def test_a_path_to_another_machine_is_refused_untouched(path, monkeypatch):
    from heads.classifier import pretrained
    from heads.parts.resolve import resolve

    def touched(*given: object, **named: object) -> None:
        raise AssertionError("the file system was asked")

    recipe = resolve("mean+linear")
    share, no_id = "A path to another machine is not opened", "is not a model id"
    for limits, told in ((PUBLIC, no_id), (Limits(), share)):
        for ask, sentence in (
            (lambda: safety.admit(path), told),
            (lambda: safety.is_here(path), told),
            (lambda: pretrained.load(path, "x", recipe), share),
        ):
            # Only while ours is asked: pytest itself needs the file system.
            with use_limits(limits), monkeypatch.context() as patch:
                for name in ("stat", "resolve", "exists", "is_dir", "is_file", "expanduser"):
                    patch.setattr(Path, name, touched)
                with pytest.raises(ModelError) as refusal:
                    ask()
            assert sentence in str(refusal.value)


# --- Whose it is, and whether all of it is there.


def test_a_download_is_known_as_a_visitors_and_parts_of_other_programs_stay(slow):
    theirs = hub_folder() / "models--own--large" / "blobs" / "x.incomplete"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"part")
    os.utime(theirs, (0, 0))
    visitor = Visitor("a/slow")
    until(lambda: len(parts()) > 1)
    assert downloads.for_visitors() == {"models--a--slow"}  # as a server that is killed leaves it
    assert downloads.visitors_bytes() > 0
    leave(visitor)
    assert theirs.exists()


def test_many_downloads_at_once_are_all_noted(fake):
    names = [f"models--a--{number}" for number in range(40)]
    with ThreadPoolExecutor(40) as pool:
        list(pool.map(downloads._note, [hub_folder() / name for name in names]))
    assert downloads.for_visitors() == set(names)
    downloads._own(hub_folder() / names[0])
    assert downloads.for_visitors() == set(names[1:])


def test_models_of_the_owner_do_not_count(fake, tiny):
    own = hub_folder() / "models--own--large" / "blobs" / "x"
    own.parent.mkdir(parents=True)
    own.write_bytes(bytes(3_000_000))
    fake.models |= {"a/one": Repository(folder=tiny()), "a/two": Repository(folder=tiny())}
    with use_limits(replace(PUBLIC, hub_cache_bytes=2_000_000)), interruptible(lambda: None):
        downloads.fetch("a/one")
    most = downloads.visitors_bytes() + 1_000
    with use_limits(replace(PUBLIC, hub_cache_bytes=most)):
        refused("a/two", "at most", "a/two")


def test_a_tokenizer_without_its_settings_has_not_arrived(fake, tiny):
    fake.models["a/tiny"] = Repository(folder=tiny())
    folder = fetched("a/tiny")
    assert hub.cached_folder("a/tiny") == folder
    (folder / "tokenizer_config.json").unlink()
    assert hub.cached_folder("a/tiny") is None
    fetched("a/tiny")
    assert hub.cached_folder("a/tiny") == folder


def test_a_model_that_is_asked_for_was_used_now(fake, tiny):
    fake.models["a/tiny"] = Repository(folder=tiny())
    fetched("a/tiny")
    place = hub_folder() / "models--a--tiny"
    os.utime(place, (0, 0))
    with use_limits(PUBLIC):
        safety.admit("a/tiny", download=False)
    assert time.time() - place.stat().st_mtime < 60


def test_a_download_takes_the_modules_along_and_no_other_folder(copied, fake):
    folder = copied()
    for other in ("openvino", "onnx", "1_Pooling/deeper"):
        (folder / other).mkdir()
        (folder / other / "config.json").write_text("{}", "utf-8")
    fake.models["a/sentences"] = Repository(folder=folder)
    fetched("a/sentences")
    with use_limits(PUBLIC):
        backbone = load("a/sentences", download=False)
    assert backbone.trained is not None
    assert backbone.trained.says == "mean, length 1"
    assert backbone.folder is not None
    kept = {path.parent.name for path in backbone.folder.rglob("config.json")}
    assert kept == {backbone.folder.name, "1_Pooling"}
