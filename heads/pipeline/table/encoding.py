"""Bytes to text: the encoding is decided on the whole file, and never guessed in silence.

Measured on the files this was made for, charset-normalizer names the wrong encoding for every
one that is not Unicode (cp1250, ISO 8859-10, ISO 8859-13 and cp949 for Windows-1252, a damaged
UTF-8 and Shift-JIS), so the rules here are few and strict instead.
"""

import codecs
import re
from itertools import islice

from heads.errors import DataError
from heads.pipeline.table.sheet import Finding, finding

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_SAVE = "Save it as UTF-8."
_RUNS = re.compile(rb"[\x80-\xff]+")
_MOST_RUNS = 20_000
# Windows-1252: letters, and the signs that stand inside or beside Western European words.
_LETTERS = frozenset(range(0xC0, 0x100)) - {0xD7, 0xF7} | {0x8A, 0x8C, 0x8E, 0x9A, 0x9C, 0x9E, 0x9F}
_LETTERS |= {0xAA, 0xBA, 0xB5}
_NEVER_BESIDE = frozenset((0x83, 0x86, 0x87, 0x88, 0x89, 0x98))  # ƒ † ‡ ˆ ‰ ˜ beside a letter
_SIGNS = frozenset((0x80, 0x84, 0x85, *range(0x91, 0x98), 0xA0, 0xAB, 0xAD, 0xB4, 0xB7, 0xBB))


def decode(raw: bytes, name: str) -> tuple[str, list[str], list[Finding]]:
    """Decodes a file by its mark, as UTF-8, as UTF-16, or as Windows-1252 with a warning.

    Returns:
        The text, notes and warnings.

    Raises:
        DataError: It is none of these; names the line.
    """
    for mark, codec, title in _MARKS:
        if raw.startswith(mark):
            note = [] if title == "UTF-8" else [f"Read as {title}."]
            return _strictly(raw[len(mark) :], codec, title, name), note, []
    codec = _unmarked_utf16(raw)
    if codec:
        return _strictly(raw, codec, "UTF-16", name), ["Read as UTF-16."], []
    try:
        return raw.decode("utf-8"), [], []
    except UnicodeDecodeError as error:
        return _western(raw, name, error.start)


def _strictly(raw: bytes, codec: str, title: str, name: str) -> str:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode(codec, "ignore")
        line = len(re.findall(r"\r\n|\r|\n", before)) + 1
        what = f"{name} begins like {title} but is damaged on line {line}."
        raise DataError(what, _SAVE, line=line) from None


def _unmarked_utf16(raw: bytes) -> str:
    """UTF-16 without a mark: every other byte of much of it is zero."""
    zeros = raw.count(0)
    if zeros * 20 < len(raw) or len(raw) % 2:
        return ""
    odd = raw[1::2].count(0)
    if odd >= 0.95 * zeros:
        return "utf-16-le"
    return "utf-16-be" if odd <= 0.05 * zeros else ""


def _western(raw: bytes, name: str, start: int) -> tuple[str, list[str], list[Finding]]:
    line = len(re.findall(rb"\r\n|\r|\n", raw[:start])) + 1
    lenient = raw.decode("utf-8", "replace")
    broken = lenient.count("\ufffd")
    if sum(map(len, re.findall(r"[^\x00-\x7f]+", lenient))) - broken >= broken:
        what = f"{name} is UTF-8 with damaged letters, the first on line {line}."
        raise DataError(what, "Mend that line, or save the file as UTF-8 again.", line=line)
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if not text or not _looks_western(raw):
        what = f"{name} is not UTF-8 (line {line}), and in what else it was saved is not certain."
        raise DataError(what, _SAVE, line=line)
    says = (
        f"{name} is not UTF-8; it was read as Windows-1252 (Western European), the first such "
        f"letter on line {line}. If letters look wrong, save it as UTF-8."
    )
    return text, ["Read as Windows-1252, not UTF-8."], [finding("encoding", says, [line])]


def _looks_western(raw: bytes) -> bool:
    """Whether bytes beyond ASCII stand where Western European letters and signs stand."""
    runs = list(islice(_RUNS.finditer(raw), _MOST_RUNS))
    return sum(_is_odd(raw, run) for run in runs) <= 0.1 * len(runs)


def _is_odd(raw: bytes, run: re.Match[bytes]) -> bool:
    """Whether a run is too long, or a sign stands within a word, as in other encodings."""
    letters = [byte for byte in run.group() if byte not in _SIGNS]
    before = raw[run.start() - 1 : run.start()].isalpha()
    after = raw[run.end() : run.end() + 1].isalpha()
    if len(letters) > 2 or ((before or after) and not _NEVER_BESIDE.isdisjoint(letters)):
        return True
    return before and after and any(byte not in _LETTERS for byte in letters)
