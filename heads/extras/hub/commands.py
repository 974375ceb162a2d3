"""The command `heads push`."""

from collections.abc import Sequence

from heads.extras.hub import verbs
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(verbs.push)
def push(
    run: str,
    repo: str,
    *,
    recipe: str = "",
    library: str = "",
    adapter: bool = False,
    private: bool = False,
    license: str = "",
    language: Sequence[str] = (),
    replace: bool = False,
    dry_run: bool = False,
    refit: bool = True,
) -> Answers:
    """Puts a run's best head onto the Hub.

    Args:
        run: The id of the run, as `heads runs` lists it, or its folder.
    """
    options = locals()
    found = verbs.push(options.pop("run"), **options)
    yield found.as_json(), lambda: cli.tables.show(found)
