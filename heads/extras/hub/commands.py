"""The command `heads push`."""

from typing import Any

from heads.extras.hub import verbs
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(verbs.push)
def push(run: str, repo: str, **options: Any) -> Answers:
    """Puts a run's best head onto the Hub.

    Args:
        run: The id of the run, as `heads runs` lists it, or its folder.
    """
    found = verbs.push(run, repo, **options)
    yield found.as_json(), lambda: cli.tables.show(found)
