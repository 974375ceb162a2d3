"""The commands `heads demo` and `heads story`."""

from pathlib import Path

from heads.caching import check_free
from heads.errors import DataError
from heads.extras.talks.verbs import save_story
from heads.extras.talks.verbs import tour as tour_verb
from heads.interfaces import cli
from heads.interfaces.cli.commands import compare, run_comparison
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command
from heads.options import CompareOptions


@command(save_story, compare)
def story(
    text: str, *, to: Path, address: str = "", pair: str = "", options: CompareOptions
) -> Answers:
    """Compares a text under several recipes, as one HTML file for a talk.

    Args:
        text: The sentence, or - to read it from standard input.
    """
    _check_file(to, address)
    found = run_comparison(text, pair, options)
    save_story(found, to, address=address)
    values = found.as_json() | {"file": str(to)}
    yield values, lambda: cli.tables.show(found.verdict, f"The comparison as one HTML file: {to}")


def _check_file(to: Path | None, address: str) -> None:
    """Refuse what cannot be written or linked before anything is computed."""
    if to is not None:
        if to.suffix.lower() not in (".html", ".htm"):
            raise DataError(f"{to.name} is no HTML file.", "Let its name end in .html.")
        check_free(to)
    if address and not to:
        raise DataError("An address is for the file that is written.", "Add --to story.html.")
    if address and not address.startswith(("http://", "https://")):
        what = f"{address[:80]} is no address of a page."
        raise DataError(what, "Write it whole, such as https://example.org/.")


@command(tour_verb)
def demo(*, check: bool = False, to: Path | None = None, address: str = "") -> Answers:
    """Five questions about heads, answered here.

    Args:
        check: Say whether all is ready for a stage: here, trained, warm, and without a network.
        to: Write it as one HTML file that needs no server, such as tour.html.
        address: Of a page that others can open; each step gets a link there, and its QR code.
    """
    from heads.extras.talks.stage import iter_stage_check
    from heads.extras.talks.tour import iter_tour

    _check_file(to, address)
    stage = follow_work(iter_stage_check()) if check else None
    found = stage.tour if stage else follow_work(iter_tour())
    if to is not None:
        found.save(to, address)
    line = f"The same as one HTML file: {to}" if to else "As a file for a stage: --to tour.html"
    if stage is None:
        yield found.as_json(), lambda: cli.tables.show(found, line)
        return
    yield stage.as_json(), lambda: cli.tables.show(stage, *[line] * (to is not None))
    if not stage.is_ready:
        raise DataError("Not all is ready for a stage.", "See what stands there.")
