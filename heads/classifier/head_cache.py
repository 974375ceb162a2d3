"""Trained heads kept on disk between starts, and in memory between questions.

A head is named by a fingerprint of all that it depends on: base model and revision, data,
recipe, the source of its parts, and the settings. What is found under that name is that head.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from pathlib import Path

from heads.backbone.backbone import Backbone
from heads.backbone.tuned import TunedBase
from heads.caching import foreign_code, make_room, own_code, used, write
from heads.checked_files import fill_tensors, read_tensors
from heads.classifier.module import TrainedHead, head_from_facts
from heads.data.corpus import Corpus
from heads.errors import CheckpointError, HeadsError, RecipeError
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.settings import ExperimentConfig, kept_folder

# --- A trained head as one safetensors file, and back.

VERSION = 1
KEY = "head-to-head"
BASE = "base."  # stands before the tensors of a base model that was tuned with the head
MALFORMED = (ValueError, KeyError, TypeError, RuntimeError, AttributeError)
BROKEN = "Delete the file; the head will be trained again."


def save(head: TrainedHead, path: Path) -> None:
    """Write a head that was trained here to a file."""
    if head.scores is None or head.training is None:
        raise CheckpointError("A checkpoint's own head needs no file of its own.", "Keep it there.")
    facts = {"version": VERSION, "model": head.model, **head.facts}
    tensors = dict(head.module.state_dict())
    if head.base is not None:
        facts["base"] = {"tune": head.base.tune, "adapter": dict(head.base.adapter)}
        tensors |= {f"{BASE}{name}": own for name, own in head.base.tensors.items()}
    fill_tensors(path, tensors, {KEY: json.dumps(facts)})


def load(path: Path, backbone: Backbone) -> TrainedHead:
    """Read a trained head onto its base model; raise CheckpointError if it is broken or unfit."""
    try:
        tensors, metadata = read_tensors(path)
        facts = json.loads(metadata[KEY])
        if facts["version"] != VERSION or facts["model"] != backbone.id:
            raise CheckpointError(f"{path.name} is for another version or base model.", BROKEN)
        own = {n: t for n, t in tensors.items() if not n.startswith(BASE)}
        base = {n.removeprefix(BASE): t for n, t in tensors.items() if n.startswith(BASE)}
        tuned = facts.get("base")
        learned = tuned and TunedBase(tensors=base, **tuned)
        head = head_from_facts(facts, own, backbone, learned)
        if head.scores is None or head.training is None:
            raise ValueError("a head that was never trained")
        return head
    except CheckpointError:
        raise
    except RecipeError as error:
        hint = "If it needs a part of your own, load that first; else train again."
        raise CheckpointError(f"{path.name} is not readable here: {error.what}", hint) from error
    except (OSError, HeadsError, *MALFORMED) as error:
        what = f"{path.name} is not a head that this version can read ({type(error).__name__})."
        raise CheckpointError(what, BROKEN) from error


IN_MEMORY_BYTES = 300_000_000
ON_DISK_BYTES = 4_000_000_000  # a head that has learned its base model as well is as large as that
_recent: OrderedDict[str, TrainedHead] = OrderedDict()
_recent_lock = threading.Lock()


def fingerprint(
    resolved: ResolvedRecipe, corpus: Corpus, backbone: Backbone, config: ExperimentConfig
) -> str:
    """The name under which a head is kept, 40 hexadecimal digits."""
    facts = (
        VERSION,
        (backbone.id, backbone.revision, backbone.tokens),
        corpus.fingerprint,
        (str(resolved.recipe), _source(resolved)),
        repr(config),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


def _source(resolved: ResolvedRecipe) -> str:
    """The code that makes a head: what has been rewritten is another head."""
    parts = [resolved.pooling.make, resolved.head.make, resolved.head.solve]
    parts += [resolved.layers.make] if resolved.layers else []
    parts += [resolved.tuning.make] if resolved.is_tuned else []
    return own_code() + "".join(foreign_code(part) for part in parts if part)


def load_again(path: Path, backbone: Backbone) -> TrainedHead:
    """Read a trained head as `load` does; one as large as a base model stays in memory."""
    try:
        written = path.stat().st_mtime_ns
    except OSError:
        written = 0
    key = repr((str(path.absolute()), written, backbone.id, backbone.revision))
    if head := _find_recent(key):
        return head
    head = load(path, backbone)
    if head.base is not None:
        _remember(key, head)
    return head


def recall(key: str, backbone: Backbone) -> TrainedHead | None:
    """The head of that name from memory or disk, or None; a broken file counts as none."""
    if head := _find_recent(key):
        return head
    path = path_of(key)
    if not path.is_file():
        return None
    try:
        head = load(path, backbone)
    except CheckpointError:
        return None
    used(path)
    _remember(key, head)
    return head


def keep(key: str, head: TrainedHead) -> None:
    """Keeps a head in memory, and on disk where the disk allows it."""
    _remember(key, head)
    try:
        write(path_of(key), lambda path: save(head, path))
        make_room(path_of(key).parent, ON_DISK_BYTES)
    except OSError:
        return  # a full or read-only disk costs the next start a few seconds, nothing else


def _find_recent(key: str) -> TrainedHead | None:
    with _recent_lock:
        if key in _recent:
            _recent.move_to_end(key)
        return _recent.get(key)


def _remember(key: str, head: TrainedHead) -> None:
    with _recent_lock:
        _recent[key] = head
        while len(_recent) > 1 and sum(map(_bytes, _recent.values())) > IN_MEMORY_BYTES:
            _recent.popitem(last=False)


def _bytes(head: TrainedHead) -> int:
    tensors = [
        *head.module.state_dict().values(),
        *(head.base.tensors.values() if head.base else ()),
    ]
    return sum(tensor.nbytes for tensor in tensors)


def path_of(key: str) -> Path:
    """Return the file under which a head of that name is kept."""
    return kept_folder() / "heads" / f"{key}.safetensors"
