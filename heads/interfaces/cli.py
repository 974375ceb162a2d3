"""The command `heads`: the same functions as the page, in a terminal.

Exit codes: 0 done, 1 a bug of ours, 2 something in the question that does not fit.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from heads import __version__
from heads.errors import DataError, HeadsError, LimitError
from heads.settings import limits, set_public

LOCAL = ("127.0.0.1", "localhost", "::1")
MODEL = "all-MiniLM-L6-v2"
SAMPLES = "sentiment, intents, pairs or aspects"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    asked = _parser().parse_args(arguments)
    try:
        if getattr(asked, "public", False) or getattr(asked, "host", LOCAL[0]) not in LOCAL:
            set_public()  # before anything else: it decides what may be opened
        if asked.parts_file:
            _take(asked.parts_file)
        asked.run(asked)
    except HeadsError as error:
        print(f"heads: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has gone, as `head` does; leave nothing for Python to flush into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        print(f"heads: a bug of ours, {type(error).__name__} in {where}.", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="heads", description="Compare classification heads on one transformer."
    )
    parser.add_argument("--version", action="version", version=f"heads {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--with",
        dest="parts_file",
        type=Path,
        metavar="FILE",
        help="a Python file with poolings and heads of your own; it is run, so trust it",
    )
    asking = argparse.ArgumentParser(add_help=False, parents=[common])
    asking.add_argument("--pair", default="", metavar="TEXT", help="a second sentence")
    asking.add_argument("--model", default=MODEL, metavar="ID", help="a Hub id or a folder")
    asking.add_argument("--sample", default="", metavar="NAME", help=f"trained on: {SAMPLES}")
    asking.add_argument("--json", action="store_true", help="print JSON")

    verb = verbs.add_parser("compare", parents=[asking], help="a text under several recipes")
    verb.add_argument("text", help="the sentence, or - to read it from standard input")
    verb.add_argument(
        "-r", "--recipe", action="append", metavar="RECIPE", help="such as mean+linear; repeatable"
    )
    verb.set_defaults(run=_compare)

    verb = verbs.add_parser("explain", parents=[asking], help="a recipe from tokens to logits")
    verb.add_argument("recipe", nargs="+", help="such as cls+roberta; two show what differs")
    verb.add_argument("--text", default="", help="the sentence on which the reading is shown")
    verb.set_defaults(run=_explain)

    _add_other_verbs(verbs, common)
    return parser


def _add_other_verbs(verbs: Any, common: argparse.ArgumentParser) -> None:
    verb = verbs.add_parser("parts", parents=[common], help="all poolings, layers and heads")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=_parts)

    verb = verbs.add_parser("fetch", parents=[common], help="download a base model beforehand")
    verb.add_argument("model", metavar="ID", help="a Hub id, such as google-bert/bert-base-uncased")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=_fetch)

    verb = verbs.add_parser("app", parents=[common], help="open the page in a browser")
    verb.add_argument("--port", type=int, help="7860 or the next free one, if not given")
    verb.add_argument(
        "--host", default="127.0.0.1", help="0.0.0.0 lets other machines in, and is public mode"
    )
    verb.add_argument("--public", action="store_true", help="small limits, no local folders")
    verb.set_defaults(run=_app)


def _compare(asked: argparse.Namespace) -> None:
    from heads.pipeline.comparison import RECIPES, comparing

    text = sys.stdin.read() if asked.text == "-" else asked.text
    events = comparing(
        text, asked.pair, recipes=asked.recipe or RECIPES, model=asked.model, sample=asked.sample
    )
    found = _last(events).comparison
    if asked.json:
        _print_json(found.as_json())
    else:
        from heads.interfaces import terminal

        terminal.comparison(found)


def _explain(asked: argparse.Namespace) -> None:
    from heads.pipeline.inquiry import TEXT, difference, explaining

    if len(asked.recipe) > 2:
        raise LimitError("At most two recipes can be explained at once.", "Leave some out.")
    text = asked.text or TEXT
    settings = {"model": asked.model, "sample": asked.sample}
    found = [_last(explaining(recipe, text, asked.pair, **settings)) for recipe in asked.recipe]
    differs = difference(*asked.recipe, model=asked.model) if len(found) == 2 else ""
    if asked.json and differs:
        _print_json({"recipes": [item.as_json() for item in found], "difference": differs})
    elif asked.json:
        _print_json(found[0].as_json())
    else:
        from heads.interfaces import terminal

        terminal.explanations(found, differs)


def _parts(asked: argparse.Namespace) -> None:
    from heads.parts import menu

    if asked.json:
        _print_json(menu.parts())
    else:
        from heads.interfaces import terminal

        terminal.parts(menu.parts())


def _fetch(asked: argparse.Namespace) -> None:
    from heads.pipeline.backbone import load
    from heads.pipeline.hub import fetch

    folder = fetch(asked.model, limits(), say=lambda line: print(line, file=sys.stderr))
    backbone = load(asked.model, limits=limits(), download=False)
    if asked.json:
        _print_json({"model": backbone.id, "revision": backbone.revision, "folder": str(folder)})
    else:
        print(f"{backbone.id} ({backbone.parameters:,} parameters) is on this machine and loads.")


def _app(asked: argparse.Namespace) -> None:
    print("Starting. At the very first start the example heads are trained: some seconds.")
    from heads.interfaces.web import LAUNCH, build

    page = build()
    settings = {"server_name": asked.host, "server_port": asked.port, "quiet": True}
    try:
        _, url, _ = page.launch(prevent_thread_lock=True, **settings, **LAUNCH)
    except (OSError, OverflowError) as error:
        raise DataError(
            f"The page cannot be served there ({str(error).splitlines()[0]}).",
            "Choose another --port.",
        ) from None
    print(f"Head to Head is at {url} (Ctrl+C stops it).", flush=True)
    page.block_thread()


def _take(path: Path) -> None:
    """Runs a file that puts parts of the user's own onto the shelves."""
    import runpy

    from heads.parts import menu  # noqa: F401  the built-in parts come first

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


def _last(events: Iterable[Any]) -> Any:
    """The last of a stream of events; on a terminal, the progress before it is shown."""
    from rich.console import Console

    from heads.pipeline.training import Progress

    event = None
    with Console(stderr=True).status("Starting") as status:
        for event in events:
            if isinstance(event, Progress):
                status.update(f"{event.says} ({event.share:.0%})")
    return event


def _print_json(values: object) -> None:
    print(json.dumps(values, ensure_ascii=False, indent=2))
