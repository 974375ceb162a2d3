"""The command `heads`: the same functions as the page, in a terminal.

Exit codes: 0 done, 1 a bug of ours, 2 something in the question that does not fit.
"""

import gc
import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heads import __version__, api
from heads.backbone.models import BUNDLED
from heads.data.table import ColumnHints
from heads.errors import DataError, HeadsError, LimitError
from heads.interfaces.cli import commands, inspect, train
from heads.interfaces.cli.commands import Parser, let_go_of_output, noted_interrupts, unforeseen
from heads.interfaces.docstrings import flag
from heads.settings import limits, parts_file, set_parts_file, set_public

LOCAL = ("127.0.0.1", "localhost", "::1")
COLUMNS = ("text", "pair", "label", "split", "group")
LABELS = {"separator": "SIGN", "labels": "COLUMNS", "order": "CLASSES"}


def command() -> int:
    """The command itself: `main`, and a quick end."""
    code = main()
    gc.freeze()  # Python would look through all that torch has made, for a second
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    asked = _parser().parse_args(arguments)
    with noted_interrupts() as interrupted:
        return _done(asked, interrupted)


def _done(asked: Namespace, interrupted: Sequence[int]) -> int:
    """Does what is asked and says in a sentence what is wrong with it; the exit code."""
    try:
        if getattr(asked, "public", False) or getattr(asked, "host", LOCAL[0]) not in LOCAL:
            set_public()  # before anything else: it decides what may be opened
        inherited = parts_file() if asked.run is train.work else None
        if path := asked.parts_file or inherited:
            _take(path)
            set_parts_file(path)  # for the processes that this one starts
        asked.run(asked)
        sys.stdout.flush()  # what a full disk does not take is said here, not behind our back
    except HeadsError as error:
        if interrupted:
            return 130
        print(f"heads: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        let_go_of_output()  # the reader has gone, as `head` does
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        says, code = unforeseen(error)
        print(says, file=sys.stderr)
        return code
    return 0


def _parser() -> Parser:
    parser = Parser(prog="heads", description="Compare classification heads on one transformer.")
    parser.add_argument("--version", action="version", version=f"heads {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    common = Parser(add_help=False)
    common.add_argument(
        "--with",
        dest="parts_file",
        type=Path,
        metavar="FILE",
        help="a Python file with poolings and heads of your own; it is run, so trust it",
    )
    asking = Parser(add_help=False, parents=[common])
    asking.add_argument("--pair", default="", metavar="TEXT", help=flag(api.compare, "pair"))
    _add_model(asking)
    asking.add_argument("--sample", default="", metavar="NAME", help=flag(api.compare, "sample"))
    asking.add_argument("--json", action="store_true", help="print JSON")

    verb = verbs.add_parser("compare", parents=[asking], help="a text under several recipes")
    verb.add_argument("text", help="the sentence, or - to read it from standard input")
    commands.add_recipes(verb)
    commands.add_way(verb)
    verb.set_defaults(run=commands.compare)

    verb = verbs.add_parser("explain", parents=[asking], help="a recipe from tokens to logits")
    verb.add_argument("recipe", nargs="+", help="such as cls+roberta; two show what differs")
    verb.add_argument("--text", default="", help=flag(api.explain, "text"))
    verb.set_defaults(run=commands.explain)

    inspect.add(verbs, asking)
    _add_grid_verbs(verbs, common)
    _add_export(verbs, common)
    _add_catalogue_verbs(verbs, common)
    _add_other_verbs(verbs, common)
    return parser


def _add_model(parser: Parser) -> None:
    says = flag(api.compare, "model")
    parser.add_argument("--model", default=BUNDLED, metavar="ID", help=says)


def _add_grid_verbs(verbs: Any, common: Parser) -> None:
    reading = Parser(add_help=False, parents=[common])
    _add_model(reading)
    for name in COLUMNS:
        says = flag(ColumnHints, name)
        reading.add_argument(f"--{name}", default="", metavar="COLUMN", help=says)
    for name, metavar in LABELS.items():
        how = "none: one label a cell" if name == "separator" else "parted by commas"
        says = f"{flag(ColumnHints, name)}; {how}"
        reading.add_argument(f"--{name}", default="", metavar=metavar, help=says)
    reading.add_argument("--number", action=BooleanOptionalAction, help=flag(ColumnHints, "number"))
    reading.add_argument(
        "--header", default="guess", choices=("guess", "yes", "no"), help=flag(api.read, "header")
    )
    reading.add_argument("--json", action="store_true", help="print JSON")
    verb = verbs.add_parser(
        "read", parents=[reading], help="how a file of texts and labels is read"
    )
    verb.add_argument("data", help=flag(api.read, "data"))
    verb.set_defaults(run=train.look)

    verb = verbs.add_parser(
        "train", parents=[reading], help="a grid of heads on your own data, compared"
    )
    verb.add_argument("data", nargs="?", default="", help=flag(api.read, "data"))
    commands.add_recipes(verb)
    verb.add_argument("--grid", default="", help=f"{flag(api.train_grid, 'grid')} (small)")
    commands.add_ways(verb)
    verb.add_argument("--test", default="", metavar="FILE", help=flag(api.train_grid, "test"))
    verb.add_argument("--out", type=Path, metavar="DIR", help=flag(api.train_grid, "out"))
    verb.add_argument(
        "--resume", default="", metavar="RUN", help="go on with a run that was stopped"
    )
    commands.add_config(verb)
    verb.set_defaults(run=train.train)

    _add_run_verbs(verbs, common)


def _add_run_verbs(verbs: Any, common: Parser) -> None:
    verb = verbs.add_parser("runs", parents=[common], help="the runs that are kept")
    verb.add_argument("names", nargs="*", metavar="RUN", help="show one, or compare some")
    verb.add_argument("--delete", action="store_true", help="delete the runs that are named")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=train.runs)

    verb = verbs.add_parser("reproduce", parents=[common], help="compute a published figure anew")
    verb.add_argument("name", help="banking77")
    verb.add_argument("--data", type=Path, required=True, metavar="DIR", help="train.csv, test.csv")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=train.reproduce)

    verb = verbs.add_parser("work", parents=[common], help="go on with a run, as JSON lines")
    verb.add_argument("folder", type=Path, help="the folder of the run")
    verb.set_defaults(run=train.work)


