"""The command `heads`: the same functions as the page, in a terminal.

Exit codes: 0 done, 1 a bug of ours, 2 something in the question that does not fit.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Annotated, Any

import typer

from heads import __version__, plugins
from heads.errors import HeadsError, did_you_mean
from heads.interfaces.cli import commands, files, inspect, train  # noqa: F401  each adds its own
from heads.interfaces.cli.shell import DASHED, shell


def command() -> int:
    """The command itself: `main`, and a quick end."""
    code = main()
    if "triton" not in sys.modules:  # which would print what is left of it, page after page
        gc.freeze()  # Python would look through all that torch has made, for a second
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, says in a sentence what is wrong with it, and returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # What a space precedes is no flag to typer; `shell.unguard` takes it away again.
    given = [f" {one}" if DASHED.match(one) else one for one in given] or ["--help"]
    group = _load_commands(given[0])
    with _noted_interrupts() as interrupted:
        try:
            if not (given[0].startswith("-") or given[0] in group.commands):
                known = [name for name, one in group.commands.items() if not one.hidden]
                raise HeadsError(
                    f"There is no command '{given[0]}'.", did_you_mean(given[0], known)
                )
            with group.make_context("heads", list(given)) as context:
                group.invoke(context)
            sys.stdout.flush()  # what a full disk does not take is said here, not behind our back
        except typer.Exit as done:
            return done.exit_code
        except (typer.TyperException, HeadsError) as error:
            if interrupted:
                return 130
            verb = f" {given[0]}" * (given[0] in group.commands)
            says = str(error) if isinstance(error, HeadsError) else _misused(error, verb)
            print(f"heads: {says}", file=sys.stderr)
            return 2
        except (BrokenPipeError, SystemExit):  # which rich makes of it
            _let_go_of_output()  # the reader has gone, as `head` does
        except KeyboardInterrupt:
            return 130
        except Exception as error:
            says, code = _unforeseen(error)
            print(f"heads: {says}", file=sys.stderr)
            return code
    return 0


def _load_commands(name: str) -> Any:
    """Return all commands; those of extras are loaded where `name` is none of the core's."""
    group: Any = typer.main.get_command(shell)
    if name in group.commands:
        return group
    plugins.load_each("commands")
    return typer.main.get_command(shell)


def _help(context: typer.Context, asked: bool) -> None:
    if asked:
        print(context.get_help(), flush=True)  # while a reader that has gone is no fault
        raise typer.Exit


def _version(asked: bool) -> None:
    if asked:
        print(f"heads {__version__}", flush=True)
        raise typer.Exit


@shell.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_version, is_eager=True)
    ] = False,
    # Where its own is not asked for, typer loads pydantic, before any command and its help.
    help: Annotated[
        bool, typer.Option("-h", "--help", help="print this", callback=_help, is_eager=True)
    ] = False,
) -> None:
    """Compare classification heads on one transformer."""


def _misused(error: Any, verb: str) -> str:
    """What typer says of a command line, as a sentence of ours."""
    says = " ".join(error.format_message().split()).replace("Value error, ", "")
    says = says.removesuffix(".") + "."
    if hasattr(error, "possibilities"):
        near = error.possibilities
        says = f"There is no option {error.option_name}."
        says += f" {did_you_mean(error.option_name, near)}" if near else ""
    return f"{says} See: heads{verb} --help"


@contextlib.contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Within it, every Ctrl+C is noted: a library that catches one makes an error of it."""
    noted: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread().name != "MainThread":
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)


def _unforeseen(error: Exception) -> tuple[str, int]:
    """What to say of an error that nobody foresaw, and the exit code; a full disk is no bug."""
    from heads.caching import refusal  # only here: a command begins sooner without it

    if told := refusal(error):
        _let_go_of_output()
        return str(told), 2
    where = plugins.locate_error(error)
    if extra := plugins.find_faulty_extra(error):
        return f"the extra '{extra}' failed, {where}: {error}", 1
    return f"a bug of ours, {where}.", 1


def _let_go_of_output() -> None:
    """Leaves nothing for Python to flush where nobody reads, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
