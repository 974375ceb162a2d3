"""In public mode a link shows a run, and only the browser that began it stops or deletes it."""

import itertools
import json
import re
import secrets
import shutil
import time
import uuid

import httpx
import pytest

import heads
from heads.data.dataset import read
from heads.errors import DataError, LimitError
from heads.interfaces.web import run_access
from heads.interfaces.web.places import your_data
from heads.interfaces.web.training_jobs import TrainingJobs
from heads.interfaces.web.training_process import TrainingSlots
from heads.runs.runner import begin
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

# Gradio sums up the times of its calls with an argument that pandas 3 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")
ONLY = "Only the browser that began this run may"
NOBODY = "Nobody waited for this"
QUERY = "?place=data"


@pytest.fixture
def owned(few, monkeypatch):
    """A run of public mode, and the secret of the browser that began it."""
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    secret = run_access.new_secret()
    config = ExperimentConfig(folds=2, curve=False)
    question = RunRequest(data=read(few), recipes=["mean+linear"], config=config)
    run = begin(question, run=run_access.run_of(secret))
    yield run, secret
    shutil.rmtree(run.path, ignore_errors=True)


class Visitor:
    """Who calls the handlers of the page past the page."""

    def __init__(self, url):
        self._api = f"{url.rstrip('/')}/gradio_api"
        self._http = httpx.Client(timeout=60)
        config = self._http.get(f"{url.rstrip('/')}/config").json()
        self._ids = {one["props"].get("elem_id"): one["id"] for one in config["components"]}
        self._calls = config["dependencies"]

    def clicks(self, element, **data):
        """What is answered to a click on a part of the page, with any memory of runs."""
        target = [self._ids[element], "click"]
        call = next(one for one in self._calls if target in [list(t) for t in one["targets"]])
        mine = data.pop("mine")
        given = [mine] if element == "job" else [QUERY, mine]
        said = NOBODY
        while NOBODY in said:  # a server that has just begun may be slow to see its reader
            said = self._joined(call["id"], given, data)
        if ONLY in said:  # nor is there a way around the queue
            direct = self._direct(call["id"], given, data)
            assert direct.status_code >= 400
            assert re.search(r'"(error|detail)": ?"[A-Z]', direct.text)
        return said

    def _joined(self, number, given, event):
        session = uuid.uuid4().hex
        asked = {
            "data": given,
            "event_data": {"fields": event},
            "fn_index": number,
            "session_hash": session,
        }
        self._post("queue/join", asked)
        with self._http.stream("GET", f"{self._api}/queue/data?session_hash={session}") as told:
            lines = [line for line in told.iter_lines() if line.startswith("data:")]
        return "\n".join(lines)

    def _direct(self, number, given, event):
        asked = {"data": given, "event_data": {"fields": event}, "fn_index": number}
        return self._post("run/predict", asked)

    def _post(self, route, asked):
        kind = {"content-type": "application/json"}
        return self._http.post(f"{self._api}/{route}", content=json.dumps(asked), headers=kind)


def forged(run):
    """What somebody may write into his browser who knows a run's link, and not its secret."""
    return [
        [],
        None,
        run.id,
        [run.id],
        [run.id] * 100,
        [run.id[1:]],
        [[run.id]],
        [{"secret": run.id}],
        {"0": run.id},
        [secrets.token_urlsafe(16), run.id],
        [run_access.run_of(run.id[1:]), run.id],
        ["x" * 1_000_000, run.id],
        [run.id + "\n", "\ud800", "\x00", "../" + run.id],
        [7, None, True, 1e308, run.id],
        7,
        json.loads("[" * 60 + "]" * 60),
    ]


def waited(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.1)
    return is_so()


def test_a_secret_names_its_run_and_nothing_tells_it(owned):
    run, secret = owned
    assert run.id == run_access.run_of(secret)
    assert len({run_access.run_of(run_access.new_secret()) for _ in range(50)}) == 50
    assert secret not in run.id
    for path in run.path.rglob("*"):
        assert secret.encode() not in path.name.encode()
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    jobs = TrainingJobs(TrainingSlots(most=1))
    visit = your_data.Visit(f"?place=data&result={run.id}", [secret])
    shown = your_data.draw_place(visit, jobs)
    assert run.id in str(shown)
    assert secret not in str(shown)
    assert [name for _, name in run_access.choices([secret])] == [run.id]


