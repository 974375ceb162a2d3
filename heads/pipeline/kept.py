"""Trained heads kept on disk between starts, and in memory between questions.

A head is named by a fingerprint of all that it depends on: base model and revision, data,
recipe, the source of its parts, and the settings. What is found under that name is that head.
"""

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path

from heads.backbone.backbone import Backbone
from heads.caching import foreign_code, make_room, own_code, write
from heads.data.corpus import Corpus
from heads.errors import CheckpointError
from heads.parts.resolve import resolve
from heads.parts.resolved import Order
from heads.pipeline import checkpoint
from heads.pipeline.assembly import TrainedHead
from heads.recipe import Recipe
from heads.settings import Limits, Training, cache_folder

IN_MEMORY_BYTES = 300_000_000
ON_DISK_BYTES = 1_000_000_000
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
    """The code that makes a head: what has been rewritten is another head."""
    parts = [order.pooling.make, order.head.make, order.head.solve]
    parts += [order.layers.make] if order.layers else []
    return own_code() + "".join(foreign_code(part) for part in parts if part)


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
        make_room(_path(key).parent, ON_DISK_BYTES)
    except OSError:
        return  # a full or read-only disk costs the next start a few seconds, nothing else


def _remember(key: str, head: TrainedHead) -> None:
    with _recent_lock:
        _recent[key] = head
        while len(_recent) > 1 and sum(map(_bytes, _recent.values())) > IN_MEMORY_BYTES:
            _recent.popitem(last=False)


def _bytes(head: TrainedHead) -> int:
    return sum(tensor.nbytes for tensor in head.module.state_dict().values())


def _path(key: str) -> Path:
    return cache_folder() / "heads" / f"{key}.safetensors"
