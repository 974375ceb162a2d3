"""Features of any number of texts: a base model encodes piece after piece."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from heads.backbone.backbone import Backbone
from heads.backbone.device import EXACT
from heads.backbone.engine import InferenceEngine, backends
from heads.caching import own_code
from heads.data.columns import guess
from heads.data.corpus import check_text
from heads.data.frames import read_frame
from heads.data.table import Columns
from heads.data.text import normalize_text
from heads.errors import DataError, RecipeError
from heads.events import result
from heads.extras.scale.pieces import NOTES, Piece, Source, number_rows
from heads.extras.scale.shards import TEXT_HASH
from heads.features.extraction import Group, Pace, by_prompt, engine_of, read_by, read_texts
from heads.features.featurizer import Featurizer
from heads.parts.resolve import resolve
from heads.parts.resolved_recipe import ResolvedRecipe

if TYPE_CHECKING:
    import pyarrow

SAMPLED = 1_000  # rows in which the columns of the texts are found


def resolve_reading(reading: str, backbone: Backbone) -> ResolvedRecipe:
    """Return a recipe with the reading, which must be one that is not learned."""
    recipe = resolve(reading if "+" in reading else f"{reading}+linear")
    if recipe.needs_states or recipe.is_tuned:
        what = f"{reading} is learned together with its head, so its features cannot be kept."
        raise RecipeError(what, "Choose another reading, for example mean or cls.")
    Featurizer(_side_of(recipe), backbone)
    return recipe


def _side_of(recipe: ResolvedRecipe) -> ResolvedRecipe:
    """Return the recipe of one text, where the two of a pair are encoded separately."""
    return recipe.side if recipe.pair else recipe


def find_columns(source: Source, text: str, pair: str) -> tuple[str, str]:
    """Return the columns of the texts, detected where they are not named."""
    if not text:
        columns = _guess_columns(source)
        text, pair = columns.text, pair or columns.pair
    source.check_column(text, "texts")
    if pair:
        source.check_column(pair, "second texts")
    if pair == text:
        raise DataError("The same column is chosen twice.", "Choose one for each of text and pair.")
    return text, pair


def _guess_columns(source: Source) -> Columns:
    from pyarrow import types

    strings = [
        column.name
        for column in source.schema
        if types.is_string(column.type) or types.is_large_string(column.type)
    ]
    if len(strings) == 1:
        return Columns(text=strings[0], label="")
    try:
        return guess(read_frame(source.pieces(SAMPLED)[0].read()))
    except DataError as error:
        if "text" in strings:
            return Columns(text="text", label="")
        what = f"It cannot be told which column of {source.name} holds the texts ({error.what})."
        raise DataError(what, "Name it (--text).") from None


@dataclass(slots=True, kw_only=True, eq=False)
class Encoder:
    """Turns tables of texts into tables of their other columns and vectors."""

    backbone: Backbone
    recipes: tuple[str, ...]  # their readings are computed; their heads do not matter
    text: str  # the column of the texts
    pair: str  # the column of the second texts, or ""
    dtype: str  # the type of the saved numbers
    resolved: dict[str, ResolvedRecipe] = field(init=False)  # by reading
    engine: InferenceEngine | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.resolved = {recipe.reading: recipe for recipe in map(resolve, self.recipes)}

    def facts(self) -> dict[str, Any]:
        """Return all that features depend on besides the texts, as plain values."""
        backbone = self.backbone
        way = backends(backbone, EXACT)[0]
        code = *read_by(backbone, way, bool(self.pair)), own_code("data/corpus", "data/text")
        digest = hashlib.sha256(json.dumps(code, default=str).encode()).hexdigest()
        return {
            "model": backbone.id,
            "revision": backbone.revision,
            "readings": self._widths(),
            "text": self.text,
            "pair": self.pair,
            "dtype": self.dtype,
            "tokens": backbone.tokens,
            "code": digest[:16],
        }

    def _widths(self) -> dict[str, int]:
        return {
            reading: recipe.widened(Featurizer(_side_of(recipe), self.backbone).width)
            for reading, recipe in self.resolved.items()
        }

    def __call__(self, table: pyarrow.Table, piece: Piece) -> pyarrow.Table:
        import pyarrow as pa

        columns = [*filter(None, (self.text, self.pair))]
        texts = [[_clean(cell) for cell in table.column(name).to_pylist()] for name in columns]
        rows = list(zip(*texts, strict=True))
        has_text = np.array([all(row) for row in rows])
        different = list(dict.fromkeys(row for row in rows if all(row)))
        number = {row: place for place, row in enumerate(different)}
        index = np.array([number.get(row, 0) for row in rows])
        output = number_rows(table, piece).drop_columns(columns)
        hashes = np.array([hash_texts(row) for row in rows], dtype=np.uint64)
        output = output.append_column(TEXT_HASH, pa.array(hashes))
        for reading, vectors in self._encode(different).items():
            if reading in output.column_names:
                what = f"The rows have a column {reading}, as the features are called."
                raise DataError(what, "Give that column another name.")
            output = output.append_column(reading, self._column(vectors, index, has_text))
        notes = json.dumps({"texts": len(different), "missing": int((~has_text).sum())})
        return output.replace_schema_metadata({NOTES: notes.encode()})

    def _encode(self, rows: Sequence[tuple[str, ...]]) -> dict[str, Tensor]:
        if not rows:
            return {name: Tensor(0, width) for name, width in self._widths().items()}
        firsts, *seconds = (list(part) for part in zip(*rows, strict=True))
        joint = [recipe for recipe in self.resolved.values() if not recipe.pair]
        vectors = self._read(joint, firsts, seconds[0] if seconds else []) if joint else {}
        siamese = {name: recipe for name, recipe in self.resolved.items() if recipe.pair}
        if siamese:
            sides = {recipe.side.reading: recipe.side for recipe in siamese.values()}
            both = self._read(list(sides.values()), [*firsts, *seconds[0]], [])
            for name, recipe in siamese.items():
                vectors[name] = recipe.joined(*both[recipe.side.reading].chunk(2))
        return vectors

    def _read(
        self, recipes: list[ResolvedRecipe], texts: Sequence[str], pairs: Sequence[str]
    ) -> dict[str, Tensor]:
        vectors = dict[str, Tensor]()
        rows = list(zip(texts, pairs or [""] * len(texts), strict=True))
        for backbone, own in by_prompt(recipes, self.backbone):
            featurizers = {recipe.reading: Featurizer(recipe, backbone) for recipe in own}
            if self.engine is None or self.engine.backbone is not backbone:
                self.engine = engine_of(Group(rows=rows, precision=EXACT), backbone)
            work = read_texts(texts, pairs, featurizers, self.engine, Pace("Reading", rows))
            vectors |= result(work).vectors
        return vectors

    def _column(self, vectors: Tensor, index: np.ndarray, has_text: np.ndarray) -> pyarrow.Array:
        """Return the vectors (u, w) of all rows as a column, null where a row has no text."""
        import pyarrow as pa

        matrix = vectors.numpy().astype(self.dtype, copy=False)
        width = matrix.shape[1]
        rows = matrix[index] if len(matrix) else np.zeros((len(index), width), matrix.dtype)
        mask = None if has_text.all() else pa.array(~has_text)
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), width, mask=mask)


def _clean(cell: object) -> str:
    """Return the text of a cell; "" where it has none that is allowed."""
    try:
        return check_text("" if cell is None else str(cell), "text")
    except DataError:
        return ""


def hash_texts(row: tuple[str, ...]) -> int:
    """Return a number for the texts of a row, by which copies stay in one subset."""
    key = "\0".join(map(normalize_text, row))
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
