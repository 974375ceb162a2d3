"""The command `heads ranks`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from heads.caching import check_free
from heads.extras.ranks.verbs import critical_differences
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command, write_figure


@command(critical_differences)
def ranks(
    run: Sequence[str],
    *,
    groups: Literal["wilcoxon", "nemenyi"] = "wilcoxon",
    baselines: bool = False,
    to: Path | None = None,
) -> Answers:
    """Ranks recipes over the data sets of several runs.

    Args:
        run: Runs of the same recipes on different data, by their ids or folders.
        to: Write the diagram to this HTML file as well.
    """
    if to:
        check_free(to)
    ranking = critical_differences(run, groups=groups, baselines=baselines)
    if to:
        write_figure(ranking.plot(), to)
    lines = [f"The diagram: {to}"] * bool(to)
    yield ranking.as_json(), lambda: cli.tables.show(ranking, *lines)
