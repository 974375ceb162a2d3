"""Functions as commands: the signature is the command line, the docstrings are its help.

What stands before the `*` of a signature is positional, what stands behind it is a flag; a sequence
is several values, a dataclass a flag for each of its fields, and `**options` all flags of what the
command calls. Each is described once, in the docstring of the command or of what it calls. What a
command yields is printed, as JSON has it or as a terminal shows it.
"""

import functools
import inspect
import re
import runpy
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter
from json import dumps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from heads.data.table import listed
from heads.errors import DataError, HeadsError, LimitError
from heads.interfaces.docstrings import (
    arguments,
    described,
    flag,
    options_class,
    summary,
)
from heads.plugins import log_clash
from heads.settings import current_limits, parts_file, set_parts_file, set_public

LOCAL = ("127.0.0.1", "localhost", "::1")
FLAGS = {
    "recipes": ("--recipe", "-r"),
    "recipe": ("--recipe", "-r"),
    "losses": ("--loss",),
    "prefixes": ("--prefix",),
    "parts": ("--with",),
    "library": ("--as",),
}
REPEATED = ("recipes", "prefixes")  # a flag for each value; other lists are separated by commas
NOTES = {"separator": "none: one label a cell"}  # what only a flag can say
# Annotations of flags that a command may inherit; those of `heads.api` are strings.
PLAIN = {"str": str, "bool": bool, "float": float, "Sequence[str]": Sequence[str]}
DASHED = re.compile(r" *-([\d.]|[^\s=]*\s)")  # what begins like a flag, and is a text or number

Answers = Iterator[tuple[Any, Callable[[], object]]]  # as JSON has it, and what shows it
Command = TypeVar("Command", bound=Callable[..., Answers | None])

