import pytest
from served import page_here, quick_runs

from heads.data.samples import SAMPLES


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with quick_runs(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture(scope="module")
def page(place):
    """The page in public mode, served on loopback, with a folder of its own for files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADS_PUBLIC", "1")
        patch.setenv("HEADS_PROXIES", "127.0.0.1")
        patch.setenv("GRADIO_TEMP_DIR", str(place / "gradio"))
        with page_here() as page:
            yield page


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A file of a hundred rows."""
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()
    path = tmp_path_factory.mktemp("few") / "few.csv"
    path.write_text("\n".join(lines[:101]), "utf-8")
    return path


@pytest.fixture(scope="module")
def public_url(page):
    return page.url.rstrip("/")
