"""Trained heads kept on disk between starts, and in memory between questions.

A head is named by a fingerprint of all that it depends on: base model and revision, data,
recipe, the source of its parts, and the settings. What is found under that name is that head.
"""

import hashlib
import inspect
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from heads.errors import CheckpointError
from heads.parts import blocks, solvers
from heads.parts.menu import Order, resolve
from heads.pipeline import checkpoint, training
from heads.pipeline.backbone import Backbone
from heads.pipeline.classifier import TrainedHead
from heads.pipeline.corpus import Corpus
from heads.recipe import Recipe
from heads.settings import Limits, Training, cache_folder

IN_MEMORY = 256
_recent: OrderedDict[str, TrainedHead] = OrderedDict()
_recent_lock = threading.Lock()


def fingerprint(
    recipe: Recipe | str, corpus: Corpus, backbone: Backbone, settings: Training
) -> str:
    """The name under which a head is kept, 40 hexadecimal digits."""
    order = resolve(recipe)
    facts = (
        checkpoint.VERSION,
        (backbone.id, backbone.revision, backbone.tokens),
        corpus.fingerprint,
        (str(order.recipe), _source(order)),
        repr(settings),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


def _source(order: Order) -> str:
    """The code that makes a head: a part that has been rewritten is another part."""
    made: list[Any] = [order.pooling.make, order.head.make, blocks, solvers, training]
    if order.layers:
        made.append(order.layers.make)
    return "".join(map(_code, made))


@cache
def _code(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return repr(thing)  # typed at a prompt: no source, so never found again


def recall(key: str, backbone: Backbone, limits: Limits) -> TrainedHead | None:
    """The head of that name from memory or disk, or None; a broken file counts as none."""
    with _recent_lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key]
    path = _path(key)
    if not path.is_file():
        return None
    try:
        head = checkpoint.load(path, backbone, limits)
    except CheckpointError:
        return None
    _remember(key, head)
    return head


def keep(key: str, head: TrainedHead) -> None:
    """Keeps a head in memory, and on disk where the disk allows it."""
    _remember(key, head)
    try:
        write(_path(key), lambda path: checkpoint.save(head, path))
    except OSError:
        return  # a full or read-only disk costs the next start a few seconds, nothing else


def write(path: Path, fill: Callable[[Path], None]) -> None:
    """Writes a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    os.close(handle)
    try:
        fill(Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remember(key: str, head: TrainedHead) -> None:
    with _recent_lock:
        _recent[key] = head
        while len(_recent) > IN_MEMORY:
            _recent.popitem(last=False)


def _path(key: str) -> Path:
    return cache_folder() / "heads" / f"{key}.safetensors"
