"""Features of texts without end: the base model reads piece after piece, on one machine or many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.engine import InferenceEngine, backends
from heads.backbone.loading import load
from heads.backbone.precision import EXACT
from heads.caching import own_code
from heads.data.columns import guess
from heads.data.corpus import check_text
from heads.data.frames import read_frame
from heads.data.table import Columns
from heads.data.text import normalize_text
from heads.errors import DataError, RecipeError
from heads.events import result
from heads.extras.scale.pieces import (
    NOTES,
    Piece,
    Source,
    numbered,
)
from heads.extras.scale.shards import TEXT_HASH
from heads.features.extraction import (
    Group,
    Pace,
    by_prompt,
    engine_of,
    read_by,
    read_texts,
)
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe
from heads.settings import Limits

if TYPE_CHECKING:
    import pyarrow

KINDS = ("float32", "float16")


def check_dtype(dtype: str) -> None:
    """Raise DataError for a type in which features are not saved."""
    if dtype not in KINDS:
        raise DataError(f"Features are kept as {' or '.join(KINDS)}, not {dtype:.40}.", "Choose.")


def fixed(reading: str, backbone: Backbone) -> ResolvedRecipe:
    """A reading as a recipe, which must be one that is not learned."""
    recipe = resolve(reading if "+" in reading else f"{reading}+linear")
    if recipe.needs_states or recipe.is_tuned:
        what = f"{reading} is learned together with its head, so its features cannot be kept."
        raise RecipeError(what, "Choose another reading, for example mean or cls.")
    Featurizer(recipe.side if recipe.pair else recipe, backbone)
    return recipe


SAMPLED = 1_000  # rows in which the columns of the texts are found


def columns_of(source: Source, text: str, pair: str, limits: Limits) -> tuple[str, str]:
    """The columns of the texts, guessed where they are not named."""
    if not text:
        found = _guessed(source, limits)
        text, pair = found.text, pair or found.pair
    source.check_column(text, "texts")
    if pair:
        source.check_column(pair, "second texts")
    if pair == text:
        raise DataError("The same column is chosen twice.", "Choose one for each of text and pair.")
    return text, pair


def _guessed(source: Source, limits: Limits) -> Columns:
    """The columns of the texts by what the first rows hold, whether there are labels or not."""
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string)
    named = [one.name for one in source.schema if any(test(one.type) for test in kinds)]
    if len(named) == 1:
        return Columns(text=named[0], label="")
    try:
        return guess(read_frame(source.pieces(SAMPLED)[0].read(), limits))
    except DataError as error:
        if "text" in named:
            return Columns(text="text", label="")
        what = f"It cannot be told which column of {source.name} holds the texts ({error.what})."
        raise DataError(what, "Name it (--text).") from None


def facts_of(
    resolved: Sequence[ResolvedRecipe], backbone: Backbone, text: str, pair: str, dtype: str
) -> dict[str, Any]:
    """All that features depend on besides the texts, as plain values."""
    way = backends(backbone, EXACT)[0]
    facts = *read_by(backbone, way, bool(pair)), own_code("data/corpus", "data/text")
    read = json.dumps(facts, default=str)
    return {
        "model": backbone.id,
        "revision": backbone.revision,
        "readings": widths_of(resolved, backbone),
        "text": text,
        "pair": pair,
        "dtype": dtype,
        "tokens": backbone.tokens,
        "code": hashlib.sha256(read.encode()).hexdigest()[:16],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor:
    """Loads a base model, and reads tables of texts with it.

    Attributes:
        recipes: By whose readings it reads; their heads do not matter.
        text: The column of the texts.
        pair: That of the second texts, or "".
        model: The base model.
        dtype: In what features are kept.
        limits: What is allowed.
    """

    recipes: tuple[str, ...]
    text: str
    pair: str
    model: str
    dtype: str
    limits: Limits

    def __call__(self) -> Reading:
        backbone = load(self.model, limits=self.limits)
        resolved = {one.reading: one for one in map(resolve, self.recipes)}
        return Reading(extractor=self, backbone=backbone, resolved=resolved)


@dataclass(slots=True, kw_only=True, eq=False)
class Reading:
    """A base model that reads tables of texts: their columns but the texts, and vectors."""

    extractor: Extractor
    backbone: Backbone
    resolved: dict[str, ResolvedRecipe]
    engine: InferenceEngine | None = None

    def __call__(self, table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
        import pyarrow as pa

        asked = self.extractor
        columns = [asked.text, *([asked.pair] if asked.pair else [])]
        texts = [[self._text(cell) for cell in table.column(name).to_pylist()] for name in columns]
        rows = list(zip(*texts, strict=True))
        there = np.array([all(row) for row in rows])
        different = list(dict.fromkeys(row for row, yes in zip(rows, there, strict=True) if yes))
        number = {row: place for place, row in enumerate(different)}
        index = np.array([number.get(row, 0) for row in rows])
        found = numbered(table, piece).drop_columns(columns)
        hashes = np.array([_hash(row) for row in rows], dtype=np.uint64)
        found = found.append_column(TEXT_HASH, pa.array(hashes))
        for reading, vectors in self._vectors(different).items():
            if reading in found.column_names:
                what = f"The rows have a column {reading}, as the features are called."
                raise DataError(what, "Give that column another name.")
            found = found.append_column(reading, self._column(vectors, index, there))
        told = json.dumps({"texts": len(different), "missing": int((~there).sum())})
        return found.replace_schema_metadata({NOTES: told.encode()})

    def _text(self, cell: object) -> str:
        """Return the text of a cell; "" where it is blank."""
        try:
            text = "" if cell is None else str(cell)
            return check_text(text, self.extractor.limits, "text")
        except DataError:
            return ""

    def _vectors(self, rows: Sequence[tuple[str, ...]]) -> dict[str, Tensor]:
        """The vectors of different texts under every reading."""
        if not rows:
            widths = widths_of(self.resolved.values(), self.backbone)
            return {name: Tensor(0, width) for name, width in widths.items()}
        joint = {name: one for name, one in self.resolved.items() if not one.pair}
        siamese = {name: one for name, one in self.resolved.items() if one.pair}
        firsts, *seconds = (list(part) for part in zip(*rows, strict=True))
        found = self._read(joint, firsts, seconds[0] if seconds else []) if joint else {}
        if siamese:
            sides = {one.side.reading: one.side for one in siamese.values()}
            both = self._read(sides, [*firsts, *seconds[0]], [])
            for name, one in siamese.items():
                found[name] = one.joined(*both[one.side.reading].chunk(2))
        return found

    def _read(
        self, resolved: dict[str, ResolvedRecipe], texts: Sequence[str], pairs: Sequence[str]
    ) -> dict[str, Tensor]:
        found = dict[str, Tensor]()
        for prompted, own in by_prompt(list(resolved.values()), self.backbone):
            readers = {one.reading: Featurizer(one, prompted) for one in own}
            group = Group(
                rows=list(zip(texts, pairs or [""] * len(texts), strict=True)), precision=EXACT
            )
            if self.engine is None or self.engine.backbone is not prompted:
                self.engine = engine_of(group, prompted)
            work = read_texts(texts, pairs, readers, self.engine, Pace("Reading", group.rows))
            found |= result(work).vectors
        return found

    def _column(self, vectors: Tensor, index: np.ndarray, there: np.ndarray) -> pyarrow.Array:
        """Vectors (u, w) of all rows, null where a row has no text."""
        import pyarrow as pa

        matrix = vectors.numpy().astype(self.extractor.dtype, copy=False)
        rows = (
            matrix[index] if len(matrix) else np.zeros((len(index), matrix.shape[1]), matrix.dtype)
        )
        mask = pa.array(~there) if not there.all() else None
        return pa.FixedSizeListArray.from_arrays(
            pa.array(rows.reshape(-1)), matrix.shape[1], mask=mask
        )


def widths_of(recipes: Iterable[ResolvedRecipe], backbone: Backbone) -> dict[str, int]:
    """How many numbers a vector has under each reading."""
    return {
        recipe.reading: recipe.widened(
            Featurizer(recipe.side if recipe.pair else recipe, backbone).width
        )
        for recipe in recipes
    }


def _hash(row: tuple[str, ...]) -> int:
    """The same number for the same texts, by which copies of a text stay in one split."""
    key = "\0".join(map(normalize_text, row))
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
