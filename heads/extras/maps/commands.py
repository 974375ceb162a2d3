"""The command `heads map`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from heads.backbone.models import BUNDLED
from heads.caching import check_free
from heads.display import Code
from heads.errors import DataError
from heads.extras.maps.verbs import row_map
from heads.interfaces import cli
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command, write_figure


@command(row_map, flags={"readings": ("--reading", "-r")}, repeated=["readings"])
def map(
    data: str,
    *,
    readings: Sequence[str] = (),
    method: Literal["pca", "tsne"] = "pca",
    most: int = 0,
    model: str = BUNDLED,
    to: Path | None = None,
) -> Answers:
    """Draws rows as points under several readings.

    Args:
        data: A run, a sample, a file or a folder.
        to: Write it to this file: .html, to be looked at, or .parquet, as Embedding Atlas opens it.
    """
    from heads.extras.maps.row_map import axes, iter_row_map

    if to is not None:
        if to.suffix.lower() not in (".html", ".htm", ".parquet"):
            what = f"{to.name} is neither an HTML file nor a Parquet file."
            raise DataError(what, "Let its name end in .html or .parquet.")
        check_free(to)
    options = {"method": method, "most": most, "model": model}
    drawn = follow_work(iter_row_map(data, readings or None, **options))
    lines: list[str | Code] = ["Write it with --to map.html, to be looked at, or --to map.parquet."]
    if to is not None:
        lines = [f"The map: {to}"]
        if to.suffix.lower() == ".parquet":
            drawn.save(to)
            x, y = axes(drawn.readings[0].reading)
            atlas = f"embedding-atlas {shlex.quote(str(to))} --text text --x {x} --y {y}"
            lines += ["Embedding Atlas opens it (pip install embedding-atlas):", Code(atlas)]
        else:
            write_figure(drawn.plot(), to)
    yield drawn.as_json(), lambda: cli.tables.show(drawn, *lines)
