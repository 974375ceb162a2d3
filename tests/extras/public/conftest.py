import pytest
from served import page_here


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
def public_url(page):
    return page.url.rstrip("/")
