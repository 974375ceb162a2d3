"""The commands of the extra: `heads adapter` and `heads check-endpoint`."""

from dataclasses import replace
from pathlib import Path

from heads.errors import DataError, EndpointError
from heads.extras.serving import api
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(api.check_adapter)
def adapter(folder: str, *, base: str = "") -> Answers:
    """Checks whether an adapter of PEFT has its head."""
    report = api.check_adapter(folder, base=base)
    yield report.as_json(), lambda: cli.tables.show(report)


FLAGS = {
    "texts": ("--text",),
    "texts_file": ("--texts",),
    "pairs": ("--pair",),
    "paired": ("--pairs",),
    "headers": ("--header",),
}


@command(api.check_endpoint, flags=FLAGS, repeated=["texts", "pairs", "headers"])
def check_endpoint(
    url: str, *, model: str, options: api.EndpointOptions, texts_file: Path | None = None
) -> Answers:
    """Checks whether a server's answers are its checkpoint's.

    Args:
        texts_file: A file of such texts, one per line; a second text follows a tab.
    """
    if texts_file is not None:
        if options.texts or options.pairs:
            raise DataError("Texts are given twice.", "Leave --text and --pair out, or --texts.")
        texts, pairs = _read_texts(texts_file)
        options = replace(options, texts=texts, pairs=pairs)
    report = api.check_endpoint(url, model, options=options)
    yield report.as_json(), lambda: cli.tables.show(report)
    if not report.is_right:
        raise EndpointError(report.verdict)


def _read_texts(path: Path) -> tuple[list[str], list[str]]:
    """Return the first and the second texts of a file, of which there may be none."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeError) as error:
        what = f"The file {path} cannot be read ({type(error).__name__})."
        raise DataError(what, "Give a text file in UTF-8.") from None
    cells = [line.partition("\t") for line in lines if line.strip()]
    if not cells:
        raise DataError(f"There is no text in {path}.", "Write one per line.")
    return [text for text, _, _ in cells], [pair for _, tab, pair in cells if tab]