def test_whoever_has_the_link_sees_a_run_and_has_no_right_to_it(owned):
    run, secret = owned
    assert run_access.owned(run.id, [secret], "stop") == run
    assert run_access.opened(run.id) == run
    jobs = TrainingJobs(TrainingSlots(most=1))
    assert 'data-do="delete"' in your_data.draw_rail([secret], "", jobs)
    for mine in forged(run):
        with pytest.raises(LimitError, match=ONLY):
            run_access.owned(run.id, mine, "stop")
        shown = your_data.draw_rail(mine, run.id, jobs)
        assert not any(f'data-do="{act}"' in shown for act in ("stop", "resume", "delete"))
    assert run_access.visible([run.id]) == [run]  # what a browser remembered before is shown


def test_a_run_is_listed_once_and_gone_ones_are_left_out(owned):
    run, secret = owned
    gone = run_access.new_secret()
    assert run_access.visible([gone, run.id, secret, run.id]) == [run]
    assert run_access.without([gone, run.id, secret], run.id) == [gone]
    assert run_access.in_front([gone, secret], run.id) == [secret, gone]
    many = [run_access.new_secret() for _ in range(200)]
    assert len(run_access.remembered(many)) == run_access.MOST_MINE


def test_a_run_of_local_mode_with_a_name_that_can_be_guessed_is_not_shown_in_public(
    few, monkeypatch
):
    config = ExperimentConfig(folds=2, curve=False)
    question = RunRequest(data=read(few), recipes=["mean+linear"], config=config)
    run = begin(question)
    assert run_access.opened(run.id) == run
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    with pytest.raises(DataError, match="no such run"):
        run_access.opened(run.id)
    with pytest.raises(DataError, match="no such run"):
        heads.compare("A fine day.", run=run.id)
    assert run_access.visible([run.id]) == []
    shutil.rmtree(run.path)


def test_on_ones_own_machine_all_runs_are_ones_own(owned, monkeypatch):
    run, _ = owned
    monkeypatch.delenv("HEADS_PUBLIC")
    assert run_access.owned(run.id, [], "stop") == run
    with pytest.raises(DataError, match="no such run"):
        run_access.owned("nonsense", [], "stop")


def test_a_stranger_with_the_link_can_neither_resume_nor_stop_nor_delete(owned, page_url):
    run, secret = owned
    stranger, owner = Visitor(page_url), Visitor(page_url)
    files = sorted(path.name for path in run.path.iterdir())
    acts = itertools.cycle(("resume", "stop", "delete"))
    for act, mine in zip(acts, [*[[run.id]] * 3, *forged(run)], strict=False):
        said = stranger.clicks("runs", do=act, run=run.id, mine=mine)
        assert ONLY in said, (act, said)
        assert secret not in said
    assert ONLY in stranger.clicks("job", do="stop", run=run.id, mine=[run.id])
    assert sorted(path.name for path in run.path.iterdir()) == files

    # The owner goes on with it, though this server knows nothing of who began it.
    said = owner.clicks("runs", do="resume", run=run.id, mine=[secret])
    assert ONLY not in said
    assert waited(lambda: run.is_busy)
    for mine in forged(run)[::4]:
        assert ONLY in stranger.clicks("job", do="stop", run=run.id, mine=mine)
    assert ONLY in stranger.clicks("runs", do="delete", run=run.id, mine=[run.id])
    assert ONLY not in owner.clicks("job", do="stop", run=run.id, mine=["other", secret])
    assert waited(lambda: run.read("end.json") is not None and not run.is_busy, 20)
    assert run.read("end.json")["state"] in ("stopped", "finished")

    assert ONLY in stranger.clicks("runs", do="delete", run=run.id, mine=[run.id])
    assert run.path.is_dir()
    while "Stop it first" in owner.clicks("runs", do="delete", run=run.id, mine=[secret]):
        time.sleep(0.2)  # its worker is about to end
    assert not run.path.exists()


def test_a_run_whose_model_has_made_room_says_so_and_fetches_nothing(owned, page_url):
    run, secret = owned
    facts = run.read("run.json")
    assert facts["model"]
    run.write("run.json", facts | {"model": "someone/gone"})
    said = Visitor(page_url).clicks("runs", do="resume", run=run.id, mine=[secret])
    assert "someone/gone is not on this machine any more." in said
    assert not run.is_busy
