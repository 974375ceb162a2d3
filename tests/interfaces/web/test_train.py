"""Training on the page, without a browser: uploads, settings, the worker, who sees which run."""

import contextlib
import importlib.util
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import slow

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.errors import DataError, HeadsError, LimitError
from heads.interfaces.web import guards, run_access, training_jobs, training_process, uploads
from heads.interfaces.web.guards import as_csv
from heads.interfaces.web.places import your_data
from heads.interfaces.web.places.settings_form import (
    FORM,
    LEARNED,
    OWN,
    PUBLIC_SECONDS,
    build_request,
    update_settings,
)
from heads.interfaces.web.training_jobs import Course, TrainingJobs
from heads.interfaces.web.training_process import TrainingSlots
from heads.runs.runner import begin
from heads.runs.spec import RunRequest
from heads.settings import ExperimentConfig

WAYS = (["joint"], ["softmax"], ["frozen"])


@pytest.fixture
def new_run(few):
    """Begins a run; it is deleted after the test."""
    made = []

    def make(recipes=("mean+linear", "cls+linear"), **settings):
        config = ExperimentConfig(**({"folds": 2, "curve": False} | settings))
        data = read(few)
        made.append(begin(RunRequest(data=data, recipes=recipes, config=config)))
        return made[-1]

    yield make
    for run in made:
        shutil.rmtree(run.path, ignore_errors=True)


@pytest.fixture
def upload(tmp_path, few):
    """A file as Gradio leaves it: in a folder of its own."""
    place = tmp_path / "0123abcd"
    place.mkdir()
    return Path(shutil.copy(few, place / "few.csv"))


@pytest.fixture
def public(monkeypatch):
    monkeypatch.setenv("HEADS_PUBLIC", "1")


def test_an_upload_leaves_the_public_folder_and_is_known_by_its_id_alone(upload):
    name = uploads.keep(str(upload))
    assert not upload.exists()
    assert not upload.parent.exists()
    assert uploads.ID.fullmatch(name)
    assert uploads.path_of(name).name == "few.csv"
    assert uploads.path_of(name).is_relative_to(uploads.folder())
    assert len(uploads.opened(name).rows) == 100


@pytest.mark.parametrize("what", ["folder", "link", "nothing", ""])
def test_what_is_no_regular_file_is_refused(upload, what):
    (upload.parent / "link").symlink_to("/etc/passwd")
    given = {"folder": upload.parent, "link": upload.parent / "link"}
    with pytest.raises(DataError, match="not a file"):
        uploads.keep(str(given.get(what, what)))
    assert upload.is_file()


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "sample:../x", "a" * 22, "x/../y"])
def test_a_foreign_id_opens_nothing(name):
    uploads.folder().mkdir(parents=True, exist_ok=True)
    with pytest.raises(DataError, match="not kept any more"):
        uploads.path_of(name)


def request(data=None, grid="small", own=(), seeds=3, ways=WAYS, **form):
    """What the form asks of some data, with settings other than the defaults."""
    values = [form.get(field.name, field.default) for field in FORM]
    return build_request(data, "", grid, list(own), seeds, *ways, *values)


@pytest.mark.parametrize("value", [-1, 51, float("nan"), None, "3", True, [3]])
def test_a_setting_out_of_its_range_is_a_sentence(value):
    with pytest.raises(LimitError) as refused:
        request(seeds=value)
    assert "Seeds, with a test set" in refused.value.what


def test_a_form_asks_for_its_heads_ways_and_settings(few):
    data = read(few)
    asked = request(data, OWN, ["mean+linear", "cls+linear"])
    assert (asked.recipes, asked.data) == (("mean+linear", "cls+linear"), data)
    assert asked.tune == ("frozen",)
    ways = (*WAYS[:2], ["frozen", "full", "bitfit"])
    assert request(data, ways=ways).tune == ("frozen", "full", "bitfit")
    asked = request(grid="tunes", ways=ways)
    assert (asked.recipes, asked.tune) == (("mean+linear",), ("frozen", "full", "bitfit"))
    config = request(race=True, precision="fast").config
    assert (config.race, config.precision) == (True, "fast")


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"grid": OWN}, "No head is chosen"),
        ({"ways": ([], ["softmax"], ["frozen"])}, "Tick at least one way in."),
        ({"ways": (None, ["softmax"], ["frozen"])}, "Tick at least one way in."),
        ({"ways": (["joint"], [], ["frozen"])}, "Tick at least one loss."),
        ({"ways": (["joint"], ["softmax"], [])}, "Tick at least the head alone."),
        *(({"precision": wrong}, "Precision") for wrong in ("double", None, 1, ["fast"])),
    ],
)
def test_a_form_that_asks_for_nothing_is_a_sentence(form, says):
    with pytest.raises(HeadsError, match=says):
        request(**form)


