"""P5: no model, head or table, however it is made, gets code of its own run.

Every hostile folder and head is offered three ways: as it lies there, with sound weights and a
tokenizer beside it, and by the loader of heads. Those that carry code write a file or a word when
it runs; neither must be there. What Python is told of (`sys.addaudithook`) is watched too: no
process is started, no pickle read, no address asked, and no module imported from the folders.
"""

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heads.errors import HeadsError
from heads.settings import PUBLIC, Limits, use_limits
from studies.promises.promise import Row, corpus, from_tests

CANARY = Path("/tmp/REMOTE_CODE_EXECUTED")
WORD = "PICKLE-EXECUTED"
WATCHED = ("subprocess.Popen", "os.system", "os.exec", "pickle.find_class", "socket.connect")


def measure(short: bool) -> Iterator[Row]:
    """Offers every model and head of the corpus; short leaves out those with weights put in."""
    place = corpus()
    models = sorted((place / "models").iterdir())
    CANARY.unlink(missing_ok=True)
    asked = refused = 0
    with tempfile.TemporaryDirectory(prefix="promises-") as name, watched() as seen:
        folders = [str(path) for path in models]
        folders += [] if short else [str(_armed(path, Path(name))) for path in models]
        for folder in folders:
            for limits in (Limits(), PUBLIC):
                with use_limits(limits):
                    asked, refused = asked + 1, refused + _is_refused(folder)
        for path in sorted(place.glob("h*.safetensors")):
            asked, refused = asked + 1, refused + _is_refused(str(path))
    harm = int(CANARY.exists()) + len(seen)
    told = f": {', '.join(sorted(set(seen)))}" if seen else ""
    yield Row(
        promise="P5",
        says="No code of a model or a head is run.",
        measured=f"{asked} offers of {len(models)} models and all heads, {refused} refused: "
        f"{harm} canaries{told}",
        target="0 canaries",
        holds=not harm,
    )


def _is_refused(model: str) -> bool:
    import heads
    from heads.backbone import loading

    is_head = model.endswith(".safetensors")
    try:
        if is_head:
            heads.load(model)
        else:
            found = loading.load(model)
            found.states(found.encode(["a cat"]))
    except HeadsError:
        return True
    return False


def _armed(path: Path, place: Path) -> Path:
    """A folder with a small model's weights and tokenizer beside what it brings."""
    folder, sound = place / path.name, place / "sound"
    if not sound.exists():
        from_tests("tiny_models").save_tiny(sound, "bert")
    shutil.copytree(sound, folder)
    shutil.copytree(path, folder, dirs_exist_ok=True)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        config = json.loads((folder / "config.json").read_text("utf-8"))
        small = json.loads((sound / "config.json").read_text("utf-8"))
        if config.get("model_type") == "bert":  # so small that the weights would fit
            (folder / "config.json").write_text(json.dumps({**config, **small}), "utf-8")
    return folder


_seen: list[str] = []
_is_watching: list[bool] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_watching and event.startswith(WATCHED):
        _seen.append(f"{event} {arguments[:2]!r:.80}")


sys.addaudithook(_watch)  # there is no way to take one away, so there is one


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Within it, what must not happen is written down."""
    _seen.clear()
    _is_watching.append(True)
    before = sys.stdout
    sys.stdout = _Listening(before)
    try:
        yield _seen
    finally:
        sys.stdout = before
        _is_watching.clear()


class _Listening:
    """Standard output, which hears the word of a pickle that was read."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def write(self, text: str) -> int:
        if WORD in text:
            _seen.append(WORD)
        return self._out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)
