"""What a server writes while it runs: JSON lines on stderr, without a word that a visitor sent.

An event says when, how bad, who tells it, and of an error its type and where it was, as
``module:function:line``. It never holds the message of an error, an argument of a log call or a
text that a library prints: all of these may quote what somebody typed. The same event is
written a few times a minute and then counted. So nobody can make the log grow, forge a line of it,
or have texts kept in it.
"""

import atexit
import contextlib
import io
import json
import logging
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from heads.settings import is_debugging

MOST = 2_000  # characters of a line
MOST_EACH, WINDOW = 5, 60.0  # the same event so often, in so many seconds
FRAMES, PART = 12, 90  # the innermost places of an error, and characters of one
CAUSES = 3
OURS = "heads"
# What stands between a print and whoever printed.
BETWEEN = ("logging", "traceback", "warnings", "contextlib", __name__)
Event = dict[str, Any]
log = logging.getLogger(OURS)


@dataclass(slots=True)
class Seen:
    """An event that has been written of late."""

    event: Event
    since: float
    written: int = 0  # how often it was
    left_out: int = 0  # and how often it was not


@dataclass(kw_only=True, eq=False)
class Journal:
    """Write events, each on one line and none without end."""

    stream: TextIO
    _seen: dict[str, Seen] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _timer: threading.Timer | None = None

    def write(self, event: Event) -> bool:
        """Write an event, or count one that repeats; return whether it was written."""
        key = json.dumps({name: event[name] for name in event if name not in ("time", "code")})
        with self._lock:
            self._settle(time.monotonic() - WINDOW)
            seen = self._seen.setdefault(key, Seen(event, time.monotonic()))
            if seen.written < MOST_EACH:
                seen.written += 1
                self._write(event)
                return True
            seen.left_out += 1
            if self._timer is None:  # the count is written also when nothing else happens
                self._timer = threading.Timer(WINDOW, self.flush)
                self._timer.daemon = True
                self._timer.start()
            return False

    def flush(self) -> None:
        """Write how often events were left out."""
        with self._lock:
            self._timer = None
            self._settle(time.monotonic())

    def _settle(self, before: float) -> None:
        for key in [key for key, seen in self._seen.items() if seen.since <= before]:
            seen = self._seen.pop(key)
            if seen.left_out:
                own = {name: value for name, value in seen.event.items() if name != "code"}
                self._write({**own, "time": _now(), "repeated": seen.left_out})

    def _write(self, event: Event) -> None:
        with contextlib.suppress(OSError, ValueError):  # a log that cannot be written is none
            self.stream.write(encode_line(event) + "\n")
            self.stream.flush()


def encode_line(event: Event) -> str:
    """Return an event as JSON of at most `MOST` characters, all of them ASCII.

    >>> encode_line({"level": "ERROR", "code": "AB12"})
    '{"level": "ERROR", "code": "AB12"}'
    """
    event = {name: one[:MOST] if isinstance(one, str) else one for name, one in event.items()}
    while len(written := json.dumps(event)) > MOST:
        name = max(event, key=lambda name: len(json.dumps(event[name])))
        value = event[name]
        event[name] = value[: len(value) * 2 // 3] if isinstance(value, str | list) else None
    return written


def describe_error(error: BaseException) -> Event:
    """Return types and places of an error and of its causes; nothing of what they say."""
    event = _describe(error, FRAMES)
    if causes := [_describe(cause, 3) for cause in _iter_causes(error)]:
        event["causes"] = causes
    return event


def _describe(error: BaseException, most: int) -> Event:
    name = f"{type(error).__module__}.{type(error).__name__}".removeprefix("builtins.")
    places = [_place(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return {"type": name, "where": places[-most:]}


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(CAUSES):
        inner = getattr(error, "exceptions", None)  # those of a group
        context = None if error.__suppress_context__ else error.__context__
        cause = inner[0] if isinstance(inner, tuple) and inner else error.__cause__ or context
        if cause is None:
            return
        yield cause
        error = cause


def _place(frame: FrameType, number: int) -> str:
    return f"{_module(frame)}:{frame.f_code.co_name}:{number}"[-PART:]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Lines(logging.Handler):
    """Pass on what is logged, but for what may quote a visitor.

    Messages of ours stand in the code, so they are kept; others build theirs of anything.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self.journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as an event."""
        is_ours = record.name.partition(".")[0] == OURS
        event: Event = {"time": _now(), "level": record.levelname, "logger": record.name}
        event["event"] = str(record.msg) if is_ours else "logged"
        if code := getattr(record, "code", None):
            event["code"] = code
        event["at"] = f"{record.module}:{record.funcName}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        is_written = self.journal.write(event | describe_error(error) if error else event)
        if error and is_written and is_debugging():
            traceback.print_exception(error, file=self.journal.stream)


class Printed(io.TextIOBase):
    """Stand in the place of stdout or stderr, and log who prints something, not what."""

    def __init__(self, stream: TextIO, journal: Journal) -> None:
        self._stream, self._journal = stream, journal

    def write(self, text: str, /) -> int:
        """Take a text, and keep nothing of it."""
        if text.strip():
            frame = sys._getframe(1)
            while _module(frame) in BETWEEN and frame.f_back:
                frame = frame.f_back
            event: Event = {"time": _now(), "level": "INFO", "logger": "print"}
            self._journal.write(event | {"event": "printed", "at": _place(frame, frame.f_lineno)})
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the stream's, for libraries that write past Python and for new processes."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The stream's encoding."""
        return self._stream.encoding


def begin(*, prints: bool = True) -> contextlib.ExitStack:
    """Let this process write JSON lines on stderr, until what is returned is closed.

    Args:
        prints: Whether stdout is watched as well; not where it is what another process reads.
    """
    journal, root, end = Journal(stream=sys.stderr), logging.getLogger(), contextlib.ExitStack()
    end.callback(journal.flush)
    atexit.register(journal.flush)

    def put(place: Any, name: str, value: Any) -> None:
        end.callback(setattr, place, name, getattr(place, name))
        setattr(place, name, value)

    def warn(
        message: Any, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
    ) -> None:
        at = f"{Path(filename).stem}:{lineno}"
        event: Event = {"time": _now(), "level": "WARNING", "logger": "warnings"}
        journal.write(event | {"event": "warned", "type": category.__name__, "at": at})

    put(root, "handlers", [Lines(journal)])
    put(sys, "stderr", Printed(sys.stderr, journal))
    if prints:
        put(sys, "stdout", Printed(sys.stdout, journal))
    put(warnings, "showwarning", warn)
    put(sys, "excepthook", lambda kind, error, at: _log_uncaught(error))
    put(threading, "excepthook", lambda told: _log_uncaught(told.exc_value))
    put(sys, "unraisablehook", lambda told: _log_uncaught(told.exc_value))
    return end


def _log_uncaught(error: BaseException | None) -> None:
    if error is not None and not isinstance(error, KeyboardInterrupt):
        log.error("an error escaped", exc_info=error)