def test_public_mode_bounds_the_time(public):
    assert request().config.budget_seconds == PUBLIC_SECONDS
    assert request(budget_seconds=10).config.budget_seconds == 10


def test_the_menu_of_what_is_learned_has_what_is_installed() -> None:
    offered = [name for _, name in LEARNED]
    assert offered[:4] == ["frozen", "last2", "lora", "full"]
    assert ("setfit" in offered) == bool(importlib.util.find_spec("setfit"))


@pytest.mark.parametrize(
    ("sample", "hidden"),
    [
        ("sentiment", {"seeds", "pairs", "unseen"}),
        ("pairs", {"seeds", "unseen"}),
        ("aspects", {"seeds", "pairs", "losses", "per_class", "class_weights", "smoothing"}),
        ("similarity", {"seeds", "losses", "per_class", "focal"}),
    ],
)
def test_settings_are_shown_where_they_apply(sample, hidden):
    values = update_settings(read(SAMPLES[sample].path))
    assert not any("value" in update for update in values["last_updates"].values())
    assert hidden <= {name for name, value in values.items() if value.get("visible") is False}
    metrics = values["metric"]["choices"]
    assert ("spearman" in metrics) == (sample == "similarity")


CELL = {"event": "cell", "score": 0.9, "low": 0.8, "high": 0.95, "planned": 3}
EXPECTED = {"event": "expected", "reading": 0.0, "threads": 2}


def test_a_course_never_goes_back_and_tells_the_time_left():
    course = Course()
    course.hear({"event": "progress", "says": "Reading", "share": 0.4})
    course.hear({"event": "progress", "says": "Loading", "share": 0.0})
    assert (course.share, course.brief, course.best) == (0.4, "Loading", "")
    heads = {"mean+linear": 10.0, "cls+linear": 10.0, "cls+mlp": 30.0}
    course.hear(EXPECTED | {"heads": heads, "seconds": 60.0})
    assert 59 < course.left <= 60
    course.hear(CELL | {"recipe": "majority", "done": 0})
    assert course.scores == {}
    course.hear(CELL | {"recipe": "mean+linear", "done": 1, "seconds": 20.0})
    assert 49 < course.left <= 50  # it took as long as was expected
    course.hear(CELL | {"recipe": "cls+linear", "score": 0.5, "done": 2, "seconds": 72.0})
    assert 79 < course.left <= 86  # twice as long, and so will the rest
    assert course.best == "mean+linear leads with 90.0 % so far"
    assert course.brief.startswith("2 of 3 heads · about 1 min ")
    assert course.brief.endswith(" left")


def test_a_course_says_how_far_a_tuned_head_is():
    first, second = "mean+linear?tune=full", "cls+linear?tune=full"
    course = Course(planned=3, tuned=frozenset({first, second}), splits=2)
    looks = [{"epochs": 1, "planned": 4}, {"epochs": 2, "planned": 4}]
    trying, *_, again = (
        {"event": "trying", "recipe": first, "metric": "accuracy", "seed": 0, "settings": look}
        for look in (*looks, looks[0])  # another setting begins
    )
    heads = {"mean+linear": 1.0, first: 40.0, second: 40.0}
    shares = []
    for event, says in (
        (CELL | {"recipe": "mean+linear", "done": 1}, "1 of 3 heads trained"),
        (trying, f"{first}: training 1 of 2, trying settings, pass 1 of 4"),
        (EXPECTED | {"heads": heads, "seconds": 81.0}, ""),
        (trying | {"settings": looks[1]}, "pass 2 of 4"),
        (again, "pass 1 of 4"),
        (again | {"event": "fitting", "seed": 1}, "training 2 of 2, with the settings chosen"),
        (CELL | {"recipe": first, "done": 2, "seconds": 40.0}, "2 of 3 heads trained"),
        (CELL | {"recipe": second, "done": 3, "seconds": 40.0}, "3 of 3 heads trained"),
    ):
        assert (course.left is None) == (len(shares) < 3)  # nothing was expected before
        course.hear(event)
        assert course.says.endswith(says)
        shares.append(course.share)
    assert shares == sorted(shares)
    assert course.share == pytest.approx(0.95)


