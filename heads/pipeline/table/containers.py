"""What a file is by its first bytes, and one sentence for each that is no table."""

import re

from heads.errors import DataError

_EXPORT = "Export the table as CSV in UTF-8."
_TABLE = "Choose a CSV, TSV, JSONL or Parquet file."
_UNPACK = "Unpack it and choose the table in it."
# First bytes, what such a file is, what to do. Nothing here is ever opened or unpacked.
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive, which is never unpacked here", _UNPACK),
    (b"BZh", "a bzip2 archive, which is never unpacked here", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive, which is never unpacked here", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive, which is never unpacked here", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive, which is never unpacked here", _UNPACK),
    (b"Rar!", "a RAR archive, which is never unpacked here", _UNPACK),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file", _EXPORT),
    (b"\x89PNG", "a picture, not a text table", _TABLE),
    (b"\xff\xd8\xff", "a picture, not a text table", _TABLE),
    (b"GIF8", "a picture, not a text table", _TABLE),
    (b"%PDF", "a PDF, not a text table", _TABLE),
    (b"{\\rtf", "a formatted document, not a text table", _EXPORT),
    (b"SQLite format 3", "a database, not a text table", _EXPORT),
    (b"ARROW1", "an Arrow file, not a text table", "Save it as Parquet or CSV."),
    (b"version https://git-lfs", "a Git LFS pointer, not the table itself", "Run: git lfs pull"),
)
_STRANGE = 0.3  # share of control characters beyond which nobody wrote this as text
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_PAGE = re.compile(r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_XML = re.compile(r"\s*<\?xml\b", re.I)


def refuse_container(head: bytes, name: str) -> None:
    """Refuses a file that is no text by its first bytes.

    Args:
        head: The first few thousand bytes.

    Raises:
        DataError: An archive, a workbook, a picture and the like, each with its own sentence.
    """
    if head.startswith(b"PK\x03\x04"):
        excel = b"[Content_Types].xml" in head or b"xl/" in head or b"mimetypeapplication" in head
        if excel:
            raise DataError(f"{name} is an Excel or other office file, not a text table.", _EXPORT)
        raise DataError(f"{name} is a zip archive, which is never unpacked here.", _UNPACK)
    for magic, kind, hint in _MAGIC:
        if head.startswith(magic):
            raise DataError(f"{name} is {kind}.", hint)
    if _PICKLE.match(head):
        what = f"{name} is a Python pickle, not a text table; it is never loaded."
        raise DataError(what, "Save the table as CSV or Parquet.")


def refuse_text(text: str, name: str) -> None:
    """Refuses a text that is no table: nothing, a web page, XML, or bytes in disguise.

    Raises:
        DataError: With its own sentence for each.
    """
    head = text[:20_000]
    if not head.strip() and not text.strip():
        raise DataError(f"{name}: The file is empty.", "Choose one with texts and labels.")
    if _PAGE.match(head):
        what = f"{name} is a web page, not a table."
        raise DataError(what, "Download the file itself (on GitHub: Raw).", line=1)
    if _XML.match(head):
        raise DataError(f"{name} is XML, not a table.", _EXPORT, line=1)
    strange = sum(letter < " " and letter not in "\t\r\n\f" for letter in head)
    if strange > _STRANGE * len(head):
        raise DataError(f"{name} is not a text table.", _TABLE)
