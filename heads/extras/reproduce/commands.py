"""The command `heads reproduce`."""

from pathlib import Path

from heads.interfaces import cli
from heads.interfaces.cli.files import follow_work
from heads.interfaces.cli.shell import Answers, command


@command()
def reproduce(name: str, *, data: Path) -> Answers:
    """Computes a published figure anew.

    Args:
        name: Such as banking77.
        data: The folder of its train.csv and test.csv.
    """
    from heads.extras.reproduce import mteb

    result = follow_work(mteb.iter_reproduction(name, data))
    yield result.as_json(), lambda: cli.tables.show(result)