shell = typer.Typer(
    add_completion=False,
    add_help_option=False,
    rich_markup_mode=None,  # without it help takes half as long again
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(
    *sources: Any,
    inherits: bool = False,
    flags: Mapping[str, Sequence[str]] = MappingProxyType({}),
    repeated: Collection[str] = (),
) -> Callable[[Command], Command]:
    """Make a function a command.

    Args:
        sources: What describes arguments that the docstring of the function does not; the flags
            of the last one stand in the place of `**options`.
        inherits: Whether it takes the parts that the process which started it was given.
        flags: The flags of arguments that are not called as they are, besides `FLAGS`.
        repeated: Arguments with a flag for each value, besides `REPEATED`.

    Raises:
        TypeError: An argument is described nowhere.
    """

    def register(function: Command) -> Command:
        name = function.__name__.replace("_", "-")
        if name in {registered.name for registered in shell.registered_commands}:
            log_clash(function.__module__, f"heads {name}")
            return function
        _inherit_flags(function, *sources[-1:])
        described_parameters = [*_describe_parameters(described(*sources)(function))]
        described_parameters += [
            (parameter, text)
            for parameter, text in _describe_parameters(common)
            if parameter.name != "json" or inspect.isgeneratorfunction(function)
        ]
        parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        parameters += [
            _to_typer(parameter, text, {**FLAGS, **flags}, (*REPEATED, *repeated))
            for parameter, text in described_parameters
        ]

        @functools.wraps(function)
        def run(
            context: typer.Context, parts: Path | None, json: bool = False, **given: Any
        ) -> None:
            if given.get("public") or given.get("host", LOCAL[0]) not in LOCAL:
                set_public()  # before anything else: it decides what may be opened
            if path := parts or (parts_file() if inherits else None):
                _take(path)
            given = {name: unguard(value) for name, value in given.items()}
            for values, show in function(**_gathered(function, given, context)) or ():
                print(dumps(values, ensure_ascii=False, indent=2)) if json else show()

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        shell.command(name, help=summary(function))(run)
        return function

    return register


def _inherit_flags(function: Callable[..., Any], source: Any = None) -> None:
    """Put the flags of a source in the place of `**options`; limits are no flag."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[-1].kind is not Parameter.VAR_KEYWORD:
        return
    known = {parameter.name for parameter in parameters} | {"limits"}
    inherited = inspect.signature(source).parameters
    flags = [
        flag.replace(annotation=PLAIN.get(flag.annotation, flag.annotation))
        for flag in inherited.values()
        if flag.kind is Parameter.KEYWORD_ONLY and flag.name not in known
    ]
    if odd := [flag.name for flag in flags if isinstance(flag.annotation, str)]:
        raise TypeError(f"PLAIN has no type for {odd} of {source.__name__}.")
    order = {name: at for at, name in enumerate(inherited)}
    flags = sorted([*parameters[:-1], *flags], key=lambda one: (one.kind, order.get(one.name, -1)))
    function.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]


def unguard(value: Any) -> Any:
    """Take away the space that was put before texts which begin like a flag."""
    if isinstance(value, list | tuple):
        return type(value)(map(unguard, value))
    is_guarded = isinstance(value, str) and value[:1] == " " and DASHED.match(value[1:])
    return value[1:] if is_guarded else value


def common(*, json: bool = False, parts: Path | None = None) -> None:
    """What every command takes.

    Args:
        json: Print JSON.
        parts: A Python file with poolings and heads of your own; it is run, so trust it.
    """


def _describe_parameters(function: Callable[..., Any]) -> Iterator[tuple[Parameter, str]]:
    """Yield the parameters of a function with their help; of a dataclass, a flag for each field."""
    help_texts = arguments(function)
    parameters = inspect.signature(function, eval_str=True).parameters
    for name, parameter in parameters.items():
        if held := options_class(parameter):
            described_fields = _describe_fields(held)  # a flag of the command replaces one of them
            yield from (one for one in described_fields if one[0].name not in parameters)
        else:
            yield parameter, help_texts[name]


def _describe_fields(held: Any) -> Iterator[tuple[Parameter, str]]:
    help_texts = arguments(held)
    for field in fields(held):
        is_open = isinstance(field.type, str) or field.type is Any
        kind = type(field.default) if is_open else field.type
        if kind is bool and not field.metadata.get("is_switch"):
            kind = bool | None  # so that --no-FLAG exists too
        # A name for each of several, where Python takes a mapping as well.
        kind = next((k for k in get_args(kind) if get_origin(k) is Sequence), kind)
        parameter = Parameter(
            field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=kind
        )
        among = ", ".join(field.metadata.get("among", ()))
        yield parameter, help_texts[field.name] + (f" One of {among}." if among else "")


def _to_typer(
    parameter: Parameter, text: str, flags: Mapping[str, Sequence[str]], repeated: Collection[str]
) -> Parameter:
    """Return a parameter as typer reads it, with its help."""
    kind, default = parameter.annotation, parameter.default
    is_flag = parameter.kind is Parameter.KEYWORD_ONLY
    text = "; ".join(filter(None, (flag(text), NOTES.get(parameter.name))))
    options: dict[str, Any] = {}
    if (get_origin(kind) or kind) in (Sequence, tuple, list):
        kind, default = list[str], default if default is Parameter.empty else list(default)
        if is_flag:
            options["metavar"] = "<str>"
            is_repeated = parameter.name in repeated
            text += "; repeatable" if is_repeated else "; separated by commas"
            if not is_repeated:
                options["callback"] = _parted
    if is_flag:
        name = parameter.name.replace("_", "-")
        both = kind == (bool | None) or default is True
        names = flags.get(parameter.name, (f"--{name}/--no-{name}" if both else f"--{name}",))
        info = typer.Option(*names, help=text, **options)
    else:
        info = typer.Argument(help=text)
    annotation = Annotated[kind, info]
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parted(values: list) -> tuple[str, ...]:
    """Values that are separated by commas, of a flag that may be given again."""
    # No Sequence[str]: typer asks whether that is a class of its own, and Python 3.10 raises then.
    return listed(",".join(values))


def _gathered(
    function: Callable[..., Any], given: dict[str, Any], context: typer.Context
) -> dict[str, Any]:
    """What a function is called with: dataclasses of what was said, None where nothing was."""
    values, parameters = dict(given), inspect.signature(function, eval_str=True).parameters
    for name, one in parameters.items():
        if held := options_class(one):
            names = [field.name for field in fields(held) if field.name not in parameters]
            found = {name: values.pop(name) for name in names}
            sources = {key: getattr(context.get_parameter_source(key), "name", "") for key in found}
            said = {key: found[key] for key in found if sources[key] == "COMMANDLINE"}
            values[name] = held(**said) if said or one.default is not None else None
    return values


def _take(path: Path) -> None:
    """Runs a file that puts parts of the user's own onto the registries."""
    from heads.parts import resolve  # noqa: F401  the built-in parts come first

    if current_limits().public:
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
    """Return a sentence, or for - what comes from standard input without its last line end."""
    return sys.stdin.read().removesuffix("\n").removesuffix("\r") if text == "-" else text


def write_figure(figure: Any, path: Path) -> None:
    """Write a Plotly figure as one HTML file that needs no network, or raise DataError."""
    from heads.caching import write_page

    write_page(path, lambda: figure.to_html(include_plotlyjs=True, config={"responsive": True}))


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
