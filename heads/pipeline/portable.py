"""A classifier as a folder that works without this package: base model, head, one page of Python.

::

    backbone/          the base model and its tokenizer, as Transformers saves them
    head.safetensors   the tensors of the head, and of a pooling or layers that learned
    head.json          the recipe, the classes and what is known of the training
    load.py            texts to labels; needs torch, transformers and safetensors
    README.md          the model card
"""

import contextlib
import copy
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from heads.backbone.backbone import Backbone
from heads.caching import save_tensors, writing
from heads.classifier.classifier import Classifier
from heads.errors import CheckpointError, DataError
from heads.parts.modules import last_linear, leaves, words
from heads.pipeline.card import base_name, formulas, model_card, versions
from heads.pipeline.standalone import source
from heads.pipeline.trials import PAIRS, TEXTS, first_line, tried

FORMAT = "head-to-head portable"
VERSION = 1
FILES = ("README.md", "backbone", "head.json", "head.safetensors", "load.py")
MOST_DIFFERENCE = 5e-5  # what rounding comes to where a logit of 1 is the sum of terms of 50 in all
USAGE = """\
from load import load  # the load.py of this folder

classify = load()
classify({texts})
classify.logits({texts})
"""
TEXTS_OR_PAIRS = '["a text", "another text"]', '["a text"], ["a second text"]'


def write_portable(classifier: Classifier, folder: Path, *, why: str) -> float:
    """Writes a classifier as a folder that works without this package, and checks it.

    Args:
        folder: One that is not there yet, is empty, or was written by this function.
        why: Why it is no plain checkpoint of Transformers, in one sentence.

    Returns:
        The largest difference of two logits between the folder, loaded anew, and us.

    Raises:
        DataError: The folder cannot stand there.
        RecipeError: The source of a part is not to be had.
        CheckpointError: The folder does not give our logits; nothing is left of it.
    """
    folder = folder.expanduser().absolute()
    _check_place(folder)
    page = source(classifier)  # before anything is written: this may fail
    with writing(folder.name):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
            draft = Path(place) / "new"
            _write(classifier, draft, page, why)
            difference = _verify(classifier, draft)
            _publish(draft, folder, Path(place) / "old")
    return difference


def _check_place(folder: Path) -> None:
    """Refuses a folder that holds anything but an older export."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder.name} is no folder.", "Choose another name.")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    foreign = sorted(held - {*FILES, "__pycache__"})
    if foreign or (held and not _is_export(folder)):
        found = foreign[0] if foreign else "files of another kind"
        what = f"{folder.name} is not empty: it holds {found}."
        raise DataError(what, "Choose a folder that is empty or not there yet.")


def _is_export(folder: Path) -> bool:
    try:
        return json.loads((folder / "head.json").read_text("utf-8"))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(classifier: Classifier, folder: Path, page: str, why: str) -> None:
    folder.mkdir()
    _save_base(classifier.backbone, folder / "backbone")
    save_tensors(folder / "head.safetensors", classifier.head.module.state_dict())
    facts = json.dumps(_facts(classifier), ensure_ascii=False, indent=2)
    use = USAGE.format(texts=TEXTS_OR_PAIRS[classifier.head.needs_pairs])
    notes = [why, "Its `load.py` holds the source of what is read and of the head, to be read."]
    texts = {
        "head.json": facts + "\n",
        "load.py": page,
        "README.md": model_card(classifier, use, notes, library="head-to-head"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")


def _save_base(backbone: Backbone, folder: Path) -> None:
    """The base model and its tokenizer, without chat templates or anything that names code."""
    backbone.model.save_pretrained(folder)
    tokenizer = copy.deepcopy(backbone.tokenizer)
    tokenizer.chat_template = None
    if tokenizer.is_fast:  # how the last text was cut is not the tokenizer's own
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*config.json"):
        values = json.loads(path.read_text("utf-8"))
        kept = {name: value for name, value in values.items() if name not in ("auto_map",)}
        path.write_text(json.dumps(kept, ensure_ascii=False, indent=2) + "\n", "utf-8")


def _facts(classifier: Classifier) -> dict[str, Any]:
    """What `head.json` says."""
    head, backbone = classifier.head, classifier.backbone
    chain = head.module.head
    last = last_linear(chain)
    return {
        "format": FORMAT,
        "version": VERSION,
        "recipe": str(head.recipe),
        "classes": head.classes,
        "many": head.many,
        "says": head.module.reader.order.says,
        "formula": formulas(classifier),
        "layers": {name: words(layer, is_last=name == last) for name, layer in leaves(chain)},
        "base_model": base_name(backbone),
        "base_revision": backbone.revision,
        "tokens": backbone.tokens,
        "trained_on": head.trained_on,
        "rows": head.rows,
        "scores": asdict(head.scores) if head.scores else None,
        "training": asdict(head.training) if head.training else None,
        "chosen": dict(head.chosen),
        "numbers": head.numbers,
        "temperature": head.temperature,
        "thresholds": head.thresholds,
        "paired": head.paired,
        "versions": versions(),
    }


def _verify(classifier: Classifier, folder: Path) -> float:
    """Loads the folder as a user would; by how much its logits differ from ours at most."""
    with _module(folder / "load.py") as page:
        try:
            loaded = page.load(folder)
            loaded(TEXTS[2:3], PAIRS[2:3])
        except Exception as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            what = f"The folder of {classifier.recipe} does not load ({said})."
            raise CheckpointError(what, "It was not kept.") from error
        return tried(classifier, loaded.logits, most=MOST_DIFFERENCE)[1]


@contextlib.contextmanager
def _module(path: Path) -> Iterator[Any]:
    """A file of Python as a module, for a while; nothing is written beside it."""
    module = ModuleType(f"_{path.parent.parent.name.strip('.')}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for their module
    try:
        exec(compile(path.read_text("utf-8"), path, "exec"), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]


def _publish(draft: Path, folder: Path, old: Path) -> None:
    """Puts the new folder into its place, and the one before aside."""
    if folder.exists():
        folder.rename(old)
    try:
        draft.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
