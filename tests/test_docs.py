"""The docs: links lead somewhere, Python runs, the FAQ answers every question that it lists."""

import json
import re
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import pages_of_docs
import pytest
from pages_of_docs import DOCS, PAGES, ROOT, anchors, answers, blocks, links

import heads
from benchmarks import stored
from heads.backbone.models import BUNDLED
from heads.data.samples import SAMPLES
from heads.interfaces.web.location import Location
from heads.parts.resolve import resolve

FAQ = DOCS / "faq.md"
QUESTIONS = json.loads((DOCS / "questions.json").read_text("utf-8"))
HERE = "http://127.0.0.1:7860/"
STATES = sorted({link for link in links(FAQ) if link.startswith(HERE)})
CODE = [page for page in PAGES if DOCS in page.parents and blocks(page)]
# Each block has a folder and names of its own; one process for all of a page imports torch once.
RUN_BLOCKS = """
import json, os, sys
for folder, block in json.load(sys.stdin):
    os.chdir(folder)
    print(block, file=sys.stderr)
    exec(compile(block, folder, "exec"), {"__name__": "__main__"})
"""
# A score or a difference with its interval, as tables of measured figures have them.
FIGURE = re.compile(r"[+−]?\d+\.\d \(?[+−]?\d+\.\d(?:–| to )[+−]?\d+\.\d\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_or_a_heading_leads_somewhere(page):
    for link in links(page):
        path, _, place = link.partition("#")
        if urlsplit(link).scheme or link.startswith("…"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if place and target.suffix == ".md":
            assert place in anchors(target), f"{page.name} links to {link}"


@pytest.mark.slow
@pytest.mark.parametrize("page", CODE, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, tmp_path):
    lines = SAMPLES["sentiment"].path.read_text("utf-8").splitlines()[:121]
    folders = [tmp_path / str(number) for number in range(len(blocks(page)))]
    for folder in folders:
        folder.mkdir()
        shutil.copy(SAMPLES["sentiment"].path, folder / "whole.csv")
        (folder / "my.csv").write_text("\n".join(lines), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN_BLOCKS],
        input=json.dumps([*zip(map(str, folders), blocks(page), strict=True)]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# The FAQ


def test_every_question_has_an_answer_and_every_answer_a_question():
    told = answers()
    assert len(QUESTIONS) > 50
    for one in QUESTIONS:
        assert one["status"] in ("answered", "partly", "not"), one
        assert one["asked"], one
        assert one["where"], one
        assert told.get(one["anchor"], "").strip(), f"nothing answers {one['asked']}"
    chapters = {"heads", "tokens-layers-and-texts", "frozen-kept-fine-tuned", "data-and-labels"}
    assert set(told) - {one["anchor"] for one in QUESTIONS} == {
        *chapters, "side-by-side", "the-tables",
    }  # fmt: skip


def test_what_is_not_answered_is_said_to_be_not_yet():
    told = answers()
    for one in QUESTIONS:
        is_said = told[one["anchor"]].strip().startswith("Not yet")
        assert is_said == (one["status"] == "not"), one


def test_what_waits_for_another_part_of_the_product_is_marked():
    told = answers()
    marked = {
        (place, name)
        for place, text in told.items()
        for name in re.findall(r"pending: (\w+)", text)
    }
    assert marked == {(one["anchor"], one["pending"]) for one in QUESTIONS if "pending" in one}


def test_every_answer_names_who_asked_and_links_onto_the_page():
    for place, text in answers().items():
        if any(one["anchor"] == place for one in QUESTIONS):
            assert "\nAsked " in text, place
            assert f"]({HERE}" in text.replace("\n", ""), place


@pytest.mark.parametrize("link", STATES)
def test_a_link_onto_the_page_opens_at_the_state_that_it_names(link):
    """By the page's own reader: nothing of it is taken for something else, or left out."""
    query = link.removeprefix(HERE)
    found = Location.of(query)
    assert found.query == query  # as the page writes it
    assert found.model == BUNDLED  # which needs no download
    assert found.suited() == found
    for recipe in found.recipes:
        assert str(resolve(recipe)) == recipe


@pytest.mark.slow
@pytest.mark.parametrize("link", [link for link in STATES if "recipes" in link])
def test_what_a_link_onto_the_page_asks_has_an_answer(link):
    asked = Location.of(link.removeprefix(HERE))
    found = heads.compare(**asked.asked)
    assert [str(one.recipe) for one in found.predictions] == list(asked.recipes)


def test_every_figure_of_the_faq_is_in_a_table_that_was_measured():
    measured = "".join(
        region[0] for page in PAGES for region in stored.REGION.finditer(page.read_text("utf-8"))
    )
    told = " ".join("\n".join(answers().values()).split())
    told = told.partition("*Measured at")[0]
    figures = FIGURE.findall(told)
    assert len(figures) > 60
    assert [figure for figure in figures if figure not in measured] == []


# The site


def test_the_site_has_every_page_of_the_docs():
    build = _builder()
    known = build.places()
    assert {path for path in PAGES if DOCS in path.parents} <= set(known)
    listed = [f"{name}.md" for pages in build.NAV.values() for name in pages]
    assert sorted([*listed, "index.md"]) == sorted(n for n in known.values() if n.endswith(".md"))


def test_links_of_the_readme_lead_to_pages_of_the_site():
    build = _builder()
    text = build.page(ROOT / "README.md", build.places())
    assert "](docs/" not in text
    assert "](training.md)" in text
    assert "![Four heads on one sentence, a lane each](try.png)" in text
    assert not text.startswith("---")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_place(tmp_path, monkeypatch):
    pytest.importorskip("sphinx", reason="`make docs` installs it")
    build = _builder()
    monkeypatch.setattr(build, "BUILD", tmp_path)
    assert build.main() == 0
    for page in (tmp_path / "docs").glob("*.html"):
        asked = re.findall(
            r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text()
        )
        assert asked == [], page.name


def _builder():
    sys.path.insert(0, str(DOCS / "site"))
    try:
        import build
    finally:
        sys.path.pop(0)
    return build


def test_a_block_is_run_unless_it_says_that_it_is_not_to_be(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\na\n```\n\n```python no-run\nb\n```\n\n```\nc\n```\n", "utf-8")
    assert pages_of_docs.blocks(page) == ["a\n"]


# The tour


def test_the_tour_shows_every_picture_that_is_taken_and_no_other():
    text = (DOCS / "tour.md").read_text("utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(images/(\w+)\.webp\)", text)
    taken = re.findall(r'Stop\(\s*name="(\w+)"', (DOCS / "screenshots.py").read_text("utf-8"))
    kept = {path.stem for path in (DOCS / "images").iterdir()}
    assert sorted(shown) == sorted(taken) == sorted(kept)
    assert sum(path.stat().st_size for path in (DOCS / "images").iterdir()) < 1_500_000


def test_links_of_the_tour_onto_the_page_open_at_their_states():
    states = [link for link in links(DOCS / "tour.md") if link.startswith(HERE)]
    assert len(states) > 3
    for link in states:
        query = link.removeprefix(HERE)
        assert Location.of(query).query == (query or "?")
