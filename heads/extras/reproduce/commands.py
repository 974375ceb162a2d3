"""The command `heads reproduce`."""

from pathlib import Path

from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command, last_of


@command()
def reproduce(name: str, *, data: Path) -> Answers:
    """Computes a published figure anew.

    Args:
        name: Such as banking77.
        data: The folder of its train.csv and test.csv.
    """
    from heads.extras.reproduce import mteb

    found = last_of(mteb.reproduce(name, data))
    yield found.as_json(), lambda: cli.tables.show(found)
