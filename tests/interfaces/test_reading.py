"""What labels are, as the shell, the API and the page find it, show it and let one change it."""

import csv
import json

import pytest
import slow
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from pages import choose

from heads.data.dataset import read
from heads.data.samples import SAMPLES
from heads.data.table import ColumnHints, Columns
from heads.errors import DataError
from heads.interfaces.cli.app import main
from heads.interfaces.views import dataset
from heads.interfaces.web.places import data_form
from heads.interfaces.web.uploads import SAMPLE
from heads.problem import MULTI_LABEL, REGRESSION, SINGLE_LABEL

ASPECTS = ["delivery", "design", "price", "quality", "service", "usability"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The sample of aspects with a column of 0 and 1 for each."""
    with SAMPLES["aspects"].path.open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["label"].split("|")) for row in csv.DictReader(file)]
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["text", *ASPECTS])
        out.writerows([text, *(int(name in labels) for name in ASPECTS)] for text, labels in rows)
    return path


@pytest.fixture(scope="module")
def client(page_url):
    client = Client(page_url, verbose=False)
    yield client
    client.close()


def shell(capsys, *arguments):
    code = main(["read", *map(str, arguments), "--json"])
    printed = capsys.readouterr()
    return json.loads(printed.out) if code == 0 else printed.err


# The shell


def test_the_shell_is_told_what_labels_are(capsys, wide, tmp_path):
    assert shell(capsys, "aspects", "--separator", "none")["problem_type"] == SINGLE_LABEL.name
    assert shell(capsys, wide, "--labels", "price, quality")["classes"].keys() == {
        "price",
        "quality",
    }
    assert shell(capsys, wide, "--label", "price")["classes"].keys() == {"0", "1"}
    told = shell(capsys, "sentiment", "--order", "positive,neutral,negative")
    assert (list(told["classes"]), told["ordered"]) == (["positive", "neutral", "negative"], True)
    assert "not classes" in shell(capsys, "similarity", "--no-number")
    assert "is not in the order" in shell(capsys, "sentiment", "--order", "positive,neutral")
    path = tmp_path / "stars.csv"
    lines = [f"some text {row},{row % 5 + 1}" for row in range(50)]
    path.write_text("\n".join(["text,stars", *lines]), "utf-8")
    assert shell(capsys, path)["problem_type"] == SINGLE_LABEL.name
    assert shell(capsys, path, "--number")["spread"] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_shell_prints_what_labels_are(capsys):
    assert main(["read", "aspects"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Labels (guessed): 6 labels, 1.7 a row, separated by '|'" in printed
    assert "--separator none" in printed
    assert main(["read", "similarity"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "numbers from 0 to 5" in printed
    assert "the median is 2.45" in printed


# The API


def test_the_api_is_told_what_labels_are(client, wide):
    def over_the_api(path, **said):
        return client.predict(handle_file(str(path)), **said, api_name="/read")

    aspects, similar = SAMPLES["aspects"].path, SAMPLES["similarity"].path
    assert over_the_api(aspects)["problem_type"] == MULTI_LABEL.name
    assert over_the_api(aspects, labels_are="one")["problem_type"] == SINGLE_LABEL.name
    found = over_the_api(wide, label_columns="price, quality")
    assert found["columns"]["labels"] == ["price", "quality"]
    assert over_the_api(similar)["problem_type"] == REGRESSION.name
    for said, what in [
        ({"labels_are": "words"}, "Labels cannot be 'words'. Choose one of 'one', "),
        ({"labels_are": "columns"}, "No 0/1 columns are chosen"),
        ({"labels_are": "one"}, "not classes"),
    ]:
        with pytest.raises(AppError, match=what):
            over_the_api(similar, **said)


# The page


@pytest.mark.parametrize(
    "columns",
    [
        Columns(text="t", label="l"),
        Columns(text="t", label="l", separator=";"),
        Columns(text="t", label="l", separator="[]"),
        Columns(text="t", label="l", group="author"),
        Columns(text="t", label="l", number=True),
        Columns(text="t", label="", labels=("a", "b")),
        Columns(text="t", label="l", order=("low", "high")),
    ],
)
def test_the_form_of_columns_says_them(columns):
    names = (columns.text, columns.label, columns.pair, columns.split, columns.group)
    form = dataset.form_of(columns)
    assert dataset.build_hints(names, form, columns.labels, columns.order) == ColumnHints(
        text="t", label=columns.label, separator=columns.separator, labels=columns.labels,
        number=columns.number, order=columns.order, group=columns.group,
    )  # fmt: skip


def test_as_many_values_say_which_data_as_chosen_takes():
    asked = [f"{SAMPLE}aspects", "auto", "text", "label", "", "", "", "|", [], ""]
    assert len(asked) == data_form.FIELDS
    assert data_form.chosen(*asked).corpus.problem is MULTI_LABEL
    asked[7] = "columns"
    with pytest.raises(DataError, match="No 0/1 columns are chosen"):
        data_form.chosen(*asked)
    asked[7:] = ["one", None, None]
    assert data_form.chosen(*asked).corpus.problem is SINGLE_LABEL


def test_some_of_the_rows_are_taken_evenly():
    asked = [f"{SAMPLE}sentiment", "auto", "text", "label", "", "", "", "one", [], ""]
    whole, some = data_form.chosen(*asked), data_form.chosen(*asked, most=100)
    assert (len(whole.corpus), len(some.corpus)) == (420, 100)
    assert set(some.corpus.texts) <= set(whole.corpus.texts)
    assert some.corpus.lines == tuple(sorted(some.corpus.lines))
    assert some.corpus.name == "sentiment, 100 rows"


def test_numbers_are_shown_in_round_steps():
    drawn = dataset.card(read(SAMPLES["similarity"].path))
    assert "rows of each size" in drawn
    assert "<span>0 to 0.5</span>" in drawn
    assert "<span>4.5 to 5</span>" in drawn
    assert drawn.count("<li>") == 10


# Gradio sums up the times of its calls with an argument that pandas 3 deprecates.
@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")
@pytest.mark.parametrize("width", slow.but_each(2, [390, 1280]))
@pytest.mark.slow
def test_what_labels_are_is_shown_and_changed(tab, wide, width):
    page = tab("?place=data", width=width)
    account = page.locator("#account")
    page.locator("#file input[type=file]").set_input_files(wide)
    account.filter(has_text="6 labels, 1.7 a row, a 0/1 column each").wait_for()
    page.locator("#columns > button").click()
    page.get_by_role("combobox", name="Label", exact=True).wait_for(state="hidden")
    choose(page, "Labels are", "one a row")
    account.filter(has_text="2 classes").wait_for()
    page.get_by_role("combobox", name="Label", exact=True).wait_for()
    choose(page, "Labels are", "0/1 column")
    account.filter(has_text="6 labels").wait_for()
    page.get_by_role("button", name="Review aspects").click()
    account.filter(has_text="6 labels, 1.7 a row, separated by '|'").wait_for()
    choose(page, "Labels are", "one a row")
    account.filter(has_text="46 classes").wait_for()
    page.get_by_role("button", name="Sentence similarity").click()
    account.filter(has_text="numbers from 0 to 5").wait_for()
    page.get_by_role("button", name="Sentiment").click()
    account.filter(has_text="3 classes").wait_for()
    order = page.get_by_label("Order of the classes")
    order.fill("negative, neutral, positive")
    order.press("Enter")
    account.filter(has_text="3 classes, in order").wait_for()
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
