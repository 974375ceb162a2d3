"""The flags of `heads train` that are made from what settings say of themselves."""

import argparse
from dataclasses import fields

from heads.settings import Contest

PAIRS = "how two texts enter: joint, siamese, features or a pairing by name, parted by commas"
LOSSES = "what one class a row is learned by: softmax, ovr, ordinal, hinge, parted by commas"


def add_way(parser: argparse.ArgumentParser) -> None:
    """A flag for the one way in of two sentences."""
    says = "how two sentences enter: joint, siamese or a pairing by name (joint)"
    parser.add_argument("--pairs", default="joint", metavar="WAY", help=says)


def add_ways(parser: argparse.ArgumentParser) -> None:
    """Flags for the ways in and the losses, each of which gives cells of its own."""
    parser.add_argument("--pairs", default="", metavar="WAYS", help=PAIRS)
    parser.add_argument("--loss", default="", metavar="LOSSES", help=LOSSES)


def contest_of(asked: argparse.Namespace) -> Contest:
    """The settings as flags said them; checked against their ranges."""
    values = {one.name: getattr(asked, one.name) for one in fields(Contest)}
    return Contest(**{name: value for name, value in values.items() if value is not None})


def add_contest(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting of a contest, with its sentence and its range."""
    for one in fields(Contest):
        flag, says = f"--{one.name.replace('_', '-')}", one.metadata["says"]
        if isinstance(one.default, bool):
            parser.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=None, help=says
            )
            continue
        if among := one.metadata.get("among"):
            parser.add_argument(flag, choices=among, help=f"{says} ({one.default})")
            continue
        kind = type(one.default)  # the range is checked by the contest itself
        metavar = "N" if kind is int else "X"
        parser.add_argument(flag, type=kind, metavar=metavar, help=f"{says} ({one.default})")
