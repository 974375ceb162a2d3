"""A comparison, or the tour, as one HTML file that needs no server: guess first, then look.

A guess unfolds its answer by style alone; the one script turns pages by the arrow keys.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from markupsafe import Markup

from heads.classifier.pretrained import OWN
from heads.errors import DataError
from heads.evaluation.metrics import SCORES
from heads.extras.talks.tour import CHOICES, SAMPLE, Tour
from heads.interfaces.views.format import counted
from heads.interfaces.views.html import make_renderer
from heads.interpret.comparison import Comparison
from heads.runs.folder import find
from heads.settings import current_limits, runs_folder

HERE = Path(__file__).parent
render = make_renderer(HERE / "templates")
SHEETS = (HERE / "templates" / "story.css", HERE / "steps.css")
LONGEST_LINK = 1_500  # letters; a longer one makes a QR code that no telephone reads from a seat


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """One page of a story; empty where nothing is guessed, or no page is known."""

    title: str  # the question
    guess: str = ""  # what is to be guessed
    choices: Sequence[str] = ()  # the answers to choose from
    right: int = 0  # the right answer, from 0
    says: Sequence[str] = ()  # the sentences that follow the guess
    shown: Markup  # what stands below, as HTML
    asked_in: Sequence[tuple[str, str]] = ()  # threads that ask it, each with its address
    link: str = ""  # the address of the same on a page


def write_story(subject: Comparison | Tour, address: str = "") -> str:
    """Return a comparison or a tour as the text of one HTML file, with links to a page."""
    if isinstance(subject, Tour):
        title, pages = "Five questions about classification heads", build_pages(subject, address)
        rows = counted(subject.board.rows, "row")
        source = f"{rows} of the sample {subject.board.data}, {subject.board.model}"
    else:
        sentence = " ↔ ".join(filter(None, (subject.text, subject.pair)))
        n_heads = len(subject.predictions)
        title, source = f"Head to Head: {sentence}", f"{subject.model}, {subject.revision}"
        guess = f"What do {counted(n_heads, 'head')} say of it: all the same?"
        page = StoryPage(
            title=sentence,
            guess=guess if n_heads > 1 else "",
            choices=("All the same.", "They part.") if n_heads > 1 else (),
            right=int(not subject.is_unanimous),
            says=(subject.verdict, *subject.notes),
            shown=Markup(subject._repr_html_()),
            link=_link_comparison(subject, address) if address else "",
        )
        pages = [page]
    css = Markup("".join(sheet.read_text("utf-8") for sheet in SHEETS))  # our own files
    values = {"of": source, "date": time.strftime("%Y-%m-%d"), "code": draw_code}
    return str(render("story.html", title=title, css=css, pages=pages, **values))


def _link_comparison(comparison: Comparison, address: str) -> str:
    """Return the address at which a page shows the same comparison; "" where none can."""
    names = [prediction.name for prediction in comparison.predictions]
    recipes = [OWN if name.startswith(f"{OWN} ") else name for name in names]
    if not comparison.run:
        source = {"model": comparison.model, "sample": comparison.sample}
        return _link(address, comparison.text, recipes, pair=comparison.pair, **source)
    if current_limits().public:
        return ""
    try:
        run = find(comparison.run)
    except DataError:
        return ""
    is_listed = run.path.resolve().parent == runs_folder().resolve()
    return (
        _link(address, comparison.text, recipes, pair=comparison.pair, run=run.id)
        if is_listed
        else ""
    )


def draw_steps(tour: Tour) -> Markup:
    """Return the steps of the tour as the page folds them, each with a link to Try."""
    return render("story_pages.html", pages=build_pages(tour, "."), code=lambda link: "")


def build_pages(tour: Tour, address: str = "") -> list[StoryPage]:
    """Return a page for each step of the tour."""
    metric, pages = SCORES[tour.board.metric], list[StoryPage]()
    for step in tour.steps:
        question, gap = step.question, step.difference
        measured = (
            f"{gap.name} minus {gap.other}: {metric.gap(gap.difference).replace('-', '−')} "
            f"(95 % interval {metric.signed(gap.low)} to {metric.signed(gap.high)}), by "
            f"cross-validation over {step.rows:,} rows."
        )
        scores = step.describe_scores(metric, f" on these {step.rows:,} rows")
        page = StoryPage(
            title=question.asks,
            guess=question.guess,
            choices=CHOICES,
            right=step.right,
            says=(measured, f"{scores}.", question.says, step.apart),
            shown=Markup(step.comparison._repr_html_()),
            asked_in=[(name, link_thread(name)) for name in question.asked_in],
            link=_link(address, question.text, question.heads, sample=SAMPLE),
        )
        pages.append(page)
    return pages


REPOSITORIES = {
    "transformers": "huggingface/transformers",
    "sentence-transformers": "huggingface/sentence-transformers",
    "fairseq": "facebookresearch/fairseq",
    "flair": "flairNLP/flair",
    "bert": "google-research/bert",
}


def link_thread(name: str) -> str:
    """Return the address of a thread.

    >>> link_thread("bert #43")
    'https://github.com/google-research/bert/issues/43'
    """
    short, _, number = name.partition(" #")
    return f"https://github.com/{REPOSITORIES[short]}/issues/{number}"


def _link(address: str, text: str, recipes: Sequence[str], **more: str) -> str:
    """Return the address at which a page shows the same; "" without a page, "." is this one."""
    if not address:
        return ""
    values = {"text": text, "recipes": ",".join(recipes)}
    query = f"?{urlencode(values | {name: value for name, value in more.items() if value})}"
    return query if address == "." else f"{address.rstrip('/')}/{query}"


def draw_code(link: str) -> Markup:
    """Draw a QR code; none of an address that is too long to be read, and none without segno."""
    if not link or len(link) > LONGEST_LINK:
        return Markup()
    try:
        import segno
    except ImportError:  # an optional requirement; the link itself stands beside the code
        return Markup()
    options = {"scale": 3, "border": 2, "light": "#fff", "dark": "#000", "omitsize": True}
    squares = segno.make(link, micro=False, error="l").svg_inline(**options)
    return Markup(squares)  # not the text
