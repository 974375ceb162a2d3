"""What strangers may do to this server, and what its owner says of the network around it."""

import ipaddress
import re
from dataclasses import dataclass

from heads.settings import (
    current_limits,
    is_set,
    is_space,
    listed,
    misset,
    server_hosts,
    storage_asked,
    storage_folder,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much may lie in a folder, and for how long."""

    bytes: int
    entries: int  # the number of files, or of folders that are one thing
    seconds: float  # the age at which an unused entry is deleted
    spared: float  # seconds since its last use in which an entry is never deleted


# An upload is refused with fewer bytes than that free on the disk.
FREE_BYTES = 2_000_000_000
# By name of the folder: uploads that nobody has read yet (`served`), and of those that broke off
# (`parts`); zip files to take along (`exports`); files that were read (`uploads`); and caches.
QUOTAS = {
    "served": Quota(bytes=180_000_000, entries=1_000, seconds=10 * MINUTE, spared=20),
    "parts": Quota(bytes=180_000_000, entries=1_000, seconds=40, spared=40),
    "exports": Quota(bytes=1_000_000_000, entries=100, seconds=15 * MINUTE, spared=5 * MINUTE),
    "uploads": Quota(bytes=1_000_000_000, entries=1_000, seconds=6 * HOUR, spared=10 * MINUTE),
    "runs": Quota(bytes=2_000_000_000, entries=300, seconds=DAY, spared=HOUR),
    "features": Quota(bytes=2_000_000_000, entries=20_000, seconds=DAY, spared=10 * MINUTE),
    "states": Quota(bytes=2_000_000_000, entries=2_000, seconds=DAY, spared=10 * MINUTE),
    "heads": Quota(bytes=2_000_000_000, entries=5_000, seconds=30 * DAY, spared=10 * MINUTE),
    "words": Quota(bytes=200_000_000, entries=5_000, seconds=DAY, spared=10 * MINUTE),
    "twins": Quota(bytes=2_000_000_000, entries=50, seconds=7 * DAY, spared=HOUR),
    "models": Quota(bytes=6_000_000_000, entries=100, seconds=30 * DAY, spared=10 * MINUTE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How much may be under way at a time."""

    calls: int = 400  # that wait, run or are unread, of everybody
    calls_each: int = 48  # the same, of one address
    streams_each: int = 300  # connections of one address
    uploads_each: int = 4  # of one address
    files: int = 1  # in one upload


TRAFFIC = Traffic()
# The networks of a Space's own proxies, from which alone it can be reached.
PRIVATE: str = "10.0.0.0/8,100.64.0.0/10,127.0.0.1,172.16.0.0/12,192.168.0.0/16,::1,fd00::/8"
FRAME = re.compile(r"(https?://)?(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:(\d{1,5}|\*))?")


def frame_hosts() -> tuple[str, ...]:
    """Return the pages that may frame this one: $HEADS_FRAMES, and on a Space the Hub's."""
    return (*(("https://huggingface.co",) if is_space() else ()), *listed("HEADS_FRAMES"))


def proxies() -> list[str]:
    """Return the addresses and networks of proxies that this server may believe: $HEADS_PROXIES."""
    is_private = is_space() and not is_set("HEADS_PROXIES")
    return PRIVATE.split(",") if is_private else listed("HEADS_PROXIES")


def check_network() -> None:
    """Raise LimitError if $HEADS_PROXIES or $HEADS_FRAMES hold what could never work."""
    for network in proxies() if proxies() != ["*"] else ():  # beside others it is taken for a name
        try:
            ipaddress.ip_network(network)  # as Uvicorn reads it: 10.0.0.1/8 is none
        except ValueError:
            hint = "Write it as in 127.0.0.1 or 10.0.0.0/8; * stands alone."
            raise misset("HEADS_PROXIES", network, "an address or a network", hint) from None
    for page in listed("HEADS_FRAMES"):
        if not FRAME.fullmatch(page):
            hint = "Write it as in https://slides.example.org."
            raise misset("HEADS_FRAMES", page, "a page that may show this one", hint)


def server_summary() -> list[str]:
    """Return what holds for a public server, a line each, for who starts it."""
    if not current_limits().public:
        return []
    here, asked = storage_folder(), storage_asked()
    lost = f" ({asked} takes no file)" if asked and not here else ""
    names, frames = ", ".join(sorted(server_hosts())), ", ".join(frame_hosts())
    return [
        "Public mode: limits for strangers, no folders of this machine.",
        f"  answers to      {names or 'any name (HEADS_HOSTS names those alone)'}",
        f"  behind proxies  {', '.join(proxies()) or 'none (HEADS_PROXIES)'}",
        f"  framed by       {frames or 'nobody else (HEADS_FRAMES)'}",
        f"  storage         {here or f'none that outlasts a restart{lost} (HEADS_STORAGE)'}",
    ]
