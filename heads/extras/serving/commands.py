"""The commands of the extra: `heads adapter` and `heads check-endpoint`."""

from collections.abc import Sequence
from pathlib import Path

from heads.errors import DataError, EndpointError
from heads.extras.serving import api
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(api.check_adapter)
def adapter(folder: str, *, base: str = "") -> Answers:
    """Looks whether an adapter of PEFT has its head."""
    found = api.check_adapter(folder, base=base)
    yield found.as_json(), lambda: cli.tables.describe(found)


@command(api.check_endpoint)
def check_endpoint(
    url: str,
    *,
    model: str,
    server: str = "auto",
    texts: Sequence[str] = (),
    pair: Sequence[str] = (),
    texts_file: Path | None = None,
    paired: bool = False,
    headers: Sequence[str] = (),
    endpoint: str = "",
    long: bool = True,
) -> Answers:
    """Asks a server whether its answers are its checkpoint's.

    Args:
        texts: What it is asked about, in place of the texts that stand ready.
        pair: A second text for each, where the head reads two.
        texts_file: A file of such texts, one a line; a second text stands behind a tab.
        headers: Sent with every request, such as "Authorization: Bearer …".
    """
    if texts_file is not None:
        if texts or pair:
            raise DataError("Texts are given twice.", "Leave --text and --pair out, or --texts.")
        texts, pair = _texts_of(texts_file)
    found = api.check_endpoint(
        url,
        model,
        server=server,
        texts=texts,
        pairs=pair,
        paired=paired,
        headers=headers,
        endpoint=endpoint,
        long=long,
    )
    yield found.as_json(), lambda: cli.tables.describe(found)
    if not found.is_right:
        raise EndpointError(found.verdict)


def _texts_of(path: Path) -> tuple[list[str], list[str]]:
    """The texts of a file, one a line, and the second texts behind a tab, if there are any."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeError) as error:
        what = f"The file {path} cannot be read ({type(error).__name__})."
        raise DataError(what, "Give a text file in UTF-8.") from None
    parted = [line.partition("\t") for line in lines if line.strip()]
    if not parted:
        raise DataError(f"There is no text in {path}.", "Write one a line.")
    pairs = [second for _, tab, second in parted if tab]
    return [first for first, _, _ in parted], pairs