def _add_catalogue_verbs(verbs: Any, common: Parser) -> None:
    verb = verbs.add_parser("families", parents=[common], help="every classifier of Transformers")
    verb.add_argument("family", nargs="*", help="such as bert; all, if none is given")
    verb.add_argument("--check", action="store_true", help="build each small and compare logits")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.families)

    verb = verbs.add_parser("diff", parents=[common], help="what sets two heads apart, in words")
    verb.add_argument("one", help=flag(api.difference, "one"))
    verb.add_argument("other", help=flag(api.difference, "other"))
    says = flag(api.difference, "model")
    verb.add_argument("--model", default=BUNDLED, metavar="ID", help=says)
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.diff)

    verb = verbs.add_parser("doctor", parents=[common], help="what padding does to a classifier")
    verb.add_argument("model", help=flag(api.examine, "model"))
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.doctor)

    verb = verbs.add_parser("twin", parents=[common], help="the bundled model as another family")
    verb.add_argument("family", nargs="?", default="", help="such as roberta; lists them if empty")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.twin)


def _add_export(verbs: Any, common: Parser) -> None:
    verb = verbs.add_parser("export", parents=[common], help="a head as a Transformers checkpoint")
    verb.add_argument("recipe", help="such as cls+bert, or own: the head that a model came with")
    verb.add_argument("to", type=Path, help="a new folder; with --onnx a file")
    says = f"{flag(api.read, 'data')} (sentiment)"
    verb.add_argument("--data", default="", metavar="NAME", help=says)
    verb.add_argument(
        "--run", dest="run_name", default="", metavar="RUN", help="take a head of this run instead"
    )
    _add_model(verb)
    verb.add_argument("--onnx", action="store_true", help="write one ONNX file instead")
    verb.add_argument(
        "--calibrated",
        action="store_true",
        help="divide its logits by the temperature found in training: as sure as it is right",
    )
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.export)


def _add_other_verbs(verbs: Any, common: Parser) -> None:
    verb = verbs.add_parser("parts", parents=[common], help="all poolings, layers and heads")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.parts)

    verb = verbs.add_parser("fetch", parents=[common], help="download a base model beforehand")
    verb.add_argument("model", metavar="ID", help="a Hub id, such as google-bert/bert-base-uncased")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=commands.fetch)

    verb = verbs.add_parser("app", parents=[common], help="open the page in a browser")
    verb.add_argument("--port", type=int, help="7860 or the next free one, if not given")
    verb.add_argument(
        "--host", default="127.0.0.1", help="0.0.0.0 lets other machines in, and is public mode"
    )
    verb.add_argument("--public", action="store_true", help="small limits, no local folders")
    verb.set_defaults(run=commands.app)


def _take(path: Path) -> None:
    """Runs a file that puts parts of the user's own onto the registries."""
    import runpy

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
