"""Files that commands are given: read as the flags say, and shown by `heads read`."""

import argparse
from typing import Any

from heads.interfaces.verbs import print_json
from heads.settings import limits

HEADERS = {"yes": True, "no": False, "guess": None}


def look(asked: argparse.Namespace) -> None:
    """Shows how a file is read: columns, rows used and left out, classes, warnings."""
    found = read(asked, asked.data)
    if asked.json:
        print_json(found.as_json())
    else:
        from heads.interfaces import terminal_grid

        terminal_grid.data(found)


def read(asked: argparse.Namespace, name: str) -> Any:
    """A sample or a file, its columns as the user named them."""
    from heads.backbone.loading import load
    from heads.data import columns as guess
    from heads.data.dataset import data_of, name_of
    from heads.data.files import open_table, place_of
    from heads.features.truncation import with_token_findings

    path = place_of(name)
    table = open_table(path, limits(), HEADERS[asked.header])
    said = _said(asked)
    columns = guess(table, said) if said else None
    found = data_of(table, limits(), columns, name=name_of(path))
    return with_token_findings(found, load(asked.model, limits=limits()))


def read_test(asked: argparse.Namespace, data: Any) -> Any:
    """The rows that are scored; their columns are those of the data, where they are called so."""
    from heads.api import fitting
    from heads.data.dataset import data_of, name_of
    from heads.data.files import open_table, place_of

    path = place_of(asked.test)
    table = open_table(path, limits(), HEADERS[asked.header])
    return data_of(table, limits(), fitting(data.columns, table), name=name_of(path))


def _said(asked: argparse.Namespace) -> Any:
    """What the flags say of the columns."""
    from heads.data.table import ColumnHints, listed

    return ColumnHints(
        text=asked.text,
        label=asked.label,
        pair=asked.pair,
        split=asked.split,
        separator={"": None, "none": ""}.get(asked.separator, asked.separator),
        labels=listed(asked.labels),
        number=asked.number,
        order=listed(asked.order),
        group=asked.group,
    )
