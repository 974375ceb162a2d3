"""What all tests share: places of their own, the bundled model, tiny random ones, few texts."""

import surroundings  # noqa: F401  before anything of the package or of Transformers

# isort: split
import contextlib
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Its device is registered before a module that is collected runs autograd, whose threads are made
# once: else it would depend on the order of the files.
import elsewhere  # noqa: F401
import huggingface_hub
import pytest
import torch
from _pytest.doctest import DoctestModule
from fake_hub import Hub, serving

# Here and nowhere else: two copies of a fixture are two browsers, and Playwright runs one.
from page_fixtures import chrome, few, page_url, place, tab  # noqa: F401
from shell_runs import file, trained, trained_once  # noqa: F401
from tiny_models import WORDS, rewrite, save_tiny

from heads import plugins
from heads.backbone import loading
from heads.backbone.backbone import Backbone
from heads.classifier import head_cache
from heads.data.corpus import Corpus, build
from heads.interfaces.web import temporary_files
from heads.settings import use_limits


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Collects no examples of docstrings from tests.

    Their collector passes over a file that cannot be imported and leaves half of it behind, in
    which pytest then finds no test: a broken import would look like nothing at all.
    """
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that takes longest is begun first: begun last, it would run on on one of two cores.

    By itself xdist begins with the file that has most tests, and these are the shortest ones.
    """
    items.sort(key=lambda item: item.path.name != "test_promises.py")
    names = {extra.name for extra in plugins.extras()}
    for item in items:
        if missing := {mark.args[0] for mark in item.iter_markers("needs_extra")} - names:
            item.add_marker(pytest.mark.skip(reason=f"needs heads/extras/{missing.pop()}"))


@pytest.fixture(scope="session", autouse=True)
def _own_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the user's caches, the network or the mode of this machine."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_CACHE", str(folder / "heads"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.delenv("SPACE_ID", raising=False)
        patch.delenv("HEADS_PUBLIC", raising=False)
        patch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder / "hub"))
        head_cache._recent.clear()  # heads that other tests left in memory are not in this folder
        # A page that one test has built would sweep what another one makes to look old: the thread
        # lives as long as the process, and looks into whichever folders are set by then.
        patch.setattr(temporary_files, "start_cleaning", lambda: None)
        with contextlib.suppress(ImportError):  # the extra was removed
            patch.setattr(plugins.load("heads.extras.public.janitor"), "start", lambda: None)
        yield


@pytest.fixture(autouse=True)
def _reset_limits() -> Iterator[None]:
    with use_limits(None):
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small work is quickest on one thread, above all where several runs share the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub of our own, an empty cache, and processes that know both."""
    with serving() as running:
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", running.address)
        files = running.address + "/{repo_id}/resolve/{revision}/{filename}"  # made at import
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        yield running


@pytest.fixture(scope="session")
def backbone() -> Backbone:
    """The bundled model."""
    return loading.load()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folders of tiny models by family and class, each written once; never to be changed."""
    made: dict[tuple[str, str], Path] = {}

    def folder(family: str = "bert", kind: str = "Model") -> Path:
        if (family, kind) not in made:
            place = tmp_path_factory.mktemp("tiny") / f"{family}-{kind}"
            made[family, kind] = save_tiny(place, family, kind)
        return made[family, kind]

    return folder


@pytest.fixture
def copied(tiny: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A tiny model's folder to change, with other values in its config.json."""

    def folder(family: str = "bert", kind: str = "Model", **config: Any) -> Path:
        copy = tmp_path / f"{family}-{kind}"
        shutil.copytree(tiny(family, kind), copy)
        rewrite(copy / "config.json", **config)
        return copy

    return folder


@pytest.fixture(scope="session")
def small(tiny: Callable[..., Path]) -> Backbone:
    """A tiny random BERT with a pooler: for what does not depend on quality."""
    return loading.load(str(tiny()))


@pytest.fixture(scope="session")
def rows() -> Corpus:
    """Sixty made-up texts of three classes."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(60)]
    return build("made up", texts, [("x", "y", "z")[row % 3] for row in range(60)])


@pytest.fixture(scope="session")
def shared() -> Path:
    """The project's shared research data, which is not part of the package."""
    folder = Path(__file__).parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data does not lie beside the repository")
    return folder


@pytest.fixture
def seconds() -> Callable[[], float]:
    """Seconds that this process has computed since the test began: what others do is not in it."""
    start = time.process_time()
    return lambda: time.process_time() - start
