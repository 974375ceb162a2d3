import pytest
from gradio_client import Client


@pytest.fixture(scope="session")
def client(page_url):
    """Gradio's own client of the page."""
    client = Client(page_url, verbose=False)
    yield client
    client.close()
