"""The command `heads convert`."""

from heads.display import Table
from heads.extras.conversions.rules import CONVERSIONS, converted_id
from heads.interfaces import cli
from heads.interfaces.cli.shell import Answers, command


@command()
def convert(family: str = "") -> Answers:
    """Makes the bundled model one of another family.

    Args:
        family: Such as roberta; lists them, if none is given.
    """
    from heads.extras.conversions.conversion import converted_folder

    if family:
        folder, name = converted_folder(family), converted_id(family)
        use = f'Use it as any base model: heads compare "Not bad at all." --model {name}'
        values = {"model": name, "folder": str(folder)}
        yield values, lambda: print(f"{name} is ready: {folder}", use, sep="\n")
    else:
        rows = [(converted_id(name), rules.says) for name, rules in CONVERSIONS.items()]
        values = [{"model": name, "says": says} for name, says in rows]
        yield (
            values,
            lambda: cli.tables.show(Table(headers=("model", "what it is"), rows=tuple(rows))),
        )
