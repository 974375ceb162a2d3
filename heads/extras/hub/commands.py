"""The command `heads push`."""

from heads.extras.hub import verbs
from heads.extras.hub.options import PushOptions
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command(verbs.push)
def push(run: str, repo: str, *, options: PushOptions) -> Answers:
    """Puts a run's best head onto the Hub.

    Args:
        run: The id of the run, as `heads runs` lists it, or its folder.
    """
    pushed = verbs.push(run, repo, options=options)
    yield pushed.as_json(), lambda: cli.tables.show(pushed)
