"""Every endpoint by the clients that people hold: curl, JavaScript, Python, and an agent's MCP.

The blocks of docs/api.md are what is run, against a server of their own.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gradio_client import Client
from served import served

import heads
from heads.data.samples import SAMPLES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:7860"
RECIPES = ["mean+linear", "cls+bert"]
MCP = ("mcp>=1.21,<2", "pydantic<=2.12.5")  # as gradio[mcp] asks for them
AGENT = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def ask(url, calls):
    found = {}
    async with streamablehttp_client(url) as (reads, writes, _):
        async with ClientSession(reads, writes) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            found["tools"] = {one.name: [one.description, one.inputSchema] for one in tools}
            found["answers"] = []
            for name, given in calls:
                told = await session.call_tool(name, given)
                found["answers"].append([told.isError, [one.text for one in told.content]])
    print(json.dumps(found))

asyncio.run(ask(sys.argv[1], json.load(sys.stdin)))
"""


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"```{language}(?: no-run)?\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()[:61]
    (tmp_path / "my.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path


def shell(command: list[str], folder: Path, given: str = "", **more: str) -> str:
    """What a program of others prints."""
    return subprocess.run(
        command, cwd=folder, input=given, env={**os.environ, "no_proxy": "*", **more},
        capture_output=True, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip


def fetched(command: list[str], folder: Path) -> None:
    """Fetches what a client is made of; without its index the test has nothing to run."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        pytest.skip(f"{command[0]} could not fetch the client: {done.stderr[-200:]}")


def compared(answer: dict) -> dict:
    """What is said of each head."""
    return {one["recipe"]: one["probabilities"] for one in answer["recipes"]}


@pytest.fixture(scope="module")
def known() -> dict:
    return compared(heads.compare("Not bad at all.", recipes=RECIPES).as_json())


def close(found: dict, known: dict) -> bool:
    return found.keys() == known.keys() and all(
        one == pytest.approx(known[name], abs=1e-6) for name, one in found.items()
    )


@pytest.mark.needs_extra("labels")
def test_python_has_every_endpoint_that_the_page_lists(client):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import tables
    finally:
        sys.path.pop(0)
    info = client.view_api(return_format="dict", print_info=False)
    assert tables.with_endpoints(PAGE, tables.endpoints(info)) == PAGE, "run: make docs"


@pytest.mark.slow
def test_the_blocks_of_curl_and_javascript_run(folder, known):
    with served(folder, public=False) as server:
        here = f"http://127.0.0.1:{server.port}"
        looks, trains = (block.replace(ADDRESS, here) for block in blocks("sh")[:2])
        (answer,) = last_event(shell(["bash", "-c", looks], folder))
        assert close(compared(answer), known)
        (answer,) = last_event(shell(["bash", "-c", trains], folder))
        assert {one["recipe"] for one in answer["cells"]} > set(RECIPES)

        (python,) = blocks("python")
        script = f"{python.replace(ADDRESS, here)}\nimport json\nprint(json.dumps([found, board]))"
        told = shell([sys.executable, "-c", script], folder).strip().splitlines()[-1]
        found, board = json.loads(told)
        assert close(compared(found), known)
        assert board["metric"] == answer["metric"]

        if not (shutil.which("node") and shutil.which("npm")):
            pytest.skip("There is no Node for the client in JavaScript.")
        fetched(["npm", "install", "--silent", "@gradio/client"], folder)
        (block,) = blocks("js")
        own = "console.log(JSON.stringify([found.data, board.data])); process.exit(0);"
        (folder / "walk.mjs").write_text(f"{block.replace(ADDRESS, here)}\n{own}", "utf-8")
        (found,), (board,) = json.loads(shell(["node", "walk.mjs"], folder))
        assert close(compared(found), known)
        assert {one["recipe"] for one in board["cells"]} > set(RECIPES)


def last_event(told: str) -> list:
    """What a stream of events ends with."""
    kind, _, data = told.strip().rpartition("\n\n")[2].partition("\n")
    assert kind == "event: complete", told[-500:]
    return json.loads(data.removeprefix("data: "))


@pytest.mark.slow
def test_an_agent_walks_every_tool(folder, known):
    overlay = folder / "mcp"
    fetched([sys.executable, "-m", "pip", "install", "-q", f"--target={overlay}", *MCP], folder)
    text = (folder / "my.csv").read_bytes()
    file = f"data:text/csv;base64,{base64.b64encode(text).decode()}"
    paths = os.pathsep.join((str(overlay), str(ROOT)))
    with served(folder, public=False, GRADIO_MCP_SERVER="true", PYTHONPATH=paths) as server:
        client = Client(f"http://127.0.0.1:{server.port}", verbose=False)
        named = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
        client.close()
        sent = json.loads(upload(server.port, folder / "my.csv"))[0]
        where = f"http://127.0.0.1:{server.port}/gradio_api"
        calls = [
            ("compare", {"text": "Not bad at all.", "recipes": RECIPES}),
            ("explain", {"recipe": "cls+bert"}),
            ("difference", {"one": "cls+bert", "other": "cls+roberta"}),
            ("families", {}),
            ("parts", {}),
            ("readings", {"text": "Bad.", "recipes": RECIPES}),
            ("inspect", {"text": "Bad.", "recipes": RECIPES[:1]}),
            ("edit", {"text": "Bad.", "edits": ["Good."], "recipes": RECIPES}),
            ("ablate", {"text": "Bad.", "recipes": RECIPES[1:], "retrain": False}),
            ("read", {"file": file}),
            ("read", {"file": f"{where}/file={sent}"}),
            ("predict", {"file": file, "recipe": "mean+linear", "sample": "sentiment"}),
            ("evaluate", {"file": file, "recipe": "mean+linear", "sample": "sentiment"}),
            ("train_grid", {"file": file, "recipes": " ".join(RECIPES), "folds": 3, "seeds": 1}),
            ("compare", {"text": "Bad.", "recipes": ["mean+nothing"]}),
            ("read", {"file": "/etc/passwd"}),
            ("read", {"file": "http://127.0.0.1:1/my.csv"}),
            ("read", {"file": f"{where}/file=/etc/passwd"}),
            ("padding", {"model": "no/such/model"}),
            ("labels", {"run": "none"}),
        ]
        told = shell(
            [sys.executable, "-c", AGENT, f"{where}/mcp/"], folder, json.dumps(calls),
            PYTHONPATH=str(overlay),
        )  # fmt: skip
        found = json.loads(told)
    assert set(found["tools"]) == {name.strip("/") for name in named}
    assert {name for name, _ in calls} == set(found["tools"])
    for says, schema in found["tools"].values():
        assert says
        assert schema["type"] == "object"
    for (name, given), (failed, texts) in zip(calls[:-6], found["answers"], strict=False):
        assert not failed, (name, given, texts)
        json.loads(texts[0])  # JSON, not what Python prints
    account, file = found["answers"][11][1]
    assert json.loads(account)["rows"] == 60
    assert file.startswith("http://127.0.0.1")
    assert file.endswith("-answers.csv")
    first = json.loads(found["answers"][0][1][0])
    assert close(compared(first), known)
    assert json.loads(found["answers"][9][1][0]) | {"name": ""} == (
        json.loads(found["answers"][10][1][0]) | {"name": ""}
    )
    refused = found["answers"][-6:]
    assert all(failed for failed, _ in refused)
    assert "There is no head called 'nothing'" in refused[0][1][0]
    for _, texts in refused[1:4]:
        assert texts[0].startswith("file is neither the content of a file nor one that was")
    assert "There is no run called 'none'" in refused[5][1][0]


def upload(port: int, file: Path) -> str:
    """The answer to a file that is sent by itself."""
    address = f"http://127.0.0.1:{port}/gradio_api/upload"
    return shell(["curl", "-s", address, "-F", f"files=@{file}"], file.parent)
