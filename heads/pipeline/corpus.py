"""Texts and their labels: from a table or from what a user typed to a `Corpus`.

Every text, wherever it comes from, passes `gate` before a tokenizer sees it.
"""

import csv
import hashlib
import io
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heads.errors import DataError
from heads.settings import Limits

SEPARATOR = "|"
KEPT_CONTROLS = "\n\t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Labelled texts.

    Attributes:
        name: How the user knows it.
        texts: One text a row.
        pairs: The second text of each row; empty where rows hold one text.
        classes: The names of the classes, in the order of the logits.
        targets: For each row the numbers of its classes: one, or any number for `many`.
        many: Whether a row may have any number of classes.
        fingerprint: A digest of all of it.
    """

    name: str
    texts: tuple[str, ...]
    pairs: tuple[str, ...]
    classes: tuple[str, ...]
    targets: tuple[tuple[int, ...], ...]
    many: bool
    fingerprint: str

    def __len__(self) -> int:
        return len(self.texts)


def gate(text: object, limits: Limits, what: str = "sentence") -> str:
    r"""Lets a text in: cut to a stated length, in NFC, without control characters.

    >>> gate("  cafe\u0301 \x07 ", Limits())
    'café'

    Raises:
        DataError: It is no text, or nothing is left of it.
    """
    if not isinstance(text, str):
        raise DataError(f"The {what} must be a text, not {type(text).__name__}.", "Type it.")
    most = limits.text_characters
    text = unicodedata.normalize("NFC", text[:most])[:most]  # which can make a text longer
    # Cc are control characters; Cs are lone surrogates, on which tokenizers fail.
    text = "".join(
        letter
        for letter in text
        if letter in KEPT_CONTROLS or unicodedata.category(letter) not in ("Cc", "Cs")
    ).strip()
    if not text:
        raise DataError(f"The {what} is empty.", f"Type a {what} first.")
    return text


def read(path: Path, limits: Limits) -> Corpus:
    """Reads a CSV file in UTF-8 with the columns text,label or text_a,text_b,label.

    Everything is read as strings. Where a label holds `|`, rows may have any number of
    labels, and an empty cell means none.

    Raises:
        DataError: The file is missing, or not such a table; names the line.
    """
    lines, rows = _cells(path)
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if header not in (["text", "label"], ["text_a", "text_b", "label"]):
        what = f"{path.name} has the columns {', '.join(header) or '(none)'}."
        raise DataError(what, "Name them text,label or text_a,text_b,label.", line=1)
    texts: list[list[str]] = [[] for _ in header[:-1]]
    for line, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(header):
            what = f"Line {line} of {path.name} has {len(row)} cells, not {len(header)}."
            raise DataError(what, "Put quotes around cells that hold commas.", line=line)
        for column, cell in zip(texts, row[:-1], strict=True):
            try:
                column.append(gate(cell, limits, "text"))
            except DataError as error:
                what = f"Line {line} of {path.name}: {error.what}"
                raise DataError(what, "Fill it, or leave the row out.", line=line) from None
    labels = [row[-1] for row in rows[1:]]
    return build(path.stem, texts[0], labels, pairs=texts[1] if len(texts) > 1 else ())


def _cells(path: Path) -> tuple[list[int], list[list[str]]]:
    """The rows of a CSV file, and the line on which each begins."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        what = f"{path.name} cannot be read ({error.strerror})."
        raise DataError(what, "Check the file.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"{path.name} is not UTF-8 on line {line}."
        raise DataError(what, "Save it as UTF-8.", line=line) from None
    lines, rows, line = [], [], 1
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            lines.append(line)
            rows.append(row)
            line = reader.line_num + 1
    except csv.Error as error:
        what = f"{path.name} is no CSV from line {line} on ({error})."
        raise DataError(what, "Close the quotes that were opened there.", line=line) from None
    return lines, rows


def build(
    name: str, texts: Sequence[str], labels: Sequence[str], pairs: Sequence[str] = ()
) -> Corpus:
    """Makes a corpus of gated texts and the cells of a label column.

    Raises:
        DataError: Fewer than two classes, or a row without a label where rows have one.
    """
    many = any(SEPARATOR in label for label in labels)
    sets = [
        sorted({part.strip() for part in label.split(SEPARATOR)} - {""}) if many
        else [label.strip()]
        for label in labels
    ]  # fmt: skip
    empty = next((n for n, names in enumerate(sets, start=2) if names == [""]), None)
    if empty:
        raise DataError(f"Row {empty} of {name} has no label.", "Give it one.", line=empty)
    classes = sorted({label for names in sets for label in names})
    if len(classes) < 2:
        found = f"found only '{classes[0]}'" if classes else "found none"
        raise DataError(f"{name} needs at least 2 classes; {found}.", "Add rows of another class.")
    number = {label: index for index, label in enumerate(classes)}
    digest = hashlib.sha256(repr((list(texts), list(pairs), sets)).encode())
    return Corpus(
        name=name,
        texts=tuple(texts),
        pairs=tuple(pairs),
        classes=tuple(classes),
        targets=tuple(tuple(number[label] for label in names) for names in sets),
        many=many,
        fingerprint=digest.hexdigest(),
    )


def split(corpus: Corpus, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Row numbers to train on and to hold out, every class in proportion.

    Rows are shuffled, laid out class by class, and every so-manieth one is held out.

    Args:
        share: The share that is held out, between 0 and 1.

    Returns:
        The rows to train on and the rows held out, each in ascending order.
    """
    rows = list(range(len(corpus)))
    random.Random(seed).shuffle(rows)
    rows.sort(key=lambda row: corpus.targets[row])  # stable: shuffled within a class
    held = {row for place, row in enumerate(rows) if int((place + 1) * share) > int(place * share)}
    return [row for row in sorted(rows) if row not in held], sorted(held)
