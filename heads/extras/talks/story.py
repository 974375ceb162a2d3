"""A comparison, or the tour, as one HTML file that needs no server: guess first, then look.

It opens from a disk with no network. What a guess reveals is folded by style alone, so a page
without scripts works too; the one script turns its pages by the arrow keys.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from markupsafe import Markup

from heads.analysis.comparison import Comparison
from heads.classifier.pretrained import OWN
from heads.errors import DataError
from heads.evaluation.metrics import SCORES
from heads.extras.talks.tour import CHOICES, SAMPLE, Tour, TourStep
from heads.interfaces.views.format import counted
from heads.interfaces.views.html import make_renderer
from heads.runs.folder import find
from heads.settings import limits, runs_folder

HERE = Path(__file__).parent
render = make_renderer(HERE / "templates")
SHEETS = (HERE / "templates" / "story.css", HERE / "steps.css")
LONGEST_LINK = 1_500  # letters; a longer one makes a QR code that no telephone reads from a seat


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """One page of a story.

    Attributes:
        title: What it asks.
        guess: What is to be guessed; nothing where nothing is.
        choices: The answers to choose from; none where nothing is guessed.
        right: Which of them is right, from 0.
        says: What is told once the guess is made, a sentence each.
        shown: What stands below, as HTML.
        asked_in: Where people have asked it, with the address of each thread.
        link: Where the page shows the same; empty where no page is known.
    """

    title: str
    guess: str = ""
    choices: Sequence[str] = ()
    right: int = 0
    says: Sequence[str] = ()
    shown: Markup
    asked_in: Sequence[tuple[str, str]] = ()
    link: str = ""


def write_story(found: Comparison | Tour, address: str = "") -> str:
    """Return a comparison or a tour as the text of one HTML file.

    Args:
        found: The result.
        address: The address of a page that others can open, such as https://example.org/: each
            page of the story gets a link to the same there, and its QR code. None without it.
    """
    return of_tour(found, address) if isinstance(found, Tour) else of_comparison(found, address)


def of_comparison(found: Comparison, address: str = "") -> str:
    """A comparison as one HTML file; `address` as in `write_story`."""
    sentence = " ↔ ".join(filter(None, (found.text, found.pair)))
    guess = f"What do {counted(len(found.predictions), 'head')} say of it: all the same?"
    page = StoryPage(
        title=sentence,
        guess=guess if len(found.predictions) > 1 else "",
        choices=("All the same.", "They part.") if len(found.predictions) > 1 else (),
        right=int(not found.is_unanimous),
        says=(found.verdict, *found.notes),
        shown=Markup(found._repr_html_()),
        link=_link_of(found, address),
    )
    return document(f"Head to Head: {sentence}", [page], f"{found.model}, {found.revision}")


def _link_of(found: Comparison, address: str) -> str:
    """The address at which a page shows the same comparison; empty where none can."""
    names = [one.name for one in found.predictions]
    recipes = [OWN if name.startswith(f"{OWN} ") else name for name in names]
    if not found.run:
        asked = {"model": found.model, "sample": found.sample}
        return _link(address, found.text, recipes, pair=found.pair, **asked)
    run = _id_of(found.run) if address else ""
    return _link(address, found.text, recipes, pair=found.pair, run=run) if run else ""


def _id_of(run: str) -> str:
    """Return the id of a run that the page finds; "" elsewhere, and in public mode."""
    if limits().public:
        return ""
    try:
        folder = find(run)
    except DataError:
        return ""
    return folder.id if folder.path.resolve().parent == runs_folder().resolve() else ""


def of_tour(tour: Tour, address: str = "") -> str:
    """The tour as one HTML file; `address` as in `write_story`."""
    board = tour.board
    of = f"{counted(board.rows, 'row')} of the sample {board.data}, {board.model}"
    return document("Five questions about classification heads", pages(tour, address), of)


def steps(tour: Tour) -> Markup:
    """The steps of the tour as the page folds them, each with a link to the same under Try."""
    return render("story_pages.html", pages=pages(tour, "."), code=lambda link: "")


def pages(tour: Tour, address: str = "") -> list[StoryPage]:
    """A page a step of the tour."""
    return [_page(step, tour, address) for step in tour.steps]


def _page(step: TourStep, tour: Tour, address: str) -> StoryPage:
    question = step.question
    return StoryPage(
        title=question.asks,
        guess=question.guess,
        choices=CHOICES,
        right=step.right,
        says=(_measured(step, tour), _scores(step, tour), question.says, step.apart),
        shown=Markup(step.comparison._repr_html_()),
        asked_in=[(name, thread(name)) for name in question.asked_in],
        link=_link(address, question.text, question.heads, sample=SAMPLE),
    )


def _measured(step: TourStep, tour: Tour) -> str:
    """The difference with its interval, in a sentence."""
    found, metric = step.difference, SCORES[tour.board.metric]
    return (
        f"{found.name} minus {found.other}: {metric.gap(found.difference).replace('-', '−')} "
        f"(95 % interval {metric.signed(found.low)} to {metric.signed(found.high)}), by "
        f"cross-validation over {step.rows:,} rows."
    )


def _scores(step: TourStep, tour: Tour) -> str:
    metric = SCORES[tour.board.metric]
    told = (f"{name} {metric.told(score)}" for name, score in step.scores)
    return f"{metric.title} on these {step.rows:,} rows: {', '.join(told)}."


REPOSITORIES = {
    "transformers": "huggingface/transformers",
    "sentence-transformers": "huggingface/sentence-transformers",
    "fairseq": "facebookresearch/fairseq",
    "flair": "flairNLP/flair",
    "bert": "google-research/bert",
}


def thread(name: str) -> str:
    """The address of a thread.

    >>> thread("bert #43")
    'https://github.com/google-research/bert/issues/43'
    """
    short, _, number = name.partition(" #")
    return f"https://github.com/{REPOSITORIES[short]}/issues/{number}"


def _link(address: str, text: str, recipes: Sequence[str], **more: str) -> str:
    """The address at which a page shows the same; empty without a page, "." is this one."""
    if not address:
        return ""
    named = {name: value for name, value in more.items() if value}
    asked = {"text": text, "recipes": ",".join(recipes), **named}
    query = f"?{urlencode(asked)}"
    return query if address == "." else f"{address.rstrip('/')}/{query}"


def code(link: str) -> Markup:
    """A QR code as a drawing; none of an address that is too long to be read."""
    import segno

    if not link or len(link) > LONGEST_LINK:
        return Markup()
    drawn = segno.make(link, micro=False, error="l").svg_inline(
        scale=3, border=2, light="#fff", dark="#000", omitsize=True
    )
    return Markup(drawn)  # made of squares, not of the text


def document(title: str, found: Sequence[StoryPage], of: str) -> str:
    """Write pages as the text of one HTML file; `of` says what was measured on."""
    return str(
        render(
            "story.html",
            title=title,
            css=Markup("".join(sheet.read_text("utf-8") for sheet in SHEETS)),  # our own files
            pages=found,
            of=of,
            date=time.strftime("%Y-%m-%d"),
            code=code,
        )
    )
