"""What surrounds the process of a server: its log, and a check of what its owner has set."""

import contextlib
from collections.abc import Iterator

from heads.extras.public import logs
from heads.extras.public.settings import check_network, server_summary


@contextlib.contextmanager
def protect_server(*, is_worker: bool = False) -> Iterator[list[str]]:
    """Write a private log within it; yields the lines that whoever starts the server reads.

    Args:
        is_worker: The process was started by a server, which reads what it prints.

    Raises:
        LimitError: A variable holds what could never work.
    """
    with logs.begin(prints=not is_worker):
        check_network()
        yield [] if is_worker else server_summary()
