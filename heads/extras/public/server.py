"""What surrounds the process of a server: its log, and a check of what its owner has set."""

from heads.extras.public import logs
from heads.extras.public.settings import check_network, server_summary


class ProtectedServer:
    """Context in which the process writes a private log.

    It is no generator, which Python would end as the process ends: threads may write then still.

    Args:
        is_worker: The process was started by a server, which reads what it prints.
    """

    def __init__(self, *, is_worker: bool = False) -> None:
        self._is_worker = is_worker

    def __enter__(self) -> list[str]:
        """Begin the log; return the lines for who starts the server, or raise LimitError."""
        self._log = logs.begin(prints=not self._is_worker)
        try:
            check_network()
        except Exception:
            self._log.close()
            raise
        return [] if self._is_worker else server_summary()

    def __exit__(self, *error: object) -> None:
        """End the log."""
        self._log.close()