def test_an_estimate_of_what_is_no_longer_chosen_is_dropped(monkeypatch):
    monkeypatch.setattr(your_data, "_measure_duration", lambda _, stop, *given: {"find": given[0]})
    pending, jobs = your_data.PendingEstimate(), TrainingJobs(TrainingSlots(most=1))
    late, soon = (your_data.estimate_duration(jobs, pending, held) for held in ("first", "second"))
    for answers in (late, soon):
        assert "measuring" in next(answers)["find"]["value"]
    assert next(soon) == {"find": "second"}
    assert next(late) == {}


def test_a_race_moves_the_bar_and_nothing_moves_it_back():
    course = Course()
    says = "Race: 1 of 3 recipes cannot win any more and are stopped"
    course.hear({"event": "progress", "says": says, "share": 0.58})
    assert course.says == says
    cell = {"event": "cell", "recipe": "cls+linear", "score": 0.5, "low": 0.4, "high": 0.6}
    course.hear(cell | {"done": 1, "planned": 5, "metric": "spearman"})
    assert course.best == "cls+linear leads with 0.500 so far"
    assert course.share == 0.58
    course.hear(cell | {"recipe": "mean+linear", "done": 5, "planned": 5})  # three are eliminated
    assert course.share == pytest.approx(0.95)


def ended(job, seconds=60):
    end = time.monotonic() + seconds
    while not job.is_over and time.monotonic() < end:
        time.sleep(0.05)
    return job.is_over


def test_a_training_goes_on_by_itself_and_is_found_by_its_run(new_run):
    run, jobs = new_run(), TrainingJobs(TrainingSlots(most=1))
    job = jobs.begin(run)
    assert jobs.begin(run) is job
    assert jobs.running([run.id, "other"]) == [job]
    assert ended(job)
    assert (job.error, jobs.running([run.id])) == ("", [])
    assert set(job.course.scores) == {"mean+linear", "cls+linear"}
    assert run.read("end.json")["state"] == "finished"


@pytest.fixture
def endless(monkeypatch):
    """Trainings that have no worker, and end when they are stopped."""
    endless = lambda run, stop, seconds: iter(lambda: stop.wait(0.02) or [], True)  # noqa: E731
    monkeypatch.setattr(training_jobs, "worked", endless)


def test_a_training_is_stopped_and_one_in_line_never_begins(new_run, endless):
    first, second = new_run(), new_run()
    jobs = TrainingJobs(TrainingSlots(most=1))
    job, waits = jobs.begin(first), jobs.begin(second)
    jobs.stop(second.id)
    assert ended(waits, 5)
    assert not job.is_over
    jobs.stop(first.id)
    assert ended(job, 10)
    assert not waits.recipes


@pytest.mark.parametrize("left", ["never", "before it began", "before a look", "while it looks"])
def test_in_public_mode_a_training_ends_once_nobody_looks(
    left, new_run, public, monkeypatch, endless
):
    monkeypatch.setattr(training_jobs, "LEASE", 0.5 if left == "never" else 60.0)
    monkeypatch.setattr(training_jobs, "SOON", 0.2)
    run, jobs = new_run(), TrainingJobs(TrainingSlots(most=1))
    if left == "before it began":
        jobs.left("page")
    job = jobs.begin(run, "address", "page")
    if left in ("before a look", "while it looks"):
        jobs.left("page")
    if left == "while it looks":  # what the page had asked is answered after it was closed
        assert jobs.of(run.id, "page") is job
        assert jobs.running([run.id], "page") == [job]
    assert ended(job, 20)
    assert job.stop.is_set()


def test_a_training_that_fails_says_why(new_run):
    run, jobs = new_run(), TrainingJobs(TrainingSlots(most=1))
    (run.path / "rows.json").write_text("nonsense", "utf-8")
    job = jobs.begin(run)
    assert ended(job)
    assert "is broken" in job.error


def test_a_number_typed_beside_a_slider_reaches_its_handler():
    import gradio as gr

    slider = guards.unchecked(gr.Slider(-1, 1, value=0))
    assert slider.preprocess(5) == 5
    assert slider.preprocess(None) is None


