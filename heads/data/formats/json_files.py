"""JSON, one object a line or a list of objects, to a `Table`.

The standard library's parser is asked for one object at a time, so that each knows its line:
pandas names none in hostile/f11_jsonl_bad_line.jsonl and keeps the last of two fields of one name
in silence, pyarrow reads no list (hostile/f05_json_in_csv.csv) and no numbers beside texts, and
both make 1.5 of 1.50.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from heads.data.formats.delimited import TextSource
from heads.data.formats.table_stream import Row, Sampler, TableStream, split_blocks
from heads.data.table import Table, check_size, short
from heads.data.text import SURROGATES
from heads.errors import DataError

_SHAPE = 'Each line must be one object such as {"text": "fine", "label": "good"}.'
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_END = re.compile(r"\r\n|\r|\n")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, if it names no field twice: the parser would keep the last in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it names a field twice")
    return found


# Numbers stay as they are written, so that 1.0, 007 and 1e999 are no other numbers.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=str, parse_int=str, parse_constant=str
)


def is_json(text: str, ending: str) -> bool:
    """Return True if a text is JSON, by the file's ending or by how it begins."""
    if ending in (".json", ".jsonl", ".ndjson"):
        return True
    return bool(re.match(r'\s*(?:\[\s*\{\s*"|\{\s*")', text))


def read_objects(source: TextSource, name: str) -> Table:
    """Read JSON objects as rows, empty where one lacks a field; raise DataError with the line."""
    return _scan(_objects(source, name), name, is_whole=True)[0]


def stream_objects(source: TextSource, name: str) -> TableStream:
    """Look through JSON objects, one a line, or in a list whose text is held in memory."""
    objects = _objects(source, name)
    table, rows = _scan(objects, name, is_whole=False)
    return TableStream(
        name=name, form="json", columns=table.columns, titles=table.columns, rows=rows,
        sample=table, blocks=lambda most: split_blocks(_rows(objects, table.columns), most),
        notes=table.notes,
    )  # fmt: skip


def _objects(source: TextSource, name: str) -> "Callable[[], Iterator[Object]]":
    if not source.head.lstrip().startswith("["):
        return lambda: _in_lines(source.lines(), name)
    whole = "".join(source.lines())
    return lambda: _in_list(whole, name)


def _scan(
    objects: "Callable[[], Iterator[Object]]", name: str, *, is_whole: bool
) -> tuple[Table, int]:
    """Read all objects once; return those of them as a table, or a sample, and how many."""
    fields, rows, lines = _Fields(), list[list[str]](), list[int]()
    drawn = Sampler()
    seen = 0
    for line, thing, _ in objects():
        fields.add(line, thing)
        seen += 1
        if is_whole:
            rows.append([_cell(thing.get(key)) for key in fields.places])
            lines.append(line)
        else:
            drawn.add(line, thing)
        check_size(name, rows=seen, columns=len(fields.places))
    if not seen:
        raise DataError(f"{name} has no data rows.", _SHAPE)
    for line, thing in drawn.drawn():
        rows.append([_cell(thing.get(key)) for key in fields.places])
        lines.append(line)
    for row in rows:
        row.extend([""] * (len(fields.places) - len(row)))
    table = Table(
        name=name, columns=tuple(fields.places), rows=rows, lines=lines, nested=fields.nested,
        lists=frozenset(fields.nested) - fields.mixed, notes=("Read as JSON.",),
    )  # fmt: skip
    return table, seen


@dataclass(kw_only=True, slots=True)
class _Fields:
    """Places of fields, first lines of nested ones, and those that hold more than plain lists."""

    places: dict[str, int] = field(default_factory=dict)
    nested: dict[str, int] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)

    def add(self, line: int, thing: Mapping[str, Any]) -> None:
        """Note the fields of one more object."""
        for key, value in thing.items():
            self.places.setdefault(key, len(self.places))
            if isinstance(value, (list, dict)):
                self.nested.setdefault(key, line)
            if value is not None and not is_plain_list(value):
                self.mixed.add(key)


def _cell(value: Any) -> str:
    """Return a value as a cell: as it is written; nothing for null."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_plain_list(value):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[…]"
    return "" if value is None else "{…}"


def is_plain_list(value: Any) -> bool:
    """Return True if a value is a list of texts, numbers and the like, and no list of lists."""
    return isinstance(value, list) and all(isinstance(one, str | int | float) for one in value)


Object = tuple[int, dict[str, Any], str]  # its line, its fields, and itself as it is written


def _in_lines(lines: Iterable[str], name: str) -> Iterator[Object]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            begin = _skip(line, 0)
            thing, end = _decoded(line, begin, number, name)
            if line[end:].strip():
                raise _bad(name, number, "more follows after the object")
            yield number, _object(thing, number, name), line[begin:end]


def _in_list(text: str, name: str) -> Iterator[Object]:
    """Yield the members of a list, one at a time, so that each knows its line."""
    place = text.index("[") + 1
    line, counted = 1, 0
    separator = ""
    while True:
        place = _skip(text, place)
        line, counted = line + len(_LINE_END.findall(text, counted, place)), place
        if text[place : place + 1] == "]" and separator != ",":
            break
        begin = place
        thing, place = _decoded(text, place, line, name)
        yield line, _object(thing, line, name), text[begin:place]
        place = _skip(text, place)
        separator = text[place : place + 1]
        if separator not in ("]", ","):
            raise _bad(name, line, "the list is not closed")
        place += separator == ","
    if text[place + 1 :].strip():
        raise _bad(name, line, "more follows after the list")


def _object(thing: Any, line: int, name: str) -> dict[str, Any]:
    if not isinstance(thing, dict):
        raise DataError(f"Line {line} of {name} is not a JSON object.", _SHAPE, line=line)
    return thing


def _skip(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def _decoded(text: str, place: int, line: int, name: str) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, place)
        may_have_surrogates = "\\ud" in text[place:end].lower()  # most texts have no such escape
        return _without_surrogates(value) if may_have_surrogates else value, end
    except json.JSONDecodeError as error:
        raise _bad(name, line, error.msg[:1].lower() + error.msg[1:]) from None
    except RecursionError:
        raise _bad(name, line, "lists or objects within each other too often") from None
    except ValueError as error:
        raise _bad(name, line, short(f"{error}", 80)) from None


def _without_surrogates(value: Any) -> Any:
    """Return decoded JSON without lone surrogates, which JSON can escape and UTF-8 cannot hold."""
    text = SURROGATES.sub("", json.dumps(value, ensure_ascii=False))
    return json.loads(text, object_pairs_hook=_once)


def _bad(name: str, line: int, why: str) -> DataError:
    return DataError(f"Line {line} of {name} is not right as JSON: {why}.", _SHAPE, line=line)


def _rows(objects: Callable[[], Iterator[Object]], columns: Sequence[str]) -> Iterator[Row]:
    for line, thing, own in objects():
        cells = [_cell(thing.get(key)) for key in columns]
        inner = [at for at, key in enumerate(columns) if isinstance(thing.get(key), list | dict)]
        if inner:
            with suppress(RecursionError):  # of thousands of lists within each other
                plain = _without_surrogates(json.loads(own))  # in which numbers are numbers
                for at in inner:
                    cells[at] = json.dumps(plain[columns[at]], ensure_ascii=False)
        yield Row(line=line, cells=cells, own=own)
