"""Functions as commands: the signature is the command line, the docstrings are its help.

What stands before the `*` of a signature is positional, what stands behind it is a flag. A sequence
is several values, and a dataclass, such as the settings of an experiment, a flag for each of its
fields. Each is described once: by the docstring of the command, or of what it calls.
"""

import functools
import inspect
import json
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperGroup

from heads.data.table import listed
from heads.errors import DataError, HeadsError, LimitError, did_you_mean
from heads.interfaces.docstrings import arguments, described, flag, summary
from heads.settings import limits, parts_file, set_parts_file, set_public

LOCAL = ("127.0.0.1", "localhost", "::1")
FLAGS = {"recipes": ("--recipe", "-r"), "losses": ("--loss",), "parts": ("--with",)}
REPEATED = ("recipes",)  # a flag for each value; other lists are parted by commas
FEW = 4  # choices that are shown behind a flag; more stand in its sentence
NOTES = {"separator": "none: one label a cell"}  # what only a flag can be
Command = TypeVar("Command", bound=Callable[..., None])


class Common:
    """What every command takes.

    Attributes:
        parts: A Python file with poolings and heads of your own; it is run, so trust it.
        json: Print JSON.
    """


class Commands(TyperGroup):
    """All commands."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name.

        Raises:
            HeadsError: There is none; names the nearest.
        """
        if cmd_name not in self.commands:
            shown = [name for name, one in self.commands.items() if not one.hidden]
            what = f"There is no command '{cmd_name}'."
            raise HeadsError(what, did_you_mean(cmd_name, shown))
        return self.commands[cmd_name]


shell = typer.Typer(
    cls=Commands,
    add_completion=False,
    add_help_option=False,
    rich_markup_mode=None,  # without it help takes half as long again
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(
    *sources: Any, formerly: str = "", inherits: bool = False
) -> Callable[[Command], Command]:
    """Makes a function a command.

    Args:
        sources: What describes arguments that the docstring of the function does not.
        formerly: The name that the command had, to which it still answers.
        inherits: Whether it takes the parts that the process which started it was given.

    Raises:
        TypeError: An argument is described nowhere.
    """

    def register(function: Command) -> Command:
        says = arguments(Common) | arguments(described(*sources, Common)(function))
        asked = [
            Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *_parameters(function, says),
            _argument("parts", Path | None, None, says["parts"], FLAGS["parts"]),
        ]

        @functools.wraps(function)
        def run(context: typer.Context, parts: Path | None, **given: Any) -> None:
            if given.get("public") or given.get("host", LOCAL[0]) not in LOCAL:
                set_public()  # before anything else: it decides what may be opened
            if path := parts or (parts_file() if inherits else None):
                _take(path)
            function(**_gathered(function, given, context))

        run.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
        shell.command(help=summary(function))(run)
        if formerly:
            shell.command(formerly, help=summary(function), hidden=True)(run)
        return function

    return register


def _parameters(function: Callable[..., None], says: dict[str, str]) -> Iterator[Parameter]:
    """The arguments of a command, those of a dataclass one by one."""
    for name, one in inspect.signature(function).parameters.items():
        if held := _held(one):
            yield from _fields(held)
        else:
            is_flag = one.kind is Parameter.KEYWORD_ONLY
            names = _names(name, both=one.default is True) if is_flag else ()
            yield _argument(name, one.annotation, one.default, says[name], names)


def _fields(held: Any) -> Iterator[Parameter]:
    """A flag for each field of a dataclass, with what its metadata says that it is among."""
    says = arguments(held)
    for one in fields(held):
        kind = type(one.default) if isinstance(one.type, str) else one.type
        kind = Literal[one.metadata["among"]] if "among" in one.metadata else kind
        names = _names(one.name, both=kind in (bool, bool | None))
        yield _argument(one.name, kind, one.default, says[one.name], names)


def _gathered(
    function: Callable[..., None], given: dict[str, Any], context: typer.Context
) -> dict[str, Any]:
    """What a function is called with: dataclasses of what was said, None where nothing was."""
    values = dict(given)
    for name, one in inspect.signature(function).parameters.items():
        if held := _held(one):
            found = {field.name: values.pop(field.name) for field in fields(held)}
            said = {key: value for key, value in found.items() if _is_said(context, key)}
            values[name] = held(**said) if said or one.default is not None else None
    return values


def _held(one: Parameter) -> Any:
    """The dataclass whose fields are flags, if a parameter is one."""
    return next(filter(is_dataclass, (one.annotation, *get_args(one.annotation))), None)


def _names(name: str, *, both: bool) -> tuple[str, ...]:
    """How a flag is written; of a switch both ways, if it is not merely off otherwise."""
    flag = f"--{name.replace('_', '-')}"
    return FLAGS.get(name, (f"{flag}/{flag.replace('--', '--no-')}" if both else flag,))


def _argument(name: str, kind: Any, default: Any, says: str, names: tuple[str, ...]) -> Parameter:
    """An argument as typer reads it; positional, if it has no names."""
    says = "; ".join([flag(says), *filter(None, [NOTES.get(name)])])
    known: dict[str, Any] = {}
    if get_origin(kind) is Literal and len(get_args(kind)) > FEW:
        says += f"; one of {', '.join(get_args(kind))}"
        known = {"metavar": "<name>"}
    elif (get_origin(kind) or kind) in (Sequence, tuple):
        if names and name not in REPEATED:
            kind, default, known = str, ",".join(default), {"callback": listed}
            says += "; parted by commas"
        else:
            kind, default = list[str], default if default is Parameter.empty else list(default)
            if names:
                says, known = f"{says}; repeatable", {"metavar": "<str>"}
    info = typer.Option(*names, help=says, **known) if names else typer.Argument(help=says, **known)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _is_said(context: typer.Context, name: str) -> bool:
    """Whether an argument was written, be it as it is without."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def _take(path: Path) -> None:
    """Runs a file that puts parts of the user's own onto the registries."""
    from heads.parts import resolve  # noqa: F401  the built-in parts come first

    if limits().public:
        raise LimitError("Parts of one's own are for local use.", "Leave --with out.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.", "Give the path of a Python file.")
    try:
        runpy.run_path(str(path))
    except HeadsError:
        raise
    except Exception as error:
        what = f"{path} cannot be run ({type(error).__name__}: {error})."
        raise DataError(what, "Mend it, or leave --with out.") from None
    set_parts_file(path)  # for the processes that this one starts


# --- What commands read and print.


def sentence(text: str) -> str:
    """A sentence, or for - what comes from standard input."""
    return sys.stdin.read() if text == "-" else text


def last_of(events: Iterable[Any]) -> Any:
    """The last of a stream of events; on a terminal, the progress before it is shown."""
    from rich.console import Console

    from heads.events import Progress

    event = None
    with Console(stderr=True).status("Starting") as status:
        for event in events:
            if isinstance(event, Progress):
                status.update(f"{event.says} ({event.share:.0%})")
    return event


def print_json(values: object) -> None:
    """Prints plain values as JSON."""
    print(json.dumps(values, ensure_ascii=False, indent=2))
