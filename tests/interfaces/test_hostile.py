"""Every bad file gets the same outcome in Python, in the shell and over the API, in a sentence."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slow
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

import heads
from heads.interfaces.cli.app import main

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = [
    *(path for kind in "cltf" for path in sorted((DATA / "hostile").glob(f"{kind}[0-9]*"))),
    *sorted((DATA / "messy").glob("*")),
]
pytestmark = pytest.mark.skipif(not FILES, reason="the shared data are not here")


@pytest.fixture(scope="module")
def client(page_url: str) -> Iterator[Client]:
    client = Client(page_url, verbose=False)
    yield client
    client.close()


def in_python(path: Path) -> tuple[dict[str, Any], str]:
    try:
        return heads.read(path).as_json(), ""
    except heads.HeadsError as error:
        return {}, str(error)


def in_the_shell(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    code = main(["read", str(path), "--json"])
    printed = capsys.readouterr()
    assert code in (0, 2), printed.err
    if code:
        assert printed.out == ""
        return {}, printed.err.removeprefix("heads: ").rstrip("\n")
    return json.loads(printed.out), ""


def over_the_api(path: Path, client: Client) -> tuple[dict[str, Any], str]:
    try:
        return client.predict(handle_file(str(path)), "", "", "", "", api_name="/read"), ""
    except AppError as error:
        said = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), str(error))
        return {}, said


@pytest.mark.parametrize("path", slow.but_each(9, FILES), ids=lambda path: path.name)
def test_a_bad_file_gets_the_same_everywhere(
    path: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    found, error = in_python(path)
    assert in_the_shell(path, capsys) == (found, error)
    if path.stat().st_size:  # Gradio's own client does not send an empty file
        assert over_the_api(path, client) == (found, error)
    if error:
        assert not re.search(r"Traceback|Error\b|/tmp|/work|\bnull\b", error), error
        assert error.endswith((".", "?", ")"))
    else:
        left_out = sum(one["count"] for one in found["dropped"].values())
        assert found["rows_in"] == found["rows"] + left_out
