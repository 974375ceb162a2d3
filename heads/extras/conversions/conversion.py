"""Write the bundled model as another family's checkpoint, once, and find it again.

Config and tensors must fit the installed Transformers' own class exactly, else nothing is written.
Only a pooler may be lacking, where AutoModel adds one that the family's classifier never reads and
that its own checkpoints lack too (RoBERTa and its kin); the bundled one has learned nothing.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.backbone.config_check import shown
from heads.backbone.hub import bundled_folder, verify
from heads.backbone.models import BUNDLED, BUNDLED_SHA256
from heads.caching import writing
from heads.errors import ModelError, did_you_mean
from heads.extras.conversions.rules import CONVERSIONS, Conversion, converted_id
from heads.settings import kept_folder

if TYPE_CHECKING:
    from torch import Tensor

VERSION = 1  # to be raised when the code below makes other files of the same rows
TOKENIZER = ("tokenizer.json", "vocab.txt", "special_tokens_map.json")
FILES = ("config.json", "model.safetensors", "tokenizer_config.json", *TOKENIZER)
RECORD = "twin.json"  # what was done, and the sums of all files; written last
UNUSED_SECONDS = 7 * 24 * 3600
WORDS = "embeddings.word_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
_making = threading.Lock()


def converted_folder(family: str) -> Path:
    """Return the folder of the bundled model as another family's checkpoint, made if need be.

    Raises:
        ModelError: There is no such family, or it cannot be made or written.
    """
    name = family.strip().lower()
    if (rules := CONVERSIONS.get(name)) is None:
        what = f"{BUNDLED} cannot be had as '{shown(family)}'."
        raise ModelError(what, did_you_mean(name, CONVERSIONS))
    facts = (VERSION, BUNDLED_SHA256, repr(rules), version("transformers"))
    folder = kept_folder() / "twins" / f"{rules.family}-{_sum(repr(facts).encode())[:12]}"
    with _making:  # two threads would do the same work twice; two processes may
        if not _is_whole(folder):
            _make(rules, folder)
    with contextlib.suppress(OSError):
        os.utime(folder)
    return folder


def _make(rules: Conversion, folder: Path) -> None:
    """Make the files of a conversion and put them in their place, all at once."""
    files = _make_files(rules)
    sums = {name: _sum(content) for name, content in files.items()}
    record = {"of": BUNDLED, "as": rules.family, "says": rules.says, "sha256": sums}
    files[RECORD] = json.dumps(record, indent=2).encode()
    hint = "Make room, or set HEADS_CACHE to a folder that can be written to."
    with writing(converted_id(rules.family), hint, ModelError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.iterdir():  # unused for a week: made again in a second or two
            with contextlib.suppress(OSError):  # another process may be doing the same
                if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                    shutil.rmtree(other)
        options = {"dir": folder.parent, "prefix": ".unfinished-", "ignore_cleanup_errors": True}
        with tempfile.TemporaryDirectory(**options) as made:
            for name, content in files.items():
                Path(made, name).write_bytes(content)
            _move(Path(made), folder)


def _move(place: Path, folder: Path) -> None:
    """Give a finished folder its name, or its files the place of those under that name."""
    try:
        place.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        # What is there is broken, or another process was quicker and wrote the very same files.
        for name in (*FILES, RECORD):
            (place / name).replace(folder / name)


def _is_whole(folder: Path) -> bool:
    """Return whether every file is as written; files are read only if they changed."""
    try:
        stats = [(folder / name).stat() for name in (*FILES, RECORD)]
        return _is_as_written(folder, tuple((stat.st_size, stat.st_mtime_ns) for stat in stats))
    except (OSError, ValueError, KeyError, TypeError):
        return False


@cache
def _is_as_written(folder: Path, stamp: tuple[tuple[int, int], ...]) -> bool:
    sums = json.loads((folder / RECORD).read_bytes())["sha256"]
    return all(_sum((folder / name).read_bytes()) == sums[name] for name in FILES)


def _make_files(rules: Conversion) -> dict[str, bytes]:
    """Make the files of a conversion but for the record from the bundled model's."""
    from safetensors.torch import save

    source = bundled_folder()
    verify(source)
    names = ["input_ids", *["token_type_ids"] * rules.segments, "attention_mask"]
    tokenizer = json.loads((source / "tokenizer_config.json").read_bytes())
    tokenizer["model_input_names"] = names
    config = _config(rules, json.loads((source / "config.json").read_bytes()))
    weights = _rename_tensors(rules, (source / "model.safetensors").read_bytes())
    return {name: (source / name).read_bytes() for name in TOKENIZER} | {
        "config.json": config.to_json_string().encode(),
        "model.safetensors": save(_fit(rules, config, weights), metadata={"format": "pt"}),
        "tokenizer_config.json": json.dumps(tokenizer, indent=2).encode(),
    }


def _config(rules: Conversion, bundled: dict[str, Any]) -> Any:
    """Return the family's config with the values of the bundled model that it has, and its own."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    default = AutoConfig.for_model(rules.family)
    about_the_file = ("model_type", "transformers_version", "_name_or_path")
    values = {name: bundled[name] for name in bundled if name not in about_the_file}
    around = {"bos_token_id": 101, "eos_token_id": 102}  # [CLS] and [SEP], where it names them
    values |= {name: around[name] for name in around if getattr(default, name, None) is not None}
    values = {name: values[name] for name in values if hasattr(default, name)}
    values |= rules.settings
    values["architectures"] = [MODEL_MAPPING_NAMES[rules.family]]
    return AutoConfig.for_model(rules.family, **values)


def _rename_tensors(rules: Conversion, weights: bytes) -> "dict[str, Tensor]":
    """Return the bundled model's tensors under the family's names, its tables changed."""
    from safetensors.torch import load
    from torch.nn.functional import pad

    tensors = load(weights)
    del tensors["embeddings.position_ids"]  # a row of counting numbers, of older versions
    if not rules.segments:  # BERT adds words and segments before positions: not a bit is lost
        tensors[WORDS] = tensors[WORDS] + tensors.pop(SEGMENTS)[0]
    tensors[POSITIONS] = pad(tensors[POSITIONS], (0, 0, rules.rows, 0))
    names = [name for name in tensors if rules.pooled or not name.startswith("pooler.")]
    return {_rename(name, rules): tensors[name] for name in names}


def _rename(name: str, rules: Conversion) -> str:
    number = next((part for part in name.split(".") if part.isdigit()), "")
    for ours, theirs in rules.renames:
        start = ours.replace("*", number) + "."
        if name.startswith(start):
            return f"{theirs.replace('*', number)}.{name.removeprefix(start)}"
    return name


def _fit(rules: Conversion, config: Any, tensors: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """Add the new tensors, and check all of them against those of the class."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):
        wanted = AutoModel.from_config(config).state_dict()
    for name, like in wanted.items():
        fill = next((fill for start, fill in rules.new.items() if name.startswith(start)), None)
        if fill is not None:
            is_identity = fill == "identity"
            tensors[name] = torch.eye(*like.shape) if is_identity else torch.zeros(like.shape)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    wanted = {n: like.shape for n, like in wanted.items() if n in shapes or "pooler." not in n}
    if shapes != wanted:
        name = min(name for name, _ in shapes.items() ^ wanted.items())
        what = f"The installed Transformers has other tensors in {rules.family}: {name} differs."
        raise ModelError(what, f"Choose another family, or {BUNDLED} as it is.")
    return tensors


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