@pytest.mark.parametrize("how", slow.but_each(2, ["stop", "close"]))
def test_whatever_ends_it_the_worker_is_gone_within_a_second_and_results_stay(
    new_run, monkeypatch, how
):
    run = new_run(["mean+linear", *(f"{name}+mlp" for name in ("cls", "mean", "max", "last"))])
    started, begun = [], training_process._started
    monkeypatch.setattr(
        training_process, "_started", lambda run: started.append(begun(run)) or started[-1]
    )
    stop = threading.Event()
    events = training_process.worked(run, stop)
    for heard in events:
        if any(event["event"] == "cell" for event in heard):
            break
    before = time.monotonic()
    if how == "stop":
        stop.set()
        list(events)
    else:
        events.close()
    assert time.monotonic() - before < 1
    assert started[0].poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(started[0].pid, 0)
    assert run.read("end.json")["state"] == "stopped"
    assert list(run.path.glob("cells/*.json"))
    assert not run.is_busy


def test_a_silent_worker_has_beats_and_a_killed_one_is_noticed(new_run, monkeypatch):
    run, started, begun = new_run(), [], training_process._started
    monkeypatch.setattr(
        training_process, "_started", lambda run: started.append(begun(run)) or started[-1]
    )
    events = training_process.worked(run, threading.Event())
    next(events)  # the process has begun, and still imports
    before = time.monotonic()
    next(events)
    assert time.monotonic() - before < 2 * training_process.BEAT
    started[0].send_signal(signal.SIGKILL)
    with pytest.raises(DataError, match="ended before its time"):
        list(events)


def test_trainings_have_their_turns_by_address():
    places = training_process.TrainingSlots(most=1, each=2)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(places.taken("a")) for _ in range(2))
        assert places.enter(first)
        assert not places.enter(second)
        with pytest.raises(LimitError, match="2 trainings from your address"):
            stack.enter_context(places.taken("a"))
        third = stack.enter_context(places.taken("b"))
        line = training_process.waiting(places, third)
        assert "Waiting" in next(line)["says"]
        third.stop.set()
        assert list(line) == []
        with places.taken("c") as other:
            assert not places.enter(other)
    places = training_process.TrainingSlots(most=2)
    with places.taken("a") as running, places.taken("a") as waits, places.taken("b") as late:
        assert places.enter(running)
        assert not places.enter(waits), "another address has none yet"
        assert places.enter(late)
        assert places.enter(running), "who trains goes on"


def test_in_public_mode_nobody_finds_the_run_of_another(new_run, public):
    run = new_run()
    assert len(run.id) >= 23
    assert run_access.choices([]) == []
    assert [name for _, name in run_access.choices([run.id])] == [run.id]
    for guess in ("", run.id[:-1], run.id[:5], str(run.path), f"../runs/{run.id}", None, ["x"]):
        with pytest.raises(DataError, match="no such run"):
            run_access.opened(guess)
        jobs = TrainingJobs(TrainingSlots(most=1))
        visit = your_data.Visit(f"?place=data&result={guess}", [])
        assert "few" not in str(your_data.draw_place(visit, jobs))
    assert run_access.visible([{"x": 1}, 7, "nonsense"]) == []


def test_a_table_for_a_spreadsheet_runs_no_formula_of_a_stranger(monkeypatch):
    rows = ["recipe", "=cmd"], [["@x", -1.5], ["plain", 2]]
    assert as_csv(*rows) == '\ufeff"recipe","=cmd"\r\n"@x",-1.5\r\n"plain",2\r\n'
    monkeypatch.setenv("HEADS_PUBLIC", "1")
    text = as_csv(*rows)
    assert text == '\ufeff"recipe","\'=cmd"\r\n"\'@x",-1.5\r\n"plain",2\r\n'


def test_over_the_api_a_base_model_is_fetched_before_the_turn_to_train(monkeypatch):
    from heads.backbone import safety
    from heads.interfaces.web import endpoints

    class Taken(Exception):
        """A place was asked for."""

    fetched = []

    class Places:
        def taken(self, address):
            raise Taken(address, list(fetched))

    monkeypatch.setattr(safety, "admit", lambda model, download=True: fetched.append(model))
    request = SimpleNamespace(client=None)
    with pytest.raises(Taken) as taken:
        next(endpoints.train_grid_on(Places())(request, model="someone/model"))
    assert taken.value.args[1] == ["someone/model"]
