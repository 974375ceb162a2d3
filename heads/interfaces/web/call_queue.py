"""Gradio's queue, with an end to what it keeps of calls, and a count of whose they are."""

import asyncio
import time
from collections import Counter
from typing import Any

from gradio import queueing

from heads.interfaces.web.visitors import NAME, Visitors, address_of

NO_NAME = "The name of a session (session_hash) has at most 64 letters, digits, - and _."
UNREAD = 60.0  # seconds for which an answer waits for its reader
HEARTBEAT = "queue_data_helper.<locals>.heartbeat"  # Gradio's task beside each stream


class CallQueue(queueing.Queue):
    """The queue of a page.

    Gradio forgets a call once its answer was read. Whoever reads none, under ever new names of
    sessions, would fill the memory with answers.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._address: dict[str, str] = {}  # of each session
        self._unread: dict[str, float] = {}  # since when nothing of a session runs or is read

    async def push(self, body: Any, request: Any, username: Any) -> Any:
        """As in Gradio; not in a session whose name is none."""
        session = body.session_hash
        if session is not None and not NAME.fullmatch(session):
            return False, NO_NAME, "error"
        found = await super().push(body, request, username)
        if body.session_hash in self.pending_event_ids_session:
            self._address[body.session_hash] = address_of(request.client)
        return found

    def under_way(self) -> "Counter[str]":
        """How many calls of each address wait, run, or have an answer that nobody has read."""
        events = list(self.event_ids_to_events.values())
        found = Counter(address_of(event.request.client) for event in events)
        running = {event._id for event in events}
        for session, ids in self.pending_event_ids_session.items():
            found[self._address.get(session, "")] += len(ids - running)
        return found

    def forget(self, visitors: Visitors) -> None:
        """Forgets sessions of which for a while nothing has run, and nobody has read anything."""
        now, before, self._unread = time.monotonic(), self._unread, {}
        running = {event.session_hash for event in self.event_ids_to_events.values()}
        for session, ids in list(self.pending_event_ids_session.items()):
            if session in running or visitors.is_read(session, *ids):
                continue
            self._unread[session] = since = before.get(session, now)
            if now - since >= UNREAD:
                self.pending_event_ids_session.pop(session, None)
                self.pending_messages_per_session.pop(session, None)
                del self._unread[session]
        # Gradio forgets sessions by itself too.
        pending = self.pending_event_ids_session
        self._address = {name: kept for name, kept in self._address.items() if name in pending}
        if self.server_app is not None:
            self.server_app.iterators_to_reset &= set(self.event_ids_to_events)

    def end_heartbeats(self, visitors: Visitors) -> None:
        """Ends heartbeats of streams that are closed, which Gradio leaves running.

        They all beat for whoever reads a session, so it is the same which of them go on.
        """
        found = Counter[str]()
        for task in asyncio.all_tasks():
            work: Any = task.get_coro()
            if not getattr(work, "__qualname__", "").endswith(HEARTBEAT) or not work.cr_frame:
                continue
            session = work.cr_frame.f_locals.get("session_hash", "")
            found[session] += 1
            names = {session, *self.pending_event_ids_session.get(session, ())}
            if found[session] > sum(map(visitors.readers, names)):
                task.cancel()
