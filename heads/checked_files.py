"""Files that carry a checksum: damage to what is stored is noticed when it is read again.

One flipped bit of a number gives another number, which no parser refuses. So a CRC-32 is written
into the file itself: a kill between two writings leaves no file beside a checksum of another. It
guards against damage, not malice. Files of earlier versions carry none and are read as they are.
"""

import json
import zlib
from collections.abc import Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.caching import save_tensors, write

if TYPE_CHECKING:
    from torch import Tensor

CRC = "crc32"  # in the metadata of a safetensors file, and the last field of a JSON object
FACTS = ""  # stands for the metadata, where checksums are named by their tensors
VALUES = "values"  # the field of what is no object
BLOCK = 1 << 20  # bytes


# --- Tensors.


def write_tensors(
    path: Path, tensors: Mapping[str, "Tensor"], facts: Mapping[str, str] | None = None
) -> None:
    """Write tensors with their checksums as a safetensors file, whole or not at all.

    Args:
        tensors: Of any layout in memory: views, and the same one under several names.
        facts: What stands beside them, in the file's metadata.
    """
    write(path, partial(fill_tensors, tensors=tensors, facts=facts))


def fill_tensors(
    path: Path, tensors: Mapping[str, "Tensor"], facts: Mapping[str, str] | None = None
) -> None:
    """Write tensors with their checksums into a file that the caller renames when it is whole."""
    facts = dict(facts or {})
    sums = {name: _crc_of_tensor(tensor) for name, tensor in tensors.items()}
    sums[FACTS] = _crc_of_facts(facts)
    save_tensors(path, tensors, {**facts, CRC: json.dumps(sums)})


def read_tensors(
    path: Path, names: Collection[str] | None = None
) -> tuple[dict[str, "Tensor"], dict[str, str]]:
    """Read tensors and metadata, and compare what is read with its checksums.

    Args:
        names: The tensors to read; without them all are.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read, is damaged, or lacks one of the tensors.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts, stored = file.metadata() or {}, set(file.keys())
            tensors = {name: file.get_tensor(name) for name in sorted(names or stored)}
        sums = json.loads(facts.pop(CRC, "null"))
    except (SafetensorError, ValueError) as error:
        raise OSError(f"{path.name} is damaged") from error
    if sums is not None:
        read = {name: _crc_of_tensor(tensor) for name, tensor in tensors.items()}
        read[FACTS] = _crc_of_facts(facts)
        if stored | {FACTS} != set(sums) or any(sums[name] != crc for name, crc in read.items()):
            raise OSError(f"{path.name} is damaged")
    return tensors, facts


def _crc_of_tensor(tensor: "Tensor") -> int:
    import torch

    kind = zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    numbers: Any = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return zlib.crc32(numbers, kind)


def _crc_of_facts(facts: Mapping[str, str]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


# --- JSON.


def write_json(path: Path, values: Any) -> None:
    """Write plain values with their checksum as a JSON file, whole or not at all."""
    text = json_text(values)
    write(path, lambda place: place.write_text(text, "utf-8"))


def json_text(values: Any) -> str:
    """Return plain values as a JSON object whose last field is the checksum of the text before it.

    >>> json_text({"a": 1})
    '{"a": 1, "crc32": "245c0439"}'
    """
    values = values if isinstance(values, dict) else {VALUES: values}
    inside = json.dumps(values, ensure_ascii=False)
    text = f"{inside[:-1]}, " if len(inside) > 2 else "{"
    return f'{text}"{CRC}": "{zlib.crc32(text.encode()):08x}"}}'


def read_json(path: Path) -> Any:
    """Read the plain values of a JSON file, and compare them with the checksum, if it has one.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read, or is damaged.
    """
    try:
        text = path.read_text("utf-8")
        values = json.loads(text)
    except ValueError as error:
        raise OSError(f"{path.name} is damaged") from error
    if not isinstance(values, dict) or CRC not in values:
        return values
    inside = text[: text.rindex(f'"{CRC}"')]
    if values.pop(CRC) != f"{zlib.crc32(inside.encode()):08x}":
        raise OSError(f"{path.name} is damaged")
    return values[VALUES] if set(values) == {VALUES} else values


# --- Files of other kinds, whose checksum stands in another file.


def crc_of_file(path: Path) -> int:
    """Return the checksum of a file; it is read again only if its size or time has changed."""
    stat = path.stat()
    return _crc_of_file(path, stat.st_size, stat.st_mtime_ns)


@cache
def _crc_of_file(path: Path, size: int, changed: int) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc = zlib.crc32(block, crc)
    return crc
